"""The settings of brokers and topics in the metadata log of a cluster.

Rule: ``ConfigurationControlManager.replay``: the last ``ConfigRecord`` of a resource and a name counts, and one without
a value removes the setting. The settings of a topic are removed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kforensics.forensics.core.broker_settings import (
    MIN_ISR,
    OFFSETS_PARTITIONS,
    OFFSETS_REPLICAS,
    STATE_MIN_ISR,
    STATE_PARTITIONS,
    STATE_REPLICAS,
    Setting,
    setting_of_broker,
)
from kforensics.forensics.metadata.cluster_metadata import TOPIC_RESOURCE, metadata_records, topics_in
from kforensics.forensics.metadata.metadata_versions import Release, registered_level
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.parsers.files.log_names import TRANSACTION_STATE
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk

__all__ = ["ClusterSetting", "KnownTopics", "cluster_settings_in", "known_topics_in", "newest_time_in", "release_in"]

BROKER_RESOURCE = 4
RECORDS = ("ConfigRecord", "TopicRecord", "RemoveTopicRecord")
TOPIC_RECORDS = ("PartitionRecord", "PartitionChangeRecord", "RemoveTopicRecord")
# With which settings the topics of coordinators were created: ``TransactionStateManager.transactionTopicConfigs``.
PARTITIONS_OF = {TRANSACTION_STATE: STATE_PARTITIONS, CONSUMER_OFFSETS: OFFSETS_PARTITIONS}
REPLICAS_OF = {TRANSACTION_STATE: STATE_REPLICAS, CONSUMER_OFFSETS: OFFSETS_REPLICAS}
SOURCE = "metadata log"
# The first metadata version of a release: ``MetadataVersion``. Only those are named between which a default changed.
RELEASES = {7: (3, 3), 8: (3, 4), 12: (3, 6), 22: (4, 0)}


class ClusterSetting(NamedTuple):
    """A setting in the metadata of a cluster.

    Attributes:
        broker: id of its broker; None if it is for all brokers, or for a topic.
        setting: the setting.
    """

    broker: int | None
    setting: Setting


def cluster_settings_in(partitions: Iterable[Partition]) -> list[ClusterSetting]:
    """Return the settings in a metadata log, those that count first; empty without a copy of it.

    Args:
        partitions: partitions of any topics of one cluster.

    Raises:
        InputError: the metadata log cannot be read.
    """
    partitions = list(partitions)
    settings = [*_configured(partitions), *_partition_counts(partitions)]
    return sorted(settings, key=lambda one: one.setting.entity is None)  # defaults of the brokers last


def release_in(partitions: Iterable[Partition]) -> Release | None:
    """Return the release of the brokers in a metadata log, None if it is unknown.

    Each broker registers with the newest ``metadata.version`` that it supports. Of several releases it is the oldest.

    Raises:
        InputError: the metadata log cannot be read.
    """
    newest: dict[int, int] = {}
    for _, _, value in metadata_records(partitions, ("RegisterBrokerRecord",)):
        newest[value["brokerId"]] = registered_level(value)
    oldest = min(newest.values(), default=0)
    return max((release for level, release in RELEASES.items() if level <= oldest), default=None)


class KnownTopics(NamedTuple):
    """What a metadata log shows of topics.

    Attributes:
        deleted: when topics were deleted, in ms by topic id.
        unreplicated: ids of the topics whose partitions have never had more than one replica, sorted.
    """

    deleted: Mapping[str, int] = {}
    unreplicated: tuple[str, ...] = ()


def known_topics_in(partition: Partition) -> KnownTopics:
    """Return what a metadata log shows of topics.

    Raises:
        InputError: the metadata log cannot be read.
    """
    deleted: dict[str, int] = {}
    most_replicas: dict[str, int] = {}
    for timestamp, kind, value in metadata_records([partition], TOPIC_RECORDS):
        topic_id = value["topicId"]
        if kind != "RemoveTopicRecord":
            most_replicas[topic_id] = max(most_replicas.get(topic_id, 0), len(value["replicas"] or ()))
        elif timestamp is not None:
            deleted[topic_id] = timestamp
    return KnownTopics(deleted, tuple(sorted(topic_id for topic_id, most in most_replicas.items() if most == 1)))


def newest_time_in(partition: Partition) -> int | None:
    """Return the newest timestamp in a metadata log, None if there is none.

    While a broker runs it fetches the metadata log, whose leader writes at least a ``NoOpRecord`` every half second
    (``metadata.max.idle.interval.ms``). So this is when the broker stopped, or when it was copied.

    Raises:
        InputError: the metadata log cannot be read.
    """
    with open_source(partition.segments[-1].path) as source:
        times = (batch.max_timestamp for batch in walk(source) if isinstance(batch, Batch) and batch.crc_valid)
        return max(filter(None, times), default=None)


def _configured(partitions: list[Partition]) -> Iterator[ClusterSetting]:
    values: dict[tuple[int, str, str], str] = {}
    names: dict[str, str] = {}
    for _, kind, value in metadata_records(partitions, RECORDS):
        if kind == "TopicRecord":
            names[value["topicId"]] = value["name"]
        elif kind == "RemoveTopicRecord":
            removed = (TOPIC_RESOURCE, names.get(value["topicId"], ""))
            values = {key: text for key, text in values.items() if key[:2] != removed}
        elif value["resourceType"] in (BROKER_RESOURCE, TOPIC_RESOURCE):
            values.pop(key := (value["resourceType"], value["resourceName"], value["name"]), None)
            if value["value"] is not None:
                values[key] = value["value"]
    for (resource, owner, name), text in values.items():
        if setting := _setting(resource, owner, name, text):
            yield setting
        if (resource, owner, name) == (TOPIC_RESOURCE, TRANSACTION_STATE, MIN_ISR):
            source = f"{SOURCE}, {MIN_ISR} of {TRANSACTION_STATE}"
            if of_topic := setting_of_broker(STATE_MIN_ISR, text, source):
                yield ClusterSetting(None, of_topic)


def _setting(resource: int, owner: str, name: str, text: str) -> ClusterSetting | None:
    is_of_topic, is_default = resource == TOPIC_RESOURCE, not owner
    entity = f"topic {owner}" if is_of_topic else None if is_default else f"broker {owner}"
    setting = setting_of_broker(name, text, f"{SOURCE}, {entity or 'default of the brokers'}")
    if setting is None or not (is_of_topic or is_default or owner.isdecimal()):
        return None
    broker = None if is_of_topic or is_default else int(owner)
    return ClusterSetting(broker, Setting(setting.name, setting.value, setting.source, entity))


def _partition_counts(partitions: list[Partition]) -> Iterator[ClusterSetting]:
    """Yield the settings that the partitions of the coordinators' topics show, and their replicas."""
    for topic in topics_in(partitions).values():
        if topic.name in PARTITIONS_OF and topic.partition_counts:
            count = str(topic.partition_counts[-1].count)
            source = f"{SOURCE}, partitions of {topic.name}"
            yield ClusterSetting(None, Setting(PARTITIONS_OF[topic.name], count, source))
        if topic.name in REPLICAS_OF and topic.replicas:
            source = f"{SOURCE}, PartitionRecord of {topic.name}"
            yield ClusterSetting(None, Setting(REPLICAS_OF[topic.name], str(topic.replicas), source))
