"""Which findings of a partition alone its coordinators prove wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kforensics.forensics.coordinators.awaited_markers import is_awaited
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.transactions.marker_roles import Role
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import Records
from kforensics.parsers.log.log_rows import Place

__all__ = ["is_refuted"]


def is_refuted(cluster: Cluster, place: Place, finding: Finding) -> bool:
    """Return whether what a partition alone seemed to say is wrong, as its coordinators know.

    A transaction does not hang if a coordinator will end it, an abort is no operator's if a coordinator sent it, and no
    write is late if its transaction had begun.

    Args:
        cluster: the cluster.
        place: the partition.
        finding: what was found in it.
    """
    test = _TESTS.get(finding.code.name)
    partition = _number(cluster, place) if test else None
    return test is not None and partition is not None and test(cluster, partition, finding)


def _number(cluster: Cluster, place: Place) -> int | None:
    """Return the number of a partition of which a replica, this one or another, was supplied; None if none was."""
    return cluster.supplied.get((place.topic or "", NONE if place.partition is None else place.partition))


def _is_waited_for(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Whether a coordinator will end it, or a replica that has more of the log already has its end."""
    if len(_marks(cluster, partition, "first_offset", finding)):
        return True
    markers = cluster.joined.markers[partition]
    opened = markers.still_open[markers.still_open["first_offset"] == finding.first_offset]
    ids = cluster.coordinators.id_of(opened["producer_id"])
    known = ids != NONE
    return bool(len(opened)) and bool(known.all()) and bool(is_awaited(cluster, partition, opened, ids).all())


def _was_sent(cluster: Cluster, partition: int, finding: Finding) -> bool:
    which = _marks(cluster, partition, "marker_offset", finding)
    return bool((cluster.joined.roles[which] == Role.SENT).any())


def _had_begun(cluster: Cluster, partition: int, finding: Finding) -> bool:
    """Whether its transaction is certain, and had begun with the epoch of its first data."""
    parts = cluster.joined.parts
    which = _marks(cluster, partition, "first_offset", finding)
    parts = parts[np.isin(parts["mark"], which) & parts["is_exact"]]
    if not len(parts):
        return False
    begun = cluster.coordinators.instances["data_epoch"][parts["instance"]]
    same = begun == cluster.joined.marks["lowest_epoch"][parts["mark"]]
    return bool(same.all())


def _marks(cluster: Cluster, partition: int, name: str, finding: Finding) -> Records:
    """Return the indexes of the markers of a partition with an offset."""
    marks = cluster.joined.marks
    return np.flatnonzero((marks["partition"] == partition) & (marks[name] == finding.first_offset))


_TESTS: Mapping[str, Callable[[Cluster, int, Finding], bool]] = {
    "txn-hanging": _is_waited_for,
    "marker-admin-abort": _was_sent,
    "txn-write-after-marker": _had_begun,
}
