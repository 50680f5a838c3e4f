"""Assigns partitions to tasks: whole to one task, or in splits to many. Runs on workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.format.array_types import IntArray
from kforensics.spark.audit.listing import FILES, IN_ITEM, PARTITION
from kforensics.spark.audit.serialization import Address, deserialize
from kforensics.spark.audit.splitting import AddressedValue, Shared, pieces_of
from kforensics.spark.audit.task_sizing import TASKS, TaskPlan

__all__ = ["WHOLE", "FileListing", "Schedule", "WholePartition", "scheduled"]

# Ordinals of what a task processes before splits.
LISTED, WHOLE = -4, -3


@dataclass(frozen=True, slots=True)
class WholePartition:
    """A small partition, which one task evaluates.

    Attributes:
        partition: its files.
    """

    partition: Partition


@dataclass(frozen=True, slots=True)
class FileListing:
    """Files of one work item.

    Attributes:
        files: the files.
    """

    files: tuple[FoundFile, ...]


@dataclass(frozen=True, slots=True)
class Schedule:
    """Which task gets which partition, as few numbers as possible; it is sent to all scheduling tasks.

    Attributes:
        firsts: number of the first small partition of each pack.
        slots: task that evaluates the pack, counted from the end: -1 is the last one.
        numbers: numbers of large partitions, ascending.
        places: the fields of ``Shared`` for each of them.
        lists: number of tasks that list files.
    """

    firsts: IntArray
    slots: IntArray
    numbers: IntArray
    places: IntArray
    lists: int

    @classmethod
    def of(cls, shares: TaskPlan) -> Schedule:
        """Return the schedule of a task plan."""
        number, slot = (shares.small[name].to_numpy() for name in ("number", "final_slot"))
        is_first = np.diff(slot, prepend=-1) != 0
        large = shares.large.sort_by("number")
        places = np.stack([large[name].to_numpy() for name in Shared.__slots__], axis=1)
        lists = max(1, (shares.reads + shares.tasks) // TASKS)
        return cls(number[is_first], slot[is_first] - shares.tasks, large["number"].to_numpy(), places, lists)

    def shared(self, number: int) -> Shared | None:
        """Return where the splits of a partition go, None if one task evaluates it whole."""
        index = int(np.searchsorted(self.numbers, number))
        is_large = index < len(self.numbers) and self.numbers[index] == number
        return Shared(*self.places[index].tolist()) if is_large else None

    def slot(self, number: int) -> int:
        """Return which task evaluates a small partition, counted from the end."""
        return int(self.slots[np.searchsorted(self.firsts, number, "right") - 1])


def scheduled(kind: str, number: int, payload: bytes, deal: Schedule) -> Iterator[AddressedValue]:
    """Yield the work of tasks for a row of the plan.

    Args:
        kind: kind of the row.
        number: its number.
        payload: its serialized object.
        deal: the schedule.
    """
    if kind == FILES:
        slot = -1 - (number >> IN_ITEM) % deal.lists
        yield Address(number, slot, 0, 0, LISTED), FileListing(tuple(deserialize(payload)))
    elif kind == PARTITION:
        shared = deal.shared(number)
        if shared is None:
            yield Address(number, deal.slot(number), 0, 0, WHOLE), WholePartition(deserialize(payload))
        else:
            yield from pieces_of(number, deserialize(payload), shared)
