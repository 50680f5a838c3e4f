"""Headers of every format, read by both decoders of format 2."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.checksums import reference_crc32, reference_crc32c
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batch_headers import batch_header, legacy_header, prefix
from tests.parsers.builders import HEADER, NOW, batch, message, record, wrapped_set
from tests.parsers.decoders import Decoder
from tests.parsers.log.test_records import WORKED
from tests.reference.construct_decoder import reference_header

# The emptied batch of section 2.9.
EMPTIED = bytes.fromhex("""
    0000000000000000 00000031 00000004 02 a913cd20 0010 00000009 ffffffffffffffff 0000018bcfe56800
    0000000000000009 0001 00000005 00000000
""")


def test_the_worked_header(decode: Decoder) -> None:
    assert decode.header(WORKED, 4096) == Batch(
        position=4096,
        size=129,
        base_offset=100,
        last_offset=105,
        count=6,
        magic=2,
        partition_leader_epoch=0,
        crc=0xBBBA56AF,
        crc_valid=True,
        attributes=0,
        timestamp_type="CreateTime",
        base_timestamp=NOW,
        max_timestamp=NOW + 9,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        last_sequence=-1,
        last_offset_delta=5,
    )


def test_the_emptied_batch(decode: Decoder) -> None:
    row = decode.header(EMPTIED, 0)
    assert (row.size, row.count, row.crc_valid, row.last_offset) == (61, 0, True, 9)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.last_sequence) == (9, 1, 5, 14)
    assert (row.is_transactional, row.is_control, row.base_timestamp, row.delete_horizon_ms) == (True, False, -1, None)


@pytest.mark.parametrize("at", [*range(8), *range(12, len(WORKED))])
def test_the_checksum_covers_the_same_bytes_as_in_kafka(decode: Decoder, at: int) -> None:
    """It does not cover base offset, length, leader epoch and magic."""
    data = bytearray(WORKED)
    data[at] ^= 1
    assert decode.header(bytes(data), 0).crc_valid is (at < 17)


def test_the_checksum_is_crcmods() -> None:
    assert batch_header(WORKED, 0).crc == reference_crc32c()(WORKED[21:])
    assert legacy_header(message(), 0).crc == reference_crc32()(message()[16:])


@given(raw=st.binary(min_size=61, max_size=90), length=st.integers(49, 120))
def test_decoders_agree_on_any_header(raw: bytes, length: int) -> None:
    data = raw[:8] + length.to_bytes(4, "big") + raw[12:]
    assert batch_header(data, 7) == reference_header(data, 7)


@given(
    base=st.integers(-(2**31), 2**31 - 1),
    delta=st.integers(-(2**31), 2**31 - 1),
    offset=st.integers(2**63 - 9, 2**63 - 1),
)
def test_decoders_agree_on_sums_that_overflow(base: int, delta: int, offset: int) -> None:
    data = batch(base_offset=offset, base_sequence=base, last_offset_delta=delta)
    row = batch_header(data, 0)
    assert row == reference_header(data, 0)
    assert -(2**31) <= (row.last_sequence or 0) < 2**31
    assert -(2**63) <= row.last_offset < 2**63


def test_last_sequence_wraps_but_minus_one_stays(decode: Decoder) -> None:
    assert decode.header(batch(base_sequence=2147483646, last_offset_delta=2), 0).last_sequence == 0
    assert decode.header(batch(base_sequence=-1, last_offset_delta=2), 0).last_sequence == -1
    assert decode.header(batch(base_sequence=-7, last_offset_delta=2), 0).last_sequence == -5


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        (0x00, ("none", "CreateTime", False, False, None)),
        (0x0B, ("lz4", "LogAppendTime", False, False, None)),
        (0x14, ("zstd", "CreateTime", True, False, None)),
        (0x30, ("none", "CreateTime", True, True, None)),
        (0x42, ("snappy", "CreateTime", False, False, 5)),
        (0x07, (None, "CreateTime", False, False, None)),
        (0x7F00, ("none", "CreateTime", False, False, None)),
    ],
)
def test_attributes(decode: Decoder, attributes: int, expected: tuple[str | None, str, bool, bool, int | None]) -> None:
    row = decode.header(batch(attributes=attributes, base_timestamp=5), 0)
    flags = (row.is_transactional, row.is_control)
    assert (row.compression_type, row.timestamp_type, *flags, row.delete_horizon_ms) == expected
    assert row.attributes == attributes


def test_with_a_given_checksum_the_header_is_enough() -> None:
    data = batch(record())
    crc = reference_crc32c()(data[21:])
    assert batch_header(data[: HEADER.size], 3, crc_of_rest=crc) == batch_header(data, 3)
    old = message()
    assert legacy_header(old[:26], 3, crc_of_rest=reference_crc32()(old[16:])) == legacy_header(old, 3)


def test_a_batch_smaller_than_a_header_is_not_valid() -> None:
    """Kafka's isValid requires 61 bytes, whatever the checksum."""
    data = bytes(BATCH_HEADER.build(dict.fromkeys(HEADER.names, 0) | {"length": 40, "magic": 2}))
    crc = reference_crc32c()(data[21:52])
    spoilt = data[:17] + crc.to_bytes(4, "big") + data[21:]
    assert not batch_header(spoilt, 0).crc_valid
    assert not batch_header(spoilt, 0, crc_of_rest=crc).crc_valid


@pytest.mark.parametrize(
    ("raw", "offset", "count", "timestamp", "kind"),
    [
        (message(7, magic=0), 7, 1, -1, "NoTimestampType"),
        (message(7, magic=1), 7, 1, NOW, "CreateTime"),
        (message(7, magic=1, attributes=8), 7, 1, NOW, "LogAppendTime"),
        (wrapped_set(1, 1, 5), None, None, NOW, "CreateTime"),
    ],
    ids=["v0", "v1", "append time", "wrapper"],
)
def test_headers_of_old_formats(raw: bytes, offset: int | None, count: int | None, timestamp: int, kind: str) -> None:
    row = legacy_header(raw, 11)
    assert (row.position, row.size, row.base_offset, row.last_offset) == (11, len(raw), offset, 7)
    assert (row.count, row.crc_valid, row.max_timestamp, row.timestamp_type) == (count, True, timestamp, kind)
    assert (row.producer_id, row.base_timestamp, row.partition_leader_epoch) == (None, None, None)
    assert (row.is_transactional, row.is_control, row.delete_horizon_ms) == (False, False, None)


@pytest.mark.parametrize("raw", [WORKED, message(magic=0), message(magic=1)], ids=["v2", "v0", "v1"])
def test_fields_with_the_same_position_in_all_formats(raw: bytes) -> None:
    offset, length, magic = prefix(b"xx" + raw, 2)
    assert (offset, length, magic) == (int.from_bytes(raw[:8]), len(raw) - 12, raw[16])
