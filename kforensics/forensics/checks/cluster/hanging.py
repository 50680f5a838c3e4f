"""Checks open transactions and late writes against the coordinator logs.

Rule: ``TransactionsCommand.FindHangingTransactionsCommand``. Findings with the code of a partition check replace the
findings of that check: with the coordinator log they are exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import open_transactions, transactions
from kforensics.forensics.coordinators.absorbed_data import own_commit
from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding, first_n_placed, partition_name
from kforensics.forensics.coordinators.coordinator_records import NONE, TRANSACTION_STATE, State
from kforensics.forensics.coordinators.hanging_transactions import (
    ends_before,
    first_step,
    hanging_transactions,
    have_refused_marker,
    may_lack_markers,
    surely_idle_times,
)
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.remedies import REMEDIES
from kforensics.forensics.coordinators.transactions.join_totals import with_certain_marker
from kforensics.forensics.core.broker_settings import MAX_TIMEOUT
from kforensics.forensics.core.findings import Code, Exactness, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_time
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.reporting import Row, place
from kforensics.forensics.partition.blocking_transactions import silence_of
from kforensics.parsers.format.array_types import IntArray

NO_COORDINATOR = f"{open_transactions.CONFIRMED_ABORT}."
CODES = by_name(
    Code(
        "txn-hanging-unknown-id",
        Severity.CRITICAL,
        meaning="No coordinator will ever end this transaction: none knows its producer.",
        remedy=NO_COORDINATOR,
        why=(
            "It hangs as with txn-hanging, and no coordinator has the producer id, so the application cannot be "
            "identified. The client never registered, or the coordinator's state is lost."
        ),
        benign=(
            "Some partitions of __transaction_state are not among the files, or end before the transaction began: then "
            "it is a warning. If the transactional id has expired, the transaction hangs all the same."
        ),
    ),
)
SAVE_COMMITTED = "If its coordinator has committed it, save its data before, as atomicity-marker-missing says. "
LATE_COMMIT = (
    "No action on the data: read_committed consumers have received it, only later than that in the other partitions of "
    "its transaction. See atomicity-marker-missing for why its own marker is missing."
)
# Codes of partition checks that this check reports with the knowledge of the coordinators.
SHARED_CODES = {
    "txn-hanging": open_transactions.CODES["txn-hanging"],
    "txn-write-after-marker": transactions.CODES["txn-write-after-marker"],
    "txn-foreign-data-absorbed": transactions.CODES["txn-foreign-data-absorbed"],
}


def findings(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield data that its coordinator will not end, or that it ended with the wrong transaction."""
    if cluster.coordinators.histories:
        for partition, markers in cluster.marker_join.by_partition.items():
            yield from _still_open(cluster, partition, markers)
        yield from _absorbed(cluster)


def _still_open(cluster: Cluster, partition: int, markers: PartitionMarkers) -> Iterator[PlacedFinding]:
    rows, rules = markers.open_transactions, cluster.rules
    if not len(rows):
        return
    ids = cluster.coordinators.id_of(rows["producer_id"])
    is_unknown = (ids == NONE) & (surely_idle_times(cluster, partition, rows) > rules.late_ms)
    unknown = rows[is_unknown]
    early = ends_before(cluster, partition, unknown)
    yield from first_n_placed(unknown, partial(_unknown_id, cluster, partition), early=early)
    rows, ids = rows[ids != NONE], ids[ids != NONE]
    hangs, is_certain, is_orphaned = hanging_transactions(cluster, partition, rows, ids)
    more = {"id": ids[hangs], "is_certain": is_certain[hangs], "is_orphaned": is_orphaned[hangs]}
    yield from first_n_placed(rows[hangs], partial(_hangs, cluster, partition), **more)
    follows_marker = hangs & (rows["previous_marker"] != NONE) & ~is_orphaned
    follows_marker &= ~have_refused_marker(cluster, partition, rows)
    yield from first_n_placed(rows[follows_marker], partial(_late_write, cluster, partition), id=ids[follows_marker])


