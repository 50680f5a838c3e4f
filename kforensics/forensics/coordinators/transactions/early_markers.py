"""Markers that ended data of a transaction before its coordinator did.

``Admin.abortTransaction``, or any other sender of ``WriteTxnMarkers``, may end a transaction in one of its partitions.
The coordinator's own marker comes later and does not change what became of that data: the early marker counts.
"""

from __future__ import annotations

from itertools import chain

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.coordinators.partition_markers import TransactionMarkerArray
from kforensics.forensics.coordinators.transactions.history import Coordinators, CoordinatorTransactionArray
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    MarkerStatus,
    TransactionPartitionArray,
    decided_outcomes,
    group_numbers,
)
from kforensics.forensics.coordinators.transactions.transitions import TV2
from kforensics.forensics.core.packed_rows import StructRows, column_at
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["note_early_markers"]

# Roles of markers that no coordinator sent for the data that they ended.
NOT_SENT = (MarkerRole.BY_OPERATOR, MarkerRole.UNMATCHED, MarkerRole.UNDECIDED, MarkerRole.UNLISTED)


def note_early_markers(
    coordinators: Coordinators,
    listed: TransactionPartitionArray,
    markers: StructRows,
    roles: IntArray,
    skew_ms: int,
) -> None:
    """Set the status SPLIT, and the marker that counts, where an early marker has the other outcome.

    Args:
        coordinators: the transactions.
        listed: their partitions with their markers; changed in place.
        markers: the markers of all partitions.
        roles: the ``MarkerRole`` of each marker.
        skew_ms: maximum difference between clocks.
    """
    transactions = coordinators.transactions
    is_candidate = np.isin(roles, NOT_SENT) & (markers["first_offset"] != NONE)
    if not is_candidate.any():
        return
    early, rows = _followed_by_sent(listed, markers, roles, is_candidate)
    own = listed["transaction"][rows]
    decided = take_rows(transactions, own)
    differs = markers["outcome"][early] != decided_outcomes(decided["status"])
    if not differs.any():
        return
    # Up to version 1, a marker that is taken for another one of its epoch must not look like an early one.
    differs &= (decided["transaction_version"] >= TV2) | _is_surplus(transactions, listed, markers)[early]
    is_empty = listed["marker_status"][rows] == MarkerStatus.EMPTY
    earlier_end = np.where(is_empty, NO_TIME, _earlier_end(coordinators, own))
    is_early = differs & _is_of_transaction(decided, take_rows(markers, early), earlier_end, skew_ms)
    # The first one counts; the last assignment wins.
    early, rows = early[is_early][::-1], rows[is_early][::-1]
    listed["marker"][rows], listed["marker_status"][rows], listed["is_exact"][rows] = early, MarkerStatus.SPLIT, True


def _followed_by_sent(
    listed: TransactionPartitionArray, markers: StructRows, roles: IntArray, is_candidate: BoolArray
) -> tuple[IntArray, IntArray]:
    """Return candidates that no coordinator sent, and the listed partition of the next marker that one did send.

    Both markers are of the same producer in the same partition.
    """
    row_of = np.full(len(markers) + 1, NONE, "i8")
    has_marker = np.flatnonzero(listed["marker"] != NONE)
    row_of[listed["marker"][has_marker]] = has_marker
    order = np.lexsort((markers["marker_offset"], markers["producer_id"], markers["partition"]))
    is_sent = roles[order] == MarkerRole.SENT
    following = np.minimum.accumulate(np.where(is_sent, np.arange(len(order)), len(order))[::-1])[::-1]
    places = np.flatnonzero(is_candidate[order] & (following < len(order)))
    early, sent = order[places], order[following[places]]
    same = np.ones(len(early), bool)
    for name in ("partition", "producer_id"):
        same &= markers[name][early] == markers[name][sent]
    rows = row_of[sent]
    same &= rows != NONE
    return early[same], rows[same]


def _is_surplus(transactions: StructRows, listed: TransactionPartitionArray, markers: StructRows) -> BoolArray:
    """Return whether more markers with the key and outcome of each ended data than transactions ended so here."""
    decided = listed["transaction"]
    outcomes = decided_outcomes(transactions["status"][decided])
    columns = ((transactions[name][decided], markers[name]) for name in ("producer_id", "marker_epoch"))
    others = [(listed["partition"], markers["partition"]), (outcomes, markers["outcome"])]
    numbers, count = group_numbers(np.concatenate(pair) for pair in chain(columns, others))
    of_markers = numbers[len(listed) :]
    ends = np.bincount(numbers[: len(listed)], minlength=count)
    surplus: BoolArray = np.bincount(of_markers[markers["first_offset"] != NONE], minlength=count) > ends
    return surplus[of_markers]


def _earlier_end(coordinators: Coordinators, numbers: IntArray) -> IntArray:
    """Return when the transaction of the same producer before each one was decided.

    NO_TIME if it was the first one, NEVER if that is not known.

    Args:
        coordinators: the transactions.
        numbers: indexes of transactions.
    """
    transactions = coordinators.transactions
    among = np.flatnonzero(np.isin(transactions["producer_id"], column_at(transactions, "producer_id", numbers)))
    producers, ids, ends = (column_at(transactions, name, among) for name in ("producer_id", "id", "decided"))
    order = np.lexsort((among, producers))
    is_first = np.append(True, producers[order[1:]] != producers[order[:-1]])[: len(order)]
    earlier = np.where(coordinators.ids["history_complete"][ids], NO_TIME, NEVER)
    known = np.where(ends == NO_TIME, NEVER, ends)
    earlier[order[~is_first]] = known[order[:-1][~is_first[1:]]]
    end_before: IntArray = earlier[np.searchsorted(among, numbers)]
    return end_before


def _is_of_transaction(
    decided: CoordinatorTransactionArray, ended: TransactionMarkerArray, earlier_end: IntArray, skew_ms: int
) -> BoolArray:
    """Return which early markers ended data of the transaction, and not a late write from before its start.

    With transaction version 2 the epoch shows it. Before, the data must have been written after the start: by the time
    of the first marker after it, and by its own time, which the client took just before the partition was enrolled. If
    a late write is as likely, the data must not be older at all: if the transaction had more data, and the one before
    was decided only just before.

    Args:
        decided: the transactions.
        ended: the early markers.
        earlier_end: when the transaction before was decided, NO_TIME if it does not matter.
        skew_ms: maximum difference between clocks.
    """
    start = decided["start"]
    same_epoch = (ended["lowest_epoch"] == decided["data_epoch"]) & (ended["data_epoch"] == decided["data_epoch"])
    tolerance = np.where(ended["first_timestamp"] - skew_ms > earlier_end, skew_ms, 0)
    in_time = (ended["first_timestamp"] >= start - tolerance) & (ended["written_by"] >= start)
    is_known = (start != NO_TIME) & (ended["first_timestamp"] != NO_TIME)
    of_transaction: BoolArray = same_epoch & ((decided["transaction_version"] >= TV2) | (is_known & in_time))
    return of_transaction
