"""Which open transactions no coordinator will ever end.

A partition is enrolled in a transaction before the first write to it. So data whose coordinator does not list the
partition hangs, however young it is, if the coordinator's log reaches beyond the data, and the data partition has the
markers of all transactions that the coordinator decided. Running brokers are copied one after the other: if either log
may be the older one, only the age of the transaction shows that it hangs; in a replica out of sync, which may lack
markers however long ago they were written, not even that. The age counts by the clocks of brokers, because Kafka
Streams writes with the timestamps of what it reads, unless the transactional id has been silent for as long. It counts
for nothing if the copy of the coordinator's log is older than the data. A transaction that is ongoing beyond its
timeout hangs if its id belongs to another coordinator since ``__transaction_state`` has more partitions.

Rule: ``TransactionsCommand.FindHangingTransactionsCommand``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.coordinators.deadlines import (
    NO_TIMEOUT,
    copied_at,
    has_unreadable_state,
    is_awaited,
    is_orphaned,
    partition_copied_at,
    shown_until,
)
from kforensics.forensics.coordinators.partition_markers import OpenTransactionArray, PartitionMarkers
from kforensics.forensics.coordinators.refused_markers import RAISE_FORMAT
from kforensics.forensics.coordinators.transactions.history import UNKNOWN_SET
from kforensics.forensics.coordinators.transactions.marker_roles import decisions_covered
from kforensics.forensics.coordinators.transactions.transaction_partitions import MarkerStatus
from kforensics.forensics.core.election import STOPS_TO_FETCH_MS
from kforensics.forensics.core.packed_rows import StructRows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = [
    "Hanging",
    "ends_before",
    "first_step",
    "follow_copy",
    "hanging_transactions",
    "have_all",
    "have_refused_marker",
    "longest_timeouts",
    "may_lack_markers",
    "surely_idle_times",
]


class Hanging(NamedTuple):
    """Which open transactions hang.

    Attributes:
        hangs: which ones hang.
        is_certain: whether this is certain, and not only likely because of their age.
        is_orphaned: whether their ids belong to other coordinators than those that have begun them.
    """

    hangs: BoolArray
    is_certain: BoolArray
    is_orphaned: BoolArray


def hanging_transactions(
    cluster: Cluster, partition: int, open_transactions: OpenTransactionArray, ids: IntArray
) -> Hanging:
    """Return which open transactions of known transactional ids hang.

    Args:
        cluster: the cluster.
        partition: number of their partition.
        open_transactions: OPEN_TRANSACTION records.
        ids: number of the transactional id of each.
    """
    may_hang = ~is_awaited(cluster, partition, open_transactions, ids) & ~has_unreadable_state(cluster, ids)
    may_hang &= ~open_transactions["precedes_damage"] & ~_lacks_records(cluster, open_transactions, ids)
    is_certain = may_hang & _is_in_coordinator_log(cluster, partition, open_transactions, ids)
    is_certain &= _has_all_markers(cluster, partition, open_transactions, ids)
    is_certain |= may_hang & have_refused_marker(cluster, partition, open_transactions)
    orphaned = is_orphaned(cluster, ids)
    is_certain |= may_hang & orphaned
    is_old = _are_older(cluster, partition, open_transactions, ids)
    is_old &= ~may_lack_markers(cluster, partition, ids) & ~follow_copy(cluster, partition, open_transactions, ids)
    return Hanging(is_certain | (may_hang & is_old), is_certain, orphaned)


def have_refused_marker(cluster: Cluster, partition: int, open_transactions: OpenTransactionArray) -> BoolArray:
    """Return which open transactions are complete for their coordinator, and had their marker refused.

    Args:
        cluster: the cluster.
        partition: number of their partition.
        open_transactions: OPEN_TRANSACTION records.
    """
    old_format, join = cluster.marker_join.by_partition[partition].old_format, cluster.marker_join
    if old_format is None:
        return np.zeros(len(open_transactions), bool)
    listed = join.transaction_partitions
    missing = listed[(listed["partition"] == partition) & (listed["marker_status"] == MarkerStatus.MISSING)]
    ended = cluster.coordinators.transactions["producer_id"][missing["transaction"]]
    refused: BoolArray = old_format.are_data(open_transactions["first_offset"])
    return refused & np.isin(open_transactions["producer_id"], ended)


def first_step(cluster: Cluster, partition: int, transaction: OpenTransactionArray) -> str:
    """Return what to do before a hanging transaction can be aborted, as a sentence with a space; empty if nothing."""
    return RAISE_FORMAT if have_refused_marker(cluster, partition, transaction).any() else ""


def may_lack_markers(cluster: Cluster, partition: int, ids: IntArray) -> BoolArray:
    """Return which transactional ids, by number, may have sent markers that a replica out of sync does not have yet.

    Args:
        cluster: the cluster.
        partition: number of the partition of the replica.
        ids: numbers of ids; NONE for one that no coordinator knows, which may have sent some, too.
    """
    markers, coordinators = cluster.marker_join.by_partition[partition], cluster.coordinators
    since, last_times, latest = markers.coverage.lagging_since, coordinators.ids["last_time"], NEVER
    if since is None or since == NO_TIME:
        return np.full(len(ids), since is not None)
    if markers.coverage.left_by_shutdown:
        # A coordinator that was shut down with the replica knows nothing that came later.
        is_other = ~_are_of_its_broker(cluster, markers)
        last_times = np.where(is_other[coordinators.ids["coordinator"]], last_times, NO_TIME)
        latest = coordinators.last_record_time[is_other].max(initial=NO_TIME)
    else:
        since -= STOPS_TO_FETCH_MS
    # No id is -1, which indexes the last one.
    went_on: BoolArray = np.append(last_times, latest)[ids] > since - cluster.rules.clock_skew_ms
    return went_on


def follow_copy(cluster: Cluster, partition: int, open_transactions: OpenTransactionArray, ids: IntArray) -> BoolArray:
    """Return which open transactions may have data from after the copy of their coordinator's log.

    The epoch of the data shows it: a producer has only epochs that its coordinator has written first. So do the times
    of files. Rule: ``TransactionCoordinator.handleInitProducerId``, ``TransactionMetadata.prepareAbortOrCommit``.

    Args:
        cluster: the cluster.
        partition: number of their partition.
        open_transactions: OPEN_TRANSACTION records.
        ids: number of the transactional id of each.
    """
    last, markers = cluster.coordinators.ids[ids], cluster.marker_join.by_partition[partition]
    is_newer = (last["producer_id"] == open_transactions["producer_id"]) & ~last["is_removed"]
    is_newer &= open_transactions["producer_epoch"] > last["producer_epoch"]
    has_times = np.array([one.kept_until != NO_TIME for one in cluster.coordinators.histories], bool)
    until = np.where(has_times & ~have_all(cluster, markers), copied_at(cluster), NEVER)[last["coordinator"]]
    follow: BoolArray = is_newer | (until - cluster.rules.clock_skew_ms <= open_transactions["last_time"])
    return follow


def surely_idle_times(cluster: Cluster, partition: int, open_transactions: OpenTransactionArray) -> IntArray:
    """Return how long in ms open transactions had been idle at least when the log directory was last seen at work.

    What was open in a copy of a running broker may have ended since, however late the copy is evaluated. Only of a
    broker that was stopped the timestamps of clients count, because coordinators knew all of its transactions.
    """
    markers = cluster.marker_join.by_partition[partition]
    idle: IntArray = open_transactions["idle_ms"]
    if markers.coverage.copied_at == NEVER:
        return idle
    return np.minimum(idle, _time_to(partition_copied_at(cluster, markers), _last_writes(markers, open_transactions)))


def _last_writes(markers: PartitionMarkers, open_transactions: OpenTransactionArray) -> IntArray:
    """Return when the last batch of each open transaction was written at the latest; see `surely_idle_times`."""
    is_stopped = markers.coverage.copied_at == NEVER or markers.coverage.left_by_shutdown
    times: IntArray = open_transactions["last_time" if is_stopped else "appended_by"]
    return times


def ends_before(cluster: Cluster, partition: int, open_transactions: OpenTransactionArray) -> IntArray:
    """Return for each open transaction the coordinator, by number, whose log ends first, if before its last batch.

    Such a coordinator may have registered the producer since. NONE if the logs of all reach beyond the last batch.
    """
    markers = cluster.marker_join.by_partition[partition]
    until = _logs_reach(cluster, markers)
    first = int(until.argmin())
    # A log without any known time ends before all others: NO_TIME less the skew would overflow.
    surely_until = max(int(until[first]) - cluster.rules.clock_skew_ms, NO_TIME)
    is_before = _last_writes(markers, open_transactions) >= surely_until
    return np.where(is_before & (until[first] != NEVER), first, NONE)


def _logs_reach(cluster: Cluster, markers: PartitionMarkers) -> IntArray:
    """Return until when the log of each coordinator surely has what happened, NEVER if with all that a replica knew.

    A broker that was stopped first knows nothing of what another leader of its coordinator did since.
    """
    until: IntArray = np.where(have_all(cluster, markers), NEVER, shown_until(cluster, markers))
    return until


def have_all(cluster: Cluster, markers: PartitionMarkers) -> BoolArray:
    """Return which coordinators' logs have all that was there when a replica was stopped, none if it was running.

    Args:
        cluster: the cluster.
        markers: the replica.
    """
    stopped = np.array(
        [one.is_stopped and markers.coverage.copied_at == NEVER for one in cluster.coordinators.histories], bool
    )
    has_all: BoolArray = _reach_shutdown(cluster, markers) | (stopped & _are_of_its_broker(cluster, markers))
    return has_all


def _are_older(cluster: Cluster, partition: int, open_transactions: OpenTransactionArray, ids: IntArray) -> BoolArray:
    """Return which transactions are older than their coordinator lets one be."""
    longest = longest_timeouts(cluster, ids)
    are_older: BoolArray = surely_idle_times(cluster, partition, open_transactions) > longest
    markers = cluster.marker_join.by_partition[partition]
    if markers.coverage.copied_at == NEVER:
        return are_older
    # An id without a record for so long has not begun a transaction, whose data may be of any time.
    last_times = np.maximum(open_transactions["last_time"], cluster.coordinators.ids["last_time"][ids])
    silent_ms = _time_to(partition_copied_at(cluster, markers), last_times)
    are_older |= np.minimum(silent_ms, open_transactions["idle_ms"]) > longest
    return are_older


def _time_to(until: int, times: IntArray) -> IntArray:
    """Return how many ms are between some times and a later one, 0 if it is not later, or no file shows it: NO_TIME."""
    passed: IntArray = np.maximum(times, until) - times
    return passed


def longest_timeouts(cluster: Cluster, ids: IntArray) -> IntArray:
    """Return for each id, by number, how long a transaction may stay open: its own timeout if that is longer."""
    own = cluster.coordinators.ids["timeout_ms"][ids].astype("i8")
    longest: IntArray = np.where(own == NO_TIMEOUT, NEVER, np.maximum(own, cluster.rules.max_txn_timeout_ms))
    return longest


def _is_in_coordinator_log(
    cluster: Cluster, partition: int, open_transactions: OpenTransactionArray, ids: IntArray
) -> BoolArray:
    """Return for which transactions the coordinator's log reaches beyond their last batch."""
    numbers, rules = cluster.coordinators.ids["coordinator"][ids], cluster.rules
    markers = cluster.marker_join.by_partition[partition]
    known_until = cluster.coordinators.last_record_time[numbers] - rules.clock_skew_ms
    reaches: BoolArray = known_until > open_transactions["appended_by"]
    if markers.coverage.copied_at == NEVER:
        is_stopped = np.array([history.is_stopped for history in cluster.coordinators.histories], bool)
        last_writes = _last_writes(markers, open_transactions)
        reaches |= is_stopped[numbers] & (_logs_reach(cluster, markers)[numbers] > last_writes + rules.clock_skew_ms)
    # All replicas in sync have a state before anything follows from it.
    has_state = _reach_shutdown(cluster, markers)[numbers]
    reaches |= has_state & (open_transactions["first_timestamp"] <= markers.coverage.copied_at)
    return reaches


