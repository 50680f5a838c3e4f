"""One record of format 2 in kernels: the addresses and sizes of its fields, if all of them are valid."""

from __future__ import annotations

from kforensics.parsers.format.failures import MOST_HEADERS
from kforensics.parsers.format.layouts import RECORD, RECORD_HEADER
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.intrinsics import load8, shift_right

# In place of the address after a varint, field or record that does not fit or is invalid.
NO_ADDRESS = 0
# How far the bits of the last possible byte are shifted, in an int and a long.
INT_SHIFT, LONG_SHIFT = 28, 63
INT32_MAX = 0x7FFFFFFF
PARSED_FIELDS = ("length", "attributes", "timestamp_delta", "offset_delta", "key", "value", "header_count")
if tuple(field.name for field in RECORD.subcons) != PARSED_FIELDS:
    raise TypeError("the layout of a record has changed; adapt parse_record to layouts.RECORD")
if tuple(field.name for field in RECORD_HEADER.subcons) != ("key", "value"):
    raise TypeError("the layout of a record header has changed; adapt parse_header to layouts.RECORD_HEADER")

# Timestamp delta, offset delta, key (address, size), value (address, size), headers (address, count), address after the
# record. A size of -1 is null.
ParsedRecord = tuple[int, int, int, int, int, int, int, int, int]


# Varints (rules: :mod:`kforensics.parsers.format.integers`) ----------------------------------------------------------


@inlined
def _raw_varint(address: int, end: int, last_shift: int) -> tuple[int, int]:
    """Return the bits of a varint, without those that overflow, and the address after it."""
    raw = shift = 0
    while address < end and shift <= last_shift:
        byte = load8(address)
        address += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            return raw, address
        shift += 7
    return 0, NO_ADDRESS


@compiled
def _multi_byte_int(address: int, end: int) -> tuple[int, int]:
    raw, address = _raw_varint(address, end, INT_SHIFT)
    raw &= 0xFFFFFFFF
    return (raw >> 1) ^ -(raw & 1), address


@inlined
def parse_int(address: int, end: int) -> tuple[int, int]:
    """Return the zigzag int at an address and the address after it."""
    if address >= end:
        return 0, NO_ADDRESS
    byte = load8(address)
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), address + 1
    return _multi_byte_int(address, end)


@compiled
def _multi_byte_long(address: int, end: int) -> tuple[int, int]:
    raw, address = _raw_varint(address, end, LONG_SHIFT)
    return shift_right(raw, 1) ^ -(raw & 1), address


@inlined
def parse_long(address: int, end: int) -> tuple[int, int]:
    """Return the zigzag long at an address and the address after it."""
    if address < end and load8(address) < 0x80:
        byte = load8(address)
        return (byte >> 1) ^ -(byte & 1), address + 1
    return _multi_byte_long(address, end)


# A record -------------------------------------------------------------------------------------------------------------


@inlined
def _parse_bytes(address: int, end: int) -> tuple[int, int, int]:
    """Return the address of length-prefixed bytes, their size (-1 for null) and the address after them."""
    size, address = parse_int(address, end)
    if address == NO_ADDRESS or size > end - address:
        return 0, 0, NO_ADDRESS
    if size < 0:
        return address, -1, address
    return address, size, address + size


@inlined
def parse_header(address: int, end: int) -> tuple[int, int, int, int, int]:
    """Return a header's key (address, size), value (address, size, -1 for null) and the address after it."""
    key_address, key_size, address = _parse_bytes(address, end)
    if address == NO_ADDRESS or key_size < 0:
        return 0, 0, 0, 0, NO_ADDRESS
    value_address, value_size, address = _parse_bytes(address, end)
    return key_address, key_size, value_address, value_size, address


@compiled
def _headers_end(address: int, end: int, count: int) -> int:
    if count < 0 or count > end - address or count > MOST_HEADERS:
        return NO_ADDRESS
    for _ in range(count):
        _, _, _, _, address = parse_header(address, end)
        if address == NO_ADDRESS:
            return NO_ADDRESS
    return address


@inlined
def parse_record(address: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Return the fields of a record.

    Returns:
        see ``ParsedRecord``; the last address is ``NO_ADDRESS`` if any field is invalid.
    """
    length, address = parse_int(address, end)
    # At least one byte each for the attributes, two deltas, two sizes and the header count.
    if address == NO_ADDRESS or length < 6 or length > end - address:
        return 0, 0, 0, 0, 0, 0, 0, 0, NO_ADDRESS
    end = address + length
    timestamp_delta, address = parse_long(address + 1, end)
    if address == NO_ADDRESS:
        return 0, 0, 0, 0, 0, 0, 0, 0, NO_ADDRESS
    offset_delta, address = parse_int(address, end)
    if address == NO_ADDRESS:
        return 0, 0, 0, 0, 0, 0, 0, 0, NO_ADDRESS
    key_address, key_size, address = _parse_bytes(address, end)
    if address == NO_ADDRESS:
        return 0, 0, 0, 0, 0, 0, 0, 0, NO_ADDRESS
    value_address, value_size, address = _parse_bytes(address, end)
    if address == NO_ADDRESS:
        return 0, 0, 0, 0, 0, 0, 0, 0, NO_ADDRESS
    count, headers_address = parse_int(address, end)
    record_end = headers_address
    if count != 0 and headers_address != NO_ADDRESS:
        record_end = _headers_end(headers_address, end, count)
    if record_end != end:
        record_end = NO_ADDRESS
    return (
        timestamp_delta,
        offset_delta,
        key_address,
        key_size,
        value_address,
        value_size,
        headers_address,
        count,
        record_end,
    )


# Sequences -----------------------------------------------------------------------------------------------------------


@inlined
def _int32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@inlined
def add_to_sequence(base: int, delta: int) -> int:
    """Return ``base + delta`` with Kafka's wrap-around, like the function of the pure Python decoder.

    Rule: :func:`kforensics.parsers.format.integers.sequence_after`.
    """
    if base > _int32(INT32_MAX - delta):
        return _int32(delta - _int32(INT32_MAX - base) - 1)
    return _int32(base + delta)
