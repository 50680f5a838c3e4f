"""The text after the headers of a control record, as each release prints it."""

from __future__ import annotations

from typing import Final

from kforensics.kafka_dump.java import NULL_POINTER, JavaError, null_pointer_text
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.format.failures import INVALID_RECORD
from kforensics.parsers.messages.control_messages import (
    CONTROL_MESSAGES,
    CONTROL_TYPE_NAMES,
    CONTROL_TYPE_NAMES_2_8,
)
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.releases import NEWEST, in_releases
from kforensics.parsers.messages.schema import layout

_KEY_SIZE: Final = 4
_MARKER_SIZE: Final = 6
_MARKERS: Final = ("ABORT", "COMMIT")
# The label of the JSON, and the first release that prints JSON for the type.
_JSON_LABELS: Final = {
    "LEADER_CHANGE": ("LeaderChange:", "4.1"),
    "SNAPSHOT_HEADER": ("SnapshotHeader", "3.3"),
    "SNAPSHOT_FOOTER": ("SnapshotFooter", "3.3"),
    "KRAFT_VERSION": ("KRaftVersion", "3.8"),
    "KRAFT_VOTERS": ("KRaftVoters", "3.8"),
}


def _control_type(key: bytes | None, release: str) -> int:
    """Return the type in the key of a control record.

    Raises:
        JavaError: The key is too short or has a negative version.
    """
    by_schema = in_releases(release, "4.3", None)
    if key is None:
        call = "java.nio.ByteBuffer.duplicate()" if by_schema else "java.nio.ByteBuffer.remaining()"
        raise JavaError(NULL_POINTER, null_pointer_text(call, '"key"'))
    if len(key) < _KEY_SIZE:
        part = "control record key" if by_schema else "end control record key"
        text = f"Invalid value size found for {part}. Must have at least {_KEY_SIZE} bytes, but found only {len(key)}"
        raise JavaError(INVALID_RECORD, text)
    reader = MessageReader(key)
    version, number = reader.int16(), reader.int16()
    if version < 0:
        text = f"Invalid version found for control record: {version}. May indicate data corruption"
        raise JavaError(INVALID_RECORD, text)
    return number


def _type_name(number: int, release: str) -> str:
    names = CONTROL_TYPE_NAMES if in_releases(release, "3.0", None) else CONTROL_TYPE_NAMES_2_8
    name = names.get(number, "UNKNOWN")
    is_known = name in ("UNKNOWN", "QUORUM_REASSIGNMENT") or in_releases(release, _since(name), None)
    return name if is_known else "UNKNOWN"


def _since(name: str) -> str:
    return CONTROL_MESSAGES[name].highest[0][0] if name not in _MARKERS else "0.11"


def _marker_epoch(value: bytes | None, release: str) -> int:
    """Return the coordinator epoch of a transaction marker."""
    by_schema = in_releases(release, "4.1", None)
    if value is None:
        call = "java.nio.ByteBuffer.getShort()" if by_schema else "java.nio.ByteBuffer.remaining()"
        raise JavaError(NULL_POINTER, null_pointer_text(call, '"value"'))
    if not by_schema and len(value) < _MARKER_SIZE:
        text = (
            "Invalid value size found for end transaction marker. "
            f"Must have at least {_MARKER_SIZE} bytes, but found only {len(value)}"
        )
        raise JavaError(INVALID_RECORD, text)
    try:
        reader = MessageReader(value)
        version = reader.int16()
        if version < 0:
            text = f"Invalid version found for end transaction marker: {version}. May indicate data corruption"
            raise JavaError(INVALID_RECORD, text)
        return reader.int32()
    except MessageError as error:
        raise JavaError.of(error) from error


def _json(name: str, value: bytes | None, release: str) -> str:
    if value is None:
        raise JavaError(NULL_POINTER, null_pointer_text("java.nio.ByteBuffer.slice()", '"data"'))
    from kforensics.parsers.messages.codec import decode  # not for transaction markers
    from kforensics.parsers.messages.json_render import to_json

    message = layout(CONTROL_MESSAGES[name], release)
    try:
        # Kafka reads all of these as version 0 and prints them as the version in their `version` field.
        fields = decode(message, 0, value, release).value
    except MessageError as error:
        raise JavaError.of(error) from error
    return to_json(message, fields, fields["version"], release)


def _suffix(key: bytes | None, value: bytes | None, release: str) -> str:
    number = _control_type(key, release)
    name = _type_name(number, release)
    if name in _MARKERS:
        return f" endTxnMarker: {name} coordinatorEpoch: {_marker_epoch(value, release)}"
    label, since = _JSON_LABELS.get(name, ("", ""))
    if not label or not in_releases(release, since, None):
        return f" controlType: {name}({number})"
    return f" {label} {_json(name, value, release)}"


def control_record_text(key: bytes | None, value: bytes | None, style: str | None = None) -> str:
    """Return what a record line has after the headers of a control record, with a blank at the start.

    Args:
        key: The key of the record.
        value: The value of the record.
        style: The style to imitate; None for the plain style, in which nothing is raised.

    Raises:
        JavaError: The imitated tool aborts, and prints nothing of this text.
    """
    if style is not None:
        return _suffix(key, value, STYLES[style].release)
    try:
        return _suffix(key, value, NEWEST)
    except JavaError:
        return _best_effort_suffix(key, value)


def _best_effort_suffix(key: bytes | None, value: bytes | None) -> str:
    from kforensics.parsers.messages.internal_records import decode_control_record  # not for intact records
    from kforensics.parsers.messages.json_render import to_json

    decoded = decode_control_record(key, value)
    if decoded.value is not None and decoded.value_message is not None and decoded.type_name == "LEADER_CHANGE":
        return f" LeaderChange: {to_json(decoded.value_message, decoded.value, 0)}"
    if decoded.type_name is None:
        return f" controlType: not readable, {decoded.error}"
    return f" controlType: {decoded.type_name}({decoded.type_id}) not readable, {decoded.error}"
