"""How the last stable offset of a partition moved, and what its transaction indexes should hold.

A transaction [f, m] is unstable at the high watermarks h with f < h <= m; an open one has no m. The last stable offset
never falls as h rises, so of the transactions by first offset the oldest that is unstable at h is the first whose
marker, or one before whose marker, lies at h or behind it: one binary search in the running maximum of the markers
finds it. The plain form of all this is ``Replay.last_stable_offset``.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``ProducerStateManager.lastStableOffset``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.replay.results import Ending, Records

__all__ = ["EXPECTED_ENTRY", "HISTORY", "expected_index", "history", "last_stable_offsets", "max_lag"]

NONE = -1
NEVER = int(np.iinfo("i8").max)

HISTORY = np.dtype(
    [
        ("from_high_watermark", "i8"),
        ("to_high_watermark", "i8"),
        ("last_stable_offset", "i8"),  # of all these high watermarks; of the last one where nothing holds it
        ("holder", "i8"),  # index of the transaction that holds it; -1 where it moves with the high watermark
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


def last_stable_offsets(transactions: Records, log_start_offset: int, high_watermarks: Any) -> tuple[Any, Any]:
    """Return last stable offsets, and the indexes of the transactions that hold them back, -1 where none does.

    Args:
        transactions: TRANSACTION records, closed and open ones, in any order.
        log_start_offset: first offset that consumers may see. A transaction from below holds nothing below it.
        high_watermarks: an array of them; one below the log start offset is taken for it.
    """
    ends = np.maximum(np.asarray(high_watermarks, "i8"), log_start_offset)
    found = _ByFirstOffset.of(transactions)
    at, unstable = found.oldest_unstable(ends)
    # The end of both arrays is the answer for whatever finds no transaction.
    firsts = np.maximum(np.append(found.first_offset, NEVER)[at], log_start_offset)
    held = unstable & (firsts < ends)
    return np.where(held, firsts, ends), np.where(held, np.append(found.order, NONE)[at], NONE)


def history(transactions: Records, log_start_offset: int, log_end_offset: int) -> Records:
    """Return the last stable offset at every high watermark the log had, as HISTORY records that follow each other.

    Args:
        transactions: TRANSACTION records, closed and open ones, in any order.
        log_start_offset: the first of the high watermarks.
        log_end_offset: the last one.
    """
    found = _ByFirstOffset.of(transactions)
    ends = np.minimum(found.released, log_end_offset)
    before = np.append(NONE, ends)[:-1]
    firsts = np.maximum(found.first_offset, log_start_offset)
    held = np.empty(len(ends), HISTORY)
    held["from_high_watermark"] = np.maximum(before, firsts) + 1
    held["to_high_watermark"] = ends
    held["last_stable_offset"], held["holder"] = firsts, found.order
    held = held[held["from_high_watermark"] <= held["to_high_watermark"]]
    both = np.concatenate([held, _free(held, log_start_offset, log_end_offset)])
    return both.take(np.argsort(both["from_high_watermark"], kind="stable"))


def _free(held: Records, log_start_offset: int, log_end_offset: int) -> Records:
    """Return the ranges between those in which a transaction holds the last stable offset."""
    free = np.empty(len(held) + 1, HISTORY)
    free["from_high_watermark"] = np.append(log_start_offset, held["to_high_watermark"] + 1)
    free["to_high_watermark"] = np.append(held["from_high_watermark"] - 1, log_end_offset)
    free["last_stable_offset"], free["holder"] = free["to_high_watermark"], NONE
    found: Records = free[free["from_high_watermark"] <= free["to_high_watermark"]]
    return found


def expected_index(transactions: Records, exact_from: int | None = 0) -> Records:
    """Return the entries that the transaction indexes should hold, as EXPECTED_ENTRY records in the order of markers.

    The high watermark and the log start offset play no part in them. A follower applies a whole fetch before it
    computes its entries: where nothing else was open at the marker, it may name the first offset of the next
    transaction of another producer.

    Args:
        transactions: TRANSACTION records, closed and open ones, in any order.
        exact_from: offset from which all open transactions are known, None if that cannot be said of any.
    """
    aborted = transactions[transactions["ending"] == Ending.ABORTED]
    aborted = aborted.take(np.argsort(aborted["marker_offset"], kind="stable"))
    entries = np.empty(len(aborted), EXPECTED_ENTRY)
    for name in ("producer_id", "first_offset", "first_offset_exact"):
        entries[name] = aborted[name]
    entries["last_offset"] = markers = aborted["marker_offset"]
    found = _ByFirstOffset.of(transactions)
    # At m + 1 the transaction itself is stable, so what is unstable is open, and of another producer.
    at, unstable = found.oldest_unstable(markers + 1)
    stable = np.where(unstable, np.append(found.first_offset, NEVER)[at], markers + 1)
    following = _next_of_others(found, transactions["producer_id"][found.order], markers, aborted["producer_id"])
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


def max_lag(transactions: Records, log_start_offset: int, log_end_offset: int) -> int:
    """Return by how many offsets the last stable offset was behind the high watermark at most.

    Args:
        transactions: TRANSACTION records, closed and open ones, in any order.
        log_start_offset: first offset that consumers may see.
        log_end_offset: offset behind the last batch.
    """
    is_open = transactions["ending"] == Ending.OPEN
    ends = np.where(is_open, log_end_offset, transactions["marker_offset"])
    return int((ends - np.maximum(transactions["first_offset"], log_start_offset)).max(initial=0))