def _lacks_records(cluster: Cluster, open_transactions: OpenTransactionArray, ids: IntArray) -> BoolArray:
    """Return whose partition may have been added by records that the copy of the coordinator's log likely lacks."""
    lacks, skew_ms = np.zeros(len(open_transactions), bool), cluster.rules.clock_skew_ms
    last = cluster.coordinators.ids[ids]
    for number, history in enumerate(cluster.coordinators.histories):
        for span in history.lacking:
            is_before = (last["coordinator"] == number) & (last["offset"] <= span.offset)
            is_after_begin = open_transactions["appended_by"] >= span.begin - skew_ms
            lacks |= is_before & is_after_begin & (open_transactions["appended_after"] <= span.end + skew_ms)
    return lacks


def _reach_shutdown(cluster: Cluster, markers: PartitionMarkers) -> BoolArray:
    """Return which coordinators' logs have all that was there when the broker of a replica was shut down."""
    histories, until = cluster.coordinators.histories, markers.coverage.copied_at - cluster.rules.clock_skew_ms
    if not markers.coverage.left_by_shutdown:
        return np.zeros(len(histories), bool)
    # Of one that was running and in sync, the copy may end before.
    reach = [one.known_until >= until and (one.is_stopped or one.lagging_since is not None) for one in histories]
    return np.array(reach, bool)


