"""Payloads in kernels: keys, values and headers in every format, bare or in JSON or CSV; times as text."""

from __future__ import annotations

import numpy as np

from kforensics.parsers.kernels.compiler import compiled, inlined, int64
from kforensics.parsers.kernels.intrinsics import (
    big32,
    big64,
    load8,
    load64,
    store8,
    store16,
    store64,
    wrapping_add,
)
from kforensics.parsers.kernels.put_text import (
    HIGH_BITS,
    PAIRS,
    put_number,
    put_replacement,
    put_utf8,
    python_character,
)
from kforensics.parsers.kernels.record_parser import parse_header
from kforensics.parsers.kernels.redaction import put_redacted
from kforensics.parsers.kernels.templates import (
    AS_BASE64,
    AS_HEX,
    AS_INT,
    AS_LONG,
    AS_REDACTED,
    AS_UTF8,
    BARE,
    IN_CSV,
    IN_JSON,
    QUOTE_SHIFT,
)

HEX_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8).copy()
HEX_PAIRS = np.frombuffer(b"".join(b"%02x" % number for number in range(256)), "<u2").copy()
BASE64_DIGITS = np.frombuffer(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", np.uint8).copy()
# What follows the backslash for a character below 0x20; 0 for six characters as in \\u001f.
ESCAPES = np.zeros(32, np.uint8)
for _character, _letter in zip(b"\b\t\n\f\r", b"btnfr", strict=True):
    ESCAPES[_character] = _letter
QUOTE, BACKSLASH, COMMA, EQUALS, DELETE = ord('"'), ord("\\"), ord(","), ord("="), 0x7F
LINE_FEED, CARRIAGE_RETURN, SPACE = ord("\n"), ord("\r"), ord(" ")
INT_SIZE, LONG_SIZE = 4, 8
# How often a quote is written; in a field of CSV twice.
ONCE, TWICE = 1, 2


def _repeated(byte: int) -> int:
    return int.from_bytes(bytes([byte]) * 8, "little", signed=True)


# Eight times a byte, or minus that.
QUOTES, BACKSLASHES, ONES, MINUS_SPACES = _repeated(QUOTE), _repeated(BACKSLASH), _repeated(1), -_repeated(SPACE)
# Times: milliseconds per day and the parts of a day; the last millisecond of the year 9999.
DAY, HOUR, MINUTE, SECOND = 86_400_000, 3_600_000, 60_000, 1_000
MAX_TIME = 253_402_300_799_999
# Days from 0000-03-01 to 1970-01-01, and of 400 years. Years that begin in March end with the leap day.
EPOCH_DAYS, DAYS_OF_400_YEARS = 719_468, 146_097


# JSON ----------------------------------------------------------------------------------------------------------------


@inlined
def _put_quote(out: int, quotes: int) -> int:
    """Write a quote once or twice."""
    store16(out, QUOTE << 8 | QUOTE)
    return out + quotes


@inlined
def _put_escape(out: int, code: int) -> int:
    """Write a character of 16 bits as four hexadecimal digits."""
    store8(out, BACKSLASH)
    store8(out + 1, ord("u"))
    store8(out + 2, int64(HEX_DIGITS[code >> 12]))
    store8(out + 3, int64(HEX_DIGITS[code >> 8 & 15]))
    store8(out + 4, int64(HEX_DIGITS[code >> 4 & 15]))
    store8(out + 5, int64(HEX_DIGITS[code & 15]))
    return out + 6


@inlined
def _zero_bytes(word: int) -> int:
    """Return a number that is 0 unless some byte of a word is 0, or below a byte that is."""
    return wrapping_add(word, -ONES) & ~word & HIGH_BITS


@inlined
def _is_plain(word: int) -> bool:
    """Return whether JSON needs no escape for any of eight characters, and all of them are ASCII."""
    beyond = (word | wrapping_add(word, ONES)) & HIGH_BITS
    below = wrapping_add(word, MINUS_SPACES) & ~word & HIGH_BITS
    return (beyond | below | _zero_bytes(word ^ QUOTES) | _zero_bytes(word ^ BACKSLASHES)) == 0


@compiled
def _put_json_ascii(out: int, byte: int, quotes: int) -> int:
    """Write one ASCII character."""
    if byte == QUOTE:
        store8(out, BACKSLASH)
        return _put_quote(out + 1, quotes)
    if byte == BACKSLASH:
        store16(out, BACKSLASH << 8 | BACKSLASH)
        return out + 2
    if byte < SPACE:
        letter = int64(ESCAPES[byte])
        if letter:
            store8(out, BACKSLASH)
            store8(out + 1, letter)
            return out + 2
        return _put_escape(out, byte)
    if byte == DELETE:
        return _put_escape(out, byte)
    store8(out, byte)
    return out + 1


@inlined
def _is_active(code: int) -> bool:
    """Return whether a terminal may act on a character; rule: ``kforensics.render.terminal``."""
    return (
        code < 0xA0 or code == 0x61C or 0x200E <= code <= 0x200F or 0x2028 <= code <= 0x202E or 0x2066 <= code <= 0x2069
    )


@compiled
def _put_json_character(out: int, address: int, end: int) -> tuple[int, int]:
    """Write one character that is not ASCII, or its replacement; return the addresses after it in output and input."""
    is_valid, length = python_character(address, end)
    if not is_valid:
        return put_replacement(out), address + length
    code = load8(address) & (0x1F if length == 2 else 0x0F)
    for index in range(1, length):
        code = code << 6 | (load8(address + index) & 0x3F)
    if length < 4 and _is_active(code):
        return _put_escape(out, code), address + length
    for index in range(length):
        store8(out + index, load8(address + index))
    return out + length, address + length


@compiled
def _put_json_text(out: int, address: int, size: int, quotes: int) -> int:
    """Write bytes as a string of JSON; quotes are doubled in CSV."""
    end = address + size
    out = _put_quote(out, quotes)
    while address < end:
        word = load64(address)
        if end - address >= 8 and _is_plain(word):
            store64(out, word)
            out += 8
            address += 8
            continue
        byte = load8(address)
        if byte < 0x80:
            out = _put_json_ascii(out, byte, quotes)
            address += 1
        else:
            out, address = _put_json_character(out, address, end)
    return _put_quote(out, quotes)


# CSV -----------------------------------------------------------------------------------------------------------------


@compiled
def _put_csv_text(out: int, address: int, size: int) -> int:
    """Write bytes as a field of CSV, in quotes if necessary."""
    needs_quotes = size == 0
    for index in range(size):
        byte = load8(address + index)
        needs_quotes |= byte in (COMMA, QUOTE, CARRIAGE_RETURN, LINE_FEED)
    if not needs_quotes:
        return put_utf8(out, address, size)
    out, end = _put_quote(out, ONCE), address + size
    while address < end:
        start = address
        while address < end and load8(address) != QUOTE:
            address += 1
        out = put_utf8(out, start, address - start)
        if address < end:
            out = _put_quote(out, TWICE)
            address += 1
    return _put_quote(out, ONCE)


# Formats of payloads -------------------------------------------------------------------------------------------------


@compiled
def _put_hex(out: int, address: int, size: int) -> int:
    for index in range(size):
        store16(out + 2 * index, int64(HEX_PAIRS[load8(address + index)]))
    return out + 2 * size


@inlined
def _put_base64_group(out: int, group: int) -> int:
    for index in range(4):
        store8(out + index, int64(BASE64_DIGITS[group >> (18 - 6 * index) & 63]))
    return out + 4


@compiled
def _put_base64(out: int, address: int, size: int) -> int:
    end = address + size
    while end - address >= 3:
        out = _put_base64_group(out, load8(address) << 16 | load8(address + 1) << 8 | load8(address + 2))
        address += 3
    if end - address == 2:
        out = _put_base64_group(out, load8(address) << 16 | load8(address + 1) << 8)
        store8(out - 1, EQUALS)
    elif end - address == 1:
        out = _put_base64_group(out, load8(address) << 16)
        store16(out - 2, EQUALS << 8 | EQUALS)
    return out


@compiled
def _put_digits(request: int, out: int, address: int, size: int, payload_format: int) -> int:
    """Write bytes in a format of few characters, which neither JSON nor CSV escapes."""
    if payload_format == AS_REDACTED:
        return put_redacted(request, out, address, size)
    if payload_format == AS_BASE64:
        return _put_base64(out, address, size)
    if payload_format != AS_HEX:
        store8(out, ord("0"))
        store8(out + 1, ord("x"))
        out += 2
    return _put_hex(out, address, size)


@compiled
def put_payload(request: int, out: int, address: int, size: int, style: int) -> int:
    """Write a key or value; return the address after it.

    Args:
        request: address of the request.
        out: where to write.
        address: of the payload.
        size: its bytes; negative for null.
        style: a format and how to quote it, see ``templates.payload_style``.
    """
    payload_format, quoting = style & ((1 << QUOTE_SHIFT) - 1), style >> QUOTE_SHIFT
    if size < 0:
        if quoting != IN_JSON:
            return out
        store8(out, ord("n"))
        store8(out + 1, ord("u"))
        store16(out + 2, ord("l") << 8 | ord("l"))
        return out + 4
    if payload_format == AS_UTF8:
        if quoting == IN_JSON:
            return _put_json_text(out, address, size, ONCE)
        return _put_csv_text(out, address, size) if quoting == IN_CSV else put_utf8(out, address, size)
    if payload_format == AS_INT and size == INT_SIZE:
        return put_number(out, big32(address))
    if payload_format == AS_LONG and size == LONG_SIZE:
        return put_number(out, big64(address))
    is_quoted = quoting == IN_JSON or (quoting != BARE and size == 0 and payload_format in (AS_HEX, AS_BASE64))
    if is_quoted:
        out = _put_quote(out, ONCE)
    out = _put_digits(request, out, address, size, payload_format)
    return _put_quote(out, ONCE) if is_quoted else out


# Headers -------------------------------------------------------------------------------------------------------------


@compiled
def _put_name(out: int, name: int, quotes: int) -> int:
    """Write the name of a member, ``key`` or ``value``, and a colon."""
    out = _put_quote(out, quotes)
    if name == 0:
        for character in b"key":
            store8(out, int64(character))
            out += 1
    else:
        for character in b"value":
            store8(out, int64(character))
            out += 1
    out = _put_quote(out, quotes)
    store8(out, ord(":"))
    return out + 1


@compiled
def _put_header_value(  # noqa: PLR0913, PLR0917  # kernels have no objects to pass around
    request: int, out: int, address: int, size: int, payload_format: int, quotes: int
) -> int:
    if size < 0:
        return put_payload(request, out, address, size, AS_UTF8 | IN_JSON << QUOTE_SHIFT)
    if payload_format == AS_UTF8:
        return _put_json_text(out, address, size, quotes)
    out = _put_quote(out, quotes)
    return _put_quote(_put_digits(request, out, address, size, payload_format), quotes)


@compiled
def put_headers(request: int, out: int, address: int, count: int, style: int) -> int:
    """Write headers as a list of JSON; return the address after it.

    Args:
        request: address of the request.
        out: where to write.
        address: of the headers, which were checked together with the record.
        count: their number.
        style: the format of values and how to quote the list, see ``templates.payload_style``.
    """
    payload_format = style & ((1 << QUOTE_SHIFT) - 1)
    quotes = TWICE if style >> QUOTE_SHIFT == IN_CSV and count else ONCE
    if quotes == TWICE:
        out = _put_quote(out, ONCE)
    store8(out, ord("["))
    out += 1
    for index in range(count):
        key_address, key_size, value_address, value_size, address = parse_header(address, address + (1 << 40))
        store8(out, COMMA)
        out += 1 if index else 0
        store8(out, ord("{"))
        out = _put_name(out + 1, 0, quotes)
        out = _put_json_text(out, key_address, key_size, quotes)
        store8(out, COMMA)
        out = _put_name(out + 1, 1, quotes)
        out = _put_header_value(request, out, value_address, value_size, payload_format, quotes)
        store8(out, ord("}"))
        out += 1
    store8(out, ord("]"))
    out += 1
    return _put_quote(out, ONCE) if quotes == TWICE else out


# Times ---------------------------------------------------------------------------------------------------------------


@inlined
def _put_pair(out: int, number: int, separator: int) -> int:
    """Write two digits and the character after them."""
    store16(out, int64(PAIRS[number]))
    store8(out + 2, separator)
    return out + 3


@compiled
def put_time(out: int, milliseconds: int) -> int:
    """Write a time in quotes, ``null`` if it is outside of the calendar; rule: ``kforensics.render.formats``."""
    if milliseconds < 0 or milliseconds > MAX_TIME:
        return put_payload(0, out, 0, -1, IN_JSON << QUOTE_SHIFT)
    # Rule: Howard Hinnant, "chrono-Compatible Low-Level Date Algorithms", civil_from_days.
    days, rest = milliseconds // DAY + EPOCH_DAYS, milliseconds % DAY
    era, day_of_era = days // DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    day = day_of_year - (153 * month_from_march + 2) // 5 + 1
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = year_of_era + 400 * era + (1 if month <= 2 else 0)
    out = _put_quote(out, ONCE)
    store16(out, int64(PAIRS[year // 100]))
    out = _put_pair(out + 2, year % 100, ord("-"))
    out = _put_pair(out, month, ord("-"))
    out = _put_pair(out, day, ord("T"))
    out = _put_pair(out, rest // HOUR, ord(":"))
    out = _put_pair(out, rest % HOUR // MINUTE, ord(":"))
    out = _put_pair(out, rest % MINUTE // SECOND, ord("."))
    thousandths = rest % SECOND
    store8(out, ord("0") + thousandths // 100)
    out = _put_pair(out + 1, thousandths % 100, ord("Z"))
    return _put_quote(out, ONCE)
