"""The entities of the image of a cluster, as rows of ``cluster_image``: what each is called, and what is the matter."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, NamedTuple

from kforensics.forensics.core.cluster_tables import CLUSTER_IMAGE
from kforensics.forensics.core.election import NO_LEADER, RECOVERING
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.metadata.cluster_image import BROKER, TOPIC, ClusterImage
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.metadata.topic_image import Fields, PartitionRegistration, TopicImage
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.messages import metadata as schemas
from kforensics.parsers.messages.json_render import to_json
from kforensics.parsers.messages.schema import MessageSchema

__all__ = ["KINDS", "Entity", "EntityFilter", "entities", "entity_rows", "image_rows", "partition_state", "stream_of"]

PART_ROWS = 1 << 12
# The kinds of entities, in the order of their rows.
KINDS = (
    *("broker", "controller", "voter", "feature", "topic", "partition", "config", "quota", "producer_ids", "acl"),
    *("scram_user", "delegation_token"),
)
# Names of ``ConfigResource.Type``, ``ResourceType``, ``PatternType``, ``AclOperation`` and ``AclPermissionType``.
CONFIG_OWNERS = {TOPIC: "topic", BROKER: "broker", 8: "logger of broker", 16: "client metrics", 32: "group"}
RESOURCES = {2: "topic", 3: "group", 4: "cluster", 5: "transactional id", 6: "delegation token", 7: "user"}
PATTERNS = {3: "literal", 4: "prefixed"}
OPERATIONS = (
    *("UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION"),
    *("DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS"),
    "TWO_PHASE_COMMIT",
)
PERMISSIONS = {2: "deny", 3: "allow"}
MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
# Settings whose values are of the type PASSWORD, also with the prefix of a listener. Kafka stores them as they are.
SECRET = re.compile(
    r"(?:^|\.)(?:ssl\.(?:keystore|key|truststore)\.password|ssl\.keystore\.(?:key|certificate\.chain)"
    r"|ssl\.truststore\.certificates|sasl\.jaas\.config|.*(?:password|secret).*)$",
    re.IGNORECASE,
)
HIDDEN = "[hidden]"
MIN_ISR = "min.insync.replicas"


class Entity(NamedTuple):
    """An entity of an image.

    Attributes:
        kind: its kind.
        key: identifies it among those of its kind.
        name: its name, or what it is for.
        setting: of a config, quota, user or access control entry.
        value: its value as text.
        state: what is the matter with it.
        node_id: broker or controller.
        topic: name of the topic.
        topic_id: id of the topic.
        number: number of the partition.
        partition: its registration.
        since: when it became what it is.
        message: type of the record that states it.
        fields: returns the fields of that record, without secrets.
    """

    kind: str
    key: tuple[Any, ...]
    name: str
    setting: str | None = None
    value: str | None = None
    state: str | None = None
    node_id: int | None = None
    topic: str | None = None
    topic_id: str | None = None
    number: int | None = None
    partition: PartitionRegistration | None = None
    since: int | None = None
    message: MessageSchema | None = None
    fields: Callable[[], Fields] = dict

    def record(self) -> str | None:
        """Return the record that states it, as JSON; None if none does."""
        return None if self.message is None else to_json(self.message, self.fields(), self.message.highest_version)


class EntityFilter(NamedTuple):
    """Which entities to show.

    Attributes:
        is_topic: returns whether a topic is selected; None for all entities.
        numbers: ranges of the numbers of partitions; all if it is empty.
        broker: only what concerns this node; None for all.
    """

    is_topic: Callable[[str], bool] | None = None
    numbers: Collection[range] = ()
    broker: int | None = None

    def selects(self, entity: Entity) -> bool:
        """Return whether an entity is selected."""
        if (self.is_topic or self.numbers) and entity.topic is None:
            return False
        if self.is_topic is not None and not self.is_topic(entity.topic or ""):
            return False
        if self.numbers and not any(entity.number in numbers for numbers in self.numbers):
            return False
        if self.broker is None:
            return True
        registration = entity.partition
        return entity.node_id == self.broker or (registration is not None and self.broker in registration.replicas)


def entities(image: ClusterImage, voters: Iterable[Mapping[str, Any]] = ()) -> Iterator[Entity]:
    """Yield the entities of an image, in the order of KINDS.

    Args:
        image: the image.
        voters: the voters of the quorum.
    """
    yield from _nodes(image, voters)
    for name, level in sorted(image.features.items()):
        fields = {"name": name, "featureLevel": level}
        yield _stated("feature", (name,), name, schemas.FEATURE_LEVEL_RECORD, fields, value=str(level))
    topics = sorted(image.topics.values(), key=lambda topic: topic.name)
    yield from map(_topic, topics)
    for topic in topics:
        minimum = _min_isr(image, topic.name)
        for number in sorted(topic.partitions):
            yield _partition(topic, number, minimum)
    yield from _configs(image)
    yield from _quotas(image)
    if image.next_producer_id is not None:
        block = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": image.next_producer_id}
        first = str(image.next_producer_id)
        yield _stated("producer_ids", (), "next producer id", schemas.PRODUCER_IDS_RECORD, block, value=first)
    yield from _security(image)


def _stated(
    kind: str, key: tuple[Any, ...], name: str, message: MessageSchema, fields: Fields, **columns: Any
) -> Entity:
    return Entity(kind, key, name, message=message, fields=fields.copy, **columns)


def _nodes(image: ClusterImage, voters: Iterable[Mapping[str, Any]]) -> Iterator[Entity]:
    for node, fields in sorted(image.brokers.items()):
        states = [name for name, is_so in _broker_states(fields).items() if is_so]
        columns = {"node_id": node, "state": ", ".join(states) or None, "value": _endpoints(fields["endPoints"])}
        yield _stated("broker", (node,), str(node), schemas.REGISTER_BROKER_RECORD, fields, **columns)
    for node, fields in sorted(image.controllers.items()):
        columns = {"node_id": node, "value": _endpoints(fields["endPoints"])}
        yield _stated("controller", (node,), str(node), schemas.REGISTER_CONTROLLER_RECORD, fields, **columns)
    for voter in sorted(voters, key=lambda voter: int(voter["voterId"])):
        directory, node = voter.get("voterDirectoryId"), voter["voterId"]
        yield Entity("voter", (node, directory), str(node), node_id=node, value=directory)


def _broker_states(fields: Fields) -> dict[str, bool]:
    return {
        "fenced": bool(fields.get("fenced")),
        "in controlled shutdown": bool(fields.get("inControlledShutdown")),
        "migrating from ZooKeeper": bool(fields.get("isMigratingZkBroker")),
        "log directories cordoned": bool(fields.get("cordonedLogDirs")),
    }


def _endpoints(endpoints: Iterable[Mapping[str, Any]]) -> str:
    return ",".join(f"{one['name']}://{one['host']}:{one['port']}" for one in endpoints)


def _topic(topic: TopicImage) -> Entity:
    fields = {"name": topic.name, "topicId": topic.topic_id}
    count = len(topic.partitions)
    columns = {"topic": topic.name, "topic_id": topic.topic_id, "since": topic.created_ms, "value": str(count)}
    return _stated("topic", (topic.topic_id,), topic.name, schemas.TOPIC_RECORD, fields, **columns)


def _min_isr(image: ClusterImage, topic: str) -> int:
    """Return the number of in-sync replicas that ``acks=all`` needs, as far as the metadata show; 1 otherwise."""
    for resource in ((TOPIC, topic), (BROKER, "")):
        text = image.configs.get(resource, {}).get(MIN_ISR, "")
        if text.isdecimal():
            return int(text)
    return 1


def _partition(topic: TopicImage, number: int, minimum: int) -> Entity:
    registration = topic.partitions[number]
    return Entity(
        "partition",
        (topic.topic_id, number),
        f"{topic.name}-{number}",
        state=partition_state(registration, minimum),
        topic=topic.name,
        topic_id=topic.topic_id,
        number=number,
        partition=registration,
        since=registration.leader_ms,
        message=schemas.PARTITION_RECORD,
        fields=partial(registration.record, topic.topic_id, number),
    )


def partition_state(partition: PartitionRegistration, minimum: int = 1) -> str | None:
    """Return what is the matter with a partition, None if nothing is.

    Args:
        partition: its registration.
        minimum: how many in-sync replicas ``acks=all`` needs.
    """
    replicas, in_sync = len(partition.replicas), len(partition.isr)
    if partition.leader != NO_LEADER and in_sync == replicas and not (partition.recovery or partition.adding):
        return "reassigning" if partition.removing else None  # nearly all partitions
    if partition.leader == NO_LEADER:
        return "no leader"
    states = {
        "recovering from an unclean election": partition.recovery == RECOVERING,
        f"below {MIN_ISR} {minimum}": in_sync < min(minimum, replicas),
        "under-replicated": in_sync < replicas,
        "reassigning": bool(partition.adding or partition.removing),
    }
    return ", ".join(name for name, is_so in states.items() if is_so) or None


def _configs(image: ClusterImage) -> Iterator[Entity]:
    for (kind, owner), values in sorted(image.configs.items()):
        name = CONFIG_OWNERS.get(kind, f"resource type {kind}")
        label = f"{name} {owner}" if owner else f"all {name}s"
        node = int(owner) if kind == BROKER and owner.isdecimal() else None
        for setting, text in sorted(values.items()):
            value = HIDDEN if SECRET.search(setting) else text
            fields = {"resourceType": kind, "resourceName": owner, "name": setting, "value": value}
            columns = {"setting": setting, "value": value, "node_id": node, "topic": owner if kind == TOPIC else None}
            yield _stated("config", (kind, owner, setting), label, schemas.CONFIG_RECORD, fields, **columns)


def _quotas(image: ClusterImage) -> Iterator[Entity]:
    for entity, values in image.quotas.items():
        label = ", ".join(f"{kind} {'<default>' if name is None else name}" for kind, name in entity)
        parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
        for key, number in sorted(values.items()):
            fields = {"entity": parts, "key": key, "value": number, "remove": False}
            columns = {"setting": key, "value": f"{number:g}"}
            yield _stated("quota", (*entity, key), label, schemas.CLIENT_QUOTA_RECORD, fields, **columns)


def _security(image: ClusterImage) -> Iterator[Entity]:
    for acl_id, acl in sorted(image.acls.items()):
        number = acl["operation"]
        operation = OPERATIONS[number] if 0 <= number < len(OPERATIONS) else str(number)
        resource = RESOURCES.get(acl["resourceType"], str(acl["resourceType"]))
        pattern = PATTERNS.get(acl["patternType"], str(acl["patternType"]))
        columns = {
            "setting": f"{PERMISSIONS.get(acl['permissionType'], acl['permissionType'])} {operation}",
            "value": f"{resource} {acl['resourceName']} ({pattern}), host {acl['host']}",
        }
        message = schemas.ACCESS_CONTROL_ENTRY_RECORD
        yield _stated("acl", (acl_id,), str(acl["principal"]), message, acl, **columns)
    for (user, number), iterations in sorted(image.scram.items()):
        mechanism = MECHANISMS.get(number, str(number))
        yield Entity("scram_user", (user, number), user, setting=mechanism, value=f"{iterations} iterations")
    for token_id, token in sorted(image.tokens.items()):
        message = schemas.DELEGATION_TOKEN_RECORD
        yield _stated("delegation_token", (token_id,), token_id, message, token, value=token["owner"])


def image_rows(metadata: Partition) -> RowStream:
    """Return the entities of the image at the end of a metadata log, made when the rows are used.

    Args:
        metadata: a copy of the metadata log.
    """
    return RowStream(CLUSTER_IMAGE, partial(_rows_at_end, metadata))


def _rows_at_end(metadata: Partition) -> Iterator[Rows]:
    replay = ImageReplay(metadata).run()
    return _parts(metadata.place, replay.offset, replay.timestamp, partial(entities, replay.image, replay.voters))


def entity_rows(replay: ImageReplay, selection: EntityFilter) -> RowStream:
    """Return the selected entities of a replayed image.

    Args:
        replay: the replay.
        selection: which entities.
    """

    def selected() -> Iterator[Entity]:
        return filter(selection.selects, entities(replay.image, replay.voters))

    return stream_of(replay.metadata.place, replay.offset, replay.timestamp, selected)


def stream_of(place: Place, end: int | None, timestamp: int | None, made: Callable[[], Iterator[Entity]]) -> RowStream:
    """Return entities as rows.

    Args:
        place: where their image is from.
        end: end offset of the image, None if there is no metadata log.
        timestamp: its time in ms.
        made: yields the entities.
    """
    return RowStream(CLUSTER_IMAGE, partial(_parts, place, end, timestamp, made))


def _parts(
    place: Place, end: int | None, timestamp: int | None, made: Callable[[], Iterator[Entity]]
) -> Iterator[Rows]:
    rows = made()
    names = CLUSTER_IMAGE.names[2:-2]
    ends = {"end_offset": end, "timestamp": timestamp}
    while part := list(islice(rows, PART_ROWS)):
        columns = dict(zip(names, map(list, zip(*map(_row, part), strict=True)), strict=True))
        yield Rows(
            CLUSTER_IMAGE, len(part), {"broker_id": place.broker_id, "log_dir": place.log_dir, **columns, **ends}
        )


def _row(entity: Entity) -> tuple[Any, ...]:
    """Return the columns of a row after the log directory, without those of the image."""
    registration = entity.partition
    of_partition: tuple[Any, ...] = (None,) * 10
    if registration is not None:
        lists = (
            *(registration.replicas, registration.isr, registration.elr, registration.last_known_elr),
            *(registration.adding, registration.removing, registration.directories),
        )
        epochs = registration.leader_epoch, registration.partition_epoch
        of_partition = (registration.leader, *epochs, *(",".join(map(str, ids)) for ids in lists))
    what = entity.kind, entity.name, entity.setting, entity.value, entity.state, entity.node_id, entity.topic_id
    return (entity.topic, entity.number, *what, *of_partition, entity.since, entity.record())
