"""``.timeindex``: the largest timestamp of a segment up to an offset.

Rule: ``org.apache.kafka.storage.internals.log.TimeIndex``. Which offset of a batch an entry names depends on the
release and role (leader, follower, recovery) of the writer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.layouts import TIME_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import read_entries

__all__ = ["ENTRY", "TimeIndexEntry", "ragged_time_index", "read_time_index"]

ENTRY = fixed(TIME_INDEX_ENTRY)


@dataclass(frozen=True, slots=True)
class TimeIndexEntry:
    """An entry: no batch written before it has a larger timestamp.

    Attributes:
        position: of the entry in the index.
        timestamp: ms.
        offset: base offset of the segment plus the relative offset.
        relative_offset: as stored.
    """

    position: int
    timestamp: int
    offset: int
    relative_offset: int

    @property
    def size(self) -> int:
        """Bytes of an entry."""
        return ENTRY.size


def ragged_time_index(path: str, size: int) -> str:
    """Return Kafka's words for a time index that ends inside an entry."""
    return (
        f"Time index file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of "
        f"{ENTRY.size}"
    )


def read_time_index(source: Source, base_offset: int) -> Iterator[TimeIndexEntry | Damage]:
    """Yield the entries of a time index and the ranges that hold none.

    Args:
        source: the ``.timeindex``.
        base_offset: base offset of the segment, from the file's name.
    """
    if source.size == ENTRY.size and not any(source.read(0, ENTRY.size)):
        # Nobody sets aside room for a single entry, but a lone record may have the timestamp 0.
        yield TimeIndexEntry(0, 0, base_offset, 0)
        return
    for row in read_entries(source, ENTRY, ragged_time_index(source.path, source.size)):
        if isinstance(row, Damage):
            yield row
        else:
            position, (timestamp, relative_offset) = row
            yield TimeIndexEntry(position, timestamp, int64(base_offset + relative_offset), relative_offset)
