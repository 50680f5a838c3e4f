"""Find evidence about a batch: its transaction index entry, the next snapshot, and batches of the same sequences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.record_types import Anomaly
from kforensics.forensics.explain.lookup import stored_batch, stored_batches
from kforensics.forensics.explain.offset_story import AbortedEntry, StoredBatch
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.state.indexes import TransactionIndexEntry, read_transaction_index

# A producer can only write a sequence twice if its sequence or its epoch regressed.
REGRESSIONS = (
    Anomaly.SEQ_OVERLAP,
    Anomaly.SEQ_DUPLICATE_BATCH,
    Anomaly.EPOCH_REGRESSED,
    Anomaly.MARKER_EPOCH_REGRESSED,
)


@dataclass(frozen=True, slots=True)
class TransactionIndex:
    """The entries of a transaction index.

    Attributes:
        path: path of the index.
        by_producer: the entries of each producer, in the order of the file.
    """

    path: str
    by_producer: Mapping[int, Sequence[TransactionIndexEntry]]

    def entry(self, producer_id: int, offset: int) -> AbortedEntry | None:
        """Return the entry that hides data of a producer at an offset, None if none does."""
        for entry in self.by_producer.get(producer_id, ()):
            if entry.first_offset <= offset <= entry.last_offset:
                return AbortedEntry(self.path, entry.position, entry.first_offset, entry.last_offset)
        return None


def transaction_index(state: PartitionState, segment: int) -> TransactionIndex | bool | None:
    """Return the transaction index of a segment; False if it has no entry, None if it is not available.

    Args:
        state: the partition.
        segment: number of the segment.
    """
    base = state.partition.segments[segment].base_offset or 0
    index = state.partition.transaction_indexes.get(base)
    if index is None:
        # A broker creates the file with the first entry. If the other indexes are missing too, none was copied.
        copied = base in state.partition.indexes or base in state.partition.time_indexes
        return False if copied else None
    try:
        with open_source(index.path) as source:
            entries = [row for row in read_transaction_index(source) if isinstance(row, TransactionIndexEntry)]
    except InputError:
        return None
    by_producer: dict[int, list[TransactionIndexEntry]] = {}
    for entry in entries:
        by_producer.setdefault(entry.producer_id, []).append(entry)
    return TransactionIndex(index.path, by_producer)


def next_snapshot(state: PartitionState, offset: int, producer_id: int) -> tuple[str, np.void | None] | None:
    """Return the path of the first snapshot after an offset, and the PRODUCER record of a producer in it.

    Args:
        state: the partition.
        offset: the offset.
        producer_id: the producer.

    Returns:
        None if there is no producer, or no readable snapshot. The record is None if the snapshot has no entry for the
        producer.
    """
    later = [snapshot_offset for snapshot_offset in state.partition.snapshots if snapshot_offset > offset]
    if producer_id < 0 or not later:
        return None
    path = state.partition.snapshots[min(later)].path
    producers = snapshot_records(path, ignores_tail=True)
    if producers is None:
        return None
    entries = producers[producers["producer_id"] == producer_id]
    return path, entries[-1] if len(entries) else None


def batches_of_same_sequence(
    state: PartitionState, batch: StoredBatch, kernels: KernelPolicy = kernels_for
) -> tuple[StoredBatch, ...]:
    """Return other batches with the same producer, epoch, first and last sequence, in the order of the log.

    The log is read again only if the replay found that the producer's sequence or epoch regressed.

    Args:
        state: the partition.
        batch: the batch.
        kernels: provides the compiled kernels.

    Raises:
        InputError: a segment cannot be read again.
    """
    header = batch.header
    if batch.producer_id < 0 or (header.base_sequence or 0) < 0 or header.is_control or not state.checks_sequences:
        return ()
    anomalies = state.anomalies[state.anomalies["producer_id"] == batch.producer_id]
    if not np.isin(anomalies["kind"], REGRESSIONS).any():
        return ()
    matches: list[StoredBatch] = []
    for chunk in stored_batches(state, kernels):
        same = chunk.producer_id == batch.producer_id
        for name in ("producer_epoch", "base_sequence", "last_sequence"):
            same &= getattr(chunk, name) == getattr(header, name)
        same &= (chunk.segment != batch.segment) | (chunk.position != header.position)
        matches += [
            stored_batch(state, int(chunk.segment[row]), int(chunk.position[row]), int(chunk.size[row]))
            for row in np.flatnonzero(same)
        ]
    return tuple(matches)
