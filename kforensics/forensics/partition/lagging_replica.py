"""Recognizes replicas that may lack what their leader has, by the metadata of the cluster.

A broker may be at work for days with a replica that does not get on: one that a throttled reassignment fills, or whose
fetches fail. And the cluster goes on while a broker is shut down. In such a replica a transaction looks open that has
ended long since. Rule: the ISR of a partition, ``Partition.maybeShrinkIsr``,
``ReplicationControlManager.handleBrokerInControlledShutdown``.
"""

from __future__ import annotations

from typing import NamedTuple

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["Lag", "lag_of", "lagging_since", "seen_running"]

# How long a broker goes on at most after it has handed over its partitions to shut down.
SHUTDOWN_MS = 60_000


class Lag(NamedTuple):
    """Why a replica may lack what its leader has.

    Attributes:
        since: since when, in ms; NO_TIME if the replica was never seen in sync.
        left_by_shutdown: whether it left the ISR when its broker was shut down, so that it has all that was there
            before. Otherwise its broker went on without catching up, and for longer than a shutdown takes.
    """

    since: int
    left_by_shutdown: bool


def lag_of(state: PartitionState, newest_ms: int = NO_TIME) -> Lag | None:
    """Return why a replica may lack what its leader has; None if it does not lag, or nothing is known.

    The last replica in sync stays in sync when its broker is shut down. A broker that was killed falls out of sync only
    after it has stopped, when its session times out.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.
    """
    place = state.partition.place
    since = state.rules.out_of_sync_since(place.log_dir, state.partition.topic_id, place.partition)
    if since is None or since == NO_TIME:
        return None if since is None else Lag(since, left_by_shutdown=False)
    until = seen_running(state, newest_ms)
    if state.partition.log_dir.clean_shutdown:
        return Lag(since, left_by_shutdown=until is None or until <= since + SHUTDOWN_MS)
    return Lag(since, left_by_shutdown=False) if until is None or until > since else None


def lagging_since(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return since when a replica may lack what its leader has, as :func:`lag_of`; None if it does not lag."""
    lag = lag_of(state, newest_ms)
    return None if lag is None else lag.since


def seen_running(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return until when the broker of a replica was seen running, in ms; None if nothing shows it.

    Its own copy of the metadata log shows it, also where a copy has not kept the times of the files. A broker that has
    lost its controllers goes on without them.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.
    """
    running_until, written = state.rules.running_until, kept_until(state, newest_ms)
    by_files = None if written == NO_TIME else written - state.rules.clock_skew_ms
    times = (running_until.get(state.partition.place.log_dir), by_files)
    return max((time for time in times if time is not None), default=None)
