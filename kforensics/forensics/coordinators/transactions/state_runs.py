"""Transactions as runs of records of an id, many at once: what :mod:`.instances` puts together record by record.

Whether a record goes on with the transaction of the one before it follows from these two alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.transactions.state_columns import NO_LIST
from kforensics.forensics.coordinators.transactions.state_steps import EMPTY_LIST, Fields, are_complete, are_prepared
from kforensics.forensics.coordinators.transactions.transaction import INSTANCE, UNKNOWN_SET
from kforensics.forensics.coordinators.transactions.transitions import LAST_EPOCH
from kforensics.forensics.core.record_arrays import chosen, picked
from kforensics.forensics.core.record_types import NO_TIME, Records

__all__ = ["NOWHERE", "RUN", "IdRows", "Runs", "instances_of"]

NOWHERE = -1
RUN = np.dtype(
    [
        ("data_epoch", "i2"),  # producer epoch while it was ongoing, -1 if that is not known
        ("is_superseded", "?"),  # whether its end was decided anew
        ("partitions", "i4"),  # number of the list in the last record that has one, UNKNOWN_SET if none is there
        ("has_prepare", "?"),
        ("decided", "i8"),  # time of the first Prepare record
        ("prepare_leader_epoch", "i4"),  # of that
    ]
)


@dataclass(frozen=True, slots=True)
class Runs:
    """Transactions, one for each row.

    Attributes:
        rows: RUN records.
        prepare: the last Prepare record of each, as STATE; it means nothing where there is none.
        last: the last record of each.
    """

    rows: Records
    prepare: Records
    last: Records

    def __len__(self) -> int:
        return len(self.rows)

    def taken(self, which: Records) -> Runs:
        """Return some of them, by their indexes."""
        return Runs(*(picked(column, which) for column in (self.rows, self.prepare, self.last)))


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class IdRows:
    """Records by their ids, and those of an id in the order of the log, behind the last two of those before them.

    Attributes:
        rows: STATE records.
        order: number of each record in its chunk; NOWHERE for the last one of the records before, less for others.
    """

    rows: Records
    order: Records

    @cached_property
    def index(self) -> Records:
        """Numbers of the rows."""
        return np.arange(len(self.rows))

    @cached_property
    def fields(self) -> Fields:
        """The columns of the rows."""
        return Fields(lambda name: np.ascontiguousarray(self.rows[name]))

    @cached_property
    def before(self) -> Fields:
        """The columns of the rows before the rows."""
        return Fields(lambda name: np.roll(self.fields[name], 1))

    @cached_property
    def has_before(self) -> Records:
        """Whether the row before a row is of the same id."""
        found: Records = np.diff(self.fields["id"], prepend=NOWHERE) == 0
        return found

    @cached_property
    def is_last(self) -> Records:
        """Whether a row is the last one of its id."""
        return np.append(~self.has_before[1:], True)[: len(self.rows)]  # the last one is

    @cached_property
    def is_new(self) -> Records:
        """Whether a row is not one of those before."""
        return self.order >= 0

    @cached_property
    def is_active(self) -> Records:
        """Whether a row is of a transaction that more may come to."""
        status = self.fields["status"]
        return (self.order >= NOWHERE) & (status >= State.ONGOING) & (status <= State.COMPLETE_ABORT)

    @cached_property
    def _follows(self) -> Records:
        """Whether a row may be of the transaction of the row before, as far as its start tells."""
        both = self.is_new & self.has_before & self.is_active & np.roll(self.is_active, 1)
        found: Records = both & (self.fields["start_ms"] == self.before["start_ms"])
        return found

    @cached_property
    def goes_on(self) -> Records:
        """Whether a row is of the same transaction as the one before, and decides nothing else."""
        rows, before = self.fields, self.before
        same_id = rows["producer_id"] == before["producer_id"]
        same = same_id & (rows["producer_epoch"] == before["producer_epoch"])
        same_status = rows["status"] == before["status"]
        rotated = (before["producer_epoch"] == LAST_EPOCH) & (rows["producer_epoch"] == 0)
        wanted = np.where(rows["status"] == State.COMPLETE_COMMIT, State.PREPARE_COMMIT, State.PREPARE_ABORT)
        completed = np.where(are_complete(before), same_status & same, (before["status"] == wanted) & (rotated | same))
        kinds = [rows["status"] == State.ONGOING, are_prepared(rows)]
        held = [same_status & same, same_id & ((before["status"] == State.ONGOING) | same_status)]
        found: Records = self._follows & np.select(kinds, held, completed)
        return found

    @cached_property
    def supersedes(self) -> Records:
        """Whether a row decides the transaction of the one before anew, and otherwise."""
        decided = are_prepared(self.fields) & are_prepared(self.before) & ~self.goes_on
        found: Records = self._follows & decided & (self.fields["producer_id"] == self.before["producer_id"])
        return found

    @cached_property
    def begins(self) -> Records:
        """Whether a row is the first one of a transaction, or all that is left of one from before."""
        return self.is_active & ~self.goes_on

    @cached_property
    def ends(self) -> Records:
        """Whether a row is the last one of a transaction so far."""
        found: Records = self.is_active & ~np.append(self.goes_on[1:], False)[: len(self.rows)]  # nothing follows
        return found

    def runs(self, carried: Runs) -> Runs:
        """Return the transactions, in the order of their rows.

        Args:
            carried: for each transaction from before, in the same order, what was known of it.
        """
        first, last = np.flatnonzero(self.begins), np.flatnonzero(self.ends)
        old = ~self.is_new[first]
        found = np.zeros(len(first), RUN)
        known = np.zeros(len(first), RUN)
        known[old] = carried.rows
        prepared = self.is_new & are_prepared(self.fields) & self.is_active
        begun, decided = self._first_of(prepared)[first], self._last_of(prepared)[last]
        has_new = decided >= first
        prepare = chosen(has_new, picked(self.rows, decided), self._spread(carried.prepare, old))
        found["has_prepare"] = has_new | known["has_prepare"]
        at = np.where(has_new, begun, 0)
        found["decided"] = np.where(has_new, self.fields["time"][at], NO_TIME)
        found["prepare_leader_epoch"] = np.where(has_new, self.fields["leader_epoch"][at], NONE)
        for name in ("decided", "prepare_leader_epoch"):
            found[name] = np.where(known["has_prepare"], known[name], found[name])
        found["data_epoch"] = self._data_epochs(first, np.where(old, known["data_epoch"], NONE))
        found["partitions"] = self._partitions(first, last, np.where(old, known["partitions"], UNKNOWN_SET))
        found["is_superseded"] = np.append(self.supersedes[first][1:], False)[: len(first)]  # as above
        return Runs(found, prepare, picked(self.rows, last))

    def _last_of(self, holds: Records) -> Records:
        return np.maximum.accumulate(np.where(holds, self.index, NOWHERE))

    def _first_of(self, holds: Records) -> Records:
        return np.minimum.accumulate(np.where(holds, self.index, len(self.index))[::-1])[::-1]

    @staticmethod
    def _spread(rows: Records, where: Records) -> Records:
        found = np.zeros(len(where), rows.dtype)
        found[where] = rows
        return found

    def _data_epochs(self, first: Records, known: Records) -> Records:
        """Return the epochs of data; a transaction that is decided anew has the same."""
        begun = self.is_new[first] & (self.fields["status"][first] == State.ONGOING)
        epochs = np.where(begun, self.fields["producer_epoch"][first], known)
        roots = np.where(self.supersedes[first], 0, np.arange(len(first)))
        found: Records = epochs[np.maximum.accumulate(roots)]
        return found

    def _partitions(self, first: Records, last: Records, known: Records) -> Records:
        """Return the numbers of the lists of partitions, which Complete records do not have any more."""
        listing = self._last_of(self.is_new & self.is_active & ~are_complete(self.fields))[last]
        listed = self.fields["partitions"][listing]
        return np.where(listing >= first, np.where(listed == NO_LIST, EMPTY_LIST, listed), known)


def instances_of(runs: Runs) -> Records:
    """Return transactions as INSTANCE records, with the numbers of lists in place of those of sets."""
    rows, prepare, last = runs.rows, runs.prepare, runs.last
    decisive = chosen(rows["has_prepare"], prepare, last)
    completed = are_complete(last)
    found = np.zeros(len(runs), INSTANCE)
    for name in ("id", "status", "timeout_ms"):
        found[name] = last[name]
    for name in ("data_epoch", "is_superseded", "partitions", "decided", "prepare_leader_epoch"):
        found[name] = rows[name]
    for name in ("transaction_version", "segment", "position", "offset"):
        found[name] = decisive[name]
    found["start"] = np.where(last["start_ms"] < 0, NO_TIME, last["start_ms"])
    found["completed"] = np.where(completed, last["time"], NO_TIME)
    found["complete_leader_epoch"] = np.where(completed, last["leader_epoch"], NONE)
    previous = last["previous_producer_id"]
    left = ~rows["has_prepare"] & completed & (previous != NONE) & (previous != last["producer_id"])
    found["producer_id"] = np.where(left, previous, decisive["producer_id"])
    undecided = ~rows["has_prepare"] & ~completed
    found["marker_epoch"] = np.select([left, undecided], [LAST_EPOCH, NONE], decisive["producer_epoch"])
    return found
