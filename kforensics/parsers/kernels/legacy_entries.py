"""Entries of format 0 and 1 in kernels: whether one passes every check, and the fields of its messages.

Rule: :mod:`kforensics.parsers.log.legacy_format`. Kernels take only messages that their key and value fill completely.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any

from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import LEGACY_HEADER_V0, LEGACY_HEADER_V1
from kforensics.parsers.format.rows import CODEC_MASK, CODECS, LOG_APPEND_TIME, LOG_APPEND_TIME_BIT, NO_TIMESTAMP_TYPE
from kforensics.parsers.kernels.batch_checks import FORMAT, HEADER_FIELD, KNOWN_CODECS, LENGTH_END, may_checksum
from kforensics.parsers.kernels.batch_payload import decompress_payload
from kforensics.parsers.kernels.compiler import compiled, inlined
from kforensics.parsers.kernels.crc import crc32
from kforensics.parsers.kernels.decoded_fields import flag, get_field, set_field, set_key_and_value
from kforensics.parsers.kernels.intrinsics import big32, big64, load8, unsigned32
from kforensics.parsers.kernels.record_parser import NO_ADDRESS
from kforensics.parsers.kernels.request import DECLINED, DONE, FIELD, INCOMPLETE, NEEDS_HOST_CODEC, TIMESTAMP_TYPES
from kforensics.parsers.log.batch_headers import LENGTH_FIELD

V0, V1 = fixed_layout(LEGACY_HEADER_V0), fixed_layout(LEGACY_HEADER_V1)
# Offsets of the fields by name, as a tuple of constants; format 0 has all but the last.
MESSAGE_FIELD: Any = namedtuple("MessageFields", V1.names)(**V1.offsets)  # noqa: PYI024  # names of the layout
if (
    V1.offsets | V0.offsets != V1.offsets
    or V0.end_of("size") != LENGTH_END
    or MESSAGE_FIELD.magic != HEADER_FIELD.magic
):
    raise TypeError("the headers of formats 0, 1 and 2 no longer begin with the same fields; adapt the functions below")
V0_SIZE, V1_SIZE, CRC_START = V0.size, V1.size, V0.end_of("crc")
# A message contains at least the lengths of its key and value.
V0_MIN_SIZE, V1_MIN_SIZE = V0_SIZE + 2 * LENGTH_FIELD, V1_SIZE + 2 * LENGTH_FIELD
ZSTD = CODECS.index("zstd")
APPEND_TIME, NO_TIME_TYPE = TIMESTAMP_TYPES.index(LOG_APPEND_TIME), TIMESTAMP_TYPES.index(NO_TIMESTAMP_TYPE)


@inlined
def has_legacy_magic(address: int) -> bool:
    """Return whether the magic byte of the entry at an address is that of format 0 or 1."""
    return load8(address + MESSAGE_FIELD.magic) < FORMAT


@compiled
def complete_entry_size(address: int, end: int, otherwise: int) -> int:
    """Return the size of the format 0 or 1 entry at an address, -INCOMPLETE or -DECLINED if there is no complete one.

    Args:
        address: its first byte.
        end: the address after the last available byte.
        otherwise: what to return for fewer bytes than the smallest message, and for other formats.
    """
    if end - address < V0_MIN_SIZE or not has_legacy_magic(address):
        return otherwise
    size = big32(address + MESSAGE_FIELD.size) + LENGTH_END
    if size < (V0_MIN_SIZE if load8(address + MESSAGE_FIELD.magic) == 0 else V1_MIN_SIZE):
        return -DECLINED
    return size if size <= end - address else -INCOMPLETE


@inlined
def _crc_valid(address: int, size: int) -> bool:
    return crc32(address + CRC_START, size - CRC_START) == unsigned32(address + MESSAGE_FIELD.crc)


@inlined
def valid_entry_size(address: int, end: int, refused_sizes: int) -> int:
    """Return the size of the format 0 or 1 entry at an address if it passes every check, else -INCOMPLETE or -DECLINED.

    Args:
        address: its first byte.
        end: the address after the last available byte.
        refused_sizes: bit n is set if entries whose size has a ``bit_length`` of n must not be checksummed.
    """
    size = complete_entry_size(address, end, -DECLINED)
    if size < 0:
        return size
    if not may_checksum(size, refused_sizes):
        return -DECLINED
    if (
        big64(address + MESSAGE_FIELD.offset) < 0
        or load8(address + MESSAGE_FIELD.attributes) & CODEC_MASK >= KNOWN_CODECS
    ):
        return -DECLINED
    return size if _crc_valid(address, size) else -DECLINED


@inlined
def set_entry_fields(fields: int, address: int, size: int, position: int) -> None:
    """Set the fields of a valid entry; fields that its format lacks become -1, as the lines of its records print them.

    Args:
        fields: address of the fields.
        address: of the entry.
        size: its bytes.
        position: of the entry in its file.
    """
    attributes, magic = load8(address + MESSAGE_FIELD.attributes), load8(address + MESSAGE_FIELD.magic)
    set_field(fields, FIELD.last_offset, big64(address + MESSAGE_FIELD.offset))
    set_field(fields, FIELD.base_sequence, -1)
    set_field(fields, FIELD.last_sequence, -1)
    set_field(fields, FIELD.producer_epoch, -1)
    set_field(fields, FIELD.partition_leader_epoch, -1)
    set_field(fields, FIELD.position, position)
    set_field(fields, FIELD.timestamp_type, flag(attributes, LOG_APPEND_TIME_BIT) if magic else NO_TIME_TYPE)
    set_field(fields, FIELD.max_timestamp, big64(address + MESSAGE_FIELD.timestamp) if magic else -1)
    set_field(fields, FIELD.size, size)
    set_field(fields, FIELD.magic, magic)
    set_field(fields, FIELD.codec, attributes & CODEC_MASK)
    set_field(fields, FIELD.crc, unsigned32(address + MESSAGE_FIELD.crc))
    set_field(fields, FIELD.crc_valid, 1)


@inlined
def set_batch_fields_of_entry(fields: int, address: int, size: int, position: int) -> None:
    """Set the fields of an entry of format 0 or 1 that columns need, those it lacks as for a batch without them.

    The first offset and the number of messages of a wrapper are only inside it; both are as for a single message.
    """
    set_entry_fields(fields, address, size, position)
    set_field(fields, FIELD.base_offset, get_field(fields, FIELD.last_offset))
    set_field(fields, FIELD.record_count, 1)
    set_field(fields, FIELD.producer_id, -1)
    set_field(fields, FIELD.sequence, -1)
    set_field(fields, FIELD.base_timestamp, -1)
    set_field(fields, FIELD.is_transactional, 0)
    set_field(fields, FIELD.is_control, 0)
    set_field(fields, FIELD.has_delete_horizon, 0)
    set_field(fields, FIELD.header_count, 0)


@inlined
def signed_attributes(address: int) -> int:
    """Return the attributes of the entry at an address, which its layout declares as a signed byte."""
    attributes = load8(address + MESSAGE_FIELD.attributes)
    return attributes - 256 if attributes >= 128 else attributes


@inlined
def set_message_fields(fields: int, address: int, end: int, base: int) -> int:
    """Set the fields of a message except its checksum; return the address after it, or ``NO_ADDRESS``.

    Args:
        fields: address of the fields, with those of the entry set.
        address: of the message.
        end: the address after the last available byte.
        base: what to add to its offset.
    """
    size = complete_entry_size(address, end, -DECLINED)
    if size < 0:
        return NO_ADDRESS
    message_end, is_v0 = address + size, load8(address + MESSAGE_FIELD.magic) == 0
    key_address = address + (V0_SIZE if is_v0 else V1_SIZE) + LENGTH_FIELD
    key_size = big32(key_address - LENGTH_FIELD)
    value_address = key_address + max(0, key_size) + LENGTH_FIELD
    if value_address > message_end:
        return NO_ADDRESS
    value_size = big32(value_address - LENGTH_FIELD)
    if value_address + max(0, value_size) != message_end:
        return NO_ADDRESS
    timestamp = -1
    if not is_v0:
        is_append_time = get_field(fields, FIELD.timestamp_type) == APPEND_TIME
        timestamp = (
            get_field(fields, FIELD.max_timestamp) if is_append_time else big64(address + MESSAGE_FIELD.timestamp)
        )
    set_field(fields, FIELD.offset, big64(address + MESSAGE_FIELD.offset) + base)
    set_field(fields, FIELD.timestamp, timestamp)
    set_key_and_value(fields, key_address, key_size, value_address, value_size)
    return message_end


@inlined
def set_message_crc(fields: int, address: int, message_end: int) -> None:
    """Set the checksum of a message inside a wrapper. It has not been checked yet, and a wrong one is only reported."""
    set_field(fields, FIELD.crc, unsigned32(address + MESSAGE_FIELD.crc))
    set_field(fields, FIELD.crc_valid, 1 if _crc_valid(address, message_end - address) else 0)


@compiled
def _last_message_offset(address: int, end: int) -> int:
    """Return the offset of the last message of a set, -1 if the set is empty or any message is invalid."""
    last_offset = -1
    while address < end:
        size = complete_entry_size(address, end, -DECLINED)
        if size < 0 or load8(address + MESSAGE_FIELD.attributes) & CODEC_MASK:
            return -1
        last_offset = big64(address + MESSAGE_FIELD.offset)
        if last_offset < 0:
            return -1
        address += size
    return last_offset


@compiled
def unwrap(request: int, fields: int, address: int, end: int) -> tuple[int, int, int, int]:
    """Return a status, where the messages inside a wrapper begin and end, and what to add to their offsets.

    Like Kafka, this reads all messages before the first is used.
    """
    if set_message_fields(fields, address, end, 0) == NO_ADDRESS or get_field(fields, FIELD.value_size) < 0:
        return DECLINED, 0, 0, 0
    # Kafka rejects zstd in formats 0 and 1.
    codec, magic = get_field(fields, FIELD.codec), get_field(fields, FIELD.magic)
    if codec == ZSTD:
        return DECLINED, 0, 0, 0
    compressed, compressed_size = get_field(fields, FIELD.value_address), get_field(fields, FIELD.value_size)
    set_start, set_end = decompress_payload(request, compressed, compressed_size, codec, magic)
    if set_start == NO_ADDRESS:
        return NEEDS_HOST_CODEC, 0, 0, 0
    last_offset = _last_message_offset(set_start, set_end)
    if last_offset < 0:
        return DECLINED, 0, 0, 0
    # Rule: ``kforensics.parsers.log.legacy_format._absolute_base``.
    wrapper_offset = get_field(fields, FIELD.last_offset)
    if magic == 0 or wrapper_offset == 0:
        return DONE, set_start, set_end, 0
    return DONE if wrapper_offset >= last_offset else DECLINED, set_start, set_end, wrapper_offset - last_offset
