"""The records of coordinators as text, as older tools print them: offsets up to 3.7, transaction state up to 4.0.

A record that cannot be read ends the run. To print the assignments in a classic group, the tools load the group as the
broker does.

2.7 reads the records with hand-written schemas, whose errors contain the path to the field. The bytes are those of the
generated messages, so the schemas of 2.8 are used; field names and errors differ.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from kforensics.kafka_dump.decoders.classes import Decoder
from kforensics.kafka_dump.java import (
    ILLEGAL_STATE,
    NULL_POINTER,
    JavaError,
    null_pointer_text,
    scala_map_order,
    scala_set_order,
    topic_partition_hash,
)
from kforensics.parsers.format.failures import BUFFER_UNDERFLOW, KAFKA
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages import group, transaction_log
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.json_render import json_text
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.releases import in_releases
from kforensics.parsers.messages.schema import Field, MessageSchema, has_version, layout

SCHEMA_EXCEPTION: Final = "org.apache.kafka.common.protocol.types.SchemaException"
# Field names that are not the names of the generated messages in snake case.
_NAMES: Final = {
    "transactionTimeoutMs": "transaction_timeout",
    "transactionLastUpdateTimestampMs": "transaction_entry_timestamp",
    "transactionStartTimestampMs": "transaction_start_timestamp",
}
_RELEASE_OF_SCHEMAS: Final = "2.8"


def _name(field: Field, message: MessageSchema, version: int) -> str:
    if field.name == "commitTimestamp" and message.name == "OffsetCommitValue" and version == 0:
        return "timestamp"
    return _NAMES.get(field.name) or re.sub("([A-Z])", r"_\1", field.name).lower()


def read_struct(message: MessageSchema, version: int, data: bytes, start: int) -> dict[str, Any]:
    """Read a message as `org.apache.kafka.common.protocol.types.Schema` does.

    Args:
        message: The schema of the message.
        version: The version of the message.
        data: The bytes.
        start: The index of the first byte of the message.

    Raises:
        JavaError: A SchemaException with the path to the field that cannot be read.
    """
    reader = MessageReader(data, position=start)
    try:
        return _struct(layout(message, _RELEASE_OF_SCHEMAS).fields, message, version, reader)
    except MessageError as error:
        raise JavaError.of(error) from error


def _struct(fields: tuple[Field, ...], message: MessageSchema, version: int, reader: MessageReader) -> dict[str, Any]:
    value = {}
    for field in fields:
        if not has_version(field.versions, version):
            continue
        try:
            value[field.name] = _field(field, message, version, reader)
        except MessageError as error:
            cause = error.java_message or error.java_class
            text = f"Error reading field '{_name(field, message, version)}': {cause}"
            raise MessageError(SCHEMA_EXCEPTION, text) from error
    return value


def _field(field: Field, message: MessageSchema, version: int, reader: MessageReader) -> Any:
    if not field.is_array:
        return _primitive(field, has_version(field.nullable, version), reader)
    count = reader.int32()
    if count < 0:
        if field.nullable:
            return None
        raise MessageError(SCHEMA_EXCEPTION, f"Array size {count} cannot be negative")
    _check(count, "array", reader)
    if field.fields:
        return [_struct(field.fields, message, version, reader) for _ in range(count)]
    return [reader.int32() for _ in range(count)]


def _primitive(field: Field, nullable: bool, reader: MessageReader) -> Any:
    if field.type == "string":
        length = reader.int16()
        if length < 0:
            return _null("String length", length, nullable)
        return java_utf8(_sized(length, "string", reader))
    if field.type == "bytes":
        length = reader.int32()
        return _null("Bytes size", length, nullable) if length < 0 else _sized(length, "bytes", reader)
    return {"int8": reader.int8, "int16": reader.int16, "int32": reader.int32, "int64": reader.int64}[field.type]()


def _null(label: str, length: int, nullable: bool) -> None:
    if not nullable:
        raise MessageError(SCHEMA_EXCEPTION, f"{label} {length} cannot be negative")


def _check(size: int, kind: str, reader: MessageReader) -> None:
    if size > reader.remaining:
        unit = "length" if kind == "string" else "size"
        text = f"Error reading {kind} of {unit} {size}, only {reader.remaining} bytes available"
        raise MessageError(SCHEMA_EXCEPTION, text)


def _sized(size: int, kind: str, reader: MessageReader) -> bytes:
    _check(size, kind, reader)
    return reader.raw(size)


_TOMBSTONE: Final = "<DELETE>"
_EMPTY: Final = 0
_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_CONSUMER: Final = "consumer"
_PROTOCOL_PARTS: Final = {
    group.CONSUMER_PROTOCOL_SUBSCRIPTION.name: "subscription",
    group.CONSUMER_PROTOCOL_ASSIGNMENT.name: "assignment",
}
_TRANSACTION_STATES: Final = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
_Fields = dict[str, Any]


def _has_handwritten_schemas(release: str) -> bool:
    """Return whether the release reads these records without generated messages."""
    return not in_releases(release, "2.8", None)


def _number(data: bytes) -> int:
    try:
        return MessageReader(data).int16()
    except MessageError as error:
        raise JavaError.of(error) from error


def _read(message: MessageSchema, version: int, data: bytes, release: str) -> _Fields:
    if _has_handwritten_schemas(release):
        return read_struct(message, version, data, start=2)
    try:
        return decode(message, version, data, release, start=2).value
    except MessageError as error:
        raise JavaError.of(error) from error


def _value(message: MessageSchema, data: bytes, release: str, error: Callable[[int], JavaError]) -> _Fields:
    """Return the fields of a value.

    Args:
        message: The schema of the value.
        data: The value.
        release: The release to imitate.
        error: Makes the exception for a version that the release does not know.

    Raises:
        JavaError: The release cannot read the value.
    """
    version = _number(data)
    # The hand-written schemas of 2.7 have the versions of 2.8.
    known = layout(message, "2.8" if _has_handwritten_schemas(release) else release)
    if not 0 <= version <= known.highest_version:
        raise error(version)
    return _read(message, version, data, release)


def offsets_decoder(release: str) -> Decoder:
    """Return the decoder of `__consumer_offsets` in one release.

    Args:
        release: The release to imitate, 3.7 or earlier.
    """

    def parse(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        if key is None:
            text = "Failed to decode message using offset topic decoder (message had a missing key)"
            raise JavaError(KAFKA, text)
        number = _number(key)
        if number in _OFFSET_KEYS:
            fields = _read(group.OFFSET_COMMIT_KEY, 0, key, release)
            partition = f"{fields['topic']}-{fields['partition']}"
            return f"offset_commit::group={fields['group']},partition={partition}", _offset_text(value, release)
        if number == _GROUP_KEY:
            fields = _read(group.GROUP_METADATA_KEY, 0, key, release)
            return f"group_metadata::group={fields['group']}", _group_text(value, release)
        if _has_handwritten_schemas(release):
            raise JavaError(KAFKA, f"Unknown message key schema version {number}")
        raise JavaError(ILLEGAL_STATE, f"Unknown group metadata message version: {number}")

    return parse


def _offset_text(value: bytes | None, release: str) -> str:
    if value is None:
        return _TOMBSTONE

    def unknown_version(version: int) -> JavaError:
        if _has_handwritten_schemas(release):
            return JavaError(KAFKA, f"Unknown offset schema version {version}")
        return JavaError(ILLEGAL_STATE, f"Unknown offset message version: {version}")

    fields = _value(group.OFFSET_COMMIT_VALUE, value, release, unknown_version)
    metadata = fields["metadata"]
    return f"offset={fields['offset']},metadata={metadata}" if metadata else f"offset={fields['offset']}"


def _group_text(value: bytes | None, release: str) -> str:
    if value is None:
        return _TOMBSTONE

    def unknown_version(version: int) -> JavaError:
        if _has_handwritten_schemas(release):
            return JavaError(KAFKA, f"Unknown group metadata version {version}")
        return JavaError(ILLEGAL_STATE, f"Unknown group metadata message version: {version}")

    fields = _value(group.GROUP_METADATA_VALUE, value, release, unknown_version)
    members = _loaded_members(fields)
    _check_subscriptions(fields, members, release)
    texts = (_member_text(fields["protocolType"], member, release) for member in members)
    return json_text(
        {
            "protocolType": fields["protocolType"],
            "protocol": fields["protocol"],
            "generationId": fields["generation"],
            "assignment": "{" + ",".join(texts) + "}",
        }
    )


def _loaded_members(fields: _Fields) -> list[_Fields]:
    """Return the members in the order of the Scala map in which the broker keeps them.

    Raises:
        JavaError: Another member follows a duplicate, which fails an assertion in the broker.
    """
    members: dict[str, _Fields] = {}
    for count, member in enumerate(fields["members"]):
        if count != len(members):
            raise JavaError("java.lang.AssertionError", "assertion failed")
        members[member["memberId"]] = member
    order = scala_map_order(member["memberId"] for member in fields["members"])
    return [members[member_id] for member_id in order]


def _check_subscriptions(fields: _Fields, members: list[_Fields], release: str) -> None:
    """Read the members' subscriptions, as the broker does when it loads a consumer group, for the errors only.

    Raises:
        JavaError: A subscription is damaged in a way that the broker does not handle.
    """
    if fields["protocolType"] != _CONSUMER or fields["protocol"] is None:
        return
    for member in members:
        try:
            _protocol(group.CONSUMER_PROTOCOL_SUBSCRIPTION, member["subscription"], release, version=0)
        except JavaError as error:
            if error.class_name != SCHEMA_EXCEPTION:
                raise
            # The broker logs this error and does not read the subscriptions of the other members.
            return


def _member_text(protocol_type: str, member: _Fields, release: str) -> str:
    """Return what the tool prints for the assignment of a member."""
    name, assignment = member["memberId"], member["assignment"]
    if protocol_type != _CONSUMER:
        return f"{name}={_hex(assignment)}"
    fields = _protocol(group.CONSUMER_PROTOCOL_ASSIGNMENT, assignment, release)
    partitions = [
        f"{entry['topic']}-{partition}" for entry in fields["assignedPartitions"] for partition in entry["partitions"]
    ]
    user_data = _hex(fields["userData"] or b"")
    text = f"{name}=[{', '.join(partitions)}]"
    return f"{text}:{user_data}" if user_data else text


def _hex(data: bytes) -> str:
    """Return what Scala's `"%X".format(BigInt(1, bytes))` returns, which loses leading zeros."""
    return f"{int.from_bytes(data, 'big'):X}" if data else ""


