from pathlib import Path

from hypothesis import given

from kforensics.parsers.files.source import LocalSource, Source
from kforensics.parsers.format.layouts import TRANSACTION_INDEX_ENTRY
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.indexes import TransactionIndexEntry, read_transaction_index
from tests.parsers.ranges import WideSource, check_cover, mutated, prefixes, reasons, rows_of

NAMES = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
ROWS = [(0, 5000, 100, 110, 105), (0, 5001, 105, 120, 121)]
GOOD = b"".join(TRANSACTION_INDEX_ENTRY.build(dict(zip(NAMES, row, strict=True))) for row in ROWS)


def read(source: Source) -> list[TransactionIndexEntry | Damage]:
    return list(read_transaction_index(source))


def test_entry() -> None:
    """An entry is a version and four numbers of eight bytes."""
    data = "0000 0000000000001388 0000000000000064 000000000000006e 0000000000000069"
    assert rows_of(read, bytes.fromhex(data)) == [TransactionIndexEntry(0, 0, 5000, 100, 110, 105)]


def test_every_truncation() -> None:
    """Whole entries survive a truncation; the rest, which Kafka silently ignores, is ragged."""
    for data in prefixes(GOOD):
        rows = rows_of(read, data)
        assert len(rows) - len(reasons(rows)) == len(data) // 34
        assert reasons(rows) == (["ragged"] if len(data) % 34 else [])


def test_zero_tail_is_not_a_transaction() -> None:
    """Zeros would be an abort of producer 0 at offset 0, as Kafka's tool prints them."""
    assert reasons(rows_of(read, GOOD + bytes(34 * 3))) == ["zero-tail"]


def test_unknown_version_is_damage_and_the_next_entry_is_not() -> None:
    """An entry of another version does not hide those after it."""
    rows = rows_of(read, b"\x00\x01" + GOOD[2:])
    assert rows[0] == Damage(
        0,
        34,
        "version",
        "Unexpected aborted transaction version 1 in transaction index f, supported version range is 0 to 0",
    )
    assert rows[1].producer_id == 5001


def test_negative_version_is_damage() -> None:
    """Up to 4.3 the tool prints it; since 4.4 Kafka refuses it."""
    assert reasons(rows_of(read, b"\xff\xff" + GOOD[2:34])) == ["version"]


def test_large_files_are_read_in_chunks() -> None:
    """Zeros after the entries cost one row and one chunk of memory."""
    source = WideSource(GOOD, 34 << 22)
    rows = read(source)
    check_cover(rows, source.size)
    assert len(rows) == len(ROWS) + 1
    assert source.largest_read <= 1 << 20


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes, and every row has version 0."""
    rows = rows_of(read, data)
    assert all(row.version == 0 for row in rows if isinstance(row, TransactionIndexEntry))


def test_samples(sample_logs: Path) -> None:
    """Valid indexes are ordered by marker and have no damage."""
    paths = [path for path in sorted(sample_logs.rglob("*.txnindex")) if "damaged" not in path.parts]
    entries = 0
    for path in paths:
        with LocalSource(path) as source:
            rows = read(source)
            check_cover(rows, source.size)
        assert reasons(rows) == []
        markers = [row.last_offset for row in rows if isinstance(row, TransactionIndexEntry)]
        assert markers == sorted(set(markers))
        entries += len(markers)
    assert entries
