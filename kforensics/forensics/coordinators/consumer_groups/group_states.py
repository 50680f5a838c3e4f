"""The states of groups by their own records in ``__consumer_offsets``: members, generation, when the last member left.

Rule: ``GroupMetadataManager.replay``. A classic group writes its members with each generation, the other types write a
record for each member. A group without members can be deleted, and its offsets can be altered and expire.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, VERSION_SIZE
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.columns.record_columns import RecordColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.messages.internal_records import decode_record

__all__ = ["CLASSIC", "GroupRecord", "GroupState", "GroupStates"]

CLASSIC: Final = "classic"
STREAMS: Final = "streams"
CLASSIC_TYPE = 2
# The types of the records with the epoch of a group, and of those with one of its members.
EPOCH_TYPES: Final = {3: "consumer", 11: "share", 17: STREAMS}
MEMBER_TYPES: Final = {5: "consumer", 10: "share", 19: STREAMS}
# Those with the epoch of the target assignment, and those with what a member has of it.
TARGET_TYPES: Final = {6: "consumer", 12: "share", 20: STREAMS}
CURRENT_TYPES: Final = {8: "consumer", 14: "share", 22: STREAMS}
# That with the topology of a group.
TOPOLOGY_TYPES: Final = {23: STREAMS}
KINDS: Final = EPOCH_TYPES | MEMBER_TYPES | TARGET_TYPES | CURRENT_TYPES | TOPOLOGY_TYPES
# ``MemberState.STABLE``, which streams groups count differently.
SETTLED: Final = {"consumer": 0, "share": 0, STREAMS: 1}
STATE_TYPES: Final = (CLASSIC_TYPE, *KINDS)
ValueT = TypeVar("ValueT")
# What a member may read: in a classic group as its assignor wrote it, else topic ids with partitions.
Assignment: TypeAlias = "bytes | tuple[tuple[str, tuple[int, ...]], ...]"
# The fields of a record with what a member of a consumer group has: its partitions, also those it is still to give up.
OWNED: Final = ("assignedPartitions", "partitionsPendingRevocation")


class GroupRecord(NamedTuple):
    """Where a record of a group is.

    Attributes:
        segment: number of its segment.
        position: position of its batch.
        offset: its offset.
        time: its timestamp, NO_TIME if unknown.
    """

    segment: int
    position: int
    offset: int
    time: int


class GroupState(NamedTuple):
    """The state of a group after a record.

    Attributes:
        kind: classic, consumer, share or streams.
        members: the members, each with the client's id, by member id.
        generation: generation of a classic group, epoch of another one; -1 if unknown.
        protocol_type: of a classic group, empty if its offsets are committed without members.
        protocol: assignor of a classic group, None if there is none.
        record: the record.
        emptied: when the last member left, or the group was created without any; NO_TIME if no record shows it.
        removed_in: segment and position of the batch that removed the group, None if it was not removed.
        target_epoch: epoch of the target assignment, for groups that are not classic; -1 if unknown.
        member_epochs: epoch of each of their members that has all of its assignment, -1 for one that has not.
        hosts: from where each member joined, by member id.
        assignments: what each member of a classic or consumer group may read, by member id, as far as it is known.
        moved: offset of the last record that changes the generation or what a member may read, -1 if none does.
        topology_epoch: epoch of the topology of a streams group, -1 if it has none.
        validated_epoch: that of the topology for which all source topics were there, -1 if some were missing; None for
            other groups, and for streams groups whose coordinator is of 4.1, which does not write it.
    """

    kind: str
    members: dict[str, str]
    generation: int = NONE
    protocol_type: str = ""
    protocol: str | None = None
    record: GroupRecord = GroupRecord(NONE, NONE, NONE, NO_TIME)
    emptied: int = NO_TIME
    removed_in: tuple[int, int] | None = None
    target_epoch: int = NONE
    member_epochs: dict[str, int] = {}  # noqa: RUF012  # never changed in place, like the next two
    hosts: dict[str, str] = {}  # noqa: RUF012
    assignments: dict[str, Assignment] = {}  # noqa: RUF012
    moved: int = NONE
    topology_epoch: int = NONE
    validated_epoch: int | None = None

    @property
    def name(self) -> str:
        """The state as Kafka's tools write it; of a classic group that of its last complete generation.

        Rules: ``ConsumerGroup.maybeUpdateGroupState``, ``StreamsGroup.maybeUpdateGroupState``.
        """
        if self.removed_in is not None:
            return "Dead"
        if not self.members:
            return "Empty"
        if self.kind in (CLASSIC, "share"):
            return "Stable"
        if self.validated_epoch is not None and not 0 <= self.validated_epoch == self.topology_epoch:
            return "NotReady"
        if self.generation > self.target_epoch:
            return "Assigning"
        is_settled = all(self.member_epochs.get(member) == self.target_epoch for member in self.members)
        return "Stable" if is_settled else "Reconciling"

    def has_moved_since(self, offset: int) -> bool:
        """Return whether a partition may have another member than at a record with this offset.

        Rule: ``CurrentAssignmentBuilder``, a member gets a partition only after the other one has given it up, and the
        record of what it has comes first. A classic group writes its record before its members may commit in the new
        generation.
        """
        return self.moved > offset


@dataclass(slots=True)
class GroupStates:
    """The states of groups, chunk by chunk.

    Attributes:
        last: the last state by group.
    """

    last: dict[str, GroupState] = field(default_factory=dict)
    _changes: dict[str, list[tuple[int, GroupState | None]]] = field(default_factory=dict)

    def take(self, segment: int, records: RecordColumns, records_before: int) -> None:
        """Take the next chunk.

        Args:
            segment: number of its segment.
            records: the chunk.
            records_before: number of records before it in the log.
        """
        self._changes.clear()
        candidates = np.flatnonzero(~records.rows["is_control"] & (records.keys.sizes >= VERSION_SIZE))
        types = records.keys.take(candidates).numbers(">i2")
        for index in candidates[np.isin(types, STATE_TYPES)].tolist():
            row = records.rows[index]
            time = int(row["timestamp"])
            place = (segment, int(row["position"]), int(row["offset"]), NO_TIME if time < 0 else time)
            self.add(records_before + index, GroupRecord(*place), records.keys.get(index), records.values.get(index))

    def add(self, at: int, record: GroupRecord, key: bytes | None, value: bytes | None) -> None:
        """Apply a record, if it is one that changes the state of a group and can be read.

        Args:
            at: number of the record in the log.
            record: where it is.
            key: its key.
            value: its value, None for a tombstone.
        """
        message = decode_record(CONSUMER_OFFSETS, key, value)
        if message.key is None or message.type_id not in STATE_TYPES or (value is not None and message.value is None):
            return
        group = message.key["group"] if message.type_id == CLASSIC_TYPE else message.key["groupId"]
        before = self.last.get(group)
        after = _changed(before, record, message.type_id, message.key, message.value)
        if after is not None:
            self._changes.setdefault(group, [(NONE, before)]).append((at, after))
            self.last[group] = after

    def before(self, group: str, at: int) -> GroupState | None:
        """Return the state of a group before a record of the last chunk or the chunk's end, None if it is unknown."""
        changes = self._changes.get(group)
        if changes is None:
            return self.last.get(group)
        return changes[bisect_left(changes, at, key=itemgetter(0)) - 1][1]

    def had_no_members(self, groups: Sequence[str], codes: IntArray, at: IntArray) -> BoolArray:
        """Return whether groups are known to have had no members before records of the last chunk.

        Args:
            groups: names of groups.
            codes: index of the group of each record in them.
            at: number of each record.
        """
        states = map(self.last.get, groups)
        had_none = np.array([state is not None and not state.members for state in states], "?")[codes]
        changed = np.array([group in self._changes for group in groups], "?")
        for row in np.flatnonzero(changed[codes]).tolist():
            state = self.before(groups[codes[row]], int(at[row]))
            had_none[row] = state is not None and not state.members
        return had_none

    def is_removed_in(self, group: str, batch: tuple[int, int]) -> bool:
        """Return whether a batch of the last chunk, by segment and position, removes a group."""
        states = (state for _, state in self._changes.get(group, ()))
        return any(state is not None and state.removed_in == batch for state in states)

    def changes_of(self, group: str) -> Iterator[GroupState]:
        """Yield the states of a group after its records in the last chunk."""
        yield from (state for at, state in self._changes.get(group, ()) if state is not None and at != NONE)


