"""Finds what lies under folders, files, globs and URIs, and to whom it belongs; says what it could not look into."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kforensics.errors import InputError, InputMissingError
from kforensics.parsers.folders import Entry, Folders, folders_of
from kforensics.parsers.log_names import FolderName, parse_file_name, parse_folder_name
from kforensics.parsers.source import open_source

__all__ = ["FoundFile", "Unreadable", "discover"]

UNKNOWN = "unknown"
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
        for row in _under(path):
            if row.path not in seen:
                seen.add(row.path)
                yield row


def _under(path: str) -> Iterator[Found]:
    try:
        folders = folders_of(path)
        entries = folders.expand(path)
    except InputError as error:
        yield Unreadable.of(error)
        return
    walk = _Walk(folders)
    for entry in entries:
        yield from walk.start(entry)


@dataclass(frozen=True, slots=True)
class _Place:
    """To whom the files of a folder belong."""

    broker_id: int | None = None
    log_dir: str | None = None
    folder: FolderName | None = None
    topic_id: str | None = None


class _Walk:
    """Goes down from one path; remembers the folders it is in, for links may lead back up."""

    def __init__(self, folders: Folders) -> None:
        self._folders, self._open = folders, set[object]()

    def start(self, entry: Entry) -> Iterator[Found]:
        """Yield what lies at and under a path that the caller named."""
        if entry.why is not None or entry.is_folder:
            yield from self._any(entry, _Place())
            return
        above = self._folders.parent(entry.path)
        try:
            beside = self._folders.children(above)
        except InputError:
            beside = [entry]  # a folder may forbid listing and still let its files be read
        place, notes = self._place(above, beside, _Place())
        yield from (note for note in notes if note.path != entry.path)
        yield _file(entry, place)

    def _any(self, entry: Entry, place: _Place) -> Iterator[Found]:
        if entry.why is not None:
            yield Unreadable(entry.path, entry.why)
        elif entry.is_folder:
            yield from self._folder(entry, place)
        else:
            yield _file(entry, place)

    def _folder(self, entry: Entry, above: _Place) -> Iterator[Found]:
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

    def _place(self, path: str, children: list[Entry], above: _Place) -> tuple[_Place, list[Unreadable]]:
        """Return to whom the files directly in a folder belong, and what could not be read to find out."""
        notes: list[Unreadable] = []
        folder = _partition_folder(self._folders.name(path), children)
        if folder is None:
            if not _is_log_dir(children):
                return above, notes
            return _Place(self._broker_id(path, notes), path), notes
        if above.log_dir is None:
            log_dir = self._folders.parent(path)
            above = _Place(self._broker_id(log_dir, notes), log_dir)
        return _Place(above.broker_id, above.log_dir, folder, self._topic_id(path, notes)), notes

    def _topic_id(self, folder: str, notes: list[Unreadable]) -> str | None:
        path = self._folders.join(folder, "partition.metadata")
        try:
            with open_source(path) as source:
                from kforensics.parsers.partition_metadata import PartitionMetadata, read_partition_metadata

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
                from kforensics.parsers.meta_properties import meta_properties, read_meta_properties

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


def _file(entry: Entry, place: _Place) -> FoundFile:
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
