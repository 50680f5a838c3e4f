from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforensics.parsers.columns.record_columns import RECORD_CHUNK_ROWS, RECORD_ROW, record_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.control_records import CONTROL_TYPES, control_fields
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from tests.forensics.partition_states import SAMPLES
from tests.parsers.builders import CODECS, batch, message, record, wrapped_set

LOGS = sorted(
    path
    for sample in ("transactions-v2", "legacy-magic-0", "legacy-2.7", "damaged")
    for path in (SAMPLES / sample).rglob("*.log")
    if path.stat().st_size < 1 << 16
)


def expected_rows(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield the expected rows, one record at a time."""
    with open_source(str(path)) as source:
        for head in walk(source):
            if isinstance(head, Batch) and head.crc_valid:
                for row in read_records(source, head):
                    if isinstance(row, Record):
                        yield (*_numbers(head, row), row.key, row.value)


def _numbers(head: Batch, row: Record) -> tuple[Any, ...]:
    name = control_fields(row)[0] if head.is_control else None
    known = [-1 if number is None else number for number in (head.partition_leader_epoch, head.producer_id)]
    return (
        *(head.position, row.offset, row.timestamp, *known, -1 if head.producer_epoch is None else head.producer_epoch),
        *(head.is_transactional, head.is_control, CONTROL_TYPES.index(name) if name in CONTROL_TYPES else -1),
    )


def in_columns(path: Path, *, compiled: bool, rows: int) -> list[list[tuple[Any, ...]]]:
    """Return the records of each chunk."""
    with open_source(str(path)) as source:
        return [
            [
                (*numbers, chunk.keys.get(row), chunk.values.get(row))
                for row, numbers in enumerate(chunk.rows[list(RECORD_ROW.names or ())].tolist())
            ]
            for chunk in record_chunks(source, load_kernels() if compiled else None, rows)
        ]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", [1, 100])
def test_columns_equal_the_records(compiled: bool, rows: int) -> None:
    """In logs of real brokers in every format, and in damaged logs."""
    count = 0
    for path in LOGS:
        expected = list(expected_rows(path))
        chunks = in_columns(path, compiled=compiled, rows=rows)
        assert [row for chunk in chunks for row in chunk] == expected, path
        count += len(expected)
    assert count > 1_000


@pytest.mark.parametrize("compiled", [False, True])
def test_all_codecs_and_formats_side_by_side(compiled: bool, tmp_path: Path) -> None:
    """Batches that kernels decline, such as legacy entries, keep their place in the log."""
    parts = [
        batch(record(0, b"k", b"v" * 40), record(1, None, None), base_offset=10 * number, codec=codec)
        for number, codec in enumerate(CODECS.values())
    ]
    old = [wrapped_set(1, CODECS["gzip"], 100), message(200, None, b"x", magic=0)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join([*parts, *old, *parts, old[1]]))
    chunks = in_columns(path, compiled=compiled, rows=1 << 16)
    assert [row for chunk in chunks for row in chunk] == list(expected_rows(path))
    assert len(chunks) == 1


def test_chunks_end_with_batches(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batch(record(0), record(1), record(2), base_offset=3 * index) for index in range(5)))
    assert [len(chunk) for chunk in in_columns(path, compiled=False, rows=4)] == [6, 6, 3]
    path.write_bytes(b"")
    assert in_columns(path, compiled=True, rows=4) == []


@pytest.mark.parametrize("malformed", [None, 1, 40_000, 69_999])
@pytest.mark.parametrize(("compiled", "most"), [(False, RECORD_CHUNK_ROWS), (True, 2 * RECORD_CHUNK_ROWS)])
def test_a_large_batch_is_spread_over_chunks(tmp_path: Path, compiled: bool, most: int, malformed: int | None) -> None:
    """Kernels decline it as a whole, because its records take more than 8 MB."""
    rows = [record(number, b"%d" % number, b"v" * 120) for number in range(70_000)]
    if malformed is not None:
        rows[malformed] = b"\xff" * len(rows[malformed])
    path = tmp_path / f"{0:020}.log"
    large = batch(*rows, base_offset=5, codec=CODECS["gzip"], producer_id=7, partition_leader_epoch=3)
    path.write_bytes(batch(record(), base_offset=1) + large + batch(record(), base_offset=80_000))
    chunks = in_columns(path, compiled=compiled, rows=RECORD_CHUNK_ROWS)
    assert [row for chunk in chunks for row in chunk] == list(expected_rows(path))
    assert sum(len(chunk) for chunk in chunks) == (70_000 if malformed is None else malformed) + 2
    assert all(len(chunk) <= most for chunk in chunks)


def test_values_of_a_large_batch_are_spread_over_chunks(tmp_path: Path) -> None:
    rows = [record(number, None, b"v" * (1 << 20)) for number in range(40)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batch(*rows, codec=CODECS["gzip"]))
    for compiled in (False, True):
        chunks = in_columns(path, compiled=compiled, rows=RECORD_CHUNK_ROWS)
        assert [row for chunk in chunks for row in chunk] == list(expected_rows(path))
        assert max(len(chunk) for chunk in chunks) <= 20
