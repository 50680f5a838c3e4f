"""Decides who may write an evidence store: its folder must be unused, and of many processes one wins."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import uniform
from uuid import uuid4

from pyarrow import fs

from kforensics.errors import UsageError
from kforensics.parsers.files.input_paths import is_uri
from kforensics.render.evidence_store import MANIFEST, locate_store, store_path

# Folders in the staging folder: of what finished tasks returned, and of the claims of those who want to write a store
# of objects.
FINISHED, CLAIMS = "_finished", "_claims"
# Attempts to claim a store, and seconds before the first repetition; the time doubles.
ATTEMPTS, FIRST_WAIT, LONGEST_WAIT = 10, 0.1, 5.0
# How pyarrow words that another change of the object, or of one beside it, is under way.
CONFLICT = "HTTP status 409"


def check_unused(output: str) -> None:
    """Refuse an output folder that exists, unless it is empty.

    Args:
        output: a path or a URI.

    Raises:
        UsageError: the folder is in use, cannot be read, or is or contains the current folder.
        InputError: no file system supports the URI.
    """
    system, root = locate_store(output)
    if not is_uri(output):
        store_path(Path(output))
    try:
        is_file = system.get_file_info(root).type == fs.FileType.File
        infos = system.get_file_info(fs.FileSelector(root, allow_not_found=True)) if not is_file else []
        names = {info.base_name for info in infos}
        is_used = is_file or bool(names - {CLAIMS} and not _is_unfinished(names))
    except OSError as error:
        raise unwritable(output, error) from error
    if is_used:
        raise UsageError(f"{output} exists already; choose another folder for --output, or move it away")


def _is_unfinished(names: Collection[str]) -> bool:
    """Return whether a folder of these files and folders has an audit that ended early, and may be continued there."""
    return FINISHED in names and MANIFEST not in names


def unwritable(output: str, error: OSError) -> UsageError:
    """Return the error of an output that cannot be written."""
    why = os.strerror(error.errno) if error.errno else str(error)
    return UsageError(f"cannot write {output}: {why}; choose another path for --output")


def create_folder(system: fs.FileSystem, folder: str) -> None:
    """Create a folder on a local file system; object stores do not need it."""
    if isinstance(system, fs.LocalFileSystem):
        system.create_dir(folder, recursive=True)


def create_task_folder(system: fs.FileSystem, staging: str, *names: str) -> str:
    """Return a folder for files of tasks, and create it in a local file system unless the staging folder is gone.

    Tasks that still run when an audit is interrupted do not create its staging folder again.

    Args:
        system: the file system.
        staging: the staging folder in it.
        names: the folders below it, the outermost first.

    Raises:
        UsageError: there is no staging folder.
        OSError: the folder cannot be created.
    """
    folder = "/".join((staging, *names))
    if isinstance(system, fs.LocalFileSystem):
        try:
            for depth in range(len(names)):
                Path(staging, *names[: depth + 1]).mkdir(exist_ok=True)
        except FileNotFoundError as error:
            raise UsageError(
                f"cannot write {staging}: it is not on {platform.node() or 'a machine'}, where a task runs; "
                "name a folder for --output that all machines share"
            ) from error
    return folder


@contextmanager
def claimed_objects(system: fs.FileSystem, root: str, output: str) -> Iterator[None]:
    """Keep other processes, on any host, from writing a store of objects until the context ends.

    pyarrow cannot create an object on condition that there is none. But listings show every object that was completed
    before: each process writes a claim of its own and lists all. At most one process sees no other claim, and it may
    write; the others delete their claims and try again after a random time. No process deletes the claim of another.

    Args:
        system: the file system.
        root: folder of the store in it.
        output: the folder as the user has given it.

    Raises:
        UsageError: another process is writing the store, or it exists.
        OSError: the claim cannot be written.
    """
    folder = f"{root}/{CLAIMS}"
    name = f"{platform.node() or 'host'}-{os.getpid()}-{uuid4().hex}"
    for attempt in range(ATTEMPTS):
        _write_claim(system, folder, name)
        infos = system.get_file_info(fs.FileSelector(root, recursive=True))
        files = {info.path for info in infos if info.type == fs.FileType.File}
        others = files - {f"{folder}/{name}"}
        if _is_unfinished({path.removeprefix(f"{root}/").partition("/")[0] for path in others}):
            others = {path for path in others if path.startswith(f"{folder}/")}
        if f"{folder}/{name}" in files and not others:
            break
        system.delete_file(f"{folder}/{name}")
        holders = sorted(path.removeprefix(f"{folder}/") for path in others if path.startswith(f"{folder}/"))
        if len(holders) < len(others):
            raise UsageError(f"{output} exists already; choose another folder for --output, or move it away")
        _wait_after(attempt)
    else:
        raise UsageError(
            f"another process is writing {output} ({holders[0]}); wait until it has ended, or choose another folder for"
            f" --output; if it was killed, delete {output}/{CLAIMS} first"
        )
    try:
        yield
    finally:
        system.delete_file(f"{folder}/{name}")


def _write_claim(system: fs.FileSystem, folder: str, name: str) -> None:
    """Write a claim, again if the store of objects asks for it: S3 answers 409 while another change is under way."""
    create_folder(system, folder)
    for attempt in range(ATTEMPTS):
        try:
            with system.open_output_stream(f"{folder}/{name}") as stream:
                stream.write(name.encode())
        except OSError as error:
            if CONFLICT not in str(error) or attempt == ATTEMPTS - 1:
                raise
            _wait_after(attempt)
        else:
            return


def _wait_after(attempt: int) -> None:
    time.sleep(uniform(0, min(FIRST_WAIT * 2**attempt, LONGEST_WAIT)))  # noqa: S311  # nosec B311  # a time, no secret
