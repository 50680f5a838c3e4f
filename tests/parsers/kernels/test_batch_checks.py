"""Batch headers in kernels compared with pure Python: which batches pass every check, and their fields."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.format.rows import CODECS, Batch
from kforensics.parsers.kernels.batch_checks import (
    SMALL_BATCH,
    complete_batch_size,
    declared_batch_size,
    valid_batch_size,
)
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.decoded_fields import set_batch_fields
from kforensics.parsers.kernels.request import DECLINED, FIELD, INCOMPLETE
from kforensics.parsers.log.batch_headers import batch_header
from tests.parsers.builders import HEADER, LENGTH_END, batch, batch_of, legacy_segment, record, sealed

pytestmark = pytest.mark.slow  # compiles kernels of its own

GOOD = batch(record(), record(1), base_offset=3, codec=0)


@compiled
def _valid_size(address: int, end: int, refused_sizes: int) -> int:
    return valid_batch_size(address, end, refused_sizes)


@compiled
def _complete_size(address: int, end: int) -> int:
    return complete_batch_size(address, end)


@compiled
def _declared_size(address: int, end: int) -> int:
    return declared_batch_size(address, end)


@compiled
def _set_batch_fields(fields: int, address: int, position: int) -> None:
    set_batch_fields(fields, address, position)


def checked_size(data: bytes, refused_sizes: int = 0) -> int:
    """Return the size of the first batch in the bytes, or a negative status. Other batches follow in memory."""
    buffer = ctypes.create_string_buffer(data + GOOD * 2, len(data) + 2 * len(GOOD))
    address = ctypes.addressof(buffer)
    size = _valid_size(address, address + len(data), refused_sizes)
    assert size in (-INCOMPLETE, -DECLINED) or _complete_size(address, address + len(data)) == size
    return size


def expected(data: bytes) -> int:
    """Return the result for the same bytes from the pure Python header, with the statuses of kernels."""
    if len(data) < HEADER.size:
        return -INCOMPLETE
    head = batch_header(data, 0)
    if head.size < HEADER.size or head.magic != 2:
        return -DECLINED
    if head.size > len(data):
        return -INCOMPLETE
    is_invalid = (head.base_offset or 0) < 0 or head.codec >= len(CODECS) or (head.count or 0) < 0
    return -DECLINED if is_invalid or not head.crc_valid else head.size


def values(data: bytes, position: int) -> list[int]:
    """Return the fields that the kernel sets for a batch."""
    buffer = ctypes.create_string_buffer(data, len(data))
    block = (ctypes.c_int64 * len(FIELD))()
    _set_batch_fields(ctypes.addressof(block), ctypes.addressof(buffer), position)
    return list(block)


def expected_fields(head: Batch) -> dict[str, object]:
    """Return the expected fields of a batch by name."""
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
    kernel_fields, head_fields = values(data, position), expected_fields(batch_header(data, position))
    assert {name: kernel_fields[getattr(FIELD, name)] for name in head_fields} == head_fields
    assert checked_size(data) == expected(data)


@given(data=st.data())
@settings(max_examples=1500)
def test_damaged_headers_have_the_expected_status(data: st.DataObject) -> None:
    broken = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 3))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    whole = bytes(broken) if data.draw(st.booleans()) else sealed(bytes(broken))
    whole = whole[: data.draw(st.one_of(st.just(len(whole)), st.integers(0, len(whole))))]
    assert checked_size(whole) == expected(whole)


def test_a_batch_cut_anywhere_is_incomplete() -> None:
    assert checked_size(GOOD) == len(GOOD)
    for length in range(len(GOOD)):
        assert checked_size(GOOD[:length]) == -INCOMPLETE


def test_the_declared_size_is_the_one_in_the_header() -> None:
    buffer = ctypes.create_string_buffer(GOOD, len(GOOD))
    address = ctypes.addressof(buffer)
    assert [_declared_size(address, address + length) for length in (0, LENGTH_END - 1, LENGTH_END, 61)] == [
        0,
        0,
        *[len(GOOD)] * 2,
    ]


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 49, 2**31 - 1])
def test_wild_lengths(length: int) -> None:
    data = batch(record(), length=length)
    assert checked_size(data) == expected(data)


def test_every_bit_of_the_checksum_and_of_the_bytes_it_covers_counts() -> None:
    for bit in range(8 * 17, 8 * len(GOOD)):
        flipped = bytearray(GOOD)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        assert checked_size(bytes(flipped)) == -DECLINED


@pytest.mark.parametrize("magic", [-128, -1, 0, 1, 3, 127])
def test_other_formats_are_declined(magic: int) -> None:
    assert checked_size(batch(record(), magic=magic)) == -DECLINED
    for entry in legacy_segment(0) + legacy_segment(1):
        assert checked_size(entry.ljust(HEADER.size, b"\0")) == -DECLINED


@pytest.mark.parametrize(
    "fields",
    [{"base_offset": -1}, {"base_offset": -(2**63)}, {"count": -1}, {"attributes": 5}, {"attributes": 7}],
    ids=str,
)
def test_invalid_fields_are_declined_despite_a_valid_checksum(fields: dict[str, int]) -> None:
    assert checked_size(batch(record(), **fields)) == -DECLINED


@pytest.mark.parametrize("size", [SMALL_BATCH - 1, SMALL_BATCH, SMALL_BATCH + 1, 2 * SMALL_BATCH, 4 * SMALL_BATCH - 1])
def test_refused_sizes_are_not_checksummed_except_small_batches(size: int) -> None:
    data = batch_of(bytes(size - HEADER.size))
    assert len(data) == size
    order = size.bit_length()
    assert checked_size(data, 1 << order) == (size if size <= SMALL_BATCH else -DECLINED)
    assert checked_size(data, ~(1 << order)) == size
    assert checked_size(data, -1) == (size if size <= SMALL_BATCH else -DECLINED)
