"""Checks that each transaction has the same outcome in all its partitions.

Rule: ``TransactionCoordinator.endTransaction``: the coordinator writes a Complete record once every partition has its
marker on all in-sync replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster.missing_marker_causes import DELETED_AT, missing_marker_cause, refused_data
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed, marker_row
from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.deadlines import is_awaited
from kforensics.forensics.coordinators.hanging_transactions import first_step
from kforensics.forensics.coordinators.partition_markers import OpenTransactionArray, PartitionMarkers
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.skipped_markers import are_skipped
from kforensics.forensics.coordinators.transactions.transaction_partitions import (
    MarkerStatus,
    TransactionPartitionArray,
    group_numbers,
    is_by_operator,
)
from kforensics.forensics.core.commands import ABORT, DESCRIBE, FIND_HANGING, export_command
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_offsets, format_time
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.reporting import Row, time_of
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.format.array_types import Column

CODES = by_name(
    Code(
        "atomicity-split-outcome",
        Severity.CRITICAL,
        meaning=(
            "A transaction was committed in one partition and aborted in another, or against its coordinator's "
            "decision."
        ),
        remedy="Repair it in the application: compare the offsets of both sides.",
        why=(
            "A transaction takes effect in all its partitions or in none. Here consumers receive only part of "
            "it, and no broker will change that."
        ),
        benign=(
            "An operator aborted it in one partition. Before transaction version 2 the marker may belong to "
            "another transaction of the same epoch; then the finding is only a warning."
        ),
    ),
    Code(
        "atomicity-marker-missing",
        Severity.CRITICAL,
        meaning="The coordinator completed a transaction, but one of its partitions has no marker.",
        remedy=(
            "If its data is open there, no coordinator will end it, and tools can only abort it: if the decision was "
            "to commit, save the data first. If no data is open there, nothing is to be aborted: compare the other "
            "replicas of {topic}-{partition}."
        ),
        why=(
            "The coordinator completes a transaction once all its partitions have acknowledged the marker. If a "
            "partition does not have it, the marker was lost again, and the data there stays open forever."
        ),
        benign=(
            "The topic was deleted and recreated. The log was truncated after an unclean election. The partition had "
            "no leader when the coordinator sent the markers: coordinators skip such partitions. The topic was set to "
            "an older message format, in which its leader refused the marker. This replica was copied before the "
            "marker arrived, or lags. It was down for longer than delete.retention.ms, and the leader had cleaned the "
            "marker by then."
        ),
    ),
    Code(
        "eos-offset-outcome-mismatch",
        Severity.CRITICAL,
        meaning="The consumer offsets of a transaction were committed and its output aborted, or the reverse.",
        remedy="Check the group's offsets in this transaction: input was skipped or is processed twice.",
        why=(
            "Read-process-write is exactly-once because the group's offsets and the output are in one "
            "transaction. Here only one of the two took effect."
        ),
        benign="An operator aborted one of the two.",
    ),
)


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield transactions whose outcomes do not match."""
    partitions, transactions = cluster.marker_join.transaction_partitions, cluster.coordinators.transactions
    split = partitions[partitions["marker_status"] == MarkerStatus.SPLIT]
    missing = partitions[partitions["marker_status"] == MarkerStatus.MISSING]
    yield from first_n_placed(split, partial(_split, cluster), **_decisions(transactions, split))
    yield from first_n_placed(missing, partial(_missing, cluster), **_decisions(transactions, missing))
    yield from _offset_mismatches(cluster, split)
    yield from _of_unknown_producers(cluster)


DELETED_REMEDY = "Nothing is to be done here: what the transaction wrote to the deleted topic went with it."
FORGOTTEN_COMMIT = "No action: read_committed consumers receive what was committed, only later than elsewhere."
FORGOTTEN_ABORT = (
    "Repair it in the application: no marker can hide this data again, and read_committed consumers receive it as "
    "if it had been committed."
)
DECISION_FIELDS = (
    *("id", "producer_id", "data_epoch", "marker_epoch", "status", "is_superseded", "start", "decided", "completed"),
)


def _decisions(transactions: StructRows, partitions: TransactionPartitionArray) -> dict[str, Column]:
    """Return what the coordinator decided for the transaction of each partition, as columns by name."""
    return {name: transactions[name][partitions["transaction"]] for name in DECISION_FIELDS}


