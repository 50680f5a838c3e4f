"""Where the committed offsets of a group are in the logs of their partitions, as the last events of its history."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits, GroupPartition
from kforensics.forensics.coordinators.consumer_groups.group_rows import LAG_COLUMNS, offsets_of
from kforensics.forensics.coordinators.consumer_groups.offset_ranges import (
    OffsetBeyondLog,
    offset_before_log,
    offsets_before_log,
    offsets_of_deleted_topics,
)
from kforensics.forensics.coordinators.consumer_groups.reset_causes import ResetCause, partition_log

__all__ = ["NO_LOG", "OffsetOutOfRange", "PartitionLag", "lags_of", "out_of_range"]

OLD_CHECKPOINT = (
    "the checkpoint has an older high watermark: it is written every five seconds, a follower learns it later"
)
BEYOND_STABLE = "a transaction is open before it: the group reads with read_uncommitted, or a tool set the offset"

NO_LOG = "the log of the partition is not among the files"


class PartitionLag(NamedTuple):
    """The lag of a group in a partition.

    Attributes:
        key: group, topic and partition.
        commit: the commit in force.
        columns: the values of LAG_COLUMNS.
        why: why there is no lag, or why it is negative; None otherwise.
    """

    key: GroupPartition
    commit: Commit
    columns: Mapping[str, Any]
    why: str | None


class OffsetOutOfRange(NamedTuple):
    """An offset in force that the log of its partition does not have, or that is the one of a deleted topic.

    Attributes:
        key: group, topic and partition.
        commit: the commit in force.
        cause: TOPIC_RECREATED, RECORDS_DELETED or BEYOND_LOG_END.
        why: what shows it, as a clause.
        is_certain: whether the order in which running brokers were copied does not explain it.
    """

    key: GroupPartition
    commit: Commit
    cause: ResetCause
    why: str
    is_certain: bool


def lags_of(cluster: Cluster, commits: Commits, group: str) -> Iterator[PartitionLag]:
    """Yield the lags of a group, by topic and partition.

    Args:
        cluster: the cluster, with the partitions of the group as far as they are available.
        commits: the partition of ``__consumer_offsets`` with the group.
        group: the group.
    """
    for key, row in offsets_of(cluster, commits, group):
        commit = commits.last[key]
        yield PartitionLag(key, commit, {name: row[name] for name in LAG_COLUMNS}, _why(cluster, commits, key, row))


def _why(cluster: Cluster, commits: Commits, key: GroupPartition, row: Mapping[str, Any]) -> str | None:
    """Return why there is no lag, or why it is negative."""
    log = partition_log(cluster, *key[1:])
    if log is None:
        return NO_LOG
    if row["lag"] < 0:
        return OffsetBeyondLog.of(cluster, commits, key, log).why
    if row["high_watermark_lag"] < 0:
        return OLD_CHECKPOINT
    return BEYOND_STABLE if row["stable_lag"] < 0 else None


def out_of_range(cluster: Cluster, commits: Commits, group: str) -> Iterator[OffsetOutOfRange]:
    """Yield the offsets of a group that are not those of their logs.

    They are those of deleted topics, then those before the log start, then those beyond the log end.

    Args:
        cluster: the cluster, with the partitions of the group as far as they are available.
        commits: the partition of ``__consumer_offsets`` with the group.
        group: the group.
    """
    for other in offsets_of_deleted_topics(cluster, commits):
        if other.key[0] == group:
            why = f"{other.why}; {other.consequence}"
            yield OffsetOutOfRange(*other[:2], ResetCause.TOPIC_RECREATED, why, other.deleted is not None)
    for row in offsets_before_log(cluster, commits).tolist():
        before = offset_before_log(cluster, commits, row)
        if before.key[0] == group:
            yield OffsetOutOfRange(*before[:2], ResetCause.RECORDS_DELETED, before.why, before.is_certain)
    for key, row in offsets_of(cluster, commits, group):
        log = partition_log(cluster, *key[1:])
        if log is not None and row["lag"] < 0:
            beyond = OffsetBeyondLog.of(cluster, commits, key, log)
            yield OffsetOutOfRange(*beyond[:2], ResetCause.BEYOND_LOG_END, beyond.why, beyond.is_certain)
