"""The files of a partition in one log directory of one broker, and what that directory's own files say about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from kforensics.errors import InputForbiddenError
from kforensics.forensics.partition.log_dirs import (
    CLEANER,
    DELETED,
    HIGH_WATERMARK,
    LIVE,
    LOG_START,
    RECOVERY_POINT,
    ROOT_FILES,
    LogDir,
    log_dir_of,
    root_files,
)
from kforensics.forensics.partition.log_places import (
    LogPlace,
    first_dirty_elsewhere,
    lists_log,
    moved_away,
    partitions_in,
)
from kforensics.forensics.partition.superseded_segments import without_deleted, without_earlier, without_superseded
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED, CONSUMER_OFFSETS, parse_folder_name
from kforensics.parsers.files.source import file_name, forbidden
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "CLEANER",
    "CONSUMER_OFFSETS",
    "DELETED",
    "HIGH_WATERMARK",
    "LIVE",
    "LOG_START",
    "RECOVERY_POINT",
    "LogDir",
    "Partition",
    "folder_of",
    "forbidden_sidecars",
    "is_recreated",
    "partition_sort_key",
    "partitions_of",
]

SIDECAR_KINDS = ("index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "offset-checkpoint")


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class Partition:
    """The live files of a partition.

    Attributes:
        place: broker, log directory, topic and partition, as far as they are known.
        folder: folder of the files.
        log_dir: the log directory.
        segments: the ``.log`` files, sorted by base offset; none, or only empty ones, if the log is missing.
        indexes: ``.index`` files by base offset.
        time_indexes: ``.timeindex`` files by base offset.
        transaction_indexes: ``.txnindex`` files by base offset.
        snapshots: ``.snapshot`` files by offset.
        leader_epochs: ``leader-epoch-checkpoint``, None if there is none.
        others: files in another state (``deleted``, ``cleaned``, ``swap``, …) or of another kind.
        topic_id: from ``partition.metadata``.
        created_ms: when ``partition.metadata`` was written; None without it.
        nested: names of the folders in its folder.
        superseded: files of segments that are in the copy, but were no longer in the log; they are not read.
    """

    place: Place
    folder: str
    log_dir: LogDir
    segments: tuple[FoundFile, ...] = ()
    indexes: Mapping[int, FoundFile] = field(default_factory=dict)
    time_indexes: Mapping[int, FoundFile] = field(default_factory=dict)
    transaction_indexes: Mapping[int, FoundFile] = field(default_factory=dict)
    snapshots: Mapping[int, FoundFile] = field(default_factory=dict)
    leader_epochs: FoundFile | None = None
    others: tuple[FoundFile, ...] = ()
    topic_id: str | None = None
    created_ms: int | None = None
    nested: tuple[str, ...] = ()
    superseded: tuple[FoundFile, ...] = ()

    @property
    def name(self) -> str:
        """Topic and partition as Kafka's tools write them, or the folder if they are unknown."""
        topic, partition = self.place.topic, self.place.partition
        return f"{topic}-{partition}" if topic is not None and partition is not None else self.folder

    @property
    def size(self) -> int:
        """Size of all segments in bytes."""
        return sum(segment.size for segment in self.segments)

    @property
    def has_log(self) -> bool:
        """Whether it has any segment, and not only empty ones that had data."""
        return bool(self.segments) and not self.is_emptied

    @property
    def is_named(self) -> bool:
        """Whether its folder has the name of a partition; ``orders-0.bak`` has not, and no coordinator lists it."""
        return self.place.topic is not None and self.place.partition is not None

    @property
    def is_emptied(self) -> bool:
        """Whether all its segments are empty, although a broker that was shut down cleanly had flushed more.

        At a clean shutdown the recovery point is the log end, and the last snapshot is there.
        """
        has_data = any(segment.size for segment in self.segments)
        if not self.segments or has_data or not self.log_dir.clean_shutdown:
            return False
        flushed = max(self.checkpoint(RECOVERY_POINT) or 0, *self.snapshots, 0)
        return flushed > (self.segments[-1].base_offset or 0)

    @property
    def log_place(self) -> LogPlace:
        """Where it is, and whether its log is there."""
        (broker_id, _, topic, number), log_dir = self.place, self.log_dir
        return LogPlace(log_dir.cluster_id, broker_id, log_dir.path, log_dir.directory_id, topic, number, self.has_log)

    @property
    def lost_end(self) -> int:
        """Offset that the log had reached at least, by checkpoints and file names; 0 if none shows that it had data."""
        checkpoints = (self.checkpoint(name) or 0 for name in (HIGH_WATERMARK, RECOVERY_POINT, LOG_START, CLEANER))
        return max(0, *checkpoints, *self.snapshots, *self.indexes, *self.time_indexes, *self.transaction_indexes)

    @cached_property  # every chunk of the log asks for it
    def newest_mtime_ms(self) -> int | None:
        """Modification time of the newest of its segments, transaction indexes and snapshots.

        If the log is missing, that of the newest of its other files.
        """
        files = (*self.segments, *self.transaction_indexes.values(), *self.snapshots.values())
        if not self.segments:
            others = (*self.indexes.values(), *self.time_indexes.values(), *self.others)
            files = (*files, *others, *([self.leader_epochs] if self.leader_epochs else ()))
        return max((file.mtime_ms for file in files if file.mtime_ms is not None), default=None)

    @property
    def appended_ms(self) -> int | None:
        """Modification time of the newest of its segments: of the last append or truncation; None if unknown."""
        return max((file.mtime_ms for file in self.segments if file.mtime_ms is not None), default=None)

    @property
    def copied_ms(self) -> int | None:
        """The newest modification time of its files and of the checkpoints beside it; None if there is none."""
        times = (self.newest_mtime_ms, self.log_dir.written_ms)
        return max((time for time in times if time is not None), default=None)

    @property
    def taken_ms(self) -> int | None:
        """When it was copied from a running or crashed broker; None if that is unknown.

        After a clean shutdown the log does not change any more, so the time of the copy does not matter.
        """
        written = None if self.log_dir.clean_shutdown else self.log_dir.written_ms
        return written if written is None else max(written, self.newest_mtime_ms or written)

    def checkpoint(self, name: str) -> int | None:
        """Return the partition's offset in a checkpoint file of the log directory, None if it has none there."""
        topic, partition = self.place.topic, self.place.partition
        if topic is None or partition is None:
            return None
        return self.log_dir.checkpoints.get(name, {}).get((topic, partition))

    @property
    def cleaned_to(self) -> int | None:
        """Offset that the cleaner of its broker has reached, None if its checkpoint does not list this log.

        A cleaner does not touch the active segment, so an entry beyond the start of that is of a log that was deleted,
        or has lost its end. Rule: ``LogCleanerManager.cleanableOffsets``.
        """
        dirty = self.checkpoint(CLEANER)
        if dirty is None or not self.segments or dirty > (self.segments[-1].base_offset or 0):
            return None
        return None if is_recreated(self) else dirty

    @property
    def first_offset(self) -> int:
        """Base offset of the first segment, 0 if there is none."""
        return self.segments[0].base_offset or 0 if self.segments else 0


