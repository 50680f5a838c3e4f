"""Rows of ``committed_offsets``, and the outcomes of transactions in rows of ``group_offsets``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import Cluster
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.core.cluster_tables import COMMITTED_OFFSETS
from kforensics.forensics.core.record_arrays import free_unused
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.result_rows import Nullable, Rows, RowStream, Words, nullable
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.parsers.format.array_types import Column, IntArray

__all__ = ["committed_rows", "with_outcomes"]

# Rows of a part.
PART_ROWS = 1 << 14
OUTCOME_TEXTS = {
    TransactionOutcome.COMMITTED: "committed",
    TransactionOutcome.ABORTED: "aborted",
    TransactionOutcome.OPEN: "pending",
}


def committed_rows(cluster: Cluster) -> Iterator[RowStream]:
    """Yield the offsets in force of each partition of ``__consumer_offsets``, by group, topic and partition."""
    ends = {
        markers.name: (markers.log_end_offset, markers.last_stable_offset)
        for markers in cluster.marker_join.by_partition.values()
    }
    for commits in cluster.commits:
        if commits.last:
            yield RowStream(COMMITTED_OFFSETS, partial(_rows_in_force, commits, ends))


def _rows_in_force(commits: Commits, ends: Mapping[TopicPartition, tuple[int, int]]) -> Iterator[Rows]:
    """Yield the offsets in force in one partition of ``__consumer_offsets``.

    Args:
        commits: the partition.
        ends: log end offset and last stable offset of the committed partitions among the files.
    """
    order = commits.last.keys_by_row.sorted_indexes()
    free_unused()
    for first in range(0, len(order), PART_ROWS):
        columns = _columns(commits, ends, order[first : first + PART_ROWS])
        yield Rows(COMMITTED_OFFSETS, len(columns["position"]), {**commits.place._asdict(), **columns})


def _columns(commits: Commits, ends: Mapping[TopicPartition, tuple[int, int]], indexes: IntArray) -> dict[str, Any]:
    """Return the columns of some commits, by index."""
    keys, table = commits.last.keys_by_row.take(indexes), commits.last.table.select(indexes)
    rows, none_committed = table.rows, table.rows["producer_id"] == NONE
    partitions, codes = commits.last.partitions
    known = [ends.get(name) for name in partitions]
    is_unknown = np.array([pair is None for pair in known])[codes[indexes]]
    end, stable = np.array([pair or (0, 0) for pair in known], "i8")[codes[indexes]].T
    return {
        "group": Words(*keys.named("group")),
        "committed_topic": Words(*keys.named("topic")),
        "committed_partition": keys.rows["partition"],
        "committed_offset": rows["committed"],
        "committed_leader_epoch": nullable(rows["leader_epoch"], NONE),
        "metadata": table.metadata.tolist(),
        "committed_topic_id": [text.decode("ascii") or None for text in rows["topic_id"].tolist()],
        "transactional": ~none_committed,
        **{name: nullable(rows[name], none_committed) for name in ("producer_id", "producer_epoch")},
        "effective_timestamp": nullable(rows["time"], NO_TIME),
        "pending": commits.last.is_waiting[indexes],
        "log_end_offset": nullable(end, is_unknown),
        "last_stable_offset": nullable(stable, is_unknown),
        "lag": nullable(end - rows["committed"], is_unknown),
        "stable_lag": nullable(stable - rows["committed"], is_unknown),
        "path": Words(rows["segment"], commits.paths),
        **{name: rows[name] for name in ("position", "offset")},
    }


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
