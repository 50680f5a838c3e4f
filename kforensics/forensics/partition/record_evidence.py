"""What the records of a partition say of their batches: evidence of parts of a log, which merges in their order.

Headers alone tell most of what is to be found. For this every record is decoded, in one more pass over the log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Generic, TypeVar

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.hash_columns import HashColumns, hash_chunks
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, Batch, Damage
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.batches import Walk

__all__ = [
    "MOST",
    "OFFSETS",
    "Broken",
    "First",
    "Keyless",
    "Mistimed",
    "Place",
    "RecordEvidence",
    "evidence_of",
    "looked_through",
    "record_evidence",
]

# Batches of each kind to keep: the first ones in the order of the log.
MOST = 1_000
# What is wrong with records that can be read, among the reasons of damage.
OFFSETS = "record-offsets"
# Damage inside a batch that says nothing of its records: of the header, or of the copying.
NOT_OF_RECORDS = ("crc", "magic", "shrunk")
FIRST_WITH_DELTAS = 2
NO_TIMESTAMP = -1

Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Place:
    """Where a batch stands.

    Attributes:
        segment: number of the segment.
        position: of the batch.
        first_offset: of the batch; the last one where its format does not tell.
        last_offset: of the batch.
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
class Broken:
    """A batch whose checksum holds and whose records are not as they must be.

    Attributes:
        place: where it stands.
        reason: one of the words for damage, or OFFSETS.
        detail: a sentence, or Kafka's own message.
    """

    place: Place
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class Mistimed:
    """A batch whose header has another largest timestamp than its records.

    Attributes:
        place: where it stands.
        max_timestamp: that of the header, in ms.
        latest: that of the records, in ms.
    """

    place: Place
    max_timestamp: int
    latest: int


@dataclass(frozen=True, slots=True)
class Keyless:
    """Records whose key is null.

    Attributes:
        count: how many there are.
        first: the batch of the first one, None if there is none.
        first_offset: of the first one.
        last_offset: of the last one.
    """

    count: int = 0
    first: Place | None = None
    first_offset: int = -1
    last_offset: int = -1

    def merged(self, after: Keyless) -> Keyless:
        """Return those of two parts, of which the other one follows this one in the log."""
        if not (self.count and after.count):
            return self if self.count else after
        return Keyless(self.count + after.count, self.first, self.first_offset, after.last_offset)


@dataclass(frozen=True, slots=True)
class First(Generic[Item]):
    """The first ones of a kind.

    Attributes:
        items: the first MOST, in the order of the log.
        count: how many there are in all.
    """

    items: tuple[Item, ...] = ()
    count: int = 0

    def merged(self, after: First[Item]) -> First[Item]:
        """Return those of two parts, of which the other one follows this one in the log."""
        if not after.count:
            return self
        return First((*self.items, *after.items)[:MOST], self.count + after.count)


@dataclass(frozen=True, slots=True)
class RecordEvidence:
    """What the records of a part of a log say; no larger than its first few findings.

    Control batches, and batches whose checksum fails, are left out.

    Attributes:
        records: how many could be read.
        broken: batches whose records cannot be read, or have offsets that do not ascend or lie outside the batch.
        mistimed: batches whose header has another largest timestamp than their records.
        keyless: records without key.
    """

    records: int = 0
    broken: First[Broken] = field(default_factory=First)
    mistimed: First[Mistimed] = field(default_factory=First)
    keyless: Keyless = field(default_factory=Keyless)

    def merged(self, after: RecordEvidence) -> RecordEvidence:
        """Return the evidence of two parts, of which the other one follows this one in the log."""
        return RecordEvidence(
            self.records + after.records,
            self.broken.merged(after.broken),
            self.mistimed.merged(after.mistimed),
            self.keyless.merged(after.keyless),
        )


