"""Checks that markers match the decisions that their coordinator wrote.

Rule: ``TransactionMarkerChannelManager.addTxnMarkersToSend`` for when markers are sent, and to which partitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import markers as partition_markers
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed, partition_name
from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, NONE, TRANSACTION_STATE
from kforensics.forensics.coordinators.partition_markers import TransactionMarkerArray
from kforensics.forensics.coordinators.transactions.history import CoordinatorTransactionArray
from kforensics.forensics.coordinators.transactions.join_totals import with_certain_marker
from kforensics.forensics.coordinators.transactions.marker_roles import MarkerRole
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.election import Election, cut_off_by, unclean_phrase
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.reporting import Row
from kforensics.parsers.format.array_types import BoolArray, IntArray

CODES = by_name(
    Code(
        "marker-partition-unlisted",
        Severity.ERROR,
        meaning="A partition has a marker, but no transaction of its producer lists the partition.",
        remedy="Check whether two coordinators had the same transactional id.",
        why=(
            "A coordinator writes markers only to the partitions of the transaction. The sender of this one "
            "knew another transaction."
        ),
        benign=(
            "An operator's abort. The partition list was in a record that was cleaned, or that was written "
            "after the copy. The coordinator lost its decision in an unclean election; the finding names it then."
        ),
    ),
    Code(
        "marker-outside-window",
        Severity.WARNING,
        meaning="A marker was written before its transaction was decided, or after it was complete.",
        remedy="Check whether it ended the next transaction of the producer.",
        why=(
            "Markers are sent after the decision and before the completion. A marker delayed in the network may "
            "have ended the next transaction too early; then the severity is higher."
        ),
        benign="Broker clocks differ. The marker was resent after a coordinator failover.",
    ),
    Code(
        "marker-coordinator-epoch-mismatch",
        Severity.WARNING,
        meaning="A marker has a coordinator epoch that its coordinator did not have while the transaction was ending.",
        remedy="No action, unless marker-conflict is reported for the same transaction.",
        why=(
            "A marker has the epoch with which its coordinator was elected. This one was sent by a coordinator that "
            "was not responsible at that time."
        ),
        benign=(
            "An operator's abort, or a marker that belongs to an adjacent transaction of the same epoch. An epoch "
            "below that of the coordinator's records alone is in order: followers that leave and return raise the "
            "leader epoch, and a coordinator that stays continues with its own."
        ),
    ),
)


LOST_DECISION = (
    "The coordinator has lost its decision: in the other partitions of the transaction it may abort it at its timeout, "
    "or never end it. Compare them, as `kforensics transactions` lists them for producer {producer_id}, and have the "
    "application write again what is not everywhere. Look for txn-hanging of the producer, too."
)
# Codes of partition checks that this check reports with the knowledge of the coordinators.
SHARED_CODES = {"marker-admin-abort": partition_markers.CODES["marker-admin-abort"]}


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield markers that do not match their coordinator's decisions."""
    markers, roles = cluster.marker_join.markers, cluster.marker_join.roles
    yield from first_n_placed(markers[roles == MarkerRole.BY_OPERATOR], partial(_admin_abort, cluster))
    for role in (MarkerRole.UNLISTED, MarkerRole.UNDECIDED):
        yield from first_n_placed(markers[roles == role], partial(_unlisted, cluster, role))
    # One that splits a transaction is reported as that.
    surplus = np.setdiff1d(np.flatnonzero(roles == MarkerRole.UNMATCHED), _splitting(cluster))
    yield from first_n_placed(markers[surplus], partial(_unmatched, cluster))
    ends_data = (roles == MarkerRole.DUPLICATE) & (markers["first_offset"] != NONE)
    yield from first_n_placed(markers[ends_data], partial(_ends_next, cluster))
    yield from _of_known_transactions(cluster)


def _name(row: Row) -> str:
    kind = "ABORT" if row["outcome"] == TransactionOutcome.ABORTED else "COMMIT"
    producer = f"producer {row['producer_id']}, epoch {row['marker_epoch']}"
    return f"The {kind} of {producer}, at offset {row['marker_offset']}"


