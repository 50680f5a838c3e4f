"""The forensic reading of internal records: what a record says, or why nobody can tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from kforensics.parsers.messages import group
from kforensics.parsers.messages.codec import Decoded, decode, decode_exact
from kforensics.parsers.messages.control import CONTROL_MESSAGES, CONTROL_TYPES
from kforensics.parsers.messages.reader import MessageError, Reader
from kforensics.parsers.messages.registry import (
    CONSUMER_OFFSETS,
    COORDINATOR_TYPES,
    INTERNAL_TOPICS,
    LEGACY_OFFSET_COMMIT,
    enum_name,
    framed_message,
    record_type,
)
from kforensics.parsers.messages.releases import NEWEST
from kforensics.parsers.messages.schema import Message

# Newest first. Releases whose layouts are the same as a newer one's are passed over by the codec.
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
    """What a record of an internal topic holds.

    Attributes:
        type_name: Kafka's name of the record type, None for a type nobody knows.
        type_id: Its number, None where not even that could be read.
        version: The version of the value, None for a tombstone or where it could not be read.
        key: The fields of the key; None where the topic has no keys or the key could not be read.
        value: The fields of the value; None for a tombstone or where it could not be read.
        error: What is wrong, None if nothing is.
        value_message: The layout the value was read with.
    """

    type_name: str | None = None
    type_id: int | None = None
    version: int | None = None
    key: dict[str, Any] | None = None
    value: dict[str, Any] | None = None
    error: str | None = None
    value_message: Message | None = None


def decode_record(topic: str, key: bytes | None, value: bytes | None) -> DecodedMessage:
    """Decode a record of an internal topic with whichever layout of any release fits.

    Args:
        topic: The name of the topic.
        key: The key of the record.
        value: The value of the record, None for a tombstone.

    Returns:
        What could be read. Unknown types and versions, and bytes that are no message, are an `error`, never an
        exception.
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
    number = Reader(key).int16()
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
        short = f"a value of {len(value)} byte(s) holds no version"
        return DecodedMessage(kind.name, number, key=fields, error=short)
    version = Reader(value).int16()
    message = _value_message(topic, number, version, kind.value)
    found = DecodedMessage(kind.name, number, version, fields, value_message=message)
    return _value(found, message, value, start=2)


def _value_message(topic: str, number: int, version: int, message: Message) -> Message:
    """Type 0 is an offset commit of the first form, but releases up to 4.0 also read newer values under it."""
    if topic == CONSUMER_OFFSETS and number == LEGACY_OFFSET_COMMIT and version > 0:
        return group.OFFSET_COMMIT_VALUE
    return message


def _value(
    found: DecodedMessage, message: Message, data: bytes, start: int, releases: tuple[str, ...] = LAYOUT_RELEASES
) -> DecodedMessage:
    """Read a value with whichever layout takes it to the last byte, an unknown version as if it were the newest."""
    version, highest = found.version or 0, message.highest_version
    is_known = 0 <= version <= highest
    unknown = f"unknown version {version} of {message.name}, known are 0 to {highest}"
    try:
        decoded = decode_exact(message, version if is_known else highest, data, releases, start)
    except MessageError as error:
        return _with(found, None, f"value: {error}" if is_known else unknown)
    left = len(data) - start - decoded.consumed
    if not is_known:
        return _with(found, None, unknown) if left else _with(found, decoded, f"{unknown}, read as {highest}")
    return _with(found, decoded, f"{left} byte(s) after the value" if left else None)


def _with(found: DecodedMessage, decoded: Decoded | None, error: str | None) -> DecodedMessage:
    value = decoded.value if decoded else None
    message = decoded.message if decoded else found.value_message
    return DecodedMessage(found.type_name, found.type_id, found.version, found.key, value, error, message)


