"""Checks what limits the verdicts on transactions: partitions and times that are not available, and wrong clocks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kforensics.forensics.checks.check import Check
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration
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
        "broker-clocks-differ",
        Severity.WARNING,
        meaning="The clocks of brokers differ by more than 5 s, as the times of markers show.",
        remedy="Compare the clocks of all brokers, for example with `date --utc`, and have them synchronized.",
        why=(
            "Timeouts, retention and log append times follow the clock of each broker, so they change with the leader. "
            "No verdict on a transaction leans on a time that the difference makes uncertain: some are not given "
            "until later, or not at all."
        ),
        benign=(
            "One clock was wrong for a time. The files of brokers of two clusters with the same cluster id lie in one "
            "folder."
        ),
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
        more["marker_status"] = unknown["marker_status"]
        yield from first_n_placed(transactions, partial(_unverifiable, cluster, reason), **more)
    yield from _without_output(cluster)
    yield from _clocks(cluster)


_REASONS = {
    MarkerStatus.NOT_SUPPLIED: "its log is not among those that were read",
    MarkerStatus.NOT_COVERED: "its log starts later, was compacted, is damaged, was copied before they "
    "ended, or the topic was created again",
    MarkerStatus.AMBIGUOUS: "it has the wrong number of markers of the same epoch, and they cannot be assigned",
}


OLD_FORMAT = (
    "its topic has had message format 0 or 1, in which leaders refuse markers, and coordinators take that for done"
)


def _unverifiable(cluster: Cluster, reason: str, row: Row) -> PlacedFinding:
    replica = cluster.marker_join.by_partition.get(row["partition"])
    if row["marker_status"] == MarkerStatus.NOT_COVERED and replica is not None and replica.old_format is not None:
        reason = OLD_FORMAT
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


def _clocks(cluster: Cluster) -> Iterator[PlacedFinding]:
    totals = cluster.marker_join.totals
    if not totals.clocks_differ:
        return
    allowed, count = cluster.rules.clock_skew_ms, int(totals.clock_differences.sum())
    yield cluster.at_partition(
        min(cluster.marker_join.by_partition),
        CODES["broker-clocks-differ"],
        f"The times of {format_count(count, 'marker')} show that the clocks of brokers differ. Verdicts on "
        f"transactions allow for {format_duration(allowed)}.",
        evidence={"markers": count, "allowed_ms": allowed},
        exactness=Exactness.APPROXIMATE,
        benign=("one clock wrong for a time: possible", "brokers of two clusters in one folder: not checked"),
    )


CHECK = Check("coverage", CODES, findings)
