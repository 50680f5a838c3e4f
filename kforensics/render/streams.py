"""Text on its way to a binary stream, and progress on its way to a person."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING

from kforensics.parsers.files.source import Source

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

__all__ = ["Meter", "MeteredSource", "TextSink", "metered"]

BUFFERED = 1 << 16
PATIENCE = 1.0


class TextSink:
    """Collects pieces of text and writes them in large blocks, as UTF-8."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._pieces, self._size = out, [""], 0

    def write(self, text: str | memoryview) -> None:
        """Take a piece; one that is UTF-8 already may change once this returns."""
        if not isinstance(text, str):
            self.flush()
            self._out.write(text)
            return
        self._pieces.append(text)
        self._size += len(text)
        if self._size > BUFFERED:
            self.flush()

    def flush(self) -> None:
        """Write what was taken."""
        self._out.write("".join(self._pieces).encode("utf-8", "replace"))
        self._out.flush()
        self._pieces.clear()
        self._size = 0


class Meter:
    """Shows how many bytes of how many are done, once the work has taken more than a second."""

    def __init__(self, total: int) -> None:
        self._total, self._done, self._begun = total, 0, time.monotonic()
        self._shown: tuple[Progress, TaskID] | None = None

    def advance(self, size: int) -> None:
        """Tell that so many more bytes are done."""
        self._done += size
        if self._shown is None and time.monotonic() - self._begun > PATIENCE:
            self._show()
        if self._shown:
            self._shown[0].update(self._shown[1], completed=self._done)

    def close(self) -> None:
        """Take the display away."""
        if self._shown:
            self._shown[0].stop()

    def _show(self) -> None:
        from rich.console import Console  # short work must not pay for it
        from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

        columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        progress = Progress(*columns, console=Console(stderr=True), transient=True)
        progress.start()
        self._shown = progress, progress.add_task("", total=self._total)


class MeteredSource:
    """A source that tells a meter how far it has been read."""

    def __init__(self, source: Source, meter: Meter) -> None:
        self._source, self._meter, self._far = source, meter, 0
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

    def hole_end(self, position: int) -> int:
        """Return where a hole of the source ends."""
        return self._source.hole_end(position)

    def _reached(self, position: int) -> None:
        if position > self._far:
            self._meter.advance(position - self._far)
            self._far = position

    def close(self) -> None:
        """Close the source."""
        self._source.close()


@contextmanager
def metered(total: int, *, wanted: bool | None) -> Iterator[Meter | None]:
    """Give a meter on standard error.

    Args:
        total: bytes to be done.
        wanted: whether to show it; None for only where a person looks at standard error.
    """
    if wanted is False or (wanted is None and not sys.stderr.isatty()):
        yield None
        return
    meter = Meter(total)
    try:
        yield meter
    finally:
        meter.close()
