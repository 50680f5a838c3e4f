"""A sliding read buffer over a source: files are read in chunks, so memory use does not depend on their size."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.files.source import Source

BUFFER_BYTES = 1 << 20
FIRST_CHUNK = 1 << 12


class Window:
    """Reads ranges of a source through one buffer.

    Attributes:
        end: end of the readable range; decreases if the file turns out to have shrunk.
    """

    def __init__(self, source: Source, end: int | None = None) -> None:
        self.source = source
        self.end = source.size if end is None else min(end, source.size)
        self._start, self._data = 0, b""

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range; fewer only where the range exceeds ``end``."""
        length = max(0, min(length, self.end - position))
        if not self._contains(position, length):
            self._fill(position, length)
        begin = position - self._start
        return self._data[begin : begin + length]

    def peek(self, position: int, length: int) -> bytes:
        """Return the bytes of a small range as :meth:`read` does, without moving the buffer."""
        length = max(0, min(length, self.end - position))
        if self._contains(position, length):
            return self.read(position, length)
        data = self.source.read(position, length)
        if len(data) < length:
            self.end = min(self.end, position + len(data))
        return data

    def chunks(self, position: int, end: int) -> Iterator[bytes]:
        """Yield a range in chunks, small ones first, for callers that may stop early."""
        size = FIRST_CHUNK
        while position < end:
            chunk = self.read(position, min(size, end - position))
            if not chunk:
                return
            yield chunk
            position += len(chunk)
            size = min(2 * size, BUFFER_BYTES)

    def _contains(self, position: int, length: int) -> bool:
        return self._start <= position and position + length <= self._start + len(self._data)

    def _fill(self, position: int, length: int) -> None:
        wanted = min(max(length, BUFFER_BYTES), self.end - position)
        self._start, self._data = position, self.source.read(position, wanted)
        if len(self._data) < wanted:
            self.end = min(self.end, position + len(self._data))
