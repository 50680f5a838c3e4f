"""Evaluate one partition, whole or from the summaries of its splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cross_partition_duplicates import ONLY_REPLICA, SearchedReplicas
from kforensics.forensics.audit.deferred_verdicts import with_cluster_input
from kforensics.forensics.audit.partition_result import (
    PartitionResult,
    evaluate_state,
    unreadable_result,
    with_records,
)
from kforensics.forensics.checks.check import collectors_of
from kforensics.forensics.checks.partition_checks import CHECK_GROUPS
from kforensics.forensics.core.external_sort import ExternalSort, SortedRows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.partition.examine import PartitionStateBuilder
from kforensics.forensics.partition.left_out import require_records
from kforensics.forensics.partition.log_chunk import ChunkJoiner, LogChunk, ReadTask, log_chunks
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES, ChunkKeeper, SummaryUse
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, sort_by_marker

# Bytes of closed transactions that a split keeps in memory. More go to a file, because several splits wait at a time.
CLOSED_MEMORY = 4 << 20


@dataclass(frozen=True, slots=True)
class AuditScope:
    """What to check in partitions.

    Attributes:
        rules: limits and the time of evaluation.
        checks: which checks, a key of ``partition_checks.CHECK_GROUPS``.
        watches_indexes: whether to compare the offset and time indexes with the log.
        records: whether to decode the records, check them and search them for duplicates.
        clusters: the clusters to evaluate across partitions; None for no evaluation across partitions.
        replicas: which partitions are searched for duplicates.
        summaries: where the summaries of unchanged logs come from, and that they are kept; None to keep none.
    """

    rules: Rules
    checks: str = "all"
    watches_indexes: bool = True
    records: bool = False
    clusters: Clusters | None = None
    replicas: SearchedReplicas = ONLY_REPLICA
    summaries: SummaryUse | None = None

    def keeper(self) -> ChunkKeeper | None:
        """Return what keeps the summaries of a partition, or of a part of it; None to keep none."""
        return None if self.summaries is None else ChunkKeeper(self.summaries)


def read_task(partition: Partition, scope: AuditScope, workers: int | None) -> ReadTask:
    """Return how to read a partition.

    Args:
        partition: its files.
        scope: what to check.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    rules = scope.rules.at(partition.place.log_dir, partition.place.topic)
    collectors = collectors_of(CHECK_GROUPS[scope.checks])
    return ReadTask(partition, rules, collectors, scope.watches_indexes, workers)


def evaluate_partition(partition: Partition, scope: AuditScope, workers: int | None) -> PartitionResult:
    """Return the result of a partition, which is read from beginning to end.

    Args:
        partition: its files.
        scope: what to check.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    keeper = scope.keeper()
    task = replace(read_task(partition, scope, workers), source=keeper)
    builder = PartitionStateBuilder(task)
    try:
        for segment in range(len(partition.segments)):
            builder.add(log_chunks(task, SegmentSplit(segment)))
    except InputError as error:
        return _unreadable(partition, error)
    return with_summaries(
        finish_evaluation(partition, scope, builder, None, records_adder(scope, workers)), partition, keeper
    )


def with_summaries(result: PartitionResult, partition: Partition, keeper: ChunkKeeper | None) -> PartitionResult:
    """Return the result of a partition with the summaries that were kept of it, unless it could not be read.

    Args:
        result: the result.
        partition: its files.
        keeper: what has kept them, None for none.
    """
    if keeper is None or not keeper.use.keeps or result.why is not None:
        return result
    rows = {**result.rows, CHUNK_SUMMARIES.name: keeper.rows(partition)}
    return replace(result, rows=rows, saved_bytes=keeper.saved)


def records_adder(scope: AuditScope, workers: int | None) -> Callable[[PartitionState], PartitionState]:
    """Return how to add the evidence of the records to a partition state that was read in this process.

    Args:
        scope: what to check.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    return partial(with_records, workers=workers, searches=scope.replicas.searches)


def summarize_split(
    partition: Partition,
    scope: AuditScope,
    split: SegmentSplit,
    cuts: tuple[int, ...] | None = None,
    keeper: ChunkKeeper | None = None,
) -> tuple[list[LogChunk], SortedRows, str | None]:
    """Return the summary of a split, ready for serialization.

    Args:
        partition: its files.
        scope: what to check.
        split: which part of the log.
        cuts: offsets at which to cut the log, None for those of the snapshots.
        keeper: keeps the summaries of its chunks, None to keep none.

    Returns:
        The log chunks without their closed transactions, the closed transactions (very many are in a file), and why the
        split cannot be read, None if it can.
    """
    task = replace(read_task(partition, scope, workers=0), cuts=cuts, source=keeper)
    closed = sort_by_marker(CLOSED_MEMORY)
    joiner = ChunkJoiner(task)
    try:
        for log_chunk in log_chunks(task, split):
            joiner.add(_move_closed(log_chunk, closed))
    except InputError as error:
        return [], closed.finish(), str(error)
    chunks = [chunk_to_wire(_move_closed(log_chunk, closed)) for log_chunk in joiner.joined()]
    return chunks, closed.finish(), None


def _move_closed(log_chunk: LogChunk, closed: ExternalSort) -> LogChunk:
    """Move the closed transactions of a log chunk into ``closed``, and return the chunk without them."""
    closed.add(log_chunk.rows.transactions)
    return replace(log_chunk, rows=replace(log_chunk.rows, transactions=NO_TRANSACTIONS))


def chunk_to_wire(log_chunk: LogChunk) -> LogChunk:
    """Return a log chunk for serialization, without index entries: the receiver reads them again."""
    return replace(log_chunk, evidence=log_chunk.evidence.without_entries())


def chunk_from_wire(partition: Partition, log_chunk: LogChunk) -> LogChunk:
    """Return a deserialized log chunk with its index entries."""
    return replace(log_chunk, evidence=log_chunk.evidence.with_entries(partition))


def finish_evaluation(
    partition: Partition,
    scope: AuditScope,
    builder: PartitionStateBuilder,
    failed: str | None,
    add_records: Callable[[PartitionState], PartitionState],
) -> PartitionResult:
    """Return the result of a partition whose log chunks have all been added.

    Args:
        partition: its files.
        scope: what to check.
        builder: has the log chunks.
        failed: why a part of the log could not be read, None if all could.
        add_records: adds the evidence of the records to a partition state; used if the scope includes records.
    """
    if failed:
        return _unreadable(partition, failed)
    try:
        state = builder.state()
        has_records = scope.records and partition.has_log
        if has_records:
            require_records(partition)
        whole = _with_reported(add_records(state), scope.replicas) if has_records else state
        result = evaluate_state(whole, CHECK_GROUPS[scope.checks])
        if scope.clusters is None or not (partition.has_log and partition.is_named):
            return result
        return with_cluster_input(result, state, scope.clusters)
    except InputError as error:
        return _unreadable(partition, error)


def _with_reported(state: PartitionState, replicas: SearchedReplicas) -> PartitionState:
    """Return a partition state without the duplicates that another replica reports."""
    if state.duplicates is None or (replicas.is_longest(state.partition) and replicas.may_report(state.partition)):
        return state
    reported = replicas.reported(state.partition, state.duplicates)
    return replace(state, duplicates=SpilledRows.of(DUPLICATE, reported))


def _unreadable(partition: Partition, why: object) -> PartitionResult:
    return unreadable_result(partition.place, partition.folder, partition.size, str(why))
