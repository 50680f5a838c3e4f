"""The fields of a batch and of a record in kernels, stored where templates and columns find them by name."""

from __future__ import annotations

from kforensics.parsers.format.control_records import CONTROL_TYPES, KEY, MARKER, MARKERS
from kforensics.parsers.format.rows import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from kforensics.parsers.kernels.batch_checks import HEADER_FIELD, LENGTH_END
from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.intrinsics import big16, big32, big64, load8, load64, store64, unsigned32
from kforensics.parsers.kernels.record_parser import ParsedRecord, add_to_sequence
from kforensics.parsers.kernels.request import FIELD

KEY_SIZE, MARKER_SIZE = KEY.size, MARKER.size
KEY_TYPE, MARKER_EPOCH = KEY.offsets["type"], MARKER.offsets["coordinator_epoch"]
# Kernels decode only transaction markers, which are the first of the control types.
MARKER_TYPES = len(MARKERS)
if CONTROL_TYPES[:MARKER_TYPES] != MARKERS:
    raise TypeError("transaction markers are no longer the first control types; adapt the users of MARKER_TYPES")


@inlined
def set_field(fields: int, index: int, number: int) -> None:
    """Set one field."""
    store64(fields + 8 * index, number)


@inlined
def get_field(fields: int, index: int) -> int:
    """Return one field."""
    return load64(fields + 8 * index)


@inlined
def flag(attributes: int, bit: int) -> int:
    """Return 1 if a bit is set, else 0."""
    return 1 if attributes & bit else 0


@inlined
def set_batch_fields(fields: int, address: int, position: int) -> None:
    """Set the fields of a valid batch.

    Args:
        fields: address of the fields.
        address: of the batch.
        position: of the batch in its file.
    """
    attributes, base_offset = big16(address + HEADER_FIELD.attributes), big64(address + HEADER_FIELD.base_offset)
    delta = big32(address + HEADER_FIELD.last_offset_delta)
    base_sequence = big32(address + HEADER_FIELD.base_sequence)
    set_field(fields, FIELD.base_offset, base_offset)
    set_field(fields, FIELD.last_offset, base_offset + delta)
    set_field(fields, FIELD.record_count, big32(address + HEADER_FIELD.count))
    set_field(fields, FIELD.base_sequence, base_sequence)
    set_field(fields, FIELD.last_sequence, -1 if base_sequence == -1 else add_to_sequence(base_sequence, delta))
    set_field(fields, FIELD.producer_id, big64(address + HEADER_FIELD.producer_id))
    set_field(fields, FIELD.producer_epoch, big16(address + HEADER_FIELD.producer_epoch))
    set_field(fields, FIELD.partition_leader_epoch, big32(address + HEADER_FIELD.partition_leader_epoch))
    set_field(fields, FIELD.is_transactional, flag(attributes, TRANSACTIONAL_BIT))
    set_field(fields, FIELD.is_control, flag(attributes, CONTROL_BIT))
    set_field(fields, FIELD.has_delete_horizon, flag(attributes, DELETE_HORIZON_BIT))
    set_field(fields, FIELD.base_timestamp, big64(address + HEADER_FIELD.base_timestamp))
    set_field(fields, FIELD.position, position)
    set_field(fields, FIELD.timestamp_type, flag(attributes, LOG_APPEND_TIME_BIT))
    set_field(fields, FIELD.max_timestamp, big64(address + HEADER_FIELD.max_timestamp))
    set_field(fields, FIELD.size, big32(address + HEADER_FIELD.length) + LENGTH_END)
    set_field(fields, FIELD.magic, load8(address + HEADER_FIELD.magic))
    set_field(fields, FIELD.codec, attributes & CODEC_MASK)
    set_field(fields, FIELD.crc, unsigned32(address + HEADER_FIELD.crc))
    set_field(fields, FIELD.crc_valid, 1)


@inlined
def set_key_and_value(fields: int, key_address: int, key_size: int, value_address: int, value_size: int) -> None:
    """Set the key and value of a record or message; a negative size is null."""
    set_field(fields, FIELD.key_address, key_address)
    set_field(fields, FIELD.key_size, key_size)
    set_field(fields, FIELD.value_address, value_address)
    set_field(fields, FIELD.value_size, value_size)
    has_key, has_value = key_size >= 0, value_size >= 0
    set_field(fields, FIELD.has_key, 1 if has_key else 0)
    set_field(fields, FIELD.has_value, 1 if has_value else 0)
    set_field(fields, FIELD.has_both, 1 if has_key and has_value else 0)
    set_field(fields, FIELD.has_lone_value, 1 if has_value and not has_key else 0)


@inlined
def set_record_fields(fields: int, parsed: ParsedRecord) -> int:
    """Set the fields of a record of the current batch and return its offset."""
    timestamp_delta, offset_delta, key_address, key_size, value_address, value_size, headers, header_count, _ = parsed
    offset = get_field(fields, FIELD.base_offset) + offset_delta
    timestamp = get_field(fields, FIELD.max_timestamp)
    if get_field(fields, FIELD.timestamp_type) == 0:
        timestamp = get_field(fields, FIELD.base_timestamp) + timestamp_delta
    base_sequence = get_field(fields, FIELD.base_sequence)
    set_field(fields, FIELD.offset, offset)
    set_field(fields, FIELD.timestamp, timestamp)
    set_field(fields, FIELD.sequence, add_to_sequence(base_sequence, offset_delta) if base_sequence >= 0 else -1)
    set_field(fields, FIELD.headers_address, headers)
    set_field(fields, FIELD.header_count, header_count)
    set_key_and_value(fields, key_address, key_size, value_address, value_size)
    return offset


@inlined
def set_marker_fields(fields: int) -> bool:
    """Set the marker fields from the current record; return False if it is not a COMMIT or ABORT of version 0."""
    if get_field(fields, FIELD.key_size) < KEY_SIZE or get_field(fields, FIELD.value_size) < MARKER_SIZE:
        return False
    key_address, value_address = get_field(fields, FIELD.key_address), get_field(fields, FIELD.value_address)
    control_type = big16(key_address + KEY_TYPE)
    if control_type < 0 or control_type >= MARKER_TYPES or big16(key_address) != 0 or big16(value_address) != 0:
        return False
    set_field(fields, FIELD.control_type, control_type)
    set_field(fields, FIELD.coordinator_epoch, big32(value_address + MARKER_EPOCH))
    return True
