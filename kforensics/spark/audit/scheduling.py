"""Deals partitions out: to one task whole, or in pieces to many. Runs on workers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.result_rows import Numbers
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.discover import FoundFile
from kforensics.spark.audit.listing import FILES, IN_ITEM, PARTITION
from kforensics.spark.audit.serialization import Address, loaded
from kforensics.spark.audit.splitting import Shared, Travelling, pieces_of
from kforensics.spark.audit.task_sizing import TASKS, Shares

__all__ = ["ALONE", "Alone", "Deal", "Listed", "dealt"]

# Ordinals of what a task takes before splits.
LISTED, ALONE = -4, -3


@dataclass(frozen=True, slots=True)
class Alone:
    """A small partition, which one task judges.

    Attributes:
        partition: its files.
    """

    partition: Partition


@dataclass(frozen=True, slots=True)
class Listed:
    """Files that were found together.

    Attributes:
        files: what they are.
    """

    files: tuple[FoundFile, ...]


@dataclass(frozen=True, slots=True)
class Deal:
    """Where partitions go, told in as few numbers as will do; it travels to all tasks that deal out.

    Attributes:
        firsts: number of the first small partition of each pack.
        slots: which task judges that pack, counted from the end: -1 is the last one.
        numbers: of large partitions, ascending.
        places: what ``Shared`` has of each.
        lists: how many tasks list files.
    """

    firsts: Numbers
    slots: Numbers
    numbers: Numbers
    places: Numbers
    lists: int

    @classmethod
    def of(cls, shares: Shares) -> Deal:
        """Return where partitions go that share work like this."""
        number, slot = (shares.small[name].to_numpy() for name in ("number", "final_slot"))
        is_first = np.diff(slot, prepend=-1) != 0
        large = shares.large.sort_by("number")
        places = np.stack([large[name].to_numpy() for name in Shared.__slots__], axis=1)
        lists = max(1, (shares.reads + shares.tasks) // TASKS)
        return cls(number[is_first], slot[is_first] - shares.tasks, large["number"].to_numpy(), places, lists)

    def shared(self, number: int) -> Shared | None:
        """Return where the parts of a partition go, None if one task judges it."""
        at = int(np.searchsorted(self.numbers, number))
        is_large = at < len(self.numbers) and self.numbers[at] == number
        return Shared(*self.places[at].tolist()) if is_large else None

    def slot(self, number: int) -> int:
        """Return which task judges a small partition, counted from the end."""
        return int(self.slots[np.searchsorted(self.firsts, number, "right") - 1])


def dealt(kind: str, number: int, payload: bytes, deal: Deal) -> Iterator[Travelling]:
    """Yield what tasks have to do for a row of the plan.

    Args:
        kind: what the row is.
        number: its number.
        payload: the thing itself.
        deal: where things go.
    """
    if kind == FILES:
        slot = -1 - (number >> IN_ITEM) % deal.lists
        yield Address(number, slot, 0, 0, LISTED), Listed(tuple(loaded(payload)))
    elif kind == PARTITION:
        shared = deal.shared(number)
        if shared is None:
            yield Address(number, deal.slot(number), 0, 0, ALONE), Alone(loaded(payload))
        else:
            yield from pieces_of(number, loaded(payload), shared)
