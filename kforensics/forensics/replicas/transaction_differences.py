"""Where the transactions of two replicas are not the same, although their logs should be.

Replicas are cleaned each for itself. The cleaner takes whole transactions out, data first and the marker once no data
is left, and never data without a marker: a marker that is gone while data before it is there is none of its doing.
Rule: ``Cleaner.shouldDiscardBatch`` and ``CleanedTransactionMetadata``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from operator import itemgetter
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import TRANSACTION, Ending, Records
from kforensics.forensics.replicas.replica import Replica
from kforensics.forensics.replicas.side_by_side import in_step

__all__ = ["StateDifference", "Unlike", "state_differences"]

NEVER = np.iinfo("i8").max
NO_TRANSACTIONS = np.empty(0, TRANSACTION)


class Unlike(StrEnum):
    """How a transaction of one replica is not that of another one."""

    # The data is there and the marker behind it is not.
    MARKER = "marker"
    # Both have the marker, and it says something else.
    OUTCOME = "outcome"
    # Both have the marker, and the data begins elsewhere.
    FIRST_OFFSET = "first offset"
    # Neither data nor marker is there.
    ABSENT = "absent"


@dataclass(frozen=True, slots=True)
class StateDifference:
    """A transaction that two replicas do not agree on.

    Attributes:
        lacking: the replica that has it otherwise, or not at all.
        having: the one that has it.
        how: how they differ.
        transaction: TRANSACTION record of the one that has it.
        instead: that of the other one, None if it has none there.
    """

    lacking: Replica
    having: Replica
    how: Unlike
    transaction: Any
    instead: Any


@dataclass(frozen=True, slots=True)
class _View:
    """The transactions of one replica that count, each facing what the other one has in its place.

    Attributes:
        mine: TRANSACTION records that are not the same at the other one.
        facing: those of the other one, meaningless where ``has`` is False.
        has: whether there is one of the same producer that began before the end of mine.
        is_open: whether mine is open at the offset up to which they are compared.
        ends: markers of mine, NEVER where it is open there.
        facing_ends: markers of the others, likewise.
    """

    mine: Records
    facing: Records
    has: Records
    is_open: Records
    ends: Records
    facing_ends: Records


def state_differences(first: Replica, second: Replica, end: int) -> Iterator[StateDifference]:
    """Yield the transactions that two replicas do not agree on, up to an offset to which they have one history.

    Transactions that began before one of the logs did are left out.

    Args:
        first: the one replica.
        second: the other one.
        end: batches from there on do not count.
    """
    start = max(first.first_offset, second.first_offset)
    strict = max(first.strict_from, second.strict_from)
    sides = ((first, second), (second, first))
    mine, others = _unmatched(first, second)
    views = [_view(mine, others, start, end), _view(others, mine, start, end)]
    lost = [_without_marker(view) for view in views]
    # One that lost a marker goes on into the next transaction, which then begins elsewhere.
    explained = np.concatenate([view.mine["producer_id"][which] for view, which in zip(views, lost, strict=True)])
    for (having, lacking), view, which in zip(sides, views, lost, strict=True):
        found = {Unlike.MARKER: which, Unlike.ABSENT: _absent(view, lacking, end)}
        if having is first:  # what both have comes once
            found[Unlike.OUTCOME] = _same(view) & (view.mine["ending"] != view.facing["ending"]) & ~view.is_open
            found[Unlike.FIRST_OFFSET] = _moved(view, strict) & ~np.isin(view.mine["producer_id"], explained)
        for how, struck in found.items():
            for at in np.flatnonzero(struck).tolist():
                instead = view.facing[at] if view.has[at] and how is not Unlike.ABSENT else None
                yield StateDifference(lacking, having, how, view.mine[at], instead)


def _unmatched(first: Replica, second: Replica) -> tuple[Records, Records]:
    """Return the transactions of two replicas that are not the same in both."""
    left: tuple[list[Records], list[Records]] = ([], [])
    ranges = [_by_marker(first), _by_marker(second)]
    for one, other in in_step(ranges, itemgetter("marker_offset"), NO_TRANSACTIONS):
        _, mine, others = np.intersect1d(one["marker_offset"], other["marker_offset"], return_indices=True)
        same = np.ones(len(mine), bool)
        for name in ("producer_id", "first_offset", "ending"):
            same &= one[name][mine] == other[name][others]
        left[0].append(np.delete(one, mine[same]))
        left[1].append(np.delete(other, others[same]))
    opened = first.case.open_transactions, second.case.open_transactions
    return np.concatenate([*left[0], opened[0]]), np.concatenate([*left[1], opened[1]])


def _by_marker(replica: Replica) -> Iterator[Records]:
    for rows in replica.transactions():
        closed = rows[rows["ending"] != Ending.OPEN]
        if len(closed):
            yield closed


def _view(found: Records, others: Records, start: int, end: int) -> _View:
    mine = found[(found["first_offset"] >= start) & (found["first_offset"] < end) & found["first_offset_exact"]]
    ends = _ends(mine, end)
    at = _begun_before(mine["producer_id"], np.minimum(ends, end), others)
    facing = others[at] if len(others) else np.zeros(len(mine), TRANSACTION)
    return _View(mine, facing, at >= 0, ends == NEVER, ends, _ends(facing, end))


def _ends(transactions: Records, end: int) -> Records:
    markers = transactions["marker_offset"]
    return np.where((markers < 0) | (markers >= end), NEVER, markers)


def _begun_before(producer_ids: Records, offsets: Records, others: Records) -> Records:
    """Return the index of the last transaction of each producer that begins before an offset, -1 if there is none."""
    # Producer and offset as one number each, made of their ranks: offsets themselves may be too large for that.
    producers = np.unique(np.concatenate([producer_ids, others["producer_id"]]), return_inverse=True)[1]
    ranks = np.unique(np.concatenate([offsets, others["first_offset"]]), return_inverse=True)[1]
    keys = producers * (len(ranks) + 1) + ranks
    asked, begins = keys[: len(offsets)], keys[len(offsets) :]
    order = np.argsort(begins, kind="stable")
    before = np.searchsorted(begins[order], asked) - 1
    at = np.where(before >= 0, order[before] if len(order) else -1, -1)
    same = producers[len(offsets) :][at] == producers[: len(offsets)] if len(order) else np.zeros(len(at), bool)
    return np.where((at >= 0) & same, at, -1)


def _same(view: _View) -> Records:
    """Return which have the marker of the other one, or are open on both sides."""
    same: Records = view.has & (view.facing_ends == view.ends)
    return same


def _without_marker(view: _View) -> Records:
    """Return which go on at the other replica where they end at this one."""
    lost: Records = view.has & ~view.is_open & (view.facing_ends > view.ends)
    return lost


def _absent(view: _View, lacking: Replica, end: int) -> Records:
    """Return which the other replica has nothing of, although no cleaner can have taken it.

    Data without a marker is never cleaned. Where the other replica has a marker behind it, this one has lost that. One
    that goes on behind what is compared, as a copy does that was taken later, may have got its marker there, and then
    have been cleaned.
    """
    none = ~view.has | (view.facing_ends < view.mine["first_offset"])
    never_ended = view.is_open & (lacking.end <= end)
    absent: Records = none & (never_ended | (view.mine["first_offset"] >= lacking.strict_from))
    return absent


def _moved(view: _View, strict: int) -> Records:
    firsts = view.mine["first_offset"], view.facing["first_offset"]
    moved: Records = _same(view) & (firsts[0] != firsts[1]) & (np.minimum(*firsts) >= strict)
    return moved
