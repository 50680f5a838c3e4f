"""Where results go: standard output, or a file that appears whole or not at all."""

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

__all__ = ["check_beside", "guarded", "open_output"]

BUFFER = 1 << 20


def check_beside(output: Path | None, inputs: Iterable[str]) -> None:
    """Refuse an output file in a folder that holds evidence, or anywhere under a folder that is the evidence.

    Args:
        output: where to write, None for standard output.
        inputs: files, folders, globs and URIs.

    Raises:
        UsageError: the output would stand beside an input.
    """
    if output is None:
        return
    folder = output.absolute().parent.resolve()
    for name in inputs:
        for path in _local_paths(name):
            beside = {path.parent.resolve(), path.resolve().parent}
            if path.is_dir():
                beside = {above for above in beside if _is_log_dir(above)}
            if folder in beside or folder.is_relative_to(path.resolve()):
                raise UsageError(f"{output} would stand beside the evidence {name}; choose another folder for --output")


def _is_log_dir(folder: Path) -> bool:
    return (folder / "meta.properties").exists() or any(folder.glob("*-offset-checkpoint"))


def _local_paths(name: str) -> list[Path]:
    if is_uri(name):
        scheme, _, place = name.partition("://")
        return [Path(unquote(place))] if scheme == "file" else []
    try:
        return [Path(entry.path).absolute() for entry in folders_of(name).expand(name)]
    except InputError:
        return []  # who reads it will say so


def guarded(stream: TextIO) -> IO[bytes]:
    """Return the binary side of a standard stream; if a terminal is behind it, with a guard."""
    out: Any = stream.buffer
    if stream.isatty():
        from kforensics.render.terminal import TerminalGuard  # files and pipes need no guard

        out = TerminalGuard(out)
    return cast("IO[bytes]", out)


@contextmanager
def open_output(output: Path | None) -> Iterator[IO[bytes]]:
    """Open the stream for results.

    A file is written under another name beside its place and renamed at the end; if anything goes wrong, Ctrl-C
    included, nothing of it stays. What goes to a terminal cannot act on it.

    Raises:
        UsageError: the result cannot be written.
    """
    try:
        with _part_of(output) if output else _standard_output() as stream:
            yield stream
    except (InputError, BrokenPipeError):
        raise
    except OSError as error:
        place = output or "standard output"
        raise UsageError(f"cannot write {place}: {error.strerror}; choose another place with --output") from error


@contextmanager
def _standard_output() -> Iterator[IO[bytes]]:
    out = guarded(sys.stdout)
    yield out
    out.flush()


@contextmanager
def _part_of(output: Path) -> Iterator[IO[bytes]]:
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        with part.open("xb", buffering=BUFFER) as stream:
            yield stream
        part.replace(output)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
