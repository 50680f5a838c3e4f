"""Chooses, of several replicas of a partition, the one whose log counts.

A replica of a deleted topic has nothing to do with the topic of the same name that was created again. Then the leader
epoch decides: what a replica has beyond the start of a later epoch, which it lacks, was overruled by the leader of that
epoch, however long its log is. Rules: KIP-101 and KIP-279, ``LeaderEpochFileCache.endOffsetFor``.

A copy of a partition's folder that lies outside its log directory is as long as the original, but shows neither whose
it is nor whether the broker was stopped. So of logs of the same extent the one of a known broker counts, wherever the
folders lie and whatever they are called.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.partition_state import PartitionState

__all__ = ["NO_RANK", "ReplicaRank", "best_ranked"]

NO_EPOCH = -1


class ReplicaRank(NamedTuple):
    """What decides whether the log of a replica counts.

    Attributes:
        topic_id: from ``partition.metadata``, None if unknown.
        is_deleted: whether the metadata log shows that its topic was deleted.
        newest_ms: newest time that is known of it: of its files, if the copy has kept it, or of its batches.
        last_epoch: its last leader epoch, NO_EPOCH if it has none; None if its log ends with message format 0 or 1, of
            which no epoch is known.
        is_of_known_broker: whether the ``meta.properties`` of its log directory show whose it is.
        clean_shutdown: whether its broker was shut down cleanly, so that nothing followed.
    """

    topic_id: str | None = None
    is_deleted: bool = False
    newest_ms: int = NO_TIME
    last_epoch: int | None = NO_EPOCH
    is_of_known_broker: bool = False
    clean_shutdown: bool = False

    @classmethod
    def of(cls, state: PartitionState) -> ReplicaRank:
        """Return the rank of a replica."""
        topic_id = state.partition.topic_id
        return cls(
            topic_id=topic_id,
            is_deleted=topic_id in state.rules.deleted_topics,
            newest_ms=max(kept_until(state), state.log.newest_timestamp),
            last_epoch=_last_epoch(state),
            is_of_known_broker=state.partition.log_dir.broker_id is not None,
            clean_shutdown=state.partition.log_dir.clean_shutdown,
        )


def _last_epoch(state: PartitionState) -> int | None:
    """Return the leader epoch of the last batch, or a later one of the checkpoint that begins at the end of the log.

    A broker adds its epoch when it is elected, before it writes. If the log ends before the start of an epoch, it has
    lost its end, or was copied before the checkpoint.
    """
    if state.log.ends_in_old_format:
        return None
    runs, end = state.log.epochs, state.log_end_offset
    own = int(runs["leader_epoch"][-1]) if len(runs) else NO_EPOCH
    first = end if state.log.batches else 0
    elected = (epoch for epoch, start in checkpointed_epochs(state.partition).items() if first <= start <= end)
    return max([own, *elected])


NO_RANK = ReplicaRank()
_Replica = TypeVar("_Replica")


def best_ranked(
    replicas: Iterable[_Replica],
    name: Callable[[_Replica], Hashable],
    rank: Callable[[_Replica], ReplicaRank],
    extent: Callable[[_Replica], tuple[int, ...]],
    completeness: Callable[[_Replica], tuple[int, ...]] = lambda _: (),
) -> list[_Replica]:
    """Return the replica of each partition whose log counts, in the order in which the partitions come first.

    It is one of the topic that exists, then the one with the last leader epoch, then the longest one. Of equally long
    ones it is that of a known broker, then the most complete one, then one that was shut down cleanly, then the one
    with the newest files.

    Args:
        replicas: replicas of any partitions of one cluster.
        name: returns what the replicas of a partition have in common.
        rank: returns the rank of a replica.
        extent: returns what is higher for the longer one of two replicas with the same last leader epoch.
        completeness: returns what is higher for the more complete one of two equally long replicas.
    """
    by_name = defaultdict[Hashable, list[tuple[_Replica, ReplicaRank]]](list)
    for replica in replicas:
        by_name[name(replica)].append((replica, rank(replica)))

    def order(ranked: tuple[_Replica, ReplicaRank]) -> tuple[object, ...]:
        replica, one = ranked
        known, stopped = one.is_of_known_broker, one.clean_shutdown
        return extent(replica), known, completeness(replica), stopped, one.newest_ms

    return [max(_counting(every), key=order)[0] for every in by_name.values()]


def _counting(replicas: Sequence[tuple[_Replica, ReplicaRank]]) -> list[tuple[_Replica, ReplicaRank]]:
    """Return the replicas of a partition with the last leader epoch, as far as it is known of all of a topic."""
    current = _of_current_topic(replicas)
    epochs = [rank.last_epoch for _, rank in current]
    # Leader epochs of another topic begin again.
    is_known = None not in epochs and len({rank.topic_id for _, rank in current} - {None}) <= 1
    last = max((epoch for epoch in epochs if epoch is not None), default=NO_EPOCH)
    return [(replica, rank) for replica, rank in current if not is_known or rank.last_epoch == last]


def _of_current_topic(replicas: Sequence[tuple[_Replica, ReplicaRank]]) -> list[tuple[_Replica, ReplicaRank]]:
    """Return the replicas of the topic that exists: those of no other one, as far as ids and times show it.

    Without the metadata log, the topic that was created again has the newer files or batches. A replica without a topic
    id belongs to the only topic of its name, or to none of several.
    """
    ranks = dict[str | None, tuple[bool, int]]()
    for _, one in replicas:
        exists, newest_ms = ranks.get(one.topic_id, (True, NO_TIME))
        ranks[one.topic_id] = exists and not one.is_deleted, max(newest_ms, one.newest_ms)
    if len(ranks.keys() - {None}) < 2:
        return list(replicas)
    best = max(ranks.values())
    return [(replica, one) for replica, one in replicas if ranks[one.topic_id] == best]
