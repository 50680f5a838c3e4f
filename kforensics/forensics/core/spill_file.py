"""Rows in an unnamed temporary file that other processes can read, too, and rows that use one if there are many."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import IO, Any, Self

import numpy as np

from kforensics.errors import UsageError
from kforensics.forensics.core.record_arrays import concat_rows, own_rows
from kforensics.parsers.format.array_types import StructArray

__all__ = ["SpillFile", "SpilledRows"]

# Bytes of rows to keep in memory.
ROOM = 16 << 20


class SpillFile:
    """Rows of one dtype in a temporary file.

    The file is unlinked as soon as it is created, so nothing is left of it however the process ends. It is in the
    system's folder for temporary files (``TMPDIR``), never beside the evidence. It is closed with the last reference.

    Pickling sends the open file to the other process, not its content.

    Args:
        dtype: type of a row.
        file: an open file; None for a new one.

    Raises:
        UsageError: the folder for temporary files is not writable.
    """

    def __init__(self, dtype: np.dtype[Any], file: IO[bytes] | None = None) -> None:
        self._dtype = dtype
        self._file = file or _opened()
        weakref.finalize(self, _close, self._file)

    def append(self, rows: StructArray) -> int:
        """Write rows at the end of the file and return the number of the first.

        Raises:
            UsageError: the disk is full, or the file exceeds a limit.
        """
        first = self._file.seek(0, os.SEEK_END) // self._dtype.itemsize
        data = np.ascontiguousarray(rows).view("u1").data
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _unusable(error) from error
        return first

    def read(self, first: int, count: int) -> StructArray:
        """Return ``count`` rows, starting with row number ``first``."""
        rows = np.empty(count, self._dtype)
        data = rows.view("u1").data
        self._file.seek(first * self._dtype.itemsize)
        while data:
            size = self._file.readinto(data)  # type: ignore[attr-defined]  # it is a raw file
            if not size:
                raise OSError("a temporary file has become shorter")
            data = data[size:]
        return rows

    def close(self) -> None:
        """Close the file; its rows are gone."""
        _close(self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing.reduction import DupFd  # imported only where processes are used

        return _reopened, (self._dtype, DupFd(self._file.fileno()))


def _opened() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="kforensics-", buffering=0)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> UsageError:
    folder = tempfile.tempdir or "the folder for temporary files"  # None if there is no usable one
    return UsageError(
        f"cannot write a temporary file in {folder} for data that exceeds the memory limit: {error.strerror}; "
        "set the environment variable TMPDIR to a folder with enough space"
    )


def _reopened(dtype: np.dtype[Any], descriptor: Any) -> SpillFile:
    return SpillFile(dtype, os.fdopen(descriptor.detach(), "r+b", buffering=0))


def _close(file: IO[bytes]) -> None:
    # A failed write on a full disk may be reported again on close; the data is no longer needed.
    with suppress(OSError):
        file.close()


class SpilledRows:
    """Rows in the order in which they were added: in memory up to a limit, and beyond it in a :class:`SpillFile`.

    They can be iterated repeatedly, in parts. Pickling sends the rows in memory and the open file.

    Args:
        dtype: type of a row.
        room: bytes of rows to keep in memory.
    """

    def __init__(self, dtype: np.dtype[Any], room: int = ROOM) -> None:
        self._dtype, self._room = dtype, max(room // dtype.itemsize, 1)
        self._parts: list[StructArray] = []
        self._pending = self._written = 0
        self._file: SpillFile | None = None

    @classmethod
    def of(cls, dtype: np.dtype[Any], parts: Iterable[StructArray]) -> Self:
        """Return the rows of all parts.

        Raises:
            UsageError: temporary files cannot be written.
        """
        rows = cls(dtype)
        for part in parts:
            rows.add(part)
        return rows

    def add(self, rows: StructArray) -> None:
        """Add rows; the array is kept.

        Raises:
            UsageError: temporary files cannot be written.
        """
        if len(rows):
            self._parts.append(own_rows(rows))
            self._pending += len(rows)
        if self._pending > self._room:
            self._file = self._file or SpillFile(self._dtype)
            for part in self._parts:
                self._file.append(part)
            self._written, self._parts, self._pending = self._written + self._pending, [], 0

    def __len__(self) -> int:
        return self._written + self._pending

    def __iter__(self) -> Iterator[StructArray]:
        """Yield the rows in parts, none of them empty; changes of what is yielded may or may not be kept."""
        for first in range(0, self._written, self._room):
            if self._file is not None:
                yield self._file.read(first, min(self._room, self._written - first))
        if self._parts:
            self._parts = [concat_rows(self._parts)]
            yield from self._parts
