"""Lower bounds on append times: the timestamp of the last transaction marker below each offset."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import NO_TIME, EmptyMarkerArray, TransactionArray
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = [
    "marker_pages",
    "marker_times",
    "newest_marker_time",
    "newest_marker_times",
    "time_of_marker_after",
    "with_marker_times",
]


def marker_pages(
    state: PartitionState, *, reverse: bool = False
) -> Iterator[tuple[TransactionArray, EmptyMarkerArray]]:
    """Yield the pages of closed transactions, each with the empty markers among their markers; at least one page.

    Empty markers after the last page come with that page.

    Args:
        state: the partition.
        reverse: whether to begin with the last page.

    Yields:
        TRANSACTION and EMPTY_MARKER records, both in the order of their markers.
    """
    closed, empty = state.transaction_store.closed, state.empty_markers
    edges = [0, *np.searchsorted(empty["marker_offset"], closed.last_keys[:-1], "right").tolist(), len(empty)]
    numbers = range(max(closed.page_count, 1))
    for number in reversed(numbers) if reverse else numbers:
        rows = closed.read(number) if closed.page_count else NO_TRANSACTIONS
        yield rows, empty[edges[number] : edges[number + 1]]


def marker_times(state: PartitionState, offsets: IntArray) -> IntArray:
    """Return the timestamp of the last marker of any producer below each offset, NO_TIME where there is none.

    Whatever follows that marker is no older, even if a client gave it an earlier timestamp.
    """
    return _times_before(state, offsets, lambda _, times: times)


def time_of_marker_after(state: PartitionState, offset: int) -> int | None:
    """Return the timestamp of the first marker of any producer after an offset, None if there is none.

    Whatever precedes that marker is no younger.
    """
    first = None
    for closed, empty in marker_pages(state, reverse=True):
        offsets, times = _markers_by_offset(closed, empty)
        if not len(offsets) or offsets[-1] < offset:
            break
        first = int(times[np.searchsorted(offsets, offset)])
    return first


def newest_marker_time(state: PartitionState) -> int:
    """Return the timestamp of the last marker of any producer in a log, NO_TIME if there is none."""
    for closed, empty in marker_pages(state, reverse=True):
        _, times = _markers_by_offset(closed, empty)
        if len(times):
            return int(times[-1])
    return NO_TIME


def newest_marker_times(state: PartitionState, offsets: IntArray, latest_ms: int) -> IntArray:
    """Return the newest timestamp of the markers below each offset, NO_TIME where there is none.

    Args:
        state: the partition.
        offsets: offsets in the log.
        latest_ms: later timestamps are ignored as implausible.
    """

    def newest(before: int, times: IntArray) -> IntArray:
        return np.maximum.accumulate(np.append(before, np.where(times <= latest_ms, times, NO_TIME)))[1:]

    return _times_before(state, offsets, newest)


def _times_before(state: PartitionState, offsets: IntArray, combine: Callable[[int, IntArray], IntArray]) -> IntArray:
    """Return the combined time at the last marker below each offset.

    Args:
        state: the partition.
        offsets: offsets in the log.
        combine: takes the combined time before a page and the timestamps of the page's markers; returns the combined
            time at each of these markers.
    """
    if not len(offsets):
        return np.zeros(0, "i8")
    order = np.argsort(offsets)
    ascending, times, before = offsets[order], np.full(len(offsets), NO_TIME), NO_TIME
    done = 0
    for closed, empty in marker_pages(state):
        marker_offsets, timestamps = _markers_by_offset(closed, empty)
        if len(marker_offsets):
            combined = np.append(before, combine(before, timestamps))
            end = int(np.searchsorted(ascending, marker_offsets[-1], "right"))
            times[done:end] = combined[np.searchsorted(marker_offsets, ascending[done:end])]
            done, before = end, int(combined[-1])
    times[done:] = before
    unsorted: IntArray = np.empty(len(offsets), "i8")
    unsorted[order] = times
    return unsorted


def _markers_by_offset(closed: TransactionArray, empty: EmptyMarkerArray) -> tuple[IntArray, IntArray]:
    """Return the offsets and timestamps of markers, sorted by offset.

    Args:
        closed: TRANSACTION records in the order of their markers.
        empty: EMPTY_MARKER records in the order of their markers.
    """
    if not len(empty):
        return closed["marker_offset"], closed["marker_timestamp"]
    offsets, times = (
        np.concatenate([markers[name] for markers in (closed, empty)]) for name in ("marker_offset", "marker_timestamp")
    )
    order = np.argsort(offsets, kind="stable")
    return offsets[order], times[order]


def with_marker_times(
    state: PartitionState, offset: str, selected: Callable[[TransactionArray], BoolArray]
) -> Iterator[tuple[TransactionArray, IntArray]]:
    """Yield closed transactions with the time of the last marker of any producer below one of their offsets.

    The pages of the transaction store are read from the last one back, so that no more transactions are kept until
    their marker appears than were open at the same time.

    Args:
        state: the partition.
        offset: name of the TRANSACTION field that contains the offset.
        selected: returns the mask of the transactions of a page to yield.

    Yields:
        TRANSACTION records in no particular order, and timestamps, NO_TIME where there is no marker.
    """
    pending = NO_TRANSACTIONS
    for closed, empty in marker_pages(state, reverse=True):
        rows = concat_rows([take_rows(closed, selected(closed)), pending])
        marker_offsets, times = _markers_by_offset(closed, empty)
        markers = np.searchsorted(marker_offsets, rows[offset]) - 1
        yield take_rows(rows, markers >= 0), times[markers[markers >= 0]]
        pending = take_rows(rows, markers < 0)
    yield pending, np.full(len(pending), NO_TIME)
