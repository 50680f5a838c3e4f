"""The reference for the transactions of a transactional id: assembled from its records one by one."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, StateRecord, TopicPartition
from kforensics.forensics.coordinators.transactions.history import (
    COORDINATOR_TRANSACTION,
    CoordinatorTransactionArray,
    PartitionSets,
)
from kforensics.forensics.coordinators.transactions.id_tracks import INITS
from kforensics.forensics.coordinators.transactions.transitions import MAX_PRODUCER_EPOCH
from kforensics.forensics.core.formatting import MINUTE_MS
from kforensics.forensics.core.record_types import NO_TIME

__all__ = ["LASTING", "IdTrack", "TransactionRows"]

# The states that a coordinator writes; the others exist in memory only.
LASTING = frozenset(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that is being assembled.

    Attributes:
        last: its last record.
        data_epoch: producer epoch while it was ongoing, -1 if unknown.
        partitions: the last list of partitions, None if no record that has one is available.
        prepare: the last Prepare record.
        decided: time of the first Prepare record.
        prepare_leader_epoch: leader epoch of the first Prepare record.
        complete: the last Complete record.
        is_superseded: whether the coordinator decided its outcome again.
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
    def begun_with(cls, record: StateRecord) -> OpenTransaction:
        """Return the transaction whose first available record is this one."""
        state = record.state
        transaction = cls(record)
        if state is State.ONGOING:
            transaction.data_epoch = record.producer_epoch
        if state is not None and not state.is_complete:
            transaction.partitions = record.partitions or ()
        if state is not None and state.is_prepared:
            transaction._decide(record)
        elif state is not None and state.is_complete:
            transaction.complete = record
        return transaction

    def takes(self, record: StateRecord, state: State) -> bool:
        """Take a later record if it belongs to the same transaction and does not change the decision."""
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
        rotated = prepare.producer_epoch == MAX_PRODUCER_EPOCH and complete.producer_epoch == 0
        return rotated or prepare.producer == complete.producer

    def is_contradicted_by(self, record: StateRecord, state: State) -> bool:
        """Whether a record changes the decision on the same transaction."""
        return (
            self.prepare is not None
            and self.complete is None
            and state.is_prepared
            and record.producer_id == self.prepare.producer_id
            and record.start_ms == self.prepare.start_ms
        )

    @property
    def key(self) -> tuple[int, int]:
        """Producer id and epoch of its markers; the epoch is -1 while the outcome is undecided."""
        if self.prepare is not None:
            return self.prepare.producer
        if self.complete is None:
            return self.last.producer_id, NONE
        previous = self.complete.previous_producer_id
        if previous not in (NONE, self.complete.producer_id):
            return previous, MAX_PRODUCER_EPOCH
        return self.complete.producer


@dataclass(slots=True)
class TransactionRows:
    """Collects the transactions of one coordinator's partition as COORDINATOR_TRANSACTION records.

    Attributes:
        sets: numbers sets of partitions.
    """

    sets: PartitionSets = field(default_factory=PartitionSets)
    _rows: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, number: int, transaction: OpenTransaction) -> None:
        """Add a transaction that no later record can continue.

        Args:
            number: number of its transactional id.
            transaction: the transaction.
        """
        last, complete = transaction.last, transaction.complete
        decisive = transaction.prepare or last
        producer_id, marker_epoch = transaction.key
        self._rows.append(
            (
                *(0, number, producer_id, transaction.data_epoch, marker_epoch, last.status),
                *(transaction.is_superseded, decisive.transaction_version, self.sets.number(transaction.partitions)),
                *(last.timeout_ms, NO_TIME if last.start_ms < 0 else last.start_ms, transaction.decided),
                *(NO_TIME if complete is None else complete.time, transaction.prepare_leader_epoch),
                NONE if complete is None else complete.leader_epoch,
                *(decisive.segment, decisive.position, decisive.offset),
            )
        )

    def rows(self) -> CoordinatorTransactionArray:
        """Return all transactions, in the order in which they ended or were abandoned."""
        return np.array(self._rows, COORDINATOR_TRANSACTION)


class IdTrack:
    """The state of a transactional id while its coordinator's log is read.

    Attributes:
        number: number of the id.
        last: its last record, None before the first one.
        before: the newest record before that which may have been applied.
        producers: the producer ids it has had, in the order of their first use.

    Args:
        number: number of the id.
        record: its first available record.
        history_complete: whether that is the first one ever written.
    """

    def __init__(self, number: int, record: StateRecord, *, history_complete: bool) -> None:
        self.number, self._first_time, self._history_complete = number, record.time, history_complete
        self.last: StateRecord | None = None
        self.before: StateRecord | None = None
        self.producers: dict[int, None] = {}
        self._transaction: OpenTransaction | None = None
        self._init_times: deque[int] = deque(maxlen=INITS + 1)
        self._inits = self._transactions = self._committed = self._aborted = 0

    def has_left(self, producer_id: int) -> bool:
        """Whether the id had a producer id and gave it up; removing the id gives up its producer id, too."""
        removed = self.last is not None and self.last.is_tombstone
        return producer_id in self.producers and (removed or producer_id != next(reversed(self.producers)))

    def follow(self, record: StateRecord, rows: TransactionRows, *, applied: bool) -> bool:
        """Take the next record; return whether the producers of the id are in a fencing loop.

        Args:
            record: the record.
            rows: collects transactions that no later record can continue.
            applied: whether the last record may have been applied.
        """
        looping = self._take(record, rows)
        self.before, self.last = self.last if applied else self.before, record
        return looping

    def _take(self, record: StateRecord, rows: TransactionRows) -> bool:
        state = record.state
        if state is None or state not in LASTING:
            self.leave(rows)
            return False
        self.producers.setdefault(record.producer_id)
        if state is State.EMPTY:
            self.leave(rows)
            return self._is_looping(record)
        if self._transaction is None or not self._transaction.takes(record, state):
            self._begin(record, state, rows)
        if state is State.COMPLETE_COMMIT:
            self._init_times.clear()
        return False

    def _begin(self, record: StateRecord, state: State, rows: TransactionRows) -> None:
        transaction, begun = self._transaction, OpenTransaction.begun_with(record)
        if transaction is not None and transaction.is_contradicted_by(record, state):
            transaction.is_superseded, begun.data_epoch = True, transaction.data_epoch
        else:
            self._transactions += 1
        self.leave(rows)
        self._transaction = begun

    def leave(self, rows: TransactionRows) -> None:
        """Emit the last transaction, which no later record can continue."""
        transaction, self._transaction = self._transaction, None
        if transaction is None:
            return
        rows.add(self.number, transaction)
        if transaction.complete is not None:
            committed = transaction.complete.state is State.COMPLETE_COMMIT
            self._committed += committed
            self._aborted += not committed

    def _is_looping(self, record: StateRecord) -> bool:
        self._inits += 1
        self._init_times.append(record.time)
        times = self._init_times
        looping = len(times) > INITS and times[-1] - times[0] <= MINUTE_MS
        if looping:
            times.clear()
        return looping

    def row(self, sets: PartitionSets) -> tuple[Any, ...]:
        """Return the id as a TRANSACTIONAL_ID record, after its last transaction was emitted."""
        last = self.last
        assert last is not None
        status = NONE if last.state is None else int(last.state)
        return (
            *(0, status, last.is_tombstone, self._history_complete, last.producer_id, last.producer_epoch),
            *(last.transaction_version, last.timeout_ms, NO_TIME if last.start_ms < 0 else last.start_ms),
            *(self._first_time, last.time, sets.number(last.partitions)),
            *(self._inits, self._transactions, self._committed, self._aborted, len(self.producers)),
            *(last.leader_epoch, last.segment, last.position, last.offset),
        )
