"""Arrow columns from kernels equal the table from rows, with the same damage, whatever is in the log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import pyarrow as pa
import pytest

from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import BytesSource, Source, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels import engine
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.log.selection import HalfOpenRange, Selection
from kforensics.parsers.tables.arrow import arrow_table, table_of_parts
from kforensics.parsers.tables.file_rows import LOG_KINDS, ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES, arrow_schema, dictionary_schema
from kforensics.render.payloads import row_converter
from lab.places import SAMPLES
from tests.parsers.builders import CODECS, GZIP, LZ4, NOW, ZSTD, batch, batch_of, batches, legacy_segment, record
from tests.thorough import some

SCENARIOS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL, DELETE_HORIZON = 8, 16, 32, 64
ABORT, COMMIT, LEADER_CHANGE, UNASSIGNED = ((0).to_bytes(2, "big") + n.to_bytes(2, "big") for n in (0, 1, 2, 99))
MARKER = (0).to_bytes(2, "big") + (7).to_bytes(4, "big")


@cache
def compiled() -> Kernels:
    kernels = load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    return kernels


def from_rows(file: FoundFile, source: Source, options: ReadOptions) -> tuple[pa.Table, list[Damage]]:
    damage: list[Damage] = []
    convert = row_converter(TABLES["records" if options.records else "batches"], None, None)
    return arrow_table(convert.table, map(convert, file_rows(file, source, options, damage.append))), damage


def from_columns(file: FoundFile, source: Source, options: ReadOptions) -> tuple[pa.Table, list[Damage], int]:
    """Return the table, the damage, and the number of rows from kernels."""
    damage: list[Damage] = []
    made = 0
    convert = row_converter(TABLES["records" if options.records else "batches"], None, None)

    def parts() -> Iterator[pa.RecordBatch | Iterator[Sequence[Any]]]:
        nonlocal made
        for part in read_arrow_columns(file, source, options, damage.append, compiled()):
            if isinstance(part, pa.RecordBatch):
                part.validate(full=True)
                assert part.schema == dictionary_schema(arrow_schema(convert.table.name))
                made += part.num_rows
                yield part
            else:
                yield map(convert, part)

    return table_of_parts(convert.table, parts()), damage, made


def compare(file: FoundFile, source: Source, options: ReadOptions) -> tuple[pa.Table, int]:
    """Return the table, which must be the same from rows and columns, and the number of rows from kernels."""
    expected, expected_damage = from_rows(file, source, options)
    table, damage, made = from_columns(file, source, options)
    for name in expected.schema.names:
        assert table[name].to_pylist() == expected[name].to_pylist(), name
    assert table.equals(expected)
    assert damage == expected_damage
    return table, made


def compare_bytes(data: bytes, **options: Any) -> tuple[pa.Table, pa.Table, tuple[int, int]]:
    """Return the batches and records of a log, and how many of each are from kernels."""
    file = FoundFile("logs/topic-0/0.log", "log", len(data), 1, "logs", "topic", 0)
    source = BytesSource(data, file.path)
    batch_table, batches_made = compare(file, source, ReadOptions(records=False, **options))
    record_table, records_made = compare(file, source, ReadOptions(records=True, **options))
    return batch_table, record_table, (batches_made, records_made)


@pytest.mark.parametrize("records", [False, True], ids=["batches", "records"])
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_columns_of_all_samples_equal_their_rows(scenario: str, records: bool) -> None:
    rows = made = 0
    for file in discover([str(SAMPLES / scenario)]):
        if isinstance(file, FoundFile) and file.kind in LOG_KINDS:
            with open_source(file.path) as source:
                table, by_kernels = compare(file, source, ReadOptions(records=records))
            rows += table.num_rows
            made += by_kernels
    # Batches of message formats 0 and 1 and deliberately damaged logs are left to pure Python.
    if not scenario.startswith(
        ("legacy", "format-downgrade", "damaged", "crash", "compaction", "coordinators", "deletion")
    ):
        assert made >= 0.9 * rows > 0


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_every_codec(codec: int) -> None:
    data = b"".join(batches(20, codec=codec))
    batch_table, record_table, made = compare_bytes(data)
    assert made == (batch_table.num_rows, record_table.num_rows) == (20, 40)


def test_an_empty_log() -> None:
    batch_table, record_table, _ = compare_bytes(b"")
    assert (batch_table.num_rows, record_table.num_rows) == (0, 0)


def test_nulls_headers_and_empty_payloads() -> None:
    headers = [(b"a", b"1"), (b"", b""), (b"no value", None)]
    data = batch(
        record(0, None, None),
        record(1, b"", b""),
        record(2, b"key", None, headers),
        record(3, None, b"value", [(b"again", b"\xff")]),
        record(4, b"k" * 127, b"v" * 300),
    )
    _, table, made = compare_bytes(data)
    assert made == (1, 5)
    assert table["key"].to_pylist() == [None, b"", b"key", None, b"k" * 127]
    assert table["headers"].to_pylist()[2] == [
        {"key": "a", "value": b"1"},
        {"key": "", "value": b""},
        {"key": "no value", "value": None},
    ]


@pytest.mark.parametrize("key", [b"\xff", "schlüssel".encode(), b"\xed\xa0\x80"])
def test_header_keys_that_are_not_ascii(key: bytes) -> None:
    """Pure Python replaces invalid UTF-8; kernels read the batches around it."""
    unusual = batch(record(0, b"k", b"v", [(b"plain", b"1"), (key, b"2")]), base_offset=2)
    around = batches(4)
    _, table, (_, made) = compare_bytes(around[0] + unusual + around[2] + around[3])
    assert table.num_rows == 7
    assert made >= 4


def test_markers_and_other_control_records() -> None:
    transaction = TRANSACTIONAL | CONTROL
    log = [
        batch(record(0), record(1), attributes=TRANSACTIONAL, producer_id=5, producer_epoch=1, base_sequence=0),
        batch(record(0, COMMIT, MARKER), base_offset=2, attributes=transaction, producer_id=5, producer_epoch=1),
        batch(record(0, ABORT, MARKER), base_offset=3, attributes=transaction, producer_id=6, producer_epoch=2),
        batch(record(0, LEADER_CHANGE, b"body"), base_offset=4, attributes=CONTROL),
        batch(record(0, COMMIT, b"short"), base_offset=5, attributes=transaction),
        batch(record(0, b"?", MARKER), base_offset=6, attributes=transaction),
        batch(record(0, None, MARKER), base_offset=7, attributes=transaction),
        batch_of(b"", base_offset=8, attributes=transaction),
    ]
    batch_table, record_table, made = compare_bytes(b"".join(log))
    assert made == (8, 8)
    expected = ["COMMIT", "ABORT", "LEADER_CHANGE", "COMMIT", None, None]
    assert batch_table["control_type"].to_pylist() == [None, *expected, None]
    assert record_table["control_type"].to_pylist() == [None, None, *expected]
    assert record_table["coordinator_epoch"].to_pylist() == [None, None, 7, 7, None, None, None, None]


def test_an_unassigned_control_type() -> None:
    """Its name contains its number; pure Python formats it."""
    unusual = batch(record(0, UNASSIGNED, b""), base_offset=2, attributes=CONTROL)
    batch_table, _, made = compare_bytes(batches(1)[0] + unusual)
    assert batch_table["control_type"].to_pylist() == [None, "UNKNOWN(99)"]
    assert made == (1, 2)


@pytest.mark.parametrize("attributes", [LOG_APPEND_TIME, DELETE_HORIZON, LOG_APPEND_TIME | DELETE_HORIZON])
def test_timestamps(attributes: int) -> None:
    late = batch(
        record(0, timestamp_delta=-5),
        record(3, timestamp_delta=1 << 40),
        base_offset=4,
        attributes=attributes,
        base_timestamp=NOW - 7,
        max_timestamp=NOW + 9,
    )
    _, table, made = compare_bytes(batches(2)[0] + late)
    assert made == (2, 4)
    assert len(set(table["timestamp"].to_pylist())) > 1


def test_compacted_logs_have_gaps_and_empty_batches() -> None:
    log = [
        batch(record(1), record(4), last_offset_delta=9, base_sequence=2147483646, producer_id=1),
        batch_of(b"", base_offset=10, last_offset_delta=5, base_sequence=3, producer_id=1),
        batch(record(2), base_offset=40, last_offset_delta=2, codec=LZ4),
        batch_of(b"", base_offset=50, attributes=ZSTD),
    ]
    batch_table, record_table, made = compare_bytes(b"".join(log))
    assert made == (4, 3)
    assert record_table["offset"].to_pylist() == [1, 4, 42]
    assert record_table["sequence"].to_pylist() == [2147483647, 2, -1]
    assert batch_table["count"].to_pylist() == [2, 0, 1, 0]


@pytest.mark.parametrize("spoil", ["value", "length", "count", "zeros", "cut"])
@pytest.mark.parametrize("codec", [0, GZIP, LZ4, ZSTD])
def test_columns_continue_after_damage(spoil: str, codec: int) -> None:
    log = batches(40, codec=codec)
    middle = {
        "value": log[20][:-2] + b"??",
        "length": log[20][:8] + b"\x7f" + log[20][9:],
        "count": batch(record(0), record(1), base_offset=40, count=3, codec=codec),
        "zeros": bytes(500),
        "cut": log[20][:-9],
    }[spoil]
    data = b"".join(log[:20]) + middle + b"".join(log[21:])
    batch_table, record_table, made = compare_bytes(data)
    assert batch_table.num_rows >= 39
    assert made[0] >= 38
    assert 78 <= record_table.num_rows <= 80
    assert made[1] >= 76


def test_old_formats_between_new_ones() -> None:
    data = b"".join([*batches(3), *legacy_segment(1, GZIP), *batches(3, first=3), *legacy_segment(0), *batches(2)])
    _, table, _ = compare_bytes(data)
    assert table.num_rows == 6 + 6 + 6 + 4 + 4


@pytest.mark.slow
def test_logs_and_batches_larger_than_a_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "FIRST_READ", 256)
    monkeypatch.setattr(engine, "READ", 512)
    large = batch(*(record(n, b"k%d" % n, b"v" * 50) for n in range(100)), base_offset=1000)
    data = b"".join([*batches(100), large, *batches(100, first=600)])
    _, _, made = compare_bytes(data)
    assert made == (201, 500)


@pytest.mark.slow
def test_more_records_than_a_block_of_columns_holds() -> None:
    """Output comes in several parts; a batch with too many records is left to pure Python."""
    many = b"".join(record(n, b"", None) for n in range(40_000))
    log = [batch_of(many, count=40_000, last_offset_delta=39_999, base_offset=40_000 * n) for n in range(3)]
    _, table, made = compare_bytes(b"".join(log))
    assert table.num_rows == made[1] == 120_000


@pytest.mark.parametrize("malformed", some([None, 1, 40_000, 69_999], 2))
def test_a_large_batch_is_read_in_parts(malformed: int | None) -> None:
    """Kernels decline it as a whole, because its records take more than 8 MB."""
    rows = [record(n, b"%d" % n, b"v" * 120, [(b"h", None)]) for n in range(70_000)]
    if malformed is not None:
        rows[malformed] = b"\xff" * len(rows[malformed])
    large = batch(*rows, base_offset=1000, codec=CODECS["gzip"], producer_id=7, producer_epoch=1, base_sequence=5)
    _, table, made = compare_bytes(batches(1)[0] + large + batches(1, first=50_000)[0])
    assert made[1] == table.num_rows == 4 + (70_000 if malformed is None else malformed)


def test_a_budget_smaller_than_a_batch() -> None:
    """A batch above the budget is damage, with the same detail as in pure Python."""
    small, large = batches(1)[0], batch(record(0, b"k", b"v" * 2000), base_offset=2)
    for data in (small + large + small, small + batch(record(0, b"k", b"v" * 2000), codec=ZSTD) + small):
        _, table, _ = compare_bytes(data, budget=1000)
        assert table.num_rows == 4


@pytest.mark.parametrize("stop", [1, 200, 333, 10_000])
def test_a_stop_given_by_the_caller(stop: int) -> None:
    compare_bytes(b"".join(batches(20)), start=0, stop=stop)


@pytest.mark.parametrize("requested", [*TABLES["records"].names, "offset key", "value headers", "topic sequence"])
def test_requested_columns_are_the_same_as_among_all(requested: str) -> None:
    names = requested.split()
    unusual = batch(record(0, None, b"v", [("schlüssel".encode(), b"2")]), record(1, b"k", None), base_offset=40)
    marker = batch(record(0, COMMIT, MARKER), base_offset=42, attributes=TRANSACTIONAL | CONTROL, producer_id=5)
    data = b"".join([*batches(10, codec=LZ4), *legacy_segment(1), *batches(10, first=10), unusual, marker])
    file = FoundFile("logs/topic-0/0.log", "log", len(data), 1, "logs", "topic", 0)
    source, options = BytesSource(data, file.path), ReadOptions(records=True, columns=frozenset(names))
    convert, damage = row_converter(TABLES["records"], None, None), list[Damage]()
    made: dict[str, list[Any]] = {name: [] for name in names}
    for part in read_arrow_columns(file, source, options, damage.append, compiled()):
        if isinstance(part, pa.RecordBatch):
            assert sorted(part.schema.names) == sorted(names)
        rows = part if isinstance(part, pa.RecordBatch) else arrow_table(convert.table, map(convert, part))
        for name in names:
            made[name] += rows.column(name).to_pylist()
    expected, _ = from_rows(file, source, ReadOptions(records=True))
    assert (made, damage) == ({name: expected[name].to_pylist() for name in names}, [])


@pytest.mark.parametrize("records", [True, False], ids=["records", "batches"])
def test_columns_of_selected_records_and_batches(records: bool) -> None:
    data = b"".join(batches(40))
    selection = Selection(offsets=HalfOpenRange(11, 31), key=re.compile("^key-1") if records else None)
    options = ReadOptions(records=records, selection=selection)
    table, by_kernels = compare(FoundFile("0.log", "log", len(data)), BytesSource(data, "0.log"), options)
    # Batches of two records, of which the second has no key.
    expected = [20, 22, 24, 26, 28, 30] if records else [*range(10, 31, 2)]
    assert table["offset" if records else "base_offset"].to_pylist() == expected
    assert by_kernels


def test_names_that_are_not_utf8() -> None:
    file = FoundFile("logs/\udcff-0/0.log", "log", 0, None, "logs", "\udcff", 0)
    compare(file, BytesSource(batches(1)[0], file.path), ReadOptions(records=True))
