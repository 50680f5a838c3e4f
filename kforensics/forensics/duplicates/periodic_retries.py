"""Distinguishes retries from content that recurs, such as heartbeats, with a few bytes of memory per retry."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.external_sort import ExternalSort, SortedRows
from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.duplicates.content_pairs import DuplicateRunArray, is_by_clock
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["Retries"]

# Most clients give up at some point: more copies of a batch than that are content that recurs. With timestamps of the
# producer, all copies have the same one, which is hardly chance; with those of the broker, fewer copies count. Some
# clients never give up: different records with timestamps of a clock that directly follow their earlier copy are
# retries however many they are.
MAX_RETRIES_SAME_TIME = 10
MAX_RETRIES_APPEND_TIME = 2
# What decides whether a run at level CONTENT_RETRY is a retry.
RETRY = np.dtype(
    [
        ("number", "i8"),  # in the order in which they are added
        ("first", "i8"),
        ("second", "i8"),
        ("span", "i8"),
        ("has_same_time", "?"),
        ("is_by_clock", "?"),
        ("is_varied", "?"),
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
        for name in ("first", "second", "span", "is_varied"):
            retries[name] = runs[name]
        retries["is_by_clock"] = is_by_clock(runs["second_timestamp"])
        retries["has_same_time"] = runs["why"] == DuplicateReason.RETRY_SAME_TIME
        self._sort.add(retries)
        self._count += len(runs)
        self._farthest = max(self._farthest, int((runs["second"] - runs["first"]).max()))

    def are_periodic(self) -> BoolArray:
        """Return which retries, in the order in which they were added, recur too often for a retry.

        Equal records without a timestamp of their producer count as a retry only if they occur exactly twice, one
        directly after the other. No others can be added.
        """
        periodic = np.zeros(self._count, bool)
        ordered = self._sort.finish()
        end = 0
        copies = self._copies(ordered)
        for page in ordered:
            end += len(page)
            periodic[page["number"]] = _are_periodic(page, copies[end - len(page) : end].astype("i8") + 1)
        return periodic

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


def _are_periodic(retries: RetryArray, copies: IntArray) -> BoolArray:
    has_same_time = retries["has_same_time"]
    limit = np.where(has_same_time, MAX_RETRIES_SAME_TIME, MAX_RETRIES_APPEND_TIME)
    is_directly_after = retries["second"] == retries["first"] + retries["span"]
    proves_little = ~has_same_time & ~retries["is_varied"]
    is_endless = has_same_time & retries["is_by_clock"] & retries["is_varied"] & is_directly_after
    periodic: BoolArray = ((copies > limit) & ~is_endless) | (proves_little & ((copies > 1) | ~is_directly_after))
    return periodic


def _count_before(before: IntArray, back: IntArray, start: int, end: int) -> None:
    """Count the copies before each run of a range, after those of all runs before the range."""
    has_previous = start + np.flatnonzero(back[start:end])
    previous = has_previous - back[has_previous]
    for _ in range(MAX_RETRIES_SAME_TIME):
        before[has_previous] = np.minimum(before[previous] + 1, MAX_RETRIES_SAME_TIME)


def _count_after(after: IntArray, back: IntArray, start: int, end: int) -> None:
    """Count the copies after each run, up to those in a range; all runs after the range have been counted."""
    has_previous = start + np.flatnonzero(back[start:end])
    previous = has_previous - back[has_previous]
    for _ in range(MAX_RETRIES_SAME_TIME):
        np.maximum.at(after, previous, np.minimum(after[has_previous] + 1, MAX_RETRIES_SAME_TIME))


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
