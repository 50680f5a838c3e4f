"""A sliding view of a source: ranged reads of a few megabytes, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.source import Source

__all__ = ["Window"]

CHUNK = 1 << 20


class Window:
    """Reads ranges of a source through one buffer.

    Attributes:
        end: byte behind the last one that can be read; falls when the file turns out to have shrunk.
    """

    def __init__(self, source: Source, end: int | None = None) -> None:
        self.source = source
        self.end = source.size if end is None else min(end, source.size)
        self._start, self._data = 0, b""

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range, fewer only behind ``end``."""
        length = max(0, min(length, self.end - position))
        at = position - self._start
        if at < 0 or at + length > len(self._data):
            self._fill(position, length)
            at = position - self._start
        return self._data[at : at + length]

    def chunks(self, position: int, end: int) -> Iterator[bytes]:
        """Yield a range piece by piece, for what needs no more than one look at each byte."""
        while position < end:
            piece = self.read(position, min(CHUNK, end - position))
            if not piece:
                return
            yield piece
            position += len(piece)

    def _fill(self, position: int, length: int) -> None:
        wanted = min(max(length, CHUNK), self.end - position)
        self._start, self._data = position, self.source.read(position, wanted)
        if len(self._data) < wanted:
            self.end = position + len(self._data)
