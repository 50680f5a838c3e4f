"""Follows the leader and the in-sync replicas of each partition through the records of a metadata log.

Rule: ``PartitionRegistration.merge``, ``PartitionChangeBuilder.electLeader``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kforensics.forensics.core.election import NO_LEADER, RECOVERED, RECOVERING, UNCHANGED, is_unclean

__all__ = ["ELECTION_RECORDS", "PartitionKey", "Registration", "RegistrationChange", "Registrations"]

ELECTION_RECORDS = ("PartitionRecord", "PartitionChangeRecord")

PartitionKey = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Registration:
    """The state of a partition according to the metadata so far.

    Attributes:
        leader_epoch: current leader epoch.
        in_sync: in-sync replicas.
        last_leader: the leader, or the last one if there is none.
        replicas: all replicas, including those that are being added.
        eligible: eligible leader replicas, which are not in sync but have all that was committed.
        recovery: ``LeaderRecoveryState``, RECOVERING while the leader recovers from an unclean election.
    """

    leader_epoch: int
    in_sync: tuple[int, ...]
    last_leader: int
    replicas: tuple[int, ...] = ()
    eligible: tuple[int, ...] = ()
    recovery: int = RECOVERED


class RegistrationChange(NamedTuple):
    """A partition before and after a record.

    Attributes:
        before: its state before; of a PartitionRecord, with all replicas in sync.
        after: its state after.
        leader: who was elected, NO_LEADER if no replica could be, UNCHANGED if the record is no election.
    """

    before: Registration
    after: Registration
    leader: int

    @property
    def is_unclean(self) -> bool:
        """Whether the record elects a leader that may lack what was committed."""
        return is_unclean(self.leader, self.after.recovery, self.before.in_sync, self.before.eligible)


@dataclass(slots=True)
class Registrations:
    """The state of each partition so far.

    Attributes:
        by_partition: by topic id and partition.
    """

    by_partition: dict[PartitionKey, Registration] = field(default_factory=dict)

    def add(self, kind: str, value: Mapping[str, Any]) -> RegistrationChange | None:
        """Add one of the ELECTION_RECORDS; return what it changed, None if it changes an unknown partition."""
        key = value["topicId"], value["partitionId"]
        if kind == "PartitionRecord":
            replicas, eligible = tuple(value["replicas"]), tuple(value.get("eligibleLeaderReplicas") or ())
            recovery = value.get("leaderRecoveryState", RECOVERED)
            before = Registration(value["leaderEpoch"], replicas, value["leader"], replicas, eligible, recovery)
            change = RegistrationChange(before, replace(before, in_sync=tuple(value["isr"])), UNCHANGED)
        elif (known := self.by_partition.get(key)) is not None:
            change = RegistrationChange(known, _changed(known, value), value["leader"])
        else:
            return None
        self.by_partition[key] = change.after
        return change


def _changed(before: Registration, value: Mapping[str, Any]) -> Registration:
    """Return the registration after a change; any leader in the record, even the same one, begins a new epoch."""
    leader, after = value["leader"], before
    if leader != UNCHANGED:
        last_leader = before.last_leader if leader == NO_LEADER else leader
        after = replace(before, leader_epoch=before.leader_epoch + 1, last_leader=last_leader)
    after = after if value.get("replicas") is None else replace(after, replicas=tuple(value["replicas"]))
    recovery = value.get("leaderRecoveryState", UNCHANGED)
    after = replace(after, recovery=recovery) if recovery in {RECOVERED, RECOVERING} else after
    eligible = value.get("eligibleLeaderReplicas")
    after = after if eligible is None else replace(after, eligible=tuple(eligible))
    return after if value["isr"] is None else replace(after, in_sync=tuple(value["isr"]))
