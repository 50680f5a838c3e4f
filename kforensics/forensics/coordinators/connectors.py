"""What the topics of Kafka Connect say about connectors: where a source goes on, and which tasks are fenced.

Rules: ``KafkaConfigBackingStore``: a ``commit-`` record makes the configurations of tasks before it valid, and the
leader must fence the tasks of earlier ones until it writes a ``tasks-fencing-`` record (KIP-618).
``KafkaOffsetBackingStore``: the last committed record of a source partition counts; a tombstone removes it. With
exactly-once support both topics are read with ``isolation.level=read_committed``, as here; without, nothing is aborted.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import transactions_before
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.connect import CONNECT_TOPICS, ConnectKind, ConnectRecord, connect_record
from kforensics.parsers.messages.reader import MessageError

__all__ = ["Connector", "SourceOffset", "connectors_of", "is_of_connect"]

STATUS_KINDS = (ConnectKind.CONNECTOR_STATUS, ConnectKind.TASK_STATUS, ConnectKind.TOPIC_STATUS)


class SourceOffset(NamedTuple):
    """How far a source connector has come in a part of its source.

    Attributes:
        partition: the part, as JSON.
        offset: how far, as JSON.
        time: timestamp of the record, NO_TIME if unknown.
        topic: the topic with the record.
    """

    partition: str
    offset: str
    time: int
    topic: str


@dataclass(slots=True)
class Connector:
    """What is known about a connector.

    Attributes:
        name: its name.
        offsets: the offsets of a source connector in force, by the part of the source.
        tasks: number of tasks of its newest configuration, None if it is unknown.
        task_count: number of tasks in its last task count record; None without one.
        is_fenced: whether that record follows the newest configuration of tasks.
        state: its last status, None if it is unknown; a worker that is killed leaves it as it was.
        topics: the topics with records of it, those with its status left out.
    """

    name: str
    offsets: dict[str, SourceOffset] = field(default_factory=dict)
    tasks: int | None = None
    task_count: int | None = None
    is_fenced: bool = False
    state: str | None = None
    topics: set[str] = field(default_factory=set)

    def take(self, record: ConnectRecord, time: int, topic: str) -> None:
        """Take a record of the connector, in the order of its topic."""
        if record.kind not in STATUS_KINDS:
            self.topics.add(topic)
        value = record.value or {}
        match record.kind:
            case ConnectKind.SOURCE_OFFSET:
                part = _json(record.partition)
                self.offsets.pop(part, None)
                if record.value is not None:
                    self.offsets[part] = SourceOffset(part, _json(record.value), time, topic)
            case ConnectKind.TASKS_COMMIT:
                self.tasks, self.is_fenced = _number(value.get("tasks")), False
            case ConnectKind.TASK_COUNT:
                self.task_count, self.is_fenced = _number(value.get("task-count")), True
            case ConnectKind.CONNECTOR_STATUS:
                state = value.get("state")
                self.state = state if isinstance(state, str) else None

    @property
    def has_two_owners(self) -> bool:
        """Whether several Connect clusters may have a connector of this name, so that the records say nothing."""
        of_offsets = {one.topic for one in self.offsets.values()}
        return len(of_offsets) > 1 or len(self.topics - of_offsets) > 1


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(", ", ": "))


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def is_of_connect(partition: Partition) -> bool:
    """Return whether a partition is of a topic of Kafka Connect: by its name and by its first record.

    Raises:
        InputError: a segment cannot be read.
    """
    if CONNECT_TOPICS.fullmatch(partition.place.topic or "") is None:
        return False
    for segment in partition.segments:
        with open_source(segment.path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid and not batch.is_control:
                    records = (one for one in read_records(source, batch) if isinstance(one, Record))
                    first = next(records, None)
                    return first is not None and connect_record(first.key, None) is not None
    return False


def connectors_of(states: Iterable[PartitionState]) -> dict[str, Connector]:
    """Return the connectors in the topics of Kafka Connect, by name.

    Args:
        states: the partitions of these topics.

    Raises:
        InputError: a segment cannot be read.
    """
    connectors: dict[str, Connector] = {}
    for state in states:
        topic = state.partition.place.topic or ""
        for record in _committed(state):
            with suppress(MessageError):
                known = connect_record(record.key, record.value)
                if known is not None and known.connector is not None:
                    time = record.timestamp if record.timestamp >= 0 else NO_TIME
                    connectors.setdefault(known.connector, Connector(known.connector)).take(known, time, topic)
    return connectors


def _committed(state: PartitionState) -> Iterator[Record]:
    """Yield the data records of a partition without those of aborted and open transactions."""
    for segment in state.partition.segments:
        with open_source(segment.path) as source:
            for batch in walk(source):
                if not isinstance(batch, Batch) or not batch.crc_valid or batch.is_control:
                    continue
                if not (batch.is_transactional and _is_hidden(state, batch)):
                    yield from (one for one in read_records(source, batch) if isinstance(one, Record))


def _is_hidden(state: PartitionState, batch: Batch) -> bool:
    first = batch.base_offset or 0
    (row,) = transactions_before(state, np.array([batch.producer_id], "i8"), np.array([first + 1], "i8"))
    is_inside = row["producer_id"] == batch.producer_id and row["last_offset"] >= first
    return bool(is_inside) and TransactionOutcome(row["outcome"]) is not TransactionOutcome.COMMITTED
