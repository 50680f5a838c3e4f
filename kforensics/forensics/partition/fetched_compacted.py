"""Decides whether offsets that are missing between two segments may have been compacted before they were fetched."""

from __future__ import annotations

from kforensics.forensics.partition.compaction_evidence import compacted_elsewhere
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["FETCHED", "compacted_by_leader", "has_files_of_lost_segment"]

FETCHED = "fetched from a leader that had compacted it"


def compacted_by_leader(
    state: PartitionState, first_offset: int, last_offset: int, written_ms: int | None = None
) -> str | None:
    """Return why the leader may have compacted a range before it was fetched, as half a sentence; None if it had not.

    A replica that was away, or that has truncated its log, fetches what its leader has left, and begins a segment at
    any batch of that. Its own cleaner checkpoint does not show this. Rule: ``UnifiedLog.roll`` with the offset of the
    first batch.

    Args:
        state: the partition.
        first_offset: first offset that is missing.
        last_offset: last offset that is missing.
        written_ms: when the batch after them was written, in ms, if that is at hand.
    """
    if has_files_of_lost_segment(state.partition, first_offset, last_offset):
        return None
    return compacted_elsewhere(state, last_offset, written_ms)


def has_files_of_lost_segment(partition: Partition, first_offset: int, last_offset: int) -> bool:
    """Return whether other files of a segment are left in a range without batches, so that the log once had it.

    A broker truncates and deletes indexes and snapshots with their segments. It writes a snapshot at its log end when
    it stops, so one at the first offset of the range shows nothing. Nor does a copy of a running broker, whose cleaner
    may have merged a segment in the meantime. Rule: ``LocalLog.deleteSegmentFiles``, ``ProducerStateManager``.

    Args:
        partition: its files.
        first_offset: first offset of the range.
        last_offset: last offset of the range.
    """
    if not partition.log_dir.clean_shutdown:
        return False
    bases = {segment.base_offset for segment in partition.segments}
    indexes = {*partition.indexes, *partition.time_indexes, *partition.transaction_indexes}
    left = indexes | {offset for offset in partition.snapshots if offset > first_offset}
    return any(first_offset <= base <= last_offset for base in left - bases)
