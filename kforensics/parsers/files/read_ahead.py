"""Ranges of a remote file: few requests for what is read from front to back, one for what is read here and there.

A store answers after tens of milliseconds, however little it is asked for. So the least that is asked for is
``LEAST``, and where one read follows another, several requests are on their way in front of the reader.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache

__all__ = ["ReadAhead"]

LEAST = 1 << 16
# Bytes of a request for what is read from front to back, and how much may be on its way.
PIECE, AHEAD = 4 << 20, 24 << 20
# So far behind the reader is kept: a batch that was cut off is read again.
BEHIND = PIECE
THREADS = 8

Fetch = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class _Piece:
    start: int
    end: int
    data: Future[bytes]

    def holds(self, position: int) -> bool:
        return self.start <= position < self.end


class ReadAhead:
    """Reads ranges of a file.

    Args:
        fetch: returns bytes from a position, fewer than asked for only where the file has shrunk; from any thread.
        size: bytes of the file.
    """

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch, self._size = fetch, size
        # The last range that was asked for by itself; the pieces of a run follow each other.
        self._near = _Piece(0, 0, Future())
        self._run: deque[_Piece] = deque()
        self._begun = 0

    def parts(self, position: int, length: int) -> Iterator[memoryview]:
        """Yield the bytes of a range in pieces; fewer than asked for where the file ends or has shrunk."""
        end = min(position + length, self._size)
        while position < end:
            piece = self._piece(position, end - position)
            at = position - piece.start
            part = memoryview(piece.data.result())[at : at + end - position]
            if not part:
                return
            yield part
            position += len(part)

    def forget(self) -> None:
        """Let go of what was read, and of requests that have not begun."""
        self._end_run()
        self._near = _Piece(0, 0, Future())

    def _piece(self, position: int, length: int) -> _Piece:
        """Return the piece that holds a position, asked for now if it has not been."""
        if not any(piece.holds(position) for piece in self._run):
            if self._near.holds(position):
                return self._near
            if not self._goes_on(position):
                return self._alone(position, max(length, LEAST))
        self._run_to(position)
        return next(piece for piece in self._run if piece.holds(position))

    def _goes_on(self, position: int) -> bool:
        """Tell whether a position outside of all pieces goes on where a run or the last read ended."""
        if self._run and position == self._run[-1].end:
            return True
        if position == 0 or position != self._near.end:
            return False
        self._end_run()
        self._begun = self._near.start
        return True

    def _end_run(self) -> None:
        for piece in self._run:
            piece.data.cancel()
        self._run.clear()

    def _alone(self, position: int, length: int) -> _Piece:
        data: Future[bytes] = Future()
        end = min(position + length, self._size)
        data.set_result(self._fetch(position, end - position))
        self._near = _Piece(position, end, data)
        return self._near

    def _run_to(self, position: int) -> None:
        """Ask for what follows a position, no more than has been read of the run, and drop what lies far behind."""
        while self._run and self._run[0].end <= position - BEHIND:
            self._run.popleft()
        end = self._run[-1].end if self._run else position
        read = max(position - self._begun, LEAST)
        while end < self._size and (end <= position or end - position < min(read, AHEAD)):
            stop = min(end + min(max(read, LEAST), PIECE), self._size)
            self._run.append(_Piece(end, stop, _threads(os.getpid()).submit(self._fetch, end, stop - end)))
            end = stop


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a copy of it has none of them."""
    return ThreadPoolExecutor(THREADS, f"read-ahead-{process}")
