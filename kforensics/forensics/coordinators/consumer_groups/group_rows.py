"""Rows of ``committed_offsets``, and the outcomes of transactions in rows of ``group_offsets``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commit, Commits, GroupPartition
from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.core.cluster_tables import COMMITTED_OFFSETS
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.result_rows import Nullable, RowChunks, Rows, Words
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.parsers.format.array_types import Column

__all__ = ["committed_rows", "with_outcomes"]

OUTCOME_TEXTS = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ABORTED: "aborted",
    TransactionOutcome.OPEN: "pending",
}


def committed_rows(cluster: Cluster) -> Iterator[Rows]:
    """Yield the offsets in force of each partition of ``__consumer_offsets``, by group, topic and partition."""
    by_name = {markers.name: markers for markers in cluster.marker_join.by_partition.values()}
    for commits in cluster.commits:
        rows: list[Rows] = []
        chunks = RowChunks(COMMITTED_OFFSETS, commits.place, rows.append)
        for key in sorted(commits.last):
            chunks.add(_row(key, commits.last[key], commits, by_name.get(key[1:])))
            if rows:
                yield rows.pop()
        chunks.finish()
        yield from rows


def _row(key: GroupPartition, commit: Commit, commits: Commits, markers: PartitionMarkers | None) -> tuple[Any, ...]:
    is_transactional = commit.producer_id != NONE
    return (
        *(*key, commit.committed, _none_to_null(commit.leader_epoch), commit.metadata, commit.topic_id),
        is_transactional,
        *((commit.producer_id, commit.producer_epoch) if is_transactional else (None, None)),
        None if commit.time == NO_TIME else commit.time,
        key in commits.waiting,
        *((None,) * 4 if markers is None else _lag(commit, markers)),
        *(commits.paths[commit.segment], commit.position, commit.offset),
    )


def _lag(commit: Commit, markers: PartitionMarkers) -> tuple[int, int, int, int]:
    """Return the log end offset and the last stable offset of a partition, and the lag of a commit to each."""
    end, stable = markers.log_end_offset, markers.last_stable_offset
    return end, stable, end - commit.committed, stable - commit.committed


def _none_to_null(number: int) -> int | None:
    return None if number == NONE else number


def with_outcomes(state: PartitionState, rows: Rows) -> Rows:
    """Return rows of ``group_offsets`` with the outcomes of their transactions.

    Args:
        state: the state of the partition of ``__consumer_offsets``.
        rows: some of its records, in the order of the log.
    """
    producers, offsets = _numbers(rows.columns["producer_id"]), _numbers(rows.columns["offset"])
    codes = np.full(len(rows), NONE, "i8")
    transactional = np.flatnonzero(_numbers(rows.columns["transactional"]) & (producers != NONE))
    # The last transaction that begins at the record or before it, unless it ended before the record.
    transactions = transactions_before(state, producers[transactional], offsets[transactional] + 1)
    inside = (transactions["producer_id"] != NONE) & (transactions["last_offset"] >= offsets[transactional])
    outcomes = list(OUTCOME_TEXTS)
    codes[transactional[inside]] = [
        outcomes.index(TransactionOutcome(outcome)) for outcome in transactions["outcome"][inside].tolist()
    ]
    return replace(rows, columns={**rows.columns, "outcome": Words(codes, tuple(OUTCOME_TEXTS.values()))})


def _numbers(column: Any) -> Column:
    """Return a column as numbers, NONE for null."""
    if isinstance(column, Nullable):
        return np.where(column.null, NONE, column.numbers)
    return np.asarray(column)
