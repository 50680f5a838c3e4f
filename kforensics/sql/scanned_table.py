"""A table that DuckDB reads while a query runs, as often as the query needs it: only the columns that it uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import dataset

__all__ = ["Failures", "Filter", "ScannedTable", "Source"]

# A filter as Arrow has it, None for all rows.
Filter: TypeAlias = "dataset.Expression | None"
WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class Source:
    """Where the rows of a table come from.

    Attributes:
        schema: schema of all columns.
        read: yields the rows, with at least the given columns; rows that the filter does not select may be left out.
    """

    schema: pa.Schema
    read: Callable[[Sequence[str], Filter], Iterator[pa.RecordBatch]]


class Failures:
    """What ended the reading of a table. DuckDB would pass on no more than its text."""

    def __init__(self) -> None:
        self._errors: list[Exception] = []

    def add(self, error: Exception) -> None:
        """Keep an error that is about to pass through DuckDB."""
        self._errors.append(error)

    def raise_first(self) -> None:
        """Raise the first error, and forget all of them."""
        errors, self._errors = self._errors, []
        if errors:
            raise errors[0]


class ScannedTable(dataset.Dataset):  # type: ignore[misc]  # pyarrow ships no types
    """A dataset whose rows are generated. DuckDB asks a dataset for a scanner, with columns and a filter.

    Args:
        source: where the rows come from.
        failures: takes the error that ends a scan.
    """

    def __init__(self, source: Source, failures: Failures) -> None:  # Arrow's datasets have their own constructor
        self._source, self._failures = source, failures

    @property
    def schema(self) -> pa.Schema:
        """The schema of all columns."""
        return self._source.schema

    def scanner(self, columns: Sequence[str] | None = None, filter: Filter = None, **_: Any) -> _Scanner:  # noqa: A002  # as in Arrow
        """Return what reads some columns of the rows that a filter selects.

        Args:
            columns: their names, None for all.
            filter: selects rows; it may use other columns.
        """
        names = self.schema.names if columns is None else list(columns)
        return _Scanner(self._source, self._failures, names, filter)


class _Scanner:
    """One scan of a table."""

    def __init__(self, source: Source, failures: Failures, columns: list[str], row_filter: Filter) -> None:
        self._source, self._failures, self._filter = source, failures, row_filter
        self._columns = columns
        self.projected_schema = pa.schema([source.schema.field(name) for name in columns])

    def to_reader(self) -> pa.RecordBatchReader:
        """Return the rows, which are read one record batch at a time."""
        return pa.RecordBatchReader.from_batches(self.projected_schema, self._batches())

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in self._source.read(self._needed(), self._filter):
                selected = batch if self._filter is None else batch.filter(self._filter)
                yield _chosen(selected, self.projected_schema)
        except Exception as error:
            self._failures.add(error)
            raise

    def _needed(self) -> list[str]:
        """Return the columns of the result, and those of the filter: Arrow shows an expression as text only."""
        words: set[str] = set() if self._filter is None else set(WORD.findall(str(self._filter)))
        return [name for name in self._source.schema.names if name in words or name in self._columns]


def _chosen(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return some columns of a batch; with none, only its length counts."""
    if schema.names:
        return batch.select(schema.names)
    return pa.RecordBatch.from_struct_array(pa.array([{}] * len(batch), pa.struct([])))
