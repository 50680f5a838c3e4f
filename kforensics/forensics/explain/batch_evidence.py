"""What other files and other batches say of a batch: transaction indexes, snapshots, the same sequences elsewhere."""

from __future__ import annotations

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.record_types import Anomaly, Records
from kforensics.forensics.explain.lookup import every_batch, stored_batch
from kforensics.forensics.explain.offset_story import AbortedEntry, StoredBatch
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.snapshot_records import snapshot_records
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.state.transaction_index import TransactionIndexEntry, read_transaction_index

__all__ = ["aborted_entry", "batches_of_same_sequence", "next_snapshot"]

# A producer whose sequences or epochs never went back has written nothing twice under the same sequence.
WENT_BACK = (
    Anomaly.SEQ_OVERLAP,
    Anomaly.SEQ_DUPLICATE_BATCH,
    Anomaly.EPOCH_REGRESSED,
    Anomaly.MARKER_EPOCH_REGRESSED,
)


def aborted_entry(case: Case, producer_id: int, offset: int, segment: int) -> tuple[AbortedEntry | None, bool | None]:
    """Return the entry that hides data of a producer at an offset, and whether there is one.

    The second is None where an index that could hold it is not on hand or cannot be read.

    Args:
        case: the partition.
        producer_id: whose data it is.
        offset: last offset of a batch.
        segment: number of the segment that holds the marker.
    """
    base = case.partition.segments[segment].base_offset or 0
    found = case.partition.transaction_indexes.get(base)
    if found is None:
        # A broker makes the file with the first entry. Where the other indexes are not on hand, none was copied.
        copied = base in case.partition.indexes or base in case.partition.time_indexes
        return None, False if copied else None
    try:
        with open_source(found.path) as source:
            rows = [row for row in read_transaction_index(source) if isinstance(row, TransactionIndexEntry)]
    except InputError:
        return None, None
    for row in rows:
        if row.producer_id == producer_id and row.first_offset <= offset <= row.last_offset:
            return AbortedEntry(found.path, row.position, row.first_offset, row.last_offset), True
    return None, False


def next_snapshot(case: Case, offset: int, producer_id: int) -> tuple[str, Records | None] | None:
    """Return the first snapshot behind an offset and what it says of a producer; None if there is none to be read.

    Args:
        case: the partition.
        offset: the offset.
        producer_id: the producer.
    """
    behind = [at for at in case.partition.snapshots if at > offset]
    if producer_id < 0 or not behind:
        return None
    path = case.partition.snapshots[min(behind)].path
    found = snapshot_records(path, ignores_tail=True)
    if found is None:
        return None
    mine = found[found["producer_id"] == producer_id]
    return path, mine[-1] if len(mine) else None


def batches_of_same_sequence(case: Case, batch: StoredBatch, kernels: Choice = kernels_for) -> tuple[StoredBatch, ...]:
    """Return other batches of the same producer, epoch, first and last sequence, in the order of the log.

    The log is read again only where the replay has shown that the producer went back in its sequences.

    Args:
        case: the partition.
        batch: the batch.
        kernels: gives the compiled kernels.

    Raises:
        InputError: a segment cannot be read again.
    """
    header = batch.header
    if batch.producer_id < 0 or (header.base_sequence or 0) < 0 or header.is_control or not case.judges_sequences:
        return ()
    mine = case.anomalies[case.anomalies["producer_id"] == batch.producer_id]
    if not np.isin(mine["kind"], WENT_BACK).any():
        return ()
    found: list[StoredBatch] = []
    for chunk in every_batch(case, kernels):
        same = chunk.producer_id == batch.producer_id
        for name in ("producer_epoch", "base_sequence", "last_sequence"):
            same &= getattr(chunk, name) == getattr(header, name)
        same &= (chunk.segment != batch.segment) | (chunk.position != header.position)
        found += [
            stored_batch(case, int(chunk.segment[at]), int(chunk.position[at]), int(chunk.size[at]))
            for at in np.flatnonzero(same)
        ]
    return tuple(found)
