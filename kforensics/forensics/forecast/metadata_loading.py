"""What the start of a broker makes of its copy of the metadata log: whether it is readable, and what it assigns.

Rules: ``QuorumState.initialize``, ``KafkaRaftLog.createLog`` (before 4.4 ``KafkaMetadataLog``) and
``RecordsSnapshotReader``. The log is always recovered as after a crash, and snapshots before the newest are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from operator import itemgetter

from kforensics.errors import InputError, InputMissingError
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.forecast.broker_reader import CORRUPT, CorruptLogError, batches_from, is_valid
from kforensics.forensics.forecast.effects import (
    FILE_DELETED,
    HOUSEKEEPING,
    ILLEGAL_STATE,
    LOG_CREATED,
    LOG_EMPTIED,
    RUNTIME,
    Effect,
    LoadedLog,
    LoadRefusedError,
)
from kforensics.forensics.forecast.index_limits import IndexLimits
from kforensics.forensics.forecast.log_directory import PartitionFolder
from kforensics.forensics.forecast.log_loading import load_log
from kforensics.forensics.forecast.segment_files import PartitionFiles, epoch_starts
from kforensics.forensics.metadata.cluster_image import TOPIC, ClusterImage
from kforensics.forensics.metadata.cluster_metadata import LogRecord
from kforensics.forensics.metadata.image_replay import ImageReplay
from kforensics.forensics.metadata.topic_image import PartitionRegistration, TopicImage
from kforensics.forensics.partition.partition_files import LogDir, Partition
from kforensics.forensics.partition.unused_metadata import unused_since
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, FileName, parse_file_name
from kforensics.parsers.files.source import Window, open_source
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.state.json_state import QuorumState, read_quorum_state

__all__ = [
    "DELETED_AS_STRAY",
    "GONE",
    "NOT_KNOWN",
    "SERVED",
    "STRAY",
    "UNACKNOWLEDGED",
    "UNREPLAYED",
    "UNSERVED",
    "LoadedMetadata",
    "fate_of",
    "index_limits",
    "load_metadata",
    "metadata_beside",
    "topic_beside",
    "why_stray",
]

# What becomes of a folder.
SERVED, STRAY, GONE, UNSERVED = "served", "stray", "deleted", "unserved"
# Of releases before 3.7, which delete what later ones make stray.
DELETED_AS_STRAY = "stray-deleted"
NOT_KNOWN = "not known"

UNREPLAYED = "Unable to replay"
UNCHECKED = "java.io.UncheckedIOException"
NO_ELEMENT = "java.util.NoSuchElementException"
# How a broker ends for which no controller is elected, after ``initial.broker.registration.timeout.ms``.
UNACKNOWLEDGED = "Received a fatal error while waiting for the controller to acknowledge that we are caught up"
# Every start reads the whole metadata log, and rebuilds its indexes and the state of its producers.
ALWAYS_RECOVERED = ("recovered", "indexes-rebuilt", "producers-rebuilt")
UNFINISHED, LEFT = "the snapshot was not finished", "a deletion left it"
BEFORE_SNAPSHOT = (
    "Can't create a new in-memory snapshot at epoch {0} because there is already a snapshot with epoch {1}. Snapshot"
    " epochs are {1}"
)


@dataclass(slots=True)
class LoadedMetadata:
    """What a broker reads from its copy of the metadata log.

    Attributes:
        folder: the folder of the log; empty if it is missing.
        image: the image of the cluster, without the records of an open metadata transaction.
        effects: what the load does to the files.
        voters: the voters of a static quorum; None if the files name none.
        lost: why metadata is lost, None if none is.
        controllers: directory ids of the controllers by node id; None with a static quorum, which has none.
        versions: the highest version of the records of each type, in the order in which they are first read.
        removed: when topics were deleted, in ms by topic id; those of before the snapshot are not known.
        reach: leader epoch of the last record, and the offset after it.
        own: the image at the end of the copy of the broker, if the rest is from the copy of another node.
    """

    folder: str = ""
    image: ClusterImage = field(default_factory=ClusterImage)
    effects: list[Effect] = field(default_factory=list)
    voters: tuple[int, ...] | None = None
    lost: str | None = None
    controllers: dict[int, str | None] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    reach: tuple[int, int] = (-1, 0)
    own: ClusterImage | None = None

    @property
    def directories(self) -> dict[str, int]:
        """Broker ids by the directory ids that they registered."""
        return {path: node for node, broker in self.image.brokers.items() for path in broker.get("logDirs") or ()}

    def has_only_controller(self, node_id: int | None) -> bool:
        """Return whether a node is the only controller of a dynamic quorum."""
        return set(self.controllers) == {node_id}

    def partition(self, topic_id: str | None, number: int) -> PartitionRegistration | None:
        """Return the registration of a partition, None if there is none."""
        topic = self.image.topics.get(topic_id or "")
        return topic.partitions.get(number) if topic else None

    def assigns(self, topic_id: str | None, number: int | None, node_id: int | None) -> bool:
        """Return whether a partition has a replica on a broker."""
        assigned = None if number is None else self.partition(topic_id, number)
        return assigned is not None and node_id in assigned.replicas

    def topic_name(self, topic_id: str | None) -> str | None:
        """Return the name of a topic, None if there is none with this id."""
        topic = self.image.topics.get(topic_id or "")
        return topic.name if topic else None


def load_metadata(folder: str, node_id: int | None, *, clears_state: bool = False) -> LoadedMetadata:
    """Return what a broker reads from a copy of the metadata log.

    Args:
        folder: the folder ``__cluster_metadata-0``.
        node_id: id of the broker, None if it is not known.
        clears_state: whether the release clears a quorum state that it cannot read, as those before 3.8 do.

    Raises:
        LoadRefusedError: the broker ends.
        InputError: a file cannot be read.
    """
    children = {entry.name: entry for entry in folders_of(folder).children(folder)}
    has_state = "quorum-state" in children
    try:
        voters = _voters(f"{folder}/quorum-state") if has_state else None
    except LoadRefusedError:
        if not clears_state:
            raise
        voters, has_state = None, False
    metadata = LoadedMetadata(folder, voters=voters)
    loaded = load_log(folder, 0, 0, clean=False)
    newest = max(_snapshots(children), default=None, key=itemgetter(1, 0))
    is_emptied = newest is not None and _is_beyond(newest[0], newest[1], loaded, children)
    metadata.effects = list(_effects(children, loaded, newest[0] if newest and is_emptied else None))
    if newest is None and loaded.log_start > 0:
        message = (
            "Inconsistent snapshot state: there must be a snapshot at an offset larger than the current log start"
            f" offset {loaded.log_start}, but the latest snapshot is Optional.empty"
        )
        raise LoadRefusedError(ILLEGAL_STATE, message, folder)
    start, snapshot = (newest[0], newest[2]) if newest else (0, None)
    if snapshot is not None:
        is_dynamic = voters is None and has_state
        metadata.lost = _check_snapshot(snapshot, is_dynamic=is_dynamic)
    log = Partition(Place(None, None, METADATA_TOPIC, 0), folder, LogDir(None), _segments(children, start))
    replay = ImageReplay(log, at=loaded.log_end).begin_at(start, snapshot)
    for record in replay.records() if loaded.log_end > start and not is_emptied else ():
        replay.apply(record)
        fault = _fault(metadata, replay, record, node_id)
        if fault is not None:
            raise LoadRefusedError(RUNTIME, fault, replay.path)
    metadata.image, metadata.versions, metadata.removed = replay.image, replay.versions, replay.removed
    metadata.reach = replay.epoch, replay.offset
    metadata.controllers = dict.fromkeys(voters or ())
    if voters is None:
        metadata.controllers = {voter["voterId"]: voter.get("voterDirectoryId") for voter in replay.voters}
    return metadata


def _is_beyond(offset: int, epoch: int, loaded: LoadedLog, children: Mapping[str, Entry]) -> bool:
    """Return whether a snapshot is after the end of the log: ``KafkaRaftLog.truncateToLatestSnapshot``.

    A follower that ended between fetching a snapshot and emptying its log leaves such files.
    """
    starts = epoch_starts(PartitionFiles(loaded.path, dict(children)))
    last = max((each for each, start in starts.items() if start < loaded.log_end), default=0)
    if epoch > last:  # perhaps the checkpoint is lost, which the recovery writes again
        last = max((last, *_epochs(children, loaded.log_end)))
    return epoch > last or (epoch == last and offset > loaded.log_end)


def _epochs(children: Mapping[str, Entry], log_end: int) -> Iterator[int]:
    for segment in _segments(children, 0):
        with open_source(segment.path) as source, suppress(CorruptLogError):
            for batch in batches_from(Window(source), 0, segment.path):
                if batch.next_offset <= log_end:
                    yield batch.header.partition_leader_epoch or 0


def _effects(children: Mapping[str, Entry], loaded: LoadedLog, emptied_to: int | None) -> Iterator[Effect]:
    """Yield what the load does to the files of the metadata log, without that every start recovers it.

    Rules: ``KafkaRaftLog.recoverSnapshots`` and ``truncateToLatestSnapshot``.

    Args:
        children: the files of its folder.
        loaded: the log after its load.
        emptied_to: the snapshot at which an emptied log continues, None if it is not emptied.
    """
    dropped = ALWAYS_RECOVERED if emptied_to is None else (*ALWAYS_RECOVERED, LOG_CREATED)
    kept = [_of_metadata(effect) for effect in loaded.effects if effect.kind not in dropped]
    yield from kept
    if emptied_to is not None:
        detail = f"the log ends at {loaded.log_end} and its newest snapshot is at {emptied_to}, where it begins again"
        yield Effect(LOG_EMPTIED, detail, silent=True, offset=emptied_to, path=loaded.path)
    gone = {effect.path for effect in kept if effect.kind != "truncated" or "is deleted" in effect.detail}
    for entry, parsed in ((entry, parse_file_name(name)) for name, entry in sorted(children.items())):
        why = None if parsed is None or entry.path in gone else _why_deleted(parsed, loaded.log_start, emptied_to)
        if why is not None:
            kind = HOUSEKEEPING if why == LEFT else FILE_DELETED
            yield Effect(kind, f"{entry.name} is deleted: {why}", silent=True, size=entry.size, path=entry.path)


def _of_metadata(effect: Effect) -> Effect:
    """Return an effect on the metadata log, which has no producers: their snapshots come and go with each start."""
    return replace(effect, kind=HOUSEKEEPING) if effect.kind == "snapshot-dropped" else effect


def _why_deleted(name: FileName, log_start: int, emptied_to: int | None) -> str | None:
    """Return why a start deletes a file of the metadata log, None if it keeps the file."""
    if name.kind == "checkpoint" and name.base_offset is not None:
        if name.state in ("part", "deleted"):
            return UNFINISHED if name.state == "part" else LEFT
        if name.state == "live" and name.base_offset < (log_start if emptied_to is None else emptied_to):
            return "it is before the start of the log"
    is_of_log = name.kind in ("log", "index", "timeindex", "snapshot") and name.state == "live"
    return "the log is emptied" if is_of_log and emptied_to is not None else None


def index_limits(metadata: LoadedMetadata | None, topic: str | None) -> IndexLimits:
    """Return the settings of a topic for its indexes, as far as a metadata log has them."""
    return IndexLimits.of({} if metadata is None else metadata.image.configs.get((TOPIC, topic or ""), {}))


def metadata_beside(partition: Partition, *, of_any_moment: bool = False) -> LoadedMetadata | None:
    """Return what a broker reads from the metadata log beside a partition, None without one or if the broker ends.

    A broker with ZooKeeper reads none that is not in force.

    Args:
        partition: the partition.
        of_any_moment: use another log directory also if the broker was not shut down cleanly: it may be of another
            moment then.
    """
    others = (each for each in partition.log_dir.beside if of_any_moment or each.clean_shutdown)
    for log_dir in (partition.log_dir, *others):
        path = f"{log_dir.path or ''}/{METADATA_TOPIC}-0"
        if unused_since(log_dir) is not None:
            continue
        with suppress(InputError, LoadRefusedError):
            return _metadata(path, partition.place.broker_id, tuple(folders_of(path).children(path)))
    return None


def topic_beside(partition: Partition) -> TopicImage | None:
    """Return the topic of a partition by the metadata log beside it, of whatever moment; None if it is not known."""
    metadata = metadata_beside(partition, of_any_moment=True)
    return None if metadata is None else metadata.image.topics.get(partition.topic_id or "")


@lru_cache(maxsize=4)
def _metadata(path: str, node_id: int | None, _entries: tuple[Entry, ...]) -> LoadedMetadata:
    """Return what a broker reads from a metadata log; all partitions of its log directory need it."""
    return load_metadata(path, node_id)


def fate_of(folder: PartitionFolder, metadata: LoadedMetadata | None, node_id: int | None) -> str:
    """Return what the metadata makes of a folder: ``served``, ``stray``, ``deleted`` or ``unserved``.

    Args:
        folder: the folder of a partition.
        metadata: what the broker reads from its metadata log, None without one.
        node_id: id of the broker.
    """
    if folder.name.state == "deleted":
        return GONE
    if folder.name.state == "stray":
        return STRAY
    if metadata is None:
        return SERVED
    if not metadata.assigns(folder.topic_id, folder.name.partition, node_id):
        return STRAY
    return SERVED if metadata.topic_name(folder.topic_id) == folder.name.topic else UNSERVED


def why_stray(folder: PartitionFolder, metadata: LoadedMetadata | None) -> str:
    """Return why the metadata does not keep a folder in service."""
    if folder.topic_id is None:
        return "partition.metadata is missing"
    if metadata is not None and folder.topic_id in metadata.removed:
        return f"its topic was deleted at {format_time(metadata.removed[folder.topic_id])}"
    if metadata is not None and metadata.lost:
        return metadata.lost
    if metadata is not None and metadata.topic_name(folder.topic_id) is None:
        return "the metadata has no topic with its topic id"
    return "the metadata does not assign it to this broker"


def _fault(metadata: LoadedMetadata, replay: ImageReplay, record: LogRecord, node_id: int | None) -> str | None:
    """Return why the record that was just applied ends the broker, None if it does not."""
    if metadata.lost is not None and replay.faults:
        return f"{UNREPLAYED} {record.kind}: what it changes is not in the torn snapshot"
    # A controller cannot go back to the offset before a snapshot that it has loaded.
    if replay.snapshot and record.offset == replay.start and record.kind == "BeginTransactionRecord":
        voters = metadata.voters or tuple(voter["voterId"] for voter in replay.voters)
        if node_id in voters:
            return BEFORE_SNAPSHOT.format(replay.start - 1, replay.start)
    return None


def _segments(children: Mapping[str, Entry], start: int) -> tuple[FoundFile, ...]:
    """Return the segments that have offsets from the start on."""
    named = ((parse_file_name(name), entry) for name, entry in children.items() if not entry.is_folder)
    live = [(name.base_offset or 0, entry) for name, entry in named if name and _is_live_log(name)]
    live.sort(key=itemgetter(0))
    ends = [*(base for base, _ in live), None][1:]
    return tuple(
        FoundFile(entry.path, "log", entry.size, base_offset=base)
        for (base, entry), end in zip(live, ends, strict=True)
        if end is None or end > start
    )


def _is_live_log(name: FileName) -> bool:
    return name.kind == "log" and name.state == "live"


def _snapshots(children: Mapping[str, Entry]) -> Iterator[tuple[int, int, str]]:
    for name, entry in children.items():
        parsed = parse_file_name(name)
        if parsed and parsed.kind == "checkpoint" and parsed.state == "live" and parsed.base_offset is not None:
            yield parsed.base_offset, parsed.leader_epoch or 0, entry.path


def _check_snapshot(path: str, *, is_dynamic: bool) -> str | None:
    """Return why a part of a snapshot is lost, None if it is whole; the broker checks its checksums.

    Args:
        path: the snapshot.
        is_dynamic: whether the quorum is dynamic; then the snapshot has the voters.
    """
    last: Batch | None = None
    with open_source(path) as source:
        window = Window(source)
        try:
            for batch in batches_from(window, 0, path):
                last = batch.header
                if not is_valid(window, batch.header):
                    raise LoadRefusedError(CORRUPT, "Record is corrupt", path)
        except CorruptLogError as error:
            raise LoadRefusedError(CORRUPT, error.why, path) from error
        if last is None and is_dynamic:
            raise LoadRefusedError(RUNTIME, f"{UNACKNOWLEDGED}: the snapshot with the voters is empty", path)
        if last is None:
            raise LoadRefusedError(NO_ELEMENT, "No value present", path)
        # The footer is a control batch of its own.
        is_whole = last.is_control and last.position > 0 and last.position + last.size == window.end
    return None if is_whole else f"{path} is torn: the broker reads what is there without a word"


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
