"""Which of two replicas a later leader has overruled, and how far it will cut its log.

Rule: KIP-101 and KIP-279, ``LeaderEpochFileCache.endOffsetFor`` and ``AbstractFetcherThread.getOffsetTruncationState``.
"""

from __future__ import annotations

from collections.abc import Sequence

from kforensics.forensics.replicas.differences import Difference
from kforensics.forensics.replicas.replica import Replica

__all__ = ["loser_of", "truncates_to"]

Starts = Sequence[tuple[int, int]]


def loser_of(found: Difference, replicas: Sequence[Replica]) -> int | None:
    """Return the number of the replica whose batches were written under the older leader, None if neither's were.

    Where only one side has batches, the other is asked for an epoch that began before them.

    Args:
        found: a range in which the two differ.
        replicas: all replicas, by number.
    """
    numbers = found.first, found.second
    epochs = [
        side.leader_epochs[1] if side.leader_epochs else _epoch_at(replicas[number], found.first_offset)
        for number, side in zip(numbers, found.sides, strict=True)
    ]
    if epochs[0] == epochs[1]:
        return None
    loser = 0 if epochs[0] < epochs[1] else 1
    return numbers[loser] if found.sides[loser].batches else None


def _epoch_at(replica: Replica, offset: int) -> int:
    """Return the newest leader epoch of a replica that begins at an offset or before it."""
    return max((epoch for epoch, start in replica.epoch_starts if start <= offset), default=-1)


def truncates_to(loser: Replica, winner: Replica) -> int:
    """Return the offset to which a replica cuts its log when it follows another one.

    Each asks the other, epoch by epoch downwards, until both know the same one.
    """
    end = loser.end
    epoch = max((known for known, _ in loser.epoch_starts), default=-1)
    while True:
        asked = _end_offset(winner.epoch_starts, winner.end, epoch)
        if asked is None:
            # The leader knows no epoch so new: the follower falls back on its high watermark.
            return min(loser.high_watermark or 0, end)
        known, leader_end = asked
        mine = _end_offset(loser.epoch_starts, loser.end, known)
        if mine is None or mine[0] == known:
            return min(end, leader_end, *(() if mine is None else (mine[1],)))
        epoch, end = mine[0], min(end, mine[1])


def _end_offset(starts: Starts, end: int, epoch: int) -> tuple[int, int] | None:
    """Return the newest epoch that is not above one, and where it ends; None if one is above all of them.

    An epoch below all that are known ends where the first of them begins.
    """
    above = [start for one, start in starts if one > epoch]
    known = [one for one, _ in starts if one <= epoch]
    if not above:
        return (epoch, end) if epoch in known else None
    return known[-1] if known else epoch, min(above)
