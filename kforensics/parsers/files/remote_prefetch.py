"""Prefetching from remote stores: ranges of one large file, and the small files of one folder.

Every request to a store takes tens of milliseconds, however little it transfers. :class:`ReadAhead` therefore requests
at least ``MIN_REQUEST_BYTES`` and, for sequential reads, keeps several requests in flight ahead of the reader. The four
companion files of a segment would cost two requests each: once a second file of a folder is opened, :class:`SmallFiles`
fetches the next small ones in parallel.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

MIN_REQUEST_BYTES = 1 << 16
# Size of one request of a sequential read, and how many bytes may be in flight.
REQUEST_BYTES, READ_AHEAD_BYTES = 4 << 20, 24 << 20
# Bytes before the read position that are kept: a batch cut off at a buffer's end is read again from its start.
KEPT_BYTES = REQUEST_BYTES
THREADS = 8

SMALL_FILE_BYTES = 1 << 16
# Files fetched together with the requested one, in name order.
FILES_AHEAD = 16
# Folders remembered, and for how long: files may change later.
FOLDERS, FRESH_SECONDS = 2, 10.0
# Segment files start with their base offset. log_names has the full rule, but imports this module indirectly.
_SEGMENT_FILE = re.compile(r"\d{20}\D")

Fetch = Callable[[int, int], bytes]


@dataclass(frozen=True, slots=True)
class _Block:
    """A requested range of a file."""

    start: int
    end: int
    data: Future[bytes]

    def contains(self, position: int) -> bool:
        return self.start <= position < self.end


class ReadAhead:
    """Reads ranges of one remote file.

    Args:
        fetch: returns bytes from a position, fewer than requested only if the file has shrunk; called from any thread.
        size: size of the file in bytes.
    """

    def __init__(self, fetch: Fetch, size: int) -> None:
        self._fetch, self._size = fetch, size
        # The last single request. The requests of a sequential run are in _run, in order and without gaps.
        self._single = _Block(0, 0, Future())
        self._run: deque[_Block] = deque()
        self._run_start = 0

    def parts(self, position: int, length: int) -> Iterator[memoryview]:
        """Yield the bytes of a range in parts; fewer than requested where the file ends or has shrunk."""
        end = min(position + length, self._size)
        while position < end:
            block = self._block(position, end - position)
            begin = position - block.start
            part = memoryview(block.data.result())[begin : begin + end - position]
            if not part:
                return
            yield part
            position += len(part)

    def forget(self) -> None:
        """Drop the buffered bytes and cancel requests that have not started."""
        self._end_run()
        self._single = _Block(0, 0, Future())

    def _block(self, position: int, length: int) -> _Block:
        """Return the block that contains a position; request it first if necessary."""
        if not any(block.contains(position) for block in self._run):
            if self._single.contains(position):
                return self._single
            if not self._continues(position):
                return self._request_single(position, max(length, MIN_REQUEST_BYTES))
        self._extend_run(position)
        return next(block for block in self._run if block.contains(position))

    def _continues(self, position: int) -> bool:
        """Return whether a position outside all blocks continues the current run or the last single read."""
        if self._run and position == self._run[-1].end:
            return True
        if position == 0 or position != self._single.end:
            return False
        self._end_run()
        self._run_start = self._single.start
        return True

    def _end_run(self) -> None:
        for block in self._run:
            block.data.cancel()
        self._run.clear()

    def _request_single(self, position: int, length: int) -> _Block:
        data: Future[bytes] = Future()
        end = min(position + length, self._size)
        data.set_result(self._fetch(position, end - position))
        self._single = _Block(position, end, data)
        return self._single

    def _extend_run(self, position: int) -> None:
        """Request what follows a position, at most as much as the run has read, and drop blocks far before it."""
        while self._run and self._run[0].end <= position - KEPT_BYTES:
            self._run.popleft()
        end = self._run[-1].end if self._run else position
        bytes_read = max(position - self._run_start, MIN_REQUEST_BYTES)
        while end < self._size and (end <= position or end - position < min(bytes_read, READ_AHEAD_BYTES)):
            stop = min(end + min(max(bytes_read, MIN_REQUEST_BYTES), REQUEST_BYTES), self._size)
            data = _threads(os.getpid(), "read-ahead").submit(self._fetch, end, stop - end)
            self._run.append(_Block(end, stop, data))
            end = stop


@dataclass(frozen=True, slots=True)
class FetchedFile:
    """A whole file.

    Attributes:
        data: its bytes.
        mtime_ms: its modification time in ms.
    """

    data: bytes
    mtime_ms: int | None


@dataclass(slots=True)
class _Folder:
    since: float
    small: list[str] | None = None
    files: dict[str, Future[FetchedFile]] = field(default_factory=dict)


class SmallFiles:
    """Caches the small files of the folders that are being read.

    Args:
        sizes: returns the size of every file of a folder, by path.
        fetch: returns a file; called from any thread.
    """

    def __init__(self, sizes: Callable[[str], Mapping[str, int]], fetch: Callable[[str], FetchedFile]) -> None:
        self._sizes, self._fetch, self._lock = sizes, fetch, Lock()
        self._folders: dict[str, _Folder] = {}

    def get(self, path: str) -> FetchedFile | None:
        """Return a file if it is small and not the first of its folder; None if the caller must open it.

        Raises:
            InputError: the file cannot be read.
        """
        with self._lock:
            request = self._requested(path)
        return request.result() if request else None

    def forget(self, folder: str | None = None) -> None:
        """Drop the files of a folder, or of all folders, because a new listing may show changes."""
        with self._lock:
            for name in list(self._folders) if folder is None else [folder]:
                self._folders.pop(name, None)

    def _requested(self, path: str) -> Future[FetchedFile] | None:
        name = path.rpartition("/")[0]
        folder = self._folders.get(name)
        if folder is None or time.monotonic() - folder.since > FRESH_SECONDS:
            # The first file alone does not justify listing its folder: a log directory has thousands of folders.
            if _SEGMENT_FILE.match(path.rpartition("/")[2]):
                self._remember(name)
            return None
        if folder.small is None:
            folder.small = sorted(file for file, size in self._sizes(name).items() if size <= SMALL_FILE_BYTES)
        index = bisect_left(folder.small, path)
        if folder.small[index : index + 1] != [path]:
            return None
        for file in folder.small[index : index + FILES_AHEAD]:
            if file not in folder.files:
                folder.files[file] = _threads(os.getpid(), "small-files").submit(self._fetch, file)
        return folder.files[path]

    def _remember(self, name: str) -> None:
        self._folders.pop(name, None)
        while len(self._folders) >= FOLDERS:
            self._folders.pop(next(iter(self._folders)))
        self._folders[name] = _Folder(time.monotonic())


@cache
def _threads(process: int, purpose: str) -> ThreadPoolExecutor:
    """Return this process's thread pool for a purpose; a forked child must not use its parent's threads."""
    return ThreadPoolExecutor(THREADS, f"{purpose}-{process}")
