"""Read-only bytes with a size: a local file, or one on any file system pyarrow knows.

Local files are read with ``pread``, never mapped: a mapped file that shrinks under the reader kills the process.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from kforensics.errors import InputError, InputForbiddenError, InputKindError, InputMissingError
from kforensics.parsers.files.file_systems import remote_system
from kforensics.parsers.files.read_ahead import ReadAhead

__all__ = ["BytesSource", "LocalSource", "RemoteSource", "Source", "is_uri", "open_source"]


class Source(Protocol):
    """Bytes of one input; the size is fixed when it is opened, so a file that grows is read as it was."""

    path: str
    size: int
    mtime_ms: int | None

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``; fewer only at the end or where the file has shrunk."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Read from ``position`` into memory; return how many bytes, fewer than it has only as with :meth:`read`."""

    def hole_end(self, position: int) -> int:
        """Return the first position from ``position`` on that may hold something else than zeros."""

    def close(self) -> None:
        """Let go of the input."""


class _Input:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the input."""

    def read(self, position: int, length: int) -> bytes:
        """Return bytes; each kind of input has its own way."""
        raise NotImplementedError

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy bytes from ``position`` into memory; return how many."""
        data = self.read(position, len(target))
        target[: len(data)] = data
        return len(data)

    def hole_end(self, position: int) -> int:
        """Return ``position``: where holes are is not known."""
        return position


class BytesSource(_Input):
    """Bytes already in memory, under the name they should be reported by."""

    mtime_ms: int | None = None

    def __init__(self, data: bytes, path: str = "<bytes>") -> None:
        self.data, self.path, self.size = data, path, len(data)

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``."""
        return self.data[position : position + length]


class LocalSource(_Input):
    """A regular file, opened read-only.

    Raises:
        InputMissingError: there is nothing at the path.
        InputForbiddenError: the file may not be read.
        InputKindError: it is no regular file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            # O_NONBLOCK: opening a named pipe that nobody writes to must not hang.
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _input_error(self.path, error) from error
        except ValueError as error:
            raise InputMissingError(self.path, f"no file has such a name: {error}") from error
        status = os.fstat(self._descriptor)
        if not stat.S_ISREG(status.st_mode):
            self.close()
            raise InputKindError(self.path, f"it is {_kind(status.st_mode)}, not a file")
        self.size = status.st_size
        self.mtime_ms: int | None = status.st_mtime_ns // 1_000_000

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``; never past the size the file had when opened."""
        length = min(length, self.size - position)
        if length <= 0:
            return b""
        try:
            data = os.pread(self._descriptor, length, position)
            while data and len(data) < length:
                more = os.pread(self._descriptor, length - len(data), position + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise self._unreadable(position, error) from error
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        """Read from ``position`` into memory, without a copy between."""
        length, done = min(len(target), self.size - position), 0
        try:
            while done < length:
                got = os.preadv(self._descriptor, [target[done:length]], position + done)
                if not got:
                    break
                done += got
        except OSError as error:
            raise self._unreadable(position, error) from error
        return done

    def hole_end(self, position: int) -> int:
        """Return the first position from ``position`` on that is not in a hole of the file, the size if there is none.

        A preallocated segment is one large hole behind its records.
        """
        try:
            return min(os.lseek(self._descriptor, position, os.SEEK_DATA), self.size)
        except OSError as error:
            # ENXIO: nothing but a hole follows; else the file system does not know holes.
            return self.size if error.errno == errno.ENXIO and position < self.size else position

    def _unreadable(self, position: int, error: OSError) -> InputError:
        return InputError(self.path, f"reading at byte {position:#x} failed: {os.strerror(error.errno or 0)}")

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class RemoteSource(_Input):
    """A file behind a URI of pyarrow's file systems, read in ranges and ahead of its reader.

    Raises:
        UsageError: the URI holds credentials or settings.
        InputMissingError: there is nothing at the URI.
        InputForbiddenError: the file system refuses to open it.
        InputKindError: it is no file.
    """

    def __init__(self, uri: str) -> None:
        self.path = uri
        self._system = remote_system(uri)
        if small := self._system.small_file(uri):
            self.size, self.mtime_ms = len(small.data), small.mtime_ms
            self._ranges: ReadAhead | None = ReadAhead(BytesSource(small.data).read, self.size)
            return
        file, self.mtime_ms = self._system.opened(uri)
        if file is None:
            raise InputKindError(uri, "it is a directory or something else that is not a file")
        self.size = int(file.size())
        # Nobody closes the file: requests may be on their way, and it goes when the last of them does.
        self._ranges = ReadAhead(lambda start, length: bytes(file.read_at(length, start)), self.size)

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``."""
        return b"".join(self._parts(position, length))

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy bytes from ``position`` into memory, without another copy between."""
        done = 0
        for part in self._parts(position, len(target)):
            target[done : done + len(part)] = part
            done += len(part)
        return done

    def _parts(self, position: int, length: int) -> Iterator[memoryview]:
        with self._system.asked(self.path, f"reading at byte {position:#x} failed: "):
            if self._ranges is None:
                raise ValueError("it is closed")
            yield from self._ranges.parts(position, length)

    def close(self) -> None:
        """Let go of the file and of what was read ahead; a second call does nothing."""
        if self._ranges is not None:
            self._ranges.forget()
        self._ranges = None


def is_uri(path: str) -> bool:
    """Tell a URI such as ``s3://bucket/key`` from a path."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme.isalnum()


def open_source(path: str | os.PathLike[str]) -> LocalSource | RemoteSource:
    """Open a path or URI for reading.

    Raises:
        InputError: it cannot be read; the subclass says why.
    """
    name = os.fspath(path)
    return RemoteSource(name) if is_uri(name) else LocalSource(name)


def read_whole(source: Source, limit: int) -> bytes:
    """Return all bytes of a small file.

    Raises:
        InputError: the file is larger than ``limit`` bytes, which no sound file of its kind is.
    """
    if source.size > limit:
        raise InputError(source.path, f"it has {source.size} bytes, more than the {limit} a file of this kind may have")
    return source.read(0, source.size)


def _input_error(path: str, error: OSError) -> InputError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return InputMissingError(path, "there is no such file")
    if error.errno in (errno.EACCES, errno.EPERM):
        return InputForbiddenError(path, "you may not read it; run as a user who may, or copy it first")
    if error.errno == errno.ENXIO:
        return InputKindError(path, "it is a socket or device, not a file")
    return InputError(path, os.strerror(error.errno or 0))


def _kind(mode: int) -> str:
    names = {
        stat.S_IFDIR: "a directory",
        stat.S_IFIFO: "a pipe",
        stat.S_IFSOCK: "a socket",
        stat.S_IFCHR: "a device",
        stat.S_IFBLK: "a device",
    }
    return names.get(stat.S_IFMT(mode), "something special")


def file_name(path: str) -> str:
    """Return the last part of a path or URI."""
    return Path(path).name
