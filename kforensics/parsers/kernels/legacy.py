"""Messages of format 0 and 1 in kernels: which top-level entry is beyond doubt, and the fields of a message by name.

Rule: :mod:`kforensics.parsers.log.legacy`. Only the common case is taken here: messages that key and value fill.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import LEGACY_HEADER_V0, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import CODEC_MASK, CODECS, LOG_APPEND_TIME, LOG_APPEND_TIME_BIT, NO_TIMESTAMP_TYPE
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.crc import crc32
from kforensics.parsers.kernels.headers import AT, FORMAT, KNOWN_CODECS, LENGTH_END, may_sum
from kforensics.parsers.kernels.machine import big32, big64, load8, unsigned32
from kforensics.parsers.kernels.payload import unpacked
from kforensics.parsers.kernels.request import DONE, MORE, OUTSIDE, REFUSED, TIMESTAMP_TYPES, VALUE
from kforensics.parsers.kernels.template_values import flag, put, put_contents, value
from kforensics.parsers.kernels.varints import UNREADABLE
from kforensics.parsers.log.legacy import LENGTH_FIELD

__all__ = ["entry_size", "is_old", "look_at_entry", "put_entry", "put_message", "put_message_crc", "unwrapped"]

V0, V1 = fixed(LEGACY_HEADER_V0), fixed(LEGACY_HEADER_V1)
# Offsets of the fields by name, as a tuple of constants; format 0 has all but the last.
OLD: Any = namedtuple("Old", V1.names)(**V1.offsets)  # noqa: PYI024  # the layout states the names
if V1.offsets | V0.offsets != V1.offsets or V0.end_of("size") != LENGTH_END or OLD.magic != AT.magic:
    raise TypeError("the headers of formats 0, 1 and 2 no longer begin alike; see the functions below")
V0_SIZE, V1_SIZE, CRC_START = V0.size, V1.size, V0.end_of("crc")
# A message has at least the lengths of its key and its value.
V0_LEAST, V1_LEAST = V0_SIZE + 2 * LENGTH_FIELD, V1_SIZE + 2 * LENGTH_FIELD
ZSTD = CODECS.index("zstd")
APPENDED, UNTIMED = TIMESTAMP_TYPES.index(LOG_APPEND_TIME), TIMESTAMP_TYPES.index(NO_TIMESTAMP_TYPE)


@inlined
def is_old(at: int) -> bool:
    """Whether what stands at an address says that it is of format 0 or 1."""
    return load8(at + OLD.magic) < FORMAT


@compiled
def entry_size(at: int, end: int, otherwise: int) -> int:
    """Return the size of the message of format 0 or 1 at an address, -MORE or -REFUSED if there is no whole one.

    Args:
        at: its first byte.
        end: the address behind the last byte there is.
        otherwise: what to return if there are not even the bytes of a message, or the format is another.
    """
    if end - at < V0_LEAST or not is_old(at):
        return otherwise
    size = big32(at + OLD.size) + LENGTH_END
    if size < (V0_LEAST if load8(at + OLD.magic) == 0 else V1_LEAST):
        return -REFUSED
    return size if size <= end - at else -MORE


@inlined
def _crc_valid(at: int, size: int) -> bool:
    return crc32(at + CRC_START, size - CRC_START) == unsigned32(at + OLD.crc)


@inlined
def look_at_entry(at: int, end: int, refused_sizes: int) -> int:
    """Return the size of the entry of format 0 or 1 at an address if nobody could doubt it, else -MORE or -REFUSED.

    Args:
        at: its first byte.
        end: the address behind the last byte there is.
        refused_sizes: a bit for each order of size that must not be summed.
    """
    size = entry_size(at, end, -REFUSED)
    if size < 0:
        return size
    if not may_sum(size, refused_sizes):
        return -REFUSED
    if big64(at + OLD.offset) < 0 or load8(at + OLD.attributes) & CODEC_MASK >= KNOWN_CODECS:
        return -REFUSED
    return size if _crc_valid(at, size) else -REFUSED


@inlined
def put_entry(values: int, at: int, size: int, position: int) -> None:
    """Put the fields of a sound entry; what its format does not have is -1, as the lines of its records say.

    Args:
        values: address of the values.
        at: address of the entry.
        size: its bytes.
        position: of the entry in its file.
    """
    attributes, magic = load8(at + OLD.attributes), load8(at + OLD.magic)
    put(values, VALUE.last_offset, big64(at + OLD.offset))
    put(values, VALUE.base_sequence, -1)
    put(values, VALUE.last_sequence, -1)
    put(values, VALUE.producer_epoch, -1)
    put(values, VALUE.partition_leader_epoch, -1)
    put(values, VALUE.position, position)
    put(values, VALUE.timestamp_type, flag(attributes, LOG_APPEND_TIME_BIT) if magic else UNTIMED)
    put(values, VALUE.max_timestamp, big64(at + OLD.timestamp) if magic else -1)
    put(values, VALUE.size, size)
    put(values, VALUE.magic, magic)
    put(values, VALUE.codec, attributes & CODEC_MASK)
    put(values, VALUE.crc, unsigned32(at + OLD.crc))
    put(values, VALUE.crc_valid, 1)


@inlined
def put_message(values: int, at: int, end: int, base: int) -> int:
    """Put the fields of a message, all but its checksum; return the address behind it, or ``UNREADABLE``.

    Args:
        values: address of the values, which have those of its entry.
        at: address of the message.
        end: the address behind the last byte there is.
        base: what to add to its offset.
    """
    size = entry_size(at, end, -REFUSED)
    if size < 0:
        return UNREADABLE
    behind, is_v0 = at + size, load8(at + OLD.magic) == 0
    key_at = at + (V0_SIZE if is_v0 else V1_SIZE) + LENGTH_FIELD
    key_size = big32(key_at - LENGTH_FIELD)
    value_at = key_at + max(0, key_size) + LENGTH_FIELD
    if value_at > behind:
        return UNREADABLE
    value_size = big32(value_at - LENGTH_FIELD)
    if value_at + max(0, value_size) != behind:
        return UNREADABLE
    timestamp = -1
    if not is_v0:
        appended = value(values, VALUE.timestamp_type) == APPENDED
        timestamp = value(values, VALUE.max_timestamp) if appended else big64(at + OLD.timestamp)
    put(values, VALUE.offset, big64(at + OLD.offset) + base)
    put(values, VALUE.timestamp, timestamp)
    put_contents(values, key_at, key_size, value_at, value_size)
    return behind


@inlined
def put_message_crc(values: int, at: int, behind: int) -> None:
    """Put the checksum of a message from inside a wrapper; nobody has looked at it, and a wrong one is only told."""
    put(values, VALUE.crc, unsigned32(at + OLD.crc))
    put(values, VALUE.crc_valid, 1 if _crc_valid(at, behind - at) else 0)


@compiled
def _last_offset(at: int, end: int) -> int:
    """Return the offset that the last message of a set has; -1 if there is none, or doubt about any of them."""
    last = -1
    while at < end:
        size = entry_size(at, end, -REFUSED)
        if size < 0 or load8(at + OLD.attributes) & CODEC_MASK:
            return -1
        last = big64(at + OLD.offset)
        if last < 0:
            return -1
        at += size
    return last


@compiled
def unwrapped(request: int, values: int, at: int, end: int) -> tuple[int, int, int, int]:
    """Return a status, where the messages inside a wrapper begin and end, and what to add to their offsets.

    Kafka reads all of them before it gives out the first.
    """
    if put_message(values, at, end, 0) == UNREADABLE or value(values, VALUE.value_size) < 0:
        return REFUSED, 0, 0, 0
    # Kafka refuses zstd in old formats.
    codec, magic = value(values, VALUE.codec), value(values, VALUE.magic)
    if codec == ZSTD:
        return REFUSED, 0, 0, 0
    packed, packed_size = value(values, VALUE.value_at), value(values, VALUE.value_size)
    first, behind = unpacked(request, packed, packed_size, codec, magic)
    if first == UNREADABLE:
        return OUTSIDE, 0, 0, 0
    last = _last_offset(first, behind)
    if last < 0:
        return REFUSED, 0, 0, 0
    # The rule is told at ``parsers.legacy._absolute_base``.
    outer = value(values, VALUE.last_offset)
    if magic == 0 or outer == 0:
        return DONE, first, behind, 0
    return DONE if outer >= last else REFUSED, first, behind, outer - last
