"""A leader election, as the metadata of the cluster records it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from kforensics.forensics.core.formatting import format_time

__all__ = [
    "NO_LEADER",
    "RECOVERED",
    "RECOVERING",
    "STOPS_TO_FETCH_MS",
    "UNCHANGED",
    "DatedEpochs",
    "Election",
    "Leaderless",
    "Leadership",
    "SyncChange",
    "cut_off_by",
    "is_unclean",
    "losses_of_leader",
    "may_lack_records",
    "unclean_phrase",
]

# Instead of a leader in ``PartitionChangeRecord``.
NO_LEADER, UNCHANGED = -1, -2
# ``LeaderRecoveryState``: after an unclean election, until the new leader has ended its recovery.
RECOVERED, RECOVERING = 0, 1
# A follower that no longer fetches stays in sync for ``replica.lag.time.max.ms``, 30 s by default, and leaders look for
# such followers each half of that: what it lacks is at most so much older. Rule: ``Partition.getOutOfSyncReplicas``.
STOPS_TO_FETCH_MS = 45_000


@dataclass(frozen=True, slots=True)
class Election:
    """The election of a partition leader, or that there was none to be elected.

    Attributes:
        leader_epoch: the epoch that it began.
        leader: id of the elected broker, NO_LEADER if there was none.
        timestamp: when the controller wrote it, in ms.
        in_sync: in-sync replicas before the election.
        is_unclean: whether the leader was not in sync.
        predecessor: id of the broker that had led before, NO_LEADER if it is unknown.
    """

    leader_epoch: int
    leader: int
    timestamp: int
    in_sync: tuple[int, ...]
    is_unclean: bool
    predecessor: int = NO_LEADER

    @property
    def in_sync_text(self) -> str:
        """The in-sync replicas, for a sentence."""
        return ", ".join(map(str, self.in_sync)) or "none"


@dataclass(frozen=True, slots=True)
class SyncChange:
    """When a replica came into sync, or fell out of it, for the last time.

    Attributes:
        broker_id: its broker.
        is_in_sync: whether it is in sync since then.
        timestamp: when the controller wrote it, in ms.
        is_added: whether that is when it was added to the replicas: it has not been in sync yet.
    """

    broker_id: int
    is_in_sync: bool
    timestamp: int
    is_added: bool = False


class Leaderless(NamedTuple):
    """A time in which the metadata of a cluster shows that a partition had no leader.

    Attributes:
        since: when it lost its leader, in ms.
        until: when the next one was elected, in ms, or the end of what the metadata shows.
        next_epoch: the epoch of the next leader, None if there was none.
    """

    since: int
    until: int
    next_epoch: int | None

    @classmethod
    def of(cls, lost: Election, elected: Election | None, end_ms: int) -> Leaderless:
        """Return the time between two elections, which the end of the metadata ends if there is no second one."""
        if elected is None:
            return cls(lost.timestamp, end_ms, None)
        return cls(lost.timestamp, elected.timestamp, elected.leader_epoch)


class DatedEpochs(NamedTuple):
    """When the leader epochs of a partition began, as far as the metadata of a cluster dates them.

    A log that has an epoch was copied after its election, and has what was written before it, unless that is lost.

    Attributes:
        known_since: when the metadata shows the partition for the first time, in ms: it is no younger.
        elected: when epochs began, in ms by epoch, without the first one of the partition.
        unclean: the unclean elections, but none of a broker that had led before: it goes on with what it has.
    """

    known_since: int
    elected: Mapping[int, int]
    unclean: tuple[Election, ...] = ()

    def newest(self, epochs: Iterable[int]) -> int | None:
        """Return when the last of some epochs began, in ms; None if no election of them is dated."""
        return max((self.elected[epoch] for epoch in epochs if epoch in self.elected), default=None)


class Leadership(NamedTuple):
    """What the metadata of a cluster records of the leaders and replicas of a partition.

    Attributes:
        elections: its leader elections in their order.
        sync_changes: when replicas came into sync or fell out of it for the last time.
        out_of_sync: since when replicas have been out of sync, in ms, by broker; NO_TIME for those that the metadata
            never shows in sync, such as one that a reassignment has just added.
        created: when the metadata shows its creation, in ms; None if that was before the available log.
    """

    elections: tuple[Election, ...]
    sync_changes: tuple[SyncChange, ...]
    out_of_sync: Mapping[int, int]
    created: int | None = None

    @property
    def dated_epochs(self) -> DatedEpochs | None:
        """When its epochs began; None without an election, and if no leader can have lacked what was committed."""
        if not may_lack_records(self.elections):
            return None
        first = self.elections[0].timestamp if self.created is None else self.created
        unclean = tuple(one for one in self.elections if one.is_unclean and one.leader != one.predecessor)
        return DatedEpochs(first, {one.leader_epoch: one.timestamp for one in self.elections}, unclean)


def is_unclean(leader: int, recovery: int, in_sync: Collection[int], eligible: Collection[int]) -> bool:
    """Return whether an elected leader may lack records that were committed.

    Such a leader has to recover. A leader that was in sync or eligible may be elected before that recovery has ended,
    and has lost nothing. A leader that comes into sync with its own election, which completes a reassignment, has
    nothing to recover. Rule: ``PartitionChangeBuilder.electLeader``, since metadata version 3.2.

    Args:
        leader: who was elected, NO_LEADER or UNCHANGED if no replica was.
        recovery: ``LeaderRecoveryState`` of the partition after the election, which the record has only if it changes.
        in_sync: the in-sync replicas before.
        eligible: the eligible leader replicas before.
    """
    return recovery == RECOVERING and leader not in {NO_LEADER, UNCHANGED, *in_sync, *eligible}


def may_lack_records(elections: Iterable[Election]) -> bool:
    """Return whether a leader of a partition may have lacked what was committed: it was not in sync, or there was none.

    Where a partition has had no leader, its brokers may have lost their logs meanwhile.
    """
    return any(election.is_unclean or election.leader == NO_LEADER for election in elections)


def losses_of_leader(elections: Iterable[Election]) -> Iterator[tuple[Election, Election | None]]:
    """Yield when a partition lost its leader, with the election of the next one, None if there was none since.

    Args:
        elections: the elections of the partition, in their order.
    """
    lost: Election | None = None
    for election in elections:
        if election.leader == NO_LEADER:
            lost = lost or election
        elif lost is not None:
            yield lost, election
            lost = None
    if lost is not None:
        yield lost, None


def cut_off_by(elections: Iterable[Election], time: int) -> Election | None:
    """Return the first unclean election since a time, in ms, that may have cut off what a partition had then.

    A broker that becomes leader again after itself has cut off nothing.
    """
    unclean = (one for one in elections if one.is_unclean and one.timestamp >= time)
    return next((one for one in unclean if one.predecessor not in {one.leader, NO_LEADER}), None)


def unclean_phrase(election: Election) -> str:
    """Return an unclean election as a phrase."""
    elected = f"broker {election.leader} became leader with epoch {election.leader_epoch}"
    in_sync = f"in sync: {election.in_sync_text}" if election.in_sync else "no replica was in sync"
    return f"{elected} at {format_time(election.timestamp)} while out of sync ({in_sync})"