def _splitting(cluster: Cluster) -> IntArray:
    """Return the indexes of the markers that contradict their coordinator's decision."""
    rows = cluster.marker_join.transaction_partitions
    splitting: IntArray = rows["marker"][rows["marker_status"] == MarkerStatus.SPLIT]
    return splitting


def _lost_decision(cluster: Cluster, number: int, row: Row) -> Election | None:
    """Return the unclean election of the coordinator of an id that may have cut off its decision on a marker."""
    coordinator, time = int(cluster.coordinators.ids["coordinator"][number]), row["marker_timestamp"]
    return cut_off_by(cluster.coordinator_elections(coordinator, time, NEVER), ALWAYS)


def _cut_off(cluster: Cluster, number: int, election: Election | None) -> tuple[str, str]:
    """Return the loss of a decision as a sentence, empty if there was none, and as a benign explanation."""
    if election is None:
        return "", "decision lost in an unclean election: no"
    history = cluster.coordinators.histories[int(cluster.coordinators.ids["coordinator"][number])]
    log = partition_name((TRANSACTION_STATE, history.place.partition or 0))
    return f" {log} may have lost the decision: {unclean_phrase(election)}.", "decision lost in that election: likely"


def _admin_abort(cluster: Cluster, row: Row) -> PlacedFinding:
    (number,) = cluster.coordinators.id_of(np.array([row["producer_id"]])).tolist()
    name, election = cluster.coordinators.names[number], _lost_decision(cluster, number, row)
    lost, explanation = _cut_off(cluster, number, election)
    who, decided = ("An operator", "decided") if election is None else ("An operator or the coordinator", "has")
    return cluster.at_marker(
        row,
        SHARED_CODES["marker-admin-abort"],
        f"{who} aborted data of {name!r} (producer {row['producer_id']}, epoch {row['marker_epoch']}) from "
        f"offset {row['first_offset']} at {format_time(row['marker_timestamp'])}, with the ABORT at offset "
        f"{row['marker_offset']}: its coordinator {decided} no such abort.{lost}",
        evidence={
            "transactional_id": name,
            "first_offset": row["first_offset"],
            "aborted_ms": row["marker_timestamp"],
            "coordinator_epoch": row["coordinator_epoch"],
        },
        exactness=Exactness.EXACT if election is None else Exactness.APPROXIMATE,
        benign=(
            "abort by a producer of transaction version 0 or 1: no, its coordinator has no record of it"
            if election is None
            else explanation,
        ),
    )


def _unlisted(cluster: Cluster, role: MarkerRole, row: Row) -> PlacedFinding:
    why = (
        "the transaction of that epoch does not list this partition"
        if role is MarkerRole.UNLISTED
        else "its coordinator has no record of an end of that epoch"
    )
    (number,) = cluster.coordinators.id_of(np.array([row["producer_id"]])).tolist()
    name, election = cluster.coordinators.names[number], _lost_decision(cluster, number, row)
    lost, explanation = _cut_off(cluster, number, election)
    return cluster.at_marker(
        row,
        CODES["marker-partition-unlisted"],
        f"{_name(row)} has no known sender: {why} (transactional id {name!r}).{lost}",
        evidence={"transactional_id": name, "coordinator_epoch": row["coordinator_epoch"]},
        benign=(
            "abort by an operator: no, not the epoch of its data"
            if row["outcome"] == TransactionOutcome.ABORTED
            else "abort by an operator: no, it is a COMMIT",
            "partition list cleaned, decision not yet copied: no",
            explanation,
        ),
        remedy=None if election is None else LOST_DECISION,
    )


def _unmatched(cluster: Cluster, row: Row) -> PlacedFinding:
    return cluster.at_marker(
        row,
        CODES["marker-outside-window"],
        f"{_name(row)} is one more than there were transactions of that epoch in this partition.",
        evidence={"marker_timestamp": row["marker_timestamp"]},
        exactness=Exactness.APPROXIMATE,
        benign=("resent after a failover: possible", "broker clocks differ: possible"),
    )


