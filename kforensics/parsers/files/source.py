"""Read-only inputs: local files, remote files on any file system of pyarrow, and bytes in memory.

Local files are read with ``pread`` and never mapped, because a mapped file that shrinks kills the process. A
:class:`Window` reads a source in chunks, so memory use does not depend on its size.
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
from kforensics.parsers.files.input_paths import INSIDE, is_uri, open_read_only


class Source(Protocol):
    """The bytes of one input. The size is fixed when it is opened: bytes that a file gains later are not read."""

    path: str
    size: int
    mtime_ms: int | None

    def read(self, position: int, length: int) -> bytes:
        """Return ``length`` bytes from ``position``; fewer only at the end or if the file has shrunk."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Read from ``position`` into ``target``; return the number of bytes, fewer only as in :meth:`read`."""

    def next_data(self, position: int) -> int:
        """Return the first position at or after ``position`` that may contain data other than zeros."""

    def close(self) -> None:
        """Release the input."""


class _Input:
    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the input."""

    def read(self, position: int, length: int) -> bytes:
        """Return bytes; implemented by each kind of input."""
        raise NotImplementedError

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy bytes from ``position`` into ``target``; return the number of bytes."""
        data = self.read(position, len(target))
        target[: len(data)] = data
        return len(data)

    def next_data(self, position: int) -> int:
        """Return ``position``, because sparse ranges are unknown."""
        return position


class BytesSource(_Input):
    """Bytes in memory, with the name to report them under."""

    mtime_ms: int | None = None

    def __init__(self, data: bytes, path: str = "<bytes>") -> None:
        self.data, self.path, self.size = data, path, len(data)

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``."""
        return self.data[position : position + length]


class LocalSource(_Input):
    """A regular file, opened read-only.

    Raises:
        InputMissingError: the path does not exist.
        InputForbiddenError: the file may not be read.
        InputKindError: the path is not a regular file.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        try:
            self._descriptor = open_read_only(content_path(self.path))
        except OSError as error:
            raise _input_error(self.path, error) from error
        except ValueError as error:
            raise InputMissingError(self.path, f"not a valid file name: {error}") from error
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
        """Read from ``position`` into ``target`` without an intermediate copy; return the number of bytes."""
        length, done = min(len(target), self.size - position), 0
        try:
            while done < length:
                count = os.preadv(self._descriptor, [target[done:length]], position + done)
                if not count:
                    break
                done += count
        except OSError as error:
            raise self._unreadable(position, error) from error
        return done

    def next_data(self, position: int) -> int:
        """Return the first position at or after ``position`` that the file system stores data for, else the size.

        A preallocated segment is one large sparse range after its records.
        """
        try:
            return min(os.lseek(self._descriptor, position, os.SEEK_DATA), self.size)
        except OSError as error:
            # ENXIO: no data follows. On any other error the file system does not support SEEK_DATA.
            return self.size if error.errno == errno.ENXIO and position < self.size else position

    def _unreadable(self, position: int, error: OSError) -> InputError:
        return InputError(self.path, f"reading at byte {position:#x} failed: {os.strerror(error.errno or 0)}")

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
        self._descriptor = -1


class RemoteSource(_Input):
    """A file on one of pyarrow's file systems, read in ranges with read-ahead.

    Raises:
        UsageError: the URI contains credentials or settings.
        InputMissingError: the file does not exist.
        InputForbiddenError: the file system refuses to open it.
        InputKindError: the URI is not a file.
    """

    def __init__(self, uri: str) -> None:
        from kforensics.parsers.files.file_systems import remote_system  # local files do not need it
        from kforensics.parsers.files.remote_prefetch import ReadAhead

        self.path = uri
        self._system = remote_system(uri)
        if small := self._system.prefetched_file(uri):
            self.size, self.mtime_ms = len(small.data), small.mtime_ms
            self._ranges: ReadAhead | None = ReadAhead(BytesSource(small.data).read, self.size)
            return
        file, self.mtime_ms = self._system.open_input(uri)
        if file is None:
            raise InputKindError(uri, "it is a directory or something else that is not a file")
        self.size = int(file.size())
        # The file is never closed explicitly: requests may be in flight, and the last of them releases it.
        self._ranges = ReadAhead(lambda start, length: bytes(file.read_at(length, start)), self.size)

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``."""
        return b"".join(self._parts(position, length))

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy bytes from ``position`` into ``target``; return the number of bytes."""
        done = 0
        for part in self._parts(position, len(target)):
            target[done : done + len(part)] = part
            done += len(part)
        return done

    def _parts(self, position: int, length: int) -> Iterator[memoryview]:
        with self._system.translated_errors(self.path, f"reading at byte {position:#x} failed: "):
            if self._ranges is None:
                raise ValueError("the file is closed")
            yield from self._ranges.parts(position, length)

    def close(self) -> None:
        """Release the file and the buffered bytes; a second call does nothing."""
        if self._ranges is not None:
            self._ranges.forget()
        self._ranges = None


