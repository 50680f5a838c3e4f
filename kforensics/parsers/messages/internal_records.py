"""Best-effort decoding of the records of internal topics, whichever release wrote them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from kforensics.parsers.files.log_names import CONSUMER_OFFSETS
from kforensics.parsers.messages import group
from kforensics.parsers.messages.codec import Decoded, decode, decode_exact
from kforensics.parsers.messages.control_messages import CONTROL_MESSAGES, CONTROL_TYPE_NAMES
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.registry import (
    COORDINATOR_TYPES,
    INTERNAL_TOPICS,
    LEGACY_OFFSET_COMMIT,
    framed_message,
    record_type,
)
from kforensics.parsers.messages.releases import NEWEST
from kforensics.parsers.messages.schema import MessageSchema

# Newest first. The codec skips releases whose layouts equal a newer one.
LAYOUT_RELEASES: Final = (
    NEWEST,
    "4.3",
    "4.2",
    "4.1",
    "4.0",
    "3.9",
    "3.8",
    "3.7",
    "3.6",
    "3.5",
    "3.4",
    "3.3",
    "3.2",
    "3.0",
    "2.8",
    "2.7",
)
_FRAME_VERSION: Final = 1
_PREVIEW_FRAME_VERSION: Final = 0
_PREVIEW_RELEASES: Final = ("2.8",)


@dataclass(frozen=True, slots=True)
class DecodedMessage:
    """A decoded record of an internal topic.

    Attributes:
        type_name: Kafka's name of the record type; None for an unknown type.
        type_id: The number of the record type; None if it could not be read.
        version: The version of the value; None for a tombstone, or if it could not be read.
        key: The fields of the key; None if the topic has no keys, or if the key could not be read.
        value: The fields of the value; None for a tombstone, or if the value could not be read.
        error: What is wrong with the record; None if nothing is.
        value_message: The layout of the value.
    """

    type_name: str | None = None
    type_id: int | None = None
    version: int | None = None
    key: dict[str, Any] | None = None
    value: dict[str, Any] | None = None
    error: str | None = None
    value_message: MessageSchema | None = None


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> DecodedMessage:
    """Decode a record of an internal topic with the layout of whichever release fits.

    Args:
        topic: The name of the topic.
        key: The key of the record.
        value: The value of the record; None for a tombstone.

    Returns:
        Everything that could be read. Unknown types, unknown versions and malformed bytes are reported in `error`;
        they raise no exception.
    """
    if topic in COORDINATOR_TYPES:
        return _coordinator_record(topic, key, value)
    if topic in INTERNAL_TOPICS:
        return _framed_record(topic, value)
    return DecodedMessage(error=f"{topic} is not an internal topic")


def _coordinator_record(topic: str, key: bytes | None, value: bytes | None) -> DecodedMessage:
    if key is None:
        return DecodedMessage(error="the record has no key")
    if len(key) < 2:
        return DecodedMessage(error=f"a key of {len(key)} byte(s) holds no record type")
    number = MessageReader(key).int16()
    kind = record_type(topic, number)
    if kind is None:
        return DecodedMessage(type_id=number, error=f"unknown record type {number}")
    try:
        fields = decode(kind.key, 0, key, start=2).value
    except MessageError as error:
        return DecodedMessage(kind.name, number, error=f"key: {error}")
    if value is None:
        return DecodedMessage(kind.name, number, key=fields)
    if len(value) < 2:
        too_short = f"a value of {len(value)} byte(s) holds no version"
        return DecodedMessage(kind.name, number, key=fields, error=too_short)
    version = MessageReader(value).int16()
    schema = _value_schema(topic, number, version, kind.value)
    without_value = DecodedMessage(kind.name, number, version, fields, value_message=schema)
    return _decode_value(without_value, schema, value, start=2)


def _value_schema(topic: str, number: int, version: int, schema: MessageSchema) -> MessageSchema:
    """Return the schema of a value. Releases up to 4.0 also read values of type 1 in records of the legacy type 0."""
    if topic == CONSUMER_OFFSETS and number == LEGACY_OFFSET_COMMIT and version > 0:
        return group.OFFSET_COMMIT_VALUE
    return schema


def _decode_value(
    record: DecodedMessage,
    schema: MessageSchema,
    data: bytes,
    start: int,
    releases: tuple[str, ...] = LAYOUT_RELEASES,
) -> DecodedMessage:
    """Return a record with its value, read with the layout that consumes all bytes; unknown versions as the newest."""
    version, highest = record.version or 0, schema.highest_version
    is_known = 0 <= version <= highest
    unknown = f"unknown version {version} of {schema.name}, known are 0 to {highest}"
    try:
        decoded = decode_exact(schema, version if is_known else highest, data, releases, start)
    except MessageError as error:
        return replace(record, error=f"value: {error}" if is_known else unknown)
    left = len(data) - start - decoded.consumed
    if is_known:
        return _with_value(record, decoded, f"{left} byte(s) after the value" if left else None)
    if left:
        return replace(record, error=unknown)
    return _with_value(record, decoded, f"{unknown}, read as {highest}")


def _with_value(record: DecodedMessage, decoded: Decoded, error: str | None) -> DecodedMessage:
    return replace(record, value=decoded.value, error=error, value_message=decoded.message)


def _framed_record(topic: str, value: bytes | None) -> DecodedMessage:
    if value is None:
        return DecodedMessage(error="the record has no value")
    reader = MessageReader(value)
    try:
        frame, number, version = (reader.unsigned_varint() for _ in range(3))
    except MessageError as error:
        return DecodedMessage(error=f"frame: {error}")
    if frame not in (_PREVIEW_FRAME_VERSION, _FRAME_VERSION):
        return DecodedMessage(type_id=number, error=f"unknown frame version {frame}")
    releases = LAYOUT_RELEASES if frame == _FRAME_VERSION else _PREVIEW_RELEASES
    schema = framed_message(topic, number, releases[0]) or framed_message(topic, number)
    if schema is None:
        return DecodedMessage(None, number, version, error=f"unknown record type {number}")
    without_value = DecodedMessage(schema.name, number, version, value_message=schema)
    return _decode_value(without_value, schema, value, reader.position, releases)


def decode_control_record(key: bytes | None, value: bytes | None) -> DecodedMessage:
    """Decode a control record with the layout of whichever release fits.

    Args:
        key: The key of the record: a version and a type.
        value: The value of the record.

    Returns:
        Everything that could be read. `key` has the fields `version` and `type`, and `type_name` is a name of Kafka's
        `ControlRecordType`.
    """
    if key is None or len(key) < 4:
        return DecodedMessage(error=f"a key of {len(key or b'')} byte(s) holds no control type")
    reader = MessageReader(key)
    fields = {"version": reader.int16(), "type": reader.int16()}
    number = fields["type"]
    name = CONTROL_TYPE_NAMES.get(number)
    if name is None:
        return DecodedMessage("UNKNOWN", number, key=fields, error=f"unknown control type {number}")
    if value is None:
        return DecodedMessage(name, number, key=fields, error="the control record has no value")
    return _control_record(name, number, fields, value)


def _control_record(name: str, number: int, key: dict[str, int], value: bytes) -> DecodedMessage:
    schema = CONTROL_MESSAGES[name]
    # Only the values of markers begin with a version that is not a field of the message.
    is_marker = name in ("ABORT", "COMMIT")
    try:
        decoded = decode_exact(schema, 0, value, LAYOUT_RELEASES, start=2 if is_marker else 0)
    except MessageError as error:
        unreadable = DecodedMessage(name, number, 0, key, error=f"value: {error}", value_message=schema)
        return _leader_change_of_2_8(number, key, value) or unreadable
    version = MessageReader(value).int16() if is_marker else decoded.value.get("version", 0)
    left = len(value) - decoded.consumed - 2 * is_marker
    if left and (older := _leader_change_of_2_8(number, key, value)):
        return older
    error_text = f"{left} byte(s) after the value" if left and not is_marker else None
    return DecodedMessage(name, number, version, key, decoded.value, error_text, decoded.message)


def _leader_change_of_2_8(number: int, key: dict[str, int], value: bytes) -> DecodedMessage | None:
    """Return a control record of type 3 as the leader change it was before 3.0; None if the value is not one."""
    if number != 3:
        return None
    schema = CONTROL_MESSAGES["LEADER_CHANGE"]
    try:
        decoded = decode_exact(schema, 0, value, ("2.8", "2.7"))
    except MessageError:
        return None
    if decoded.consumed != len(value):
        return None
    return DecodedMessage("LEADER_CHANGE", number, 0, key, decoded.value, None, decoded.message)


def decode_consumer_protocol(
    message: MessageSchema, data: bytes, release: str | None = None
) -> tuple[int, dict[str, Any]]:
    """Decode the subscription or the assignment of a member of a classic consumer group.

    Args:
        message: `CONSUMER_PROTOCOL_SUBSCRIPTION` or `CONSUMER_PROTOCOL_ASSIGNMENT`.
        data: A version and the message.
        release: The release whose layout and limits are used; None for the newest layout without limits.

    Returns:
        The version and the fields.

    Raises:
        MessageError: The bytes are not such a message.
    """
    version = MessageReader(data).int16()
    return version, decode(message, version, data, release, start=2).value
