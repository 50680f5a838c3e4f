"""Checks that the states of each transactional id follow from one another.

Rule: ``TransactionMetadata.prepareTransitionTo`` and ``completeTransitionTo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster.record_issue_findings import issue_findings
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed
from kforensics.forensics.coordinators.coordinator_records import State, StateRecord
from kforensics.forensics.coordinators.record_issues import StateIssue, StateIssueKind
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.coordinators.transactions.transitions import StateStep
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.reporting import Row
from kforensics.parsers.format.array_types import BoolArray, IntArray

CODES = by_name(
    Code(
        "txnlog-illegal-transition",
        Severity.ERROR,
        meaning="A transactional id changed to a state that cannot follow the previous one.",
        remedy="Keep the segment for a bug report.",
        why=(
            "A coordinator only makes transitions from a fixed table: Ongoing, Prepare, Complete and so on. Any "
            "other transition means that records between the two are missing, or that two coordinators wrote."
        ),
        benign=(
            "The previous record was stored but not acknowledged in time, so the coordinator continued from the "
            "record before it. A later release may have other rules."
        ),
    ),
    Code(
        "txnlog-prepare-flip",
        Severity.ERROR,
        meaning="The end of a transaction was decided twice, with different outcomes.",
        remedy="Check whether markers of the first decision were sent: if so, the transaction is committed in part.",
        why=(
            "A written decision is final, and markers are sent. If the opposite decision follows, some "
            "partitions may have been committed and others aborted."
        ),
        benign=(
            "The first decision was stored but not acknowledged in time, and the coordinator never acted on it. "
            "This is so if no partition has a marker of it."
        ),
    ),
    Code(
        "txnlog-epoch-regressed",
        Severity.ERROR,
        meaning="The epoch of a transactional id decreased.",
        remedy=(
            "Compare the leader epochs of the two batches: a coordinator that had been replaced may have "
            "written the second one."
        ),
        why=(
            "With the same producer id the epoch of a transactional id only rises. A lower one was written by a "
            "coordinator that had been replaced without knowing it."
        ),
        benign="None: an id that expires and is registered again gets another producer id.",
    ),
    Code(
        "txnlog-pid-reused",
        Severity.ERROR,
        meaning="A transactional id returned to a producer id that it had given up.",
        remedy=(
            "Compare the leader epochs of the two batches: a coordinator that had been replaced may have "
            "written the second one."
        ),
        why=(
            "A producer id that was given up is never used again. The coordinator that wrote it only knew an old state."
        ),
        benign="None known.",
    ),
    Code(
        "txnlog-transient-state",
        Severity.ERROR,
        meaning="A record has a state that a coordinator only has in memory, or an undefined one.",
        remedy="Keep the segment for a bug report.",
        why=(
            "Dead and PrepareEpochFence are transient states in memory; no release writes them. The actual "
            "state of the id is unknown."
        ),
        benign="A state that a later release has.",
    ),
)


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield states of transactional ids that cannot follow the previous state."""
    kinds = {
        StateIssueKind.ILLEGAL_TRANSITION: _illegal,
        StateIssueKind.EPOCH_REGRESSED: _regressed,
        StateIssueKind.PID_REUSED: _reused,
        StateIssueKind.TRANSIENT_STATE: _transient,
    }
    for kind, finding_of in kinds.items():
        yield from issue_findings(cluster, kind, partial(finding_of, cluster))
    yield from _flips(cluster)


def _illegal(cluster: Cluster, coordinator: int, issue: StateIssue) -> PlacedFinding:
    is_unapplied = issue.step is StateStep.UNAPPLIED
    is_repeated = is_unapplied and _says_the_same(issue.before, issue.record)
    unapplied = "likely, both say the same" if is_repeated else "possible" if is_unapplied else "no"
    return cluster.at_record(
        coordinator,
        issue.record,
        CODES["txnlog-illegal-transition"],
        f"Illegal transition of transactional id {issue.record.transactional_id!r} from {_state(issue.before)} to "
        f"{_state(issue.record)}.",
        severity=Severity.INFO if is_repeated else Severity.WARNING if is_unapplied else None,
        evidence=_leader_epochs(issue),
        benign=(
            f"previous record stored, but not acknowledged and not applied: {unapplied}",
            "rules of a later release: not known up to 4.4",
        ),
    )


