"""The evidence store of an audit: a folder of Parquet datasets and a manifest, which is there whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kforensics.errors import UsageError
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.parsers.tables.arrow import CHUNK, GROUP_BYTES, Row, arrow_batches, arrow_schema_of
from kforensics.parsers.tables.schemas import Table

__all__ = ["MANIFEST", "EvidenceStore", "TableFile", "TableFiles", "manifest_text"]

MANIFEST = "manifest.json"
PART = "part-0.parquet"
# Arrow takes as long to begin a column as for some hundred values: of so few rows it gets those of many partitions.
FEW = 256


class EvidenceStore:
    """A folder that is being filled; it appears under its name when all is in it.

    Args:
        folder: its name; nothing may be there, or an empty folder.

    Raises:
        UsageError: something is there already, or it cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
        self._files = TableFiles(self._begun)
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise UsageError(f"{folder} is there already; choose another folder for --output, or move it away")
        try:
            self._part.mkdir(parents=True)
        except OSError as error:
            raise UsageError(f"cannot write {folder}: {error.strerror}; choose another place for --output") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._files.close()
        shutil.rmtree(self._part, ignore_errors=True)

    def add(self, rows: Rows | RowStream) -> None:
        """Add rows to their table."""
        self._files.add(rows)

    def add_values(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows of Python values to a table."""
        self._files.add_values(table, rows)

    def finish(self, tables: Mapping[str, Table], manifest: Mapping[str, Any]) -> None:
        """Give every table a dataset, those without rows too, write the manifest, and let the folder appear.

        Args:
            tables: those the store shall have.
            manifest: what stands in the manifest, the counts of rows excepted.

        Raises:
            UsageError: it cannot be written.
        """
        try:
            for table in tables.values():
                self._files.of(table)
            counts = dict(sorted(self._files.close().items()))
            (self._part / MANIFEST).write_bytes(manifest_text(manifest, counts))
            if self._folder.exists():
                self._folder.rmdir()
            self._part.replace(self._folder)
        except OSError as error:
            raise UsageError(f"cannot write {self._folder}: {error.strerror}; choose another place for it") from error

    def _begun(self, table: Table) -> TableFile:
        (self._part / table.name).mkdir()
        return TableFile(self._part / table.name / PART, arrow_schema_of(table))


def manifest_text(manifest: Mapping[str, Any], counts: Mapping[str, int]) -> bytes:
    """Return the bytes of a manifest.

    Args:
        manifest: what stands in it, the counts of rows excepted.
        counts: rows by table.
    """
    text = json.dumps({**manifest, "rows": counts}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode(errors="backslashreplace")


class TableFiles:
    """The files of tables, each begun when something of the table comes.

    Args:
        begun: begins the file of a table.
    """

    def __init__(self, begun: Callable[[Table], TableFile]) -> None:
        self._begun = begun
        self._files: dict[str, TableFile] = {}
        self._waiting: dict[str, tuple[Table, list[Row]]] = {}

    def add(self, rows: Rows | RowStream) -> None:
        """Add rows to their table."""
        for part in rows.parts():
            if len(part) > FEW:
                self._take_waiting(rows.table)
                self.of(rows.table).add(part.record_batch())
            elif len(part):
                self.add_values(rows.table, part)

    def add_values(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows of Python values to a table."""
        _, waiting = self._waiting.setdefault(table.name, (table, []))
        for row in rows:
            waiting.append(row)
            if len(waiting) >= CHUNK:
                self._take_waiting(table)

    def _take_waiting(self, table: Table) -> None:
        _, waiting = self._waiting.get(table.name, (table, []))
        for batch in arrow_batches(table, waiting):
            self.of(table).add(batch)
        waiting.clear()

    def of(self, table: Table) -> TableFile:
        """Return the file of a table."""
        if table.name not in self._files:
            self._files[table.name] = self._begun(table)
        return self._files[table.name]

    def close(self) -> dict[str, int]:
        """Write what is left; return how many rows each table has."""
        for table, _ in self._waiting.values():
            self._take_waiting(table)
        for file in self._files.values():
            file.close()
        return {name: file.rows for name, file in self._files.items()}


class TableFile:
    """One Parquet file; small additions are gathered into row groups.

    Args:
        path: where it is.
        schema: of its rows.
        system: file system of the path, None for a local one.

    Attributes:
        rows: how many were added.
    """

    def __init__(self, path: Path | str, schema: pa.Schema, system: fs.FileSystem | None = None) -> None:
        self._writer: pq.ParquetWriter | None = pq.ParquetWriter(path, schema, filesystem=system, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._size, self.rows = 0, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Take some rows."""
        self._waiting.append(batch)
        self._size += batch.nbytes
        self.rows += batch.num_rows
        if self._size >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write what is left."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None

    def _flush(self) -> None:
        if self._waiting and self._writer is not None:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._size = [], 0
