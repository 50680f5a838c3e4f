"""The fields of a batch and of a record in kernels, put where templates find them by name."""

from __future__ import annotations

from kforensics.parsers.format.control import CONTROL_TYPES, KEY, MARKER, MARKERS
from kforensics.parsers.format.rows import (
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
)
from kforensics.parsers.kernels.compiler import inlined
from kforensics.parsers.kernels.headers import AT, LENGTH_END
from kforensics.parsers.kernels.machine import big16, big32, big64, load8, load64, store64, unsigned32
from kforensics.parsers.kernels.record_fields import sequence_after
from kforensics.parsers.kernels.request import VALUE

__all__ = [
    "KEY_SIZE",
    "KEY_TYPE",
    "MARKER_EPOCH",
    "MARKER_SIZE",
    "MARKER_TYPES",
    "flag",
    "put",
    "put_batch",
    "put_contents",
    "put_marker",
    "put_record",
    "value",
]

KEY_SIZE, MARKER_SIZE = KEY.size, MARKER.size
KEY_TYPE, MARKER_EPOCH = KEY.offsets["type"], MARKER.offsets["coordinator_epoch"]
# Only these are read here; they come first among the control types.
MARKER_TYPES = len(MARKERS)
if CONTROL_TYPES[:MARKER_TYPES] != MARKERS:
    raise TypeError("transaction markers are no longer the first control types; see who uses MARKER_TYPES")


@inlined
def put(values: int, index: int, number: int) -> None:
    """Set one value."""
    store64(values + 8 * index, number)


@inlined
def value(values: int, index: int) -> int:
    """Return one value."""
    return load64(values + 8 * index)


@inlined
def flag(attributes: int, bit: int) -> int:
    """Return 1 if a bit is set, else 0."""
    return 1 if attributes & bit else 0


@inlined
def put_batch(values: int, at: int, position: int) -> None:
    """Put the fields of a sound batch.

    Args:
        values: address of the values.
        at: address of the batch.
        position: of the batch in its file.
    """
    attributes, base_offset = big16(at + AT.attributes), big64(at + AT.base_offset)
    delta = big32(at + AT.last_offset_delta)
    base_sequence = big32(at + AT.base_sequence)
    put(values, VALUE.base_offset, base_offset)
    put(values, VALUE.last_offset, base_offset + delta)
    put(values, VALUE.record_count, big32(at + AT.count))
    put(values, VALUE.base_sequence, base_sequence)
    put(values, VALUE.last_sequence, -1 if base_sequence == -1 else sequence_after(base_sequence, delta))
    put(values, VALUE.producer_id, big64(at + AT.producer_id))
    put(values, VALUE.producer_epoch, big16(at + AT.producer_epoch))
    put(values, VALUE.partition_leader_epoch, big32(at + AT.partition_leader_epoch))
    put(values, VALUE.is_transactional, flag(attributes, TRANSACTIONAL_BIT))
    put(values, VALUE.is_control, flag(attributes, CONTROL_BIT))
    put(values, VALUE.has_delete_horizon, flag(attributes, DELETE_HORIZON_BIT))
    put(values, VALUE.base_timestamp, big64(at + AT.base_timestamp))
    put(values, VALUE.position, position)
    put(values, VALUE.timestamp_type, flag(attributes, LOG_APPEND_TIME_BIT))
    put(values, VALUE.max_timestamp, big64(at + AT.max_timestamp))
    put(values, VALUE.size, big32(at + AT.length) + LENGTH_END)
    put(values, VALUE.magic, load8(at + AT.magic))
    put(values, VALUE.codec, attributes & CODEC_MASK)
    put(values, VALUE.crc, unsigned32(at + AT.crc))
    put(values, VALUE.crc_valid, 1)


@inlined
def put_contents(values: int, key_at: int, key_size: int, value_at: int, value_size: int) -> None:
    """Put the key and the value of a record or message; negative sizes are those of null."""
    put(values, VALUE.key_at, key_at)
    put(values, VALUE.key_size, key_size)
    put(values, VALUE.value_at, value_at)
    put(values, VALUE.value_size, value_size)
    has_key, has_value = key_size >= 0, value_size >= 0
    put(values, VALUE.has_key, 1 if has_key else 0)
    put(values, VALUE.has_value, 1 if has_value else 0)
    put(values, VALUE.has_both, 1 if has_key and has_value else 0)
    put(values, VALUE.has_lone_value, 1 if has_value and not has_key else 0)


# The fields of a record as ``records.record`` returns them.
Fields = tuple[int, int, int, int, int, int, int, int, int]


@inlined
def put_record(values: int, fields: Fields) -> int:
    """Put the fields of a record of the batch whose fields were put; return its offset."""
    timestamp_delta, offset_delta, key_at, key_size, value_at, value_size, headers_at, header_count, _ = fields
    offset = value(values, VALUE.base_offset) + offset_delta
    timestamp = value(values, VALUE.max_timestamp)
    if value(values, VALUE.timestamp_type) == 0:
        timestamp = value(values, VALUE.base_timestamp) + timestamp_delta
    base_sequence = value(values, VALUE.base_sequence)
    put(values, VALUE.offset, offset)
    put(values, VALUE.timestamp, timestamp)
    put(values, VALUE.sequence, sequence_after(base_sequence, offset_delta) if base_sequence >= 0 else -1)
    put(values, VALUE.headers_at, headers_at)
    put(values, VALUE.header_count, header_count)
    put_contents(values, key_at, key_size, value_at, value_size)
    return offset


@inlined
def put_marker(values: int) -> bool:
    """Put what the record that was put says as a COMMIT or ABORT marker; False if it is none, or a strange one."""
    if value(values, VALUE.key_size) < KEY_SIZE or value(values, VALUE.value_size) < MARKER_SIZE:
        return False
    key_at, value_at = value(values, VALUE.key_at), value(values, VALUE.value_at)
    kind = big16(key_at + KEY_TYPE)
    if kind < 0 or kind >= MARKER_TYPES or big16(key_at) != 0 or big16(value_at) != 0:
        return False
    put(values, VALUE.control_type, kind)
    put(values, VALUE.coordinator_epoch, big32(value_at + MARKER_EPOCH))
    return True
