"""Finds transactions that differ between two replicas although their logs should be the same.

Each replica is cleaned independently. The cleaner removes whole transactions: first the data, and the marker once no
data is left. So it never explains a missing marker while data before it is still there.
Rule: ``Cleaner.shouldDiscardBatch`` and ``CleanedTransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray, TransactionOutcome
from kforensics.forensics.replicas.batch_windows import aligned_windows
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["TransactionDifference", "TransactionMismatch", "find_transaction_differences"]

# End of a transaction that is open at the end of the comparison.
NEVER = np.iinfo("i8").max
NO_TRANSACTIONS = np.empty(0, TRANSACTION)


class TransactionMismatch(StrEnum):
    """How a transaction differs between two replicas."""

    # The data is there, but the marker after it is not.
    MARKER = "marker"
    # Both have the marker, with different outcomes.
    OUTCOME = "outcome"
    # Both have the marker, but the data begins at different offsets.
    FIRST_OFFSET = "first offset"
    # Neither data nor marker is there.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class TransactionDifference:
    """A transaction on which two replicas disagree.

    Attributes:
        lacking: the replica that has a different transaction, or none.
        having: the replica that has the transaction.
        mismatch: how they differ.
        transaction: the TRANSACTION record.
        counterpart: the TRANSACTION record of the other replica, None if it has none there.
    """

    lacking: Replica
    having: Replica
    mismatch: TransactionMismatch
    transaction: Any
    counterpart: Any


@dataclass(frozen=True, slots=True)
class _View:
    """The differing transactions of one replica, each with its counterpart on the other replica.

    A counterpart is the other replica's last transaction of the same producer that began before this one ends.

    Attributes:
        own: TRANSACTION records that are not the same on the other replica.
        counterparts: TRANSACTION records of the other replica, meaningless where ``has_counterpart`` is False.
        has_counterpart: whether there is a counterpart.
        is_open: whether the own transaction is open at the end of the comparison.
        ends: marker offsets of the own transactions, NEVER if open.
        counterpart_ends: marker offsets of the counterparts, NEVER if open.
    """

    own: TransactionArray
    counterparts: TransactionArray
    has_counterpart: BoolArray
    is_open: BoolArray
    ends: IntArray
    counterpart_ends: IntArray


def find_transaction_differences(first: Replica, second: Replica, end: int) -> Iterator[TransactionDifference]:
    """Yield the transactions on which two replicas disagree.

    Transactions that began before the start of one of the logs are left out.

    Args:
        first: the first replica.
        second: the second replica.
        end: offset up to which both have the same history; batches from there on are ignored.
    """
    start = max(first.first_offset, second.first_offset)
    uncompacted = max(first.first_uncompacted_offset, second.first_uncompacted_offset)
    sides = ((first, second), (second, first))
    first_rows, second_rows = _unmatched(first, second)
    views = [_view(first_rows, second_rows, start, end), _view(second_rows, first_rows, start, end)]
    lost = [_without_marker(view) for view in views]
    # A transaction that lost its marker continues into the next one, which then begins at another offset.
    explained = np.concatenate([view.own["producer_id"][is_lost] for view, is_lost in zip(views, lost, strict=True)])
    for (having, lacking), view, is_lost in zip(sides, views, lost, strict=True):
        masks = {TransactionMismatch.MARKER: is_lost, TransactionMismatch.ABSENT: _absent(view, lacking, end)}
        if having is first:  # both replicas have these transactions: report them once
            outcome_differs = view.own["outcome"] != view.counterparts["outcome"]
            masks[TransactionMismatch.OUTCOME] = _same_end(view) & outcome_differs & ~view.is_open
            is_explained = np.isin(view.own["producer_id"], explained)
            masks[TransactionMismatch.FIRST_OFFSET] = _moved(view, max(start, uncompacted)) & ~is_explained
        for mismatch, mask in masks.items():
            for index in np.flatnonzero(mask).tolist():
                has_counterpart = view.has_counterpart[index] and mismatch is not TransactionMismatch.ABSENT
                counterpart = view.counterparts[index] if has_counterpart else None
                yield TransactionDifference(lacking, having, mismatch, view.own[index], counterpart)


def _unmatched(first: Replica, second: Replica) -> tuple[TransactionArray, TransactionArray]:
    """Return the transactions of two replicas that are not the same on both."""
    unmatched: tuple[list[TransactionArray], list[TransactionArray]] = ([], [])
    logs = [_by_marker(first), _by_marker(second)]
    for one, other in aligned_windows(logs, itemgetter("marker_offset"), NO_TRANSACTIONS):
        _, indexes, other_indexes = np.intersect1d(one["marker_offset"], other["marker_offset"], return_indices=True)
        same = np.ones(len(indexes), bool)
        for name in ("producer_id", "first_offset", "outcome"):
            same &= one[name][indexes] == other[name][other_indexes]
        unmatched[0].append(np.delete(one, indexes[same]))
        unmatched[1].append(np.delete(other, other_indexes[same]))
    # A broker that has forgotten a transaction has its data like the others.
    unended = first.state.transaction_store.unended, second.state.transaction_store.unended
    return np.concatenate([*unmatched[0], unended[0]]), np.concatenate([*unmatched[1], unended[1]])


def _by_marker(replica: Replica) -> Iterator[TransactionArray]:
    for rows in replica.transactions():
        closed = rows[rows["outcome"] != TransactionOutcome.OPEN]
        if len(closed):
            yield closed


def _view(rows: TransactionArray, others: TransactionArray, start: int, end: int) -> _View:
    own = rows[(rows["first_offset"] >= start) & (rows["first_offset"] < end) & rows["first_offset_exact"]]
    ends = _ends(own, end)
    indexes = _begun_before(own["producer_id"], np.minimum(ends, end), others)
    counterparts = others[indexes] if len(others) else np.zeros(len(own), TRANSACTION)
    return _View(own, counterparts, indexes >= 0, ends == NEVER, ends, _ends(counterparts, end))


def _ends(transactions: TransactionArray, end: int) -> IntArray:
    markers = transactions["marker_offset"]
    return np.where((markers < 0) | (markers >= end), NEVER, markers)


def _begun_before(producer_ids: IntArray, offsets: IntArray, others: TransactionArray) -> IntArray:
    """Return the index of each producer's last transaction that begins before an offset, -1 without one."""
    # Producer and offset combined in one number from their ranks; offsets themselves may be too large for that.
    producers = np.unique(np.concatenate([producer_ids, others["producer_id"]]), return_inverse=True)[1]
    ranks = np.unique(np.concatenate([offsets, others["first_offset"]]), return_inverse=True)[1]
    keys = producers * (len(ranks) + 1) + ranks
    limits, begins = keys[: len(offsets)], keys[len(offsets) :]
    order = np.argsort(begins, kind="stable")
    before = np.searchsorted(begins[order], limits) - 1
    indexes = np.where(before >= 0, order[before] if len(order) else -1, -1)
    if len(order):
        same_producer = producers[len(offsets) :][indexes] == producers[: len(offsets)]
    else:
        same_producer = np.zeros(len(indexes), bool)
    return np.where((indexes >= 0) & same_producer, indexes, -1)


