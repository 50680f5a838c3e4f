"""Batch headers in kernels against ``parsers.headers``: which batches are beyond doubt, and what their fields say."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.format.rows import CODECS, Batch
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.headers import SMALL, announced_size, look, next_size
from kforensics.parsers.kernels.request import MORE, REFUSED, VALUE
from kforensics.parsers.kernels.template_values import put_batch
from kforensics.parsers.log.headers import batch_header
from tests.parsers.builders import HEADER, LENGTH_END, batch, batch_of, legacy_segment, record, sealed

GOOD = batch(record(), record(1), base_offset=3, codec=0)


@compiled
def _look(at: int, end: int, refused_sizes: int) -> int:
    return look(at, end, refused_sizes)


@compiled
def _next_size(at: int, end: int) -> int:
    return next_size(at, end)


@compiled
def _announced_size(at: int, end: int) -> int:
    return announced_size(at, end)


@compiled
def _put_batch(values: int, at: int, position: int) -> None:
    put_batch(values, at, position)


def looked(data: bytes, refused_sizes: int = 0) -> int:
    """Return the size of the first batch in bytes, or why there is none; what lies behind them is another batch."""
    buffer = ctypes.create_string_buffer(data + GOOD * 2, len(data) + 2 * len(GOOD))
    at = ctypes.addressof(buffer)
    size = _look(at, at + len(data), refused_sizes)
    assert size in (-MORE, -REFUSED) or _next_size(at, at + len(data)) == size
    return size


def expected(data: bytes) -> int:
    """Return what plain Python's header makes of the same, with the refusals that kernels state."""
    if len(data) < HEADER.size:
        return -MORE
    head = batch_header(data, 0)
    if head.size < HEADER.size or head.magic != 2:
        return -REFUSED
    if head.size > len(data):
        return -MORE
    doubtful = (head.base_offset or 0) < 0 or head.codec >= len(CODECS) or (head.count or 0) < 0
    return -REFUSED if doubtful or not head.crc_valid else head.size


def values(data: bytes, position: int) -> list[int]:
    """Return the values that the kernel puts for a batch."""
    buffer = ctypes.create_string_buffer(data, len(data))
    block = (ctypes.c_int64 * len(VALUE))()
    _put_batch(ctypes.addressof(block), ctypes.addressof(buffer), position)
    return list(block)


def fields_of(head: Batch) -> dict[str, object]:
    """Return what the values of a batch should be, by name."""
    names = (
        *("base_offset", "last_offset", "base_sequence", "last_sequence", "producer_id", "producer_epoch", "position"),
        *("partition_leader_epoch", "is_transactional", "is_control", "base_timestamp", "max_timestamp", "size"),
        *("magic", "codec", "crc", "crc_valid"),
    )
    return {name: getattr(head, name) for name in names} | {
        "record_count": head.count,
        "has_delete_horizon": head.delete_horizon_ms is not None,
        "timestamp_type": head.timestamp_type == "LogAppendTime",
    }


int16, int32, int64 = (st.integers(-(2**bits), 2**bits - 1) for bits in (15, 31, 63))
headers = st.fixed_dictionaries(
    {},
    optional={
        "base_offset": st.one_of(st.integers(0, 2**63 - 1), int64),
        "partition_leader_epoch": int32,
        "attributes": int16,
        "last_offset_delta": int32,
        "base_timestamp": int64,
        "max_timestamp": int64,
        "producer_id": int64,
        "producer_epoch": int16,
        "base_sequence": int32,
        "count": st.one_of(st.integers(0, 9), int32),
    },
)


@given(fields=headers, payload=st.binary(max_size=50), position=st.integers(0, 2**62))
@settings(max_examples=1500)
def test_fields_of_any_header_are_read_alike(fields: dict[str, int], payload: bytes, position: int) -> None:
    data = batch_of(payload, **fields)
    found = values(data, position)
    assert {name: found[getattr(VALUE, name)] for name in fields_of(batch_header(data, position))} == fields_of(
        batch_header(data, position)
    )
    assert looked(data) == expected(data)


@given(data=st.data())
@settings(max_examples=1500)
def test_broken_headers_are_refused_as_stated(data: st.DataObject) -> None:
    broken = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(broken) if data.draw(st.booleans()) else sealed(bytes(broken))
    whole = whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))]
    assert looked(whole) == expected(whole)


def test_a_batch_cut_anywhere_is_not_whole() -> None:
    assert looked(GOOD) == len(GOOD)
    for length in range(len(GOOD)):
        assert looked(GOOD[:length]) == -MORE


def test_the_announced_size_is_what_stands_in_the_header() -> None:
    buffer = ctypes.create_string_buffer(GOOD, len(GOOD))
    at = ctypes.addressof(buffer)
    assert [_announced_size(at, at + length) for length in (0, LENGTH_END - 1, LENGTH_END, 61)] == [
        0,
        0,
        *[len(GOOD)] * 2,
    ]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 49, 2**31 - 1])
def test_wild_lengths(length: int) -> None:
    data = batch(record(), length=length)
    assert looked(data) == expected(data)


def test_every_byte_of_the_checksum_and_every_bit_under_it_counts() -> None:
    for bit in range(8 * 17, 8 * len(GOOD)):
        flipped = bytearray(GOOD)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        assert looked(bytes(flipped)) == -REFUSED


@pytest.mark.parametrize("magic", [-128, -1, 0, 1, 3, 127])
def test_other_formats_are_refused(magic: int) -> None:
    assert looked(batch(record(), magic=magic)) == -REFUSED
    for entry in legacy_segment(0) + legacy_segment(1):
        assert looked(entry.ljust(HEADER.size, b"\0")) == -REFUSED


@pytest.mark.parametrize(
    "fields",
    [{"base_offset": -1}, {"base_offset": -(2**63)}, {"count": -1}, {"attributes": 5}, {"attributes": 7}],
    ids=str,
)
def test_a_sound_checksum_does_not_excuse_these(fields: dict[str, int]) -> None:
    assert looked(batch(record(), **fields)) == -REFUSED


@pytest.mark.parametrize("size", [SMALL - 1, SMALL, SMALL + 1, 2 * SMALL, 4 * SMALL - 1])
def test_refused_orders_of_size_are_not_summed_but_for_small_batches(size: int) -> None:
    data = batch_of(bytes(size - HEADER.size))
    assert len(data) == size
    order = size.bit_length()
    assert looked(data, 1 << order) == (size if size <= SMALL else -REFUSED)
    assert looked(data, ~(1 << order)) == size
    assert looked(data, -1) == (size if size <= SMALL else -REFUSED)
