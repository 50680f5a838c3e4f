"""The result of a query as a table of the output formats: its columns, and its rows as Python values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import pyarrow as pa

from kforensics.errors import UsageError
from kforensics.parsers.tables.arrow import TypedTable
from kforensics.parsers.tables.schemas import Column

__all__ = ["RESULT", "first_rows", "result_table", "values_of"]

RESULT = "result"


def result_table(schema: pa.Schema) -> TypedTable:
    """Return the table of a result, whose types are those of DuckDB."""
    columns = tuple(Column(field.name, _kind(field.type), "") for field in schema)
    return TypedTable(RESULT, "row of the result", columns, schema)


def _kind(kind: pa.DataType) -> str:
    """Return the name of a type, where times and lists are text."""
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind) or kind == pa.binary():
        return str(kind)
    return "decimal" if pa.types.is_decimal(kind) else "string"


def first_rows(batches: Iterable[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """Yield at most so many rows, and compute no more.

    Args:
        batches: the rows.
        limit: how many; None for all.
    """
    left = limit
    for batch in batches if left is None or left > 0 else ():
        selected = batch if left is None else batch.slice(0, left)
        yield selected
        if left is not None:
            left -= len(selected)
            if not left:
                return


def values_of(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
    """Yield rows as values that JSON has: times as text in ISO 8601, decimals as numbers.

    Raises:
        UsageError: Python cannot have a time.
    """
    for batch in batches:
        try:
            columns = [column.to_pylist() for column in batch.columns]
        except (OverflowError, ValueError) as error:
            raise UsageError(f"a time is beyond the calendar: {error}; cast the column to VARCHAR") from error
        yield from zip(*([*map(_value, column)] for column in columns), strict=True)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | str | bytes):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)  # JSON has no word for it
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and value.as_tuple().exponent == 0 else float(value)
    if isinstance(value, dict):
        return {str(name): _value(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_value(each) for each in value]
    return str(value) if isinstance(value, timedelta) or not isinstance(value, memoryview) else bytes(value)
