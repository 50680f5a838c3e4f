"""Distinguishes retries from content that recurs, such as heartbeats, with a few bytes of memory per retry.

The control is the rest of the partition: where much of the content repeats, a repeat is no sign of a retry. Elsewhere
the number of copies decides, and, without timestamps of the producer, whether different batches were repeated together.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.external_sort import ExternalSort, SortedRows
from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.duplicates.content_pairs import DuplicateRunArray, is_by_clock
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason
from kforensics.forensics.duplicates.repetition import Repetition
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["NO_OTHER_REASON", "Retries"]

# Most clients give up at some point: more copies of a batch than that are content that recurs. With timestamps of the
# producer, all copies have the same one, which is hardly chance. Nor is it if different batches are repeated together.
# Of a batch alone with timestamps of the broker, fewer copies count. Some clients never give up: different records with
# timestamps of a clock that directly follow their earlier copy are retries however many they are.
MAX_RETRIES = 10
MAX_RETRIES_ALONE = 2
# A partition where this share of the contents is repeated repeats them itself: of real topics with retries it was below
# 4 %, of measurements and of events that were reported twice above 50 %. A short log of a bad day may have more
# retries; different records that are repeated with the timestamps of a clock are hardly anything else. A few repeats
# are no sign of what is usual, nor are those of one burst of retries.
USUAL_SHARE, USUAL_SHARE_BY_CLOCK = 0.3, 0.5
MIN_USUAL_REPEATS = 10
# Two batches that are repeated together: their first copies are as close to each other as this, and so are the later.
TOGETHER_RECORDS = 100
NO_OTHER_REASON = -1
# What decides whether a run at level CONTENT_RETRY is a retry.
RETRY = np.dtype(
    [
        ("number", "i8"),  # in the order in which they are added
        ("first", "i8"),
        ("second", "i8"),
        ("span", "i8"),
        ("low", "u8"),
        ("has_same_time", "?"),
        ("is_by_clock", "?"),
        ("is_varied", "?"),
        ("is_several", "?"),
    ]
)
RetryArray: TypeAlias = "npt.NDArray[np.void]"


class Retries:
    """The runs of a partition at level CONTENT_RETRY."""

    def __init__(self) -> None:
        self._sort = ExternalSort(RETRY, itemgetter("second"))
        self._count = self._farthest = 0

    def add(self, runs: DuplicateRunArray) -> None:
        """Add the retries among some runs, which come in any order; within a view, their later copies do not overlap.

        Raises:
            UsageError: temporary files cannot be written.
        """
        runs = runs[runs["level"] == DuplicateLevel.CONTENT_RETRY]
        if not len(runs):
            return
        retries = np.empty(len(runs), RETRY)
        retries["number"] = np.arange(self._count, self._count + len(runs))
        for name in ("first", "second", "span", "low", "is_varied", "is_several"):
            retries[name] = runs[name]
        retries["is_by_clock"] = is_by_clock(runs["second_timestamp"])
        retries["has_same_time"] = runs["why"] == DuplicateReason.RETRY_SAME_TIME
        self._sort.add(retries)
        self._count += len(runs)
        self._farthest = max(self._farthest, int((runs["second"] - runs["first"]).max()))

    def reasons(self, repetition: Repetition) -> IntArray:
        """Return why retries, in the order in which they were added, are content that recurs, or NO_OTHER_REASON.

        No others can be added.

        Args:
            repetition: the repeats in the partition, all of them counted.
        """
        reasons = np.full(self._count, NO_OTHER_REASON, "i1")
        ordered = self._sort.finish()
        end = 0
        copies, together = self._copies(ordered), self._are_together(ordered)
        for page in ordered:
            start, end = end, end + len(page)
            page_copies = copies[start:end].astype("i8") + 1
            reasons[page["number"]] = _reasons(page, page_copies, together[start:end], repetition)
        return reasons

    def _are_together(self, ordered: SortedRows) -> BoolArray:
        """Return which retries are of several batches that differ, or were repeated together with a different one."""
        together = np.zeros(self._count, bool)
        rows, end = np.empty(0, RETRY), 0
        for page in ordered:
            rows = concat_rows([rows[-1:], page])
            start, end = end - (len(rows) - len(page)), end + len(page)
            together[start:end] |= rows["is_several"] & rows["is_varied"]
            pairs = np.flatnonzero(_are_repeated_together(rows[:-1], rows[1:])) + start
            together[pairs] = together[pairs + 1] = True
        return together

    def _copies(self, ordered: SortedRows) -> IntArray:
        """Return how many other runs repeat the same records, one after another, up to a little more than the limit."""
        # How many runs back the run is whose later copy is the earlier one of each run; 0 for none.
        back = np.zeros(self._count, "i4")
        before, after = np.zeros(self._count, "u1"), np.zeros(self._count, "u1")
        ranges = []
        for start, distances in self._distances(ordered):
            ranges.append((start, start + len(distances)))
            back[slice(*ranges[-1])] = distances
            _count_before(before, back, *ranges[-1])
        for start, end in reversed(ranges):
            _count_after(after, back, start, end)
        before += after
        return before

    def _distances(self, ordered: SortedRows) -> Iterator[tuple[int, IntArray]]:
        """Yield for each page the number of its first run, and how many runs back the previous copy of each one is."""
        window = np.empty(0, RETRY)
        end = 0
        for page in ordered:
            # No run reaches into its own earlier copy, so it spans no more than the distance to that.
            nearest = page["second"][0] - 2 * self._farthest
            window = concat_rows([window[np.searchsorted(window["second"], nearest) :], page])
            previous = _previous_copies(window, page)
            indexes = np.arange(len(window) - len(page), len(window))
            yield end, np.where(previous >= 0, indexes - previous, 0)
            end += len(page)


def _reasons(retries: RetryArray, copies: IntArray, together: BoolArray, repetition: Repetition) -> IntArray:
    """Return why some retries are content that recurs, or NO_OTHER_REASON.

    Args:
        retries: the retries.
        copies: how many copies each one has, beside the first.
        together: whether it is of different batches, or was repeated together with a different one.
        repetition: the repeats in the partition.
    """
    has_same_time, is_varied = retries["has_same_time"], retries["is_varied"]
    is_directly_after = retries["second"] == retries["first"] + retries["span"]
    is_endless = has_same_time & retries["is_by_clock"] & is_varied & is_directly_after & (copies > MAX_RETRIES)
    is_alone = ~has_same_time & ~together
    is_single = ~is_varied & ~retries["is_several"] & ~together
    limit = np.where(is_alone, np.where(is_varied, MAX_RETRIES_ALONE, 1), MAX_RETRIES)
    is_doubtful = np.where(has_same_time, repetition.has_repeats_within_batches, ~is_directly_after) & is_single
    return np.select(
        [is_endless, _are_usual(retries, copies, together, repetition), copies > limit, is_doubtful],
        [NO_OTHER_REASON, DuplicateReason.USUAL, DuplicateReason.PERIODIC, DuplicateReason.SINGLE],
        NO_OTHER_REASON,
    )


def _are_usual(retries: RetryArray, copies: IntArray, together: BoolArray, repetition: Repetition) -> BoolArray:
    """Return which retries are in a partition where much of the other content is repeated as well.

    What lies between the two copies of a retry may be of the same burst of retries, and its own copies do not count.
    """
    kinds = retries["has_same_time"].astype("i8")
    burst = retries["second"] - retries["first"] + (copies - 1) * retries["span"]
    others = repetition.repeats[kinds] - burst
    is_of_clock = retries["has_same_time"] & retries["is_by_clock"] & (retries["is_varied"] | together)
    least = np.where(is_of_clock, USUAL_SHARE_BY_CLOCK, USUAL_SHARE)
    usual: BoolArray = (repetition.shares()[kinds] >= least) & (others >= MIN_USUAL_REPEATS)
    return usual


def _are_repeated_together(retries: RetryArray, following: RetryArray) -> BoolArray:
    """Return which retries were repeated together with the following one: both were written before either again."""
    together: BoolArray = retries["low"] != following["low"]
    together &= following["first"] < retries["second"]
    for side in ("first", "second"):
        together &= np.abs(following[side] - retries[side]) <= TOGETHER_RECORDS
    return together


def _count_before(before: IntArray, back: IntArray, start: int, end: int) -> None:
    """Count the copies before each run of a range, after those of all runs before the range."""
    has_previous = start + np.flatnonzero(back[start:end])
    previous = has_previous - back[has_previous]
    for _ in range(MAX_RETRIES):
        before[has_previous] = np.minimum(before[previous] + 1, MAX_RETRIES)


def _count_after(after: IntArray, back: IntArray, start: int, end: int) -> None:
    """Count the copies after each run, up to those in a range; all runs after the range have been counted."""
    has_previous = start + np.flatnonzero(back[start:end])
    previous = has_previous - back[has_previous]
    for _ in range(MAX_RETRIES):
        np.maximum.at(after, previous, np.minimum(after[has_previous] + 1, MAX_RETRIES))


def _previous_copies(retries: RetryArray, page: RetryArray) -> IntArray:
    """Return for each run of a page the index of the run whose later copy is its earlier one, at least in part.

    Args:
        retries: the runs that may be it, ordered by their later copies.
        page: the last of them.
    """
    first_end = page["first"] + page["span"]
    previous = np.searchsorted(retries["second"], first_end) - 1
    second_end = (retries["second"] + retries["span"])[previous]
    return np.where((previous >= 0) & (second_end > page["first"]), previous, -1)
