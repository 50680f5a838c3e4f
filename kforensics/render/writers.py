"""Writes rows of tables in every format: table, json, ndjson, csv, parquet, arrow.

Rows are streamed; what is held in memory is one chunk. A writer takes the tables one after the other, each once.
"""

from __future__ import annotations

import json
import os
import platform
import sys
from collections.abc import Iterable, Sequence
from typing import IO, TYPE_CHECKING, Any, Protocol, runtime_checkable

from kforensics.errors import UsageError
from kforensics.parsers.tables.arrow import (
    Parts,
    arrow_schema_of,
    batches_of_parts,
    grouped,
    with_dictionaries,
    without_dictionaries,
)
from kforensics.parsers.tables.schemas import Table, with_words
from kforensics.render.formats import Format
from kforensics.render.pages import TableWriter, plain
from kforensics.render.prefetch import ahead
from kforensics.render.terminal import json_printable

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["ColumnWriter", "Writer", "open_writer"]

SCHEMA = "kforensics/1"
SOUGHT = ("base_offset", "last_offset", "offset", "producer_id", "max_timestamp", "timestamp", "position")
Row = Sequence[Any]


class Writer(Protocol):
    """Takes tables and writes them to one stream."""

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        """Write all rows of a table; a table comes once."""

    def close(self) -> None:
        """Write what ends the output; the stream stays open."""


@runtime_checkable
class ColumnWriter(Writer, Protocol):
    """Takes columns as well, and rows between them."""

    def write_parts(self, table: Table, parts: Parts) -> None:
        """Write all rows of a table; a table comes once."""


def open_writer(wanted: Format, out: IO[bytes]) -> Writer:
    """Return a writer to a binary stream.

    Raises:
        UsageError: text is made by who knows the lines, not here.
    """
    writers: dict[Format, type[Any]] = {
        Format.TABLE: TableWriter,
        Format.JSON: _JsonWriter,
        Format.NDJSON: _NdjsonWriter,
        Format.CSV: _CsvWriter,
        Format.PARQUET: _ParquetWriter,
        Format.ARROW: _ArrowWriter,
    }
    if wanted not in writers:
        raise UsageError(f"rows cannot be written as {wanted}; choose one of {', '.join(writers)}")
    writer: Writer = writers[wanted](out)
    return writer


def _json(value: Any) -> str:
    return json_printable(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=plain))


def _object(table: Table, row: Row) -> dict[str, Any]:
    return dict(zip(table.names, row, strict=True))


class _JsonWriter:
    """One document: ``{"schema": …, "tables": {name: [row, …]}}``."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._tables = out, 0
        out.write(f'{{"schema":"{SCHEMA}","tables":{{'.encode())

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        self._out.write(f"{',' if self._tables else ''}\n{_json(table.name)}:[".encode())
        self._tables += 1
        for index, row in enumerate(rows):
            self._out.write(f"{',' if index else ''}\n{_json(_object(table, row))}".encode())
        self._out.write(b"]")

    def close(self) -> None:
        self._out.write(b"\n}}\n")


class _NdjsonWriter:
    """One object a line; ``table`` says of which table it is a row."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        for row in rows:
            self._out.write(f"{_json({'table': table.name} | _object(table, row))}\n".encode())

    def close(self) -> None:
        """Nothing ends the output."""


class _OneTable:
    """A format that holds rows of one table only; tables without rows do not count behind the first."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._table: Table | None = None

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        if self._first(table, rows):
            self._write(table, rows)

    def _first(self, table: Table, rows: Iterable[object]) -> bool:
        """Whether this is the first table; one behind it must have no rows."""
        if self._table is not None:
            # Looking for a first row is cheap, and an empty second table is nothing to complain about.
            if next(iter(rows), None) is None:
                return False
            raise UsageError(
                f"rows of {self._table.name} and {table.name} do not fit into one output of this format; "
                "choose files of one kind, or --format json or ndjson"
            )
        self._table = table
        return True

    def _write(self, table: Table, rows: Iterable[Row]) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Nothing ends the output."""


class _CsvWriter(_OneTable):
    """RFC 4180 with a header line; null is an empty field, an empty string is ``""``."""

    def _write(self, table: Table, rows: Iterable[Row]) -> None:
        self._out.write((",".join(table.names) + "\r\n").encode())
        for row in rows:
            self._out.write((",".join(map(_csv_field, row)) + "\r\n").encode(errors="backslashreplace"))


def _csv_field(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = plain(value) if isinstance(value, str | bytes | memoryview) else _json(value)
    if text and not any(sign in text for sign in ',"\r\n'):
        return str(text)
    return '"' + text.replace('"', '""') + '"'


class _OneArrowTable(_OneTable):
    """A format of Arrow, whose parts may be columns."""

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__(out)
        # Arrow's first choice keeps 60 MB of what threads gave back, and the system's asks for them again and again.
        # What is chosen when Arrow is loaded must be there: its wheels for this platform have jemalloc.
        wheel = sys.platform == "linux" and platform.machine() == "x86_64"
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc" if wheel else "system")

    def _write(self, table: Table, rows: Iterable[Row]) -> None:
        self._write_batches(arrow_schema_of(table), batches_of_parts(table, [rows]))

    def write_parts(self, table: Table, parts: Parts) -> None:
        batches = batches_of_parts(table, parts)
        if self._first(table, batches):
            self._write_batches(arrow_schema_of(table), batches)

    def _write_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        raise NotImplementedError


class _ParquetWriter(_OneArrowTable):
    """Parquet with snappy; text is written from dictionaries, numbers as differences, payloads as they are.

    Arrow encodes on one processor, and zstd would take it half as long again for files a third smaller.
    """

    def _write_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        import pyarrow as pa  # only this format pays for it
        import pyarrow.parquet as pq

        with pq.ParquetWriter(self._out, with_words(schema), **_parquet_options(schema)) as writer:
            for group in ahead(grouped(map(with_dictionaries, batches))):
                table = pa.Table.from_batches(group)
                writer.write_table(table, row_group_size=table.num_rows)


def _parquet_options(schema: pa.Schema) -> dict[str, Any]:
    import pyarrow as pa  # as above

    words = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_boolean(field.type)]
    numbers = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "snappy",
        "use_dictionary": words,
        "column_encoding": dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        # What rows are looked for by.
        "write_statistics": [name for name in numbers if name in SOUGHT],
        # A reader shall find text, not the dictionaries it was written from.
        "store_schema": False,
    }


class _ArrowWriter(_OneArrowTable):
    """The Arrow IPC stream format."""

    def _write_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        import pyarrow as pa  # only this format pays for it

        with pa.ipc.new_stream(self._out, schema) as writer:
            for batch in batches:
                writer.write_batch(without_dictionaries(batch, schema))
