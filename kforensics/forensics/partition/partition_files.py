"""The files of a partition, as they lie in one log directory of one broker."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter

from kforensics.errors import InputError, InputMissingError
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.meta_properties import meta_properties, read_meta_properties
from kforensics.parsers.files.source import file_name, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.state.text_checkpoint import OffsetCheckpointEntry, read_offset_checkpoint

__all__ = [
    "CLEANER",
    "HIGH_WATERMARK",
    "LOG_START",
    "RECOVERY_POINT",
    "LogDir",
    "Partition",
    "order_of",
    "partitions_of",
]

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"
CLEANER = "cleaner-offset-checkpoint"
ROOT_FILES = {
    **dict.fromkeys((RECOVERY_POINT, HIGH_WATERMARK, LOG_START, CLEANER), "offset-checkpoint"),
    ".kafka_cleanshutdown": "clean-shutdown",
    "meta.properties": "meta-properties",
}


@dataclass(frozen=True, slots=True)
class LogDir:
    """What the files of a log directory say of all its partitions.

    Attributes:
        path: the directory.
        checkpoints: by the name of a checkpoint file the offsets by topic and partition; a file that is not there, or
            that Kafka would refuse, has no entry.
        damaged: checkpoint files that cannot be read, or that Kafka would refuse, and why.
        clean_shutdown: whether the broker left the file that says so.
        cluster_id: from ``meta.properties``; None without that file, or if it names no cluster.
        written_ms: when the newest checkpoint was written; None without one. A broker that runs writes that of the high
            watermarks every five seconds, whatever happens (``ReplicaManager.checkpointHighWatermarks``).
    """

    path: str | None
    checkpoints: Mapping[str, Mapping[tuple[str, int], int]] = field(default_factory=dict)
    damaged: Mapping[str, str] = field(default_factory=dict)
    clean_shutdown: bool = False
    cluster_id: str | None = None
    written_ms: int | None = None


@dataclass(frozen=True, slots=True)
class Partition:
    """The live files of a partition.

    Attributes:
        place: broker, log directory, topic and partition, as far as they can be told.
        folder: where the files lie.
        log_dir: the log directory.
        segments: the ``.log`` files, by base offset.
        indexes: ``.index`` by base offset, as are the next two.
        time_indexes: ``.timeindex``.
        transaction_indexes: ``.txnindex``.
        snapshots: ``.snapshot`` by offset.
        leader_epochs: ``leader-epoch-checkpoint``, None if there is none.
        others: files of another state (``deleted``, ``cleaned``, ``swap``, …) and kind.
        topic_id: from ``partition.metadata``.
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

    @property
    def name(self) -> str:
        """Topic and partition as Kafka's tools write them, the folder where they are not known."""
        topic, partition = self.place.topic, self.place.partition
        return f"{topic}-{partition}" if topic is not None and partition is not None else self.folder

    @property
    def size(self) -> int:
        """Bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def newest_mtime_ms(self) -> int | None:
        """When the newest of its files was last written to."""
        files = (*self.segments, *self.transaction_indexes.values(), *self.snapshots.values())
        return max((found.mtime_ms for found in files if found.mtime_ms is not None), default=None)

    @property
    def taken_ms(self) -> int | None:
        """When it was copied from a broker that was running, or crashed; None where that cannot be told.

        Where the broker had been stopped in order nothing has come since, whenever it was copied.
        """
        written = None if self.log_dir.clean_shutdown else self.log_dir.written_ms
        return written if written is None else max(written, self.newest_mtime_ms or written)

    def checkpoint(self, name: str) -> int | None:
        """Return the partition's offset in a checkpoint file of the log directory, None if it has none."""
        topic, partition = self.place.topic, self.place.partition
        if topic is None or partition is None:
            return None
        return self.log_dir.checkpoints.get(name, {}).get((topic, partition))

    @property
    def first_offset(self) -> int:
        """Base offset of the first segment, 0 if there is none."""
        return self.segments[0].base_offset or 0 if self.segments else 0


