"""Writes an evidence store from many workers: each task writes its own files, and the driver keeps the valid ones.

On a local or mounted file system the store appears under its name when it is complete. An object store cannot rename a
folder: there the files are written in place and the manifest comes last. A folder without a manifest is no store.
"""

from __future__ import annotations

import errno
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from uuid import uuid4

from pyarrow import fs

from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.parsers.files.input_paths import is_uri
from kforensics.parsers.tables.arrow import Row, arrow_schema_of
from kforensics.parsers.tables.schemas import Table
from kforensics.render.evidence_store import (
    MANIFEST,
    TableFile,
    TableFiles,
    created_part,
    locate_store,
    manifest_text,
    store_path,
)
from kforensics.render.output import abandoned
from kforensics.render.store_claim import (
    FINISHED,
    check_unused,
    claimed_objects,
    create_folder,
    create_task_folder,
    unwritable,
)

# Folder of the plan in the staging folder.
PLAN = "_plan"
# Files that tasks write, by their paths in the staging folder.
OF_TASKS = re.compile(r"[a-z_]+/(part-[^/]+\.parquet|\.part-[^/]+)|_plan/[^/]+|_finished/[^/]+/[^/]+")


@dataclass(frozen=True, slots=True)
class StorePart:
    """A file that a task has written.

    Attributes:
        table: name of its table.
        path: its path in the store.
        rows: number of its rows.
    """

    table: str
    path: str
    rows: int


@contextmanager
def writing(staging: str) -> Iterator[None]:
    """Raise errors of the disk as errors of the output; whoever gives the folder to tasks knows its final name."""
    try:
        yield
    except InputError:
        raise
    except OSError as error:
        raise unwritable(staging, error) from error


class TaskWriter:
    """Writes the files of one attempt of a task.

    The names of its files follow from the task, because Spark compares what a task that runs again returns with what it
    returned before. Each attempt writes under names of its own, and a file gets its name when it is complete, so
    attempts that run at the same time replace each other's files by equal ones. Unfinished files begin with a dot,
    which readers of Parquet datasets ignore, and are deleted when the store is finished.

    Args:
        staging: the staging folder, a path or a URI.
        task: name of the task.

    Raises:
        UsageError: a file cannot be written; the message names the staging folder.
    """

    def __init__(self, staging: str, task: str) -> None:
        self._staging = staging
        self._system, self._root = locate_store(staging)
        self._name = f"part-{task}.parquet"
        self._attempt = f".part-{task}-{uuid4().hex}"
        self._files = TableFiles(self._create_file)

    def add(self, rows: Rows | RowStream) -> None:
        """Add rows to their table."""
        with writing(self._staging):
            self._files.add(rows)

    def add_values(self, table: Table, rows: Iterable[Row]) -> None:
        """Add rows of Python values to a table."""
        with writing(self._staging):
            self._files.add_values(table, rows)

    def finish(self) -> tuple[StorePart, ...]:
        """Write the remaining rows and return the files."""
        with writing(self._staging):
            counts = self._files.close()
            for name in counts:
                publish(self._system, f"{self._root}/{name}/{self._attempt}", f"{self._root}/{self._path(name)}")
        return tuple(StorePart(name, self._path(name), rows) for name, rows in counts.items())

    def _create_file(self, table: Table) -> TableFile:
        folder = create_task_folder(self._system, self._root, table.name)
        return TableFile(f"{folder}/{self._attempt}", arrow_schema_of(table), self._system)

    def _path(self, table: str) -> str:
        return f"{table}/{self._name}"


def publish(system: fs.FileSystem, attempt: str, path: str) -> None:
    """Give a complete file its name, and replace the file of another attempt."""
    if not isinstance(system, fs.LocalFileSystem | fs.S3FileSystem):
        with suppress(FileNotFoundError):  # HDFS does not replace files
            system.delete_file(path)
    system.move(attempt, path)


class _Unfinished:
    """Decides whether an unfinished folder is kept: if some of its tasks have finished, unless all is discarded."""

    is_discarded = False

    def is_kept(self, part: Path) -> bool:
        return not self.is_discarded and (part / FINISHED).is_dir()


