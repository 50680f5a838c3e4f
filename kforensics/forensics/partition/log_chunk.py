"""Stretches of a partition's log, summarised wherever they are read, and put together in order.

A log is cut where a snapshot was taken, so that the state there can be compared with it, and where workers share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.core.portable import Portable
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.index_evidence import NO_EVIDENCE, IndexEvidence, IndexWatch
from kforensics.forensics.partition.log_summary import LogSummary, Noter, log_summary, merged_logs
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replay.summary import Folding, Rows, Summary, summarise
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.batches import InFull

__all__ = ["Gathering", "Joining", "Split", "Stretch", "Task", "stretches"]

CONSUMER_OFFSETS = "__consumer_offsets"


@dataclass(frozen=True, slots=True)
class Split:
    """A range of a segment.

    Attributes:
        segment: its number in the partition.
        start: position of a batch.
        stop: position behind the last batch, None for the end of the file.
    """

    segment: int
    start: int = 0
    stop: int | None = None


@dataclass(frozen=True, slots=True)
class Task:
    """What to do with a partition.

    Attributes:
        partition: its files.
        rules: limits and the time of evaluation.
        noters: what checks want to note as batches go by.
        watches_indexes: whether offset and time indexes are compared with the log.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
        kernels: gives the compiled kernels.
        cuts: offsets at which to cut the log, None for those of the snapshots.
    """

    partition: Partition
    rules: Rules
    noters: Sequence[Noter] = ()
    watches_indexes: bool = False
    workers: int | None = None
    kernels: Choice = kernels_for
    cuts: tuple[int, ...] | None = None

    @property
    def offsets(self) -> list[int]:
        """Offsets at which the log is cut: those given, else those of the snapshots."""
        return sorted(self.partition.snapshots if self.cuts is None else self.cuts)

    @property
    def judges_sequences(self) -> bool:
        """Whether sequences mean anything: the group coordinator begins each of its batches at 0."""
        return self.partition.place.topic != CONSUMER_OFFSETS


@dataclass(frozen=True, slots=True)
class Stretch(Portable):
    """What a stretch of the log says.

    Attributes:
        cuts: offsets, mostly of snapshots, at which the log was cut before it; it is the first stretch with batches at
            or behind them, unless one of another split is.
        log: all its batches together.
        producers: summary of its producers.
        rows: what is certain whatever stands before it.
        evidence: what it says of the indexes.
    """

    cuts: tuple[int, ...]
    log: LogSummary
    producers: Summary
    rows: Rows
    evidence: IndexEvidence = NO_EVIDENCE


def stretches(task: Task, split: Split) -> Iterator[Stretch]:
    """Yield the stretches of a split, chunk by chunk.

    Raises:
        InputError: the segment cannot be read.
    """
    damage: list[Damage] = []
    watch = IndexWatch(task.partition) if task.watches_indexes else None
    cuts = task.offsets
    with open_source(task.partition.segments[split.segment].path) as source:
        in_full = InFull(source)

        def report(found: Damage) -> None:
            damage.append(in_full.damage(found, split.stop))

        chunks = batch_chunks(
            source, split.segment, report, task.kernels, start=split.start, stop=split.stop, workers=task.workers
        )
        for chunk in chunks:
            for passed, piece in _pieces(chunk, cuts):
                yield _stretch(task, passed, piece, _taken(damage, split.segment), watch)
    if damage:
        yield _stretch(task, (), None, _taken(damage, split.segment), None)


def _taken(damage: list[Damage], segment: int) -> tuple[tuple[int, Damage], ...]:
    found = tuple((segment, row) for row in damage)
    damage.clear()
    return found


def _pieces(chunk: BatchColumns, cuts: list[int]) -> Iterator[tuple[tuple[int, ...], BatchColumns]]:
    """Yield the parts of a chunk between cuts, each with those that were passed before it.

    A snapshot holds the state after all batches that end below its offset.
    """
    start: int = 0
    passed: tuple[int, ...] = ()
    while cuts:
        behind = np.flatnonzero(chunk.base_offset[start:] >= cuts[0])
        if not len(behind):
            break
        at = start + int(behind[0])
        if at > start:
            yield passed, chunk[start:at]
            start, passed = at, ()
        passed = (*passed, cuts.pop(0))
    yield passed, chunk[start:]


def _stretch(
    task: Task,
    cuts: tuple[int, ...],
    batches: BatchColumns | None,
    damage: tuple[tuple[int, Damage], ...],
    watch: IndexWatch | None,
) -> Stretch:
    if batches is None:
        return Stretch(cuts, replace(LogSummary.empty(), damage=damage), Summary.empty(), Rows.of())
    log = replace(log_summary(batches, task.rules, task.noters), damage=damage)
    producers, rows = summarise(batches, sequences=task.judges_sequences)
    evidence = NO_EVIDENCE
    if watch:
        watch.see(batches)
        evidence, watch.evidence = watch.evidence, NO_EVIDENCE
    return Stretch(cuts, log, producers, rows, evidence)


class Gathering:
    """Puts stretches together as they come in the order of the log.

    Summaries of the log are merged as a binary counter carries, so that the time for it does not grow with the square
    of their number.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._logs: list[tuple[int, LogSummary]] = []
        self.evidence = NO_EVIDENCE
        self.producers = Folding(sequences=task.judges_sequences)

    def add(self, stretch: Stretch) -> None:
        """Take the stretch behind those before."""
        self.producers.add_summary(stretch.producers, stretch.rows)
        self.evidence = self.evidence.merged(stretch.evidence)
        self._logs.append((1, stretch.log))
        while len(self._logs) > 1 and self._logs[-2][0] <= self._logs[-1][0]:
            self._merge_last()

    def log(self) -> LogSummary:
        """Return the summary of all batches so far."""
        while len(self._logs) > 1:
            self._merge_last()
        return self._logs[0][1] if self._logs else LogSummary.empty()

    def _merge_last(self) -> None:
        (some, left), (more, right) = self._logs[-2:]
        self._logs[-2:] = [(some + more, merged_logs(left, right, self._task.rules, self._task.noters))]


class Joining:
    """Joins stretches, as they come in the order of the log, between which it was not cut."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._done: list[Stretch] = []
        self._gathering, self._cuts = Gathering(task), tuple[int, ...]()
        self._passed: set[int] = set()

    def add(self, stretch: Stretch) -> None:
        """Take the stretch behind those before."""
        # Of a split the first stretch names the cuts of the splits before it too.
        ahead = tuple(cut for cut in stretch.cuts if cut not in self._passed)
        if ahead:
            self._passed.update(ahead)
            self._done.append(_as_stretch(self._gathering, self._cuts))
            self._gathering, self._cuts = Gathering(self._task), ahead
        self._gathering.add(stretch)

    def found(self) -> list[Stretch]:
        """Return one stretch for each cut, and one for what stands before the first; no other may be added."""
        return [*self._done, _as_stretch(self._gathering, self._cuts)]


def _as_stretch(gathering: Gathering, cuts: tuple[int, ...]) -> Stretch:
    producers = gathering.producers
    return Stretch(cuts, gathering.log(), producers.summary(), producers.rows(), gathering.evidence)
