"""What the indexes of an active segment show of a truncation: entries of batches that are no longer in the log.

A truncation changes how many entries count, which a running broker knows, and leaves the bytes of the others in the
file until later entries replace them, or an orderly stop cuts them off. Rules: ``AbstractIndex.truncateToEntries`` and
``trimToValidSize``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.partition.index_evidence import SegmentEvidence

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["last_truncated_to", "stale_entries_to", "unfitting_end"]


def unfitting_end(state: PartitionState, segment: int, *, is_time: bool) -> tuple[int, list[int], list[int]]:
    """Return how many entries an index has up to the last that fits, and offsets and positions of those after it.

    Args:
        state: the partition.
        segment: number of the segment.
        is_time: whether its time index is meant, not its offset index.
    """
    faults, evidence = state.index_faults, SegmentEvidence.of(state.partition, segment)
    if faults is None:
        return 0, [], []
    entries = evidence.times if is_time else evidence.offsets
    rows = faults.times if is_time else concat_rows([faults.corrupt, faults.misfits])
    fitting = np.flatnonzero(~np.isin(entries.positions, rows["position"][rows["segment"] == segment]))
    count = int(fitting[-1]) + 1 if len(fitting) else 0
    return count, entries.offsets[count:].tolist(), entries.positions[count:].tolist()


def last_truncated_to(state: PartitionState) -> int | None:
    """Return the offset that the log was truncated to before its last leader epoch, None if nothing shows that.

    A truncation ends with a snapshot of the producers at the new log end (``UnifiedLog.rebuildProducerState``). So does
    an orderly stop, but that leaves no unused entries in an index.
    """
    epochs = state.log.epochs
    if not len(epochs):
        return None
    start = int(epochs["first_offset"][epochs["leader_epoch"] == epochs["leader_epoch"][-1]][0])
    return start if start > state.partition.first_offset and start in state.partition.snapshots else None


def stale_entries_to(state: PartitionState) -> int | None:
    """Return the last offset of the entries that a truncation certainly left in the active segment's offset index.

    The log had this offset before. None if there are no such entries, or if they may be newer than the log as copied.
    """
    segment, faults = len(state.partition.segments) - 1, state.index_faults
    if faults is None or not (faults.misfits["segment"] == segment).any() or state.partition.log_dir.clean_shutdown:
        return None
    fitting, offsets, _ = unfitting_end(state, segment, is_time=False)
    is_certain = fitting > 0 and bool(offsets) and offsets[0] < state.log_end_offset <= offsets[-1]
    return offsets[-1] if is_certain else None
