"""Folders to list, on this machine or behind a URI of pyarrow's file systems. Nothing is opened, nothing written."""

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

from kforensics.errors import InputError, InputForbiddenError, InputKindError, InputMissingError
from kforensics.parsers.files.file_systems import NO_BUCKET, NO_FILE, remote_system
from kforensics.parsers.files.source import is_uri

__all__ = ["Entry", "Folders", "LocalFolders", "RemoteFolders", "folders_of"]

NANOSECONDS_PER_MS = 1_000_000
KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder, or something that is neither.

    Attributes:
        path: path or URI.
        name: its last part.
        is_folder: whether it can be listed.
        size: bytes of a file.
        mtime_ms: last modification in ms.
        why: half a sentence on why it cannot be read, None if nothing is known against it.
    """

    path: str
    name: str
    is_folder: bool = False
    size: int = 0
    mtime_ms: int | None = None
    why: str | None = None


class Folders(Protocol):
    """A way to look at folders. Paths go in and come out in the form the caller used."""

    def expand(self, path: str) -> list[Entry]:
        """Return what a path or glob names, sorted.

        Raises:
            InputError: it names nothing, or cannot be looked at.
        """

    def children(self, path: str) -> list[Entry]:
        """Return what lies in a folder, sorted by name.

        Raises:
            InputError: the folder cannot be listed.
        """

    def name(self, path: str) -> str:
        """Return the last part of a path."""

    def parent(self, path: str) -> str:
        """Return the folder above a path."""

    def join(self, path: str, name: str) -> str:
        """Return the path of something in a folder."""

    def identity(self, path: str) -> object:
        """Return what two paths of the same folder have in common."""


def folders_of(path: str, *, whole: bool = False) -> Folders:
    """Return the way to look at a path or URI.

    Args:
        path: any of the file system.
        whole: whether all that lies under a folder will be asked for; a store lists it in far fewer requests then.

    Raises:
        UsageError: the URI holds credentials or settings.
        InputError: no file system answers to the URI.
    """
    return RemoteFolders(path, whole=whole) if is_uri(path) else LocalFolders()


class LocalFolders:
    """Folders of this machine. Links are followed."""

    def expand(self, path: str) -> list[Entry]:
        """Return what a path or glob names, sorted."""
        if os.path.lexists(path):
            return [self._entry(path)]
        found = sorted(glob.glob(path, recursive=True, include_hidden=True))
        if not found:
            raise InputMissingError(path, "there is no such file")
        return [self._entry(each) for each in found]

    def children(self, path: str) -> list[Entry]:
        """Return what lies in a folder, sorted by name."""
        try:
            names = sorted(os.listdir(path))
        except PermissionError as error:
            raise InputForbiddenError(path, "you may not list it; run as a user who may, or copy it first") from error
        except OSError as error:
            raise InputError(path, os.strerror(error.errno or 0)) from error
        return [self._entry(self.join(path, name)) for name in names]

    def name(self, path: str) -> str:
        """Return the last part of a path, also of one such as ``.``."""
        return os.path.basename(os.path.abspath(path))

    def parent(self, path: str) -> str:
        """Return the folder above a path."""
        above = os.path.dirname(path.rstrip("/"))
        return above or (os.curdir if self.name(path) == path.rstrip("/") else os.path.dirname(os.path.abspath(path)))

    def join(self, path: str, name: str) -> str:
        """Return the path of something in a folder."""
        return os.path.join(path, name)

    def identity(self, path: str) -> object:
        """Return device and inode."""
        try:
            status = os.stat(path)
        except OSError:
            return path
        return status.st_dev, status.st_ino

    def _entry(self, path: str) -> Entry:
        name = self.name(path)
        try:
            status = os.stat(path)
        except OSError as error:
            return Entry(path, name, why=os.strerror(error.errno or 0).lower())
        kind = stat.S_IFMT(status.st_mode)
        mtime_ms = status.st_mtime_ns // NANOSECONDS_PER_MS
        if kind == stat.S_IFDIR:
            return Entry(path, name, is_folder=True, mtime_ms=mtime_ms)
        why = None if kind == stat.S_IFREG else f"it is {KINDS.get(kind, 'something special')}, not a file"
        return Entry(path, name, size=status.st_size, mtime_ms=mtime_ms, why=why)


class RemoteFolders:
    """Folders behind a URI.

    Args:
        uri: any URI of the file system.
        whole: whether all that lies under a folder will be asked for.

    Raises:
        UsageError: the URI holds credentials or settings.
        InputError: no file system answers to it.
    """

    def __init__(self, uri: str, *, whole: bool = False) -> None:
        from pyarrow import fs  # only remote inputs pay for it

        self._types = fs
        self._remote = remote_system(uri)
        # A file system with links may not be gone down blindly.
        self._recursive = whole and self._remote.is_object_store
        # What lies in folders, by their paths.
        self._listed: dict[str, list[Any]] = {}

    def expand(self, path: str) -> list[Entry]:
        """Return what a URI or a URI with a glob names, sorted."""
        start = _magic_start(path)
        if start == len(path):
            return [self._named(path)]
        found = sorted(self._match(path[:start].rstrip("/"), path[start:].split("/")), key=lambda entry: entry.path)
        if not found:
            raise InputMissingError(path, "there is no such file")
        return found

    def children(self, path: str) -> list[Entry]:
        """Return what lies in a folder, sorted by name."""
        return self._children(path, recursive=self._recursive)

    def _children(self, path: str, *, recursive: bool) -> list[Entry]:
        inner = self._remote.inner(path)
        if inner not in self._listed:
            self._list(path, inner, recursive=recursive)
        entries = [self._entry(self.join(path, info.base_name), info) for info in self._listed[inner]]
        return sorted(entries, key=lambda entry: entry.name)

    def name(self, path: str) -> str:
        """Return the last part of a URI."""
        return self._remote.inner(path).rpartition("/")[2]

    def parent(self, path: str) -> str:
        """Return the URI of the folder above."""
        return path.rstrip("/").rpartition("/")[0]

    def join(self, path: str, name: str) -> str:
        """Return the URI of something in a folder."""
        return f"{path.rstrip('/')}/{quote(name)}"

    def identity(self, path: str) -> object:
        """Return the URI: no file system behind one has links."""
        return path

    def _list(self, path: str, inner: str, *, recursive: bool) -> None:
        with self._remote.asked(path):
            infos = self._remote.system.get_file_info(self._types.FileSelector(inner, recursive=recursive))
        # What was read of these folders may be older than what is listed now.
        self._remote.small.forget(None if recursive else inner)
        self._listed[inner] = []
        for info in infos:
            self._listed.setdefault(info.path.rpartition("/")[0] if recursive else inner, []).append(info)
            if recursive and info.type == self._types.FileType.Directory:
                self._listed.setdefault(info.path, [])

    def _named(self, path: str) -> Entry:
        with self._remote.asked(path):
            info = self._remote.system.get_file_info(self._remote.inner(path))
            if info.type == self._types.FileType.NotFound:
                raise InputMissingError(path, self._missing())
        if info.type == self._types.FileType.Unknown:
            raise InputKindError(path, "it is neither a file nor a folder")
        return self._entry(path, info)

    def _missing(self) -> str:
        """Return what is missing: a file or the bucket it would be in."""
        remote = self._remote
        if remote.is_object_store and remote.system.get_file_info(remote.root).type == self._types.FileType.NotFound:
            return NO_BUCKET
        return NO_FILE

    def _entry(self, path: str, info: Any) -> Entry:
        mtime_ms = None if info.mtime_ns is None else info.mtime_ns // NANOSECONDS_PER_MS
        is_folder = info.type == self._types.FileType.Directory
        return Entry(path, self.name(path), is_folder, info.size or 0, mtime_ms)

    def _match(self, path: str, patterns: list[str]) -> Iterator[Entry]:
        pattern, rest = patterns[0], patterns[1:]
        # Folders that a pattern leaves out need not be listed.
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


def _magic_start(plain: str) -> int:
    """Return where the first part with a wildcard begins, the length if there is none."""
    parts = plain.split("/")
    for index, part in enumerate(parts):
        if glob.has_magic(part):
            return len("/".join(parts[:index])) + 1
    return len(plain)
