"""The records of ``__transaction_state`` as Python values, and the constants that the coordinators' modules share."""

from __future__ import annotations

from enum import IntEnum
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.files.log_names import TRANSACTION_STATE
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_record
from kforensics.parsers.messages.transaction_log import TRANSACTION_LOG_VALUE

__all__ = [
    "ALWAYS",
    "NEVER",
    "NONE",
    "NO_TIMEOUT",
    "NO_VERSION",
    "TRANSACTION_LOG",
    "TRANSACTION_STATE",
    "VERSION_SIZE",
    "RecordHeader",
    "RecordPosition",
    "State",
    "StateRecord",
    "TopicPartition",
    "format_timeout",
    "listed_partitions",
    "state_record",
]

# Kafka's "none" for ids, epochs and timestamps; also the code of a missing name, list or marker.
NONE = -1
# A version where none can be read. Versions have 16 bits.
NO_VERSION = 1 << 16
# Bytes of the version at the start of a value, or of the type at the start of a key.
VERSION_SIZE = 2
# Times before and after all others.
ALWAYS, NEVER = NO_TIME, int(np.iinfo("i8").max)
# The timeout of a producer in a two-phase commit, whose transactions never time out (KIP-939).
NO_TIMEOUT = 2_147_483_647
TRANSACTION_LOG = "TransactionLog"

TopicPartition: TypeAlias = tuple[str, int]


def format_timeout(timeout_ms: int) -> str:
    """Return the timeout of a transactional id in words.

    >>> format_timeout(60_000), format_timeout(NO_TIMEOUT)
    ('1 min', 'none (two-phase commit)')
    """
    return "none (two-phase commit)" if timeout_ms == NO_TIMEOUT else format_duration(timeout_ms)


class RecordPosition(NamedTuple):
    """The position of a record in its partition: number of the segment, position of the batch, offset."""

    segment: int
    position: int
    offset: int


class RecordHeader(NamedTuple):
    """What the batch says about a record; see :class:`StateRecord`."""

    segment: int
    position: int
    offset: int
    timestamp: int
    leader_epoch: int


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
        """Whether the outcome is decided and the markers are being sent."""
        return self in (State.PREPARE_COMMIT, State.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether every marker is acknowledged."""
        return self in (State.COMPLETE_COMMIT, State.COMPLETE_ABORT)

    @property
    def is_idle(self) -> bool:
        """Whether a new transaction may begin."""
        return self is State.EMPTY or self.is_complete


class StateRecord(NamedTuple):
    """A record of ``__transaction_state``; a tuple, because there may be many.

    Attributes:
        segment: number of the segment.
        position: position of the batch.
        offset: offset of the record.
        timestamp: timestamp of the record in ms, -1 if it has none.
        leader_epoch: leader epoch of the batch, which is the coordinator epoch; -1 if there is none.
        transactional_id: None if the key cannot be read.
        is_tombstone: whether the record removes the id.
        error: why a broker cannot use the record, None if it can.
        version: version of the value. A tombstone or an unreadable value has None here and defaults from here on.
        status: number of the state; a damaged record may have a number that is not a :class:`State`.
        producer_id: producer id.
        producer_epoch: producer epoch.
        previous_producer_id: producer id before this state, -1 if not written.
        next_producer_id: producer id that follows this transaction, -1 if none.
        next_producer_epoch: declared since 4.1, not written by any release yet; -1 if not written.
        timeout_ms: transaction timeout.
        transaction_version: transaction version of the client's request, 0 if not written.
        partitions: sorted; None if the list is null.
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
        """The state; None for a tombstone, a broken record and an unknown number."""
        return None if self.status is None else _STATES.get(self.status)

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch

    @property
    def time(self) -> int:
        """When the record was written in ms, NO_TIME if unknown.

        The records of message format 0 have no timestamp, so the update time in the value is used. That of a Complete
        state is not: it is taken before the first marker is sent.
        """
        if self.timestamp >= 0:
            return self.timestamp
        state = self.state
        return NO_TIME if state is None or state.is_complete or self.last_update_ms < 0 else self.last_update_ms


_STATES = {int(state): state for state in State}


def state_record(header: RecordHeader, key: bytes | None, value: bytes | None) -> StateRecord:
    """Return a decoded record of ``__transaction_state``."""
    message = decode_record(TRANSACTION_STATE, key, value)
    if message.key is None or message.type_name != TRANSACTION_LOG:
        return StateRecord(*header, None, error=message.error or f"unknown record type {message.type_id}")
    transactional_id = message.key["transactionalId"]
    if value is None:
        return StateRecord(*header, transactional_id, is_tombstone=True)
    # Kafka ignores bytes after the value, but rejects an unknown version.
    if message.value is None or message.version is None or not _is_known(message.version):
        return StateRecord(*header, transactional_id, error=message.error)
    return _decoded(header, transactional_id, message, message.value)


def _is_known(version: int) -> bool:
    return 0 <= version <= TRANSACTION_LOG_VALUE.highest_version


def _decoded(
    header: RecordHeader, transactional_id: str, message: DecodedMessage, value: dict[str, Any]
) -> StateRecord:
    return StateRecord(
        *header,
        transactional_id,
        version=message.version,
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
    """Return the partitions of a transaction, sorted, because coordinators write them in any order; None for null."""
    if topics is None:
        return None
    return tuple(sorted({(topic["topic"], number) for topic in topics for number in topic["partitionIds"]}))
