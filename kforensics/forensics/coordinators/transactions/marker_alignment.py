"""Assigns markers to transactions of one producer that have the same epoch.

Up to version 1 of the protocol the epoch of an id does not change from one transaction to the next. In a partition only
the order and the timestamps of the markers distinguish them: a marker is written between the Prepare and the Complete
record of its transaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain, product
from typing import TypeAlias

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.parsers.format.array_types import BoolArray, IntArray

NO_MARKER = -1
FOREVER = int(np.iinfo("i8").max)
# Which ends, or which markers: there may be millions, whose indexes take as much memory as they do themselves.
Selection: TypeAlias = "IntArray | slice"
EVERY = slice(None)
# Ends and markers that are compared at a time.
BLOCK = 1 << 16


@dataclass(frozen=True, slots=True)
class TransactionEnds:
    """The ends of transactions with one producer epoch that list one partition, in order.

    Attributes:
        decided: times of the Prepare records.
        completed: times of the Complete records, NO_TIME if there is none.
        outcomes: decided outcomes, as numbers of ``TransactionOutcome``.
        is_required: whether the marker must be present. It need not be if the decision was superseded.
        is_superseded: whether a later decision of the same transaction superseded it.
    """

    decided: IntArray
    completed: IntArray
    outcomes: IntArray
    is_required: BoolArray
    is_superseded: BoolArray

    def select(self, indexes: IntArray | slice) -> TransactionEnds:
        """Return some of the ends."""
        fields = self.decided, self.completed, self.outcomes, self.is_required, self.is_superseded
        return TransactionEnds(*(each[indexes] for each in fields))

    def __len__(self) -> int:
        return len(self.decided)


@dataclass(frozen=True, slots=True)
class Alignment:
    """Which marker belongs to which end.

    Attributes:
        markers: index of the marker of each end, NO_MARKER if none was assigned.
        is_missing: whether each end certainly has no marker.
        is_exact: whether the assignment is certain.
    """

    markers: IntArray
    is_missing: BoolArray
    is_exact: bool


def align_markers(  # noqa: PLR0913  # the ends, the columns of the markers, and how to align them
    ends: TransactionEnds,
    times: IntArray,
    outcomes: IntArray,
    optional: BoolArray,
    skew_ms: int,
    *,
    earlier_ends: bool = False,
) -> Alignment:
    """Return which marker belongs to which end.

    Args:
        ends: the ends.
        times: timestamps of the markers, in the order of the log.
        outcomes: outcomes of the markers.
        optional: which markers may be duplicates or an operator's.
        skew_ms: maximum difference between clocks.
        earlier_ends: whether there may have been ends before the first one.
    """
    for wanted, assigned in chain(
        _all_ends(ends, optional), _last_ends(ends, times, skew_ms if earlier_ends else None)
    ):
        if _in_order(ends, wanted, times, outcomes, assigned, skew_ms):
            markers = np.full(len(ends), NO_MARKER, "i8")
            markers[wanted] = np.arange(len(times))[assigned] if isinstance(assigned, slice) else assigned
            return Alignment(markers, np.zeros(len(ends), bool), is_exact=True)
    if len(ends) == len(times) == 1 and bool(_may_be_its_own(ends, times, outcomes, skew_ms).all()):
        return Alignment(np.zeros(1, "i8"), np.zeros(1, bool), is_exact=True)
    return _by_time(ends, times, outcomes, optional, skew_ms)


def _all_ends(ends: TransactionEnds, optional: BoolArray) -> Iterator[tuple[Selection, Selection]]:
    """Yield which ends and which markers may belong together, the most likely first.

    An abort that an operator could have written is that of a decision, if there is one that would fit.
    """
    required, effective = ends.is_required, ~ends.is_superseded
    wanted = (EVERY,) if required.all() else (np.flatnonzero(effective), np.flatnonzero(required), EVERY)
    assigned = (EVERY, np.flatnonzero(~optional)) if optional.any() else (EVERY,)
    yield from product(wanted, assigned)


def _last_ends(ends: TransactionEnds, times: IntArray, skew_ms: int | None) -> Iterator[tuple[Selection, Selection]]:
    """Yield the last ends, or the last markers, in case the log with the others begins later."""
    surplus = len(times) - len(ends)
    if surplus < 0 and not ends.is_required[:-surplus].any():
        yield slice(-surplus, None), EVERY
    if skew_ms is not None and surplus > 0 and len(ends) and times[surplus - 1] <= ends.decided[0] + skew_ms:
        yield EVERY, slice(surplus, None)


def _in_order(  # noqa: PLR0913, PLR0917  # both sides, and which of each
    ends: TransactionEnds, wanted: Selection, times: IntArray, outcomes: IntArray, assigned: Selection, skew_ms: int
) -> bool:
    """Return whether each of the ends has a marker in its time with the same outcome."""
    count = _count(wanted, len(ends))
    if count != _count(assigned, len(times)):
        return False
    for start in range(0, count, BLOCK):
        some, sent = (_part(selection, start, start + BLOCK) for selection in (wanted, assigned))
        block = ends.select(some)
        if not ((block.outcomes == outcomes[sent]).all() and _in_time(block, times[sent], skew_ms).all()):
            return False
    return True


def _count(selection: Selection, length: int) -> int:
    return len(range(length)[selection]) if isinstance(selection, slice) else len(selection)


def _part(selection: Selection, start: int, stop: int) -> Selection:
    """Return some of what is selected."""
    if isinstance(selection, slice):
        begin = selection.start or 0
        return slice(begin + start, begin + stop)
    return selection[start:stop]


def _in_time(ends: TransactionEnds, times: IntArray, skew_ms: int) -> BoolArray:
    """Return which markers were written while their transactions were ending."""
    in_time: BoolArray = (times >= ends.decided - skew_ms) & (times <= _latest(ends, skew_ms))
    return in_time


def _may_be_its_own(ends: TransactionEnds, times: IntArray, outcomes: IntArray, skew_ms: int) -> BoolArray:
    """Return whether the only marker belongs to the only end, even if its outcome is the other one.

    An end whose own marker may be absent does not take the marker of another, unknown transaction.
    """
    may_be: BoolArray = _in_time(ends, times, skew_ms) & (ends.is_required | (ends.outcomes == outcomes))
    return may_be


def _latest(ends: TransactionEnds, skew_ms: int) -> IntArray:
    """Return the latest time at which the marker of each end may be written."""
    latest: IntArray = np.where(ends.completed == NO_TIME, FOREVER, ends.completed + skew_ms)
    return latest


def _by_time(
    ends: TransactionEnds, times: IntArray, outcomes: IntArray, optional: BoolArray, skew_ms: int
) -> Alignment:
    """Assign each marker to the last end decided before it; of several, the first with the same outcome wins.

    A marker that follows the end may be of a later transaction, if the end's own may be absent. It always may without a
    Complete record: the cleaner has removed what follows the Prepare record.
    An end certainly has no marker only if there are too few of its outcome, wherever they are.
    """
    markers, latest = np.full(len(ends), NO_MARKER, "i8"), _latest(ends, skew_ms)
    is_open = (ends.completed == NO_TIME) & ~ends.is_required
    optional_latest = np.where(is_open, ends.decided, _latest(ends, 0))
    # The clock of a coordinator that moved to another broker may have gone back.
    end_of = np.searchsorted(np.maximum.accumulate(ends.decided), times, side="right") - 1
    for marker in range(len(times) - 1, -1, -1):
        end = end_of[marker]
        if end < 0:
            continue
        is_required, is_same = ends.is_required[end], outcomes[marker] == ends.outcomes[end]
        if is_same:
            until = FOREVER if is_required else latest[end]
        else:
            until = (latest if is_required and not optional[marker] else optional_latest)[end]
        if times[marker] <= until and (is_same or markers[end] == NO_MARKER):
            markers[end] = marker
    is_missing = np.zeros(len(ends), bool)
    for outcome in (TransactionOutcome.ABORTED, TransactionOutcome.COMMITTED):
        required = (ends.outcomes == outcome) & ends.is_required
        absent = required & (markers == NO_MARKER)
        if absent.sum() == required.sum() - (outcomes == outcome).sum():
            is_missing |= absent
    return Alignment(markers, is_missing, is_exact=False)