def partitions_of(files: Iterable[FoundFile]) -> list[Partition]:
    """Return the partitions among some files that have a live log or have lost it, by log directory, topic and number.

    Args:
        files: discovered files, including those of the log directories themselves.
    """
    by_folder: dict[str, list[FoundFile]] = {}
    by_log_dir: dict[str | None, list[FoundFile]] = {}
    for file in files:
        if file.topic is None and file.kind in ROOT_FILES.values():
            by_log_dir.setdefault(file.log_dir, []).append(file)
        else:
            by_folder.setdefault(folder_of(file), []).append(file)
    unlisted = {members[0].log_dir for members in by_folder.values()} - set(by_log_dir)
    by_log_dir |= {path: list(root_files(path)) for path in unlisted if path is not None}
    log_dirs = _with_others({path: log_dir_of(path, members) for path, members in by_log_dir.items()})
    in_folders = (_partition(folder, members, log_dirs) for folder, members in by_folder.items())
    partitions = [_as_read(_with_moved_entry(partition, log_dirs.values())) for partition in in_folders]
    with_log = [partition for partition in partitions if partition.has_log]
    found = [*with_log, *_without_data(partition for partition in partitions if not partition.has_log)]
    moved = moved_away([partition.log_place for partition in found])
    return sorted(
        (partition for number, partition in enumerate(found) if number not in moved),
        key=lambda partition: partition_sort_key(partition.place, partition.folder),
    )


def _with_others(log_dirs: Mapping[str | None, LogDir]) -> dict[str | None, LogDir]:
    """Return log directories with the other ones of their brokers, but not with those of other copies of these."""
    brokers: dict[tuple[str, int], list[LogDir]] = {}
    for each in log_dirs.values():
        if each.path is not None and each.cluster_id is not None and each.broker_id is not None:
            brokers.setdefault((each.cluster_id, each.broker_id), []).append(each)
    several = [of_broker for of_broker in brokers.values() if len(of_broker) > 1]
    if not several:
        return dict(log_dirs)
    from kforensics.forensics.partition.cluster_copies import copies_by_names  # most brokers have one log directory

    found = dict(log_dirs)
    for of_broker in several:
        copies = copies_by_names({each.path or "": (each.broker_id, each.directory_id) for each in of_broker})
        alone = [replace(each, checkpoints={}, damaged={}, written={}, forbidden={}) for each in of_broker]
        for each in of_broker:
            copy = copies.get(each.path or "")
            others = (other for other in alone if other.path != each.path and copies.get(other.path or "") == copy)
            found[each.path] = replace(each, beside=tuple(others))
    return found


