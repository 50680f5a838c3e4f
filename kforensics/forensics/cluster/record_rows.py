"""Rows of the records of both coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from kforensics.forensics.cluster.commits import CommitRecord
from kforensics.forensics.cluster.coordinator_records import NONE, StateRecord, TopicPartition
from kforensics.forensics.cluster.evidence import written
from kforensics.forensics.cluster.history import Seen
from kforensics.forensics.cluster.row_chunks import RowChunks
from kforensics.forensics.cluster.tables import COORDINATOR_TRANSACTIONS, GROUP_OFFSETS
from kforensics.forensics.partition import Partition
from kforensics.forensics.result_columns import Rows

__all__ = ["OffsetRows", "StateRows", "listed"]


class StateRows:
    """Makes rows of ``coordinator_transactions``.

    Args:
        partition: of ``__transaction_state``.
        keep: told of rows.
    """

    def __init__(self, partition: Partition, keep: Callable[[Rows], None]) -> None:
        self._paths = [segment.path for segment in partition.segments]
        self._chunks = RowChunks(COORDINATOR_TRANSACTIONS, partition.place, keep)

    def take(self, seen: Seen) -> None:
        """Take a record and how it follows the one before it."""
        self._chunks.add(_state_row(seen, self._paths))

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


def _known(number: int | None) -> int | None:
    return None if number == NONE else number


def listed(partitions: Iterable[TopicPartition] | None) -> str | None:
    """Return partitions with commas between, None for none."""
    return None if partitions is None else ",".join(map(written, partitions))


class OffsetRows:
    """Makes rows of ``group_offsets``.

    Args:
        partition: of ``__consumer_offsets``.
        keep: told of rows.
    """

    def __init__(self, partition: Partition, keep: Callable[[Rows], None]) -> None:
        self._paths = [segment.path for segment in partition.segments]
        self._chunks = RowChunks(GROUP_OFFSETS, partition.place, keep)

    def take(self, record: CommitRecord) -> None:
        """Take a record."""
        self._chunks.add(_offset_row(record, self._paths))

    def finish(self) -> None:
        """Tell of the rows of all records so far."""
        self._chunks.finish()


def _offset_row(record: CommitRecord, paths: Sequence[str]) -> tuple[Any, ...]:
    segment, batch, written_as, found = record
    value = found.value or {}
    return (
        *(paths[segment], batch.position, written_as.offset, _known(written_as.timestamp)),
        *(*record.key, batch.is_transactional, _known(batch.producer_id), _known(batch.producer_epoch)),
        *(written_as.value is None, found.version),
        *(value.get("offset"), _known(value.get("leaderEpoch")), value.get("metadata"), record.topic_id),
        *(value.get("commitTimestamp"), _known(value.get("expireTimestamp")), found.error),
    )
