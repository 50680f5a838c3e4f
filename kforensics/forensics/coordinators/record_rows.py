"""Rows of the records of both coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.cluster_evidence import written
from kforensics.forensics.coordinators.consumer_groups.commit_columns import NO_VERSION, CommitColumns
from kforensics.forensics.coordinators.consumer_groups.commit_types import CommitRecord
from kforensics.forensics.coordinators.coordinator_records import NONE, State, StateRecord, TopicPartition
from kforensics.forensics.coordinators.transactions.history_replay import SeenColumns
from kforensics.forensics.coordinators.transactions.history_types import Seen
from kforensics.forensics.coordinators.transactions.state_columns import NO_LIST, NO_STATUS
from kforensics.forensics.coordinators.transactions.transitions import Step
from kforensics.forensics.core.cluster_tables import COORDINATOR_TRANSACTIONS, GROUP_OFFSETS
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.result_rows import Rows, Words, nullable
from kforensics.forensics.core.row_chunks import RowChunks
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["OffsetRows", "StateRows", "listed", "words_of"]

STATES = tuple(State)


class StateRows:
    """Makes rows of ``coordinator_transactions``.

    Args:
        partition: of ``__transaction_state``.
        keep: told of rows.
    """

    def __init__(self, partition: Partition, keep: Callable[[Rows], None]) -> None:
        self._paths = [segment.path for segment in partition.segments]
        self._place, self._keep = partition.place, keep
        self._chunks = RowChunks(COORDINATOR_TRANSACTIONS, partition.place, keep)

    def take(self, seen: Seen | SeenColumns) -> None:
        """Take a record and how it follows the one before it, or many."""
        if isinstance(seen, Seen):
            self._chunks.add(_state_row(seen, self._paths))
        else:
            path = self._paths[int(seen.states.rows["segment"][0])]
            columns = {**self._place._asdict(), **_state_columns(seen), "path": path}
            self._keep(Rows(COORDINATOR_TRANSACTIONS, len(seen), columns))

    def finish(self) -> None:
        """Tell of the rows of all records so far."""
        self._chunks.finish()


def _state_row(seen: Seen, paths: Sequence[str]) -> tuple[Any, ...]:
    record = seen.record
    state, partitions = record.state, record.partitions
    return (
        *(paths[record.segment], record.position, record.offset),
        *(_known(record.timestamp), _known(record.leader_epoch), record.transactional_id),
        *(None if state is None else str(state), record.is_tombstone, record.version),
        *_producer(record, seen.last_producer_epoch),
        listed(partitions),
        None if partitions is None else len(partitions),
        *(_known(record.last_update_ms), _known(record.start_ms), str(seen.step), record.error),
    )


def _producer(record: StateRecord, last_epoch: int) -> tuple[int | None, ...]:
    if record.status is None:
        return (None,) * 8
    return (
        *(record.producer_id, record.producer_epoch, _known(last_epoch)),
        *(_known(record.previous_producer_id), _known(record.next_producer_id), _known(record.next_producer_epoch)),
        *(record.transaction_version, record.timeout_ms),
    )


def _state_columns(seen: SeenColumns) -> dict[str, Any]:
    states = seen.states
    rows, lists = states.rows, states.lists.lists
    null = rows["status"] == NO_STATUS
    counts = np.array([*map(len, lists), 0], "i4")[rows["partitions"]]
    renamed = {
        "last_update_timestamp": rows["last_update_ms"],
        "start_timestamp": rows["start_ms"],
        "last_producer_epoch": seen.last_producer_epochs,
    }
    known = ("previous_producer_id", "next_producer_id", "next_producer_epoch")
    return {
        **{name: rows[name] for name in ("position", "offset")},
        **{name: nullable(rows[name], NONE) for name in ("timestamp", "leader_epoch")},
        **{name: nullable(rows[name], null) for name in ("producer_id", "producer_epoch", "transaction_version")},
        **{name: nullable(rows[name], null | (rows[name] == NONE)) for name in known},
        **{name: nullable(column, null | (column == NONE)) for name, column in renamed.items()},
        "transaction_timeout_ms": nullable(rows["timeout_ms"], null),
        "transactional_id": words_of(states.codes, states.names),
        "state": words_of(np.where(np.isin(rows["status"], STATES), rows["status"], NONE), map(str, STATES)),
        "tombstone": rows["is_tombstone"],
        "version": nullable(rows["version"], null),
        "partitions": words_of(rows["partitions"], map(listed, lists)),
        "partition_count": nullable(counts, rows["partitions"] == NO_LIST),
        "step": words_of(seen.steps, map(str, Step)),
        "error": _errors(states.errors, len(states)),
    }


def _errors(errors: Mapping[int, str | None], count: int) -> Words:
    codes = np.full(count, NONE)
    codes[list(errors)] = np.arange(len(errors))
    return words_of(codes, errors.values())


def _known(number: int | None) -> int | None:
    return None if number == NONE else number


def listed(partitions: Iterable[TopicPartition] | None) -> str | None:
    """Return partitions with commas between, None for none."""
    return None if partitions is None else ",".join(map(written, partitions))


class OffsetRows:
    """Makes rows of ``group_offsets``; how their transactions ended, records alone do not tell.

    Args:
        partition: of ``__consumer_offsets``.
        keep: told of rows.
    """

    def __init__(self, partition: Partition, keep: Callable[[Rows], None]) -> None:
        self._paths = [segment.path for segment in partition.segments]
        self._place, self._keep = partition.place, keep
        self._chunks = RowChunks(GROUP_OFFSETS, partition.place, keep)

    def take(self, found: CommitRecord | CommitColumns) -> None:
        """Take a record, or many."""
        if isinstance(found, CommitRecord):
            self._chunks.add(_offset_row(found, self._paths))
        else:
            columns = {**self._place._asdict(), **_offset_columns(found), "path": self._paths[found.segment]}
            self._keep(Rows(GROUP_OFFSETS, len(found), columns))

    def finish(self) -> None:
        """Tell of the rows of all records so far."""
        self._chunks.finish()


def _offset_row(record: CommitRecord, paths: Sequence[str]) -> tuple[Any, ...]:
    segment, batch, written_as, found = record
    value = found.value or {}
    return (
        *(paths[segment], batch.position, written_as.offset, _known(written_as.timestamp)),
        *(*record.key, batch.is_transactional, _known(batch.producer_id), _known(batch.producer_epoch), None),
        *(written_as.value is None, found.version),
        *(value.get("offset"), _known(value.get("leaderEpoch")), value.get("metadata"), record.topic_id),
        *(value.get("commitTimestamp"), _known(value.get("expireTimestamp")), found.error),
    )


def _offset_columns(commits: CommitColumns) -> dict[str, Any]:
    rows, is_read = commits.rows, commits.is_read
    group, topic, partition = zip(*commits.words, strict=True)
    return {
        **{name: rows[name] for name in ("position", "offset")},
        **{name: nullable(rows[name], NONE) for name in ("timestamp", "producer_id", "producer_epoch")},
        "transactional": rows["is_transactional"],
        "outcome": None,
        "group": words_of(commits.codes, group),
        "committed_topic": words_of(commits.codes, topic),
        "committed_partition": np.array(partition, "i4")[commits.codes],
        "tombstone": commits.is_tombstone,
        "version": nullable(commits.version, NO_VERSION),
        "committed_offset": nullable(commits.committed, ~is_read),
        "committed_leader_epoch": nullable(commits.leader_epoch, NONE),
        "metadata": words_of(commits.metadata.codes, commits.metadata.words),
        "committed_topic_id": words_of(commits.topic_id.codes, commits.topic_id.words),
        "commit_timestamp": nullable(commits.commit_timestamp, ~is_read),
        "expire_timestamp": nullable(commits.expire_timestamp, NONE),
        "error": _errors(commits.errors, len(commits)),
    }


def words_of(codes: Records, texts: Iterable[str | None]) -> Words:
    """Return text by row.

    Args:
        codes: number of each row's text, -1 for none.
        texts: by their numbers; the same may come twice.
    """
    numbers: dict[str, int] = {}
    known = [NONE if text is None else numbers.setdefault(text, len(numbers)) for text in texts]
    # Behind the last one, where -1 finds it, there is none.
    return Words(np.array([*known, NONE], "i4")[codes], list(numbers))
