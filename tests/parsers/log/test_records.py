"""Records of format 2, read by both decoders: worked bytes, every rule of Kafka's iterator, and damaged bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.format.decompression import DEFAULT_BUDGET, Decompressed
from kforensics.parsers.format.failures import MOST_HEADERS
from kforensics.parsers.format.integers import VarInt, sequence_after
from kforensics.parsers.format.rows import Batch, Failure, Record
from kforensics.parsers.log.batch_headers import batch_header
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.records import Payload, open_payload
from tests.parsers.builders import CODECS, GZIP, NONE, NOW, batch, batch_of, compressed, record, varint
from tests.parsers.decoders import OPTIMIZED, Decoder, check_ran, same, split

# Section 2.9 of the format notes: 129 bytes, six records.
WORKED = bytes.fromhex("""
    0000000000000064 00000075 00000000 02 bbba56af 0000 00000005
    0000018bcfe56800 0000018bcfe56809 ffffffffffffffff ffff ffffffff 00000006
    14 00 00 00 04 6b31 04 7631 00
    10 00 0a 02 01 04 7632 00
    10 00 06 04 04 6b33 01 00
    0c 00 08 06 01 01 00
    0c 00 02 08 00 00 00
    30 00 12 0a 0e 68c3a961646572 02 78 04 04 6831 02 61 06 682c32 01
