"""Partition folders written by hand in the notation of ``batch_notation``, to test what is found in them.

``forge(tmp_path, "D 1 0 0-4 @0-4 T; M 1 0 C 3 @5")`` writes a log directory as a broker of 4.x leaves it after a clean
shutdown: ``t-0`` with its log, indexes and snapshots, and the files of the log directory. All files agree with each
other: there is nothing to report, unless the batches themselves are wrong.

* ``{0: "...", 6: "..."}`` gives segments by base offset; each one but the first has a snapshot, and so has the log end.
* ``gone `` before a batch means that it was written and no longer exists, as after compaction or deletion of the log
  start: the snapshots include it, the log does not.
  ``{100: "gone D 1 0 0-9 @90-99 T; M 1 0 A 3 @100"}`` is a log whose start was deleted.
* ``cnt`` below the number of offsets keeps the last records of a batch, as after compaction; ``cnt 0`` keeps an empty
  data batch.
* A second call with another topic or partition adds it to the same log directory; ``node_id`` is the broker.

Records have the key ``k<offset>``, the value ``v<offset>`` and the timestamp of their batch; ``records`` replaces them.
``txnindex``, ``snapshots`` and ``replaced`` write other files instead of the correct ones, or none;
``snapshot_entries`` and ``aborted_transactions`` return the correct content. ``patch``, ``drop``, ``swap`` and ``cut``
damage a log afterwards and leave the other files as they are.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import utime
from pathlib import Path
from typing import TypeVar

from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import (
    BATCH_HEADER,
    CONTROL_KEY,
    END_TXN_MARKER,
    OFFSET_INDEX_ENTRY,
    PRODUCER_SNAPSHOT_ENTRY,
    PRODUCER_SNAPSHOT_HEADER,
    TIME_INDEX_ENTRY,
    TRANSACTION_INDEX_ENTRY,
)
from kforensics.parsers.format.rows import (
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Header,
)
from tests.forensics.batch_notation import NOW
from tests.forensics.forged_state import (
    Aborted,
    Event,
    Segments,
    SnapshotEntry,
    aborted_transactions,
    by_segment,
    every,
    log_end_offset,
    read,
    snapshot_entries,
)
from tests.parsers.builders import NONE, batch_of, compressed, record, sealed
from tests.reference.replay_values import BatchSummary

__all__ = [
    "Aborted",
    "Content",
    "Segments",
    "SnapshotEntry",
    "aborted_transactions",
    "cut",
    "drop",
    "file_of",
    "forge",
    "keep_times",
    "log_end_offset",
    "patch",
    "remove_segment",
    "snapshot_bytes",
    "snapshot_entries",
    "swap",
]

HEADER, SNAPSHOT_HEADER = fixed_layout(BATCH_HEADER), fixed_layout(PRODUCER_SNAPSHOT_HEADER)
SEQUENCES = 1 << 31
CLUSTER_ID = "a2ZvcmVuc2ljcy1mb3JnZQ"
# How long before ``NOW`` a forged log was created, by the time of its ``partition.metadata``.
CREATED_BEFORE_MS = 3_600_000
CHECKPOINTS = ("recovery-point", "replication", "log-start", "cleaner")

Content = tuple[bytes | None, bytes | None] | tuple[bytes | None, bytes | None, Sequence[Header]]

Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Style:
    """How batches are written.

    Attributes:
        records: key, value and, if any, headers of the records of a batch, by its base offset.
        leader_epochs: leader epochs by the offset they begin at.
        codec: compression of data batches.
        log_append_time: whether batches have log append time.
        horizons: delete horizons in ms, by base offset.
    """

    records: Mapping[int, Sequence[Content]]
    leader_epochs: Mapping[int, int]
    codec: int
    log_append_time: bool
    horizons: Mapping[int, int]


def forge(
    folder: Path,
    segments: Segments,
    *,
    topic: str = "t",
    partition: int = 0,
    node_id: int = 1,
    records: Mapping[int, Sequence[Content]] | None = None,
    leader_epochs: Mapping[int, int] | None = None,
    codec: int = NONE,
    log_append_time: bool = False,
    horizons: Mapping[int, int] | None = None,
    index_interval_bytes: int = 0,
    log_start: int | None = None,
    high_watermark: int | None = None,
    compacted: bool = False,
    first_dirty: int | None = None,
    clean_shutdown: bool = True,
    txnindex: Mapping[int, Sequence[Aborted] | bytes | None] | None = None,
    snapshots: Mapping[int, Sequence[SnapshotEntry] | bytes | None] | None = None,
    replaced: Mapping[str, bytes | None] | None = None,
) -> Path:
    """Write a partition and the files of its log directory; return the partition's folder.

    ``partition.metadata`` has the time of its creation, all other files that of the test.

    Args:
        folder: the log directory, created if it does not exist.
        segments: batches by the base offset of their segment; a plain text is a single segment.
        topic: the topic.
        partition: the partition.
        node_id: broker id in ``meta.properties``.
        records: key, value and, if any, headers of the records of a batch, by its base offset.
        leader_epochs: leader epochs by the offset they begin at; by default 0 from the first segment on.
        codec: compression of data batches; markers have none.
        log_append_time: whether batches have log append time.
        horizons: delete horizons in ms by base offset, as the cleaner sets them in batches.
        index_interval_bytes: bytes between entries of the indexes; 0 adds an entry for every batch but the first.
        log_start: entry of ``log-start-offset-checkpoint``; as with a broker, none if it is the first segment's offset.
        high_watermark: entry of ``replication-offset-checkpoint``; by default the log end.
        compacted: whether the log was compacted, up to the last segment unless ``first_dirty`` is given.
        first_dirty: entry of ``cleaner-offset-checkpoint``.
        clean_shutdown: False omits ``.kafka_cleanshutdown`` and the snapshot at the log end.
        txnindex: entries or bytes by segment that replace the correct ones; None for no file.
        snapshots: entries or bytes by offset that replace the correct ones or are added; None for no file.
        replaced: content of any other file by its path in ``folder``; None for no file.

    Raises:
        ValueError: the batches are inconsistent.
    """
    log = {base_offset: read(text) for base_offset, text in by_segment(segments).items()}
    style = Style(records or {}, leader_epochs or {min(log): 0}, codec, log_append_time, horizons or {})
    name = f"{topic}-{partition}"
    end = log_end_offset(segments)
    files: dict[str, bytes | None] = {
        **_segment_files(log, style, index_interval_bytes),
        **_files("txnindex", {**aborted_transactions(segments), **(txnindex or {})}, _transaction_index),
        **_files("snapshot", {**_snapshots(segments, clean_shutdown), **(snapshots or {})}, snapshot_bytes),
        "leader-epoch-checkpoint": _leader_epochs(style.leader_epochs),
        "partition.metadata": f"version: 0\ntopic_id: {_uuid(topic)}".encode(),
    }
    files = {f"{name}/{file}": content for file, content in files.items()}
    offsets = {
        "recovery-point": end if clean_shutdown else max(log),
        "replication": end if high_watermark is None else high_watermark,
        "log-start": log_start,
        "cleaner": max(log) if compacted and first_dirty is None else first_dirty,
    }
    for kind in CHECKPOINTS:
        path = f"{kind}-offset-checkpoint"
        files[path] = _offset_checkpoint(folder / path, f"{topic} {partition}", offsets[kind])
    files["meta.properties"] = _meta_properties(node_id)
    files[".kafka_cleanshutdown"] = b'{"version":0,"brokerEpoch":11}' if clean_shutdown else None
    _write(folder, files | dict(replaced or {}))
    if (metadata := folder / name / "partition.metadata").exists():
        utime(metadata, ns=((NOW - CREATED_BEFORE_MS) * 1_000_000,) * 2)
    return folder / name


def file_of(partition_folder: Path, base_offset: int = 0, kind: str = "log") -> Path:
    """Return the path of a segment's file, or of a snapshot."""
    return partition_folder / _name(base_offset, kind)


