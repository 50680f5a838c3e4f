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
from kforensics.forensics.coordinators.partition_markers import TRANSACTION_MARKER, PartitionMarkers
from kforensics.forensics.coordinators.refused_markers import are_refused
from kforensics.forensics.coordinators.transactions.clock_differences import (
    backward_steps,
    clock_differences,
    tolerated_difference_ms,
)
from kforensics.forensics.coordinators.transactions.early_markers import note_early_markers
from kforensics.forensics.coordinators.transactions.history import Coordinators
from kforensics.forensics.coordinators.transactions.join_totals import JoinTotals
from kforensics.forensics.coordinators.transactions.marker_alignment import TransactionEnds, align_markers
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole, marker_roles, may_follow_history
from kforensics.forensics.coordinators.transactions.shared_keys import GroupEnds, GroupMarkers, group_batches
from kforensics.forensics.coordinators.transactions.skipped_markers import are_skipped
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    KeyGroups,
    MarkerStatus,
    TransactionPartitionArray,
    decided_outcomes,
    decided_partitions,
    has_unique_key,
    key_groups,
    may_be_by_operator,
)
from kforensics.forensics.coordinators.transactions.transitions import MAX_PRODUCER_EPOCH, TV2
from kforensics.forensics.core.packed_rows import PackedRows, RowPacker, StructRows, as_array, column_at, pieces
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

ALL = slice(None)


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
    markers: StructRows
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
    markers = _all_markers(by_partition, packed=isinstance(coordinators.transactions, PackedRows))
    by_partition = dict(_with_views(by_partition, markers))
    del supplied
    listed = decided_partitions(coordinators, markers, numbers)
    groups = key_groups(coordinators.transactions, listed, markers)
    covered_from = _Coverage.of(by_partition, len(numbers), rules.clock_skew_ms).start
    differences = clock_differences(coordinators, listed, markers, groups, covered_from, rules.clock_skew_ms)
    differences += backward_steps(by_partition.values(), rules.clock_skew_ms)
    assumed_ms = rules.clock_skew_ms
    rules = rules.tolerating(tolerated_difference_ms(differences, assumed_ms))
    further_ms = rules.clock_skew_ms - assumed_ms
    by_partition = {number: partition.tolerating(further_ms) for number, partition in by_partition.items()}
    coverage = _Coverage.of(by_partition, len(numbers), rules.clock_skew_ms)
    skipped = _skipped(coordinators, listed, by_partition, rules)
    join = _Join(coordinators, markers, listed, groups, coverage, skipped, rules.clock_skew_ms)
    join.by_key()
    join.by_order()
    join.set_statuses(by_partition)
    roles = marker_roles(coordinators, markers, join.roles, rules)
    note_early_markers(coordinators, listed, markers, roles, rules.clock_skew_ms)
    totals = JoinTotals.of(coordinators, listed, markers, differences)
    return MarkerJoin(tuple(numbers), by_partition, markers, listed, roles, totals)


def numbered_partitions(
    coordinators: Coordinators, supplied: Iterable[PartitionMarkers]
) -> tuple[Mapping[TopicPartition, int], Mapping[int, PartitionMarkers]]:
    """Return the number of every listed or supplied partition, and the supplied ones by number."""
    by_name = {partition.name: partition for partition in supplied}
    numbers = {name: n for n, name in enumerate(dict.fromkeys(chain(by_name, *coordinators.partition_sets)))}
    return numbers, {numbers[name]: partition for name, partition in by_name.items()}


@dataclass(frozen=True, slots=True)
class _Coverage:
    """What the log of each partition, by its number, covers by the clock of any coordinator.

    Attributes:
        start: time from which it has all markers, NEVER if it is not supplied.
        end: time until which it has all markers.
        first: time of its first batch.
    """

    start: IntArray
    end: IntArray
    first: IntArray

    @classmethod
    def of(cls, by_partition: Mapping[int, PartitionMarkers], count: int, skew_ms: int) -> _Coverage:
        start, end, first = (np.full(count, time, "i8") for time in (NEVER, NEVER, ALWAYS))
        start[list(by_partition)] = [_certain_start(one, skew_ms) for one in by_partition.values()]
        end[list(by_partition)] = [partition.coverage.end for partition in by_partition.values()]
        first[list(by_partition)] = [partition.coverage.first_time for partition in by_partition.values()]
        return cls(start, end, first)


