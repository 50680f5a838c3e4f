import struct
from pathlib import Path

import pytest
from hypothesis import given

from kforensics.parsers.files.log_names import base_offset_of
from kforensics.parsers.files.source import BytesSource, LocalSource, Source
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.indexes import OffsetIndexEntry, OffsetLookup, read_offset_index
from tests.parsers.ranges import ShrunkSource, WideSource, check_cover, mutated, prefixes, reasons, rows_of

BASE = 100
ENTRIES = [(8, 129), (17, 4310), (2**31 - 1, 2**31 - 1)]
GOOD = b"".join(OFFSET_INDEX_ENTRY.build({"relative_offset": r, "position": p}) for r, p in ENTRIES)


def read(source: Source) -> list[OffsetIndexEntry | Damage]:
    return list(read_offset_index(source, BASE))


def test_entry() -> None:
    """An entry is a relative offset and a position, four bytes each."""
    rows = rows_of(read, bytes.fromhex("00000008 00000081"))
    assert rows == [OffsetIndexEntry(position=0, offset=108, relative_offset=8, log_position=129)]


def test_entries_in_order() -> None:
    """Offsets are relative to the base offset of the segment."""
    rows = rows_of(read, GOOD)
    assert [(row.offset - BASE, row.log_position) for row in rows] == ENTRIES


def test_every_truncation() -> None:
    """Whole entries survive a truncation; a partial one is ragged, with Kafka's message."""
    for data in prefixes(GOOD):
        rows = rows_of(read, data)
        assert len(rows) - len(reasons(rows)) == len(data) // 8
        assert reasons(rows) == (["ragged"] if len(data) % 8 else [])
    ragged = rows_of(read, GOOD[:19])[-1]
    assert ragged.detail == "Index file f is corrupt, found 19 bytes which is neither positive nor a multiple of 8"


@pytest.mark.parametrize("zeros", [8, 64, 4096, 10485760 - len(GOOD)])
def test_zero_tail(zeros: int) -> None:
    """Preallocated space is one damage row and not an entry."""
    rows = rows_of(read, GOOD + bytes(zeros))
    assert len(rows) == len(ENTRIES) + 1
    assert (rows[-1].start, rows[-1].reason) == (len(GOOD), "zero-tail")


def test_all_zero_has_no_entry() -> None:
    """Kafka's tool prints an entry at position 0 that was never written."""
    assert reasons(rows_of(read, bytes(64))) == ["zero-tail"]


def test_ragged_zeros() -> None:
    """A zero tail that is not a whole number of entries has both faults."""
    assert reasons(rows_of(read, GOOD + bytes(11))) == ["zero-tail", "ragged"]


def test_zeros_between_entries() -> None:
    """Reading resumes after zeros in the middle, and the damage says where."""
    rows = rows_of(read, GOOD[:8] + bytes(24) + GOOD[8:])
    assert rows[1] == Damage(8, 32, "zeros", "24 zero bytes between entries", next_good_position=32)
    assert [row.log_position for row in rows if isinstance(row, OffsetIndexEntry)] == [p for _, p in ENTRIES]


def test_zeros_across_chunks() -> None:
    """A run of zeros longer than a chunk is one row, even if another entry follows."""
    data = GOOD[:8] + bytes(3 << 20) + GOOD[8:16]
    rows = rows_of(read, data)
    assert [type(row) for row in rows] == [OffsetIndexEntry, Damage, OffsetIndexEntry]


def test_zero_offset_with_a_position_is_an_entry() -> None:
    """Only an entry of zeros is skipped; a relative offset of 0 alone is valid."""
    rows = rows_of(read, GOOD[:8] + struct.pack(">ii", 0, 77))
    assert rows[1].offset == BASE
    assert rows[1].log_position == 77


