"""Numbers and text in kernels: decimal digits, and bytes as UTF-8, invalid ones replaced as in Java or in Python."""

from __future__ import annotations

import numpy as np

from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.intrinsics import (
    bit_length,
    load8,
    load64,
    store8,
    store16,
    store64,
    trailing_zeros,
)

PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), "<u2").copy()
POWERS = np.array([10**digits for digits in range(19)], np.int64)
# The only number whose absolute value does not fit into an int64.
INT64_MIN = -(1 << 63)
INT64_MIN_DIGITS = np.frombuffer(b"9223372036854775808", np.uint8).copy()
# 1233 / 4096 is slightly more than the decimal logarithm of 2.
LOG_NUMERATOR, LOG_SHIFT = 1233, 12
MINUS, ZERO = ord("-"), ord("0")
HIGH_BITS = int.from_bytes(b"\x80" * 8, signed=True)
# Whose rules for the replacement of invalid bytes apply.
JAVA, PYTHON = 0, 1
# The range of a continuation byte.
CONTINUATION_MIN, CONTINUATION_END = 0x80, 0xC0


@compiled
def is_ascii(address: int, size: int) -> bool:
    """Return whether all bytes are ASCII."""
    all_bits = 0
    for index in range(size):
        all_bits |= load8(address + index)
    return all_bits < 0x80


@inlined
def put_literal(out: int, text: int, length: int) -> int:
    """Write text that is known to be valid; return the address after it."""
    done = 0
    while done < length:
        store64(out + done, load64(text + done))
        done += 8
    return out + length


@compiled
def _put_int64_min(out: int) -> int:
    for digit in INT64_MIN_DIGITS:
        store8(out, int64(digit))
        out += 1
    return out


@inlined
def put_number(out: int, number: int) -> int:
    """Write a number in decimal digits; return the address after it."""
    if number < 0:
        store8(out, MINUS)
        out += 1
        if number == INT64_MIN:
            return _put_int64_min(out)
        number = -number
    if number < 10:
        store8(out, ZERO + number)
        return out + 1
    digits = bit_length(number) * LOG_NUMERATOR >> LOG_SHIFT
    if number >= POWERS[digits]:
        digits += 1
    address = out + digits
    left = np.uint64(number)
    while left >= np.uint64(100):
        rest = left // np.uint64(100)
        address -= 2
        store16(address, int64(PAIRS[left - rest * np.uint64(100)]))
        left = rest
    if left >= np.uint64(10):
        store16(address - 2, int64(PAIRS[left]))
    else:
        store8(address - 1, ZERO + int64(left))
    return out + digits


@inlined
def _is_in_range(address: int, end: int, low: int, high: int) -> bool:
    if address >= end:
        return False
    byte = load8(address)
    return low <= byte < high


@compiled
def multi_byte_character(address: int, end: int) -> tuple[bool, int]:
    """Return whether a valid character of several bytes begins here, and the bytes of the character or replacement.

    Like Java and Python, this replaces the longest prefix of a valid character with one U+FFFD. As in Java, an encoded
    surrogate is one replacement.
    """
    lead = load8(address)
    if 0xC2 <= lead < 0xE0:
        return (True, 2) if _is_in_range(address + 1, end, CONTINUATION_MIN, CONTINUATION_END) else (False, 1)
    if lead < 0xE0 or lead > 0xF4:
        return False, 1
    low, high = CONTINUATION_MIN, CONTINUATION_END
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x90
    if not _is_in_range(address + 1, end, low, high):
        return False, 1
    if not _is_in_range(address + 2, end, CONTINUATION_MIN, CONTINUATION_END):
        return False, 2
    if lead < 0xF0:
        return lead != 0xED or load8(address + 1) < 0xA0, 3
    return (True, 4) if _is_in_range(address + 3, end, CONTINUATION_MIN, CONTINUATION_END) else (False, 3)


@compiled
def python_character(address: int, end: int) -> tuple[bool, int]:
    """Return like :func:`multi_byte_character`, except that each byte of an encoded surrogate is one replacement."""
    if load8(address) == 0xED and _is_in_range(address + 1, end, 0xA0, CONTINUATION_END):
        return False, 1
    return multi_byte_character(address, end)


@inlined
def put_replacement(out: int) -> int:
    """Write U+FFFD; return the address after it."""
    store8(out, 0xEF)
    store8(out + 1, 0xBF)
    store8(out + 2, 0xBD)
    return out + 3


@compiled
def _put_characters(out: int, address: int, end: int, rules: int) -> int:
    while address < end:
        word = load64(address)
        high = word & HIGH_BITS
        store64(out, word)
        ascii_length = min(end - address, trailing_zeros(high) >> 3 if high else 8)
        address += ascii_length
        out += ascii_length
        if ascii_length < 8 and address < end:
            is_valid, length = multi_byte_character(address, end) if rules == JAVA else python_character(address, end)
            if is_valid:
                for index in range(length):
                    store8(out + index, load8(address + index))
                out += length
            else:
                out = put_replacement(out)
            address += length
    return out


@inlined
def put_text(out: int, address: int, size: int) -> int:
    """Write bytes as UTF-8 and replace invalid ones like Java; return the address after the text."""
    end = address + size
    while end - address >= 32:
        first, second = load64(address), load64(address + 8)
        third, fourth = load64(address + 16), load64(address + 24)
        if (first | second | third | fourth) & HIGH_BITS:
            return _put_characters(out, address, end, JAVA)
        store64(out, first)
        store64(out + 8, second)
        store64(out + 16, third)
        store64(out + 24, fourth)
        address += 32
        out += 32
    while address < end:
        word = load64(address)
        left = end - address
        if word & HIGH_BITS and trailing_zeros(word & HIGH_BITS) < 8 * left:
            return _put_characters(out, address, end, JAVA)
        store64(out, word)
        if left <= 8:
            return out + left
        address += 8
        out += 8
    return out


@inlined
def put_utf8(out: int, address: int, size: int) -> int:
    """Write bytes as UTF-8 and replace invalid ones like Python; return the address after the text."""
    return _put_characters(out, address, address + size, PYTHON)
