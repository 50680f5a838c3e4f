"""A log directory as a broker finds it at its start: identity, marker, checkpoints and folders.

Rules: ``MetaPropertiesEnsemble``, ``LogManager.loadLogs`` and ``UnifiedLog.parseTopicPartitionName``. Kafka rejects a
whole checkpoint at its first fault, and takes a file of 0 bytes for one without entries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from kforensics.errors import InputMissingError
from kforensics.forensics.forecast.effects import ILLEGAL_STATE, IO, KAFKA, LoadRefusedError, unreadable_text
from kforensics.forensics.partition.partition_files import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.unused_metadata import metadata_unused_since
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.log_names import METADATA_TOPIC, FolderName, parse_folder_name
from kforensics.parsers.files.meta_properties import MetaProperties, meta_properties, read_meta_properties
from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import OffsetCheckpointEntry, read_offset_checkpoint

__all__ = [
    "SOME_COPIED",
    "LogDirectory",
    "PartitionFolder",
    "clash_of",
    "first_folder",
    "had_data",
    "has_log",
    "is_first_folder",
    "read_identity",
    "read_log_directories",
    "read_log_directory",
    "topic_id_in",
]

META, MARKER = "meta.properties", ".kafka_cleanshutdown"
# The order in which a start reads them; the first fault ends it.
CHECKPOINTS = (RECOVERY_POINT, LOG_START, CLEANER, HIGH_WATERMARK)
REMOTE_INDEX_CACHE = "remote-log-index-cache"
METADATA_FOLDER = f"{METADATA_TOPIC}-0"
NULL_POINTER = "java.lang.NullPointerException"
FILE_SYSTEM = "java.nio.file.FileSystemException"
UNNAMED = (
    "Found directory {0}/{1}, '{1}' is not in the form of topic-partition or topic-partition.uniqueId-delete (if marked"
    " for deletion)."
)
SOME_COPIED = "only some folders were copied"
Offsets = dict[tuple[str, int], int]


@dataclass(frozen=True, slots=True)
class PartitionFolder:
    """The folder of a partition.

    Attributes:
        path: the folder.
        name: its name, parsed.
        topic_id: from ``partition.metadata``; None without that file.
    """

    path: str
    name: FolderName
    topic_id: str | None


@dataclass(slots=True)
class LogDirectory:
    """A log directory.

    Attributes:
        path: the directory.
        meta: its identity; None without ``meta.properties``, and if the broker cannot read it.
        meta_fault: why the broker cannot read it.
        clean: whether it has the marker of a clean shutdown.
        checkpoints: offsets by file name.
        folders: the folders of partitions, without that of the metadata log.
        refusals: what ends the start, or takes the directory offline, in order.
        has_metadata: whether it has a copy of the metadata log that is in force.
        unused_since: since when its metadata log is not in force, in ms; None if it is, or if there is none.
        files: the names of its files, which no folder can be created over.
    """

    path: str
    meta: MetaProperties | None = None
    meta_fault: str | None = None
    clean: bool = False
    checkpoints: dict[str, Offsets] = field(default_factory=dict)
    folders: list[PartitionFolder] = field(default_factory=list)
    refusals: list[LoadRefusedError] = field(default_factory=list)
    has_metadata: bool = False
    unused_since: int | None = None
    files: frozenset[str] = frozenset()

    @property
    def has_only_metadata(self) -> bool:
        """Whether no broker has used it for logs: ``metadata.log.dir`` names it apart from ``log.dirs``.

        A broker writes checkpoints into each of its ``log.dirs``, a minute after its first start at the latest.
        """
        is_unused = not self.folders and not self.files & {*CHECKPOINTS, MARKER}
        return self.has_metadata and self.meta is not None and is_unused

    @property
    def left_out(self) -> frozenset[tuple[str, int]]:
        """Partitions whose folders were probably not copied, although its checkpoints show that they had data.

        They are several, and either most of the folders that the checkpoints list, or whole topics. A single folder
        that is missing among others may be lost.
        """
        offsets = (entries.items() for entries in self.checkpoints.values())
        listed = {partition for entries in offsets for partition, offset in entries if offset > 0}
        absent = listed - {(folder.name.topic, folder.name.partition) for folder in self.folders}
        if 2 * len(absent) <= len(listed):
            present = {folder.name.topic for folder in self.folders}
            absent = {(topic, partition) for topic, partition in absent if topic not in present}
        return frozenset(absent if len(absent) > 1 else ())

    def offset(self, checkpoint: str, name: FolderName) -> int:
        """Return the offset of a partition in a checkpoint, 0 without an entry."""
        return self.checkpoints.get(checkpoint, {}).get((name.topic, name.partition), 0)


def read_log_directory(path: str) -> LogDirectory:
    """Return what a broker finds in a log directory, before it loads the logs.

    Raises:
        InputError: it cannot be listed, or a file cannot be read.
    """
    directory, folders = LogDirectory(path), folders_of(path)
    try:
        is_folder = all(entry.is_folder for entry in folders.expand(path))
    except InputMissingError:
        return directory  # the broker makes an empty one
    if not is_folder:
        directory.refusals.append(LoadRefusedError(IO, f"{path} exists, and is no directory", path, is_storage=True))
        return directory
    children = {entry.name: entry for entry in folders.children(path)}
    if META in children:
        _read_meta(directory, children[META].path)
    directory.clean = MARKER in children
    directory.files = frozenset(name for name, entry in children.items() if not entry.is_folder)
    directory.has_metadata = METADATA_FOLDER in children
    for name in CHECKPOINTS:
        if name in children:
            _read_checkpoint(directory, name, children[name].path)
    for entry in children.values():
        if entry.is_folder and entry.name not in (METADATA_FOLDER, REMOTE_INDEX_CACHE):
            _add_folder(directory, entry)
    return directory


def read_log_directories(paths: Sequence[str]) -> list[LogDirectory]:
    """Return what a broker finds in its log directories, before it loads the logs.

    Args:
        paths: all of them.

    Raises:
        InputError: one cannot be listed, or a file cannot be read.
    """
    directories = [read_log_directory(path) for path in paths]
    for each in directories:
        if each.has_metadata and each.meta is not None:
            each.unused_since = metadata_unused_since(each.path, each.meta.has_zookeeper, paths)
            each.has_metadata = each.unused_since is None
    return directories


def had_data(directories: Iterable[LogDirectory], topic: str, partition: int) -> bool:
    """Return whether a checkpoint of the log directories shows that a partition had data."""
    checkpoints = (offsets for each in directories for offsets in each.checkpoints.values())
    return any(offsets.get((topic, partition), 0) > 0 for offsets in checkpoints)


def read_identity(path: str) -> MetaProperties | None:
    """Return the identity in ``meta.properties``, None if a broker cannot read it or it names no node.

    Raises:
        InputError: the log directory cannot be read.
    """
    directory = LogDirectory(path)
    if any(entry.name == META for entry in folders_of(path).children(path)):
        _read_meta(directory, f"{path}/{META}")
    meta = directory.meta
    return None if meta is None or meta.node_id is None else meta


def clash_of(
    directories: Iterable[LogDirectory], is_in_service: Callable[[PartitionFolder], bool]
) -> LoadRefusedError | None:
    """Return the refusal of two live folders of the same partition, or of a future one that cannot be renamed.

    Rule: ``LogManager.loadLog``.

    Args:
        directories: the log directories.
        is_in_service: whether a broker loads a live folder as the log of its partition.
    """
    folders = [(directory.path, folder) for directory in directories for folder in directory.folders]
    seen: dict[str, str] = {}
    for _, folder in folders:
        name = f"{folder.name.topic}-{folder.name.partition}"
        if folder.name.state != "live" or not is_in_service(folder):
            continue
        if name in seen:
            message = f"Duplicate log directories for {name} are found in both {seen[name]} and {folder.path}."
            return LoadRefusedError(ILLEGAL_STATE, message, folder.path)
        seen[name] = folder.path
    for log_dir, folder in folders:
        beside = f"{log_dir}/{folder.name.topic}-{folder.name.partition}"
        if folder.name.state == "future" and beside in seen.values():
            message = f"{folder.path} -> {beside}: Directory not empty"
            return LoadRefusedError(FILE_SYSTEM, message, folder.path, is_storage=True)
    return None


def _read_meta(directory: LogDirectory, path: str) -> None:
    with open_source(path) as source:
        rows = list(read_meta_properties(source))
    fault = next((row.detail for row in rows if isinstance(row, Damage)), None)
    meta = meta_properties(rows)
    if fault is None and meta.version > 0 and (meta.node_id is None or meta.cluster_id is None):
        fault = "Failed to find node.id" if meta.node_id is None else "cluster.id was not found."
    directory.meta, directory.meta_fault = (None, fault) if fault else (meta, None)


def _read_checkpoint(directory: LogDirectory, name: str, path: str) -> None:
    with open_source(path) as source:
        rows = list(read_offset_checkpoint(source))
    fault = next((row for row in rows if isinstance(row, Damage)), None)
    if fault is not None:
        directory.refusals.append(unreadable_text(path, fault))
        return
    entries = (row for row in rows if isinstance(row, OffsetCheckpointEntry))
    directory.checkpoints[name] = {(entry.topic, entry.partition): entry.offset for entry in entries}


def _add_folder(directory: LogDirectory, entry: Entry) -> None:
    name = parse_folder_name(entry.name)
    if name is None:
        message = UNNAMED.format(directory.path, entry.name)
        directory.refusals.append(LoadRefusedError(KAFKA, message, entry.path))
        return
    try:
        directory.folders.append(PartitionFolder(entry.path, name, topic_id_in(entry.path)))
    except LoadRefusedError as refused:
        directory.refusals.append(refused)


def topic_id_in(folder: str) -> str | None:
    """Return the topic id in a partition's folder, None without its file.

    Raises:
        LoadRefusedError: the broker cannot read the file.
    """
    children = {entry.name: entry for entry in folders_of(folder).children(folder)}
    if "partition.metadata" not in children:
        return None
    path = children["partition.metadata"].path
    with open_source(path) as source:
        rows = list(read_partition_metadata(source))
    for row in rows:
        if isinstance(row, PartitionMetadata):
            return row.topic_id
    fault = next((row for row in rows if isinstance(row, Damage)), None)
    if fault is None or fault.reason == "truncated":
        message = 'Cannot invoke "java.lang.CharSequence.length()" because "this.text" is null'
        raise LoadRefusedError(NULL_POINTER, message, path)
    raise unreadable_text(path, fault)


def is_first_folder(folder: str, log_dir: str) -> bool:
    """Return whether a folder has the findings on its log directory: that of the metadata, otherwise the first one."""
    return first_folder(log_dir) == folder.rstrip("/")


def first_folder(log_dir: str) -> str | None:
    """Return the folder of the metadata log in a log directory, otherwise the first of a log; None without one."""
    return _first_folder(log_dir, folders_of(log_dir).expand(log_dir)[0].mtime_ms)


@lru_cache(maxsize=64)
def _first_folder(log_dir: str, _mtime_ms: int | None) -> str | None:
    entries = [entry for entry in folders_of(log_dir).children(log_dir) if entry.is_folder]
    for entry in sorted(entries, key=lambda each: each.name != METADATA_FOLDER):
        name = parse_folder_name(entry.name)
        if name is not None and name.state == "live" and has_log(entry.path):
            return entry.path.rstrip("/")
    return None


def has_log(folder: str) -> bool:
    """Return whether a folder has a segment."""
    return any(entry.name.endswith(".log") for entry in folders_of(folder).children(folder))
