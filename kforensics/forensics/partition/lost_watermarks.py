"""Finds high watermarks in checkpoints that an unclean election has made wrong: what is committed below them is lost.

A checkpointed high watermark was never beyond the log of its broker, so a log that was written after the checkpoint and
ends before it has been truncated. An unclean election has done that if no log can have reached it since. A checkpoint
is written every ``replica.high.watermark.checkpoint.interval.ms``, 5 s by default, so only a copy from shortly after
the truncation shows it. Rules: ``ReplicaManager.checkpointHighWatermarks``, ``UnifiedLog.truncateTo``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kforensics.forensics.core.election import Election, unclean_phrase
from kforensics.forensics.partition.epoch_starts import EpochStarts, continued_at
from kforensics.forensics.partition.lost_end import is_log_copied_before, is_torn
from kforensics.forensics.partition.partition_files import HIGH_WATERMARK
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.truncated_indexes import stale_entries_to
from kforensics.parsers.log.log_rows import Place

__all__ = ["LostWatermark", "Watermark", "lost_watermarks_of"]


@dataclass(frozen=True, slots=True)
class Watermark:
    """The log end offset of a replica and its checkpointed high watermark, with the times of both files.

    Attributes:
        place: the replica.
        log_end_offset: its log end offset.
        offset: the high watermark, None if its checkpoint lacks the partition.
        checkpointed_ms: when the checkpoint was written, None if that is unknown.
        appended_ms: when the log was last written, None if that is unknown.
        is_truncated: whether a broker has truncated the log below the high watermark since that was checkpointed: the
            log was written after the checkpoint, ends before it, and is not broken off within a batch.
        epoch_starts: its leader epochs with their start offsets.
        indexed_to: the last offset in its index from before its log was truncated to less; None if there is none.
    """

    place: Place
    log_end_offset: int
    offset: int | None
    checkpointed_ms: int | None
    appended_ms: int | None
    is_truncated: bool
    epoch_starts: EpochStarts
    indexed_to: int | None = None

    @classmethod
    def of(cls, state: PartitionState, epoch_starts: EpochStarts) -> Watermark:
        """Return the high watermark of a replica.

        Args:
            state: the replica.
            epoch_starts: its leader epochs with their start offsets.
        """
        copied_before = is_log_copied_before(state, HIGH_WATERMARK)
        has_times, end, offset = copied_before is not None, state.log_end_offset, state.high_watermark
        is_beyond = offset is not None and offset > end
        return cls(
            place=state.partition.place,
            log_end_offset=end,
            offset=offset,
            checkpointed_ms=state.partition.log_dir.written.get(HIGH_WATERMARK) if has_times else None,
            appended_ms=state.partition.segments[-1].mtime_ms if has_times else None,
            is_truncated=copied_before is False and is_beyond and not is_torn(state),
            epoch_starts=epoch_starts,
            indexed_to=stale_entries_to(state),
        )

    def was_below(self, offset: int, time_ms: int) -> bool:
        """Return whether a leader had not reached an offset at a time, by its log or its checkpoint.

        A log that ends before the high watermark of its own checkpoint is not all that the leader had.
        """
        is_whole = self.offset is None or self.offset <= self.log_end_offset
        times = [self.appended_ms] if is_whole and self.log_end_offset < offset else []
        times += [self.checkpointed_ms] if self.offset is not None and self.offset < offset else []
        return any(time is not None and time >= time_ms for time in times)


class LostWatermark(NamedTuple):
    """A high watermark below which an unclean election has truncated records.

    Attributes:
        offset: the high watermark.
        start: the first offset that the new leader wrote: all from there on is lost.
        election: the election.
        replica: the replica whose checkpoint has the high watermark.
    """

    offset: int
    start: int
    election: Election
    replica: Watermark

    @property
    def phrase(self) -> str:
        """What made it wrong, for a sentence."""
        return f"{unclean_phrase(self.election)}, and continued at offset {self.start}"


def lost_watermarks_of(
    replicas: Sequence[Watermark], elections: Iterable[Election], clock_skew_ms: int
) -> list[LostWatermark]:
    """Return the high watermarks below which an unclean election has truncated records, by replica.

    The last such election counts. The high watermark is from before it if the checkpoint is. Otherwise its leader must
    have led ever since, must not have reached the high watermark when the checkpoint was written, and no log may. A
    crash that loses what was not flushed ends the leadership, or leaves the records to the leader.

    Args:
        replicas: all replicas of a partition.
        elections: its leader elections.
        clock_skew_ms: maximum difference between the clocks of brokers.
    """
    known = tuple(elections)
    every = (_lost(replica, replicas, known, clock_skew_ms) for replica in replicas)
    return [lost for lost in every if lost is not None]


def _lost(
    replica: Watermark, replicas: Sequence[Watermark], elections: Sequence[Election], clock_skew_ms: int
) -> LostWatermark | None:
    offset, checkpointed = replica.offset, replica.checkpointed_ms
    if not replica.is_truncated or offset is None or checkpointed is None:
        return None
    unclean = (one for one in elections if one.is_unclean and one.leader != one.predecessor)
    begun = ((one, continued_at(replica.epoch_starts, one)) for one in unclean)
    cutting = [(one, start) for one, start in begun if start is not None and start < offset]
    if not cutting:
        return None
    election, start = max(cutting, key=lambda cut: cut[0].leader_epoch)
    is_earlier = checkpointed + clock_skew_ms < election.timestamp
    if not is_earlier and not _is_below_since(election, replicas, elections, offset, checkpointed - clock_skew_ms):
        return None
    return LostWatermark(offset, start, election, replica)


def _is_below_since(
    election: Election, replicas: Sequence[Watermark], elections: Iterable[Election], offset: int, time_ms: int
) -> bool:
    """Return whether the last leader of a partition had not reached an offset at a time, nor has any of its logs."""
    epochs = [one.leader_epoch for one in elections]
    epochs += [epoch for replica in replicas for epoch, _ in replica.epoch_starts]
    if max(epochs) > election.leader_epoch or any(replica.log_end_offset >= offset for replica in replicas):
        return False
    leaders = (replica for replica in replicas if replica.place.broker_id == election.leader)
    return any(leader.was_below(offset, time_ms) for leader in leaders)
