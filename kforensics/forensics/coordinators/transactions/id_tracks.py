"""What is remembered of each transactional id between the chunks of a log: arrays with one row per id."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State, TopicPartition
from kforensics.forensics.coordinators.transactions.history import (
    TRANSACTIONAL_ID,
    PartitionSets,
    TransactionalIdArray,
)
from kforensics.forensics.coordinators.transactions.state_columns import STATE_ROW, PartitionLists, StateRowArray
from kforensics.forensics.coordinators.transactions.transaction_runs import (
    CARRIED,
    TRANSACTION_RUN,
    IdRows,
    TransactionRuns,
)
from kforensics.forensics.coordinators.transactions.transitions import are_complete
from kforensics.forensics.core.formatting import MINUTE_MS
from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import Column, IntArray

ID_COUNTS = np.dtype(
    [
        ("records", "i1"),  # remembered records: none, the last one, or the last two
        ("is_open", "?"),  # whether its last transaction is not emitted yet
        ("first_time", "i8"),
        ("inits", "i8"),
        ("transactions", "i8"),
        ("committed", "i8"),
        ("aborted", "i8"),
    ]
)
MIN_ID_CAPACITY = 1 << 8
# Whose lists of partitions are remembered: the last two records and the last transaction.
LIST_OWNERS = ("last", "before", "run")
# More initializations than this within a minute, and nothing committed: producers fence one another.
INITS = 10
# The last time to which a minute can be added.
LAST_TIME = np.iinfo("i8").max - MINUTE_MS


class IdTracks:
    """The state of all transactional ids, by number.

    Attributes:
        producers: the producer ids of each transactional id, in the order of their first use.
    """

    def __init__(self) -> None:
        self._counts = np.zeros(0, ID_COUNTS)
        self._last, self._before, self._prepare = (np.zeros(0, STATE_ROW) for _ in range(3))
        self._runs = np.zeros(0, TRANSACTION_RUN)
        self._errors = np.full(0, None, "O")
        self._lists = {name: np.full(0, None, "O") for name in LIST_OWNERS}
        self.producers: list[dict[int, None]] = []

    def reserve(self, count: int) -> None:
        """Make room for a number of ids."""
        self.producers += [{} for _ in range(count - len(self.producers))]
        if count > len(self._counts):
            more = max(count, 2 * len(self._counts), MIN_ID_CAPACITY) - len(self._counts)
            self._counts = concat_rows([self._counts, np.zeros(more, ID_COUNTS)])
            self._runs = concat_rows([self._runs, np.zeros(more, TRANSACTION_RUN)])
            self._last, self._before, self._prepare = (
                concat_rows([rows, np.zeros(more, STATE_ROW)]) for rows in (self._last, self._before, self._prepare)
            )
            none = np.full(more, None, "O")
            self._errors = np.append(self._errors, none)
            self._lists = {name: np.append(column, none) for name, column in self._lists.items()}

    def sort_by_id(self, rows: StateRowArray, lists: PartitionLists) -> tuple[IdRows, TransactionRuns]:
        """Return the records of a chunk sorted by id after the earlier ones, and the transactions open before it.

        Args:
            rows: records with an id.
            lists: receives the lists of partitions from before the chunk.
        """
        ids = np.unique(rows["id"])
        counts = self._counts["records"][ids]
        last, before = ids[counts > 0], ids[counts > 1]
        carried = [self._listed(self._before, "before", before, lists), self._listed(self._last, "last", last, lists)]
        order = [np.full(len(before), CARRIED - 1), np.full(len(last), CARRIED), np.arange(len(rows))]
        every = concat_rows([*carried, rows])
        by_id = np.argsort(every["id"], kind="stable")
        open_ids = last[self._counts["is_open"][last]]
        return IdRows(take_rows(every, by_id), np.concatenate(order)[by_id]), self._open(open_ids, lists)

    def _listed(self, rows: StateRowArray, name: str, ids: IntArray, lists: PartitionLists) -> StateRowArray:
        """Return remembered rows of some ids, with the numbers that their lists have in this chunk."""
        selected = take_rows(rows, ids)
        selected["partitions"] = _list_numbers(self._lists[name][ids], lists)
        return selected

    def _open(self, ids: IntArray, lists: PartitionLists) -> TransactionRuns:
        """Return the transactions of ids that are not emitted yet, with the numbers of their lists in this chunk."""
        last = self._listed(self._last, "last", ids, lists)
        rows = take_rows(self._runs, ids)
        rows["partitions"] = _list_numbers(self._lists["run"][ids], lists)
        return TransactionRuns(rows, take_rows(self._prepare, ids), last)

    def error(self, number: int) -> str | None:
        """Return the error of the last record of an id."""
        error: str | None = self._errors[number]
        return error

    def count(self, records: IdRows, runs: TransactionRuns, ended: IntArray) -> None:
        """Count the records and transactions of a chunk.

        Args:
            records: the records.
            runs: their transactions.
            ended: indexes of the transactions that no later record can continue.
        """
        rows, counts = records.fields, self._counts
        begins = records.begins & records.is_new & ~records.supersedes
        inits = records.is_new & (rows["status"] == State.EMPTY)
        np.add.at(counts["transactions"], rows["id"][begins], 1)
        np.add.at(counts["inits"], rows["id"][inits], 1)
        self._count_outcomes(runs.last[ended])
        first = records.is_new & ~records.has_before
        counts["first_time"][rows["id"][first]] = rows["time"][first]

    def _count_outcomes(self, last: StateRowArray) -> None:
        completed = take_rows(last, are_complete(last))
        committed = completed["status"] == State.COMPLETE_COMMIT
        np.add.at(self._counts["committed"], completed["id"][committed], 1)
        np.add.at(self._counts["aborted"], completed["id"][~committed], 1)

    def remember(
        self,
        records: IdRows,
        applied: IntArray,
        runs: TransactionRuns,
        lists: PartitionLists,
        errors: dict[int, str | None],
    ) -> None:
        """Remember the last records and the open transactions of all ids in a chunk.

        Args:
            records: the records.
            applied: of each record, the newest one before it that may have been applied.
            runs: the transactions that later records may continue.
            lists: the lists of partitions, by number.
            errors: errors by the index of the record in the chunk.
        """
        last = np.flatnonzero(records.is_last)
        ids, has_before = records.rows["id"][last], records.has_before[last]
        for name, rows, indexes in (
            ("before", self._before, np.where(has_before, applied[last], 0)),
            ("last", self._last, last),
        ):
            put_rows(rows, ids, take_rows(records.rows, indexes))
            self._lists[name][ids] = _lists_at(records.rows["partitions"][indexes], lists)
        self._errors[ids] = _objects([errors.get(number) for number in records.order[last].tolist()])
        self._counts["records"][ids] = 1 + has_before
        self._counts["is_open"][ids] = False
        ids = runs.last["id"]
        self._counts["is_open"][ids] = True
        put_rows(self._runs, ids, runs.rows)
        put_rows(self._prepare, ids, runs.prepare)
        self._lists["run"][ids] = _lists_at(runs.rows["partitions"], lists)

    def finish(self, count: int, lists: PartitionLists) -> TransactionRuns:
        """Return the last transactions of all ids, by number, at the end of the log.

        Args:
            count: number of ids.
            lists: receives their lists of partitions.
        """
        runs = self._open(np.flatnonzero(self._counts["is_open"][:count]), lists)
        self._count_outcomes(runs.last)
        return runs

    def rows(self, count: int, sets: PartitionSets, *, history_complete: bool) -> TransactionalIdArray:
        """Return the ids as TRANSACTIONAL_ID records.

        Args:
            count: number of ids.
            sets: numbers the lists of partitions of their last records.
            history_complete: whether their first available records are the first ones ever written.
        """
        last, counts = self._last[:count], self._counts[:count]
        rows = np.zeros(count, TRANSACTIONAL_ID)
        for name in ("producer_id", "producer_epoch", "transaction_version", "timeout_ms", "leader_epoch"):
            rows[name] = last[name]
        for name in ("segment", "position", "offset"):
            rows[name] = last[name]
        for name in ("first_time", "inits", "transactions", "committed", "aborted"):
            rows[name] = counts[name]
        rows["status"] = np.where(np.isin(last["status"], tuple(State)), last["status"], NONE)
        rows["is_removed"], rows["history_complete"] = last["is_tombstone"], history_complete
        rows["start"] = np.where(last["start_ms"] < 0, NO_TIME, last["start_ms"])
        rows["last_time"] = last["time"]
        rows["partitions"] = [sets.number(partitions) for partitions in self._lists["last"][:count].tolist()]
        rows["producers"] = [len(producers) for producers in self.producers[:count]]
        return rows


def _list_numbers(column: Column, lists: PartitionLists) -> IntArray:
    return np.array([lists.number(partitions) for partitions in column.tolist()], "i4")


def _lists_at(numbers: IntArray, lists: PartitionLists) -> Column:
    # NO_LIST is -1, which indexes the None at the end.
    return _objects([*lists.lists, None])[numbers]


def _objects(values: list[tuple[TopicPartition, ...] | None] | list[str | None]) -> Column:
    return np.fromiter(values, "O", len(values))


class InitTimes:
    """The times of the last INITS Empty records of each id since its last commit or its last reported loop."""

    def __init__(self) -> None:
        self._times = np.zeros((0, INITS), "i8")
        self._counts = np.zeros(0, "i8")

    def reserve(self, count: int) -> None:
        """Make room for a number of ids."""
        more = max(count, 2 * len(self._counts)) - len(self._counts)
        if count > len(self._counts):
            self._counts = np.append(self._counts, np.zeros(more, "i8"))
            self._times = np.concatenate([self._times, np.zeros((more, INITS), "i8")])

    def loops(self, records: IdRows) -> IntArray:
        """Take the records of a chunk; return the rows with which an id was initialized too often: a fencing loop."""
        rows = records.fields
        is_commit = records.is_new & (rows["status"] == State.COMPLETE_COMMIT)
        commits = np.cumsum(is_commit)
        inits = np.flatnonzero(records.is_new & (rows["status"] == State.EMPTY))
        firsts, lasts = np.flatnonzero(~records.has_before), np.flatnonzero(records.is_last)
        ids = rows["id"][firsts]
        # Remembered times precede the first record of an id, even if that is a commit.
        commits_before = commits[firsts] - is_commit[firsts]
        remembered, slots = np.nonzero(np.arange(INITS) < self._counts[ids][:, None])
        times = np.concatenate([self._times[ids[remembered], slots], rows["time"][inits]])
        id_of = np.concatenate([ids[remembered], rows["id"][inits]])
        since = np.concatenate([commits_before[remembered], commits[inits]])
        row = np.concatenate([np.full(len(remembered), CARRIED), inits])
        order = np.argsort(id_of, kind="stable")
        times, id_of, since, row = (column[order] for column in (times, id_of, since, row))
        loops = _loops(times, _group_starts(id_of, since))
        self._remember(ids, commits[lasts], (times, id_of, since), loops)
        return row[loops]

    def _remember(
        self, ids: IntArray, commits: IntArray, columns: tuple[IntArray, IntArray, IntArray], loops: IntArray
    ) -> None:
        """Keep the last times of each id."""
        times, id_of, since = columns
        self._counts[ids] = 0
        # After a reported loop, counting starts again.
        is_loop = np.zeros(len(id_of), "i8")
        is_loop[loops] = 1
        loop_count = np.cumsum(is_loop)
        ends = np.searchsorted(id_of, id_of, "right")
        stays = (loop_count[ends - 1] == loop_count) & (is_loop == 0) & (since == commits[np.searchsorted(ids, id_of)])
        remaining = np.cumsum(stays[::-1])[::-1]
        later_ids = np.append(remaining, 0)[ends]
        stays &= remaining - later_ids <= INITS
        kept = np.flatnonzero(stays)
        slot = np.arange(len(kept)) - np.searchsorted(id_of[kept], id_of[kept], "left")
        self._times[id_of[kept], slot] = times[kept]
        np.add.at(self._counts, id_of[kept], 1)


def _group_starts(id_of: IntArray, since: IntArray) -> IntArray:
    """Return for each row the first row of the same id since the same commit."""
    begins = (np.diff(id_of, prepend=-1) != 0) | (np.diff(since, prepend=-1) != 0)
    return np.maximum.accumulate(np.where(begins, np.arange(len(id_of)), 0))


def _loops(times: IntArray, group_starts: IntArray) -> IntArray:
    """Return the rows that exceed INITS within a minute, counted from the start of the group or the last such row."""
    candidates = np.flatnonzero(np.arange(len(times)) - group_starts >= INITS)
    before = times[candidates - INITS]
    within_minute = (before > LAST_TIME) | (times[candidates] <= np.minimum(before, LAST_TIME) + MINUTE_MS)
    loops: list[int] = []
    for row in candidates[within_minute].tolist():
        start = max(int(group_starts[row]), loops[-1] + 1) if loops else int(group_starts[row])
        if row - start >= INITS:
            loops.append(row)
    return np.array(loops, "i8")
