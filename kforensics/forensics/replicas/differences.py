"""Finds the offset ranges in which two replicas differ, and what each replica has there.

Batches are matched by base offset, and each pair is classified.

Ranges are listed one by one, except for two kinds, which are one range per pair of replicas: what a cleaner explains,
because every broker cleans on its own schedule, and what is before the start of one of the two logs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.replicas.batch_windows import ReplicaBatches
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.columns.batch_columns import EMPTY_CONTROL_BATCH
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import CONTROL_BIT, TRANSACTIONAL_BIT

# What the cleaner keeps when it removes records from a batch.
KEPT = ("last_offset", "leader_epoch", "producer_id", "producer_epoch", "base_sequence")
KEPT_BITS = TRANSACTIONAL_BIT | CONTROL_BIT


class BatchMatch:
    """How the batches of two replicas at the same base offset compare; values above 0 are differences."""

    SAME = 0
    # The same bytes except for the leader epoch, which the checksum does not cover.
    LEADER_EPOCH = 1
    # The checksum of the first or of the second one does not match.
    FIRST_DAMAGED = 2
    SECOND_DAMAGED = 3
    # The cleaner may have produced one from the other.
    PARTIALLY_COMPACTED = 4
    # One side has no batch that contains the offset.
    ONE_SIDED = 5
    # No cleaner can have produced the difference.
    INCOMPATIBLE = 6


@dataclass(frozen=True, slots=True)
class AlignedBatches:
    """A window of two replicas.

    Attributes:
        sides: the batches of each replica.
        offsets: all base offsets of both.
        indexes: for each side, the index of its batch at each offset, -1 without one.
        match: the BatchMatch at each offset.
    """

    sides: tuple[ReplicaBatches, ReplicaBatches]
    offsets: IntArray
    indexes: tuple[IntArray, IntArray]
    match: IntArray

    def batches(self, side: int, selected: IntArray | BoolArray) -> ReplicaBatches:
        """Return the batches that one side has at some of the offsets.

        Args:
            side: 0 or 1.
            selected: mask or indexes of the offsets.
        """
        indexes = self.indexes[side][selected]
        return self.sides[side][indexes[indexes >= 0]]


def align_batches(first: ReplicaBatches, second: ReplicaBatches) -> AlignedBatches:
    """Return the batches of a window matched by base offset."""
    offsets = _union(first.columns.base_offset, second.columns.base_offset)
    indexes = _indexes(first, offsets), _indexes(second, offsets)
    match = np.full(len(offsets), BatchMatch.ONE_SIDED, "i1")
    both = (indexes[0] >= 0) & (indexes[1] >= 0)
    match[both] = _compared(first[indexes[0][both]], second[indexes[1][both]])
    for own, others, batches in ((indexes[0], second, first), (indexes[1], first, second)):
        alone = np.flatnonzero(~both & (own >= 0))
        match[alone[_overlap(batches[own[alone]], others)]] = BatchMatch.INCOMPATIBLE
    return AlignedBatches((first, second), offsets, indexes, match)


def _union(first: IntArray, second: IntArray) -> IntArray:
    """Return the distinct numbers of two ascending sequences, which are usually the same."""
    if np.array_equal(first, second):
        return first
    both = np.concatenate([first, second])
    both.sort(kind="stable")  # merges sorted runs
    is_new = np.ones(len(both), bool)
    is_new[1:] = both[1:] != both[:-1]
    return both[is_new]


def _indexes(batches: ReplicaBatches, offsets: IntArray) -> IntArray:
    if len(batches) == len(offsets):
        return np.arange(len(offsets))
    indexes = np.full(len(offsets), -1, "i8")
    indexes[np.searchsorted(offsets, batches.columns.base_offset)] = np.arange(len(batches))
    return indexes


def _compared(first: ReplicaBatches, second: ReplicaBatches) -> IntArray:
    """Return the BatchMatch of batches with the same base offsets."""
    one, other = first.columns, second.columns
    bytes_differ = (first.crc != second.crc) | (one.size != other.size) | (one.magic != other.magic)
    epochs_differ = one.leader_epoch != other.leader_epoch
    damaged = one.crc_valid != other.crc_valid
    equal = np.where(epochs_differ, BatchMatch.LEADER_EPOCH, BatchMatch.SAME)
    may_be_compacted = _may_be_compacted(first, second)
    unequal = np.where(may_be_compacted, BatchMatch.PARTIALLY_COMPACTED, BatchMatch.INCOMPATIBLE)
    damage = np.where(other.crc_valid, BatchMatch.FIRST_DAMAGED, BatchMatch.SECOND_DAMAGED)
    return np.where(damaged, damage, np.where(bytes_differ, unequal, equal))


def _may_be_compacted(first: ReplicaBatches, second: ReplicaBatches) -> BoolArray:
    """Return whether two batches agree in everything that the cleaner keeps, and markers in their outcome."""
    one, other = first.columns, second.columns
    agree = (one.attributes & KEPT_BITS) == (other.attributes & KEPT_BITS)
    for name in KEPT:
        agree &= getattr(one, name) == getattr(other, name)
    is_empty = (one.control == EMPTY_CONTROL_BATCH) | (other.control == EMPTY_CONTROL_BATCH)
    may_be_compacted: BoolArray = agree & ((one.control == other.control) | is_empty)
    return may_be_compacted


def _overlap(batches: ReplicaBatches, others: ReplicaBatches) -> BoolArray:
    """Return which batches share offsets with one of the other side; no cleaner moves the borders of a batch."""
    if not len(others):
        return np.zeros(len(batches), bool)
    own, other = batches.columns, others.columns
    # Of the other batches, the last one that begins at or before the last offset reaches furthest.
    index = np.searchsorted(other.base_offset, own.last_offset, side="right") - 1
    overlap: BoolArray = (index >= 0) & (other.last_offset[index] >= own.base_offset)
    return overlap


# Producer ids to list; a range may have millions.
MAX_LISTED_PRODUCERS = 20
NO_BATCH = -1


class DifferenceKind(StrEnum):
    """How two replicas differ in a range."""

    # Both have batches there, but different ones.
    DIVERGED = "diverged"
    # The same bytes except for the leader epoch, which the checksum does not cover.
    LEADER_EPOCH = "leader-epoch"
    # The checksum of one side's batch does not match.
    DAMAGED = "damaged"
    # Only one side has batches there, and both have batches after the range.
    MISSING = "missing"
    # Only one side has batches there, and the other log ends before.
    BEHIND = "behind"
    # Only one side has batches there, and the other log starts after.
    BEFORE_START = "before-start"
    # The cleaner processed one side, or both to a different extent.
    CLEANED = "cleaned"


@dataclass(frozen=True, slots=True)
class SideSummary:
    """What one replica has in a range.

    Attributes:
        batches: number of batches that begin there.
        records: number of records of users in them.
        markers: number of control batches.
        bytes: size of all of them.
        producer_ids: the first producer ids, a limited number.
        leader_epochs: lowest and highest leader epoch, None without batches.
        timestamps: smallest and largest maximum timestamp in ms, None without batches.
        at: segment and position of the first batch, None without batches.
    """

    batches: int = 0
    records: int = 0
    markers: int = 0
    bytes: int = 0
    producer_ids: tuple[int, ...] = ()
    leader_epochs: tuple[int, int] | None = None
    timestamps: tuple[int, int] | None = None
    at: tuple[int, int] | None = None

    @classmethod
    def of(cls, batches: ReplicaBatches) -> SideSummary:
        """Return the summary of some batches."""
        columns = batches.columns
        if not len(columns):
            return cls()
        is_data = columns.control < 0
        producers = np.unique(columns.producer_id[columns.producer_id >= 0])[:MAX_LISTED_PRODUCERS]
        return cls(
            batches=len(columns),
            records=int(columns.count[is_data].sum()),
            markers=int((~is_data).sum()),
            bytes=int(columns.size.sum()),
            producer_ids=tuple(producers.tolist()),
            leader_epochs=(int(columns.leader_epoch.min()), int(columns.leader_epoch.max())),
            timestamps=(int(columns.max_timestamp.min()), int(columns.max_timestamp.max())),
            at=(int(columns.segment[0]), int(columns.position[0])),
        )

    def merged(self, after: SideSummary) -> SideSummary:
        """Return the summary of this range and the following one."""
        if not (self.batches and after.batches):
            return self if self.batches else after
        return SideSummary(
            self.batches + after.batches,
            self.records + after.records,
            self.markers + after.markers,
            self.bytes + after.bytes,
            tuple(sorted({*self.producer_ids, *after.producer_ids})[:MAX_LISTED_PRODUCERS]),
            _extremes(self.leader_epochs, after.leader_epochs),
            _extremes(self.timestamps, after.timestamps),
            self.at,
        )


def _extremes(first: tuple[int, int] | None, second: tuple[int, int] | None) -> tuple[int, int] | None:
    ends = [*(first or ()), *(second or ())]
    return (min(ends), max(ends)) if ends else None


@dataclass(frozen=True, slots=True)
class Difference:
    """A range of offsets in which two replicas differ.

    Attributes:
        first: number of the first replica.
        second: number of the second replica.
        kind: how they differ.
        first_offset: first offset of the first batch that differs.
        last_offset: last offset of the last batch that differs.
        sides: the differing batches of each replica.
        left_out: number of further ranges of this pair that are not listed.
    """

    first: int
    second: int
    kind: DifferenceKind
    first_offset: int
    last_offset: int
    sides: tuple[SideSummary, SideSummary]
    left_out: int = 0

    def merged(self, after: Difference) -> Difference:
        """Return this range and the following one as one."""
        first, second = (own.merged(following) for own, following in zip(self.sides, after.sides, strict=True))
        return replace(
            self,
            first_offset=min(self.first_offset, after.first_offset),
            last_offset=max(self.last_offset, after.last_offset),
            sides=(first, second),
        )


class DifferenceFinder:
    """Collects the ranges in which two replicas differ, window by window.

    Args:
        first: the first replica.
        second: the second replica.

    Attributes:
        common: number of batches that are the same on both sides.
    """

    def __init__(self, first: Replica, second: Replica) -> None:
        self._replicas = first, second
        self._start = max(first.first_offset, second.first_offset)
        self._before_start: Difference | None = None
        self._cleaned: Difference | None = None
        self._listed: list[Difference] = []
        self._open: tuple[int, Difference] | None = None
        self._left_out = 0
        self.common = 0

    def add(self, first: ReplicaBatches, second: ReplicaBatches) -> tuple[ReplicaBatches, ReplicaBatches]:
        """Add a window.

        Returns:
            The batches of each side that a cleaner may have produced from those of the other side.
        """
        window = align_batches(first, second)
        differs = window.match != BatchMatch.SAME
        self.common += int((~differs).sum())
        early = differs & (window.offsets < self._start)
        cleaned = ~early & self._is_cleaned(window)
        self._before_start = self._extended(self._before_start, DifferenceKind.BEFORE_START, window, early)
        self._cleaned = self._extended(self._cleaned, DifferenceKind.CLEANED, window, cleaned)
        self._list(window, np.where(early | cleaned, BatchMatch.SAME, window.match))
        partially_compacted = np.flatnonzero(cleaned & (window.match == BatchMatch.PARTIALLY_COMPACTED))
        return window.batches(0, partially_compacted), window.batches(1, partially_compacted)

    def _is_cleaned(self, window: AlignedBatches) -> BoolArray:
        """Return which differences a cleaner explains: the side with fewer records was cleaned there."""
        counts = [self._record_counts(window, side) for side in (0, 1)]
        may_be_cleaned = (window.match == BatchMatch.PARTIALLY_COMPACTED) | (window.match == BatchMatch.ONE_SIDED)
        reached = [self._is_compacted(window, side, counts[side]) for side in (0, 1)]
        by_first = (counts[0] <= counts[1]) & reached[0]
        by_second = (counts[1] <= counts[0]) & reached[1]
        is_cleaned: BoolArray = may_be_cleaned & (by_first | by_second)
        return is_cleaned

    def _is_compacted(self, window: AlignedBatches, side: int, counts: IntArray) -> BoolArray:
        """Return at which offsets one side may lack records because of a cleaner: its own, or that of its leader."""
        replica = self._replicas[side]
        is_absent = (counts == NO_BATCH) & (window.offsets < min(replica.first_fetched_whole, replica.end))
        is_compacted: BoolArray = is_absent | (window.offsets < replica.first_uncompacted_offset)
        return is_compacted

    @staticmethod
    def _record_counts(window: AlignedBatches, side: int) -> IntArray:
        """Return the number of records of one side at each offset, -1 without a batch."""
        counts = np.append(window.sides[side].columns.count, NO_BATCH)
        at_offsets: IntArray = counts[window.indexes[side]]
        return at_offsets

    def _extended(
        self, before: Difference | None, kind: DifferenceKind, window: AlignedBatches, selected: BoolArray
    ) -> Difference | None:
        if not selected.any():
            return before
        difference = self._difference(kind, window, np.flatnonzero(selected))
        return difference if before is None else before.merged(difference)

    def _difference(self, kind: DifferenceKind, window: AlignedBatches, indexes: IntArray) -> Difference:
        batches = [window.batches(side, indexes) for side in (0, 1)]
        last = max(int(side.columns.last_offset.max(initial=-1)) for side in batches)
        summaries = SideSummary.of(batches[0]), SideSummary.of(batches[1])
        first, second = self._replicas
        return Difference(first.number, second.number, kind, int(window.offsets[indexes[0]]), last, summaries)

    def _list(self, window: AlignedBatches, matches: IntArray) -> None:
        """List the differences that no cleaner explains; neighbors of the same kind are one range."""
        kinds = np.minimum(matches, BatchMatch.PARTIALLY_COMPACTED)
        for start, stop in _runs(kinds):
            match = int(kinds[start])
            if match == BatchMatch.SAME:
                self._close()
                continue
            difference = self._difference(_KINDS[match], window, np.arange(start, stop))
            if self._open is not None and self._open[0] != match:
                self._close()
            self._open = match, difference if self._open is None else self._open[1].merged(difference)

    def _close(self) -> None:
        if self._open is None:
            return
        _, difference = self._open
        self._open = None
        if difference.kind is DifferenceKind.DIVERGED:
            difference = replace(difference, kind=self._kind(difference))
        if len(self._listed) < MOST:
            self._listed.append(difference)
        else:
            self._left_out += 1

    def _kind(self, difference: Difference) -> DifferenceKind:
        """Return the kind of a range in which the two replicas have different batches."""
        if difference.sides[0].batches and difference.sides[1].batches:
            return DifferenceKind.DIVERGED
        absent = self._replicas[1 if difference.sides[0].batches else 0]
        return DifferenceKind.BEHIND if difference.first_offset >= absent.end else DifferenceKind.MISSING

    def finish(self) -> Iterator[Difference]:
        """Yield the ranges in log order; call it after all windows."""
        self._close()
        ranges = [difference for difference in (self._before_start, self._cleaned) if difference is not None]
        ranges += self._listed
        if self._left_out:
            ranges[-1] = replace(ranges[-1], left_out=self._left_out)
        yield from ranges


# In a range that no cleaner reached, batches that one could have produced count as diverged too.
_KINDS = {
    BatchMatch.LEADER_EPOCH: DifferenceKind.LEADER_EPOCH,
    BatchMatch.FIRST_DAMAGED: DifferenceKind.DAMAGED,
    BatchMatch.SECOND_DAMAGED: DifferenceKind.DAMAGED,
    BatchMatch.PARTIALLY_COMPACTED: DifferenceKind.DIVERGED,
}


def _runs(values: IntArray) -> Sequence[tuple[int, int]]:
    """Return the runs of equal values as start and stop."""
    if not len(values):
        return ()
    starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    return tuple(zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=True))