def test_hostile_numbers() -> None:
    """Sums overflow as in Java; negative fields are kept as stored."""
    data = struct.pack(">iiii", -4, -8, 2**31 - 1, 5)
    rows = list(read_offset_index(BytesSource(data), 2**63 - 1))
    assert [(row.offset, row.relative_offset) for row in rows if isinstance(row, OffsetIndexEntry)] == [
        (2**63 - 5, -4),
        (-(2**63) + 2**31 - 2, 2**31 - 1),
    ]


@pytest.mark.slow
def test_two_gigabytes_of_zeros_are_read_in_chunks() -> None:
    """An index of 2 GB needs neither 2 GB of memory nor a row per entry of zeros."""
    source = WideSource(GOOD, 2**31 - 8)
    rows = read(source)
    check_cover(rows, source.size)
    assert len(rows) == len(ENTRIES) + 1
    assert source.largest_read <= 1 << 20


def test_shrunken_file() -> None:
    """Bytes lost before they were read are reported."""
    rows = read(ShrunkSource(GOOD[:12], 40))
    check_cover(rows, 40)
    assert reasons(rows) == ["shrunk"]


@given(mutated(GOOD + bytes(32)))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes, and no entry of zeros is yielded."""
    rows = rows_of(read, data)
    assert all(row.relative_offset or row.log_position for row in rows if isinstance(row, OffsetIndexEntry))


def naive_slot(offsets: list[int], target: int) -> int | None:
    return max((i for i, offset in enumerate(offsets) if offset <= target), default=None)


@pytest.mark.parametrize("count", [1, 2, 7, 1024, 1025, 1026, 3000])
def test_lookup_in_valid_indexes(count: int) -> None:
    """The search finds the last entry not larger than the offset, in the warm section and before it."""
    offsets = [3 * i + 2 for i in range(count)]
    data = b"".join(struct.pack(">ii", offset, 10 * i + 1) for i, offset in enumerate(offsets))
    lookup = OffsetLookup(BytesSource(data), BASE)
    for target in {0, 1, 2, 3, count, 2 * count, 3 * count - 1, 3 * count, 3 * count + 9}:
        slot = naive_slot(offsets, target)
        assert lookup.position(BASE + target) == (0 if slot is None else 10 * slot + 1)


def test_lookup_in_an_index_out_of_order() -> None:
    """The warm section is searched only if it begins below the offset; otherwise only the entries before it."""
    offsets = [0, 100] + [3] * 1024
    data = b"".join(struct.pack(">ii", offset, 10 * i + 1) for i, offset in enumerate(offsets))
    assert OffsetLookup(BytesSource(data), 0).position(50) == 1
    assert OffsetLookup(BytesSource(data), 0).position(100) == 11
    assert OffsetLookup(BytesSource(data), 0).position(101) == 10251


def test_lookup_in_a_large_index_reads_single_entries() -> None:
    """An index too large for memory gives the same results."""
    source = WideSource(GOOD, 1 << 30)
    assert OffsetLookup(source, BASE).entry(1) == (BASE + 17, 4310)
    assert source.largest_read == 8


def test_lookup_in_zero_tail_is_kafkas() -> None:
    """The binary search includes the zeros after the entries, as in Kafka."""
    lookup = OffsetLookup(BytesSource(GOOD[:16] + bytes(8 * 9)), BASE)
    assert lookup.position(BASE + 17) == 0
    assert OffsetLookup(BytesSource(GOOD[:16]), BASE).position(BASE + 17) == 4310


def test_samples(sample_logs: Path) -> None:
    """Every index of the samples is covered, and the valid ones have increasing offsets."""
    paths = [path for path in sorted(sample_logs.rglob("*.index")) if "damaged" not in path.parts]
    assert paths
    for path in paths:
        with LocalSource(path) as source:
            rows = list(read_offset_index(source, base_offset_of(str(path)) or 0))
            check_cover(rows, source.size)
        offsets = [row.offset for row in rows if isinstance(row, OffsetIndexEntry)]
        assert offsets == sorted(set(offsets))
        assert set(reasons(rows)) <= {"zero-tail"}
