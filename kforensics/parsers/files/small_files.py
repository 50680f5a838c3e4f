"""Small files of a folder in a store, fetched several at a time.

A segment has four files beside it, and each costs two requests to a store that takes tens of milliseconds for any. So
who opens a second file of a partition gets its small ones fetched ahead.
"""

from __future__ import annotations

import os
import re
import time
from bisect import bisect_left
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from threading import Lock

__all__ = ["Fetched", "SmallFiles"]

SMALL = 1 << 16
# Files that are asked for in front of the one that is opened, in the order of names.
AHEAD = 16
# Folders that are remembered, and for how long: what is read later may have changed.
FOLDERS, FRESH_SECONDS = 2, 10.0
THREADS = 8
# The files of a segment bear its base offset; log_names would import what imports this.
_OF_A_SEGMENT = re.compile(r"\d{20}\D")


@dataclass(frozen=True, slots=True)
class Fetched:
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
    files: dict[str, Future[Fetched]] = field(default_factory=dict)


class SmallFiles:
    """Keeps the small files of the folders that are read just now.

    Args:
        sizes: returns the files of a folder, by their paths.
        fetch: returns a file; from any thread.
    """

    def __init__(self, sizes: Callable[[str], Mapping[str, int]], fetch: Callable[[str], Fetched]) -> None:
        self._sizes, self._fetch, self._lock = sizes, fetch, Lock()
        self._folders: dict[str, _Folder] = {}

    def get(self, path: str) -> Fetched | None:
        """Return a file if it is small and others of its folder have been asked for; None to open it by itself.

        Raises:
            InputError: it cannot be read.
        """
        with self._lock:
            found = self._asked_for(path)
        return found.result() if found else None

    def forget(self, folder: str | None = None) -> None:
        """Forget a folder, or all: somebody has looked anew at what is there."""
        with self._lock:
            for name in list(self._folders) if folder is None else [folder]:
                self._folders.pop(name, None)

    def _asked_for(self, path: str) -> Future[Fetched] | None:
        name = path.rpartition("/")[0]
        folder = self._folders.get(name)
        if folder is None or time.monotonic() - folder.since > FRESH_SECONDS:
            # Who opens one file may want no other, and a log directory has thousands of folders to list.
            if _OF_A_SEGMENT.match(path.rpartition("/")[2]):
                self._begin(name)
            return None
        if folder.small is None:
            folder.small = sorted(file for file, size in self._sizes(name).items() if size <= SMALL)
        at = bisect_left(folder.small, path)
        if folder.small[at : at + 1] != [path]:
            return None
        for file in folder.small[at : at + AHEAD]:
            if file not in folder.files:
                folder.files[file] = _threads(os.getpid()).submit(self._fetch, file)
        return folder.files[path]

    def _begin(self, name: str) -> None:
        self._folders.pop(name, None)
        while len(self._folders) >= FOLDERS:
            self._folders.pop(next(iter(self._folders)))
        self._folders[name] = _Folder(time.monotonic())


@cache
def _threads(process: int) -> ThreadPoolExecutor:
    """Return the threads of this process; a copy of it has none of them."""
    return ThreadPoolExecutor(THREADS, f"small-files-{process}")
