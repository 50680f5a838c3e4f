"""Follows the leader and the in-sync replicas of each partition through the records of a metadata log.

Rule: ``PartitionRegistration.merge``, ``PartitionChangeBuilder.electLeader``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kforensics.forensics.core.election import NO_LEADER, UNCHANGED, is_unclean
from kforensics.forensics.metadata.topic_image import PartitionRegistration

__all__ = ["ELECTION_RECORDS", "PartitionKey", "RegistrationChange", "Registrations"]

ELECTION_RECORDS = ("PartitionRecord", "PartitionChangeRecord")

PartitionKey = tuple[str, int]


class RegistrationChange(NamedTuple):
    """A partition before and after a record.

    Attributes:
        before: its state before; of a PartitionRecord, with all replicas in sync.
        after: its state after.
        leader: who was elected, NO_LEADER if no replica could be, UNCHANGED if the record is no election.
        predecessor: the leader before, or the last one if there was none.
    """

    before: PartitionRegistration
    after: PartitionRegistration
    leader: int
    predecessor: int

    @property
    def is_unclean(self) -> bool:
        """Whether the record elects a leader that may lack what was committed."""
        return is_unclean(self.leader, self.after.recovery, self.before.isr, self.before.elr)


@dataclass(slots=True)
class Registrations:
    """The state of each partition so far.

    Attributes:
        by_partition: by topic id and partition.
        last_leaders: the leader, or the last one if there is none, by topic id and partition.
    """

    by_partition: dict[PartitionKey, PartitionRegistration] = field(default_factory=dict)
    last_leaders: dict[PartitionKey, int] = field(default_factory=dict)

    def add(self, kind: str, value: Mapping[str, Any], timestamp: int | None) -> RegistrationChange | None:
        """Add one of the ELECTION_RECORDS; return what it changed, None if it changes an unknown partition.

        Args:
            kind: name of the record.
            value: the record.
            timestamp: when the controller wrote it, in ms; None if it is not known.
        """
        key = value["topicId"], value["partitionId"]
        leader = value["leader"]
        if kind == "PartitionRecord":
            after = PartitionRegistration.of(value, timestamp)
            change = RegistrationChange(after._replace(isr=after.replicas), after, UNCHANGED, leader)
        elif (known := self.by_partition.get(key)) is not None:
            change = RegistrationChange(known, known.changed(value, timestamp), leader, self.last_leaders[key])
        else:
            return None
        self.by_partition[key] = change.after
        self.last_leaders[key] = change.predecessor if leader in {NO_LEADER, UNCHANGED} else leader
        return change
