"""Which transactions their coordinators will still end, until when, and which are overdue or stuck.

Rule: ``TransactionStateManager.timedOutTransactions`` decides what is aborted and when, and
``TransactionStateManager.partitionFor`` whose coordinator may abort it.
"""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NEVER, NO_TIMEOUT, NONE, State
from kforensics.forensics.coordinators.partition_markers import OpenTransactionArray, PartitionMarkers
from kforensics.forensics.coordinators.partition_of import java_hashes
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = [
    "NO_TIMEOUT",
    "coordinator_log_ends",
    "copied_at",
    "has_unreadable_state",
    "is_awaited",
    "is_misplaced",
    "is_orphaned",
    "is_overdue",
    "is_stuck",
    "partition_copied_at",
    "seen_until",
    "shown_until",
    "transaction_deadlines",
]


def is_awaited(cluster: Cluster, partition: int, open_transactions: OpenTransactionArray, ids: IntArray) -> BoolArray:
    """Return which open transactions their coordinators will end.

    Args:
        cluster: the cluster.
        partition: number of their partition.
        open_transactions: OPEN_TRANSACTION records.
        ids: number of the transactional id of each.
    """
    last = cluster.coordinators.ids[ids]
    active = np.isin(last["status"], (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT))
    name = cluster.marker_join.partitions[partition]
    # An unknown set is -1, which indexes the False at the end.
    lists_it = np.array([name in partitions for partitions in cluster.coordinators.partition_sets] + [False], bool)
    same_producer = last["producer_id"] == open_transactions["producer_id"]
    awaited: BoolArray = active & lists_it[last["partitions"]] & same_producer
    return awaited & ~is_orphaned(cluster, ids)


def is_misplaced(cluster: Cluster, ids: IntArray) -> BoolArray:
    """Return which ids, by number, belong to another partition since ``__transaction_state`` was given more.

    A coordinator keeps the number of partitions from its start. After a restart, that of the old partition loads its
    records but refuses the id, and that of the new one has no record of it.
    """
    count, histories = cluster.partition_count, cluster.coordinators.histories
    partitions = np.array([history.place.partition or 0 for history in histories], "i8")
    if count is None or (partitions >= count).any():  # the number of partitions is not the one of these files
        return np.zeros(len(ids), bool)
    hashes = java_hashes([cluster.coordinators.names[number] for number in ids.tolist()])
    misplaced: BoolArray = hashes % count != partitions[cluster.coordinators.ids["coordinator"][ids]]
    return misplaced


def is_orphaned(cluster: Cluster, ids: IntArray) -> BoolArray:
    """Return which ids, by number, have a transaction beyond its timeout that no coordinator will end.

    Coordinators that were not restarted since the topic was given more partitions end it in time.
    """
    last = cluster.coordinators.ids[ids]
    orphaned: BoolArray = last["status"] == State.ONGOING
    orphaned[orphaned] = is_misplaced(cluster, ids[orphaned])
    if orphaned.any():  # hardly ever
        orphaned &= copied_at(cluster)[last["coordinator"]] > transaction_deadlines(cluster)[ids]
    return orphaned


def has_unreadable_state(cluster: Cluster, ids: IntArray) -> BoolArray:
    """Return which ids, by number, have an unreadable last record or one with a state that is never written."""
    last = cluster.coordinators.ids[ids]
    lasting = (last["status"] != NONE) & (last["status"] <= State.COMPLETE_ABORT)
    unreadable: BoolArray = ~lasting & ~last["is_removed"]
    return unreadable


