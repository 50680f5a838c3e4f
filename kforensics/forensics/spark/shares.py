"""Who does what: small partitions packed into tasks of like size, large ones shared by as many tasks as they are worth.

All of it follows from sizes alone, so the driver knows nothing else of a partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt

import numpy as np
import pyarrow as pa

from kforensics.forensics.result_columns import Numbers
from kforensics.forensics.splits import SPLIT_SIZE

__all__ = ["Shares", "Sharing", "shared_out"]

# What opening the files of a partition costs, in bytes that could be read meanwhile.
OPENING = 1 << 18
# Bytes of small partitions that a task judges, and of a partition that a task may have alone.
LEAST_TOGETHER, MOST_TOGETHER = 64 << 20, 1 << 30
MOST_ALONE = 2 << 30
# Tasks for each processor, so that the slowest does not keep the others waiting.
TASKS = 4
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
    """

    parallelism: int
    split_size: int = SPLIT_SIZE
    whole: int | None = None


@dataclass(frozen=True, slots=True)
class Shares:
    """Who does what.

    Attributes:
        small: ``number`` and ``final_slot`` of the partitions that one task judges whole.
        large: ``number`` of the others, with the first of their slots for reading and for joining, their slot for
            judging, and ``width``, how many segments are joined in one run.
        tasks: how many slots there are for small ones.
        cuts: for cutting segments.
        reads: for reading.
        runs: for joining.
        finals: for judging large ones.
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
    widths = np.array([max(1, isqrt(int(count))) for count in segments[order]], np.int64)
    runs = -(-segments[order] // np.maximum(widths, 1))
    large = pa.table(
        {
            "number": number[order],
            "split_slot": _before(segments[order]).astype(np.int32),
            "run_slot": _before(runs).astype(np.int32),
            "final_slot": np.arange(len(order), dtype=np.int32),
            "width": widths.astype(np.int32),
        }
    )
    splits = int(np.maximum(segments[order], size[order] // sharing.split_size).sum())
    busy, total = TASKS * sharing.parallelism, int(size[order].sum())
    slots = (
        min(max(1, many), max(busy, total // worth))
        for many, worth in (
            (int(segments[order].sum()), SUMMED_UP),
            (splits, WORTH_A_TASK),
            (int(runs.sum()), SUMMED_UP),
            (len(order), SUMMED_UP),
        )
    )
    return Shares(small, large, tasks, *slots)


def _whole(total: int, sharing: Sharing) -> int:
    """Return up to how many bytes a partition is judged by one task: what keeps it busy no longer than the others."""
    if sharing.whole is not None:
        return sharing.whole
    return max(sharing.split_size, min(total // (TASKS * sharing.parallelism), MOST_ALONE))


def _packed(number: Numbers, size: Numbers, sharing: Sharing) -> tuple[pa.Table, int]:
    cost = size + OPENING
    fair = int(cost.sum()) // (TASKS * sharing.parallelism)
    bins = _before(cost) // min(max(fair, LEAST_TOGETHER), MOST_TOGETHER)
    slots = np.unique(bins, return_inverse=True)[1].astype(np.int32)
    return pa.table({"number": number, "final_slot": slots}), int(slots.max(initial=0)) + 1


def _before(counts: Numbers) -> Numbers:
    """Return for each the sum of those before it."""
    sums: Numbers = np.cumsum(counts) - counts
    return sums
