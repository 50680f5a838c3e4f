"""What the cluster's metadata tells of topics: since when each had how many partitions, and whether it is compacted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kforensics.forensics.metadata.metadata_records import metadata_records
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["PartitionCount", "TopicMetadata", "topics_in"]

TOPIC_RESOURCE = 2
CLEANUP_POLICY, COMPACT = "cleanup.policy", "compact"
WANTED = ("TopicRecord", "PartitionRecord", "ConfigRecord")


@dataclass(frozen=True, slots=True)
class PartitionCount:
    """How many partitions a topic had from some time on.

    Attributes:
        count: partitions.
        from_ms: since when, None if that is not known.
    """

    count: int
    from_ms: int | None = None


@dataclass(frozen=True, slots=True)
class TopicMetadata:
    """What is known of a topic.

    Attributes:
        name: its name.
        topic_id: its id.
        partition_counts: in the order of time.
        is_compacted: whether its own cleanup policy says so; None if it has none of its own.
    """

    name: str
    topic_id: str
    partition_counts: tuple[PartitionCount, ...]
    is_compacted: bool | None = None


@dataclass(slots=True)
class _Reading:
    """What was read so far.

    Attributes:
        names: of topics by their ids.
        made: by topic id, the times at which partitions were made; None where a snapshot has them.
        policies: cleanup policies by the names of topics.
    """

    names: dict[str, str] = field(default_factory=dict)
    made: dict[str, dict[int, int | None]] = field(default_factory=dict)
    policies: dict[str, str | None] = field(default_factory=dict)

    def take(self, timestamp: int | None, kind: str, value: Mapping[str, Any]) -> None:
        """Take a record."""
        if kind == "TopicRecord":
            self.names[value["topicId"]] = value["name"]
        elif kind == "PartitionRecord":
            self.made.setdefault(value["topicId"], {}).setdefault(value["partitionId"], timestamp)
        elif value["resourceType"] == TOPIC_RESOURCE and value["name"] == CLEANUP_POLICY:
            self.policies[value["resourceName"]] = value["value"]

    def topics(self) -> Iterator[TopicMetadata]:
        """Yield the topics."""
        for topic_id, name in self.names.items():
            policy = self.policies.get(name)
            is_compacted = None if policy is None else COMPACT in policy.split(",")
            yield TopicMetadata(name, topic_id, _counts(self.made.get(topic_id, {})), is_compacted)


def _counts(made: Mapping[int, int | None]) -> tuple[PartitionCount, ...]:
    times = sorted(set(made.values()), key=lambda time: -1 if time is None else time)
    known = [PartitionCount(sum(_is_by(one, time) for one in made.values()), time) for time in times]
    return tuple(known)


def _is_by(made: int | None, time: int | None) -> bool:
    return made is None or (time is not None and made <= time)


def topics_in(partitions: Iterable[Partition]) -> dict[str, TopicMetadata]:
    """Return topics by their ids, removed ones too; empty where no metadata is among the partitions.

    Args:
        partitions: of any topics. Of several copies of the metadata the longest one is read.

    Raises:
        InputError: the metadata cannot be read.
    """
    found = _Reading()
    for record in metadata_records(partitions, WANTED):
        found.take(*record)
    return {topic.topic_id: topic for topic in found.topics()}
