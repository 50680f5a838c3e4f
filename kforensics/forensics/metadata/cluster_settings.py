"""The settings of brokers and topics in the metadata log of a cluster.

Rule: ``ConfigurationControlManager.replay``: the last ``ConfigRecord`` of a resource and a name counts, and one without
a value removes the setting. The settings of a topic are removed with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from itertools import pairwise
from typing import Any, NamedTuple

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
from kforensics.forensics.core.election import DatedEpochs, Election, losses_of_leader
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.past_cleanings import PastPolicy
from kforensics.forensics.metadata.cluster_metadata import (
    TOPIC_RESOURCE,
    LeadershipReader,
    MetadataRecord,
    metadata_records,
)
from kforensics.forensics.metadata.metadata_versions import Release, registered_level, registered_release
from kforensics.forensics.metadata.registrations import ELECTION_RECORDS
from kforensics.forensics.metadata.topic_metadata import TOPIC_RECORDS, TopicMetadata, TopicReader
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS, Partition
from kforensics.parsers.files.log_names import TRANSACTION_STATE
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk

__all__ = ["ClusterFacts", "ClusterSetting", "KnownTopics", "Running", "cluster_facts_in", "running_in"]

BROKER_RESOURCE = 4
BROKER_RECORDS = {"RegisterBrokerRecord", "UnregisterBrokerRecord"}
RECORDS = {*TOPIC_RECORDS, *ELECTION_RECORDS, *BROKER_RECORDS, "RemoveTopicRecord"}
# With which settings the topics of coordinators were created: ``TransactionStateManager.transactionTopicConfigs``.
PARTITIONS_OF = {TRANSACTION_STATE: STATE_PARTITIONS, CONSUMER_OFFSETS: OFFSETS_PARTITIONS}
REPLICAS_OF = {TRANSACTION_STATE: STATE_REPLICAS, CONSUMER_OFFSETS: OFFSETS_REPLICAS}
SOURCE = "metadata log"
# So many of the last batches of a metadata log show how often its leader writes.
LAST_BATCHES = 20
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


class KnownTopics(NamedTuple):
    """What a metadata log shows of topics.

    Attributes:
        deleted: when topics were deleted, in ms by topic id.
        unreplicated: ids of the topics whose partitions have never had more than one replica, sorted.
        out_of_sync: since when replicas are out of sync, in ms, by topic id and partition, then by broker; NO_TIME for
            those that were never seen in sync.
        lost_leaders: when partitions lost their leader, and the next election, by topic id and partition.
        dated_epochs: when leader epochs began, by topic id and partition, of those partitions whose leader may have
            lacked records.
        compacted: the last cleanup policy with compaction of each topic that ever had one of its own, by topic id.
    """

    deleted: Mapping[str, int] = {}
    unreplicated: tuple[str, ...] = ()
    out_of_sync: Mapping[tuple[str, int], Mapping[int, int]] = {}
    lost_leaders: Mapping[tuple[str, int], tuple[tuple[Election, Election | None], ...]] = {}
    dated_epochs: Mapping[tuple[str, int], DatedEpochs] = {}
    compacted: Mapping[str, PastPolicy] = {}


class ClusterFacts(NamedTuple):
    """What a metadata log shows of a cluster.

    Attributes:
        settings: the settings of brokers and topics, those that count first.
        release: the release of the brokers, None if it is unknown. Of several releases it is the oldest.
        topics: what it shows of topics.
        releases: the release that each broker registered last, by broker id, as far as it is known.
        started: when each broker registered last, as it does when it starts, in ms by broker id.
    """

    settings: tuple[ClusterSetting, ...]
    release: Release | None
    topics: KnownTopics
    releases: Mapping[int, Release] = {}
    started: Mapping[int, int] = {}


def cluster_facts_in(metadata: Partition) -> ClusterFacts:
    """Return what a copy of a metadata log shows of its cluster.

    Raises:
        InputError: the metadata log cannot be read.
    """
    reader = _Reader()
    for record in metadata_records([metadata], RECORDS):
        reader.add(record)
    return reader.facts()


class Running(NamedTuple):
    """Until when the broker of a copy of a metadata log was running.

    Attributes:
        until: the newest time in the log, in ms; None if there is none.
        gone_from: when it had missed a batch that was due, in ms; None if nothing shows when one was due.
    """

    until: int | None
    gone_from: int | None


def running_in(partition: Partition) -> Running:
    """Return until when the broker of a metadata log was running.

    While a broker runs it fetches the metadata log, whose leader writes at least a ``NoOpRecord`` every half second
    (``metadata.max.idle.interval.ms``). So the newest time is when the broker stopped, lost its controllers, or was
    copied. Where that interval was changed or switched off, the last batches are farther apart.

    Raises:
        InputError: the metadata log cannot be read.
    """
    with open_source(partition.segments[-1].path) as source:
        times = (batch.max_timestamp for batch in walk(source) if isinstance(batch, Batch) and batch.crc_valid)
        last = nlargest(LAST_BATCHES, filter(None, times))
    longest = max((later - earlier for later, earlier in pairwise(last)), default=None)
    return Running(last[0] if last else None, None if longest is None else last[0] + longest)


@dataclass(slots=True)
class _Reader:
    """Collects the records of a metadata log.

    Attributes:
        values: settings by type and name of their resource and by their own name.
        topics: topics, and how many partitions they have.
        levels: the newest ``metadata.version`` that each broker supports, by broker id.
        releases: the release that each broker registered last, by broker id.
        started: when each broker registered last, in ms by broker id.
        deleted: when topics were deleted, in ms by topic id.
        most_replicas: the number of replicas of the partition with the most, by topic id.
        leaderships: the replicas of partitions, and which are in sync.
    """

    values: dict[tuple[int, str, str], str] = field(default_factory=dict)
    topics: TopicReader = field(default_factory=TopicReader)
    levels: dict[int, int] = field(default_factory=dict)
    releases: dict[int, Release] = field(default_factory=dict)
    started: dict[int, int] = field(default_factory=dict)
    deleted: dict[str, int] = field(default_factory=dict)
    most_replicas: dict[str, int] = field(default_factory=dict)
    leaderships: LeadershipReader = field(default_factory=LeadershipReader)

    def add(self, record: MetadataRecord) -> None:
        """Add a record."""
        timestamp, kind, value = record
        if kind in TOPIC_RECORDS:
            self.topics.add(timestamp, kind, value)
        if kind == "RegisterBrokerRecord":
            self._register(timestamp, value)
        elif kind == "UnregisterBrokerRecord":
            for known in (self.levels, self.releases, self.started):
                known.pop(value["brokerId"], None)
        elif kind == "ConfigRecord":
            self._configure(value)
        elif kind == "RemoveTopicRecord":
            removed = (TOPIC_RESOURCE, self.topics.names.get(value["topicId"], ""))
            self.values = {key: text for key, text in self.values.items() if key[:2] != removed}
            if timestamp is not None:
                self.deleted[value["topicId"]] = timestamp
        elif kind in ELECTION_RECORDS:
            self.leaderships.add(record)
            most = self.most_replicas.get(value["topicId"], 0)
            self.most_replicas[value["topicId"]] = max(most, len(value["replicas"] or ()))

    def _register(self, timestamp: int | None, value: Mapping[str, Any]) -> None:
        self.levels[value["brokerId"]] = registered_level(value)
        if release := registered_release(value):
            self.releases[value["brokerId"]] = release
        if timestamp is not None:
            self.started[value["brokerId"]] = timestamp

    def _configure(self, value: Mapping[str, Any]) -> None:
        if value["resourceType"] in (BROKER_RESOURCE, TOPIC_RESOURCE):
            self.values.pop(key := (value["resourceType"], value["resourceName"], value["name"]), None)
            if value["value"] is not None:
                self.values[key] = value["value"]

    def facts(self) -> ClusterFacts:
        """Return what the records show."""
        settings = [*_configured(self.values), *_partition_counts(self.topics.topics())]
        settings.sort(key=_rank)
        oldest = min(self.levels.values(), default=0)
        release = max((release for level, release in RELEASES.items() if level <= oldest), default=None)
        unreplicated = tuple(sorted(topic_id for topic_id, most in self.most_replicas.items() if most == 1))
        leaderships = self.leaderships.leaderships().items()
        lost = {key: losses for key, one in leaderships if (losses := tuple(losses_of_leader(one.elections)))}
        out_of_sync = {key: one.out_of_sync for key, one in leaderships if one.out_of_sync}
        dated = {key: epochs for key, one in leaderships if (epochs := one.dated_epochs)}
        topics = KnownTopics(self.deleted, unreplicated, out_of_sync, lost, dated, self.topics.compacted)
        return ClusterFacts(tuple(settings), release, topics, self.releases, self.started)


def _rank(setting: ClusterSetting) -> int:
    """Return what counts first: a topic's own settings, then those of a broker, then the defaults of the brokers."""
    entity = setting.setting.entity
    return 2 if entity is None else int(setting.broker is not None)


def _configured(values: Mapping[tuple[int, str, str], str]) -> Iterator[ClusterSetting]:
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


def _partition_counts(topics: Iterable[TopicMetadata]) -> Iterator[ClusterSetting]:
    """Yield the settings that the partitions of the coordinators' topics show, and their replicas."""
    for topic in topics:
        if topic.name in PARTITIONS_OF and topic.partition_counts:
            *earlier, last = topic.partition_counts
            source = f"{SOURCE}, partitions of {topic.name}"
            if earlier and last.from_ms is not None:
                source += f": {earlier[-1].count} until {format_time(last.from_ms)}"
            yield ClusterSetting(None, Setting(PARTITIONS_OF[topic.name], str(last.count), source))
        if topic.name in REPLICAS_OF and topic.replicas:
            source = f"{SOURCE}, PartitionRecord of {topic.name}"
            yield ClusterSetting(None, Setting(REPLICAS_OF[topic.name], str(topic.replicas), source))