def _split(cluster: Cluster, row: Row) -> PlacedFinding:
    marker = cluster.marker_join.markers[row["marker"]]
    outcome = TransactionOutcome(int(marker["outcome"]))
    first = int(marker["first_offset"])
    return cluster.at_marker(
        marker_row(marker),
        CODES["atomicity-split-outcome"],
        f"The {_marker_name(outcome)} at offset {int(marker['marker_offset'])} contradicts the coordinator, which "
        f"decided {_decision(row)} for the transaction of {cluster.id_name(row)!r} at {format_time(row['decided'])} "
        f"(producer {row['producer_id']}, epoch {row['marker_epoch']}).{_half(marker_row(marker))}",
        severity=None if row["is_exact"] else Severity.WARNING,
        evidence={
            "transactional_id": cluster.id_name(row),
            "decided": str(State(row["status"])),
            **time_of(int(marker["marker_timestamp"])),
            "first_offset": None if first == NONE else first,
        },
        exactness=Exactness.EXACT if row["is_exact"] else Exactness.APPROXIMATE,
        benign=(
            f"abort by an operator: {_by_operator(cluster, row['marker'])}",
            f"another transaction of the same epoch: {'no' if row['is_exact'] else 'possible'}",
        ),
    )


def _by_operator(cluster: Cluster, number: int) -> str:
    """Return whether an operator may have written a contrary marker, as ``marker-admin-abort`` reports it."""
    marker = cluster.marker_join.markers[number]
    if marker["outcome"] != TransactionOutcome.ABORTED:
        return "no, it is a COMMIT"
    if cluster.marker_join.roles[number] == MarkerRole.BY_OPERATOR:
        return "likely, see marker-admin-abort"
    has_other_epoch = marker["first_offset"] != NONE and marker["data_epoch"] != marker["marker_epoch"]
    return "no, not the epoch of its data" if has_other_epoch else "possible"


def _half(marker: Row) -> str:
    """Return what became of the data that a contrary marker ended, as a sentence."""
    if marker["first_offset"] == NONE:
        return ""
    offsets = format_offsets(marker["first_offset"], marker["last_offset"])
    if marker["outcome"] == TransactionOutcome.ABORTED:
        return f" The data at {offsets} is lost to read_committed consumers."
    return f" The data at {offsets} is visible to read_committed consumers, although it was aborted."


def _marker_name(outcome: TransactionOutcome) -> str:
    return "ABORT" if outcome is TransactionOutcome.ABORTED else "COMMIT"


def _decision(row: Row) -> str:
    if row["is_superseded"]:
        return f"{State(row['status'])} first and then the opposite"
    return str(State(row["status"]))


def _missing(cluster: Cluster, row: Row) -> PlacedFinding:
    """Return the finding for a partition without the marker of a completed transaction."""
    refused = refused_data(cluster.marker_join.by_partition[row["partition"]], row)
    if refused is not None and refused["is_forgotten"]:
        return _forgotten(cluster, row, (int(refused["first_offset"]), int(refused["last_offset"])))
    return _unended(cluster, row, is_refused=refused is not None)


def _unended(cluster: Cluster, row: Row, *, is_refused: bool) -> PlacedFinding:
    """Return the finding for a partition without the marker of a completed transaction.

    A marker, append time or election from well after its completion proves that the copied log extends beyond it. If no
    leader can have written the marker, it does not matter how far the log extends. If several transactions have the
    same epoch, the missing marker may be that of another one; that one is missing is certain.
    """
    markers, rules = cluster.marker_join.by_partition[row["partition"]], cluster.rules
    is_known = row["completed"] != NO_TIME
    decided, completed = (np.array([row[name]], "i8") for name in ("decided", "completed"))
    has_later = is_known and markers.coverage.seen_until > row["completed"] + rules.clock_skew_ms
    is_covered = has_later or is_refused or bool(are_skipped(markers, decided, completed, rules)[0])
    is_old = is_known and rules.as_of_ms - row["completed"] > rules.max_txn_timeout_ms
    transaction = _open_data(markers, row)
    opened = None if transaction is None else int(transaction["first_offset"])
    data = "It has no open data here" if opened is None else f"Its data from offset {opened} is open"
    cause = missing_marker_cause(cluster, markers, row, is_open=opened is not None)
    is_gone = DELETED_AT in cause.evidence
    # If an election explains the loss of an ABORT, and no data is left to abort, consumers read what they should.
    is_idle = transaction is None and row["status"] == State.COMPLETE_ABORT and bool(cause.evidence)
    severity = None if (is_covered or is_old) and not is_idle else Severity.WARNING
    return cluster.at_partition(
        row["partition"],
        CODES["atomicity-marker-missing"],
        f"{cause.sentence} {data}.",
        offsets=None if opened is None else (opened, opened),
        producer=(row["producer_id"], row["marker_epoch"]),
        severity=Severity.INFO if is_gone else severity,
        evidence={
            "transactional_id": cluster.id_name(row),
            "completed_ms": row["completed"],
            "open_from": opened,
            **cause.evidence,
        },
        exactness=Exactness.EXACT if row["is_exact"] and is_covered else Exactness.APPROXIMATE,
        benign=(
            f"copied before the end of the transaction: {_copied_before(has_later, is_covered, is_old)}",
            f"marker of another transaction of the same epoch: {'no' if row['is_exact'] else 'possible'}",
            f"lost from this copy: {'likely, it lacks offsets' if markers.offset_gaps else 'no offsets are missing'}",
            cause.election,
            f"topic deleted and recreated: {cause.deletion}",
        ),
        remedy=DELETED_REMEDY if is_gone else _remedy(cluster, row, transaction),
    )