def _changed(
    before: GroupState | None, record: GroupRecord, type_id: int, key: dict[str, Any], value: dict[str, Any] | None
) -> GroupState | None:
    """Return the state of a group after a record, None if the record does not change it."""
    if type_id == CLASSIC_TYPE:
        return _removed(before, record, CLASSIC) if value is None else _classic(before, record, value)
    kind = KINDS[type_id]
    if type_id in EPOCH_TYPES and value is None:
        return _removed(before, record, kind)
    if before is None or before.kind != kind:
        if value is None or type_id in TARGET_TYPES | CURRENT_TYPES:
            return None  # what is left of a group that has become another kind, or is removed
        before = GroupState(kind, {})
    state = before._replace(record=record)
    if type_id in MEMBER_TYPES:
        return _with_member(state, record, key["memberId"], value)
    if type_id in CURRENT_TYPES:
        return _with_assignment(state, key["memberId"], value)
    if value is None:
        return None
    if type_id in EPOCH_TYPES:
        validated = _validated_epoch(state, value) if kind == STREAMS else None
        state = state._replace(validated_epoch=validated)
        return state._replace(generation=value["epoch"], removed_in=None, moved=record.offset)
    is_target = type_id in TARGET_TYPES
    changed = {"target_epoch": value["assignmentEpoch"]} if is_target else {"topology_epoch": value["epoch"]}
    return state._replace(**changed)


