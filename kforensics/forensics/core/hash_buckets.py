"""Rows of any number in bounded memory, given back bucket by bucket."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records

__all__ = ["Spill"]


class Spill:
    """Rows that are kept in memory up to a limit, and beyond it in a temporary file without a name.

    The file has no name from the beginning, so nothing is left of it whatever ends this process. It lies where the
    system keeps temporary files (``TMPDIR``), never beside the evidence.

    Args:
        dtype: type of a row.
        room: bytes of rows to keep in memory; writing and reading take some times that for a moment.
        buckets: how many there are, at most 65536.
        bucket_of: returns the number of the bucket of each row.

    Attributes:
        rows: how many were added.
        spilled: whether some of them are in the file.
    """

    def __init__(
        self, dtype: np.dtype[Any] | str, room: int, buckets: int, bucket_of: Callable[[Records], Records]
    ) -> None:
        self._dtype, self._bucket_of = np.dtype(dtype), bucket_of
        self._room, self._buckets = max(room // self._dtype.itemsize, 1), buckets
        self._parts: list[Records] = []
        self._pending = self.rows = 0
        self._file: IO[bytes] | None = None
        # For each time rows went into the file, where those of each bucket begin, as numbers of rows.
        self._starts: list[Records] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts = []
        if self._file is not None:
            # What could not be written, on a full disk, is of no use any more.
            with suppress(OSError):
                self._file.close()

    @property
    def spilled(self) -> bool:
        """See the class."""
        return self._file is not None

    def add(self, rows: Records) -> None:
        """Add rows; the array is kept."""
        self._parts.append(rows)
        self._pending += len(rows)
        self.rows += len(rows)
        if self._pending > self._room:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="kforensics-", buffering=0)  # noqa: SIM115  # closed by __exit__
        rows = joined_records(self._parts)
        self._parts, self._pending = [], 0
        numbers = self._bucket_of(rows).astype("u2")
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=self._buckets)
        begun = self._file.seek(0, 2) // self._dtype.itemsize
        self._starts.append(begun + np.concatenate([[0], np.cumsum(counts)]))
        data = picked(rows, order).view("u1").data
        while data:
            data = data[self._file.write(data) :]

    def buckets(self) -> Iterator[Iterator[Records]]:
        """Yield the buckets, in the order of their numbers, as parts with the rows in the order they were added.

        Rows that all fit into memory are one bucket. A part has no more rows than are kept in memory.
        """
        if self._file is None:
            if self._parts:
                yield iter([joined_records(self._parts)])
            return
        if self._parts:
            self._write()
        for bucket in range(self._buckets):
            yield self._read(self._file, bucket)

    def _read(self, file: IO[bytes], bucket: int) -> Iterator[Records]:
        parts: list[Records] = []
        pending = 0
        for starts in self._starts:
            begin, end = starts[bucket], starts[bucket + 1]
            if pending and pending + end - begin > self._room:
                yield joined_records(parts)
                parts, pending = [], 0
            if end > begin:
                file.seek(begin * self._dtype.itemsize)
                parts.append(np.fromfile(file, self._dtype, end - begin))
                pending += end - begin
        if parts:
            yield joined_records(parts)
