"""Rows as Arrow: record batches a chunk at a time, or one table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kforensics.parsers.tables import Table, arrow_type

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["arrow_batches", "arrow_schema_of", "arrow_table", "chunked"]

CHUNK, HEAVIEST = 8192, 64 << 20
Row = Sequence[Any]


def chunked(rows: Iterable[Row], size: int = CHUNK) -> Iterator[list[Row]]:
    """Yield rows in lists of at most ``size``, fewer where they are heavy."""
    chunk: list[Row] = []
    weight = 0
    for row in rows:
        chunk.append(row)
        weight += _weight(row)
        if len(chunk) >= size or weight > HEAVIEST:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk


def _weight(row: Row) -> int:
    """Return the bytes of keys, values and header values, near enough to bound what is held of them."""
    payloads = sum(len(value) for value in row if isinstance(value, bytes | str))
    headers = (value for value in row if isinstance(value, list))
    return payloads + sum(len(header["value"] or b"") for each in headers for header in each)


def arrow_schema_of(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table as it is now, its columns perhaps converted."""
    import pyarrow as pa  # only Arrow formats pay for it

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in table.columns])


def arrow_batches(table: Table, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as record batches."""
    import pyarrow as pa  # as above

    schema = arrow_schema_of(table)
    for chunk in chunked(rows):
        columns = zip(*chunk, strict=True)
        arrays = [
            pa.array(map(_fitting(field.type), column), field.type)
            for field, column in zip(schema, columns, strict=True)
        ]
        yield pa.record_batch(arrays, schema=schema)


def arrow_table(table: Table, rows: Iterable[Row]) -> pa.Table:
    """Return all rows as one table in memory."""
    import pyarrow as pa  # as above

    return pa.Table.from_batches(arrow_batches(table, rows), arrow_schema_of(table))


def _fitting(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes a value fit a column: formatted numbers and JSON become text in a text column."""
    return _text if str(kind) == "string" else lambda value: value


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    # A name that is no UTF-8 came from the system with lone surrogates, which Arrow refuses.
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()
