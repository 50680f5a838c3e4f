"""States of a transactional id that do not follow from one another.

Rule: ``TransactionMetadata.prepareTransitionTo`` and ``completeTransitionTo``.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.cluster.record_issue_findings import remarked
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.coordinator_records import State, StateRecord
from kforensics.forensics.coordinators.transactions.record_issues import Remark, Said
from kforensics.forensics.coordinators.transactions.transaction_partitions import Verdict
from kforensics.forensics.coordinators.transactions.transitions import Step
from kforensics.forensics.core.findings import Exactness, Severity, codes
from kforensics.forensics.core.reporting import Row, moment

__all__ = ["CODES", "findings"]

CODES = codes("""
txnlog-illegal-transition error
A transactional id took a state that does not follow from the one before.
Keep the segment: this is material for a bug report.
why: A coordinator only takes steps from a fixed table: Ongoing, Prepare, Complete and so on. Another step says that \
records are missing between, or that two coordinators wrote.
innocent: The record before was stored but not acknowledged in time, so that the coordinator went on from the one \
before it. A later release may have other rules.

txnlog-prepare-flip error
The end of a transaction was decided twice, and not the same.
See whether markers of the first decision were sent: then the transaction is committed in part.
why: Once a decision is written, it stands, and markers go out. Where the other decision follows, some partitions may \
have been committed and others aborted.
innocent: The first decision was stored but not acknowledged in time, and the coordinator never acted on it. If there \
is no marker of it anywhere, that is what happened.

txnlog-epoch-regressed error
The epoch of a transactional id fell.
Compare the leader epochs of the two batches: a coordinator that had been replaced may have written the second one.
why: For one producer id the epoch of a transactional id only rises. A lower one was written by a coordinator that had \
been replaced and did not know it.
innocent: None: an id that was removed and taken anew gets another producer id.

txnlog-pid-reused error
A transactional id went back to a producer id that it had given up.
Compare the leader epochs of the two batches: a coordinator that had been replaced may have written the second one.
why: A producer id that was given up is never used again. Whoever wrote it knew only an old state.
innocent: None known.

txnlog-transient-state error
A record holds a state that a coordinator only has in memory, or none at all.
Keep the segment: this is material for a bug report.
why: Dead and PrepareEpochFence are states of a moment, in memory; no release writes them. Nobody can say what the id \
is at.
innocent: A state that a later release has.
""")


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of the order of states."""
    tellers = {
        Said.ILLEGAL_TRANSITION: _illegal,
        Said.EPOCH_REGRESSED: _regressed,
        Said.PID_REUSED: _reused,
        Said.TRANSIENT_STATE: _transient,
    }
    for said, tell in tellers.items():
        yield from remarked(cluster, said, partial(tell, cluster))
    yield from _flips(cluster)


def _illegal(cluster: Cluster, coordinator: int, remark: Remark) -> Placed:
    unapplied = remark.step is Step.UNAPPLIED
    return cluster.at_record(
        coordinator,
        remark.record,
        CODES["txnlog-illegal-transition"],
        f"Transactional id {remark.record.transactional_id!r} goes from {_state(remark.before)} to "
        f"{_state(remark.record)}, which no coordinator does.",
        severity=Severity.WARNING if unapplied else None,
        evidence=_leader_epochs(remark),
        benign=(
            f"the record before was stored, but not acknowledged and not applied: {'possible' if unapplied else 'no'}",
            "rules of a later release: not known up to 4.4",
        ),
    )


def _state(record: StateRecord | None) -> str:
    """Return a state in words."""
    if record is None:
        return "nothing"
    if record.is_tombstone:
        return f"its removal (offset {record.offset})"
    listed = "" if record.partitions is None else f", partitions: {len(record.partitions)}"
    state = f"state {record.status}" if record.state is None else str(record.state)
    whose = f"producer {record.producer_id}, epoch {record.producer_epoch}"
    return f"{state} ({whose}{listed}, offset {record.offset})"


def _leader_epochs(remark: Remark) -> dict[str, object]:
    before = None if remark.before is None else remark.before.leader_epoch
    return {"leader_epoch": remark.record.leader_epoch, "leader_epoch_before": before}


def _regressed(cluster: Cluster, coordinator: int, remark: Remark) -> Placed:
    before = remark.before.producer_epoch if remark.before else None
    return cluster.at_record(
        coordinator,
        remark.record,
        CODES["txnlog-epoch-regressed"],
        f"The epoch of transactional id {remark.record.transactional_id!r} falls from {before} to "
        f"{remark.record.producer_epoch}, with the same producer id {remark.record.producer_id}.",
        evidence=_leader_epochs(remark),
        benign=("id removed and taken anew: no, it would have another producer id",),
    )


def _reused(cluster: Cluster, coordinator: int, remark: Remark) -> Placed:
    return cluster.at_record(
        coordinator,
        remark.record,
        CODES["txnlog-pid-reused"],
        f"Transactional id {remark.record.transactional_id!r} goes back to producer id {remark.record.producer_id}, "
        "which it had given up.",
        evidence=_leader_epochs(remark),
    )


def _transient(cluster: Cluster, coordinator: int, remark: Remark) -> Placed:
    state = remark.record.state
    named = f"state {remark.record.status}, which has no name" if state is None else f"state {state}"
    return cluster.at_record(
        coordinator,
        remark.record,
        CODES["txnlog-transient-state"],
        f"The record of transactional id {remark.record.transactional_id!r} at offset {remark.record.offset} holds "
        f"{named}; it is never written.",
        evidence={"status": remark.record.status},
        benign=("state of a later release: not known up to 4.4",),
    )


def _flips(cluster: Cluster) -> Iterator[Placed]:
    instances, parts = cluster.coordinators.instances, cluster.joined.parts
    flipped = np.flatnonzero(instances["is_superseded"])
    sent, seen = (
        np.bincount(parts["instance"][which], minlength=len(instances))[flipped]
        for which in (parts["verdict"] == Verdict.SPLIT, parts["verdict"] != Verdict.UNSUPPLIED)
    )
    listed = np.bincount(parts["instance"], minlength=len(instances))[flipped]
    yield from each_placed(instances[flipped], partial(_flip, cluster), sent=sent, seen=seen, listed=listed)


def _flip(cluster: Cluster, row: Row) -> Placed:
    state = State(row["status"])
    other = State.PREPARE_ABORT if state is State.PREPARE_COMMIT else State.PREPARE_COMMIT
    whole = row["seen"] == row["listed"]
    return cluster.at_coordinator(
        row,
        CODES["txnlog-prepare-flip"],
        f"The transaction of {cluster.id_name(row)!r} that was to become {state} at {moment(row['decided'])} (producer "
        f"{row['producer_id']}, epoch {row['marker_epoch']}) was then decided anew, as {other}.",
        producer=(row["producer_id"], row["marker_epoch"]),
        severity=None if row["sent"] else Severity.WARNING,
        evidence={"markers_sent": row["sent"], "partitions": row["listed"], "partitions_seen": row["seen"]},
        exactness=Exactness.EXACT if whole or row["sent"] else Exactness.APPROXIMATE,
        benign=(
            "first decision stored, but not acknowledged in time, and so not applied: "
            + ("no, markers of it were sent" if row["sent"] else "likely, there is no marker of it"),
        ),
    )
