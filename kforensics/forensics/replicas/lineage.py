"""Finds which of two replicas a later leader has overruled, and the offset to which that replica will truncate.

Rule: KIP-101 and KIP-279, ``LeaderEpochFileCache.endOffsetFor`` and ``AbstractFetcherThread.getOffsetTruncationState``.
Without leader epochs, in message formats 0 and 1, a follower truncates to its high watermark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from kforensics.forensics.replicas.differences import Difference, DifferenceKind
from kforensics.forensics.replicas.replica import Replica

# Leader epochs with their start offsets.
EpochStarts = Sequence[tuple[int, int]]


def overruled_replica(difference: Difference, replicas: Sequence[Replica]) -> int | None:
    """Return the number of the replica with batches of the older leader, None if neither has any.

    If only one side has batches, the epoch of the other side is the newest one that began before them. Without leader
    epochs, it is the only one in which the range begins at or above the high watermark, if the other has written later.

    Args:
        difference: a range in which the two replicas differ.
        replicas: all replicas by number.
    """
    numbers = difference.first, difference.second
    epochs = [
        side.leader_epochs[1] if side.leader_epochs else _epoch_at(replicas[number], difference.first_offset)
        for number, side in zip(numbers, difference.sides, strict=True)
    ]
    if epochs[0] == epochs[1]:
        return _uncommitted_replica(difference, replicas)
    loser = 0 if epochs[0] < epochs[1] else 1
    return numbers[loser] if difference.sides[loser].batches else None


def _uncommitted_replica(difference: Difference, replicas: Sequence[Replica]) -> int | None:
    """Return which of two replicas without leader epochs truncates a range because only the other has it committed.

    The other one must have written later. Otherwise a replica that was out of sync was elected, and overwrites what was
    committed.
    """
    numbers = difference.first, difference.second
    if difference.kind is not DifferenceKind.DIVERGED or any(replicas[number].epoch_starts for number in numbers):
        return None
    begin, committed = difference.first_offset, [replicas[number].high_watermark for number in numbers]
    uncommitted = [side for side, end in enumerate(committed) if end is not None and end <= begin]
    if len(uncommitted) != 1 or None in committed:
        return None
    (loser,) = uncommitted
    written, written_by_other = (difference.sides[side].timestamps or (-1, -1) for side in (loser, 1 - loser))
    return numbers[loser] if 0 <= written[1] < written_by_other[1] else None


def _epoch_at(replica: Replica, offset: int) -> int:
    """Return the newest leader epoch of a replica that begins at or before an offset."""
    return max((epoch for epoch, start in replica.epoch_starts if start <= offset), default=-1)


class EpochHistory(Protocol):
    """A log with its leader epochs."""

    @property
    def epoch_starts(self) -> EpochStarts:
        """Leader epochs with their start offsets."""

    @property
    def end(self) -> int:
        """Log end offset."""

    @property
    def high_watermark(self) -> int | None:
        """High watermark, None if it is not known."""


def truncation_offset(loser: EpochHistory, winner: EpochHistory) -> int:
    """Return the offset to which a replica truncates when it follows another one.

    The two exchange epochs, newest first, until both know one.
    """
    end = loser.end
    epoch = max((known for known, _ in loser.epoch_starts), default=-1)
    while True:
        response = _end_offset(winner.epoch_starts, winner.end, epoch)
        if response is None:
            # The leader does not know so new an epoch: the follower uses its high watermark.
            return min(loser.high_watermark or 0, end)
        leader_epoch, leader_end = response
        own = _end_offset(loser.epoch_starts, loser.end, leader_epoch)
        if own is None or own[0] == leader_epoch:
            return min(end, leader_end, *(() if own is None else (own[1],)))
        epoch, end = own[0], min(end, own[1])


def _end_offset(starts: EpochStarts, end: int, epoch: int) -> tuple[int, int] | None:
    """Return the newest known epoch that is not above ``epoch``, and its end offset; None if ``epoch`` is above all.

    An epoch below all known ones ends where the first of them begins.
    """
    later_starts = [start for known, start in starts if known > epoch]
    earlier = [known for known, _ in starts if known <= epoch]
    if not later_starts:
        return (epoch, end) if epoch in earlier else None
    return earlier[-1] if earlier else epoch, min(later_starts)
