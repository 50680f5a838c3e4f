"""Any file of a log directory as rows of its table, in the columns and types of that table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.files.source import BytesSource, LocalSource
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.log.selection import HalfOpenRange, Selection
from kforensics.parsers.tables.file_rows import ReadOptions, damage_rows, file_rows, place_of, table_name_of
from kforensics.parsers.tables.schemas import TABLES, arrow_schema
from lab.places import SAMPLES
from tests.parsers.builders import batch, batches, message, record, wrapper

LOG = FoundFile("a.log", "log", 0, topic="t", partition=3, base_offset=0)
SCENARIOS = sorted(path.name for path in SAMPLES.iterdir() if path.is_dir() and path.name != "golden")


def read(data: bytes, options: ReadOptions, file: FoundFile = LOG) -> tuple[list[tuple[Any, ...]], list[Damage]]:
    """Return rows and damage of a file."""
    damage: list[Damage] = []
    return list(file_rows(file, BytesSource(data, file.path), options, damage.append)), damage


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_rows_of_every_sample_fit_their_table(sample_logs: Path, scenario: str) -> None:
    """Each row has as many columns as its table, and Arrow accepts every value as the declared type."""
    rows: dict[str, list[tuple[Any, ...]]] = {}
    for file in discover([str(sample_logs / scenario)]):
        assert isinstance(file, FoundFile)
        for records in (False, True):
            table = table_name_of(file.kind, records=records)
            damage: list[Damage] = []
            with LocalSource(file.path) as source:
                read_rows = list(file_rows(file, source, ReadOptions(records=records), damage.append))
            assert table or not read_rows
            rows.setdefault(table or "", []).extend(read_rows)
            rows.setdefault("damage", []).extend(damage_rows(file, damage))
    assert rows["batches"]
    for table, table_rows in rows.items():
        if table:
            _check_types(table, table_rows)


def _check_types(name: str, rows: list[tuple[Any, ...]]) -> None:
    assert {len(row) for row in rows} <= {len(TABLES[name].names)}
    for column, field in zip(zip(*rows, strict=True), arrow_schema(name), strict=False):
        values = [_text_keys(value) for value in column] if field.name == "headers" else column
        assert len(pa.array(values, field.type)) == len(rows)


def _text_keys(headers: tuple[tuple[bytes, bytes | None], ...]) -> list[dict[str, Any]]:
    return [{"key": key.decode(errors="replace"), "value": value} for key, value in headers]


def test_batches_or_records_of_a_log() -> None:
    data = b"".join(batches(3))
    assert len(read(data, ReadOptions())[0]) == 3
    assert len(read(data, ReadOptions(records=True))[0]) == 6


def test_a_selection_is_applied() -> None:
    rows, _ = read(b"".join(batches(9)), ReadOptions(records=True, selection=Selection(offsets=HalfOpenRange(5, 8))))
    assert [row[TABLES["records"].names.index("offset")] for row in rows] == [5, 6, 7]


def test_reading_begins_at_start_and_ends_at_stop() -> None:
    parts = batches(4)
    rows, damage = read(b"".join(parts), ReadOptions(start=len(parts[0]), stop=len(b"".join(parts[:3]))))
    assert (len(rows), damage) == (2, [])


def test_the_budget_reaches_records_and_wrappers() -> None:
    heavy = batch(record(value=bytes(5000)), codec=1)
    _, damage = read(heavy, ReadOptions(records=True, budget=1000))
    assert [row.reason for row in damage] == ["limit"]
    rows, _ = read(wrapper(message(value=bytes(5000))), ReadOptions(budget=1000))
    assert rows[0][TABLES["batches"].names.index("count")] is None


def test_damage_is_reported_in_byte_order() -> None:
    parts = [batch(record(length=7)), *batches(1, first=1), b"\xee" * 30]
    _, damage = read(b"".join(parts), ReadOptions(records=True))
    assert [(row.reason, row.start) for row in damage] == [("record-size", 0), ("length", len(parts[0] + parts[1]))]


def test_a_kind_without_rows_has_none() -> None:
    assert table_name_of("lock") is None
    assert read(b"abc", ReadOptions(), FoundFile("x", "lock", 3)) == ([], [])


def test_the_place_comes_from_the_file() -> None:
    assert place_of(LOG) == (None, None, "t", 3)
    (row,) = damage_rows(LOG, [Damage(0, 1, "crc", "x")])
    assert row[:5] == (None, None, "t", 3, "a.log")
