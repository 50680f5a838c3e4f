"""An evidence store as a report reads it: its manifest, and its tables piece by piece, always in the same order."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from kforensics.errors import InputError, InputMissingError, UsageError
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.parsers.tables.schemas import TABLES
from kforensics.render.staged_store import store_place
from kforensics.render.store import MANIFEST

__all__ = ["Store", "open_store"]

SCHEMA = "kforensics-store/1"
# Rows that are held at once.
ROWS = 1 << 14


@dataclass(frozen=True, slots=True)
class Store:
    """A store.

    Attributes:
        folder: as it was named.
        manifest: what its manifest says.
        fingerprint: SHA-256 of the manifest.
        system: the file system it is on.
        root: the path there.
    """

    folder: str
    manifest: Mapping[str, Any]
    fingerprint: str
    system: fs.FileSystem
    root: str

    def count(self, table: str) -> int:
        """Return how many rows a table has."""
        return int(self.manifest["rows"].get(table, 0))

    def batches(self, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yield rows of a table; a column that the store does not have yet is null.

        Args:
            table: its name.
            columns: those that are wanted, in this order.

        Raises:
            InputError: a file of it cannot be read.
        """
        schema = arrow_schema_of({**TABLES, **RESULTS}[table])
        for path in self._files(table):
            with _reading(path), self.system.open_input_file(path) as stream:
                for batch in pq.ParquetFile(stream).iter_batches(ROWS, columns=list(columns)):
                    yield pa.RecordBatch.from_pydict({name: _column(batch, schema.field(name)) for name in columns})

    def table(self, name: str, columns: Sequence[str], kept: Callable[[pa.RecordBatch], Any]) -> pa.Table:
        """Return those rows of a table that are kept.

        Args:
            name: of the table.
            columns: those that are wanted, in this order.
            kept: gives a mask of the rows to keep.

        Raises:
            InputError: a file of it cannot be read.
        """
        schema = arrow_schema_of({**TABLES, **RESULTS}[name])
        wanted = pa.schema([schema.field(column) for column in columns])
        parts = (batch.filter(kept(batch)) for batch in self.batches(name, columns))
        return pa.Table.from_batches(list(parts), wanted)

    def _files(self, table: str) -> list[str]:
        folder = f"{self.root}/{table}"
        with _reading(folder):
            found = self.system.get_file_info(fs.FileSelector(folder, allow_not_found=True))
        return sorted(info.path for info in found if info.path.endswith(".parquet"))


@contextmanager
def _reading(path: str) -> Iterator[None]:
    """Turn errors of a file into errors of the input."""
    try:
        yield
    except InputError:
        raise
    except (OSError, pa.ArrowException) as error:
        raise InputError(path, str(error).splitlines()[0]) from error


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    if field.name not in batch.schema.names:
        return pa.nulls(len(batch), field.type)
    return batch.column(field.name)


def open_store(folder: str) -> Store:
    """Return an evidence store.

    Args:
        folder: a path or a URI.

    Raises:
        InputError: it cannot be read.
        UsageError: the folder is none.
    """
    system, root = store_place(folder)
    try:
        with system.open_input_file(f"{root}/{MANIFEST}") as stream:
            data: bytes = stream.read()
    except FileNotFoundError as error:
        raise _missing(folder, system, root) from error
    except OSError as error:
        raise InputError(folder, str(error).splitlines()[0]) from error
    return Store(folder, _manifest(folder, data), hashlib.sha256(data).hexdigest(), system, root)


def _missing(folder: str, system: fs.FileSystem, root: str) -> Exception:
    if system.get_file_info(root).type == fs.FileType.NotFound:
        return InputMissingError(folder, "there is nothing of that name")
    return UsageError(f"{folder} has no {MANIFEST}, so it is no evidence store; kforensics audit --output makes one")


def _manifest(folder: str, data: bytes) -> Mapping[str, Any]:
    try:
        found = json.loads(data)
        schema = found["schema"]
    except (ValueError, KeyError, TypeError):
        raise UsageError(f"the {MANIFEST} of {folder} is no manifest of an evidence store; audit again") from None
    if schema != SCHEMA:
        raise UsageError(f"{folder} is a store of the kind {schema!r}, and this version reads {SCHEMA}; audit again")
    return dict(found)
