"""Opens the files of log directories, which a broker may be writing, all at once.

A copy may take hours. What is appended after a file was opened is not read, and what the broker deletes or replaces
meanwhile still is. Data partitions come first, then the logs of coordinators, which know what happened to them, the
metadata log, and the checkpoints.
"""

from __future__ import annotations

import hashlib
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from kforensics.errors import InputError, InputMissingError, UsageError
from kforensics.parsers.files.discover import Unreadable
from kforensics.parsers.files.folders import LocalFolders
from kforensics.parsers.files.input_paths import INSIDE, is_archive_name, is_uri
from kforensics.parsers.files.log_names import (
    CONSUMER_OFFSETS,
    METADATA_TOPIC,
    TRANSACTION_STATE,
    parse_file_name,
    parse_folder_name,
)
from kforensics.parsers.files.source import LocalSource

__all__ = ["LogContent", "LogFile", "LogFiles", "find_log_files"]

# Those whose order matters; other topics come before them, and checkpoints after them.
LATE_TOPICS = (CONSUMER_OFFSETS, TRANSACTION_STATE, METADATA_TOPIC)
# How often the files of a partition are opened until none was written meanwhile.
TRIES = 50
# Descriptors that stay free.
SPARE_DESCRIPTORS = 128
CHUNK = 1 << 20
INDEXES = ("index", "timeindex")
NO_FOLDER = "{} is no folder of this machine; name log directories, as in /var/lib/kafka/data"


@dataclass(slots=True)
class LogFile:
    """A file to copy, as it was when it was opened.

    Attributes:
        path: the file.
        name: its path in the copy.
        size: its size.
        mtime_ms: when it was last modified.
        data_end: where its data end; zeros follow.
        source: the open file; None if more files are open than this process may have.
    """

    path: str
    name: str
    size: int
    mtime_ms: int | None
    data_end: int
    source: LocalSource | None


@dataclass(slots=True)
class LogFiles:
    """The files to copy, in this order, and what cannot be read."""

    files: list[LogFile] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    log_dirs: list[str] = field(default_factory=list)

    @property
    def size(self) -> int:
        """Bytes to copy."""
        return sum(file.size for file in self.files)


def find_log_files(paths: Sequence[str]) -> LogFiles:
    """Open all files under some folders and note their sizes.

    Args:
        paths: log directories, or folders of them; globs, too.

    Raises:
        UsageError: a path is no local folder.
        InputError: there is no such folder.
    """
    roots = _roots(paths)
    log_files = LogFiles(log_dirs=list(roots))
    folders = sorted(
        (folder for path, name in roots.items() for folder in _folders_in(path, name, log_files)),
        key=lambda each: each[:2],
    )
    descriptors = _Descriptors()
    for _, path, name in folders:
        log_files.files += _opened_unchanged(path, name, descriptors, log_files)
    return log_files


def _roots(paths: Sequence[str]) -> dict[str, str]:
    """Return the folders to copy, and their names in the copy."""
    if not paths:
        raise UsageError("there is no input; name log directories, as in /var/lib/kafka/data")
    entries = []
    for path in paths:
        if is_uri(path) or is_archive_name(path) or INSIDE in path:
            raise UsageError(NO_FOLDER.format(path))
        entries += LocalFolders().expand(path)
    for entry in entries:
        if not entry.is_folder:
            raise UsageError(NO_FOLDER.format(entry.path))
    whole = {entry.path: str(Path(entry.path).resolve()) for entry in entries}
    names = {path: Path(each).name for path, each in whole.items()}
    if len(set(names.values())) < len(names) or not all(names.values()):
        names = {path: each.lstrip("/") or "root" for path, each in whole.items()}
    return names


def _folders_in(path: str, name: str, found: LogFiles) -> Iterator[tuple[int, str, str]]:
    """Yield the folders in a folder, each once, and when it is its turn."""
    seen, waiting = set[object](), [(path, name)]
    while waiting:
        folder, inside = waiting.pop()
        identity = LocalFolders().identity(folder)
        if identity in seen:
            continue
        seen.add(identity)
        yield _turn_of(folder), folder, inside
        try:
            children = LocalFolders().children(folder)
        except InputError as error:
            found.unreadable.append(Unreadable.of(error))
            continue
        waiting += [(child.path, f"{inside}/{child.name}") for child in children if child.is_folder]


