"""Check the offset and time indexes of a partition while its log is read: evidence that merges in any grouping.

The entries of a segment are kept, with a byte of flags each, until the whole segment has been seen; after that only
the faults remain. So a job keeps the indexes of one or two segments in memory, however long the log is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from hashlib import blake2b
from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.core.record_types import NO_TIME, Portable
from kforensics.forensics.partition.index_entries import (
    INDEX_FAULT,
    IndexEntries,
    IndexFaultArray,
    offset_index_entries,
    time_index_entries,
)
from kforensics.forensics.partition.index_entry_faults import (
    offset_entry_flags,
    offset_index_faults,
    time_entry_flags,
    time_index_faults,
    with_larger_before,
)
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.files.discover import FoundFile

# Faults of each category to keep per partition: the first ones in log order.
MAX_INDEX_FAULTS = 1000
CATEGORIES = 3
DIGEST_SIZE = 16


@dataclass(frozen=True, slots=True)
class IndexFaults:
    """What is wrong with the indexes of a partition.

    Attributes:
        corrupt: INDEX_FAULT rows of invalid offset indexes, the first MAX_INDEX_FAULTS.
        misfits: the same for entries of offset indexes that do not match the log.
        times: the same for time indexes.
        counts: total number of faults in each of the three categories.
    """

    corrupt: IndexFaultArray
    misfits: IndexFaultArray
    times: IndexFaultArray
    counts: tuple[int, int, int]


NO_ENTRIES = IndexEntries()


@dataclass(frozen=True, slots=True)
class SegmentEvidence(Portable):
    """What has been seen of one segment.

    Attributes:
        number: its number in the partition.
        log_size: bytes of the ``.log``.
        is_closed: whether it is not the last segment.
        offsets: entries of its offset index.
        times: entries of its time index.
        offset_flags: a byte for each entry of the offset index.
        time_flags: a byte for each entry of the time index.
        covered: bytes of batches seen.
        end: position after the last batch.
        largest: largest timestamp.
    """

    number: int
    log_size: int
    is_closed: bool
    offsets: IndexEntries
    times: IndexEntries
    offset_flags: Any
    time_flags: Any
    covered: int = 0
    end: int = 0
    largest: int = NO_TIME

    @classmethod
    def of(cls, partition: Partition, number: int) -> SegmentEvidence:
        """Return the evidence of a segment before any of its batches have been seen, with its indexes read."""
        log = partition.segments[number]
        base, is_closed = log.base_offset or 0, number < len(partition.segments) - 1
        return _unseen(log, partition.indexes.get(base), partition.time_indexes.get(base), number, is_closed)

    def without_entries(self) -> SegmentEvidence:
        """Return what is sent to another process, which reads the entries again."""
        return replace(self, offsets=NO_ENTRIES, times=NO_ENTRIES)

    def with_entries(self, source: SegmentEvidence) -> SegmentEvidence:
        """Return this evidence with the entries from other evidence of the same segment."""
        return replace(self, offsets=source.offsets, times=source.times)

    def entries_digest(self, offsets: int, times: int) -> bytes:
        """Return a hash of the first entries of both indexes.

        Args:
            offsets: number of entries of the offset index.
            times: number of entries of the time index.
        """
        digest = blake2b(digest_size=DIGEST_SIZE)
        for entries, count in ((self.offsets, offsets), (self.times, times)):
            for numbers in (entries.offsets[:count], entries.values[:count]):
                digest.update(numbers.tobytes())
        return digest.digest()

    def has_newer_entries_only(self, offsets: int, times: int, end: int, highest_offset: int) -> bool:
        """Return whether all entries after the first ones are about batches after a chunk, which sets no flags of them.

        Args:
            offsets: number of the first entries of the offset index.
            times: the same for the time index.
            end: position after the chunk.
            highest_offset: largest offset in it.
        """
        newer = self.offsets.offsets[offsets:], self.times.offsets[times:]
        return bool((newer[0] > highest_offset).all() and (newer[1] > highest_offset).all()) and bool(
            (self.offsets.values[offsets:] >= end).all()
        )

    def with_flags(self, offset_flags: Any, time_flags: Any, covered: int, end: int, largest: int) -> SegmentEvidence:
        """Return the evidence of a chunk whose flags are known; entries that are newer than these have none."""
        flags = np.zeros(len(self.offsets), np.uint8), np.zeros(len(self.times), np.uint8)
        flags[0][: len(offset_flags)], flags[1][: len(time_flags)] = offset_flags, time_flags
        return replace(self, offset_flags=flags[0], time_flags=flags[1], covered=covered, end=end, largest=largest)

    def with_batches(self, batches: BatchColumns) -> SegmentEvidence:
        """Return the evidence of one chunk of its batches alone."""
        return replace(
            self,
            offset_flags=offset_entry_flags(self.offsets, batches),
            time_flags=time_entry_flags(self.times, batches),
            covered=int(batches.size.sum()),
            end=int(batches.position[-1] + batches.size[-1]),
            largest=int(batches.max_timestamp.max()),
        )

    def merged(self, after: SegmentEvidence) -> SegmentEvidence:
        """Return the evidence of this part and the one after it."""
        return replace(
            self,
            offset_flags=self.offset_flags | after.offset_flags,
            time_flags=self.time_flags | with_larger_before(self.times, after.time_flags, self.largest),
            covered=self.covered + after.covered,
            end=max(self.end, after.end),
            largest=max(self.largest, after.largest),
        )

    @property
    def is_complete(self) -> bool:
        """Whether all bytes of the log have been seen; never true for a damaged log."""
        return self.covered >= self.log_size

    def faults(self) -> tuple[IndexFaultArray, IndexFaultArray, IndexFaultArray]:
        """Return the faults by category, once no more batches of the segment follow."""
        is_whole = self.covered >= self.end
        misfits = offset_index_faults(self.offsets, self.offset_flags, self.number, self.end, is_whole=is_whole)
        times = time_index_faults(
            self.times, self.time_flags, self.number, self.largest, is_closed=self.is_closed, is_whole=is_whole
        )
        return self.offsets.faults, misfits, concat_rows([self.times.faults, times])


# Splits of a segment are read one after the other, and each needs the segment's indexes.
@lru_cache(maxsize=2)
def _unseen(
    log: FoundFile, index: FoundFile | None, time_index: FoundFile | None, number: int, is_closed: bool
) -> SegmentEvidence:
    offsets = offset_index_entries(index, number, is_closed=is_closed)
    times = time_index_entries(time_index, number, is_closed=is_closed)
    no_flags = np.zeros(len(offsets), np.uint8), np.zeros(len(times), np.uint8)
    return SegmentEvidence(number, log.size, is_closed, offsets, times, *no_flags)


@dataclass(frozen=True, slots=True)
class IndexEvidence(Portable):
    """What a part of a partition's log shows about its indexes.

    Attributes:
        segments: evidence of the segments whose batches may continue in other parts, in log order.
        faults: INDEX_FAULT rows of the other segments by category, the first MAX_INDEX_FAULTS of each.
        counts: total number of faults of the other segments by category.
    """

    segments: tuple[SegmentEvidence, ...] = ()
    faults: tuple[IndexFaultArray, ...] = field(default_factory=partial(tuple, [np.empty(0, INDEX_FAULT)] * CATEGORIES))
    counts: tuple[int, ...] = (0,) * CATEGORIES

    def merged(self, after: IndexEvidence) -> IndexEvidence:
        """Return the evidence of this part and the one that follows it in the log."""
        left, right = self.segments, after.segments
        if left and right and left[-1].number == right[0].number:
            left, right = (*left[:-1], left[-1].merged(right[0])), right[1:]
        segments = left + right
        # Segments between the first and the last one of the part cannot continue in other parts.
        done = [segment for segment in segments if segment.is_complete]
        done += [segment for segment in segments[1:-1] if not segment.is_complete]
        numbers = {segment.number for segment in done}
        return IndexEvidence(
            tuple(segment for segment in segments if segment.number not in numbers),
            *_combined([(self.faults, self.counts), (after.faults, after.counts), *map(_counted_faults, done)]),
        )

    def without_entries(self) -> IndexEvidence:
        """Return the evidence as it is sent from one process to another."""
        return replace(self, segments=tuple(segment.without_entries() for segment in self.segments))

    def with_entries(self, partition: Partition) -> IndexEvidence:
        """Return evidence received from another process, with the entries of the indexes read again."""
        from_wire = (segment.with_entries(SegmentEvidence.of(partition, segment.number)) for segment in self.segments)
        return replace(self, segments=tuple(from_wire))

    def finish(self, partition: Partition, seen_segments: Collection[int]) -> IndexFaults:
        """Return the faults, once all parts are merged.

        Args:
            partition: its files.
            seen_segments: numbers of the segments that have batches; the indexes of the others are read now.
        """
        unseen = [SegmentEvidence.of(partition, n) for n in range(len(partition.segments)) if n not in seen_segments]
        faults, counts = _combined([(self.faults, self.counts), *map(_counted_faults, (*self.segments, *unseen))])
        return IndexFaults(faults[0], faults[1], faults[2], (counts[0], counts[1], counts[2]))


NO_EVIDENCE = IndexEvidence()

CountedFaults = tuple[tuple[IndexFaultArray, ...], tuple[int, ...]]


def _counted_faults(segment: SegmentEvidence) -> CountedFaults:
    faults = segment.faults()
    return faults, tuple(map(len, faults))


def _combined(parts: Iterable[CountedFaults]) -> CountedFaults:
    """Return the faults of several parts by category in log order, the first ones of each, and their counts."""
    parts = list(parts)
    faults = [concat_rows([part[0][category] for part in parts]) for category in range(CATEGORIES)]
    counts = [sum(part[1][category] for part in parts) for category in range(CATEGORIES)]
    return tuple(_first_faults(rows) for rows in faults), tuple(counts)


def _first_faults(rows: IndexFaultArray) -> IndexFaultArray:
    if len(rows) < 2:  # the usual case; there may be very many partitions
        return rows
    order = np.lexsort((rows["fault"], rows["position"], rows["segment"]))
    first: IndexFaultArray = rows[order[:MAX_INDEX_FAULTS]]
    return first


class IndexWatch:
    """Takes the batches of a partition, chunk after chunk, and returns the evidence of each.

    Args:
        partition: its files.
    """

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self._segment: SegmentEvidence | None = None

    def see(self, batches: BatchColumns) -> IndexEvidence:
        """Return the evidence of the next chunk alone, whose batches are all in one segment."""
        if not len(batches):
            return NO_EVIDENCE
        number = int(batches.segment[0])
        if self._segment is None or self._segment.number != number:
            self._segment = SegmentEvidence.of(self._partition, number)
        return IndexEvidence((self._segment.with_batches(batches),))
