"""Recognizes replicas that may lack what their leader has, by the metadata of the cluster.

A broker may be at work for days with a replica that does not get on: one that a throttled reassignment fills, or whose
fetches fail. In such a replica a transaction looks open that has ended long since. Rule: the ISR of a partition,
``Partition.maybeShrinkIsr``.
"""

from __future__ import annotations

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["lagging_since", "seen_running"]

# How long a broker goes on at most after it has handed over its partitions to shut down.
SHUTDOWN_MS = 60_000


def lagging_since(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return since when a replica may lack what its leader has, in ms.

    A broker that is stopped falls out of sync, too, but its replicas lack nothing that was there then. So what counts
    is whether it was running after that, and for longer than it takes to shut down if it was shut down.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.

    Returns:
        The time, NO_TIME if the replica was never seen in sync; None if it does not lag, or nothing is known.
    """
    place, rules = state.partition.place, state.rules
    since = rules.out_of_sync_since(place.log_dir, state.partition.topic_id, place.partition)
    if since is None or since == NO_TIME:
        return since
    until, is_stopped = seen_running(state, newest_ms), state.partition.log_dir.clean_shutdown
    if until is None:
        return None if is_stopped else since
    return since if until > since + (SHUTDOWN_MS if is_stopped else 0) else None


def seen_running(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return until when the broker of a replica was seen running, in ms; None if nothing shows it.

    Its own copy of the metadata log shows it, also where a copy has not kept the times of the files. A broker that has
    lost its controllers goes on without them.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.
    """
    running_until, kept_until = state.rules.running_until, state.kept_until(newest_ms)
    by_files = None if kept_until == NO_TIME else kept_until - state.rules.clock_skew_ms
    times = (running_until.get(state.partition.place.log_dir), by_files)
    return max((time for time in times if time is not None), default=None)
