"""Reads the metadata log of a cluster, ``__cluster_metadata``, and the leader elections in it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from kforensics.forensics.core.election import UNCHANGED, Election, Leadership, SyncChange
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.metadata.registrations import (
    ELECTION_RECORDS,
    PartitionKey,
    RegistrationChange,
    Registrations,
)
from kforensics.forensics.metadata.topic_image import PartitionRegistration
from kforensics.forensics.partition.partition_files import LIVE, Partition
from kforensics.forensics.partition.unused_metadata import unused_since
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.internal_records import decode_control_record, decode_record

__all__ = [
    "Election",
    "LeadershipReader",
    "LogRecord",
    "MetadataBatch",
    "MetadataRecord",
    "elections_in",
    "is_whole_snapshot",
    "leadership_in",
    "log_records",
    "longest_copy",
    "metadata_batches",
    "metadata_records",
    "replay_start",
    "snapshots_of",
]

COLUMNAR_BYTES = 1 << 16  # larger files are read in columns: ``record_columns.MIN_COLUMNAR_BYTES``
METADATA_SNAPSHOT, FOOTER = "checkpoint", "SNAPSHOT_FOOTER"
TOPIC_RESOURCE = 2


class LogRecord(NamedTuple):
    """A record of the metadata log or of a snapshot.

    Attributes:
        offset: its offset.
        timestamp: when it was written, in ms.
        epoch: leader epoch of its batch.
        kind: its type, by Kafka's name; what is known of an unknown type.
        value: its fields; None if its type or version is unknown, or its bytes are malformed.
        position: of its batch.
        is_control: whether it is a record of KRaft itself.
        version: the version of its fields; None if it could not be read.
    """

    offset: int
    timestamp: int
    epoch: int
    kind: str
    value: dict[str, Any] | None
    position: int
    is_control: bool = False
    version: int | None = None


class MetadataRecord(NamedTuple):
    """A record of the metadata log.

    Attributes:
        timestamp: when the controller wrote it, in ms; None in a snapshot, which does not keep it.
        kind: its type, by Kafka's name.
        value: its fields, by Kafka's names.
    """

    timestamp: int | None
    kind: str
    value: dict[str, Any]


class MetadataBatch(NamedTuple):
    """Records of some types in a batch of the metadata log or of a snapshot.

    Attributes:
        path: the file.
        position: byte position of the batch.
        offset: first offset of the batch.
        records: the records.
    """

    path: str
    position: int
    offset: int
    records: list[MetadataRecord]


def metadata_records(partitions: Iterable[Partition], kinds: Collection[str]) -> Iterator[MetadataRecord]:
    """Yield records of some types in log order; if the start of the log is missing, those of a snapshot come first.

    They are those of the longest copy that is in force.
    """
    copies = in_force(copy for copy in partitions if copy.place.topic == METADATA_TOPIC and copy.segments)
    if not copies:
        return
    for batch in metadata_batches(longest_copy(copies), kinds):
        yield from batch.records


def metadata_batches(metadata: Partition, kinds: Collection[str]) -> Iterator[MetadataBatch]:
    """Yield batches with records of some types; if the log start is missing, those of a snapshot first.

    Args:
        metadata: a copy of the metadata log.
        kinds: types of records, by Kafka's names.

    Raises:
        InputError: the metadata log cannot be read.
    """
    start, snapshot = replay_start(metadata)
    if snapshot is not None:
        for batch in _batches(snapshot, 0, kinds):
            yield batch._replace(records=[record._replace(timestamp=None) for record in batch.records])
    for segment in metadata.segments:
        yield from _batches(segment.path, start, kinds)


def replay_start(metadata: Partition, at: int | None = None) -> tuple[int, str | None]:
    """Return the offset that a replay of the log begins at, and the snapshot before it, None for the log alone.

    It is the oldest snapshot that the log continues, because the log shows more than a snapshot: what happened when.
    Without one the replay begins at the start of the log, although the records before it are missing.

    Args:
        metadata: a copy of the metadata log.
        at: the offset that the replay ends at, None for the end of the log.
    """
    start = metadata.first_offset
    for offset, path in snapshots_of(metadata).items():
        if start <= offset and (at is None or offset <= at) and is_whole_snapshot(path):
            return offset, path
    return start, None


def snapshots_of(metadata: Partition) -> dict[int, str]:
    """Return the live snapshots of a copy of the metadata log by end offset, ascending."""
    live = (file for file in metadata.others if file.kind == METADATA_SNAPSHOT and file.state == LIVE)
    return dict(sorted((file.base_offset or 0, file.path) for file in live))


def is_whole_snapshot(path: str) -> bool:
    """Return whether Kafka can load a snapshot: no byte of it is damaged, and it ends with a footer.

    Raises:
        InputError: it cannot be read.
    """
    last = None
    with open_source(path) as source:
        for batch in walk(source):
            if not isinstance(batch, Batch) or not batch.crc_valid:
                return False
            last = batch
        footer = next(iter(read_records(source, last)), None) if last is not None and last.is_control else None
    return isinstance(footer, Record) and decode_control_record(footer.key, footer.value).type_name == FOOTER


def in_force(copies: Iterable[Partition]) -> list[Partition]:
    """Return the copies of a metadata log without those that a broker with ZooKeeper ignores."""
    return [copy for copy in copies if unused_since(copy.log_dir) is None]


def longest_copy(copies: Iterable[Partition]) -> Partition:
    """Return the copy of a metadata log that ends last."""
    return max(copies, key=lambda copy: (copy.segments[-1].base_offset or 0, copy.segments[-1].size))


def _batches(path: str, start: int, kinds: Collection[str]) -> Iterator[MetadataBatch]:
    for position, batch in groupby(log_records(path, start, kinds), key=attrgetter("position")):
        every = list(batch)
        selected = [one for one in every if one.kind in kinds and one.value is not None and not one.is_control]
        if selected:
            records = [MetadataRecord(one.timestamp, one.kind, one.value or {}) for one in selected]
            yield MetadataBatch(path, position, every[0].offset, records)


def log_records(path: str, start: int, kinds: Collection[str] | None = None) -> Iterator[LogRecord]:
    """Yield the records of a segment from an offset on, or of a snapshot; not those of batches that are damaged.

    Args:
        path: the segment, or the snapshot.
        start: the offset.
        kinds: the types whose fields are needed, None for all; records of others may come without a value.

    Raises:
        InputError: the file cannot be read.
    """
    with open_source(path) as source:
        if source.size >= COLUMNAR_BYTES:
            yield from _records_in_columns(source, start, kinds)
            return
        for batch in walk(source):
            if not isinstance(batch, Batch) or not batch.crc_valid or batch.last_offset < start:
                continue
            for record in read_records(source, batch):
                if isinstance(record, Record) and record.offset >= start:
                    yield _log_record(batch, record)


def _records_in_columns(source: Source, start: int, kinds: Collection[str] | None) -> Iterator[LogRecord]:
    # Most metadata logs are small, and are read in less time than it takes to import these.
    from kforensics.parsers.columns.record_columns import record_chunks
    from kforensics.parsers.kernels.policy import kernels_for
    from kforensics.parsers.messages.framed_columns import framed_records

    for chunk in record_chunks(source, kernels_for(source.size)):
        offset, timestamp, epoch, position, is_control = (
            chunk.rows[name].tolist() for name in ("offset", "timestamp", "leader_epoch", "position", "is_control")
        )
        names, values, versions = framed_records(METADATA_TOPIC, chunk.values, kinds)
        for row, name in enumerate(names):
            if name is None or is_control[row]:
                content = chunk.keys.get(row), chunk.values.get(row)
                names[row], values[row], versions[row] = _decoded(*content, is_control=is_control[row])
        records = map(
            LogRecord._make, zip(offset, timestamp, epoch, names, values, position, is_control, versions, strict=True)
        )
        yield from (
            records if min(offset, default=start) >= start else (record for record in records if record.offset >= start)
        )


def _log_record(batch: Batch, record: Record) -> LogRecord:
    kind, value, version = _decoded(record.key, record.value, is_control=batch.is_control)
    epoch = -1 if batch.partition_leader_epoch is None else batch.partition_leader_epoch
    place = batch.position, batch.is_control
    return LogRecord(record.offset, record.timestamp, epoch, kind, value, *place, version)


def _decoded(
    key: bytes | None, value: bytes | None, *, is_control: bool
) -> tuple[str, dict[str, Any] | None, int | None]:
    """Return type, fields and version; Kafka reads no record of an unknown version, and none with bytes after it."""
    decoded = decode_control_record(key, value) if is_control else decode_record(METADATA_TOPIC, key, value)
    if decoded.error is None and decoded.value is not None:
        return decoded.type_name or "", decoded.value, decoded.version
    error = decoded.error or "no value"
    return f"{decoded.type_name} ({error})" if decoded.type_name else error, None, decoded.version


def elections_in(partitions: Iterable[Partition]) -> dict[PartitionKey, tuple[Election, ...]]:
    """Return the elections by topic id and partition, in log order; empty without a copy of the metadata log.

    Args:
        partitions: partitions of any topics. Of several copies of the metadata log the longest one is read.

    Raises:
        InputError: the metadata log cannot be read.
    """
    known = leadership_in(partitions)
    return {key: leadership.elections for key, leadership in known.items() if leadership.elections}


def leadership_in(partitions: Iterable[Partition]) -> dict[PartitionKey, Leadership]:
    """Return by topic id and partition the elections, and which replicas came into sync or fell out of it, and when.

    Arguments and errors are those of :func:`elections_in`.
    """
    reader = LeadershipReader()
    for record in metadata_records(partitions, ELECTION_RECORDS):
        reader.add(record)
    return reader.leaderships()


@dataclass(slots=True)
class LeadershipReader:
    """Collects the leader elections of partitions, and the changes of their replicas, from a metadata log.

    Attributes:
        elections: the elections by partition.
        changes: when each replica came into sync, or fell out of it, for the last time, by partition and broker.
        registrations: the state of each partition so far.
        created: when each partition was created, in ms.
    """

    elections: dict[PartitionKey, list[Election]] = field(default_factory=lambda: defaultdict(list))
    changes: dict[PartitionKey, dict[int, SyncChange]] = field(default_factory=lambda: defaultdict(dict))
    registrations: Registrations = field(default_factory=Registrations)
    created: dict[PartitionKey, int] = field(default_factory=dict)

    def add(self, record: MetadataRecord) -> None:
        """Add one of the ELECTION_RECORDS."""
        timestamp, kind, value = record
        change = self.registrations.add(kind, value, timestamp)
        if change is None or timestamp is None:
            return
        key = value["topicId"], value["partitionId"]
        if kind == "PartitionRecord":
            self.created[key] = timestamp
        if change.leader != UNCHANGED:
            self.elections[key].append(_election(change, timestamp))
        self.changes[key].update(_sync_changes(change.before, change.after, timestamp))

    def leaderships(self) -> dict[PartitionKey, Leadership]:
        """Return what is known by topic id and partition, without those whose replicas have all been in sync always."""
        known = {
            key: Leadership(
                tuple(self.elections.get(key, ())),
                tuple(self.changes.get(key, {}).values()),
                _out_of_sync(registration, self.registrations.last_leaders[key], self.changes.get(key, {})),
                self.created.get(key),
            )
            for key, registration in self.registrations.by_partition.items()
        }
        return {key: leadership for key, leadership in known.items() if any(leadership[:-1])}


def _out_of_sync(
    registration: PartitionRegistration, last_leader: int, changes: Mapping[int, SyncChange]
) -> dict[int, int]:
    """Return since when replicas are out of sync, in ms, by broker; NO_TIME if they were never seen in sync.

    While none is in sync, eligible leader replicas lack nothing that was committed, or else the last leader.
    """
    complete = registration.complete or (last_leader,)
    brokers = {*registration.replicas, *changes} - {*complete}
    return {
        broker: changes[broker].timestamp if broker in changes and not changes[broker].is_added else NO_TIME
        for broker in sorted(brokers)
    }


def _sync_changes(
    before: PartitionRegistration, after: PartitionRegistration, timestamp: int
) -> Iterator[tuple[int, SyncChange]]:
    """Yield the replicas that are in sync after a change and were not before, or the other way round, and new ones."""
    for broker in dict.fromkeys((*after.replicas, *after.isr)):
        is_in_sync, is_added = broker in after.isr, broker not in before.replicas
        if is_in_sync != (broker in before.isr) or (not is_in_sync and is_added):
            yield broker, SyncChange(broker, is_in_sync, timestamp, not is_in_sync and is_added)


def _election(change: RegistrationChange, timestamp: int) -> Election:
    epoch = change.after.leader_epoch
    return Election(epoch, change.leader, timestamp, change.before.isr, change.is_unclean, change.predecessor)
