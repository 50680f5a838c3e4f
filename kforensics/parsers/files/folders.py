"""Folder listings, local or remote. Nothing is opened and nothing is written."""

# Paths must come out as the caller wrote them; pathlib rewrites "." and doubled slashes.
# ruff: noqa: PTH100, PTH116, PTH118, PTH119, PTH120, PTH207, PTH208

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Protocol
from urllib.parse import quote

from kforensics.errors import NO_FILE, InputError, InputForbiddenError, InputKindError, InputMissingError
from kforensics.parsers.files.input_paths import INSIDE, STDIN, is_archive_name, is_uri, stream_name
from kforensics.parsers.files.source import content_path

__all__ = ["Entry", "Folders", "LocalFolders", "RemoteFolders", "folders_of"]

NANOSECONDS_PER_MS = 1_000_000
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file, a folder, or something that is neither.

    Attributes:
        path: path or URI.
        name: last component of the path.
        is_folder: whether it can be listed.
        size: size of a file in bytes.
        mtime_ms: last modification in ms.
        why: why it cannot be read, to complete "cannot read <path>: …"; None if no reason is known.
    """

    path: str
    name: str
    is_folder: bool = False
    size: int = 0
    mtime_ms: int | None = None
    why: str | None = None


class Folders(Protocol):
    """Lists folders of one file system. Paths go in and come out in the form the caller used."""

    def expand(self, path: str) -> list[Entry]:
        """Return the entries that a path or glob names, sorted.

        Raises:
            InputError: nothing matches, or the path cannot be read.
        """

    def children(self, path: str) -> list[Entry]:
        """Return the entries of a folder, sorted by name.

        Raises:
            InputError: the folder cannot be listed.
        """

    def name(self, path: str) -> str:
        """Return the last component of a path."""

    def parent(self, path: str) -> str:
        """Return the parent folder of a path."""

    def join(self, path: str, name: str) -> str:
        """Return the path of an entry of a folder."""

    def identity(self, path: str) -> object:
        """Return a value that is equal for all paths of the same folder."""


def folders_of(path: str, *, whole: bool = False) -> Folders:
    """Return the lister for the file system of a path or URI.

    Args:
        path: any path of the file system.
        whole: whether the caller will list whole trees, which an object store can do in far fewer requests.

    Raises:
        UsageError: the URI contains credentials or settings.
        InputError: there is no file system for the URI.
    """
    return RemoteFolders(path, whole=whole) if is_uri(path) else LocalFolders()


class LocalFolders:
    """Lists local folders, and archives as folders, and follows links."""

    def expand(self, path: str) -> list[Entry]:
        """Return the entries that a path or glob names, sorted; of an archive what is in it, and what is wrong."""
        if not path:
            raise InputMissingError("''", "the path is empty")
        if not os.path.lexists(path) and not is_archive_name(path) and not os.path.lexists(content_path(path)):
            matches = self._matches(path)
            if not matches:
                raise InputMissingError(path)
            return [entry for match in matches for entry in self._named(match)]
        return self._named(path)

    def children(self, path: str) -> list[Entry]:
        """Return the entries of a folder, sorted by name."""
        try:
            names = sorted(os.listdir(content_path(path)))
        except PermissionError as error:
            why = "permission denied; run as a user with read access, or copy it first"
            raise InputForbiddenError(path, why) from error
        except OSError as error:
            raise InputError(path, os.strerror(error.errno or 0)) from error
        return [self._entry(self.join(path, name), None if name.endswith(INSIDE) else name) for name in names]

    def name(self, path: str) -> str:
        """Return the last component of a path, resolving a relative one such as ``.`` first."""
        name = os.path.basename(os.path.abspath(path))
        return stream_name(name[:-1]) if name.endswith(INSIDE) and content_path(path) != path else name

    def parent(self, path: str) -> str:
        """Return the parent folder of a path."""
        if path == STDIN + INSIDE:
            return path  # it lies nowhere
        above, name = os.path.dirname(path.rstrip("/")), os.path.basename(os.path.abspath(path))
        return above or (os.curdir if name == path.rstrip("/") else os.path.dirname(os.path.abspath(path)))

    def join(self, path: str, name: str) -> str:
        """Return the path of an entry of a folder."""
        return os.path.join(path, name)

    def identity(self, path: str) -> object:
        """Return device and inode."""
        try:
            status = os.stat(content_path(path))
        except OSError:
            return path
        return status.st_dev, status.st_ino

    def _matches(self, path: str) -> list[str]:
        """Return what a glob matches, also inside an archive."""
        archive, inside, pattern = path.partition(f"{INSIDE}/")
        root = content_path(archive + INSIDE)
        if not inside or root == archive + INSIDE:
            return sorted(glob.glob(path, recursive=True, include_hidden=True))
        matches = glob.glob(pattern, root_dir=root, recursive=True, include_hidden=True)
        return [f"{archive}{INSIDE}/{match}" for match in sorted(matches)]

    def _named(self, path: str) -> list[Entry]:
        """Return the entry of a path; for an archive its content, and what cannot be read of it."""
        if not is_archive_name(path):
            return [self._entry(path)]
        from kforensics.parsers.files.archives import archive_at  # few inputs are archives

        archive = archive_at(path)
        if archive is None:
            return [self._entry(path)]
        root = path + INSIDE
        problems = [Entry(f"{root}/{name}" if name else path, name, why=why) for name, why in archive.problems]
        if archive.stream:
            return [self._entry(self.join(root, archive.stream)), *problems]
        return [self._entry(root), *problems] if os.listdir(archive.root) or not problems else problems

    def _entry(self, path: str, name: str | None = None) -> Entry:
        name = name or self.name(path)
        try:
            status = os.stat(content_path(path))
        except OSError as error:
            return Entry(path, name, why=os.strerror(error.errno or 0).lower())
        kind = stat.S_IFMT(status.st_mode)
        mtime_ms = status.st_mtime_ns // NANOSECONDS_PER_MS
        if kind == stat.S_IFDIR:
            return Entry(path, name, is_folder=True, mtime_ms=mtime_ms)
        why = None if kind == stat.S_IFREG else f"it is {KINDS.get(kind, 'a special file')}, not a file"
        return Entry(path, name, size=status.st_size, mtime_ms=mtime_ms, why=why)


class RemoteFolders:
    """Lists folders of a remote file system.

    Args:
        uri: any URI of the file system.
        whole: whether the caller will list whole trees.

    Raises:
        UsageError: the URI contains credentials or settings.
        InputError: there is no file system for the URI.
    """

    def __init__(self, uri: str, *, whole: bool = False) -> None:
        from pyarrow import fs  # needed for remote inputs only

        from kforensics.parsers.files.file_systems import remote_system

        self._types = fs
        self._remote = remote_system(uri)
        # A file system with links must not be listed recursively: a link may lead back up.
        self._recursive = whole and self._remote.is_object_store
        # Listings by folder path.
        self._listings: dict[str, list[Any]] = {}

    def expand(self, path: str) -> list[Entry]:
        """Return the entries that a URI or a URI with a glob names, sorted."""
        start = _glob_start(path)
        if start == len(path):
            return [self._named(path)]
        entries = sorted(self._match(path[:start].rstrip("/"), path[start:].split("/")), key=lambda entry: entry.path)
        if not entries:
            raise InputMissingError(path)
        return entries

    def children(self, path: str) -> list[Entry]:
        """Return the entries of a folder, sorted by name."""
        return self._children(path, recursive=self._recursive)

    def _children(self, path: str, *, recursive: bool) -> list[Entry]:
        inner = self._remote.inner_path(path)
        if inner not in self._listings:
            self._list(path, inner, recursive=recursive)
        entries = [self._entry(self.join(path, info.base_name), info) for info in self._listings[inner]]
        return sorted(entries, key=lambda entry: entry.name)

    def name(self, path: str) -> str:
        """Return the last component of a URI."""
        return self._remote.inner_path(path).rpartition("/")[2]

    def parent(self, path: str) -> str:
        """Return the URI of the parent folder."""
        return path.rstrip("/").rpartition("/")[0]

    def join(self, path: str, name: str) -> str:
        """Return the URI of an entry of a folder."""
        return f"{path.rstrip('/')}/{quote(name)}"

    def identity(self, path: str) -> object:
        """Return the URI, because no remote file system has links."""
        return path

    def _list(self, path: str, inner: str, *, recursive: bool) -> None:
        with self._remote.translated_errors(path):
            infos = self._remote.system.get_file_info(self._types.FileSelector(inner, recursive=recursive))
        # Cached small files of these folders may be older than this listing.
        self._remote.small.forget(None if recursive else inner)
        self._listings[inner] = []
        for info in infos:
            self._listings.setdefault(info.path.rpartition("/")[0] if recursive else inner, []).append(info)
            if recursive and info.type == self._types.FileType.Directory:
                self._listings.setdefault(info.path, [])

    def _named(self, path: str) -> Entry:
        with self._remote.translated_errors(path):
            info = self._remote.system.get_file_info(self._remote.inner_path(path))
            if info.type == self._types.FileType.NotFound:
                raise InputMissingError(path, self._missing())
        if info.type == self._types.FileType.Unknown:
            raise InputKindError(path, "it is neither a file nor a folder")
        if info.type == self._types.FileType.File and is_archive_name(path):
            raise InputKindError(path, "archives are read from this machine only; copy it first, or unpack it there")
        return self._entry(path, info)

    def _missing(self) -> str:
        """Return the message for a missing path: either the file is missing or its bucket."""
        remote = self._remote
        from kforensics.parsers.files.file_systems import NO_BUCKET

        if remote.is_object_store and remote.system.get_file_info(remote.root).type == self._types.FileType.NotFound:
            return NO_BUCKET
        return NO_FILE

    def _entry(self, path: str, info: Any) -> Entry:
        mtime_ms = None if info.mtime_ns is None else info.mtime_ns // NANOSECONDS_PER_MS
        is_folder = info.type == self._types.FileType.Directory
        return Entry(path, self.name(path), is_folder, info.size or 0, mtime_ms)

    def _match(self, path: str, patterns: list[str]) -> Iterator[Entry]:
        pattern, rest = patterns[0], patterns[1:]
        # List level by level: folders that the pattern excludes are not listed.
        for entry in self._children(path, recursive=self._recursive and "**" in patterns):
            if pattern == "**" and entry.is_folder:
                yield from self._match(entry.path, patterns)
            if not fnmatchcase(entry.name, pattern):
                continue
            if not rest:
                yield entry
            elif entry.is_folder:
                yield from self._match(entry.path, rest)
        if pattern == "**" and rest:
            yield from self._match(path, rest)


def _glob_start(path: str) -> int:
    """Return where the first path component with a wildcard begins, the length of the path if there is none."""
    parts = path.split("/")
    for index, part in enumerate(parts):
        if glob.has_magic(part):
            return len("/".join(parts[:index])) + 1
    return len(path)