class StagedStore:
    """A store that workers write.

    Args:
        output: folder of the store, a path or a URI; it must not exist, or be empty.

    Attributes:
        staging: folder to which the workers write.

    Raises:
        UsageError: the folder exists already, or cannot be written.
    """

    def __init__(self, output: str) -> None:
        # A reference to this store would keep its folder after an early Ctrl-C.
        self._output, self._unfinished = output, _Unfinished()
        self._system, self._root = locate_store(output)
        check_unused(output)
        try:
            with ExitStack() as unfinished:
                if is_uri(output):
                    self.staging, self._staging_path = output, self._root
                    unfinished.enter_context(claimed_objects(self._system, self._root, output))
                else:
                    self._root = str(store_path(Path(output)))
                    part = unfinished.enter_context(created_part(Path(self._root), self._unfinished.is_kept))
                    self.staging = self._staging_path = str(part)
                    check_unused(output)  # another process may have finished it in the meantime
                self._held: ExitStack | None = unfinished.pop_all()
        except OSError as error:
            raise unwritable(output, error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def adopt(self, plan: str) -> str | None:
        """Take over what an audit of the same plan has left that ended early, and delete what other audits have left.

        Args:
            plan: what identifies the plan.

        Returns:
            The name of the folder of its finished tasks, which begins with the plan; None if there is none.

        Raises:
            UsageError: the files cannot be listed or moved.
        """
        try:
            if is_uri(self._output):
                finished = self._finished_of(self._staging_path, plan)
                if finished is None:
                    self._delete_finished()
                return finished
            for part in abandoned(Path(self._root)):
                if self._finished_of(self._staging_path, plan) is None and self._finished_of(str(part), plan):
                    for folder in part.iterdir():
                        if folder.name != PLAN:
                            folder.rename(Path(self._staging_path) / folder.name)
                shutil.rmtree(part)
            return self._finished_of(self._staging_path, plan)
        except OSError as error:
            raise unwritable(self._output, error) from error

    def _finished_of(self, folder: str, plan: str) -> str | None:
        infos = self._system.get_file_info(fs.FileSelector(f"{folder}/{FINISHED}", allow_not_found=True))
        return min((info.base_name for info in infos if info.base_name.startswith(f"{plan}-")), default=None)

    def discard(self) -> None:
        """Keep nothing if the store is not finished: delete what finished tasks return, now or until it is closed."""
        self._unfinished.is_discarded = True
        with suppress(OSError):
            self._delete_finished()

    def _delete_finished(self) -> None:
        if self._exists(f"{self._staging_path}/{FINISHED}"):
            with suppress(FileNotFoundError):
                self._system.delete_dir(f"{self._staging_path}/{FINISHED}")

    def close(self) -> None:
        """Delete an unfinished store unless some of its tasks have finished, and let other processes write it.

        A second call does nothing.
        """
        if self._held is None:
            return
        held, self._held = self._held, None
        is_kept = not self._unfinished.is_discarded and self._exists(f"{self._root}/{FINISHED}")
        if is_uri(self._output) and not is_kept and not self._exists(f"{self._root}/{MANIFEST}"):
            with suppress(OSError):
                self._delete_others(set())
        with suppress(OSError):
            held.close()

    def finish(self, parts: Iterable[StorePart], tables: Mapping[str, Table], manifest: Mapping[str, Any]) -> None:
        """Delete the files of failed attempts, write the manifest, and rename the store to its folder.

        Args:
            parts: the files of the successful attempts.
            tables: all tables of the store, those without rows included.
            manifest: the manifest without the row counts.

        Raises:
            UsageError: the store cannot be written, or a file of the workers is missing.
        """
        counts = dict.fromkeys(sorted(tables), 0)
        paths = set[str]()
        try:
            for part in parts:
                counts[part.table] += part.rows
                paths.add(part.path)
            for name in [name for name, rows in counts.items() if not rows]:
                paths.add(path := f"{name}/part-none.parquet")
                create_folder(self._system, f"{self._staging_path}/{name}")
                TableFile(f"{self._staging_path}/{path}", arrow_schema_of(tables[name]), self._system).close()
            self._delete_others(paths)
            with self._system.open_output_stream(f"{self._staging_path}/{MANIFEST}") as stream:
                stream.write(manifest_text(manifest, counts))
            self._rename()
        except FileNotFoundError as error:
            raise UsageError(
                f"the files of the workers are not in {self._output} on this machine; "
                "name a folder for --output that all machines share"
            ) from error
        except OSError as error:
            raise unwritable(self._output, error) from error

    def _delete_others(self, paths: set[str]) -> None:
        """Delete the files of tasks but those named; what others have written stays.

        Raises:
            FileNotFoundError: a named file does not exist.
        """
        infos = self._system.get_file_info(fs.FileSelector(self._staging_path, allow_not_found=True, recursive=True))
        existing = {info.path for info in infos if info.type == fs.FileType.File}
        kept = {f"{self._staging_path}/{path}" for path in paths}
        if missing := kept - existing:
            raise FileNotFoundError(min(missing))
        for path in existing - kept:
            if OF_TASKS.fullmatch(path.removeprefix(f"{self._staging_path}/")):
                self._system.delete_file(path)
        for folder in {info.path for info in infos} & {f"{self._staging_path}/{name}" for name in (PLAN, FINISHED)}:
            # A folder of an object store goes with its last file, or stays as an object of its own.
            with suppress(FileNotFoundError):
                self._system.delete_dir(folder)

    def _rename(self) -> None:
        """Rename the staging folder to the store.

        Raises:
            UsageError: the store exists: another host, whose locks are not known here, was faster.
        """
        if self._staging_path == self._root:
            return
        try:
            Path(self._staging_path).replace(self._root)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                raise UsageError(
                    f"{self._output} was written by another process in the meantime; choose another folder for --output"
                ) from error
            raise

    def _exists(self, path: str) -> bool:
        try:
            return bool(self._system.get_file_info(path).type != fs.FileType.NotFound)
        except OSError:
            return False
