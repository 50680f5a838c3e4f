"""How the last stable offset of a partition moved, and what its transaction indexes should hold.

A transaction [f, m] is unstable at the high watermarks h with f < h <= m; an open one has no m. The last stable offset
never falls as h rises, so of the transactions by first offset the oldest that is unstable at h is the first whose
marker, or one before whose marker, lies at h or behind it: one binary search in the running maximum of the markers
finds it. It finds it too among the transactions of a range and the oldest of those that end behind it. The plain form
of all this is ``Replay.last_stable_offset``.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``ProducerStateManager.lastStableOffset``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import TRANSACTION, Ending, Records
from kforensics.forensics.partition.transaction_store import Ledger, Span

__all__ = ["EXPECTED_ENTRY", "HISTORY", "expected_index", "history", "last_stable_offsets", "max_lag"]

NONE = -1
NEVER = int(np.iinfo("i8").max)

HISTORY = np.dtype(
    [
        ("from_high_watermark", "i8"),
        ("to_high_watermark", "i8"),
        ("last_stable_offset", "i8"),  # of all these high watermarks; of the last one where nothing holds it
        ("is_held", "?"),  # whether a transaction holds it; else it moves with the high watermark
        ("producer_id", "i8"),  # of the transaction that holds it; -1 if none does
    ]
)
EXPECTED_ENTRY = np.dtype(
    [
        ("producer_id", "i8"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),  # of the ABORT marker
        ("last_stable_offset", "i8"),  # as the leader writes it
        ("follower_last_stable_offset", "i8"),  # the one other value a follower may write; else the same
        ("first_offset_exact", "?"),
        ("last_stable_offset_exact", "?"),
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class _ByFirstOffset:
    """Transactions in the order of their first offsets.

    Attributes:
        order: indexes of the transactions.
        first_offset: their first offsets.
        released: the largest marker offset so far, NEVER from the first open transaction on.
    """

    order: Any
    first_offset: Any
    released: Any

    @classmethod
    def of(cls, transactions: Records) -> _ByFirstOffset:
        order = np.argsort(transactions["first_offset"], kind="stable")
        is_open = transactions["ending"] == Ending.OPEN
        markers = np.where(is_open, NEVER, transactions["marker_offset"])
        return cls(order, transactions["first_offset"][order], np.maximum.accumulate(markers[order]))

    def oldest_unstable(self, high_watermarks: Any) -> tuple[Any, Any]:
        """Return where in the order the oldest unstable transaction is, and whether there is one."""
        at = self.released.searchsorted(high_watermarks)
        return at, np.append(self.first_offset, NEVER)[at] < high_watermarks


def last_stable_offsets(ledger: Ledger, log_start_offset: int, high_watermarks: Any) -> tuple[Any, Records]:
    """Return last stable offsets, and the transactions that hold them back.

    Args:
        ledger: transactions of a partition.
        log_start_offset: first offset that consumers may see. A transaction from below holds nothing below it.
        high_watermarks: an array of them, at least one; one below the log start offset is taken for it.

    Returns:
        The offsets, and for each a TRANSACTION record, with ``batches`` -1 where none holds it.
    """
    ends = np.maximum(np.asarray(high_watermarks, "i8"), log_start_offset)
    oldest, holders = np.full(len(ends), NEVER), np.zeros(len(ends), TRANSACTION)
    for rows in ledger.since(int(ends.min())):
        found = _ByFirstOffset.of(rows)
        at, _ = found.oldest_unstable(ends)
        firsts = np.append(found.first_offset, NEVER)[at]
        older = firsts < oldest
        oldest[older] = firsts[older]
        placed(holders, older, picked(rows, found.order[at[older]]))
    firsts = np.maximum(oldest, log_start_offset)
    held = (oldest < ends) & (firsts < ends)
    holders["batches"][~held] = NONE
    return np.where(held, firsts, ends), holders


def history(ledger: Ledger, log_start_offset: int, log_end_offset: int) -> Iterator[Records]:
    """Yield the last stable offset at every high watermark the log had, as HISTORY records that follow each other.

    Args:
        ledger: transactions of a partition.
        log_start_offset: the first of the high watermarks.
        log_end_offset: the last one.
    """
    waiting = np.empty(0, HISTORY)
    for span in ledger.spans():
        after = max(span.after, log_start_offset - 1)
        upto = log_end_offset if span.upto is None else min(span.upto, log_end_offset)
        if after >= upto:
            continue
        steps = _steps(span, after, upto, log_start_offset)
        if _goes_on(waiting, steps[:1]):
            steps["from_high_watermark"][0] = waiting["from_high_watermark"][0]
        elif len(waiting):
            yield waiting
        yield steps[:-1]
        waiting = steps[-1:]
    yield waiting


def _goes_on(before: Records, behind: Records) -> bool:
    """Whether a step was cut in two where one range ends and the next begins."""
    if not len(before) or before["is_held"] != behind["is_held"]:
        return False
    same = before[["last_stable_offset", "producer_id"]] == behind[["last_stable_offset", "producer_id"]]
    return bool(same[0] or not before["is_held"][0])


def _steps(span: Span, after: int, upto: int, log_start_offset: int) -> Records:
    """Return the steps behind one high watermark and up to another, at least one."""
    rows = span.both
    found = _ByFirstOffset.of(rows)
    ends = np.minimum(found.released, upto)
    before = np.append(after, ends)[:-1]
    firsts = np.maximum(found.first_offset, log_start_offset)
    held = np.empty(len(ends), HISTORY)
    held["from_high_watermark"] = np.maximum(before, firsts) + 1
    held["to_high_watermark"] = ends
    held["last_stable_offset"], held["is_held"] = firsts, True
    held["producer_id"] = rows["producer_id"][found.order]
    held = held[held["from_high_watermark"] <= held["to_high_watermark"]]
    both = joined_records([held, _free(held, after + 1, upto)])
    return both.take(np.argsort(both["from_high_watermark"], kind="stable"))


def _free(held: Records, first: int, last: int) -> Records:
    """Return the ranges between those in which a transaction holds the last stable offset."""
    free = np.empty(len(held) + 1, HISTORY)
    free["from_high_watermark"] = np.append(first, held["to_high_watermark"] + 1)
    free["to_high_watermark"] = np.append(held["from_high_watermark"] - 1, last)
    free["last_stable_offset"], free["is_held"], free["producer_id"] = free["to_high_watermark"], False, NONE
    found: Records = free[free["from_high_watermark"] <= free["to_high_watermark"]]
    return found


def expected_index(ledger: Ledger, exact_from: int | None = 0) -> Iterator[Records]:
    """Yield the entries that the transaction indexes should hold, as EXPECTED_ENTRY records in the order of markers.

    The high watermark and the log start offset play no part in them. A follower applies a whole fetch before it
    computes its entries: where nothing else was open at the marker, it may name the first offset of the next
    transaction of another producer.

    Args:
        ledger: transactions of a partition.
        exact_from: offset from which all open transactions are known, None if that cannot be said of any.
    """
    for span in ledger.spans() if ledger.aborted else ():
        aborted = span.rows[span.rows["ending"] == Ending.ABORTED]
        if len(aborted):
            yield _entries(span, aborted, exact_from)


def _entries(span: Span, aborted: Records, exact_from: int | None) -> Records:
    entries = np.empty(len(aborted), EXPECTED_ENTRY)
    for name in ("producer_id", "first_offset", "first_offset_exact"):
        entries[name] = aborted[name]
    entries["last_offset"] = markers = aborted["marker_offset"]
    rows = span.both
    found = _ByFirstOffset.of(rows)
    # At m + 1 the transaction itself is stable, so what is unstable is open, and of another producer.
    at, unstable = found.oldest_unstable(markers + 1)
    stable = np.where(unstable, np.append(found.first_offset, NEVER)[at], markers + 1)
    following = _next_of_others(found, rows["producer_id"][found.order], markers, aborted["producer_id"])
    entries["last_stable_offset"] = stable
    entries["follower_last_stable_offset"] = np.where(unstable | (following == NEVER), stable, following)
    entries["last_stable_offset_exact"] = exact_from is not None and markers >= exact_from
    return entries


def _next_of_others(found: _ByFirstOffset, owners: Any, offsets: Any, producers: Any) -> Any:
    """Return the first offset of the next transaction of another producer behind each offset, NEVER if there is none.

    Args:
        found: all transactions.
        owners: their producer ids, in that order.
        offsets: where to look from.
        producers: the producers whose own transactions do not count.
    """
    count = len(owners)
    changes = np.flatnonzero(owners[1:] != owners[:-1]) + 1
    others = np.append(changes, count)[changes.searchsorted(np.arange(count), side="right")]
    at = found.first_offset.searchsorted(offsets, side="right")
    own = np.append(owners, NONE)[at] == producers
    at = np.where(own & (at < count), np.append(others, count)[at], at)
    return np.append(found.first_offset, NEVER)[at]


def max_lag(ledger: Ledger, log_start_offset: int, log_end_offset: int) -> int:
    """Return by how many offsets the last stable offset was behind the high watermark at most.

    Args:
        ledger: transactions of a partition.
        log_start_offset: first offset that consumers may see.
        log_end_offset: offset behind the last batch.
    """
    lag = 0
    for rows in ledger:
        ends = np.where(rows["ending"] == Ending.OPEN, log_end_offset, rows["marker_offset"])
        lag = int((ends - np.maximum(rows["first_offset"], log_start_offset)).max(initial=lag))
    return lag
