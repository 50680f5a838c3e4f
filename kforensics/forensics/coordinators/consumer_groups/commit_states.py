"""What is remembered of groups and partitions between two chunks of a log, a row for each of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_effects import NOTHING, Effects, Kind
from kforensics.forensics.coordinators.consumer_groups.commit_tables import CommitTable
from kforensics.forensics.core.record_types import Records

__all__ = ["KeyStates", "Taking"]

STATE = np.dtype(
    [
        ("is_known", "?"),  # whether a commit is in force
        ("with_some", "?"),  # whether commits came with transactions
        ("without", "?"),  # whether some came without
        ("has_before", "?"),  # whether the last one came with a transaction
        ("has_other", "?"),  # whether another producer's came before it
        ("entered", "i8"),  # in which turn the key had its first commit, or its first since it was removed
    ]
)
LEAST = 1 << 10


@dataclass(frozen=True, slots=True)
class Taking:
    """What takes effect in a chunk.

    Attributes:
        keys: numbers of group, topic and partition.
        kinds: REMOVED, PLAIN or TRANSACTIONAL, of which the last come last.
        at: number of the record with which it does.
        first: orders what takes effect with the same record.
        table: the commits.
    """

    keys: Records
    kinds: Records
    at: Records
    first: Records
    table: CommitTable


class KeyStates:
    """Remembers by the number of a key."""

    def __init__(self) -> None:
        self._rows = np.zeros(0, STATE)
        self._tables = {kind: CommitTable.empty() for kind in (Kind.KNOWN, Kind.OTHER, Kind.BEFORE)}
        self._turns = 0

    def make_room(self, count: int) -> None:
        """Have a row for each of so many keys."""
        if count > len(self._rows):
            more = max(count, 2 * len(self._rows), LEAST) - len(self._rows)
            self._rows = np.append(self._rows, np.zeros(more, STATE))
            self._tables = {
                kind: CommitTable.joined([table, CommitTable.empty(more)]) for kind, table in self._tables.items()
            }

    def behind(self, taking: Taking) -> tuple[Effects, Records, Records]:
        """Return what takes effect sorted behind what is known; and ``at`` and ``first`` of the rows."""
        is_touched = np.zeros(len(self._rows), "?")
        is_touched[taking.keys] = True
        touched = np.flatnonzero(is_touched)
        rows = self._rows[touched]
        has = {Kind.KNOWN: rows["is_known"], Kind.OTHER: rows["has_other"], Kind.BEFORE: rows["has_before"]}
        known = {kind: touched[held] for kind, held in has.items()}
        lengths = [len(keys) for keys in known.values()]
        keys = np.concatenate([*known.values(), taking.keys])
        kinds = np.concatenate([np.repeat(list(known), lengths), taking.kinds])
        at = np.concatenate([np.full(sum(lengths), NOTHING), taking.at])
        first = np.concatenate([np.repeat(list(known), lengths), taking.first])
        tables = [self._tables[kind].taken(some) for kind, some in known.items()]
        order = _order(keys, at, first)
        keys, kinds = keys[order], kinds[order]
        is_known, states = kinds == Kind.KNOWN, self._rows[keys]
        modes = (is_known & states["with_some"], is_known & states["without"])
        table = CommitTable.joined([*tables, taking.table])
        return Effects(keys, kinds, order, table, modes), at[order], first[order]

    def take(self, effects: Effects, at: Records, first: Records) -> None:
        """Remember what is known behind all effects."""
        lasts = np.flatnonzero(effects.is_last)
        keys, remains = effects.keys[lasts], effects.kinds[lasts] != Kind.REMOVED
        self._rows[keys[~remains]] = np.zeros(1, STATE)
        keys, lasts = keys[remains], lasts[remains]
        rows = self._rows[keys]
        before, other = effects.in_transaction[lasts], effects.other[lasts]
        rows["is_known"], rows["has_before"] = True, before
        rows["has_other"] = before & (other != NOTHING)
        rows["with_some"], rows["without"] = (modes[lasts] for modes in effects.life_modes)
        begins = np.maximum.accumulate(np.where(effects.begins_life, effects.index, 0))[lasts]
        rows["entered"] = self._entered(rows["entered"], effects.kinds[begins] != Kind.KNOWN, at[begins], first[begins])
        self._rows[keys] = rows
        found = {Kind.KNOWN: effects.in_force[lasts], Kind.OTHER: other, Kind.BEFORE: np.where(before, lasts, NOTHING)}
        for kind, which in found.items():
            held = which != NOTHING
            self._tables[kind].put(keys[held], effects.table.taken(effects.source[which[held]]))

    def _entered(self, entered: Records, is_new: Records, at: Records, first: Records) -> Records:
        """Return the turns of keys; those that are new come behind all others, in the order of their commits."""
        which = np.flatnonzero(is_new)
        which = which[np.lexsort((first[which], at[which]))]
        found = entered.copy()
        found[which] = self._turns + np.arange(len(which))
        self._turns += len(which)
        return found

    def in_force(self) -> tuple[Records, CommitTable]:
        """Return the keys with a commit in force, in their turns, and the commits."""
        keys = np.flatnonzero(self._rows["is_known"])
        keys = keys[np.argsort(self._rows["entered"][keys])]
        return keys, self._tables[Kind.KNOWN].taken(keys)


def _order(keys: Records, at: Records, first: Records) -> Records:
    """Return the order by key, and in which those of a key take effect."""
    if (at[1:] >= at[:-1]).all() and not first[at != NOTHING].any():
        # Numbers of 16 bits are sorted ten times faster.
        return np.argsort(keys.astype("u2") if keys.max() < 1 << 16 else keys, kind="stable")
    return np.lexsort((first, at, keys))
