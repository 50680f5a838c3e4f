"""Which times a log has from its first batch on: they show that logs are of topics that were created one after another.

Topics without ids may have been deleted and created again, with the same name.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["is_one_older", "times_since_creation"]


def times_since_creation(state: PartitionState) -> tuple[int, int] | None:
    """Return the oldest and the newest time of a log, in ms; None without the first batch of the first leader epoch.

    The oldest is that of the first and last batch and marker.
    """
    log = state.log
    if not log.batches or int(log.first.base_offset[0]) or int(log.first.leader_epoch[0]):
        return None
    known = (log.first, log.first_marker, log.last_marker, log.last)
    return min(int(time) for batches in known for time in batches.max_timestamp), log.newest_timestamp


def is_one_older(times: Iterable[tuple[int, int]]) -> bool:
    """Return whether all of one log is older than another one; then they do not begin with the same batch.

    Args:
        times: oldest and newest time of both, in ms.
    """
    older, newer = sorted(times)
    return older[1] < newer[0]
