"""Recognizes replicas that may lack what their leader has, by the metadata of the cluster.

A broker may be at work for days with a replica that does not get on: one that a throttled reassignment fills, or whose
fetches fail. And the cluster goes on while a broker is shut down. In such a replica a transaction looks open that has
ended long since. Rule: the ISR of a partition, ``Partition.maybeShrinkIsr``,
``ReplicationControlManager.handleBrokerInControlledShutdown``.
"""

from __future__ import annotations

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["lagging_since", "lags_at_work", "seen_running", "shut_down_at"]

# How long a broker goes on at most after it has handed over its partitions to shut down.
SHUTDOWN_MS = 60_000


def lagging_since(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return since when a replica may lack what its leader has, in ms.

    A broker that is shut down falls out of sync, too: its replicas lack nothing that was there then. One that was
    killed falls out of sync only after it has stopped, when its session times out.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.

    Returns:
        The time, NO_TIME if the replica was never seen in sync; None if it does not lag, or nothing is known.
    """
    since = _out_of_sync_since(state)
    if since is None or since == NO_TIME or state.partition.log_dir.clean_shutdown:
        return since
    until = seen_running(state, newest_ms)
    return since if until is None or until > since else None


def lags_at_work(state: PartitionState, newest_ms: int = NO_TIME) -> bool:
    """Return whether a replica was out of sync while its broker was running, and for longer than a shutdown takes.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.
    """
    since, is_stopped = lagging_since(state, newest_ms), state.partition.log_dir.clean_shutdown
    if since is None or since == NO_TIME or not is_stopped:
        return since is not None
    until = seen_running(state, newest_ms)
    return until is not None and until > since + SHUTDOWN_MS


def shut_down_at(state: PartitionState, newest_ms: int = NO_TIME) -> int | None:
    """Return when the broker of a replica was shut down, in ms, if others may have gone on; None for other replicas.

    The last replica in sync stays in sync when its broker is shut down.

    Args:
        state: the replica, with the rules that follow from all settings.
        newest_ms: newest time that is known of its markers.
    """
    return None if lags_at_work(state, newest_ms) else lagging_since(state, newest_ms)


def _out_of_sync_since(state: PartitionState) -> int | None:
    place = state.partition.place
    return state.rules.out_of_sync_since(place.log_dir, state.partition.topic_id, place.partition)


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
