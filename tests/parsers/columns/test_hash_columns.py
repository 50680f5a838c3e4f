"""Kernels and pure Python hash records to the same columns and report the same damage, also for damaged logs."""

from __future__ import annotations

from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.columns.content_hash import content_hashes
from kforensics.parsers.columns.hash_columns import (
    EMPTY_RECORD,
    EMPTY_VALUE,
    NON_EMPTY,
    PYTHON_CHUNK_ROWS,
    HashColumns,
    hash_chunks,
)
from kforensics.parsers.files.source import BytesSource, Source, open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.column_buffers import SOFT_ROWS
from kforensics.parsers.kernels.hash_buffers import BATCH_COLUMNS
from kforensics.parsers.kernels.library import load_kernels
from kforensics.parsers.kernels.policy import no_kernels
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from lab.places import SAMPLES
from tests.parsers.builders import (
    CODECS,
    GZIP,
    NOW,
    batch,
    batches,
    legacy_segment,
    record,
    wrapped_set,
)
from tests.thorough import some

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


LARGE = 70_000
# Their text would make the records of the batch larger than what kernels decompress at once.
LARGE_VALUE = b"v" * 120


@cache
def large_batch(codec: int = GZIP, **changed: int) -> bytes:
    """Return a batch of 70,000 records in which every contents occurs several times."""
    rows = (record(index, b"k%d" % (index % 1000), LARGE_VALUE, timestamp_delta=index % 7) for index in range(LARGE))
    return batch(*rows, base_offset=2, codec=codec, last_offset_delta=LARGE - 1, producer_id=7, **changed)


def chunks_of(data: bytes, *, by_python: bool = False) -> tuple[list[HashColumns], list[Damage]]:
    """Return copies of all chunks, made by kernels where possible or by pure Python."""
    damage: list[Damage] = []
    policy = no_kernels if by_python else (lambda _size: load_kernels())
    return [_copied(part) for part in hash_chunks(BytesSource(data), damage.append, policy, workers=0)], damage


@pytest.mark.parametrize(("by_python", "most"), [(False, SOFT_ROWS), (True, PYTHON_CHUNK_ROWS)])
@pytest.mark.parametrize("codec", some([*CODECS], 2))
def test_a_large_batch_is_spread_over_chunks(codec: str, by_python: bool, most: int) -> None:
    first, last = batches(1)[0], batch(record(), base_offset=LARGE + 2)
    data = first + large_batch(CODECS[codec]) + last
    parts, damage = chunks_of(data, by_python=by_python)
    assert damage == []
    assert max(len(part) for part in parts) <= most
    made = _joined(parts)
    assert made["offset"] == list(range(LARGE + 3))
    low, _ = content_hashes(
        [row for row in read_records(BytesSource(data), heads_of(data)[1]) if isinstance(row, Record)]
    )
    assert made["low"][2:-1] == low.tolist()
    large = [number for number, position in enumerate(made["position"]) if position == len(first)]
    assert len(large) > 1
    assert sum(part.new_batches for part in parts) == len(made["position"]) - len(large) + 1 == 3
    index = 0
    for number in large:
        assert (made["first_index"][number], made["total"][number]) == (index, LARGE)
        assert (made["attributes"][number], made["producer_id"][number]) == (CODECS[codec], 7)
        assert made["is_whole"][number] == 1
        index += made["records"][number]
    assert index == LARGE


def heads_of(data: bytes) -> list[Batch]:
    """Return the batches of a log."""
    return [row for row in walk(BytesSource(data)) if isinstance(row, Batch)]


def merged(parts: list[HashColumns]) -> dict[str, Any]:
    """Return all columns as if no batch were spread over several chunks."""
    made = _joined(parts)
    starts = [number for number, index in enumerate(made["first_index"]) if not index]
    records = [made["records"][start:stop] for start, stop in zip(starts, [*starts[1:], None], strict=True)]
    columns = {name: [made[name][start] for start in starts] for name in made if name in BATCH_COLUMNS}
    return (
        made | columns | {"records": [sum(counts) for counts in records], "total": [made["total"][s] for s in starts]}
    )


@pytest.mark.parametrize("changed", some([{"count": LARGE - 1}, {"count": LARGE + 1}, {"count": 1 << 30}], 2))
def test_a_large_batch_with_a_wrong_count_is_read_as_far_as_possible(changed: dict[str, int]) -> None:
    parts, damage = chunks_of(large_batch(**changed))
    python_parts, python_damage = chunks_of(large_batch(**changed), by_python=True)
    assert damage == python_damage
    assert [row.inside_batch for row in damage] == [0]
    made = merged(parts)
    assert made == merged(python_parts)
    assert made["is_whole"] == [0]
    assert made["records"] == made["total"]
    assert made["total"][0] in {LARGE - 1, LARGE}


@pytest.mark.parametrize("malformed", some([LARGE // 2, 1, LARGE - 1], 3))
def test_a_large_batch_with_a_malformed_record_is_read_up_to_it(malformed: int) -> None:
    rows = [record(index, None, LARGE_VALUE) for index in range(LARGE)]
    rows[malformed] = b"\xff" * len(rows[malformed])
    data = batch(*rows, codec=GZIP)
    parts, damage = chunks_of(data)
    python_parts, python_damage = chunks_of(data, by_python=True)
    assert damage == python_damage
    assert len(damage) == 1
    assert merged(parts) == merged(python_parts)
    assert merged(parts)["total"] == [malformed]


def test_a_large_wrapper_is_spread_over_chunks() -> None:
    count = PYTHON_CHUNK_ROWS + 1
    parts, damage = chunks_of(wrapped_set(1, GZIP, 5, count), by_python=True)
    assert damage == []
    assert [len(part) for part in parts] == [PYTHON_CHUNK_ROWS, 1]
    assert merged(parts)["base_offset"] == [5]
    assert merged(parts)["total"] == [count]


def test_a_small_file_that_decompresses_to_much_is_left_to_kernels() -> None:
    """Whether kernels pay off is asked again with the size of the records."""
    asked: list[int] = []
    data = large_batch()

    def no_kernels_for(size: int) -> None:
        asked.append(size)

    parts = list(hash_chunks(BytesSource(data), print, no_kernels_for))
    assert sum(len(part) for part in parts) == LARGE
    assert asked == [len(data), LARGE * 7]
    assert len(data) < LARGE * 7
