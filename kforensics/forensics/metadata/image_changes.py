"""What changed between two images of a cluster, and the history of one partition, with who wrote it and when.

The metadata log names no user: a record shows only which controller wrote it, by the leader epoch of its batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kforensics.forensics.core.cluster_tables import CLUSTER_CHANGES, PARTITION_HISTORY
from kforensics.forensics.core.election import NO_LEADER, RECOVERING, is_unclean
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.metadata.cluster_image import ClusterImage
from kforensics.forensics.metadata.cluster_metadata import LogRecord
from kforensics.forensics.metadata.image_entities import Entity, EntityFilter, entities
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.metadata.topic_image import Fields, PartitionRegistration
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "Change",
    "HistoryStep",
    "Touched",
    "change_rows",
    "changes_between",
    "history_of",
    "history_rows",
    "selected_changes",
    "touched_between",
]

EntityKey: TypeAlias = tuple[str, tuple[Any, ...]]
# The fields of a registration that are compared; when they changed is not one of them.
COMPARED = (
    *("replicas", "isr", "leader", "leader_epoch", "partition_epoch", "recovery", "removing", "adding"),
    *("directories", "elr", "last_known_elr"),
)


@dataclass(slots=True)
class _Touches:
    """The records that concern an entity.

    Attributes:
        first: the first of them.
        last: the last of them.
        records: how many there are.
        elections: how many of them elect a leader.
        controller: the controller that wrote the last of them.
    """

    first: LogRecord
    last: LogRecord
    records: int = 0
    elections: int = 0
    controller: int | None = None


@dataclass(slots=True)
class Touched:
    """Which records concern which entities.

    Attributes:
        by_key: the records, by kind and key of the entity.
    """

    by_key: dict[EntityKey, _Touches] = field(default_factory=dict)

    def add(self, record: LogRecord, image: ClusterImage, controller: int | None) -> None:
        """Add a record before it is applied.

        Args:
            record: the record.
            image: the image before it.
            controller: who wrote it.
        """
        value = record.value or {}
        for key in _keys(record, image):
            touches = self.by_key.setdefault(key, _Touches(record, record))
            touches.last, touches.controller = record, controller
            touches.records += 1
            touches.elections += record.kind == "PartitionChangeRecord" and value["leader"] > NO_LEADER

    def of(self, entity: Entity) -> _Touches | None:
        """Return the records that concern an entity, None if none do; those of a deleted topic end all that it had."""
        own = self.by_key.get((entity.kind, entity.key))
        if own is not None or entity.topic is None:
            return own
        return self.by_key.get(("topic", (entity.topic_id,))) or self.by_key.get(("topic named", (entity.topic,)))


# The fields that identify an entity, by type of the record.
KEYS: dict[str, tuple[str, tuple[str, ...]]] = {
    "RegisterBrokerRecord": ("broker", ("brokerId",)),
    "UnregisterBrokerRecord": ("broker", ("brokerId",)),
    "BrokerRegistrationChangeRecord": ("broker", ("brokerId",)),
    "FenceBrokerRecord": ("broker", ("id",)),
    "UnfenceBrokerRecord": ("broker", ("id",)),
    "RegisterControllerRecord": ("controller", ("controllerId",)),
    "UnregisterControllerRecord": ("controller", ("controllerId",)),
    "FeatureLevelRecord": ("feature", ("name",)),
    "RemoveFeatureLevelRecord": ("feature", ("name",)),
    "TopicRecord": ("topic", ("topicId",)),
    "RemoveTopicRecord": ("topic", ("topicId",)),
    "PartitionRecord": ("partition", ("topicId", "partitionId")),
    "PartitionChangeRecord": ("partition", ("topicId", "partitionId")),
    "ConfigRecord": ("config", ("resourceType", "resourceName", "name")),
    "ProducerIdsRecord": ("producer_ids", ()),
    "AccessControlEntryRecord": ("acl", ("id",)),
    "RemoveAccessControlEntryRecord": ("acl", ("id",)),
    "UserScramCredentialRecord": ("scram_user", ("name", "mechanism")),
    "RemoveUserScramCredentialRecord": ("scram_user", ("name", "mechanism")),
    "DelegationTokenRecord": ("delegation_token", ("tokenId",)),
    "RemoveDelegationTokenRecord": ("delegation_token", ("tokenId",)),
}


def _keys(record: LogRecord, image: ClusterImage) -> Iterator[EntityKey]:
    if (key := _key(record)) is not None:
        yield key
    if record.kind == "RemoveTopicRecord" and record.value is not None:
        topic = image.topics.get(record.value["topicId"])
        if topic is not None:
            yield "topic named", (topic.name,)  # the settings of a topic know only its name


def _key(record: LogRecord) -> EntityKey | None:
    value = record.value
    if value is None or record.is_control:
        return None
    if record.kind == "ClientQuotaRecord":
        parts = sorted(((part["entityType"], part["entityName"]) for part in value["entity"]), key=lambda part: part[0])
        return "quota", (*parts, value["key"])
    if record.kind not in KEYS:
        return None
    kind, names = KEYS[record.kind]
    return kind, tuple(value[name] for name in names)


class Change(NamedTuple):
    """An entity that differs between two images.

    Attributes:
        before: the entity before, None if it was created.
        after: the entity after, None if it was deleted.
        touches: the records that concern it, None if they are not available.
    """

    before: Entity | None
    after: Entity | None
    touches: _Touches | None

    @property
    def entity(self) -> Entity:
        """The entity as it is, or was."""
        return self.after or self.before or Entity("", (), "")

    @property
    def change(self) -> str:
        """What happened to it."""
        return "created" if self.before is None else "deleted" if self.after is None else "changed"

    @property
    def what(self) -> str:
        """What is different, each value with the one before."""
        if self.before is None or self.after is None:
            return _summary(self.entity)
        return "; ".join(_differences(self.before, self.after))


def changes_between(before: ImageReplay, after: ImageReplay, touched: Touched) -> Iterator[Change]:
    """Yield the entities that differ between two images, in the order of their kinds, the deleted ones last.

    Args:
        before: the first image.
        after: the second one.
        touched: the records between.
    """
    was = {(one.kind, one.key): one for one in entities(before.image, before.voters)}
    for entity in entities(after.image, after.voters):
        old = was.pop((entity.kind, entity.key), None)
        if old is None or _is_different(old, entity):
            yield Change(old, entity, touched.of(entity))
    for entity in was.values():
        yield Change(entity, None, touched.of(entity))


def _is_different(before: Entity, after: Entity) -> bool:
    if before.partition is not None and after.partition is not None:
        return _compared(before.partition) != _compared(after.partition)
    if before.kind == "topic":
        return before.name != after.name
    if before.message is None:
        return before.value != after.value
    return _ordered(before.fields()) != _ordered(after.fields())


def _ordered(fields: Fields) -> Fields:
    """Return fields with end points and features in an order; Kafka writes them in that of a hash map."""
    unordered = (name for name in ("endPoints", "features") if name in fields)
    return fields | {name: sorted(fields[name], key=lambda one: str(one["name"])) for name in unordered}


def _compared(registration: PartitionRegistration) -> tuple[Any, ...]:
    return registration[: len(COMPARED)]


def _summary(entity: Entity) -> str:
    if entity.partition is not None:
        names = ("leader", "replicas", "isr")
        return "; ".join(f"{name} {_text(getattr(entity.partition, name))}" for name in names)
    return f"{entity.value} partitions" if entity.kind == "topic" else entity.value or ""


def _differences(before: Entity, after: Entity) -> Iterator[str]:
    if before.partition is not None and after.partition is not None:
        old, new = (dict(zip(COMPARED, _compared(one), strict=True)) for one in (before.partition, after.partition))
    elif before.kind in ("broker", "controller"):
        old, new = _ordered(before.fields()), _ordered(after.fields())
    else:
        old, new = {"": before.value}, {"": after.value}
    for name, value in new.items():
        if old.get(name) != value:
            yield f"{name.replace('_', ' ')} {_text(old.get(name))} -> {_text(value)}".strip()


def _text(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value)) or "none"
    if isinstance(value, dict):
        return ":".join(map(_text, value.values()))
    return "none" if value is None else str(value)


def change_rows(place: Place, changes: Iterable[Change]) -> Rows:
    """Return changes as rows.

    Args:
        place: where the images are from.
        changes: the changes.
    """
    rows = [_change_row(change) for change in changes]
    return _rows(CLUSTER_CHANGES, place, rows)


def _rows(table: Any, place: Place, rows: list[tuple[Any, ...]]) -> Rows:
    names = table.names[2:]
    columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)) if rows else dict.fromkeys(names)
    return Rows(table, len(rows), {"broker_id": place.broker_id, "log_dir": place.log_dir, **columns})


def _change_row(change: Change) -> tuple[Any, ...]:
    entity, touches = change.entity, change.touches
    records = [None if one is None else one.record() for one in (change.before, change.after)]
    times: tuple[Any, ...] = (None,) * 8
    if touches is not None:
        first, last = touches.first, touches.last
        spans = (touches.records, first.offset, first.timestamp, last.offset, last.timestamp)
        times = (*spans, touches.elections, touches.controller, last.epoch)
    what = entity.kind, entity.name, entity.setting, change.change, change.what
    return (entity.topic, entity.number, *what, *records, *times)


class HistoryStep(NamedTuple):
    """A change of a partition.

    Attributes:
        record: the record that made it; None for the state in a snapshot.
        change: what changed, in words.
        state: the registration after it, None once the topic is deleted.
        controller: the controller that wrote it.
    """

    record: LogRecord | None
    change: str
    state: PartitionRegistration | None
    controller: int | None

    @property
    def timestamp(self) -> int | None:
        """When it happened, in ms."""
        return None if self.record is None else self.record.timestamp


def history_of(replay: ImageReplay, topic: str, number: int) -> Iterator[HistoryStep]:
    """Yield the changes of a partition in log order; a topic that was created again has both lives.

    Args:
        replay: a replay that has not begun.
        topic: name of the topic.
        number: number of the partition.

    Raises:
        InputError: the snapshot or the log cannot be read.
    """
    replay.begin()
    before = _registration(replay, topic, number)
    if before is not None:
        yield HistoryStep(None, "in the snapshot", before, None)
    for record in replay.records():
        replay.apply(record)
        after = _registration(replay, topic, number)
        if after is not before:
            yield HistoryStep(record, _change(before, after), after, replay.leader)
            before = after


def _registration(replay: ImageReplay, topic: str, number: int) -> PartitionRegistration | None:
    known = replay.image.topic_named(topic)
    return None if known is None else known.partitions.get(number)


def _change(before: PartitionRegistration | None, after: PartitionRegistration | None) -> str:
    if after is None:
        return "deleted"
    if before is None:
        return "created"
    changes = [*_leadership(before, after)]
    if shrunk := set(before.isr) - set(after.isr):
        changes.append(f"isr shrunk by {_ids(shrunk)}")
    if expanded := set(after.isr) - set(before.isr):
        changes.append(f"isr expanded by {_ids(expanded)}")
    if before.recovery == RECOVERING != after.recovery:
        changes.append("recovered")
    if (before.adding, before.removing) != (after.adding, after.removing):
        changes.append("reassigning" if after.adding or after.removing else "reassigned")
    elif before.replicas != after.replicas:
        changes.append("replicas changed")
    if before.elr != after.elr:
        changes.append("elr changed")
    if before.directories != after.directories and before.replicas == after.replicas:
        changes.append("directories changed")
    return ", ".join(changes) or "nothing"


def _leadership(before: PartitionRegistration, after: PartitionRegistration) -> Iterator[str]:
    if after.leader_epoch == before.leader_epoch:
        return
    if after.leader == NO_LEADER:
        yield "no leader"
    elif is_unclean(after.leader, after.recovery, before.isr, before.elr):
        yield "unclean election"
    elif after.leader != before.leader:
        yield "elected"
    else:
        yield "new leader epoch"


def _ids(nodes: Iterable[int]) -> str:
    return ",".join(map(str, sorted(nodes)))


def history_rows(place: Place, topic: str, number: int, steps: Sequence[HistoryStep]) -> Rows:
    """Return the history of a partition as rows.

    Args:
        place: where the metadata log is.
        topic: name of the topic.
        number: number of the partition.
        steps: its changes.
    """
    ends = [*(step.timestamp for step in steps[1:]), None]
    rows = [(topic, number, *_step_row(step, end)) for step, end in zip(steps, ends, strict=True)] if steps else []
    return _rows(PARTITION_HISTORY, place, rows)


def _step_row(step: HistoryStep, end: int | None) -> tuple[Any, ...]:
    record, state = step.record, step.state
    offset, time, epoch = (None, None, None) if record is None else (record.offset, record.timestamp, record.epoch)
    of_state: tuple[Any, ...] = (None,) * 9
    if state is not None:
        lists = state.replicas, state.isr, state.elr, state.last_known_elr, state.adding, state.removing
        epochs = state.leader, state.leader_epoch, state.partition_epoch
        of_state = (*epochs, *(",".join(map(str, ids)) for ids in lists))
    duration = None if time is None or end is None else end - time
    return (offset, time, step.change, *of_state, duration, step.controller, epoch)


def touched_between(replay: ImageReplay, start: int) -> Touched:
    """Replay a log to its end, and return which records from an offset on concern which entities.

    Args:
        replay: a replay that has begun.
        start: the offset.
    """
    touched = Touched()
    for record in replay.records():
        if record.offset >= start:
            touched.add(record, replay.image, replay.leader)
        replay.apply(record)
    return touched


def selected_changes(changes: Iterable[Change], selection: EntityFilter) -> Iterator[Change]:
    """Yield the changes of selected entities."""
    return (change for change in changes if selection.selects(change.entity))