def _says_the_same(before: StateRecord | None, record: StateRecord) -> bool:
    """Return whether two records differ at most in their times: the client has sent its request again."""
    if before is None:
        return False
    names = ("status", "producer_id", "producer_epoch", "timeout_ms", "partitions")
    return all(getattr(before, name) == getattr(record, name) for name in names)


def _state(record: StateRecord | None) -> str:
    """Return a state with its producer as a phrase."""
    if record is None:
        return "nothing"
    if record.is_tombstone:
        return f"its removal (offset {record.offset})"
    listed = "" if record.partitions is None else f", partitions: {len(record.partitions)}"
    state = f"state {record.status}" if record.state is None else str(record.state)
    producer = f"producer {record.producer_id}, epoch {record.producer_epoch}"
    return f"{state} ({producer}{listed}, offset {record.offset})"


def _leader_epochs(issue: StateIssue) -> dict[str, object]:
    before = None if issue.before is None else issue.before.leader_epoch
    return {"leader_epoch": issue.record.leader_epoch, "leader_epoch_before": before}


def _regressed(cluster: Cluster, coordinator: int, issue: StateIssue) -> PlacedFinding:
    before = issue.before.producer_epoch if issue.before else None
    return cluster.at_record(
        coordinator,
        issue.record,
        CODES["txnlog-epoch-regressed"],
        f"The epoch of transactional id {issue.record.transactional_id!r} decreased from {before} to "
        f"{issue.record.producer_epoch}, with the same producer id {issue.record.producer_id}.",
        evidence=_leader_epochs(issue),
        benign=("id removed and registered again: no, it would have another producer id",),
    )


def _reused(cluster: Cluster, coordinator: int, issue: StateIssue) -> PlacedFinding:
    return cluster.at_record(
        coordinator,
        issue.record,
        CODES["txnlog-pid-reused"],
        f"Transactional id {issue.record.transactional_id!r} returned to producer id {issue.record.producer_id}, which "
        "it had given up.",
        evidence=_leader_epochs(issue),
    )


def _transient(cluster: Cluster, coordinator: int, issue: StateIssue) -> PlacedFinding:
    record = issue.record
    state = f"undefined state {record.status}" if record.state is None else f"state {record.state}"
    return cluster.at_record(
        coordinator,
        record,
        CODES["txnlog-transient-state"],
        f"The record of transactional id {record.transactional_id!r} at offset {record.offset} has {state}, which is "
        "never written.",
        evidence={"status": record.status},
        benign=("state of a later release: not known up to 4.4",),
    )


def _flips(cluster: Cluster) -> Iterator[PlacedFinding]:
    transactions, partitions = cluster.coordinators.transactions, cluster.marker_join.transaction_partitions
    flipped = np.flatnonzero(transactions["is_superseded"])

    def counts(matches: BoolArray | slice) -> IntArray:
        return np.bincount(partitions["transaction"][matches], minlength=len(transactions))[flipped]

    sent = counts(partitions["marker_status"] == MarkerStatus.SPLIT)
    seen = counts(partitions["marker_status"] != MarkerStatus.NOT_SUPPLIED)
    listed = counts(slice(None))
    yield from first_n_placed(transactions[flipped], partial(_flip, cluster), sent=sent, seen=seen, listed=listed)


def _flip(cluster: Cluster, row: Row) -> PlacedFinding:
    state = State(row["status"])
    other = State.PREPARE_ABORT if state is State.PREPARE_COMMIT else State.PREPARE_COMMIT
    has_all = row["seen"] == row["listed"]
    return cluster.at_coordinator(
        row,
        CODES["txnlog-prepare-flip"],
        f"The transaction of {cluster.id_name(row)!r} (producer {row['producer_id']}, epoch {row['marker_epoch']}) was "
        f"decided twice: {state} at {format_time(row['decided'])}, then {other}.",
        producer=(row["producer_id"], row["marker_epoch"]),
        severity=None if row["sent"] else Severity.WARNING,
        evidence={"markers_sent": row["sent"], "partitions": row["listed"], "partitions_seen": row["seen"]},
        exactness=Exactness.EXACT if has_all or row["sent"] else Exactness.APPROXIMATE,
        benign=(
            "first decision stored, but not acknowledged in time and not applied: "
            + ("no, its markers were sent" if row["sent"] else "likely, there is no marker of it"),
        ),
    )


CHECK = Check("state_transitions", CODES, findings)
