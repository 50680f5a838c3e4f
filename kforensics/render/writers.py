"""Writes rows of tables in every format: table, json, ndjson, csv, parquet, arrow.

Rows are streamed; what is held in memory is one chunk. A writer takes the tables one after the other, each once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import IO, Any, Protocol

from kforensics.errors import UsageError
from kforensics.parsers.tables import Table
from kforensics.render.arrow import arrow_batches, arrow_schema_of
from kforensics.render.pages import TableWriter, plain
from kforensics.render.terminal import json_printable

__all__ = ["ONE_TABLE", "Format", "Writer", "open_writer"]

SCHEMA = "kforensics/1"
Row = Sequence[Any]


class Format(StrEnum):
    """How results are written."""

    TEXT = "text"
    TABLE = "table"
    JSON = "json"
    NDJSON = "ndjson"
    CSV = "csv"
    PARQUET = "parquet"
    ARROW = "arrow"


# Formats that hold rows of one table only.
ONE_TABLE = (Format.CSV, Format.PARQUET, Format.ARROW)


class Writer(Protocol):
    """Takes tables and writes them to one stream."""

    def write(self, table: Table, rows: Iterable[Row]) -> None:
        """Write all rows of a table; a table comes once."""

    def close(self) -> None:
        """Write what ends the output; the stream stays open."""


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
        if self._table is not None:
            # Looking for a first row is cheap, and an empty second table is nothing to complain about.
            if next(iter(rows), None) is None:
                return
            raise UsageError(
                f"rows of {self._table.name} and {table.name} do not fit into one output of this format; "
                "choose files of one kind, or --format json or ndjson"
            )
        self._table = table
        self._write(table, rows)

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


class _ParquetWriter(_OneTable):
    """Parquet with zstd, a row group a chunk."""

    def _write(self, table: Table, rows: Iterable[Row]) -> None:
        import pyarrow.parquet as pq  # only this format pays for it

        with pq.ParquetWriter(self._out, arrow_schema_of(table), compression="zstd") as writer:
            for batch in arrow_batches(table, rows):
                writer.write_batch(batch)


class _ArrowWriter(_OneTable):
    """The Arrow IPC stream format."""

    def _write(self, table: Table, rows: Iterable[Row]) -> None:
        import pyarrow as pa  # only this format pays for it

        with pa.ipc.new_stream(self._out, arrow_schema_of(table)) as writer:
            for batch in arrow_batches(table, rows):
                writer.write_batch(batch)
