"""Checks the offset and time indexes of a partition while its log is read: evidence that merges in any grouping.

A segment's entries are kept, with a byte of marks each, until all of the segment has been seen; then only what is wrong
is left of them. So a job holds the indexes of one or two segments, however long the log.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from typing import Any

import numpy as np

from kforensics.forensics.core.portable import Portable
from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.partition.index_entries import FAULT, IndexEntries, offset_index_entries, time_index_entries
from kforensics.forensics.partition.offset_index_evidence import offset_index_faults, offset_index_marks
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.time_index_evidence import seen, time_index_faults, time_index_marks
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.files.discover import FoundFile

__all__ = ["MOST", "NO_EVIDENCE", "IndexEvidence", "IndexFaults", "IndexWatch"]

# Faults to keep of each family in a partition: the first ones in the order of the log.
MOST = 1000
FAMILIES = 3


@dataclass(frozen=True, slots=True)
class IndexFaults:
    """What is wrong with the indexes of a partition.

    Attributes:
        corrupt: FAULT rows of offset indexes that are none; the first MOST, as are the next two.
        misfits: of entries of offset indexes that do not fit the log.
        times: of time indexes.
        counts: how many of each there are.
    """

    corrupt: Records
    misfits: Records
    times: Records
    counts: tuple[int, int, int]


NO_ENTRIES = IndexEntries()


@dataclass(frozen=True, slots=True)
class _Segment(Portable):
    """What has been seen of one segment.

    Attributes:
        number: its number in the partition.
        log_size: bytes of the ``.log``.
        is_closed: whether it is not the last one.
        offsets: entries of its offset index.
        times: entries of its time index.
        offset_marks: a byte for each entry.
        time_marks: likewise.
        covered: bytes of batches.
        end: position behind the last batch.
        largest: largest timestamp.
    """

    number: int
    log_size: int
    is_closed: bool
    offsets: IndexEntries
    times: IndexEntries
    offset_marks: Any
    time_marks: Any
    covered: int = 0
    end: int = 0
    largest: int = NO_TIME

    @classmethod
    def of(cls, partition: Partition, number: int) -> _Segment:
        """Return a segment of which nothing has been seen yet, its indexes read."""
        log = partition.segments[number]
        base, is_closed = log.base_offset or 0, number < len(partition.segments) - 1
        return _unseen(log, partition.indexes.get(base), partition.time_indexes.get(base), number, is_closed)

    def without_entries(self) -> _Segment:
        """Return what travels: the entries are read again where it arrives."""
        return replace(self, offsets=NO_ENTRIES, times=NO_ENTRIES)

    def with_entries(self, of: _Segment) -> _Segment:
        """Return this with the entries of the same segment."""
        return replace(self, offsets=of.offsets, times=of.times)

    def with_batches(self, batches: BatchColumns) -> _Segment:
        """Return what a chunk of its batches alone says."""
        return replace(
            self,
            offset_marks=offset_index_marks(self.offsets, batches),
            time_marks=time_index_marks(self.times, batches),
            covered=int(batches.size.sum()),
            end=int(batches.position[-1] + batches.size[-1]),
            largest=int(batches.max_timestamp.max()),
        )

    def merged(self, after: _Segment) -> _Segment:
        """Return what this part and the one behind it say together."""
        return replace(
            self,
            offset_marks=self.offset_marks | after.offset_marks,
            time_marks=self.time_marks | seen(self.times, after.time_marks, self.largest),
            covered=self.covered + after.covered,
            end=max(self.end, after.end),
            largest=max(self.largest, after.largest),
        )

    @property
    def is_complete(self) -> bool:
        """Whether all bytes of the log have been seen; one that is damaged never is."""
        return self.covered >= self.log_size

    def faults(self) -> tuple[Records, Records, Records]:
        """Return what is wrong, by family, once nothing more of the segment will come."""
        is_whole = self.covered >= self.end
        misfits = offset_index_faults(self.offsets, self.offset_marks, self.number, self.end, is_whole=is_whole)
        times = time_index_faults(
            self.times, self.time_marks, self.number, self.largest, is_closed=self.is_closed, is_whole=is_whole
        )
        return self.offsets.faults, misfits, joined_records([self.times.faults, times])


# Splits of a segment come one after the other, and each wants its indexes.
@lru_cache(maxsize=2)
def _unseen(
    log: FoundFile, index: FoundFile | None, time_index: FoundFile | None, number: int, is_closed: bool
) -> _Segment:
    offsets = offset_index_entries(index, number, is_closed=is_closed)
    times = time_index_entries(time_index, number, is_closed=is_closed)
    unmarked = np.zeros(len(offsets), np.uint8), np.zeros(len(times), np.uint8)
    return _Segment(number, log.size, is_closed, offsets, times, *unmarked)


@dataclass(frozen=True, slots=True)
class IndexEvidence(Portable):
    """What a part of a partition's log says of its indexes.

    Attributes:
        segments: those of which more may come, in the order of the log.
        faults: FAULT rows of the others, by family; the first MOST of each.
        counts: how many faults of each family the others have.
    """

    segments: tuple[_Segment, ...] = ()
    faults: tuple[Records, ...] = field(default_factory=partial(tuple, [np.empty(0, FAULT)] * FAMILIES))
    counts: tuple[int, ...] = (0,) * FAMILIES

    def merged(self, after: IndexEvidence) -> IndexEvidence:
        """Return the evidence of two parts, of which the other one follows this one in the log."""
        left, right = self.segments, after.segments
        if left and right and left[-1].number == right[0].number:
            left, right = (*left[:-1], left[-1].merged(right[0])), right[1:]
        segments = left + right
        # Between two segments of the part none can be that has more to come.
        done = [one for one in segments if one.is_complete] + [one for one in segments[1:-1] if not one.is_complete]
        numbers = {one.number for one in done}
        return IndexEvidence(
            tuple(one for one in segments if one.number not in numbers),
            *_together([(self.faults, self.counts), (after.faults, after.counts), *map(_weighed, done)]),
        )

    def without_entries(self) -> IndexEvidence:
        """Return the evidence as it travels from one process to another."""
        return replace(self, segments=tuple(one.without_entries() for one in self.segments))

    def with_entries(self, partition: Partition) -> IndexEvidence:
        """Return evidence that has travelled, with the entries of the indexes read again."""
        arrived = (one.with_entries(_Segment.of(partition, one.number)) for one in self.segments)
        return replace(self, segments=tuple(arrived))

    def finish(self, partition: Partition, seen_segments: Collection[int]) -> IndexFaults:
        """Return what is wrong, once all parts are merged.

        Args:
            partition: its files.
            seen_segments: numbers of the segments that have batches; the indexes of the others are read now.
        """
        empty = [_Segment.of(partition, n) for n in range(len(partition.segments)) if n not in seen_segments]
        faults, counts = _together([(self.faults, self.counts), *map(_weighed, (*self.segments, *empty))])
        return IndexFaults(faults[0], faults[1], faults[2], (counts[0], counts[1], counts[2]))


NO_EVIDENCE = IndexEvidence()

Weighed = tuple[tuple[Records, ...], tuple[int, ...]]


def _weighed(segment: _Segment) -> Weighed:
    faults = segment.faults()
    return faults, tuple(map(len, faults))


def _together(parts: Iterable[Weighed]) -> Weighed:
    """Return faults of several parts by family and in order, the first MOST of each, and how many there are."""
    parts = list(parts)
    faults = [joined_records([part[0][family] for part in parts]) for family in range(FAMILIES)]
    counts = [sum(part[1][family] for part in parts) for family in range(FAMILIES)]
    return tuple(_first(rows) for rows in faults), tuple(counts)


def _first(rows: Records) -> Records:
    if len(rows) < 2:  # as in nearly all partitions, of which there may be very many
        return rows
    order = np.lexsort((rows["fault"], rows["position"], rows["segment"]))
    first: Records = rows[order[:MOST]]
    return first


class IndexWatch:
    """Looks at the batches of a partition as they go by, chunk after chunk.

    Args:
        partition: its files.

    Attributes:
        evidence: what they say so far of the indexes.
    """

    def __init__(self, partition: Partition) -> None:
        self.evidence = NO_EVIDENCE
        self._partition = partition
        self._segment: _Segment | None = None

    def see(self, batches: BatchColumns) -> None:
        """Take the next chunk, which is of one segment."""
        if not len(batches):
            return
        number = int(batches.segment[0])
        if self._segment is None or self._segment.number != number:
            self._segment = _Segment.of(self._partition, number)
        self.evidence = self.evidence.merged(IndexEvidence((self._segment.with_batches(batches),)))
