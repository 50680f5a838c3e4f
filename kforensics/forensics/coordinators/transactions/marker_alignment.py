"""Which marker belongs to which transaction, where several transactions of a producer have the same epoch.

Up to version 1 of the protocol the epoch of an id stays the same from one transaction to the next. What tells its
markers apart in a partition is their order and their time: a marker is written between the Prepare and the Complete
record of its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, Ending, Records

__all__ = ["NO_MARK", "Aligned", "Ends", "aligned"]

NO_MARK = -1
FOREVER = int(np.iinfo("i8").max)


@dataclass(frozen=True, slots=True)
class Ends:
    """Ends of transactions with one producer epoch that list one partition, in their order.

    Attributes:
        decided: times of the Prepare records.
        completed: times of the Complete records, NO_TIME where there is none.
        endings: COMMITTED or ABORTED, as numbers of ``Ending``.
        is_sure: whether its marker must be there; not so where the end was decided anew.
    """

    decided: Records
    completed: Records
    endings: Records
    is_sure: Records

    def some(self, which: Any) -> Ends:
        """Return some of them."""
        return Ends(self.decided[which], self.completed[which], self.endings[which], self.is_sure[which])

    def __len__(self) -> int:
        return len(self.decided)


@dataclass(frozen=True, slots=True)
class Aligned:
    """Which marker belongs to which end.

    Attributes:
        marks: for each end the index of its marker, NO_MARK where none was found.
        is_missing: for each end whether it has none for certain.
        is_exact: whether all of it is beyond doubt.
    """

    marks: Records
    is_missing: Records
    is_exact: bool


def aligned(  # noqa: PLR0913  # what is to be aligned, and how
    ends: Ends, times: Records, endings: Records, spare: Records, skew_ms: int, *, begins_late: bool = False
) -> Aligned:
    """Return which marker belongs to which end.

    Args:
        ends: the ends.
        times: of the markers, in the order of the log.
        endings: what they say, COMMITTED or ABORTED.
        spare: which of them may be none of the coordinator's, or one sent again.
        skew_ms: by how much clocks may differ.
        begins_late: whether there may have been ends before the first one.
    """
    for wanted, those in (*_whole(ends, spare), *_last(ends, times, skew_ms if begins_late else None)):
        if _in_order(ends.some(wanted), times[those], endings[those], skew_ms):
            marks = np.full(len(ends), NO_MARK, "i8")
            marks[wanted] = those
            return Aligned(marks, np.zeros(len(ends), bool), is_exact=True)
    if len(ends) == len(times) == 1 and bool(_may_be_the_one(ends, times, endings, skew_ms).all()):
        return Aligned(np.zeros(1, "i8"), np.zeros(1, bool), is_exact=True)
    return _by_time(ends, times, endings, spare, skew_ms)


def _whole(ends: Ends, spare: Records) -> Iterator[tuple[Records, Records]]:
    """Yield indexes of ends and of markers that may belong together, the likeliest first."""
    wanted = (np.flatnonzero(ends.is_sure), np.arange(len(ends)))
    return product(wanted, (np.arange(len(spare)), np.flatnonzero(~spare)))


def _last(ends: Ends, times: Records, skew_ms: int | None) -> Iterator[tuple[Records, Records]]:
    """Yield the last ends, or the last markers, where the log of the other ones begins later."""
    every, more = np.arange(len(ends)), len(times) - len(ends)
    if more < 0 and not ends.is_sure[:-more].any():
        yield every[-more:], np.arange(len(times))
    if skew_ms is not None and more > 0 and len(ends) and times[more - 1] <= ends.decided[0] + skew_ms:
        yield every, np.arange(more, len(times))


def _in_order(ends: Ends, times: Records, endings: Records, skew_ms: int) -> bool:
    """Return whether there is a marker for each end, in its time, that says the same."""
    same = len(ends) == len(times) and bool((ends.endings == endings).all())
    return same and bool(_in_time(ends, times, skew_ms).all())


def _in_time(ends: Ends, times: Records, skew_ms: int) -> Records:
    """Return which markers were written while their transactions were ending."""
    in_time: Records = (times >= ends.decided - skew_ms) & (times <= _latest(ends, skew_ms))
    return in_time


def _may_be_the_one(ends: Ends, times: Records, endings: Records, skew_ms: int) -> Records:
    """Return whether an only marker belongs to an only end, also if it says the contrary.

    An end whose own marker need not be there does not take the one of another transaction that nobody knows of.
    """
    may_be: Records = _in_time(ends, times, skew_ms) & (ends.is_sure | (ends.endings == endings))
    return may_be


def _latest(ends: Ends, skew_ms: int) -> Records:
    """Return until when the marker of each end may be written."""
    latest: Records = np.where(ends.completed == NO_TIME, FOREVER, ends.completed + skew_ms)
    return latest


def _by_time(ends: Ends, times: Records, endings: Records, spare: Records, skew_ms: int) -> Aligned:
    """A marker belongs to the last end that was decided before it; of several the first that agrees with it is taken.

    An end has no marker for certain only where there are too few of its kind, wherever they stand.
    """
    marks, latest, spare_until = np.full(len(ends), NO_MARK, "i8"), _latest(ends, skew_ms), _latest(ends, 0)
    at = np.searchsorted(ends.decided, times, side="right") - 1
    for mark in np.flatnonzero(at >= 0)[::-1].tolist():
        end = at[mark]
        until = (spare_until if spare[mark] else latest)[end]
        if endings[mark] == ends.endings[end] or (marks[end] == NO_MARK and times[mark] <= until):
            marks[end] = mark
    is_missing = np.zeros(len(ends), bool)
    for ending in (Ending.ABORTED, Ending.COMMITTED):
        needed = (ends.endings == ending) & ends.is_sure
        absent = needed & (marks == NO_MARK)
        if absent.sum() == needed.sum() - (endings == ending).sum():
            is_missing |= absent
    return Aligned(marks, is_missing, is_exact=False)
