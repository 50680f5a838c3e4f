"""The beginning of an input, as an input of its own."""

from __future__ import annotations

from kforensics.parsers.files.source import Source

__all__ = ["Head"]


class Head:
    """The bytes of a source in front of a position, for readers that go on to the end of what they are given.

    Args:
        source: the source; who opened it closes it.
        size: how many bytes of it there are.
    """

    def __init__(self, source: Source, size: int) -> None:
        self._source = source
        self.path, self.size, self.mtime_ms = source.path, size, source.mtime_ms

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``."""
        return self._source.read(position, max(0, min(length, self.size - position)))

    def read_into(self, position: int, target: memoryview) -> int:
        """Read from ``position`` into memory; return how many bytes."""
        return self._source.read_into(position, target[: max(0, min(len(target), self.size - position))])

    def hole_end(self, position: int) -> int:
        """Return the first position from ``position`` on that may hold something else than zeros."""
        return min(self.size, self._source.hole_end(position))

    def close(self) -> None:
        """Do nothing."""
