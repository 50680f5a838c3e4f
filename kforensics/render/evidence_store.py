"""Writes and reads the evidence store of an audit: a folder with a Parquet dataset for each table, and a manifest.

The folder appears under its name only when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kforensics.errors import KforensicsError, UsageError
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.tables import STORED
from kforensics.parsers.files.file_systems import remote_system
from kforensics.parsers.files.input_paths import is_uri
from kforensics.parsers.tables.arrow import CHUNK, GROUP_BYTES, Row, arrow_batches, arrow_schema_of
from kforensics.parsers.tables.schemas import Table
from kforensics.render.output import claimed, deferred_signals, lock_part, part_path, remove_abandoned

MANIFEST = "manifest.json"
DATASET_FILE = "part-0.parquet"
# Beginning an Arrow column costs as much as some hundred values, so fewer rows than this are gathered as Python values.
MIN_ARROW_ROWS = 256


class EvidenceStore:
    """A store that is being written to a local folder.

    Args:
        folder: the folder; it must not exist, or be empty.

    Raises:
        UsageError: the folder exists already, or cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self._name, self._folder = folder, store_path(folder)
        try:
            self._check_unused()
            with ExitStack() as unfinished:
                self._temporary = unfinished.enter_context(created_part(self._folder))
                self._check_unused()  # another process may have finished it in the meantime
                # A reference to this store would keep its folder after an early Ctrl-C.
                self._files = TableFiles(partial(_create_file, self._temporary))
                self._held = unfinished.pop_all()
        except OSError as error:
            raise UsageError(f"cannot write {folder}: {error.strerror}; choose another path for --output") from error

    def _check_unused(self) -> None:
        if self._folder.exists() and (not self._folder.is_dir() or any(self._folder.iterdir())):
            raise UsageError(f"{self._name} exists already; choose another folder for --output, or move it away")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._files.discard()
        self._held.close()

    def add(self, rows: Rows | RowStream) -> None:
        """Add rows to their table.

        Raises:
            UsageError: the store cannot be written.
        """
        with self._writing():
            self._files.add(rows)

    def add_values(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows of Python values to a table.

        Raises:
            UsageError: the store cannot be written.
        """
        with self._writing():
            self._files.add_values(table, rows)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except KforensicsError:
            raise
        except OSError as error:
            raise UsageError(f"cannot write {self._name}: {error.strerror}; choose another folder") from error

    def finish(self, tables: Mapping[str, Table], manifest: Mapping[str, Any]) -> None:
        """Complete the store, and rename it to its folder.

        Args:
            tables: all tables of the store, those without rows included.
            manifest: the manifest without the row counts.

        Raises:
            UsageError: the store cannot be written.
        """
        with self._writing():
            for table in tables.values():
                self._files.file_of(table)
            counts = dict(sorted(self._files.close().items()))
            (self._temporary / MANIFEST).write_bytes(manifest_text(manifest, counts))
            self._temporary.replace(self._folder)  # which is empty, if it exists


def _create_file(folder: Path, table: Table) -> TableFile:
    (folder / table.name).mkdir()
    return TableFile(folder / table.name / DATASET_FILE, arrow_schema_of(table))


def store_path(folder: Path) -> Path:
    """Return the folder of a store without links and dots.

    Raises:
        UsageError: it is or contains the current folder, or its path leads through itself, as ``store/../store`` does.
    """
    target = Path(os.path.realpath(folder))
    if Path.cwd().is_relative_to(target):
        raise UsageError(f"cannot write {folder}: it is or contains the current folder; name a new folder for --output")
    if any(Path(os.path.realpath(parent)) == target for parent in folder.parents):
        raise UsageError(f"cannot write {folder}: the path leads through the folder that it names; write it without ..")
    return target


@contextmanager
def created_part(folder: Path, is_kept: Callable[[Path], bool] = lambda _part: False) -> Iterator[Path]:
    """Create the folder that is renamed to a store when it is complete, and delete it if it was not.

    Abandoned ones of this host are removed. Until the context ends, no other process can write the store.

    Args:
        folder: the folder of the store.
        is_kept: returns whether a folder that was not renamed, or is abandoned, is not to be deleted.

    Raises:
        UsageError: another process is writing the store.
        OSError: the folder cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with claimed(folder), ExitStack() as unfinished:
        remove_abandoned(folder, is_kept)
        with deferred_signals():
            part, descriptor = _created_folder(folder)
            unfinished.callback(os.close, descriptor)
            unfinished.callback(_remove_part, folder, part, is_kept)
        yield part


def _created_folder(folder: Path) -> tuple[Path, int]:
    while True:
        part = part_path(folder)
        part.mkdir()
        descriptor = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        if lock_part(descriptor, part):
            return part, descriptor
        os.close(descriptor)


def _remove_part(folder: Path, part: Path, is_kept: Callable[[Path], bool]) -> None:
    """Delete an unfinished store; under another name first, so that what still runs adds nothing to it."""
    if is_kept(part):
        return
    gone = part_path(folder)
    with suppress(OSError):
        part.replace(gone)
        part = gone
    shutil.rmtree(part, ignore_errors=True)


def manifest_text(manifest: Mapping[str, Any], counts: Mapping[str, int]) -> bytes:
    """Return the bytes of a manifest.

    Args:
        manifest: the manifest without the row counts.
        counts: number of rows by table.
    """
    text = json.dumps({**manifest, "rows": counts}, indent=2, ensure_ascii=False)
    return f"{text}\n".encode(errors="backslashreplace")


class TableFiles:
    """The Parquet files of tables, each created with the first rows of its table.

    Args:
        create_file: creates the file of a table.
    """

    def __init__(self, create_file: Callable[[Table], TableFile]) -> None:
        self._create_file = create_file
        self._files: dict[str, TableFile] = {}
        self._waiting: dict[str, tuple[Table, list[Row]]] = {}

    def add(self, rows: Rows | RowStream) -> None:
        """Add rows to their table."""
        for part in rows.parts():
            if len(part) > MIN_ARROW_ROWS or (len(part) and _has_bytes(rows.table)):
                self._write_waiting(rows.table)
                self.file_of(rows.table).add(part.record_batch())
            elif len(part):
                self.add_values(rows.table, part)

    def add_values(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows of Python values to a table."""
        _, waiting = self._waiting.setdefault(table.name, (table, []))
        for row in rows:
            waiting.append(row)
            if len(waiting) >= CHUNK:
                self._write_waiting(table)

    def _write_waiting(self, table: Table) -> None:
        _, waiting = self._waiting.get(table.name, (table, []))
        for batch in arrow_batches(table, waiting):
            self.file_of(table).add(batch)
        waiting.clear()

    def file_of(self, table: Table) -> TableFile:
        """Return the file of a table."""
        if table.name not in self._files:
            self._files[table.name] = self._create_file(table)
        return self._files[table.name]

    def close(self) -> dict[str, int]:
        """Write the remaining rows and return the number of rows by table."""
        for table, _ in self._waiting.values():
            self._write_waiting(table)
        for file in self._files.values():
            file.close()
        return {name: file.rows for name, file in self._files.items()}

    def discard(self) -> None:
        """Close what is still open; its rows are not needed."""
        for file in self._files.values():
            file.discard()


def _has_bytes(table: Table) -> bool:
    """Return whether a table has bytes, whose rows are too large to gather."""
    return any(column.type == "binary" for column in table.columns)


class TableFile:
    """A Parquet file; small batches are gathered into row groups.

    Args:
        path: path of the file.
        schema: schema of its rows.
        system: file system of the path, None for the local one.

    Attributes:
        rows: number of rows added.
    """

    def __init__(self, path: Path | str, schema: pa.Schema, system: fs.FileSystem | None = None) -> None:
        self._writer: pq.ParquetWriter | None = pq.ParquetWriter(path, schema, filesystem=system, compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._size, self.rows = 0, 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Add rows."""
        self._waiting.append(batch)
        self._size += batch.nbytes
        self.rows += batch.num_rows
        if self._size >= GROUP_BYTES:
            self._flush()

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        if self._writer is not None:
            self._flush()
            self._writer.close()
            self._writer = None

    def discard(self) -> None:
        """Close the file, whose rows are not needed, even if nothing can be written."""
        if self._writer is not None:
            with suppress(OSError):
                self._writer.close()
            self._writer.is_open = False  # otherwise it tries again when it is deleted, and prints that it failed
            self._writer = None

    def _flush(self) -> None:
        if self._waiting and self._writer is not None:
            self._writer.write_table(pa.Table.from_batches(self._waiting))
        self._waiting, self._size = [], 0


def locate_store(folder: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a store and the path in it.

    Args:
        folder: folder of the store, a path or a URI.

    Raises:
        InputError: no file system supports the URI.
    """
    if is_uri(folder):
        remote = remote_system(folder)
        return remote.system, remote.inner_path(folder)
    return fs.LocalFileSystem(), str(Path(folder).absolute())


class StoredTables(Mapping[str, "pa.Table"]):
    """The tables of a store by name, each read on access.

    Args:
        folder: folder of the store, a path or a URI.
        names: names of the tables.
    """

    def __init__(self, folder: str, names: Sequence[str]) -> None:
        self._folder, self._names = folder, tuple(names)

    def __getitem__(self, name: str) -> pa.Table:
        """Return a table, all of it in memory, with the schema that it has without a store."""
        if name not in self._names:
            raise KeyError(name)
        from pyarrow import dataset  # writing a store does not need it

        system, root = locate_store(self._folder)
        schema = arrow_schema_of(STORED[name])  # Parquet has another name for the items of lists
        return dataset.dataset(f"{root}/{name}", schema=schema, filesystem=system, format="parquet").to_table()

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names."""
        return iter(self._names)

    def __len__(self) -> int:
        """Return the number of tables."""
        return len(self._names)
