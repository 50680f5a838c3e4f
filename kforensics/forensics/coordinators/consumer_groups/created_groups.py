"""Groups that commits alone created, and whether they are still there when they have no offset any more."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.group_coordinator import CHECK_MS, GroupCoordinator
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["CreatedGroups", "Ends"]

NO_GROUP = -1
GROUP_END = np.dtype(
    [
        ("has_commits", "?"),  # whether it has a commit that can be read
        ("time", "i8"),  # when an offset of it was last removed or aborted
        ("is_removed", "?"),  # whether that one was removed
        ("is_loaded", "?"),  # whether its coordinator has loaded the log since
    ]
)


class Ends(NamedTuple):
    """Offsets of groups that were removed or aborted.

    Attributes:
        at: number of the record in the log that did it.
        group: number of the group.
        offset: offset of that record.
        time: its timestamp.
    """

    at: IntArray
    group: IntArray
    offset: IntArray
    time: IntArray


class CreatedGroups:
    """Collects, chunk by chunk, which groups have commits, and when each last lost an offset."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator, self._rows = coordinator, np.zeros(0, GROUP_END)

    def take(self, groups: IntArray, removed: Ends, aborted: Ends) -> None:
        """Take a chunk.

        Args:
            groups: numbers of the groups of its commits.
            removed: the offsets that tombstones in it remove.
            aborted: the offsets of the transactions that markers in it abort.
        """
        at, group, offset, time = map(np.concatenate, zip(removed, aborted, strict=True))
        missing = max(int(groups.max(initial=NO_GROUP)), int(group.max(initial=NO_GROUP))) + 1 - len(self._rows)
        if missing > 0:
            self._rows = np.append(self._rows, np.zeros(missing + len(self._rows), GROUP_END))
        self._rows["has_commits"][groups] = True
        order = np.argsort(at, kind="stable")
        rows = np.zeros(len(order), GROUP_END)
        rows["time"], rows["is_removed"] = time[order], order < len(removed.at)
        rows["is_loaded"] = self._coordinator.has_loaded(offset[order], time[order])
        for name in ("time", "is_removed", "is_loaded"):
            self._rows[name][group[order]] = rows[name]  # the last one of each group stays

    def without_offsets(self, coordinator: GroupCoordinator, with_offset: IntArray, as_of_ms: int) -> IntArray:
        """Return the numbers of the groups that are still there without an offset.

        Args:
            coordinator: the coordinator, as all records show it.
            with_offset: numbers of the groups with an offset in force or a pending one.
            as_of_ms: time of evaluation.
        """
        remaining: BoolArray = self._rows["has_commits"].copy()
        remaining[with_offset] = False
        numbers = np.flatnonzero(remaining)
        kept = [
            coordinator.keeps_group(
                is_removed=bool(row["is_removed"]),
                is_loaded=bool(row["is_loaded"]),
                is_recent=row["time"] != NO_TIME and as_of_ms < int(row["time"]) + CHECK_MS,
            )
            for row in self._rows[numbers]
        ]
        still_there: IntArray = numbers[np.array(kept, "?")]
        return still_there
