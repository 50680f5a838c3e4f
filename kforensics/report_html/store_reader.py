"""Reads an evidence store: the manifest, and the tables batch by batch in a fixed order.

The first rows of a table in a sort order are selected without keeping the others in memory.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from kforensics.analyses.known_names import NAME_COLUMNS, learn_stored_names
from kforensics.errors import InputError, InputKindError, InputMissingError, UsageError
from kforensics.forensics.core.tables import STORED
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.render.evidence_store import MANIFEST, locate_store
from kforensics.render.redaction import Redaction
from kforensics.render.streams import ProgressMeter

STORE_SCHEMA = "kforensics-store/1"
BATCH_ROWS = 1 << 14
# A longer audit is none.
MAX_SECONDS = 1 << 40


@dataclass(frozen=True, slots=True)
class StoreReader:
    """An evidence store.

    Attributes:
        folder: the folder as given.
        manifest: the parsed manifest.
        fingerprint: SHA-256 of the manifest file.
        system: the file system of the store.
        root: the path on it.
        meter: shows how far each table has been read; None for nothing.
        redaction: redacts its rows, None if nothing does.
    """

    folder: str
    manifest: Mapping[str, Any]
    fingerprint: str
    system: fs.FileSystem
    root: str
    meter: ProgressMeter | None = None
    redaction: Redaction | None = None

    def count(self, table: str) -> int:
        """Return the number of rows of a table."""
        return int(self.manifest["rows"].get(table, 0))

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table; a column that an older store does not have is null.

        Args:
            table: name of the table.
            columns: columns to read, in this order.

        Raises:
            InputError: a file of the table cannot be read.
        """
        files, rows = self.files(table), 0
        for batch in self.metered(table, files, self._batches(table, files, columns)):
            rows += len(batch)
            yield batch if self.redaction is None else self.redaction.record_batch(table, batch)
        if rows != self.manifest["rows"].get(table, rows):
            why = f"it has {rows:,} rows, but {self.count(table):,} by the field 'rows' of {MANIFEST}"
            raise InputError(f"{self.root}/{table}", f"{why}; run the audit again")

    def _batches(self, table: str, files: Sequence[str], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        schema = arrow_schema_of(STORED[table])
        for path in files:
            with _reading(path), self.system.open_input_file(path) as stream:
                for batch in pq.ParquetFile(stream).iter_batches(BATCH_ROWS, columns=list(columns)):
                    yield pa.RecordBatch.from_pydict(
                        {name: _column(path, batch, schema.field(name)) for name in columns}
                    )

    def metered(self, table: str, files: Sequence[str], batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a table, and show how many of the bytes of its files have been read.

        Args:
            table: name of the table.
            files: its files.
            batches: its rows, or some of them.
        """
        if self.meter is None:
            yield from batches
            return
        size = sum(info.size or 0 for info in self.system.get_file_info(list(files)))
        work, rows = self.meter.other_work(size), self.count(table) or 1
        for batch in batches:
            work.advance(size * len(batch) // rows)
            yield batch
        work.finish()

    def table(self, name: str, columns: Sequence[str], row_filter: Callable[[pa.RecordBatch], Any]) -> pa.Table:
        """Return the rows of a table that a filter selects.

        Args:
            name: name of the table.
            columns: columns to read, in this order.
            row_filter: returns the mask of the rows to keep.

        Raises:
            InputError: a file of the table cannot be read.
        """
        schema = arrow_schema_of(STORED[name])
        selected = pa.schema([schema.field(column) for column in columns])
        parts = (batch.filter(row_filter(batch)) for batch in self.batches(name, columns))
        return pa.Table.from_batches(list(parts), selected)

    def files(self, table: str) -> list[str]:
        """Return the paths of the files of a table.

        Raises:
            InputError: the folder of the table cannot be read, or has something else than files.
        """
        folder = f"{self.root}/{table}"
        with _reading(folder):
            infos = self.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        files = sorted((info for info in infos if info.path.endswith(".parquet")), key=lambda info: info.path)
        for info in files:
            if info.type != fs.FileType.File:  # opening a pipe would hang
                raise InputKindError(info.path, "it is not a file")
        return [info.path for info in files]


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Raise errors of a file as errors of the input."""
    try:
        yield
    except InputError:
        raise
    # Names of columns that are not UTF-8 cannot be decoded.
    except (OSError, pa.ArrowException, UnicodeDecodeError) as error:
        raise InputError(path, (str(error).splitlines() or ["it is damaged"])[0]) from error


def _column(path: str, batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    """Return a column of a batch.

    Raises:
        InputError: the column has another type.
    """
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    column = batch.column(field.name)
    try:
        return column if column.type == field.type else column.cast(field.type)
    except pa.ArrowException as error:
        raise InputError(path, f"the column {field.name!r} is of type {column.type}, not {field.type}") from error


def open_store(folder: str, meter: ProgressMeter | None = None) -> StoreReader:
    """Return an evidence store.

    Args:
        folder: folder of the store, a path or a URI.
        meter: shows how far its tables have been read; None for nothing.

    Raises:
        InputError: the store cannot be read, or is damaged.
        UsageError: the folder is not an evidence store.
    """
    system, root = locate_store(folder)
    try:
        kind = system.get_file_info(f"{root}/{MANIFEST}").type
        if kind not in (fs.FileType.File, fs.FileType.NotFound):  # opening a pipe would hang
            raise InputKindError(f"{root}/{MANIFEST}", "it is not a file")
        with system.open_input_file(f"{root}/{MANIFEST}") as stream:
            data: bytes = stream.read()
    except FileNotFoundError as error:
        raise _missing(folder, system, root) from error
    except InputError:
        raise
    except OSError as error:
        raise InputError(folder, str(error).splitlines()[0]) from error
    return StoreReader(folder, _manifest(folder, data), hashlib.sha256(data).hexdigest(), system, root, meter)


def redacted_store(store: StoreReader, redaction: Redaction) -> StoreReader:
    """Return a store whose rows and manifest are redacted, once all names in its tables are known.

    Args:
        store: the store.
        redaction: redacts them.

    Raises:
        InputError: a table cannot be read.
    """
    parts = (batch for table, columns in NAME_COLUMNS.items() for batch in store.batches(table, columns))
    learn_stored_names(redaction, (row for batch in parts for row in batch.to_pylist()))
    return replace(store, manifest=redaction.manifest(store.manifest), redaction=redaction)


def _missing(folder: str, system: fs.FileSystem, root: str) -> Exception:
    if system.get_file_info(root).type == fs.FileType.NotFound:
        return InputMissingError(folder, "no such folder")
    return UsageError(
        f"{folder} has no {MANIFEST}, so it is not an evidence store; create one with kforensics audit --output"
    )


def _manifest(folder: str, data: bytes) -> Mapping[str, Any]:
    """Return the manifest of a store, whose fields have the types that an audit writes.

    Raises:
        InputError: it is damaged, or has another schema; the message names the field.
    """
    path = f"{folder.rstrip('/')}/{MANIFEST}"
    try:
        manifest = json.loads(data)
    except (ValueError, RecursionError):
        manifest = None
    if not isinstance(manifest, dict):
        raise InputError(path, "it is not the manifest of an evidence store; run the audit again")
    schema = manifest.get("schema")
    if schema != STORE_SCHEMA:
        why = f"the field 'schema' is {schema!r}, but this version reads {STORE_SCHEMA!r} only; run the audit again"
        raise InputError(path, why)
    for name, (is_valid, what) in FIELDS.items():
        if name not in manifest and name in OPTIONAL_FIELDS:
            continue
        if name not in manifest or not is_valid(manifest[name]):
            state = f"is not {what}" if name in manifest else "is missing"
            raise InputError(path, f"the field {name!r} {state}; run the audit again")
    return manifest


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63


def _is_time(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 63


def _is_duration(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < MAX_SECONDS


def _is_inputs(value: Any) -> bool:
    if isinstance(value, dict):
        return isinstance(value.get("tables"), list) and all(isinstance(name, str) for name in value["tables"])
    return isinstance(value, list) and all(map(_is_input, value))


def _is_input(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and isinstance(value.get("path"), str)
        and (value.get("size") is None or _is_count(value["size"]))
        and (value.get("mtime_ms") is None or _is_time(value["mtime_ms"]))
        and isinstance(value.get("sha256"), str | None)
    )


# Of the manifest: what each field must be.
FIELDS: Mapping[str, tuple[Callable[[Any], bool], str]] = {
    "version": (lambda value: isinstance(value, str), "text"),
    "command": (lambda value: isinstance(value, list) and all(isinstance(each, str) for each in value), "texts"),
    "as_of_ms": (_is_time, "a time in milliseconds"),
    "options": (lambda value: isinstance(value, dict), "an object"),
    "partitions": (_is_count, "a number"),
    "unreadable": (_is_count, "a number"),
    "inputs": (_is_inputs, "a list of files, or the names of tables"),
    "seconds": (lambda value: isinstance(value, dict) and all(map(_is_duration, value.values())), "durations by name"),
    "rows": (lambda value: isinstance(value, dict) and all(map(_is_count, value.values())), "numbers by table"),
}
# Audits of the first version may lack them.
OPTIONAL_FIELDS = ("options", "unreadable", "seconds")


RANK_PREFIX = "rank of "


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by; nulls come last.

    Attributes:
        column: name of the column.
        descending: whether the largest value comes first.
        ranking: values in their order; other values come after them.
    """

    column: str
    descending: bool = False
    ranking: tuple[str, ...] = ()

    @property
    def arrow_key(self) -> tuple[str, str]:
        """The column and direction for Arrow, where a ranking is a column of its own."""
        column = f"{RANK_PREFIX}{self.column}" if self.ranking else self.column
        return column, "descending" if self.descending else "ascending"


def sort_rows(table: pa.Table, order: Sequence[SortKey]) -> pa.Table:
    """Return the rows of a table in a sort order; the sort is stable."""
    ranked = table
    for key in order:
        if key.ranking:
            rank = pc.index_in(table[key.column], pa.array(key.ranking, table[key.column].type))
            ranked = ranked.append_column(key.arrow_key[0], rank)
    return table.take(pc.sort_indices(ranked, sort_keys=[key.arrow_key for key in order]))


def first_rows(batches: Iterable[pa.RecordBatch], order: Sequence[SortKey], limit: int) -> pa.Table | None:
    """Return the first rows in a sort order, None if there is no batch.

    Args:
        batches: the rows.
        order: the sort order.
        limit: maximum number of rows.
    """
    rows: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table if rows is None else pa.concat_tables([rows, table])
        rows = sort_rows(table, order).slice(0, limit).combine_chunks()
    return rows


def count_values(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> dict[tuple[object, ...], int]:
    """Return the number of rows for each combination of values, sorted.

    Args:
        batches: the rows; their combinations must be few.
        columns: columns to combine.
    """
    counts: dict[tuple[object, ...], int] = {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        groups = table.group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            values = tuple(row[column] for column in columns)
            counts[values] = counts.get(values, 0) + row["count_all"]
    return dict(sorted(counts.items(), key=str))
