"""Describes the value of a batch field: attribute bits by name, times in UTC, deltas as the values they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kforensics.forensics.core.formatting import format_count, format_time_ms
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import (
    CODEC_MASK,
    CODECS,
    CONTROL_BIT,
    CREATE_TIME,
    DELETE_HORIZON_BIT,
    LOG_APPEND_TIME,
    LOG_APPEND_TIME_BIT,
    TRANSACTIONAL_BIT,
    Batch,
    Record,
)
from kforensics.parsers.log.field_bytes import FieldBytes, FieldGroup
from kforensics.render.cells import NULL_TEXT, bytes_text


def field_meaning(batch: Batch, group: FieldGroup, field: FieldBytes) -> str:
    """Return a description of a field's value as printable text; ``""`` if the value needs none.

    Args:
        batch: header of the batch.
        group: the group of the field.
        field: the field.
    """
    if field.error:
        return field.error
    meanings = HEADER_MEANINGS if group.title in ("batch header", "message") else RECORD_MEANINGS
    if describe := meanings.get(field.name):
        return describe(batch, field)
    return _payload(batch, group, field) if field.value is None or isinstance(field.value, bytes) else ""


def _attributes(batch: Batch, field: FieldBytes) -> str:
    codec = field.value & CODEC_MASK
    parts = [CODECS[codec] if codec < len(CODECS) else f"codec {codec}, which does not exist"]
    if batch.magic > 0:
        parts.append(LOG_APPEND_TIME if field.value & LOG_APPEND_TIME_BIT else CREATE_TIME)
    if not batch.is_legacy:
        flags = ((TRANSACTIONAL_BIT, "transactional"), (CONTROL_BIT, "control"), (DELETE_HORIZON_BIT, "delete horizon"))
        parts += [name for bit, name in flags if field.value & bit]
    return ", ".join(parts)


def _crc(batch: Batch, field: FieldBytes) -> str:
    return f"{field.value:#010x}, {'valid' if batch.crc_valid else 'does NOT match the bytes'}"


def _time(_batch: Batch, field: FieldBytes) -> str:
    return "no timestamp" if field.value < 0 else format_time_ms(field.value)


def _base_timestamp(batch: Batch, field: FieldBytes) -> str:
    return f"{_time(batch, field)}{'' if batch.delete_horizon_ms is None else ', the delete horizon'}"


def _none_if_negative(_batch: Batch, field: FieldBytes) -> str:
    return "none" if field.value < 0 else ""


def _last_offset(batch: Batch, _field: FieldBytes) -> str:
    return f"last offset {batch.last_offset}"


def _last_sequence(batch: Batch, field: FieldBytes) -> str:
    return "none" if field.value < 0 else f"last sequence {batch.last_sequence}"


def _record_time(batch: Batch, field: FieldBytes) -> str:
    if batch.timestamp_type == LOG_APPEND_TIME:
        return "not used: the batch has LogAppendTime"
    return format_time_ms((batch.base_timestamp or 0) + field.value)


def _record_offset(batch: Batch, field: FieldBytes) -> str:
    return f"offset {(batch.base_offset or 0) + field.value}"


def _size(batch: Batch, _field: FieldBytes) -> str:
    return f"{format_count(batch.size, 'byte')} including the fields up to this one"


Meaning = Callable[[Batch, FieldBytes], str]
HEADER_MEANINGS: dict[str, Meaning] = {
    "length": _size,
    "size": _size,
    "crc": _crc,
    "attributes": _attributes,
    "last_offset_delta": _last_offset,
    "base_timestamp": _base_timestamp,
    "max_timestamp": _time,
    "timestamp": _time,
    "partition_leader_epoch": _none_if_negative,
    "producer_id": _none_if_negative,
    "producer_epoch": _none_if_negative,
    "base_sequence": _last_sequence,
}
RECORD_MEANINGS: dict[str, Meaning] = {
    "timestamp_delta": _record_time,
    "offset_delta": _record_offset,
    "timestamp": _time,
}


def _payload(batch: Batch, group: FieldGroup, field: FieldBytes) -> str:
    """Return a key or value as text, the type of a control record, or the size of compressed data."""
    if group.title == "compressed records" or (group.title == "message" and batch.codec and field.name == "value"):
        return f"{format_count(len(field.data), 'byte')}, {batch.compression_type or 'unknown codec'}"
    if batch.is_control and (control := _control(group, field.name)):
        return control
    return NULL_TEXT if field.value is None else bytes_text(field.value)


def _control(group: FieldGroup, name: str) -> str | None:
    """Return the type of a control record for its key, and the coordinator epoch for its value."""
    values: dict[str, Any] = {field.name: field.value for field in group.fields}
    control_type, epoch = control_fields(Record(0, 0, 0, values.get("key"), values.get("value")))
    if name == "key":
        return control_type
    return f"coordinator epoch {epoch}" if name == "value" and epoch is not None else None