def _unknown_id(cluster: Cluster, partition: int, row: Row) -> PlacedFinding:
    captured = {history.place.partition for history in cluster.coordinators.histories}
    count = cluster.partition_count
    lags = bool(may_lack_markers(cluster, partition, np.array([NONE]))[0])
    is_early, ended = _ended_before(cluster, row["early"])
    has_all = cluster.has_all_coordinators and not lags and not is_early
    return cluster.at_partition(
        partition,
        CODES["txn-hanging-unknown-id"],
        f"The transaction of producer {row['producer_id']}, open since offset {row['first_offset']} "
        f"({format_time(row['first_timestamp'])}), has been idle for {format_duration(row['idle_ms'])}, and no "
        f"available transactional id has had this producer id.{ended}",
        **place(row),
        severity=None if has_all else Severity.WARNING,
        evidence={
            **silence_of(cluster.rules, row),
            "coordinator_partitions": len(captured),
            "of_partitions": count,
            **cluster.rules.evidence(MAX_TIMEOUT),
        },
        exactness=Exactness.EXACT if has_all else Exactness.UNVERIFIABLE,
        benign=(
            f"coordinator partitions missing: {'no' if cluster.has_all_coordinators else 'possible'}",
            f"producer registered after the end of its coordinator's log: {'possible' if is_early else 'no'}",
            *(("this replica lacks markers that its leader has: possible, it is out of sync",) if lags else ()),
            "transactional id expired: no matter, no id expires while its transaction is ongoing",
        ),
        remedy=REMEDIES["too early"] if is_early else None,
    )


def _ended_before(cluster: Cluster, coordinator: int) -> tuple[bool, str]:
    """Return whether the log of a coordinator, NONE for none, may end before a transaction, and that as a sentence."""
    if coordinator == NONE:
        return False, ""
    history = cluster.coordinators.histories[coordinator]
    name, last = partition_name((TRANSACTION_STATE, history.place.partition or 0)), history.last_record_time
    record = "it has no record" if last == NO_TIME else f"its last record is of {format_time(last)}"
    return True, f" But {name} may end before that: {record}."


def _idle(milliseconds: int) -> str:
    """Return how long a transaction has been idle; its last batch may be after the time of evaluation."""
    if milliseconds < 0:
        return f"Its last batch was written {format_duration(-milliseconds)} after the time of evaluation."
    return f"It has been idle for {format_duration(milliseconds)}."


def _hangs(cluster: Cluster, partition: int, row: Row) -> PlacedFinding:
    earlier = "no" if row["is_certain"] else "only if earlier by the idle time"
    opened = cluster.marker_join.by_partition[partition].open_transactions
    first = first_step(cluster, partition, opened[opened["first_offset"] == row["first_offset"]])
    return cluster.at_partition(
        partition,
        SHARED_CODES["txn-hanging"],
        f"The transaction of producer {row['producer_id']}, epoch {row['producer_epoch']}, open since offset "
        f"{row['first_offset']} ({format_time(row['first_timestamp'])}), hangs: {_why_it_hangs(cluster, row)}. "
        f"{_idle(row['idle_ms'])}",
        **place(row),
        evidence={
            **silence_of(cluster.rules, row),
            "coordinator_epoch": row["coordinator_epoch"],
            "transactional_id": cluster.id_name(row),
            **cluster.rules.evidence(MAX_TIMEOUT),
        },
        exactness=Exactness.EXACT if row["is_certain"] else Exactness.APPROXIMATE,
        benign=(f"coordinator's log copied earlier than this partition: {earlier}",),
        remedy=f"{first}{SAVE_COMMITTED}{NO_COORDINATOR}" if first else _remedy(cluster, row),
    )


def _remedy(cluster: Cluster, row: Row) -> str | None:
    """Return how to end a transaction that hangs, None for all ways: the release of the brokers is unknown."""
    if row["is_orphaned"]:
        return NO_COORDINATOR
    releases = cluster.rules.releases.values()
    return open_transactions.ABORT_SINCE_3_0 if releases and min(releases) >= (3, 0) else None


def _last_state(cluster: Cluster, row: Row) -> str:
    """Return the last record of a transactional id as a phrase."""
    last = cluster.coordinators.ids[row["id"]]
    name, time = cluster.id_name(row), format_time(int(last["last_time"]))
    if last["is_removed"]:
        return f"its transactional id {name!r} was removed at {time}"
    producer = f"producer {int(last['producer_id'])}, epoch {int(last['producer_epoch'])}"
    return f"its transactional id {name!r} has been in state {State(int(last['status']))} since {time} ({producer})"


