"""Finds keys for which compaction has left two replicas with different newest records.

The cleaner removes a record only if a newer record of its key stays, or if it is a tombstone and no older record of its
key is left. So the newest record of a key is the same on every replica, whatever else they have dropped, unless one of
them has dropped a tombstone. Rule: ``Cleaner.shouldRetainRecord``.

The newest record is the one that a read_committed consumer ends up with. The comparison ignores
records of transactions that are not committed, records without a key, and batches with a wrong checksum.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

import numpy as np

from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.duplicates.record_reader import hidden_batches, hidden_transactions
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.differences import Difference
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import IntArray, StructArray
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy
from kforensics.parsers.tables.arrow import chunked
from kforensics.parsers.tables.file_rows import ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["KeyDifference", "KeyLoss", "key_differences"]

# Maximum number of records whose keys are in memory at once; more records take several passes.
KEYS_AT_ONCE = 1 << 22
# Rows to gather before the newest record of each key is selected.
GATHERED_RECORDS = 1 << 20
RECORD_TABLE_COLUMNS = TABLES["records"].names
WANTED = ("batch_position", "offset", "key", "key_size", "value_size", "control_type")
# Tagged offset of a key without a record.
NO_RECORD = -1

# Tagged offsets by key: of the replica with the older record, and of the one with the newer record.
TaggedOffsets = dict[bytes, tuple[int, int]]


class KeyLoss(StrEnum):
    """What a replica has lost of a key."""

    # The newest value; an older record of the key is left.
    VALUE = "value"
    # The tombstone; an older value is left and visible again.
    TOMBSTONE = "tombstone"
    # All records, or the other replica has kept one that it should have dropped.
    KEY = "key"


@dataclass(frozen=True, slots=True)
class KeyDifference:
    """A key whose newest record differs between two replicas.

    Attributes:
        lacking: the replica with the older record, or with none.
        having: the replica with the newer record.
        lost: what the former has lost.
        key: the key.
        offset: offset of the newer record.
        older_offset: offset of the newest record on the other replica, None if it has none.
        timestamp: largest timestamp in the batch of the newer record, in ms, -1 without one.
    """

    lacking: Replica
    having: Replica
    lost: KeyLoss
    key: bytes
    offset: int
    older_offset: int | None
    timestamp: int = -1


@dataclass(frozen=True, slots=True)
class ReplicaSlice:
    """A selection of the records of a replica by offset and key.

    Attributes:
        replica: the replica.
        first_offset: first offset.
        end: offset after the last one.
        share: the keys whose number modulo ``shares`` is this one.
        shares: number of shares of all keys.
        keys: an Arrow array of the keys to look for, None for all.
    """

    replica: Replica
    first_offset: int
    end: int
    share: int = 0
    shares: int = 1
    keys: Any = None


def key_differences(  # noqa: PLR0913, PLR0917  # two replicas, and what is known of them
    first: Replica,
    second: Replica,
    cleaned: Difference,
    end: int,
    others: Sequence[Replica],
    kernels: KernelPolicy,
) -> Iterator[KeyDifference]:
    """Yield the keys whose newest record differs between two replicas, as far as differences in the log can explain it.

    Args:
        first: the first replica.
        second: the second replica.
        cleaned: the range in which compaction has made them differ.
        end: offset up to which both have the same history.
        others: the other replicas. A leader may have compacted its log up to a record that neither of the two has
            fetched yet.
        kernels: returns the compiled kernels if they pay off.

    Raises:
        InputError: a segment cannot be read.
    """
    first_open = (replica.state.open_transactions["first_offset"].min(initial=end) for replica in (first, second))
    begin, stop = cleaned.first_offset, min(cleaned.last_offset + 1, *map(int, first_open))
    shares = max(replica.state.log.records for replica in (first, second)) // KEYS_AT_ONCE + 1
    for share in range(shares):
        slices = (ReplicaSlice(replica, begin, stop, share, shares) for replica in (first, second))
        newest = [newest_records(replica_slice, kernels) for replica_slice in slices]
        differing = list(_differing_offsets(*newest))
        first_older = {key: (own, other) for key, own, other in differing if own < other}
        second_older = {key: (other, own) for key, own, other in differing if own > other}
        for lacking, having, offsets in ((first, second, first_older), (second, first, second_older)):
            suspects = _suspects(lacking, having, _with_older(lacking, having, offsets, begin, kernels))
            searched = ((lacking, stop), (having, stop), *((other, begin) for other in others))
            yield from _with_times(_without_newer(suspects, searched, kernels), kernels)


def _with_older(
    lacking: Replica, having: Replica, offsets: TaggedOffsets, begin: int, kernels: KernelPolicy
) -> TaggedOffsets:
    """Return tagged offsets by key; the older record may also be before the range."""
    start = max(lacking.first_offset, having.first_offset)
    missing = [key for key, (older, _) in offsets.items() if older == NO_RECORD]
    if not missing or begin <= start:
        return offsets
    before = _by_key(ReplicaSlice(lacking, start, begin, keys=_key_array(missing)), kernels)
    return {key: (max(older, before.get(key, NO_RECORD)), newer) for key, (older, newer) in offsets.items()}


def _by_key(replica_slice: ReplicaSlice, kernels: KernelPolicy) -> dict[bytes, int]:
    newest = newest_records(replica_slice, kernels)
    return dict(zip(newest["key"].to_pylist(), newest["tagged_offset"].to_pylist(), strict=True))


def _key_array(keys: list[bytes]) -> Any:
    import pyarrow as pa  # slow to import, and only needed to compare keys

    return pa.array(keys, pa.binary())


def _differing_offsets(first: pa.Table, second: pa.Table) -> Iterator[tuple[bytes, int, int]]:
    """Yield keys with the tagged offsets of both sides, NO_RECORD without one, if they differ."""
    import pyarrow.compute as pc  # slow to import, and only needed to compare keys

    joined = first.join(second, "key", join_type="full outer", right_suffix="_of_other")
    offsets = [joined[name].fill_null(NO_RECORD) for name in ("tagged_offset", "tagged_offset_of_other")]
    differs = pc.not_equal(*offsets)
    columns = [column.filter(differs).to_pylist() for column in (joined["key"], *offsets)]
    yield from zip(*columns, strict=True)


def _suspects(lacking: Replica, having: Replica, offsets: TaggedOffsets) -> Iterator[KeyDifference]:
    for key, (older, newer) in offsets.items():
        loss = _loss(lacking, having, older, newer)
        if loss is not None:
            yield KeyDifference(lacking, having, loss, key, newer >> 1, None if older == NO_RECORD else older >> 1)


def _loss(lacking: Replica, having: Replica, older: int, newer: int) -> KeyLoss | None:
    """Return what one side has lost of a key, None if compaction explains it."""
    is_tombstone, is_deleted = newer & 1, older == NO_RECORD or older & 1
    if is_tombstone:
        return None if is_deleted else KeyLoss.TOMBSTONE
    if older != NO_RECORD:
        return KeyLoss.VALUE
    # A tombstone that the other replica has not fetched yet may have been written and dropped.
    return KeyLoss.KEY if having.end >= lacking.first_uncompacted_offset else None


def _without_newer(
    suspects: Iterable[KeyDifference], searched: Iterable[tuple[Replica, int]], kernels: KernelPolicy
) -> list[KeyDifference]:
    """Return the suspects for whose key no replica has a newer record.

    After the range, the shorter of two replicas has every record of the longer one, unless it is missing or damaged,
    which other findings report.

    Args:
        suspects: what one replica seems to have lost.
        searched: replicas, each with the offset from which on to look.
        kernels: returns the compiled kernels if they pay off.
    """
    left = sorted(suspects, key=lambda suspect: suspect.offset)
    for replica, begin in searched:
        if not left:
            break
        keys = _key_array([suspect.key for suspect in left])
        newest = _by_key(ReplicaSlice(replica, begin, replica.end, keys=keys), kernels)
        left = [suspect for suspect in left if newest.get(suspect.key, NO_RECORD) >> 1 <= suspect.offset]
    return left[:MOST]


def _with_times(differences: list[KeyDifference], kernels: KernelPolicy) -> Iterator[KeyDifference]:
    """Yield differences in one replica, in order of offset, with the time of the newer record."""
    if not differences:
        return
    having, offsets = differences[0].having, np.array([difference.offset for difference in differences], "i8")
    timestamps = np.full(len(offsets), -1, "i8")
    for number, segment in _segments(ReplicaSlice(having, int(offsets[0]), int(offsets[-1]) + 1)):
        with open_source(segment.path) as source:
            for chunk in batch_chunks(source, number, ignore_damage, kernels):
                begins, ends = (np.searchsorted(offsets, bound) for bound in (chunk.base_offset, chunk.last_offset + 1))
                for batch in np.flatnonzero(begins < ends):
                    timestamps[begins[batch] : ends[batch]] = chunk.max_timestamp[batch]
    for difference, timestamp in zip(differences, timestamps, strict=True):
        yield replace(difference, timestamp=int(timestamp))


def newest_records(replica_slice: ReplicaSlice, kernels: KernelPolicy) -> pa.Table:
    """Return the newest record of each key.

    Args:
        replica_slice: where to look.
        kernels: returns the compiled kernels if they pay off.

    Returns:
        A table of distinct ``key`` and ``tagged_offset``: twice the offset, plus 1 for a tombstone.

    Raises:
        InputError: a segment cannot be read.
    """
    import pyarrow as pa  # slow to import, and only needed to compare keys

    gathered, rows = [_offset_table([], [])], 0
    for table in _offset_tables(replica_slice, kernels):
        gathered.append(table)
        rows += table.num_rows
        if rows > GATHERED_RECORDS:
            gathered = [_newest(pa.concat_tables(gathered))]
            # Starts from 0, so that many distinct keys are not grouped again with every chunk.
            rows = 0
    return _newest(pa.concat_tables(gathered))


def _offset_table(keys: Any, tagged_offsets: Any) -> pa.Table:
    import pyarrow as pa  # slow to import, and only needed to compare keys

    return pa.table({"key": pa.array(keys, pa.binary()), "tagged_offset": pa.array(tagged_offsets, pa.int64())})


def _newest(table: pa.Table) -> pa.Table:
    newest = table.group_by("key").aggregate([("tagged_offset", "max")]).select(["key", "tagged_offset_max"])
    return newest.rename_columns(["key", "tagged_offset"])


def _offset_tables(replica_slice: ReplicaSlice, kernels: KernelPolicy) -> Iterator[pa.Table]:
    """Yield keys and tagged offsets of the selected records, chunk by chunk."""
    hidden = _hidden(replica_slice.replica)
    for number, segment in _segments(replica_slice):
        ignored = _ignored_batches(replica_slice.replica.partition, number, hidden, kernels)
        for columns in _columns(segment, kernels):
            table = _selected(replica_slice, columns, ignored)
            if table is not None:
                yield table


def _segments(replica_slice: ReplicaSlice) -> Iterator[tuple[int, FoundFile]]:
    segments = replica_slice.replica.partition.segments
    for number, segment in enumerate(segments):
        end = segments[number + 1].base_offset if number + 1 < len(segments) else None
        if (segment.base_offset or 0) < replica_slice.end and (end is None or end > replica_slice.first_offset):
            yield number, segment


def _hidden(replica: Replica) -> StructArray:
    """Return the offset ranges of transactions that are not committed."""
    parts = [rows[rows["outcome"] != TransactionOutcome.COMMITTED] for rows in replica.transactions()]
    return hidden_transactions(np.concatenate(parts) if parts else None)


def _ignored_batches(partition: Partition, segment: int, hidden: StructArray, kernels: KernelPolicy) -> IntArray:
    """Return the positions of hidden or damaged batches in order."""
    with open_source(partition.segments[segment].path) as source:
        chunks = batch_chunks(source, segment, ignore_damage, kernels)
        positions = [chunk.position[~chunk.crc_valid | hidden_batches(chunk, hidden)] for chunk in chunks]
    return np.concatenate([np.empty(0, "i8"), *positions])


def _columns(segment: FoundFile, kernels: KernelPolicy) -> Iterator[dict[str, Any]]:
    """Yield the needed columns of the records of a segment: keys as an Arrow array, the others as NumPy arrays."""
    with open_source(segment.path) as source:
        compiled, reading = kernels(source.size), ReadOptions(records=True, columns=frozenset(WANTED))
        if compiled is None:
            yield from _from_rows(file_rows(segment, source, reading, ignore_damage))
            return
        for item in read_arrow_columns(segment, source, reading, ignore_damage, compiled):
            if isinstance(item, Iterator):
                yield from _from_rows(item)
            else:
                yield _from_arrow(item)


def _from_arrow(batch: pa.RecordBatch) -> dict[str, Any]:
    import pyarrow.compute as pc  # slow to import, and only needed to compare keys

    columns = {name: batch.column(name) for name in WANTED}
    numbers = ("batch_position", "offset", "key_size", "value_size")
    control = pc.is_valid(columns["control_type"]).to_numpy(zero_copy_only=False)
    return {"key": columns["key"], "control": control, **{name: columns[name].to_numpy() for name in numbers}}


def _from_rows(rows: Iterator[tuple[Any, ...]]) -> Iterator[dict[str, Any]]:
    import pyarrow as pa  # slow to import, and only needed to compare keys

    indexes = [RECORD_TABLE_COLUMNS.index(name) for name in WANTED]
    for chunk in chunked(rows):
        values_of = zip(*([row[index] for index in indexes] for row in chunk), strict=True)
        columns = dict(zip(WANTED, values_of, strict=True))
        control = np.array([control_type is not None for control_type in columns.pop("control_type")], bool)
        keys = pa.array(columns.pop("key"), pa.binary())
        yield {"key": keys, "control": control, **{name: np.array(values, "i8") for name, values in columns.items()}}


def _selected(replica_slice: ReplicaSlice, columns: dict[str, Any], ignored: IntArray) -> pa.Table | None:
    import pyarrow as pa  # slow to import, and only needed to compare keys
    import pyarrow.compute as pc

    offset = columns["offset"]
    selected = (offset >= replica_slice.first_offset) & (offset < replica_slice.end)
    selected &= (columns["key_size"] >= 0) & ~columns["control"]
    if len(ignored):
        selected &= ~np.isin(columns["batch_position"], ignored)
    if replica_slice.shares > 1:
        selected &= _numbers(columns["key"]) % replica_slice.shares == replica_slice.share
    if not selected.any():
        return None
    keys = columns["key"].filter(pa.array(selected))
    tagged_offsets = offset[selected] * 2 + (columns["value_size"][selected] < 0)
    table = _offset_table(keys, tagged_offsets)
    return table if replica_slice.keys is None else table.filter(pc.is_in(table["key"], replica_slice.keys))


def _numbers(keys: Any) -> IntArray:
    """Return a number for each key, computed from its length and its last bytes."""
    ends = np.frombuffer(keys.buffers()[1], np.int32, len(keys) + 1, 4 * keys.offset).astype("i8")
    data = keys.buffers()[2]
    buffer = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    sizes = np.diff(ends)
    numbers = sizes.copy()
    for distance in (1, 2, 3):
        byte = buffer[np.clip(ends[1:] - distance, 0, len(buffer) - 1)].astype("i8")
        numbers = numbers * 31 + np.where(sizes >= distance, byte, 0)
    return numbers
