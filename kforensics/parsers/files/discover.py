"""Finds Kafka's files under paths, globs and URIs, and the broker, log directory, topic and partition they belong to.

What cannot be read is reported as :class:`Unreadable`, never skipped silently.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from kforensics.errors import InputError, InputMissingError
from kforensics.parsers.files.folders import Entry, Folders, folders_of
from kforensics.parsers.files.input_paths import is_named
from kforensics.parsers.files.log_names import FolderName, parse_file_name, parse_folder_name
from kforensics.parsers.files.source import LocalSource, RemoteSource, open_source

__all__ = [
    "DeferredFolder",
    "FoundFile",
    "Notify",
    "Unreadable",
    "classified_by_suffix",
    "discover",
    "discover_folder",
    "discover_lazily",
    "find_files",
]

# Takes a sentence for the user.
Notify: TypeAlias = Callable[[str], None]
UNKNOWN = "unknown"
SEGMENT_SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint")
# Files that only the folder of a partition contains.
PARTITION_KINDS = (
    *("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint"),
    *("leader-epoch-checkpoint", "partition-metadata"),
)
# Files that only a log directory contains, never the folder of a partition.
ROOT_KINDS = ("meta-properties", "clean-shutdown", "offset-checkpoint", "lock")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A row of the table ``files``; an unknown value is None.

    ``folders`` is no column: the names of the folders beside it, if it is in the folder of a partition.
    """

    path: str
    kind: str
    size: int
    broker_id: int | None = None
    log_dir: str | None = None
    topic: str | None = None
    partition: int | None = None
    base_offset: int | None = None
    mtime_ms: int | None = None
    state: str = "live"
    topic_id: str | None = None
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A path that could not be read.

    Attributes:
        path: the path.
        why: the reason, to complete "cannot read <path>: …".
    """

    path: str
    why: str

    @classmethod
    def of(cls, error: InputError) -> Unreadable:
        """Return the row for an error."""
        return cls(error.path, error.why)


DiscoveryRow = FoundFile | Unreadable


def discover(paths: Iterable[str]) -> Iterator[DiscoveryRow]:
    """Yield every file under the paths once, folder by folder in name order.

    Args:
        paths: files, partition folders, log directories or any parent folders, as paths, globs or URIs.
    """
    paths, seen = list(paths), set[str | Unreadable]()
    # A single folder has every file once, so that the paths of its millions of files need not be kept.
    is_one = len(paths) == 1 and not glob.has_magic(paths[0])
    read: dict[object, str] = {}
    for path in paths:
        for row in _under(path, read, defers=False):
            if isinstance(row, DeferredFolder) or _key(row) in seen:
                continue
            if not is_one or isinstance(row, Unreadable):
                seen.add(_key(row))
            yield row


def find_files(paths: Sequence[str], notify: Notify) -> tuple[list[FoundFile], int]:
    """Return the files under the paths, and how many paths cannot be read.

    Args:
        paths: files, folders, archives, globs or URIs.
        notify: takes a sentence for each path that cannot be read.
    """
    files: list[FoundFile] = []
    unreadable = 0
    for row in discover(paths):
        if isinstance(row, Unreadable):
            notify(f"cannot read {row.path}: {row.why}")
            unreadable += 1
        else:
            files.append(classified_by_suffix(row) if is_named(row.path, paths) else row)
    return files, unreadable


def discover_lazily(paths: Iterable[str]) -> Iterator[DiscoveryRow | DeferredFolder]:
    """Yield what :func:`discover` yields, with a :class:`DeferredFolder` in place of each partition folder's files.

    A cluster can have a hundred thousand partition folders; callers may list them elsewhere, in parallel. Nothing is
    yielded twice.
    """
    rows: dict[str | Unreadable, DiscoveryRow | DeferredFolder] = {}
    read: dict[object, str] = {}
    for path in paths:
        for row in _under(path, read, defers=True):
            rows[_key(row)] = row
    folders = {row.path for row in rows.values() if isinstance(row, DeferredFolder)}
    for row in rows.values():
        if row.path.rpartition("/")[0] not in folders:
            yield row


def _key(row: DiscoveryRow | DeferredFolder) -> str | Unreadable:
    """Return what a row is known by: an archive may have a file, and a part of it that cannot be read."""
    return row if isinstance(row, Unreadable) else row.path


def discover_folder(folder: DeferredFolder) -> Iterator[DiscoveryRow]:
    """Yield what :func:`discover` yields for a deferred folder."""
    try:
        folders = folders_of(folder.path)
    except InputError as error:
        yield Unreadable.of(error)
        return
    for row in _Walk(folders, folder.ancestors).inside(folder):
        if not isinstance(row, DeferredFolder):
            yield row


def classified_by_suffix(file: FoundFile) -> FoundFile:
    """Return a file that the user named explicitly with the kind of its suffix, whatever precedes the suffix.

    In a folder, only files with a complete Kafka name are classified: ``server.log`` is not a segment.
    """
    suffix = file.path.rpartition(".")[2]
    return replace(file, kind=suffix) if file.kind == UNKNOWN and suffix in SEGMENT_SUFFIXES else file


def open_found(file: FoundFile) -> LocalSource | RemoteSource:
    """Open a file of a log, which only grows while it is read.

    Raises:
        InputError: it cannot be read, or has shrunk since it was listed: what was read of it does not fit the rest.
    """
    source = open_source(file.path)
    if source.size < file.size:
        source.close()
        raise shrunk(file.path)
    return source


def shrunk(path: str) -> InputError:
    """Return the error of a log that shrank while it was read."""
    return InputError(path, "it shrank while it was being read; run the command again, or on a copy")


def _under(path: str, read: dict[object, str], *, defers: bool) -> Iterator[DiscoveryRow | DeferredFolder]:
    try:
        folders = folders_of(path, whole=not defers)
        entries = folders.expand(path)
    except InputError as error:
        yield Unreadable.of(error)
        return
    walk = _Walk(folders, read=read, defers=defers)
    for entry in entries:
        yield from walk.start(entry)


@dataclass(frozen=True, slots=True)
class Owner:
    """The broker, log directory and partition that the files of a folder belong to.

    Attributes:
        broker_id: from ``meta.properties``.
        log_dir: the log directory.
        folder: topic and partition, from the folder name.
        topic_id: from ``partition.metadata``.
        folders: names of the folders in that of the partition.
        is_nested: whether this is a folder inside that of a partition, which no broker reads.
    """

    broker_id: int | None = None
    log_dir: str | None = None
    folder: FolderName | None = None
    topic_id: str | None = None
    folders: tuple[str, ...] = ()
    is_nested: bool = False


NESTED = Owner(is_nested=True)


@dataclass(frozen=True, slots=True)
class DeferredFolder:
    """A folder in a log directory that has the name of a partition and was not listed.

    Attributes:
        entry: the folder.
        owner: owner of the log directory.
        ancestors: identities of its parent folders, to detect links that lead back up.
    """

    entry: Entry
    owner: Owner
    ancestors: frozenset[object]

    @property
    def path(self) -> str:
        """Path of the folder."""
        return self.entry.path


class _Walk:
    """Walks down from a path; keeps the identities of the open folders to detect links that lead back up.

    Args:
        folders: lists folders.
        ancestors: identities of the open folders.
        read: paths of the log directories so far by their identities: of one that has a second path, as by a link such
            as ``data -> data-v2``, only the first is read.
        defers: whether to yield a :class:`DeferredFolder` in place of the files of a partition folder.
    """

    def __init__(
        self,
        folders: Folders,
        ancestors: Iterable[object] = (),
        *,
        read: dict[object, str] | None = None,
        defers: bool = False,
    ) -> None:
        self._folders, self._open, self._defers = folders, set(ancestors), defers
        self._read = {} if read is None else read

    def inside(self, folder: DeferredFolder) -> Iterator[DiscoveryRow | DeferredFolder]:
        """Yield the rows of a deferred folder."""
        yield from self._visit(folder.entry, folder.owner)

    def start(self, entry: Entry) -> Iterator[DiscoveryRow | DeferredFolder]:
        """Yield the rows at and under a path that the caller named."""
        if entry.why is not None or entry.is_folder:
            yield from self._visit(entry, Owner())
            return
        parent = self._folders.parent(entry.path)
        try:
            siblings = self._folders.children(parent)
        except InputError:
            siblings = [entry]  # a folder may deny listing and still allow its files to be read
        owner, unreadable = self._owner(parent, siblings, Owner())
        yield from (row for row in unreadable if row.path != entry.path)
        yield _file(entry, owner)

    def _visit(self, entry: Entry, owner: Owner) -> Iterator[DiscoveryRow | DeferredFolder]:
        if entry.why is not None:
            yield Unreadable(entry.path, entry.why)
        elif entry.is_folder and self._defers and owner.log_dir is not None and parse_folder_name(entry.name):
            yield DeferredFolder(entry, owner, frozenset(self._open))
        elif entry.is_folder:
            yield from self._folder(entry, owner)
        else:
            yield _file(entry, owner)

    def _folder(self, entry: Entry, parent_owner: Owner) -> Iterator[DiscoveryRow | DeferredFolder]:
        identity = self._folders.identity(entry.path)
        if identity in self._open:
            yield Unreadable(entry.path, "it is a link to one of its parent folders")
            return
        try:
            children = self._folders.children(entry.path)
        except InputError as error:
            yield Unreadable.of(error)
            return
        if _is_log_dir(children) and self._read.setdefault(identity, entry.path) != entry.path:
            return
        owner, unreadable = self._owner(entry.path, children, parent_owner)
        yield from unreadable
        self._open.add(identity)
        for child in children:
            yield from self._visit(child, NESTED if child.is_folder and owner.folder else owner)
        self._open.discard(identity)

    def _owner(self, path: str, children: list[Entry], parent_owner: Owner) -> tuple[Owner, list[Unreadable]]:
        """Return the owner of the files directly in a folder, and the metadata files that could not be read."""
        unreadable: list[Unreadable] = []
        if parent_owner.is_nested:
            return parent_owner, unreadable
        folder = _partition_folder(self._folders.name(path), children)
        if folder is None:
            if not _is_log_dir(children):
                return parent_owner, unreadable
            return Owner(self._broker_id(path, unreadable), path), unreadable
        if parent_owner.log_dir is None:
            log_dir = self._folders.parent(path)
            parent_owner = Owner(self._broker_id(log_dir, unreadable), log_dir)
        topic_id = self._topic_id(path, unreadable)
        folders = tuple(child.name for child in children if child.is_folder)
        return Owner(parent_owner.broker_id, parent_owner.log_dir, folder, topic_id, folders), unreadable

    def _topic_id(self, folder: str, unreadable: list[Unreadable]) -> str | None:
        path = self._folders.join(folder, "partition.metadata")
        try:
            with open_source(path) as source:
                from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata

                rows = list(read_partition_metadata(source))
        except InputMissingError:
            return None
        except InputError as error:
            unreadable.append(Unreadable.of(error))
            return None
        return next((row.topic_id for row in rows if isinstance(row, PartitionMetadata)), None)

    def _broker_id(self, log_dir: str, unreadable: list[Unreadable]) -> int | None:
        path = self._folders.join(log_dir, "meta.properties")
        try:
            with open_source(path) as source:
                from kforensics.parsers.files.meta_properties import meta_properties, read_meta_properties

                return meta_properties(read_meta_properties(source)).node_id
        except InputMissingError:
            return None
        except InputError as error:
            unreadable.append(Unreadable.of(error))
            return None


def _partition_folder(name: str, children: list[Entry]) -> FolderName | None:
    """Return topic and partition from a folder name; None if the content is not a partition's.

    The name alone is not enough: ``broker-1`` may be any folder. A folder with other folders in it is a partition's
    only if it has files that no other folder has.
    """
    if _is_log_dir(children) or (any(child.is_folder for child in children) and not _has(children, PARTITION_KINDS)):
        return None
    return parse_folder_name(name)


def _is_log_dir(children: list[Entry]) -> bool:
    return _has(children, ROOT_KINDS)


def _has(children: list[Entry], kinds: tuple[str, ...]) -> bool:
    """Return whether a folder has a file of one of some kinds."""
    names = [parse_file_name(child.name) for child in children if not child.is_folder]
    return any(name is not None and name.kind in kinds for name in names)


def _file(entry: Entry, owner: Owner) -> FoundFile:
    name, folder = parse_file_name(entry.name), owner.folder
    state = name.state if name else "live"
    return FoundFile(
        path=entry.path,
        kind=name.kind if name else UNKNOWN,
        size=entry.size,
        broker_id=owner.broker_id,
        log_dir=owner.log_dir,
        topic=folder.topic if folder else None,
        partition=folder.partition if folder else None,
        base_offset=name.base_offset if name else None,
        mtime_ms=entry.mtime_ms,
        state=folder.state if folder and state == "live" else state,
        topic_id=owner.topic_id,
        folders=owner.folders,
    )