def _ends_next(cluster: Cluster, row: Row) -> PlacedFinding:
    return cluster.at_marker(
        row,
        CODES["marker-outside-window"],
        f"{_name(row)} was resent and ended data from offset {row['first_offset']} that was written after the first "
        "marker.",
        severity=Severity.ERROR,
        evidence={"first_offset": row["first_offset"], "lowest_epoch": row["lowest_epoch"]},
        benign=("resent after a failover: likely, but not without effect",),
    )


def _of_known_transactions(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield markers with an unexpected time or coordinator epoch whose transaction is certain."""
    listed = cluster.marker_join.transaction_partitions
    transactions, markers = of_listed(cluster, with_certain_marker(listed))
    for matches, finding in zip(outside_window(cluster, transactions, markers), (_early, _late), strict=True):
        more = {name: transactions[name][matches] for name in ("id", "decided", "completed")}
        yield from first_n_placed(markers[matches], partial(finding, cluster), **more)
    least = cluster.marker_join.totals.epochs_before(
        transactions["coordinator"], markers["marker_timestamp"] - cluster.rules.clock_skew_ms
    )
    last = transactions["complete_leader_epoch"]
    epochs = markers["coordinator_epoch"]
    is_wrong = (epochs < least) | ((last != NONE) & (epochs > last))
    more = {"id": transactions["id"][is_wrong], "least": least[is_wrong], "complete_leader_epoch": last[is_wrong]}
    yield from first_n_placed(markers[is_wrong], partial(_epoch, cluster), **more)


def of_listed(cluster: Cluster, rows: IntArray) -> tuple[CoordinatorTransactionArray, TransactionMarkerArray]:
    """Return the transactions and the markers of some listed partitions that have a marker."""
    listed, markers = cluster.marker_join.transaction_partitions, cluster.marker_join.markers
    transactions = take_rows(cluster.coordinators.transactions, listed["transaction"][rows])
    return transactions, take_rows(markers, listed["marker"][rows])


def outside_window(
    cluster: Cluster, transactions: CoordinatorTransactionArray, markers: TransactionMarkerArray
) -> tuple[BoolArray, BoolArray]:
    """Return which markers are from before the decision on their transaction, and which from after its end."""
    skew, times = cluster.rules.clock_skew_ms, markers["marker_timestamp"]
    is_early = (times < transactions["decided"] - skew) & (transactions["decided"] != NO_TIME)
    is_late = (times > transactions["completed"] + skew) & (transactions["completed"] != NO_TIME)
    return is_early, is_late


def _early(cluster: Cluster, row: Row) -> PlacedFinding:
    when = f"before its transaction was decided at {format_time(row['decided'])}"
    return _outside(cluster, row, when, "decided_ms", row["decided"])


def _late(cluster: Cluster, row: Row) -> PlacedFinding:
    when = f"after its transaction was completed at {format_time(row['completed'])}"
    return _outside(cluster, row, when, "completed_ms", row["completed"])


def _outside(cluster: Cluster, row: Row, when: str, name: str, time: int) -> PlacedFinding:
    return cluster.at_marker(
        row,
        CODES["marker-outside-window"],
        f"{_name(row)} was written at {format_time(row['marker_timestamp'])}, {when}.",
        evidence={"marker_timestamp": row["marker_timestamp"], name: time, "transactional_id": cluster.id_name(row)},
        benign=(f"broker clocks differ: unlikely by more than {format_duration(cluster.rules.clock_skew_ms)}",),
    )


def _epoch(cluster: Cluster, row: Row) -> PlacedFinding:
    epoch, last = row["coordinator_epoch"], row["complete_leader_epoch"]
    why = f"had already used {row['least']}" if epoch < row["least"] else f"had at most {last} when it was complete"
    return cluster.at_marker(
        row,
        CODES["marker-coordinator-epoch-mismatch"],
        f"{_name(row)} has coordinator epoch {epoch}, but the coordinator of {cluster.id_name(row)!r} {why}.",
        evidence={"coordinator_epoch": epoch, "transactional_id": cluster.id_name(row)},
        benign=(
            "abort by an operator: "
            + ("possible" if row["outcome"] == TransactionOutcome.ABORTED else "no, it is a COMMIT"),
            "coordinator that stayed while followers left and returned: no",
        ),
    )


CHECK = Check("decided_markers", CODES, findings)
