"""Kernels' columns against the reference decoder (construct and crcmod): same records, same damage there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.columns.arrow_columns import columns_of
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.codecs import DEFAULT_BUDGET
from kforensics.parsers.format.rows import Damage, Failure
from kforensics.parsers.kernels.library import kernels
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.legacy import legacy_records
from kforensics.parsers.log.records import open_payload
from kforensics.parsers.log.reference import reference_header, reference_records
from kforensics.parsers.tables.file_rows import Reading
from kforensics.parsers.tables.schemas import TABLES
from lab.places import SAMPLES
from tests.parsers.builders import CODECS, batches, legacy_segment, sealed

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
# Of a sample as many bytes are taken as hold whole batches up to here.
MOST = 700
Rows = list[tuple[Any, ...]]
Reasons = list[tuple[int, int, str]]


@pytest.fixture(scope="module", autouse=True)
def _one_processor() -> Iterator[None]:
    """Do all work in this thread: starting others costs more than reading a small segment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "sched_getaffinity", lambda _process: {0})
        yield


def by_reference(data: bytes) -> tuple[Rows, Reasons]:
    """Return records and damage as the reference decoder has them; entries of old formats as plain Python does."""
    source, rows, reasons = BytesSource(data), Rows(), Reasons()
    for row in walk(source):
        if isinstance(row, Damage):
            reasons.append((row.start, row.end, row.reason))
            continue
        whole = batch_bytes(source, row)
        if row.magic == 2:
            assert reference_header(whole, row.position) == row
        modern = row.magic >= 2
        found = (
            reference_records(row, open_payload(row, whole)) if modern else legacy_records(row, whole, DEFAULT_BUDGET)
        )
        for record in found:
            if isinstance(record, Failure):
                reasons.append((row.position, row.position + row.size, record.reason))
                continue
            values = (record.offset, record.timestamp, record.sequence, record.key, record.value, record.headers)
            rows.append((row.position, *values, record.key_size, record.value_size))
    return rows, reasons


def by_columns(data: bytes) -> tuple[Rows, Reasons, int]:
    """Return records and damage as kernels have them, and how many of the records they made themselves."""
    found, compiled = FoundFile("0.log", "log", len(data)), kernels()
    assert compiled, "the kernels cannot be compiled here"
    damage, rows, made = list[Damage](), Rows(), 0
    places = [TABLES["records"].names.index(name) for name in NAMES]
    for part in columns_of(found, BytesSource(data), Reading(records=True), damage.append, compiled):
        if isinstance(part, pa.RecordBatch):
            made += part.num_rows
            columns = [part[name].to_pylist() for name in NAMES]
            columns[6] = [tuple((h["key"].encode(), h["value"]) for h in headers) for headers in columns[6]]
            rows.extend(zip(*columns, strict=True))
        else:
            rows.extend(tuple(row[place] for place in places) for row in part)
    return rows, [(item.start, item.end, item.reason) for item in damage], made


def same(data: bytes) -> tuple[Rows, int]:
    """Return the records that both give, having checked that they are the same, and how many kernels made."""
    rows, reasons, made = by_columns(data)
    expected, expected_reasons = by_reference(data)
    assert rows == expected
    assert sorted(reasons) == sorted(expected_reasons)
    return rows, made


def sample(name: str) -> bytes:
    """Return the first whole batches of a sample."""
    data = min((SAMPLES / FLIPPED[name]).glob("*.log")).read_bytes()
    ends = [row.position + row.size for row in walk(BytesSource(data)) if not isinstance(row, Damage)]
    return data[: max([end for end in ends if end <= MOST], default=ends[0])]


@pytest.mark.parametrize("name", FLIPPED)
def test_the_ten_samples_are_made_by_kernels(name: str) -> None:
    rows, made = same(sample(name))
    assert made == len(rows) > 0


@pytest.mark.parametrize("name", FLIPPED)
def test_a_sample_cut_at_any_length(name: str) -> None:
    data = sample(name)
    for length in range(len(data)):
        same(data[:length])


@pytest.mark.parametrize("reseal", [False, True], ids=["as it is", "under a right checksum"])
@pytest.mark.parametrize("name", FLIPPED)
def test_every_flipped_bit(name: str, reseal: bool) -> None:
    """Under a right checksum it is the records that must be refused, one by one, by the same rules."""
    data = sample(name)
    size = next(row.size for row in walk(BytesSource(data)) if not isinstance(row, Damage))
    head, rest = data[:size], data[size:]
    # Behind the checksum alone can a batch be sealed anew.
    first = 21 if reseal else 0
    for bit in range(8 * first, 8 * size):
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
    """Bytes changed, cut out and put in anywhere."""
    broken = bytearray(segment)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(broken)))
        end = data.draw(st.integers(at, min(at + 40, len(broken))))
        broken[at:end] = data.draw(st.binary(max_size=40))
    same(bytes(broken))
