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
from kforensics.parsers.format.array_types import IntArray

__all__ = ["OffsetBeforeLog", "offset_before_log", "offsets_before_log"]


class OffsetBeforeLog(NamedTuple):
    """An offset in force before the log start offset: retention, or DeleteRecords, took the records from there on.

    Attributes:
        key: group, topic and partition.
        commit: the commit.
        log: the log of the partition.
    """

    key: GroupPartition
    commit: Commit
    log: PartitionMarkers

    @property
    def why(self) -> str:
        """What shows it, as a clause."""
        start = self.log.visible_start_offset
        count = format_count(start - self.commit.committed, "offset")
        return f"the log starts at {start}: {count} deleted before the group committed them"

    @property
    def is_certain(self) -> bool:
        """Whether the group cannot have committed again after the partition was copied: its broker was stopped."""
        return self.log.copied_at == NEVER


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
    return OffsetBeforeLog(key, commit, cluster.marker_join.by_partition[cluster.supplied_partitions[key[1:]]])
