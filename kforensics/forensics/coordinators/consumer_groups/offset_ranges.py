"""Committed offsets that the log of their partition does not have any more, or that are those of a deleted topic.

A consumer whose offset is out of range starts where its auto.offset.reset says. Rule: ``OffsetFetcher``,
``KafkaConsumer`` with OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

from operator import attrgetter
from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import (
    Commit,
    Commits,
    GroupPartition,
    is_of_another_topic,
)
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import IntArray

__all__ = [
    "OffsetBeforeLog",
    "OffsetBeyondLog",
    "OffsetOfDeletedTopic",
    "offset_before_log",
    "offsets_before_log",
    "offsets_of_deleted_topics",
]

COPIED_BEFORE = "likely its running broker was copied before the commit"
COPIED_OR_SET = "its running broker was copied before the commit, or a tool set the offset"
COPIED_OR_LOST = "its running broker was copied before the commit, or its log was truncated"
# Of files that are younger than the commit.
LESS_LIKELY = (COPIED_OR_SET, COPIED_OR_LOST)


class OffsetBeforeLog(NamedTuple):
    """An offset in force before the log start offset: retention, or DeleteRecords, took the records from there on.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        log: the log of the partition.
        commits_may_lag: whether the log with the commits is out of sync or lacks its end, so that a later one may
            be missing.
    """

    key: GroupPartition
    commit: Commit
    log: PartitionMarkers
    commits_may_lag: bool

    @property
    def why(self) -> str:
        """What shows it, as a clause."""
        start, earlier = _served_from(self.log), self.log.earlier_start
        count = f"{format_count(start - self.commit.committed, 'offset')} deleted before the group committed them"
        if earlier is None or not earlier.is_remote:
            return f"the log starts at {start}: {count}"
        if earlier.is_certain:
            return f"the broker reads from {start} on, though the log starts at {earlier.offset}: {count}"
        return f"the log starts at {earlier.either}, and the broker reads from {start} on: {count}"

    @property
    def consequence(self) -> str:
        """What its consumers do, as a sentence."""
        earlier = self.log.earlier_start
        if earlier is None or not earlier.is_remote:
            return "It continues where its auto.offset.reset says."
        unless = "" if earlier.is_certain else f", if the log starts at {earlier.offset}"
        return (
            "It continues where its auto.offset.reset says; with earliest it gets the log start, which the broker does "
            f"not read, and receives nothing{unless}."
        )

    @property
    def is_certain(self) -> bool:
        """Whether the group cannot have committed again after the partition was copied: its broker was stopped."""
        return self.log.coverage.copied_at == NEVER and not self.commits_may_lag


class OffsetBeyondLog(NamedTuple):
    """An offset in force beyond the log end offset.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        log: the log of the partition.
        age_ms: time from the commit to the time of evaluation.
        explanation: what explains it, as a clause.
        may_be_outdated: whether the partition may have reached it after its copy, or the log of the commits may lack a
            later one.
        is_certain: whether neither that nor the order of copying explains it, nor that the topic was created again.
        lost: what shows that the log of the time of the commit is lost, as a clause; None if nothing does.
    """

    key: GroupPartition
    commit: Commit
    log: PartitionMarkers
    age_ms: int
    explanation: str
    may_be_outdated: bool
    is_certain: bool
    lost: str | None

    @classmethod
    def of(cls, cluster: Cluster, commits: Commits, key: GroupPartition, log: PartitionMarkers) -> OffsetBeyondLog:
        """Return an offset beyond the end of a log.

        Args:
            cluster: the cluster.
            commits: the commits in its partition of ``__consumer_offsets``.
            key: group, topic and partition.
            log: the log of the partition.
        """
        commit, coverage, as_of_ms = commits.last[key], log.coverage, cluster.rules.as_of_ms
        until = min(coverage.copied_at, as_of_ms) if coverage.left_by_shutdown else as_of_ms
        age, recreated = until - commit.time, _recreated(cluster, commit, log)
        lacks_commits = _lacks_commits(commits, log)
        may_be_outdated = coverage.end <= commit.time or lacks_commits is not None
        is_unexplained = commit.time != NO_TIME and not may_be_outdated and recreated is None
        may_be_by_tool = commit.producer_id < 0 and commit.leader_epoch == NONE
        lost = coverage.lost_since(commit.time) if is_unexplained and not may_be_by_tool else None
        is_certain = is_unexplained and (lost is not None or age > cluster.rules.max_txn_timeout_ms)
        explanation = recreated or lost or _truncated(commit, log)
        explanation = explanation or _unknown(commit, log, lacks_commits, may_be_outdated, is_certain)
        # Files that are younger than the commit make the copy before it less likely than a tool.
        if explanation == COPIED_BEFORE and commit.time + cluster.rules.clock_skew_ms < coverage.copied_at:
            explanation = COPIED_OR_SET if commit.producer_id < 0 else COPIED_OR_LOST
        return cls(key, commit, log, age, explanation, may_be_outdated, is_certain, lost)

    @property
    def why(self) -> str:
        """What shows it, and what explains it, as a clause."""
        return f"the partition ends at {self.log.log_end_offset}: {self.explanation}"


class OffsetOfDeletedTopic(NamedTuple):
    """An offset in force of a deleted topic, within the log of the one that was created again with its name.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        log: the log of the partition.
        deleted: when the topic was deleted, in ms; None if only the times of the log show which topic is the older one.
    """

    key: GroupPartition
    commit: Commit
    log: PartitionMarkers
    deleted: int | None

    @property
    def why(self) -> str:
        """What shows it, as a clause."""
        if self.deleted is None:
            return "the partition has another topic id than the commit, and its records are younger"
        return f"the topic was deleted at {format_time(self.deleted)}, and the partition has another topic id"

    @property
    def consequence(self) -> str:
        """What its consumers do, as a clause."""
        start, end = self.first_offset, self.commit.committed
        return f"a consumer that starts there skips {format_count(end - start, 'offset')}, {start} to {end - 1}"

    @property
    def first_offset(self) -> int:
        """The first offset that the group would skip."""
        return _served_from(self.log)


def _lacks_commits(commits: Commits, log: PartitionMarkers) -> str | None:
    """Return why a log may lack a later commit, from before the end of a partition, as a clause; None if it does not.

    What left the ISR with the partition, or later, has all commits from before.
    """
    if commits.missing_end is not None:
        return f"the log of the group's offsets lacks its end, and may have had a later one: {commits.missing_end}"
    if commits.lagging_since is None:
        return None
    left_together = commits.left_by_shutdown and log.coverage.left_by_shutdown
    if left_together and commits.lagging_since >= log.coverage.copied_at:
        return None
    return "the log of the group's offsets is out of sync, its leader may have a later one"


def _recreated(cluster: Cluster, commit: Commit, log: PartitionMarkers) -> str | None:
    """Return how the topic was created again after a commit, as a clause; None if nothing shows it."""
    if is_of_another_topic(commit, log.topic_id):
        return "it has another topic id than the commit, the topic was deleted and created again"
    if None not in {commit.topic_id, log.topic_id}:
        return None
    deleted = None if commit.time == NO_TIME else cluster.deleted_since(log, commit.time)
    if deleted is None:
        return None
    return f"the topic was deleted at {format_time(deleted)}, after the commit, and created again"


def _truncated(commit: Commit, log: PartitionMarkers) -> str | None:
    later = next((start for epoch, start in log.epoch_starts if epoch > commit.leader_epoch), None)
    if commit.leader_epoch == NONE or later is None or later >= commit.committed:
        return None
    return f"its next leader epoch begins at offset {later}, its log was truncated"


def _unknown(
    commit: Commit, log: PartitionMarkers, lacks_commits: str | None, may_be_outdated: bool, is_certain: bool
) -> str:
    """Return what may explain an offset beyond the end of a log that nothing else explains."""
    if lacks_commits is not None:
        return lacks_commits
    if may_be_outdated and log.coverage.lagging_since is not None:
        return "likely its leader has the offset, this replica is out of sync"
    if may_be_outdated:
        return COPIED_BEFORE
    lost = "its log was truncated, the topic created again, or the offset set by a tool"
    if commit.producer_id >= 0:  # no tool commits in a transaction
        lost = "its log was truncated, or the topic created again"
    return lost if is_certain else f"{lost}, or it was copied before the commit"


def _served_from(log: PartitionMarkers) -> int:
    """Return the first offset of a log that consumers can read."""
    start, earlier = log.visible_start_offset, log.earlier_start
    return start if earlier is None else max(start, earlier.read_from)


def offsets_before_log(cluster: Cluster, commits: Commits) -> IntArray:
    """Return the rows of the offsets in force that are before the start of an available log.

    Args:
        cluster: the cluster, with the committed partitions as far as they are available.
        commits: the commits in a partition of ``__consumer_offsets``.
    """
    logs = {markers.name: markers for markers in cluster.marker_join.by_partition.values()}
    names, codes = commits.last.partitions
    starts = np.array([_served_from(logs[name]) if name in logs else NONE for name in names], "i8")[codes]
    committed = commits.last.table.rows["committed"]
    rows: IntArray = np.flatnonzero((committed >= 0) & (committed < starts))
    return rows


def offset_before_log(cluster: Cluster, commits: Commits, row: int) -> OffsetBeforeLog:
    """Return one of the rows of :func:`offsets_before_log`.

    Args:
        cluster: the cluster.
        commits: the commits in a partition of ``__consumer_offsets``.
        row: number of the offset in force.
    """
    key, commit = commits.last.at(row)
    logs, supplied = cluster.marker_join.by_partition, cluster.supplied_partitions
    return OffsetBeforeLog(key, commit, logs[supplied[key[1:]]], commits.may_lack_later)


def offsets_of_deleted_topics(cluster: Cluster, commits: Commits) -> list[OffsetOfDeletedTopic]:
    """Return the offsets in force that are those of deleted topics, within the logs of the topics of the same names.

    Args:
        cluster: the cluster, with the committed partitions as far as they are available.
        commits: the commits in a partition of ``__consumer_offsets``.
    """
    logs = {markers.name: markers for markers in cluster.marker_join.by_partition.values() if markers.topic_id}
    names, codes = commits.last.partitions
    known = [logs.get(name) for name in names]
    ids = np.array(["" if log is None else log.topic_id for log in known], "S22")[codes]
    start, end = (
        np.array([NONE if log is None else number_of(log) for log in known], "i8")[codes]
        for number_of in (_served_from, attrgetter("log_end_offset"))
    )
    rows = commits.last.table.rows
    is_other = (ids != b"") & (rows["topic_id"] != b"") & (rows["topic_id"] != ids)
    found = np.flatnonzero(is_other & (rows["committed"] > start) & (rows["committed"] <= end))
    placed = (_of_deleted_topic(cluster, *commits.last.at(row), known[codes[row]]) for row in found.tolist())
    return [one for one in placed if one is not None]


def _of_deleted_topic(
    cluster: Cluster, key: GroupPartition, commit: Commit, log: PartitionMarkers | None
) -> OffsetOfDeletedTopic | None:
    """Return an offset that is not of the topic of a log; None if the log may be the one of the deleted topic."""
    if log is None or (log.topic_id or "") in cluster.removed_topics:
        return None
    (deleted,) = cluster.removed_topics.get(commit.topic_id or "", (None,))
    is_younger = log.times is not None and commit.time != NO_TIME and log.times[0] > commit.time
    return OffsetOfDeletedTopic(key, commit, log, deleted) if deleted is not None or is_younger else None
