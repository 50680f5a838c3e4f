"""The effect of commits on the offsets in force, for many groups and partitions at once.

Everything that takes effect in a chunk is sorted by key (group, topic and partition), in the order in which it takes
effect, after what was known before the chunk. What a rule compares is then in the same row or in earlier ones.

Rule: ``OffsetMetadataManager.replay`` and ``replayEndTransactionMarker``. The commits of a transaction take effect with
its COMMIT marker, unless a commit with a higher offset in the log took effect before; then they never do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_tables import CommitTable, CommittedOffsetArray
from kforensics.forensics.core.record_arrays import put_rows, take_rows
from kforensics.parsers.format.array_types import BoolArray, IntArray

# No row, and the order of what was known before the chunk.
NO_INDEX = -1
KEY_STATE = np.dtype(
    [
        ("is_known", "?"),  # whether a commit is in force
        ("in_transaction", "?"),  # whether it came with a transaction
        ("with_transaction", "?"),  # whether commits came with transactions
        ("without", "?"),  # whether commits came without
        ("has_other", "?"),  # whether another producer's came in a transaction before it
        ("is_removed", "?"),  # whether the last record removed the commit
        ("has_lost", "?"),  # whether the commit that it removed is known
        ("entered", "i8"),  # rank of the key by its first commit, or its first one since it was removed
    ]
)
MIN_KEY_CAPACITY = 1 << 10


class EffectKind(IntEnum):
    """What takes effect, or what was known before the chunk.

    ``KNOWN`` is the commit in force, or the one that a remembered ``REMOVED`` removed, and ``KNOWN_TRANSACTIONAL`` the
    same if it came with a transaction. ``OTHER`` is the last commit of the producer before. ``TOOL`` is a commit
    without a transaction that no consumer made, so that it is no mode in which the group commits.
    """

    OTHER = 0
    KNOWN = 1
    KNOWN_TRANSACTIONAL = 2
    REMOVED = 3
    TOOL = 4
    PLAIN = 5
    TRANSACTIONAL = 6


@dataclass(frozen=True, slots=True)
class ChunkEffects:
    """What takes effect in a chunk.

    Attributes:
        keys: numbers of group, topic and partition.
        kinds: REMOVED, TOOL, PLAIN or TRANSACTIONAL; the latter come last.
        at: number of the record with which it takes effect.
        first: orders what takes effect with the same record.
        table: the commits.
    """

    keys: IntArray
    kinds: IntArray
    at: IntArray
    first: IntArray
    table: CommitTable


@dataclass(frozen=True)  # no slots: cached properties need a __dict__
class SortedEffects:
    """Rows sorted by key; those of a key are what was known before the chunk, then what takes effect, in order.

    A life of a key begins with its first commit, and again with the first commit after a removal. A run consists of
    consecutive commits of transactions in a life. Each commit is in force until the next row of its key.

    Attributes:
        keys: numbers of group, topic and partition.
        kinds: the ``EffectKind`` of each row.
        source: index of each row's commit in the table.
        table: commits.
        modes: for what was known, whether commits came with transactions, and whether commits came without.
    """

    keys: IntArray
    kinds: IntArray
    source: IntArray
    table: CommitTable
    modes: tuple[BoolArray, BoolArray]

    def rows(self, indexes: IntArray) -> CommittedOffsetArray:
        """Return the COMMITTED_OFFSET records of some rows."""
        return take_rows(self.table.rows, self.source[indexes])

    @cached_property
    def index(self) -> IntArray:
        """The index of each row."""
        return np.arange(len(self.keys))

    @cached_property
    def is_first(self) -> BoolArray:
        """Whether each row is the first one of its key."""
        is_first: BoolArray = np.diff(self.keys, prepend=NO_INDEX) != 0
        return is_first

    @cached_property
    def is_last(self) -> BoolArray:
        """Whether each row is the last one of its key."""
        is_last: BoolArray = np.diff(self.keys, append=NO_INDEX) != 0
        return is_last

    @cached_property
    def begins_life(self) -> BoolArray:
        """Whether each row begins a life of its key: it is the first one, or follows a removal."""
        begins: BoolArray = self.is_first | (np.roll(self.kinds, 1) == EffectKind.REMOVED)
        return begins

    @cached_property
    def in_transaction(self) -> BoolArray:
        """Whether each row is a commit of a transaction, in this chunk or before."""
        kinds = (EffectKind.TRANSACTIONAL, EffectKind.OTHER, EffectKind.KNOWN_TRANSACTIONAL)
        return np.isin(self.kinds, kinds)

    @cached_property
    def begins_run(self) -> BoolArray:
        """Whether no remembered commit of a transaction directly precedes each row."""
        return self.begins_life | ~self.in_transaction | ~np.roll(self.in_transaction, 1)

    @cached_property
    def first_removal(self) -> IntArray:
        """The first of the consecutive removals up to each row; without a meaning for other rows."""
        removed = self.kinds == EffectKind.REMOVED
        return np.maximum.accumulate(np.where(removed & (self.is_first | ~np.roll(removed, 1)), self.index, 0))

    @cached_property
    def previous(self) -> IntArray:
        """The row of the commit in force before each row, or before the removals before it; NO_INDEX if unknown."""
        last = np.maximum.accumulate(np.where(self.kinds == EffectKind.REMOVED, NO_INDEX, self.index))
        last = np.append(NO_INDEX, last[:-1])
        same_key = (last != NO_INDEX) & (self.keys[last] == self.keys)
        return np.where(same_key, last, NO_INDEX)

    @cached_property
    def producer_begins(self) -> IntArray:
        """The first row of the unbroken sequence of the same producer in each row's run."""
        if self.begins_run.all():
            return self.index
        producers = self.table.rows["producer_id"][self.source]
        begins = self.begins_run | (producers != np.roll(producers, 1))
        return np.maximum.accumulate(np.where(begins, self.index, 0))

    @cached_property
    def other(self) -> IntArray:
        """The last row of the previous producer in each row's run, NO_INDEX if there is none."""
        begins = self.producer_begins
        return np.where(self.begins_run[begins], NO_INDEX, begins - 1)

    @cached_property
    def life_modes(self) -> tuple[BoolArray, BoolArray]:
        """Whether commits of a life came with transactions up to each row, and whether commits came without."""
        with_transaction, without = self.modes
        return (
            self._so_far((self.kinds == EffectKind.TRANSACTIONAL) | with_transaction),
            self._so_far((self.kinds == EffectKind.PLAIN) | without),
        )

    def _so_far(self, mask: BoolArray) -> BoolArray:
        """Return whether a mask is true for any row of a life up to each row."""
        counts = np.cumsum(mask)
        before = np.maximum.accumulate(np.where(self.begins_life, counts - mask, 0))
        return counts > before

    def mixed(self) -> IntArray:
        """Return the rows with which a key has commits with and without transactions for the first time."""
        both = self.life_modes[0] & self.life_modes[1]
        is_new = both & (self.begins_life | ~np.roll(both, 1)) & (self.kinds > EffectKind.REMOVED)
        return np.flatnonzero(is_new)

    def regressed(self) -> IntArray:
        """Return the rows in which a transaction commits a lower offset of the same topic than the one before it."""
        candidates = np.flatnonzero((self.kinds == EffectKind.TRANSACTIONAL) & ~self.begins_run)
        rows, before = self.rows(candidates), self.rows(candidates - 1)
        lower = rows["committed"] < before["committed"]
        regressed: IntArray = candidates[lower & (rows["topic_id"] == before["topic_id"])]
        return regressed

    def resets(self) -> IntArray:
        """Return the rows in which a commit follows a removal, or is lower than the one in force before.

        So is one of another topic id, if the one in force may have let the group skip records of the new topic. Those
        between consecutive transactions, which ``regressed`` returns, are not among them.
        """
        is_commit = (self.kinds > EffectKind.REMOVED) & ~self.is_first
        lower = np.flatnonzero(is_commit & ~self.begins_life)
        rows, before = self.rows(lower), self.rows(self.previous[lower])
        has_ids = (rows["topic_id"] != b"") & (before["topic_id"] != b"")
        outlived_topic = has_ids & (rows["topic_id"] != before["topic_id"]) & (before["committed"] > 0)
        lower = lower[(rows["committed"] < before["committed"]) | outlived_topic]
        after_removal = np.flatnonzero(is_commit & self.begins_life)
        # One of a transaction that was open when the offset was removed did not start again.
        removals = self.rows(self.first_removal[after_removal - 1])["offset"]
        after_removal = after_removal[self.rows(after_removal)["offset"] > removals]
        return np.setdiff1d(np.concatenate([lower, after_removal]), self.regressed())

    def returns(self) -> IntArray:
        """Return the rows in which a replaced producer commits again, and no more than the one that replaced it."""
        begins = (self.producer_begins == self.index) & ~self.begins_run & (self.kinds == EffectKind.TRANSACTIONAL)
        candidates = np.flatnonzero(begins)
        candidates = candidates[self.other[candidates - 1] != NO_INDEX]
        indexes = (candidates, candidates - 1, self.other[candidates - 1])
        rows, before, other = (self.rows(some) for some in indexes)
        same_producer = other["producer_id"] == rows["producer_id"]
        returns: IntArray = candidates[same_producer & (rows["committed"] <= before["committed"])]
        return returns