def remove_segment(partition_folder: Path, base_offset: int) -> None:
    """Remove a segment with its indexes and its snapshot."""
    for file in partition_folder.glob(_name(base_offset, "*")):
        file.unlink()


def snapshot_bytes(entries: Sequence[SnapshotEntry]) -> bytes:
    """Return a ``.snapshot`` with a valid checksum."""
    built = [bytes(PRODUCER_SNAPSHOT_ENTRY.build(entry._asdict())) for entry in entries]
    header = bytes(PRODUCER_SNAPSHOT_HEADER.build({"version": 1, "crc": 0, "count": len(built)}))
    covered = header[SNAPSHOT_HEADER.end_of("crc") :] + b"".join(built)
    fields = {"version": 1, "crc": crc32c(covered), "count": len(built)}
    return bytes(PRODUCER_SNAPSHOT_HEADER.build(fields)) + b"".join(built)


def patch(log: Path, base_offset: int, *, fix_crc: bool = True, **fields: int) -> None:
    """Change fields of a batch header by their layout names; by default the checksum is updated."""
    data = log.read_bytes()
    start, end = _find(data, base_offset)
    header = dict(zip(HEADER.names, HEADER.unpack_from(data, start), strict=True)) | fields
    changed = bytes(BATCH_HEADER.build(header)) + data[start + HEADER.size : end]
    log.write_bytes(data[:start] + (sealed(changed) if fix_crc and "crc" not in fields else changed) + data[end:])


