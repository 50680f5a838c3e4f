"""What is remembered of transactional ids between two chunks of a log: arrays with a row for each id."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import State, TopicPartition
from kforensics.forensics.coordinators.transactions.state_columns import STATE, PartitionLists
from kforensics.forensics.coordinators.transactions.state_runs import NOWHERE, RUN, IdRows, Runs
from kforensics.forensics.coordinators.transactions.state_steps import are_complete
from kforensics.forensics.coordinators.transactions.tracks import TRANSACTIONAL_ID
from kforensics.forensics.coordinators.transactions.transaction import PartitionSets
from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import NO_TIME, Records

__all__ = ["TrackStates"]

COUNTS = np.dtype(
    [
        ("records", "i1"),  # how many are remembered: none, the last one, or the one before it too
        ("is_open", "?"),  # whether its last transaction is not told of yet
        ("first_time", "i8"),
        ("inits", "i8"),
        ("transactions", "i8"),
        ("committed", "i8"),
        ("aborted", "i8"),
    ]
)
LEAST = 1 << 8
# Whose lists of partitions are remembered: the last two records', and that of the last transaction.
LISTS = ("last", "before", "run")


class TrackStates:
    """Remembers by the number of an id.

    Attributes:
        producers: producer ids of each id, in the order of their coming.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(0, COUNTS)
        self._last, self._before, self._prepare = (np.zeros(0, STATE) for _ in range(3))
        self._runs = np.zeros(0, RUN)
        self._errors = np.full(0, None, "O")
        self._lists = {name: np.full(0, None, "O") for name in LISTS}
        self.producers: list[dict[int, None]] = []

    def make_room(self, count: int) -> None:
        """Have a row for each of so many ids."""
        self.producers += [{} for _ in range(count - len(self.producers))]
        if count > len(self._counts):
            more = max(count, 2 * len(self._counts), LEAST) - len(self._counts)
            self._counts = joined_records([self._counts, np.zeros(more, COUNTS)])
            self._runs = joined_records([self._runs, np.zeros(more, RUN)])
            self._last, self._before, self._prepare = (
                joined_records([rows, np.zeros(more, STATE)]) for rows in (self._last, self._before, self._prepare)
            )
            none = np.full(more, None, "O")
            self._errors = np.append(self._errors, none)
            self._lists = {name: np.append(column, none) for name, column in self._lists.items()}

    def behind(self, rows: Records, lists: PartitionLists) -> tuple[IdRows, Runs]:
        """Return records sorted by id behind the last ones of before, and what is known of transactions from before.

        Args:
            rows: records with an id.
            lists: takes the lists of partitions from before.
        """
        ids = np.unique(rows["id"])
        counts = self._counts["records"][ids]
        last, before = ids[counts > 0], ids[counts > 1]
        old = [self._listed(self._before, "before", before, lists), self._listed(self._last, "last", last, lists)]
        order = [np.full(len(before), NOWHERE - 1), np.full(len(last), NOWHERE), np.arange(len(rows))]
        every = joined_records([*old, rows])
        by_id = np.argsort(every["id"], kind="stable")
        open_ = last[self._counts["is_open"][last]]
        return IdRows(picked(every, by_id), np.concatenate(order)[by_id]), self._open(open_, lists)

    def _listed(self, rows: Records, name: str, ids: Records, lists: PartitionLists) -> Records:
        found = picked(rows, ids)
        found["partitions"] = _numbers(self._lists[name][ids], lists)
        return found

    def _open(self, ids: Records, lists: PartitionLists) -> Runs:
        """Return transactions that are not told of yet, with the numbers that their lists have now."""
        last = self._listed(self._last, "last", ids, lists)
        rows = picked(self._runs, ids)
        rows["partitions"] = _numbers(self._lists["run"][ids], lists)
        return Runs(rows, picked(self._prepare, ids), last)

    def error(self, number: int) -> str | None:
        """Return what was wrong with the last record of an id."""
        found: str | None = self._errors[number]
        return found

    def count(self, found: IdRows, runs: Runs, ended: Records) -> None:
        """Count what is new.

        Args:
            found: records.
            runs: transactions of theirs.
            ended: which of these nothing more will come to.
        """
        rows, counts = found.fields, self._counts
        begins = found.begins & found.is_new & ~found.supersedes
        inits = found.is_new & (rows["status"] == State.EMPTY)
        np.add.at(counts["transactions"], rows["id"][begins], 1)
        np.add.at(counts["inits"], rows["id"][inits], 1)
        self._count_ends(runs.last[ended])
        first = found.is_new & ~found.has_before
        counts["first_time"][rows["id"][first]] = rows["time"][first]

    def _count_ends(self, last: Records) -> None:
        completed = picked(last, are_complete(last))
        committed = completed["status"] == State.COMPLETE_COMMIT
        np.add.at(self._counts["committed"], completed["id"][committed], 1)
        np.add.at(self._counts["aborted"], completed["id"][~committed], 1)

    def take(self, found: IdRows, runs: Runs, lists: PartitionLists, errors: dict[int, str | None]) -> None:
        """Remember the last records and transactions of all ids.

        Args:
            found: records.
            runs: the transactions to which more may come.
            lists: what the numbers of lists mean.
            errors: what is wrong with records, by their number in the chunk.
        """
        at = np.flatnonzero(found.is_last)
        ids, has_before = found.rows["id"][at], found.has_before[at]
        for name, rows, which in (
            ("before", self._before, np.where(has_before, at - 1, 0)),
            ("last", self._last, at),
        ):
            placed(rows, ids, picked(found.rows, which))
            self._lists[name][ids] = _lists(found.rows["partitions"][which], lists)
        self._errors[ids] = _objects([errors.get(number) for number in found.order[at].tolist()])
        self._counts["records"][ids] = 1 + has_before
        self._counts["is_open"][ids] = False
        ids = runs.last["id"]
        self._counts["is_open"][ids] = True
        placed(self._runs, ids, runs.rows)
        placed(self._prepare, ids, runs.prepare)
        self._lists["run"][ids] = _lists(runs.rows["partitions"], lists)

    def leave(self, count: int, lists: PartitionLists) -> Runs:
        """Return the last transactions of ids, by their numbers: nothing more will come to them.

        Args:
            count: how many ids there are.
            lists: takes their lists of partitions.
        """
        runs = self._open(np.flatnonzero(self._counts["is_open"][:count]), lists)
        self._count_ends(runs.last)
        return runs

    def rows(self, count: int, sets: PartitionSets, *, are_told: bool) -> Records:
        """Return ids as TRANSACTIONAL_ID records.

        Args:
            count: how many there are.
            sets: numbers the lists of partitions of their last records.
            are_told: whether their first records on hand are the first there were.
        """
        last, counts = self._last[:count], self._counts[:count]
        found = np.zeros(count, TRANSACTIONAL_ID)
        for name in ("producer_id", "producer_epoch", "transaction_version", "timeout_ms", "leader_epoch"):
            found[name] = last[name]
        for name in ("segment", "position", "offset"):
            found[name] = last[name]
        for name in ("first_time", "inits", "transactions", "committed", "aborted"):
            found[name] = counts[name]
        found["status"] = np.where(np.isin(last["status"], tuple(State)), last["status"], -1)
        found["is_removed"], found["is_told"] = last["is_tombstone"], are_told
        found["start"] = np.where(last["start_ms"] < 0, NO_TIME, last["start_ms"])
        found["last_time"] = last["time"]
        found["partitions"] = [sets.number(one) for one in self._lists["last"][:count].tolist()]
        found["producers"] = [len(some) for some in self.producers[:count]]
        return found


def _numbers(found: Records, lists: PartitionLists) -> Records:
    return np.array([lists.number(one) for one in found.tolist()], "i4")


def _lists(numbers: Records, lists: PartitionLists) -> Records:
    # Behind the last one, where -1 finds it, there is none.
    return _objects([*lists.lists, None])[numbers]


def _objects(found: list[tuple[TopicPartition, ...] | None] | list[str | None]) -> Records:
    return np.fromiter(found, "O", len(found))
