"""Rows of a result table as NumPy columns, and their conversion to Python values and Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Table, arrow_type, encodable

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["Lists", "Numbers", "RowChunks", "RowStream", "Rows", "Words", "nullable"]

Numbers: TypeAlias = "npt.NDArray[Any]"
# Rows to convert to Python values at once.
CHUNK = 1 << 13
# Rows that RowChunks collects before it emits them.
ROW_CHUNK = 1 << 12


@dataclass(frozen=True, slots=True)
class Nullable:
    """Numbers, some of them null.

    Attributes:
        numbers: one per row.
        null: mask of the null values.
    """

    numbers: Numbers
    null: Numbers


@dataclass(frozen=True, slots=True)
class Words:
    """Strings with few distinct values, dictionary-encoded.

    Attributes:
        codes: indexes into ``words``, -1 for null.
        words: the distinct values.
    """

    codes: Numbers
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of structs in each row.

    Attributes:
        records: a two-dimensional array; each row has its list first and padding after it.
        counts: lengths of the lists.
    """

    records: Numbers
    counts: Numbers

    def values(self, start: int, stop: int) -> list[list[dict[str, int]]]:
        """Return the lists of some rows as Python values."""
        names = self.records.dtype.names or ()
        rows = zip(self.records[start:stop].tolist(), self.counts[start:stop].tolist(), strict=True)
        return [[dict(zip(names, struct, strict=True)) for struct in row[:count]] for row, count in rows]

    def array(self, kind: pa.DataType) -> pa.Array:
        """Return the lists as Arrow."""
        import pyarrow as pa  # imported only for Arrow formats

        counted = self.records[np.arange(self.records.shape[1]) < self.counts[:, None]]
        fields = [pa.array(counted[field.name]).cast(field.type) for field in kind.value_type]
        ends = np.concatenate([[0], np.cumsum(self.counts)]).astype("i4")
        structs = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
        return pa.ListArray.from_arrays(pa.array(ends), structs)


def nullable(numbers: Numbers, null: Any) -> Nullable:
    """Return numbers with nulls, given as a mask or as the number that means null."""
    return Nullable(numbers, null if isinstance(null, np.ndarray) else numbers == null)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table.

    Attributes:
        table: which table.
        length: how many rows.
        columns: by name: an array, :class:`Nullable`, :class:`Words`, :class:`Lists`, a list of Python values, or one
            value for all rows.
    """

    table: Table
    length: int
    columns: Mapping[str, Any]

    def __len__(self) -> int:
        return self.length

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows, in the column order of the table."""
        return self.only(*self.table.names)

    def only(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of the rows."""
        for start in range(0, self.length, CHUNK):
            stop = min(start + CHUNK, self.length)
            yield from zip(*(_values(self.columns[name], start, stop) for name in names), strict=True)

    def parts(self) -> Iterator[Rows]:
        """Yield the rows in one part; the counterpart of :meth:`RowStream.parts`."""
        yield self

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as one Arrow record batch."""
        yield self.record_batch()

    def record_batch(self) -> pa.RecordBatch:
        """Return the rows as an Arrow record batch."""
        import pyarrow as pa  # imported only for Arrow formats

        kinds = [arrow_type(column.type) for column in self.table.columns]
        arrays = [self._array(name, kind) for name, kind in zip(self.table.names, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(zip(self.table.names, kinds, strict=True)))

    def _array(self, name: str, kind: pa.DataType) -> pa.Array:
        import pyarrow as pa  # imported only for Arrow formats

        column = self.columns[name]
        if isinstance(column, Lists):
            return column.array(kind)
        if isinstance(column, Words):
            words = [encodable(word) for word in column.words]
            return pa.DictionaryArray.from_arrays(_codes(column), pa.array(words, pa.string())).dictionary_decode()
        if isinstance(column, Nullable):
            return pa.array(np.ascontiguousarray(column.numbers), mask=column.null).cast(kind)
        if isinstance(column, np.ndarray):
            return pa.array(np.ascontiguousarray(column)).cast(kind)
        if isinstance(column, list):
            return pa.array([encodable(value) if isinstance(value, str) else value for value in column], kind)
        return pa.repeat(pa.scalar(encodable(column) if isinstance(column, str) else column, kind), self.length)

    def taken(self, which: Any) -> Rows:
        """Return the rows at some indexes, in that order."""
        return Rows(self.table, len(which), {name: _taken(column, which) for name, column in self.columns.items()})


@dataclass(frozen=True, slots=True)
class RowStream:
    """Rows of a table that may be too many to hold in memory.

    They can be iterated repeatedly. Pickling sends what they are computed from.

    Attributes:
        table: which table.
        made: computes the rows, part by part.
    """

    table: Table
    made: Callable[[], Iterator[Rows]]

    def parts(self) -> Iterator[Rows]:
        """Yield the rows in parts that fit into memory; parts may be empty."""
        return self.made()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one, in the column order of the table."""
        return chain.from_iterable(self.parts())

    def only(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of the rows."""
        return chain.from_iterable(part.only(*names) for part in self.parts())

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow record batches, part by part."""
        return (part.record_batch() for part in self.parts() if len(part))


class RowChunks:
    """Collects rows one by one and emits them in chunks, with the columns of their place added.

    Args:
        table: their table.
        place: the leading columns, equal for all rows.
        keep: called with each chunk.
    """

    def __init__(self, table: Table, place: Place, keep: Callable[[Rows], None]) -> None:
        self._table, self._place, self._keep = table, place._asdict(), keep
        self._rows: list[tuple[Any, ...]] = []

    def add(self, row: tuple[Any, ...]) -> None:
        """Add a row: the columns of the table after the place."""
        self._rows.append(row)
        if len(self._rows) >= ROW_CHUNK:
            self.finish()

    def finish(self) -> None:
        """Emit the remaining rows."""
        if self._rows:
            names = self._table.names[len(self._place) :]
            columns = dict(zip(names, map(list, zip(*self._rows, strict=True)), strict=True))
            self._keep(Rows(self._table, len(self._rows), {**self._place, **columns}))
            self._rows = []


def _codes(column: Words) -> pa.Array:
    import pyarrow as pa  # imported only for Arrow formats

    return pa.array(column.codes.astype("i4"), mask=column.codes < 0)


def _taken(column: Any, which: Any) -> Any:
    if isinstance(column, Lists):
        return Lists(column.records[which], column.counts[which])
    if isinstance(column, Words):
        return Words(column.codes[which], column.words)
    if isinstance(column, Nullable):
        return Nullable(column.numbers[which], column.null[which])
    if isinstance(column, np.ndarray):
        return column[which]
    return [column[index] for index in which] if isinstance(column, list) else column


def _values(column: Any, start: int, stop: int) -> Sequence[Any]:
    if isinstance(column, Lists):
        return column.values(start, stop)
    if isinstance(column, Words):
        # The code -1 selects this None.
        words = (*column.words, None)
        return [words[code] for code in column.codes[start:stop].tolist()]
    if isinstance(column, Nullable):
        numbers, null = column.numbers[start:stop].tolist(), column.null[start:stop].tolist()
        return [None if is_null else number for number, is_null in zip(numbers, null, strict=True)]
    if isinstance(column, np.ndarray):
        values: list[Any] = column[start:stop].tolist()
        return values
    return column[start:stop] if isinstance(column, list) else [column] * (stop - start)
