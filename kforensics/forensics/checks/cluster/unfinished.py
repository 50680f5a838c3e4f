"""Transactions that their coordinator should have ended by now, or should have ended earlier."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.partition import transactions
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed, each_placed
from kforensics.forensics.coordinators.coordinator_records import State
from kforensics.forensics.coordinators.deadlines import NO_TIMEOUT, allowed_until, is_overdue, is_stuck
from kforensics.forensics.coordinators.transactions.history import NEVER
from kforensics.forensics.coordinators.transactions.transaction_partitions import Verdict
from kforensics.forensics.core.findings import Severity, codes
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.core.reporting import Row, moment, span

__all__ = ["BORROWED", "CODES", "findings"]

CODES = codes("""
txnlog-prepare-stuck critical
The end of a transaction was decided long ago, and is still not everywhere.
Ask with kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}, which \
lists the partitions without a marker. If they are well, move the leadership of that partition of \
__transaction_state: the new coordinator sends all markers again.
why: The decision is written and markers are still owed. Until the last partition has its marker, the id can begin \
nothing new, and partitions without one hold back consumers. The coordinator tries for ever, unless a partition \
refuses the marker; then it gives up silently (KAFKA-9777, KAFKA-16352).
innocent: Some partition has no leader, or the coordinator is down. Neither can be seen in a log.

txnlog-ongoing-overdue error
A transaction goes on beyond its timeout.
Ask with kafka-transactions.sh --bootstrap-server <host:port> describe --transactional-id {transactional_id}; a \
new producer with the same id ends it.
why: A coordinator looks every ten seconds for transactions beyond their timeout and aborts them. That it did not \
means that it was not there, or that it cannot raise the epoch any more.
innocent: A producer of a two-phase commit. The log of the coordinator was copied earlier than the rest.
""")

# Codes of families that judge a partition alone.
BORROWED = {"txn-duration-excessive": transactions.CODES["txn-duration-excessive"]}
# So many partitions are named in a message.
NAMED = 5


def findings(cluster: Cluster) -> Iterator[Placed]:
    """Yield what is to be said of transactions that are not over."""
    ids = cluster.coordinators.ids
    stuck = np.flatnonzero(is_stuck(cluster))
    yield from each_placed(ids[stuck], partial(_stuck, cluster), id=stuck)
    overdue = np.flatnonzero(is_overdue(cluster))
    lived = (_lived_until(cluster)[ids["coordinator"]] > allowed_until(cluster))[overdue]
    yield from each_placed(ids[overdue], partial(_overdue, cluster), id=overdue, lived=lived)
    yield from _excessive(cluster)


def _lived_until(cluster: Cluster) -> Records:
    """Return for each coordinator's log the time of the last record of a coordinator in its log directory.

    A broker that crashed, and was copied before it had caught up, knows nothing of what was ended meanwhile. One that
    had been stopped in order needs no such proof.
    """
    newest: dict[str | None, int] = {}
    for markers in cluster.joined.markers.values():
        log_dir, known_to = markers.place.log_dir, NEVER if markers.taken == NEVER else markers.known_to
        newest[log_dir] = max(known_to, newest.get(log_dir, NO_TIME))
    histories = cluster.coordinators.histories
    lived = [max(history.known_to, newest.get(history.place.log_dir, NEVER)) for history in histories]
    return np.array(lived, "i8")


def _stuck(cluster: Cluster, row: Row) -> Placed:
    since = cluster.rules.as_of_ms - row["last_time"]
    waiting = _waiting(cluster, row)
    return cluster.at_coordinator(
        row,
        CODES["txnlog-prepare-stuck"],
        f"Transactional id {cluster.id_name(row)!r} has been in state {State(row['status'])} for {span(since)}, since "
        f"{moment(row['last_time'])} (producer {row['producer_id']}, epoch {row['producer_epoch']}). {_named(waiting)}",
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={
            "transactional_id": cluster.id_name(row),
            "since_ms": since,
            "without_marker": waiting[:NAMED],
            "partitions_without_marker": len(waiting),
        },
        benign=("partitions without a leader, coordinator down: cannot be seen in a log",),
    )


def _waiting(cluster: Cluster, row: Row) -> list[str]:
    """Return the partitions on hand that miss the marker of an id's last transaction."""
    instances, parts = cluster.coordinators.instances, cluster.joined.parts
    last = np.flatnonzero(instances["id"] == row["id"])[-1:]
    mine = parts[np.isin(parts["instance"], last) & (parts["verdict"] == Verdict.PENDING)]
    return [cluster.name(partition) for partition in mine["partition"].tolist()]


def _named(waiting: list[str]) -> str:
    if not waiting:
        return "No partition on hand misses its marker."
    more = f" and {len(waiting) - NAMED} more" if len(waiting) > NAMED else ""
    return f"There is no marker in {', '.join(waiting[:NAMED])}{more}."


def _overdue(cluster: Cluster, row: Row) -> Placed:
    lasts = cluster.rules.as_of_ms - row["start"]
    return cluster.at_coordinator(
        row,
        CODES["txnlog-ongoing-overdue"],
        f"The transaction of {cluster.id_name(row)!r} has been going on for {span(lasts)}, since "
        f"{moment(row['start'])}; its timeout is {span(row['timeout_ms'])} (producer {row['producer_id']}, epoch "
        f"{row['producer_epoch']}).",
        producer=(row["producer_id"], row["producer_epoch"]),
        severity=None if row["lived"] else Severity.WARNING,
        evidence={"transactional_id": cluster.id_name(row), "lasts_ms": lasts, "timeout_ms": row["timeout_ms"]},
        benign=(
            "producer of a two-phase commit: no",
            "coordinator down, or its log copied earlier than the rest: cannot be seen in a log",
            f"broker crashed, and copied before it had caught up: {'no' if row['lived'] else 'possible'}",
        ),
    )


def _excessive(cluster: Cluster) -> Iterator[Placed]:
    """Yield transactions that were decided later than their timeout allows, by the clock of the coordinator alone."""
    found, rules = cluster.coordinators.instances, cluster.rules
    told = (found["decided"] != NO_TIME) & (found["start"] != NO_TIME) & (found["timeout_ms"] != NO_TIMEOUT)
    found = found[told & ~found["is_superseded"]]
    lasted = found["decided"] - found["start"]
    allowed = found["timeout_ms"] + np.int64(rules.abort_scan_ms + rules.clock_skew_ms)
    long = lasted > allowed
    yield from each_placed(found[long], partial(_lasted, cluster), lasted=lasted[long], allowed=allowed[long])


def _lasted(cluster: Cluster, row: Row) -> Placed:
    return cluster.at_coordinator(
        row,
        BORROWED["txn-duration-excessive"],
        f"The transaction of {cluster.id_name(row)!r} that began at {moment(row['start'])} lasted "
        f"{span(row['lasted'])} until it was decided, as {State(row['status'])}; at most {span(row['allowed'])} are "
        f"allowed (producer {row['producer_id']}, epoch {row['marker_epoch']}).",
        producer=(row["producer_id"], row["marker_epoch"]),
        evidence={"lasted_ms": row["lasted"], "allowed_ms": row["allowed"]},
        benign=(
            "timestamps set by the client: no, these are the coordinator's",
            "producer of a two-phase commit: no",
            "coordinator not available in that time: likely",
        ),
    )
