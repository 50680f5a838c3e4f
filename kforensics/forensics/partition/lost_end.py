"""Finds traces of a lost end of a log: files and entries that only a longer log can have left.

A copy that is broken off, by a full disk or a quota, has the first bytes of each file: the checkpoints are whole, and
their offsets beyond the ends of the logs. What a coordinator wrote last is not in such a log.
"""

from __future__ import annotations

from typing import NamedTuple

from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.kept_times import kept_until, may_precede
from kforensics.forensics.partition.partition_files import HIGH_WATERMARK, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["MissingEnd", "is_log_copied_before", "is_torn", "missing_end", "traces_of_lost_end"]


class MissingEnd(NamedTuple):
    """What shows that a log lacks its last records.

    Attributes:
        kind: which offset of a checkpoint is beyond its end.
        offset: that offset.
        end: the log end offset.
    """

    kind: str
    offset: int
    end: int

    def __str__(self) -> str:
        return f"its checkpoint has the {self.kind} {self.offset}, and the log ends at offset {self.end}"


def missing_end(state: PartitionState) -> MissingEnd | None:
    """Return what shows that a log lacks its last records, which its checkpoints count; None if nothing does.

    A running broker goes on while it is copied, so that its log ends before a checkpoint that was copied later. Nothing
    but these few records is missing then. So the end is only missing if the broker was stopped, if something of the
    longer log is left, if the log is younger than the checkpoint, or if its last batch is torn, unless the times of
    the files show that the log was copied first.

    Args:
        state: the partition.
    """
    end, high_watermark = state.log_end_offset, state.high_watermark
    if high_watermark is not None and high_watermark > end:
        missing, name = MissingEnd("high watermark", high_watermark, end), HIGH_WATERMARK
    else:
        flushed, name = state.checkpointed(RECOVERY_POINT) or 0, RECOVERY_POINT
        if flushed <= end:
            return None
        missing = MissingEnd("recovery point", flushed, end)
    copied_before = is_log_copied_before(state, name)
    is_cut = state.partition.log_dir.clean_shutdown or copied_before is False or traces_of_lost_end(state)[0] != ""
    return missing if is_cut or (copied_before is None and is_torn(state)) else None


def is_torn(state: PartitionState) -> bool:
    """Return whether the last segment ends in a part of a batch.

    Unlike ``PartitionState.torn_end``, a damaged last batch counts, and zeros, which a broker preallocates, do not.

    Args:
        state: the partition.
    """
    last = len(state.partition.segments) - 1
    return any(
        segment == last and damage.next_good_position is None and damage.reason != "zero-tail"
        for segment, damage in state.log.damage
    )


def is_log_copied_before(state: PartitionState, name: str) -> bool | None:
    """Return whether the log was last written before a checkpoint file, in a copy of a running or killed broker.

    Then the log may have been copied before the checkpoint was written. A log that was written after it has all that
    was there then. In an archive that keeps whole seconds, both may have the same time. None if the broker was stopped,
    or the copy has not kept file times.

    Args:
        state: the partition.
        name: name of the checkpoint file.
    """
    segments, checkpoint = state.partition.segments, state.partition.log_dir.written.get(name)
    written = segments[-1].mtime_ms if segments else None
    is_stopped = state.partition.log_dir.clean_shutdown
    if is_stopped or written is None or checkpoint is None or kept_until(state) == NO_TIME:
        return None
    return may_precede(written, checkpoint)


def traces_of_lost_end(state: PartitionState) -> tuple[str, dict[str, object]]:
    """Return the traces of a log whose high watermark is beyond its end, as a sentence and as evidence.

    A snapshot or a leader epoch at the end of the log counts, too, because the log was longer: a segment or an epoch
    began there. After a clean shutdown a snapshot at the end may be that of the shutdown; one where an empty segment
    begins was written when the broker rolled that. The epoch at the end of a log without batches is that of the leader
    which has not written yet. The sentence is empty if there is no trace.

    Args:
        state: a partition that is known to have been longer.
    """
    end = state.log_end_offset
    from_snapshot = end + 1 if state.partition.log_dir.clean_shutdown else end
    snapshots = sorted(
        offset for offset in state.partition.snapshots if offset >= from_snapshot and not _has_segment(state, offset)
    )
    from_epoch = end if state.log.batches else end + 1
    epochs = {epoch: start for epoch, start in checkpointed_epochs(state.partition).items() if start >= from_epoch}
    indexes = sorted(offset for offset in state.partition.indexes if offset >= end and not _has_segment(state, offset))
    phrases = [f"a snapshot at offset {offset}" for offset in snapshots[:1]]
    phrases += [f"leader epoch {epoch} from offset {start}" for epoch, start in list(epochs.items())[:1]]
    phrases += [f"an index of a segment at offset {offset}" for offset in indexes[:1]]
    if not phrases:
        return "", {}
    more = len(snapshots) + len(epochs) + len(indexes) - len(phrases)
    and_more = f", and {format_count(more, 'other trace')}" if more else ""
    evidence: dict[str, object] = {"snapshots_beyond": snapshots, "epochs_beyond": epochs, "indexes_beyond": indexes}
    return (
        f" The log was longer: {', '.join(phrases)}{and_more} without the segment.",
        {name: value for name, value in evidence.items() if value},
    )


def _has_segment(state: PartitionState, offset: int) -> bool:
    return any(segment.base_offset == offset for segment in state.partition.segments)
