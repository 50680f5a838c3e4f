import struct
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.checksums import reference_crc32c
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.producer_snapshot import (
    ProducerSnapshotEntry,
    ProducerSnapshotHeader,
    read_producer_snapshot,
)
from tests.parsers.ranges import ShrunkSource, WideSource, check_cover, mutated, prefixes, reasons, rows_of

ENTRIES = [
    (1000, 3, 2, 60, 9, 1700000000000, 5, 42),
    (1001, 0, -1, -1, 0, 1700000000001, -1, -1),
]


def snapshot(
    entries: Sequence[tuple[int, ...]], count: int | None = None, version: int = 1, tail: bytes = b""
) -> bytes:
    """Build a snapshot with a valid checksum."""
    rest = struct.pack(">i", len(entries) if count is None else count)
    rest += b"".join(struct.pack(">qhiqiqiq", *entry) for entry in entries) + tail
    return struct.pack(">hI", version, reference_crc32c()(rest)) + rest


GOOD = snapshot(ENTRIES)


def test_worked_example() -> None:
    """A header of ten bytes, an entry of 46, and a first sequence that wraps."""
    data = bytes.fromhex(
        "0001 00000000 00000001"
        "00000000000003e8 0003 00000002 000000000000003c 00000009 0000018bcfe56800 00000005 000000000000002a"
    )
    header, entry = rows_of(read_producer_snapshot, snapshot([ENTRIES[0]]))
    assert data[6:] == snapshot([ENTRIES[0]])[6:]
    assert (header.version, header.count) == (1, 1)
    assert entry == ProducerSnapshotEntry(10, 1000, 3, 2, 60, 9, 1700000000000, 5, 42)
    assert entry.first_sequence == 2147483641


def test_entry_without_batch() -> None:
    """A last offset below 0 means that no batch is retained."""
    rows = rows_of(read_producer_snapshot, GOOD)
    assert isinstance(rows[0], ProducerSnapshotHeader)
    assert [row.has_batch for row in rows[1:]] == [True, False]


def test_every_truncation() -> None:
    """Whole entries survive a truncation, and damage reports the rest."""
    for data in list(prefixes(GOOD))[1:-1]:
        rows = rows_of(read_producer_snapshot, data)
        entries = [row for row in rows if isinstance(row, ProducerSnapshotEntry)]
        assert len(entries) == max(0, len(data) - 10) // 46
        assert reasons(rows)[0] == ("truncated" if len(data) < 10 else "count")
    assert reasons(rows_of(read_producer_snapshot, b"")) == ["truncated"]


def test_broken_checksum() -> None:
    """The entries are yielded; the header is damage with Kafka's message."""
    data = bytearray(GOOD)
    data[-1] ^= 1
    rows = rows_of(read_producer_snapshot, bytes(data))
    stored, computed = struct.unpack_from(">I", GOOD, 2)[0], reference_crc32c()(bytes(data[6:]))
    text = f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    assert rows[0] == Damage(0, 10, "crc", text, next_good_position=10)
    assert len(rows) == 3


def test_stale_tail() -> None:
    """Kafka does not truncate an older file: a checksum that matches without the tail is valid."""
    rows = rows_of(read_producer_snapshot, GOOD + GOOD[56:])
    assert isinstance(rows[0], ProducerSnapshotHeader)
    assert reasons(rows) == ["stale-tail"]


def test_unknown_version() -> None:
    """Nothing is yielded for an unknown version."""
    rows = rows_of(read_producer_snapshot, snapshot(ENTRIES, version=2))
    assert [row.detail for row in rows] == [
        "Snapshot failed schema validation: Snapshot contained an unknown file version 2"
    ]


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_negative_count(count: int) -> None:
    """Kafka's generated reader treats it as null."""
    rows = rows_of(read_producer_snapshot, snapshot(ENTRIES, count))
    assert reasons(rows) == ["count"]
    assert rows[0].detail.endswith("non-nullable field producerEntries was serialized as null")


def test_count_beyond_the_file() -> None:
    """A count in the billions allocates no memory; the entries present are yielded."""
    rows = rows_of(read_producer_snapshot, snapshot(ENTRIES, 2**31 - 1))
    assert reasons(rows) == ["count"]
    assert "Tried to allocate a collection of size 2147483647, but there are only 92 bytes remaining." in rows[0].detail
    assert len(rows) == 3


def test_zeros() -> None:
    """A file of zeros has no version."""
    assert reasons(rows_of(read_producer_snapshot, bytes(102))) == ["zeros"]


def test_large_files_are_read_in_chunks() -> None:
    """A snapshot of 64 MB is checksummed and read chunk by chunk."""
    source = WideSource(GOOD, 64 << 20)
    rows = list(read_producer_snapshot(source))
    check_cover(rows, source.size)
    assert source.largest_read <= 1 << 20
    assert reasons(rows) == ["stale-tail"]


def test_shrunken_file() -> None:
    """Bytes lost before they were read are reported."""
    rows = list(read_producer_snapshot(ShrunkSource(GOOD[:70], len(GOOD))))
    check_cover(rows, len(GOOD))
    assert "shrunk" in reasons(rows)


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes."""
    rows_of(read_producer_snapshot, data)


INTS = st.integers(-(2**31), 2**31 - 1)


def java_decrement(sequence: int, decrement: int) -> int:
    """DefaultRecordBatch.decrementSequence in the arithmetic of a Java int, bit by bit."""
    mask = 0xFFFFFFFF
    wrapped = 0x7FFFFFFF - (decrement - sequence & mask) + 1
    low = (wrapped if sequence < decrement else sequence - decrement) & mask
    return low - (1 << 32) if low >> 31 else low


@given(INTS, INTS)
def test_first_sequence_of_hostile_numbers(last_sequence: int, offset_delta: int) -> None:
    """The first sequence overflows as in Java."""
    entry = ProducerSnapshotEntry(0, 1, 0, last_sequence, 9, offset_delta, 0, 0, 0)
    assert entry.first_sequence == java_decrement(last_sequence, offset_delta)


def test_samples(sample_logs: Path) -> None:
    """Valid snapshots have no damage and as many entries as their header counts."""
    paths = [path for path in sorted(sample_logs.rglob("*.snapshot")) if "damaged" not in path.parts]
    entries = 0
    for path in paths:
        with LocalSource(path) as source:
            rows = list(read_producer_snapshot(source))
            check_cover(rows, source.size)
        assert isinstance(rows[0], ProducerSnapshotHeader), path
        assert len(rows) == rows[0].count + 1
        entries += rows[0].count
    assert entries
