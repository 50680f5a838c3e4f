"""Finds what lies under folders, files, globs and URIs, and to whom it belongs; says what it could not look into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kforensics.errors import InputError, InputMissingError
from kforensics.parsers.files.folders import Entry, Folders, folders_of
from kforensics.parsers.files.log_names import FolderName, parse_file_name, parse_folder_name
from kforensics.parsers.files.source import open_source

__all__ = ["FoundFile", "FoundFolder", "Unreadable", "as_named", "discover", "look_into", "outline"]

UNKNOWN = "unknown"
SEGMENT_SUFFIXES = ("log", "index", "timeindex", "txnindex", "snapshot", "checkpoint")
# Files that lie in a log directory and never in a partition's folder.
ROOT_KINDS = ("meta-properties", "clean-shutdown", "offset-checkpoint", "lock")


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A row of the table ``files``; what is not known is None."""

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


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that could not be looked into.

    Attributes:
        path: where.
        why: half a sentence that completes "cannot read <path>: …".
    """

    path: str
    why: str

    @classmethod
    def of(cls, error: InputError) -> Unreadable:
        """Return the row for an error."""
        return cls(error.path, error.why)


Found = FoundFile | Unreadable


def discover(paths: Iterable[str]) -> Iterator[Found]:
    """Yield every file under the paths once, folder by folder in the order of names.

    Args:
        paths: files, partition folders, log directories or folders above them, as paths, globs or URIs.
    """
    seen: set[str] = set()
    for path in paths:
        for row in _under(path, defers=False):
            if not isinstance(row, FoundFolder) and row.path not in seen:
                seen.add(row.path)
                yield row


def outline(paths: Iterable[str]) -> Iterator[Found | FoundFolder]:
    """Yield what :func:`discover` does, but in place of the partitions' folders in log directories the folders.

    A cluster has a hundred thousand of them, and whoever wants to know may look into each somewhere else. Nothing comes
    twice.
    """
    found: dict[str, Found | FoundFolder] = {}
    for path in paths:
        for row in _under(path, defers=True):
            found[row.path] = row
    folders = {path for path, row in found.items() if isinstance(row, FoundFolder)}
    for path, row in found.items():
        if path.rpartition("/")[0] not in folders:
            yield row


def look_into(folder: FoundFolder) -> Iterator[Found]:
    """Yield what :func:`discover` yields of a folder that was put off."""
    try:
        folders = folders_of(folder.path)
    except InputError as error:
        yield Unreadable.of(error)
        return
    for row in _Walk(folders, folder.above).inside(folder):
        if not isinstance(row, FoundFolder):
            yield row


def as_named(found: FoundFile) -> FoundFile:
    """Return a file that the user named himself as what its suffix says, whatever stands before the suffix.

    Under a folder the whole name must be one of Kafka's: ``server.log`` is no segment.
    """
    suffix = found.path.rpartition(".")[2]
    return replace(found, kind=suffix) if found.kind == UNKNOWN and suffix in SEGMENT_SUFFIXES else found


def _under(path: str, *, defers: bool) -> Iterator[Found | FoundFolder]:
    try:
        folders = folders_of(path, whole=not defers)
        entries = folders.expand(path)
    except InputError as error:
        yield Unreadable.of(error)
        return
    walk = _Walk(folders, defers=defers)
    for entry in entries:
        yield from walk.start(entry)


@dataclass(frozen=True, slots=True)
class Owner:
    """To whom the files of a folder belong.

    Attributes:
        broker_id: from ``meta.properties``.
        log_dir: the log directory.
        folder: topic and partition, as the folder's name tells.
        topic_id: from ``partition.metadata``.
    """

    broker_id: int | None = None
    log_dir: str | None = None
    folder: FolderName | None = None
    topic_id: str | None = None


@dataclass(frozen=True, slots=True)
class FoundFolder:
    """A folder in a log directory that by its name is a partition's, not looked into.

    Attributes:
        entry: the folder.
        owner: of the log directory.
        above: identities of the folders it is in, for links may lead back up.
    """

    entry: Entry
    owner: Owner
    above: frozenset[object]

    @property
    def path(self) -> str:
        """Its path."""
        return self.entry.path


class _Walk:
    """Goes down from one path; remembers the folders it is in, for links may lead back up."""

    def __init__(self, folders: Folders, above: Iterable[object] = (), *, defers: bool = False) -> None:
        self._folders, self._open, self._defers = folders, set(above), defers

    def inside(self, folder: FoundFolder) -> Iterator[Found | FoundFolder]:
        """Yield what lies in a folder that was put off."""
        yield from self._any(folder.entry, folder.owner)

    def start(self, entry: Entry) -> Iterator[Found | FoundFolder]:
        """Yield what lies at and under a path that the caller named."""
        if entry.why is not None or entry.is_folder:
            yield from self._any(entry, Owner())
            return
        above = self._folders.parent(entry.path)
        try:
            beside = self._folders.children(above)
        except InputError:
            beside = [entry]  # a folder may forbid listing and still let its files be read
        place, notes = self._place(above, beside, Owner())
        yield from (note for note in notes if note.path != entry.path)
        yield _file(entry, place)

    def _any(self, entry: Entry, place: Owner) -> Iterator[Found | FoundFolder]:
        if entry.why is not None:
            yield Unreadable(entry.path, entry.why)
        elif entry.is_folder and self._defers and place.log_dir is not None and parse_folder_name(entry.name):
            yield FoundFolder(entry, place, frozenset(self._open))
        elif entry.is_folder:
            yield from self._folder(entry, place)
        else:
            yield _file(entry, place)

    def _folder(self, entry: Entry, above: Owner) -> Iterator[Found | FoundFolder]:
        identity = self._folders.identity(entry.path)
        if identity in self._open:
            yield Unreadable(entry.path, "it is a link to a folder above it")
            return
        try:
            children = self._folders.children(entry.path)
        except InputError as error:
            yield Unreadable.of(error)
            return
        place, notes = self._place(entry.path, children, above)
        yield from notes
        self._open.add(identity)
        for child in children:
            yield from self._any(child, place)
        self._open.discard(identity)

    def _place(self, path: str, children: list[Entry], above: Owner) -> tuple[Owner, list[Unreadable]]:
        """Return to whom the files directly in a folder belong, and what could not be read to find out."""
        notes: list[Unreadable] = []
        folder = _partition_folder(self._folders.name(path), children)
        if folder is None:
            if not _is_log_dir(children):
                return above, notes
            return Owner(self._broker_id(path, notes), path), notes
        if above.log_dir is None:
            log_dir = self._folders.parent(path)
            above = Owner(self._broker_id(log_dir, notes), log_dir)
        return Owner(above.broker_id, above.log_dir, folder, self._topic_id(path, notes)), notes

    def _topic_id(self, folder: str, notes: list[Unreadable]) -> str | None:
        path = self._folders.join(folder, "partition.metadata")
        try:
            with open_source(path) as source:
                from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata

                rows = list(read_partition_metadata(source))
        except InputMissingError:
            return None
        except InputError as error:
            notes.append(Unreadable.of(error))
            return None
        return next((row.topic_id for row in rows if isinstance(row, PartitionMetadata)), None)

    def _broker_id(self, log_dir: str, notes: list[Unreadable]) -> int | None:
        path = self._folders.join(log_dir, "meta.properties")
        try:
            with open_source(path) as source:
                from kforensics.parsers.files.meta_properties import meta_properties, read_meta_properties

                return meta_properties(read_meta_properties(source)).node_id
        except InputMissingError:
            return None
        except InputError as error:
            notes.append(Unreadable.of(error))
            return None


def _partition_folder(name: str, children: list[Entry]) -> FolderName | None:
    """Return what the folder's name says, None if it holds what no partition does: ``broker-1`` may be anything."""
    if _is_log_dir(children) or any(child.is_folder for child in children):
        return None
    return parse_folder_name(name)


def _is_log_dir(children: list[Entry]) -> bool:
    names = [parse_file_name(child.name) for child in children]
    return any(name is not None and name.kind in ROOT_KINDS for name in names)


def _file(entry: Entry, place: Owner) -> FoundFile:
    name, folder = parse_file_name(entry.name), place.folder
    state = name.state if name else "live"
    return FoundFile(
        path=entry.path,
        kind=name.kind if name else UNKNOWN,
        size=entry.size,
        broker_id=place.broker_id,
        log_dir=place.log_dir,
        topic=folder.topic if folder else None,
        partition=folder.partition if folder else None,
        base_offset=name.base_offset if name else None,
        mtime_ms=entry.mtime_ms,
        state=folder.state if folder and state == "live" else state,
        topic_id=place.topic_id,
    )
