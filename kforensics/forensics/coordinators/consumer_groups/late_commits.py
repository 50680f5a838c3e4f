"""Commits of transactions that were open when their offset was removed: what the COMMIT after it makes of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.coordinators.consumer_groups.group_coordinator import GroupCoordinator
from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition

if TYPE_CHECKING:
    from kforensics.forensics.coordinators.consumer_groups.group_events import GroupEvent

__all__ = ["LateCommits"]

REMOVED_BEFORE = "the offset was removed before the COMMIT"
LOADED = "coordinators before 4.0 have it again once they load the log"


class LateCommits:
    """Puts them in order among the events of a group."""

    def __init__(self, coordinator: GroupCoordinator) -> None:
        self._coordinator = coordinator
        # By partition, the events since the first commit whose marker is still to come, and the last such marker.
        self._waiting: dict[TopicPartition | None, tuple[list[GroupEvent], int]] = {}

    def take(self, event: GroupEvent, *, is_removal: bool) -> Iterator[GroupEvent]:
        """Take the next event of a partition; yield those that can be placed now.

        Args:
            event: the event; a commit that took effect with a later marker has the offset of that.
            is_removal: whether it removes the offset.
        """
        waiting, until = self._waiting.pop(event.partition, ([], NONE))
        if is_removal:
            waiting = self._removed(waiting, event)
        waiting.append(event)
        until = max(until, event.effective_offset)
        if until > event.record.offset:
            self._waiting[event.partition] = waiting, until
        else:
            yield from _placed(waiting)

    def _removed(self, waiting: list[GroupEvent], removal: GroupEvent) -> list[GroupEvent]:
        """Return the events before a removal, with what became of the commits whose marker is after it."""
        offset, time = np.array([removal.record.offset], "i8"), np.array([removal.record.time], "i8")
        if self._coordinator.keeps_pending(offset, time)[0]:
            return [
                one._replace(why=f"{REMOVED_BEFORE}; {LOADED}") if one.effective_offset > removal.record.offset else one
                for one in waiting
            ]
        later = "" if self._coordinator.is_old is False else f"; {LOADED}"
        return [
            one._replace(why=f"no effect, {REMOVED_BEFORE}{later}", effective_offset=NONE)
            if one.effective_offset > removal.record.offset
            else one
            for one in waiting
        ]

    def rest(self) -> Iterator[GroupEvent]:
        """Yield what is left after the last event."""
        for waiting, _ in self._waiting.values():
            yield from _placed(waiting)
        self._waiting.clear()


def _placed(events: list[GroupEvent]) -> Iterator[GroupEvent]:
    """Yield events where their records are, then the commits that took effect after the removal."""
    for event in events:
        if not _is_late(event):
            yield event._replace(effective_offset=NONE)
    yield from filter(_is_late, events)


def _is_late(event: GroupEvent) -> bool:
    return event.why is not None and event.effective_offset != NONE
