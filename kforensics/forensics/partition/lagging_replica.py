"""Recognizes replicas that may lack what their leader has, by the metadata of the cluster.

A broker may be at work for days with a replica that does not get on: one that a throttled reassignment fills, or whose
fetches fail. In such a replica a transaction looks open that has ended long since. Rule: the ISR of a partition,
``Partition.maybeShrinkIsr``.
"""

from __future__ import annotations

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["lagging_since"]

# How long a broker writes snapshots and checkpoints at most after it has handed over its partitions to shut down.
SHUTDOWN_MS = 60_000


def lagging_since(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return since when a replica may lack what its leader has, in ms.

    A broker that is stopped falls out of sync, too, but its replicas lack nothing that was there then. So what counts
    is whether it has written anything since; while it shuts down it writes for some time.

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
    kept_until, is_stopped = state.kept_until(newest_ms), state.partition.log_dir.clean_shutdown
    if kept_until == NO_TIME:
        return None if is_stopped else since
    until = since + rules.clock_skew_ms + (SHUTDOWN_MS if is_stopped else 0)
    return since if kept_until > until else None
