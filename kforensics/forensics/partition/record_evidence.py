"""Evidence from the decoded records of a partition, which merges in log order.

Batch headers are enough for most checks. For these, every record is decoded in one more pass over the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.parsers.columns.hash_columns import HashColumns, hash_chunks
from kforensics.parsers.files.discover import open_found
from kforensics.parsers.files.source import Source
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, Batch, Damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.batches import LogWalk

__all__ = [
    "MAX_BATCHES",
    "RECORD_OFFSETS",
    "BatchLocation",
    "BrokenBatch",
    "FirstN",
    "KeylessSummary",
    "MistimedBatch",
    "RecordEvidence",
    "iter_hash_chunks",
    "record_evidence",
    "split_evidence",
]

# Batches of each kind to keep: the first ones in log order.
MAX_BATCHES = 1_000
# The reason of damage for records that can be decoded but have wrong offsets.
RECORD_OFFSETS = "record-offsets"
# Damage inside a batch that says nothing about its records: damage to the header, or from copying the file.
NOT_OF_RECORDS = ("crc", "left-out", "magic", "shrunk")
FIRST_WITH_DELTAS = 2
NO_TIMESTAMP = -1

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class BatchLocation:
    """Where a batch is.

    Attributes:
        segment: number of the segment.
        position: position of the batch in it.
        first_offset: first offset of the batch, or the last one if its format does not store the first.
        last_offset: last offset of the batch.
        producer_id: -1 if there is none.
        producer_epoch: -1 if there is none.
    """

    segment: int
    position: int
    first_offset: int
    last_offset: int
    producer_id: int
    producer_epoch: int


@dataclass(frozen=True, slots=True)
class BrokenBatch:
    """A batch whose checksum is valid but whose records are not.

    Attributes:
        place: where the batch is.
        reason: one of the reasons for damage, or RECORD_OFFSETS.
        detail: a sentence, or Kafka's own message.
    """

    place: BatchLocation
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class MistimedBatch:
    """A batch whose header has another largest timestamp than its records.

    Attributes:
        place: where the batch is.
        max_timestamp: largest timestamp according to the header, in ms.
        latest: largest timestamp of the records, in ms.
    """

    place: BatchLocation
    max_timestamp: int
    latest: int


@dataclass(frozen=True, slots=True)
class KeylessSummary:
    """The records whose key is null.

    Attributes:
        count: number of these records.
        first: batch of the first one, None if there is none.
        first_offset: offset of the first one.
        last_offset: offset of the last one.
    """

    count: int = 0
    first: BatchLocation | None = None
    first_offset: int = -1
    last_offset: int = -1

    def merged(self, after: KeylessSummary) -> KeylessSummary:
        """Return the summary of this part and the one that follows it in the log."""
        if not (self.count and after.count):
            return self if self.count else after
        return KeylessSummary(self.count + after.count, self.first, self.first_offset, after.last_offset)


@dataclass(frozen=True, slots=True)
class FirstN(Generic[Item]):
    """The first items of a kind, and how many there are in total.

    Attributes:
        items: the first MAX_BATCHES, in log order.
        count: total number.
    """

    items: tuple[Item, ...] = ()
    count: int = 0

    def merged(self, after: FirstN[Item]) -> FirstN[Item]:
        """Return the items of this part and the one that follows it in the log."""
        if not after.count:
            return self
        return FirstN((*self.items, *after.items)[:MAX_BATCHES], self.count + after.count)


@dataclass(frozen=True, slots=True)
class RecordEvidence:
    """What the records of a part of a log show; its size is bounded.

    Control batches, and batches whose checksum is invalid, are ignored.

    Attributes:
        records: number of records that could be decoded.
        broken: batches whose records cannot be decoded, or whose record offsets do not ascend or are outside the batch.
        mistimed: batches whose header has another largest timestamp than their records.
        keyless: records without a key.
    """

    records: int = 0
    broken: FirstN[BrokenBatch] = field(default_factory=FirstN)
    mistimed: FirstN[MistimedBatch] = field(default_factory=FirstN)
    keyless: KeylessSummary = field(default_factory=KeylessSummary)

    def merged(self, after: RecordEvidence) -> RecordEvidence:
        """Return the evidence of this part and the one that follows it in the log."""
        return RecordEvidence(
            self.records + after.records,
            self.broken.merged(after.broken),
            self.mistimed.merged(after.mistimed),
            self.keyless.merged(after.keyless),
        )


def record_evidence(
    partition: Partition, kernels: KernelPolicy = kernels_for, workers: int | None = None
) -> RecordEvidence:
    """Return the evidence from the records of a partition; its log is read once.

    Args:
        partition: its files.
        kernels: provides the compiled kernels, if the size of the data justifies them.
        workers: number of reader threads, 0 for the caller's thread only, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    merged = RecordEvidence()
    for segment in range(len(partition.segments)):
        merged = merged.merged(split_evidence(partition, SegmentSplit(segment), kernels, workers))
    return merged


