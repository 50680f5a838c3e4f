"""``.index``: which offset stands where in the ``.log``, one sparse entry after another.

Rule: ``org.apache.kafka.storage.internals.log.OffsetIndex``. What an entry names (the first or the last offset of an
append, or of a batch) depends on the release that wrote it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import read_entries

__all__ = ["ENTRY", "OffsetIndexEntry", "OffsetLookup", "ragged_index", "read_offset_index"]

ENTRY = fixed(OFFSET_INDEX_ENTRY)
# Kafka looks at the end of an index first: 8192 bytes of it.
WARM_ENTRIES = 8192 // ENTRY.size
IN_MEMORY = 32 << 20


@dataclass(frozen=True, slots=True)
class OffsetIndexEntry:
    """An entry: the batch with ``offset`` begins at ``log_position``, or a little behind it.

    Attributes:
        position: of the entry in the index.
        offset: base offset of the segment plus the relative offset.
        relative_offset: as stored; a negative one is damage that nothing in the file itself can mend.
        log_position: byte position in the ``.log``.
    """

    position: int
    offset: int
    relative_offset: int
    log_position: int

    @property
    def size(self) -> int:
        """Bytes of an entry."""
        return ENTRY.size


def ragged_index(path: str, size: int) -> str:
    """Return Kafka's words for an index that ends inside an entry."""
    return f"Index file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of {ENTRY.size}"


def read_offset_index(source: Source, base_offset: int) -> Iterator[OffsetIndexEntry | Damage]:
    """Yield the entries of an offset index and the ranges that hold none.

    An entry of zeros is none: position 0 is never written, because something must be in the log before an entry is due.

    Args:
        source: the ``.index``.
        base_offset: base offset of the segment, from the file's name.
    """
    for row in read_entries(source, ENTRY, ragged_index(source.path, source.size)):
        if isinstance(row, Damage):
            yield row
        else:
            position, (relative_offset, log_position) = row
            yield OffsetIndexEntry(position, int64(base_offset + relative_offset), relative_offset, log_position)


class OffsetLookup:
    """Finds entries as Kafka does, slot by slot, which shows on damaged files.

    Rule: ``AbstractIndex.indexSlotRangeFor``. A small index is kept in memory, a large one is read where it is asked
    for.

    Args:
        source: the ``.index``.
        base_offset: base offset of the segment.
    """

    def __init__(self, source: Source, base_offset: int) -> None:
        self.source, self.base_offset = source, base_offset
        self.entries = source.size // ENTRY.size
        self._data = source.read(0, source.size) if source.size <= IN_MEMORY else b""
        if self._data:
            self.entries = len(self._data) // ENTRY.size

    def entry(self, slot: int) -> tuple[int, int]:
        """Return offset and log position of an entry."""
        at = slot * ENTRY.size
        data, at = (self._data, at) if self._data else (self.source.read(at, ENTRY.size).ljust(ENTRY.size, b"\0"), 0)
        relative_offset, log_position = ENTRY.unpack_from(data, at)
        return int64(self.base_offset + relative_offset), log_position

    def position(self, offset: int) -> int:
        """Return where in the log to begin looking for an offset, 0 if no entry tells."""
        slot = self._slot(offset)
        return 0 if slot is None else self.entry(slot)[1]

    def _slot(self, offset: int) -> int | None:
        if self.entries == 0:
            return None
        warm = max(0, self.entries - 1 - WARM_ENTRIES)
        if self.entry(warm)[0] < offset:
            return self._search(offset, warm, self.entries - 1)
        if self.entry(0)[0] > offset:
            return None
        return self._search(offset, 0, warm)

    def _search(self, offset: int, low: int, high: int) -> int:
        while low < high:
            middle = (low + high + 1) // 2
            found = self.entry(middle)[0]
            if found == offset:
                return middle
            low, high = (low, middle - 1) if found > offset else (middle, high)
        return low
