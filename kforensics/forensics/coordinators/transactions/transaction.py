"""The transactions of a transactional id, put together from its states.

A transaction of one id, from its first partition to the acknowledgement of its last marker, is called an instance here:
what stands in a data partition is only that partition's part of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, StateRecord, TopicPartition
from kforensics.forensics.coordinators.transactions.transitions import LAST_EPOCH
from kforensics.forensics.core.record_types import NO_TIME, Records

__all__ = ["INSTANCE", "UNKNOWN_SET", "Building", "Instances", "PartitionSets"]

# Number of the set of partitions where none of the records that listed them is there.
UNKNOWN_SET = -1
BLOCK = 1 << 13

INSTANCE = np.dtype(
    [
        ("coordinator", "i4"),  # number of the coordinator's partition
        ("id", "i4"),  # number of the transactional id
        ("producer_id", "i8"),
        ("data_epoch", "i2"),  # -1 if no Ongoing record is there
        ("marker_epoch", "i2"),  # -1 while no end is decided
        ("status", "i1"),  # of its last record
        ("is_superseded", "?"),  # its end was decided anew, so that perhaps none of its markers was sent
        ("transaction_version", "i2"),  # of the request that ended it
        ("partitions", "i4"),  # number of their set
        ("timeout_ms", "i4"),
        ("start", "i8"),  # as the records say; NO_TIME where nothing tells, as are the others
        ("decided", "i8"),  # time of the first Prepare record
        ("completed", "i8"),  # time of the last Complete record
        ("prepare_leader_epoch", "i4"),  # -1 if there is none
        ("complete_leader_epoch", "i4"),
        ("segment", "i4"),  # of the record that decided it, else of its last one
        ("position", "i8"),
        ("offset", "i8"),
    ]
)


class PartitionSets:
    """Sets of partitions, each with a number: most transactions of an application have the same."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[TopicPartition, ...], int] = {}

    def number(self, partitions: tuple[TopicPartition, ...] | None) -> int:
        """Return the number of a set, a new one for a set not met before; UNKNOWN_SET for none."""
        return UNKNOWN_SET if partitions is None else self._numbers.setdefault(partitions, len(self._numbers))

    def __iter__(self) -> Any:
        """Return the sets in the order of their numbers."""
        return iter(self._numbers)


@dataclass(slots=True)
class Building:
    """The transaction of an id that is being put together.

    Attributes:
        last: its last record.
        data_epoch: producer epoch while it was ongoing, -1 if that is not known.
        partitions: as listed last, None if no record that lists them is there.
        prepare: the last Prepare record.
        decided: time of the first one.
        prepare_leader_epoch: leader epoch of the first one.
        complete: the last Complete record.
        is_superseded: whether its end was decided anew.
    """

    last: StateRecord
    data_epoch: int = NONE
    partitions: tuple[TopicPartition, ...] | None = None
    prepare: StateRecord | None = None
    decided: int = NO_TIME
    prepare_leader_epoch: int = NONE
    complete: StateRecord | None = None
    is_superseded: bool = False

    @classmethod
    def begun_with(cls, record: StateRecord) -> Building:
        """Return the transaction of which this is the first record on hand."""
        state = record.state
        found = cls(record)
        if state is State.ONGOING:
            found.data_epoch = record.producer_epoch
        if state is not None and not state.is_complete:
            found.partitions = record.partitions or ()
        if state is not None and state.is_prepared:
            found._decide(record)
        elif state is not None and state.is_complete:
            found.complete = record
        return found

    def takes(self, record: StateRecord, state: State) -> bool:
        """Take a later record, if it is of the same transaction and decides nothing else; whether it was."""
        same = record.start_ms == self.last.start_ms and (
            (state is State.ONGOING and self._goes_on(record))
            or (state.is_prepared and self._is_decided(record))
            or (state.is_complete and self._is_completed(record, state))
        )
        if same:
            self.last = record
        return same

    def _goes_on(self, record: StateRecord) -> bool:
        same = self.prepare is None and self.complete is None
        if not same or record.producer != (self.last.producer_id, self.data_epoch):
            return False
        self.partitions = record.partitions or ()
        return True

    def _is_decided(self, record: StateRecord) -> bool:
        if record.producer_id != self.last.producer_id or self.complete is not None:
            return False
        if self.prepare is not None and self.prepare.status != record.status:
            return False
        self.partitions = record.partitions or ()
        self._decide(record)
        return True

    def _decide(self, record: StateRecord) -> None:
        if self.prepare is None:
            self.decided, self.prepare_leader_epoch = record.time, record.leader_epoch
        self.prepare = record

    def _is_completed(self, record: StateRecord, state: State) -> bool:
        if self.complete is not None:
            same = self.complete.status == record.status and self.complete.producer == record.producer
        else:
            wanted = State.PREPARE_COMMIT if state is State.COMPLETE_COMMIT else State.PREPARE_ABORT
            same = self.prepare is not None and self.prepare.status == wanted and self._is_of(self.prepare, record)
        if same:
            self.complete = record
        return same

    @staticmethod
    def _is_of(prepare: StateRecord, complete: StateRecord) -> bool:
        rotated = prepare.producer_epoch == LAST_EPOCH and complete.producer_epoch == 0
        return rotated or prepare.producer == complete.producer

    def is_contradicted_by(self, record: StateRecord, state: State) -> bool:
        """Whether a record decides the same transaction anew, and otherwise."""
        return (
            self.prepare is not None
            and self.complete is None
            and state.is_prepared
            and record.producer_id == self.prepare.producer_id
            and record.start_ms == self.prepare.start_ms
        )

    @property
    def key(self) -> tuple[int, int]:
        """Producer id and epoch of its markers; the epoch is -1 while no end is decided."""
        if self.prepare is not None:
            return self.prepare.producer
        if self.complete is None:
            return self.last.producer_id, NONE
        previous = self.complete.previous_producer_id
        if previous not in (NONE, self.complete.producer_id):
            return previous, LAST_EPOCH
        return self.complete.producer


@dataclass(slots=True)
class Instances:
    """Gathers instances as INSTANCE records, of one coordinator's partition.

    Attributes:
        sets: sets of partitions.
    """

    sets: PartitionSets = field(default_factory=PartitionSets)
    _rows: list[tuple[Any, ...]] = field(default_factory=list)
    _blocks: list[Records] = field(default_factory=list)

    def add(self, number: int, built: Building) -> None:
        """Take an instance to which nothing more will come.

        Args:
            number: of its transactional id.
            built: the instance.
        """
        decisive = built.prepare or built.last
        producer_id, marker_epoch = built.key
        self._rows.append(
            (
                *(0, number, producer_id, built.data_epoch, marker_epoch, built.last.status, built.is_superseded),
                decisive.transaction_version,
                self.sets.number(built.partitions),
                built.last.timeout_ms,
                NO_TIME if built.last.start_ms < 0 else built.last.start_ms,
                built.decided,
                NO_TIME if built.complete is None else built.complete.time,
                built.prepare_leader_epoch,
                NONE if built.complete is None else built.complete.leader_epoch,
                *(decisive.segment, decisive.position, decisive.offset),
            )
        )
        if len(self._rows) >= BLOCK:
            self._flush()

    def _flush(self) -> None:
        self._blocks.append(np.array(self._rows, INSTANCE))
        self._rows.clear()

    def records(self) -> Records:
        """Return all of them, in the order in which they were ended or left."""
        self._flush()
        return np.concatenate(self._blocks)
