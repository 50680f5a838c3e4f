"""What happened in a cluster and when: elections, starts and stops of brokers, changes of features, and damage.

The metadata log shows what the controller recorded; the log of any other partition shows its leader epochs. Each log is
read on its own, so that copies of the same metadata log show the same events.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, islice, pairwise
from typing import Any, NamedTuple

from kforensics.forensics.core.cluster_tables import CLUSTER_EVENTS
from kforensics.forensics.core.election import NO_LEADER, RECOVERING, UNCHANGED
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.metadata.cluster_metadata import MetadataRecord, metadata_batches, metadata_records
from kforensics.forensics.metadata.registrations import ELECTION_RECORDS, RegistrationChange, Registrations
from kforensics.forensics.partition.log_summary import EpochRunArray
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.log_names import METADATA_TOPIC

__all__ = ["event_rows", "removed_topics_in"]

# Rows that are made at once.
PART_ROWS = 1 << 13
START_RECORDS = {"RegisterBrokerRecord": "broker-start", "RegisterControllerRecord": "controller-start"}
FEATURE_RECORDS = ("FeatureLevelRecord", "RemoveFeatureLevelRecord")
RECORDS = (
    *START_RECORDS,
    *FEATURE_RECORDS,
    "UnregisterBrokerRecord",
    "FenceBrokerRecord",
    "UnfenceBrokerRecord",
    "BrokerRegistrationChangeRecord",
    "ProducerIdsRecord",
    *ELECTION_RECORDS,
)
# BrokerRegistrationFencingChange and BrokerRegistrationInControlledShutdownChange.
FENCED, UNFENCED, IN_SHUTDOWN = 1, -1, 1


class Event(NamedTuple):
    """An event; the columns of the table after the place."""

    timestamp: int | None
    kind: str
    node_id: int | None = None
    name: str | None = None
    value: int | None = None
    previous: int | None = None
    partitions: int | None = None
    path: str | None = None
    position: int | None = None
    offset: int | None = None


def event_rows(state: PartitionState) -> RowStream:
    """Return the events that the log of a partition shows, made part by part.

    Args:
        state: the partition; the metadata log is read again when the rows are used.
    """
    segments = state.partition.segments
    newest = dict(state.log.segments[["segment", "max_timestamp"]].tolist())
    damage = tuple(
        Event(
            _time(newest.get(segment, -1)),
            "damage",
            name=damaged.reason,
            value=damaged.end - damaged.start,
            path=segments[segment].path,
            position=damaged.start,
        )
        for segment, damaged in state.log.damage
    )
    return RowStream(CLUSTER_EVENTS, partial(_parts, state.partition, state.log.epochs, damage))


def _parts(partition: Partition, epochs: EpochRunArray, damage: tuple[Event, ...]) -> Iterator[Rows]:
    is_metadata = partition.place.topic == METADATA_TOPIC
    of_records = _metadata_events(partition) if is_metadata else iter(())
    epoch_kind = "controller-election" if is_metadata else "leader-epoch"
    rows = chain(_epoch_events(partition, epochs, epoch_kind), of_records, damage)
    while part := list(islice(rows, PART_ROWS)):
        columns = dict(zip(Event._fields, map(list, zip(*part, strict=True)), strict=True))
        yield Rows(CLUSTER_EVENTS, len(part), {**partition.place._asdict(), **columns})


def _epoch_events(partition: Partition, epochs: EpochRunArray, kind: str) -> Iterator[Event]:
    """Yield the leader epochs that begin in a log; not the one that it begins with."""
    for before, run in pairwise(epochs):
        if run["leader_epoch"] != before["leader_epoch"]:
            yield Event(
                _time(int(run["max_timestamp"])),
                kind,
                value=int(run["leader_epoch"]),
                partitions=1,
                path=partition.segments[int(run["segment"])].path,
                position=int(run["position"]),
                offset=int(run["first_offset"]),
            )


def _time(timestamp: int) -> int | None:
    return None if timestamp < 0 else timestamp


@dataclass(slots=True)
class _MetadataReader:
    """Turns the records of a metadata log into events.

    Attributes:
        features: levels of the features so far.
        registrations: the state of each partition so far.
    """

    features: dict[str, int] = field(default_factory=dict)
    registrations: Registrations = field(default_factory=Registrations)

    def events(self, records: list[MetadataRecord]) -> Iterator[Event]:
        """Yield the events of the records of one batch; elections with the same result are one event."""
        elections = Counter[tuple[int | None, str, int]]()
        for timestamp, kind, value in records:
            if kind in ELECTION_RECORDS:
                change = self.registrations.add(kind, value, timestamp)
                leader = value["leader"] if change is None else change.leader
                if leader != UNCHANGED:
                    elections[timestamp, _election(value, change), leader] += 1
            elif kind in FEATURE_RECORDS:
                yield self._feature(timestamp, value)
            elif kind == "ProducerIdsRecord":
                end = value.get("nextProducerId", value.get("producerIdsEnd"))
                yield Event(timestamp, "producer-ids", _node(value["brokerId"]), value=end)
            else:
                yield from _node_events(timestamp, kind, value)
        for (timestamp, kind, leader), count in elections.items():
            yield Event(timestamp, kind, _node(leader), partitions=count)

    def _feature(self, timestamp: int | None, value: dict[str, Any]) -> Event:
        level = value.get("featureLevel", value.get("maxFeatureLevel", 0))
        before = self.features.get(value["name"])
        self.features[value["name"]] = level
        return Event(timestamp, "feature", name=value["name"], value=level, previous=before)


def _election(value: dict[str, Any], change: RegistrationChange | None) -> str:
    """Return what a record did; of a partition from before the available log, only the record shows it."""
    if value["leader"] == NO_LEADER:
        return "no-leader"
    is_unclean = value.get("leaderRecoveryState") == RECOVERING if change is None else change.is_unclean
    return "unclean-election" if is_unclean else "election"


def _node(node: int) -> int | None:
    return None if node < 0 else node


def _node_events(timestamp: int | None, kind: str, value: dict[str, Any]) -> Iterator[Event]:
    """Yield the events of a record about a broker or controller."""
    if kind == "RegisterControllerRecord":
        yield Event(timestamp, START_RECORDS[kind], value["controllerId"])
        return
    node, fenced = value.get("brokerId", value.get("id")), value.get("fenced", 0)
    if kind in START_RECORDS:
        yield Event(timestamp, START_RECORDS[kind], node)
    elif kind == "UnregisterBrokerRecord":
        yield Event(timestamp, "broker-removed", node)
    elif kind == "FenceBrokerRecord" or fenced == FENCED:
        yield Event(timestamp, "broker-fenced", node)
    elif kind == "UnfenceBrokerRecord" or fenced == UNFENCED:
        yield Event(timestamp, "broker-active", node)
    elif value.get("inControlledShutdown") == IN_SHUTDOWN:
        yield Event(timestamp, "broker-shutdown", node)


def _metadata_events(partition: Partition) -> Iterator[Event]:
    """Yield the events of the metadata log; a snapshot has no times and shows only what was before."""
    reader = _MetadataReader()
    for path, position, offset, records in metadata_batches(partition, RECORDS):
        events = list(reader.events(records))
        if records[0].timestamp is not None:
            for event in events:
                yield event._replace(path=path, position=position, offset=offset)


def removed_topics_in(partitions: Iterable[Partition]) -> dict[str, tuple[int, ...]]:
    """Return when topics were deleted, in ms by name and by topic id; empty without a copy of the metadata log.

    Args:
        partitions: partitions of any topics. Of several copies of the metadata log the longest one is read.

    Raises:
        InputError: the metadata log cannot be read.
    """
    names: dict[str, str] = {}
    removed: dict[str, tuple[int, ...]] = {}
    for timestamp, kind, value in metadata_records(partitions, ("TopicRecord", "RemoveTopicRecord")):
        if kind == "TopicRecord":
            names[value["topicId"]] = value["name"]
        elif timestamp is not None and (name := names.pop(value["topicId"], None)) is not None:
            removed[name] = (*removed.get(name, ()), timestamp)
            removed[value["topicId"]] = (timestamp,)
    return removed
