"""Finds what lies around the files that a user named: the rest of their log directories, and the cluster's logs.

A partition folder alone shows neither when it was copied nor what its coordinators decided. Its log directory does, and
so do the log directories of the same cluster in the folder above it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple

from kforensics.errors import InputError
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.parsers.files.discover import UNKNOWN, FoundFile, discover
from kforensics.parsers.files.folders import Entry, Folders, folders_of
from kforensics.parsers.files.log_names import (
    CONSUMER_OFFSETS,
    METADATA_TOPIC,
    REMOTE_LOG_METADATA,
    TRANSACTION_STATE,
    parse_file_name,
    parse_folder_name,
)
from kforensics.parsers.files.meta_properties import MetaProperties, meta_properties, read_meta_properties
from kforensics.parsers.files.source import open_source

__all__ = [
    "CONTEXT_TOPICS",
    "FileTime",
    "neighbours_of",
    "newest_among",
    "newest_around",
    "newest_file",
    "partitions_around",
]

# Topics whose logs show what happened to transactions and groups in other partitions, and how a cluster is configured,
# and what is in remote storage.
CONTEXT_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS, METADATA_TOPIC, REMOTE_LOG_METADATA)


class FileTime(NamedTuple):
    """When a file was last modified.

    Attributes:
        mtime_ms: modification time in ms.
        path: the file.
    """

    mtime_ms: int
    path: str


def newest_file(files: Iterable[FoundFile], paths: Sequence[str]) -> FileTime | None:
    """Return the newest file of some log directories, checkpoints included; None if no time is known.

    Args:
        files: all files under the paths.
        paths: what the user named; of a log directory that is only partly under them, all files count.
    """
    files = list(files)
    log_dirs = {file.log_dir for file in files}
    return max(filter(None, (newest_among(files), newest_around(log_dirs, paths))), default=None)


def newest_among(files: Iterable[FoundFile]) -> FileTime | None:
    """Return the newest of Kafka's files among some files; None if no time is known."""
    times = ((file.mtime_ms, file.path) for file in files if file.kind != UNKNOWN)
    return max((FileTime(mtime_ms, path) for mtime_ms, path in times if mtime_ms is not None), default=None)


def newest_around(log_dirs: Iterable[str | None], paths: Sequence[str]) -> FileTime | None:
    """Return the newest file of the log directories that are only partly under the paths; None if there are none."""
    partly = {log_dir for log_dir in log_dirs if log_dir is not None and not _is_under(log_dir, paths)}
    return max((time for log_dir in partly for time in _file_times(log_dir)), default=None)


def neighbours_of(files: Sequence[FoundFile]) -> list[Partition]:
    """Return the partitions of CONTEXT_TOPICS in the log directories of some files, and in those of the same cluster.

    Args:
        files: all files under the paths of a user; what is among them is not returned.
    """
    known = {file.path for file in files}
    log_dirs = {file.log_dir for file in files if file.log_dir is not None}
    around = log_dirs.union(*(_same_cluster(log_dir) for log_dir in log_dirs))
    folders = sorted(folder for log_dir in around for folder in _live_folders(log_dir, CONTEXT_TOPICS))
    found = (row for row in discover(folders) if isinstance(row, FoundFile) and row.path not in known)
    return partitions_of(found)


def partitions_around(log_dirs: Iterable[str | None], folders: Collection[str]) -> Iterator[Partition]:
    """Yield the partitions around some others that may show the settings of their brokers.

    They are all other partitions in the same log directories, and in others of the same cluster the metadata log and
    the logs of transaction coordinators.

    Args:
        log_dirs: the log directories; None is ignored.
        folders: the folders of the partitions that are known already.
    """
    own = {log_dir for log_dir in log_dirs if log_dir is not None}
    known = {folder.rstrip("/") for folder in folders}
    others = set().union(*map(_same_cluster, own)) - own
    around = {folder for log_dir in own for folder in _live_folders(log_dir)}
    around |= {folder for log_dir in others for folder in _live_folders(log_dir, (METADATA_TOPIC, TRANSACTION_STATE))}
    found = (row for row in discover(sorted(around - known)) if isinstance(row, FoundFile))
    yield from partitions_of(found)


def _is_under(path: str, parents: Iterable[str]) -> bool:
    return any(path == parent.rstrip("/") or path.startswith(f"{parent.rstrip('/')}/") for parent in parents)


def _file_times(log_dir: str) -> Iterator[FileTime]:
    """Yield the times of Kafka's files in a log directory, and in the partition folders in it."""
    folders = folders_of(log_dir, whole=True)
    children = _children(folders, log_dir)
    yield from _times_of(children)
    for child in children:
        if child.is_folder and parse_folder_name(child.name):
            yield from _times_of(_children(folders, child.path))


def _times_of(entries: Iterable[Entry]) -> Iterator[FileTime]:
    for entry in entries:
        if not entry.is_folder and entry.mtime_ms is not None and parse_file_name(entry.name):
            yield FileTime(entry.mtime_ms, entry.path)


def _children(folders: Folders, path: str) -> list[Entry]:
    """Return the entries of a folder; none if it cannot be listed, because the user did not name it."""
    try:
        return folders.children(path)
    except InputError:
        return []


def _live_folders(log_dir: str, topics: Sequence[str] = ()) -> Iterator[str]:
    """Yield the folders of partitions in a log directory; of some topics, or of all if there are none."""
    for child in _children(folders_of(log_dir), log_dir):
        name = parse_folder_name(child.name) if child.is_folder else None
        if name is not None and name.state == "live" and (not topics or name.topic in topics):
            yield child.path


def _same_cluster(log_dir: str) -> Iterator[str]:
    """Yield the other log directories of the same cluster in the folder above a log directory.

    A folder that has a partition of the same broker again is another copy of it, from another time.
    """
    folders = folders_of(log_dir)
    properties = _properties(folders, log_dir)
    if properties is None or properties.cluster_id is None:
        return
    partitions = _partition_names(folders, log_dir)
    for child in _children(folders, folders.parent(log_dir)):
        if not child.is_folder or folders.identity(child.path) == folders.identity(log_dir):
            continue
        other = _properties(folders, child.path)
        if other is None or other.cluster_id != properties.cluster_id:
            continue
        if other.node_id != properties.node_id or partitions.isdisjoint(_partition_names(folders, child.path)):
            yield child.path


def _partition_names(folders: Folders, log_dir: str) -> set[str]:
    children = _children(folders, log_dir)
    return {child.name for child in children if child.is_folder and parse_folder_name(child.name)}


def _properties(folders: Folders, log_dir: str) -> MetaProperties | None:
    with suppress(InputError), open_source(folders.join(log_dir, "meta.properties")) as source:
        return meta_properties(read_meta_properties(source))
    return None
