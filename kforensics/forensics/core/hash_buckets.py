"""Any number of rows in bounded memory, grouped into buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, Self

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.spill_file import SpillFile
from kforensics.parsers.format.array_types import IntArray, StructArray

__all__ = ["HashBuckets"]


class HashBuckets:
    """Groups rows into buckets: in memory up to a limit, and beyond it in a :class:`.spill_file.SpillFile`.

    Args:
        dtype: type of a row.
        room: bytes of rows to keep in memory; writing and reading take a few times that for a moment.
        buckets: number of buckets, at most 65536.
        bucket_of: returns the bucket number of each row.

    Attributes:
        rows: number of rows added.
        spilled: whether some of them are in the file.
    """

    def __init__(
        self, dtype: np.dtype[Any] | str, room: int, buckets: int, bucket_of: Callable[[StructArray], IntArray]
    ) -> None:
        self._dtype, self._bucket_of = np.dtype(dtype), bucket_of
        self._room, self._buckets = max(room // self._dtype.itemsize, 1), buckets
        self._parts: list[StructArray] = []
        self._pending = self.rows = 0
        self._file: SpillFile | None = None
        # For each write to the file, the row numbers where the buckets start.
        self._starts: list[IntArray] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._parts = []
        if self._file is not None:
            self._file.close()

    @property
    def spilled(self) -> bool:
        """Whether some of the rows are in the file."""
        return self._file is not None

    def add(self, rows: StructArray) -> None:
        """Add rows; the array is kept.

        Raises:
            UsageError: temporary files cannot be written.
        """
        self._parts.append(rows)
        self._pending += len(rows)
        self.rows += len(rows)
        if self._pending > self._room:
            self._write()

    def _write(self) -> None:
        self._file = self._file or SpillFile(self._dtype)
        rows = concat_rows(self._parts)
        self._parts, self._pending = [], 0
        numbers = self._bucket_of(rows).astype("u2")
        order = np.argsort(numbers, kind="stable")
        counts = np.bincount(numbers, minlength=self._buckets)
        first = self._file.append(take_rows(rows, order))
        self._starts.append(first + np.concatenate([[0], np.cumsum(counts)]))

    def buckets(self) -> Iterator[Iterator[StructArray]]:
        """Yield the buckets by number, each as parts with its rows in the order they were added.

        Rows that all fit into memory form one bucket. A part has no more rows than are kept in memory.
        """
        if self._file is None:
            if self._parts:
                yield iter([concat_rows(self._parts)])
            return
        if self._parts:
            self._write()
        for bucket in range(self._buckets):
            yield self._read(self._file, bucket)

    def _read(self, file: SpillFile, bucket: int) -> Iterator[StructArray]:
        parts: list[StructArray] = []
        pending = 0
        for starts in self._starts:
            begin, end = int(starts[bucket]), int(starts[bucket + 1])
            if pending and pending + end - begin > self._room:
                yield concat_rows(parts)
                parts, pending = [], 0
            if end > begin:
                parts.append(file.read(begin, end - begin))
                pending += end - begin
        if parts:
            yield concat_rows(parts)
