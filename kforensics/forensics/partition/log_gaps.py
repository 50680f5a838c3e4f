"""Finds the places where a log lacks batches, so that checks do not blame what is left for what these had.

A segment may be lost, and batches may be damaged. Or a copy of a running broker lacks a segment that the cleaner merged
into another while the files were copied: the copy then has the segment before it as it was, and no merged one. Rule:
``UnifiedLog.replaceSegments``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kforensics.forensics.core.observations import ObservationArray, Observed, log_positions, observations_of
from kforensics.forensics.partition.damage_codes import code_of, is_reported
from kforensics.forensics.partition.log_places import lists_log
from kforensics.forensics.partition.partition_files import RECOVERY_POINT
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["MERGED_IN_COPY", "Lacking", "LogGaps", "SegmentBounds", "log_gaps"]

MERGED_IN_COPY = "missing segment that the cleaner merged while the files were copied"
LOST = "segment-missing"
NEVER = int(np.iinfo("i8").max)


@dataclass(frozen=True, slots=True)
class SegmentBounds:
    """Offsets of all segments, by segment number.

    Attributes:
        base: base offset, from the file name.
        first: base offset of the first batch; that of the name if there is no batch.
        highest: largest offset; one below the base offset if there is no batch.
        reached: largest offset of this segment and all before it.
    """

    base: IntArray
    first: IntArray
    highest: IntArray
    reached: IntArray

    @classmethod
    def of(cls, state: PartitionState) -> SegmentBounds:
        """Return the bounds of the segments of a partition, at least one."""
        base = np.array([segment.base_offset or 0 for segment in state.partition.segments], "i8")
        first, highest = base.copy(), base - 1
        filled = state.log.segments["segment"]
        first[filled] = state.log.segments["first_offset"]
        highest[filled] = state.log.segments["highest_offset"]
        return cls(base, first, highest, np.maximum.accumulate(highest))


class Lacking(NamedTuple):
    """What a log may lack between two offsets.

    Attributes:
        lost: whether a segment that is lost.
        merged: whether a segment that the cleaner merged during the copy.
        damage: the code of the finding about damaged batches, if there are any.
    """

    lost: bool
    merged: bool
    damage: str | None

    @property
    def any(self) -> bool:
        """Whether it may lack anything."""
        return self.lost or self.merged or self.damage is not None

    @property
    def cause(self) -> str | None:
        """The code of the finding that explains what follows from it, if there is one."""
        return LOST if self.lost else self.damage

    @property
    def benign(self) -> str:
        """What was tested, with the outcome, as findings state it."""
        if self.lost:
            return "lost segment that had the missing batches or markers: likely, one is missing here"
        if self.damage is not None:
            return "batches or markers in damaged bytes: likely, there are some here"
        return f"{MERGED_IN_COPY}: {'possible' if self.merged else 'no'}"


class Gaps(NamedTuple):
    """Ranges of offsets whose batches are missing or damaged, ascending.

    Attributes:
        before: the last offset before each range.
        after: the first offset after each range.
    """

    before: IntArray
    after: IntArray

    def any_between(self, first_offset: int, last_offset: int) -> bool:
        """Return whether one of them is between two offsets, or has one of these."""
        return bool(self.are_between(np.array([first_offset], "i8"), np.array([last_offset], "i8"))[0])

    def are_between(self, first_offsets: IntArray, last_offsets: IntArray) -> BoolArray:
        """Return for each pair of offsets whether one of the ranges is between them, or has one of them."""
        nearest = self.after.searchsorted(first_offsets, "right")
        are: BoolArray = np.append(self.before, NEVER)[nearest] < last_offsets
        return are

    def have(self, offsets: IntArray) -> BoolArray:
        """Return which offsets are in one of the ranges."""
        return self.are_between(offsets, offsets)


NOWHERE = Gaps(np.empty(0, "i8"), np.empty(0, "i8"))


@dataclass(frozen=True, slots=True)
class LogGaps:
    """The places where a log may lack batches.

    Attributes:
        merged: where the cleaner may have merged a segment during the copy.
        lost: where a segment is lost: offsets are missing that no cleaner removed.
        damaged: where batches are damaged.
        incomplete: the number of each segment after which one is lost.
        lost_end: the end of the log, if it is lost.
        damage_code: the code of the finding about the first damage.
    """

    merged: Gaps
    lost: Gaps
    damaged: Gaps
    incomplete: IntArray
    lost_end: Gaps = NOWHERE
    damage_code: str | None = None

    @property
    def has_lost_end(self) -> bool:
        """Whether the end of the log is lost."""
        return len(self.lost_end.before) > 0

    @property
    def uncertain(self) -> tuple[Gaps, ...]:
        """Where a batch may have been that is now missing or damaged."""
        return self.lost, self.lost_end, self.damaged

    def between(self, first_offset: int, last_offset: int) -> Lacking:
        """Return what the log may lack between two offsets.

        Args:
            first_offset: an offset.
            last_offset: a later one.
        """
        lost, merged, damaged = (
            gaps.any_between(first_offset, last_offset) for gaps in (self.lost, self.merged, self.damaged)
        )
        lost |= self.lost_end.any_between(first_offset, last_offset)
        return Lacking(lost, merged, self.damage_code if damaged else None)

    def damage_at(self, *offsets: int) -> str | None:
        """Return the code of the finding about damage if one of some offsets is that of a damaged batch."""
        return self.damage_code if self.damaged.have(np.array(offsets, "i8")).any() else None


def log_gaps(state: PartitionState) -> LogGaps:
    """Return the places where the log of a partition may lack batches.

    Args:
        state: the partition.
    """
    if not state.partition.segments:
        return LogGaps(NOWHERE, NOWHERE, NOWHERE, np.empty(0, "i8"))
    bounds = state.segment_bounds
    incomplete = _before_lost(state, bounds)
    lost = Gaps(bounds.reached[incomplete], bounds.base[incomplete + 1])
    code = next((code_of(row) for _, row in state.log.damage if is_reported(row)), None)
    damaged = NOWHERE if code is None or not state.log.batches else _damaged(state, bounds)
    return LogGaps(_merged(state, bounds), lost, damaged, incomplete, _lost_end(state), code)


def _lost_end(state: PartitionState) -> Gaps:
    """Return the range after the log, if a broker that was shut down cleanly had flushed more than there is.

    Its recovery point is then the log end.
    """
    partition, end, last = state.partition, state.log_end_offset, len(state.partition.segments) - 1
    is_unreadable = any(segment == last and row.next_good_position is None for segment, row in state.log.damage)
    if not partition.log_dir.clean_shutdown or is_unreadable or (partition.checkpoint(RECOVERY_POINT) or 0) <= end:
        return NOWHERE
    if lists_log(partition.folder, end, {segment.base_offset or 0 for segment in partition.segments}):
        return NOWHERE
    return Gaps(np.array([end - 1], "i8"), np.array([NEVER], "i8"))


def _merged(state: PartitionState, bounds: SegmentBounds) -> Gaps:
    if not state.may_be_cleaned_in_copy:
        return NOWHERE
    filled = state.log.segments["segment"]
    highest, after = bounds.highest[filled][:-1], bounds.base[filled][1:]
    is_place: BoolArray = (bounds.first[filled][:-1] < state.first_uncompacted_offset) & (highest + 1 < after)
    return Gaps(highest[is_place], after[is_place])


def _before_lost(state: PartitionState, bounds: SegmentBounds) -> IntArray:
    """Return the numbers of the segments followed by an offset gap that no cleaner can have caused."""
    begins = np.minimum(bounds.base, bounds.first)[1:]
    offset_gaps = (begins > bounds.reached[:-1]) & (begins - bounds.reached[:-1] != 1)
    if not state.knows_cleaner:
        # Without the checkpoint only a log without any sign of compaction counts as never compacted.
        may_be_cleaned = state.log.cleaned_to >= 0 or state.partition.place.topic in ALWAYS_COMPACTED
        return np.flatnonzero(offset_gaps & (not may_be_cleaned))
    return np.flatnonzero(offset_gaps & (bounds.base[:-1] >= state.first_uncleaned_offset))


def _damaged(state: PartitionState, bounds: SegmentBounds) -> Gaps:
    rows = observations_of(state.log.observations, Observed.AROUND_DAMAGE)
    rows = rows.take(np.argsort(log_positions(rows), kind="stable"))
    parts = [_in_the_log(state, rows, int(bounds.base[0]) - 1), _at_ends(state, bounds)]
    before, after = (np.concatenate(offsets) for offsets in zip(*parts, strict=True))
    order = np.argsort(before, kind="stable")
    return Gaps(before[order], np.maximum.accumulate(after[order]))


def _in_the_log(state: PartitionState, rows: ObservationArray, start: int) -> Gaps:
    """Return the ranges from the readable batch before damage to the one after it.

    Args:
        state: the partition.
        rows: the batches after damage and the damaged ones, in log order, as far as they are listed.
        start: the offset before the first segment.
    """
    damaged = log_positions(observations_of(state.log.observations, Observed.BATCH_CRC_MISMATCH))
    positions, ends, first = log_positions(rows), rows["amount"].copy(), state.log.first
    is_damaged, is_cut = np.isin(positions, damaged), rows["count"] > 1
    if not first.crc_valid.all():
        ends[:1] = start
    # Nothing in a damaged batch is certain, so what is missing begins after the readable one before it. If a part of
    # the log has too many of them, those that follow a listed one are not known.
    follows_damaged = np.append(False, is_damaged & ~is_cut)[: len(rows)]
    before = ends[np.maximum.accumulate(np.where(follows_damaged, 0, np.arange(len(rows))))]
    is_end = positions == int(state.log.last.segment[0]) << 40 | int(state.log.last.position[0])
    is_range = ~is_damaged | is_end
    ranges = before[is_range], np.where(is_damaged, NEVER, rows["first_offset"])[is_range]
    if first.crc_valid.all() and first.position[0] > 0:
        return Gaps(np.append(start, ranges[0]), np.append(first.base_offset[0], ranges[1]))
    is_alone = not first.crc_valid.all() and not len(rows)
    return Gaps(np.array([start], "i8"), np.array([NEVER], "i8")) if is_alone else Gaps(*ranges)


def _at_ends(state: PartitionState, bounds: SegmentBounds) -> Gaps:
    """Return the ranges of damage up to the end of a segment that is not the last one."""
    last = len(bounds.base) - 1
    damaged = {
        segment
        for segment, row in state.log.damage
        if row.inside_batch is None and row.next_good_position is None and segment < last
    }
    ends = np.array(sorted(damaged), "i8")
    return Gaps(bounds.reached[ends], bounds.first[ends + 1])
