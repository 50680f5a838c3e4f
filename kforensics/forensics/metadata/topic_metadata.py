"""What the metadata log of a cluster records about its topics: names, partitions, replicas, cleanup policies."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kforensics.forensics.core.broker_settings import CLEANUP_POLICY, COMPACT
from kforensics.forensics.core.past_cleanings import PastPolicy
from kforensics.forensics.metadata.cluster_metadata import TOPIC_RESOURCE, metadata_records
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["PartitionCount", "TopicMetadata", "TopicReader", "partition_counts_in", "topics_in"]

TOPIC_RECORDS = ("TopicRecord", "PartitionRecord", "ConfigRecord", "RemoveTopicRecord")


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """The number of partitions of a topic from some time on.

    Attributes:
        count: number of partitions.
        from_ms: since when, None if unknown.
    """

    count: int
    from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """The metadata of a topic.

    Attributes:
        name: its name.
        topic_id: its id.
        partition_counts: its counts, in chronological order.
        is_compacted: whether its own cleanup policy includes compaction; None if it has no policy of its own.
        replicas: the fewest replicas of a partition when it was created, or in the first snapshot; None if unknown.
    """

    name: str
    topic_id: str
    partition_counts: tuple[PartitionCount, ...]
    is_compacted: bool | None = None
    replicas: int | None = None


@dataclass(slots=True)
class TopicReader:
    """Collects the records about topics; names and what follows are by topic id, policies by name.

    The controllers of some releases write the settings of a new topic before its ``TopicRecord``.

    Attributes:
        names: topic names.
        created: when each partition was created; None for partitions from a snapshot.
        policies: cleanup policies.
        replicas: the number of replicas of each partition.
        compacted: the last policy with compaction that a topic had; without a time while it is in force.
        ids: the topic id of each name, without deleted topics.
        early: like ``compacted``, of topics whose record is still to come, by name.
    """

    names: dict[str, str] = field(default_factory=dict)
    created: dict[str, dict[int, int | None]] = field(default_factory=dict)
    policies: dict[str, str | None] = field(default_factory=dict)
    replicas: dict[str, list[int]] = field(default_factory=dict)
    compacted: dict[str, PastPolicy] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    early: dict[str, PastPolicy] = field(default_factory=dict)

    def add(self, timestamp: int | None, kind: str, value: Mapping[str, Any]) -> None:
        """Add a record."""
        topic_id = value.get("topicId", "")
        if kind == "TopicRecord":
            self.names[topic_id] = value["name"]
            self.ids[value["name"]] = topic_id
            if (policy := self.early.pop(value["name"], None)) is not None:
                self.compacted[topic_id] = policy
        elif kind == "RemoveTopicRecord":
            name = self.names.get(topic_id)
            if name is not None and self.ids.get(name) == topic_id:
                del self.ids[name]
        elif kind == "PartitionRecord":
            self.created.setdefault(topic_id, {}).setdefault(value["partitionId"], timestamp)
            self.replicas.setdefault(topic_id, []).append(len(value["replicas"]))
        elif value["resourceType"] == TOPIC_RESOURCE and value["name"] == CLEANUP_POLICY:
            self.policies[value["resourceName"]] = value["value"]
            self._note_compaction(timestamp, value["resourceName"], value["value"])

    def _note_compaction(self, timestamp: int | None, name: str, policy: str | None) -> None:
        topic_id = self.ids.get(name)
        policies, key = (self.early, name) if topic_id is None else (self.compacted, topic_id)
        past = policies.get(key)
        if _has_compaction(policy):
            policies[key] = PastPolicy(policy or "")
        elif past is not None and past.until_ms is None:
            policies[key] = past._replace(until_ms=timestamp)

    def topics(self) -> Iterator[TopicMetadata]:
        """Yield the topics."""
        for topic_id, name in self.names.items():
            policy = self.policies.get(name)
            is_compacted = None if policy is None else _has_compaction(policy)
            counts, replicas = _partition_counts(self.created.get(topic_id, {})), self.replicas.get(topic_id, ())
            yield TopicMetadata(name, topic_id, counts, is_compacted, min(replicas, default=None))


def _has_compaction(policy: str | None) -> bool:
    return policy is not None and COMPACT in policy.split(",")


def _partition_counts(created: Mapping[int, int | None]) -> tuple[PartitionCount, ...]:
    times = sorted(set(created.values()), key=lambda time: -1 if time is None else time)
    return tuple(
        PartitionCount(sum(_is_created_by(created_ms, time) for created_ms in created.values()), time) for time in times
    )


def _is_created_by(created: int | None, time: int | None) -> bool:
    return created is None or (time is not None and created <= time)


def topics_in(partitions: Iterable[Partition]) -> dict[str, TopicMetadata]:
    """Return topics by their ids, including deleted ones; empty without a copy of the metadata log.

    Args:
        partitions: partitions of any topics. Of several copies of the metadata log the longest one is read.

    Raises:
        InputError: the metadata log cannot be read.
    """
    reader = TopicReader()
    for record in metadata_records(partitions, TOPIC_RECORDS):
        reader.add(*record)
    return {topic.topic_id: topic for topic in reader.topics()}


def partition_counts_in(partitions: Iterable[Partition]) -> dict[str, int]:
    """Return the number of partitions of each topic; empty without a copy of the metadata log.

    Args:
        partitions: partitions of any topics.

    Raises:
        InputError: the metadata log cannot be read.
    """
    topics = topics_in(partitions).values()
    return {topic.name: topic.partition_counts[-1].count for topic in topics if topic.partition_counts}