def _why_it_hangs(cluster: Cluster, row: Row) -> str:
    if not row["is_orphaned"]:
        return f"{_last_state(cluster, row)} and awaits no marker in this partition"
    count, coordinator = cluster.partition_count, cluster.coordinators.ids["coordinator"][row["id"]]
    partition = cluster.coordinators.histories[int(coordinator)].place.partition
    return (
        f"{_last_state(cluster, row)} in partition {partition} of {TRANSACTION_STATE}. With {count} partitions it "
        "belongs to another one, so no coordinator ends it"
    )


def _late_write(cluster: Cluster, partition: int, row: Row) -> PlacedFinding:
    return cluster.at_partition(
        partition,
        SHARED_CODES["txn-write-after-marker"],
        f"Producer {row['producer_id']} wrote with epoch {row['lowest_epoch']} from offset {row['first_offset']}, "
        f"after the marker at offset {row['previous_marker']}, and {cluster.id_name(row)!r} has not added this "
        "partition to a transaction since. It is still open.",
        **place(row),
        evidence={"marker_offset": row["previous_marker"], "transactional_id": cluster.id_name(row)},
        benign=("partition added, its record cleaned: no, the last record of an id is kept",),
        cause="txn-hanging",
    )


def _absorbed(cluster: Cluster) -> Iterator[PlacedFinding]:
    """Yield committed transactions with data from before they began."""
    listed = cluster.marker_join.transaction_partitions
    partitions = listed[absorbing(cluster, with_certain_marker(listed))]
    decided = cluster.coordinators.transactions[partitions["transaction"]]
    more = {"id": decided["id"], "begun_epoch": decided["data_epoch"], "start": decided["start"]}
    markers = take_rows(cluster.marker_join.markers, partitions["marker"])
    yield from first_n_placed(markers, partial(_foreign, cluster), **more)


def absorbing(cluster: Cluster, certain: IntArray) -> IntArray:
    """Return the listed partitions with data from before their transaction began: of a lower epoch, or too early.

    Args:
        cluster: the cluster.
        certain: the listed partitions to look at, whose marker is certain.
    """
    partitions = cluster.marker_join.transaction_partitions[certain]
    decided = take_rows(cluster.coordinators.transactions, partitions["transaction"])
    markers = take_rows(cluster.marker_join.markers, partitions["marker"])
    has_append_times, is_broken = (np.zeros(len(cluster.marker_join.partitions), bool) for _ in range(2))
    for partition, partition_markers in cluster.marker_join.by_partition.items():
        has_append_times[partition] = partition_markers.has_append_times
        is_broken[partition] = partition_markers.is_broken  # it may have lost the marker between the two
    is_lower = (decided["data_epoch"] != NONE) & (markers["lowest_epoch"] < decided["data_epoch"])
    has_times = (markers["first_timestamp"] != NO_TIME) & (decided["start"] != NO_TIME)
    # A marker from before the decision may be that of the transaction before, whose own one the copy has no more.
    has_times &= markers["marker_timestamp"] >= decided["decided"]
    is_timed = has_append_times[markers["partition"]] & has_times
    is_earlier = is_timed & (markers["first_timestamp"] < decided["start"] - cluster.rules.clock_skew_ms)
    is_committed = (markers["first_offset"] != NONE) & (markers["outcome"] == TransactionOutcome.COMMITTED)
    rows: IntArray = certain[~is_broken[markers["partition"]] & is_committed & (is_lower | is_earlier)]
    return rows


def _foreign(cluster: Cluster, row: Row) -> PlacedFinding:
    committed = own_commit(cluster, row, row["begun_epoch"], row["start"])
    own = "" if committed is None else f" Its own transaction was committed as well, at {format_time(committed)}."
    return cluster.at_partition(
        row["partition"],
        SHARED_CODES["txn-foreign-data-absorbed"],
        f"The COMMIT at offset {row['marker_offset']} committed data of producer {row['producer_id']} from offset "
        f"{row['first_offset']} with epoch {row['lowest_epoch']} at {format_time(row['first_timestamp'])}, but "
        f"{cluster.id_name(row)!r} began the transaction with epoch {row['begun_epoch']} at "
        f"{format_time(row['start'])}.{own}",
        severity=None if committed is None else Severity.INFO,
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(row["producer_id"], row["data_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"marker_offset": row["marker_offset"], "lowest_epoch": row["lowest_epoch"]},
        benign=(
            "broker clocks differ, timestamps set by clients: no",
            f"the data was to be committed: {'no' if committed is None else 'yes, only its marker is missing here'}",
        ),
        remedy=None if committed is None else LATE_COMMIT,
    )


CHECK = Check("hanging", CODES, findings)
