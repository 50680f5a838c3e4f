"""Which markers the coordinators sent, and what to make of those that no transaction of their partition claims."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NONE
from kforensics.forensics.coordinators.partition_markers import TransactionMarkerArray
from kforensics.forensics.coordinators.transactions.history import UNKNOWN_SET, Coordinators
from kforensics.forensics.coordinators.transactions.transaction_partitions import is_by_operator
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["MarkerRole", "decisions_covered", "marker_roles", "may_follow_history"]


class MarkerRole(IntEnum):
    """The role of a marker, judging by the available coordinators.

    SENT: a coordinator sent it. DUPLICATE: sent again. BY_OPERATOR: an operator may have written it. UNMATCHED: no
    transaction of its epoch needs it. UNLISTED: its transaction does not list the partition. UNDECIDED: no decision
    with its key. UNKNOWN_PRODUCER: no coordinator knows its producer id. NOT_COVERED: the decision may be missing.
    """

    SENT = 0
    DUPLICATE = 1
    BY_OPERATOR = 2
    UNMATCHED = 3
    UNLISTED = 4
    UNDECIDED = 5
    UNKNOWN_PRODUCER = 6
    NOT_COVERED = 7


def marker_roles(coordinators: Coordinators, markers: StructRows, joined_roles: IntArray, rules: Rules) -> IntArray:
    """Return the roles of all markers.

    Args:
        coordinators: the transactions.
        markers: the markers.
        joined_roles: roles of the markers that share the key of a transaction in their partition, -1 for the others.
        rules: limits and the time of evaluation.
    """
    roles: IntArray = joined_roles.copy()
    indexes = np.flatnonzero(joined_roles == NONE)
    others = take_rows(markers, indexes)
    ids = coordinators.id_of(others["producer_id"])
    decided, listed = _decided(coordinators, others)
    covered = _decision_covered(coordinators, others, ids, rules.clock_skew_ms)
    cases = (
        (ids == NONE, MarkerRole.UNKNOWN_PRODUCER),
        (decided & ~listed, MarkerRole.NOT_COVERED),
        (~covered, MarkerRole.NOT_COVERED),
        (is_by_operator(others), MarkerRole.BY_OPERATOR),
        (decided, MarkerRole.UNLISTED),
    )
    roles[indexes] = np.select([mask for mask, _ in cases], [int(role) for _, role in cases], MarkerRole.UNDECIDED)
    return _with_repeated_aborts(markers, roles)


def _with_repeated_aborts(markers: StructRows, roles: IntArray) -> IntArray:
    """Return the roles with those aborts that repeat the one of an operator, and end nothing, as duplicates.

    An admin client sends its request again when the answer is late, and an operator may try a second command.
    """
    unknown = np.isin(roles, (MarkerRole.UNLISTED, MarkerRole.UNDECIDED))
    repeats = unknown & (markers["first_offset"] == NONE) & (markers["outcome"] == TransactionOutcome.ABORTED)
    if not repeats.any() or not (roles == MarkerRole.BY_OPERATOR).any():
        return roles
    producers = markers["producer_id"]
    rows = np.flatnonzero(np.isin(producers, producers[repeats]))
    keys = [markers[name][rows] for name in ("marker_offset", "marker_epoch", "producer_id", "partition")]
    order = np.lexsort(keys)
    rows, (_, *same) = rows[order], [key[order] for key in keys]
    last = np.maximum.accumulate(np.where(repeats[rows], 0, np.arange(len(rows))))
    follows = repeats[rows] & (roles[rows[last]] == MarkerRole.BY_OPERATOR)
    for key in same:
        follows &= key == key[last]
    roles[rows[follows]] = MarkerRole.DUPLICATE
    return roles


# More than there are epochs; producer ids start at 0 and come in blocks of 1000.
_EPOCHS = 1 << 15


def _decided(coordinators: Coordinators, markers: TransactionMarkerArray) -> tuple[BoolArray, BoolArray]:
    """Return which markers have the key of a transaction, and whether all such transactions list known partitions."""
    if not len(markers):
        return np.zeros(0, bool), np.zeros(0, bool)
    transactions = coordinators.transactions
    decided = transactions["marker_epoch"] != NONE
    keys, marker_keys = (rows["producer_id"] * _EPOCHS + rows["marker_epoch"] for rows in (transactions, markers))
    unknown = (transactions["partitions"] == UNKNOWN_SET) | ~coordinators.ids["history_complete"][transactions["id"]]
    return np.isin(marker_keys, keys[decided]), ~np.isin(marker_keys, keys[decided & unknown])


def _decision_covered(
    coordinators: Coordinators, markers: TransactionMarkerArray, ids: IntArray, skew_ms: int
) -> BoolArray:
    """Return whether the decision on each marker would be available; it was stored before the marker was sent."""
    if not len(coordinators.ids):
        return np.zeros(len(markers), bool)
    numbers, times = coordinators.ids["coordinator"][ids], markers["marker_timestamp"]
    is_covered = decisions_covered(coordinators, numbers, times, skew_ms)
    return is_covered & ~may_follow_history(coordinators, numbers, times, skew_ms)


def decisions_covered(coordinators: Coordinators, numbers: IntArray, times: IntArray, skew_ms: int) -> BoolArray:
    """Return for which times the log of a coordinator lacks nothing that was decided from then on until its copy.

    Args:
        coordinators: the coordinators.
        numbers: the number of one for each time.
        times: times of markers.
        skew_ms: maximum difference between the clocks of brokers.
    """
    start = coordinators.coverage_start[numbers]
    # Not start + skew_ms, which is before all times if start is NEVER.
    covered: BoolArray = (start == ALWAYS) | (start <= times - skew_ms)
    return covered


def may_follow_history(coordinators: Coordinators, numbers: IntArray, times: IntArray, skew_ms: int) -> BoolArray:
    """Return for which times the log of a coordinator may have been copied before what was decided then.

    Args:
        coordinators: the coordinators.
        numbers: the number of one for each time.
        times: times of markers.
        skew_ms: maximum difference between the clocks of brokers.
    """
    stopped = np.array([history.is_stopped for history in coordinators.histories], bool)
    known_until = coordinators.last_record_time - np.where(stopped, 0, skew_ms)
    follows: BoolArray = times > known_until[numbers]
    return follows
