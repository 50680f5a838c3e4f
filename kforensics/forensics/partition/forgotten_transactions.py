"""Open transactions that a broker has forgotten: it does not have them any more, so all consumers receive their data.

A broker writes a snapshot from its memory, and after a clean shutdown it loads the newest one without reading the log
before it. So a transaction whose data is below a snapshot that lacks it is none for the broker that has the snapshot:
it blocks no consumer, and no marker hides its data. Other replicas may still have it. Rule:
``ProducerStateManager.takeSnapshot``, ``ProducerStateManager.loadFromSnapshot``, ``UnifiedLog.rebuildProducerState``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.producer_states import ProducerEntryArray, ProducerStates
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import TransactionArray, TransactionOutcome
from kforensics.forensics.partition.log_chunk import NOTHING_PASSED, ChunkMerger, LogChunk, ReadTask, log_chunks
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.snapshot_records import latest_entries, snapshot_entries
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, TransactionStore
from kforensics.forensics.replay.boundary import Boundary, BoundaryKind
from kforensics.forensics.replay.incremental_replay import IncrementalReplay
from kforensics.forensics.replay.replay_rows import ReplayRows
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for

__all__ = ["producers_below", "without_forgotten"]

NONE = -1


@dataclass(frozen=True, slots=True, eq=False)
class _Forgotten:
    """What a snapshot shows of the open transactions of a log.

    Attributes:
        snapshot: offset of the snapshot.
        until: for each open transaction the offset below which the broker has forgotten its data, -1 if it has not.
    """

    snapshot: int
    until: IntArray

    def are_whole(self, rows: TransactionArray) -> BoolArray:
        """Return which open transactions are forgotten with all of their data."""
        whole: BoolArray = rows["last_offset"] < self.until
        return whole


def without_forgotten(state: PartitionState, kernels: KernelPolicy = kernels_for) -> PartitionState:
    """Return a partition without the open transactions that its broker has forgotten; they are kept as such.

    If the producer of such a transaction goes on writing, the broker takes that for a new one.

    Args:
        state: the partition, with all transactions that have no marker as open ones; it has at least one.
        kernels: provides the compiled kernels.

    Raises:
        InputError: a segment cannot be read again.
    """
    forgotten = _forgotten(state)
    if forgotten is None:
        return state
    rows = state.open_transactions
    is_forgotten, is_whole = forgotten.until >= 0, forgotten.are_whole(rows)
    heads, tails = _parted(state, rows["producer_id"], np.where(is_whole, NONE, forgotten.until), kernels)
    opened = concat_rows([take_rows(rows, ~is_forgotten), tails])
    gone = concat_rows([take_rows(rows, is_whole), heads])
    gone["outcome"] = TransactionOutcome.FORGOTTEN
    store = state.transaction_store
    ids = rows["producer_id"][is_forgotten]
    return replace(
        state,
        transaction_store=TransactionStore(
            store.closed,
            take_rows(opened, np.argsort(opened["first_offset"], kind="stable")),
            concat_rows([store.forgotten, gone]),
            forgotten.snapshot,
        ),
        producers=state.producers.with_transactions(ids, _first_offsets(ids, opened)),
    )


def producers_below(state: PartitionState, offset: int, kernels: KernelPolicy = kernels_for) -> ProducerStates:
    """Return the producers after all batches that begin below an offset, as PRODUCER records; the log is read again.

    From the snapshot on that shows it, they are without the transactions that the broker has forgotten.

    Raises:
        InputError: a segment cannot be read.
    """
    producers, store = _below(state, offset, kernels), state.transaction_store
    if store.lacking is None or offset < store.lacking:
        return producers
    ids = np.unique(store.forgotten["producer_id"])
    return producers.with_transactions(ids, _first_offsets(ids, store.opened[store.opened["first_offset"] < offset]))


def _first_offsets(producer_ids: IntArray, opened: TransactionArray) -> IntArray:
    """Return the first offset of the open transaction of each producer, -1 if it has none."""
    first_offsets = np.full(len(producer_ids), NONE, "i8")
    _, known, of_opened = np.intersect1d(producer_ids, opened["producer_id"], return_indices=True)
    first_offsets[known] = opened["first_offset"][of_opened]
    return first_offsets


def _below(state: PartitionState, offset: int, kernels: KernelPolicy) -> ProducerStates:
    """Return the producers after all batches that begin below an offset, as the log shows them."""
    task = ReadTask(state.partition, state.rules, kernels=kernels, cuts=(state.boundary.offset, offset))
    merger, begun = ChunkMerger(task), False
    for log_chunk in _chunks(task):
        if offset in log_chunk.cuts:
            break
        # Do not replay what the snapshot already contains.
        if state.boundary.offset in log_chunk.cuts and not begun:
            merger, begun = ChunkMerger(task), True
        merger.add(log_chunk)
    return merger.producers.final(state.boundary, consume=True).producers


def _chunks(task: ReadTask) -> Iterator[LogChunk]:
    for segment in range(len(task.partition.segments)):
        yield from log_chunks(task, SegmentSplit(segment))


def _parted(
    state: PartitionState, producer_ids: IntArray, offsets: IntArray, kernels: KernelPolicy
) -> tuple[TransactionArray, TransactionArray]:
    """Return the open transactions of producers in two parts, each parted at an offset of its own.

    The first part is what a replay of all batches that begin below the offset shows. The second one is what a broker
    shows that knows no producer there, and replays the batches from the offset on. The log is read once.

    Args:
        state: the partition.
        producer_ids: ids of the producers.
        offsets: for each of them the offset, -1 if its transaction is not parted.
        kernels: provides the compiled kernels.
    """
    is_parted = offsets >= 0
    if not is_parted.any():
        return NO_TRANSACTIONS, NO_TRANSACTIONS
    producer_ids, offsets = producer_ids[is_parted], offsets[is_parted]
    begin = state.boundary.offset
    task = ReadTask(state.partition, state.rules, kernels=kernels, cuts=(begin, *np.unique(offsets).tolist()))
    heads, tails = (IncrementalReplay(sequences=task.checks_sequences) for _ in range(2))
    passed = NOTHING_PASSED
    for log_chunk in _chunks(task):
        passed = max((passed, *log_chunk.cuts[-1:]))
        # Do not replay what the boundary already contains.
        is_head = (offsets > passed) & ((offsets <= begin) | (passed >= begin))
        for replay, ids in ((heads, producer_ids[is_head]), (tails, producer_ids[offsets <= passed])):
            replay.add_summary(log_chunk.producers.of_producers(ids), ReplayRows.of())
    opened = heads.final(state.boundary, consume=True).open_transactions
    unknown = Boundary(BoundaryKind.SNAPSHOT, int(offsets.min()))
    return (
        take_rows(opened, np.isin(opened["producer_id"], producer_ids)),
        tails.final(unknown, consume=True).open_transactions,
    )


def _forgotten(state: PartitionState) -> _Forgotten | None:
    """Return what the newest snapshot that a broker accepts lacks of the open transactions, None if nothing.

    A snapshot after the end of the log shows nothing: the log may lack a marker that the broker had.
    """
    rows = state.open_transactions
    offsets = [one for one in state.producers_at if max(state.boundary.offset, 0) < one <= state.log_end_offset]
    for offset in sorted(offsets, reverse=True):
        entries = _entries_of(state, offset, rows)
        if entries is not None:
            until = _until(rows, offset, entries, state.local_log_start_offset)
            until[~_are_comparable(state, rows, offset)] = NONE
            return _Forgotten(offset, until) if (until >= 0).any() else None
    return None


def _entries_of(state: PartitionState, offset: int, rows: TransactionArray) -> ProducerEntryArray | None:
    """Return the entries of a snapshot for the producers of transactions, None if a broker would reject the file."""
    snapshot = snapshot_entries(state.partition.snapshots[offset].path)
    if snapshot is None:
        return None
    try:
        return latest_entries(snapshot.of(rows["producer_id"]))
    except InputError:
        return None


def _until(rows: TransactionArray, offset: int, entries: ProducerEntryArray, log_start: int) -> IntArray:
    """Return the offset below which a snapshot shows no open transaction of a producer, -1 if it has that of the log.

    Args:
        rows: TRANSACTION records of open transactions.
        offset: offset of the snapshot.
        entries: its PRODUCER_ENTRY records, one per producer, by producer id.
        log_start: the log start offset; a broker that loads the log begins there, with what is left of a transaction.
    """
    firsts = np.append(entries["current_txn_first_offset"], NONE)
    ranks = entries["producer_id"].searchsorted(rows["producer_id"])
    has_entry = np.append(entries["producer_id"], NONE)[ranks] == rows["producer_id"]
    stored = np.where(has_entry, firsts[ranks], NONE)
    lacks = (rows["first_offset"] < offset) & (stored < 0)
    begins_later = (stored > rows["first_offset"]) & (stored < offset) & (rows["first_offset"] >= log_start)
    until: IntArray = np.where(lacks, offset, np.where(begins_later, stored, NONE))
    return until


def _are_comparable(state: PartitionState, rows: TransactionArray, offset: int) -> BoolArray:
    """Return which open transactions have data in the log, and surely no marker in it below a snapshot.

    Their markers may have been in what is damaged, lost or cleaned. If all their data was deleted, none is exposed.
    """
    first = max(state.local_log_start_offset, state.boundary.offset)
    last_base = state.partition.segments[-1].base_offset or 0
    contiguous = state.log.contiguous_from(state.partition.first_offset, last_base)
    comparable: BoolArray = (rows["last_offset"] >= first) & (rows["first_offset"] >= contiguous)
    for gaps in (state.log_gaps.lost, state.log_gaps.lost_end, state.log_gaps.merged):
        comparable &= ~gaps.are_between(rows["first_offset"], np.full(len(rows), offset))
    for segment in _damaged_segments(state, offset):
        comparable &= rows["segment"] > segment
    return comparable


def _damaged_segments(state: PartitionState, offset: int) -> Iterator[int]:
    """Yield the segments that begin below an offset and have damage, but for a torn end of the log.

    Without the observations of all checks it is not known where in a segment its damaged batches are.
    """
    for segment, _ in state.damage_before_end:
        if (state.partition.segments[segment].base_offset or 0) < offset:
            yield segment
