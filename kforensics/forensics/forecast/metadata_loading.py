"""What the start of a broker makes of its copy of the metadata log: whether it is readable, and what it assigns.

Rules: ``QuorumState.initialize``, ``KafkaRaftLog.createLog`` (before 4.4 ``KafkaMetadataLog``) and
``RecordsSnapshotReader``. The log is always recovered as after a crash, and snapshots before the newest are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from kforensics.errors import InputMissingError
from kforensics.forensics.forecast.broker_reader import CORRUPT, CorruptLogError, batches_from, is_valid
from kforensics.forensics.forecast.effects import Effect, LoadedLog, LoadRefusedError
from kforensics.forensics.forecast.log_loading import load_log
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, parse_file_name
from kforensics.parsers.files.source import Window, open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.state.json_state import QuorumState, read_quorum_state

__all__ = ["AssignedPartition", "MetadataImage", "load_metadata"]

UNCHECKED = "java.io.UncheckedIOException"
NO_ELEMENT = "java.util.NoSuchElementException"
ILLEGAL_STATE = "java.lang.IllegalStateException"
RUNTIME = "java.lang.RuntimeException"
BROKER_CHANGES = (
    "BrokerRegistrationChangeRecord",
    "FenceBrokerRecord",
    "UnfenceBrokerRecord",
    "UnregisterBrokerRecord",
)


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """A partition as the metadata assigns it.

    Attributes:
        replicas: ids of its brokers.
        directories: directory ids of the replicas, in their order; empty before 3.7.
    """

    replicas: tuple[int, ...]
    directories: tuple[str, ...]


@dataclass(slots=True)
class MetadataImage:
    """What a broker reads from its copy of the metadata log.

    Attributes:
        end: offset after the last record it reads.
        topics: names by topic id.
        partitions: assignments by topic id and number.
        directories: broker ids by the directory ids that they registered.
        effects: what the load does to the files.
        voters: the voters of a static quorum; None if the files name none.
        lost: why metadata is lost, None if none is.
    """

    end: int = 0
    topics: dict[str, str] = field(default_factory=dict)
    partitions: dict[tuple[str, int], AssignedPartition] = field(default_factory=dict)
    directories: dict[str, int] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    voters: tuple[int, ...] | None = None
    lost: str | None = None

    def lacks(self, kind: str, value: dict[str, Any]) -> bool:
        """Return whether a record changes a broker or a topic that was never registered, which ends the broker."""
        if kind in ("TopicRecord", "RegisterBrokerRecord"):
            return False
        if "topicId" in value:
            return value["topicId"] not in self.topics
        return kind in BROKER_CHANGES and value.get("brokerId", value.get("id")) not in self.directories.values()

    def add(self, kind: str, value: dict[str, Any]) -> None:
        """Add a record."""
        if kind == "TopicRecord":
            self.topics[value["topicId"]] = value["name"]
        elif kind == "RemoveTopicRecord":
            self.topics.pop(value["topicId"], None)
            self.partitions = {key: each for key, each in self.partitions.items() if key[0] != value["topicId"]}
        elif kind in ("PartitionRecord", "PartitionChangeRecord"):
            self._assign(value)
        elif kind in ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord"):
            self.directories |= dict.fromkeys(value.get("logDirs") or (), value["brokerId"])

    def _assign(self, value: dict[str, Any]) -> None:
        key = value["topicId"], value["partitionId"]
        before = self.partitions.get(key, AssignedPartition((), ()))
        replicas, directories = value.get("replicas"), value.get("directories")
        self.partitions[key] = AssignedPartition(
            before.replicas if replicas is None else tuple(replicas),
            before.directories if not directories else tuple(directories),
        )


def load_metadata(folder: str) -> MetadataImage:
    """Return what a broker reads from a copy of the metadata log.

    Args:
        folder: the folder ``__cluster_metadata-0``.

    Raises:
        LoadRefusedError: the broker ends.
        InputError: a file cannot be read.
    """
    image = MetadataImage()
    children = {entry.name: entry for entry in folders_of(folder).children(folder)}
    image.voters = _voters(f"{folder}/quorum-state") if "quorum-state" in children else None
    loaded = load_log(folder, 0, 0, clean=False)
    snapshots = sorted(_snapshots(children), reverse=True)
    image.effects += [effect for effect in loaded.effects if effect.kind == "truncated"]
    newest = snapshots[0] if snapshots else None
    _read_image(image, loaded, newest, folder)
    return image


def _read_image(image: MetadataImage, loaded: LoadedLog, newest: tuple[int, int, str] | None, folder: str) -> None:
    if newest is None:
        if loaded.log_start > 0:
            message = (
                "Inconsistent snapshot state: there must be a snapshot at an offset larger than the current log start"
                f" offset {loaded.log_start}, but the latest snapshot is Optional.empty"
            )
            raise LoadRefusedError(ILLEGAL_STATE, message, folder)
        start = 0
    else:
        start = newest[0]
        _read_snapshot(image, newest[2])
    image.end = max(start, loaded.log_end)
    if loaded.log_end > start:
        for path in _segments(folder, start):
            for kind, value in _records(path, start, loaded.log_end):
                if image.lost is not None and image.lacks(kind, value):
                    message = f"Unable to replay {kind}: what it changes is not in the torn snapshot"
                    raise LoadRefusedError(RUNTIME, message, path)
                image.add(kind, value)


def _segments(folder: str, start: int) -> list[str]:
    entries = []
    for entry in folders_of(folder).children(folder):
        name = parse_file_name(entry.name)
        if name is not None and name.kind == "log" and name.state == "live" and not entry.is_folder:
            entries.append((name.base_offset or 0, entry.path))
    entries.sort()
    return [
        path for number, (_, path) in enumerate(entries) if number + 1 == len(entries) or entries[number + 1][0] > start
    ]


def _snapshots(children: Mapping[str, Entry]) -> Iterator[tuple[int, int, str]]:
    for name, entry in children.items():
        parsed = parse_file_name(name)
        if parsed and parsed.kind == "checkpoint" and parsed.state == "live" and parsed.base_offset is not None:
            yield parsed.base_offset, parsed.leader_epoch or 0, entry.path


def _read_snapshot(image: MetadataImage, path: str) -> None:
    """Read a snapshot, whose checksums the broker checks."""
    last: Batch | None = None
    with open_source(path) as source:
        window = Window(source)
        try:
            for batch in batches_from(window, 0, path):
                last = batch.header
                if not is_valid(window, batch.header):
                    raise LoadRefusedError(CORRUPT, "Record is corrupt", path)
                for kind, value in _decoded(source, batch.header):
                    image.add(kind, value)
        except CorruptLogError as error:
            raise LoadRefusedError(CORRUPT, error.why, path) from error
        if last is None:
            raise LoadRefusedError(NO_ELEMENT, "No value present", path)
        # The footer is a control batch of its own.
        if not (last.is_control and last.position > 0 and last.position + last.size == window.end):
            image.lost = f"{path} is torn: the broker reads what is there without a word"


def _records(path: str, start: int, end: int) -> Iterator[tuple[str, dict[str, Any]]]:
    with open_source(path) as source:
        try:
            for batch in batches_from(Window(source), 0, path):
                if batch.header.last_offset >= end:
                    return
                if batch.header.last_offset >= start:
                    yield from _decoded(source, batch.header)
        except CorruptLogError:
            return  # the recovery cuts it off


def _decoded(source: Any, batch: Batch) -> Iterator[tuple[str, dict[str, Any]]]:
    if batch.is_control:
        return
    for record in read_records(source, batch):
        if isinstance(record, Record):
            decoded = decode_record(METADATA_TOPIC, record.key, record.value)
            if decoded.type_name is not None and decoded.value is not None:
                yield decoded.type_name, decoded.value


def _voters(path: str) -> tuple[int, ...] | None:
    """Return the voters that the quorum state names; None if it names none, as with a dynamic quorum.

    Raises:
        LoadRefusedError: the broker cannot read it.
    """
    import json

    rows = []
    try:
        with open_source(path) as source:
            rows = list(read_quorum_state(source))
    except InputMissingError:
        return None
    state = next((row for row in rows if isinstance(row, QuorumState)), None)
    if state is None:
        why = rows[0].detail if rows and isinstance(rows[0], Damage) else "File ended prematurely."
        message = f"Error while reading the Quorum status from the file {path}"
        raise LoadRefusedError(UNCHECKED, f"{message}: {why}", path)
    voters = dict(state.fields).get("currentVoters")
    return tuple(voter["voterId"] for voter in json.loads(voters)) if voters else None
