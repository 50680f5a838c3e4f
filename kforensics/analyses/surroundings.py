"""Finds what lies around the files that a user named: the rest of their log directories, and the cluster's logs.

A partition folder alone shows neither when it was copied nor what its coordinators decided. Its log directory does, and
so do the log directories of the same cluster in the folder above it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from kforensics.errors import InputError
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.parsers.files.discover import UNKNOWN, FoundFile, discover
from kforensics.parsers.files.folders import Entry, Folders, folders_of
from kforensics.parsers.files.input_paths import INSIDE
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
    "neighbors_of",
    "newest_among",
    "newest_around",
    "newest_file",
    "partitions_around",
]

# Topics whose logs show what happened to transactions and groups in other partitions, and how a cluster is configured,
# and what is in remote storage.
CONTEXT_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS, METADATA_TOPIC, REMOTE_LOG_METADATA)
# Those that show it to other brokers, too.
SETTING_TOPICS = (METADATA_TOPIC, TRANSACTION_STATE, REMOTE_LOG_METADATA)


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


def neighbors_of(log_dirs: Iterable[str | None], folders: Collection[str]) -> list[Partition]:
    """Return the partitions of CONTEXT_TOPICS in some log directories, and in others of the same cluster.

    Args:
        log_dirs: the log directories; None is ignored.
        folders: the folders of the partitions that are known already.
    """
    own = {log_dir for log_dir in log_dirs if log_dir is not None}
    around = (folder for log_dir in (*own, *_same_clusters(own)) for folder in _live_folders(log_dir, CONTEXT_TOPICS))
    return partitions_of(_files_in(around, folders))


def partitions_around(log_dirs: Iterable[str | None], folders: Collection[str]) -> Iterator[Partition]:
    """Yield the partitions around some others that may show the settings of their brokers.

    They are all other partitions in the same log directories, and in others of the same cluster the metadata log, the
    logs of transaction coordinators, and the metadata of remote storage.

    Args:
        log_dirs: the log directories; None is ignored.
        folders: the folders of the partitions that are known already.
    """
    own = {log_dir for log_dir in log_dirs if log_dir is not None}
    around = {folder for log_dir in own for folder in _live_folders(log_dir)}
    around |= {folder for other in _same_clusters(own) for folder in _live_folders(other, SETTING_TOPICS)}
    yield from partitions_of(_files_in(around, folders))


def _files_in(around: Iterable[str], known: Collection[str]) -> Iterator[FoundFile]:
    """Yield the files in partition folders, except in those that are known already."""
    paths = sorted(set(around) - {folder.rstrip("/") for folder in known})
    return (row for row in discover(paths) if isinstance(row, FoundFile))


def _is_under(path: str, parents: Iterable[str]) -> bool:
    parents = [parent.rstrip("/") for parent in parents]
    return any(path == parent or path.startswith((f"{parent}/", f"{parent}{INSIDE}")) for parent in parents)


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


def _same_clusters(log_dirs: Iterable[str]) -> set[str]:
    """Return the other log directories of the same clusters in the folders above some log directories.

    A folder that has a partition of the same broker again is another copy of it, from another time.
    """
    # The brokers of a cluster are each other's neighbors: their files are read once.
    properties_of, partitions_in = cache(_properties), cache(_partition_names)
    log_dirs, found = set(log_dirs), set[str]()
    own = {folders_of(log_dir).identity(log_dir) for log_dir in log_dirs}  # however they are spelled
    for log_dir in log_dirs:
        folders, properties = folders_of(log_dir), properties_of(log_dir)
        if properties is None or properties.cluster_id is None:
            continue
        for child in _children(folders, folders.parent(log_dir)):
            if not child.is_folder or child.path in log_dirs or folders.identity(child.path) in own:
                continue
            other = properties_of(child.path)
            if other is None or other.cluster_id != properties.cluster_id:
                continue
            if other.node_id != properties.node_id or partitions_in(log_dir).isdisjoint(partitions_in(child.path)):
                found.add(child.path)
    return found


def _partition_names(log_dir: str) -> frozenset[str]:
    children = _children(folders_of(log_dir), log_dir)
    return frozenset(child.name for child in children if child.is_folder and parse_folder_name(child.name))


def _properties(log_dir: str) -> MetaProperties | None:
    path = folders_of(log_dir).join(log_dir, "meta.properties")
    with suppress(InputError), open_source(path) as source:
        return meta_properties(read_meta_properties(source))
    return None
