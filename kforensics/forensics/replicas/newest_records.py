"""The newest record of each key in a part of a replica, as a consumer would be left with it.

Records of transactions that are not committed do not count, nor do those without a key, nor batches whose checksum
fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.duplicates.content_entries import hidden_batches, hidden_intervals
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.columns.arrow_columns import columns_of
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice
from kforensics.parsers.tables.file_rows import Reading, file_rows
from kforensics.parsers.tables.schemas import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Part", "newest_records"]

# Rows that are gathered before the newest of each key are picked.
GATHERED = 1 << 20
ROWS = 1 << 13
NAMES = TABLES["records"].names
WANTED = ("batch_position", "offset", "key", "key_size", "value_size", "control_type")


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a replica.

    Attributes:
        replica: the replica.
        first_offset: first offset that counts.
        end: offset behind the last one.
        share: of all keys, those whose number leaves this rest when it is divided by ``shares``.
        shares: see there.
        keys: an Arrow array; no other keys count. None for all.
    """

    replica: Replica
    first_offset: int
    end: int
    share: int = 0
    shares: int = 1
    keys: Any = None


def newest_records(part: Part, kernels: Choice) -> pa.Table:
    """Return the newest record of each key.

    Args:
        part: where to look.
        kernels: gives the compiled kernels.

    Returns:
        A table of ``key``, once each, and ``mark``: twice the offset, and one more for a tombstone.

    Raises:
        InputError: a segment cannot be read.
    """
    import pyarrow as pa  # only who compares keys pays for it

    gathered, rows = [_table([], [])], 0
    for found in _rows(part, kernels):
        gathered.append(found)
        rows += found.num_rows
        if rows > GATHERED:
            gathered = [_newest(pa.concat_tables(gathered))]
            # So that many different keys are not sorted out again with every chunk.
            rows = 0
    return _newest(pa.concat_tables(gathered))


def _table(keys: Any, marks: Any) -> pa.Table:
    import pyarrow as pa  # as above

    return pa.table({"key": pa.array(keys, pa.binary()), "mark": pa.array(marks, pa.int64())})


def _newest(table: pa.Table) -> pa.Table:
    return (
        table.group_by("key").aggregate([("mark", "max")]).select(["key", "mark_max"]).rename_columns(["key", "mark"])
    )


def _rows(part: Part, kernels: Choice) -> Iterator[pa.Table]:
    """Yield keys and marks of the records that count, chunk by chunk."""
    hidden = _hidden(part.replica)
    for number, found in _segments(part):
        without = _without(part.replica.partition, number, hidden, kernels)
        for columns in _columns(found, kernels):
            chosen = _chosen(part, columns, without)
            if chosen is not None:
                yield chosen


def _segments(part: Part) -> Iterator[tuple[int, FoundFile]]:
    segments = part.replica.partition.segments
    for number, found in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if (found.base_offset or 0) < part.end and (end is None or end > part.first_offset):
            yield number, found


def _hidden(replica: Replica) -> Records:
    """Return where transactions lie that are not committed."""
    parts = [rows[rows["ending"] != Ending.COMMITTED] for rows in replica.transactions()]
    return hidden_intervals(np.concatenate(parts) if parts else None)


def _without(partition: Partition, segment: int, hidden: Records, kernels: Choice) -> Records:
    """Return the positions of batches that do not count, in order."""
    with open_source(partition.segments[segment].path) as source:
        chunks = batch_chunks(source, segment, _say_nothing, kernels)
        found = [chunk.position[~chunk.crc_valid | hidden_batches(chunk, hidden)] for chunk in chunks]
    return np.concatenate([np.empty(0, "i8"), *found])


def _columns(found: FoundFile, kernels: Choice) -> Iterator[dict[str, Any]]:
    """Yield some columns of the records of a segment, keys as Arrow, the others as numpy."""
    with open_source(found.path) as source:
        supply, reading = kernels(source.size), Reading(records=True, columns=frozenset(WANTED))
        if supply is None:
            yield from _of_rows(file_rows(found, source, reading, _say_nothing))
            return
        for item in columns_of(found, source, reading, _say_nothing, supply):
            if isinstance(item, Iterator):
                yield from _of_rows(item)
            else:
                yield _of_batch(item)


def _of_batch(batch: pa.RecordBatch) -> dict[str, Any]:
    import pyarrow.compute as pc  # as above

    columns = {name: batch.column(name) for name in WANTED}
    numbers = ("batch_position", "offset", "key_size", "value_size")
    control = pc.is_valid(columns["control_type"]).to_numpy(zero_copy_only=False)
    return {"key": columns["key"], "control": control, **{name: columns[name].to_numpy() for name in numbers}}


def _of_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa  # as above

    places = [NAMES.index(name) for name in WANTED]
    while chunk := [[row[at] for at in places] for row, _ in zip(rows, range(ROWS), strict=False)]:
        columns = dict(zip(WANTED, zip(*chunk, strict=True), strict=True))
        control = np.array([kind is not None for kind in columns.pop("control_type")], bool)
        keys = pa.array(columns.pop("key"), pa.binary())
        yield {"key": keys, "control": control, **{name: np.array(held, "i8") for name, held in columns.items()}}


def _chosen(part: Part, columns: dict[str, Any], without: Records) -> pa.Table | None:
    import pyarrow as pa  # as above
    import pyarrow.compute as pc

    offset = columns["offset"]
    counts = (offset >= part.first_offset) & (offset < part.end) & (columns["key_size"] >= 0) & ~columns["control"]
    if len(without):
        counts &= ~np.isin(columns["batch_position"], without)
    if part.shares > 1:
        counts &= _numbers(columns["key"]) % part.shares == part.share
    if not counts.any():
        return None
    keys = columns["key"].filter(pa.array(counts))
    marks = offset[counts] * 2 + (columns["value_size"][counts] < 0)
    found = _table(keys, marks)
    return found if part.keys is None else found.filter(pc.is_in(found["key"], part.keys))


def _numbers(keys: Any) -> Records:
    """Return a number for each key, made of its length and its last bytes."""
    ends = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, 4 * keys.offset).astype("i8")
    data = keys.buffers()[2]
    held = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    sizes = np.diff(ends)
    numbers = sizes.copy()
    for back in (1, 2, 3):
        byte = held[np.clip(ends[1:] - back, 0, len(held) - 1)].astype("i8")
        numbers = numbers * 31 + np.where(sizes >= back, byte, 0)
    return numbers


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the case was made."""
