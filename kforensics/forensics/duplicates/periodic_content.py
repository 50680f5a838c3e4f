"""Distinguishes retries from content that recurs, such as heartbeats, by how often it does."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.duplicates.content_pairs import DuplicateRunArray
from kforensics.forensics.duplicates.duplicate_rows import DuplicateLevel, DuplicateReason
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["without_periodic_retries"]

# A client gives up at some point: more copies of a batch than that are content that recurs. With timestamps of the
# producer, all copies have the same one, which is hardly chance; with those of the broker, fewer copies count.
MAX_RETRIES_SAME_TIME = 10
MAX_RETRIES_APPEND_TIME = 2


def without_periodic_retries(runs: DuplicateRunArray) -> DuplicateRunArray:
    """Return all runs of a partition, with those at level CONTENT that cannot be retries because they recur.

    Records that are all equal, and have no timestamp of their producer, count as a retry only if they occur exactly
    twice, one directly after the other.

    Args:
        runs: in any order; within a view, their later copies do not overlap.
    """
    retries = np.flatnonzero(runs["level"] == DuplicateLevel.CONTENT_RETRY)
    if not len(retries):
        return runs
    retries = retries[np.argsort(runs["second"][retries], kind="stable")]
    periodic = retries[_are_periodic(take_rows(runs, retries))]
    runs["level"][periodic], runs["why"][periodic] = DuplicateLevel.CONTENT, DuplicateReason.PERIODIC
    return runs


def _are_periodic(retries: DuplicateRunArray) -> BoolArray:
    """Return which runs recur too often for a retry; they are ordered by their later copies."""
    copies = _copies(retries)
    has_same_time = retries["why"] == DuplicateReason.RETRY_SAME_TIME
    limit = np.where(has_same_time, MAX_RETRIES_SAME_TIME, MAX_RETRIES_APPEND_TIME)
    is_directly_after = retries["second"] == retries["first"] + retries["span"]
    proves_little = ~has_same_time & ~retries["is_varied"]
    periodic: BoolArray = (copies > limit) | (proves_little & ((copies > 1) | ~is_directly_after))
    return periodic


def _copies(retries: DuplicateRunArray) -> IntArray:
    """Return how many runs repeat the same records, one after another, up to a little more than the limit."""
    previous = _previous_copies(retries)
    has_previous = previous >= 0
    before, after = np.zeros(len(retries), "i8"), np.zeros(len(retries), "i8")
    for _ in range(MAX_RETRIES_SAME_TIME):
        before = np.where(has_previous, before[previous] + 1, 0)
        longer = np.zeros(len(retries), "i8")
        np.maximum.at(longer, previous[has_previous], after[has_previous] + 1)
        after = longer
    copies: IntArray = before + after + 1
    return copies


def _previous_copies(retries: DuplicateRunArray) -> IntArray:
    """Return for each run the index of the run whose later copy is its earlier one, at least in part; -1 for none."""
    first_end = retries["first"] + retries["span"]
    previous = np.searchsorted(retries["second"], first_end) - 1
    second_end = (retries["second"] + retries["span"])[previous]
    return np.where((previous >= 0) & (second_end > retries["first"]), previous, -1)