def _validated_epoch(state: GroupState, value: dict[str, Any]) -> int | None:
    """Return the epoch of the validated topology of a streams group, None if its coordinator does not write it.

    From 4.2 on each record has the configuration of the assignor as well; an epoch of -1 is left out.
    """
    validated = int(value["validatedTopologyEpoch"])
    is_known = validated != NONE or value["lastAssignmentConfigs"] or state.validated_epoch is not None
    return validated if is_known else None


def _with_member(state: GroupState, record: GroupRecord, member: str, value: dict[str, Any] | None) -> GroupState:
    """Return the state of a group after a member joined or changed, or left if there is no value."""
    members, hosts = _without(state.members, member), _without(state.hosts, member)
    if value is not None:
        members[member], hosts[member] = value["clientId"], value["clientHost"]
    is_emptied = bool(state.members) and not members
    emptied = record.time if is_emptied else state.emptied
    is_removed = value is None and state.removed_in is not None
    state = state._replace(members=members, hosts=hosts, emptied=emptied)
    return state._replace(removed_in=state.removed_in if is_removed else None)


def _with_assignment(state: GroupState, member: str, value: dict[str, Any] | None) -> GroupState:
    """Return the state of a group after a member got what it may read, or left if there is no value."""
    epochs, assignments = _without(state.member_epochs, member), _without(state.assignments, member)
    moved = state.record.offset
    if value is not None:
        epochs[member] = value["memberEpoch"] if value["state"] == SETTLED[state.kind] else NONE
        owned = [one for name in OWNED for one in value.get(name) or ()]
        assignments[member] = tuple((one["topicId"], tuple(one["partitions"])) for one in owned)
    return state._replace(member_epochs=epochs, assignments=assignments, moved=moved)


def _without(values: dict[str, ValueT], member: str) -> dict[str, ValueT]:
    return {name: value for name, value in values.items() if name != member}


def _removed(before: GroupState | None, record: GroupRecord, kind: str) -> GroupState | None:
    """Return the state of a group after its removal; one that has become another kind is not removed."""
    if before is not None and before.kind != kind:
        return None
    state = before or GroupState(kind, {})
    removed_in = (record.segment, record.position)
    return state._replace(members={}, hosts={}, assignments={}, record=record, removed_in=removed_in)


def _classic(before: GroupState | None, record: GroupRecord, value: dict[str, Any]) -> GroupState:
    members, hosts, assignments = (
        {member["memberId"]: member[name] for member in value["members"]}
        for name in ("clientId", "clientHost", "assignment")
    )
    emptied = NO_TIME if before is None else before.emptied
    if not members:
        since = value.get("currentStateTimestamp", NONE)
        emptied = since if since >= 0 else record.time
    names = value["protocolType"], value["protocol"]
    state = GroupState(CLASSIC, members, value["generation"], *names, record, emptied)
    state = state._replace(hosts=hosts, assignments=assignments)
    is_same = before is not None and (before.generation, before.assignments) == (state.generation, assignments)
    return state._replace(moved=before.moved if before is not None and is_same else record.offset)
