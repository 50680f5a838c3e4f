"""Joins the transactions of a cluster with their markers in several parts, by producer id.

Everything in the join is keyed by producer id, so the transactions and markers of some producers can be joined in any
process. That process creates the rows of their transactions and keeps only what the evaluation of the whole cluster
asks for: sums, and the few transactions and markers that are not in order or that a finding is about.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from kforensics.forensics.audit.cluster_result import best_histories, best_markers, dated_by_all
from kforensics.forensics.audit.part_rows import PartRows
from kforensics.forensics.audit.producer_parts import CHUNK, ProducerRows, ProducersOf
from kforensics.forensics.checks.cluster.decided_markers import of_listed, outside_window
from kforensics.forensics.checks.cluster.hanging import absorbing
from kforensics.forensics.checks.cluster.unfinished import excessive
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.cluster_rows import distributed_transaction_rows
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE, TopicPartition
from kforensics.forensics.coordinators.partition_markers import (
    TRANSACTION_MARKER,
    PartitionMarkers,
    TransactionMarkerArray,
)
from kforensics.forensics.coordinators.rejected_markers import last_prepared, with_higher_epoch
from kforensics.forensics.coordinators.transactions.history import (
    COORDINATOR_TRANSACTION,
    UNKNOWN_SET,
    Coordinators,
    CoordinatorTransactionArray,
)
from kforensics.forensics.coordinators.transactions.join_totals import JoinTotals, with_certain_marker
from kforensics.forensics.coordinators.transactions.marker_join import MarkerJoin, join_markers, numbered_partitions
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    TRANSACTION_PARTITION,
    MarkerStatus,
    TransactionPartitionArray,
    group_numbers,
)
from kforensics.forensics.core.cluster_tables import DISTRIBUTED_TRANSACTIONS
from kforensics.forensics.core.packed_rows import PackedRows, column_at
from kforensics.forensics.core.record_arrays import concat_rows, fields_of, free_unused, take_rows
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.result_rows import RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["JoinedPart", "join_part", "merge_parts"]

# Roles of markers that each have a finding, and statuses of listed partitions that each have one.
REPORTED_ROLES = (MarkerRole.BY_OPERATOR, MarkerRole.UNLISTED, MarkerRole.UNDECIDED, MarkerRole.UNMATCHED)
REPORTED_STATUSES = (MarkerStatus.SPLIT, MarkerStatus.MISSING, MarkerStatus.PENDING)


@dataclass(frozen=True, slots=True)
class JoinedPart:
    """What the evaluation of a cluster needs of a part of its join.

    Attributes:
        transactions: COORDINATOR_TRANSACTION records, with the numbers that ids have in their history.
        numbers: index of each transaction in the history.
        listed: TRANSACTION_PARTITION records of these transactions and markers.
        markers: TRANSACTION_MARKER records.
        roles: the ``MarkerRole`` of each marker.
        totals: what the whole part shows; None for listed partitions whose epoch is still to be compared.
        rows: the rows of its transactions; they cannot be serialized.
    """

    transactions: CoordinatorTransactionArray
    numbers: IntArray
    listed: TransactionPartitionArray
    markers: TransactionMarkerArray
    roles: IntArray
    totals: JoinTotals | None = None
    rows: RowStream | None = None

    def only(self, listed: IntArray) -> JoinedPart:
        """Return some of the listed partitions."""
        return replace(self, listed=take_rows(self.listed, listed))

    def outdated(self, totals: JoinTotals, skew_ms: int) -> JoinedPart:
        """Return the listed partitions whose marker has an epoch that its coordinator had already replaced."""
        decided, sent = self.transactions[self.listed["transaction"]], self.markers[self.listed["marker"]]
        least = totals.epochs_before(decided["coordinator"], sent["marker_timestamp"] - skew_ms)
        return self.only(np.flatnonzero(sent["coordinator_epoch"] < least))


def join_part(logs: Iterable[ProducersOf], arriving: Iterable[ProducerRows], rules: Rules) -> Iterator[JoinedPart]:
    """Yield the join of a part, with its rows, and then listed partitions whose epoch is to be compared.

    Args:
        logs: every log of the cluster.
        arriving: their transactions and markers, those of each log in their order.
        rules: limits and the time of evaluation.
    """
    logs = sorted(logs, key=lambda log: log.order)
    best = (
        best_histories(log.history for log in logs if log.history),
        best_markers(log.markers for log in logs if log.markers),
    )
    used = {id(log) for log in (*best[0], *best[1])}
    orders = {log.order: log for log in logs if id(log.history or log.markers) in used}
    by_history = {id(log.history): log for log in orders.values()}
    rows = PartRows.of([by_history[id(history)] for history in best[0]], orders.keys(), arriving)
    free_unused()

    def join(
        coordinators: Coordinators, supplied: Iterable[PartitionMarkers], rules: Rules
    ) -> tuple[Coordinators, MarkerJoin]:
        coordinators = replace(coordinators, transactions=rows.transactions)
        return coordinators, join_markers(coordinators, supplied, rules)

    log_dirs = {log.log_dir for log in logs}
    order_of = {id(log.markers): order for order, log in orders.items() if log.markers}
    # In the order in which the parts are merged: partitions have their numbers from it.
    dated = dated_by_all(best[1], (log.markers for log in logs if log.markers))
    replicas = (
        replace(markers, markers=rows.take_markers(order_of[id(chosen)]))
        for chosen, markers in zip(best[1], dated, strict=True)
    )
    cluster = Cluster.of(best[0], replicas, rules.across(log_dirs), join=join)
    yield from _PartOfCluster(cluster, logs, rows.id_numbers, rows.numbers).kept()


class _PartOfCluster:
    """Selects what the evaluation of a cluster asks for.

    Args:
        cluster: the cluster with the transactions and markers of a part.
        logs: every log of the cluster, replicas included.
        id_numbers: number of each id of the part in its history.
        numbers: NUMBER records, the index of each transaction in its history.
    """

    def __init__(
        self, cluster: Cluster, logs: Sequence[ProducersOf], id_numbers: IntArray, numbers: PackedRows
    ) -> None:
        self._cluster, self._logs, self._id_numbers, self._numbers = cluster, logs, id_numbers, numbers
        self._join, self._transactions = cluster.marker_join, cluster.coordinators.transactions
        self._listed, self._markers = self._join.transaction_partitions, self._join.markers

    def kept(self) -> Iterator[JoinedPart]:
        """Yield the part, then listed partitions whose epoch is to be compared."""
        markers = self._reported_markers() | self._consulted_markers()
        listed = self._reported_partitions() | self._owed_partitions()
        rejecting, higher = with_higher_epoch(self._cluster)
        listed[rejecting] = markers[higher] = True
        # No marker is -1, which indexes the False at the end.
        listed |= np.append(markers, False)[self._listed["marker"]]
        transactions = self._asked_transactions()
        part = self._part(np.flatnonzero(listed), transactions, markers)
        totals = self._join.totals.renumbered(np.cumsum(transactions) - 1)
        totals.offsets_only["id"] = self._id_numbers[totals.offsets_only["id"]]
        rows = RowStream(DISTRIBUTED_TRANSACTIONS, partial(distributed_transaction_rows, self._cluster))
        yield replace(part, totals=totals, rows=rows)
        for uncertain in filter(len, self._uncertain_epochs()):
            none = (np.zeros(len(self._transactions), bool), np.zeros(len(self._markers), bool))
            yield self._part(uncertain, *none)

    def _part(self, rows: IntArray, transactions: BoolArray, markers: BoolArray) -> JoinedPart:
        """Return some of the listed partitions, transactions and markers; the masks are completed in place."""
        listed = take_rows(self._listed, rows)
        transactions[listed["transaction"]] = True
        markers[listed["marker"][listed["marker"] != NONE]] = True
        index_of_transaction, index_of_marker = (np.cumsum(mask) - 1 for mask in (transactions, markers))
        listed["transaction"] = index_of_transaction[listed["transaction"]]
        listed["marker"] = np.append(index_of_marker, NONE)[listed["marker"]]
        own = take_rows(self._transactions, transactions)
        own["id"] = self._id_numbers[own["id"]]
        roles = self._join.roles[markers]
        numbers = self._numbers[transactions]["number"]
        return JoinedPart(own, numbers, listed, take_rows(self._markers, markers), roles)

    def _reported_markers(self) -> BoolArray:
        """Return which markers have findings of their own."""
        roles, markers = self._join.roles, self._markers
        reported: BoolArray = np.isin(roles, REPORTED_ROLES)
        reported |= (roles == MarkerRole.DUPLICATE) & (markers["first_offset"] != NONE)
        # Of producers that no coordinator knows, those of one epoch with both outcomes.
        unknown = np.flatnonzero(roles == MarkerRole.UNKNOWN_PRODUCER)
        numbers, count = group_numbers(markers[name][unknown] for name in ("producer_id", "marker_epoch"))
        has_both = np.ones(count, bool)
        for outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED):
            has_both &= np.bincount(numbers[markers["outcome"][unknown] == outcome], minlength=count) > 0
        reported[unknown[has_both[numbers]]] = True
        return reported

    def _consulted_markers(self) -> BoolArray:
        """Return which markers findings on partitions, or open transactions of any replica, ask for."""
        consulted, markers = np.zeros(len(self._markers), bool), self._markers
        offsets: dict[TopicPartition, list[IntArray]] = defaultdict(list)
        for log in self._logs:
            if log.markers and len(log.consulted):
                offsets[log.markers.name].append(log.consulted)
        for name, wanted in offsets.items():
            number = self._cluster.supplied_partitions[name]
            start, stop = np.searchsorted(markers["partition"], [number, number + 1]).tolist()
            own, among = markers[start:stop], np.concatenate(wanted)
            consulted[start:stop] = np.isin(own["first_offset"], among) | np.isin(own["marker_offset"], among)
        return consulted

    def _reported_partitions(self) -> BoolArray:
        """Return which listed partitions have findings of their own, or are of a transaction that has one."""
        listed, transactions = self._listed, self._transactions
        reported = np.isin(listed["marker_status"], REPORTED_STATUSES)
        is_whole = transactions["is_superseded"].copy()
        is_whole[listed["transaction"][listed["marker_status"] == MarkerStatus.SPLIT]] = True
        reported |= is_whole[listed["transaction"]]
        for rows, decided, sent in self._certain():
            last, epochs = decided["complete_leader_epoch"], sent["coordinator_epoch"]
            is_untimely = np.logical_or(*outside_window(self._cluster, decided, sent))
            reported[rows[is_untimely | ((last != NONE) & (epochs > last))]] = True
            reported[absorbing(self._cluster, rows)] = True
        return reported

    def _certain(self) -> Iterator[tuple[IntArray, CoordinatorTransactionArray, TransactionMarkerArray]]:
        """Yield the listed partitions whose marker is certain, with their transactions and markers, in chunks."""
        certain = with_certain_marker(self._listed)
        for start in range(0, len(certain), CHUNK):
            rows = certain[start : start + CHUNK]
            yield rows, *of_listed(self._cluster, rows)

    def _owed_partitions(self) -> BoolArray:
        """Return of each open transaction of a replica the listed partition of its producer that was decided last.

        Only those without a marker count, or with one after the end of the replica.
        """
        listed, owed = self._listed, np.zeros(len(self._listed), bool)
        order = np.argsort(listed["partition"], kind="stable")
        in_order, decided = listed["partition"][order], self._transactions
        best = {replica.place for replica in self._join.by_partition.values()}
        # No marker is -1, which indexes the NEVER at the end.
        offsets = np.append(self._markers["marker_offset"], NEVER)
        for replica in (log.markers for log in self._logs if log.markers and len(log.markers.open_transactions)):
            number = self._cluster.supplied_partitions[replica.name]
            start, stop = np.searchsorted(in_order, [number, number + 1]).tolist()
            rows = order[start:stop]
            rows = rows[offsets[listed["marker"][rows]] >= (NEVER if replica.place in best else replica.log_end_offset)]
            rows = rows[listed["marker_status"][rows] != MarkerStatus.UNSENT]
            producers = column_at(decided, "producer_id", listed["transaction"][rows])
            rows = rows[np.isin(producers, replica.open_transactions["producer_id"])]
            owed[_last_of_each(rows, fields_of(decided, listed["transaction"][rows], ("decided", "producer_id")))] = (
                True
            )
        return owed

    def _asked_transactions(self) -> BoolArray:
        """Return which transactions are reported, or asked for by the findings on ids and on open transactions."""
        transactions, totals = self._transactions, self._join.totals
        asked = np.zeros(len(transactions), bool)
        asked[excessive(self._cluster)] = True
        asked[totals.unknown_outcomes["transaction"]] = asked[totals.offsets_only["transaction"]] = True
        asked |= transactions["is_superseded"]
        asked[last_prepared(self._cluster.coordinators)] = True
        is_unlisted = (transactions["partitions"] == UNKNOWN_SET) & (transactions["marker_epoch"] != NONE)
        replicas = (log.markers for log in self._logs if log.markers)
        opened = [replica.open_transactions["producer_id"] for replica in replicas]
        is_unlisted &= np.isin(transactions["producer_id"], np.concatenate([np.empty(0, "i8"), *opened]))
        rows = np.flatnonzero(is_unlisted)
        asked[_last_of_each(rows, fields_of(transactions, rows, ("decided", "producer_id")))] = True
        return asked

    def _uncertain_epochs(self) -> Iterator[IntArray]:
        """Yield the listed partitions whose marker may have an epoch that its coordinator had already replaced.

        When a coordinator used an epoch first is known only from all parts.
        """
        histories = [log for log in self._logs if log.history]
        highest: dict[int | None, int] = defaultdict(lambda: NONE)
        for log in histories:
            number = log.history.place.partition if log.history else None
            highest[number] = max(highest[number], *log.epochs.tolist())
        limits = np.array([highest[one.place.partition] for one in self._cluster.coordinators.histories], "i8")
        seen = np.unique(np.concatenate([np.empty(0, "i8"), *(log.epochs for log in self._logs if log.markers)]))
        for rows, decided, sent in self._certain():
            following = np.append(seen, NEVER)[np.searchsorted(seen, sent["coordinator_epoch"], "right")]
            yield rows[following <= limits[decided["coordinator"]]]


def _last_of_each(rows: IntArray, decided: CoordinatorTransactionArray) -> IntArray:
    """Return of the rows of each producer that whose transaction was decided last."""
    order = np.lexsort((decided["decided"], decided["producer_id"]))
    producers = decided["producer_id"][order]
    return rows[order[np.append(producers[1:] != producers[:-1], True)]] if len(rows) else rows


def merge_parts(
    coordinators: Coordinators, supplied: Iterable[PartitionMarkers], rules: Rules, parts: Iterable[JoinedPart]
) -> tuple[Coordinators, MarkerJoin]:
    """Return the coordinators and the join of a cluster with what its evaluation needs of all parts.

    Args:
        coordinators: the coordinators without transactions.
        supplied: the partitions without markers.
        rules: limits and the time of evaluation.
        parts: first the parts with totals, then the listed partitions whose epoch is to be compared.
    """
    whole: list[JoinedPart] = []
    totals: JoinTotals | None = None
    for part in parts:
        if part.totals is None:
            totals = totals or JoinTotals.merged(one.totals for one in whole if one.totals)
            outdated = part.outdated(totals, totals.tolerated_ms(rules.clock_skew_ms))
            whole += [outdated] if len(outdated.listed) else []
        else:
            whole.append(part)
    transactions, of_transactions = _merged_transactions(coordinators, whole)
    markers, roles, of_markers = _merged_markers(whole)
    listed = [np.empty(0, TRANSACTION_PARTITION)]
    for part, numbers, indexes in zip(whole, of_transactions, of_markers, strict=True):
        rows = part.listed.copy()
        rows["transaction"], rows["marker"] = numbers[rows["transaction"]], np.append(indexes, NONE)[rows["marker"]]
        listed.append(rows)
    every = concat_rows(listed)
    first, _ = _distinct([every["partition"], every["transaction"]])
    numbered, by_partition = numbered_partitions(coordinators, supplied)
    totals = _merged_totals(coordinators, transactions, whole, of_transactions)
    further_ms = totals.tolerated_ms(rules.clock_skew_ms) - rules.clock_skew_ms
    by_partition = {number: partition.tolerating(further_ms) for number, partition in by_partition.items()}
    join = MarkerJoin(tuple(numbered), by_partition, markers, take_rows(every, first), roles, totals)
    return replace(coordinators, transactions=transactions), join


def _distinct(keys: list[IntArray]) -> tuple[IntArray, IntArray]:
    """Return the index of one row of each key, in the order of the keys, and for each row the index of its key.

    Args:
        keys: columns that together are the key, the most significant last.
    """
    numbers, count = group_numbers(keys)
    rows = np.empty(count, "i8")
    rows[numbers] = np.arange(len(numbers))
    return rows, numbers


def _by_part(numbers: IntArray, lengths: Iterable[int]) -> list[IntArray]:
    """Return the numbers of the rows of each part."""
    return np.split(numbers, np.cumsum([0, *lengths])[1:-1].tolist())


def _merged_transactions(
    coordinators: Coordinators, parts: Sequence[JoinedPart]
) -> tuple[CoordinatorTransactionArray, list[IntArray]]:
    """Return the transactions in the order of the whole, and the indexes of those of each part."""
    every = concat_rows([np.empty(0, COORDINATOR_TRANSACTION), *(part.transactions for part in parts)])
    numbers = np.concatenate([np.empty(0, "i8"), *(part.numbers for part in parts)])
    first, indexes = _distinct([numbers, every["coordinator"]])
    transactions = take_rows(every, first)
    transactions["id"] += _first_ids(coordinators)[transactions["coordinator"]]
    return transactions, _by_part(indexes, (len(part.transactions) for part in parts))


def _first_ids(coordinators: Coordinators) -> IntArray:
    """Return the number of the first id of each history."""
    return np.cumsum([0, *(len(history.names) for history in coordinators.histories)]).astype("i4")


def _merged_markers(parts: Sequence[JoinedPart]) -> tuple[TransactionMarkerArray, IntArray, list[IntArray]]:
    """Return the markers in the order of the whole, their roles, and the indexes of those of each part."""
    every = concat_rows([np.empty(0, TRANSACTION_MARKER), *(part.markers for part in parts)])
    roles = np.concatenate([np.empty(0, "i1"), *(part.roles for part in parts)])
    first, indexes = _distinct([every[name] for name in ("position", "segment", "marker_offset", "partition")])
    return take_rows(every, first), roles[first], _by_part(indexes, (len(part.markers) for part in parts))


def _merged_totals(
    coordinators: Coordinators,
    transactions: CoordinatorTransactionArray,
    parts: Sequence[JoinedPart],
    of_transactions: Sequence[IntArray],
) -> JoinTotals:
    totals: list[JoinTotals] = []
    for part, numbers in zip(parts, of_transactions, strict=True):
        if part.totals is not None:
            of_part = part.totals.renumbered(numbers)
            first = transactions["coordinator"][of_part.offsets_only["transaction"]]
            of_part.offsets_only["id"] += _first_ids(coordinators)[first]
            totals.append(of_part)
    return JoinTotals.merged(totals)
