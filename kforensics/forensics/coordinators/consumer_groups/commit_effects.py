"""What commits do to the offsets in force, of many groups and partitions at once.

All that takes effect is sorted by group and partition, in the order in which it does, behind what was known before.
What the rules of :mod:`.commit_records` ask for then stands in the rows before, or begins with one of them.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_tables import CommitTable
from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import Records

__all__ = ["Effects", "Kind"]

NOTHING = -1


class Kind(IntEnum):
    """What takes effect, or what was known before.

    ``KNOWN`` is the commit in force, ``OTHER`` and ``BEFORE`` what is remembered of transactions, in that order.
    """

    KNOWN = 0
    OTHER = 1
    BEFORE = 2
    REMOVED = 3
    PLAIN = 4
    TRANSACTIONAL = 5


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Effects:
    """Rows by key, and those of a key in the order in which they take effect, what was known before them.

    Attributes:
        keys: numbers of group, topic and partition.
        kinds: what the rows are.
        source: which row of the table is the commit.
        table: commits.
        modes: for what was known, whether commits came with transactions, and whether some came without.
    """

    keys: Records
    kinds: Records
    source: Records
    table: CommitTable
    modes: tuple[Records, Records]

    def rows(self, which: Records) -> Records:
        """Return the COMMITTED records of some rows."""
        return picked(self.table.rows, self.source[which])

    @cached_property
    def index(self) -> Records:
        """Numbers of the rows."""
        return np.arange(len(self.keys))

    @cached_property
    def is_first(self) -> Records:
        """Whether a row is the first one of its key."""
        found: Records = np.diff(self.keys, prepend=NOTHING) != 0
        return found

    @cached_property
    def is_last(self) -> Records:
        """Whether a row is the last one of its key."""
        found: Records = np.diff(self.keys, append=NOTHING) != 0
        return found

    @cached_property
    def begins_life(self) -> Records:
        """Whether nothing of a key was known before a row: it is the first, or the one behind a removal."""
        found: Records = self.is_first | (np.roll(self.kinds, 1) == Kind.REMOVED)
        return found

    @cached_property
    def in_transaction(self) -> Records:
        """Whether a row is a commit that a transaction brought, now or before."""
        return np.isin(self.kinds, (Kind.TRANSACTIONAL, Kind.OTHER, Kind.BEFORE))

    @cached_property
    def begins_run(self) -> Records:
        """Whether no commit of a transaction that is remembered stands before a row."""
        return self.begins_life | ~self.in_transaction | ~np.roll(self.in_transaction, 1)

    @cached_property
    def in_force(self) -> Records:
        """Number of the row with the commit that is in force behind a row; the row of a removal means that none is.

        What a transaction committed does not replace a commit whose record stands further behind.
        """
        begins = self.begins_life | (self.kinds == Kind.PLAIN) | (self.kinds == Kind.REMOVED)
        if begins.all():
            return self.index
        ranks = np.unique(self.table.rows["offset"][self.source], return_inverse=True)[1] + 1
        ranks[(self.kinds == Kind.OTHER) | (self.kinds == Kind.BEFORE) | (self.kinds == Kind.REMOVED)] = 0
        marks = np.cumsum(begins) * (len(ranks) + 1) + ranks
        highest = np.maximum.accumulate(marks)
        is_new = np.append(True, highest[1:] > highest[:-1])  # the first one is
        return np.maximum.accumulate(np.where(is_new, self.index, 0))

    @cached_property
    def producer_begins(self) -> Records:
        """Number of the first row of the same producer in a row's run."""
        if self.begins_run.all():
            return self.index
        producers = self.table.rows["producer_id"][self.source]
        begins = self.begins_run | (producers != np.roll(producers, 1))
        return np.maximum.accumulate(np.where(begins, self.index, 0))

    @cached_property
    def other(self) -> Records:
        """Number of the last row that the producer before a row's own brought in the same run, NOTHING for none."""
        begins = self.producer_begins
        return np.where(self.begins_run[begins], NOTHING, begins - 1)

    @cached_property
    def life_modes(self) -> tuple[Records, Records]:
        """Whether commits of a key came with transactions up to a row, and whether some came without."""
        with_some, without = self.modes
        return (
            self._so_far((self.kinds == Kind.TRANSACTIONAL) | with_some),
            self._so_far((self.kinds == Kind.PLAIN) | without),
        )

    def _so_far(self, held: Records) -> Records:
        """Return whether something held of any row of a life, up to each row."""
        counts = np.cumsum(held)
        before = np.maximum.accumulate(np.where(self.begins_life, counts - held, 0))
        return counts > before

    def mixed(self) -> Records:
        """Return the rows with which a key has commits of both kinds for the first time."""
        both = self.life_modes[0] & self.life_modes[1]
        is_new = both & (self.begins_life | ~np.roll(both, 1)) & (self.kinds >= Kind.PLAIN)
        return np.flatnonzero(is_new)

    def regressed(self) -> Records:
        """Return the rows in which a transaction commits less than the one before it, of the same topic."""
        which = np.flatnonzero((self.kinds == Kind.TRANSACTIONAL) & ~self.begins_run)
        rows, before = self.rows(which), self.rows(which - 1)
        falls = rows["committed"] < before["committed"]
        found: Records = which[falls & (rows["topic_id"] == before["topic_id"])]
        return found

    def returns(self) -> Records:
        """Return the rows in which a producer commits no more than another one had, and had committed before that."""
        begins = (self.producer_begins == self.index) & ~self.begins_run & (self.kinds == Kind.TRANSACTIONAL)
        which = np.flatnonzero(begins)
        which = which[self.other[which - 1] != NOTHING]
        rows, before, other = (self.rows(some) for some in (which, which - 1, self.other[which - 1]))
        found: Records = which[
            (other["producer_id"] == rows["producer_id"]) & (rows["committed"] <= before["committed"])
        ]
        return found