def _certain_start(partition: PartitionMarkers, skew_ms: int) -> int:
    """Return when coverage starts by the clock of any coordinator, which may be ahead of that of the leader."""
    start = partition.coverage.start
    return start if start in (ALWAYS, NEVER) else start + skew_ms


def _skipped(
    coordinators: Coordinators,
    listed: TransactionPartitionArray,
    by_partition: Mapping[int, PartitionMarkers],
    rules: Rules,
) -> BoolArray:
    """Return for which listed partitions no leader can have written the marker, or any since the decision."""
    skipped = np.zeros(len(listed), bool)
    for number, markers in by_partition.items():
        if rules.leaderless_times(markers.topic_id, markers.name[1]):
            rows = np.flatnonzero(listed["partition"] == number)
            own = listed["transaction"][rows]
            decided, completed = (column_at(coordinators.transactions, name, own) for name in ("decided", "completed"))
            skipped[rows] = are_skipped(markers, decided, completed, rules)
    return skipped


def _all_markers(by_partition: Mapping[int, PartitionMarkers], *, packed: bool) -> StructRows:
    """Return the markers of all partitions with the number of their partition, in one array: there may be many."""
    if packed:
        packer = RowPacker(TRANSACTION_MARKER)
        for number, partition in by_partition.items():
            packer.add(partition.markers, partition=number)
        return packer.packed()
    markers = np.empty(sum(len(partition.markers) for partition in by_partition.values()), TRANSACTION_MARKER)
    start = 0
    for number, partition in by_partition.items():
        for piece in pieces(partition.markers):
            rows = markers[start : start + len(piece)]
            rows[:] = as_array(piece)
            rows["partition"] = number
            start += len(rows)
    return markers


