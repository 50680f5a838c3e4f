"""Records in kernels against ``parsers.records``: they take what reads without failure, and read it alike."""

from __future__ import annotations

import ctypes
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.failures import MOST_HEADERS
from kforensics.parsers.format.integers import int64
from kforensics.parsers.format.rows import LOG_APPEND_TIME, Batch, Failure, Header, Record
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.record_fields import UNREADABLE, header, record, sequence_after
from kforensics.parsers.log.batches import batch_bytes, walk
from kforensics.parsers.log.headers import batch_header
from kforensics.parsers.log.records import Payload, decode_records, open_payload
from kforensics.parsers.log.records import sequence_after as plain_sequence_after
from tests.parsers.builders import NOW, batch_of, varint
from tests.parsers.builders import record as built_record

Fields = tuple[int, int, int, int, int, int, int, int, int]
BEHIND = b"\x02" * 64


@compiled
def _record(at: int, end: int) -> Fields:
    return record(at, end)


@compiled
def _header(at: int, end: int) -> tuple[int, int, int, int, int]:
    return header(at, end)


@compiled
def _sequence_after(base: int, delta: int) -> int:
    return sequence_after(base, delta)


def _bytes(at: int, size: int) -> bytes | None:
    return None if size < 0 else ctypes.string_at(at, size)


def _headers(at: int, count: int, end: int) -> tuple[Header, ...]:
    found = []
    for _ in range(count):
        key_at, key_size, value_at, value_size, at = _header(at, end)
        assert at != UNREADABLE
        found.append((ctypes.string_at(key_at, key_size), _bytes(value_at, value_size)))
    return tuple(found)


def by_kernel(head: Batch, data: bytes) -> tuple[list[Record], bool]:
    """Return the records that the kernel finds, and whether it takes all of the payload."""
    # What lies behind would read as numbers, should a kernel look at it.
    buffer = ctypes.create_string_buffer(data + BEHIND, len(data) + len(BEHIND))
    at = ctypes.addressof(buffer)
    end = at + len(data)
    found: list[Record] = []
    for _ in range(max(head.count or 0, 0)):
        fields = _record(at, end)
        time, delta, key_at, key_size, value_at, value_size, headers_at, count, at = fields
        if at == UNREADABLE:
            return found, False
        timestamp = head.max_timestamp
        if head.timestamp_type != LOG_APPEND_TIME:
            timestamp = int64((head.base_timestamp or 0) + time)
        key, value, headers = _bytes(key_at, key_size), _bytes(value_at, value_size), _headers(headers_at, count, at)
        base = -1 if head.base_sequence is None else head.base_sequence
        sequence = _sequence_after(base, delta) if base >= 0 else -1
        offset = int64((head.base_offset or 0) + delta)
        found.append(Record(offset, timestamp, sequence, key, value, headers, key_size, value_size))
    # Without a record nobody looks at what is there.
    return found, at == end or not head.count


def check(head: Batch, payload: Payload) -> bool:
    """Fail unless both say the same of a payload; return whether it can be read."""
    rows = list(decode_records(head, payload))
    plain = [row for row in rows if isinstance(row, Record)]
    readable = not any(isinstance(row, Failure) for row in rows)
    found, taken = by_kernel(head, payload.stream.data)
    assert taken == readable
    assert found == plain
    return taken


def check_bytes(data: bytes, count: int = 1, **fields: int) -> bool:
    """Do the same for the payload of a batch that is not compressed."""
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
def test_sound_records_are_taken(records: list[bytes], base: int, first: int, time: int) -> None:
    fields = {"base_sequence": base, "base_offset": first, "base_timestamp": time}
    assert check_bytes(b"".join(records), len(records), **fields)


@given(data=st.data(), records=st.lists(some_records, min_size=1, max_size=3))
@settings(max_examples=1500)
def test_broken_records_are_refused_where_plain_python_fails(data: st.DataObject, records: list[bytes]) -> None:
    broken = bytearray(b"".join(records))
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.one_of(st.sampled_from([0, 1, 2, 3, 0x7F, 0x80, 0xFF]), st.integers(0, 255)))
    whole = bytes(broken[: data.draw(st.one_of(st.just(len(broken)), st.integers(0, len(broken))))])
    check_bytes(whole, data.draw(st.integers(len(records) - 1, len(records) + 1)) or 1)


@given(data=st.binary(max_size=40), length=st.integers(4, 42))
@settings(max_examples=1500)
def test_any_bytes_in_the_place_of_a_record(data: bytes, length: int) -> None:
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
    """Each size may be anything; a negative one of a key or value is null, whatever it is."""
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


def test_more_headers_than_memory_is_spent_on_are_refused() -> None:
    body = b"\0\0\0\x01\x01" + varint(MOST_HEADERS + 1) + b"\0\x01" * (MOST_HEADERS + 1)
    assert not check_bytes(varint(len(body)) + body)


def test_offsets_and_times_overflow_as_in_java() -> None:
    largest = {"base_offset": 2**63 - 1, "base_timestamp": 2**63 - 1}
    assert check_bytes(built_record(2**31 - 1, timestamp_delta=2**63 - 1), **largest)
    assert check_bytes(built_record(-(2**31), timestamp_delta=-(2**63)), base_timestamp=-(2**63))


@given(base=int32, delta=int32)
@settings(max_examples=1000)
def test_sequences_are_summed_alike(base: int, delta: int) -> None:
    assert _sequence_after(base, delta) == plain_sequence_after(base, delta)


def test_sequences_at_borders_are_summed_alike() -> None:
    borders = [number + step for number in (-(2**31), -1, 0, 2**30, 2**31 - 1) for step in (-2, -1, 0, 1, 2)]
    for base in borders:
        for delta in borders:
            if all(-(2**31) <= number < 2**31 for number in (base, delta)):
                assert _sequence_after(base, delta) == plain_sequence_after(base, delta)


def test_records_of_samples_are_read_alike(sample_logs: Path) -> None:
    """Of brokers and of the lab, of every codec, sound and damaged, read where they were decompressed to."""
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


def test_the_time_of_the_builders_is_no_accident() -> None:
    """A timestamp is read from the batch and the record."""
    built = batch_of(built_record(timestamp_delta=7), count=1)
    found, _ = by_kernel(batch_header(built, 0), built[61:])
    assert [row.timestamp for row in found] == [NOW + 7]
