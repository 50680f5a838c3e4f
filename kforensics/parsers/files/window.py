"""A sliding view of a source: ranged reads of a few megabytes, so that memory does not grow with the file."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.files.source import Source

__all__ = ["Window"]

CHUNK = 1 << 20
FIRST_CHUNK = 1 << 12


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
        if not self._holds(position, length):
            self._fill(position, length)
        at = position - self._start
        return self._data[at : at + length]

    def glimpse(self, position: int, length: int) -> bytes:
        """Return the bytes of a small range like :meth:`read`, without moving the buffer there."""
        length = max(0, min(length, self.end - position))
        if self._holds(position, length):
            return self.read(position, length)
        data = self.source.read(position, length)
        if len(data) < length:
            self.end = min(self.end, position + len(data))
        return data

    def chunks(self, position: int, end: int) -> Iterator[bytes]:
        """Yield a range piece by piece, for what needs no more than one look at each byte; small pieces come first."""
        size = FIRST_CHUNK
        while position < end:
            piece = self.read(position, min(size, end - position))
            if not piece:
                return
            yield piece
            position += len(piece)
            size = min(2 * size, CHUNK)

    def _holds(self, position: int, length: int) -> bool:
        return self._start <= position and position + length <= self._start + len(self._data)

    def _fill(self, position: int, length: int) -> None:
        wanted = min(max(length, CHUNK), self.end - position)
        self._start, self._data = position, self.source.read(position, wanted)
        if len(self._data) < wanted:
            self.end = min(self.end, position + len(self._data))