def coordinator_log_ends(cluster: Cluster) -> IntArray:
    """Return until when the log of each coordinator would show an end.

    A running broker may have been copied before the others. The other partitions of its log directory show when. One
    that was stopped ends no transaction; if the caller gives the time of evaluation, it should have been started again.
    Its other partitions do not matter, so that a command that reads less of it finds the same.
    """
    copied_at: dict[str | None, int] = {}
    for markers in cluster.marker_join.by_partition.values():
        log_dir = markers.place.log_dir
        shown = NEVER if markers.coverage.left_by_shutdown else markers.coverage.copied_at
        copied_at[log_dir] = max(shown, copied_at.get(log_dir, NO_TIME))
    times = []
    for one in cluster.coordinators.histories:
        own = NEVER if one.kept_until == NO_TIME else one.kept_until  # if the command has read no other partition
        times.append(_stopped_until(cluster, one) if one.is_stopped else copied_at.get(one.place.log_dir, own))
    ends: IntArray = np.minimum(np.array(times, "i8"), cluster.rules.as_of_ms)
    known: IntArray = np.minimum(ends, _known_until(cluster))
    return known


def _stopped_until(cluster: Cluster, history: History) -> int:
    """Return until when a coordinator that was stopped was surely running, NEVER if the caller gives another time."""
    return _running_until(cluster, history) if cluster.rules.is_assumed else NEVER


def _running_until(cluster: Cluster, log: History | PartitionMarkers) -> int:
    """Return until when the broker of a log was surely running, by its records and by its files.

    Files that a copy has made new are taken for old ones if they are hardly younger than the newest record.
    """
    newest = log.last_record_time if isinstance(log, History) else log.coverage.newest_marker
    kept_until = _kept_until(cluster, log)
    return max(newest, NO_TIME if kept_until == NO_TIME else kept_until - cluster.rules.late_buffer_ms)


def shown_until(cluster: Cluster, markers: PartitionMarkers) -> IntArray:
    """Return until when the log of each coordinator surely has what happened, whatever the time of evaluation.

    Files that have lost their times show it by the newest record or file of another coordinator or of the given
    partition in the same log directory. The broker's own copy of the metadata log shows it, too. Who gives the time at
    which such files were copied is believed, but not for a broker that was stopped, which may have been long before.

    Args:
        cluster: the cluster.
        markers: a partition.
    """
    histories, rules = cluster.coordinators.histories, cluster.rules
    newest: dict[str | None, int] = {}
    logs: tuple[History | PartitionMarkers, ...] = (*histories, markers)
    for log in logs:
        log_dir = log.place.log_dir
        newest[log_dir] = max(_running_until(cluster, log), newest.get(log_dir, NO_TIME))
    times = []
    for one in histories:
        log_dir, is_given = one.place.log_dir, _is_evaluated_at_its_copy(cluster, one) and not one.is_stopped
        shown = newest[log_dir] if one.kept_until == NO_TIME else _running_until(cluster, one)
        times.append(rules.as_of_ms if is_given else max(shown, rules.running_until.get(log_dir, NO_TIME)))
    until: IntArray = np.minimum(np.array(times, "i8"), _known_until(cluster))
    return until


def _known_until(cluster: Cluster) -> IntArray:
    """Return until when the log of each coordinator has what its leader has, NEVER if it was in sync at last."""
    return np.array([history.known_until for history in cluster.coordinators.histories], "i8")


def seen_until(cluster: Cluster) -> IntArray:
    """Return until when the files show what each coordinator did, by the number of its log.

    That is the newest time in its log directory, or that of its files if their copy has kept it. What was open then may
    have ended since. A broker that was stopped, and copied at the time of evaluation, has done nothing since. While one
    was running, other logs may have been copied much later, so they show nothing if the files have their times.
    """
    seen: dict[str | None, int] = {}
    running: set[str | None] = set()
    for markers in cluster.marker_join.by_partition.values():
        log_dir = markers.place.log_dir
        was_stopped = markers.coverage.copied_at == NEVER or markers.coverage.left_by_shutdown
        if not was_stopped:
            running.add(log_dir)
        is_stopped = was_stopped and _is_evaluated_at_its_copy(cluster, markers)
        until = NEVER if is_stopped else max(markers.coverage.newest_marker, _kept_until(cluster, markers))
        seen[log_dir] = max(until, seen.get(log_dir, NO_TIME))
    histories = cluster.coordinators.histories
    times = []
    for one in histories:
        is_alone = one.place.log_dir in running and one.kept_until != NO_TIME
        others = NO_TIME if is_alone else seen.get(one.place.log_dir, NO_TIME)
        is_stopped = one.is_stopped and cluster.rules.is_assumed
        kept_until = _kept_until(cluster, one)
        times.append(_stopped_until(cluster, one) if is_stopped else max(one.last_record_time, kept_until, others))
    seen_times: IntArray = np.minimum(np.array(times, "i8"), _known_until(cluster))
    return seen_times


