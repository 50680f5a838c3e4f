"""The transitions between states of a transactional id, evaluated for many pairs of records at once.

Rule: ``TransactionMetadata.prepareTransitionTo`` and ``completeTransitionTo``, and what releases 0.11 to 4.4 were
observed to write. ``tests/reference/coordinator_history.py`` has the same rules for a single pair of records.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.transactions.state_columns import NO_LIST, PartitionLists, StateRowArray
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

__all__ = [
    "EMPTY_LIST",
    "EXHAUSTED",
    "FENCED",
    "MAX_PRODUCER_EPOCH",
    "TV2",
    "StateFields",
    "StateStep",
    "are_complete",
    "are_idle",
    "are_lasting",
    "are_prepared",
    "steps_between",
]

MAX_PRODUCER_EPOCH = 32_767
# TransactionMetadata.isEpochExhausted: from this epoch on, an id takes a new producer id before its next transaction.
EXHAUSTED = MAX_PRODUCER_EPOCH - 1
# The most that fencing adds to the epoch: 1, or 2 up to 4.0.0 if the client uses version 2 (KAFKA-19367).
FENCED = 2
TV2 = 2
# Number of the empty list in every PartitionLists.
EMPTY_LIST = 0


class StateStep(IntEnum):
    """How a record of an id follows the previous one."""

    FIRST = 0
    NEXT = 1
    AGAIN = 2
    FLIPPED = 3
    UNAPPLIED = 4
    ILLEGAL = 5
    UNKNOWN = 6

    def __str__(self) -> str:
        return self.name.lower()


class StateFields:
    """Columns of STATE_ROW records by name, each extracted once: contiguous numbers are processed faster.

    Args:
        extract: extracts a column by its name.
    """

    def __init__(self, extract: Callable[[str], Column]) -> None:
        self._extract = extract
        self._columns: dict[str, Column] = {}

    def __getitem__(self, name: str) -> Column:
        """Return a column."""
        if name not in self._columns:
            self._columns[name] = self._extract(name)
        return self._columns[name]

    def select(self, rows: IntArray) -> StateFields:
        """Return the columns of some of the records, by index."""
        return StateFields(lambda name: self[name][rows])


def are_lasting(rows: StateFields | StateRowArray) -> BoolArray:
    """Whether records have a state that coordinators write; Dead and PrepareEpochFence exist in memory only."""
    return (rows["status"] >= State.EMPTY) & (rows["status"] <= State.COMPLETE_ABORT)


def are_prepared(rows: StateFields | StateRowArray) -> BoolArray:
    """Whether records decide the outcome of a transaction."""
    prepared: BoolArray = (rows["status"] == State.PREPARE_COMMIT) | (rows["status"] == State.PREPARE_ABORT)
    return prepared


def are_complete(rows: StateFields | StateRowArray) -> BoolArray:
    """Whether records complete a transaction."""
    complete: BoolArray = (rows["status"] == State.COMPLETE_COMMIT) | (rows["status"] == State.COMPLETE_ABORT)
    return complete


def are_idle(rows: StateFields | StateRowArray) -> BoolArray:
    """Whether a new transaction may begin after records."""
    idle: BoolArray = (rows["status"] == State.EMPTY) | are_complete(rows)
    return idle


def steps_between(before: StateFields, after: StateFields, has_before: BoolArray, lists: PartitionLists) -> IntArray:
    """Return how each record follows the one written immediately before it for the same transactional id.

    An append that timed out may still be in the log. The coordinator then writes the state again, or decides again, so
    that the same state or the other decision may follow.

    Args:
        before: the earlier records, each a tombstone or of a lasting state.
        after: the later records, also each a tombstone or of a lasting state.
        has_before: whether there is an earlier record at all; if not, the row of ``before`` is ignored.
        lists: the lists of partitions, by number.

    Returns:
        Numbers of ``StateStep``.
    """
    pairs = _Pairs(before, after, lists)
    begins = (after["status"] == State.EMPTY) & (after["producer_epoch"] == 0) & pairs.is_unlisted
    # Without an earlier record, as after a tombstone, an id begins.
    first = np.where(
        after["is_tombstone"], np.where(has_before, StateStep.AGAIN, StateStep.ILLEGAL), _legal(begins, StateStep.FIRST)
    )
    both_prepared = are_prepared(before) & are_prepared(after)
    return np.select(
        [~has_before | before["is_tombstone"], after["is_tombstone"], pairs.is_again(), both_prepared],
        [first, _legal(are_idle(before)), np.full(len(has_before), StateStep.AGAIN), pairs.decided_again()],
        _legal(pairs.is_next()),
    )


def _legal(condition: BoolArray, step: StateStep = StateStep.NEXT) -> IntArray:
    return np.where(condition, step, StateStep.ILLEGAL)


class _Pairs:
    """Pairs of consecutive records; each method evaluates one rule for all pairs."""

    def __init__(self, before: StateFields, after: StateFields, lists: PartitionLists) -> None:
        self._before, self._after, self._lists = before, after, lists
        self._from, self._to = before["status"], after["status"]
        self._same_id = before["producer_id"] == after["producer_id"]
        # Epochs have 16 bits, their difference has 17.
        self._bump = after["producer_epoch"].astype("i4") - before["producer_epoch"]
        self._same_producer = self._same_id & (self._bump == 0)
        self._same_list = before["partitions"] == after["partitions"]
        self._same_start = before["start_ms"] == after["start_ms"]
        self._from_idle, self._from_ongoing = are_idle(before), self._from == State.ONGOING
        self.is_unlisted = (after["partitions"] == NO_LIST) | (after["partitions"] == EMPTY_LIST)

    def is_again(self) -> BoolArray:
        again: BoolArray = (self._from == self._to) & self._same_producer & self._same_list & self._same_start
        return again

    def decided_again(self) -> IntArray:
        # The epoch may be bumped: a transaction that times out while the coordinator retries its end is fenced.
        legal = self._same_id & self._same_list & (self._bump >= 0) & (self._bump <= FENCED)
        return np.where(legal, np.where(self._from == self._to, StateStep.AGAIN, StateStep.FLIPPED), StateStep.ILLEGAL)

    def is_next(self) -> BoolArray:
        return np.select(
            [self._to == State.EMPTY, self._to == State.ONGOING, are_prepared(self._after)],
            [self._from_idle & self._is_init(), self._is_ongoing(), self._is_end()],
            self._is_completion(),
        )

    def _is_init(self) -> BoolArray:
        """InitProducerId: the next epoch, the same if the response was lost, a new producer id if epochs ran out."""
        rotated = (self._before["producer_epoch"] >= EXHAUSTED) & (self._after["producer_epoch"] == 0)
        bumped = (self._bump == 0) | (self._bump == 1)
        init: BoolArray = self.is_unlisted & np.where(self._same_id, bumped, rotated)
        return init

    def _is_ongoing(self) -> BoolArray:
        """AddPartitionsToTxn, by the producer itself, or AddOffsetsToTxn for the offsets of a group."""
        grown = self._from_ongoing & self._same_start
        pairs = np.flatnonzero(grown & ~self.is_unlisted & (self._to == State.ONGOING))
        grown[pairs] = self._grows(pairs)
        ongoing: BoolArray = self._same_producer & ~self.is_unlisted & (self._from_idle | grown)
        return ongoing

    def _grows(self, pairs: IntArray) -> BoolArray:
        """Return whether the later list is a proper superset of the earlier one; distinct pairs of lists are few."""
        codes = self._before["partitions"][pairs].astype("i8") << 32 | self._after["partitions"][pairs]
        distinct, numbers = np.unique(codes, return_inverse=True)
        at = self._lists.at
        grown = [set(at(code & 0xFFFFFFFF) or ()) > set(at(code >> 32) or ()) for code in distinct.tolist()]
        return np.array(grown, "?")[numbers]

    def _is_end(self) -> BoolArray:
        # An abort of an empty transaction, which version 2 allows (KAFKA-14563).
        empty = (self._to == State.PREPARE_ABORT) & self.is_unlisted & ((self._bump == 0) | (self._bump == 1))
        commit = self._bump == (self._after["transaction_version"] >= TV2)
        bumped = np.where(self._to == State.PREPARE_COMMIT, commit, (self._bump >= 0) & (self._bump <= FENCED))
        ends = self._from_ongoing & self._same_list & self._same_start & bumped
        end: BoolArray = self._same_id & np.where(self._from_idle, empty, ends)
        return end

    def _is_completion(self) -> BoolArray:
        commits = (self._from == State.PREPARE_COMMIT) & (self._to == State.COMPLETE_COMMIT)
        aborts = (self._from == State.PREPARE_ABORT) & (self._to == State.COMPLETE_ABORT)
        completion: BoolArray = (
            (commits | aborts) & self.is_unlisted & self._same_start & (self._same_producer | self._is_rotation())
        )
        return completion

    def _is_rotation(self) -> BoolArray:
        """A transaction of version 2 that used the last epoch leaves its id with the next producer id."""
        following = self._before["next_producer_id"]
        named = (following == NONE) | (following == self._after["producer_id"])
        rotation: BoolArray = (
            (self._before["producer_epoch"] == MAX_PRODUCER_EPOCH) & (self._after["producer_epoch"] == 0) & named
        )
        return rotation
