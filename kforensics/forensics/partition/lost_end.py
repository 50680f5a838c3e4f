"""Finds traces of a lost end of a log: files and entries that only a longer log can have left."""

from __future__ import annotations

from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["traces_of_lost_end"]


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
