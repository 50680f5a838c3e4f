"""Numbers and UTF-8 text written by kernels, in memory that ends with an inaccessible page."""

from __future__ import annotations

import ctypes
import mmap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.kernels.compiler import compiled
from kforensics.parsers.kernels.put_text import put_literal, put_number, put_text
from kforensics.parsers.kernels.request import SLACK

pytestmark = pytest.mark.slow  # compiles kernels of its own

CANARY = b"\xee"
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1
BORDERS = [0, 1, 9, 10, 99, 100, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1]
# Bytes at the borders of the ranges that UTF-8 allows.
LEADS = [*range(0xBF, 0x100)]
TRAILS = [0x00, 0x41, 0x7F, 0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC3, 0xE2, 0xED, 0xF0, 0xFF]


@compiled
def _number(out: int, number: int) -> int:
    return put_number(out, number)


@compiled
def _text(out: int, address: int, size: int) -> int:
    return put_text(out, address, size)


@compiled
def _literal(out: int, address: int, size: int) -> int:
    return put_literal(out, address, size)


class Fenced:
    """Memory followed by an inaccessible page."""

    def __init__(self, size: int) -> None:
        whole = -(-size // mmap.PAGESIZE) * mmap.PAGESIZE
        self._pages = mmap.mmap(-1, whole + mmap.PAGESIZE)
        self._held = ctypes.c_char.from_buffer(self._pages)
        self.end = ctypes.addressof(self._held) + whole
        assert ctypes.CDLL(None).mprotect(ctypes.c_void_p(self.end), ctypes.c_size_t(mmap.PAGESIZE), 0) == 0


SOURCE, TARGET = Fenced(1 << 16), Fenced(1 << 18)


def written(data: bytes) -> bytes:
    """Return the text that the kernel writes for bytes; an access out of bounds ends the process."""
    address = SOURCE.end - SLACK - len(data)
    ctypes.memmove(address, data + b"\xc3" * SLACK, len(data) + SLACK)
    out = TARGET.end - SLACK - 3 * len(data)
    ctypes.memmove(out - 1, CANARY, 1)
    end = _text(out, address, len(data))
    assert ctypes.string_at(out - 1, 1) == CANARY
    return ctypes.string_at(out, end - out)


def check(data: bytes) -> None:
    """Fail unless the kernel replaces invalid bytes like Java."""
    assert written(data) == java_utf8(data).encode(), data.hex(" ")


def number_text(number: int) -> bytes:
    """Return a number as the kernel writes it into at most 20 bytes."""
    out = TARGET.end - 20
    end = _number(out, number)
    return ctypes.string_at(out, end - out)


@pytest.mark.parametrize("digits", range(1, 20))
def test_numbers_of_every_length(digits: int) -> None:
    for number in (
        10 ** (digits - 1),
        10**digits - 1,
        10**digits // 2,
        10**digits // 9,
        int("1234567890123456789"[:digits]),
    ):
        if number <= INT64_MAX:
            assert number_text(number) == b"%d" % number
            assert number_text(-number) == b"-%d" % number


def test_numbers_at_borders() -> None:
    for bit in range(63):
        for number in (2**bit - 1, 2**bit, 2**bit + 1):
            assert number_text(number) == b"%d" % number
            assert number_text(-number) == b"%d" % -number
    for number in BORDERS:
        assert number_text(number) == b"%d" % number


@given(number=st.integers(INT64_MIN, INT64_MAX))
@settings(max_examples=1000)
def test_any_number(number: int) -> None:
    assert number_text(number) == b"%d" % number


@given(data=st.one_of(st.binary(max_size=200), st.lists(st.sampled_from([*LEADS, *TRAILS]), max_size=200).map(bytes)))
@settings(max_examples=1000)
def test_any_bytes_are_written_as_java_decodes_them(data: bytes) -> None:
    check(data)


@given(text=st.text(max_size=120), cut=st.integers(0, 3))
@settings(max_examples=1000)
def test_any_text_is_written_unchanged_and_cut_text_as_java_decodes_it(text: str, cut: int) -> None:
    data = text.encode("utf-8", "surrogatepass")
    check(data)
    check(data[: len(data) - cut])


def test_all_sequences_of_two_bytes() -> None:
    for first in range(0x80, 0x100):
        for second in range(0x100):
            check(bytes([first, second]))
            check(bytes([first, second, 0x61]))


def test_sequences_of_three_bytes() -> None:
    for lead in LEADS:
        for second in range(0x7F, 0xC1):
            for third in TRAILS:
                check(bytes([lead, second, third]))


def test_sequences_of_four_bytes() -> None:
    for lead in range(0xEF, 0xF6):
        for second in (0x7F, 0x80, 0x8F, 0x90, 0xBF, 0xC0):
            for third in TRAILS:
                for fourth in TRAILS:
                    check(bytes([lead, second, third, fourth]))


@pytest.mark.parametrize("character", ["é", "€", "한", "😀", "\U0010ffff"])
def test_a_character_may_be_cut_and_be_anywhere(character: str) -> None:
    whole = character.encode()
    for before in range(70):
        for length in range(1, len(whole) + 1):
            check(b"a" * before + whole[:length])
            check(b"a" * before + whole[:length] + b"b" * 40)


def test_one_invalid_byte_anywhere_in_ascii_text() -> None:
    letters = bytes(range(0x20, 0x7F)) * 2
    for length in range(101):
        check(letters[:length])
        for index in range(length):
            check(letters[:index] + b"\xff" + letters[index + 1 : length])


@pytest.mark.parametrize(
    "data",
    [b"\xff" * 9000, b"a" * 9000, "é".encode() * 4500, b"\xed\xa0\x80" * 3000],
    ids=["invalid", "ASCII", "two bytes", "surrogates"],
)
def test_long_texts_fit_into_three_times_their_size(data: bytes) -> None:
    check(data)


def test_a_literal_is_written_unchanged() -> None:
    for length in range(40):
        data = bytes(range(200, 200 + length))
        address = SOURCE.end - SLACK - length
        ctypes.memmove(address, data, length)
        out = TARGET.end - SLACK - length
        assert _literal(out, address, length) == out + length
        assert ctypes.string_at(out, length) == data