def open_source(path: str | os.PathLike[str]) -> LocalSource | RemoteSource:
    """Open a path or URI for reading.

    Raises:
        InputError: it cannot be read; the subclass says why.
    """
    name = os.fspath(path)
    return RemoteSource(name) if is_uri(name) else LocalSource(name)


def content_path(path: str) -> str:
    """Return where the bytes of a local path are: of one that leads into an archive, where that is unpacked.

    Raises:
        InputError: the archive cannot be unpacked.
    """
    if INSIDE not in path:
        return path
    from kforensics.parsers.files.archives import unpacked_path  # few inputs are archives

    return unpacked_path(path)


def forbidden(path: str) -> InputForbiddenError | None:
    """Return the error if this user may not read a local file, None otherwise and for a URI; nothing is read."""
    if is_uri(path) or os.access(content_path(path), os.R_OK, effective_ids=os.access in os.supports_effective_ids):
        return None
    try:
        LocalSource(path).close()
    except InputForbiddenError as error:
        return error
    except InputError:  # it is gone, or no file
        return None
    return None


def _input_error(path: str, error: OSError) -> InputError:
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        return InputMissingError(path)
    if error.errno in (errno.EACCES, errno.EPERM):
        return InputForbiddenError(path, "permission denied; run as a user with read access, or copy it first")
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
    return names.get(stat.S_IFMT(mode), "a special file")


def file_name(path: str) -> str:
    """Return the last component of a path or URI."""
    return Path(path).name


BUFFER_BYTES = 1 << 20
FIRST_CHUNK = 1 << 12


class Window:
    """Reads ranges of a source through one buffer.

    Attributes:
        end: end of the readable range; decreases if the file turns out to have shrunk.
    """

    def __init__(self, source: Source, end: int | None = None) -> None:
        self.source = source
        self.end = source.size if end is None else min(end, source.size)
        self._start, self._data = 0, b""

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range; fewer only where the range exceeds ``end``."""
        length = max(0, min(length, self.end - position))
        if not self._contains(position, length):
            self._fill(position, length)
        begin = position - self._start
        return self._data[begin : begin + length]

    def peek(self, position: int, length: int) -> bytes:
        """Return the bytes of a small range as :meth:`read` does, without moving the buffer."""
        length = max(0, min(length, self.end - position))
        if self._contains(position, length):
            return self.read(position, length)
        data = self.source.read(position, length)
        if len(data) < length:
            self.end = min(self.end, position + len(data))
        return data

    def chunks(self, position: int, end: int) -> Iterator[bytes]:
        """Yield a range in chunks, small ones first, for callers that may stop early."""
        size = FIRST_CHUNK
        while position < end:
            chunk = self.read(position, min(size, end - position))
            if not chunk:
                return
            yield chunk
            position += len(chunk)
            size = min(2 * size, BUFFER_BYTES)

    def _contains(self, position: int, length: int) -> bool:
        return self._start <= position and position + length <= self._start + len(self._data)

    def _fill(self, position: int, length: int) -> None:
        wanted = min(max(length, BUFFER_BYTES), self.end - position)
        self._start, self._data = position, self.source.read(position, wanted)
        if len(self._data) < wanted:
            self.end = min(self.end, position + len(self._data))
