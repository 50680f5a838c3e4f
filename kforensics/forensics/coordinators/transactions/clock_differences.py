"""By how much the clocks of brokers differ, as the markers show.

The leader of a partition gives a marker the time of its own clock, and the coordinator its records that of another one
(``EndTransactionMarker`` is written by the leader, ``TransactionStateManager.appendTransactionToLog`` by the
coordinator). Two things show that clocks differ:

- A COMMIT that seems to be written before the Prepare or after the Complete record of its transaction, if it is certain
  which transaction that is: no operator sends a COMMIT, and there are as many of them with a key as transactions.
- A log whose markers go back in time, because another broker became its leader.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.transactions.history import Coordinators
from kforensics.forensics.coordinators.transactions.transaction_partitions import KeyGroups, TransactionPartitionArray
from kforensics.forensics.coordinators.transactions.transitions import TV2
from kforensics.forensics.core.packed_rows import StructRows, column_at
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

__all__ = ["NO_DIFFERENCES", "backward_steps", "clock_differences", "tolerated_difference_ms"]

# Doublings of the tolerated difference: 2 ** 40 ms are 34 years.
DOUBLINGS = 40
NO_DIFFERENCES: IntArray = np.zeros(DOUBLINGS, "i8")
NO_DIFFERENCES.setflags(write=False)
# One or two markers with another time may have another reason.
ENOUGH = 3
# Groups that are compared at most, evenly distributed; and rows that are read at a time.
MOST, AT_ONCE = 1 << 20, 1 << 16


def clock_differences(  # noqa: PLR0913, PLR0917  # what is joined, and how
    coordinators: Coordinators,
    listed: TransactionPartitionArray,
    markers: StructRows,
    groups: KeyGroups,
    covered_from: IntArray,
    skew_ms: int,
) -> IntArray:
    """Return how many COMMIT markers need a larger tolerance, by the number of times that it has to be doubled.

    Of a group of transactions with one key, the first and the last marker are compared, which count for up to
    ``ENOUGH`` of the group if both need it.

    Args:
        coordinators: the transactions.
        listed: the partitions that they list, those of a transaction in the order of its coordinator's log.
        markers: the markers of all partitions, in the order of their logs.
        groups: listed partitions and markers with the same key.
        covered_from: time from which each partition, by its number, has all markers. Where earlier ones were deleted,
            later ones that the coordinator's log does not know yet could be taken for them.
        skew_ms: the tolerated difference.
    """
    stride = max(-(-groups.count // MOST), 1)
    count = -(-groups.count // stride)
    rows, of_rows = _every(groups.of_partitions, stride)
    is_usable = np.ones(count, bool)
    is_usable[of_rows[~_is_certain(coordinators, listed[rows], covered_from)]] = False
    status = column_at(coordinators.transactions, "status", listed["transaction"][rows])
    ends = _Edges.of(rows, of_rows, status == State.COMPLETE_COMMIT, count)
    sent, of_sent = _every(groups.of_markers, stride)
    outcomes = column_at(markers, "outcome", sent)
    commits = _Edges.of(sent, of_sent, outcomes == TransactionOutcome.COMMITTED, count)
    usable = np.flatnonzero(is_usable & (ends.count > 0) & (ends.count == commits.count))
    first, last = (
        _outside(coordinators, listed["transaction"][end], column_at(markers, "marker_timestamp", marker))
        for end, marker in ((ends.first[usable], commits.first[usable]), (ends.last[usable], commits.last[usable]))
    )
    needed = np.where(np.sign(first) == np.sign(last), np.minimum(abs(first), abs(last)), 0)
    return _by_doublings(needed, np.minimum(ends.count[usable], ENOUGH), skew_ms)


def backward_steps(partitions: Iterable[PartitionMarkers], skew_ms: int) -> IntArray:
    """Return how many markers are earlier than those before them, by the number of doublings that this needs.

    A marker counts if three markers in a row before it are later by more than the tolerated difference. Two other
    brokers may differ by twice as much.

    Args:
        partitions: the markers of each partition.
        skew_ms: the tolerated difference.
    """
    totals = NO_DIFFERENCES.copy()
    for partition in partitions:
        times, reached = partition.markers["marker_timestamp"], NO_TIME
        for start in range(0, len(times) - ENOUGH, AT_ONCE):
            block = times[start : start + AT_ONCE + ENOUGH]
            lowest = np.minimum.reduce([block[n : len(block) - ENOUGH + n] for n in range(ENOUGH)])
            before = np.maximum.accumulate(np.maximum(lowest, reached))
            reached = int(before[-1])
            back = before - block[ENOUGH:]
            back = back[back > skew_ms]
            totals += _by_doublings(back * 2, np.ones(len(back), "i8"), skew_ms)
    return totals


def tolerated_difference_ms(differences: IntArray, skew_ms: int) -> int:
    """Return by how much the clocks of brokers may differ, at least as much as is tolerated anyway.

    Args:
        differences: how many markers need a larger tolerance, of a whole cluster or added up over parts of it.
        skew_ms: the tolerated difference.
    """
    needed = np.flatnonzero(np.cumsum(differences[::-1])[::-1] >= ENOUGH)
    return max(skew_ms, 1) * 2 ** int(needed[-1]) if len(needed) else skew_ms


def _by_doublings(needed: IntArray, weights: IntArray, skew_ms: int) -> IntArray:
    """Return the weights of differences above the tolerated one, by the number of doublings."""
    is_larger = needed > skew_ms
    doublings = np.ceil(np.log2(needed[is_larger] / max(skew_ms, 1))).astype("i8")
    return np.bincount(np.minimum(doublings, DOUBLINGS - 1), weights[is_larger], DOUBLINGS).astype("i8")


def _every(of_rows: IntArray, stride: int) -> tuple[IntArray, IntArray]:
    """Return the rows of every so many groups, and the number of their group among these."""
    starts = range(0, len(of_rows), AT_ONCE)
    chunks = (np.flatnonzero(of_rows[start : start + AT_ONCE] % stride == 0) + start for start in starts)
    rows: IntArray = np.concatenate([np.empty(0, "i8"), *chunks])
    return rows, of_rows[rows] // stride


@dataclass(frozen=True, slots=True)
class _Edges:
    """How many of some rows each group has, and its first and last one; NONE if it has none."""

    count: IntArray
    first: IntArray
    last: IntArray

    @classmethod
    def of(cls, rows: IntArray, groups: IntArray, selected: BoolArray, count: int) -> _Edges:
        rows, groups = rows[selected], groups[selected]
        first, last = np.full(count, NONE, "i8"), np.full(count, NONE, "i8")
        first[groups[::-1]] = rows[::-1]  # the last assignment wins
        last[groups] = rows
        return cls(np.bincount(groups, minlength=count), first, last)


def _is_certain(coordinators: Coordinators, listed: TransactionPartitionArray, covered_from: IntArray) -> BoolArray:
    """Return which transactions are complete, and known together with all others of their key and all markers of it."""
    transactions = listed["transaction"]

    def column(name: str) -> Column:
        return column_at(coordinators.transactions, name, transactions)

    certain: BoolArray = np.isin(column("status"), (State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
    certain &= ~column("is_superseded") & (column("decided") != NO_TIME) & (column("completed") != NO_TIME)
    # With version 2 each transaction has a key of its own.
    is_whole = coordinators.ids["history_complete"][column("id")] & (
        column("decided") >= covered_from[listed["partition"]]
    )
    certain &= is_whole | (column("transaction_version") >= TV2)
    return certain


def _outside(coordinators: Coordinators, transactions: IntArray, times: Column) -> IntArray:
    """Return by how much markers are after the end of their transactions; before them, the difference is negative."""
    decided, completed = (column_at(coordinators.transactions, name, transactions) for name in ("decided", "completed"))
    outside: IntArray = np.maximum(times - completed, 0) + np.minimum(times - decided, 0)
    return outside
