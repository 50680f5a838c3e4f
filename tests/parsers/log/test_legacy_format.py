"""Messages of format 0 and 1: worked bytes, wrappers of each codec, Kafka's messages, and damaged bytes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.format.decompression import ZSTD
from kforensics.parsers.format.rows import Failure, Record
from kforensics.parsers.log.batch_headers import legacy_header
from kforensics.parsers.log.legacy_format import LegacyMessage, legacy_messages, legacy_records, outer_message
from tests.parsers.builders import (
    CODECS,
    GZIP,
    LZ4,
    NOW,
    SNAPPY,
    compressed,
    legacy_segment,
    message,
    wrapped_set,
    wrapper,
)

WRAPPER_OFFSET = (
    "Found invalid wrapper offset in compressed v1 message set, wrapper offset '3' is less than the last inner "
    "message offset '5' and it is not zero."
)
IRE = "org.apache.kafka.common.InvalidRecordException"
old_codecs = pytest.mark.parametrize("codec", [pytest.param(CODECS[n], id=n) for n in ("gzip", "snappy", "lz4")])
magics = pytest.mark.parametrize("magic", [0, 1])


def rows_of(data: bytes, *, strict: bool = False, budget: int = 1 << 20) -> list[Record | Failure]:
    """Return the rows of an entry."""
    return list(legacy_records(legacy_header(data, 0), data, budget, strict=strict))


def read_records(data: bytes) -> list[Record]:
    """Return the records of an entry, after checking that nothing failed."""
    rows = rows_of(data)
    assert not any(isinstance(row, Failure) for row in rows), rows
    return [row for row in rows if isinstance(row, Record)]


def failure_of(data: bytes, *, strict: bool = False) -> tuple[int, Failure]:
    """Return the number of records before the failure of an entry, and the failure."""
    rows = rows_of(data, strict=strict)
    last = rows[-1]
    assert isinstance(last, Failure)
    return len(rows) - 1, last


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (
            "0000000000000000 00000010 1fecd70a 00 00 00000001 6b 00000001 76",
            Record(0, -1, -1, b"k", b"v", (), 1, 1, 0x1FECD70A, crc_valid=True),
        ),
        (
            "0000000000000002 00000010 b643ca6a 00 00 00000002 6b33 ffffffff",
            Record(2, -1, -1, b"k3", None, (), 2, -1, 0xB643CA6A, crc_valid=True),
        ),
        (
            "0000000000000005 00000018 39268c33 01 00 0000018bcfe56800 00000001 6b 00000001 76",
            Record(5, NOW, -1, b"k", b"v", (), 1, 1, 0x39268C33, crc_valid=True),
        ),
    ],
    ids=["v0", "v0 null", "v1"],
)
def test_the_worked_messages(raw: str, expected: Record) -> None:
    data = bytes.fromhex(raw)
    assert read_records(data) == [expected]
    built = message(expected.offset, expected.key, expected.value, magic=data[16])
    assert built == data


@magics
@old_codecs
def test_a_wrapper_makes_offsets_absolute(magic: int, codec: int) -> None:
    rows = read_records(wrapped_set(magic, codec, first=40))
    assert [(row.offset, row.key, row.value) for row in rows] == [
        (40 + n, b"key-%d" % number, b"value-%d" % number)
        for n, number in enumerate(range(40, 43) if magic == 0 else range(3))
    ]
    assert {row.timestamp for row in rows} == {NOW if magic else -1}
    assert all(row.crc_valid for row in rows)


def test_inner_offsets_with_gaps_are_relative_to_the_last() -> None:
    inner = [message(n, magic=1) for n in (1, 4, 9)]
    assert [row.offset for row in read_records(wrapper(*inner, offset=109))] == [101, 104, 109]


def test_a_wrapper_offset_of_zero_leaves_inner_offsets_unchanged() -> None:
    inner = [message(n, magic=1) for n in range(3)]
    assert [row.offset for row in read_records(wrapper(*inner, offset=0))] == [0, 1, 2]


def test_inner_offsets_overflow_as_in_java() -> None:
    inner = [message((1 << 63) - 1), message(0), message(-(1 << 63))]
    assert [row.offset for row in read_records(wrapper(*inner, offset=2))] == [1, 2 - (1 << 63), 2]


def test_append_time_of_the_wrapper_applies_to_all_inner_messages() -> None:
    inner = [message(n, magic=1, timestamp=n) for n in range(2)]
    late = wrapper(*inner, offset=1, attributes=GZIP | 8, timestamp=NOW + 5)
    assert [row.timestamp for row in read_records(late)] == [NOW + 5] * 2
    assert [row.timestamp for row in read_records(wrapper(*inner, offset=1))] == [0, 1]


def test_inner_messages_may_have_another_format() -> None:
    """KAFKA-4298: each message has its own magic byte."""
    mixed = [message(0, b"a", magic=0), message(1, b"b", magic=1)]
    assert [(row.key, row.timestamp) for row in read_records(wrapper(*mixed, offset=1))] == [(b"a", -1), (b"b", NOW)]


def test_an_inner_message_truncated_at_the_end_is_dropped() -> None:
    inner = message(0) + message(1) + message(2)[:-1]
    rows = read_records(wrapper(offset=1, value=compressed(GZIP, inner)))
    assert [row.offset for row in rows] == [0, 1]


def test_a_wrong_inner_checksum_is_reported_and_hides_nothing() -> None:
    rows = read_records(wrapper(message(0, crc=1), message(1), offset=1))
    assert [(row.crc, row.crc_valid) for row in rows] == [(1, False), (rows[1].crc, True)]


@magics
@pytest.mark.parametrize("size", [-1, -129, -(2**31)])
def test_any_negative_length_is_null_and_kept_as_stored(magic: int, size: int) -> None:
    at = 18 if magic == 0 else 26
    data = message(key=None, value=None, magic=magic)
    data = data[:at] + size.to_bytes(4, "big", signed=True) * 2
    (row,) = read_records(data)
    assert (row.key, row.value, row.key_size, row.value_size) == (None, None, size, size)


@pytest.mark.parametrize(
    ("data", "reason", "exception", "text"),
    [
        (
            wrapper(message(5), offset=3),
            "wrapper",
            IRE,
            WRAPPER_OFFSET,
        ),
        (
            message(1, None, None, magic=0, attributes=GZIP),
            "wrapper",
            IRE,
            "Found invalid compressed record set with null value (magic = 0)",
        ),
        (
            wrapper(offset=1),
            "empty",
            IRE,
            "Found invalid compressed record set with no inner records",
        ),
        (
            wrapper(message(0)[:8] + (13).to_bytes(4, "big") + bytes(13), offset=1),
            "record-size",
            "org.apache.kafka.common.errors.CorruptRecordException",
            "Record size is less than the minimum record overhead (14)",
        ),
        (
            wrapper(message(0)[:8] + (-9).to_bytes(4, "big", signed=True) + bytes(20), offset=1),
            "record-size",
            "org.apache.kafka.common.errors.CorruptRecordException",
            "Record size is less than the minimum record overhead (14)",
        ),
        (wrapper(message(0), codec=5), "codec", "java.lang.IllegalArgumentException", "Unknown compression type id: 5"),
    ],
    ids=["wrapper offset", "null", "empty", "size 13", "size negative", "codec 5"],
)
def test_an_invalid_wrapper_has_kafkas_message(data: bytes, reason: str, exception: str, text: str) -> None:
    given_before, failure = failure_of(data)
    assert (given_before, failure.reason, failure.exception, failure.message) == (0, reason, exception, text)


def test_nested_compression_is_detected_at_the_nested_message() -> None:
    nested = message(1, None, b"x", attributes=GZIP)
    before, failure = failure_of(wrapper(message(0), nested, message(2), offset=2))
    assert (before, failure.reason, failure.message) == (
        1,
        "nested-compression",
        "Inner messages must not be compressed",
    )


def test_zstd_is_read_although_kafka_refuses_it() -> None:
    data = wrapper(message(0), message(1), codec=ZSTD, offset=1)
    assert [row.offset for row in read_records(data)] == [0, 1]
    message_text = "Invalid wrapper compressionType found in legacy deep record iterator 1"
    assert failure_of(data, strict=True)[1].message == message_text


@pytest.mark.parametrize(("at", "reason"), [(18, "key"), (23, "value")])
def test_a_length_beyond_the_message_has_javas_message(at: int, reason: str) -> None:
    data = bytearray(message(0, b"k", b"v", magic=0))
    data[at : at + 4] = (1000).to_bytes(4, "big")
    _, failure = failure_of(bytes(data))
    assert failure.reason == "record-structure"
    names = {
        "key": ("java.lang.IndexOutOfBoundsException", None),
        "value": ("java.lang.IllegalArgumentException", "newLimit > capacity: (1000 > 1)"),
    }
    assert (failure.exception, failure.message) == names[reason]


def test_fields_are_decoded_on_access() -> None:
    """Kafka prints offset and checksum of a message before it detects its corrupt lengths."""
    data = bytearray(message(3, b"k", b"v", magic=0))
    data[18:22] = (1000).to_bytes(4, "big")
    (inner,) = legacy_messages(legacy_header(bytes(data), 0), bytes(data))
    assert isinstance(inner, LegacyMessage)
    assert (inner.offset, inner.codec, inner.magic, inner.crc_valid) == (3, 0, 0, False)


def test_a_file_that_has_shrunk_does_not_crash() -> None:
    data = message()
    for length in range(len(data)):
        rows = list(legacy_records(legacy_header(data, 0), data[:length]))
        assert [row.reason for row in rows if isinstance(row, Failure)] == ["shrunk"]


def test_the_outer_message_is_the_wrapper_itself() -> None:
    data = wrapped_set(1, SNAPPY, 5)
    outer = outer_message(legacy_header(data, 0), data + b"next entry")
    assert (outer.offset, outer.codec, outer.crc_valid, outer.key()) == (7, SNAPPY, True, None)
    assert outer.record().value == outer.value()


@pytest.mark.parametrize("codec", [GZIP, LZ4], ids=["gzip", "lz4"])
def test_the_budget_ends_a_wrapper_with_reason_limit(codec: int) -> None:
    data = wrapper(*(message(n, b"k", bytes(1000)) for n in range(100)), codec=codec, offset=99)
    rows = rows_of(data, budget=50_000)
    assert [row.reason for row in rows if isinstance(row, Failure)] == ["limit"]
    assert len(rows_of(data)) == 100


@settings(max_examples=300)
@given(data=st.data(), magic=st.sampled_from([0, 1]), codec=st.sampled_from([0, GZIP, SNAPPY, LZ4]))
def test_damaged_messages_do_not_crash(data: st.DataObject, magic: int, codec: int) -> None:
    """A failure is the last row. Inner messages are damaged before compression, so that the codec accepts them."""
    inner = bytearray(b"".join(message(n, b"key", b"value", magic=magic) for n in range(3)))
    for _ in range(data.draw(st.integers(0, 5))):
        at = data.draw(st.integers(0, len(inner) - 1))
        inner[at] = data.draw(st.sampled_from([0, 1, 2, 3, 4, 13, 14, 0x7F, 0x80, 0xFF]))
    del inner[data.draw(st.integers(1, len(inner))) :]
    if codec:
        entry = wrapper(codec=codec, magic=magic, offset=2, value=compressed(codec, bytes(inner), magic))
    else:
        entry = message(2, None, bytes(inner), magic=magic)
    rows = rows_of(entry)
    assert all(isinstance(row, Record) for row in rows[:-1])
    assert rows


@magics
@pytest.mark.parametrize("codec", [0, GZIP, SNAPPY, LZ4], ids=["none", "gzip", "snappy", "lz4"])
def test_flipped_bits_of_a_message_do_not_crash(magic: int, codec: int) -> None:
    for entry in legacy_segment(magic, codec):
        for at in range(12, len(entry)):
            for bit in range(8):
                raw = entry[:at] + bytes([entry[at] ^ 1 << bit]) + entry[at + 1 :]
                head = legacy_header(raw, 0)
                assert not head.crc_valid
                assert list(legacy_records(head, raw, 1 << 16))