def _forgotten(cluster: Cluster, row: Row, offsets: tuple[int, int]) -> PlacedFinding:
    """Return the finding for a transaction whose data all consumers receive, because a broker forgot it while open."""
    markers, is_commit = cluster.marker_join.by_partition[row["partition"]], row["status"] == State.COMPLETE_COMMIT
    cause = missing_marker_cause(cluster, markers, row, is_open=False)
    decision = "as its coordinator decided" if is_commit else "although it was aborted"
    return cluster.at_partition(
        row["partition"],
        CODES["atomicity-marker-missing"],
        f"{cause.sentence} A broker forgot the transaction when it loaded the log, so read_committed consumers "
        f"receive its data at {format_offsets(*offsets)}, {decision}.",
        offsets=offsets,
        producer=(row["producer_id"], row["marker_epoch"]),
        severity=Severity.INFO if is_commit else Severity.ERROR,
        evidence={"transactional_id": cluster.id_name(row), "completed_ms": row["completed"], "open_from": None},
        exactness=Exactness.EXACT if row["is_exact"] else Exactness.APPROXIMATE,
        benign=(f"marker of another transaction of the same epoch: {'no' if row['is_exact'] else 'possible'}",),
        remedy=FORGOTTEN_COMMIT if is_commit else FORGOTTEN_ABORT,
    )


def _open_data(markers: PartitionMarkers, row: Row) -> OpenTransactionArray | None:
    """Return the open transaction with the data of a transaction without its marker, None if none of it is open.

    A later transaction has a later epoch, or its data has joined that of the earlier one.
    """
    opened = markers.open_transactions
    epoch = row["marker_epoch"] if row["data_epoch"] == NONE else row["data_epoch"]
    opened = opened[(opened["producer_id"] == row["producer_id"]) & (opened["lowest_epoch"] <= epoch)]
    return opened[0] if len(opened) else None


def _remedy(cluster: Cluster, row: Row, transaction: OpenTransactionArray | None) -> str:
    """Return what to do, by what the coordinator decided and whether data is open.

    No tool can write a COMMIT, so an abort loses data that was to be committed. A later transaction of the producer in
    the partition ends the data, with its own outcome.
    """
    is_commit = row["status"] == State.COMPLETE_COMMIT
    if transaction is None and is_commit:
        return (
            "Nothing is to be aborted: none of its data is open here. If it wrote here, a later marker of its producer "
            "has ended the data, or it is lost with the marker: then no consumer of this partition receives it, while "
            "those of the other partitions do. Compare the other replicas of {topic}-{partition}; if none has it, "
            "have the application write it again."
        )
    if transaction is None:
        return (
            "Nothing is to be aborted: none of its data is open here, and the decision was to abort it. Consumers with "
            "read_uncommitted may have received what it wrote, others only if a later marker has committed it."
        )
    opened = transaction.reshape(1)
    if is_awaited(cluster, row["partition"], opened, np.array([row["id"]]))[0]:
        return (
            "Do not abort it: a later transaction of the same producer is open in this partition and its coordinator "
            f"will end both, with the outcome of the later one. Check its state with {DESCRIBE}."
        )
    first = first_step(cluster, row["partition"], opened)
    end = f"{first}Confirm that it hangs with {FIND_HANGING}; if it is listed, end it with {ABORT}"
    if not is_commit:
        return f"No coordinator sends the marker again, and the decision was to abort. {end}."
    folder = cluster.marker_join.by_partition[row["partition"]].path(int(transaction["segment"])) or ""
    save = export_command(
        folder.rpartition("/")[0] or ".", int(opened["first_offset"][0]), int(opened["last_offset"][0])
    )
    return (
        "No coordinator sends the marker again, and no tool can write a COMMIT: an abort hides this data from "
        f"read_committed consumers, while its other partitions are committed. Save it first: {save}. {end}. Then have "
        "the application write it again."
    )


def _copied_before(has_later: bool, is_covered: bool, is_old: bool) -> str:
    if has_later:
        return "no, its log goes on later"
    if is_covered:
        return "no matter, no leader can have written its marker"
    return "unlikely, it ended long before the files were copied" if is_old else "possible"


