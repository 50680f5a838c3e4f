"""Opens the output: standard output, or a file that is created completely or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, TextIO, cast
from urllib.parse import unquote

from kforensics.errors import InputError, UsageError
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.source import is_uri

FILE_BUFFER_SIZE = 1 << 20


def check_output(output: Path | None, inputs: Iterable[str]) -> None:
    """Refuse an output file next to an input file, or below an input folder.

    Args:
        output: output file, None for standard output.
        inputs: files, folders, globs and URIs of the evidence.

    Raises:
        UsageError: the output would be among the evidence.
    """
    if output is None:
        return
    folder = output.absolute().parent.resolve()
    for name in inputs:
        for path in _local_paths(name):
            evidence_folders = {path.parent.resolve(), path.resolve().parent}
            if path.is_dir():
                evidence_folders = {parent for parent in evidence_folders if _is_log_dir(parent)}
            if folder in evidence_folders or folder.is_relative_to(path.resolve()):
                raise UsageError(f"{output} would be among the evidence {name}; choose another folder for --output")


def _is_log_dir(folder: Path) -> bool:
    return (folder / "meta.properties").exists() or any(folder.glob("*-offset-checkpoint"))


def _local_paths(name: str) -> list[Path]:
    if is_uri(name):
        scheme, _, path = name.partition("://")
        return [Path(unquote(path))] if scheme == "file" else []
    try:
        return [Path(entry.path).absolute() for entry in folders_of(name).expand(name)]
    except InputError:
        return []  # reading the input reports the error


def guard_stream(stream: TextIO) -> IO[bytes]:
    """Return the binary buffer of a standard stream; if it is a terminal, control characters are escaped."""
    out: Any = stream.buffer
    if stream.isatty():
        from kforensics.render.terminal import TerminalGuard  # files and pipes do not need it

        out = TerminalGuard(out)
    return cast("IO[bytes]", out)


@contextmanager
def open_output(output: Path | None) -> Iterator[IO[bytes]]:
    """Open the output for writing.

    A file is written under a temporary name and renamed at the end. After an error or Ctrl-C no file remains. On a
    terminal, control characters are escaped.

    Args:
        output: output file, None for standard output.

    Raises:
        UsageError: the output cannot be written.
    """
    try:
        with _temporary_file(output) if output else _standard_output() as stream:
            yield stream
    except (InputError, BrokenPipeError):
        raise
    except OSError as error:
        target = output or "standard output"
        raise UsageError(f"cannot write {target}: {error.strerror}; choose another path for --output") from error


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    out = guard_stream(sys.stdout)
    yield out
    out.flush()


@contextmanager
def _temporary_file(output: Path) -> Iterator[IO[bytes]]:
    temporary = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with temporary.open("xb", buffering=FILE_BUFFER_SIZE) as stream:
            yield stream
        temporary.replace(output)
    finally:
        with suppress(FileNotFoundError):
            temporary.unlink()