def _protocol(message: MessageSchema, data: bytes, release: str, version: int | None = None) -> _Fields:
    """Return what `ConsumerProtocol.deserialize…` reads, with a given version or the one before the message."""
    part = _PROTOCOL_PARTS[message.name]
    try:
        written = MessageReader(data).int16()
    except MessageError as error:
        raise _underflow("header", error) from error
    if version is None:
        if written < 0:
            raise JavaError(SCHEMA_EXCEPTION, f"Unsupported {part} version: {written}")
        version = min(written, layout(message, release).highest_version)
    try:
        return decode(message, version, data, release, start=2).value
    except MessageError as error:
        if error.java_class == BUFFER_UNDERFLOW:
            raise _underflow(part, error) from error
        raise JavaError.of(error) from error


def _underflow(where: str, error: MessageError) -> JavaError:
    text = f"Buffer underflow while parsing consumer protocol's {where}"
    return JavaError(SCHEMA_EXCEPTION, text, JavaError.of(error))


def transaction_decoder(release: str) -> Decoder:
    """Return the decoder of `__transaction_state` in one release.

    Args:
        release: The release to imitate, 4.0 or earlier.
    """

    def parse(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        if key is None:
            raise JavaError(NULL_POINTER, null_pointer_text("java.nio.ByteBuffer.getShort()", '"buffer"'))
        number = _number(key)
        if number != 0:
            return _unknown_transaction_key(number, release)
        fields = _read(transaction_log.TRANSACTION_LOG_KEY, 0, key, release)
        text = f"transaction_metadata::transactionalId={fields['transactionalId']}"
        return text, _TOMBSTONE if value is None else _transaction_text(value, release)

    return parse


def _unknown_transaction_key(number: int, release: str) -> tuple[str, None]:
    if in_releases(release, "3.5", None):
        return f"unknown::version={number}", None
    if _has_handwritten_schemas(release):
        raise JavaError(KAFKA, f"Unknown transaction log message key schema version {number}")
    raise JavaError(ILLEGAL_STATE, f"Unknown version {number} from the transaction log message")


def _transaction_text(value: bytes, release: str) -> str:
    def unknown_version(version: int) -> JavaError:
        if _has_handwritten_schemas(release):
            return JavaError(KAFKA, f"Unknown transaction log message value schema version {version}")
        return JavaError(ILLEGAL_STATE, f"Unknown version {version} from the transaction log message value")

    fields = _value(transaction_log.TRANSACTION_LOG_VALUE, value, release, unknown_version)
    status = fields["transactionStatus"]
    state = _TRANSACTION_STATES.get(status)
    if state is None:
        noun = "id" if in_releases(release, "3.0", None) else "byte"
        raise JavaError(ILLEGAL_STATE, f"Unknown transaction state {noun} {status} from the transaction status message")
    partitions = [] if status == _EMPTY else _partitions(fields["transactionPartitions"], release)
    return (
        f"producerId:{fields['producerId']},producerEpoch:{fields['producerEpoch']},state={state},"
        f"partitions=[{','.join(partitions)}],txnLastUpdateTimestamp={fields['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={fields['transactionTimeoutMs']}"
    )


def _partitions(topics: list[_Fields] | None, release: str) -> list[str]:
    """Return the partitions in the order of the Scala set in which the broker keeps them."""
    if topics is None:
        raise JavaError(NULL_POINTER, _null_partitions_text(release))
    sets = [
        [
            (f"{entry['topic']}-{partition}", topic_partition_hash(entry["topic"], partition))
            for partition in entry["partitionIds"]
        ]
        for entry in topics
    ]
    return scala_set_order(sets)


def _null_partitions_text(release: str) -> str:
    if _has_handwritten_schemas(release):
        return 'Cannot read the array length because "topicPartitionArray" is null'
    has_new_package = in_releases(release, "3.8", None)
    package = "org.apache.kafka.coordinator.transaction.generated" if has_new_package else "kafka.internals.generated"
    target = f'the return value of "{package}.TransactionLogValue.transactionPartitions()"'
    return null_pointer_text("java.util.List.forEach(java.util.function.Consumer)", target)