def drop(log: Path, base_offset: int) -> None:
    """Remove a batch from a log; the batches after it move up."""
    data = log.read_bytes()
    start, end = _find(data, base_offset)
    log.write_bytes(data[:start] + data[end:])


def swap(log: Path, base_offset: int, other: int) -> None:
    """Exchange two batches."""
    data = log.read_bytes()
    (start, end), (later, last) = sorted((_find(data, base_offset), _find(data, other)))
    log.write_bytes(data[:start] + data[later:last] + data[end:later] + data[start:end] + data[last:])


def keep_times(log_dir: Path, written_ms: int, until_ms: int) -> None:
    """Give the files the times of a broker that wrote its logs last, and its checkpoints until another time."""
    for file in log_dir.rglob("*.*"):
        if file.name != "partition.metadata":
            utime(file, ns=(written_ms * 1_000_000,) * 2)
    for file in log_dir.glob("*-checkpoint"):
        utime(file, ns=(until_ms * 1_000_000,) * 2)


def cut(file: Path, size: int) -> None:
    """Truncate a file to a number of bytes; a negative number removes that many bytes from its end."""
    file.write_bytes(file.read_bytes()[:size])


def _segment_files(log: Mapping[int, list[Event]], style: Style, interval: int) -> dict[str, bytes | None]:
    files: dict[str, bytes | None] = {}
    for base_offset, events in log.items():
        batches = [event.batch for event in events if not event.is_gone]
        encoded = [_encoded(batch, style) for batch in batches]
        offset_index, time_index = _indexes(base_offset, batches, [len(each) for each in encoded], interval)
        files[_name(base_offset, "log")] = b"".join(encoded)
        files[_name(base_offset, "index")] = offset_index
        files[_name(base_offset, "timeindex")] = time_index
    return files


def _encoded(batch: BatchSummary, style: Style) -> bytes:
    span = batch.last_offset - batch.base_offset + 1
    if batch.count > span or (batch.base_sequence >= 0 and _last_sequence(batch) != batch.last_sequence):
        raise ValueError(f"the batch at {batch.base_offset} has {span} offsets; its count or sequences do not match")
    horizon = style.horizons.get(batch.base_offset)
    base_timestamp = batch.max_timestamp if horizon is None else horizon
    since = batch.max_timestamp - base_timestamp
    payload = _marker(batch, since) if batch.is_control else compressed(style.codec, _records(batch, style, since))
    return batch_of(
        payload,
        base_offset=batch.base_offset,
        partition_leader_epoch=_leader_epoch(batch.base_offset, style.leader_epochs),
        attributes=_attributes(batch, style) | (0 if horizon is None else DELETE_HORIZON_BIT),
        last_offset_delta=span - 1,
        base_timestamp=base_timestamp,
        max_timestamp=batch.max_timestamp,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        count=batch.count,
    )


def _last_sequence(batch: BatchSummary) -> int:
    return (batch.base_sequence + batch.last_offset - batch.base_offset) % SEQUENCES


def _attributes(batch: BatchSummary, style: Style) -> int:
    return (
        (NONE if batch.is_control else style.codec)
        | (LOG_APPEND_TIME_BIT if style.log_append_time else 0)
        | (TRANSACTIONAL_BIT if batch.is_transactional else 0)
        | (CONTROL_BIT if batch.is_control else 0)
    )


def _leader_epoch(offset: int, leader_epochs: Mapping[int, int]) -> int:
    return max(((start, epoch) for start, epoch in leader_epochs.items() if start <= offset), default=(0, -1))[1]


def _records(batch: BatchSummary, style: Style, since: int) -> bytes:
    offsets = range(batch.last_offset + 1 - batch.count, batch.last_offset + 1)
    contents = style.records.get(batch.base_offset, [(b"k%d" % offset, b"v%d" % offset) for offset in offsets])
    return b"".join(
        record(offset - batch.base_offset, *content, timestamp_delta=since)
        for offset, content in zip(offsets, contents, strict=True)
    )


