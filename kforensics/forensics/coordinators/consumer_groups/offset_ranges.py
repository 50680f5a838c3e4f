"""Committed offsets that the log of their partition does not have any more.

A consumer whose offset is out of range starts where its auto.offset.reset says. Rule: ``OffsetFetcher``,
``KafkaConsumer`` with OFFSET_OUT_OF_RANGE.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits, GroupPartition
from kforensics.forensics.coordinators.coordinator_records import NEVER, NONE
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import IntArray

__all__ = ["OffsetBeforeLog", "OffsetBeyondLog", "offset_before_log", "offsets_before_log"]


class OffsetBeforeLog(NamedTuple):
    """An offset in force before the log start offset: retention, or DeleteRecords, took the records from there on.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        log: the log of the partition.
        commits_may_lag: whether the log with the commits is out of sync, so that its leader may have a later one.
    """

    key: GroupPartition
    commit: Commit
    log: PartitionMarkers
    commits_may_lag: bool

    @property
    def why(self) -> str:
        """What shows it, as a clause."""
        start = self.log.visible_start_offset
        count = format_count(start - self.commit.committed, "offset")
        return f"the log starts at {start}: {count} deleted before the group committed them"

    @property
    def is_certain(self) -> bool:
        """Whether the group cannot have committed again after the partition was copied: its broker was stopped."""
        return self.log.copied_at == NEVER and not self.commits_may_lag


class OffsetBeyondLog(NamedTuple):
    """An offset in force beyond the log end offset.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        log: the log of the partition.
        age_ms: time from the commit to the time of evaluation.
        is_later: whether the copy of the running broker may be older than the commit.
        is_old: whether the commit is so old that the order of copying does not explain it.
    """

    key: GroupPartition
    commit: Commit
    log: PartitionMarkers
    age_ms: int
    is_later: bool
    is_old: bool

    @classmethod
    def of(cls, cluster: Cluster, key: GroupPartition, commit: Commit, log: PartitionMarkers) -> OffsetBeyondLog:
        """Return an offset beyond the end of a log.

        Args:
            cluster: the cluster.
            key: group, topic and partition.
            commit: the commit.
            log: the log of the partition.
        """
        age = cluster.rules.as_of_ms - commit.time
        is_later = log.coverage_end <= commit.time
        is_old = commit.time != NO_TIME and age > cluster.rules.max_txn_timeout_ms and not is_later
        return cls(key, commit, log, age, is_later, is_old)

    @property
    def why(self) -> str:
        """What shows it, and what explains it, as a clause."""
        return f"the partition ends at {self.log.log_end_offset}: {self._explanation}"

    @property
    def _explanation(self) -> str:
        topic_ids = self.commit.topic_id, self.log.topic_id
        if None not in topic_ids and topic_ids[0] != topic_ids[1]:
            return "it has another topic id than the commit, the topic was deleted and created again"
        later = next((start for epoch, start in self.log.epoch_starts if epoch > self.commit.leader_epoch), None)
        if self.commit.leader_epoch != NONE and later is not None and later < self.commit.committed:
            return f"its next leader epoch begins at offset {later}, its log was truncated"
        lost = "its log was truncated, the topic created again, or the offset set by a tool"
        if self.is_later:
            if self.log.left_isr:
                return "likely its broker was shut down before the commit, and the leader has it"
            return "likely its running broker was copied before the commit"
        return lost if self.is_old else f"{lost}, or it was copied before the commit"


def offsets_before_log(cluster: Cluster, commits: Commits) -> IntArray:
    """Return the rows of the offsets in force that are before the start of an available log.

    Args:
        cluster: the cluster, with the committed partitions as far as they are available.
        commits: the commits in a partition of ``__consumer_offsets``.
    """
    logs = {markers.name: markers for markers in cluster.marker_join.by_partition.values()}
    names, codes = commits.last.partitions
    starts = np.array([logs[name].visible_start_offset if name in logs else NONE for name in names], "i8")[codes]
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
    own = supplied.get((commits.place.topic or "", commits.place.partition or 0))
    commits_may_lag = own is not None and logs[own].lagging_since is not None
    return OffsetBeforeLog(key, commit, logs[supplied[key[1:]]], commits_may_lag)
