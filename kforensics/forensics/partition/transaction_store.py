"""The transactions of a partition, of which the closed ones need not fit into memory.

They come in *ranges*: closed transactions in the order of their markers, so many at a time, then the open ones. What
is to be known of the transactions that end behind a range is small. Whatever of them holds the last stable offset in
the range is the one with the smallest first offset, and the next data of somebody else is that one or the first of
another producer. These two *follow* the range and stand for all behind it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter

import numpy as np

from kforensics.forensics.core.external_sort import RANGE, ROOM, Sorted, Sorting
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import TRANSACTION, Ending, Records

__all__ = ["NO_TRANSACTIONS", "Ledger", "Span", "ledger_of", "sorting_by_marker"]

NONE = -1
NO_TRANSACTIONS = np.empty(0, TRANSACTION)


@dataclass(frozen=True, slots=True, eq=False)
class Span:
    """A range of transactions, and what stands for all that end behind it.

    Attributes:
        after: marker offset of the last transaction before the range, -1 if there is none.
        upto: that of its last one; None behind the last marker, where the open transactions are.
        rows: TRANSACTION records.
        following: two records at most: of those behind, the one with the smallest first offset, and the one of another
            producer with the smallest.
    """

    after: int
    upto: int | None
    rows: Records
    following: Records

    @property
    def both(self) -> Records:
        """The range and what follows it."""
        return joined_records([self.rows, self.following])


@dataclass(frozen=True, eq=False)  # no slots: what is asked for often is computed once
class Ledger:
    """The transactions of a partition.

    Attributes:
        closed: TRANSACTION records with a marker, by its offset.
        opened: those without, by first offset.
    """

    closed: Sorted
    opened: Records

    def __len__(self) -> int:
        return len(self.closed) + len(self.opened)

    def __iter__(self) -> Iterator[Records]:
        """Yield all of them: the ranges, then the open ones, if there are any."""
        yield from self.closed
        if len(self.opened):
            yield self.opened

    def since(self, offset: int) -> Iterator[Records]:
        """Yield all that have no marker below an offset, and some that have, as the whole ledger does."""
        for number in range(int(np.searchsorted(self.closed.last_keys, offset)), self.closed.ranges):
            yield self.closed.read(number)
        yield self.opened

    def spans(self) -> Iterator[Span]:
        """Yield the ranges with what follows them, and then the open transactions, even if there are none."""
        ends = [NONE, *self.closed.last_keys.tolist()]
        for number, rows in enumerate(self.closed):
            yield Span(ends[number], ends[number + 1], rows, self._following[number])
        yield Span(ends[-1], None, self.opened, NO_TRANSACTIONS)

    def earliest(self, number: int) -> int:
        """Return the smallest first offset of a range."""
        return self._earliest[number]

    @cached_property
    def _seen_from_behind(self) -> tuple[list[Records], list[int]]:
        """What follows each range, and the smallest first offset in it."""
        following, earliest = [_first_two(self.opened)], list[int]()
        for number in range(self.closed.ranges - 1, -1, -1):
            rows = self.closed.read(number)
            earliest.append(int(rows["first_offset"].min()))
            following.append(_first_two(joined_records([_first_two(rows), following[-1]])))
        return following[-2::-1], earliest[::-1]

    @cached_property
    def aborted(self) -> int:
        """How many closed transactions were aborted."""
        return sum(int((rows["ending"] == Ending.ABORTED).sum()) for rows in self.closed)

    @property
    def _following(self) -> list[Records]:
        return self._seen_from_behind[0]

    @property
    def _earliest(self) -> list[int]:
        return self._seen_from_behind[1]


def _first_two(rows: Records) -> Records:
    """Return the record with the smallest first offset, and that of another producer with the smallest."""
    if len(rows) < 2:
        return rows
    first = int(rows["first_offset"].argmin())
    others = np.flatnonzero(rows["producer_id"] != rows["producer_id"][first])
    second = others[rows["first_offset"][others].argmin()] if len(others) else first
    return picked(rows, np.unique([first, second]))


def sorting_by_marker(room: int = ROOM, size: int = RANGE) -> Sorting:
    """Return what takes closed transactions in any order.

    Args:
        room: bytes of them to keep in memory.
        size: transactions of a range.
    """
    return Sorting(TRANSACTION, itemgetter("marker_offset"), room, size)


def ledger_of(transactions: Records, room: int = ROOM, size: int = RANGE) -> Ledger:
    """Return a ledger of TRANSACTION records that are all there, in any order.

    Args:
        transactions: closed and open ones.
        room: bytes of closed transactions to keep in memory.
        size: transactions of a range.
    """
    is_open = transactions["ending"] == Ending.OPEN
    closed, opened = sorting_by_marker(room, size), picked(transactions, is_open)
    closed.add(picked(transactions, ~is_open))
    return Ledger(closed.finish(), picked(opened, np.argsort(opened["first_offset"], kind="stable")))
