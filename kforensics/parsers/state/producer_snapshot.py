"""``.snapshot``: the state of every producer up to an offset.

Rule: ``org.apache.kafka.storage.internals.log.ProducerStateManager.readSnapshot``. Kafka refuses the whole file at the
first fault; here every whole entry of a known version is shown, and the fault stands beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.integers import int32
from kforensics.parsers.format.layouts import PRODUCER_SNAPSHOT_ENTRY, PRODUCER_SNAPSHOT_HEADER
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.entries import chunks

__all__ = [
    "ENTRY",
    "HEADER",
    "SCHEMA",
    "VERSION",
    "ProducerSnapshotEntry",
    "ProducerSnapshotHeader",
    "broken_crc",
    "read_producer_snapshot",
    "snapshot_crc",
    "too_many",
]

HEADER, ENTRY = fixed(PRODUCER_SNAPSHOT_HEADER), fixed(PRODUCER_SNAPSHOT_ENTRY)
CRC_START = HEADER.end_of("crc")
VERSION = 1
SCHEMA = "Snapshot failed schema validation: "
INT_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ProducerSnapshotHeader:
    """What stands before the entries.

    Attributes:
        position: 0.
        version: 1.
        crc: CRC-32C as stored.
        count: entries that follow.
    """

    position: int
    version: int
    crc: int
    count: int

    @property
    def size(self) -> int:
        """Bytes of the header."""
        return HEADER.size


@dataclass(frozen=True, slots=True)
class ProducerSnapshotEntry:
    """The state of a producer; the fields are those of the layout, -1 as stored."""

    position: int
    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int

    @property
    def size(self) -> int:
        """Bytes of an entry."""
        return ENTRY.size

    @property
    def has_batch(self) -> bool:
        """Whether the last batch of the producer is known."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record of the last batch; sequences wrap from 2147483647 to 0."""
        if self.last_sequence < self.offset_delta:
            return int32(INT_MAX - int32(self.offset_delta - self.last_sequence) + 1)
        return int32(self.last_sequence - self.offset_delta)


Row = ProducerSnapshotHeader | ProducerSnapshotEntry | Damage


def read_producer_snapshot(source: Source) -> Iterator[Row]:
    """Yield the header and the producers of a snapshot, and the ranges that hold neither.

    A header whose checksum or count does not hold is a damage row; the entries behind it are shown all the same.
    """
    head = source.read(0, HEADER.size)
    if len(head) < HEADER.size:
        # An empty file too: no broker writes one, and Kafka refuses it.
        yield Damage(0, source.size, "truncated", f"{SCHEMA}null")
        return
    header = ProducerSnapshotHeader(0, *HEADER.unpack_from(head))
    if header.version != VERSION:
        reason = "version" if any(head) else "zeros"
        yield Damage(0, source.size, reason, f"{SCHEMA}Snapshot contained an unknown file version {header.version}")
        return
    if header.count < 0:
        yield Damage(0, source.size, "count", f"{SCHEMA}non-nullable field producerEntries was serialized as null")
        return
    there = min(header.count, (source.size - HEADER.size) // ENTRY.size)
    end = HEADER.size + there * ENTRY.size
    yield _judged(source, header, there, end)
    yield from _entries(source, end)
    yield from _tail(source.size, header, there, end)


def _judged(source: Source, header: ProducerSnapshotHeader, there: int, end: int) -> ProducerSnapshotHeader | Damage:
    if there < header.count:
        left = source.size - HEADER.size
        why = "null" if header.count <= left else too_many(header.count, left)
        return Damage(0, HEADER.size, "count", f"{SCHEMA}{why}", next_good_position=HEADER.size)
    computed = snapshot_crc(source)
    # The writer does not truncate an older, longer file of the same name: its rest is under nobody's checksum.
    if header.crc == computed or (end < source.size and header.crc == snapshot_crc(source, end)):
        return header
    return Damage(0, HEADER.size, "crc", broken_crc(header.crc, computed), next_good_position=HEADER.size)


def _entries(source: Source, end: int) -> Iterator[ProducerSnapshotEntry | Damage]:
    position = HEADER.size
    for start, piece in chunks(source, HEADER.size, end, ENTRY.size):
        whole = len(piece) - len(piece) % ENTRY.size
        for fields in ENTRY.struct.iter_unpack(memoryview(piece)[:whole]):
            yield ProducerSnapshotEntry(position, *fields)
            position += ENTRY.size
        if position < start + len(piece):
            break
    if position < end:
        yield Damage(position, end, "shrunk", "the file has become shorter while it was read")


def _tail(size: int, header: ProducerSnapshotHeader, there: int, end: int) -> Iterator[Damage]:
    left = size - end
    if left and there < header.count:
        yield Damage(end, size, "truncated", f"{left} bytes are too few for an entry of {ENTRY.size}")
    elif left:
        yield Damage(end, size, "stale-tail", f"{left} bytes of an older, longer snapshot behind the last entry")


def snapshot_crc(source: Source, end: int | None = None) -> int:
    """Return the CRC-32C of everything behind the stored one.

    Args:
        source: the ``.snapshot``.
        end: byte behind the last one to count in, None for the whole file.
    """
    checksum = 0
    for _, piece in chunks(source, CRC_START, source.size if end is None else end):
        checksum = crc32c(piece, checksum)
    return checksum


def broken_crc(stored: int, computed: int) -> str:
    """Return Kafka's words for a checksum that does not hold."""
    return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"


def too_many(count: int, left: int) -> str:
    """Return Kafka's words for a count larger than the bytes that are left."""
    return f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
