"""Varints and records in kernels: accepted if the pure Python decoder accepts them, with the same result."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.failures import MOST_HEADERS
from kforensics.parsers.format.integers import VarintError, VarLong, int64, read_varint, read_varlong
from kforensics.parsers.format.integers import sequence_after as python_sequence_after
from kforensics.parsers.format.rows import LOG_APPEND_TIME, Batch, Failure, Header, Record
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.record_parser import (
    NO_ADDRESS,
    ParsedRecord,
    add_to_sequence,
    parse_header,
    parse_int,
    parse_long,
    parse_record,
)
from kforensics.parsers.log.batch_headers import batch_header
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.records import Payload, decode_records, open_payload
from tests.parsers.builders import NOW, batch_of, varint
from tests.parsers.builders import record as built_record

pytestmark = pytest.mark.slow  # compiles kernels of its own

TRAILING_BYTES = b"\x02" * 64


@compiled
def _record(address: int, end: int) -> ParsedRecord:
    return parse_record(address, end)


@compiled
def _header(address: int, end: int) -> tuple[int, int, int, int, int]:
    return parse_header(address, end)


@compiled
def _sequence_after(base: int, delta: int) -> int:
    return add_to_sequence(base, delta)


def _bytes(address: int, size: int) -> bytes | None:
    return None if size < 0 else ctypes.string_at(address, size)


def _headers(address: int, count: int, end: int) -> tuple[Header, ...]:
    headers = []
    for _ in range(count):
        key_address, key_size, value_address, value_size, address = _header(address, end)
        assert address != NO_ADDRESS
        headers.append((ctypes.string_at(key_address, key_size), _bytes(value_address, value_size)))
    return tuple(headers)


def by_kernel(head: Batch, data: bytes) -> tuple[list[Record], bool]:
    """Return the records that the kernel parses, and whether it accepts the payload."""
    # The bytes after the payload would be valid numbers if a kernel read them.
    buffer = ctypes.create_string_buffer(data + TRAILING_BYTES, len(data) + len(TRAILING_BYTES))
    address = ctypes.addressof(buffer)
    end = address + len(data)
    records: list[Record] = []
    for _ in range(max(head.count or 0, 0)):
        parsed = _record(address, end)
        time, delta, key_address, key_size, value_address, value_size, headers_address, count, address = parsed
        if address == NO_ADDRESS:
            return records, False
        timestamp = head.max_timestamp
        if head.timestamp_type != LOG_APPEND_TIME:
            timestamp = int64((head.base_timestamp or 0) + time)
        key, value = _bytes(key_address, key_size), _bytes(value_address, value_size)
        headers = _headers(headers_address, count, address)
        base = -1 if head.base_sequence is None else head.base_sequence
        sequence = _sequence_after(base, delta) if base >= 0 else -1
        offset = int64((head.base_offset or 0) + delta)
        records.append(Record(offset, timestamp, sequence, key, value, headers, key_size, value_size))
    # The bytes of a batch without records are not read.
    return records, address == end or not head.count


def check(head: Batch, payload: Payload) -> bool:
    """Fail unless both decoders agree on a payload; return whether it is valid."""
    rows = list(decode_records(head, payload))
    expected = [row for row in rows if isinstance(row, Record)]
    readable = not any(isinstance(row, Failure) for row in rows)
    records, is_accepted = by_kernel(head, payload.stream.data)
    assert is_accepted == readable
    assert records == expected
    return is_accepted


def check_bytes(data: bytes, count: int = 1, **fields: int) -> bool:
    """Do the same for the payload of an uncompressed batch."""
    built = batch_of(data, count=count, **fields)
    head = batch_header(built, 0)
    return check(head, open_payload(head, built))


some_bytes = st.one_of(st.none(), st.binary(max_size=20))
some_headers = st.lists(st.tuples(st.binary(max_size=5), some_bytes), max_size=3)
int32, int64s = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
some_records = st.builds(
    lambda delta, key, value, headers, time: built_record(delta, key, value, headers, timestamp_delta=time),
    int32,
    some_bytes,
    some_bytes,
    some_headers,
    int64s,
)


@given(records=st.lists(some_records, min_size=1, max_size=5), base=int32, first=st.integers(0, 2**63 - 1), time=int64s)
@settings(max_examples=400)
def test_valid_records_are_accepted(records: list[bytes], base: int, first: int, time: int) -> None:
    fields = {"base_sequence": base, "base_offset": first, "base_timestamp": time}
    assert check_bytes(b"".join(records), len(records), **fields)


@given(data=st.data(), records=st.lists(some_records, min_size=1, max_size=3))
@settings(max_examples=1500)
def test_damaged_records_are_refused_where_pure_python_fails(data: st.DataObject, records: list[bytes]) -> None:
    broken = bytearray(b"".join(records))
    for _ in range(data.draw(st.integers(0, 3))):
        index = data.draw(st.integers(0, len(broken) - 1))
        broken[index] = data.draw(st.one_of(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]), st.integers(0, 255)))
    whole = bytes(broken[: data.draw(st.one_of(st.just(len(broken)), st.integers(0, len(broken))))])
    check_bytes(whole, data.draw(st.integers(len(records) - 1, len(records) + 1)) or 1)


@given(data=st.binary(max_size=40), length=st.integers(4, 42))
@settings(max_examples=1500)
def test_any_bytes_in_place_of_a_record(data: bytes, length: int) -> None:
    check_bytes(data)
    check_bytes(varint(length) + b"\0" + data)


def test_a_record_cut_at_every_length_and_with_every_bit_flipped() -> None:
    whole = built_record(3, b"key", b"value", [(b"a", None), (b"bc", b"d")], timestamp_delta=300)
    assert check_bytes(whole)
    for length in range(len(whole)):
        assert not check_bytes(whole[:length])
        assert check_bytes(varint(length) + whole[1 : 1 + length]) == (length == len(whole) - 1)
    for bit in range(8 * len(whole)):
        flipped = bytearray(whole)
        flipped[bit >> 3] ^= 1 << (bit & 7)
        check_bytes(bytes(flipped))


@pytest.mark.parametrize("number", [-(2**31), -2, -1, 0, 1, 5, 2**31 - 1])
@pytest.mark.parametrize("field", ["length", "key", "value", "header count", "header key", "header value"])
def test_wild_sizes(field: str, number: int) -> None:
    """Each size may have any value; any negative size of a key or value is null."""
    sizes = {"key": 1, "value": 1, "header count": 1, "header key": 1, "header value": 1} | {field: number}
    body = b"\0\0\0" + varint(sizes["key"]) + b"k" + varint(sizes["value"]) + b"v" + varint(sizes["header count"])
    body += varint(sizes["header key"]) + b"h" + varint(sizes["header value"]) + b"w"
    check_bytes(varint(number if field == "length" else len(body)) + body)
    for name in ("key", "value"):
        if field == name and number < 0:
            body = body.replace(varint(number) + name[:1].encode(), varint(number), 1)
            assert check_bytes(varint(len(body)) + body)


@pytest.mark.parametrize("count", [0, 1, 2, 1000])
def test_headers_are_counted(count: int) -> None:
    headers = [(b"", None)] * count
    assert check_bytes(built_record(headers=headers))
    assert not check_bytes(built_record(headers=headers, header_count=count + 1))
    assert check_bytes(built_record(headers=headers, header_count=max(0, count - 1))) == (count == 0)


def test_more_headers_than_the_limit_are_refused() -> None:
    body = b"\0\0\0\x01\x01" + varint(MOST_HEADERS + 1) + b"\0\x01" * (MOST_HEADERS + 1)
    assert not check_bytes(varint(len(body)) + body)


def test_offsets_and_times_overflow_as_in_java() -> None:
    largest = {"base_offset": 2**63 - 1, "base_timestamp": 2**63 - 1}
    assert check_bytes(built_record(2**31 - 1, timestamp_delta=2**63 - 1), **largest)
    assert check_bytes(built_record(-(2**31), timestamp_delta=-(2**63)), base_timestamp=-(2**63))


@given(base=int32, delta=int32)
@settings(max_examples=1000)
def test_sequences_are_added_alike(base: int, delta: int) -> None:
    assert _sequence_after(base, delta) == python_sequence_after(base, delta)


def test_sequences_at_borders_are_added_alike() -> None:
    borders = [number + step for number in (-(2**31), -1, 0, 2**30, 2**31 - 1) for step in (-2, -1, 0, 1, 2)]
    for base in borders:
        for delta in borders:
            if all(-(2**31) <= number < 2**31 for number in (base, delta)):
                assert _sequence_after(base, delta) == python_sequence_after(base, delta)


def test_records_of_samples_are_read_alike(sample_logs: Path) -> None:
    """From brokers and from the lab, of every codec, valid and damaged."""
    taken = refused = 0
    for path in sorted(sample_logs.rglob("*.log")):
        with LocalSource(path) as source:
            for row in walk(source):
                if not isinstance(row, Batch) or row.is_legacy or (row.count or 0) < 0:
                    continue
                payload = open_payload(row, batch_bytes(source, row))
                if payload.stream.failure is None:
                    done = check(row, payload)
                    taken, refused = taken + done, refused + (not done)
    assert taken > 2000
    assert refused > 20


def test_timestamps_combine_batch_and_record() -> None:
    """The delta of the record is added to the base of the batch."""
    built = batch_of(built_record(timestamp_delta=7), count=1)
    records, _ = by_kernel(batch_header(built, 0), built[61:])
    assert [row.timestamp for row in records] == [NOW + 7]


# Varints ------------------------------------------------------------------------------------------------------------

PythonDecoder = Callable[[bytes, int], tuple[int, int]]
KernelDecoder = Callable[[int, int], tuple[int, int]]


@compiled
def _int(address: int, end: int) -> tuple[int, int]:
    return parse_int(address, end)


@compiled
def _long(address: int, end: int) -> tuple[int, int]:
    return parse_long(address, end)


DECODERS = [pytest.param(_int, read_varint, id="int"), pytest.param(_long, read_varlong, id="long")]
both_types = pytest.mark.parametrize(("kernel", "python"), DECODERS)
tricky = st.lists(st.sampled_from([0, 1, 2, 0x0F, 0x10, 0x7E, 0x7F, 0x80, 0x81, 0x8F, 0xFE, 0xFF]), max_size=12).map(
    bytes
)


def check_varint(kernel: KernelDecoder, python: PythonDecoder, data: bytes) -> None:
    """Fail unless both decoders return the same, or both fail. The kernel must not read the zeros after the end."""
    buffer = ctypes.create_string_buffer(data, len(data) + 16)
    address = ctypes.addressof(buffer)
    number, next_address = kernel(address, address + len(data))
    try:
        expected = python(data, 0)
    except (IndexError, VarintError):
        assert next_address == NO_ADDRESS, data.hex()
    else:
        assert (number, next_address - address) == expected, data.hex()


@both_types
@given(data=st.one_of(st.binary(max_size=12), tricky))
@settings(max_examples=1000)
def test_varint_of_any_bytes(kernel: KernelDecoder, python: PythonDecoder, data: bytes) -> None:
    check_varint(kernel, python, data)


@both_types
@given(number=st.integers(-(2**63), 2**63 - 1), trailing=st.binary(max_size=3))
@settings(max_examples=500)
def test_varint_of_any_number(kernel: KernelDecoder, python: PythonDecoder, number: int, trailing: bytes) -> None:
    check_varint(kernel, python, bytes(VarLong.build(number)) + trailing)


@both_types
def test_all_varints_of_one_and_two_bytes(kernel: KernelDecoder, python: PythonDecoder) -> None:
    for first in range(256):
        check_varint(kernel, python, bytes([first]))
        for second in range(256):
            check_varint(kernel, python, bytes([first, second]))


@both_types
def test_every_last_byte_of_a_varint_of_every_length(kernel: KernelDecoder, python: PythonDecoder) -> None:
    """Excess bits are dropped; a continuation bit in the last allowed byte is refused, and so is a missing byte."""
    for length in range(12):
        for filler in (0x80, 0xFF, 0xAA):
            for last in range(256):
                check_varint(kernel, python, bytes([filler]) * length + bytes([last]))
            check_varint(kernel, python, bytes([filler]) * length)


@both_types
def test_varints_at_borders(kernel: KernelDecoder, python: PythonDecoder) -> None:
    for bit in range(64):
        for number in {2**bit - 1, -(2**bit), -(2**bit) + 1, min(2**bit, 2**63 - 1)}:
            check_varint(kernel, python, bytes(VarLong.build(number)))
