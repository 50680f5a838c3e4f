"""Sizes tasks: packs small partitions into tasks of similar size, and splits large ones among several tasks.

Everything follows from sizes alone, so the driver needs nothing else about a partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
import pyarrow as pa

from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.format.array_types import IntArray

__all__ = ["FEW", "TaskPlan", "TaskSizing", "plan_tasks"]

# Cost of opening the files of a partition, in bytes that could be read in that time.
OPEN_COST = 1 << 18
# Bytes of small partitions per task, and of a partition that one task may evaluate alone.
LEAST_TOGETHER, MOST_TOGETHER = 64 << 20, 1 << 30
MOST_ALONE = 2 << 30
# Tasks per processor, so that the slowest does not keep the others waiting, and the number of equally large partitions
# per processor from which on none needs to be split.
TASKS, EVEN = 4, 3
# Bytes of logs per part of the join of a cluster's transactions, and up to which one task joins them all; a transaction
# takes 150 bytes of log at least. More parts would send what each needs of every partition too often.
PER_JOIN, MOST_JOINS = 1 << 28, 512
LEAST_JOINED = 1 << 30
# A stage of tasks costs more than it saves for at most this many segments to cut or merge.
FEW = 32
# Beyond that, bytes that one more task must save, in reading and in merging. Each task of a stage writes an index entry
# for each task of the next one, which in turn asks all of them.
WORTH_A_TASK, SUMMED_UP = 1 << 30, 1 << 36


@dataclass(frozen=True, slots=True)
class TaskSizing:
    """Parameters of task sizing.

    Attributes:
        parallelism: approximate number of processors.
        split_size: approximate bytes of a split.
        whole: bytes up to which a partition is never split, None to derive it from the total.
        few: number of segments, and of task results, that need no stage of their own.
        joins: number of parts in which each cluster's transactions are joined, None to derive it from the total.
    """

    parallelism: int
    split_size: int = SPLIT_SIZE
    whole: int | None = None
    few: int = FEW
    joins: int | None = None

    def join_parts(self, size: int, clusters: int) -> int:
        """Return the number of parts in which the transactions of each cluster are joined, 0 for one task per cluster.

        Args:
            size: bytes of all logs.
            clusters: number of clusters.
        """
        if self.joins is not None:
            return self.joins
        return min(-(-size // (PER_JOIN * max(clusters, 1))), MOST_JOINS) if size > LEAST_JOINED else 0


@dataclass(frozen=True, slots=True)
class TaskPlan:
    """The tasks of each stage and what they process.

    Attributes:
        small: ``number`` and ``final_slot`` of partitions that one task evaluates whole.
        large: ``number`` of the others, with their first slots for reading and merging, their slot for evaluation, and
            ``width``, the number of segments merged in one run.
        tasks: number of slots for small partitions.
        cuts: number of tasks that cut segments; 0 if the scheduling tasks do.
        reads: number of tasks that read.
        runs: number of tasks that merge runs; 0 if the evaluating tasks merge.
        finals: number of tasks that evaluate large partitions and combine task results; 0 if there are few.
        joins: number of parts in which the transactions of each cluster are joined, 0 to join them at once.
    """

    small: pa.Table
    large: pa.Table
    tasks: int
    cuts: int
    reads: int
    runs: int
    finals: int
    joins: int = 0


def plan_tasks(plan: pa.Table, sharing: TaskSizing) -> TaskPlan:
    """Return the tasks of each stage.

    Args:
        plan: ``number``, ``size``, ``segments`` and ``largest`` of each partition.
        sharing: parameters of task sizing.
    """
    ordered = plan.sort_by("number")
    number, size, segments, largest = (
        ordered[name].to_numpy().astype(np.int64) for name in ("number", "size", "segments", "largest")
    )
    can_be_split = (segments > 1) | (largest >= 2 * sharing.split_size)
    is_large = (size > _whole(int(size.sum()), sharing)) & can_be_split
    small, tasks = _packed(number[~is_large], size[~is_large], sharing)
    # The largest first, so that the longest task does not start last.
    order = np.flatnonzero(is_large)[np.argsort(-size[is_large], kind="stable")]
    number, size, segments = number[order], size[order], segments[order]
    widths = np.array([isqrt(int(count)) for count in segments], np.int64)
    if segments.max(initial=0) <= sharing.few:
        widths[:] = 0
    runs = np.where(widths > 0, -(-segments // np.maximum(widths, 1)), 0)
    large = pa.table(
        {
            "number": number,
            "split_slot": _before(segments).astype(np.int32),
            "run_slot": _before(runs).astype(np.int32),
            "final_slot": np.arange(len(order), dtype=np.int32),
            "width": widths.astype(np.int32),
        }
    )
    splits = np.maximum(segments, size // sharing.split_size)
    busy, total = TASKS * sharing.parallelism, int(size.sum())

    def slots(many: int, worth: int) -> int:
        return min(many, max(busy, total // worth))

    return TaskPlan(
        small,
        large,
        tasks,
        cuts=slots(int(segments.sum()), SUMMED_UP) if segments.sum() > sharing.few else 0,
        reads=slots(int(splits.sum()), WORTH_A_TASK),
        runs=slots(int(runs.sum()), SUMMED_UP),
        finals=slots(len(order) or (tasks if tasks > sharing.few else 0), SUMMED_UP),
    )


def _whole(total: int, sharing: TaskSizing) -> int:
    """Return the size up to which one task evaluates a partition without taking longer than the others."""
    if sharing.whole is not None:
        return sharing.whole
    return max(sharing.split_size, min(total // (EVEN * sharing.parallelism), MOST_ALONE))


def _packed(number: IntArray, size: IntArray, sharing: TaskSizing) -> tuple[pa.Table, int]:
    """Return the task of each small partition, consecutive ones packed together, and the number of tasks."""
    cost = size + OPEN_COST
    fair = int(cost.sum()) // (TASKS * sharing.parallelism)
    # By their midpoints, so that one byte does not pair up partitions of nearly equal size.
    bins = (_before(cost) + cost // 2) // min(max(fair, LEAST_TOGETHER), MOST_TOGETHER)
    packs = np.unique(bins, return_inverse=True)[1]
    costs = np.bincount(packs, cost)
    slots = np.empty(len(costs), np.int32)
    slots[np.argsort(-costs, kind="stable")] = np.arange(len(costs))
    return pa.table({"number": number, "final_slot": slots[packs]}), max(1, len(costs))


def _before(counts: IntArray) -> IntArray:
    """Return the exclusive cumulative sums."""
    sums: IntArray = np.cumsum(counts) - counts
    return sums
