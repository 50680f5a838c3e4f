"""Numbers and UTF-8 as text in kernels."""

from __future__ import annotations

import numpy as np

from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.machine import bit_length, load8, load64, store8, store16, store64, trailing_zeros

__all__ = ["put_literal", "put_number", "put_text"]

PAIRS = np.frombuffer(b"".join(b"%02d" % number for number in range(100)), "<u2").copy()
POWERS = np.array([10**digits for digits in range(19)], np.int64)
# The one number whose absolute value is no int64.
LEAST = -(1 << 63)
LEAST_DIGITS = np.frombuffer(b"9223372036854775808", np.uint8).copy()
# 1233 / 4096 is a little more than the decimal logarithm of 2.
LOG_NUMERATOR, LOG_SHIFT = 1233, 12
MINUS, ZERO = ord("-"), ord("0")
HIGH_BITS = int.from_bytes(b"\x80" * 8, signed=True)
CONTINUES_AT, CONTINUES_BELOW = 0x80, 0xC0


@inlined
def put_literal(out: int, text: int, length: int) -> int:
    """Write text that is as it should be; return the address behind it."""
    done = 0
    while done < length:
        store64(out + done, load64(text + done))
        done += 8
    return out + length


@compiled
def _put_least(out: int) -> int:
    for digit in LEAST_DIGITS:
        store8(out, int64(digit))
        out += 1
    return out


@inlined
def put_number(out: int, number: int) -> int:
    """Write a number in decimal digits; return the address behind it."""
    if number < 0:
        store8(out, MINUS)
        out += 1
        if number == LEAST:
            return _put_least(out)
        number = -number
    if number < 10:
        store8(out, ZERO + number)
        return out + 1
    digits = bit_length(number) * LOG_NUMERATOR >> LOG_SHIFT
    if number >= POWERS[digits]:
        digits += 1
    at = out + digits
    left = np.uint64(number)
    while left >= np.uint64(100):
        rest = left // np.uint64(100)
        at -= 2
        store16(at, int64(PAIRS[left - rest * np.uint64(100)]))
        left = rest
    if left >= np.uint64(10):
        store16(at - 2, int64(PAIRS[left]))
    else:
        store8(at - 1, ZERO + int64(left))
    return out + digits


@inlined
def _continues(at: int, end: int, low: int, high: int) -> bool:
    if at >= end:
        return False
    byte = load8(at)
    return low <= byte < high


@compiled
def _sign(at: int, end: int) -> tuple[bool, int]:
    """Return whether a sign of more than one byte is there, and its length or that of what is replaced.

    Of bytes that are no sign, as many are replaced by one U+FFFD as could begin one; so do Java and Python. An encoded
    surrogate is one replacement in Java.
    """
    lead = load8(at)
    if 0xC2 <= lead < 0xE0:
        return (True, 2) if _continues(at + 1, end, CONTINUES_AT, CONTINUES_BELOW) else (False, 1)
    if lead < 0xE0 or lead > 0xF4:
        return False, 1
    low, high = CONTINUES_AT, CONTINUES_BELOW
    if lead == 0xE0:
        low = 0xA0
    elif lead == 0xF0:
        low = 0x90
    elif lead == 0xF4:
        high = 0x90
    if not _continues(at + 1, end, low, high):
        return False, 1
    if not _continues(at + 2, end, CONTINUES_AT, CONTINUES_BELOW):
        return False, 2
    if lead < 0xF0:
        return lead != 0xED or load8(at + 1) < 0xA0, 3
    return (True, 4) if _continues(at + 3, end, CONTINUES_AT, CONTINUES_BELOW) else (False, 3)


@compiled
def _put_signs(out: int, at: int, end: int) -> int:
    while at < end:
        word = load64(at)
        high = word & HIGH_BITS
        store64(out, word)
        plain = min(end - at, trailing_zeros(high) >> 3 if high else 8)
        at += plain
        out += plain
        if plain < 8 and at < end:
            good, length = _sign(at, end)
            if good:
                for index in range(length):
                    store8(out + index, load8(at + index))
                out += length
            else:
                store8(out, 0xEF)
                store8(out + 1, 0xBF)
                store8(out + 2, 0xBD)
                out += 3
            at += length
    return out


@inlined
def put_text(out: int, at: int, size: int) -> int:
    """Write bytes as UTF-8, with Java's replacement for what is none; return the address behind it."""
    end = at + size
    while end - at >= 32:
        first, second, third, fourth = load64(at), load64(at + 8), load64(at + 16), load64(at + 24)
        if (first | second | third | fourth) & HIGH_BITS:
            return _put_signs(out, at, end)
        store64(out, first)
        store64(out + 8, second)
        store64(out + 16, third)
        store64(out + 24, fourth)
        at += 32
        out += 32
    while at < end:
        word = load64(at)
        left = end - at
        if word & HIGH_BITS and trailing_zeros(word & HIGH_BITS) < 8 * left:
            return _put_signs(out, at, end)
        store64(out, word)
        if left <= 8:
            return out + left
        at += 8
        out += 8
    return out