def forbidden_sidecars(files: Iterable[FoundFile]) -> Iterator[InputForbiddenError]:
    """Yield the error of each index, snapshot and checkpoint that this user may not read.

    A log that may not be read is an error of its partition, and metadata files are errors of the discovery.
    """
    for file in files:
        if file.kind in SIDECAR_KINDS and (error := forbidden(file.path)):
            yield error


def _without_data(partitions: Iterable[Partition]) -> Iterator[Partition]:
    """Yield the partitions that once had data and whose live folder has no ``.log`` file any more, or an empty one.

    The checkpoints of a topic that was deleted and created again may still be those of the deleted one.
    """
    for partition in partitions:
        name, log_dir = parse_folder_name(file_name(partition.folder)), partition.log_dir
        if partition.place.topic is None or name is None or name.state != LIVE or not partition.lost_end:
            continue
        if partition.is_emptied:  # a clean shutdown writes all checkpoints
            yield partition
            continue
        checked = replace(partition, log_dir=replace(log_dir, checkpoints={})) if is_recreated(partition) else partition
        if checked.lost_end and not lists_log(partition.folder):
            yield checked


def is_recreated(partition: Partition) -> bool:
    """Return whether a folder beside a partition shows that a log of the same name was deleted shortly before.

    A broker keeps such a folder for ``file.delete.delay.ms``, a minute by default.
    """
    name = partition.place.topic, partition.place.partition
    return name in partitions_in(partition.log_dir.path, DELETED) if None not in name else False


def partition_sort_key(place: Place, folder: str) -> tuple[str, str, int, str]:
    """Return the key that sorts partitions by log directory, topic and number.

    Args:
        place: of a partition.
        folder: folder of its files.
    """
    return place.log_dir or "", place.topic or "", -1 if place.partition is None else place.partition, folder


def folder_of(file: FoundFile) -> str:
    """Return the path of the folder of a file."""
    return file.path.removesuffix(file_name(file.path)).rstrip("/") or "."


def _partition(folder: str, files: list[FoundFile], log_dirs: Mapping[str | None, LogDir]) -> Partition:
    first = files[0]
    live = [file for file in files if file.state == "live"]

    def by_offset(kind: str) -> dict[int, FoundFile]:
        return {file.base_offset: file for file in live if file.kind == kind and file.base_offset is not None}

    known = ("log", "index", "timeindex", "txnindex", "snapshot", "leader-epoch-checkpoint", "partition-metadata")
    return Partition(
        place=Place(first.broker_id, first.log_dir, first.topic, first.partition),
        folder=folder,
        log_dir=log_dirs.get(first.log_dir) or LogDir(first.log_dir),
        segments=tuple(sorted(by_offset("log").values(), key=attrgetter("base_offset"))),
        indexes=by_offset("index"),
        time_indexes=by_offset("timeindex"),
        transaction_indexes=by_offset("txnindex"),
        snapshots=by_offset("snapshot"),
        leader_epochs=next((file for file in live if file.kind == "leader-epoch-checkpoint"), None),
        others=tuple(file for file in files if file.state != "live" or file.kind not in known),
        topic_id=first.topic_id,
        created_ms=next((file.mtime_ms for file in live if file.kind == "partition-metadata"), None),
        nested=first.folders,
    )


def _with_moved_entry(partition: Partition, log_dirs: Iterable[LogDir]) -> Partition:
    """Return a partition with its first dirty offset from the log directory that it was moved from, if it was."""
    log_dir, name = partition.log_dir, (partition.place.topic, partition.place.partition)
    dirty = first_dirty_elsewhere(partition.log_place, log_dir, log_dirs) if partition.has_log else None
    if dirty is None:
        return partition
    checkpoints = {**log_dir.checkpoints, CLEANER: {**log_dir.checkpoints[CLEANER], name: dirty}}
    return replace(partition, log_dir=replace(log_dir, checkpoints=checkpoints))


def _as_read(partition: Partition) -> Partition:
    """Return a partition without segments that only the copy has."""
    if partition.checkpoint(CLEANER) is not None or partition.place.topic in ALWAYS_COMPACTED:
        return without_superseded(partition)
    partition = without_earlier(partition)
    if partition.log_dir.clean_shutdown:
        return partition
    return without_deleted(partition, partition.checkpoint(LOG_START))
