"""Columns from kernels compared with the reference decoder (construct and crcmod): the same records and damage."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.columns.arrow_columns import read_arrow_columns
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.decompression import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage, Failure
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.legacy_format import legacy_records
from kforensics.parsers.log.records import open_payload
from kforensics.parsers.tables.file_rows import ReadOptions
from kforensics.parsers.tables.schemas import TABLES
from lab.places import SAMPLES
from tests.parsers.builders import CODECS, batches, legacy_segment, sealed
from tests.reference.construct_decoder import reference_header, reference_records
from tests.thorough import some

pytestmark = pytest.mark.exhaustive

NAMES = ("batch_position", "offset", "timestamp", "sequence", "key", "value", "headers", "key_size", "value_size")
FLIPPED = {
    "plain": "records/broker-1/grown-3",
    "lz4": "damaged/codecs/lz4-healthy-0",
    "zstd": "compaction/broker-1/horizon-kept-0",
    "snappy": "damaged/codecs/snappy-healthy-0",
    "gzip": "legacy-2.7/broker-0/output-1",
    "markers": "compaction/broker-1/emptied-0",
    "headers": "remote-storage/broker-1/tiered-0",
    "append time": "compaction/broker-1/compact-append-time-0",
    "classic": "classic-transaction/broker-1/classic-0",
    "idempotent": "records/broker-1/sequence-wrap-0",
}
# A sample is cut after the last whole batch that ends before this position.
MAX_BYTES = 700
Rows = list[tuple[Any, ...]]
Reasons = list[tuple[int, int, str]]


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Do all work in this thread, because starting threads costs more than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


def by_reference(data: bytes) -> tuple[Rows, Reasons]:
    """Return records and damage from the reference decoder, and legacy entries from the pure Python decoder."""
    source, rows, reasons = BytesSource(data), Rows(), Reasons()
    for row in walk(source):
        if isinstance(row, Damage):
            reasons.append((row.start, row.end, row.reason))
            continue
        whole = batch_bytes(source, row)
        if row.magic == 2:
            assert reference_header(whole, row.position) == row
        if row.magic >= 2:
            records = reference_records(row, open_payload(row, whole))
        else:
            records = legacy_records(row, whole, DEFAULT_BUDGET)
        for record in records:
            if isinstance(record, Failure):
                reasons.append((row.position, row.position + row.size, record.reason))
                continue
            values = (record.offset, record.timestamp, record.sequence, record.key, record.value, record.headers)
            rows.append((row.position, *values, record.key_size, record.value_size))
    return rows, reasons


def by_columns(data: bytes) -> tuple[Rows, Reasons, int]:
    """Return records and damage from the optimized decoder, and how many of the records are from kernels."""
    file, kernels = FoundFile("0.log", "log", len(data)), load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    damage, rows, made = list[Damage](), Rows(), 0
    indexes = [TABLES["records"].names.index(name) for name in NAMES]
    for part in read_arrow_columns(file, BytesSource(data), ReadOptions(records=True), damage.append, kernels):
        if isinstance(part, pa.RecordBatch):
            made += part.num_rows
            columns = [part[name].to_pylist() for name in NAMES]
            columns[6] = [tuple((h["key"].encode(), h["value"]) for h in headers) for headers in columns[6]]
            rows.extend(zip(*columns, strict=True))
        else:
            rows.extend(tuple(row[index] for index in indexes) for row in part)
    return rows, [(item.start, item.end, item.reason) for item in damage], made


def same(data: bytes) -> tuple[Rows, int]:
    """Return the records, which must be the same from both decoders, and how many of them are from kernels."""
    rows, reasons, made = by_columns(data)
    expected, expected_reasons = by_reference(data)
    assert rows == expected
    assert sorted(reasons) == sorted(expected_reasons)
    return rows, made


def sample(name: str) -> bytes:
    """Return the first whole batches of a sample."""
    data = min((SAMPLES / FLIPPED[name]).glob("*.log")).read_bytes()
    ends = [row.position + row.size for row in walk(BytesSource(data)) if not isinstance(row, Damage)]
    return data[: max([end for end in ends if end <= MAX_BYTES], default=ends[0])]


@pytest.mark.parametrize("name", FLIPPED)
def test_kernels_read_all_of_the_ten_samples(name: str) -> None:
    rows, made = same(sample(name))
    assert made == len(rows) > 0


@pytest.mark.parametrize("name", FLIPPED)
def test_a_sample_cut_at_any_length(name: str) -> None:
    data = sample(name)
    for length in range(len(data)):
        same(data[:length])


@pytest.mark.parametrize("reseal", [False, True], ids=["unchanged", "checksum corrected"])
@pytest.mark.parametrize("name", FLIPPED)
def test_every_flipped_bit(name: str, reseal: bool) -> None:
    """If the checksum is corrected, the same rules must refuse each invalid record."""
    data = sample(name)
    size = next(row.size for row in walk(BytesSource(data)) if not isinstance(row, Damage))
    head, rest = data[:size], data[size:]
    # Only bytes after the checksum are covered by it.
    first = 21 if reseal else 0
    for bit in some(range(8 * first, 8 * size)):
        broken = bytearray(head)
        broken[bit // 8] ^= 1 << bit % 8
        same((sealed(bytes(broken)) if reseal else bytes(broken)) + rest)


segments = st.builds(
    lambda codec, count, old: b"".join(batches(count, codec=codec)) + (b"".join(legacy_segment(1)) if old else b""),
    st.sampled_from(list(CODECS.values())),
    st.integers(1, 4),
    st.booleans(),
)


@given(segment=segments, data=st.data())
def test_broken_segments(segment: bytes, data: st.DataObject) -> None:
    """Bytes changed, removed and inserted anywhere."""
    broken = bytearray(segment)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(broken)))
        end = data.draw(st.integers(start, min(start + 40, len(broken))))
        broken[start:end] = data.draw(st.binary(max_size=40))
    same(bytes(broken))
