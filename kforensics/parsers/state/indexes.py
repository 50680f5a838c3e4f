"""Segment index files: ``.index`` (offset index), ``.timeindex`` and ``.txnindex`` (aborted transactions).

Rules: ``OffsetIndex``, ``TimeIndex``, ``TransactionIndex`` and ``AbortedTxn`` in
``org.apache.kafka.storage.internals.log``. Which offset an entry of an offset or time index names (the first or last
offset of an append or of a batch) depends on the release and on the writer's role: leader, follower or recovery.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY, TIME_INDEX_ENTRY, TRANSACTION_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import read_entries

__all__ = [
    "OFFSET_ENTRY",
    "TIME_ENTRY",
    "TRANSACTION_ENTRY",
    "OffsetIndexEntry",
    "OffsetLookup",
    "TimeIndexEntry",
    "TransactionIndexEntry",
    "ragged_index",
    "ragged_time_index",
    "read_offset_index",
    "read_time_index",
    "read_transaction_index",
]

OFFSET_ENTRY, TIME_ENTRY = fixed_layout(OFFSET_INDEX_ENTRY), fixed_layout(TIME_INDEX_ENTRY)
TRANSACTION_ENTRY = fixed_layout(TRANSACTION_INDEX_ENTRY)
# Kafka searches the last 8192 bytes of an index first, the part that is likely in the page cache.
WARM_ENTRIES = 8192 // OFFSET_ENTRY.size
# Larger indexes are not loaded into memory.
MAX_IN_MEMORY = 32 << 20


@dataclass(frozen=True, slots=True)
class OffsetIndexEntry:
    """An entry of an offset index: the batch with ``offset`` begins at ``log_position`` or shortly after it.

    Attributes:
        position: position of the entry in the index.
        offset: base offset of the segment plus the relative offset.
        relative_offset: as stored; a negative one is damage that the file alone cannot repair.
        log_position: byte position in the ``.log``.
    """

    position: int
    offset: int
    relative_offset: int
    log_position: int

    @property
    def size(self) -> int:
        """Size of the entry in bytes."""
        return OFFSET_ENTRY.size


@dataclass(frozen=True, slots=True)
class TimeIndexEntry:
    """An entry of a time index: no batch written before it has a larger timestamp.

    Attributes:
        position: position of the entry in the index.
        timestamp: timestamp in ms.
        offset: base offset of the segment plus the relative offset.
        relative_offset: as stored.
    """

    position: int
    timestamp: int
    offset: int
    relative_offset: int

    @property
    def size(self) -> int:
        """Size of the entry in bytes."""
        return TIME_ENTRY.size


@dataclass(frozen=True, slots=True)
class TransactionIndexEntry:
    """An aborted transaction.

    Attributes:
        position: position of the entry in the index.
        version: version of the entry, 0.
        producer_id: producer of the transaction.
        first_offset: first data offset of the transaction; may be in an earlier segment or below the log start.
        last_offset: offset of the ABORT marker.
        last_stable_offset: last stable offset when the transaction ended; never updated.
    """

    position: int
    version: int
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int

    @property
    def size(self) -> int:
        """Size of the entry in bytes."""
        return TRANSACTION_ENTRY.size


def read_offset_index(source: Source, base_offset: int) -> Iterator[OffsetIndexEntry | Damage]:
    """Yield the entries of an offset index and the ranges that contain none.

    Zeros are not an entry: position 0 is never written, because the first entry is due only after the first append.

    Args:
        source: the ``.index``.
        base_offset: base offset of the segment, from the file name.
    """
    for row in read_entries(source, OFFSET_ENTRY, ragged_index(source.path, source.size)):
        if isinstance(row, Damage):
            yield row
        else:
            position, (relative_offset, log_position) = row
            yield OffsetIndexEntry(position, int64(base_offset + relative_offset), relative_offset, log_position)


def ragged_index(path: str, size: int) -> str:
    """Return Kafka's message for an offset index that ends inside an entry."""
    return (
        f"Index file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of "
        f"{OFFSET_ENTRY.size}"
    )