def _offset_mismatches(cluster: Cluster, split: TransactionPartitionArray) -> Iterator[PlacedFinding]:
    """Yield transactions with two outcomes whose consumer offsets have another outcome than their output.

    An operator can only have written the marker that contradicts the coordinator.
    """
    partitions, markers = cluster.marker_join.transaction_partitions, cluster.marker_join.markers
    has_offsets = np.array([topic == CONSUMER_OFFSETS for topic, _ in cluster.marker_join.partitions], bool)
    is_split = np.isin(partitions["transaction"], split["transaction"]) & (partitions["marker"] != NONE)
    rows = partitions[is_split]
    outcomes = markers["outcome"][rows["marker"]] if len(rows) else rows["marker_status"]
    is_offsets = has_offsets[rows["partition"]] if len(rows) else np.empty(0, bool)
    mismatches: list[int] = []
    contrary: list[int] = []
    for index in np.flatnonzero(is_offsets).tolist():
        output = (rows["transaction"] == rows["transaction"][index]) & ~is_offsets
        if (outcomes[output] != outcomes[index]).any():
            mismatches.append(index)
            contrary.append(int(split["marker"][split["transaction"] == rows["transaction"][index]][0]))
    more = _decisions(cluster.coordinators.transactions, rows[mismatches])
    yield from first_n_placed(
        rows[mismatches],
        partial(_offset_mismatch, cluster),
        outcome=outcomes[mismatches],
        contrary=np.array(contrary, "i8"),
        **more,
    )


def _offset_mismatch(cluster: Cluster, row: Row) -> PlacedFinding:
    marker = cluster.marker_join.markers[row["marker"]]
    offsets, output = "committed", "aborted"
    if row["outcome"] == TransactionOutcome.ABORTED:
        offsets, output = output, offsets
    return cluster.at_marker(
        marker_row(marker),
        CODES["eos-offset-outcome-mismatch"],
        f"The consumer offsets in the transaction of {cluster.id_name(row)!r} of {format_time(row['decided'])} were "
        f"{offsets}, but output of it was {output} (producer {row['producer_id']}, epoch {row['marker_epoch']}).",
        severity=None if row["is_exact"] else Severity.WARNING,
        evidence={"transactional_id": cluster.id_name(row)},
        exactness=Exactness.EXACT if row["is_exact"] else Exactness.APPROXIMATE,
        benign=(f"abort by an operator: {_by_operator(cluster, row['contrary'])}",),
        cause="atomicity-split-outcome",
    )


def _of_unknown_producers(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield contradicting markers of one transaction that no available coordinator knows.

    A marker epoch one above that of the data belongs to a single transaction: either transaction version 2 ended it,
    which bumps the epoch every time, or a coordinator fenced the producer.
    """
    markers = cluster.marker_join.markers[cluster.marker_join.roles == MarkerRole.UNKNOWN_PRODUCER]
    markers = markers[~is_by_operator(markers)]
    numbers, count = group_numbers([markers["producer_id"], markers["marker_epoch"]])
    has_data = markers["first_offset"] != NONE
    is_bumped = markers["data_epoch"] == markers["marker_epoch"] - 1
    is_single = np.bincount(numbers[has_data & is_bumped], minlength=count) > 0
    is_single &= np.bincount(numbers[has_data & ~is_bumped], minlength=count) == 0
    committed, aborted = (
        np.bincount(numbers[markers["outcome"] == outcome], minlength=count)
        for outcome in (TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED)
    )
    is_split = is_single & (committed > 0) & (aborted > 0)
    minority = np.where(committed < aborted, TransactionOutcome.COMMITTED, TransactionOutcome.ABORTED)
    is_reported = is_split[numbers] & (markers["outcome"] == minority[numbers])
    opposite = np.where(minority == TransactionOutcome.COMMITTED, aborted, committed)[numbers]
    yield from first_n_placed(markers[is_reported], partial(_contradicted, cluster), others=opposite[is_reported])


def _contradicted(cluster: Cluster, row: Row) -> PlacedFinding:
    outcome = TransactionOutcome(row["outcome"])
    return cluster.at_marker(
        row,
        CODES["atomicity-split-outcome"],
        f"The {_marker_name(outcome)} of producer {row['producer_id']}, epoch {row['marker_epoch']}, at offset "
        f"{row['marker_offset']} contradicts {row['others']} markers of the same transaction in other partitions.",
        evidence={"others": row["others"]},
        exactness=Exactness.APPROXIMATE,
        benign=("another transaction of the same epoch: unlikely, the epoch is one above that of its data",),
    )


CHECK = Check("atomicity", CODES, findings)
