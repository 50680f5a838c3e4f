"""Logs for the scale run: links to segments that are there already, and one partition with very many transactions."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmarks import segments
from benchmarks.segments import FOLDER
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, CONTROL_KEY, END_TXN_MARKER, OFFSET_INDEX_ENTRY, RECORD
from lab.progress import say

PRODUCERS = 100
"""How many take turns in the partition with very many transactions."""
_FOLDER = FOLDER / "scale"
_HEADER = fixed_layout(BATCH_HEADER)
_TIMESTAMP = 1_760_000_000_000
_TIMES = ("base_timestamp", "max_timestamp")
_STEP_MS = 25
_TRANSACTIONAL, _CONTROL = 1 << 4, 1 << 5
_COMMIT = 1
_BYTE = 256
_RECORD = {"attributes": 0, "timestamp_delta": 0, "offset_delta": 0, "key": None, "value": b"", "header_count": 0}
_PLAIN = 16_000
# Of one file; file systems have no room for many more.
_LINKS = 50_000

Bytes = npt.NDArray[np.uint8]


@contextmanager
def folder(name: str) -> Iterator[Path]:
    """An empty folder, removed at the end."""
    path = _FOLDER / name
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextmanager
def copies(kinds: Sequence[str], megabytes: int, count: int) -> Iterator[Path]:
    """A log directory of so many partitions, each a link to one of these segments.

    Args:
        kinds: of segments, which take turns.
        megabytes: of each.
        count: partitions.

    Raises:
        LabError: a segment could not be written.
    """
    made = [segments.segment(kind, megabytes) for kind in kinds]
    with folder(f"copies-{count}") as path:
        for number in range(count):
            link(made[number % len(made)].folder, path / f"copied-{number}")
        yield path


def link(partition: Path, to: Path) -> None:
    """Give the files of a partition another folder, without another byte on disk."""
    to.mkdir()
    for file in partition.glob("0*"):
        os.link(file, to / file.name)


def tiny_partitions(path: Path, count: int) -> None:
    """Make a folder a log directory of partitions of one small segment with ten transactions; nearly all are links."""
    (path / "meta.properties").write_text("version=1\nbroker.id=0\ncluster.id=made\n", "ascii")
    for start in range(0, count, _LINKS):
        first = path / f"small-{start}"
        write_transactions(first, 1, 10)
        for number in range(start + 1, min(start + _LINKS, count)):
            link(first, path / f"small-{number}")


def write_plain(path: Path, count: int, megabytes: int) -> None:
    """Write a partition of batches of 16 KiB, with indexes, so that it can be cut.

    Args:
        path: its folder, which is made.
        count: segments.
        megabytes: of each segment.
    """
    say(f"writing {count * megabytes:,} MB")
    path.mkdir()
    batch = np.frombuffer(_batch(-1, 0, -1, {**_RECORD, "value": bytes(_PLAIN)}), np.uint8)
    batches = megabytes * 1_000_000 // len(batch)
    for start in range(0, count * batches, batches):
        rows = np.tile(batch, (batches, 1))
        _put(rows, "base_offset", np.arange(start, start + batches))
        (path / f"{start:020}.log").write_bytes(rows.tobytes())
        entries = np.zeros(batches - 1, fixed_layout(OFFSET_INDEX_ENTRY).dtype)
        entries["relative_offset"] = np.arange(1, batches)
        entries["position"] = entries["relative_offset"] * len(batch)
        (path / f"{start:020}.index").write_bytes(entries.tobytes())


def write_transactions(path: Path, count: int, transactions: int) -> None:
    """Write a partition of transactions of one record each, which PRODUCERS take turns to commit.

    Args:
        path: its folder, which is made.
        count: segments.
        transactions: in each segment.
    """
    say(f"writing {count * transactions:,} transactions")
    path.mkdir()
    pairs = [(_data(producer), _marker(producer)) for producer in range(PRODUCERS)]
    rows = np.frombuffer(b"".join(data + marker for data, marker in pairs), np.uint8).reshape(PRODUCERS, -1)
    width = len(pairs[0][0])
    of_data = _differences(pairs[0][0], "base_sequence", *_TIMES)
    of_markers = _differences(pairs[0][1], *_TIMES)
    for start in range(0, count * transactions, transactions):
        numbers = np.arange(start, start + transactions)
        both = rows[numbers % PRODUCERS]
        batches, markers = both[:, :width], both[:, width:]
        times = _TIMESTAMP + _STEP_MS * numbers
        for name in _TIMES:
            _put(batches, name, times)
            _put(markers, name, times + numbers % _STEP_MS)
        _put(batches, "base_offset", 2 * numbers)
        _put(markers, "base_offset", 2 * numbers + 1)
        _put(batches, "base_sequence", numbers // PRODUCERS)
        _correct(batches, of_data)
        _correct(markers, of_markers)
        (path / f"{2 * start:020}.log").write_bytes(both.tobytes())


def _data(producer: int) -> bytes:
    return _batch(producer, _TRANSACTIONAL, 0, _RECORD)


def _marker(producer: int) -> bytes:
    key = CONTROL_KEY.build({"version": 0, "type": _COMMIT})
    value = END_TXN_MARKER.build({"version": 0, "coordinator_epoch": 0})
    return _batch(producer, _TRANSACTIONAL | _CONTROL, -1, {**_RECORD, "key": key, "value": value})


def _batch(producer: int, attributes: int, sequence: int, record: Mapping[str, object]) -> bytes:
    body = bytes(RECORD.build({**record, "length": 0}))[1:]
    body = bytes(RECORD.build({**record, "length": len(body)}))
    fields = {
        "base_offset": 0,
        "length": _HEADER.size - _HEADER.offsets["partition_leader_epoch"] + len(body),
        "partition_leader_epoch": 0,
        "magic": 2,
        "crc": 0,
        "attributes": attributes,
        "last_offset_delta": 0,
        "base_timestamp": _TIMESTAMP,
        "max_timestamp": _TIMESTAMP,
        "producer_id": producer,
        "producer_epoch": min(producer, 0),
        "base_sequence": sequence,
        "count": 1,
    }
    covered = (bytes(BATCH_HEADER.build(fields)) + body)[_HEADER.end_of("crc") :]
    return bytes(BATCH_HEADER.build({**fields, "crc": crc32c(covered)})) + body


def _differences(batch: bytes, *names: str) -> dict[int, npt.NDArray[np.uint32]]:
    """By how much each value of each byte of some fields changes the checksum, which is linear, by its position."""
    covered, before = batch[_HEADER.end_of("crc") :], _HEADER.end_of("crc")
    tables = {}
    for at in (at for name in names for at in range(_HEADER.offsets[name], _HEADER.end_of(name))):
        sums = [crc32c(covered[: at - before] + bytes([v]) + covered[at - before + 1 :]) for v in range(_BYTE)]
        tables[at] = np.array(sums, np.uint32) ^ np.uint32(crc32c(covered))
    return tables


def _correct(batches: Bytes, tables: Mapping[int, npt.NDArray[np.uint32]]) -> None:
    """Make the checksums hold for the fields that changed since they were computed."""
    start, end = _HEADER.offsets["crc"], _HEADER.end_of("crc")
    sums = batches[:, start:end].copy().view(">u4")[:, 0].astype(np.uint32)
    for at, table in tables.items():
        sums ^= table[batches[:, at]]
    batches[:, start:end] = sums.astype(">u4").view(np.uint8).reshape(-1, 4)


def _put(batches: Bytes, name: str, numbers: npt.NDArray[np.int64]) -> None:
    start, end = _HEADER.offsets[name], _HEADER.end_of(name)
    batches[:, start:end] = numbers.astype(_HEADER.dtype[name]).view(np.uint8).reshape(len(numbers), -1)
