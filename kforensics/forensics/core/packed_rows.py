"""Rows of a structured type in a fraction of their memory, for tasks that hold very many.

In a block of rows that follow each other in a log most columns have one value, and others, times and offsets, lie close
together: a block keeps the smallest value of a column, and the distances from it in the smallest type that holds them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TypeAlias, overload

import numpy as np

from kforensics.parsers.format.array_types import BoolArray, Column, IntArray, StructArray

__all__ = [
    "PackedRows",
    "RowPacker",
    "Side",
    "StructRows",
    "as_array",
    "column_at",
    "pieces",
    "search_column",
    "with_column",
]

# As in np.searchsorted.
Side: TypeAlias = Literal["left", "right"]

# Rows of a block, at least, unless others follow that are packed already.
BLOCK = 1 << 15
DISTANCES = ("u1", "u2", "u4")
# Fewer rows than one of so many are read from their blocks; for more, the column is unpacked.
SPARSE = 8


@dataclass(frozen=True, slots=True)
class _PackedColumn:
    """A column of a block.

    Attributes:
        least: the smallest value.
        distances: distances from it, None if all values are equal.
    """

    least: int
    distances: Column | None

    @classmethod
    def of(cls, values: Column) -> _PackedColumn:
        """Pack the values of a column, at least one."""
        least, most = int(values.min()), int(values.max())
        if least == most:
            return cls(least, None)
        for dtype in DISTANCES:
            if most - least <= np.iinfo(dtype).max and np.dtype(dtype).itemsize < values.dtype.itemsize:
                return cls(least, (values - values.dtype.type(least)).astype(dtype))
        return cls(0, np.ascontiguousarray(values))

    def put(self, out: Column, rows: slice) -> None:
        """Write the values of some rows."""
        if self.distances is None:
            out[:] = self.least
        else:
            out[:] = self.distances[rows]
            if self.least:
                out += out.dtype.type(self.least)

    def at(self, rows: IntArray, dtype: np.dtype[Any]) -> Column:
        """Return the values of some rows."""
        if self.distances is None:
            return np.full(len(rows), self.least, dtype)
        values: Column = self.distances[rows].astype(dtype)
        return values + dtype.type(self.least) if self.least else values


_Block: TypeAlias = dict[str, _PackedColumn]


class PackedRows:
    """Rows that are read by column, or some of them at a time, and not changed.

    As with an array, a name selects a column, indexes or a mask select rows, and a slice without a step selects a part
    that shares its memory. Columns and rows are copies.

    Args:
        dtype: their type, whose fields are integers and booleans.
        blocks: blocks of rows.
        ends: number of rows up to the end of each block.
        start: index of the first row.
        stop: index after the last row; None for all.
    """

    def __init__(
        self, dtype: np.dtype[np.void], blocks: list[_Block], ends: IntArray, start: int = 0, stop: int | None = None
    ) -> None:
        self.dtype, self._blocks, self._ends = dtype, blocks, ends
        self._start, self._stop = start, (int(ends[-1]) if len(ends) else 0) if stop is None else stop
        self._lasts: dict[str, Column] = {}

    def __len__(self) -> int:
        return self._stop - self._start

    @overload
    def __getitem__(self, key: str) -> Column: ...
    @overload
    def __getitem__(self, key: slice) -> PackedRows: ...
    @overload
    def __getitem__(self, key: int) -> np.void: ...
    @overload
    def __getitem__(self, key: IntArray) -> StructArray: ...
    def __getitem__(self, key: str | slice | int | IntArray) -> Column | StructArray | PackedRows | np.void:
        """Return a column, a part, a row, or some rows."""
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, slice):
            start, stop, _ = key.indices(len(self))
            stop = self._start + max(start, stop)
            return PackedRows(self.dtype, self._blocks, self._ends, self._start + start, stop)
        if isinstance(key, int):
            row: np.void = self.fields(np.array([range(len(self))[key]]), self.dtype.names or ())[0]
            return row
        return self.fields(key, self.dtype.names or ())

    def fields(self, indexes: IntArray | BoolArray, names: Sequence[str]) -> StructArray:
        """Return some fields of some rows, by indexes or by a mask."""
        indexes = np.asarray(indexes)
        indexes = np.flatnonzero(indexes) if indexes.dtype == bool else indexes
        if len(indexes) and not 0 <= int(indexes.min()) <= int(indexes.max()) < len(self):
            raise IndexError(f"{len(self)} rows have no index from {indexes.min()} to {indexes.max()}")
        rows: StructArray = np.empty(len(indexes), [(name, self.dtype[name]) for name in names])
        for number, places, among in self._by_block(indexes + self._start):
            for name in names:
                rows[name][places] = self._blocks[number][name].at(among, self.dtype[name])
        return rows

    def searchsorted(self, name: str, values: IntArray, side: Side = "left") -> IntArray:
        """Return where values belong in a column that is sorted, as ``np.searchsorted`` does."""
        self._check_is_whole()
        lasts = self._last_values(name)
        indexes: IntArray = np.full(len(values), len(self))
        block_of = np.searchsorted(lasts, values, side)
        for number in np.unique(block_of[block_of < len(lasts)]).tolist():
            start, end = int(self._ends[number - 1]) if number else 0, int(self._ends[number])
            places = np.flatnonzero(block_of == number)
            indexes[places] = start + np.searchsorted(self[start:end][name], values[places], side)
        return indexes

    def _last_values(self, name: str) -> Column:
        """Return the last value of a column in each block; many searches for few values use them."""
        if name not in self._lasts:
            self._lasts[name] = self.fields(self._ends - 1, (name,))[name]
        return self._lasts[name]

    def with_column(self, name: str, values: Callable[[PackedRows], Column]) -> PackedRows:
        """Return the rows with other values in a column; the other columns share their memory.

        Args:
            name: the column.
            values: returns the values for some of the rows.
        """
        blocks = [{**block, name: _PackedColumn.of(values(rows))} for block, rows in self.blocks()]
        return PackedRows(self.dtype, blocks, self._ends)

    def blocks(self) -> Iterator[tuple[_Block, PackedRows]]:
        """Yield the blocks of all rows, each with its rows."""
        self._check_is_whole()
        for block, (start, end) in zip(self._blocks, pairwise([0, *self._ends.tolist()]), strict=True):
            yield block, self[start:end]

    def _check_is_whole(self) -> None:
        if self._start or self._stop != (self._ends[-1] if len(self._ends) else 0):
            raise ValueError("a part of the rows has no blocks of its own")

    def _column(self, name: str) -> Column:
        column: Column = np.empty(len(self), self.dtype[name])
        first = int(np.searchsorted(self._ends, self._start, "right"))
        for number in range(first, len(self._blocks)):
            end = int(self._ends[number])
            begin = int(self._ends[number - 1]) if number else 0
            if begin >= self._stop:
                break
            start, stop = max(begin, self._start), min(end, self._stop)
            out = column[start - self._start : stop - self._start]
            self._blocks[number][name].put(out, slice(start - begin, stop - begin))
        return column

    def _by_block(self, indexes: IntArray) -> Iterator[tuple[int, Any, IntArray]]:
        """Yield the number of each block, the places of its rows among the indexes, and their indexes in the block."""
        block_of = np.searchsorted(self._ends, indexes, "right")
        is_sorted = bool((block_of[1:] >= block_of[:-1]).all())
        order = None if is_sorted else np.argsort(block_of, kind="stable")
        in_order = block_of if order is None else block_of[order]
        cuts = np.flatnonzero(np.diff(in_order)) + 1
        bounds = [0, *cuts.tolist(), len(indexes)]
        for start, stop in pairwise(bounds if len(indexes) else []):
            number = int(in_order[start])
            places = slice(start, stop) if order is None else order[start:stop]
            yield number, places, indexes[places] - (int(self._ends[number - 1]) if number else 0)


# Rows of a structured type: an array, or packed.
StructRows: TypeAlias = "StructArray | PackedRows"


def column_at(rows: StructRows, name: str, indexes: IntArray) -> Column:
    """Return the values of a column in some rows."""
    if isinstance(rows, PackedRows) and len(indexes) < len(rows) // SPARSE:
        return rows.fields(indexes, (name,))[name]
    column: Column = rows[name][indexes]
    return column


def search_column(rows: StructRows, name: str, values: IntArray, side: Side = "left") -> IntArray:
    """Return where values belong in a column that is sorted, as ``np.searchsorted`` does."""
    if isinstance(rows, PackedRows):
        return rows.searchsorted(name, values, side)
    indexes: IntArray = np.searchsorted(rows[name], values, side)
    return indexes


def with_column(rows: StructRows, name: str, values: Callable[[StructRows], Column]) -> StructRows:
    """Return rows with other values in a column; an array is changed."""
    if isinstance(rows, PackedRows):
        return rows.with_column(name, values)
    rows[name] = values(rows)
    return rows


def as_array(rows: StructRows) -> StructArray:
    """Return rows that may be packed as an array."""
    if not isinstance(rows, PackedRows):
        return rows
    array: StructArray = np.empty(len(rows), rows.dtype)
    for name in rows.dtype.names or ():
        array[name] = rows[name]
    return array


def pieces(rows: StructRows) -> Iterator[StructRows]:
    """Yield all rows in parts whose columns take little memory."""
    for start in range(0, len(rows), BLOCK):
        yield rows[start : start + BLOCK]


class RowPacker:
    """Packs rows as they arrive.

    Args:
        dtype: their type, whose fields are integers and booleans.
    """

    def __init__(self, dtype: np.dtype[np.void]) -> None:
        self._dtype = dtype
        self._blocks: list[_Block] = []
        self._lengths: list[int] = []
        self._waiting: list[StructArray] = []
        self._count = 0

    def add(self, rows: StructRows, **constants: int) -> None:
        """Add rows, which are kept as they are or shared: the caller no longer changes them.

        Args:
            rows: the rows.
            constants: fields that have one value in all of these rows.
        """
        if isinstance(rows, PackedRows):
            for block, part in rows.blocks():
                if len(part) < BLOCK:
                    self._add_array(as_array(part), constants)
                else:
                    self._pack_waiting()
                    columns = {name: _PackedColumn(value, None) for name, value in constants.items()}
                    self._append({**block, **columns}, len(part))
        else:
            self._add_array(rows.copy() if constants else rows, constants)

    def rows(self) -> StructRows:
        """Return all rows, as an array if they are few, which may be one that was added."""
        if self._blocks:
            return self.packed()
        if len(self._waiting) == 1:
            return self._waiting[0]
        rows: StructArray = np.concatenate(self._waiting) if self._waiting else np.empty(0, self._dtype)
        return rows

    def packed(self) -> PackedRows:
        """Return all rows."""
        self._pack_waiting()
        return PackedRows(self._dtype, self._blocks, np.cumsum(self._lengths, dtype="i8"))

    def _add_array(self, rows: StructArray, constants: dict[str, int]) -> None:
        for name, value in constants.items():
            rows[name] = value
        for start in range(0, len(rows), BLOCK):
            self._waiting.append(rows[start : start + BLOCK])
            self._count += len(self._waiting[-1])
            if self._count >= BLOCK:
                self._pack_waiting()

    def _pack_waiting(self) -> None:
        if self._waiting:
            names, waiting = self._dtype.names or (), self._waiting
            block = {name: _PackedColumn.of(np.concatenate([rows[name] for rows in waiting])) for name in names}
            self._append(block, self._count)
            self._waiting, self._count = [], 0

    def _append(self, block: _Block, length: int) -> None:
        self._blocks.append(block)
        self._lengths.append(length)