class KeyStates:
    """What is remembered of each key between the chunks of a log, one row per key."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, KEY_STATE)
        remembered = (EffectKind.OTHER, EffectKind.KNOWN, EffectKind.REMOVED)
        self._tables = {kind: CommitTable.empty() for kind in remembered}
        self._entered = 0

    def reserve(self, count: int) -> None:
        """Make room for a number of keys."""
        if count > len(self._rows):
            # Pages that are never written to take no memory.
            rows = np.zeros(max(count, 2 * len(self._rows), MIN_KEY_CAPACITY), KEY_STATE)
            put_rows(rows, slice(len(self._rows)), self._rows)
            self._rows = rows
            for kind, table in self._tables.items():
                # Without transactions there are no other commits than the known ones.
                if kind == EffectKind.KNOWN or len(table):
                    self._tables[kind] = table.extended(len(rows))

    def sort_by_key(self, chunk: ChunkEffects) -> tuple[SortedEffects, IntArray, IntArray]:
        """Return the effects of a chunk sorted by key after what is known, and ``at`` and ``first`` of the rows.

        Commits of transactions that come too late to take effect are left out: no rule may compare with them.
        """
        is_touched = np.zeros(len(self._rows), "?")
        is_touched[chunk.keys] = True
        touched = np.flatnonzero(is_touched)
        rows = self._rows[touched]
        masks = {
            EffectKind.OTHER: rows["has_other"],
            EffectKind.KNOWN: rows["is_known"] | rows["has_lost"],
            EffectKind.REMOVED: rows["is_removed"],
        }
        known = {kind: touched[mask] for kind, mask in masks.items()}
        lengths = [len(keys) for keys in known.values()]
        keys = np.concatenate([*known.values(), chunk.keys])
        kinds = np.concatenate([np.repeat(list(known), lengths), chunk.kinds])
        at = np.concatenate([np.full(sum(lengths), NO_INDEX), chunk.at])
        first = np.concatenate([np.repeat(list(known), lengths), chunk.first])
        tables = [self._tables[kind].select(indexes) for kind, indexes in known.items()]
        table = CommitTable.joined([*tables, chunk.table])
        order = _order(keys, at, first)
        order = order[_takes_effect(keys[order], kinds[order], table.rows["offset"][order])]
        keys, kinds = keys[order], kinds[order]
        is_known, states = kinds == EffectKind.KNOWN, self._rows[keys]
        modes = (is_known & states["with_transaction"], is_known & states["without"])
        kinds[is_known & states["in_transaction"]] = EffectKind.KNOWN_TRANSACTIONAL
        return SortedEffects(keys, kinds, order, table, modes), at[order], first[order]

    def remember(self, effects: SortedEffects, at: IntArray, first: IntArray) -> None:
        """Remember what is known after all effects."""
        lasts = np.flatnonzero(effects.is_last)
        keys, remains = effects.keys[lasts], effects.kinds[lasts] != EffectKind.REMOVED
        self._forget(effects, keys[~remains], lasts[~remains])
        keys, lasts = keys[remains], lasts[remains]
        rows = self._rows[keys]
        other = effects.other[lasts]
        rows["is_known"], rows["in_transaction"] = True, effects.in_transaction[lasts]
        rows["is_removed"] = rows["has_lost"] = False
        rows["has_other"] = other != NO_INDEX
        rows["with_transaction"], rows["without"] = (modes[lasts] for modes in effects.life_modes)
        begins = np.maximum.accumulate(np.where(effects.begins_life, effects.index, 0))[lasts]
        is_new = effects.kinds[begins] > EffectKind.REMOVED
        rows["entered"] = self._ranks(rows["entered"], is_new, at[begins], first[begins])
        self._rows[keys] = rows
        for kind, indexes in ((EffectKind.KNOWN, lasts), (EffectKind.OTHER, other)):
            self._put(kind, effects, keys, indexes)

    def _forget(self, effects: SortedEffects, keys: IntArray, removals: IntArray) -> None:
        """Remember of removed commits the commit and its removal."""
        if not len(keys):
            return
        lost, rows = effects.previous[removals], np.zeros(len(keys), KEY_STATE)
        rows["is_removed"], rows["has_lost"] = True, lost != NO_INDEX
        self._rows[keys] = rows
        self._put(EffectKind.KNOWN, effects, keys, lost)
        self._put(EffectKind.REMOVED, effects, keys, effects.first_removal[removals])

    def _put(self, kind: EffectKind, effects: SortedEffects, keys: IntArray, indexes: IntArray) -> None:
        """Remember rows of keys; none where the index is NO_INDEX."""
        has_commit = indexes != NO_INDEX
        if has_commit.any():
            commits = effects.table.select(effects.source[indexes[has_commit]])
            self._tables[kind] = self._tables[kind].extended(len(self._rows))
            self._tables[kind].put(keys[has_commit], commits)

    def _ranks(self, entered: IntArray, is_new: BoolArray, at: IntArray, first: IntArray) -> IntArray:
        """Return the ranks of keys; new ones follow all others, in the order of their commits."""
        new = np.flatnonzero(is_new)
        new = new[np.lexsort((first[new], at[new]))]
        ranks = entered.copy()
        ranks[new] = self._entered + np.arange(len(new))
        self._entered += len(new)
        return ranks

    def in_force(self) -> tuple[IntArray, CommitTable]:
        """Return the keys with a commit in force, in the order of their ranks, and the commits."""
        keys, table = np.flatnonzero(self._rows["is_known"]), self._tables[EffectKind.KNOWN]
        keys = keys[np.argsort(self._rows["entered"][keys])]
        # A copy of the table would take as much memory again.
        is_in_order = np.array_equal(keys, np.arange(len(keys)))
        return keys, table.select(slice(len(keys)) if is_in_order else keys)


def _takes_effect(keys: IntArray, kinds: IntArray, offsets: IntArray) -> BoolArray:
    """Return which rows take effect: of a transaction's commits those whose record follows that of the one in force.

    Args:
        keys: numbers of group, topic and partition, sorted, those of a key in the order in which they take effect.
        kinds: the ``EffectKind`` of each row.
        offsets: offsets of their records.
    """
    in_transaction: BoolArray = kinds == EffectKind.TRANSACTIONAL
    if not in_transaction.any():
        return ~in_transaction
    # Any other row is in force from then on, also after commits with higher offsets; after a removal none is.
    begins = ~in_transaction | (np.diff(keys, prepend=NO_INDEX) != 0)
    ranks = np.unique(offsets, return_inverse=True)[1] + 1
    ranks[kinds == EffectKind.REMOVED] = 0
    order = np.cumsum(begins) * (len(ranks) + 1) + ranks
    highest = np.maximum.accumulate(order)
    takes_effect: BoolArray = begins | np.append(True, highest[1:] > highest[:-1])
    return takes_effect


def _order(keys: IntArray, at: IntArray, first: IntArray) -> IntArray:
    """Return the order by key and, within a key, by the order in which rows take effect."""
    if (at[1:] >= at[:-1]).all() and not first[at != NO_INDEX].any():
        # NumPy sorts 16-bit numbers ten times faster.
        return np.argsort(keys.astype("u2") if keys.max() < 1 << 16 else keys, kind="stable")
    return np.lexsort((first, at, keys))
