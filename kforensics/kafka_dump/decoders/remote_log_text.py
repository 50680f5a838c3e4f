"""`--remote-log-metadata-decoder`: the texts of the `toString` methods of remote log metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kforensics.kafka_dump.decoders.classes import Decoder
from kforensics.kafka_dump.decoders.framed import read_framed
from kforensics.kafka_dump.java import NULL_POINTER, null_pointer_text
from kforensics.parsers.format.failures import ILLEGAL_ARGUMENT
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.reader import MessageError
from kforensics.parsers.messages.registry import REMOTE_LOG_METADATA
from kforensics.parsers.messages.releases import NEWEST, in_releases

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
