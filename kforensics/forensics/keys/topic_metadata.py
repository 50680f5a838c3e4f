"""What the cluster's metadata tells of topics: since when each had how many partitions, and whether it is compacted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kforensics.forensics.partition import Partition
from kforensics.parsers.batches import walk
from kforensics.parsers.log_names import METADATA_TOPIC
from kforensics.parsers.log_rows import records_of
from kforensics.parsers.messages.records import decode_record
from kforensics.parsers.rows import Batch, Record
from kforensics.parsers.source import open_source

__all__ = ["PartitionCount", "TopicMetadata", "topics_in"]

CHECKPOINT = "checkpoint"
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
    copies = [one for one in partitions if one.place.topic == METADATA_TOPIC and one.segments]
    if not copies:
        return {}
    found = _Reading()
    for timestamp, kind, value in _records(max(copies, key=_reach)):
        found.take(timestamp, kind, value)
    return {topic.topic_id: topic for topic in found.topics()}


def _reach(copy: Partition) -> tuple[int, int]:
    return copy.segments[-1].base_offset or 0, copy.segments[-1].size


def _records(metadata: Partition) -> Iterator[tuple[int | None, str, dict[str, Any]]]:
    """Yield time, type and content of records; where the head is gone, those of a snapshot come first, without time."""
    start = metadata.first_offset
    snapshots = {one.base_offset or 0: one.path for one in metadata.others if one.kind == CHECKPOINT}
    if start > 0 and (after := [offset for offset in snapshots if offset >= start]):
        start = min(after)
        for _, kind, value in _decoded(snapshots[start], 0):
            yield None, kind, value
    for segment in metadata.segments:
        yield from _decoded(segment.path, start)


def _decoded(path: str, start: int) -> Iterator[tuple[int, str, dict[str, Any]]]:
    with open_source(path) as source:
        for batch in walk(source):
            if not isinstance(batch, Batch) or batch.is_control or not batch.crc_valid or batch.last_offset < start:
                continue
            for record in records_of(source, batch):
                if isinstance(record, Record):
                    told = decode_record(METADATA_TOPIC, record.key, record.value)
                    if told.type_name in WANTED and told.value is not None:
                        yield record.timestamp, told.type_name, told.value
