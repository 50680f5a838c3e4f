"""Chunks of a partition's log, summarized wherever they are read, and merged in log order.

A log is cut at the offsets of its snapshots, so that the state there can be compared with them, and where several
workers share a segment.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from kforensics.forensics.core.record_types import Portable
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.index_evidence import NO_EVIDENCE, IndexEvidence, IndexWatch
from kforensics.forensics.partition.log_summary import Collector, LogSummary, log_summary, merged_logs
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.forensics.replay.incremental_replay import IncrementalReplay
from kforensics.forensics.replay.replay_rows import ReplayRows
from kforensics.forensics.replay.summarizing import summarize
from kforensics.forensics.replay.summary import ReplaySummary
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.discover import open_found, shrunk
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.batches import DamageContext

__all__ = ["NOTHING_PASSED", "ChunkJoiner", "ChunkMerger", "LogChunk", "ReadTask", "log_chunks"]

NOTHING_PASSED = -1


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class ReadTask:
    """How to read and summarize a partition.

    Attributes:
        partition: its files.
        rules: limits and the time of evaluation.
        collectors: what checks observe while the batches are read.
        watches_indexes: whether offset and time indexes are compared with the log.
        workers: number of reader threads, 0 for the caller's thread only, None for one per processor.
        kernels: provides the compiled kernels.
        cuts: offsets at which to cut the log, None for the offsets of the snapshots.
        source: provides the chunks of splits, None to read them.
    """

    partition: Partition
    rules: Rules
    collectors: Sequence[Collector] = ()
    watches_indexes: bool = False
    workers: int | None = None
    kernels: KernelPolicy = kernels_for
    cuts: tuple[int, ...] | None = None
    source: ChunkSource | None = None

    @cached_property
    def rules_here(self) -> Rules:
        """The rules, with the time of the partition's copy."""
        copied = self.partition.copied_ms
        if self.rules.is_assumed and copied is not None:
            copied = max(copied, self.rules.as_of_ms)
        return replace(self.rules, copied_ms=copied)

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Offsets at which the log is cut, in order: the given ones, else those of the snapshots."""
        return tuple(sorted(self.partition.snapshots if self.cuts is None else self.cuts))

    @property
    def checks_sequences(self) -> bool:
        """Whether sequence numbers are meaningful: the group coordinator starts each of its batches at 0."""
        return self.partition.place.topic != CONSUMER_OFFSETS


@dataclass(frozen=True, slots=True)
class LogChunk(Portable):
    """A chunk of the log, summarized.

    Attributes:
        cuts: offsets, usually of snapshots, at which the log was cut before the chunk. It is the first chunk of its
            split with batches at or after them; the first such chunk of an earlier split takes precedence.
        log: summary of its batches.
        producers: summary of its producers.
        rows: replay results that are certain, whatever precedes the chunk.
        evidence: what it shows about the indexes.
    """

    cuts: tuple[int, ...]
    log: LogSummary
    producers: ReplaySummary
    rows: ReplayRows
    evidence: IndexEvidence = NO_EVIDENCE

    def cuts_after(self, passed: int) -> tuple[int, ...]:
        """Return the cuts after the last one of the chunks before it; the first chunk of a split names those too.

        Args:
            passed: the last cut that was passed, NOTHING_PASSED before the first one.
        """
        return self.cuts[bisect_right(self.cuts, passed) :]


class ChunkSource(Protocol):
    """Provides the chunks of splits, some of them without reading them."""

    def chunks(
        self, task: ReadTask, split: SegmentSplit, read: Callable[[ReadTask, SegmentSplit], Iterator[LogChunk]]
    ) -> Iterator[LogChunk]:
        """Yield the chunks of a split; ``read`` reads those of a split."""


def log_chunks(task: ReadTask, split: SegmentSplit) -> Iterator[LogChunk]:
    """Yield the chunks of a split.

    Raises:
        InputError: the segment cannot be read, or shrinks.
    """
    return _chunks_read(task, split) if task.source is None else task.source.chunks(task, split, _chunks_read)


def _chunks_read(task: ReadTask, split: SegmentSplit) -> Iterator[LogChunk]:
    damage: list[Damage] = []
    watch = IndexWatch(task.partition) if task.watches_indexes else None
    file = task.partition.segments[split.segment]
    with open_found(file) as source:
        context = DamageContext(source)

        def report(damaged: Damage) -> None:
            if damaged.reason == "shrunk":
                raise shrunk(file.path)
            damage.append(context.damage(damaged, split.stop))

        chunks = batch_chunks(
            source, split.segment, report, task.kernels, start=split.start, stop=split.stop, workers=task.workers
        )
        for passed, piece in _pieces(chunks, task.offsets):
            yield _chunk(task, passed, piece, _taken(damage, split.segment), watch)
    if damage:
        yield _chunk(task, (), None, _taken(damage, split.segment), None)


def _taken(damage: list[Damage], segment: int) -> tuple[tuple[int, Damage], ...]:
    numbered = tuple((segment, row) for row in damage)
    damage.clear()
    return numbered


def _pieces(chunks: Iterable[BatchColumns], cuts: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], BatchColumns]]:
    """Yield the parts of chunks between cuts, each with the cuts that were passed before it and after the last part.

    A snapshot contains the state after all batches that end below its offset.
    """
    named = 0
    for chunk in chunks:
        reached, start = np.maximum.accumulate(chunk.base_offset), 0
        while start < len(chunk):
            passed = max(named, bisect_right(cuts, int(reached[start])))
            stop = len(chunk) if passed == len(cuts) else int(reached.searchsorted(cuts[passed]))
            yield cuts[named:passed], chunk[start:stop]
            start, named = stop, passed


def _chunk(
    task: ReadTask,
    cuts: tuple[int, ...],
    batches: BatchColumns | None,
    damage: tuple[tuple[int, Damage], ...],
    watch: IndexWatch | None,
) -> LogChunk:
    if batches is None:
        return LogChunk(cuts, replace(LogSummary.empty(), damage=damage), ReplaySummary.empty(), ReplayRows.of())
    log = replace(log_summary(batches, task.rules_here, task.collectors), damage=damage)
    producers, rows = summarize(batches, sequences=task.checks_sequences)
    evidence = NO_EVIDENCE
    if watch:
        evidence = watch.see(batches)
    return LogChunk(cuts, log, producers, rows, evidence)


class ChunkMerger:
    """Merges chunks as they arrive in log order.

    Log summaries are merged like the carries of a binary counter, so that the time is not quadratic in their number.

    Attributes:
        evidence: index evidence so far.
        producers: the replay so far.
    """

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._logs: list[tuple[int, LogSummary]] = []
        self.evidence = NO_EVIDENCE
        self.producers = IncrementalReplay(sequences=task.checks_sequences)

    def add(self, log_chunk: LogChunk) -> None:
        """Add the next chunk of the log."""
        self.producers.add_summary(log_chunk.producers, log_chunk.rows)
        self.evidence = self.evidence.merged(log_chunk.evidence)
        self._logs.append((1, log_chunk.log))
        while len(self._logs) > 1 and self._logs[-2][0] <= self._logs[-1][0]:
            self._merge_last()

    def log(self) -> LogSummary:
        """Return the summary of all batches so far."""
        while len(self._logs) > 1:
            self._merge_last()
        return self._logs[0][1] if self._logs else LogSummary.empty()

    def merged_chunk(self, cuts: tuple[int, ...]) -> LogChunk:
        """Return all chunks so far as one.

        Args:
            cuts: offsets at which the log was cut before the first of them.
        """
        return LogChunk(cuts, self.log(), self.producers.summary(), self.producers.rows(), self.evidence)

    def _merge_last(self) -> None:
        (left_count, left), (right_count, right) = self._logs[-2:]
        merged = merged_logs(left, right, self._task.rules_here, self._task.collectors)
        self._logs[-2:] = [(left_count + right_count, merged)]


class ChunkJoiner:
    """Joins chunks, as they arrive in log order, into one chunk per cut."""

    def __init__(self, task: ReadTask) -> None:
        self._task = task
        self._done: list[LogChunk] = []
        self._merger, self._cuts = ChunkMerger(task), tuple[int, ...]()
        self._passed = NOTHING_PASSED

    def add(self, log_chunk: LogChunk) -> None:
        """Add the next chunk of the log."""
        if new_cuts := log_chunk.cuts_after(self._passed):
            self._passed = new_cuts[-1]
            self._done.append(self._merger.merged_chunk(self._cuts))
            self._merger, self._cuts = ChunkMerger(self._task), new_cuts
        self._merger.add(log_chunk)

    def joined(self) -> list[LogChunk]:
        """Return one chunk per cut, preceded by one for the log before the first cut; no chunk may be added after."""
        return [*self._done, self._merger.merged_chunk(self._cuts)]
