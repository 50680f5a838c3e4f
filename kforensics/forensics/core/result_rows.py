"""Rows of a table of verdicts as numpy columns, and how they become rows of Python values or Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.parsers.tables.schemas import Table, arrow_type, encodable

if TYPE_CHECKING:
    import numpy.typing as npt
    import pyarrow as pa

__all__ = ["Lists", "Numbers", "RowStream", "Rows", "Words", "nullable"]

Numbers: TypeAlias = "npt.NDArray[Any]"
# Rows that are Python values at a time.
CHUNK = 1 << 13


@dataclass(frozen=True, slots=True)
class Nullable:
    """Numbers of which some are null.

    Attributes:
        numbers: one per row.
        null: which of them mean nothing.
    """

    numbers: Numbers
    null: Numbers


@dataclass(frozen=True, slots=True)
class Words:
    """Text of which there are few kinds.

    Attributes:
        codes: numbers of words, -1 for null.
        words: the words.
    """

    codes: Numbers
    words: Sequence[str]


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of records in each row.

    Attributes:
        records: as many in each row as there may be at most, those that count first.
        counts: how many count.
    """

    records: Numbers
    counts: Numbers

    def values(self, start: int, stop: int) -> list[list[dict[str, int]]]:
        """Return the lists of some rows as Python values."""
        names = self.records.dtype.names or ()
        rows = zip(self.records[start:stop].tolist(), self.counts[start:stop].tolist(), strict=True)
        return [[dict(zip(names, one, strict=True)) for one in row[:count]] for row, count in rows]

    def array(self, kind: pa.DataType) -> pa.Array:
        """Return the lists as Arrow."""
        import pyarrow as pa  # only Arrow formats pay for it

        counted = self.records[np.arange(self.records.shape[1]) < self.counts[:, None]]
        fields = [pa.array(counted[field.name]).cast(field.type) for field in kind.value_type]
        ends = np.concatenate([[0], np.cumsum(self.counts)]).astype("i4")
        structs = pa.StructArray.from_arrays(fields, fields=list(kind.value_type))
        return pa.ListArray.from_arrays(pa.array(ends), structs)


def nullable(numbers: Numbers, null: Any) -> Nullable:
    """Return numbers of which those are null that the mask marks, or that equal a number."""
    return Nullable(numbers, null if isinstance(null, np.ndarray) else numbers == null)


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of a table.

    Attributes:
        table: which table.
        length: how many rows.
        columns: by name, numbers, numbers with nulls, words, lists, a list of Python values, or one value that all rows
            have.
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
        """Yield the rows as :class:`RowStream` does: all at once."""
        yield self

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow columns, all at once."""
        yield self.record_batch()

    def record_batch(self) -> pa.RecordBatch:
        """Return the rows as Arrow columns."""
        import pyarrow as pa  # only Arrow formats pay for it

        kinds = [arrow_type(column.type) for column in self.table.columns]
        arrays = [self._array(name, kind) for name, kind in zip(self.table.names, kinds, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(zip(self.table.names, kinds, strict=True)))

    def _array(self, name: str, kind: pa.DataType) -> pa.Array:
        import pyarrow as pa  # as above

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
        """Return some of the rows, by their indexes and in that order."""
        return Rows(self.table, len(which), {name: _taken(column, which) for name, column in self.columns.items()})


@dataclass(frozen=True, slots=True)
class RowStream:
    """Rows of a table of which there may be too many to have them all at once.

    They can be gone through again and again. Pickled, what they are made of travels.

    Attributes:
        table: which table.
        made: makes the rows, part by part.
    """

    table: Table
    made: Callable[[], Iterator[Rows]]

    def parts(self) -> Iterator[Rows]:
        """Yield the rows, as many at a time as suit the memory; parts may be empty."""
        return self.made()

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows one by one, in the column order of the table."""
        return chain.from_iterable(self.parts())

    def only(self, *names: str) -> Iterator[tuple[Any, ...]]:
        """Yield some columns of the rows."""
        return chain.from_iterable(part.only(*names) for part in self.parts())

    def record_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow columns, part by part."""
        return (part.record_batch() for part in self.parts() if len(part))


def _codes(column: Words) -> pa.Array:
    import pyarrow as pa  # as above

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
        # Behind the last word, where -1 finds it, there is none.
        words = (*column.words, None)
        return [words[code] for code in column.codes[start:stop].tolist()]
    if isinstance(column, Nullable):
        numbers, null = column.numbers[start:stop].tolist(), column.null[start:stop].tolist()
        return [None if is_null else number for number, is_null in zip(numbers, null, strict=True)]
    if isinstance(column, np.ndarray):
        found: list[Any] = column[start:stop].tolist()
        return found
    return column[start:stop] if isinstance(column, list) else [column] * (stop - start)
