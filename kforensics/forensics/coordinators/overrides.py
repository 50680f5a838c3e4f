"""Which findings of a partition alone its coordinators disprove."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kforensics.forensics.coordinators.absorbed_data import own_commit
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.deadlines import is_awaited
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.findings import Exactness, Finding
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.log.log_rows import Place

__all__ = ["OVERRIDDEN", "is_overridden"]


def is_overridden(cluster: Cluster, place: Place, finding: Finding) -> bool:
    """Return whether the coordinators disprove a finding.

    A transaction does not hang if a coordinator will end it. An abort is not an operator's if a coordinator sent it.
    Markers do not contradict one another if they are of different transactions.
    A write is not late if its transaction had begun. How long a transaction lasted is known from its coordinator. What
    a later transaction of its producer committed is not foreign if it was to be committed.

    Args:
        cluster: the cluster.
        place: the partition.
        finding: a finding in it.
    """
    override = _OVERRIDES.get(finding.code.name)
    partition = _number(cluster, place) if override else None
    return override is not None and partition is not None and override(cluster, partition, finding)


def _number(cluster: Cluster, place: Place) -> int | None:
    """Return the number of a partition; None if no replica of it was supplied."""
    return cluster.supplied_partitions.get((place.topic or "", NONE if place.partition is None else place.partition))


def _is_awaited(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Return whether a coordinator will end a transaction, or a replica with more of the log already has its end."""
    if len(_markers_at(cluster, partition, "first_offset", finding)):
        return True
    markers = cluster.marker_join.by_partition[partition]
    transactions = markers.open_transactions[markers.open_transactions["first_offset"] == finding.first_offset]
    ids = cluster.coordinators.id_of(transactions["producer_id"])
    if not len(transactions) or (ids == NONE).any():
        return False
    return bool(is_awaited(cluster, partition, transactions, ids).all())


def _was_sent(cluster: Cluster, partition: int, finding: Finding) -> bool:
    markers = _markers_at(cluster, partition, "marker_offset", finding)
    return bool((cluster.marker_join.roles[markers] == MarkerRole.SENT).any())


def _are_of_two_transactions(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Return whether contradicting markers belong to two transactions, each with the outcome that was decided.

    Epochs that prove the contradiction are not disproved.
    """
    if finding.exactness is Exactness.EXACT:
        return False
    every, listed = cluster.marker_join.markers, cluster.marker_join.transaction_partitions
    offsets = [finding.evidence["previous_offset"], finding.first_offset]
    pair = np.flatnonzero((every["partition"] == partition) & np.isin(every["marker_offset"], offsets))
    as_decided = np.isin(listed["marker_status"], (MarkerStatus.MATCHED, MarkerStatus.EMPTY))
    rows = listed[as_decided & np.isin(listed["marker"], pair)]
    return len(np.unique(rows["transaction"])) == len(np.unique(rows["marker"])) == len(offsets)


def _had_begun(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Return whether the transaction of a write is certain and had begun with the epoch of its first data."""
    rows = cluster.marker_join.transaction_partitions
    markers = _markers_at(cluster, partition, "first_offset", finding)
    rows = rows[np.isin(rows["marker"], markers) & rows["is_exact"]]
    if not len(rows):
        return False
    begun = cluster.coordinators.transactions["data_epoch"][rows["transaction"]]
    same = begun == cluster.marker_join.markers["lowest_epoch"][rows["marker"]]
    return bool(same.all())


def _was_timed(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Return whether the coordinator's own start and decision, or its timeout, show how long a transaction lasted."""
    (number,) = cluster.coordinators.id_of(np.array([finding.producer_id])).tolist()
    if number == NONE:
        return False
    markers = _markers_at(cluster, partition, "first_offset", finding)
    if not (cluster.marker_join.roles[markers] == MarkerRole.SENT).any():
        return False
    rows = cluster.marker_join.transaction_partitions
    decided = cluster.coordinators.transactions[rows["transaction"][np.isin(rows["marker"], markers)]]
    is_timed = (decided["start"] != NO_TIME) & (decided["decided"] != NO_TIME)
    allowed = cluster.coordinators.ids["timeout_ms"][number].astype("i8") + cluster.rules.certain_abort_scan_ms
    lasted = finding.evidence["lasted_ms"]
    return bool(is_timed.all()) or (isinstance(lasted, int) and lasted <= int(allowed) + cluster.rules.clock_skew_ms)


def _was_committed(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Return whether all that the COMMIT at the end of a transaction committed was to be committed."""
    listed, markers = cluster.marker_join.transaction_partitions, cluster.marker_join.markers
    rows = listed[np.isin(listed["marker"], _markers_at(cluster, partition, "first_offset", finding))]
    rows = rows[rows["is_exact"]]
    begun, ends = cluster.coordinators.transactions[rows["transaction"]], markers[rows["marker"]]
    pairs = [(end, int(one["data_epoch"]), int(one["start"])) for end, one in zip(ends, begun, strict=True)]
    return bool(pairs) and all(own_commit(cluster, *pair) is not None for pair in pairs)


def _markers_at(cluster: Cluster, partition: int, field: str, finding: Finding) -> IntArray:
    """Return the indexes of the markers of a partition whose field is the first offset of a finding."""
    markers = cluster.marker_join.markers
    return np.flatnonzero((markers["partition"] == partition) & (markers[field] == finding.first_offset))


_OVERRIDES: Mapping[str, Callable[[Cluster, int, Finding], bool]] = {
    "txn-hanging": _is_awaited,
    "marker-admin-abort": _was_sent,
    "marker-conflict": _are_of_two_transactions,
    "txn-duration-excessive": _was_timed,
    "txn-write-after-marker": _had_begun,
    "txn-foreign-data-absorbed": _was_committed,
}
# Codes of the findings that a coordinator may disprove.
OVERRIDDEN = frozenset(_OVERRIDES)
