"""Offsets that transactions committed, until the marker comes that decides over them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.commit_tables import CommitTable
from kforensics.forensics.core.record_types import Records

__all__ = ["NO_PENDING", "Markers", "Pending", "settled"]

UNSETTLED = -1


@dataclass(frozen=True, slots=True)
class Markers:
    """The ends of transactions in the order of the log.

    Attributes:
        at: number of the record in the log.
        producer_id: whose transaction ends.
        is_commit: whether it is committed.
        timestamp: of the record.
    """

    at: Records
    producer_id: Records
    is_commit: Records
    timestamp: Records


@dataclass(frozen=True, slots=True)
class Pending:
    """What transactions committed, in the order of the log; of a transaction and a key the last commit counts.

    Attributes:
        at: number of the record in the log.
        first: number of the first record of the same transaction and key, by which they take effect in turn.
        keys: numbers of group, topic and partition.
        table: the commits.
    """

    at: Records
    first: Records
    keys: Records
    table: CommitTable

    def __len__(self) -> int:
        return len(self.at)

    def followed_by(self, other: Pending) -> Pending:
        """Return both, one behind the other."""
        return Pending(
            np.concatenate([self.at, other.at]),
            np.concatenate([self.first, other.first]),
            np.concatenate([self.keys, other.keys]),
            CommitTable.joined([self.table, other.table]),
        )

    def taken(self, which: Records, first: Records) -> Pending:
        """Return some of them, by their indexes, with what comes first anew."""
        return Pending(self.at[which], first, self.keys[which], self.table.taken(which))


NO_PENDING = Pending(np.empty(0, "i8"), np.empty(0, "i8"), np.empty(0, "i8"), CommitTable.empty())


def settled(pending: Pending, markers: Markers) -> tuple[Pending, Pending, Records]:
    """Return what is pending still, what takes effect, and with which marker each of that does.

    Args:
        pending: with what the records brought up to the last marker and behind it.
        markers: the markers among these records.
    """
    if not len(pending):
        return pending, pending, np.empty(0, "i8")
    marker = _markers_of(pending, markers)
    groups = _numbered(marker, _numbers_of(pending.table.rows["producer_id"]))
    groups = _numbered(groups, _numbers_of(pending.keys))
    order = np.argsort(groups, kind="stable")
    begins = np.flatnonzero(np.diff(groups[order], prepend=UNSETTLED - 1))
    lasts = order[np.append(begins[1:], len(order)) - 1]
    first = pending.first[order[begins]]
    open_, counts = marker[lasts] == UNSETTLED, np.append(markers.is_commit, False)[marker[lasts]]
    rest, done = np.flatnonzero(open_), np.flatnonzero(counts)
    rest = rest[np.argsort(pending.at[lasts[rest]])]
    return (
        pending.taken(lasts[rest], first[rest]),
        pending.taken(lasts[done], first[done]),
        marker[lasts[done]],
    )


def _markers_of(pending: Pending, markers: Markers) -> Records:
    """Return for each commit the marker that ends its transaction: the producer's next one."""
    count = len(pending)
    producers = np.concatenate([pending.table.rows["producer_id"], markers.producer_id])
    order = np.lexsort((np.concatenate([pending.at, markers.at]), producers))
    places = np.where(order >= count, np.arange(len(order)), len(order))
    following = np.minimum.accumulate(places[::-1])[::-1]
    # In the last place there is a producer that nobody is.
    ends = np.append(order, UNSETTLED)[following]
    same = (following < len(order)) & (producers[ends] == producers[order])
    found = np.empty(len(order), "i8")
    found[order] = np.where(same, ends - count, UNSETTLED)
    return found[:count]


def _numbers_of(values: Records) -> Records:
    found: Records = np.unique(values, return_inverse=True)[1]
    return found


def _numbered(major: Records, minor: Records) -> Records:
    """Return one number for two, in the order of the first and then the second."""
    return (major - UNSETTLED) * (int(minor.max()) + 1) + minor
