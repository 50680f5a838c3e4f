"""Checks for transactions that their coordinator should have ended by now, or should have ended earlier."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import transactions
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed, marker_row
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.deadlines import (
    NO_TIMEOUT,
    coordinator_log_ends,
    copied_at,
    is_misplaced,
    is_overdue,
    is_stuck,
    seen_until,
    transaction_deadlines,
)
from kforensics.forensics.coordinators.rejected_markers import Rejections, rejected_markers
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.broker_settings import ABORT_SCAN
from kforensics.forensics.core.commands import ABORT, DESCRIBE, FIND_HANGING, TERMINATE, filled_in
from kforensics.forensics.core.findings import Code, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration, format_time
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.core.rules import COPY_MS
from kforensics.parsers.format.array_types import IntArray

CODES = by_name(
    Code(
        "txnlog-prepare-stuck",
        Severity.CRITICAL,
        meaning="The end of a transaction was decided long ago, but some partitions still lack its marker.",
        remedy=(
            f"List the partitions without a marker with {DESCRIBE}. If they are available, move the leadership of "
            "{topic}-{partition}: the new coordinator resends all markers."
        ),
        why=(
            "The decision is written and markers are still owed. Until the last partition has its marker, the "
            "id cannot begin a new transaction, and partitions without a marker block consumers. The "
            "coordinator retries forever, unless a partition rejects the marker; then it gives up silently "
            "(KAFKA-9777, KAFKA-16352)."
        ),
        benign=(
            "Some partition has no leader, or the coordinator is down. Logs do not show either. If a partition has a "
            "higher epoch of the producer, it rejects the marker, and no leadership helps."
        ),
    ),
    Code(
        "txnlog-ongoing-overdue",
        Severity.ERROR,
        meaning="A transaction is still ongoing after its timeout.",
        remedy=(
            f"Check it with {DESCRIBE}. If it is still ongoing, end it: start a new producer with the same "
            f"transactional id or, since 4.1, use {TERMINATE}."
        ),
        why=(
            "Every ten seconds a coordinator aborts transactions that have exceeded their timeout. Since it did "
            "not, it was not running, or it cannot bump the epoch any more."
        ),
        benign="A producer of a two-phase commit. The coordinator's log was copied before the other files.",
    ),
)

MISPLACED = (
    f"Check it with {DESCRIBE}. Its id belongs to another partition since __transaction_state was given more of them: "
    "a coordinator that was restarted since does not know it, and nothing that names the id ends it. Then confirm and "
    "end it in each of its partitions:"
)
REJECTED = (
    "Do not move the leadership: a new coordinator sends the same marker, which is rejected again. Nothing ends the "
    "transaction, and its id cannot begin another one, so give the application another transactional id. "
    "__transaction_state was probably restored from a backup, or truncated: compare its other ids with what their "
    "partitions have."
)
# Codes of partition checks that this check reports with the knowledge of the coordinators.
SHARED_CODES = {"txn-duration-excessive": transactions.CODES["txn-duration-excessive"]}
# Partitions to name in a message.
NAMED = 5


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield transactions that are not over in time."""
    ids = cluster.coordinators.ids
    rejections = rejected_markers(cluster)
    rejected = np.unique(rejections.ids)
    yield from first_n_placed(ids[rejected], partial(_rejected, cluster, rejections), id=rejected)
    stuck = np.setdiff1d(np.flatnonzero(is_stuck(cluster)), rejected)
    copied = copied_at(cluster)[ids["coordinator"]]
    is_current = ~cluster.coordinators.may_be_outdated
    was_seen = (is_current & (copied - cluster.rules.max_txn_timeout_ms > ids["last_time"]))[stuck]
    more = {"was_seen": was_seen, "is_current": is_current[stuck]}
    yield from first_n_placed(ids[stuck], partial(_stuck, cluster), id=stuck, **more)
    overdue = np.flatnonzero(is_overdue(cluster))
    seen = seen_until(cluster)[ids["coordinator"]]
    was_alive = (is_current & (seen > transaction_deadlines(cluster)))[overdue]
    # A running broker's other files may have been copied later, when the transaction had ended.
    is_stopped = np.array([history.is_stopped for history in cluster.coordinators.histories], bool)
    is_running = ~np.append(is_stopped, True)[ids["coordinator"]]
    # Its own log may have been copied late enough, but its broker had lost its controllers, if it was not stopped.
    kept = np.array([history.kept_until for history in cluster.coordinators.histories], "i8")[ids["coordinator"]]
    is_running &= kept <= transaction_deadlines(cluster)
    may_have_ended = is_running & (coordinator_log_ends(cluster)[ids["coordinator"]] - seen <= COPY_MS)
    may_have_ended = (may_have_ended | ~is_current)[overdue]
    misplaced = is_misplaced(cluster, overdue)
    more = {"was_alive": was_alive, "may_have_ended": ~was_alive & may_have_ended, "is_misplaced": misplaced}
    more["is_current"] = is_current[overdue]
    yield from first_n_placed(ids[overdue], partial(_overdue, cluster), id=overdue, **more)
    yield from _excessive(cluster)


