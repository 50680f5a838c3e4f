"""Messages of format 0 and 1: kernels write the same columns and report the same damage as pure Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings

from kforensics.parsers.columns import arrow_columns, batch_reader, hash_columns
from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.kernels.column_buffers import MAX_ROWS
from kforensics.parsers.kernels.policy import KernelPolicy, no_kernels
from kforensics.parsers.tables.file_rows import ReadOptions, file_rows
from kforensics.parsers.tables.schemas import TABLES
from tests.parsers.builders import GZIP, LZ4, NONE, SNAPPY, batches, legacy_segment, message, wrapper
from tests.parsers.kernels.test_legacy_entries import (
    DECLINED,
    DECLINED_WITH_RECORDS,
    SMALL,
    forced_kernels,
    resealed,
    sample,
    segments,
)
from tests.thorough import share, some

Rows = dict[str, list[Any]]
Reader = Callable[[bytes, KernelPolicy, Callable[[Damage], None]], Rows]
NAME = "00000000000000000000.log"


def _columns(chunks: Iterator[Any]) -> Rows:
    """Return the columns of chunks, copied before the next chunk reuses their memory."""
    rows: Rows = {}
    for chunk in chunks:
        for field in fields(chunk):
            rows.setdefault(field.name, []).extend(getattr(chunk, field.name).tolist())
    return rows


def hashes(data: bytes, choice: KernelPolicy, report: Callable[[Damage], None]) -> Rows:
    """Return the hashes of the records."""
    return _columns(hash_chunks(BytesSource(data, NAME), report, choice, workers=0))


def batch_rows(data: bytes, choice: KernelPolicy, report: Callable[[Damage], None]) -> Rows:
    """Return the batches."""
    return _columns(batch_chunks(BytesSource(data, NAME), 0, report, choice, workers=0))


def record_rows(data: bytes, choice: KernelPolicy, report: Callable[[Damage], None]) -> Rows:
    """Return the rows of the table ``records``."""
    file, source, options = FoundFile(NAME, "log", len(data)), BytesSource(data, NAME), ReadOptions(records=True)
    names, rows = TABLES["records"].names, list[Any]()
    if not (kernels := choice(len(data))):
        rows = [[_plain(value) for value in row] for row in file_rows(file, source, options, report)]
    else:
        for part in read_arrow_columns(file, source, options, report, kernels, workers=0):
            if isinstance(part, pa.RecordBatch):
                rows += [[_plain(value) for value in row.values()] for row in part.to_pylist()]
            else:
                rows += [[_plain(value) for value in row] for row in part]
    return {name: [row[index] for row in rows] for index, name in enumerate(names)}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


READERS: dict[str, tuple[Reader, Any, str]] = {
    "hashes": (hashes, hash_columns._PythonHasher, "add"),
    "batches": (batch_rows, batch_reader, "_row"),
    "records": (record_rows, arrow_columns, "record_rows"),
}
readers = pytest.mark.parametrize("reader", READERS)


def same(reader: str, data: bytes) -> Rows:
    """Return the rows of a segment, which must be the same with kernels."""
    read = READERS[reader][0]
    expected_damage, damage = list[Damage](), list[Damage]()
    expected = read(data, no_kernels, expected_damage.append)
    assert read(data, forced_kernels, damage.append) == expected
    assert damage == expected_damage
    return expected


def refuse(*_arguments: object) -> None:
    """Fail, in place of the function that reads in pure Python."""
    raise AssertionError("pure Python was asked")


@readers
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [NONE, GZIP, SNAPPY, LZ4])
def test_kernels_read_everything_that_brokers_write(
    reader: str, magic: int, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = b"".join([*legacy_segment(magic, codec), *batches(2, first=6), message(9, None, None, magic=magic)])
    expected = same(reader, data)
    read, owner, name = READERS[reader]
    monkeypatch.setattr(owner, name, refuse)
    damage: list[Damage] = []
    assert read(data, forced_kernels, damage.append) == expected
    assert not damage


@readers
@pytest.mark.parametrize("name", [*DECLINED, *DECLINED_WITH_RECORDS])
def test_a_declined_entry_among_others(reader: str, name: str) -> None:
    entry = (DECLINED | DECLINED_WITH_RECORDS)[name]
    same(reader, b"".join([message(2), entry, message(4), *batches(1, first=5)]))


@readers
@pytest.mark.parametrize("size", [-1, -129, -(2**31)])
def test_any_negative_length_is_null(reader: str, size: int) -> None:
    entry = message(0, None, None)
    same(reader, resealed(entry[:-8] + size.to_bytes(4, "big", signed=True) * 2))


@readers
@pytest.mark.parametrize("attributes", [8, 0x50, -128])
def test_attributes_are_those_of_the_layout(reader: str, attributes: int) -> None:
    same(reader, message(3, attributes=attributes) + message(4, magic=0, attributes=attributes))


@readers
@pytest.mark.parametrize("name", SMALL)
def test_a_sample_cut_at_any_length(reader: str, name: str) -> None:
    data = sample(name)
    for length in range(len(data)):
        same(reader, data[:length] + message(200))


@readers
@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("seal", [bytes, resealed], ids=["unchanged", "checksum corrected"])
def test_every_flipped_bit(reader: str, name: str, seal: Callable[[bytes], bytes]) -> None:
    data = sample(name)
    for bit in some(range(8 * len(data))):
        flipped = bytearray(data)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        same(reader, seal(bytes(flipped)))


@pytest.mark.slow
@readers
@settings(max_examples=share(300, 4))
@given(data=segments)
def test_valid_and_damaged_segments(reader: str, data: bytes) -> None:
    same(reader, data)


def test_more_messages_in_a_wrapper_than_a_block_of_columns_holds() -> None:
    """Pure Python spreads them over chunks, so only the records are compared."""
    one = message(0, b"key", b"value")
    inner = [number.to_bytes(8, "big") + one[8:] for number in range(MAX_ROWS + 1)]
    data = message(0) + wrapper(*inner, codec=GZIP, offset=MAX_ROWS + 1) + message(MAX_ROWS + 2)
    made: list[int] = []
    for columns in hash_chunks(BytesSource(data), refuse, forced_kernels, workers=0):
        made += columns.offset.tolist()
    assert made == list(range(MAX_ROWS + 3))


def test_offsets_that_overflow_are_left_to_pure_python() -> None:
    """An inner offset near the largest one, added to that of the wrapper."""
    data = wrapper(message((1 << 63) - 1), message(1), offset=9) + message(10)
    for reader in READERS:
        same(reader, data)
