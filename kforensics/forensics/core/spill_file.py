"""Rows in an unnamed temporary file that other processes can read, too."""

from __future__ import annotations

import os
import tempfile
import weakref
from contextlib import suppress
from typing import IO, Any

import numpy as np

from kforensics.errors import UsageError
from kforensics.parsers.format.array_types import StructArray

__all__ = ["SpillFile"]


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
