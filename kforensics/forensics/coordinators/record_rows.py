"""Rows of ``coordinator_transactions`` and ``group_offsets``, for all records of a chunk at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import partition_name
from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns
from kforensics.forensics.coordinators.coordinator_records import NO_VERSION, NONE, State, TopicPartition
from kforensics.forensics.coordinators.transactions.history_replay import StateTransitions
from kforensics.forensics.coordinators.transactions.state_columns import NO_LIST, NO_STATUS
from kforensics.forensics.coordinators.transactions.transitions import StateStep
from kforensics.forensics.core.cluster_tables import COORDINATOR_TRANSACTIONS, GROUP_OFFSETS
from kforensics.forensics.core.result_rows import Rows, Words, nullable
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.format.array_types import IntArray

__all__ = ["offset_commit_rows", "partition_list", "state_record_rows"]

ALL_STATES = tuple(State)


def state_record_rows(partition: Partition, transitions: StateTransitions) -> Rows:
    """Return rows of ``coordinator_transactions``.

    Args:
        partition: a partition of ``__transaction_state``.
        transitions: records of one of its segments.
    """
    path = partition.segments[int(transitions.states.rows["segment"][0])].path
    columns = {**partition.place._asdict(), **_state_columns(transitions), "path": path}
    return Rows(COORDINATOR_TRANSACTIONS, len(transitions), columns)


def _state_columns(transitions: StateTransitions) -> dict[str, Any]:
    states = transitions.states
    rows, lists = states.rows, states.lists.lists
    null = rows["status"] == NO_STATUS
    counts = np.array([*map(len, lists), 0], "i4")[rows["partitions"]]
    renamed = {
        "last_update_timestamp": rows["last_update_ms"],
        "start_timestamp": rows["start_ms"],
        "last_producer_epoch": transitions.last_producer_epochs,
    }
    known = ("previous_producer_id", "next_producer_id", "next_producer_epoch")
    return {
        **{name: rows[name] for name in ("position", "offset")},
        **{name: nullable(rows[name], NONE) for name in ("timestamp", "leader_epoch")},
        **{name: nullable(rows[name], null) for name in ("producer_id", "producer_epoch", "transaction_version")},
        **{name: nullable(rows[name], null | (rows[name] == NONE)) for name in known},
        **{name: nullable(column, null | (column == NONE)) for name, column in renamed.items()},
        "transaction_timeout_ms": nullable(rows["timeout_ms"], null),
        "transactional_id": Words(*states.encoded_names()),
        "state": _encoded(np.where(np.isin(rows["status"], ALL_STATES), rows["status"], NONE), map(str, ALL_STATES)),
        "tombstone": rows["is_tombstone"],
        "version": nullable(rows["version"], null),
        "partitions": _encoded(rows["partitions"], map(partition_list, lists)),
        "partition_count": nullable(counts, rows["partitions"] == NO_LIST),
        "step": _encoded(transitions.steps, map(str, StateStep)),
        "error": _errors(states.errors, len(states)),
    }


def partition_list(partitions: Iterable[TopicPartition] | None) -> str | None:
    """Return partitions joined by commas, None for None."""
    return None if partitions is None else ",".join(map(partition_name, partitions))


def offset_commit_rows(partition: Partition, commits: CommitColumns) -> Rows:
    """Return rows of ``group_offsets``, without the outcomes of transactions, which the records do not show.

    Args:
        partition: a partition of ``__consumer_offsets``.
        commits: records of one of its segments.
    """
    path = partition.segments[commits.segment].path
    return Rows(GROUP_OFFSETS, len(commits), {**partition.place._asdict(), **_offset_columns(commits), "path": path})


def _offset_columns(commits: CommitColumns) -> dict[str, Any]:
    rows, is_read = commits.rows, commits.is_read
    return {
        **{name: rows[name] for name in ("position", "offset")},
        **{name: nullable(rows[name], NONE) for name in ("timestamp", "producer_id", "producer_epoch")},
        "transactional": rows["is_transactional"],
        "outcome": None,
        "group": Words(*commits.keys.named("group")),
        "committed_topic": Words(*commits.keys.named("topic")),
        "committed_partition": commits.keys.rows["partition"],
        "tombstone": commits.is_tombstone,
        "version": nullable(commits.version, NO_VERSION),
        "committed_offset": nullable(commits.committed, ~is_read),
        "committed_leader_epoch": nullable(commits.leader_epoch, NONE),
        "metadata": _encoded(commits.metadata.codes, commits.metadata.values),
        "committed_topic_id": _encoded(commits.topic_id.codes, commits.topic_id.values),
        "commit_timestamp": nullable(commits.commit_timestamp, ~is_read),
        "expire_timestamp": nullable(commits.expire_timestamp, NONE),
        "error": _errors(commits.errors, len(commits)),
    }


def _errors(errors: Mapping[int, str | None], count: int) -> Words:
    codes = np.full(count, NONE)
    codes[list(errors)] = np.arange(len(errors))
    return _encoded(codes, errors.values())


def _encoded(codes: IntArray, texts: Iterable[str | None]) -> Words:
    """Return a dictionary-encoded column.

    Args:
        codes: index of each row's text, -1 for null.
        texts: the texts, which may repeat.
    """
    numbers: dict[str, int] = {}
    distinct = [NONE if text is None else numbers.setdefault(text, len(numbers)) for text in texts]
    # A null is -1, which indexes the NONE at the end.
    return Words(np.array([*distinct, NONE], "i4")[codes], list(numbers))
