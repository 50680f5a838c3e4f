"""One record of format 2 in kernels: where its fields are, if all of them are where they should be."""

from __future__ import annotations

from kforensics.parsers.format.failures import MOST_HEADERS
from kforensics.parsers.format.layouts import RECORD, RECORD_HEADER
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.varints import UNREADABLE, varint, varlong

__all__ = ["UNREADABLE", "header", "record", "sequence_after"]

INT32_MAX = 0x7FFFFFFF
READ_HERE = ("length", "attributes", "timestamp_delta", "offset_delta", "key", "value", "header_count")
if tuple(field.name for field in RECORD.subcons) != READ_HERE:
    raise TypeError("the layout of a record has changed; bring `record` below in line with layouts.RECORD")
if tuple(field.name for field in RECORD_HEADER.subcons) != ("key", "value"):
    raise TypeError("the layout of a record's header has changed; bring `header` below in line with RECORD_HEADER")


@inlined
def _sized(at: int, end: int) -> tuple[int, int, int]:
    """Return where sized bytes begin, their size (-1 for null) and the address behind them."""
    size, at = varint(at, end)
    if at == UNREADABLE or size > end - at:
        return 0, 0, UNREADABLE
    if size < 0:
        return at, -1, at
    return at, size, at + size


@inlined
def header(at: int, end: int) -> tuple[int, int, int, int, int]:
    """Return a header's key (address and size), value (address and size, -1 for null) and the address behind it."""
    key_at, key_size, at = _sized(at, end)
    if at == UNREADABLE or key_size < 0:
        return 0, 0, 0, 0, UNREADABLE
    value_at, value_size, at = _sized(at, end)
    return key_at, key_size, value_at, value_size, at


@compiled
def _behind_headers(at: int, end: int, count: int) -> int:
    if count < 0 or count > end - at or count > MOST_HEADERS:
        return UNREADABLE
    for _ in range(count):
        _, _, _, _, at = header(at, end)
        if at == UNREADABLE:
            return UNREADABLE
    return at


@inlined
def record(at: int, end: int) -> tuple[int, int, int, int, int, int, int, int, int]:
    """Return the fields of a record.

    Returns:
        timestamp delta, offset delta, key (address, size), value (address, size), headers (address, number) and the
        address behind the record, ``UNREADABLE`` if anything in it is not as it should be. Null has size -1.
    """
    length, at = varint(at, end)
    # One byte for each of attributes, two deltas, two sizes and the number of headers.
    if at == UNREADABLE or length < 6 or length > end - at:
        return 0, 0, 0, 0, 0, 0, 0, 0, UNREADABLE
    end = at + length
    timestamp_delta, at = varlong(at + 1, end)
    if at == UNREADABLE:
        return 0, 0, 0, 0, 0, 0, 0, 0, UNREADABLE
    offset_delta, at = varint(at, end)
    if at == UNREADABLE:
        return 0, 0, 0, 0, 0, 0, 0, 0, UNREADABLE
    key_at, key_size, at = _sized(at, end)
    if at == UNREADABLE:
        return 0, 0, 0, 0, 0, 0, 0, 0, UNREADABLE
    value_at, value_size, at = _sized(at, end)
    if at == UNREADABLE:
        return 0, 0, 0, 0, 0, 0, 0, 0, UNREADABLE
    count, headers_at = varint(at, end)
    behind = headers_at
    if count != 0 and headers_at != UNREADABLE:
        behind = _behind_headers(headers_at, end, count)
    if behind != end:
        behind = UNREADABLE
    return timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, count, behind


@inlined
def _int32(value: int) -> int:
    return ((value + 0x80000000) & 0xFFFFFFFF) - 0x80000000


@inlined
def sequence_after(base: int, delta: int) -> int:
    """Return ``base + delta`` as sequences count, see :func:`kforensics.parsers.log.records.sequence_after`."""
    if base > _int32(INT32_MAX - delta):
        return _int32(delta - _int32(INT32_MAX - base) - 1)
    return _int32(base + delta)
