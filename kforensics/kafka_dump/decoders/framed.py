"""The records that have a frame: those of the metadata log, as JSON, and remote log metadata, as `toString` prints it.

They are printed with `--cluster-metadata-decoder` and `--remote-log-metadata-decoder`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kforensics.kafka_dump.decoders.classes import Decoder
from kforensics.kafka_dump.java import NULL_POINTER, null_pointer_text
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT
from kforensics.parsers.messages.codec import Decoded, decode
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.json_render import to_json
from kforensics.parsers.messages.reader import UNSUPPORTED_VERSION, MessageError, MessageReader
from kforensics.parsers.messages.registry import CLUSTER_METADATA, enum_name, framed_message
from kforensics.parsers.messages.releases import NEWEST, in_releases
from kforensics.parsers.messages.schema import MessageSchema

_PARSE_ERROR: Final = "org.apache.kafka.common.errors.MetadataParseException"
_SERIALIZATION_ERROR: Final = "org.apache.kafka.common.errors.SerializationException"
_MAX_SHORT: Final = 0x7FFF


def _short(number: int) -> int:
    number &= 0xFFFF
    return number - 0x10000 if number > _MAX_SHORT else number


def _prefix(reader: MessageReader | None, entity: str) -> int:
    if reader is None:
        raise MessageError(_PARSE_ERROR, f"Error while reading {entity}")
    try:
        number = reader.unsigned_varint()
    except MessageError as error:
        raise MessageError(_PARSE_ERROR, f"Error while reading {entity}") from error
    if number > _MAX_SHORT:
        raise MessageError(_PARSE_ERROR, f"Value for {entity} was too large.")
    return _short(number)


def _check_frame(frame: int) -> None:
    if frame == 0:
        text = (
            "Could not deserialize metadata record with frame version 0. "
            "Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not supported."
        )
        raise MessageError(_PARSE_ERROR, text)
    if frame != 1:
        text = (
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            "(only frame version 1 is supported)"
        )
        raise MessageError(_PARSE_ERROR, text)


def read_framed(topic: str, value: bytes | None, release: str) -> tuple[int, Decoded]:
    """Read a framed record as `AbstractApiMessageSerde` of one release does.

    Args:
        topic: `__cluster_metadata` or `__remote_log_metadata`.
        value: The value of the record.
        release: The release to imitate, 3.0 or later.

    Returns:
        The version in the frame, and the message.

    Raises:
        MessageError: The release cannot read the record.
    """
    reader = None if value is None else MessageReader(value)
    _check_frame(_prefix(reader, "frame version"))
    number, version = _prefix(reader, "type"), _prefix(reader, "version")
    message = framed_message(topic, number, release)
    if message is None:
        raise MessageError(_PARSE_ERROR, f"{UNSUPPORTED_VERSION}: Unknown metadata id {number}")
    start = reader.position if reader else 0
    try:
        decoded = decode(message, version, value or b"", release, start)
    except MessageError as error:
        raise MessageError(_PARSE_ERROR, f"Failed to deserialize record with type {number}") from error
    left = len(value or b"") - start - decoded.consumed
    if left:
        raise MessageError(_PARSE_ERROR, f"Found {left} byte(s) of garbage after {number}")
    return version, decoded


def _read_preview(value: bytes | None, release: str) -> tuple[int, Decoded]:
    """Read a record of the KRaft preview, with another frame version, fewer checks and no error for trailing bytes."""
    if value is None:
        raise MessageError("", null_pointer_text("java.nio.ByteBuffer.get()", '"buffer"'))
    reader = MessageReader(value)
    frame = _short(reader.unsigned_varint())
    if frame != 0:
        text = (
            f"Could not deserialize metadata record due to unknown frame version {frame}"
            "(only frame version 0 is supported)"
        )
        raise MessageError(_SERIALIZATION_ERROR, text)
    number, version = _short(reader.unsigned_varint()), _short(reader.unsigned_varint())
    message = framed_message(CLUSTER_METADATA, number, release)
    if message is None:
        raise MessageError(UNSUPPORTED_VERSION, f"Unknown metadata id {number}")
    return version, decode(message, version, value, release, reader.position)


def _text(message: MessageSchema, decoded: Decoded, version: int) -> str:
    body = to_json(decoded.message, decoded.value, version)
    return f'{{"type":"{enum_name(message)}","version":{version},"data":{body}}}'


def cluster_metadata_decoder(release: str) -> Decoder:
    """Return the decoder of `__cluster_metadata` in one release.

    Args:
        release: The release to imitate, 2.8 or later.
    """
    is_preview = not in_releases(release, "3.0", None)

    def parse(_key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        try:
            if is_preview:
                version, decoded = _read_preview(value, release)
            else:
                version, decoded = read_framed(CLUSTER_METADATA, value, release)
        except MessageError as error:
            text = "null" if error.java_message is None else error.java_message
            return None, f"Error at {offset}, skipping. {text}"
        return None, _text(decoded.message, decoded, version)

    return parse


def best_effort_metadata_decoder() -> Decoder:
    """Return a decoder that prints the same text for records of any release, including the preview in 2.8."""

    def parse(_key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        record = decode_record(CLUSTER_METADATA, None, value)
        if record.value is None or record.value_message is None:
            return None, f"Error at {offset}, skipping. {record.error}"
        body = to_json(record.value_message, record.value, record.version or 0)
        text = f'{{"type":"{enum_name(record.value_message)}","version":{record.version},"data":{body}}}'
        return None, f"{text} ({record.error})" if record.error else text

    return parse


_SEGMENT_STATES: Final = {
    0: "COPY_SEGMENT_STARTED",
    1: "COPY_SEGMENT_FINISHED",
    2: "DELETE_SEGMENT_STARTED",
    3: "DELETE_SEGMENT_FINISHED",
}
_PARTITION_DELETE_STATES: Final = {
    0: "DELETE_PARTITION_MARKED",
    1: "DELETE_PARTITION_STARTED",
    2: "DELETE_PARTITION_FINISHED",
}
_TXN_INDEX_EMPTY_SINCE: Final = "4.0"

_Fields = Mapping[str, Any]


def _null_value_text(release: str) -> str:
    package = "record.internal" if in_releases(release, "4.3", None) else "record"
    target = f'the return value of "org.apache.kafka.common.{package}.Record.value()"'
    return null_pointer_text("java.nio.ByteBuffer.remaining()", target)


def _partition(fields: _Fields) -> str:
    return f"{fields['id']}:{fields['name']}-{fields['partition']}"


def _segment_id(fields: _Fields) -> str:
    return f"RemoteLogSegmentId{{topicIdPartition={_partition(fields['topicIdPartition'])}, id={fields['id']}}}"


def _custom_metadata(fields: _Fields) -> str:
    metadata = fields.get("customMetadata")
    return "Optional.empty" if metadata is None else f"Optional[CustomMetadata{{{len(metadata)} bytes}}]"


def _state(fields: _Fields) -> str:
    name = _SEGMENT_STATES.get(fields["remoteLogSegmentState"])
    if name is None:
        raise MessageError(NULL_POINTER, "state can not be null")
    return name


def _epochs(fields: _Fields) -> str:
    epochs = {entry["leaderEpoch"]: entry["offset"] for entry in fields["segmentLeaderEpochs"]}
    if not epochs:
        raise MessageError(ILLEGAL_ARGUMENT, "segmentLeaderEpochs can not be null or empty")
    return "{" + ", ".join(f"{epoch}={epochs[epoch]}" for epoch in sorted(epochs)) + "}"


def _txn_index(fields: _Fields, release: str) -> str:
    if not in_releases(release, _TXN_INDEX_EMPTY_SINCE, None):
        return ""
    return f", txnIdxEmpty={str(fields['txnIndexEmpty']).lower()}"


def _check_offsets(fields: _Fields) -> None:
    start, end = fields["startOffset"], fields["endOffset"]
    if start < 0:
        text = f"Unexpected start offset = {start}. StartOffset for a remote segment cannot be negative"
        raise MessageError(ILLEGAL_ARGUMENT, text)
    if end < start:
        text = (
            f"Unexpected end offset = {end}. EndOffset for a remote segment cannot be less than startOffset = {start}"
        )
        raise MessageError(ILLEGAL_ARGUMENT, text)


def _segment(fields: _Fields, release: str) -> str:
    # Kafka creates the segment in the first state and then updates it, hence the order of the checks.
    _check_offsets(fields)
    epochs, state = _epochs(fields), _state(fields)
    return (
        f"RemoteLogSegmentMetadata{{remoteLogSegmentId={_segment_id(fields['remoteLogSegmentId'])}, "
        f"startOffset={fields['startOffset']}, endOffset={fields['endOffset']}, brokerId={fields['brokerId']}, "
        f"maxTimestampMs={fields['maxTimestampMs']}, eventTimestampMs={fields['eventTimestampMs']}, "
        f"segmentLeaderEpochs={epochs}, segmentSizeInBytes={fields['segmentSizeInBytes']}, "
        f"customMetadata={_custom_metadata(fields)}, state={state}{_txn_index(fields, release)}}}"
    )


def _update(fields: _Fields, _release: str) -> str:
    return (
        f"RemoteLogSegmentMetadataUpdate{{remoteLogSegmentId={_segment_id(fields['remoteLogSegmentId'])}, "
        f"customMetadata={_custom_metadata(fields)}, state={_state(fields)}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
    )


def _delete(fields: _Fields, _release: str) -> str:
    state = _PARTITION_DELETE_STATES.get(fields["remotePartitionDeleteState"])
    if state is None:
        raise MessageError(NULL_POINTER)
    return (
        f"RemotePartitionDeleteMetadata{{topicPartition={_partition(fields['topicIdPartition'])}, state={state}, "
        f"eventTimestampMs={fields['eventTimestampMs']}, brokerId={fields['brokerId']}}}"
    )


def _snapshot(fields: _Fields, release: str) -> str:
    state, epochs = _state(fields), _epochs(fields)
    return (
        f"RemoteLogSegmentMetadataSnapshot{{segmentId={fields['segmentId']}, startOffset={fields['startOffset']}, "
        f"endOffset={fields['endOffset']}, maxTimestampMs={fields['maxTimestampMs']}, segmentLeaderEpochs={epochs}, "
        f"segmentSizeInBytes={fields['segmentSizeInBytes']}, customMetadata={_custom_metadata(fields)}, "
        f"state={state}{_txn_index(fields, release)}}}"
    )


_TEXTS: Final = (_segment, _update, _delete, _snapshot)


def remote_log_decoder(release: str) -> Decoder:
    """Return the decoder of `__remote_log_metadata` in one release.

    Args:
        release: The release to imitate, 3.9 or later.
    """

    def parse(_key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        try:
            if value is None:
                raise MessageError(NULL_POINTER, _null_value_text(release))
            decoded = read_framed(REMOTE_LOG_METADATA, value, release)[1]
            return None, _TEXTS[decoded.message.id or 0](decoded.value, release)
        except MessageError as error:
            text = "null" if error.java_message is None else error.java_message
            return None, f"Error at offset {offset}, skipping. {text}"

    return parse


def best_effort_remote_log_decoder() -> Decoder:
    """Return a decoder that prints the same texts for records of any release."""

    def parse(_key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        record = decode_record(REMOTE_LOG_METADATA, None, value)
        if record.value is None or record.type_id is None:
            return None, f"Error at offset {offset}, skipping. {record.error}"
        # Values written before 4.0 do not have this field; Kafka assumes false.
        fields = {"txnIndexEmpty": False, **record.value}
        try:
            text = _TEXTS[record.type_id](fields, NEWEST)
        except MessageError as error:
            return None, f"Error at offset {offset}, skipping. {error}"
        return None, f"{text} ({record.error})" if record.error else text

    return parse
