"""Kernels and pure Python hash records to the same columns and report the same damage, also for damaged logs."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.columns.hash_columns import EMPTY_RECORD, EMPTY_VALUE, NON_EMPTY, HashColumns, hash_chunks
from kforensics.parsers.files.source import BytesSource, Source, open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from lab.places import SAMPLES
from tests.parsers.builders import CODECS, NOW, batch, batches, legacy_segment, record

BROKEN = ("records/broker-1/headers-0", "damaged/codecs/lz4-healthy-0", "legacy-2.7/broker-0/output-1")
MOST = 900
CONTROL, LOG_APPEND_TIME = 0x20, 0x08

texts = st.binary(max_size=40)
contents = st.tuples(
    texts | st.none(), texts | st.none(), st.lists(st.tuples(st.just(b"h"), texts | st.none()), max_size=3)
)


def by_kernels(source: Source, workers: int = 0) -> tuple[dict[str, Any], list[Damage]]:
    """Return all columns, made by kernels where possible."""
    compiled = load_kernels()
    assert compiled, "the kernels cannot be compiled here"
    damage: list[Damage] = []
    parts = hash_chunks(source, damage.append, lambda _size: compiled, workers=workers)
    return _joined([_copied(part) for part in parts]), damage


def by_python(source: Source) -> tuple[dict[str, Any], list[Damage]]:
    """Return all columns, made by pure Python."""
    damage: list[Damage] = []
    return _joined([_copied(part) for part in hash_chunks(source, damage.append, no_kernels)]), damage


def _copied(columns: HashColumns) -> HashColumns:
    return HashColumns(*(getattr(columns, field.name).copy() for field in fields(columns)))


def _joined(parts: list[HashColumns]) -> dict[str, Any]:
    return {
        field.name: [number for part in parts for number in getattr(part, field.name).tolist()]
        for field in fields(HashColumns)
    }


def test_both_agree_on_every_sample() -> None:
    compared = 0
    for path in sorted(SAMPLES.rglob("*.log")):
        with open_source(path) as source:
            made = by_kernels(source)
            assert made == by_python(source), path
            compared += len(made[0]["offset"])
    assert compared > 12_000


@given(st.lists(st.lists(contents, min_size=1, max_size=4), min_size=1, max_size=4), st.sampled_from(list(CODECS)))
def test_both_agree_on_any_contents(batch_contents: list[list[Any]], codec: str) -> None:
    data, offset = b"", 0
    for rows in batch_contents:
        built = [record(delta, *row, timestamp_delta=delta) for delta, row in enumerate(rows)]
        data += batch(*built, base_offset=offset, codec=CODECS[codec])
        offset += len(rows)
    made, damage = by_kernels(BytesSource(data))
    assert (made, damage) == by_python(BytesSource(data))
    assert made["offset"] == list(range(offset))


@pytest.mark.parametrize("sample", BROKEN)
def test_both_agree_on_damaged_logs(sample: str) -> None:
    data = (SAMPLES / sample / "00000000000000000000.log").read_bytes()[:MOST]
    for position in range(0, len(data), 3):
        broken = data[:position] + bytes([data[position] ^ 0x11]) + data[position + 1 :]
        for source in (BytesSource(broken), BytesSource(data[:position])):
            assert by_kernels(source) == by_python(source), position


def test_columns_agree_with_the_records() -> None:
    """Compared with the records one by one, with and without threads."""
    data = b"".join(batches(40)) + b"".join(batches(3, codec=CODECS["gzip"], first=40))
    source = BytesSource(data)
    heads = [row for row in walk(source) if isinstance(row, Batch)]
    rows = [row for head in heads for row in read_records(source, head) if isinstance(row, Record)]
    low, high = content_hashes(rows)
    for made, damage in (by_python(source), by_kernels(source), by_kernels(source, workers=2)):
        assert damage == []
        assert made["offset"] == [row.offset for row in rows]
        assert made["timestamp"] == [row.timestamp for row in rows]
        assert (made["low"], made["high"]) == (low.tolist(), high.tolist())
        assert made["position"] == [head.position for head in heads]
        assert made["records"] == [2] * len(heads)


def test_control_batches_and_invalid_batches_are_left_out() -> None:
    good = batch(record(), base_offset=2, producer_id=7, producer_epoch=1, base_sequence=5)
    data = batch(record(), attributes=CONTROL) + batch(record(), base_offset=1, crc=1) + good
    for made, damage in (by_kernels(BytesSource(data)), by_python(BytesSource(data))):
        assert made["offset"] == made["base_offset"] == [2]
        assert (made["producer_id"], made["producer_epoch"], made["base_sequence"]) == ([7], [1], [5])
        assert [row.reason for row in damage] == ["crc"]


def test_emptiness_distinguishes_null_and_empty_parts() -> None:
    pairs: list[tuple[bytes | None, bytes | None]] = [
        *((b"k", b"v"), (None, b"v"), (b"k", b""), (b"k", None)),
        *((None, None), (b"", b""), (None, b"")),
    ]
    data = batch(*(record(index, *pair) for index, pair in enumerate(pairs)))
    expected = [NON_EMPTY] * 2 + [EMPTY_VALUE] * 2 + [EMPTY_RECORD] * 3
    assert by_kernels(BytesSource(data))[0]["emptiness"] == expected
    assert by_python(BytesSource(data))[0]["emptiness"] == expected


def test_log_append_time_is_the_largest_of_the_batch() -> None:
    data = batch(record(0, timestamp_delta=1), attributes=LOG_APPEND_TIME, max_timestamp=NOW + 9)
    assert by_kernels(BytesSource(data))[0]["timestamp"] == by_python(BytesSource(data))[0]["timestamp"] == [NOW + 9]


def test_attributes_are_as_stored() -> None:
    """The highest bit has no meaning yet."""
    data = batch(record(), attributes=-(1 << 15))
    assert (
        by_kernels(BytesSource(data))[0]["attributes"] == by_python(BytesSource(data))[0]["attributes"] == [-(1 << 15)]
    )


def test_only_a_range_is_read() -> None:
    parts = batches(3)
    damage: list[Damage] = []
    start, stop = len(parts[0]), len(parts[0]) + len(parts[1])
    for policy in (no_kernels, lambda _size: load_kernels()):
        chunks = hash_chunks(BytesSource(b"".join(parts)), damage.append, policy, start=start, stop=stop)
        assert [part.offset.tolist() for part in chunks] == [[2, 3]]
    assert damage == []


def test_legacy_records_have_no_producer() -> None:
    made, damage = by_python(BytesSource(b"".join(legacy_segment(1))))
    assert damage == []
    assert made["offset"] == sorted(made["offset"])
    assert set(made["producer_id"]) == {-1}
    assert np.array(made["records"]).sum() == len(made["offset"])