""")
OVERLONG = b"\xff" * 5
codecs = pytest.mark.parametrize("codec", [pytest.param(number, id=name) for name, number in CODECS.items()])


def test_the_worked_batch(decode: Decoder) -> None:
    rows = decode.rows(WORKED)
    assert rows == [
        Record(100, NOW, -1, b"k1", b"v1", (), 2, 2),
        Record(101, NOW + 5, -1, None, b"v2", (), -1, 2),
        Record(102, NOW + 3, -1, b"k3", None, (), 2, -1),
        Record(103, NOW + 4, -1, None, None, (), -1, -1),
        Record(104, NOW + 1, -1, b"", b"", (), 0, 0),
        Record(105, NOW + 9, -1, "héader".encode(), b"x", ((b"h1", b"a"), (b"h,2", None)), 7, 1),
    ]


def test_the_check_of_the_decoder_can_fail() -> None:
    rows = OPTIMIZED.records(*_opened(WORKED))
    check_ran("optimized", rows)
    with pytest.raises(AssertionError):
        check_ran("reference", rows)


@codecs
def test_every_codec_returns_the_same_records(decode: Decoder, codec: int) -> None:
    plain = [record(n, b"key", b"value" * n, [(b"h", b"%d" % n)]) for n in range(20)]
    assert decode.rows(batch(*plain, codec=codec)) == decode.rows(batch(*plain))


def test_a_delete_horizon_does_not_change_timestamps(decode: Decoder) -> None:
    """The base timestamp is the horizon, and the worked delta is minus one day."""
    first = bytes.fromhex("1400ffefb25204026b0100")
    (row,) = decode.rows(batch(first, attributes=0x40, base_timestamp=1700086400000))
    assert isinstance(row, Record)
    assert (row.timestamp, row.key, row.value) == (1700000000000, b"k", None)


def test_append_time_applies_to_every_record(decode: Decoder) -> None:
    records, _ = split(decode.rows(batch(record(timestamp_delta=5), record(1), attributes=8, max_timestamp=NOW + 77)))
    assert [row.timestamp for row in records] == [NOW + 77, NOW + 77]


@pytest.mark.parametrize(
    ("base", "sequences"),
    [(2**31 - 2, [2**31 - 2, 2**31 - 1, 0]), (0, [0, 1, 2]), (-1, [-1, -1, -1]), (-7, [-1, -1, -1])],
)
def test_sequences_wrap_to_zero(decode: Decoder, base: int, sequences: list[int]) -> None:
    records, _ = split(decode.rows(batch(record(0), record(1), record(2), base_sequence=base)))
    assert [row.sequence for row in records] == sequences


@pytest.mark.parametrize(
    ("base", "delta", "last"),
    [(5, -247, 2147483406), (2147483646, 2, 0), (2**31 - 1, 1, 0), (-7, 3, -4), (0, 2**31 - 1, 2**31 - 1)],
)
def test_sums_of_sequences_are_as_in_java(base: int, delta: int, last: int) -> None:
    assert sequence_after(base, delta) == last


def test_offsets_and_times_overflow_as_in_java(decode: Decoder) -> None:
    data = batch(record(1, timestamp_delta=1), base_offset=2**63 - 1, base_timestamp=2**63 - 1)
    (row,) = decode.rows(data)
    assert isinstance(row, Record)
    assert (row.offset, row.timestamp) == (-(2**63), -(2**63))


def test_a_count_of_zero_reads_nothing(decode: Decoder) -> None:
    assert decode.rows(batch(record(), count=0)) == []


# Kafka's messages, section 2.7: (payload, count, reason, exception, message), uncompressed.
IRE = "org.apache.kafka.common.InvalidRecordException"
IAE = "java.lang.IllegalArgumentException"
STRUCTURE = "Found invalid record structure"
VARINT_WORDS = "Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff"
EARLY = "Incorrect declared batch size, premature EOF reached"
FAILURES = {
    "negative count": (record(), -3, "record-count", IRE, "Found invalid record count -3 in magic v2 batch"),
    "too few": (record(), 2, "record-count", IRE, EARLY),
    "too many": (
        record() * 2,
        1,
        "record-count",
        IRE,
        "Incorrect declared batch size, records still remaining in file",
    ),
    "most records there can be": (record(), 2**31 - 1, "record-count", IRE, EARLY),
    "beyond the batch": (
        record(length=100),
        1,
        "record-size",
        IRE,
        "Invalid record size: expected 100 bytes in record payload, but instead the buffer has only 8 remaining bytes.",
    ),
    "too short": (
        record(length=7),
        1,
        "record-size",
        IRE,
        "Invalid record size: expected to read 7 bytes in record payload, but instead read 8",
    ),
    "negative length": (
        record(length=-5),
        1,
        "record-size",
        IRE,
        "Invalid record size: expected to read -5 bytes in record payload, but instead read 8",
    ),
    "over-long length": (OVERLONG + record(), 1, "record-structure", IAE, VARINT_WORDS),
    "over-long delta": (varint(20) + b"\0\0" + OVERLONG + bytes(20), 1, "record-structure", IRE, STRUCTURE),
    "key beyond": (varint(5) + b"\0\0\0" + varint(90) + b"k", 1, "record-structure", IRE, STRUCTURE),
    "cut fields": (varint(1) + b"\0", 1, "record-structure", IRE, STRUCTURE),
    "negative headers": (
        record(header_count=-2),
        1,
        "record-headers",
        IRE,
        "Found invalid number of record headers -2",
    ),
    "more headers than bytes": (
        record(header_count=2**31 - 1),
        1,
        "record-headers",
        IRE,
        "Found invalid number of record headers. 2147483647 is larger than the remaining size of the buffer",
    ),
    "header without key": (
        varint(10) + b"\0\0\0" + b"\x02k\x02v" + varint(1) + varint(-9) + varint(-1),
        1,
        "record-headers",
        IRE,
        "Invalid negative header key size -9",
    ),
}


@pytest.mark.parametrize("name", FAILURES)
def test_an_invalid_record_has_its_reason(decode: Decoder, name: str) -> None:
    payload, count, reason, _, _ = FAILURES[name]
    assert split(decode.rows(batch_of(payload, count=count)))[1] == reason


@pytest.mark.parametrize("name", FAILURES)
def test_an_invalid_record_has_kafkas_message(name: str) -> None:
    payload, count, reason, exception, message = FAILURES[name]
    last = OPTIMIZED.rows(batch_of(payload, count=count))[-1]
    assert isinstance(last, Failure)
    assert (last.reason, last.exception, last.message) == (reason, exception, message)


COMPRESSED_FAILURES = {
    "negative length": (record(length=-5), EARLY),
    "over-long length": (OVERLONG + record(), EARLY),
    "cut record": (
        record()[:-3],
        "Invalid record size: expected 8 bytes in record payload, but the record payload reached EOF.",
    ),
    "cut length": (b"\x80", EARLY),
    "nothing": (b"", EARLY),
    "remaining": (record() * 2, "Incorrect declared batch size, records still remaining in file"),
    "key beyond record": (varint(5) + b"\0\0\0" + varint(90) + b"k" + bytes(99), STRUCTURE),
}


@pytest.mark.parametrize("name", COMPRESSED_FAILURES)
def test_an_invalid_record_of_a_compressed_batch_has_kafkas_message(name: str) -> None:
    payload, message = COMPRESSED_FAILURES[name]
    data = batch_of(compressed(GZIP, payload), attributes=GZIP, count=1)
    same(*_opened(data))
    last = OPTIMIZED.rows(data)[-1]
    assert isinstance(last, Failure)
    assert last.message == message


def test_records_before_the_invalid_one_are_returned(decode: Decoder) -> None:
    data = batch(record(0), record(1), record(2, length=7), record(3))
    records, reason = split(decode.rows(data))
    assert ([row.offset for row in records], reason) == ([0, 1], "record-size")


@pytest.mark.parametrize("codec", [1, 4], ids=["gzip", "zstd"])
def test_records_before_damaged_compressed_bytes_are_returned(decode: Decoder, codec: int) -> None:
    dice = random.Random(3)  # noqa: S311 - dice for a test
    whole = batch(*(record(n, None, dice.randbytes(90)) for n in range(4000)), codec=codec)
    records, reason = split(decode.rows(whole[: len(whole) // 2]))
    assert reason == "decompression"
    assert len(records) > 500
    assert records == split(decode.rows(whole))[0][: len(records)]


def test_strict_omits_the_record_on_which_kafka_fails() -> None:
    head, payload = _opened(batch(record(0), record(1), record(2), count=2))
    assert len(split(list(OPTIMIZED.records(head, payload)))[0]) == 2
    strict = list(_strict(head, payload))
    assert len(split(strict)[0]) == 1


def test_a_wrong_checksum_hides_no_record(decode: Decoder) -> None:
    assert decode.rows(batch(record(), crc=1)) == decode.rows(batch(record()))


# Bounded work --------------------------------------------------------------------------------------------------------


@codecs
def test_the_budget_ends_a_batch_with_reason_limit(codec: int) -> None:
    data = batch(*(record(n, b"%d" % n, bytes(100)) for n in range(300)), codec=codec)
    head = batch_header(data, 0)
    records, reason = same(head, open_payload(head, data, budget=2000))
    assert reason == "limit"
    # A raw snappy block is returned whole or not at all.
    assert len(records) == (0 if codec == CODECS["snappy"] else 18)


def test_a_flood_of_headers_is_a_limit(decode: Decoder) -> None:
    """Two bytes of a batch take sixty bytes of memory, so their number is limited."""
    count = MOST_HEADERS + 1
    body = b"\0\0\0\x01\x01" + varint(count) + b"\0\x01" * count
    assert split(decode.rows(batch_of(varint(len(body)) + body, count=1))) == ([], "limit")


# Damaged bytes -------------------------------------------------------------------------------------------------------


@given(
    data=st.lists(
        st.builds(
            record,
            st.integers(-(2**31), 2**31 - 1),
            st.none() | st.binary(max_size=9),
            st.none() | st.binary(max_size=9),
            st.lists(st.tuples(st.binary(max_size=4), st.none() | st.binary(max_size=4)), max_size=3),
            timestamp_delta=st.integers(-(2**63), 2**63 - 1),
        ),
        max_size=4,
    ),
    codec=st.sampled_from(list(CODECS.values())),
    attributes=st.sampled_from([0, 8, 16, 32, 64]),
    base=st.integers(-(2**63), 2**63 - 1),
)
def test_decoders_agree_on_built_records(data: list[bytes], codec: int, attributes: int, base: int) -> None:
    records, reason = same(
        *_opened(batch(*data, codec=codec, attributes=codec | attributes, base_offset=base, base_timestamp=base))
    )
    assert (len(records), reason) == (len(data), None)


@pytest.mark.slow
@settings(max_examples=400)
@given(data=st.data())
def test_decoders_agree_on_damaged_payloads(sample_logs: Path, data: st.DataObject) -> None:
    """They return the same rows and reason, whatever the damage to the bytes, the count or the stream."""
    head, content = data.draw(st.sampled_from(_payloads(sample_logs)))
    raw = data.draw(_damaged(content))
    count = data.draw(st.sampled_from([head.count or 0, 0, -1, 1, (head.count or 0) + 1, 2**31 - 1]))
    cut = data.draw(st.sampled_from([None, None, Failure("decompression", "E", None), Failure("limit", "E", None)]))
    opened = cut is not None and data.draw(st.booleans())
    payload = Payload(Decompressed(raw, cut, at_open=opened), compressed=data.draw(st.booleans()))
    same(replace(head, count=count), payload)


@codecs
def test_decoders_agree_on_every_truncation(codec: int) -> None:
    data = batch(*(record(n, b"key", b"value" * n, [(b"h", None)]) for n in range(5)), codec=codec)
    whole, _ = same(*_opened(data))
    for length in range(61, len(data)):
        records, reason = same(batch_header(data, 0), open_payload(batch_header(data, 0), data[:length]))
        assert records == whole[: len(records)]
        assert reason is not None


@pytest.mark.parametrize("codec", [NONE, GZIP], ids=["plain", "compressed"])
def test_decoders_agree_on_every_flipped_byte(codec: int) -> None:
    content = b"".join([record(0), record(1, None, b"", [(b"h", b"x")]), record(2, b"", None)])
    head = batch_header(batch(content, count=3), 0)
    for at in range(len(content)):
        for bit in range(8):
            raw = content[:at] + bytes([content[at] ^ 1 << bit]) + content[at + 1 :]
            same(head, Payload(Decompressed(raw), compressed=codec != NONE))


def _opened(data: bytes) -> tuple[Batch, Payload]:
    head = batch_header(data, 0)
    return head, open_payload(head, data, DEFAULT_BUDGET)


def _strict(head: Batch, payload: Payload) -> Iterator[Record | Failure]:
    records: Callable[..., Iterator[Record | Failure]] = OPTIMIZED.records
    return records(head, payload, strict=True)


@cache
def _payloads(sample_logs: Path) -> list[tuple[Batch, bytes]]:
    """Return small payloads of real batches, one of each kind."""
    payloads: dict[tuple[int, ...], tuple[Batch, bytes]] = {}
    for path in sorted((sample_logs / "records").rglob("*.log")) + sorted((sample_logs / "damaged").rglob("*.log")):
        with LocalSource(path) as source:
            for row in walk(source):
                if isinstance(row, Batch) and not row.is_legacy:
                    content = open_payload(row, source.read(row.position, row.size)).stream.data
                    if 0 < len(content) < 300:
                        payloads.setdefault((len(content), row.attributes, row.count or 0), (row, content))
    assert len(payloads) > 50
    return list(payloads.values())


@st.composite
def _damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """Draw a damaged form of a payload; it consists mostly of varints, so extreme ones are inserted."""
    raw = bytearray(content)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(raw) - 1)))
        kind = draw(st.sampled_from(["bit", "varint", "lenient", "cut", "insert", "zero"]))
        if kind == "bit" and raw:
            raw[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == "varint":
            raw[at : at + 1] = VarInt.build(draw(st.sampled_from([0, 1, -1, -2, 64, 300, 2**31 - 1, -(2**31)])))
        elif kind == "lenient":
            raw[at : at + 1] = bytes([raw[at] | 0x80 if raw else 0x80]) + b"\x80" * draw(st.integers(0, 9)) + b"\0"
        elif kind == "cut":
            del raw[at : at + draw(st.integers(1, 30))]
        elif kind == "insert":
            raw[at:at] = draw(st.binary(max_size=8))
        else:
            raw[at : at + 4] = bytes(len(raw[at : at + 4]))
    return bytes(raw)