def _with_views(
    by_partition: Mapping[int, PartitionMarkers], markers: StructRows
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
        markers: StructRows,
        listed: TransactionPartitionArray,
        groups: KeyGroups,
        coverage: _Coverage,
        skipped: BoolArray,
        skew_ms: int,
    ) -> None:
        self._coordinators, self._markers, self._listed, self._groups = coordinators, markers, listed, groups
        self._coverage, self._skipped, self._skew_ms = coverage, skipped, skew_ms
        self._outcomes = decided_outcomes(self._column("status"))
        self._is_unique = self._unique_groups()
        self.roles = np.full(len(markers), NONE, "i1")

    def _column(self, name: str, rows: IntArray | slice = ALL) -> Column:
        """Return a column of the transactions of all listed partitions, or of some."""
        return column_at(self._coordinators.transactions, name, self._listed["transaction"][rows])

    def _epochs_and_outcomes(self, markers: IntArray) -> tuple[Column, Column, Column]:
        """Return the epochs of some markers, those of the data that they ended, and their outcomes."""
        own, of_data = (column_at(self._markers, name, markers) for name in ("marker_epoch", "data_epoch"))
        return own, of_data, column_at(self._markers, "outcome", markers)

    def _unique_groups(self) -> BoolArray:
        """Return which groups have exactly one transaction that no other one can be mistaken for."""
        groups = self._groups
        unique = has_unique_key(self._coordinators)[self._listed["transaction"]]
        transactions = np.bincount(groups.of_partitions, minlength=groups.count)
        has_several = np.bincount(groups.of_markers, minlength=groups.count) > 1
        # Before version 2 the epoch does not distinguish an operator's abort from the coordinator's, nor the marker of
        # a transaction from that of a later one, which follows the copy of the coordinator's log.
        certain = ~has_several[groups.of_partitions] & ~self._may_be_of_later()
        certain = unique & (certain | (self._column("transaction_version") >= TV2))
        is_unique: BoolArray = transactions == 1
        is_unique[groups.of_partitions[~certain]] = False
        return is_unique

    def _may_be_of_later(self) -> BoolArray:
        """Return for which listed partitions a marker contradicts the decision, and the log begins after its end.

        A marker of a later transaction always follows that of an earlier one, so it is here because the topic was
        recreated.
        """
        outcome_of_group = np.full(self._groups.count, NONE, "i1")
        outcome_of_group[self._groups.of_markers] = self._markers["outcome"]
        outcomes = outcome_of_group[self._groups.of_partitions]
        contradicts: BoolArray = (outcomes != NONE) & (outcomes != self._outcomes)
        return contradicts & self._precedes_log(self._column("completed"), self._listed["partition"])

    def by_key(self) -> None:
        """Join the groups whose key identifies the transaction."""
        row_of_group = np.full(self._groups.count, NONE, "i8")
        row_of_group[self._groups.of_partitions] = np.arange(len(self._listed))
        row_of_group[~self._is_unique] = NONE
        rows = row_of_group[self._groups.of_markers]
        markers = np.flatnonzero(rows != NONE)
        rows = rows[markers]
        own, of_data, outcomes = self._epochs_and_outcomes(markers)
        by_operator = may_be_by_operator(own, of_data, outcomes) & (self._column("transaction_version", rows) >= TV2)
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
        own, of_data, outcomes = self._epochs_and_outcomes(markers)
        is_next = (of_data == own) & (of_data != MAX_PRODUCER_EPOCH)
        is_next &= self._column("transaction_version", rows) >= TV2
        of_next: BoolArray = is_next & (outcomes != self._outcomes[rows])
        return of_next

    def by_order(self) -> None:
        """Join the groups whose key identifies, or may identify, several transactions."""
        rows = np.flatnonzero(~self._is_unique[self._groups.of_partitions])
        # Those of a group stay in the order of their coordinator's log, which its clock may contradict.
        rows = rows[np.argsort(self._groups.of_partitions[rows], kind="stable")]
        for batch in group_batches(self._groups, rows):
            ends, sent = self._ends(batch.rows), self._sent(batch.markers)
            for own, ours in batch.bounds:
                self._align(batch.rows[own], batch.markers[ours], ends.part(own), sent.part(ours))

    def _ends(self, rows: IntArray) -> GroupEnds:
        decided, completed = self._column("decided", rows), self._column("completed", rows)
        partitions = self._listed["partition"][rows]
        is_covered = decided >= self._coverage.start[partitions]
        is_superseded = self._column("is_superseded", rows)
        is_required = ~is_superseded & is_covered
        is_required &= ~self._may_follow_copy(completed, partitions, rows) & ~self._precedes_log(completed, partitions)
        is_whole = self._coordinators.ids["history_complete"][self._column("id", rows)]
        ends = TransactionEnds(decided, completed, self._outcomes[rows], is_required, is_superseded)
        return GroupEnds(ends, is_covered, is_whole, self._column("coordinator", rows))

    def _sent(self, markers: IntArray) -> GroupMarkers:
        is_empty = column_at(self._markers, "first_offset", markers) == NONE
        own, of_data, outcomes = self._epochs_and_outcomes(markers)
        names = ("marker_timestamp", "coordinator_epoch")
        times, epochs = (column_at(self._markers, name, markers) for name in names)
        return GroupMarkers(times, outcomes, epochs, is_empty, may_be_by_operator(own, of_data, outcomes))

    def _align(self, rows: IntArray, markers: IntArray, decided: GroupEnds, sent: GroupMarkers) -> None:
        """Join a group. Transactions and markers from before the coverage of the other side take part if they fit."""
        coverage_start = self._history_start(decided)
        ends, optional, earlier_ends = decided.ends, sent.optional(), coverage_start != ALWAYS
        if earlier_ends:
            ends = replace(ends, is_required=ends.is_required & (ends.decided >= coverage_start))
        alignment = align_markers(ends, sent.times, sent.outcomes, optional, self._skew_ms, earlier_ends=earlier_ends)
        has_marker = alignment.markers >= 0
        complete = not earlier_ends and bool(decided.is_covered.all())
        self._listed["is_exact"][rows] = alignment.is_exact and complete
        self._listed["marker_status"][rows[~has_marker & ~alignment.is_missing]] = MarkerStatus.AMBIGUOUS
        later = may_follow_history(self._coordinators, decided.coordinator[:1], sent.times, self._skew_ms)
        unassigned = np.where(complete & ~later, MarkerRole.UNMATCHED, MarkerRole.NOT_COVERED)
        self.roles[markers] = np.where(optional, MarkerRole.DUPLICATE, unassigned)
        by_operator = np.where(complete & ~later, MarkerRole.BY_OPERATOR, MarkerRole.NOT_COVERED)
        candidates = optional & sent.by_operator
        self.roles[markers[candidates]] = by_operator[candidates]
        assigned = markers[alignment.markers[has_marker]]
        self._listed["marker"][rows[has_marker]] = assigned
        self.roles[assigned] = MarkerRole.SENT

    def _may_follow_copy(self, completed: IntArray, partitions: IntArray, rows: IntArray | slice = ALL) -> BoolArray:
        """Return for which listed partitions the marker may have been written after the partition was copied."""
        late: BoolArray = (completed != NO_TIME) & (completed >= self._coverage.end[partitions])
        return late & ~self._skipped[rows]

    def _precedes_log(self, completed: IntArray, partitions: IntArray) -> BoolArray:
        """Return for which listed partitions the transaction was complete before the first batch of the log."""
        early: BoolArray = (completed != NO_TIME) & (completed < self._coverage.first[partitions])
        return early

    def _history_start(self, decided: GroupEnds) -> int:
        """Return the time from which all transactions of an id are available."""
        if decided.is_whole.all():
            return ALWAYS
        return int(self._coordinators.coverage_start[decided.coordinator].max())

    def set_statuses(self, by_partition: Mapping[int, PartitionMarkers]) -> None:
        """Set the marker status of every listed partition.

        Args:
            by_partition: the markers of each supplied partition, by its number.
        """
        listed, superseded = self._listed, self._column("is_superseded")
        has_marker = listed["marker"] != NONE
        # No marker is -1, which indexes the value at the end.
        is_empty = np.append(self._markers["first_offset"] == NONE, True)[listed["marker"]]
        outcomes = np.append(self._markers["outcome"], NONE)[listed["marker"]]
        completed = self._column("completed")
        is_elsewhere = self._may_follow_copy(completed, listed["partition"])
        precedes = self._precedes_log(completed, listed["partition"])
        del completed
        covered = self._column("decided") >= self._coverage.start[listed["partition"]]
        complete = np.isin(self._column("status"), (State.COMPLETE_COMMIT, State.COMPLETE_ABORT))
        has_data = self._has_unended_data((~covered | precedes) & ~has_marker & complete, by_partition)
        covered |= has_data
        is_elsewhere |= precedes & ~has_data
        old_formats = {number: one.old_format for number, one in by_partition.items()}
        candidates = complete & ~superseded & ~has_marker
        refused = are_refused(old_formats, listed["partition"], candidates, self._column, self._skew_ms)
        cases = (
            (~np.isin(listed["partition"], list(by_partition)), MarkerStatus.NOT_SUPPLIED),
            (has_marker & ((outcomes != self._outcomes) | superseded), MarkerStatus.SPLIT),
            (has_marker & is_empty, MarkerStatus.EMPTY),
            (has_marker, MarkerStatus.MATCHED),
            (superseded, MarkerStatus.UNSENT),
            (~complete, MarkerStatus.PENDING),
            (refused, MarkerStatus.MISSING),
            (~covered | is_elsewhere, MarkerStatus.NOT_COVERED),
            (listed["marker_status"] == MarkerStatus.AMBIGUOUS, MarkerStatus.AMBIGUOUS),
        )
        masks, statuses = [mask for mask, _ in cases], [np.int8(status) for _, status in cases]
        listed["marker_status"] = np.select(masks, statuses, np.int8(MarkerStatus.MISSING))

    def _has_unended_data(self, candidates: BoolArray, by_partition: Mapping[int, PartitionMarkers]) -> BoolArray:
        """Return which of some listed partitions have data that no marker of their transaction ended.

        In version 2 the epoch identifies the transaction of the data, and no cleaner of these releases removes a marker
        before its data.
        """
        epochs = self._column("data_epoch")
        candidates = candidates & (self._column("transaction_version") >= TV2) & (epochs != NONE)
        unended = np.zeros(len(candidates), bool)
        rows = np.flatnonzero(candidates & np.isin(self._listed["partition"], list(by_partition)))
        rows = rows[np.argsort(self._listed["partition"][rows], kind="stable")]
        numbers, starts = np.unique(self._listed["partition"][rows], return_index=True)
        for number, group in zip(numbers.tolist(), np.split(rows, starts[1:]), strict=bool(len(numbers))):
            unended[group] = by_partition[number].begins_with(self._column("producer_id", group), epochs[group])
        return unended