def _rejected(cluster: Cluster, rejections: Rejections, row: Row) -> PlacedFinding:
    """Return the finding that partitions reject the marker of an id's last transaction, however often it is sent."""
    markers = cluster.marker_join.markers[rejections.markers[rejections.ids == row["id"]]]
    first = marker_row(markers[markers["marker_timestamp"].argmin()])
    names = [cluster.name(partition) for partition in markers["partition"].tolist()]
    return cluster.at_coordinator(
        row,
        CODES["txnlog-prepare-stuck"],
        f"{_prepared(cluster, row)} Its marker is rejected for ever (INVALID_PRODUCER_EPOCH) by {_listed(names)}: the "
        f"producer has epoch {first['marker_epoch']} in {cluster.name(first['partition'])} since the marker at offset "
        f"{first['marker_offset']}, of {format_time(first['marker_timestamp'])}.",
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={
            "transactional_id": cluster.id_name(row),
            "since_ms": row["last_time"],
            "lasts_ms": cluster.rules.as_of_ms - row["last_time"],
            **cluster.rules.evaluated_at(cluster.rules.as_of_ms),
            "rejected_by": names[:NAMED],
            "partitions_that_reject": len(names),
            "higher_epoch": first["marker_epoch"],
            "higher_epoch_ms": first["marker_timestamp"],
        },
        benign=(
            "coordinator's log copied before the marker with the higher epoch: no",
            "its end in records that are damaged, lost, or in a segment that the cleaner merged meanwhile: no",
        ),
        remedy=REJECTED,
    )


def _prepared(cluster: Cluster, row: Row) -> str:
    """Return since when the last transaction of an id is decided, as a sentence."""
    lasts = format_duration(cluster.rules.as_of_ms - row["last_time"])
    return (
        f"Transactional id {cluster.id_name(row)!r} (producer {row['producer_id']}, epoch {row['producer_epoch']}) has "
        f"been in state {State(row['status'])} for {lasts}, since {format_time(row['last_time'])}."
    )


def _stuck(cluster: Cluster, row: Row) -> PlacedFinding:
    lasts = cluster.rules.as_of_ms - row["last_time"]
    lacking = _without_marker(cluster, row)
    return cluster.at_coordinator(
        row,
        CODES["txnlog-prepare-stuck"],
        f"{_prepared(cluster, row)} {_named(lacking)}",
        producer=(row["producer_id"], row["producer_epoch"]),
        severity=None if row["was_seen"] else Severity.WARNING,
        evidence={
            "transactional_id": cluster.id_name(row),
            "since_ms": row["last_time"],
            "lasts_ms": lasts,
            **cluster.rules.evaluated_at(cluster.rules.as_of_ms),
            "without_marker": lacking[:NAMED],
            "partitions_without_marker": len(lacking),
        },
        benign=(
            "partitions without a leader, coordinator down: not visible in a log",
            f"markers sent after the copy was taken: {'no' if row['was_seen'] else 'possible'}",
            _in_lacking_records(cluster, row),
        ),
    )


def _in_lacking_records(cluster: Cluster, row: Row) -> str:
    missing = cluster.coordinators.histories[row["coordinator"]].missing_end
    why = "" if missing is None else f", the log of the coordinator lacks its end: {missing}"
    is_likely = "no" if row["is_current"] else f"likely{why}"
    return f"its end in records that are damaged, lost, or in a segment that the cleaner merged meanwhile: {is_likely}"


def _without_marker(cluster: Cluster, row: Row) -> list[str]:
    """Return the available partitions that lack the marker of an id's last transaction."""
    decided, partitions = cluster.coordinators.transactions, cluster.marker_join.transaction_partitions
    last = np.flatnonzero(decided["id"] == row["id"])[-1:]
    is_pending = np.isin(partitions["transaction"], last) & (partitions["marker_status"] == MarkerStatus.PENDING)
    return [cluster.name(partition) for partition in partitions["partition"][is_pending].tolist()]


def _named(lacking: list[str]) -> str:
    return f"Without a marker: {_listed(lacking)}." if lacking else "No available partition lacks its marker."


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(names[:NAMED])}{more}"


