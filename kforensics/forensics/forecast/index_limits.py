"""Whether the indexes of a segment fit in ``segment.index.bytes`` of their topic; if not, a load ends the start.

Rules: ``AbstractIndex.resize``, ``OffsetIndex.append``, ``TimeIndex.maybeAppend`` and ``LogSegment.recover``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.forecast.effects import ILLEGAL_ARGUMENT, LoadRefusedError
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.format.rows import Batch

__all__ = ["FULL", "NO_LIMITS", "IndexLimits", "RebuiltIndexes", "check_index_sizes", "check_indexes", "index_removal"]

FULL = "Attempt to append to a full "
INDEX_BYTES, INTERVAL = "segment.index.bytes", "index.interval.bytes"
DEFAULT_INTERVAL = 4096
# Bytes of an entry of an offset index and of a time index.
ENTRY, TIME_ENTRY = 8, 12


@dataclass(frozen=True, slots=True)
class IndexLimits:
    """The settings of a topic for its indexes.

    Attributes:
        max_bytes: ``segment.index.bytes``; None if the topic does not set it, because the files do not show the
            ``log.index.size.max.bytes`` of the broker.
        interval_bytes: ``index.interval.bytes``.
    """

    max_bytes: int | None = None
    interval_bytes: int = DEFAULT_INTERVAL

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> IndexLimits:
        """Return what the settings of a topic say."""
        limit = settings.get(INDEX_BYTES)
        return cls(None if limit is None else int(limit), int(settings.get(INTERVAL, DEFAULT_INTERVAL)))


NO_LIMITS = IndexLimits()


def check_indexes(folder: str, limits: IndexLimits) -> None:
    """Check the indexes of the last segment in the folder of a partition, if it is not recovered for want of one.

    Raises:
        LoadRefusedError: one is larger than the limit.
        InputError: the folder cannot be read.
    """
    if limits.max_bytes is None:
        return
    files = {entry.name: entry for entry in folders_of(folder).children(folder)}
    stem = max((name for name in files if name.endswith(".log")), default="").removesuffix(".log")
    if f"{stem}.index" in files:
        check_index_sizes((files[f"{stem}.index"], files.get(f"{stem}.timeindex")), limits)


def check_index_sizes(indexes: Iterable[Entry | None], limits: IndexLimits) -> None:
    """Check the indexes of the active segment, which a start resizes to the limit. Those of a recovered one always fit.

    Args:
        indexes: the ``.index`` and the ``.timeindex``, None for one that is missing.
        limits: settings of the topic.

    Raises:
        LoadRefusedError: one is larger than the limit, because it was not trimmed or the limit was lowered.
    """
    if limits.max_bytes is None:
        return
    for index, size in zip(indexes, (ENTRY, TIME_ENTRY), strict=True):
        limit = _rounded(limits.max_bytes, size)
        if index is not None and _rounded(index.size, size) > limit:
            message = f"newPosition > limit: ({_rounded(index.size, size)} > {limit})"
            raise LoadRefusedError(ILLEGAL_ARGUMENT, message, index.path)


def index_removal(path: str) -> str:
    """Return the command that removes both indexes of a segment, given one of them."""
    stem = shell_word(path.removesuffix(".index").removesuffix(".timeindex"))
    return f"rm {stem}.index {stem}.timeindex"


def _rounded(size: int, entry: int) -> int:
    return size - size % entry


@dataclass(slots=True)
class RebuiltIndexes:
    """The indexes of a segment while a recovery writes them again.

    Attributes:
        log: path of the ``.log``.
        limits: settings of the topic.
    """

    log: str
    limits: IndexLimits
    _position: int = 0  # of the batch with the last entry
    _entries: int = 0
    _time_entries: int = 0
    _time: int = -1  # of the last entry
    _newest: int = -1

    def add(self, batch: Batch) -> None:
        """Add a batch.

        Raises:
            LoadRefusedError: it needs an entry, and an index is full.
        """
        self._newest = max(self._newest, batch.max_timestamp or -1)
        if self.limits.max_bytes is None or batch.position - self._position <= self.limits.interval_bytes:
            return
        if self._entries >= self.limits.max_bytes // ENTRY:
            raise self._full("index", self._entries)
        # The last entry is kept free for the one that the segment gets when it is rolled.
        if self._time_entries >= self.limits.max_bytes // TIME_ENTRY - 1:
            raise self._full("time index", self._time_entries)
        self._entries, self._position = self._entries + 1, batch.position
        if self._newest > self._time:
            self._time_entries, self._time = self._time_entries + 1, self._newest

    def _full(self, index: str, entries: int) -> LoadRefusedError:
        message = f"{FULL}{index} (size = {entries})."
        return LoadRefusedError(ILLEGAL_ARGUMENT, message, self.log)
