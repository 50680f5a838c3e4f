"""What the value of a field means, in words: bits spelled out, times in UTC, deltas as what they count to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kforensics.parsers.format.control import control_of
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
from kforensics.render.cells import bytes_text, moment_ms
from kforensics.render.formatting import amount

__all__ = ["meaning"]

NULL = "null"


def meaning(batch: Batch, group: FieldGroup, field: FieldBytes) -> str:
    """Return what a field says, printable; nothing where the value says it.

    Args:
        batch: header of the batch.
        group: the fields it stands among.
        field: the field.
    """
    if field.error:
        return field.error
    said = (HEADER if group.title in ("batch header", "message") else RECORD).get(field.name)
    if said:
        return said(batch, field)
    return _payload(batch, group, field) if field.value is None or isinstance(field.value, bytes) else ""


def _bits(batch: Batch, field: FieldBytes) -> str:
    """Spell the attributes of a header out."""
    codec = field.value & CODEC_MASK
    parts = [CODECS[codec] if codec < len(CODECS) else f"codec {codec}, which there is not"]
    if batch.magic > 0:
        parts.append(LOG_APPEND_TIME if field.value & LOG_APPEND_TIME_BIT else CREATE_TIME)
    if not batch.is_legacy:
        words = ((TRANSACTIONAL_BIT, "transactional"), (CONTROL_BIT, "control"), (DELETE_HORIZON_BIT, "delete horizon"))
        parts += [word for bit, word in words if field.value & bit]
    return ", ".join(parts)


def _checksum(batch: Batch, field: FieldBytes) -> str:
    return f"{field.value:#010x}, which {'holds' if batch.crc_valid else 'does NOT hold: other bytes were summed'}"


def _time(_batch: Batch, field: FieldBytes) -> str:
    return "no timestamp" if field.value < 0 else f"{moment_ms(field.value)} UTC"


def _base_time(batch: Batch, field: FieldBytes) -> str:
    horizon = batch.delete_horizon_ms is not None
    return f"{_time(batch, field)}{', the delete horizon' if horizon else ''}"


def _none_below_zero(_batch: Batch, field: FieldBytes) -> str:
    return "none" if field.value < 0 else ""


def _last_offset(batch: Batch, _field: FieldBytes) -> str:
    return f"the last offset is {batch.last_offset}"


def _last_sequence(batch: Batch, field: FieldBytes) -> str:
    return "none" if field.value < 0 else f"the last one is {batch.last_sequence}"


def _record_time(batch: Batch, field: FieldBytes) -> str:
    if batch.timestamp_type == LOG_APPEND_TIME:
        return "not used: the append time of the batch is"
    return f"{moment_ms((batch.base_timestamp or 0) + field.value)} UTC"


def _record_offset(batch: Batch, field: FieldBytes) -> str:
    return f"offset {(batch.base_offset or 0) + field.value}"


def _size(batch: Batch, _field: FieldBytes) -> str:
    return f"{amount(batch.size, 'byte')} with the fields up to here"


Meaning = Callable[[Batch, FieldBytes], str]
HEADER: dict[str, Meaning] = {
    "length": _size,
    "size": _size,
    "crc": _checksum,
    "attributes": _bits,
    "last_offset_delta": _last_offset,
    "base_timestamp": _base_time,
    "max_timestamp": _time,
    "timestamp": _time,
    "partition_leader_epoch": _none_below_zero,
    "producer_id": _none_below_zero,
    "producer_epoch": _none_below_zero,
    "base_sequence": _last_sequence,
}
RECORD: dict[str, Meaning] = {
    "timestamp_delta": _record_time,
    "offset_delta": _record_offset,
    "timestamp": _time,
}


def _payload(batch: Batch, group: FieldGroup, field: FieldBytes) -> str:
    """Return a key or value as text, the control record it is, or how much is compressed."""
    if group.title == "compressed records" or (group.title == "message" and batch.codec and field.name == "value"):
        return f"{amount(len(field.data), 'byte')}, {batch.compression_type or 'of no known codec'}"
    if batch.is_control and (said := _control(group, field.name)):
        return said
    return NULL if field.value is None else bytes_text(field.value)


def _control(group: FieldGroup, name: str) -> str | None:
    """Return the type of a control record at its key, and the epoch of the coordinator at its value."""
    values: dict[str, Any] = {field.name: field.value for field in group.fields}
    kind, epoch = control_of(Record(0, 0, 0, values.get("key"), values.get("value")))
    if name == "key":
        return kind
    return f"coordinator epoch {epoch}" if name == "value" and epoch is not None else None
