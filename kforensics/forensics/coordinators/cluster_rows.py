"""Rows of ``transactional_ids`` and ``distributed_transactions``."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.component_names import COMPONENTS, NEXT_STEPS, IdNaming, id_naming, workers_among
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE, State
from kforensics.forensics.coordinators.record_rows import partition_list
from kforensics.forensics.coordinators.transactions.history import CoordinatorTransactionArray
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    MarkerStatus,
    TransactionPartitionArray,
)
from kforensics.forensics.core.cluster_tables import DISTRIBUTED_TRANSACTIONS, TRANSACTIONAL_IDS
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import Rows, Words, nullable
from kforensics.parsers.format.array_types import IntArray, StructArray
from kforensics.parsers.tables.schemas import Table

__all__ = ["IdList", "distributed_transaction_rows", "id_rows"]

# Transactions whose rows are created at a time.
CHUNK_ROWS = 1 << 16
STATE_NAMES = tuple(str(state) for state in State)
TRANSACTION_OUTCOMES = ("open", "committed", "aborted", "superseded")
ATOMIC = ("yes", "no", "pending", "unverifiable")
# The columns that count partitions, with the marker statuses that each counts.
COUNTED = {
    "markers": (MarkerStatus.MATCHED, MarkerStatus.EMPTY),
    "empty_markers": (MarkerStatus.EMPTY,),
    "missing_markers": (MarkerStatus.MISSING,),
    "contrary_markers": (MarkerStatus.SPLIT,),
    "unverifiable": (MarkerStatus.AMBIGUOUS, MarkerStatus.NOT_COVERED, MarkerStatus.NOT_SUPPLIED),
    "pending": (MarkerStatus.PENDING,),
}


@dataclass(frozen=True, slots=True)
class IdList:
    """The transactional ids of a cluster.

    Attributes:
        cluster: name of the cluster.
        coordinators: how many partitions of ``__transaction_state`` are available.
        parts: rows of the table ``transactional_ids``, by coordinator partition.
    """

    cluster: str
    coordinators: int
    parts: tuple[Rows, ...]

    @property
    def rows(self) -> Iterator[Rows]:
        """The rows."""
        return iter(self.parts)


def id_rows(cluster: Cluster) -> Iterator[Rows]:
    """Yield the transactional ids of each coordinator partition, the most recently used first."""
    names = cluster.coordinators.names
    ids = cluster.coordinators.ids
    workers = workers_among(names)
    for coordinator, indexes in _by_coordinator(cluster, ids):
        numbers = indexes[np.argsort(-ids["last_time"][indexes], kind="stable")]
        rows = ids[numbers]
        stateless = rows["status"] == NONE
        listed = np.where(rows["status"] == State.EMPTY, NONE, rows["partitions"])
        producer = ("producer_id", "producer_epoch", "transaction_version")
        columns = {
            "transactional_id": Words(numbers, names),
            "state": Words(rows["status"], STATE_NAMES),
            "removed": rows["is_removed"],
            **{name: nullable(rows[name], stateless) for name in producer},
            "transaction_timeout_ms": nullable(rows["timeout_ms"], stateless),
            "start_timestamp": nullable(rows["start"], NO_TIME),
            "partitions": _partition_lists(cluster, listed),
            "first_timestamp": nullable(rows["first_time"], NO_TIME),
            "last_timestamp": nullable(rows["last_time"], NO_TIME),
            **{name: rows[name] for name in ("inits", "transactions", "committed", "aborted")},
            "producer_ids": rows["producers"],
            "exact": rows["history_complete"],
            **_component_columns([names[number] for number in numbers.tolist()], workers, rows["status"]),
        }
        yield _placed(cluster, coordinator, TRANSACTIONAL_IDS, rows, columns)


def _component_columns(names: Sequence[str], workers: Collection[str], states: IntArray) -> dict[str, Words]:
    """Return which component each id looks like, and what that does next with the transaction that it has open."""
    found = (id_naming(name, workers) for name in names)
    namings = np.fromiter((NONE if one is None else one.naming for one in found), "i8", len(names))
    components = np.array([*(naming.component for naming in IdNaming), NONE], "i8")[namings]
    return {
        "component": Words(components, COMPONENTS),
        "component_next": Words(np.where(states == State.ONGOING, namings, NONE), NEXT_STEPS),
    }


def _by_coordinator(cluster: Cluster, rows: StructRows, most: int | None = None) -> Iterator[tuple[int, IntArray]]:
    """Yield the number of each coordinator with rows, and the indexes of its rows, at most so many at a time."""
    for coordinator in range(len(cluster.coordinators.histories)):
        indexes = np.flatnonzero(rows["coordinator"] == coordinator)
        for start in range(0, len(indexes), most or max(len(indexes), 1)):
            yield coordinator, indexes[start : start + (most or len(indexes))]


def _partition_lists(cluster: Cluster, numbers: IntArray) -> Words:
    """Return sets of partitions as text, null for an unknown set and for the empty one."""
    texts = [partition_list(partitions) or "" for partitions in cluster.coordinators.partition_sets]
    empty = np.array([not text for text in texts] + [True], bool)
    return Words(np.where(empty[numbers], NONE, numbers), texts)


def _placed(cluster: Cluster, coordinator: int, table: Table, rows: StructArray, columns: dict[str, Any]) -> Rows:
    history = cluster.coordinators.histories[coordinator]
    columns |= {
        "path": Words(rows["segment"], history.paths),
        "position": rows["position"],
        "offset": rows["offset"],
    }
    return Rows(table, len(rows), {**history.place._asdict(), **columns})


def distributed_transaction_rows(cluster: Cluster) -> Iterator[Rows]:
    """Yield the transactions of each coordinator partition, in the order in which they ended or were abandoned."""
    transactions, listed = cluster.coordinators.transactions, cluster.marker_join.transaction_partitions
    names = cluster.coordinators.names
    lengths = np.array([len(partitions) for partitions in cluster.coordinators.partition_sets] + [0], "i4")
    is_inexact = np.zeros(len(transactions), bool)
    is_inexact[listed["transaction"][~listed["is_exact"]]] = True
    first, last = _marker_times(cluster)
    all_counts = _counts(listed, len(transactions))
    for coordinator, indexes in _by_coordinator(cluster, transactions, CHUNK_ROWS):
        rows = take_rows(transactions, indexes)
        counts = {name: count[indexes] for name, count in all_counts.items()}
        columns = {
            "transactional_id": Words(rows["id"], names),
            "producer_id": rows["producer_id"],
            "producer_epoch": nullable(rows["data_epoch"], NONE),
            "marker_epoch": nullable(rows["marker_epoch"], NONE),
            "state": Words(rows["status"], STATE_NAMES),
            "outcome": Words(_outcomes(rows), TRANSACTION_OUTCOMES),
            "transaction_version": rows["transaction_version"],
            "transaction_timeout_ms": rows["timeout_ms"],
            "start_timestamp": nullable(rows["start"], NO_TIME),
            "decided_timestamp": nullable(rows["decided"], NO_TIME),
            "first_marker_timestamp": nullable(first[indexes], first[indexes] == NEVER),
            "last_marker_timestamp": nullable(last[indexes], NO_TIME),
            "completed_timestamp": nullable(rows["completed"], NO_TIME),
            "partitions": _partition_lists(cluster, rows["partitions"]),
            "partition_count": nullable(lengths[rows["partitions"]], rows["partitions"] == NONE),
            **{name: count for name, count in counts.items() if name != "pending"},
            "atomic": Words(_atomic(rows, counts), ATOMIC),
            "exact": ~is_inexact[indexes],
        }
        yield _placed(cluster, coordinator, DISTRIBUTED_TRANSACTIONS, rows, columns)


def _counts(listed: TransactionPartitionArray, length: int) -> dict[str, IntArray]:
    """Return the number of partitions of each transaction, by column of ``COUNTED``."""
    return {
        name: np.bincount(listed["transaction"][np.isin(listed["marker_status"], statuses)], minlength=length).astype(
            "i4"
        )
        for name, statuses in COUNTED.items()
    }


def _marker_times(cluster: Cluster) -> tuple[IntArray, IntArray]:
    """Return the times of the first and of the last available marker of each transaction."""
    listed = cluster.marker_join.transaction_partitions
    has_marker = np.flatnonzero(listed["marker"] != NONE)
    first = np.full(len(cluster.coordinators.transactions), NEVER, "i8")
    last = np.full(len(first), NO_TIME, "i8")
    if len(has_marker):
        times = cluster.marker_join.markers["marker_timestamp"][listed["marker"][has_marker]]
        np.minimum.at(first, listed["transaction"][has_marker], times)
        np.maximum.at(last, listed["transaction"][has_marker], times)
    return first, last


def _outcomes(transactions: CoordinatorTransactionArray) -> IntArray:
    """Return indexes into ``TRANSACTION_OUTCOMES``."""
    committed = np.isin(transactions["status"], (State.PREPARE_COMMIT, State.COMPLETE_COMMIT))
    aborted = np.isin(transactions["status"], (State.PREPARE_ABORT, State.COMPLETE_ABORT))
    outcomes: IntArray = np.select([transactions["is_superseded"], committed, aborted], [3, 1, 2], 0)
    return outcomes


def _atomic(transactions: CoordinatorTransactionArray, counts: dict[str, IntArray]) -> IntArray:
    """Return whether each transaction ended the same everywhere, as indexes into ``ATOMIC``; -1 while undecided."""
    wrong = (counts["missing_markers"] > 0) | (counts["contrary_markers"] > 0)
    unknown = (counts["unverifiable"] > 0) | (transactions["partitions"] == NONE)
    undecided = (transactions["marker_epoch"] == NONE) | (transactions["is_superseded"] & ~wrong)
    cases = [undecided, wrong, unknown, counts["pending"] > 0]
    atomic: IntArray = np.select(cases, [NONE, 1, 3, 2], 0)
    return atomic