def _are_of_its_broker(cluster: Cluster, markers: PartitionMarkers) -> BoolArray:
    """Return which coordinators' logs are of the broker of a replica, which may have several log directories."""
    log_dir, broker_id = markers.place.log_dir, markers.place.broker_id
    places = (history.place for history in cluster.coordinators.histories)
    own = [one.log_dir == log_dir or (one.broker_id == broker_id and broker_id is not None) for one in places]
    return np.array(own, bool)


def _has_all_markers(
    cluster: Cluster, partition: int, open_transactions: OpenTransactionArray, ids: IntArray
) -> BoolArray:
    """Return which transactions cannot be one that was decided after the data partition was copied.

    A decision from before the marker that precedes the data does not matter. The cleaner may have removed decisions
    from before the last record of an id.
    """
    markers, rules = cluster.marker_join.by_partition[partition], cluster.rules
    decided = cluster.coordinators.transactions
    listed = cluster.marker_join.transaction_partitions
    listed = listed[(listed["partition"] == partition) & (listed["marker"] == NONE)]
    owed = decided[listed["transaction"][listed["marker_status"] != MarkerStatus.UNSENT]]
    last = cluster.coordinators.ids[ids]
    is_newer = (markers.coverage.copied_at == NEVER) | (
        markers.coverage.newest_marker - rules.clock_skew_ms > last["last_time"]
    )
    # What was shut down together ends at the same time.
    is_newer |= (_reach_shutdown(cluster, markers) & _are_of_its_broker(cluster, markers))[last["coordinator"]]
    unknown = decided[(decided["partitions"] == UNKNOWN_SET) & (decided["marker_epoch"] != NONE)]
    is_listed = is_newer | ~np.isin(open_transactions["producer_id"], unknown["producer_id"])
    since = _times_of_markers(markers.markers, open_transactions["previous_marker"]) - rules.clock_skew_ms
    latest = np.full(len(open_transactions), NO_TIME, "i8")
    for number, producer_id in enumerate(open_transactions["producer_id"].tolist()):
        latest[number] = owed["decided"][owed["producer_id"] == producer_id].max(initial=NO_TIME)
    times = open_transactions["appended_after"]
    is_covered = is_newer | decisions_covered(cluster.coordinators, last["coordinator"], times, rules.clock_skew_ms)
    has_all: BoolArray = is_listed & is_covered & ((latest == NO_TIME) | (latest < since))
    return has_all


def _times_of_markers(markers: StructRows, offsets: IntArray) -> IntArray:
    """Return the timestamps of markers by offset, a very early one if there is none."""
    known = np.append(markers["marker_offset"], NEVER)
    rows = np.searchsorted(known, offsets)
    times: IntArray = np.where(known[rows] == offsets, np.append(markers["marker_timestamp"], 0)[rows], 0)
    return times
