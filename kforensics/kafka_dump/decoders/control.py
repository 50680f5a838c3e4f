"""What stands behind the headers of a control record."""

from __future__ import annotations

from typing import Final

from kforensics.kafka_dump.decoders.decoder_styles import NULL_POINTER, STYLE_RELEASES, null_pointer_text
from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.messages.control import CONTROL_MESSAGES, CONTROL_TYPES, CONTROL_TYPES_2_8
from kforensics.parsers.messages.reader import MessageError, Reader
from kforensics.parsers.messages.releases import NEWEST, in_releases
from kforensics.parsers.messages.schema import layout

INVALID_RECORD: Final = "org.apache.kafka.common.InvalidRecordException"
_KEY_SIZE: Final = 4
_MARKER_SIZE: Final = 6
_MARKERS: Final = ("ABORT", "COMMIT")
# The words in front of the JSON, and the release from which on the tool prints JSON for the type.
_JSON_LABELS: Final = {
    "LEADER_CHANGE": ("LeaderChange:", "4.1"),
    "SNAPSHOT_HEADER": ("SnapshotHeader", "3.3"),
    "SNAPSHOT_FOOTER": ("SnapshotFooter", "3.3"),
    "KRAFT_VERSION": ("KRaftVersion", "3.8"),
    "KRAFT_VOTERS": ("KRaftVoters", "3.8"),
}


def control_type(key: bytes | None, release: str) -> int:
    """The type in the key of a control record.

    Raises:
        JavaError: The key is too short or has a negative version.
    """
    by_schema = in_releases(release, "4.3", None)
    if key is None:
        call = "java.nio.ByteBuffer.duplicate()" if by_schema else "java.nio.ByteBuffer.remaining()"
        raise JavaError(NULL_POINTER, null_pointer_text(call, '"key"'))
    if len(key) < _KEY_SIZE:
        which = "control record key" if by_schema else "end control record key"
        text = f"Invalid value size found for {which}. Must have at least {_KEY_SIZE} bytes, but found only {len(key)}"
        raise JavaError(INVALID_RECORD, text)
    reader = Reader(key)
    version, number = reader.int16(), reader.int16()
    if version < 0:
        text = f"Invalid version found for control record: {version}. May indicate data corruption"
        raise JavaError(INVALID_RECORD, text)
    return number


def _type_name(number: int, release: str) -> str:
    names = CONTROL_TYPES if in_releases(release, "3.0", None) else CONTROL_TYPES_2_8
    name = names.get(number, "UNKNOWN")
    known = name in ("UNKNOWN", "QUORUM_REASSIGNMENT") or in_releases(release, _since(name), None)
    return name if known else "UNKNOWN"


def _since(name: str) -> str:
    return CONTROL_MESSAGES[name].highest[0][0] if name not in _MARKERS else "0.11"


def _marker_epoch(value: bytes | None, release: str) -> int:
    """The coordinator epoch of a transaction marker."""
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
        reader = Reader(value)
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
    from kforensics.parsers.messages.codec import decode  # markers of transactions do without
    from kforensics.parsers.messages.json_render import to_json

    message = layout(CONTROL_MESSAGES[name], release)
    try:
        # Kafka reads all of these as version 0 and prints them at the version they claim.
        fields = decode(message, 0, value, release).value
    except MessageError as error:
        raise JavaError.of(error) from error
    return to_json(message, fields, fields["version"], release)


def _suffix(key: bytes | None, value: bytes | None, release: str) -> str:
    number = control_type(key, release)
    name = _type_name(number, release)
    if name in _MARKERS:
        return f" endTxnMarker: {name} coordinatorEpoch: {_marker_epoch(value, release)}"
    label, since = _JSON_LABELS.get(name, ("", ""))
    if not label or not in_releases(release, since, None):
        return f" controlType: {name}({number})"
    return f" {label} {_json(name, value, release)}"


def control_suffix(key: bytes | None, value: bytes | None, style: str | None = None) -> str:
    """What a record line says of a control record, with the blank in front.

    Args:
        key: The key of the record.
        value: The value of the record.
        style: The style to imitate, None for the forensic reading, which never raises.

    Raises:
        JavaError: Where the imitated tool aborts; nothing of the suffix is printed then.
    """
    if style is not None:
        return _suffix(key, value, STYLE_RELEASES[style])
    try:
        return _suffix(key, value, NEWEST)
    except JavaError:
        return _forensic_suffix(key, value)


def _forensic_suffix(key: bytes | None, value: bytes | None) -> str:
    from kforensics.parsers.messages.internal_records import decode_control_record  # sound records do without
    from kforensics.parsers.messages.json_render import to_json

    found = decode_control_record(key, value)
    if found.value is not None and found.value_message is not None and found.type_name == "LEADER_CHANGE":
        return f" LeaderChange: {to_json(found.value_message, found.value, 0)}"
    if found.type_name is None:
        return f" controlType: not readable, {found.error}"
    return f" controlType: {found.type_name}({found.type_id}) not readable, {found.error}"
