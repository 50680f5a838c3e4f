"""Both varint decoders with the vectors of Kafka's ByteUtilsTest, and compared with each other on any bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from construct import ConstructError
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.format.integers import SizedBytes, VarInt, VarintError, VarLong, read_varint, read_varlong

Read = Callable[[bytes, int], tuple[int, int]]
# Kafka's ByteUtilsTest
INTS = [
    (0, "00"),
    (-1, "01"),
    (1, "02"),
    (63, "7e"),
    (-64, "7f"),
    (64, "8001"),
    (-65, "8101"),
    (8191, "fe7f"),
    (-8192, "ff7f"),
    (8192, "808001"),
    (-8193, "818001"),
    (1048575, "feff7f"),
    (1048576, "80808001"),
    (134217727, "feffff7f"),
    (134217728, "8080808001"),
    (-134217729, "8180808001"),
    (2**31 - 1, "feffffff0f"),
    (-(2**31), "ffffffff0f"),
]
LONGS = [
    (17179869183, "feffffff7f"),
    (17179869184, "808080808001"),
    (2**63 - 1, "feffffffffffffffff01"),
    (-(2**63), "ffffffffffffffffff01"),
    (-86400000, "ffefb252"),
]
LENIENT = [(0, "8080808000"), (0, "8000"), (1, "8280808000"), (1, "8280808010"), (-1, "ffffffff7f")]
short_bytes = st.one_of(
    st.binary(max_size=12),
    st.lists(st.sampled_from([0, 1, 0x7F, 0x80, 0x81, 0xFF]), max_size=12).map(bytes),
)


@pytest.mark.parametrize(("number", "raw"), INTS)
def test_ints_are_kafkas(number: int, raw: str) -> None:
    data = bytes.fromhex(raw)
    assert read_varint(data, 0) == (number, len(data))
    assert VarInt.parse(data) == number
    assert VarInt.build(number) == data


@pytest.mark.parametrize(("number", "raw"), [*INTS, *LONGS])
def test_longs_are_kafkas(number: int, raw: str) -> None:
    data = bytes.fromhex(raw)
    assert read_varlong(data, 0) == (number, len(data))
    assert VarLong.parse(data) == number
    assert VarLong.build(number) == data


@pytest.mark.parametrize(("number", "raw"), LENIENT[:3])
def test_overlong_encodings_of_small_numbers_are_accepted(number: int, raw: str) -> None:
    assert read_varint(bytes.fromhex(raw), 0)[0] == VarInt.parse(bytes.fromhex(raw)) == number


def test_bits_beyond_the_width_are_dropped() -> None:
    assert read_varint(bytes.fromhex("8280808010"), 0) == (1, 5)
    assert VarInt.parse(bytes.fromhex("8280808010")) == 1
    assert read_varlong(bytes.fromhex("8280808080808080807e"), 0)[0] == 1
    assert VarLong.parse(bytes.fromhex("8280808080808080807e")) == 1


def test_a_continuation_bit_in_the_last_byte_is_refused_with_kafkas_message() -> None:
    with pytest.raises(VarintError) as caught:
        read_varint(b"\xff" * 5, 0)
    message = "Varint is too long, the most significant bit in the 5th byte is set, converted value: ffffffff"
    assert str(caught.value) == message
    with pytest.raises(VarintError) as caught:
        read_varlong(b"\x80" * 9 + b"\x81", 0)
    message = "Varlong is too long, most significant bit in the 10th byte is set, converted value: 8000000000000000"
    assert str(caught.value) == message


@pytest.mark.parametrize(("read", "layout"), [(read_varint, VarInt), (read_varlong, VarLong)], ids=["int", "long"])
@given(data=short_bytes)
def test_both_decoders_agree_on_any_bytes(read: Read, layout: Any, data: bytes) -> None:
    expected: int | None
    try:
        expected, _ = read(data, 0)
    except (IndexError, VarintError):
        expected = None
    try:
        parsed = layout.parse(data)
    except ConstructError:
        parsed = None
    assert parsed == expected


@given(number=st.integers(-(2**63), 2**63 - 1), before=st.binary(max_size=3), after=st.binary(max_size=3))
def test_a_number_is_read_at_its_position(number: int, before: bytes, after: bytes) -> None:
    raw = bytes(VarLong.build(number))
    assert read_varlong(before + raw + after, len(before)) == (number, len(before) + len(raw))


@pytest.mark.parametrize("read", [read_varint, read_varlong], ids=["int", "long"])
@pytest.mark.parametrize("raw", [b"", b"\x80", b"\xff\xff\xff"], ids=bytes.hex)
def test_an_end_inside_a_varint_is_an_index_error(read: Read, raw: bytes) -> None:
    with pytest.raises(IndexError):
        read(raw, 0)


@pytest.mark.parametrize(
    ("data", "raw"), [(None, "01"), (b"", "00"), (b"ab", "046162")], ids=["null", "empty", "two bytes"]
)
def test_length_prefixed_bytes(data: bytes | None, raw: str) -> None:
    assert SizedBytes.build(data) == bytes.fromhex(raw)
    assert SizedBytes.parse(bytes.fromhex(raw)) == data


def test_any_negative_length_is_null() -> None:
    assert SizedBytes.parse(VarInt.build(-77) + b"abc") is None


def test_a_corrupt_length_is_refused_before_reading() -> None:
    with pytest.raises(ConstructError, match="2147483647 bytes announced, 3 left"):
        SizedBytes.parse(VarInt.build(2**31 - 1) + b"abc")
