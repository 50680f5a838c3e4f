"""Writes rows of tables in every output format: table, json, ndjson, csv, csv-safe, parquet and arrow.

Rows are streamed; memory holds one chunk of them. A writer takes one table after the other, and each table once.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import IO, TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

from kforensics.errors import UsageError
from kforensics.parsers.tables.arrow import (
    ArrowParts,
    arrow_schema_of,
    batches_of_parts,
    row_groups,
    with_dictionaries,
    without_dictionaries,
)
from kforensics.parsers.tables.schemas import Table, dictionary_schema
from kforensics.render.formats import OUTPUT_SCHEMA, Format, iso_time, time_names
from kforensics.render.table_writer import TableWriter, without_bytes
from kforensics.render.terminal import json_printable

if TYPE_CHECKING:
    import pyarrow as pa

# Integer columns with Parquet statistics: those by which readers search.
STATISTICS_COLUMNS = (
    "base_offset",
    "last_offset",
    "offset",
    "producer_id",
    "max_timestamp",
    "timestamp",
    "position",
)
Row = Sequence[Any]
# Text of rows in the format of the writer, mixed with iterables of rows.
LineParts = Iterable[memoryview | Iterable[Row]]
Item = TypeVar("Item")


# What a spreadsheet begins a formula with. It removes tabs and line ends in front of one, and any other white space.
FORMULA_START = re.compile(r'[" ]*[\t\r\n]|["\s]*[=+\-@\uff1d\uff0b\uff0d\uff20]')


class Writer(Protocol):
    """Writes tables to one stream."""

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        """Write all rows of a table; call this once for each table."""

    def close(self) -> None:
        """Write the end of the output; the stream stays open."""


@runtime_checkable
class ColumnWriter(Writer, Protocol):
    """Writes record batches as well as rows."""

    def write_parts(self, table: Table, parts: ArrowParts) -> None:
        """Write all rows of a table; call this once for each table."""


@runtime_checkable
class LineWriter(Writer, Protocol):
    """Writes lines that kernels have written, as well as rows."""

    def write_lines(self, table: Table, parts: LineParts) -> None:
        """Write all rows of a table; call this once for each table."""


def open_writer(output_format: Format, out: IO[bytes]) -> Writer:
    """Return a writer for a format.

    Args:
        output_format: any format except text.
        out: binary stream to write to.

    Raises:
        UsageError: the format is text, which has no rows.
    """
    writers: dict[Format, type[Any]] = {
        Format.TABLE: TableWriter,
        Format.JSON: _JsonWriter,
        Format.NDJSON: _NdjsonWriter,
        Format.CSV: _CsvWriter,
        Format.CSV_SAFE: _SafeCsvWriter,
        Format.PARQUET: _ParquetWriter,
        Format.ARROW: _ArrowWriter,
    }
    if output_format not in writers:
        raise UsageError(f"rows cannot be written as {output_format}; choose one of {', '.join(writers)}")
    writer: Writer = writers[output_format](out)
    return writer


def json_text(value: Any) -> str:
    """Return a value as JSON."""
    return json_printable(json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=without_bytes))


def _texts(parts: LineParts, line: Callable[[Row], bytes]) -> Iterator[bytes | memoryview]:
    """Yield the text of parts, without empty ones; a kernel overwrites its text when the next one is requested."""
    for part in parts:
        if not isinstance(part, memoryview):
            yield from map(line, part)
        elif part:
            yield part


def _json_object(table: Table, row: Row) -> dict[str, Any]:
    return dict(zip(table.names, row, strict=True))


class _JsonWriter:
    """Writes one document, ``{"schema": …, "tables": {name: [row, …]}}``, with times as text beside those in ms."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._tables = out, 0
        out.write(f'{{"schema":"{OUTPUT_SCHEMA}","tables":{{'.encode())

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        self.write_lines(table, [rows])

    def write_lines(self, table: Table, parts: LineParts) -> None:
        self._out.write(f"{',' if self._tables else ''}\n{json_text(table.name)}:[".encode())
        self._tables += 1
        is_first = True
        for text in _texts(parts, partial(self._line, table, time_names(table))):
            self._out.write(text[1:] if is_first else text)  # each begins with a comma
            is_first = False
        self._out.write(b"]")

    def _line(self, table: Table, times: dict[str, str], row: Row) -> bytes:
        values = _json_object(table, row)
        values |= {name: iso_time(values[column]) for column, name in times.items()}
        return f",\n{json_text(values)}".encode()

    def close(self) -> None:
        self._out.write(b"\n}}\n")