def _same_end(view: _View) -> BoolArray:
    """Return which transactions have the marker of their counterpart, or are open on both sides."""
    same: BoolArray = view.has_counterpart & (view.counterpart_ends == view.ends)
    return same


def _without_marker(view: _View) -> BoolArray:
    """Return which transactions end on this replica but continue on the other one."""
    lost: BoolArray = view.has_counterpart & ~view.is_open & (view.counterpart_ends > view.ends)
    return lost


def _absent(view: _View, lacking: Replica, end: int) -> BoolArray:
    """Return which transactions the other replica does not have although no cleaner can have removed them.

    Data without a marker is never cleaned. If the other replica has a marker after it, this one has lost the marker.
    If the log of the other replica goes on after the end of the comparison, as in a copy taken later, it may have got
    the marker there and then have cleaned the transaction.
    """
    has_none = ~view.has_counterpart | (view.counterpart_ends < view.own["first_offset"])
    never_ended = view.is_open & (lacking.end <= end)
    is_uncompacted = view.own["first_offset"] >= lacking.first_uncompacted_offset
    absent: BoolArray = has_none & (never_ended | is_uncompacted)
    return absent


def _moved(view: _View, start: int) -> BoolArray:
    """Return which transactions begin at different offsets, both not before one from which both logs are whole."""
    first_offsets = view.own["first_offset"], view.counterparts["first_offset"]
    moved: BoolArray = _same_end(view) & (first_offsets[0] != first_offsets[1])
    moved &= np.minimum(*first_offsets) >= start
    return moved
