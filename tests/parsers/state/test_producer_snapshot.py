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
    """Build a snapshot whose checksum covers everything behind it."""
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
    """A last offset below 0 says that no batch is kept."""
    rows = rows_of(read_producer_snapshot, GOOD)
    assert isinstance(rows[0], ProducerSnapshotHeader)
    assert [row.has_batch for row in rows[1:]] == [True, False]


def test_every_truncation() -> None:
    """Whole entries survive a cut, and something says that the rest is gone."""
    for data in list(prefixes(GOOD))[1:-1]:
        rows = rows_of(read_producer_snapshot, data)
        entries = [row for row in rows if isinstance(row, ProducerSnapshotEntry)]
        assert len(entries) == max(0, len(data) - 10) // 46
        assert reasons(rows)[0] == ("truncated" if len(data) < 10 else "count")
    assert reasons(rows_of(read_producer_snapshot, b"")) == ["truncated"]


def test_broken_checksum() -> None:
    """The entries are shown, the header is damage in Kafka's words."""
    data = bytearray(GOOD)
    data[-1] ^= 1
    rows = rows_of(read_producer_snapshot, bytes(data))
    stored, computed = struct.unpack_from(">I", GOOD, 2)[0], reference_crc32c()(bytes(data[6:]))
    text = f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"
    assert rows[0] == Damage(0, 10, "crc", text, next_good_position=10)
    assert len(rows) == 3


def test_stale_tail() -> None:
    """The writer does not truncate: a checksum that holds without the tail vouches for what is before it."""
    rows = rows_of(read_producer_snapshot, GOOD + GOOD[56:])
    assert isinstance(rows[0], ProducerSnapshotHeader)
    assert reasons(rows) == ["stale-tail"]


def test_unknown_version() -> None:
    """Nothing of a version nobody knows is shown."""
    rows = rows_of(read_producer_snapshot, snapshot(ENTRIES, version=2))
    assert [row.detail for row in rows] == [
        "Snapshot failed schema validation: Snapshot contained an unknown file version 2"
    ]


@pytest.mark.parametrize("count", [-1, -(2**31)])
def test_negative_count(count: int) -> None:
    """Kafka's generated reader takes it for null."""
    rows = rows_of(read_producer_snapshot, snapshot(ENTRIES, count))
    assert reasons(rows) == ["count"]
    assert rows[0].detail.endswith("non-nullable field producerEntries was serialized as null")


def test_count_beyond_the_file() -> None:
    """A count in the thousands of millions asks for no memory; what is there is shown."""
    rows = rows_of(read_producer_snapshot, snapshot(ENTRIES, 2**31 - 1))
    assert reasons(rows) == ["count"]
    assert "Tried to allocate a collection of size 2147483647, but there are only 92 bytes remaining." in rows[0].detail
    assert len(rows) == 3


def test_zeros() -> None:
    """A file of zeros has no version."""
    assert reasons(rows_of(read_producer_snapshot, bytes(102))) == ["zeros"]


def test_large_files_are_read_in_pieces() -> None:
    """A snapshot of 64 MB is summed and read piece by piece."""
    source = WideSource(GOOD, 64 << 20)
    rows = list(read_producer_snapshot(source))
    check_cover(rows, source.size)
    assert source.largest_read <= 1 << 20
    assert reasons(rows) == ["stale-tail"]


def test_shrunken_file() -> None:
    """Bytes that were gone when they were read are accounted for."""
    rows = list(read_producer_snapshot(ShrunkSource(GOOD[:70], len(GOOD))))
    check_cover(rows, len(GOOD))
    assert "shrunk" in reasons(rows)


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Whatever the bytes, rows and damage cover them."""
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
    """The first sequence overflows as Java's does."""
    entry = ProducerSnapshotEntry(0, 1, 0, last_sequence, 9, offset_delta, 0, 0, 0)
    assert entry.first_sequence == java_decrement(last_sequence, offset_delta)


def test_samples(sample_logs: Path) -> None:
    """Sound snapshots are free of damage and hold as many entries as they say."""
    paths = [path for path in sorted(sample_logs.rglob("*.snapshot")) if "damaged" not in path.parts]
    found = 0
    for path in paths:
        with LocalSource(path) as source:
            rows = list(read_producer_snapshot(source))
            check_cover(rows, source.size)
        assert isinstance(rows[0], ProducerSnapshotHeader), path
        assert len(rows) == rows[0].count + 1
        found += rows[0].count
    assert found
