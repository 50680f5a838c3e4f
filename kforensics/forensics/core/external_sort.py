"""An external sort: any number of rows, sorted in bounded memory and read back page by page."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, copy_rows, own_rows, take_rows
from kforensics.forensics.core.spill_file import SpillFile
from kforensics.parsers.format.array_types import StructArray

__all__ = ["PAGE_SIZE", "ROOM", "ExternalSort", "SortedRows"]

Key = Callable[[StructArray], Any]

# Bytes of rows to keep in memory.
ROOM = 16 << 20
# Rows of a page: enough to make NumPy's overhead negligible, and few enough to hold several pages at once.
PAGE_SIZE = 1 << 15


@dataclass(frozen=True, slots=True)
class _Piece:
    """Sorted rows in the file.

    Attributes:
        first: number of the first row.
        count: number of rows.
        last_key: key of the last row.
    """

    first: int
    count: int
    last_key: int


class ExternalSort:
    """Takes rows in any order; rows with equal keys keep the order in which they were added.

    Optimized for rows that are nearly sorted. Half of the memory limit is for the newest rows, before which late ones
    may still belong; older rows go to a temporary file, piece by piece. Late rows stay in memory. If there are very
    many of them they become a sorted run of their own, and all runs are merged at the end.

    Args:
        dtype: type of a row.
        key: returns the integers to sort rows by.
        room: bytes of rows to keep in memory; sorting takes twice that for a moment.
        size: maximum number of rows of a page; late rows, which fit into memory, come on top.
    """

    def __init__(self, dtype: np.dtype[Any], key: Key, room: int = ROOM, size: int = PAGE_SIZE) -> None:
        self._dtype, self._key, self._bytes, self._size = dtype, key, room, size
        self._room = max(room // dtype.itemsize, 4)
        self._parts: list[StructArray] = []
        self._pending = 0
        self._file: SpillFile | None = None
        # In the file: the pieces in order from its start, and runs of rows that arrived too late for those.
        self._pieces: list[_Piece] = []
        self._late: list[list[_Piece]] = []

    def add(self, rows: StructArray) -> None:
        """Add rows; the array is kept."""
        for first in range(0, len(rows), self._room):
            self._parts.append(own_rows(rows[first : first + self._room]))
            self._pending += len(self._parts[-1])
            if self._pending > self._room:
                self._write()

    def _write(self) -> None:
        rows = self._in_order()
        keys = self._key(rows)
        late = int(np.searchsorted(keys, self._pieces[-1].last_key)) if self._pieces else 0
        newest = max(late, len(rows) - self._room // 2)
        self._pieces += self._written(rows[late:newest])
        if late > self._room // 4:
            self._late.append(self._written(rows[:late]))
            late = 0
        self._parts = [copy_rows(rows[:late]), copy_rows(rows[newest:])]
        self._pending = late + len(rows) - newest

    def _in_order(self) -> StructArray:
        rows = concat_rows(self._parts) if self._parts else np.empty(0, self._dtype)
        self._parts, self._pending = [], 0
        return _ordered(rows, self._key)

    def _written(self, rows: StructArray) -> list[_Piece]:
        self._file = self._file or SpillFile(self._dtype)
        pieces = []
        for first in range(0, len(rows), self._size):
            piece = rows[first : first + self._size]
            pieces.append(_Piece(self._file.append(piece), len(piece), int(self._key(piece[-1:])[0])))
        return pieces

    def finish(self) -> SortedRows:
        """Return the rows in order; no others can be added."""
        rest = self._in_order()
        if not self._late:
            return SortedRows(self._dtype, self._key, self._file, self._pieces, rest, self._size)
        merged = ExternalSort(self._dtype, self._key, self._bytes, self._size)
        for rows in self._merged(rest):
            merged.add(rows)
        return merged.finish()

    def _merged(self, rest: StructArray) -> Iterator[StructArray]:
        """Yield all rows in order, merged from sorted runs; for equal keys the earlier run comes first."""
        no_rows = np.empty(0, self._dtype)
        runs = [_Run(self._file, pieces, no_rows) for pieces in (self._pieces, *self._late)]
        runs.append(_Run(self._file, [], rest))
        block = max(self._room // (2 * len(runs)), 1)
        while True:
            for run in runs:
                run.load(block)
            keys = [self._key(run.rows) for run in runs]
            ends = [
                (int(key[-1]), number) for number, (run, key) in enumerate(zip(runs, keys, strict=True)) if run.has_more
            ]
            if not ends:
                yield _ordered(concat_rows([run.rows for run in runs]), self._key)
                return
            # After the first of these ends, its run may continue with rows that belong before those of other runs.
            bound, earliest = min(ends)
            sides: Any = ["right" if number <= earliest else "left" for number in range(len(runs))]
            cuts = [int(np.searchsorted(key, bound, side)) for key, side in zip(keys, sides, strict=True)]
            yield _ordered(concat_rows([run.take(cut) for run, cut in zip(runs, cuts, strict=True)]), self._key)


class _Run:
    """A sorted run, partly in memory.

    Attributes:
        rows: the rows that are in memory.
    """

    def __init__(self, file: SpillFile | None, pieces: Sequence[_Piece], rows: StructArray) -> None:
        self._file, self._left = file, [(piece.first, piece.count) for piece in reversed(pieces)]
        self.rows = rows

    @property
    def has_more(self) -> bool:
        """Whether more rows follow those in memory."""
        return bool(self._left)

    def load(self, block: int) -> None:
        """Read rows into memory if there are none."""
        if self._file is not None and self._left and not len(self.rows):
            first, count = self._left.pop()
            if count > block:
                self._left.append((first + block, count - block))
            self.rows = self._file.read(first, min(count, block))

    def take(self, count: int) -> StructArray:
        """Remove and return the first rows."""
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


def _ordered(rows: StructArray, key: Key) -> StructArray:
    keys = key(rows)
    if not (keys[1:] < keys[:-1]).any():
        return rows
    return take_rows(rows, np.argsort(keys, kind="stable"))


class SortedRows:
    """Sorted rows, in memory or in a temporary file, as pages that can be read repeatedly.

    Args:
        dtype: type of a row.
        key: returns the keys the rows are sorted by.
        file: holds the pieces.
        pieces: the rows in the file, in order.
        rest: the rows in memory, in order.
        size: maximum number of rows of a page; rows in memory that belong between those of a piece come on top.

    Attributes:
        last_keys: for each page the key of its last row.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # only ExternalSort creates it
        self,
        dtype: np.dtype[Any],
        key: Key,
        file: SpillFile | None,
        pieces: Sequence[_Piece],
        rest: StructArray,
        size: int,
    ) -> None:
        self._dtype, self._key, self._file, self._rest = dtype, key, file, rest
        keys = key(rest)
        ends = [piece.last_key for piece in pieces]
        # A piece may start with the key that the previous one ends with; rows in memory were added after both.
        cuts = [0, *np.searchsorted(keys, ends).tolist()]
        self._pages = [(piece.first, piece.count, *cuts[number : number + 2]) for number, piece in enumerate(pieces)]
        starts = range(cuts[-1], len(rest), size)
        self._pages += [(0, 0, first, min(first + size, len(rest))) for first in starts]
        self.last_keys = np.array(ends + [int(keys[min(start + size, len(rest)) - 1]) for start in starts], "i8")
        self._count = len(rest) + sum(piece.count for piece in pieces)

    def __len__(self) -> int:
        return self._count

    @property
    def page_count(self) -> int:
        """Number of pages."""
        return len(self._pages)

    @property
    def is_in_memory(self) -> bool:
        """Whether all rows are in memory."""
        return self._file is None

    def read(self, number: int) -> StructArray:
        """Return the rows of a page."""
        first, count, begin, end = self._pages[number]
        others = self._rest[begin:end]
        if self._file is None or not count:
            return others
        rows = self._file.read(first, count)
        return _ordered(concat_rows([rows, others]), self._key) if end > begin else rows

    def __iter__(self) -> Iterator[StructArray]:
        for number in range(self.page_count):
            yield self.read(number)

    def between(self, first: int, last: int) -> Iterator[StructArray]:
        """Yield the rows with a key from ``first`` to ``last``, inclusive, page by page."""
        for number in range(int(np.searchsorted(self.last_keys, first)), self.page_count):
            rows = self.read(number)
            keys = self._key(rows)
            if keys[0] > last:
                return
            matching = rows[np.searchsorted(keys, first) : np.searchsorted(keys, last, "right")]
            if len(matching):
                yield matching

    def at(self, first: int, last: int) -> StructArray:
        """Return the rows with a key from ``first`` to ``last``, inclusive, in one array."""
        return concat_rows([np.empty(0, self._dtype), *self.between(first, last)])