def read_time_index(source: Source, base_offset: int) -> Iterator[TimeIndexEntry | Damage]:
    """Yield the entries of a time index and the ranges that contain none.

    Args:
        source: the ``.timeindex``.
        base_offset: base offset of the segment, from the file name.
    """
    if source.size == TIME_ENTRY.size and not any(source.read(0, TIME_ENTRY.size)):
        # Kafka never preallocates a single entry, but a lone record can have the timestamp 0.
        yield TimeIndexEntry(0, 0, base_offset, 0)
        return
    for row in read_entries(source, TIME_ENTRY, ragged_time_index(source.path, source.size)):
        if isinstance(row, Damage):
            yield row
        else:
            position, (timestamp, relative_offset) = row
            yield TimeIndexEntry(position, timestamp, int64(base_offset + relative_offset), relative_offset)


def ragged_time_index(path: str, size: int) -> str:
    """Return Kafka's message for a time index that ends inside an entry."""
    return (
        f"Time index file {path} is corrupt, found {size} bytes which is neither positive nor a multiple of "
        f"{TIME_ENTRY.size}"
    )


def read_transaction_index(source: Source) -> Iterator[TransactionIndexEntry | Damage]:
    """Yield the aborted transactions of a ``.txnindex`` and the ranges that contain none.

    An entry with a version other than 0 is damage, as in Kafka since 4.4; up to 4.3 Kafka checked the first byte only.
    Zeros are damage, too: as an entry they would be an abort at offset 0 that left the last stable offset at 0.
    """
    ragged = f"{source.size % TRANSACTION_ENTRY.size} bytes are too few for an entry of {TRANSACTION_ENTRY.size}"
    for row in read_entries(source, TRANSACTION_ENTRY, ragged):
        if isinstance(row, Damage):
            yield row
            continue
        position, fields = row
        entry = TransactionIndexEntry(position, *fields)
        yield entry if entry.version == 0 else _unknown_version(source, entry)


def _unknown_version(source: Source, entry: TransactionIndexEntry) -> Damage:
    message = (
        f"Unexpected aborted transaction version {entry.version} in transaction index {source.path}, "
        "supported version range is 0 to 0"
    )
    return Damage(entry.position, entry.position + entry.size, "version", message)


class OffsetLookup:
    """Looks up offsets with Kafka's own binary search, slot by slot, so that results match on damaged files, too.

    Rule: ``AbstractIndex.indexSlotRangeFor``. A small index is held in memory; of a large one, single entries are read.

    Args:
        source: the ``.index``.
        base_offset: base offset of the segment.
    """

    def __init__(self, source: Source, base_offset: int) -> None:
        self.source, self.base_offset = source, base_offset
        self.entries = source.size // OFFSET_ENTRY.size
        self._data = source.read(0, source.size) if source.size <= MAX_IN_MEMORY else b""
        if self._data:
            self.entries = len(self._data) // OFFSET_ENTRY.size

    def entry(self, slot: int) -> tuple[int, int]:
        """Return offset and log position of an entry."""
        start = slot * OFFSET_ENTRY.size
        if self._data:
            relative_offset, log_position = OFFSET_ENTRY.unpack_from(self._data, start)
        else:
            # A file that has shrunk reads as zeros.
            data = self.source.read(start, OFFSET_ENTRY.size).ljust(OFFSET_ENTRY.size, b"\0")
            relative_offset, log_position = OFFSET_ENTRY.unpack_from(data)
        return int64(self.base_offset + relative_offset), log_position

    def position(self, offset: int) -> int:
        """Return the log position from which to search for an offset; 0 if no entry precedes it."""
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
            entry_offset = self.entry(middle)[0]
            if entry_offset == offset:
                return middle
            low, high = (low, middle - 1) if entry_offset > offset else (middle, high)
        return low
