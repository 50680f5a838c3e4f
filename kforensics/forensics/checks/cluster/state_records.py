"""Checks for coordinator records in the wrong partition, records that cannot be read, and excessive timeouts.

Rule: ``TransactionStateManager.partitionFor`` for the partition of a transactional id,
``TransactionLog.readTxnRecordValue`` for what a broker can load.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster.record_issue_findings import issue_findings
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed
from kforensics.forensics.coordinators.deadlines import NO_TIMEOUT
from kforensics.forensics.coordinators.partition_of import java_hashes, likely_count
from kforensics.forensics.coordinators.record_issues import StateIssue, StateIssueKind
from kforensics.forensics.core.broker_settings import MAX_TIMEOUT, STATE_PARTITIONS
from kforensics.forensics.core.commands import LIST
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.reporting import Row

CODES = by_name(
    Code(
        "txnlog-wrong-partition",
        Severity.CRITICAL,
        meaning="A transactional id has records in a partition that does not match its name.",
        remedy=(
            f"List the ids that are known, and their states, with {LIST}. The topic cannot be given fewer partitions "
            "again. Stop the producers of such ids, end their open transactions as txn-hanging says, and start them: "
            "they get a new producer id, which does not fence older instances."
        ),
        why=(
            "A coordinator finds an id by the hash of its name and the partition count. It keeps the count from its "
            "start: once it was changed and brokers were restarted, no coordinator finds the old records of such an "
            "id, times out its open transaction, or fences its older instances."
        ),
        benign="The partition count differs from the assumed one; it can be given.",
    ),
    Code(
        "txnlog-unparsable",
        Severity.ERROR,
        meaning="A coordinator record cannot be read.",
        remedy=(
            "Keep the segment. Up to 4.2 a broker stops loading the partition at this record; since 4.3 it "
            "continues with an older record of the id."
        ),
        why="The coordinator ignores what it cannot read: an id may be missing, or has an older state.",
        benign="A release newer than this tool. Keys of a type that brokers skip.",
    ),
    Code(
        "txnlog-timeout-too-large",
        Severity.INFO,
        meaning="A transactional id has a longer timeout than brokers allow.",
        why=(
            "Brokers reject a timeout above transaction.max.timeout.ms when the producer starts. With a longer "
            "timeout a transaction may stay open longer than expected."
        ),
        benign="The limit was lowered later. A producer of a two-phase commit has no limit.",
    ),
)


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield what is wrong with single coordinator records."""
    yield from _misplaced(cluster)
    yield from issue_findings(cluster, StateIssueKind.UNPARSABLE, partial(_unparsable, cluster))
    ids = cluster.coordinators.ids
    too_long = np.flatnonzero(ids["timeout_ms"] > cluster.rules.max_txn_timeout_ms)
    yield from first_n_placed(ids[too_long], partial(_timeout, cluster), id=too_long)


def _misplaced(cluster: Cluster) -> Iterator[PlacedFinding]:
    ids, given = cluster.coordinators.ids, cluster.partition_count
    hashes = java_hashes(cluster.coordinators.names)
    partitions = np.array([history.place.partition or 0 for history in cluster.coordinators.histories], "i8")
    actual = partitions[ids["coordinator"]] if len(ids) else np.empty(0, "i8")
    count = likely_count(partitions.tolist(), hashes, actual) if given is None else given
    if count is None:
        return
    wrong = np.flatnonzero(hashes % count != actual)
    more = {"id": wrong, "expected": hashes[wrong] % count, "actual": actual[wrong]}
    yield from first_n_placed(ids[wrong], partial(_wrong_partition, cluster, count), **more)


def _wrong_partition(cluster: Cluster, count: int, row: Row) -> PlacedFinding:
    is_given = cluster.partition_count is not None
    outcome = "no, it was given" if is_given else "possible, most ids match this one"
    source = f" ({cluster.rules.source_of(STATE_PARTITIONS)})" if is_given else ""
    return cluster.at_coordinator(
        row,
        CODES["txnlog-wrong-partition"],
        f"Transactional id {cluster.id_name(row)!r} has records in partition {row['actual']}; with {count} partitions "
        f"it belongs to partition {row['expected']}{source}.",
        evidence={
            "partitions": count,
            "wanted_partition": row["expected"],
            **(cluster.rules.evidence(STATE_PARTITIONS) if is_given else {}),
        },
        exactness=Exactness.EXACT if is_given else Exactness.APPROXIMATE,
        benign=(f"another partition count: {outcome}",),
    )


def _unparsable(cluster: Cluster, coordinator: int, issue: StateIssue) -> PlacedFinding:
    record = issue.record
    is_skipped = record.transactional_id is None and (record.error or "").startswith("unknown record type")
    owner = "" if record.transactional_id is None else f" of transactional id {record.transactional_id!r}"
    return cluster.at_record(
        coordinator,
        record,
        CODES["txnlog-unparsable"],
        f"The record{owner} at offset {record.offset} cannot be read: {record.error}.",
        severity=Severity.WARNING if is_skipped else None,
        evidence={"error": record.error},
        benign=(
            f"key of another type, skipped by every broker: {'yes' if is_skipped else 'no'}",
            "version of a later release: not known up to 4.4",
        ),
    )


def _timeout(cluster: Cluster, row: Row) -> PlacedFinding:
    limit = format_duration(cluster.rules.max_txn_timeout_ms)
    is_two_phase = row["timeout_ms"] == NO_TIMEOUT
    timeout = "no timeout" if is_two_phase else f"a timeout of {format_duration(row['timeout_ms'])}"
    return cluster.at_coordinator(
        row,
        CODES["txnlog-timeout-too-large"],
        f"Transactional id {cluster.id_name(row)!r} has {timeout}; the limit is {limit}.",
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={
            "timeout_ms": row["timeout_ms"],
            "allowed_ms": cluster.rules.max_txn_timeout_ms,
            **cluster.rules.evidence(MAX_TIMEOUT),
        },
        benign=(
            f"producer of a two-phase commit: {'yes' if is_two_phase else 'no'}",
            "limit lowered since: possible",
        ),
    )


CHECK = Check("state_records", CODES, findings)
