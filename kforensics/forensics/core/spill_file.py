"""Records in a temporary file without a name, which may travel to another process."""

from __future__ import annotations

import os
import tempfile
import weakref
from contextlib import suppress
from typing import IO, Any

import numpy as np

from kforensics.errors import UsageError
from kforensics.forensics.core.record_types import Records

__all__ = ["RowFile"]


class RowFile:
    """Records of one type in a temporary file.

    The file has no name from the beginning, so nothing is left of it whatever ends this process. It lies where the
    system keeps temporary files (``TMPDIR``), never beside the evidence. It is closed once nobody has the object.

    Pickled on its way to another process, the file itself goes there, not what is in it.

    Args:
        dtype: type of a record.
        file: a file that is there already.

    Raises:
        UsageError: nothing can be written where temporary files lie.
    """

    def __init__(self, dtype: np.dtype[Any], file: IO[bytes] | None = None) -> None:
        self._dtype = dtype
        self._file = file or _opened()
        weakref.finalize(self, _close, self._file)

    def append(self, rows: Records) -> int:
        """Write records behind all others and return the number of the first.

        Raises:
            UsageError: there is no room for them.
        """
        begun = self._file.seek(0, os.SEEK_END) // self._dtype.itemsize
        data = np.ascontiguousarray(rows).view("u1").data
        try:
            while data:
                data = data[self._file.write(data) :]
        except OSError as error:
            raise _unusable(error) from error
        return begun

    def read(self, first: int, count: int) -> Records:
        """Return so many records from the one with a number on."""
        rows = np.empty(count, self._dtype)
        data = rows.view("u1").data
        self._file.seek(first * self._dtype.itemsize)
        while data:
            size = self._file.readinto(data)  # type: ignore[attr-defined]  # it is a raw file
            if not size:
                raise OSError("a temporary file has become shorter")
            data = data[size:]
        return rows

    def __reduce__(self) -> tuple[Any, ...]:
        from multiprocessing.reduction import DupFd  # only who has processes pays for it

        return _arrived, (self._dtype, DupFd(self._file.fileno()))


def _opened() -> IO[bytes]:
    try:
        return tempfile.TemporaryFile(prefix="kforensics-", buffering=0)
    except OSError as error:
        raise _unusable(error) from error


def _unusable(error: OSError) -> UsageError:
    return UsageError(
        f"what does not fit into memory goes into a temporary file, and that cannot be written: {error.strerror}; "
        "name a folder with room for it in the environment variable TMPDIR"
    )


def _arrived(dtype: np.dtype[Any], descriptor: Any) -> RowFile:
    return RowFile(dtype, os.fdopen(descriptor.detach(), "r+b", buffering=0))


def _close(file: IO[bytes]) -> None:
    # What could not be written, on a full disk, is of no use any more.
    with suppress(OSError):
        file.close()
