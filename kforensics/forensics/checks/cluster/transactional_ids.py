"""Checks how applications use transactional ids and producer ids."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster.record_issue_findings import issue_findings
from kforensics.forensics.checks.partition import transactions
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed
from kforensics.forensics.coordinators.record_issues import StateIssue, StateIssueKind
from kforensics.forensics.core.findings import Code, Severity, by_name
from kforensics.forensics.core.formatting import format_share
from kforensics.forensics.core.reporting import Row

CODES = by_name(
    Code(
        "txnlog-fencing-loop",
        Severity.WARNING,
        meaning="Producers with the same transactional id keep fencing each other, and neither can commit.",
        remedy="Find the applications that use the id: each instance needs its own.",
        why=(
            "A producer that starts with a transactional id fences the previous one. Two instances with the "
            "same id do this alternately."
        ),
        benign="One application that crashes and restarts.",
    ),
    Code(
        "txnlog-id-churn",
        Severity.INFO,
        meaning="Many transactional ids were used only once.",
        why=(
            "Ids with a random part cannot fence their predecessors, so a crashed instance blocks its "
            "partitions until the timeout. Each id is kept for a week."
        ),
        benign="Kafka Streams with exactly_once_v1 has one id per task, and Flink's sink has pools of ids.",
    ),
    Code(
        "pid-two-ids",
        Severity.CRITICAL,
        meaning="Two transactional ids have the same producer id.",
        remedy=(
            "Check whether the files come from two clusters; if not, the controller has assigned producer ids twice."
        ),
        why=(
            "Blocks of producer ids are assigned once per cluster. If two transactional ids share one, their "
            "sequences, epochs and markers mix in every partition that both write to."
        ),
        benign="The files come from two clusters.",
    ),
)

# Codes of partition checks that this check reports with the knowledge of the coordinators.
SHARED_CODES = {"txn-aborted-rate-high": transactions.CODES["txn-aborted-rate-high"]}
# Ids with a single initialization that are worth a finding, if they are the majority.
MANY = 100


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield unusual transactional ids and producer ids."""
    yield from issue_findings(cluster, StateIssueKind.FENCING_LOOP, partial(_loop, cluster))
    yield from _churn(cluster)
    yield from _aborted_rates(cluster)
    yield from _shared_producer_ids(cluster)


def _shared_producer_ids(cluster: Cluster) -> Iterator[PlacedFinding]:
    uses, names = cluster.coordinators.producer_ids, cluster.coordinators.names
    repeated = np.flatnonzero(uses["producer_id"][1:] == uses["producer_id"][:-1]) + 1
    others = uses["id"][repeated - 1]
    # The same id in two partitions is another finding.
    is_shared = np.array(
        [names[number] != names[other] for number, other in zip(uses["id"][repeated], others, strict=True)], bool
    )
    yield from first_n_placed(uses[repeated[is_shared]], partial(_two_ids, cluster), other=others[is_shared])


def _loop(cluster: Cluster, coordinator: int, issue: StateIssue) -> PlacedFinding:
    return cluster.at_record(
        coordinator,
        issue.record,
        CODES["txnlog-fencing-loop"],
        f"Transactional id {issue.record.transactional_id!r} was initialized more than 10 times within a minute, up to "
        f"offset {issue.record.offset}, without a committed transaction.",
        benign=("one application that crashes and restarts: possible",),
    )


def _churn(cluster: Cluster) -> Iterator[PlacedFinding]:
    ids = cluster.coordinators.ids
    used_once = (ids["inits"] == 1) & (ids["transactions"] <= 1)
    for coordinator, history in enumerate(cluster.coordinators.histories):
        rows = ids[(ids["coordinator"] == coordinator) & used_once]
        count, total = len(rows), len(history.ids)
        if count >= MANY and 2 * count > total:
            last = {name: int(rows[name][-1]) for name in ("coordinator", "segment", "position", "offset")}
            yield cluster.at_coordinator(
                last,
                CODES["txnlog-id-churn"],
                f"{count} of {total} transactional ids were initialized once and have at most one transaction.",
                evidence={"ids": total, "used_once": count},
                benign=("Kafka Streams with exactly_once_v1, pools of Flink: possible",),
            )


def _aborted_rates(cluster: Cluster) -> Iterator[PlacedFinding]:
    ids, rules = cluster.coordinators.ids, cluster.rules
    ended = ids["committed"] + ids["aborted"]
    is_high = (ended >= rules.aborted_least) & (ids["aborted"] > rules.aborted_share * ended)
    rows = np.flatnonzero(is_high)
    yield from first_n_placed(ids[rows], partial(_aborted_rate, cluster), id=rows, ended=ended[rows])


def _aborted_rate(cluster: Cluster, row: Row) -> PlacedFinding:
    return cluster.at_coordinator(
        row,
        SHARED_CODES["txn-aborted-rate-high"],
        f"{row['aborted']} of {row['ended']} transactions of {cluster.id_name(row)!r} were aborted "
        f"({format_share(row['aborted'] / row['ended'])}).",
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={
            "transactional_id": cluster.id_name(row),
            "transactions": row["ended"],
            "aborted": row["aborted"],
        },
        benign=("test traffic, one burst of timeouts: possible",),
    )


def _two_ids(cluster: Cluster, row: Row) -> PlacedFinding:
    other = cluster.coordinators.names[row["other"]]
    return cluster.at_coordinator(
        row,
        CODES["pid-two-ids"],
        f"Producer id {row['producer_id']} belongs to two transactional ids, {cluster.id_name(row)!r} and {other!r}.",
        producer=(row["producer_id"], -1),
        evidence={"transactional_ids": [other, cluster.id_name(row)]},
        benign=("files of two clusters: possible",),
    )


CHECK = Check("transactional_ids", CODES, findings)
