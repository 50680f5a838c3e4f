"""Who does what in an audit on Spark: every partition once, and not more tasks than are worth it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

from kforensics.spark.audit.task_sizing import TaskPlan, TaskSizing, plan_tasks

GB = 1 << 30
SPLIT = 128 << 20


def _shared(sizes: list[int], cores: int = 2, segment: int = GB) -> TaskPlan:
    """Share partitions out that consist of segments of one size."""
    size = np.array(sizes, np.int64)
    segments = np.maximum(1, -(-size // segment))
    plan = pa.table(
        {
            "number": np.arange(len(size)),
            "size": size,
            "segments": segments.astype(np.int32),
            "largest": np.minimum(size, segment),
        }
    )
    return plan_tasks(plan, TaskSizing(cores, SPLIT))


def _numbers(shares: TaskPlan) -> list[int]:
    return sorted([*shares.small["number"].to_pylist(), *shares.large["number"].to_pylist()])


@pytest.mark.parametrize(
    "sizes", [[], [0], [5 * GB], [1] * 1000, [*range(0, 40 * GB, GB)], [4 * GB, *[1 << 20] * 2000]]
)
def test_every_partition_has_one_share(sizes: list[int]) -> None:
    shares = _shared(sizes)
    assert _numbers(shares) == [*range(len(sizes))]
    assert all(0 <= slot < shares.tasks for slot in shares.small["final_slot"].to_pylist())


def test_parts_of_large_partitions_have_slots_of_their_own_the_largest_first() -> None:
    shares = _shared([3 * GB, 900 * GB, 17 * GB, 100 * GB], cores=20)
    large = shares.large.to_pylist()
    assert [row["number"] for row in large] == [1, 3, 2, 0]
    assert [row["final_slot"] for row in large] == [0, 1, 2, 3]
    assert [row["split_slot"] for row in large] == [0, 900, 1000, 1017]
    assert [row["width"] for row in large] == [30, 10, 4, 1]
    assert [row["run_slot"] for row in large] == [0, 30, 40, 45]


def test_one_huge_partition_does_not_keep_the_others_waiting() -> None:
    """It is split, however many small ones there are, and they are packed into tasks of like size."""
    shares = _shared([4 * GB, *[1 << 20] * 2000])
    assert shares.large["number"].to_pylist() == [0]
    assert shares.reads >= 8
    serialize = Counter(shares.small["final_slot"].to_pylist())
    assert len(serialize) >= 8
    assert max(serialize.values()) <= 1.1 * min(serialize.values()) + 1


def test_a_hundred_terabytes_are_read_by_many_tasks_and_joined_by_few() -> None:
    """A round of tasks writes a number for each task of the next: their product must stay small."""
    shares = _shared([100 * GB] * 1000, cores=160)
    assert shares.reads == 100_000
    assert max(shares.cuts, shares.runs, shares.finals) <= 2_000
    assert min(shares.cuts, shares.runs, shares.finals) >= 4 * 160


def test_rounds_that_are_not_worth_it_are_left_out() -> None:
    """Few segments are split by the task that lists them, and merged by the one that evaluates them."""
    few, many_of_one, many = _shared([20 * GB, GB]), _shared([100 * GB]), _shared([20 * GB, 20 * GB])
    assert (few.cuts, few.runs, few.finals) == (0, 0, 1)
    assert few.large["width"].to_pylist() == [0]
    assert (many_of_one.cuts, many_of_one.runs, many_of_one.finals) == (8, 8, 1)
    assert (many.cuts, many.runs, many.finals) == (8, 0, 2)
    assert _shared([GB] * 8).finals == 0
    assert _shared([GB] * 8000, cores=20).finals == 80


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_partitions_of_nearly_one_size_are_not_two_by_two(cores: int) -> None:
    sizes = [GB + (-1) ** number * (number << 20) for number in range(4 * cores)]
    serialize = Counter(_shared(sizes, cores).small["final_slot"].to_pylist())
    assert serialize == dict.fromkeys(range(4 * cores), 1)


def test_the_dearest_pack_is_the_first() -> None:
    sizes = [10 << 20] * 30 + [200 << 20] + [10 << 20] * 30
    small = _shared(sizes).small.to_pylist()
    assert small[30] == {"number": 30, "final_slot": 0}


@pytest.mark.parametrize(
    ("size", "clusters", "parts"),
    [(1 << 30, 1, 0), (15_000_000_000, 1, 56), (15_000_000_000, 4, 14), (1 << 47, 1, 512)],
)
def test_transactions_are_joined_in_parts_if_there_is_much_to_read(size: int, clusters: int, parts: int) -> None:
    """However large the logs are, a part is sent what it needs of every partition, so parts have a limit, too."""
    assert TaskSizing(1).join_parts(size, clusters) == parts
    assert TaskSizing(1, joins=3).join_parts(size, clusters) == 3
