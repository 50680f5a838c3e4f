"""Records of ``__transaction_state`` as values, whatever version or release wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_record
from kforensics.parsers.messages.registry import TRANSACTION_STATE
from kforensics.parsers.messages.transaction import TRANSACTION_LOG_VALUE

__all__ = [
    "NONE",
    "TRANSACTION_STATE",
    "State",
    "StateRecord",
    "TopicPartition",
    "listed_partitions",
    "state_record",
    "state_records",
]

NONE = -1
TRANSACTION_LOG = "TransactionLog"

TopicPartition: TypeAlias = tuple[str, int]


class State(IntEnum):
    """A transaction's state, with Kafka's numbers; rule: ``TransactionState``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    def __str__(self) -> str:
        return "".join(word.capitalize() for word in self.name.split("_"))

    @property
    def is_prepared(self) -> bool:
        """Whether the end is decided and markers are on their way."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether every marker was acknowledged."""
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether a new transaction may begin."""
        return self is State.EMPTY or self.is_complete


class StateRecord(NamedTuple):
    """A record of ``__transaction_state``; a tuple, for there may be many.

    Attributes:
        segment: number of the segment.
        position: of its batch.
        offset: of the record.
        timestamp: of the record in ms, -1 if it has none.
        leader_epoch: of its batch, which is the coordinator's epoch; -1 if there is none.
        transactional_id: None where the key cannot be read.
        is_tombstone: whether the id was removed here.
        error: why it says nothing to a broker, None if it does.
        version: of the value; None for a tombstone, or where it cannot be read, as are all that follow.
        status: number of the state, which a broken record may have beyond those of :class:`State`.
        producer_id: producer id.
        producer_epoch: its epoch.
        previous_producer_id: the id before this state; -1 if not written.
        next_producer_id: the id that the end of this transaction will bring; -1 if none.
        next_producer_epoch: declared since 4.1, written by no release yet; -1 if not written.
        timeout_ms: transaction timeout.
        transaction_version: of the client's request, 0 if not written.
        partitions: in order; None if the list is null.
        last_update_ms: when the coordinator began to write this state.
        start_ms: when the transaction began, -1 if none has.
    """

    segment: int
    position: int
    offset: int
    timestamp: int
    leader_epoch: int
    transactional_id: str | None
    is_tombstone: bool = False
    error: str | None = None
    version: int | None = None
    status: int | None = None
    producer_id: int = NONE
    producer_epoch: int = NONE
    previous_producer_id: int = NONE
    next_producer_id: int = NONE
    next_producer_epoch: int = NONE
    timeout_ms: int = NONE
    transaction_version: int = 0
    partitions: tuple[TopicPartition, ...] | None = None
    last_update_ms: int = NONE
    start_ms: int = NONE

    @property
    def state(self) -> State | None:
        """The state, None for a tombstone, a broken record and a number without meaning."""
        return None if self.status is None else _STATES.get(self.status)

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch

    @property
    def time(self) -> int:
        """When it was written in ms, NO_TIME where nothing tells.

        Records of message format 0 have no timestamp; their own field does instead, but not that of a Complete state,
        which is taken before the first marker is sent.
        """
        if self.timestamp >= 0:
            return self.timestamp
        state = self.state
        return NO_TIME if state is None or state.is_complete or self.last_update_ms < 0 else self.last_update_ms


_STATES = {int(state): state for state in State}


def state_records(partition: Partition) -> Iterator[StateRecord]:
    """Yield the records of a coordinator's partition, in the order of its log.

    Control batches, and batches whose checksum fails, are left out: a broker would not read them either.

    Args:
        partition: of ``__transaction_state``.

    Raises:
        InputError: a segment cannot be read.
    """
    for segment, found in enumerate(partition.segments):
        with open_source(found.path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid and not batch.is_control:
                    yield from _of_batch(source, segment, batch)


def _of_batch(source: Source, segment: int, batch: Batch) -> Iterator[StateRecord]:
    epoch = NONE if batch.partition_leader_epoch is None else batch.partition_leader_epoch
    for record in records_of(source, batch):
        if isinstance(record, Record):
            at = (segment, batch.position, record.offset, record.timestamp, epoch)
            yield state_record(at, record.key, record.value)


def state_record(at: tuple[int, int, int, int, int], key: bytes | None, value: bytes | None) -> StateRecord:
    """Return a record as a value.

    Args:
        at: segment, position, offset, timestamp and leader epoch.
        key: its key.
        value: its value.
    """
    found = decode_record(TRANSACTION_STATE, key, value)
    if found.key is None or found.type_name != TRANSACTION_LOG:
        return StateRecord(*at, None, error=found.error or f"unknown record type {found.type_id}")
    transactional_id = found.key["transactionalId"]
    if value is None:
        return StateRecord(*at, transactional_id, is_tombstone=True)
    # Kafka passes over bytes behind the value, but refuses a version it does not know.
    if found.value is None or found.version is None or not _is_known(found.version):
        return StateRecord(*at, transactional_id, error=found.error)
    return _decoded(at, transactional_id, found, found.value)


def _is_known(version: int) -> bool:
    return 0 <= version <= TRANSACTION_LOG_VALUE.highest_version


def _decoded(
    at: tuple[int, int, int, int, int], transactional_id: str, found: DecodedMessage, value: dict[str, Any]
) -> StateRecord:
    return StateRecord(
        *at,
        transactional_id,
        version=found.version,
        status=value["transactionStatus"],
        producer_id=value["producerId"],
        producer_epoch=value["producerEpoch"],
        previous_producer_id=value.get("previousProducerId", NONE),
        next_producer_id=value.get("nextProducerId", NONE),
        next_producer_epoch=value.get("nextProducerEpoch", NONE),
        timeout_ms=value["transactionTimeoutMs"],
        transaction_version=value.get("clientTransactionVersion", 0),
        partitions=listed_partitions(value["transactionPartitions"]),
        last_update_ms=value["transactionLastUpdateTimestampMs"],
        start_ms=value["transactionStartTimestampMs"],
    )


def listed_partitions(topics: list[dict[str, Any]] | None) -> tuple[TopicPartition, ...] | None:
    """Return partitions in order, for a coordinator writes them in none; None for null."""
    if topics is None:
        return None
    return tuple(sorted({(topic["topic"], number) for topic in topics for number in topic["partitionIds"]}))
