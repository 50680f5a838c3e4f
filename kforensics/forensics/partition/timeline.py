"""How the last stable offset of a partition moved, and which entries its transaction indexes should contain.

A transaction with first offset f and marker offset m is unstable at the high watermarks h with f < h <= m; an open
transaction has no m. The last stable offset never decreases as h grows. Sort the transactions by first offset: the
oldest one that is unstable at h is the first one for which it, or one before it, has its marker at or after h. One
binary search in the running maximum of the marker offsets finds it. The same search works on the transactions of a
page together with the oldest transactions that end after it. ``Replay.last_stable_offset`` is the plain definition.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``ProducerStateManager.lastStableOffset``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray, TransactionOutcome
from kforensics.forensics.partition.transaction_store import TransactionPage, TransactionStore
from kforensics.parsers.format.array_types import StructArray

__all__ = [
    "EXPECTED_ABORTED_ENTRY",
    "LSO_STEP",
    "ExpectedAbortedEntryArray",
    "LsoStepArray",
    "expected_aborted_entries",
    "last_stable_offsets",
    "lso_steps",
    "max_lso_lag",
]

NONE = -1
NEVER = int(np.iinfo("i8").max)

LSO_STEP = np.dtype(
    [
        ("from_high_watermark", "i8"),
        ("to_high_watermark", "i8"),
        ("last_stable_offset", "i8"),  # at all these high watermarks; at the last one if no transaction blocks it
        ("is_blocked", "?"),  # whether a transaction blocks it; else it moves with the high watermark
        ("producer_id", "i8"),  # of the blocking transaction; -1 if there is none
    ]
)
LsoStepArray: TypeAlias = StructArray
EXPECTED_ABORTED_ENTRY = np.dtype(
    [
        ("producer_id", "i8"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),  # of the ABORT marker
        ("last_stable_offset", "i8"),  # as the leader writes it
        ("follower_last_stable_offset", "i8"),  # the only other value a follower may write; else the same
        ("old_follower_last_stable_offset", "i8"),  # the value it may write in old releases; else the same
        ("first_offset_exact", "?"),
        ("last_stable_offset_exact", "?"),
    ]
)
ExpectedAbortedEntryArray: TypeAlias = StructArray


@dataclass(frozen=True, slots=True, eq=False)
class _ByFirstOffset:
    """Transactions sorted by first offset.

    Attributes:
        order: indexes of the transactions.
        first_offset: their first offsets.
        released: the largest marker offset so far, NEVER from the first open transaction on.
    """

    order: Any
    first_offset: Any
    released: Any

    @classmethod
    def of(cls, transactions: TransactionArray) -> _ByFirstOffset:
        order = np.argsort(transactions["first_offset"], kind="stable")
        is_open = transactions["outcome"] == TransactionOutcome.OPEN
        markers = np.where(is_open, NEVER, transactions["marker_offset"])
        return cls(order, transactions["first_offset"][order], np.maximum.accumulate(markers[order]))

    def oldest_unstable(self, high_watermarks: Any) -> tuple[Any, Any]:
        """Return the rank of the oldest unstable transaction, and whether there is one."""
        ranks = self.released.searchsorted(high_watermarks)
        return ranks, np.append(self.first_offset, NEVER)[ranks] < high_watermarks


def last_stable_offsets(
    transaction_store: TransactionStore, log_start_offset: int, high_watermarks: Any
) -> tuple[Any, TransactionArray]:
    """Return last stable offsets, and the transactions that block them.

    Args:
        transaction_store: transactions of a partition.
        log_start_offset: first offset that is visible to consumers. No transaction blocks a lower offset.
        high_watermarks: an array of at least one; values below the log start offset count as the log start offset.

    Returns:
        The offsets, and a TRANSACTION record for each, with ``batches`` -1 where no transaction blocks it.
    """
    ends = np.maximum(np.asarray(high_watermarks, "i8"), log_start_offset)
    oldest, blocking_transactions = np.full(len(ends), NEVER), np.zeros(len(ends), TRANSACTION)
    for rows in transaction_store.since(int(ends.min())):
        by_first_offset = _ByFirstOffset.of(rows)
        ranks, _ = by_first_offset.oldest_unstable(ends)
        firsts = np.append(by_first_offset.first_offset, NEVER)[ranks]
        older = firsts < oldest
        oldest[older] = firsts[older]
        put_rows(blocking_transactions, older, take_rows(rows, by_first_offset.order[ranks[older]]))
    firsts = np.maximum(oldest, log_start_offset)
    blocked = (oldest < ends) & (firsts < ends)
    blocking_transactions["batches"][~blocked] = NONE
    return np.where(blocked, firsts, ends), blocking_transactions


def lso_steps(
    transaction_store: TransactionStore, log_start_offset: int, log_end_offset: int
) -> Iterator[LsoStepArray]:
    """Yield the last stable offset at every high watermark the log had, as consecutive LSO_STEP records.

    Args:
        transaction_store: transactions of a partition.
        log_start_offset: the first high watermark.
        log_end_offset: the last high watermark.
    """
    unfinished = np.empty(0, LSO_STEP)
    for page in transaction_store.pages():
        after = max(page.after, log_start_offset - 1)
        upto = log_end_offset if page.upto is None else min(page.upto, log_end_offset)
        if after >= upto:
            continue
        steps = _steps(page, after, upto, log_start_offset)
        if _is_continued(unfinished, steps[:1]):
            steps["from_high_watermark"][0] = unfinished["from_high_watermark"][0]
        elif len(unfinished):
            yield unfinished
        yield steps[:-1]
        unfinished = steps[-1:]
    yield unfinished


def _is_continued(before: LsoStepArray, after: LsoStepArray) -> bool:
    """Return whether the boundary between two pages divided one step into two."""
    if not len(before) or before["is_blocked"] != after["is_blocked"]:
        return False
    same = before[["last_stable_offset", "producer_id"]] == after[["last_stable_offset", "producer_id"]]
    return bool(same[0] or not before["is_blocked"][0])


def _steps(page: TransactionPage, after: int, upto: int, log_start_offset: int) -> LsoStepArray:
    """Return the steps after one high watermark and up to another, at least one."""
    rows = page.with_following
    by_first_offset = _ByFirstOffset.of(rows)
    ends = np.minimum(by_first_offset.released, upto)
    before = np.append(after, ends)[:-1]
    firsts = np.maximum(by_first_offset.first_offset, log_start_offset)
    blocked = np.empty(len(ends), LSO_STEP)
    blocked["from_high_watermark"] = np.maximum(before, firsts) + 1
    blocked["to_high_watermark"] = ends
    blocked["last_stable_offset"], blocked["is_blocked"] = firsts, True
    blocked["producer_id"] = rows["producer_id"][by_first_offset.order]
    blocked = blocked[blocked["from_high_watermark"] <= blocked["to_high_watermark"]]
    steps = concat_rows([blocked, _unblocked(blocked, after + 1, upto)])
    return steps.take(np.argsort(steps["from_high_watermark"], kind="stable"))


def _unblocked(blocked: LsoStepArray, first: int, last: int) -> LsoStepArray:
    """Return the steps between the blocked ones, in which no transaction blocks the last stable offset."""
    free = np.empty(len(blocked) + 1, LSO_STEP)
    free["from_high_watermark"] = np.append(first, blocked["to_high_watermark"] + 1)
    free["to_high_watermark"] = np.append(blocked["from_high_watermark"] - 1, last)
    free["last_stable_offset"], free["is_blocked"], free["producer_id"] = free["to_high_watermark"], False, NONE
    steps: LsoStepArray = free[free["from_high_watermark"] <= free["to_high_watermark"]]
    return steps


def expected_aborted_entries(
    transaction_store: TransactionStore, exact_from: int | None = 0
) -> Iterator[ExpectedAbortedEntryArray]:
    """Yield the entries that the transaction indexes should contain, in the order of their markers.

    They do not depend on the high watermark or the log start offset. A follower applies a whole fetch before it
    computes its entries: if no other transaction was open at the marker, its entry may name the first offset of the
    next transaction of another producer. In old releases (0.11 to 2.0) it may be the next one of the same producer:
    ``ProducerStateManager.completeTxn`` took the first of all open transactions; later, ``lastStableOffset`` left out
    those of the producer.

    Args:
        transaction_store: transactions of a partition.
        exact_from: offset from which all open transactions are known, None if there is no such offset.

    Yields:
        EXPECTED_ABORTED_ENTRY records.
    """
    for page in transaction_store.pages() if transaction_store.aborted else ():
        aborted = page.rows[page.rows["outcome"] == TransactionOutcome.ABORTED]
        if len(aborted):
            yield _entries(page, aborted, exact_from)


def _entries(page: TransactionPage, aborted: TransactionArray, exact_from: int | None) -> ExpectedAbortedEntryArray:
    entries = np.empty(len(aborted), EXPECTED_ABORTED_ENTRY)
    for name in ("producer_id", "first_offset", "first_offset_exact"):
        entries[name] = aborted[name]
    entries["last_offset"] = markers = aborted["marker_offset"]
    rows = page.with_following
    by_first_offset = _ByFirstOffset.of(rows)
    # At m + 1 the transaction itself is stable, so an unstable one is open and belongs to another producer.
    ranks, unstable = by_first_offset.oldest_unstable(markers + 1)
    stable = np.where(unstable, np.append(by_first_offset.first_offset, NEVER)[ranks], markers + 1)
    producer_ids = rows["producer_id"][by_first_offset.order]
    following = {
        "follower_last_stable_offset": _next_of_others(by_first_offset, producer_ids, markers, aborted["producer_id"]),
        "old_follower_last_stable_offset": _next_of_all(by_first_offset, markers),
    }
    entries["last_stable_offset"] = stable
    for name, first_offset in following.items():
        entries[name] = np.where(unstable | (first_offset == NEVER), stable, first_offset)
    entries["last_stable_offset_exact"] = exact_from is not None and markers >= exact_from
    return entries


def _next_of_all(by_first_offset: _ByFirstOffset, offsets: Any) -> Any:
    """Return the first offset of the next transaction after each offset, NEVER if there is none."""
    ranks = by_first_offset.first_offset.searchsorted(offsets, side="right")
    return np.append(by_first_offset.first_offset, NEVER)[ranks]


def _next_of_others(by_first_offset: _ByFirstOffset, producer_ids: Any, offsets: Any, excluded: Any) -> Any:
    """Return the first offset of the next transaction of another producer after each offset, NEVER if there is none.

    Args:
        by_first_offset: all transactions.
        producer_ids: their producer ids, in that order.
        offsets: offsets to search from.
        excluded: for each offset, the producer whose own transactions do not count.
    """
    count = len(producer_ids)
    changes = np.flatnonzero(producer_ids[1:] != producer_ids[:-1]) + 1
    next_others = np.append(changes, count)[changes.searchsorted(np.arange(count), side="right")]
    ranks = by_first_offset.first_offset.searchsorted(offsets, side="right")
    own = np.append(producer_ids, NONE)[ranks] == excluded
    ranks = np.where(own & (ranks < count), np.append(next_others, count)[ranks], ranks)
    return np.append(by_first_offset.first_offset, NEVER)[ranks]


def max_lso_lag(transaction_store: TransactionStore, log_start_offset: int, log_end_offset: int) -> int:
    """Return the largest number of offsets by which the last stable offset lagged the high watermark.

    Args:
        transaction_store: transactions of a partition.
        log_start_offset: first offset that is visible to consumers.
        log_end_offset: offset after the last batch.
    """
    lag = 0
    for rows in transaction_store:
        ends = np.where(rows["outcome"] == TransactionOutcome.OPEN, log_end_offset, rows["marker_offset"])
        lag = int((ends - np.maximum(rows["first_offset"], log_start_offset)).max(initial=lag))
    return lag
