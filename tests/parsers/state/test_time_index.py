import struct
from pathlib import Path

from hypothesis import given

from kforensics.parsers.files.log_names import base_offset_of
from kforensics.parsers.files.source import LocalSource, Source
from kforensics.parsers.format.layouts import TIME_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.indexes import TimeIndexEntry, read_time_index
from tests.parsers.ranges import WideSource, check_cover, mutated, prefixes, reasons, rows_of

BASE = 100
TIMES = [(1700000000002, 2), (1700000000009, 5), (2**63 - 1, 2**31 - 1)]
GOOD = b"".join(TIME_INDEX_ENTRY.build({"timestamp": t, "relative_offset": r}) for t, r in TIMES)


def read(source: Source) -> list[TimeIndexEntry | Damage]:
    return list(read_time_index(source, BASE))


def test_entry() -> None:
    """An entry is a timestamp of eight bytes and a relative offset of four."""
    rows = rows_of(read, bytes.fromhex("0000018bcfe56809 00000005"))
    assert rows == [TimeIndexEntry(position=0, timestamp=1700000000009, offset=105, relative_offset=5)]


def test_every_truncation() -> None:
    """Whole entries survive a truncation; a partial one is ragged, with Kafka's message."""
    for data in prefixes(GOOD):
        rows = rows_of(read, data)
        assert len(rows) - len(reasons(rows)) == len(data) // 12
        assert reasons(rows) == (["ragged"] if len(data) % 12 else [])
    ragged = rows_of(read, GOOD[:13])[-1]
    expected = "Time index file f is corrupt, found 13 bytes which is neither positive nor a multiple of 12"
    assert ragged.detail == expected


def test_zero_tail() -> None:
    """The default preallocation of a broker is one damage row after the entries."""
    rows = rows_of(read, GOOD.ljust(10485756, b"\0"))
    assert [(row.start, row.reason) for row in rows if isinstance(row, Damage)] == [(len(GOOD), "zero-tail")]


def test_all_zero_has_no_entry() -> None:
    """Zeros alone are preallocated space."""
    assert reasons(rows_of(read, bytes(24))) == ["zero-tail"]


def test_a_single_entry_of_zeros_is_an_entry() -> None:
    """A segment with one record at time 0 has this entry; Kafka never preallocates twelve bytes."""
    assert rows_of(read, bytes(12)) == [TimeIndexEntry(0, 0, BASE, 0)]


def test_hostile_numbers() -> None:
    """Negative fields are kept as stored."""
    rows = rows_of(read, struct.pack(">qi", -5, -7))
    assert (rows[0].timestamp, rows[0].offset, rows[0].relative_offset) == (-5, BASE - 7, -7)


def test_large_files_are_read_in_chunks() -> None:
    """A preallocated index needs no more memory than a chunk."""
    source = WideSource(GOOD, 12 << 24)
    rows = read(source)
    check_cover(rows, source.size)
    assert len(rows) == len(TIMES) + 1
    assert source.largest_read <= 1 << 20


@given(mutated(GOOD + bytes(36)))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes."""
    rows_of(read, data)


def test_samples(sample_logs: Path) -> None:
    """The valid samples have increasing timestamps and offsets that do not decrease."""
    paths = [path for path in sorted(sample_logs.rglob("*.timeindex")) if "damaged" not in path.parts]
    assert paths
    for path in paths:
        with LocalSource(path) as source:
            rows = list(read_time_index(source, base_offset_of(str(path)) or 0))
            check_cover(rows, source.size)
        entries = [row for row in rows if isinstance(row, TimeIndexEntry)]
        assert [entry.timestamp for entry in entries] == sorted({entry.timestamp for entry in entries})
        assert [entry.offset for entry in entries] == sorted(entry.offset for entry in entries)
        assert set(reasons(rows)) <= {"zero-tail"}
