"""Finds the places where a log lacks segments, so that checks do not lay what these had to what is left.

A segment may be lost. Or a copy of a running broker lacks one that the cleaner merged into another while the files were
copied: the copy then has the segment before it as it was, and no merged one. Rule: ``UnifiedLog.replaceSegments``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kforensics.forensics.partition.partition_files import CLEANER
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["MERGED_IN_COPY", "Lacking", "SegmentBounds", "SegmentGaps", "knows_cleaner", "segment_gaps"]

MERGED_IN_COPY = "missing segment that the cleaner merged while the files were copied"
LOST = "segment-missing"


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
    """Which segments a log may lack between two offsets.

    Attributes:
        lost: segments that are lost, which the finding ``segment-missing`` reports.
        merged: segments that the cleaner merged during the copy.
    """

    lost: bool
    merged: bool

    @property
    def any(self) -> bool:
        """Whether it may lack one."""
        return self.lost or self.merged

    @property
    def cause(self) -> str | None:
        """The code of the finding that explains what follows from it, if there is one."""
        return LOST if self.lost else None

    @property
    def benign(self) -> str:
        """What was tested, with the outcome, as findings state it."""
        if self.lost:
            return "lost segment that had the missing batches or markers: likely, one is missing here"
        return f"{MERGED_IN_COPY}: {'possible' if self.merged else 'no'}"


class Gaps(NamedTuple):
    """Ranges of offsets that are missing between two segments.

    Attributes:
        before: the last offset before each range.
        after: the base offset of the segment after each range.
    """

    before: IntArray
    after: IntArray

    def any_between(self, first_offset: int, last_offset: int) -> bool:
        """Return whether one of them is between two offsets, or has one of these."""
        return bool(((first_offset < self.after) & (self.before < last_offset)).any())


@dataclass(frozen=True, slots=True)
class SegmentGaps:
    """The places where a log may lack segments.

    Attributes:
        merged: where the cleaner may have merged one during the copy.
        lost: where one is lost: offsets are missing that no cleaner removed.
        incomplete: the number of each segment after which one is lost.
    """

    merged: Gaps
    lost: Gaps
    incomplete: IntArray

    def between(self, first_offset: int, last_offset: int) -> Lacking:
        """Return which segments the log may lack between two offsets.

        Args:
            first_offset: an offset.
            last_offset: a later one.
        """
        return Lacking(*(gaps.any_between(first_offset, last_offset) for gaps in (self.lost, self.merged)))


def segment_gaps(state: PartitionState) -> SegmentGaps:
    """Return the places where the log of a partition may lack segments.

    Args:
        state: the partition.
    """
    if not state.partition.segments:
        nowhere = np.empty(0, "i8")
        return SegmentGaps(Gaps(nowhere, nowhere), Gaps(nowhere, nowhere), nowhere)
    bounds = SegmentBounds.of(state)
    incomplete = _before_lost(state, bounds)
    lost = Gaps(bounds.reached[incomplete], bounds.base[incomplete + 1])
    return SegmentGaps(_merged(state, bounds), lost, incomplete)


def knows_cleaner(state: PartitionState) -> bool:
    """Return whether there is a checkpoint of the cleaner in the log directory."""
    return CLEANER in state.partition.log_dir.checkpoints


def _merged(state: PartitionState, bounds: SegmentBounds) -> Gaps:
    if not state.may_be_cleaned_in_copy:
        return Gaps(np.empty(0, "i8"), np.empty(0, "i8"))
    filled = state.log.segments["segment"]
    highest, after = bounds.highest[filled][:-1], bounds.base[filled][1:]
    is_place: BoolArray = (bounds.first[filled][:-1] < state.first_uncompacted_offset) & (highest + 1 < after)
    return Gaps(highest[is_place], after[is_place])


def _before_lost(state: PartitionState, bounds: SegmentBounds) -> IntArray:
    """Return the numbers of the segments followed by an offset gap that no cleaner can have caused."""
    begins = np.minimum(bounds.base, bounds.first)[1:]
    offset_gaps = (begins > bounds.reached[:-1]) & (begins - bounds.reached[:-1] != 1)
    if not knows_cleaner(state):
        # Without the checkpoint only a log without any sign of compaction counts as never compacted.
        may_be_cleaned = state.log.cleaned_to >= 0 or state.partition.place.topic in ALWAYS_COMPACTED
        return np.flatnonzero(offset_gaps & (not may_be_cleaned))
    return np.flatnonzero(offset_gaps & (bounds.base[:-1] >= state.first_uncleaned_offset))
