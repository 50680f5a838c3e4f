"""Where results go: standard output, or a file that appears whole or not at all."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from kforensics.errors import UsageError

__all__ = ["check_beside", "open_output"]

BUFFER = 1 << 20


def check_beside(output: Path | None, inputs: Iterable[str]) -> None:
    """Refuse an output file in a folder that holds evidence.

    Raises:
        UsageError: the output would stand beside an input.
    """
    if output is None:
        return
    folder = output.absolute().parent.resolve()
    for name in inputs:
        path = Path(name).absolute().resolve()
        if folder in (path, path.parent):
            raise UsageError(f"{output} would stand beside the evidence {name}; choose another folder for --output")


@contextmanager
def open_output(output: Path | None) -> Iterator[IO[bytes]]:
    """Open the stream for results.

    A file is written under another name beside its place and renamed at the end; if anything goes wrong, Ctrl-C
    included, nothing of it stays.

    Raises:
        UsageError: the file cannot be made.
    """
    if output is None:
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        stream = part.open("xb", buffering=BUFFER)
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}; choose another place with --output") from error
    try:
        with stream:
            yield stream
        part.replace(output)
    finally:
        with suppress(FileNotFoundError):
            part.unlink()
