"""The image of a KRaft cluster: brokers, topics, partitions, settings and the rest, replayed from metadata records.

Rules: ``MetadataDelta`` and the deltas of its parts. A record that Kafka cannot apply changes nothing and is counted;
Kafka's fault handler logs it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

from kforensics.forensics.metadata.topic_image import Fields, PartitionRegistration, TopicImage
from kforensics.parsers.messages import metadata as schemas
from kforensics.parsers.messages.schema import MessageSchema

__all__ = ["BROKER", "TOPIC", "ClusterImage", "ImageRecord"]

FENCED, IN_SHUTDOWN = 1, 1
# Types of ConfigRecord: ``ConfigResource.Type``.
TOPIC, BROKER = 2, 4


class ImageRecord(NamedTuple):
    """A record that states an entity of an image, as Kafka's snapshots have it.

    Attributes:
        message: its type.
        value: its fields, by Kafka's names; without secrets.
    """

    message: MessageSchema
    value: Fields


class NotApplicableError(Exception):
    """A record that the image cannot apply, such as a change of a partition that it does not have."""


@dataclass(slots=True)
class ClusterImage:
    """The metadata of a cluster after some records. Values are replaced, never changed, so that images can share them.

    Attributes:
        brokers: fields of the registrations of brokers, by id.
        controllers: those of controllers.
        features: levels of features by name; ``metadata.version`` is one of them.
        topics: topics by id.
        names: topic ids by name.
        configs: settings by name, by type and name of their resource.
        quotas: values of quotas by key, by their entity: sorted pairs of type and name.
        acls: fields of access control entries by id.
        scram: iterations by user and mechanism; never salts or keys.
        tokens: fields of delegation tokens by id.
        next_producer_id: first id after the blocks of producer ids; None if there is none.
        zk_migration: state of a migration from ZooKeeper; None if there was none.
        not_applied: how many records could not be applied, by type.
    """

    brokers: dict[int, Fields] = field(default_factory=dict)
    controllers: dict[int, Fields] = field(default_factory=dict)
    features: dict[str, int] = field(default_factory=dict)
    topics: dict[str, TopicImage] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)
    configs: dict[tuple[int, str], dict[str, str]] = field(default_factory=dict)
    quotas: dict[tuple[tuple[str, str | None], ...], dict[str, float]] = field(default_factory=dict)
    acls: dict[str, Fields] = field(default_factory=dict)
    scram: dict[tuple[str, int], int] = field(default_factory=dict)
    tokens: dict[str, Fields] = field(default_factory=dict)
    next_producer_id: int | None = None
    zk_migration: int | None = None
    not_applied: Counter[str] = field(default_factory=Counter)

    def copy(self) -> ClusterImage:
        """Return a copy that later records do not change."""
        topics = {key: copy(topic) for key, topic in self.topics.items()}
        for topic in topics.values():
            topic.partitions = dict(topic.partitions)
        return ClusterImage(
            dict(self.brokers),
            dict(self.controllers),
            dict(self.features),
            topics,
            dict(self.names),
            {key: dict(values) for key, values in self.configs.items()},
            {key: dict(values) for key, values in self.quotas.items()},
            dict(self.acls),
            dict(self.scram),
            dict(self.tokens),
            self.next_producer_id,
            self.zk_migration,
            Counter(self.not_applied),
        )

    def apply(self, kind: str, value: Fields, timestamp: int | None) -> bool:
        """Apply a record; return whether its type belongs to an image.

        Args:
            kind: its type, by Kafka's name.
            value: its fields.
            timestamp: when it was written, in ms; None if it is from a snapshot.
        """
        replay = REPLAYS.get(kind)
        if replay is None:
            return False
        try:
            replay(self, value, timestamp)
        except NotApplicableError:
            self.not_applied[kind] += 1
        return True

    def topic_named(self, name: str) -> TopicImage | None:
        """Return the topic of a name, None if there is none."""
        return self.topics.get(self.names.get(name, ""))

    def partition_named(self, topic: str, number: int) -> PartitionRegistration | None:
        """Return the registration of a partition by the name of its topic, None if there is none."""
        named = self.topic_named(topic)
        return named.partitions.get(number) if named else None

    def partitions(self) -> Iterator[tuple[str, int, PartitionRegistration]]:
        """Yield the partitions of all topics: name, number and registration."""
        for topic in self.topics.values():
            for number, registration in topic.partitions.items():
                yield topic.name, number, registration

    def records(self) -> Iterator[ImageRecord]:
        """Yield the records that state the image, by type; secrets are empty."""
        for name, level in self.features.items():
            yield ImageRecord(schemas.FEATURE_LEVEL_RECORD, {"name": name, "featureLevel": level})
        yield from (ImageRecord(schemas.REGISTER_BROKER_RECORD, fields) for fields in self.brokers.values())
        yield from (ImageRecord(schemas.REGISTER_CONTROLLER_RECORD, fields) for fields in self.controllers.values())
        for topic in self.topics.values():
            yield ImageRecord(schemas.TOPIC_RECORD, {"name": topic.name, "topicId": topic.topic_id})
            for number, partition in topic.partitions.items():
                yield ImageRecord(schemas.PARTITION_RECORD, partition.record(topic.topic_id, number))
        for (kind, resource), values in self.configs.items():
            for name, value in values.items():
                fields = {"resourceType": kind, "resourceName": resource, "name": name, "value": value}
                yield ImageRecord(schemas.CONFIG_RECORD, fields)
        for entity, quotas in self.quotas.items():
            parts = [{"entityType": kind, "entityName": name} for kind, name in entity]
            for key, limit in quotas.items():
                quota: Fields = {"entity": parts, "key": key, "value": limit, "remove": False}
                yield ImageRecord(schemas.CLIENT_QUOTA_RECORD, quota)
        if self.next_producer_id is not None:
            block = {"brokerId": -1, "brokerEpoch": -1, "nextProducerId": self.next_producer_id}
            yield ImageRecord(schemas.PRODUCER_IDS_RECORD, block)
        yield from self._security_records()

    def _security_records(self) -> Iterator[ImageRecord]:
        yield from (ImageRecord(schemas.ACCESS_CONTROL_ENTRY_RECORD, fields) for fields in self.acls.values())
        for (user, mechanism), iterations in self.scram.items():
            secrets = dict.fromkeys(("salt", "storedKey", "serverKey"), b"")
            fields = {"name": user, "mechanism": mechanism, **secrets, "iterations": iterations}
            yield ImageRecord(schemas.USER_SCRAM_CREDENTIAL_RECORD, fields)
        yield from (ImageRecord(schemas.DELEGATION_TOKEN_RECORD, fields) for fields in self.tokens.values())


def _known(entities: Mapping[Any, Any], key: object) -> Any:
    try:
        return entities[key]
    except KeyError:
        raise NotApplicableError from None


def _register_broker(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.brokers[value["brokerId"]] = value


def _change_broker(image: ClusterImage, node: int, epoch: int, changes: Fields) -> None:
    registration = _known(image.brokers, node)
    if registration["brokerEpoch"] != epoch:
        raise NotApplicableError
    image.brokers[node] = registration | changes


def _change_registration(image: ClusterImage, value: Fields, _: int | None) -> None:
    changes: Fields = {}
    if fencing := value.get("fenced"):
        changes["fenced"] = fencing == FENCED
    if value.get("inControlledShutdown") == IN_SHUTDOWN:
        changes["inControlledShutdown"] = True
    if value.get("logDirs"):
        changes["logDirs"] = value["logDirs"]
    if value.get("cordonedLogDirs") is not None:
        changes["cordonedLogDirs"] = value["cordonedLogDirs"]
    _change_broker(image, value["brokerId"], value["brokerEpoch"], changes)


def _fence(image: ClusterImage, value: Fields, _: int | None) -> None:
    _change_broker(image, value["id"], value["epoch"], {"fenced": True})


def _unfence(image: ClusterImage, value: Fields, _: int | None) -> None:
    _change_broker(image, value["id"], value["epoch"], {"fenced": False})


def _unregister_broker(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.brokers.pop(value["brokerId"], None)


def _register_controller(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.controllers[value["controllerId"]] = value


def _unregister_controller(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.controllers.pop(value["controllerId"], None)


def _feature(image: ClusterImage, value: Fields, _: int | None) -> None:
    level = value.get("featureLevel", value.get("maxFeatureLevel", 0))
    if level:
        image.features[value["name"]] = level
    else:
        image.features.pop(value["name"], None)


def _remove_feature(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.features.pop(value["name"], None)


def _topic(image: ClusterImage, value: Fields, timestamp: int | None) -> None:
    image.topics[value["topicId"]] = TopicImage(value["name"], value["topicId"], created_ms=timestamp)
    image.names[value["name"]] = value["topicId"]


def _remove_topic(image: ClusterImage, value: Fields, _: int | None) -> None:
    topic = _known(image.topics, value["topicId"])
    del image.topics[value["topicId"]]
    if image.names.get(topic.name) == topic.topic_id:
        del image.names[topic.name]
    image.configs.pop((TOPIC, topic.name), None)


def _partition(image: ClusterImage, value: Fields, timestamp: int | None) -> None:
    _known(image.topics, value["topicId"]).partitions[value["partitionId"]] = PartitionRegistration.of(value, timestamp)


def _change_partition(image: ClusterImage, value: Fields, timestamp: int | None) -> None:
    partitions, number = _known(image.topics, value["topicId"]).partitions, value["partitionId"]
    partitions[number] = _known(partitions, number).changed(value, timestamp)


def _clear_elr(image: ClusterImage, value: Fields, _: int | None) -> None:
    name = value["topicName"]
    topics = [_known(image.topics, image.names.get(name))] if name else image.topics.values()
    for topic in topics:
        for number, partition in topic.partitions.items():
            if partition.elr or partition.last_known_elr:
                cleared = partition._replace(elr=(), last_known_elr=(), partition_epoch=partition.partition_epoch + 1)
                topic.partitions[number] = cleared


def _config(image: ClusterImage, value: Fields, _: int | None) -> None:
    resource = value["resourceType"], value["resourceName"]
    values = {name: text for name, text in image.configs.get(resource, {}).items() if name != value["name"]}
    if value["value"] is not None:
        values[value["name"]] = value["value"]
    if values:
        image.configs[resource] = values
    else:
        image.configs.pop(resource, None)


def _quota(image: ClusterImage, value: Fields, _: int | None) -> None:
    parts = sorted(((part["entityType"], part["entityName"]) for part in value["entity"]), key=lambda part: part[0])
    entity = tuple(parts)
    quotas = {key: number for key, number in image.quotas.get(entity, {}).items() if key != value["key"]}
    if not value["remove"]:
        quotas[value["key"]] = value["value"]
    if quotas:
        image.quotas[entity] = quotas
    else:
        image.quotas.pop(entity, None)


def _producer_ids(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.next_producer_id = value["nextProducerId"]


def _acl(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.acls[value["id"]] = value


def _remove_acl(image: ClusterImage, value: Fields, _: int | None) -> None:
    _known(image.acls, value["id"])
    del image.acls[value["id"]]


def _scram(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.scram[value["name"], value.get("mechanism", 0)] = value.get("iterations", 0)


def _remove_scram(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.scram.pop((value["name"], value["mechanism"]), None)


def _token(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.tokens[value["tokenId"]] = value


def _remove_token(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.tokens.pop(value["tokenId"], None)


def _zk_migration(image: ClusterImage, value: Fields, _: int | None) -> None:
    image.zk_migration = value["zkMigrationState"]


Replay: TypeAlias = Callable[[ClusterImage, Fields, int | None], None]
REPLAYS: dict[str, Replay] = {
    "RegisterBrokerRecord": _register_broker,
    "UnregisterBrokerRecord": _unregister_broker,
    "TopicRecord": _topic,
    "PartitionRecord": _partition,
    "ConfigRecord": _config,
    "PartitionChangeRecord": _change_partition,
    "FenceBrokerRecord": _fence,
    "UnfenceBrokerRecord": _unfence,
    "RemoveTopicRecord": _remove_topic,
    "DelegationTokenRecord": _token,
    "UserScramCredentialRecord": _scram,
    "FeatureLevelRecord": _feature,
    "ClientQuotaRecord": _quota,
    "ProducerIdsRecord": _producer_ids,
    "RemoveFeatureLevelRecord": _remove_feature,
    "BrokerRegistrationChangeRecord": _change_registration,
    "AccessControlEntryRecord": _acl,
    "RemoveAccessControlEntryRecord": _remove_acl,
    "ZkMigrationStateRecord": _zk_migration,
    "RemoveUserScramCredentialRecord": _remove_scram,
    "RemoveDelegationTokenRecord": _remove_token,
    "RegisterControllerRecord": _register_controller,
    "ClearElrRecord": _clear_elr,
    "UnregisterControllerRecord": _unregister_controller,
}
