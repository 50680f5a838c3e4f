"""Rows of the offsets of groups that are in force, and how far behind their partitions they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits, GroupPartition
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.core.cluster_tables import COMMITTED_OFFSETS
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.row_chunks import RowChunks

__all__ = ["committed_rows"]


def committed_rows(cluster: Cluster) -> Iterator[Rows]:
    """Yield the offsets in force of each partition of ``__consumer_offsets``, by group, topic and partition."""
    markers = {found.name: found for found in cluster.joined.markers.values()}
    for commits in cluster.commits:
        found: list[Rows] = []
        chunks = RowChunks(COMMITTED_OFFSETS, commits.place, found.append)
        for key in sorted(commits.last):
            chunks.add(_row(key, commits.last[key], commits, markers.get(key[1:])))
        chunks.finish()
        yield from found


def _row(key: GroupPartition, commit: Commit, commits: Commits, markers: Markers | None) -> tuple[Any, ...]:
    is_transactional = commit.producer_id != NONE
    return (
        *(*key, commit.committed, _known(commit.leader_epoch), commit.metadata, commit.topic_id),
        is_transactional,
        *((commit.producer_id, commit.producer_epoch) if is_transactional else (None, None)),
        None if commit.time == NO_TIME else commit.time,
        key in commits.waiting,
        *((None,) * 4 if markers is None else _behind(commit, markers)),
        *(commits.paths[commit.segment], commit.position, commit.offset),
    )


def _behind(commit: Commit, markers: Markers) -> tuple[int, int, int, int]:
    """Return where the partition ends for either kind of consumer, and how far behind that the offset is."""
    end, stable = markers.log_end_offset, markers.last_stable_offset
    return end, stable, end - commit.committed, stable - commit.committed


def _known(number: int) -> int | None:
    return None if number == NONE else number
