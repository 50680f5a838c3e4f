"""Whether states of transactional ids may follow others: the rules of :mod:`.transitions` for many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, State
from kforensics.forensics.coordinators.transactions.state_columns import NO_LIST, PartitionLists
from kforensics.forensics.coordinators.transactions.transitions import EXHAUSTED, FENCED, LAST_EPOCH, TV2, Step
from kforensics.forensics.core.record_types import Records

__all__ = ["Fields", "are_complete", "are_idle", "are_lasting", "are_prepared", "steps_between"]

EMPTY_LIST = 0


class Fields:
    """Columns of STATE records by their names, each taken out once: side by side numbers are gone through faster.

    Args:
        take: takes a column out.
    """

    def __init__(self, take: Callable[[str], Records]) -> None:
        self._take = take
        self._held: dict[str, Records] = {}

    def __getitem__(self, name: str) -> Records:
        """Return a column."""
        if name not in self._held:
            self._held[name] = self._take(name)
        return self._held[name]

    def taken(self, which: Records) -> Fields:
        """Return the columns of some of the records, by their indexes."""
        return Fields(lambda name: self[name][which])


def are_lasting(rows: Fields | Records) -> Records:
    """Whether records have a state that coordinators write."""
    return (rows["status"] >= State.EMPTY) & (rows["status"] <= State.COMPLETE_ABORT)


def are_prepared(rows: Fields | Records) -> Records:
    """Whether records decide the end of a transaction."""
    found: Records = (rows["status"] == State.PREPARE_COMMIT) | (rows["status"] == State.PREPARE_ABORT)
    return found


def are_complete(rows: Fields | Records) -> Records:
    """Whether records complete a transaction."""
    found: Records = (rows["status"] == State.COMPLETE_COMMIT) | (rows["status"] == State.COMPLETE_ABORT)
    return found


def are_idle(rows: Fields | Records) -> Records:
    """Whether a new transaction may begin behind records."""
    found: Records = (rows["status"] == State.EMPTY) | are_complete(rows)
    return found


def steps_between(before: Fields, after: Fields, has_before: Records, lists: PartitionLists) -> Records:
    """Return how each record follows another one; see ``step_between``.

    Args:
        before: STATE records, each a tombstone or of a lasting state.
        after: as many, which are that too.
        has_before: whether there is a record before; where there is none, what stands there means nothing.
        lists: what the numbers of lists of partitions mean.
    """
    pair = _Pairs(before, after, lists)
    begins = (after["status"] == State.EMPTY) & (after["producer_epoch"] == 0) & pair.is_unlisted
    first = np.where(after["is_tombstone"], np.where(has_before, Step.AGAIN, Step.ILLEGAL), _legal(begins, Step.FIRST))
    anew = are_prepared(before) & are_prepared(after)
    return np.select(
        [~has_before | before["is_tombstone"], after["is_tombstone"], pair.is_again(), anew],
        [first, _legal(are_idle(before)), np.full(len(has_before), Step.AGAIN), pair.decided_anew()],
        _legal(pair.is_next()),
    )


def _legal(holds: Records, step: Step = Step.NEXT) -> Records:
    return np.where(holds, step, Step.ILLEGAL)


class _Pairs:
    """Pairs of records that follow one another; the methods are named as the functions that judge a single pair."""

    def __init__(self, before: Fields, after: Fields, lists: PartitionLists) -> None:
        self._before, self._after, self._lists = before, after, lists
        self._now, self._then = before["status"], after["status"]
        self._same_id = before["producer_id"] == after["producer_id"]
        # Epochs have 16 bits, and their difference one more.
        self._risen = after["producer_epoch"].astype("i4") - before["producer_epoch"]
        self._same_producer = self._same_id & (self._risen == 0)
        self._same_list = before["partitions"] == after["partitions"]
        self._same_start = before["start_ms"] == after["start_ms"]
        self._now_idle, self._now_ongoing = are_idle(before), self._now == State.ONGOING
        self.is_unlisted = (after["partitions"] == NO_LIST) | (after["partitions"] == EMPTY_LIST)

    def is_again(self) -> Records:
        found: Records = (self._now == self._then) & self._same_producer & self._same_list & self._same_start
        return found

    def decided_anew(self) -> Records:
        legal = self._same_id & self._same_list & (self._risen >= 0) & (self._risen <= FENCED)
        return np.where(legal, np.where(self._now == self._then, Step.AGAIN, Step.FLIPPED), Step.ILLEGAL)

    def is_next(self) -> Records:
        return np.select(
            [self._then == State.EMPTY, self._then == State.ONGOING, are_prepared(self._after)],
            [self._now_idle & self._is_init(), self._is_ongoing(), self._is_end()],
            self._is_completion(),
        )

    def _is_init(self) -> Records:
        rotated = (self._before["producer_epoch"] >= EXHAUSTED) & (self._after["producer_epoch"] == 0)
        bumped = (self._risen == 0) | (self._risen == 1)
        found: Records = self.is_unlisted & np.where(self._same_id, bumped, rotated)
        return found

    def _is_ongoing(self) -> Records:
        grown = self._now_ongoing & self._same_start
        which = np.flatnonzero(grown & ~self.is_unlisted & (self._then == State.ONGOING))
        grown[which] = self._grows(which)
        found: Records = self._same_producer & ~self.is_unlisted & (self._now_idle | grown)
        return found

    def _grows(self, which: Records) -> Records:
        """Return whether lists have more partitions and still the same; most pairs of lists come again and again."""
        pairs = self._before["partitions"][which].astype("i8") << 32 | self._after["partitions"][which]
        distinct, numbers = np.unique(pairs, return_inverse=True)
        at = self._lists.at
        grown = [set(at(pair & 0xFFFFFFFF) or ()) > set(at(pair >> 32) or ()) for pair in distinct.tolist()]
        return np.array(grown, "?")[numbers]

    def _is_end(self) -> Records:
        # An abort of nothing, which version 2 allows (KAFKA-14563).
        nothing = (self._then == State.PREPARE_ABORT) & self.is_unlisted & ((self._risen == 0) | (self._risen == 1))
        wanted = self._after["transaction_version"] >= TV2
        commit = self._risen == wanted
        risen = np.where(self._then == State.PREPARE_COMMIT, commit, (self._risen >= 0) & (self._risen <= FENCED))
        ends = self._now_ongoing & self._same_list & self._same_start & risen
        found: Records = self._same_id & np.where(self._now_idle, nothing, ends)
        return found

    def _is_completion(self) -> Records:
        commits = (self._now == State.PREPARE_COMMIT) & (self._then == State.COMPLETE_COMMIT)
        aborts = (self._now == State.PREPARE_ABORT) & (self._then == State.COMPLETE_ABORT)
        found: Records = (
            (commits | aborts) & self.is_unlisted & self._same_start & (self._same_producer | self._is_rotation())
        )
        return found

    def _is_rotation(self) -> Records:
        following = self._before["next_producer_id"]
        named = (following == NONE) | (following == self._after["producer_id"])
        found: Records = (self._before["producer_epoch"] == LAST_EPOCH) & (self._after["producer_epoch"] == 0) & named
        return found
