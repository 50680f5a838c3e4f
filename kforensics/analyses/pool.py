"""Judges partitions in a pool of processes: small ones whole, large ones split by split, all in their order."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.context import BaseContext
from typing import Any, TypeVar

from kforensics.forensics.audit.audit_scope import Asked, arrived, finished, judged_whole, summarised, task_of
from kforensics.forensics.audit.copies import Copies, compared_copies
from kforensics.forensics.audit.partition_result import Judgement, with_records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import Examination
from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.splits import SPLIT_SIZE, splits_of
from kforensics.parsers.files.file_systems import is_any_in_use

__all__ = ["comparisons", "judgements"]

Advance = Callable[[int], object]
Result = TypeVar("Result")
# Splits and partitions that may be worked at or wait to be taken, per process: what waits takes memory.
AHEAD = 3
# Bytes of small partitions that one process takes together.
TOGETHER = 32 << 20
MOST_TOGETHER = 64
INTERRUPT = (signal.SIGINT,)


def judgements(
    partitions: Sequence[Partition],
    asked: Asked,
    advance: Advance,
    *,
    processes: int | None = None,
    split_size: int = SPLIT_SIZE,
) -> Iterator[Judgement]:
    """Yield what is to be said of partitions, in their order.

    Args:
        partitions: which.
        asked: what to look for.
        advance: told how many more bytes are done.
        processes: how many; 1 for this one in one thread, None for this one in a thread per processor.
        split_size: bytes of a split, about.
    """
    if processes is None or processes == 1:
        for partition in partitions:
            yield judged_whole(partition, asked, workers=None if processes is None else 0)
            advance(partition.size)
        return
    # One process may have a whole partition while the others have as much left to do.
    total = sum(partition.size for partition in partitions)
    jobs = _jobs(partitions, split_size, max(split_size, total // (2 * processes)))
    with _executor(processes) as executor:
        yield from _ordered(executor, jobs, asked, advance, AHEAD * processes)


def comparisons(
    copies: Iterable[Copies], rules: Rules, advance: Advance, *, processes: int | None = None
) -> Iterator[Judgement]:
    """Yield what is to be said of the copies of partitions, in their order.

    Args:
        copies: of one partition each.
        rules: limits and the time of evaluation.
        advance: told how many more bytes are done.
        processes: as for :func:`judgements`.
    """
    if processes is None or processes == 1:
        for one in copies:
            yield compared_copies(one, rules, workers=None if processes is None else 0)
            advance(one.size)
        return
    waiting = iter(copies)
    with _executor(processes) as executor:
        pending = deque[tuple[Copies, Future[Judgement]]]()
        while True:
            for one in islice(waiting, AHEAD * processes - len(pending)):
                pending.append((one, _submitted(executor, partial(compared_copies, one, rules, 0))))
            if not pending:
                return
            one, future = pending.popleft()
            yield future.result()
            advance(one.size)


@contextmanager
def _executor(processes: int) -> Iterator[Executor]:
    """Give processes; what they have not begun when the block is left is not begun any more."""
    executor = ProcessPoolExecutor(processes, _context())
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _submitted(executor: Executor, call: Callable[[], Result]) -> Future[Result]:
    """Hand work to a process, which may be started for it.

    A worker can be interrupted at its work alone. Ctrl-C goes to all processes at once; whoever is amid starting, or
    takes something from the queue, would leave a lock behind that the others wait for.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPT)
    try:
        return executor.submit(_at_work, call)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _at_work(call: Callable[[], Result]) -> Result:
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPT)
    try:
        return call()
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPT)


def _context() -> BaseContext:
    """Return how to start processes: as copies of this one, with all it has loaded, if it has but one thread.

    Another thread may hold a lock that in the copy nobody would ever give back. Clients of remote file systems have
    threads that Python does not count.
    """
    alone = threading.active_count() == 1 and not is_any_in_use() and sys.platform == "linux"
    return multiprocessing.get_context("fork" if alone else "spawn")


@dataclass(frozen=True, slots=True)
class _Job:
    """Partitions that are judged together, or one that is summarised split by split.

    Attributes:
        partitions: which; one if there are splits.
        splits: its splits, none where a process judges the partitions whole.
    """

    partitions: tuple[Partition, ...]
    splits: tuple[Split, ...] = ()


def _jobs(partitions: Sequence[Partition], split_size: int, whole: int) -> Iterator[_Job]:
    """Yield pieces of work; partitions of more than ``whole`` bytes are split."""
    small: list[Partition] = []
    for partition in partitions:
        splits = splits_of(partition, split_size) if partition.size > whole else []
        if len(splits) <= 1:
            small.append(partition)
        if len(splits) > 1 or len(small) >= MOST_TOGETHER or sum(one.size for one in small) >= TOGETHER:
            if small:
                yield _Job(tuple(small))
            small = []
        if len(splits) > 1:
            yield _Job((partition,), tuple(splits))
    if small:
        yield _Job(tuple(small))


def _ordered(
    executor: Executor, jobs: Iterator[_Job], asked: Asked, advance: Advance, most: int
) -> Iterator[Judgement]:
    """Yield judgements in order, with no more than ``most`` pieces of work on their way."""
    pending = deque[tuple[_Job, int, Future[Any]]]()
    work = _work(jobs, asked)
    merging: Examination | None = None
    failed: str | None = None
    while True:
        while len(pending) < most and (piece := next(work, None)):
            job, at, call = piece
            pending.append((job, at, _submitted(executor, call)))
        if not pending:
            return
        job, at, future = pending.popleft()
        if not job.splits:
            yield from future.result()
            advance(sum(partition.size for partition in job.partitions))
            continue
        partition = job.partitions[0]
        if at == 0:
            merging, failed = Examination(task_of(partition, asked, workers=0)), None
        found, closed, why = future.result()
        failed = failed or why
        if merging and not failed:
            merging.add(arrived(partition, stretch) for stretch in found)
            merging.add_closed(closed)
        advance(_size(partition, job.splits[at]))
        if at == len(job.splits) - 1 and merging:
            yield finished(partition, asked, merging, failed, partial(with_records, workers=None))
            merging = None


def _work(jobs: Iterator[_Job], asked: Asked) -> Iterator[tuple[_Job, int, Callable[[], Any]]]:
    for job in jobs:
        if not job.splits:
            yield job, 0, partial(_judged_together, job.partitions, asked)
        for at, split in enumerate(job.splits):
            yield job, at, partial(summarised, job.partitions[0], asked, split)


def _size(partition: Partition, split: Split) -> int:
    stop = partition.segments[split.segment].size if split.stop is None else split.stop
    return stop - split.start


def _judged_together(partitions: tuple[Partition, ...], asked: Asked) -> list[Judgement]:
    return [judged_whole(partition, asked, workers=0) for partition in partitions]
