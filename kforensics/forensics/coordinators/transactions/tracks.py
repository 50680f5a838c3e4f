"""A transactional id through the log of its coordinator."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, StateRecord
from kforensics.forensics.coordinators.transactions.transaction import Building, Instances
from kforensics.forensics.core.record_types import NO_TIME

__all__ = ["LASTING", "TRANSACTIONAL_ID", "Track"]

# States that a coordinator writes; the others it only has in memory.
LASTING = frozenset(State) - {State.DEAD, State.PREPARE_EPOCH_FENCE}
MINUTE_MS = 60_000
# More often than this within a minute, and nothing committed: producers fence one another.
INITS = 10

TRANSACTIONAL_ID = np.dtype(
    [
        ("coordinator", "i4"),  # number of the coordinator's partition
        ("status", "i1"),  # of its last record; -1 for a tombstone or a broken one
        ("is_removed", "?"),  # whether that is a tombstone
        ("is_told", "?"),  # whether its first record on hand is the first there was
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("transaction_version", "i2"),
        ("timeout_ms", "i4"),
        ("start", "i8"),
        ("first_time", "i8"),  # of its first record on hand
        ("last_time", "i8"),
        ("partitions", "i4"),  # number of the set its last record lists; -1 if none
        ("inits", "i8"),  # Empty records
        ("transactions", "i8"),
        ("committed", "i8"),
        ("aborted", "i8"),
        ("producers", "i4"),  # producer ids it has had
        ("leader_epoch", "i4"),
        ("segment", "i4"),  # of its last record
        ("position", "i8"),
        ("offset", "i8"),
    ]
)


class Track:
    """What is remembered of an id.

    Attributes:
        number: of the id.
        last: its last record, None before the first.
        before: the one before that.
        producers: producer ids it has had, in the order of their coming.

    Args:
        number: of the id.
        record: its first record on hand.
        is_told: whether that is the first there was.
    """

    __slots__ = (
        *("_aborted", "_committed", "_first_time", "_init_times", "_inits", "_instance", "_is_told", "_transactions"),
        *("before", "last", "number", "producers"),
    )

    def __init__(self, number: int, record: StateRecord, *, is_told: bool) -> None:
        self.number, self._first_time, self._is_told = number, record.time, is_told
        self.last: StateRecord | None = None
        self.before: StateRecord | None = None
        self.producers: dict[int, None] = {}
        self._instance: Building | None = None
        self._init_times: deque[int] = deque(maxlen=INITS + 1)
        self._inits = self._transactions = self._committed = self._aborted = 0

    def has_left(self, producer_id: int) -> bool:
        """Whether the id had a producer id and gave it up; with the id itself goes its producer id."""
        removed = self.last is not None and self.last.is_tombstone
        return producer_id in self.producers and (removed or producer_id != next(reversed(self.producers)))

    def follow(self, record: StateRecord, instances: Instances) -> bool:
        """Take the next record; returns whether the id is fenced again and again.

        Args:
            record: the record.
            instances: told of transactions to which nothing more will come.
        """
        looping = self._take(record, instances)
        self.before, self.last = self.last, record
        return looping

    def _take(self, record: StateRecord, instances: Instances) -> bool:
        state = record.state
        if state is None or state not in LASTING:
            self.leave(instances)
            return False
        self.producers.setdefault(record.producer_id)
        if state is State.EMPTY:
            self.leave(instances)
            return self._is_looping(record)
        if self._instance is None or not self._instance.takes(record, state):
            self._begin(record, state, instances)
        if state is State.COMPLETE_COMMIT:
            self._init_times.clear()
        return False

    def _begin(self, record: StateRecord, state: State, instances: Instances) -> None:
        built, begun = self._instance, Building.begun_with(record)
        if built is not None and built.is_contradicted_by(record, state):
            built.is_superseded, begun.data_epoch = True, built.data_epoch
        else:
            self._transactions += 1
        self.leave(instances)
        self._instance = begun

    def leave(self, instances: Instances) -> None:
        """Tell of the last transaction, behind which there is nothing more to come."""
        built, self._instance = self._instance, None
        if built is None:
            return
        instances.add(self.number, built)
        if built.complete is not None:
            committed = built.complete.state is State.COMPLETE_COMMIT
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

    def row(self, instances: Instances) -> tuple[Any, ...]:
        """Return the id as a TRANSACTIONAL_ID record, once its last transaction was told of."""
        last = self.last
        if last is None:
            raise ValueError("no record was taken")
        status = NONE if last.state is None else int(last.state)
        return (
            *(0, status, last.is_tombstone, self._is_told, last.producer_id, last.producer_epoch),
            *(last.transaction_version, last.timeout_ms, NO_TIME if last.start_ms < 0 else last.start_ms),
            *(self._first_time, last.time, instances.sets.number(last.partitions)),
            *(self._inits, self._transactions, self._committed, self._aborted, len(self.producers)),
            *(last.leader_epoch, last.segment, last.position, last.offset),
        )