def _framed_record(topic: str, value: bytes | None) -> DecodedMessage:
    if value is None:
        return DecodedMessage(error="the record has no value")
    reader = Reader(value)
    try:
        frame, number, version = (reader.unsigned_varint() for _ in range(3))
    except MessageError as error:
        return DecodedMessage(error=f"frame: {error}")
    if frame not in (_PREVIEW_FRAME_VERSION, _FRAME_VERSION):
        return DecodedMessage(type_id=number, error=f"unknown frame version {frame}")
    releases = LAYOUT_RELEASES if frame == _FRAME_VERSION else _PREVIEW_RELEASES
    message = framed_message(topic, number, releases[0]) or framed_message(topic, number)
    if message is None:
        return DecodedMessage(None, number, version, error=f"unknown record type {number}")
    found = DecodedMessage(message.name, number, version, value_message=message)
    return _value(found, message, value, reader.position, releases)


def decode_control_record(key: bytes | None, value: bytes | None) -> DecodedMessage:
    """Decode a control record with whichever layout of any release fits.

    Args:
        key: The key of the record: a version and a type.
        value: The value of the record.

    Returns:
        What could be read; `key` has the fields `version` and `type`, `type_name` is that of `ControlRecordType`.
    """
    if key is None or len(key) < 4:
        return DecodedMessage(error=f"a key of {len(key or b'')} byte(s) holds no control type")
    reader = Reader(key)
    fields = {"version": reader.int16(), "type": reader.int16()}
    number = fields["type"]
    name = CONTROL_TYPES.get(number)
    if name is None:
        return DecodedMessage("UNKNOWN", number, key=fields, error=f"unknown control type {number}")
    if value is None:
        return DecodedMessage(name, number, key=fields, error="the control record has no value")
    return _control_value(name, number, fields, value)


def _control_value(name: str, number: int, key: dict[str, int], value: bytes) -> DecodedMessage:
    message = CONTROL_MESSAGES[name]
    prefixed = name in ("ABORT", "COMMIT")
    found = DecodedMessage(name, number, 0, key, value_message=message)
    try:
        decoded = decode_exact(message, 0, value, LAYOUT_RELEASES, start=2 if prefixed else 0)
    except MessageError as error:
        return _leader_change_of_2_8(number, key, value) or _with(found, None, f"value: {error}")
    version = Reader(value).int16() if prefixed else decoded.value.get("version", 0)
    found = DecodedMessage(name, number, version, key, value_message=message)
    left = len(value) - decoded.consumed - 2 * prefixed
    if left and (older := _leader_change_of_2_8(number, key, value)):
        return older
    return _with(found, decoded, f"{left} byte(s) after the value" if left and not prefixed else None)


def _leader_change_of_2_8(number: int, key: dict[str, int], value: bytes) -> DecodedMessage | None:
    """Type 3 was the leader change before 3.0: taken where a snapshot header does not fit and this does."""
    if number != 3:
        return None
    message = CONTROL_MESSAGES["LEADER_CHANGE"]
    try:
        decoded = decode_exact(message, 0, value, ("2.8", "2.7"))
    except MessageError:
        return None
    if decoded.consumed != len(value):
        return None
    return DecodedMessage("LEADER_CHANGE", number, 0, key, decoded.value, None, decoded.message)


def decode_consumer_protocol(message: Message, blob: bytes, release: str | None = None) -> tuple[int, dict[str, Any]]:
    """Decode what a consumer puts into `subscription` or `assignment` of a group's members.

    Args:
        message: `CONSUMER_PROTOCOL_SUBSCRIPTION` or `CONSUMER_PROTOCOL_ASSIGNMENT` of the group tables.
        blob: The bytes: a version, then the message.
        release: Read as this release reads; None for the newest.

    Returns:
        The version and the fields.

    Raises:
        MessageError: The bytes are not such a message.
    """
    version = Reader(blob).int16()
    return version, decode(message, version, blob, release, start=2).value


def metadata_type_name(found: DecodedMessage) -> str | None:
    """The name Kafka's tools print for a metadata record."""
    return enum_name(found.value_message) if found.value_message else None
