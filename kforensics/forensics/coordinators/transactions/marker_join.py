"""Joins the coordinators' decisions with the markers in the partitions.

The join key is the producer id and the epoch of the Prepare record: a coordinator sends markers with the state that it
stored last (``TransactionMarkerChannelManager.addTxnMarkersToSend``). In version 2 of the protocol the key identifies
one transaction. In earlier versions it may identify several, which :mod:`.marker_alignment` distinguishes. Everything
is keyed by producer id, so the join can be split by producer id.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, NONE, State, TopicPartition
from kforensics.forensics.coordinators.partition_markers import (
    TRANSACTION_MARKER,
    PartitionMarkers,
    TransactionMarkerArray,
)
from kforensics.forensics.coordinators.transactions.early_markers import note_early_markers
from kforensics.forensics.coordinators.transactions.history import Coordinators, CoordinatorTransactionArray
from kforensics.forensics.coordinators.transactions.join_totals import JoinTotals
from kforensics.forensics.coordinators.transactions.marker_alignment import TransactionEnds, align_markers
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole, marker_roles, may_follow_history
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    KeyGroups,
    MarkerStatus,
    TransactionPartitionArray,
    decided_outcomes,
    decided_partitions,
    has_unique_key,
    is_by_operator,
    key_groups,
)
from kforensics.forensics.coordinators.transactions.transitions import MAX_PRODUCER_EPOCH, TV2
from kforensics.forensics.core.record_arrays import fields_of
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

ALL = slice(None)
# What the alignment of markers with transactions of one epoch takes of either: there may be millions.
ALIGNED_TRANSACTION = ("id", "coordinator", "decided", "completed", "is_superseded")
ALIGNED_MARKER = (*("marker_epoch", "coordinator_epoch", "outcome", "marker_timestamp", "first_offset", "data_epoch"),)


@dataclass(frozen=True, slots=True)
class MarkerJoin:
    """The coordinators' transactions joined with the markers.

    Attributes:
        partitions: every listed or supplied partition, by number.
        by_partition: the markers of each supplied partition, by its number.
        markers: TRANSACTION_MARKER records of all partitions.
        transaction_partitions: TRANSACTION_PARTITION records; those of a transaction are consecutive.
        roles: the ``MarkerRole`` of each marker.
        totals: what it shows as a whole.
    """

    partitions: Sequence[TopicPartition]
    by_partition: Mapping[int, PartitionMarkers]
    markers: TransactionMarkerArray
    transaction_partitions: TransactionPartitionArray
    roles: IntArray
    totals: JoinTotals


def join_markers(coordinators: Coordinators, supplied: Iterable[PartitionMarkers], rules: Rules) -> MarkerJoin:
    """Return the coordinators' transactions joined with the markers of partitions.

    Args:
        coordinators: the transactions.
        supplied: the markers of each partition.
        rules: limits and the time of evaluation.
    """
    numbers, by_partition = numbered_partitions(coordinators, supplied)
    start, end, first = (np.full(len(numbers), time, "i8") for time in (NEVER, NEVER, ALWAYS))
    start[list(by_partition)] = [_certain_start(one, rules.clock_skew_ms) for one in by_partition.values()]
    end[list(by_partition)] = [partition.coverage_end for partition in by_partition.values()]
    first[list(by_partition)] = [partition.first_time for partition in by_partition.values()]
    markers = _all_markers(by_partition)
    by_partition = dict(_with_views(by_partition, markers))
    del supplied
    listed = decided_partitions(coordinators, markers, numbers)
    groups = key_groups(coordinators.transactions, listed, markers)
    join = _Join(coordinators, markers, listed, groups, (start, end, first), rules.clock_skew_ms)
    join.by_key()
    join.by_order()
    join.set_statuses(by_partition)
    roles = marker_roles(coordinators, markers, join.roles, rules)
    note_early_markers(coordinators.transactions, listed, markers, roles, rules.clock_skew_ms)
    totals = JoinTotals.of(coordinators, listed, markers)
    return MarkerJoin(tuple(numbers), by_partition, markers, listed, roles, totals)


def numbered_partitions(
    coordinators: Coordinators, supplied: Iterable[PartitionMarkers]
) -> tuple[Mapping[TopicPartition, int], Mapping[int, PartitionMarkers]]:
    """Return the number of every listed or supplied partition, and the supplied ones by number."""
    by_name = {partition.name: partition for partition in supplied}
    numbers = {name: n for n, name in enumerate(dict.fromkeys(chain(by_name, *coordinators.partition_sets)))}
    return numbers, {numbers[name]: partition for name, partition in by_name.items()}


def _certain_start(partition: PartitionMarkers, skew_ms: int) -> int:
    """Return when coverage starts by the clock of any coordinator, which may be ahead of that of the leader."""
    start = partition.coverage_start
    return start if start in (ALWAYS, NEVER) else start + skew_ms


def _all_markers(by_partition: Mapping[int, PartitionMarkers]) -> TransactionMarkerArray:
    """Return the markers of all partitions with the number of their partition, in one array: there may be many."""
    markers = np.empty(sum(len(partition.markers) for partition in by_partition.values()), TRANSACTION_MARKER)
    start = 0
    for number, partition in by_partition.items():
        rows = markers[start : start + len(partition.markers)]
        rows[:] = partition.markers
        rows["partition"] = number
        start += len(rows)
    return markers


def _with_views(
    by_partition: Mapping[int, PartitionMarkers], markers: TransactionMarkerArray
) -> Iterator[tuple[int, PartitionMarkers]]:
    """Yield partitions whose markers are part of the array of all, so that memory holds them once."""
    start = 0
    for number, partition in by_partition.items():
        stop = start + len(partition.markers)
        yield number, replace(partition, markers=markers[start:stop])
        start = stop


class _Join:
    """Assigns markers to listed partitions, statuses to listed partitions, and roles to markers with a known key.

    Attributes:
        roles: the ``MarkerRole`` of each marker, -1 if no transaction of its partition has its key.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # both sides of the join, their groups and what limits them
        self,
        coordinators: Coordinators,
        markers: TransactionMarkerArray,
        listed: TransactionPartitionArray,
        groups: KeyGroups,
        coverage: tuple[IntArray, IntArray, IntArray],
        skew_ms: int,
    ) -> None:
        self._coordinators, self._markers, self._listed, self._groups = coordinators, markers, listed, groups
        (self._coverage_start, self._coverage_end, self._first_time), self._skew_ms = coverage, skew_ms
        self._outcomes = decided_outcomes(self._column("status"))
        self._is_unique = self._unique_groups()
        self.roles = np.full(len(markers), NONE, "i1")

    def _column(self, name: str, rows: IntArray | slice = ALL) -> Column:
        """Return a column of the transactions of all listed partitions, or of some."""
        column: Column = self._coordinators.transactions[name][self._listed["transaction"][rows]]
        return column

    def _unique_groups(self) -> BoolArray:
        """Return which groups have exactly one transaction that no other one can be mistaken for."""
        groups = self._groups
        unique = has_unique_key(self._coordinators)[self._listed["transaction"]]
        transactions = np.bincount(groups.of_partitions, minlength=groups.count)
        has_several = np.bincount(groups.of_markers, minlength=groups.count) > 1
        # Before version 2 the epoch does not distinguish an operator's abort from the coordinator's.
        certain = unique & ((self._column("transaction_version") >= TV2) | ~has_several[groups.of_partitions])
        is_unique: BoolArray = transactions == 1
        is_unique[groups.of_partitions[~certain]] = False
        return is_unique

    def by_key(self) -> None:
        """Join the groups whose key identifies the transaction."""
        row_of_group = np.full(self._groups.count, NONE, "i8")
        row_of_group[self._groups.of_partitions] = np.arange(len(self._listed))
        row_of_group[~self._is_unique] = NONE
        rows = row_of_group[self._groups.of_markers]
        markers = np.flatnonzero(rows != NONE)
        rows = rows[markers]
        by_operator = is_by_operator(self._markers[markers]) & (self._column("transaction_version", rows) >= TV2)
        self.roles[markers[by_operator]] = MarkerRole.BY_OPERATOR
        markers, rows = markers[~by_operator], rows[~by_operator]
        foreign = self._is_of_next(markers, rows)
        self.roles[markers[foreign]] = MarkerRole.UNMATCHED
        markers, rows = markers[~foreign], rows[~foreign]
        self.roles[markers] = MarkerRole.DUPLICATE
        # The last assignment wins: the first marker with the other outcome, else the first with the decided one.
        agrees = self._markers["outcome"][markers] == self._outcomes[rows]
        for mask in (agrees, ~agrees):
            reverse = rows[mask][::-1]
            self._listed["marker"][reverse] = markers[mask][::-1]
            self.roles[self._listed["marker"][reverse]] = MarkerRole.SENT

    def _is_of_next(self, markers: IntArray, rows: IntArray) -> BoolArray:
        """Return which markers contradict their transaction and ended data of the next one: no coordinator sent them.

        With version 2 the data of the next transaction has the epoch of the marker.
        """
        ended = self._markers[markers]
        is_next = (ended["data_epoch"] == ended["marker_epoch"]) & (ended["data_epoch"] != MAX_PRODUCER_EPOCH)
        is_next &= self._column("transaction_version", rows) >= TV2
        of_next: BoolArray = is_next & (ended["outcome"] != self._outcomes[rows])
        return of_next

    def by_order(self) -> None:
        """Join the groups whose key identifies, or may identify, several transactions."""
        for rows, markers in self._shared_groups():
            self._align(rows, markers)

    def _shared_groups(self) -> Iterator[tuple[IntArray, IntArray]]:
        """Yield the listed partitions and the markers of each group."""
        groups = self._groups
        rows = np.flatnonzero(~self._is_unique[groups.of_partitions])
        rows = rows[np.lexsort((self._column("decided", rows), groups.of_partitions[rows]))]
        numbers, starts = np.unique(groups.of_partitions[rows], return_index=True)
        markers = np.argsort(groups.of_markers, kind="stable")
        in_order = groups.of_markers[markers]
        begins, ends = (np.searchsorted(in_order, numbers, side=side) for side in ("left", "right"))
        for group, begin, end in zip(np.split(rows, starts[1:]), begins, ends, strict=bool(len(numbers))):
            yield group, markers[begin:end]

    def _align(self, rows: IntArray, markers: IntArray) -> None:
        """Join a group. Transactions and markers from before the coverage of the other side take part if they fit."""
        decisions = self._listed["transaction"][rows]
        transactions = fields_of(self._coordinators.transactions, decisions, ALIGNED_TRANSACTION)
        coverage_start = self._history_start(transactions)
        covered = transactions["decided"] >= self._coverage_start[self._listed["partition"][rows]]
        is_required = ~transactions["is_superseded"] & covered & (transactions["decided"] >= coverage_start)
        is_required &= ~self._may_follow_copy(rows) & ~self._precedes_log(rows)
        group = fields_of(self._markers, markers, ALIGNED_MARKER)
        optional = self._optional(group)
        ends = TransactionEnds(transactions["decided"], transactions["completed"], self._outcomes[rows], is_required)
        earlier_ends = coverage_start != ALWAYS
        alignment = align_markers(
            ends, group["marker_timestamp"], group["outcome"], optional, self._skew_ms, earlier_ends=earlier_ends
        )
        has_marker = alignment.markers >= 0
        complete = not earlier_ends and bool(covered.all())
        self._listed["marker"][rows[has_marker]] = markers[alignment.markers[has_marker]]
        self._listed["is_exact"][rows] = alignment.is_exact and complete
        self._listed["marker_status"][rows[~has_marker & ~alignment.is_missing]] = MarkerStatus.AMBIGUOUS
        numbers = np.full(len(group), transactions["coordinator"][0])
        later = may_follow_history(self._coordinators, numbers, group["marker_timestamp"], self._skew_ms)
        unassigned = np.where(complete & ~later, MarkerRole.UNMATCHED, MarkerRole.NOT_COVERED)
        self.roles[markers] = np.where(optional, MarkerRole.DUPLICATE, unassigned)
        by_operator = MarkerRole.BY_OPERATOR if complete else MarkerRole.NOT_COVERED
        self.roles[markers[optional & is_by_operator(group)]] = by_operator
        self.roles[markers[alignment.markers[has_marker]]] = MarkerRole.SENT

    def _may_follow_copy(self, rows: IntArray | slice = ALL) -> BoolArray:
        """Return for which listed partitions the marker may have been written after the partition was copied."""
        completed = self._column("completed", rows)
        late: BoolArray = (completed != NO_TIME) & (completed >= self._coverage_end[self._listed["partition"][rows]])
        return late

    def _precedes_log(self, rows: IntArray | slice = ALL) -> BoolArray:
        """Return for which listed partitions the transaction was complete before the first batch of the log."""
        completed = self._column("completed", rows)
        early: BoolArray = (completed != NO_TIME) & (completed < self._first_time[self._listed["partition"][rows]])
        return early

    def _history_start(self, transactions: CoordinatorTransactionArray) -> int:
        """Return the time from which all transactions of an id are available."""
        if self._coordinators.ids["history_complete"][transactions["id"]].all():
            return ALWAYS
        return int(self._coordinators.coverage_start[transactions["coordinator"]].max())

    @staticmethod
    def _optional(group: TransactionMarkerArray) -> BoolArray:
        """Return which markers of a group may be duplicates or an operator's."""
        duplicate = np.zeros(len(group), bool)
        duplicate[1:] = (group["first_offset"][1:] == NONE) & (group["outcome"][1:] == group["outcome"][:-1])
        epoch = group["coordinator_epoch"]
        before = np.concatenate([[NONE], epoch[:-1]])
        optional: BoolArray = duplicate | (is_by_operator(group) & ((epoch == 0) | (epoch == before)))
        return optional

    def set_statuses(self, by_partition: Mapping[int, PartitionMarkers]) -> None:
        """Set the marker status of every listed partition.

        Args:
            by_partition: the markers of each supplied partition, by its number.
        """
        listed, superseded = self._listed, self._column("is_superseded")
        has_marker = listed["marker"] != NONE
        # No marker is -1, which indexes the NONE at the end.
        columns = (np.append(self._markers[name], NONE) for name in ("outcome", "first_offset"))
        outcomes, firsts = (column[listed["marker"]] for column in columns)
        covered = self._column("decided") >= self._coverage_start[listed["partition"]]
        complete = np.isin(self._column("status"), (State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
        covered |= self._has_unended_data(~covered & ~has_marker & complete, by_partition)
        cases = (
            (~np.isin(listed["partition"], list(by_partition)), MarkerStatus.NOT_SUPPLIED),
            (has_marker & ((outcomes != self._outcomes) | superseded), MarkerStatus.SPLIT),
            (has_marker & (firsts == NONE), MarkerStatus.EMPTY),
            (has_marker, MarkerStatus.MATCHED),
            (superseded, MarkerStatus.UNSENT),
            (~complete, MarkerStatus.PENDING),
            (~covered | self._may_follow_copy() | self._precedes_log(), MarkerStatus.NOT_COVERED),
            (listed["marker_status"] == MarkerStatus.AMBIGUOUS, MarkerStatus.AMBIGUOUS),
        )
        masks, statuses = [mask for mask, _ in cases], [int(status) for _, status in cases]
        listed["marker_status"] = np.select(masks, statuses, MarkerStatus.MISSING)

    def _has_unended_data(self, candidates: BoolArray, by_partition: Mapping[int, PartitionMarkers]) -> BoolArray:
        """Return which listed partitions outside the coverage have data that no marker of their transaction ended.

        In version 2 the epoch identifies the transaction of the data, and no cleaner of these releases removes a marker
        before its data.
        """
        epochs, producers = self._column("data_epoch"), self._column("producer_id")
        candidates = candidates & (self._column("transaction_version") >= TV2) & (epochs != NONE)
        unended = np.zeros(len(candidates), bool)
        rows = np.flatnonzero(candidates & np.isin(self._listed["partition"], list(by_partition)))
        rows = rows[np.argsort(self._listed["partition"][rows], kind="stable")]
        numbers, starts = np.unique(self._listed["partition"][rows], return_index=True)
        for number, group in zip(numbers.tolist(), np.split(rows, starts[1:]), strict=bool(len(numbers))):
            unended[group] = by_partition[number].begins_with(producers[group], epochs[group])
        return unended
