"""Converts rows and columns to Arrow, as record batches or as one table.

The *parts* of a table are record batches with dictionary-encoded text, from the kernels, mixed with iterables of rows.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import TYPE_CHECKING, Any

from kforensics.parsers.tables.schemas import Table, arrow_type, encodable

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK, MAX_CHUNK_BYTES = 8192, 16 << 20
# Rows and bytes from which a group of record batches is large enough. Three are in memory, one of them also as written.
GROUP_ROWS, GROUP_BYTES = 1 << 18, 1 << 23
Row = Sequence[Any]
ArrowParts = Iterable["pa.RecordBatch | Iterable[Row]"]


@dataclass(frozen=True, slots=True)
class TypedTable(Table):
    """A table whose columns have types of Arrow that no decoded table has.

    Attributes:
        schema: its schema.
    """

    schema: pa.Schema


def chunked(rows: Iterable[Row], size: int = CHUNK) -> Iterator[list[Row]]:
    """Yield rows in lists of at most ``size`` rows, fewer if the rows are large."""
    chunk: list[Row] = []
    weight = 0
    for row in rows:
        chunk.append(row)
        weight += _weight(row)
        if len(chunk) >= size or weight > MAX_CHUNK_BYTES:
            yield chunk
            chunk, weight = [], 0
    if chunk:
        yield chunk


def _weight(row: Row) -> int:
    """Return the approximate size of keys, values and header values, to limit the memory of a chunk."""
    payloads = sum(len(value) for value in row if isinstance(value, bytes | str))
    lists = (value for value in row if isinstance(value, list))  # of headers, recent batches, or what SQL returns
    values = (each.get("value") for each in chain.from_iterable(lists) if isinstance(each, dict))
    return payloads + sum(len(value) for value in values if isinstance(value, bytes | str))


def arrow_schema_of(table: Table) -> pa.Schema:
    """Return the Arrow schema of a table, whose columns may differ from the stated ones."""
    if isinstance(table, TypedTable):
        return table.schema
    import pyarrow as pa  # needed for Arrow formats only

    return pa.schema([pa.field(column.name, arrow_type(column.type)) for column in table.columns])


def arrow_batches(table: Table, rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as record batches."""
    schema = arrow_schema_of(table)
    for chunk in chunked(rows):
        yield arrow_batch(schema, chunk)


def arrow_batch(schema: pa.Schema, rows: Iterable[Row]) -> pa.RecordBatch:
    """Return rows as one record batch."""
    import pyarrow as pa  # needed for Arrow formats only

    columns = zip(*rows, strict=True)
    arrays = [
        pa.array(map(_converter(field.type), column), field.type) for field, column in zip(schema, columns, strict=True)
    ]
    return pa.record_batch(arrays, schema=schema)


def arrow_table(table: Table, rows: Iterable[Row]) -> pa.Table:
    """Return rows as one table in memory."""
    import pyarrow as pa  # needed for Arrow formats only

    return pa.Table.from_batches(arrow_batches(table, rows), arrow_schema_of(table))


def batches_of_parts(table: Table, parts: ArrowParts) -> Iterator[pa.RecordBatch]:
    """Yield parts as record batches."""
    import pyarrow as pa  # needed for Arrow formats only

    for is_columns, group in groupby(parts, lambda part: isinstance(part, pa.RecordBatch)):
        if is_columns:
            yield from group
        else:
            yield from arrow_batches(table, chain.from_iterable(group))


def table_of_parts(table: Table, parts: ArrowParts) -> pa.Table:
    """Return parts as one table in memory."""
    import pyarrow as pa  # needed for Arrow formats only

    schema = arrow_schema_of(table)
    plain = (without_dictionaries(batch, schema) for batch in batches_of_parts(table, parts))
    # Concatenating copies: the buffers of the kernels are larger than their content.
    return pa.Table.from_batches((pa.concat_batches(group) for group in row_groups(plain)), schema)


def row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    """Yield record batches in groups that are large enough for a Parquet row group."""
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
    """Return a record batch with dictionary-encoded text."""
    import pyarrow as pa  # needed for Arrow formats only

    is_text = pa.types.is_string
    columns = [column.dictionary_encode() if is_text(column.type) else column for column in batch.columns]
    return pa.RecordBatch.from_arrays(columns, batch.schema.names)


def without_dictionaries(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a record batch with plain text instead of dictionaries."""
    import pyarrow as pa  # needed for Arrow formats only

    return pa.RecordBatch.from_arrays([plain_text(column) for column in batch.columns], schema=schema)


def plain_text(column: pa.Array) -> pa.Array:
    """Return a column with plain text if it is dictionary-encoded; other columns are returned unchanged."""
    import pyarrow as pa  # needed for Arrow formats only

    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def byte_strings(values: Sequence[bytes | None], kind: pa.DataType) -> pa.Array:
    """Return bytes as an array of binary or text. ``pyarrow.array`` would import pandas."""
    import numpy as np  # comes with pyarrow
    import pyarrow as pa

    ends = np.zeros(len(values) + 1, "=i4")
    np.cumsum([len(value or b"") for value in values], out=ends[1:])
    valid = pa.py_buffer(np.packbits(np.array([value is not None for value in values], "?"), bitorder="little"))
    data = pa.py_buffer(b"".join(value or b"" for value in values))
    return pa.Array.from_buffers(kind, len(values), [valid, pa.py_buffer(ends), data])


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    """Return the function that converts values for a column: a text column may receive numbers and JSON values."""
    return _text if str(kind) == "string" else _unchanged


def _unchanged(value: Any) -> Any:
    return value


def _text(value: Any) -> str | None:
    return None if value is None else as_text(value)


def as_text(value: Any) -> str:
    """Return a value of a text column, which may be a number or a JSON value."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return encodable(text)
