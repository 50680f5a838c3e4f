"""Read the log of a partition once and build the state that checks evaluate."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import TransactionArray, TransactionOutcome
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.index_evidence import IndexFaults
from kforensics.forensics.partition.log_chunk import NOTHING_PASSED, ChunkMerger, LogChunk, ReadTask, log_chunks
from kforensics.forensics.partition.log_summary import Collector, LogSummary, goes_back
from kforensics.forensics.partition.partition_files import CLEANER, LOG_START, Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.snapshot_records import boundary_states, snapshot_entries
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, TransactionStore, sort_by_marker
from kforensics.forensics.replay.boundary import EMPTY, UNKNOWN, Boundary, BoundaryKind
from kforensics.forensics.replay.finalizing import FinalReplay
from kforensics.forensics.replay.incremental_replay import IncrementalReplay
from kforensics.forensics.replay.replay_rows import ReplayRows, joined_rows
from kforensics.parsers.files.log_names import SHARE_GROUP_STATE, TRANSACTION_STATE
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for

__all__ = ["PartitionStateBuilder", "boundary_of", "examine"]

# Topics that only brokers write, and without transactions: ``PersisterStateManager``, ``TransactionStateManager``.
WITHOUT_TRANSACTIONS = (SHARE_GROUP_STATE, TRANSACTION_STATE)


def examine(
    partition: Partition,
    rules: Rules,
    collectors: Sequence[Collector] = (),
    kernels: KernelPolicy = kernels_for,
    *,
    watches_indexes: bool = False,
) -> PartitionState:
    """Return the state of a partition, whose log is read once, in this process.

    Args:
        partition: its files.
        rules: limits and the time of evaluation.
        collectors: what checks observe while the batches are read.
        kernels: provides the compiled kernels.
        watches_indexes: whether offset and time indexes are compared with the log.

    Raises:
        InputError: a segment cannot be read.
    """
    rules = rules.at(partition.place.log_dir, partition.place.topic)
    task = ReadTask(partition, rules, collectors, watches_indexes, kernels=kernels)
    builder = PartitionStateBuilder(task)
    for segment in range(len(partition.segments)):
        builder.add(log_chunks(task, SegmentSplit(segment)))
    return builder.state()


class PartitionStateBuilder:
    """Takes the chunks of a partition in log order and builds its state.

    If the start of the log is missing, the part before the first available snapshot is replayed without knowing which
    transactions were open; from the snapshot on, everything is known.

    If the topic went back to message format 0 or 1, snapshots decide: a broker that loads such a log up to 3.2 forgets
    all producers and writes empty snapshots. Rule: ``Log.rebuildProducerState``, ``UnifiedLog.rebuildProducerState``.
    """

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._merger = ChunkMerger(task)
        self._boundary: Boundary | None = None
        self._before: list[ReplayRows] = []
        self._closed, self._forgotten = sort_by_marker(), [NO_TRANSACTIONS]
        self._passed = NOTHING_PASSED
        self._producers_at: dict[int, ProducerStates] = {}
        self._has_epochs = self._went_back = self._is_inexact = False

    def add(self, chunks: Iterable[LogChunk]) -> None:
        """Add the next chunks of the log."""
        for log_chunk in chunks:
            if self._boundary is None and log_chunk.log.batches:
                self._boundary = boundary_of(self._task.partition, int(log_chunk.log.first.base_offset[0]))
            for offset in log_chunk.cuts_after(self._passed):
                if self._boundary is not None:
                    self._passed = offset
                    self._at_snapshot(offset, self._boundary)
            self._went_back |= goes_back(log_chunk.log, has_epochs=self._has_epochs)
            self._has_epochs |= len(log_chunk.log.epochs) > 0
            self._merger.add(log_chunk)
            self._take_closed()

    def add_closed(self, parts: Iterable[TransactionArray]) -> None:
        """Add closed transactions that were removed from chunks; the order does not matter."""
        for transactions in parts:
            self._closed.add(transactions)

    def state(self) -> PartitionState:
        """Return the state of the partition, once all chunks have been added; no chunk may be added after."""
        partition, log = self._task.partition, self._merger.log()
        end = int(log.last.last_offset[0]) + 1 if log.batches else partition.first_offset
        boundary = self._boundary or boundary_of(partition, None)
        boundary = boundary.without_transactions_before(_cleaned_to(partition, log))
        if (boundary.kind is BoundaryKind.UNKNOWN or self._went_back) and end in partition.snapshots:
            self._at_snapshot(end, boundary)
            boundary = self._boundary or boundary
        final = self._final_without_closed(boundary, consume=True)
        final = final.without_open(_has_ended_elsewhere(partition, final.open_transactions))
        self._producers_at |= {
            offset: final.producers for offset in partition.snapshots if offset >= end and offset > boundary.offset
        }
        index_faults = self._index_faults(log.segments["segment"])
        others = joined_rows([*self._before, *self._merger.producers.row_parts(), final.rows]).in_order()
        # Release this memory first: with a million producers it must not be needed twice.
        self._merger, self._before = ChunkMerger(self._task), []
        state = PartitionState(
            partition=partition,
            rules=self._task.rules_here,
            log=log,
            boundary=boundary,
            transaction_store=TransactionStore(
                self._closed.finish(), final.open_transactions, concat_rows(self._forgotten)
            ),
            empty_markers=others.empty_markers,
            producers=final.producers,
            anomalies=others.anomalies,
            exact_from=boundary.offset if self._knows_open_transactions(boundary) else None,
            producers_at=self._producers_at,
            index_faults=index_faults,
        )
        if not len(state.open_transactions):
            return state
        from kforensics.forensics.partition.forgotten_transactions import without_forgotten  # few logs have one

        return without_forgotten(state, self._task.kernels)

    def _knows_open_transactions(self, boundary: Boundary) -> bool:
        """Return whether no transaction from before the available log may be open without a trace of it."""
        if self._task.partition.place.topic in WITHOUT_TRANSACTIONS:
            return True
        return boundary.kind is not BoundaryKind.UNKNOWN and not self._is_inexact

    def _index_faults(self, segments: IntArray) -> IndexFaults | None:
        if not self._task.watches_indexes:
            return None
        return self._merger.evidence.finish(self._task.partition, set(segments.tolist()))

    def _final(self, boundary: Boundary, *, consume: bool = False) -> FinalReplay:
        return self._merger.producers.final(boundary, consume=consume)

    def _final_without_closed(self, boundary: Boundary, *, consume: bool = False) -> FinalReplay:
        """Return the final replay without its closed transactions, which move to the transaction store."""
        final = self._final(boundary, consume=consume)
        self._take_closed()
        self._closed.add(final.rows.transactions)
        return replace(final, rows=replace(final.rows, transactions=NO_TRANSACTIONS))

    def _take_closed(self) -> None:
        for transactions in self._merger.producers.take_transactions():
            self._closed.add(transactions)

    def _at_snapshot(self, offset: int, boundary: Boundary) -> None:
        if offset <= boundary.offset or offset < self._task.partition.first_offset:
            return
        if boundary.kind is BoundaryKind.UNKNOWN and (known := _snapshot_boundary(self._task.partition, offset)):
            final = self._final_without_closed(boundary)
            self._restart(offset, final, known, final.producers)
            return
        final = self._final(boundary)
        if (loaded := self._loaded(offset, final)) is None:
            self._producers_at[offset] = final.producers
            return
        # A broker rejects a snapshot with the rest of an older one after its entries, and replays the log.
        is_rejected = snapshot_entries(self._task.partition.snapshots[offset].path) is None
        self._is_inexact = is_rejected and (self._is_inexact or len(final.open_transactions) > 0)
        if not is_rejected:
            forgotten = take_rows(final.open_transactions, _are_forgotten(final, loaded))
            forgotten["outcome"] = TransactionOutcome.FORGOTTEN
            self._forgotten.append(forgotten)
        self._restart(offset, self._final_without_closed(boundary), loaded, loaded.producers)

    def _restart(self, offset: int, final: FinalReplay, known: Boundary, producers: ProducerStates) -> None:
        """Keep what the replay gives so far, and replay the rest of the log from a snapshot."""
        self._producers_at[offset] = producers
        self._before += [self._merger.producers.rows(), final.rows]
        self._merger.producers = IncrementalReplay(sequences=self._task.checks_sequences)
        self._boundary = known

    def _loaded(self, offset: int, final: FinalReplay) -> Boundary | None:
        """Return the boundary at which a broker had forgotten producers of the replay, None if it had not."""
        known = _snapshot_boundary(self._task.partition, offset) if self._went_back else None
        if known is None or not len(final.producers):
            return None
        return known if _are_forgotten(final, known).any() or not len(known.producers) else None


def _are_forgotten(final: FinalReplay, known: Boundary) -> BoolArray:
    """Return which open transactions of the replay a snapshot at the same offset does not have."""
    ongoing = known.producers["producer_id"][known.producers["current_txn_first_offset"] >= 0]
    return ~np.isin(final.open_transactions["producer_id"], ongoing)


def _cleaned_to(partition: Partition, log: LogSummary) -> int:
    """Return the offset up to which a cleaner has certainly been, 0 if it may never have been in this log.

    In a copy of a running broker the checkpoint of the cleaner may be older than the log.
    """
    dirty = partition.checkpoint(CLEANER)
    if dirty is None and (log.damage or CLEANER in partition.log_dir.checkpoints):
        return 0
    return max(dirty or 0, 0 if log.damage else log.cleaned_to + 1)


def _has_ended_elsewhere(partition: Partition, rows: TransactionArray) -> BoolArray:
    """Return which open transactions had ended for the broker, though their markers are not among the files.

    A cleaner may replace the segment with the marker by a merged one while the log of a running broker is copied. It
    stops at the last stable offset, so what it has passed had ended, and the newest snapshot does not have it as open.
    Rule: ``LogCleanerManager.cleanableOffsets``.
    """
    has_ended: BoolArray = rows["last_offset"] < _passed_by_cleaner(partition)
    if partition.log_dir.clean_shutdown or not has_ended.any():
        return np.zeros(len(rows), "?")
    newest = max(partition.snapshots, default=0)
    states = boundary_states(partition.snapshots[newest].path) if newest else None
    if states is None:
        return np.zeros(len(rows), "?")
    return (
        has_ended & (rows["last_offset"] < newest) & ~np.isin(rows["first_offset"], states["current_txn_first_offset"])
    )


def _passed_by_cleaner(partition: Partition) -> int:
    """Return the offset up to which the broker's own cleaner has been, 0 if its checkpoint does not show that.

    Retention moves that checkpoint to the log start, past open transactions, and one that is older than the log may be
    of an earlier topic of this name.
    """
    dirty, start = partition.checkpoint(CLEANER) or 0, max(partition.checkpoint(LOG_START) or 0, partition.first_offset)
    active = partition.segments[-1].base_offset or 0 if partition.segments else 0
    return dirty if start < dirty <= active else 0


def boundary_of(partition: Partition, first_offset: int | None) -> Boundary:
    """Return what is known of the log before its first available batch.

    A snapshot from before the first segment does not show what happened between the two, and a broker does not load it.

    Args:
        partition: its files.
        first_offset: first offset of the first batch, None if there is none.
    """
    base = partition.segments[0].base_offset if partition.segments else None
    if 0 in (base, first_offset):
        return EMPTY
    usable = [offset for offset in partition.snapshots if base is not None and base <= offset]
    for offset in sorted(usable, reverse=True):
        if first_offset is None or offset <= first_offset:
            boundary = _snapshot_boundary(partition, offset)
            if boundary:
                return boundary
    return UNKNOWN


def _snapshot_boundary(partition: Partition, offset: int) -> Boundary | None:
    """Return the boundary that a snapshot describes, None if its entries cannot be trusted."""
    producers = boundary_states(partition.snapshots[offset].path)
    return None if producers is None else Boundary(BoundaryKind.SNAPSHOT, offset, producers)
