"""Rows of a plan are scheduled by size alone; answers of tasks are merged the same in any task."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.scale.synthetic import SCOPE, Counting, Made
from kforensics.spark.audit.listing import FILES, IN_ITEM, PARTITION, UNREADABLE
from kforensics.spark.audit.scheduling import FileListing, Schedule, WholePartition, scheduled
from kforensics.spark.audit.serialization import deserialize, serialize, to_frames, values
from kforensics.spark.audit.splitting import HEAD, WHOLE, AddressedValue, Reading
from kforensics.spark.audit.task_results import Answer, done, ended
from kforensics.spark.audit.task_sizing import TaskPlan, TaskSizing, plan_tasks

MB = 1 << 20
MADE = Made(1, 5, MB)


def _task_plan(few: int = 32) -> TaskPlan:
    """Plan tasks for partitions whose numbers have gaps, every seventh to be split."""
    count = 100
    size = np.where(np.arange(count) % 7 == 0, 5 * MB, 1000 * np.arange(count))
    sizes = pa.table(
        {
            "number": np.arange(count) << 12,
            "size": size,
            "segments": np.where(size == 5 * MB, 5, 1).astype(np.int32),
            "largest": np.minimum(size, MB),
        }
    )
    return plan_tasks(sizes, TaskSizing(2, MB, whole=4 * MB, few=few))


def _scheduled(number: int, plan: TaskPlan) -> list[AddressedValue]:
    return list(scheduled(PARTITION, number, serialize(MADE.partition(0)), Schedule.of(plan)))


def test_each_partition_goes_where_its_share_says() -> None:
    plan = _task_plan()
    slots = dict(zip(*(plan.small[name].to_pylist() for name in ("number", "final_slot")), strict=True))
    assert len(slots) == 100 - 15
    for number, slot in slots.items():
        ((address, value),) = _scheduled(number, plan)
        assert isinstance(value, WholePartition)
        assert address.split_slot + plan.tasks == slot
    for row in plan.large.to_pylist():
        parts = _scheduled(row["number"], plan)
        assert [address.ordinal for address, _ in parts] == [WHOLE, *(segment << 32 for segment in range(5))]
        assert [address.split_slot for address, _ in parts[1:]] == [row["split_slot"] + at for at in range(5)]
        assert {address.final_slot for address, _ in parts} == {row["final_slot"]}


def test_runs_have_what_joining_them_needs() -> None:
    plan = _task_plan(few=0)
    parts = _scheduled(0, plan)
    heads = [(address.run_slot, value) for address, value in parts if address.ordinal == HEAD]
    assert plan.large["width"].to_pylist()[0] == 2
    assert [slot for slot, _ in heads] == [0, 1, 2]
    assert all(isinstance(value, Reading) for _, value in heads)
    assert [address.run_slot for address, _ in parts if address.ordinal >= 0] == [0, 0, 1, 1, 2]


def test_files_are_listed_by_few_tasks_and_what_is_unreadable_by_none() -> None:
    deal = Schedule.of(_task_plan())
    files = list(MADE.partition(0).segments)
    slots = set()
    for item in range(50):
        ((address, value),) = scheduled(FILES, item << IN_ITEM, serialize(files), deal)
        assert value == FileListing(tuple(files))
        slots.add(address.split_slot)
    assert slots == set(range(-deal.lists, 0))
    assert list(scheduled(UNREADABLE, 0, b"", deal)) == []


def _received(found: Iterable[AddressedValue]) -> list[AddressedValue]:
    """The values after serialization, sorted as Spark does."""
    rows = [row for address, value in found for row in to_frames(address, value)]
    return list(values(sorted(rows, key=lambda row: (row[0], row[4], row[5], row[6]))))


@pytest.mark.parametrize("tasks", [1, 3, 50])
def test_answers_of_any_number_of_tasks_are_put_together(tasks: int) -> None:
    """Two answers of a task, and those of different ones, stay apart on the way."""
    plan = _task_plan()
    small = [_scheduled(number, plan)[0] for number in plan.small["number"].to_pylist()]
    by_task: dict[int, list[AddressedValue]] = {}
    for at, (address, value) in enumerate(small):
        by_task.setdefault(at % tasks, []).append((replace(address, split_slot=-1 - at % tasks), value))
    found: list[AddressedValue] = []
    for number, some in by_task.items():
        listed = next(scheduled(FILES, number << IN_ITEM, serialize([]), Schedule.of(plan)))
        of_task = [(replace(listed[0], split_slot=-1 - number), listed[1]), *some]
        found += done(of_task, SCOPE, Counting())
    assert len(found) == 2 * tasks
    ((_, answer),) = ended(_received(found), SCOPE, Counting())
    assert isinstance(answer, Answer)
    assert deserialize(answer.outcome) == len(small)
    assert list(ended([], SCOPE, Counting())) == []
