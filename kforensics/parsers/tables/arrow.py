"""Rows and columns as Arrow: record batches a chunk at a time, or one table.

Columns come as record batches in which text is in dictionaries; rows may come between them. Together they are *parts*.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from kforensics.parsers.tables.schemas import Table, arrow_type, encodable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Parts",
    "arrow_batch",
    "arrow_batches",
    "arrow_schema_of",
    "arrow_table",
    "batches_of_parts",
    "chunked",
    "grouped",
    "plain_text",
    "table_of_parts",
    "with_dictionaries",
    "without_dictionaries",
]

CHUNK, HEAVIEST = 8192, 64 << 20
# Rows and bytes of which one group of record batches is made.
GROUP_ROWS, GROUP_BYTES = 1 << 18, 1 << 24
Row = Sequence[Any]
Parts = Iterable["pa.RecordBatch | Iterable[Row]"]


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
    headers = (value for value in row if isinstance(value, list))  # or recent batches, which have no value
    return payloads + sum(len(header.get("value") or b"") for each in headers for header in each)


def arrow_schema_of(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table as it is now, its columns perhaps converted."""
    import pyarrow as pa  # only Arrow formats pay for it

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in table.columns])


def arrow_batches(table: Table, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as record batches."""
    schema = arrow_schema_of(table)
    for chunk in chunked(rows):
        yield arrow_batch(schema, chunk)


def arrow_batch(schema: pa.Schema, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return some rows as one record batch."""
    import pyarrow as pa  # as above

    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(map(_fitting(field.type), column), field.type) for field, column in zip(schema, columns, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def arrow_table(table: Table, rows: Iterable[Row]) -> pa.Table:
    """Return all rows as one table in memory."""
    import pyarrow as pa  # as above

    return pa.Table.from_batches(arrow_batches(table, rows), arrow_schema_of(table))


def batches_of_parts(table: Table, parts: Parts) -> Iterator[pa.RecordBatch]:
    """Yield columns as they come, and the rows between them as record batches."""
    import pyarrow as pa  # as above

    for columns, some in groupby(parts, lambda part: isinstance(part, pa.RecordBatch)):
        if columns:
            yield from some
        else:
            yield from arrow_batches(table, chain.from_iterable(some))


def table_of_parts(table: Table, parts: Parts) -> pa.Table:
    """Return all parts as one table in memory."""
    import pyarrow as pa  # as above

    schema = arrow_schema_of(table)
    plain = (without_dictionaries(batch, schema) for batch in batches_of_parts(table, parts))
    # What kernels made stands in memory that has room for more.
    return pa.Table.from_batches((pa.concat_batches(group) for group in grouped(plain)), schema)


def grouped(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield record batches in groups large enough for a row group."""
    group: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        group.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= GROUP_ROWS or size >= GROUP_BYTES:
            yield group
            group, rows, size = [], 0, 0
    if group:
        yield group


def with_dictionaries(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a record batch with its text in dictionaries."""
    import pyarrow as pa  # as above

    is_text = pa.types.is_string
    columns = [column.dictionary_encode() if is_text(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def without_dictionaries(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch with its text as it is."""
    import pyarrow as pa  # as above

    return pa.RecordBatch.from_arrays([plain_text(column) for column in batch.columns], schema=schema)


def plain_text(column: pa.Array) -> pa.Array:
    """Return a column with its text as it is, if that is in a dictionary."""
    import pyarrow as pa  # as above

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _fitting(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return what makes a value fit a column: formatted numbers and JSON become text in a text column."""
    return _text if str(kind) == "string" else _as_it_is


def _as_it_is(value: Any) -> Any:
    return value


def _text(value: Any) -> str | None:
    if value is None:
        return None
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encodable(text)