def split_evidence(
    partition: Partition, split: SegmentSplit, kernels: KernelPolicy = kernels_for, workers: int | None = None
) -> RecordEvidence:
    """Return the evidence from the records of a split.

    Args:
        partition: its files.
        split: a range of a segment.
        kernels: provides the compiled kernels, if the size of the data justifies them.
        workers: number of reader threads, 0 for the caller's thread only, None for one per processor.

    Raises:
        InputError: the segment cannot be read.
    """
    merged = RecordEvidence()
    for _, evidence in iter_hash_chunks(partition, split, kernels, workers):
        merged = merged.merged(evidence)
    return merged


def iter_hash_chunks(
    partition: Partition, split: SegmentSplit, kernels: KernelPolicy = kernels_for, workers: int | None = None
) -> Iterator[tuple[HashColumns | None, RecordEvidence]]:
    """Yield the data records of a split chunk by chunk, each with its evidence; finally, the evidence after them.

    Args:
        partition: its files.
        split: a range of a segment.
        kernels: provides the compiled kernels, if the size of the data justifies them.
        workers: number of reader threads, 0 for the caller's thread only, None for one per processor.

    Raises:
        InputError: the segment cannot be read.
    """
    with open_found(partition.segments[split.segment]) as source:
        broken = _BrokenBatches(source, split.segment)
        chunks = hash_chunks(source, broken.add, kernels, start=split.start, stop=split.stop, workers=workers)
        open_batch = None
        for columns in chunks:
            evidence, open_batch = _chunk_evidence(columns, split.segment, broken.take(), open_batch)
            yield columns, evidence
    yield None, RecordEvidence(broken=broken.take())


class _BrokenBatches:
    """Collects damage as it is reported, and keeps what concerns records."""

    def __init__(self, source: Source, segment: int) -> None:
        self._source, self._segment = source, segment
        self._items: list[BrokenBatch] = []
        self._count = 0

    def add(self, damage: Damage) -> None:
        """Add damage of a batch, or of the bytes between two batches."""
        if damage.inside_batch is None or damage.reason in NOT_OF_RECORDS:
            return
        self._count += 1
        if len(self._items) < MAX_BATCHES:
            location = _location_at(self._source, self._segment, damage.inside_batch)
            self._items += [BrokenBatch(location, damage.reason, damage.detail)] if location else []

    def take(self) -> FirstN[BrokenBatch]:
        """Return what was added since the last call."""
        taken = FirstN(tuple(self._items), self._count)
        self._items, self._count = [], 0
        return taken


def _location_at(source: Source, segment: int, position: int) -> BatchLocation | None:
    batch = next(iter(LogWalk(source, position).step()), None)
    if not isinstance(batch, Batch):
        return None  # the file has changed in the meantime
    first_offset = batch.last_offset if batch.base_offset is None else batch.base_offset
    producer = (-1 if number is None else number for number in (batch.producer_id, batch.producer_epoch))
    return BatchLocation(segment, position, first_offset, batch.last_offset, *producer)


@dataclass(frozen=True, slots=True)
class _OpenBatch:
    """What a chunk and those before it show about a batch that continues in the next chunk.

    Attributes:
        last_offset: offset of the last record so far, as an array: differences of offsets must wrap around.
        is_unordered: whether offsets do not ascend.
        is_before_base: whether the first record is before the first offset of the batch.
        latest: largest timestamp of the records so far.
    """

    last_offset: IntArray
    is_unordered: bool
    is_before_base: bool
    latest: int


def _chunk_evidence(
    columns: HashColumns, segment: int, undecoded: FirstN[BrokenBatch], before: _OpenBatch | None
) -> tuple[RecordEvidence, _OpenBatch | None]:
    """Return the evidence of a chunk, and the batch that continues after it; a batch is judged where it ends."""
    ends = np.cumsum(columns.records)
    starts = ends - columns.records
    unordered, is_before_base = _unordered(columns, ends), columns.offset[starts] - columns.base_offset < 0
    latest = np.maximum.reduceat(columns.timestamp, starts)
    if before is not None:
        is_unordered = before.is_unordered or bool((columns.offset[:1] - before.last_offset <= 0).any())
        unordered[0] |= is_unordered
        is_before_base[0] = before.is_before_base
        latest[0] = max(int(latest[0]), before.latest)
    ends_here = columns.first_index + columns.records == columns.total
    outside = is_before_base | (
        columns.offset[ends - 1] - columns.base_offset > columns.last_offset - columns.base_offset
    )
    evidence = RecordEvidence(
        len(columns),
        _by_position(undecoded, _with_wrong_offsets(columns, segment, unordered & ends_here, outside & ends_here)),
        _mistimed(columns, segment, latest, ends_here),
        _keyless(columns, segment, ends),
    )
    if ends_here[-1]:
        return evidence, None
    state = bool(unordered[-1]), bool(is_before_base[-1]), int(latest[-1])
    return evidence, _OpenBatch(columns.offset[-1:].copy(), *state)