def record_evidence(partition: Partition, kernels: Choice = kernels_for, workers: int | None = None) -> RecordEvidence:
    """Return what the records of a partition say; its log is read once.

    Args:
        partition: its files.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    found = RecordEvidence()
    for segment in range(len(partition.segments)):
        found = found.merged(evidence_of(partition, Split(segment), kernels, workers))
    return found


def evidence_of(
    partition: Partition, split: Split, kernels: Choice = kernels_for, workers: int | None = None
) -> RecordEvidence:
    """Return what the records of a range of a segment say.

    Args:
        partition: its files.
        split: the range.
        kernels: as for :func:`record_evidence`, as is the next one.
        workers: see there.

    Raises:
        InputError: the segment cannot be read.
    """
    found = RecordEvidence()
    for _, evidence in looked_through(partition, split, kernels, workers):
        found = found.merged(evidence)
    return found


def looked_through(
    partition: Partition, split: Split, kernels: Choice = kernels_for, workers: int | None = None
) -> Iterator[tuple[HashColumns | None, RecordEvidence]]:
    """Yield the data records of a range of a segment, chunk by chunk, with what they say; at last, what is behind them.

    Args:
        partition: its files.
        split: the range.
        kernels: as for :func:`record_evidence`, as is the next one.
        workers: see there.

    Raises:
        InputError: the segment cannot be read.
    """
    with open_source(partition.segments[split.segment].path) as source:
        damage = _BrokenBatches(source, split.segment)
        chunks = hash_chunks(source, damage.take, kernels, start=split.start, stop=split.stop, workers=workers)
        for columns in chunks:
            yield columns, _of_chunk(columns, split.segment, damage.taken())
    yield None, RecordEvidence(broken=damage.taken())


class _BrokenBatches:
    """Takes damage as it is met, and keeps what it says of records."""

    def __init__(self, source: Source, segment: int) -> None:
        self._source, self._segment = source, segment
        self._found: list[Broken] = []
        self._count = 0

    def take(self, damage: Damage) -> None:
        """Take what is wrong with a batch, or with the bytes between two."""
        if damage.inside_batch is None or damage.reason in NOT_OF_RECORDS:
            return
        self._count += 1
        if len(self._found) < MOST:
            place = _place_at(self._source, self._segment, damage.inside_batch)
            self._found += [Broken(place, damage.reason, damage.detail)] if place else []

    def taken(self) -> First[Broken]:
        """Return what was taken since this was last asked for."""
        found = First(tuple(self._found), self._count)
        self._found, self._count = [], 0
        return found


def _place_at(source: Source, segment: int, position: int) -> Place | None:
    batch = next(iter(Walk(source, position).step()), None)
    if not isinstance(batch, Batch):
        return None  # the file has changed since
    first_offset = batch.last_offset if batch.base_offset is None else batch.base_offset
    producer = (-1 if number is None else number for number in (batch.producer_id, batch.producer_epoch))
    return Place(segment, position, first_offset, batch.last_offset, *producer)


def _of_chunk(columns: HashColumns, segment: int, unread: First[Broken]) -> RecordEvidence:
    ends = np.cumsum(columns.records)
    starts = ends - columns.records
    return RecordEvidence(
        len(columns),
        _in_order(unread, _misplaced(columns, segment, starts, ends)),
        _mistimed(columns, segment, starts),
        _keyless(columns, segment, ends),
    )


def _in_order(one: First[Broken], other: First[Broken]) -> First[Broken]:
    """Return the batches of the same chunk together."""
    if not (one.count and other.count):
        return one if one.count else other
    items = sorted((*one.items, *other.items), key=lambda broken: broken.place.position)
    return First(tuple(items[:MOST]), one.count + other.count)


def _misplaced(columns: HashColumns, segment: int, starts: Records, ends: Records) -> First[Broken]:
    """Return the batches of which the offsets of records do not ascend, or lie outside.

    Only format 2 has offsets that nothing else follows from. Differences within a batch are right even where offsets
    go round.
    """
    steps = np.diff(columns.offset)
    steps[ends[:-1] - 1] = 1
    fall = steps <= 0
    base = columns.base_offset
    outside = columns.offset[starts] - base < 0
    outside |= columns.offset[ends - 1] - base > columns.last_offset - base
    falls = np.zeros(len(base), bool)
    if fall.any():
        falls[np.searchsorted(ends, np.flatnonzero(fall), side="right")] = True
    wrong = (falls | outside) & (columns.magic >= FIRST_WITH_DELTAS)
    if not wrong.any():
        return First()
    items = (
        Broken(place, OFFSETS, _of_offsets(place, falls=bool(falls[batch])))
        for batch, place in _places(columns, segment, wrong)
    )
    return _first(items, wrong)


def _of_offsets(place: Place, *, falls: bool) -> str:
    if falls:
        return "the offsets of its records do not ascend"
    return f"its records have offsets that are not from {place.first_offset} to {place.last_offset}"


def _mistimed(columns: HashColumns, segment: int, starts: Records) -> First[Mistimed]:
    """Return the batches whose records say another largest timestamp.

    Records with log append time take that of the header. The cleaner takes it anew from those it leaves. A wrapper of
    format 1 may hold messages of format 0, which have no timestamps (KAFKA-4298).
    """
    latest = np.maximum.reduceat(columns.timestamp, starts)
    wrong = latest != columns.max_timestamp
    if not wrong.any():
        return First()
    wrong &= (columns.is_whole != 0) & (columns.attributes & LOG_APPEND_TIME_BIT == 0)
    wrong &= (columns.magic >= FIRST_WITH_DELTAS) | ((columns.magic == 1) & (latest != NO_TIMESTAMP))
    items = (
        Mistimed(place, int(columns.max_timestamp[batch]), int(latest[batch]))
        for batch, place in _places(columns, segment, wrong)
    )
    return _first(items, wrong)


def _keyless(columns: HashColumns, segment: int, ends: Records) -> Keyless:
    count = int(columns.is_keyless.sum())
    if not count:
        return Keyless()
    first = int(columns.is_keyless.argmax())
    last = len(columns) - 1 - int(columns.is_keyless[::-1].argmax())
    place = _place(columns, segment, int(np.searchsorted(ends, first, side="right")))
    return Keyless(count, place, int(columns.offset[first]), int(columns.offset[last]))


def _first(items: Iterable[Item], which: Records) -> First[Item]:
    return First(tuple(islice(items, MOST)), int(np.count_nonzero(which)))


def _places(columns: HashColumns, segment: int, which: Records) -> Iterator[tuple[int, Place]]:
    for batch in np.flatnonzero(which)[:MOST].tolist():
        yield batch, _place(columns, segment, batch)


def _place(columns: HashColumns, segment: int, batch: int) -> Place:
    names = ("position", "base_offset", "last_offset", "producer_id", "producer_epoch")
    return Place(segment, *(int(getattr(columns, name)[batch]) for name in names))