def _overdue(cluster: Cluster, row: Row) -> PlacedFinding:
    duration = cluster.rules.as_of_ms - row["start"]
    ongoing = f"has been ongoing for {format_duration(duration)}, since {format_time(row['start'])}"
    if row["may_have_ended"]:
        ongoing = f"was ongoing when its coordinator's log was copied, since {format_time(row['start'])}"
    return cluster.at_coordinator(
        row,
        CODES["txnlog-ongoing-overdue"],
        f"The transaction of {cluster.id_name(row)!r} (producer {row['producer_id']}, epoch {row['producer_epoch']}) "
        f"{ongoing}; its timeout is {format_duration(row['timeout_ms'])}.",
        producer=(row["producer_id"], row["producer_epoch"]),
        severity=None if row["was_alive"] else Severity.INFO if row["may_have_ended"] else Severity.WARNING,
        evidence={
            "transactional_id": cluster.id_name(row),
            "lasts_ms": duration,
            **cluster.rules.evaluated_at(cluster.rules.as_of_ms),
            "timeout_ms": row["timeout_ms"],
            **cluster.rules.evidence(ABORT_SCAN),
        },
        benign=(
            "producer of a two-phase commit: no",
            f"its log copied before other files: {'possible' if row['may_have_ended'] else 'no'}",
            "coordinator down: not visible in a log",
            f"brokers stopped, or copied, before its timeout: {'no' if row['was_alive'] else 'possible'}",
            _in_lacking_records(cluster, row),
        ),
        remedy=_end_each(cluster, row) if row["is_misplaced"] else None,
    )


def _end_each(cluster: Cluster, row: Row) -> str:
    """Return the remedy for a transaction that must be ended in each partition that it lists."""
    listed = sorted(cluster.coordinators.partition_sets[row["partitions"]]) if row["partitions"] >= 0 else []
    places = [{"topic": topic, "partition": partition, "first_offset": None} for topic, partition in listed[:NAMED]]
    commands = [filled_in(f"{FIND_HANGING}, {ABORT}", place) for place in places]
    more = f"; and so on in {format_count(len(listed) - NAMED, 'more partition')}" if len(listed) > NAMED else ""
    return f"{MISPLACED} {'; '.join(commands)}{more}."


def _excessive(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield transactions decided later than their timeout allows."""
    decided = cluster.coordinators.transactions[excessive(cluster)]
    more = {"duration": decided["decided"] - decided["start"], "allowed": _allowed(cluster, decided)}
    yield from first_n_placed(decided, partial(_duration, cluster), **more)


def excessive(cluster: Cluster) -> IntArray:
    """Return the transactions decided later than their timeout allows, by the coordinator's clock alone."""
    decided = cluster.coordinators.transactions
    is_timed = (decided["decided"] != NO_TIME) & (decided["start"] != NO_TIME)
    is_timed &= (decided["timeout_ms"] != NO_TIMEOUT) & ~decided["is_superseded"]
    return np.flatnonzero(is_timed & (decided["decided"] - decided["start"] > _allowed(cluster, decided)))


def _allowed(cluster: Cluster, decided: StructRows) -> IntArray:
    """Return how long in ms each transaction may last."""
    rules = cluster.rules
    allowed: IntArray = decided["timeout_ms"] + np.int64(rules.certain_abort_scan_ms + rules.clock_skew_ms)
    return allowed


def _duration(cluster: Cluster, row: Row) -> PlacedFinding:
    elections = cluster.coordinator_elections(row["coordinator"], row["start"], row["decided"])
    elected = f", its partition had an election at {format_time(elections[-1].timestamp)}" if elections else ""
    return cluster.at_coordinator(
        row,
        SHARED_CODES["txn-duration-excessive"],
        f"The transaction of {cluster.id_name(row)!r} (producer {row['producer_id']}, epoch {row['marker_epoch']}) "
        f"lasted {format_duration(row['duration'])}, from {format_time(row['start'])} to its decision "
        f"{State(row['status'])}; the limit is {format_duration(row['allowed'])}.",
        severity=Severity.INFO if elections else None,
        producer=(row["producer_id"], row["marker_epoch"]),
        evidence={"lasted_ms": row["duration"], "allowed_ms": row["allowed"], **cluster.rules.evidence(ABORT_SCAN)},
        benign=(
            "timestamps set by the client: no, these are the coordinator's",
            "producer of a two-phase commit: no",
            f"coordinator unavailable at that time: likely{elected}",
        ),
    )


CHECK = Check("unfinished", CODES, findings)
