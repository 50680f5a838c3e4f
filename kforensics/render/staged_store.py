"""An evidence store that many workers write: each its own files, of which the driver keeps those that count.

On a local or mounted file system the store appears whole under its name. An object store cannot rename a folder: there
the files are in their places at once, the manifest comes last, and what has no manifest is no store.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pyarrow import fs

from kforensics.errors import UsageError
from kforensics.parsers.files.file_systems import remote_system
from kforensics.parsers.files.source import is_uri
from kforensics.parsers.tables.arrow import arrow_schema_of
from kforensics.parsers.tables.schemas import Table
from kforensics.render.store import MANIFEST, TableFile, TableFiles, manifest_text

__all__ = ["Part", "StagedStore", "TaskParts", "check_free", "store_place"]


@dataclass(frozen=True, slots=True)
class Part:
    """A file of a table that a task has written.

    Attributes:
        table: name of the table.
        path: where the file is in the store.
        rows: how many it has.
    """

    table: str
    path: str
    rows: int


def store_place(output: str) -> tuple[fs.FileSystem, str]:
    """Return the file system of a store, and the path in it.

    Args:
        output: a path or a URI.

    Raises:
        InputError: no file system answers to the URI.
    """
    if is_uri(output):
        remote = remote_system(output)
        return remote.system, remote.inner(output)
    return fs.LocalFileSystem(), str(Path(output).absolute())


def check_free(output: str) -> None:
    """Refuse a place for a store where something is, an empty folder excepted.

    Args:
        output: a path or a URI.

    Raises:
        UsageError: something is there, or nobody can tell.
        InputError: no file system answers to the URI.
    """
    system, root = store_place(output)
    try:
        is_file = system.get_file_info(root).type == fs.FileType.File
        is_taken = is_file or system.get_file_info(fs.FileSelector(root, allow_not_found=True))
    except OSError as error:
        raise _unwritable(output, error) from error
    if is_taken:
        raise UsageError(f"{output} is there already; choose another folder for --output, or move it away")


def _unwritable(output: str, error: OSError) -> UsageError:
    why = os.strerror(error.errno) if error.errno else str(error)
    return UsageError(f"cannot write {output}: {why}; choose another place for --output")


class TaskParts:
    """The files of one attempt of a task; those of an attempt that failed are never asked for.

    Args:
        staging: the staging folder, a path or a URI.
        task: name of the task.

    Attributes:
        add: adds rows to their table.
        add_values: adds rows of Python values to a table.
    """

    def __init__(self, staging: str, task: str) -> None:
        self._system, self._root = store_place(staging)
        self._name = f"part-{task}-{uuid4().hex[:8]}.parquet"
        self._files = TableFiles(self._begun)
        self.add, self.add_values = self._files.add, self._files.add_values

    def finish(self) -> tuple[Part, ...]:
        """Return what was written, once all of it is on disk."""
        return tuple(Part(name, self._path(name), rows) for name, rows in self._files.close().items())

    def _begun(self, table: Table) -> TableFile:
        _make(self._system, f"{self._root}/{table.name}")
        return TableFile(f"{self._root}/{self._path(table.name)}", arrow_schema_of(table), self._system)

    def _path(self, table: str) -> str:
        return f"{table}/{self._name}"


def _make(system: fs.FileSystem, folder: str) -> None:
    """Make a folder; stores have none, or make them with the first file."""
    if isinstance(system, fs.LocalFileSystem):
        system.create_dir(folder, recursive=True)


class StagedStore:
    """A store that workers fill; it is there once it is finished.

    Args:
        output: its folder, a path or a URI; nothing may be there, or an empty folder.

    Attributes:
        staging: where the workers write.

    Raises:
        UsageError: something is there already, or it cannot be written.
    """

    def __init__(self, output: str) -> None:
        self._output = output
        self._system, self._root = store_place(output)
        check_free(output)
        if is_uri(output):
            self.staging, self._part = output, self._root
        else:
            path = Path(self._root)
            self._part = self.staging = str(path.with_name(f".{path.name}.{os.getpid()}.part"))
        try:
            _make(self._system, self._part)
        except OSError as error:
            raise _unwritable(output, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Take away what did not become a store."""
        if not self._exists(f"{self._root}/{MANIFEST}"):
            with suppress(OSError):
                self._keep(set())

    def finish(self, parts: Iterable[Part], tables: Mapping[str, Table], manifest: Mapping[str, Any]) -> None:
        """Put the files of the workers in their places, write the manifest, and let the store appear.

        Args:
            parts: the files.
            tables: those the store shall have, those without rows too.
            manifest: what stands in the manifest, the counts of rows excepted.

        Raises:
            UsageError: it cannot be written, or the workers' files are not there.
        """
        counts = dict.fromkeys(sorted(tables), 0)
        kept = set[str]()
        try:
            for part in parts:
                counts[part.table] += part.rows
                kept.add(part.path)
            for name in [name for name, rows in counts.items() if not rows]:
                kept.add(path := f"{name}/part-none.parquet")
                _make(self._system, f"{self._part}/{name}")
                TableFile(f"{self._part}/{path}", arrow_schema_of(tables[name]), self._system).close()
            self._keep(kept)
            with self._system.open_output_stream(f"{self._part}/{MANIFEST}") as stream:
                stream.write(manifest_text(manifest, counts))
            self._appear()
        except FileNotFoundError as error:
            raise UsageError(
                f"what the workers wrote is not in {self._output} as this machine sees it; "
                "name a folder that all of them share for --output"
            ) from error
        except OSError as error:
            raise _unwritable(self._output, error) from error

    def _keep(self, kept: set[str]) -> None:
        """Take away all other files: those of attempts that failed; nothing kept takes the folder away too.

        Raises:
            FileNotFoundError: one of those to be kept is not there.
        """
        infos = self._system.get_file_info(fs.FileSelector(self._part, allow_not_found=True, recursive=True))
        found = {info.path for info in infos if info.type == fs.FileType.File}
        wanted = {f"{self._part}/{path}" for path in kept}
        if missing := wanted - found:
            raise FileNotFoundError(min(missing))
        for path in found - wanted:
            self._system.delete_file(path)
        if not kept and isinstance(self._system, fs.LocalFileSystem):
            self._system.delete_dir(self._part)

    def _appear(self) -> None:
        if self._part != self._root:
            if self._exists(self._root):
                Path(self._root).rmdir()
            Path(self._part).replace(self._root)

    def _exists(self, path: str) -> bool:
        try:
            return bool(self._system.get_file_info(path).type != fs.FileType.NotFound)
        except OSError:
            return False
