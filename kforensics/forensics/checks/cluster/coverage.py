"""Checks what the available files cannot show about transactions, and for transactions with consumer offsets only."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kforensics.forensics.checks.check import Check
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.reporting import Row

CODES = by_name(
    Code(
        "atomicity-unverifiable",
        Severity.INFO,
        meaning="The available files do not show how transactions ended in a partition.",
        why="The files do not include a partition of the transaction, or do not cover the time in question.",
        benign="Always: it is not a fault of the cluster.",
    ),
    Code(
        "eos-commit-without-output",
        Severity.INFO,
        meaning="Committed transactions of a transactional id contain consumer offsets and no output.",
        why="The transaction was begun to write output but only advanced the group's offsets.",
        benign="The input was filtered out completely.",
    ),
)


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield the partitions in which outcomes are unknown, and transactions without output."""
    unknown_outcomes = cluster.marker_join.totals.unknown_outcomes
    for status, reason in _REASONS.items():
        unknown = unknown_outcomes[unknown_outcomes["marker_status"] == status]
        transactions = cluster.coordinators.transactions[unknown["transaction"]]
        more = {"transaction_count": unknown["count"], "partition": unknown["partition"]}
        yield from first_n_placed(transactions, partial(_unverifiable, cluster, reason), **more)
    yield from _without_output(cluster)


_REASONS = {
    MarkerStatus.NOT_SUPPLIED: "its log is not among those that were read",
    MarkerStatus.NOT_COVERED: "its log starts later, was compacted, is damaged, or was copied before they ended",
    MarkerStatus.AMBIGUOUS: "it has the wrong number of markers of the same epoch, and they cannot be assigned",
}


def _unverifiable(cluster: Cluster, reason: str, row: Row) -> PlacedFinding:
    return cluster.at_coordinator(
        row,
        CODES["atomicity-unverifiable"],
        f"The outcome of {format_count(row['transaction_count'], 'transaction')} in "
        f"{cluster.name(row['partition'])} is unknown: {reason}.",
        evidence={"transactions": row["transaction_count"], "partition": cluster.name(row["partition"])},
        exactness=Exactness.UNVERIFIABLE,
        benign=("not a fault of the cluster: always",),
    )


def _without_output(cluster: Cluster) -> Iterator[PlacedFinding]:
    offsets_only = cluster.marker_join.totals.offsets_only
    first = cluster.coordinators.transactions[offsets_only["transaction"]]
    yield from first_n_placed(first, partial(_offsets_only, cluster), transactions=offsets_only["count"])


def _offsets_only(cluster: Cluster, row: Row) -> PlacedFinding:
    return cluster.at_coordinator(
        row,
        CODES["eos-commit-without-output"],
        f"{format_count(row['transactions'], 'committed transaction')} of {cluster.id_name(row)!r} without output, "
        "with consumer offsets only.",
        producer=(row["producer_id"], row["marker_epoch"]),
        evidence={"transactions": row["transactions"]},
        benign=("input that produced no output: likely",),
    )


CHECK = Check("coverage", CODES, findings)
