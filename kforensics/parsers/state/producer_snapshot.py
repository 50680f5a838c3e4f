"""Reads producer snapshots (``.snapshot``): the state of every producer up to an offset.

Rule: ``org.apache.kafka.storage.internals.log.ProducerStateManager.readSnapshot``. Kafka rejects the whole file at the
first fault. This reader yields every whole entry of a known version together with the faults.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.derived import fixed_layout
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

HEADER, ENTRY = fixed_layout(PRODUCER_SNAPSHOT_HEADER), fixed_layout(PRODUCER_SNAPSHOT_ENTRY)
CRC_START = HEADER.end_of("crc")
VERSION = 1
SCHEMA = "Snapshot failed schema validation: "
INT_MAX = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class ProducerSnapshotHeader:
    """The header of a snapshot.

    Attributes:
        position: 0.
        version: 1.
        crc: CRC-32C as stored.
        count: number of entries that follow.
    """

    position: int
    version: int
    crc: int
    count: int

    @property
    def size(self) -> int:
        """Size of the header in bytes."""
        return HEADER.size


@dataclass(frozen=True, slots=True)
class ProducerSnapshotEntry:
    """The state of a producer, with the fields of the layout; -1 as stored."""

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
        """Size of the entry in bytes."""
        return ENTRY.size

    @property
    def has_batch(self) -> bool:
        """Whether the snapshot contains the last batch of the producer."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """Sequence of the first record of the last batch; 2147483647 is followed by 0."""
        if self.last_sequence < self.offset_delta:
            return int32(INT_MAX - int32(self.offset_delta - self.last_sequence) + 1)
        return int32(self.last_sequence - self.offset_delta)


Row = ProducerSnapshotHeader | ProducerSnapshotEntry | Damage


def read_producer_snapshot(source: Source) -> Iterator[Row]:
    """Yield the header and the producers of a snapshot, and damage for the remaining ranges.

    A header with a wrong checksum or count becomes a damage row; the entries after it are yielded nevertheless.
    """
    head = source.read(0, HEADER.size)
    if len(head) < HEADER.size:
        # This includes an empty file: no broker writes one, and Kafka rejects it.
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
    present = min(header.count, (source.size - HEADER.size) // ENTRY.size)
    end = HEADER.size + present * ENTRY.size
    yield _verified(source, header, present, end)
    yield from _entries(source, end)
    yield from _tail(source.size, header, present, end)


def _verified(
    source: Source, header: ProducerSnapshotHeader, present: int, end: int
) -> ProducerSnapshotHeader | Damage:
    """Return the header, or damage in its place if its count or checksum is wrong."""
    if present < header.count:
        left = source.size - HEADER.size
        why = "null" if header.count <= left else too_many(header.count, left)
        return Damage(0, HEADER.size, "count", f"{SCHEMA}{why}", next_good_position=HEADER.size)
    computed = snapshot_crc(source)
    # Kafka does not truncate an older, longer file of the same name. The checksum does not cover the rest of it.
    if header.crc == computed or (end < source.size and header.crc == snapshot_crc(source, end)):
        return header
    return Damage(0, HEADER.size, "crc", broken_crc(header.crc, computed), next_good_position=HEADER.size)


def _entries(source: Source, end: int) -> Iterator[ProducerSnapshotEntry | Damage]:
    position = HEADER.size
    for start, chunk in chunks(source, HEADER.size, end, ENTRY.size):
        whole = len(chunk) - len(chunk) % ENTRY.size
        for fields in ENTRY.struct.iter_unpack(memoryview(chunk)[:whole]):
            yield ProducerSnapshotEntry(position, *fields)
            position += ENTRY.size
        if position < start + len(chunk):
            break
    if position < end:
        yield Damage(position, end, "shrunk", "the file shrank while it was being read")


def _tail(size: int, header: ProducerSnapshotHeader, present: int, end: int) -> Iterator[Damage]:
    left = size - end
    if left and present < header.count:
        yield Damage(end, size, "truncated", f"{left} bytes are too few for an entry of {ENTRY.size}")
    elif left:
        yield Damage(end, size, "stale-tail", f"{left} bytes of an older, longer snapshot after the last entry")


def snapshot_crc(source: Source, end: int | None = None) -> int:
    """Return the CRC-32C of all bytes after the stored one.

    Args:
        source: the ``.snapshot``.
        end: end of the covered range, None for the end of the file.
    """
    checksum = 0
    for _, chunk in chunks(source, CRC_START, source.size if end is None else end):
        checksum = crc32c(chunk, checksum)
    return checksum


def broken_crc(stored: int, computed: int) -> str:
    """Return Kafka's message for a wrong checksum."""
    return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"


def too_many(count: int, left: int) -> str:
    """Return Kafka's message for a count that exceeds the remaining bytes."""
    return f"Tried to allocate a collection of size {count}, but there are only {left} bytes remaining."
