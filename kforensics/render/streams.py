"""Buffers text for a binary stream, and shows the progress of long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from kforensics.parsers.files.source import Source

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


class HasSize(Protocol):
    """A partition."""

    @property
    def folder(self) -> str:
        """Its folder."""

    @property
    def size(self) -> int:
        """Bytes of its log."""


WatchedT = TypeVar("WatchedT", bound=HasSize)
# Characters to buffer.
BUFFER_SIZE = 1 << 16
# Work that ends within this time shows no progress.
PATIENCE_SECONDS = 1.0
# Of commands that call functions of the library, which take no meter.
_WATCHER: ContextVar[ProgressMeter | None] = ContextVar("watcher", default=None)


class TextSink:
    """Buffers text and writes it as UTF-8 in large blocks.

    Args:
        out: binary stream to write to.
    """

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._buffer, self._size = out, [""], 0

    def write(self, text: str | memoryview) -> None:
        """Write text, or bytes that are UTF-8 already; the caller may change these bytes afterwards."""
        if not isinstance(text, str):
            self.flush()
            self._out.write(text)
            return
        self._buffer.append(text)
        self._size += len(text)
        if self._size > BUFFER_SIZE:
            self.flush()

    def flush(self) -> None:
        """Write the buffered text."""
        self._out.write("".join(self._buffer).encode("utf-8", "replace"))
        self._out.flush()
        self._buffer.clear()
        self._size = 0


class ProgressMeter:
    """Shows a progress bar on standard error once the work has taken a second.

    Args:
        total: bytes to process.
        what: what is processed, such as the name of the command.
        partitions: how many partitions there are, as far as they are known; 0 for work on something else.

    Attributes:
        is_shown: whether it shows anything.
    """

    is_shown = True

    def __init__(self, total: int, what: str = "", partitions: int = 0) -> None:
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._what, self._partitions = what, partitions
        self._sizes: dict[str, int] = {}
        self._finished: set[str] = set()
        self._finished_count = self._finished_bytes = self._other_bytes = 0
        self._display: tuple[Progress, TaskID] | None = None

    def expect(self, sizes: Mapping[str, int]) -> None:
        """Add partitions that will be read, by folder, with their bytes; those that are known count once."""
        new = {folder: size for folder, size in sizes.items() if folder not in self._sizes}
        self._sizes |= new
        self._total += sum(new.values())
        self._partitions += len(new)

    def finish(self, folder: str) -> None:
        """Take a partition for read, with all its bytes."""
        if folder not in self._finished:
            self._finished.add(folder)
            self._finished_count += 1
            self._finished_bytes += self._sizes.get(folder, 0)
        # A partition has more bytes than those of its batches.
        finished = self._finished_bytes + self._other_bytes
        self._done = finished if self._sizes else max(self._done, finished)
        self.advance(0)

    def other_work(self, total: int) -> OtherWork:
        """Return the meter of work that is not the partitions that are expected, as the files of a table.

        Args:
            total: its bytes.
        """
        self._total += total
        return OtherWork(self, total)

    def advance_other(self, size: int) -> None:
        """Add bytes of other work to the bytes processed."""
        self._other_bytes += size
        self.advance(size)

    def reach(self, size: int, partitions: int) -> None:
        """Set how many bytes were processed, and how many partitions."""
        self._done, self._finished_count = size, partitions
        self.advance(0)

    def advance(self, size: int) -> None:
        """Add bytes to the bytes processed."""
        self._done += size
        if self._display is None and time.monotonic() - self._start > PATIENCE_SECONDS:
            self._show()
        if self._display:
            done, total = min(self._done, self._total), self._total
            self._display[0].update(self._display[1], completed=done, total=total, description=self._description)

    @property
    def _description(self) -> str:
        if not self._partitions:
            return self._what
        return f"{self._what} {min(self._finished_count, self._partitions):,}/{self._partitions:,} partitions".lstrip()

    def close(self) -> None:
        """Remove the progress bar."""
        if self._display:
            self._display[0].stop()

    def _show(self) -> None:
        from rich.console import Console  # short work must not pay for this import
        from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

        left = (DownloadColumn(), TimeRemainingColumn(compact=True))
        columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=20), *left)
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.start()
        self._display = progress, progress.add_task(self._description, total=self._total)


class _NoMeter(ProgressMeter):
    """Counts, and shows nothing."""

    is_shown = False

    def _show(self) -> None:
        """Show nothing."""


class OtherWork:
    """Reports work that is not on the partitions that are expected, and no more of it than was announced.

    Args:
        meter: shows it.
        total: its bytes.
    """

    def __init__(self, meter: ProgressMeter, total: int) -> None:
        self._meter, self._left = meter, total

    def advance(self, size: int) -> None:
        """Add bytes to the bytes processed."""
        size = min(size, self._left)
        self._left -= size
        self._meter.advance_other(size)

    def finish(self) -> None:
        """Take the work for done."""
        self.advance(self._left)


class MeteredSource:
    """A source that reports to a meter how far it has been read; bytes that are read again do not count."""

    def __init__(self, source: Source, meter: ProgressMeter | OtherWork) -> None:
        self._source, self._meter, self._end = source, meter, 0
        self.path, self.size, self.mtime_ms = source.path, source.size, source.mtime_ms

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of the source."""
        data = self._source.read(position, length)
        self._reached(position + len(data))
        return data

    def read_into(self, position: int, target: memoryview) -> int:
        """Read bytes of the source into memory."""
        length = self._source.read_into(position, target)
        self._reached(position + length)
        return length

    def next_data(self, position: int) -> int:
        """Return the position of the next data after a sparse range."""
        return self._source.next_data(position)

    def _reached(self, position: int) -> None:
        if position > self._end:
            self._meter.advance(position - self._end)
            self._end = position

    def close(self) -> None:
        """Close the source."""
        self._source.close()


@contextmanager
def progress_meter(
    total: int, *, show: bool | None, what: str = "", partitions: int = 0
) -> Iterator[ProgressMeter | None]:
    """Yield a progress meter, or None if no progress is shown.

    Args:
        total: bytes to process.
        show: whether to show progress; None shows it only if standard error is a terminal.
        what: what is processed, such as the name of the command.
        partitions: how many partitions there are; 0 for work on something else.
    """
    if show is False or (show is None and not sys.stderr.isatty()):
        yield None
        return
    meter = ProgressMeter(total, what, partitions)
    try:
        yield meter
    finally:
        meter.close()


@contextmanager
def watching(meter: ProgressMeter | None) -> Iterator[None]:
    """Show how far everything has been read that a block reads, as far as its functions look for a meter.

    Args:
        meter: shows it; None for nothing.
    """
    token = _WATCHER.set(meter)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def watcher() -> ProgressMeter:
    """Return the meter of the innermost :func:`watching`; if there is none, one that shows nothing."""
    return _WATCHER.get() or _NoMeter(0)


def watched(partitions: Iterable[WatchedT]) -> Iterator[WatchedT]:
    """Yield partitions, and show that each was read when the next one is wanted."""
    meter, every = watcher(), list(partitions)
    meter.expect({partition.folder: partition.size for partition in every})
    for partition in every:
        yield partition
        meter.finish(partition.folder)