def _marker(batch: BatchSummary, since: int) -> bytes:
    if batch.marker is None:
        return b""
    key = CONTROL_KEY.build({"version": 0, "type": int(batch.marker.outcome.name == "COMMITTED")})
    value = END_TXN_MARKER.build({"version": 0, "coordinator_epoch": batch.marker.coordinator_epoch})
    return record(0, bytes(key), bytes(value), timestamp_delta=since)


def _indexes(base_offset: int, batches: list[BatchSummary], sizes: list[int], interval: int) -> tuple[bytes, bytes]:
    """Return both indexes of a closed segment. Rule: ``LogSegment.append`` and ``onBecomeInactiveSegment``."""
    entries: list[bytes] = []
    times: list[tuple[int, int]] = []
    largest = (-1, base_offset)
    position = unindexed = 0
    for batch, size in zip(batches, sizes, strict=True):
        if batch.max_timestamp > largest[0]:
            largest = (batch.max_timestamp, batch.last_offset)
        if unindexed > interval:
            fields = {"relative_offset": batch.last_offset - base_offset, "position": position}
            entries.append(bytes(OFFSET_INDEX_ENTRY.build(fields)))
            times.append(largest)
            unindexed = 0
        position, unindexed = position + size, unindexed + size
    rising = dict.fromkeys(time for time in [*times, largest] if time[0] >= 0)
    built = [
        TIME_INDEX_ENTRY.build({"timestamp": time, "relative_offset": last - base_offset}) for time, last in rising
    ]
    return b"".join(entries), b"".join(map(bytes, built))


def _transaction_index(entries: Sequence[Aborted]) -> bytes:
    names = ("producer_id", "first_offset", "last_offset", "last_stable_offset")
    fields = (dict(zip(names, entry, strict=True)) for entry in entries)
    return b"".join(bytes(TRANSACTION_INDEX_ENTRY.build({"version": 0, **each})) for each in fields)


def _files(
    kind: str, contents: Mapping[int, Sequence[Entry] | bytes | None], build: Callable[[Sequence[Entry]], bytes]
) -> dict[str, bytes | None]:
    """Return files of one kind by name; contents given as bytes or None are kept."""
    return {
        _name(offset, kind): content if content is None or isinstance(content, bytes) else build(content)
        for offset, content in contents.items()
    }


def _snapshots(segments: Segments, clean_shutdown: bool) -> dict[int, list[SnapshotEntry]]:
    """Return the snapshots at the end and where segments were rolled, the first only if batches precede it."""
    bases = list(by_segment(segments))
    rolled = bases if any(event.batch.last_offset < bases[0] for event in every(segments)) else bases[1:]
    offsets = [*rolled, log_end_offset(segments)] if clean_shutdown else rolled
    return {offset: snapshot_entries(segments, offset) for offset in offsets}


def _name(offset: int, kind: str) -> str:
    return f"{offset:020}.{kind}"


def _leader_epochs(leader_epochs: Mapping[int, int]) -> bytes:
    lines = [f"{epoch} {start}\n" for start, epoch in sorted(leader_epochs.items())]
    return f"0\n{len(lines)}\n{''.join(lines)}".encode()


def _offset_checkpoint(path: Path, partition: str, offset: int | None) -> bytes:
    """Return a checkpoint with its existing entries of other partitions and, if given, the entry of this one."""
    old = path.read_text().splitlines()[2:] if path.exists() else []
    lines = [line for line in old if line.rpartition(" ")[0] != partition]
    lines += [f"{partition} {offset}"] if offset is not None else []
    return "".join(f"{line}\n" for line in ["0", str(len(lines)), *lines]).encode()


def _meta_properties(node_id: int) -> bytes:
    lines = ["#", f"node.id={node_id}", f"directory.id={_uuid(str(node_id))}", "version=1", f"cluster.id={CLUSTER_ID}"]
    return "".join(f"{line}\n" for line in lines).encode()


def _uuid(name: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(name.encode()).digest()[:16]).decode().rstrip("=")


def _write(folder: Path, files: Mapping[str, bytes | None]) -> None:
    for name, content in files.items():
        path = folder / name
        if content is None:
            path.unlink(missing_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)


def _find(data: bytes, base_offset: int) -> tuple[int, int]:
    start = 0
    while start < len(data):
        fields = dict(zip(HEADER.names, HEADER.unpack_from(data, start), strict=True))
        end = start + HEADER.end_of("length") + fields["length"]
        if fields["base_offset"] == base_offset:
            return start, end
        start = end
    raise ValueError(f"no batch begins at {base_offset}")
