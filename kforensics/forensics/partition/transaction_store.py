"""The transactions of a partition, kept page by page so that closed ones need not fit into memory.

A *page* holds a fixed number of closed transactions in the order of their markers; the last page holds the open ones.
Little has to be known about the transactions that end after a page. Only the one with the smallest first offset can
block the last stable offset within the page. The next data of another producer belongs either to that transaction or
to the earliest one of another producer. These two represent all transactions after the page.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter

import numpy as np

from kforensics.forensics.core.external_sort import PAGE_SIZE, ROOM, ExternalSort, SortedRows
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray, TransactionOutcome

__all__ = ["NO_TRANSACTIONS", "TransactionPage", "TransactionStore", "sort_by_marker", "transaction_store_of"]

NONE = -1
NO_TRANSACTIONS = np.empty(0, TRANSACTION)


@dataclass(frozen=True, slots=True, eq=False)
class TransactionPage:
    """A page of transactions, and what represents all transactions that end after it.

    Attributes:
        after: marker offset of the last transaction before the page, -1 if there is none.
        upto: marker offset of the last transaction in the page; None for the page of open transactions.
        rows: TRANSACTION records of the page.
        following: at most two TRANSACTION records from after the page: the one with the smallest first offset, and
            the one of another producer with the smallest first offset.
    """

    after: int
    upto: int | None
    rows: TransactionArray
    following: TransactionArray

    @property
    def with_following(self) -> TransactionArray:
        """The page together with the transactions that represent those after it."""
        return concat_rows([self.rows, self.following])


@dataclass(frozen=True, eq=False)  # no slots: cached properties
class TransactionStore:
    """The transactions of a partition.

    Attributes:
        closed: TRANSACTION records with a marker, sorted by marker offset.
        opened: TRANSACTION records without a marker, sorted by first offset.
        forgotten: TRANSACTION records of open transactions that a broker forgot: they are not in a snapshot above them,
            or it loaded the log when the topic had message format 0 or 1. They block nothing and are not among the
            others.
        lacking: offset of the newest snapshot, if that lacks forgotten transactions; None if the message format of the
            topic is why they are forgotten.
    """

    closed: SortedRows
    opened: TransactionArray
    forgotten: TransactionArray = field(default_factory=lambda: NO_TRANSACTIONS)
    lacking: int | None = None

    def __len__(self) -> int:
        return len(self.closed) + len(self.opened)

    def __iter__(self) -> Iterator[TransactionArray]:
        """Yield all transactions: the closed ones page by page, then the open ones, if there are any."""
        yield from self.closed
        if len(self.opened):
            yield self.opened

    def as_in_log(self) -> TransactionStore:
        """Return the transactions as the log alone shows them: what a broker has forgotten is open."""
        opened = self.unended
        opened = take_rows(opened, np.argsort(opened["first_offset"], kind="stable"))
        opened["outcome"] = TransactionOutcome.OPEN
        return TransactionStore(self.closed, opened)

    @property
    def unended(self) -> TransactionArray:
        """All transactions without a marker in the log: the open ones, then the forgotten ones."""
        return concat_rows([self.opened, self.forgotten])

    def with_forgotten(self) -> Iterator[TransactionArray]:
        """Yield all transactions as iterating does, then the forgotten ones, if there are any."""
        yield from self
        if len(self.forgotten):
            yield self.forgotten

    def since(self, offset: int) -> Iterator[TransactionArray]:
        """Yield, page by page, at least all transactions that have no marker below an offset.

        The first page may also contain transactions whose marker is below the offset.
        """
        for number in range(int(np.searchsorted(self.closed.last_keys, offset)), self.closed.page_count):
            yield self.closed.read(number)
        yield self.opened

    def forgotten_at(self, producer_id: int, first_offset: int, last_offset: int) -> np.void | None:
        """Return the forgotten transaction that a batch of a producer is in, None if it is in none."""
        rows = self.forgotten
        indexes = np.flatnonzero(
            (rows["producer_id"] == producer_id)
            & (rows["first_offset"] <= last_offset)
            & (rows["last_offset"] >= first_offset)
        )
        transaction: np.void | None = rows[indexes[0]] if len(indexes) else None
        return transaction

    def is_lacking(self, snapshot: int, producer_id: int, first_offset: int) -> bool:
        """Return whether a transaction is forgotten, as a snapshot shows that lacks it."""
        rows = self.forgotten
        is_it = (rows["producer_id"] == producer_id) & (rows["first_offset"] == first_offset)
        return self.lacking == snapshot and bool(is_it.any())

    def pages(self) -> Iterator[TransactionPage]:
        """Yield the pages of closed transactions, then one page of open transactions, even if there are none."""
        ends = [NONE, *self.closed.last_keys.tolist()]
        for number, rows in enumerate(self.closed):
            yield TransactionPage(ends[number], ends[number + 1], rows, self._following[number])
        yield TransactionPage(ends[-1], None, self.opened, NO_TRANSACTIONS)

    def earliest_first_offset(self, number: int) -> int:
        """Return the smallest first offset in a page."""
        return self._earliest[number]

    @cached_property
    def _read_backwards(self) -> tuple[list[TransactionArray], list[int]]:
        """For each page, what represents the transactions after it, and the smallest first offset in it."""
        following, earliest = [_first_two(self.opened)], list[int]()
        for number in range(self.closed.page_count - 1, -1, -1):
            rows = self.closed.read(number)
            earliest.append(int(rows["first_offset"].min()))
            following.append(_first_two(concat_rows([_first_two(rows), following[-1]])))
        return following[-2::-1], earliest[::-1]

    @cached_property
    def aborted(self) -> int:
        """Number of closed transactions that were aborted."""
        return sum(int((rows["outcome"] == TransactionOutcome.ABORTED).sum()) for rows in self.closed)

    @property
    def _following(self) -> list[TransactionArray]:
        return self._read_backwards[0]

    @property
    def _earliest(self) -> list[int]:
        return self._read_backwards[1]


def _first_two(rows: TransactionArray) -> TransactionArray:
    """Return the record with the smallest first offset, and the one of another producer with the smallest."""
    if len(rows) < 2:
        return rows
    first = int(rows["first_offset"].argmin())
    others = np.flatnonzero(rows["producer_id"] != rows["producer_id"][first])
    second = others[rows["first_offset"][others].argmin()] if len(others) else first
    return take_rows(rows, np.unique([first, second]))


def sort_by_marker(memory_limit: int = ROOM, page_size: int = PAGE_SIZE) -> ExternalSort:
    """Return a sort by marker offset that takes closed transactions in any order.

    Args:
        memory_limit: bytes of transactions to keep in memory.
        page_size: transactions per page.
    """
    return ExternalSort(TRANSACTION, itemgetter("marker_offset"), memory_limit, page_size)


def transaction_store_of(
    transactions: TransactionArray, memory_limit: int = ROOM, page_size: int = PAGE_SIZE
) -> TransactionStore:
    """Return a store of TRANSACTION records that are all in memory, in any order.

    Args:
        transactions: closed and open ones.
        memory_limit: bytes of closed transactions to keep in memory.
        page_size: transactions per page.
    """
    is_open = transactions["outcome"] == TransactionOutcome.OPEN
    closed, opened = sort_by_marker(memory_limit, page_size), take_rows(transactions, is_open)
    closed.add(take_rows(transactions, ~is_open))
    return TransactionStore(closed.finish(), take_rows(opened, np.argsort(opened["first_offset"], kind="stable")))
