"""When the broker wrote what stands somewhere in a log, as far as markers tell."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS

__all__ = ["marker_ranges", "marker_times", "newest_marker_times", "with_marker_times"]


def marker_ranges(case: Case, *, back: bool = False) -> Iterator[tuple[Records, Records]]:
    """Yield the ranges of the ledger with the markers among theirs that ended nothing; at least one.

    What stands behind the last range is with that one.

    Args:
        case: the partition.
        back: whether to begin with the last.

    Yields:
        TRANSACTION and EMPTY_MARKER records, both in the order of markers.
    """
    closed, empty = case.ledger.closed, case.empty_markers
    cuts = [0, *np.searchsorted(empty["marker_offset"], closed.last_keys[:-1], "right").tolist(), len(empty)]
    numbers = range(max(closed.ranges, 1))
    for number in reversed(numbers) if back else numbers:
        rows = closed.read(number) if closed.ranges else NO_TRANSACTIONS
        yield rows, empty[cuts[number] : cuts[number + 1]]


def marker_times(case: Case, offsets: Records) -> Records:
    """Return the time of the last marker of anybody below each offset, NO_TIME where there is none.

    What stands behind it is no older, whatever timestamp a client gave it.
    """
    return _times_before(case, offsets, lambda _, times: times)


def newest_marker_times(case: Case, offsets: Records, latest_ms: int) -> Records:
    """Return the newest time that a marker below each offset has, NO_TIME where there is none.

    Args:
        case: the partition.
        offsets: of the log.
        latest_ms: what is later than this is no time to go by.
    """

    def newest(before: int, times: Records) -> Records:
        return np.maximum.accumulate(np.append(before, np.where(times <= latest_ms, times, NO_TIME)))[1:]

    return _times_before(case, offsets, newest)


def _times_before(case: Case, offsets: Records, told: Callable[[int, Records], Records]) -> Records:
    """Return what is told at the last marker below each offset, of what was told before and of the markers' times."""
    if not len(offsets):
        return np.zeros(0, "i8")
    order = np.argsort(offsets)
    asked, times, before = offsets[order], np.full(len(offsets), NO_TIME), NO_TIME
    done = 0
    for closed, empty in marker_ranges(case):
        places, moments = _moments(closed, empty)
        if len(places):
            known = np.append(before, told(before, moments))
            behind = int(np.searchsorted(asked, places[-1], "right"))
            times[done:behind] = known[np.searchsorted(places, asked[done:behind])]
            done, before = behind, int(known[-1])
    times[done:] = before
    found: Records = np.empty(len(offsets), "i8")
    found[order] = times
    return found


def _moments(closed: Records, empty: Records) -> tuple[Records, Records]:
    """Return offsets and times of markers, in their order.

    Args:
        closed: TRANSACTION records in the order of their markers.
        empty: EMPTY_MARKER records likewise.
    """
    if not len(empty):
        return closed["marker_offset"], closed["marker_timestamp"]
    sources = (closed, empty)
    places, times = (np.concatenate([one[name] for one in sources]) for name in ("marker_offset", "marker_timestamp"))
    order = np.argsort(places, kind="stable")
    return places[order], times[order]


def with_marker_times(
    case: Case, offset: str, wanted: Callable[[Records], Records]
) -> Iterator[tuple[Records, Records]]:
    """Yield closed transactions with the time of the last marker of anybody below one of their offsets.

    The log is gone through from its end: no more wait for their marker than were open at once.

    Args:
        case: the partition.
        offset: field with the offset.
        wanted: returns which transactions of a range are asked about.

    Yields:
        TRANSACTION records in no order, and times, NO_TIME where there is none.
    """
    waiting = NO_TRANSACTIONS
    for closed, empty in marker_ranges(case, back=True):
        asked = joined_records([picked(closed, wanted(closed)), waiting])
        places, times = _moments(closed, empty)
        at = np.searchsorted(places, asked[offset]) - 1
        yield picked(asked, at >= 0), times[at[at >= 0]]
        waiting = picked(asked, at < 0)
    yield waiting, np.full(len(waiting), NO_TIME)
