"""Transactions of transactional ids as runs of consecutive records of one id, for many ids at once.

Whether a record continues the transaction of the previous record follows from these two records alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.transactions.history import (
    COORDINATOR_TRANSACTION,
    UNKNOWN_SET,
    CoordinatorTransactionArray,
)
from kforensics.forensics.coordinators.transactions.state_columns import NO_LIST, StateRowArray
from kforensics.forensics.coordinators.transactions.transitions import (
    EMPTY_LIST,
    MAX_PRODUCER_EPOCH,
    StateFields,
    are_complete,
    are_prepared,
)
from kforensics.forensics.core.record_arrays import take_rows, where_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

# Order of the last record of an id before the chunk; see IdRows.
CARRIED = -1
TRANSACTION_RUN = np.dtype(
    [
        ("data_epoch", "i2"),  # producer epoch while it was ongoing, -1 if unknown
        ("is_superseded", "?"),  # whether the coordinator decided its outcome again
        ("partitions", "i4"),  # number of the list in the last record that has one, UNKNOWN_SET if there is none
        ("has_prepare", "?"),
        ("decided", "i8"),  # time of the first Prepare record
        ("prepare_leader_epoch", "i4"),  # leader epoch of the first Prepare record
    ]
)
TransactionRunArray: TypeAlias = StructArray


@dataclass(frozen=True, slots=True)
class TransactionRuns:
    """Transactions, one per row.

    Attributes:
        rows: TRANSACTION_RUN records.
        prepare: the last Prepare record of each, as STATE_ROW; meaningless if there is none.
        last: the last record of each.
    """

    rows: TransactionRunArray
    prepare: StateRowArray
    last: StateRowArray

    def __len__(self) -> int:
        return len(self.rows)

    def select(self, indexes: IntArray) -> TransactionRuns:
        """Return some of the transactions, by index."""
        return TransactionRuns(*(take_rows(column, indexes) for column in (self.rows, self.prepare, self.last)))


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class IdRows:
    """The records of a chunk sorted by id, those of an id in the order of the log.

    The records of each id follow the last two records that it had before the chunk.

    Attributes:
        rows: STATE_ROW records.
        order: index of each record in the chunk; CARRIED for the last record before the chunk, less for the one before
            that.
    """

    rows: StateRowArray
    order: IntArray

    @cached_property
    def index(self) -> IntArray:
        """The index of each row."""
        return np.arange(len(self.rows))

    @cached_property
    def fields(self) -> StateFields:
        """The columns of the rows."""
        return StateFields(lambda name: np.ascontiguousarray(self.rows[name]))

    @cached_property
    def before(self) -> StateFields:
        """The columns of the row before each row."""
        return StateFields(lambda name: np.roll(self.fields[name], 1))

    @cached_property
    def has_before(self) -> BoolArray:
        """Whether the row before each row has the same id."""
        same_id: BoolArray = np.diff(self.fields["id"], prepend=-1) == 0
        return same_id

    @cached_property
    def is_last(self) -> BoolArray:
        """Whether each row is the last one of its id."""
        return np.append(~self.has_before[1:], True)[: len(self.rows)]

    @cached_property
    def is_new(self) -> BoolArray:
        """Whether each row is a record of the chunk."""
        return self.order >= 0

    @cached_property
    def is_active(self) -> BoolArray:
        """Whether each row belongs to a transaction that later records may continue."""
        status = self.fields["status"]
        return (self.order >= CARRIED) & (status >= State.ONGOING) & (status <= State.COMPLETE_ABORT)

    @cached_property
    def _same_start(self) -> BoolArray:
        """Whether each row may belong to the transaction of the row before it, judging by their start times."""
        both_active = self.is_new & self.has_before & self.is_active & np.roll(self.is_active, 1)
        same_start: BoolArray = both_active & (self.fields["start_ms"] == self.before["start_ms"])
        return same_start

    @cached_property
    def continues(self) -> BoolArray:
        """Whether each row belongs to the transaction of the row before it and does not change the decision."""
        rows, before = self.fields, self.before
        same_id = rows["producer_id"] == before["producer_id"]
        same_producer = same_id & (rows["producer_epoch"] == before["producer_epoch"])
        same_status = rows["status"] == before["status"]
        rotated = (before["producer_epoch"] == MAX_PRODUCER_EPOCH) & (rows["producer_epoch"] == 0)
        prepare = np.where(rows["status"] == State.COMPLETE_COMMIT, State.PREPARE_COMMIT, State.PREPARE_ABORT)
        completes = np.where(
            are_complete(before), same_status & same_producer, (before["status"] == prepare) & (rotated | same_producer)
        )
        kinds = [rows["status"] == State.ONGOING, are_prepared(rows)]
        rules = [same_status & same_producer, same_id & ((before["status"] == State.ONGOING) | same_status)]
        continues: BoolArray = self._same_start & np.select(kinds, rules, completes)
        return continues

    @cached_property
    def supersedes(self) -> BoolArray:
        """Whether each row changes the decision on the transaction of the row before it."""
        decides_again = are_prepared(self.fields) & are_prepared(self.before) & ~self.continues
        same_id = self.fields["producer_id"] == self.before["producer_id"]
        supersedes: BoolArray = self._same_start & decides_again & same_id
        return supersedes

    @cached_property
    def begins(self) -> BoolArray:
        """Whether each row is the first one of a transaction, or all that is left of one from before the chunk."""
        return self.is_active & ~self.continues

    @cached_property
    def ends(self) -> BoolArray:
        """Whether each row is the last one of a transaction so far."""
        ends: BoolArray = self.is_active & ~np.append(self.continues[1:], False)[: len(self.rows)]
        return ends

    def runs(self, carried: TransactionRuns) -> TransactionRuns:
        """Return the transactions, in the order of their rows.

        Args:
            carried: the transactions that began before the chunk, in the same order.
        """
        first, last = np.flatnonzero(self.begins), np.flatnonzero(self.ends)
        is_carried = ~self.is_new[first]
        known = np.zeros(len(first), TRANSACTION_RUN)
        known[is_carried] = carried.rows
        prepared = self.is_new & are_prepared(self.fields) & self.is_active
        first_prepare, last_prepare = self._next_index(prepared)[first], self._last_index(prepared)[last]
        has_new = last_prepare >= first
        carried_prepare = np.zeros(len(first), carried.prepare.dtype)
        carried_prepare[is_carried] = carried.prepare
        decision = np.where(has_new, first_prepare, 0)
        runs = np.zeros(len(first), TRANSACTION_RUN)
        runs["has_prepare"] = has_new | known["has_prepare"]
        runs["decided"] = np.where(has_new, self.fields["time"][decision], NO_TIME)
        runs["prepare_leader_epoch"] = np.where(has_new, self.fields["leader_epoch"][decision], NONE)
        for name in ("decided", "prepare_leader_epoch"):
            runs[name] = np.where(known["has_prepare"], known[name], runs[name])
        runs["data_epoch"] = self._data_epochs(first, np.where(is_carried, known["data_epoch"], NONE))
        runs["partitions"] = self._partitions(first, last, np.where(is_carried, known["partitions"], UNKNOWN_SET))
        runs["is_superseded"] = np.append(self.supersedes[first][1:], False)[: len(first)]
        prepare = where_rows(has_new, take_rows(self.rows, last_prepare), carried_prepare)
        return TransactionRuns(runs, prepare, take_rows(self.rows, last))

    def _last_index(self, mask: BoolArray) -> IntArray:
        """Return the index of the last marked row up to each row, -1 if there is none."""
        return np.maximum.accumulate(np.where(mask, self.index, -1))

    def _next_index(self, mask: BoolArray) -> IntArray:
        """Return the index of the first marked row from each row on."""
        return np.minimum.accumulate(np.where(mask, self.index, len(self.index))[::-1])[::-1]

    def _data_epochs(self, first: IntArray, known: IntArray) -> IntArray:
        """Return the epochs of the data; a transaction that supersedes another one has the same."""
        is_ongoing = self.is_new[first] & (self.fields["status"][first] == State.ONGOING)
        epochs = np.where(is_ongoing, self.fields["producer_epoch"][first], known)
        roots = np.where(self.supersedes[first], 0, np.arange(len(first)))
        data_epochs: IntArray = epochs[np.maximum.accumulate(roots)]
        return data_epochs

    def _partitions(self, first: IntArray, last: IntArray, known: IntArray) -> IntArray:
        """Return the numbers of the lists of partitions, which Complete records no longer have."""
        listing = self._last_index(self.is_new & self.is_active & ~are_complete(self.fields))[last]
        listed = self.fields["partitions"][listing]
        return np.where(listing >= first, np.where(listed == NO_LIST, EMPTY_LIST, listed), known)


def transactions_of(runs: TransactionRuns) -> CoordinatorTransactionArray:
    """Return COORDINATOR_TRANSACTION records, with the numbers of lists in place of those of sets."""
    rows, prepare, last = runs.rows, runs.prepare, runs.last
    decisive = where_rows(rows["has_prepare"], prepare, last)
    completed = are_complete(last)
    transactions = np.zeros(len(runs), COORDINATOR_TRANSACTION)
    for name in ("id", "status", "timeout_ms"):
        transactions[name] = last[name]
    for name in ("data_epoch", "is_superseded", "partitions", "decided", "prepare_leader_epoch"):
        transactions[name] = rows[name]
    for name in ("transaction_version", "segment", "position", "offset"):
        transactions[name] = decisive[name]
    transactions["start"] = np.where(last["start_ms"] < 0, NO_TIME, last["start_ms"])
    transactions["completed"] = np.where(completed, last["time"], NO_TIME)
    transactions["complete_leader_epoch"] = np.where(completed, last["leader_epoch"], NONE)
    # A Complete record alone that brought a new producer id: the markers have the last epoch of the previous id.
    previous = last["previous_producer_id"]
    rotated = ~rows["has_prepare"] & completed & (previous != NONE) & (previous != last["producer_id"])
    transactions["producer_id"] = np.where(rotated, previous, decisive["producer_id"])
    undecided = ~rows["has_prepare"] & ~completed
    transactions["marker_epoch"] = np.select(
        [rotated, undecided], [MAX_PRODUCER_EPOCH, NONE], decisive["producer_epoch"]
    )
    return transactions
