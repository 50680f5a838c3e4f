"""The image of a topic in the metadata of a KRaft cluster: the registrations of its partitions.

Rules: ``PartitionRegistration`` with its ``merge``, and ``TopicImage``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kforensics.forensics.core.election import RECOVERED, UNCHANGED

__all__ = ["Fields", "PartitionRegistration", "TopicImage"]

Fields: TypeAlias = dict[str, Any]
Ids: TypeAlias = tuple[int, ...]

# ``DirectoryId.MIGRATING``: the directory of a replica from before metadata version 3.7.
MIGRATING = "AAAAAAAAAAAAAAAAAAAAAA"


class PartitionRegistration(NamedTuple):
    """The registration of a partition: the fields of ``PartitionRegistration``.

    Attributes:
        replicas: broker ids; the first one is the preferred leader.
        isr: in-sync replicas.
        leader: broker id, -1 for none.
        leader_epoch: leader epoch.
        partition_epoch: how often it was changed.
        recovery: 0, or 1 while the leader recovers from an unclean election.
        removing: replicas that a reassignment removes.
        adding: replicas that a reassignment adds.
        directories: ids of the log directories of the replicas, in their order.
        elr: eligible leader replicas.
        last_known_elr: the last known ones.
        leader_ms: when the leader was elected; None if that was before the available log.
        isr_ms: when the in-sync replicas changed last; None if that was before the available log.
    """

    replicas: Ids
    isr: Ids
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery: int
    removing: Ids
    adding: Ids
    directories: tuple[str, ...]
    elr: Ids
    last_known_elr: Ids
    leader_ms: int | None = None
    isr_ms: int | None = None

    @property
    def complete(self) -> Ids:
        """The replicas that lack nothing that was committed: those in sync, else the eligible leader replicas."""
        return self.isr or self.elr

    def changed(self, value: Mapping[str, Any], timestamp: int | None) -> PartitionRegistration:
        """Return the registration after a ``PartitionChangeRecord``; most records of a large log are of this type."""
        fields: list[Any] = [*self]
        for name, place in LISTS:
            ids = value.get(name)  # releases before a field have no value for it
            if ids is not None:
                fields[place] = tuple(ids)
        if value["isr"] is not None:
            fields[ISR_MS] = timestamp
        if value["leader"] != UNCHANGED:
            fields[LEADER], fields[LEADER_MS] = value["leader"], timestamp
            fields[LEADER_EPOCH] += 1
        recovery = value.get("leaderRecoveryState", UNCHANGED)
        if recovery >= 0:
            fields[RECOVERY] = recovery
        fields[PARTITION_EPOCH] += 1
        return PartitionRegistration(*fields)

    @classmethod
    def of(cls, value: Mapping[str, Any], timestamp: int | None) -> PartitionRegistration:
        """Return the registration that a ``PartitionRecord`` states."""
        replicas = tuple(value["replicas"])
        return cls(
            replicas,
            tuple(value["isr"]),
            value["leader"],
            value["leaderEpoch"],
            value["partitionEpoch"],
            value.get("leaderRecoveryState", RECOVERED),
            tuple(value["removingReplicas"] or ()),
            tuple(value["addingReplicas"] or ()),
            tuple(value.get("directories") or (MIGRATING,) * len(replicas)),
            tuple(value.get("eligibleLeaderReplicas") or ()),
            tuple(value.get("lastKnownElr") or ()),
            timestamp,
            timestamp,
        )

    def record(self, topic_id: str, number: int) -> Fields:
        """Return the ``PartitionRecord`` that states the registration."""
        return {
            "partitionId": number,
            "topicId": topic_id,
            "replicas": [*self.replicas],
            "isr": [*self.isr],
            "removingReplicas": [*self.removing],
            "addingReplicas": [*self.adding],
            "leader": self.leader,
            "leaderRecoveryState": self.recovery,
            "leaderEpoch": self.leader_epoch,
            "partitionEpoch": self.partition_epoch,
            "directories": [*self.directories],
            "eligibleLeaderReplicas": [*self.elr] or None,
            "lastKnownElr": [*self.last_known_elr] or None,
        }


_place = PartitionRegistration._fields.index
# The lists of a PartitionChangeRecord, each with the place of the field that it replaces.
LISTS = (
    ("replicas", _place("replicas")),
    ("isr", _place("isr")),
    ("removingReplicas", _place("removing")),
    ("addingReplicas", _place("adding")),
    ("directories", _place("directories")),
    ("eligibleLeaderReplicas", _place("elr")),
    ("lastKnownElr", _place("last_known_elr")),
)
LEADER, LEADER_EPOCH, LEADER_MS = _place("leader"), _place("leader_epoch"), _place("leader_ms")
PARTITION_EPOCH, RECOVERY, ISR_MS = _place("partition_epoch"), _place("recovery"), _place("isr_ms")


@dataclass(slots=True)
class TopicImage:
    """A topic.

    Attributes:
        name: its name.
        topic_id: its id.
        partitions: its partitions by number.
        created_ms: when it was created; None if that was before the available log.
    """

    name: str
    topic_id: str
    partitions: dict[int, PartitionRegistration] = field(default_factory=dict)
    created_ms: int | None = None
