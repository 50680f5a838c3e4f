from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kforensics.parsers.columns.record_columns import RECORD, record_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.control import CONTROL_TYPES, control_of
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of
from tests.forensics.cases import SAMPLES
from tests.parsers.builders import CODECS, batch, message, record, wrapped_set

LOGS = sorted(
    path
    for sample in ("transactions-v2", "legacy-magic-0", "legacy-2.7", "damaged")
    for path in (SAMPLES / sample).rglob("*.log")
    if path.stat().st_size < 1 << 16
)


def plainly(path: Path) -> Iterator[tuple[Any, ...]]:
    """Yield what the columns should hold, one record at a time."""
    with open_source(str(path)) as source:
        for one in walk(source):
            if isinstance(one, Batch) and one.crc_valid:
                for row in records_of(source, one):
                    if isinstance(row, Record):
                        yield (*_numbers(one, row), row.key, row.value)


def _numbers(one: Batch, row: Record) -> tuple[Any, ...]:
    name = control_of(row)[0] if one.is_control else None
    known = [-1 if number is None else number for number in (one.partition_leader_epoch, one.producer_id)]
    return (
        *(one.position, row.offset, row.timestamp, *known, -1 if one.producer_epoch is None else one.producer_epoch),
        *(one.is_transactional, one.is_control, CONTROL_TYPES.index(name) if name in CONTROL_TYPES else -1),
    )


def in_columns(path: Path, *, compiled: bool, rows: int) -> list[list[tuple[Any, ...]]]:
    """Return the records of each chunk."""
    with open_source(str(path)) as source:
        return [
            [
                (*numbers, chunk.keys.at(at), chunk.values.at(at))
                for at, numbers in enumerate(chunk.rows[list(RECORD.names or ())].tolist())
            ]
            for chunk in record_chunks(source, kernels() if compiled else None, rows)
        ]


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("rows", [1, 100])
def test_columns_hold_what_records_say(compiled: bool, rows: int) -> None:
    """Of real brokers' logs of every format, and of damaged ones."""
    count = 0
    for path in LOGS:
        expected = list(plainly(path))
        chunks = in_columns(path, compiled=compiled, rows=rows)
        assert [row for chunk in chunks for row in chunk] == expected, path
        count += len(expected)
    assert count > 1_000


@pytest.mark.parametrize("compiled", [False, True])
def test_all_codecs_and_formats_side_by_side(compiled: bool, tmp_path: Path) -> None:
    """What kernels do not take, entries of old formats among it, stands where it stands in the log."""
    parts = [
        batch(record(0, b"k", b"v" * 40), record(1, None, None), base_offset=10 * number, codec=codec)
        for number, codec in enumerate(CODECS.values())
    ]
    old = [wrapped_set(1, CODECS["gzip"], 100), message(200, None, b"x", magic=0)]
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join([*parts, *old, *parts, old[1]]))
    chunks = in_columns(path, compiled=compiled, rows=1 << 16)
    assert [row for chunk in chunks for row in chunk] == list(plainly(path))
    assert len(chunks) == 1


def test_chunks_end_with_batches(tmp_path: Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(b"".join(batch(record(0), record(1), record(2), base_offset=3 * at) for at in range(5)))
    assert [len(chunk) for chunk in in_columns(path, compiled=False, rows=4)] == [6, 6, 3]
    path.write_bytes(b"")
    assert in_columns(path, compiled=True, rows=4) == []