class _NdjsonWriter:
    """Writes one object per line; its member ``table`` names the table."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        self.write_lines(table, [rows])

    def write_lines(self, table: Table, parts: LineParts) -> None:
        for text in _texts(parts, partial(self._line, table)):
            self._out.write(text)

    def _line(self, table: Table, row: Row) -> bytes:
        return f"{json_text({'table': table.name} | _json_object(table, row))}\n".encode()

    def close(self) -> None:
        """Do nothing: the format has no end."""


class _OneTableWriter:
    """Base class for formats that hold one table; further tables must be empty."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out = out
        self._table: Table | None = None

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        if self._accepts(table, rows):
            self._write(table, rows)

    def _accepts(self, table: Table, rows: Iterable[object]) -> bool:
        """Return whether this is the first table.

        Raises:
            UsageError: it is another table, and has rows.
        """
        if self._table is not None:
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
        """Do nothing: the format has no end."""


class _CsvWriter(_OneTableWriter):
    """Writes RFC 4180 with a header line; null is an empty field, an empty string is ``""``."""

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        self.write_lines(table, [rows])

    def write_lines(self, table: Table, parts: LineParts) -> None:
        texts = _texts(parts, self._line)
        if self._accepts(table, texts):
            self._out.write(self._line(table.names))
            for text in texts:
                self._out.write(text)

    def _line(self, row: Row) -> bytes:
        return (",".join(map(self._field, row)) + "\r\n").encode(errors="backslashreplace")

    def _field(self, value: Any) -> str:
        return csv_field(value)


class _SafeCsvWriter(_CsvWriter):
    """Writes CSV in which no text begins like a formula: spreadsheets take text after an apostrophe for text."""

    def _field(self, value: Any) -> str:
        field = csv_field(value)
        if isinstance(value, bool | int | float) or not FORMULA_START.match(field):
            return field
        return f"\"'{field[1:]}" if field.startswith('"') else f"'{field}"


def csv_field(value: Any) -> str:
    """Return a value as a field of CSV."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    text = without_bytes(value) if isinstance(value, str | bytes | memoryview) else json_text(value)
    if text and not any(character in text for character in ',"\r\n'):
        return str(text)
    return '"' + text.replace('"', '""') + '"'


class _OneArrowTableWriter(_OneTableWriter):
    """Base class for the formats of Arrow, which also take record batches."""

    def __init__(self, out: IO[bytes]) -> None:
        super().__init__(out)
        # Arrow's default memory pool keeps 60 MB of what threads have freed; the system's pool asks the kernel for that
        # memory again and again. jemalloc does neither, but must be part of Arrow's build, as in its wheels for x86_64.
        has_jemalloc = sys.platform == "linux" and platform.machine() == "x86_64"
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "jemalloc" if has_jemalloc else "system")

    def _write(self, table: Table, rows: Iterable[Row]) -> None:
        self._write_batches(arrow_schema_of(table), batches_of_parts(table, [rows]))

    def write_parts(self, table: Table, parts: ArrowParts) -> None:
        batches = batches_of_parts(table, parts)
        if self._accepts(table, batches):
            self._write_batches(arrow_schema_of(table), batches)

    def _write_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        raise NotImplementedError


class _ParquetWriter(_OneArrowTableWriter):
    """Writes Parquet with snappy: text dictionary-encoded, integers as deltas, payloads plain.

    Arrow encodes in one thread. With zstd that takes half as long again, for files a third smaller.
    """

    def _write_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        import pyarrow as pa  # other formats do not need it
        import pyarrow.parquet as pq

        with pq.ParquetWriter(self._out, dictionary_schema(schema), **_parquet_options(schema)) as writer:
            for group in prefetch(row_groups(map(with_dictionaries, batches))):
                table = pa.Table.from_batches(group)
                if table.num_rows:  # a result without rows may be a batch without rows
                    writer.write_table(table, row_group_size=table.num_rows)


def prefetch(items: Iterable[Item]) -> Iterator[Item]:
    """Yield items while a thread produces the next one; errors of the producer are raised here."""
    source = iter(items)

    def next_item() -> list[Item]:
        return list(islice(source, 1))

    with ThreadPoolExecutor(1) as pool:
        pending: Future[list[Item]] = pool.submit(next_item)
        while item := pending.result():
            pending = pool.submit(next_item)
            yield item[0]


def _parquet_options(schema: pa.Schema) -> dict[str, Any]:
    import pyarrow as pa  # other formats do not need it

    texts = [field.name for field in schema if pa.types.is_string(field.type) or pa.types.is_boolean(field.type)]
    integers = [field.name for field in schema if pa.types.is_integer(field.type)]
    return {
        "compression": "snappy",
        "use_dictionary": texts,
        "column_encoding": dict.fromkeys(integers, "DELTA_BINARY_PACKED"),
        "write_statistics": [name for name in integers if name in STATISTICS_COLUMNS],
        # Without Arrow's schema in the file, readers find text columns rather than dictionaries.
        "store_schema": False,
    }


class _ArrowWriter(_OneArrowTableWriter):
    """Writes the Arrow IPC stream format."""

    def _write_batches(self, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
        import pyarrow as pa  # other formats do not need it

        with pa.ipc.new_stream(self._out, schema) as writer:
            for batch in batches:
                writer.write_batch(without_dictionaries(batch, schema))