def partitions_of(files: Iterable[FoundFile]) -> list[Partition]:
    """Return the partitions that have a live log among the files, by log directory, topic and number.

    Args:
        files: as discovered, those of a log directory itself included.
    """
    by_folder: dict[str, list[FoundFile]] = {}
    roots: dict[str | None, list[FoundFile]] = {}
    for found in files:
        if found.topic is None and found.kind in ROOT_FILES.values():
            roots.setdefault(found.log_dir, []).append(found)
        else:
            by_folder.setdefault(_folder(found), []).append(found)
    named = {some[0].log_dir for some in by_folder.values()} - set(roots)
    roots |= {path: list(_beside(path)) for path in named if path is not None}
    log_dirs = {path: _log_dir(path, some) for path, some in roots.items()}
    found_in = (_partition(folder, some, log_dirs) for folder, some in by_folder.items())
    return sorted((one for one in found_in if one.segments), key=lambda one: order_of(one.place, one.folder))


def _beside(log_dir: str) -> Iterator[FoundFile]:
    """Yield the files of a log directory that speak of its partitions, where only a partition's folder was named."""
    folders = folders_of(log_dir)
    for name, kind in ROOT_FILES.items():
        found = _root_file(log_dir, folders.join(log_dir, name), kind)
        if found:
            yield found


def _root_file(log_dir: str, path: str, kind: str) -> FoundFile | None:
    try:
        with open_source(path) as source:
            return FoundFile(path, kind, source.size, log_dir=log_dir, mtime_ms=source.mtime_ms)
    except InputMissingError:
        return None
    except InputError:
        return FoundFile(path, kind, 0, log_dir=log_dir)  # reading it will fail again, and say why


def order_of(place: Place, folder: str) -> tuple[str, str, int, str]:
    """Return by what partitions are ordered: log directory, topic, number.

    Args:
        place: of a partition.
        folder: where its files lie.
    """
    return place.log_dir or "", place.topic or "", -1 if place.partition is None else place.partition, folder


def _folder(found: FoundFile) -> str:
    return found.path.removesuffix(file_name(found.path)).rstrip("/") or "."


def _partition(folder: str, files: list[FoundFile], log_dirs: Mapping[str | None, LogDir]) -> Partition:
    first = files[0]
    live = [found for found in files if found.state == "live"]

    def by_offset(kind: str) -> dict[int, FoundFile]:
        return {found.base_offset: found for found in live if found.kind == kind and found.base_offset is not None}

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
        leader_epochs=next((found for found in live if found.kind == "leader-epoch-checkpoint"), None),
        others=tuple(found for found in files if found.state != "live" or found.kind not in known),
        topic_id=first.topic_id,
    )


def _log_dir(path: str | None, files: list[FoundFile]) -> LogDir:
    checkpoints: dict[str, dict[tuple[str, int], int]] = {}
    damaged: dict[str, str] = {}
    for found in files:
        if found.kind != "offset-checkpoint" or found.state != "live":
            continue
        name = file_name(found.path)
        try:
            checkpoints[name] = _offsets(found)
        except (ValueError, InputError) as error:
            damaged[name] = str(error)
    clean = any(found.kind == "clean-shutdown" for found in files)
    return LogDir(path, checkpoints, damaged, clean, _cluster_id(files), _written(files))


def _written(files: Iterable[FoundFile]) -> int | None:
    checkpoints = (found for found in files if found.kind == "offset-checkpoint" and found.state == "live")
    return max((found.mtime_ms for found in checkpoints if found.mtime_ms is not None), default=None)


def _cluster_id(files: Iterable[FoundFile]) -> str | None:
    for found in files:
        if found.kind == "meta-properties":
            with suppress(InputError), open_source(found.path) as source:
                return meta_properties(read_meta_properties(source)).cluster_id
    return None


def _offsets(found: FoundFile) -> dict[tuple[str, int], int]:
    """Return the offsets in a checkpoint file.

    Raises:
        ValueError: Kafka would refuse the file.
    """
    with open_source(found.path) as source:
        rows = list(read_offset_checkpoint(source))
    faults = [row.detail for row in rows if isinstance(row, Damage)]
    if faults:
        raise ValueError(faults[0])
    entries = (row for row in rows if isinstance(row, OffsetCheckpointEntry))
    return {(entry.topic, entry.partition): entry.offset for entry in entries}
