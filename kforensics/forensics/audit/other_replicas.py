"""Finds what is wrong with open transactions in replicas that the evaluation of their cluster does not use.

Of several replicas of a partition it uses the best one: :func:`.replica_ranks.best_ranked`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kforensics.forensics.checks.cluster import hanging
from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.coordinators.partition_markers import OpenTransactionArray, PartitionMarkers
from kforensics.forensics.coordinators.transactions.marker_join import MarkerJoin
from kforensics.forensics.coordinators.transactions.transaction_partitions import TransactionPartitionArray
from kforensics.forensics.core.findings import Finding
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.log.log_rows import Place

__all__ = ["identity", "replica_findings"]

# What the best replica shows of open transactions: how long they have been idle, and between which markers.
FROM_BEST = ("idle_ms", "previous_marker", "coordinator_epoch", "appended_after", "appended_by", "last_time")


def replica_findings(cluster: Cluster, markers: PartitionMarkers) -> list[Finding]:
    """Return the findings on open transactions of a replica that the evaluation of its cluster did not use.

    Of several replicas, the cluster uses the best one. The others have the same open transactions, except for
    those that have ended there. What it shows of those that are still open holds for the others, too.

    Args:
        cluster: the cluster.
        markers: the markers and open transactions of the replica.
    """
    number = cluster.supplied_partitions.get(markers.name)
    join = cluster.marker_join
    if number is None or join.by_partition[number].place == markers.place:
        return []
    best, rows = join.by_partition[number], markers.open_transactions
    in_both, own, of_best = _open_in_both(rows, best.open_transactions)
    idle_here = in_both["idle_ms"].copy()
    for name in FROM_BEST:
        in_both[name] = best.open_transactions[name][of_best]
    rows = np.delete(rows, own)
    ended = join.markers["first_offset"][join.markers["partition"] == number]
    only_here = rows[~(np.isin(rows["first_offset"], ended) | best.has_passed(rows["first_offset"]))]
    as_best_shows = replace(best, place=markers.place, paths=markers.paths, open_transactions=in_both)
    is_longer = in_both["idle_ms"] > idle_here + cluster.rules.clock_skew_ms
    longer = set(in_both["first_offset"][is_longer].tolist())
    findings = [
        _shown_by(best.place, finding) if finding.first_offset in longer else finding
        for finding in _findings_on_open(cluster, number, as_best_shows)
    ]
    if len(only_here):
        known = {identity(finding) for finding in findings}
        others = _findings_on_open(cluster, number, replace(markers, open_transactions=only_here))
        findings += [finding for finding in others if identity(finding) not in known]
    return findings


def _shown_by(place: Place, finding: Finding) -> Finding:
    """Return a finding with the replica that shows for how long its transaction has been idle."""
    if "silent_ms" not in finding.evidence:
        return finding
    where = f"in {place.log_dir}" if place.broker_id is None else f"on broker {place.broker_id}"
    return replace(finding, message=f"{finding.message} The replica {where} shows that.")


def identity(finding: Finding) -> tuple[str, int | None, int | None]:
    """Return what two findings on the same transaction of a partition have in common."""
    return finding.code.name, finding.first_offset, finding.producer_id


def _open_in_both(
    rows: OpenTransactionArray, others: OpenTransactionArray
) -> tuple[OpenTransactionArray, IntArray, IntArray]:
    """Return the open transactions of a replica that another one has, too, and their numbers in both."""
    _, own, others_own = np.intersect1d(rows["first_offset"], others["first_offset"], return_indices=True)
    is_same = rows["producer_id"][own] == others["producer_id"][others_own]
    return rows[own[is_same]].copy(), own[is_same], others_own[is_same]


def _findings_on_open(cluster: Cluster, number: int, replica: PartitionMarkers) -> list[Finding]:
    """Return the findings on the open transactions of a replica."""
    join = cluster.marker_join
    listed = _without_markers(join, number, replica)
    alone = replace(join, by_partition={number: replica}, transaction_partitions=listed)
    return [finding for _, finding in hanging.CHECK.findings(replace(cluster, marker_join=alone))]


def _without_markers(join: MarkerJoin, number: int, replica: PartitionMarkers) -> TransactionPartitionArray:
    """Return the transactions that list a partition and whose marker a replica does not have, or not yet.

    The best replica may have lost the data to the cleaner, marker and all.
    """
    rows = join.transaction_partitions[join.transaction_partitions["partition"] == number]
    # No marker is -1, which indexes the NEVER at the end.
    offsets = np.append(join.markers["marker_offset"], NEVER)[rows["marker"]]
    rows = rows[offsets >= replica.log_end_offset].copy()
    rows["marker"] = NONE
    missing: TransactionPartitionArray = rows
    return missing
