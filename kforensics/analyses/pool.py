"""Evaluates partitions in a pool of processes, and yields their results in order.

Small partitions are evaluated whole. Large ones are summarized split by split.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import wait
from multiprocessing.context import BaseContext
from typing import Any, TypeAlias, TypeVar

from kforensics.errors import EngineError
from kforensics.forensics.audit.audit_scope import (
    AuditScope,
    chunk_from_wire,
    evaluate_partition,
    finish_evaluation,
    read_task,
    records_adder,
    summarize_split,
    with_summaries,
)
from kforensics.forensics.audit.copies import Copies, evaluate_copies
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import PartitionStateBuilder
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.splits import SPLIT_SIZE, SegmentSplit, splits_of
from kforensics.forensics.partition.stored_chunks import ChunkKeeper
from kforensics.parsers.files.file_systems import has_remote_clients
from kforensics.render.output import deferred_signals

# Takes the number of bytes that were read since the last call.
Advance: TypeAlias = Callable[[int], object]
Result = TypeVar("Result")
# Tasks per process that run or wait for their results to be taken. Results that wait take memory.
TASKS_PER_PROCESS = 3
# Limits of the small partitions that one task evaluates.
MAX_TASK_BYTES = 32 << 20
MAX_TASK_PARTITIONS = 64
INTERRUPT = (signal.SIGINT,)
# Signals that end a process. A worker ends at once, even in the middle of a task.
ENDING = (signal.SIGTERM, signal.SIGHUP)


def partition_results(
    partitions: Sequence[Partition],
    scope: AuditScope,
    advance: Advance,
    *,
    processes: int | None = None,
    split_size: int = SPLIT_SIZE,
) -> Iterator[PartitionResult]:
    """Yield the results of partitions, in their order.

    Args:
        partitions: the partitions.
        scope: what to evaluate.
        advance: takes the number of bytes that were read since the last call.
        processes: how many processes to use; 1 for this process with one thread, None for this process with one thread
            per processor.
        split_size: approximate bytes of a split.
    """
    if processes is None or processes == 1:
        for partition in partitions:
            yield evaluate_partition(partition, scope, workers=None if processes is None else 0)
            advance(partition.size)
        return
    # While one process evaluates a whole partition, the others have at least as much to do.
    total = sum(partition.size for partition in partitions)
    tasks = _pool_tasks(partitions, split_size, max(split_size, total // (2 * processes)))
    with _executor(processes) as executor:
        yield from _in_order(executor, tasks, scope, advance, TASKS_PER_PROCESS * processes)


def copy_results(
    copies: Iterable[Copies], rules: Rules, advance: Advance, *, processes: int | None = None
) -> Iterator[PartitionResult]:
    """Yield the results of comparing the copies of partitions, in their order.

    Args:
        copies: the copies of each partition.
        rules: limits and the time of evaluation.
        advance: takes the number of bytes that were read since the last call.
        processes: as in :func:`partition_results`.
    """
    if processes is None or processes == 1:
        for group in copies:
            yield evaluate_copies(group, rules, workers=None if processes is None else 0)
            advance(group.size)
        return
    waiting = iter(copies)
    with _executor(processes) as executor:
        running = deque[tuple[Copies, Future[PartitionResult]]]()
        while True:
            for group in islice(waiting, TASKS_PER_PROCESS * processes - len(running)):
                running.append((group, _submit(executor, partial(evaluate_copies, group, rules, 0))))
            if not running:
                return
            group, future = running.popleft()
            yield future.result()
            advance(group.size)


@contextmanager
def _executor(processes: int) -> Iterator[Executor]:
    """Start processes, and end them when the block is left: by an exception, in the middle of their tasks.

    Raises:
        EngineError: a process ended by itself.
    """
    executor = ProcessPoolExecutor(processes, _context(), initializer=_begin_worker)
    is_done = False
    try:
        yield executor
        is_done = True
    except BrokenProcessPool as error:
        raise EngineError(
            "a process of the pool was killed, perhaps because memory is short; use fewer, with --processes"
        ) from error
    finally:
        workers = [] if is_done else list((executor._processes or {}).values())  # noqa: SLF001  # public since 3.14
        for worker in workers:
            worker.terminate()
        executor.shutdown(wait=True, cancel_futures=True)


def _begin_worker() -> None:
    """End this worker with its parent, and at signals that end a process."""
    for number in ENDING:
        # A forked worker starts with the handlers of its parent.
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait until the parent is gone, however it ended, and end this process: nothing could take its results."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGKILL)


def _submit(executor: Executor, call: Callable[[], Result]) -> Future[Result]:
    """Submit a task, for which a process may be started.

    A worker accepts SIGINT only while it runs a task. Ctrl-C goes to all processes at once. A process that is
    interrupted while it starts, or while it takes a task from the queue, would not release a lock that the others wait
    for.
    """
    with deferred_signals():
        return executor.submit(_interruptible, call)


def _interruptible(call: Callable[[], Result]) -> Result:
    # A forked worker starts with the handler that defers the signal in its parent.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, INTERRUPT)
    try:
        return call()
    finally:
        signal.pthread_sigmask(signal.SIG_BLOCK, INTERRUPT)


def _context() -> BaseContext:
    """Return how to start processes: by fork if this process has one thread, which keeps the modules loaded.

    In a forked process, a lock that another thread held would never be released. Clients of remote file systems have
    threads that Python does not count.
    """
    can_fork = threading.active_count() == 1 and not has_remote_clients() and sys.platform == "linux"
    return multiprocessing.get_context("fork" if can_fork else "spawn")


@dataclass(frozen=True, slots=True)
class _PoolTask:
    """Partitions that a process evaluates together, or one partition that is summarized split by split.

    Attributes:
        partitions: the partitions; one if there are splits.
        splits: the splits; none if a process evaluates the partitions whole.
    """

    partitions: tuple[Partition, ...]
    splits: tuple[SegmentSplit, ...] = ()


def _pool_tasks(partitions: Sequence[Partition], split_size: int, max_whole: int) -> Iterator[_PoolTask]:
    """Yield tasks; partitions of more than ``max_whole`` bytes are split."""
    small: list[Partition] = []
    for partition in partitions:
        splits = splits_of(partition, split_size) if partition.size > max_whole else []
        if len(splits) <= 1:
            small.append(partition)
        is_full = len(small) >= MAX_TASK_PARTITIONS or sum(waiting.size for waiting in small) >= MAX_TASK_BYTES
        if len(splits) > 1 or is_full:
            if small:
                yield _PoolTask(tuple(small))
            small = []
        if len(splits) > 1:
            yield _PoolTask((partition,), tuple(splits))
    if small:
        yield _PoolTask(tuple(small))


def _in_order(
    executor: Executor, tasks: Iterator[_PoolTask], scope: AuditScope, advance: Advance, max_running: int
) -> Iterator[PartitionResult]:
    """Yield results in order. No more than ``max_running`` calls run or wait at a time."""
    running = deque[tuple[_PoolTask, int, Future[Any]]]()
    calls = _calls(tasks, scope)
    merging: PartitionStateBuilder | None = None
    failed: str | None = None
    kept: ChunkKeeper | None = None
    while True:
        while len(running) < max_running and (submitted := next(calls, None)):
            task, number, call = submitted
            running.append((task, number, _submit(executor, call)))
        if not running:
            return
        task, number, future = running.popleft()
        if not task.splits:
            yield from future.result()
            advance(sum(partition.size for partition in task.partitions))
            continue
        partition = task.partitions[0]
        if number == 0:
            merging, failed = PartitionStateBuilder(read_task(partition, scope, workers=0)), None
            kept = scope.keeper()
        (chunks, closed, why), kept_of_split = future.result()
        failed = failed or why
        if kept is not None:
            kept.add(kept_of_split)
        if merging and not failed:
            merging.add(chunk_from_wire(partition, chunk) for chunk in chunks)
            merging.add_closed(closed)
        advance(_size(partition, task.splits[number]))
        if number == len(task.splits) - 1 and merging:
            result = finish_evaluation(partition, scope, merging, failed, records_adder(scope, workers=None))
            yield with_summaries(result, partition, kept)
            merging = None


def _calls(tasks: Iterator[_PoolTask], scope: AuditScope) -> Iterator[tuple[_PoolTask, int, Callable[[], Any]]]:
    for task in tasks:
        if not task.splits:
            yield task, 0, partial(_evaluate_together, task.partitions, scope)
        for number, split in enumerate(task.splits):
            yield task, number, partial(_summarize, task.partitions[0], scope, split)


def _summarize(partition: Partition, scope: AuditScope, split: SegmentSplit) -> tuple[Any, ChunkKeeper | None]:
    keeper = scope.keeper()
    return summarize_split(partition, scope, split, keeper=keeper), keeper


def _size(partition: Partition, split: SegmentSplit) -> int:
    stop = partition.segments[split.segment].size if split.stop is None else split.stop
    return stop - split.start


def _evaluate_together(partitions: tuple[Partition, ...], scope: AuditScope) -> list[PartitionResult]:
    return [evaluate_partition(partition, scope, workers=0) for partition in partitions]