def copied_at(cluster: Cluster) -> IntArray:
    """Return when the log of each coordinator was copied, by its number.

    Files without their times show only their newest record, unless the user says when they were copied. The rest of the
    log directory does not matter, so that a command that reads less of it finds the same.
    """
    histories = cluster.coordinators.histories
    times = [
        cluster.rules.as_of_ms
        if _is_evaluated_at_its_copy(cluster, history)
        else max(history.last_record_time, _kept_until(cluster, history))
        for history in histories
    ]
    copied: IntArray = np.minimum(np.array(times, "i8"), _known_until(cluster))
    return copied


def partition_copied_at(cluster: Cluster, markers: PartitionMarkers) -> int:
    """Return when a partition was copied, as :func:`copied_at`, but no later than its files.

    A replica that left the ISR when its broker was shut down shows nothing from after that.
    """
    if markers.coverage.left_by_shutdown or _is_evaluated_at_its_copy(cluster, markers):
        return markers.coverage.copied_at
    return max(markers.coverage.newest_marker, markers.kept_until)


def _kept_until(cluster: Cluster, log: PartitionMarkers | History) -> int:
    """Return the newest time of the files of a log, but none at which its broker was no longer seen.

    A broker that has lost its controllers goes on, but another one may have become the coordinator. And a copy that
    makes files new a few minutes after a crash looks like one that has kept their times. The metadata log beside them
    shows when the broker crashed, or lost its controllers.
    """
    return min(log.kept_until, cluster.rules.gone_from.get(log.place.log_dir, NEVER))


def _is_evaluated_at_its_copy(cluster: Cluster, log: PartitionMarkers | History) -> bool:
    """Return whether the time of evaluation is that of the copy: the user gives it, and the files have lost theirs."""
    return log.kept_until == NO_TIME and not cluster.rules.is_assumed


def transaction_deadlines(cluster: Cluster) -> IntArray:
    """Return the time at which the coordinator of each id aborts its last transaction, NEVER if it has no timeout."""
    ids, rules = cluster.coordinators.ids, cluster.rules
    has_deadline = (ids["timeout_ms"] != NO_TIMEOUT) & (ids["start"] != NO_TIME)
    deadlines: IntArray = np.where(
        has_deadline, ids["start"] + ids["timeout_ms"] + rules.certain_abort_scan_ms + rules.clock_skew_ms, NEVER
    )
    return deadlines


def is_overdue(cluster: Cluster) -> BoolArray:
    """Return whether the transaction of each id is ongoing beyond its timeout."""
    ids = cluster.coordinators.ids
    expired = transaction_deadlines(cluster) < coordinator_log_ends(cluster)[ids["coordinator"]]
    overdue: BoolArray = (ids["status"] == State.ONGOING) & expired
    return overdue


def is_stuck(cluster: Cluster) -> BoolArray:
    """Return whether the outcome of each id's transaction was decided long ago and not all markers are acknowledged."""
    ids = cluster.coordinators.ids
    prepared = np.isin(ids["status"], (State.PREPARE_COMMIT, State.PREPARE_ABORT))
    longest_ago = coordinator_log_ends(cluster)[ids["coordinator"]] - cluster.rules.max_txn_timeout_ms
    stuck: BoolArray = prepared & (longest_ago > ids["last_time"]) & (ids["last_time"] != NO_TIME)
    return stuck
