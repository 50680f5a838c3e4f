"""Which partitions reject the marker of a decided transaction for ever, because its producer has a higher epoch there.

A coordinator never decides with an epoch below that of its producer in a partition, unless it has lost its later
records: ``__transaction_state`` was restored from a backup, or truncated. It gives up, and the id stays prepared.

Rule: ``ProducerAppendInfo.checkProducerEpoch``, and ``TransactionMarkerRequestCompletionHandler``, which cancels all
markers of an id after ``INVALID_PRODUCER_EPOCH``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE, State
from kforensics.forensics.coordinators.hanging_transactions import have_all
from kforensics.forensics.coordinators.transactions.history import Coordinators
from kforensics.forensics.coordinators.transactions.transaction_partitions import group_numbers
from kforensics.forensics.core.packed_rows import column_at
from kforensics.parsers.format.array_types import IntArray

__all__ = ["Rejections", "last_prepared", "rejected_markers", "with_higher_epoch"]

NO_PAIRS = np.empty(0, "i8"), np.empty(0, "i8")


class Rejections(NamedTuple):
    """Partitions that reject the marker of a transaction.

    Attributes:
        ids: number of the transactional id of each.
        markers: index of the first marker with a higher epoch of its producer in the partition.
    """

    ids: IntArray
    markers: IntArray


def last_prepared(coordinators: Coordinators) -> IntArray:
    """Return the indexes of the last transactions of the ids whose markers are being sent."""
    transactions, status = coordinators.transactions, coordinators.ids["status"]
    is_prepared = np.isin(status, (State.PREPARE_COMMIT, State.PREPARE_ABORT))
    last = np.full(len(status), NONE, "i8")
    last[transactions["id"]] = np.arange(len(transactions))  # the last assignment wins
    rows: IntArray = last[is_prepared & (last != NONE)]
    return rows


def with_higher_epoch(cluster: Cluster) -> tuple[IntArray, IntArray]:
    """Return the listed partitions of prepared transactions, and their first markers with a higher epoch, as indexes.

    Whether such a partition has the marker of the transaction does not matter: the coordinator waits for it again.
    """
    coordinators, join = cluster.coordinators, cluster.marker_join
    prepared = last_prepared(coordinators)
    decided, last = coordinators.transactions, coordinators.ids
    ids, producers, epochs = (column_at(decided, name, prepared) for name in ("id", "producer_id", "marker_epoch"))
    is_own = (producers == last["producer_id"][ids]) & (epochs == last["producer_epoch"][ids])
    listed, markers = join.transaction_partitions, join.markers
    rows = np.flatnonzero(np.isin(listed["transaction"], prepared[is_own]))
    if not len(rows) or not len(markers):
        return NO_PAIRS
    producers, epochs = (
        column_at(decided, name, listed["transaction"][rows]) for name in ("producer_id", "marker_epoch")
    )
    known, first = np.unique(producers, return_index=True)
    among = np.flatnonzero(np.isin(markers["producer_id"], known))
    limits = epochs[first][np.searchsorted(known, column_at(markers, "producer_id", among))]
    among = among[column_at(markers, "marker_epoch", among) > limits]
    of_markers = [column_at(markers, name, among) for name in ("producer_id", "partition")]
    pairs = zip((producers, listed["partition"][rows]), of_markers, strict=True)
    groups, count = group_numbers(np.concatenate(pair) for pair in pairs)
    earliest = np.full(count, NONE, "i8")
    earliest[groups[len(rows) :][::-1]] = among[::-1]  # the first one, because the last assignment wins
    found = earliest[groups[: len(rows)]]
    return rows[found != NONE], found[found != NONE]


def rejected_markers(cluster: Cluster) -> Rejections:
    """Return which partitions reject markers, if the coordinator's log shows that it was no copy from before.

    It has later records than the first marker with a higher epoch, or its broker was stopped together with the replica.
    """
    rows, higher = with_higher_epoch(cluster)
    coordinators, join = cluster.coordinators, cluster.marker_join
    ids = column_at(coordinators.transactions, "id", join.transaction_partitions["transaction"][rows])
    numbers, partitions = coordinators.ids["coordinator"][ids], join.transaction_partitions["partition"][rows]
    reach = coordinators.last_record_time[numbers]  # its files are no proof: checkpoints may be copied much later
    for partition in np.unique(partitions).tolist():
        has_all = have_all(cluster, join.by_partition[partition])[numbers] & (partitions == partition)
        reach[has_all] = NEVER
    times = column_at(join.markers, "marker_timestamp", higher)
    is_shown = (reach > times + cluster.rules.clock_skew_ms) & ~coordinators.may_be_outdated[ids]
    return Rejections(ids[is_shown], higher[is_shown])
