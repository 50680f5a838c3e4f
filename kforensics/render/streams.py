"""Buffers text for a binary stream, and shows the progress of long work."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from kforensics.parsers.files.source import Source

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

# Characters to buffer.
BUFFER_SIZE = 1 << 16
# Work that ends within this time shows no progress.
PATIENCE_SECONDS = 1.0


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
    """

    def __init__(self, total: int, what: str = "", partitions: int = 0) -> None:
        self._total, self._done, self._start = total, 0, time.monotonic()
        self._what, self._partitions = what, partitions
        self._sizes: dict[str, int] = {}
        self._finished: set[str] = set()
        self._finished_count = self._finished_bytes = 0
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
        self._done = max(self._done, self._finished_bytes) if not self._sizes else self._finished_bytes
        self.advance(0)

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


class MeteredSource:
    """A source that reports to a meter how far it has been read; bytes that are read again do not count."""

    def __init__(self, source: Source, meter: ProgressMeter) -> None:
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