def _turn_of(folder: str) -> int:
    name = parse_folder_name(Path(folder).name)
    if name is None:
        return len(LATE_TOPICS) + 1
    return LATE_TOPICS.index(name.topic) + 1 if name.topic in LATE_TOPICS else 0


class _Descriptors:
    """Counts the files that are open, and how many may be."""

    def __init__(self) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.free = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS


def _opened_unchanged(path: str, name: str, descriptors: _Descriptors, found: LogFiles) -> list[LogFile]:
    """Return the files of a folder, opened while none was written, if that can be."""
    for tried in range(TRIES):
        names, files, unreadable = _opened(path, name, descriptors)
        if tried == TRIES - 1 or _is_unchanged(path, names, files):
            break
        for file in files:
            _release(file, descriptors)
    found.unreadable += unreadable
    return files


def _opened(path: str, name: str, descriptors: _Descriptors) -> tuple[list[str], list[LogFile], list[Unreadable]]:
    try:
        names = sorted(os.listdir(path))  # noqa: PTH208  # as text
    except OSError:
        return [], [], []  # it was reported, or has been deleted meanwhile
    files, unreadable = [], []
    for each in names:
        place = os.path.join(path, each)  # noqa: PTH118  # as text
        if os.path.isdir(place):  # noqa: PTH112
            continue
        try:
            source = LocalSource(place)
            file = LogFile(place, f"{name}/{each}", source.size, source.mtime_ms, _data_end(source, each), source)
        except InputError as error:
            if not isinstance(error, InputMissingError):  # deleted or renamed meanwhile
                unreadable.append(Unreadable.of(error))
            continue
        descriptors.free -= 1
        if descriptors.free < 0:
            _release(file, descriptors)
        files.append(file)
    return names, files, unreadable


def _release(file: LogFile, descriptors: _Descriptors) -> None:
    if file.source is not None:
        file.source.close()
        file.source, descriptors.free = None, descriptors.free + 1


def _data_end(source: LocalSource, name: str) -> int:
    """Return where the entries of an index end, which is allocated beforehand and filled meanwhile; else the size."""
    parsed = parse_file_name(name)
    if parsed is None or parsed.kind not in INDEXES or any(source.read(max(source.size - CHUNK, 0), CHUNK)[-8:]):
        return source.size
    position = end = 0
    while (position := source.next_data(position)) < source.size:
        data = source.read(position, CHUNK)
        if not data:
            break
        entries = data.rstrip(b"\0")
        end = position + len(entries) if entries else end
        position += len(data)
    return end


def _is_unchanged(path: str, names: list[str], files: list[LogFile]) -> bool:
    """Return whether a folder has the same files, and its logs the same sizes, as when they were opened."""
    try:
        return sorted(os.listdir(path)) == names and all(  # noqa: PTH208
            Path(file.path).stat().st_size == file.size for file in files if file.path.endswith(".log")
        )
    except OSError:
        return False


class LogContent:
    """The content of a file, up to the size that it had when it was opened.

    Attributes:
        digest: of what was read.
        why: what is wrong with it, None if nothing is.
    """

    def __init__(self, file: LogFile) -> None:
        self._file, self._position = file, 0
        self.digest = hashlib.sha256()
        self.why: str | None = None
        if file.source is None:
            try:
                file.source = LocalSource(file.path)
            except InputError as error:
                self.why = f"{error.why}; it was deleted or renamed while others were copied, and is all zeros"

    def read(self, length: int) -> bytes:
        """Return the next bytes; those that cannot be read are zeros."""
        length = min(length, self._file.size - self._position)
        wanted, data = max(min(length, self._file.data_end - self._position), 0), b""
        if wanted and self._file.source is not None:
            try:
                data = self._file.source.read(self._position, wanted)
            except InputError as error:
                self.why = error.why
        if len(data) < wanted and self.why is None:
            self.why = f"it shrank while it was copied, to {self._position + len(data)} bytes; the rest is zeros"
        data = data.ljust(length, b"\0")
        self._position += length
        self.digest.update(data)
        return data
