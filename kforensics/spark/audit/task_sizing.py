"""Who does what: small partitions packed into tasks of like size, large ones shared by as many tasks as they are worth.

All of it follows from sizes alone, so the driver knows nothing else of a partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
import pyarrow as pa

from kforensics.forensics.core.result_rows import Numbers
from kforensics.forensics.partition.splits import SPLIT_SIZE

__all__ = ["FEW", "Shares", "Sharing", "shared_out"]

# What opening the files of a partition costs, in bytes that could be read meanwhile.
OPENING = 1 << 18
# Bytes of small partitions that a task judges, and of a partition that a task may have alone.
LEAST_TOGETHER, MOST_TOGETHER = 64 << 20, 1 << 30
MOST_ALONE = 2 << 30
# Tasks for each processor, so that the slowest does not keep the others waiting, and how many partitions of a size that
# one task judges would do as well.
TASKS, EVEN = 4, 3
# A round of tasks costs more than what it saves where there is no more than so many segments to be cut or joined.
FEW = 32
# Beyond that, a task more may read so many bytes less, or have to do with so many bytes less that others read. Each
# task of a round writes a number for each of the next, and each of its tasks asks all of those before.
WORTH_A_TASK, SUMMED_UP = 1 << 30, 1 << 36


@dataclass(frozen=True, slots=True)
class Sharing:
    """How to share.

    Attributes:
        parallelism: how many processors there are, about.
        split_size: bytes of a split, about.
        whole: bytes up to which a partition is never split, None to derive them from how much there is.
        few: segments, and answers of tasks, that need no round of tasks of their own.
    """

    parallelism: int
    split_size: int = SPLIT_SIZE
    whole: int | None = None
    few: int = FEW


@dataclass(frozen=True, slots=True)
class Shares:
    """Who does what.

    Attributes:
        small: ``number`` and ``final_slot`` of the partitions that one task judges whole.
        large: ``number`` of the others, with the first of their slots for reading and for joining, their slot for
            judging, and ``width``, how many segments are joined in one run.
        tasks: how many slots there are for small ones.
        cuts: for cutting segments; 0 if who deals them out cuts them.
        reads: for reading.
        runs: for joining; 0 if who judges joins.
        finals: for judging large ones, and for putting together what tasks answer; 0 if they are few.
    """

    small: pa.Table
    large: pa.Table
    tasks: int
    cuts: int
    reads: int
    runs: int
    finals: int


def shared_out(plan: pa.Table, sharing: Sharing) -> Shares:
    """Return who does what.

    Args:
        plan: ``number``, ``size``, ``segments`` and ``largest`` of each partition.
        sharing: how to share.
    """
    ordered = plan.sort_by("number")
    number, size, segments, largest = (
        ordered[name].to_numpy().astype(np.int64) for name in ("number", "size", "segments", "largest")
    )
    can_be_split = (segments > 1) | (largest >= 2 * sharing.split_size)
    is_large = (size > _whole(int(size.sum()), sharing)) & can_be_split
    small, tasks = _packed(number[~is_large], size[~is_large], sharing)
    # The largest first: who is judged last must not be who takes longest.
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

    return Shares(
        small,
        large,
        tasks,
        cuts=slots(int(segments.sum()), SUMMED_UP) if segments.sum() > sharing.few else 0,
        reads=slots(int(splits.sum()), WORTH_A_TASK),
        runs=slots(int(runs.sum()), SUMMED_UP),
        finals=slots(len(order) or (tasks if tasks > sharing.few else 0), SUMMED_UP),
    )


def _whole(total: int, sharing: Sharing) -> int:
    """Return up to how many bytes a partition is judged by one task: what keeps it busy no longer than the others."""
    if sharing.whole is not None:
        return sharing.whole
    return max(sharing.split_size, min(total // (EVEN * sharing.parallelism), MOST_ALONE))


def _packed(number: Numbers, size: Numbers, sharing: Sharing) -> tuple[pa.Table, int]:
    """Return who judges which small partition, of those that follow each other some together, and how many do."""
    cost = size + OPENING
    fair = int(cost.sum()) // (TASKS * sharing.parallelism)
    # By their middles: partitions of nearly the same size are not two by two because of a byte.
    bins = (_before(cost) + cost // 2) // min(max(fair, LEAST_TOGETHER), MOST_TOGETHER)
    packs = np.unique(bins, return_inverse=True)[1]
    costs = np.bincount(packs, cost)
    slots = np.empty(len(costs), np.int32)
    slots[np.argsort(-costs, kind="stable")] = np.arange(len(costs))
    return pa.table({"number": number, "final_slot": slots[packs]}), max(1, len(costs))


def _before(counts: Numbers) -> Numbers:
    """Return for each the sum of those before it."""
    sums: Numbers = np.cumsum(counts) - counts
    return sums