def _unordered(columns: HashColumns, ends: IntArray) -> BoolArray:
    """Return which batches have records in these columns whose offsets do not ascend.

    Differences within a batch are correct even if offsets overflow.
    """
    steps = np.diff(columns.offset)
    steps[ends[:-1] - 1] = 1
    not_ascending = steps <= 0
    unordered = np.zeros(len(ends), bool)
    if not_ascending.any():
        unordered[np.searchsorted(ends, np.flatnonzero(not_ascending), side="right")] = True
    return unordered


def _by_position(left: FirstN[BrokenBatch], right: FirstN[BrokenBatch]) -> FirstN[BrokenBatch]:
    """Return broken batches of the same chunk together, sorted by position."""
    if not (left.count and right.count):
        return left if left.count else right
    items = sorted((*left.items, *right.items), key=lambda broken: broken.place.position)
    return FirstN(tuple(items[:MAX_BATCHES]), left.count + right.count)


def _with_wrong_offsets(
    columns: HashColumns, segment: int, unordered: BoolArray, outside: BoolArray
) -> FirstN[BrokenBatch]:
    """Return the batches whose record offsets do not ascend or are outside the batch.

    Only format 2 stores an offset for each record.
    """
    wrong = (unordered | outside) & (columns.magic >= FIRST_WITH_DELTAS)
    if not wrong.any():
        return FirstN()
    items = (
        BrokenBatch(location, RECORD_OFFSETS, _offsets_detail(location, is_unordered=bool(unordered[batch])))
        for batch, location in _locations(columns, segment, wrong)
    )
    return _first_n(items, wrong)


def _offsets_detail(location: BatchLocation, *, is_unordered: bool) -> str:
    if is_unordered:
        return "the offsets of its records do not ascend"
    return f"its records have offsets that are not from {location.first_offset} to {location.last_offset}"


def _mistimed(columns: HashColumns, segment: int, latest: IntArray, ends_here: BoolArray) -> FirstN[MistimedBatch]:
    """Return the batches whose records have another largest timestamp than the header.

    With log append time, records have the timestamp of the header. The cleaner recomputes the header's timestamp from
    the records that remain. A wrapper of format 1 may contain messages of format 0, without timestamps (KAFKA-4298).
    """
    wrong = ends_here & (latest != columns.max_timestamp)
    if not wrong.any():
        return FirstN()
    wrong &= (columns.is_whole != 0) & (columns.attributes & LOG_APPEND_TIME_BIT == 0)
    wrong &= (columns.magic >= FIRST_WITH_DELTAS) | ((columns.magic == 1) & (latest != NO_TIMESTAMP))
    items = (
        MistimedBatch(location, int(columns.max_timestamp[batch]), int(latest[batch]))
        for batch, location in _locations(columns, segment, wrong)
    )
    return _first_n(items, wrong)


def _keyless(columns: HashColumns, segment: int, ends: IntArray) -> KeylessSummary:
    count = int(columns.is_keyless.sum())
    if not count:
        return KeylessSummary()
    first = int(columns.is_keyless.argmax())
    last = len(columns) - 1 - int(columns.is_keyless[::-1].argmax())
    location = _location(columns, segment, int(np.searchsorted(ends, first, side="right")))
    return KeylessSummary(count, location, int(columns.offset[first]), int(columns.offset[last]))


def _first_n(items: Iterable[Item], mask: BoolArray) -> FirstN[Item]:
    return FirstN(tuple(islice(items, MAX_BATCHES)), int(np.count_nonzero(mask)))


def _locations(columns: HashColumns, segment: int, mask: BoolArray) -> Iterator[tuple[int, BatchLocation]]:
    for batch in np.flatnonzero(mask)[:MAX_BATCHES].tolist():
        yield batch, _location(columns, segment, batch)


def _location(columns: HashColumns, segment: int, batch: int) -> BatchLocation:
    names = ("position", "base_offset", "last_offset", "producer_id", "producer_epoch")
    return BatchLocation(segment, *(int(getattr(columns, name)[batch]) for name in names))
