"""The records of coordinators as text, as older tools print them: offsets up to 3.7, transaction state up to 4.0.

A record that cannot be read ends the run. To print the assignments in a classic group, the tools load the group as the
broker does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kforensics.kafka_dump.decoders.classes import Decoder
from kforensics.kafka_dump.decoders.handwritten import SCHEMA_EXCEPTION, read_struct
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
from kforensics.parsers.messages import group, transaction_log
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.json_render import json_text
from kforensics.parsers.messages.reader import MessageError, MessageReader
from kforensics.parsers.messages.releases import in_releases
from kforensics.parsers.messages.schema import MessageSchema, layout

_TOMBSTONE: Final = "<DELETE>"
_EMPTY: Final = 0
_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_UNKNOWN_GROUP_VERSION: Final = "Unknown group metadata message version: {}"
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


def type_number(data: bytes) -> int:
    """Return the number at the start of a key or a value."""
    try:
        return MessageReader(data).int16()
    except MessageError as error:
        raise JavaError.of(error) from error


def read_message(message: MessageSchema, version: int, data: bytes, release: str) -> _Fields:
    """Return the fields of a key or a value."""
    if _has_handwritten_schemas(release):
        return read_struct(message, version, data, start=2)
    try:
        return decode(message, version, data, release, start=2).value
    except MessageError as error:
        raise JavaError.of(error) from error


def _read_value(message: MessageSchema, data: bytes, release: str, error: Callable[[int], JavaError]) -> _Fields:
    """Return the fields of a value.

    Args:
        message: The schema of the value.
        data: The value.
        release: The release to imitate.
        error: Makes the exception for a version that the release does not know.

    Raises:
        JavaError: The release cannot read the value.
    """
    version = type_number(data)
    # The hand-written schemas of 2.7 have the versions of 2.8.
    known = layout(message, "2.8" if _has_handwritten_schemas(release) else release)
    if not 0 <= version <= known.highest_version:
        raise error(version)
    return read_message(message, version, data, release)


def _unknown(handwritten: str, generated: str, release: str) -> Callable[[int], JavaError]:
    """Return what makes the exception for a version, from the message of 2.7 and that of later releases."""

    def error(version: int) -> JavaError:
        if _has_handwritten_schemas(release):
            return JavaError(KAFKA, handwritten.format(version))
        return JavaError(ILLEGAL_STATE, generated.format(version))

    return error


def unknown_group_key(release: str) -> Callable[[int], JavaError]:
    """Return what makes the exception for an unknown key of `__consumer_offsets`."""
    return _unknown("Unknown message key schema version {}", _UNKNOWN_GROUP_VERSION, release)


def offsets_decoder(release: str) -> Decoder:
    """Return the decoder of `__consumer_offsets` in one release.

    Args:
        release: The release to imitate, 3.7 or earlier.
    """

    def parse(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        if key is None:
            text = "Failed to decode message using offset topic decoder (message had a missing key)"
            raise JavaError(KAFKA, text)
        number = type_number(key)
        if number in _OFFSET_KEYS:
            fields = read_message(group.OFFSET_COMMIT_KEY, 0, key, release)
            partition = f"{fields['topic']}-{fields['partition']}"
            return f"offset_commit::group={fields['group']},partition={partition}", _offset_text(value, release)
        if number == _GROUP_KEY:
            fields = read_message(group.GROUP_METADATA_KEY, 0, key, release)
            return f"group_metadata::group={fields['group']}", _group_text(value, release)
        raise unknown_group_key(release)(number)

    return parse


def _offset_text(value: bytes | None, release: str) -> str:
    if value is None:
        return _TOMBSTONE
    fields = offset_fields(value, release)
    metadata = fields["metadata"]
    return f"offset={fields['offset']},metadata={metadata}" if metadata else f"offset={fields['offset']}"


def offset_fields(value: bytes, release: str) -> _Fields:
    """Return the fields of a committed offset."""
    unknown_version = _unknown("Unknown offset schema version {}", "Unknown offset message version: {}", release)
    return _read_value(group.OFFSET_COMMIT_VALUE, value, release, unknown_version)


def group_fields(value: bytes, release: str) -> tuple[_Fields, list[_Fields]]:
    """Return the fields of a classic group, and its members in the broker's order."""
    unknown_version = _unknown("Unknown group metadata version {}", _UNKNOWN_GROUP_VERSION, release)
    fields = _read_value(group.GROUP_METADATA_VALUE, value, release, unknown_version)
    members = _loaded_members(fields)
    _check_subscriptions(fields, members, release)
    return fields, members


def _group_text(value: bytes | None, release: str) -> str:
    if value is None:
        return _TOMBSTONE
    fields, members = group_fields(value, release)
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
        number = type_number(key)
        if number != 0:
            return unknown_transaction_key(number, release)
        fields = read_message(transaction_log.TRANSACTION_LOG_KEY, 0, key, release)
        text = f"transaction_metadata::transactionalId={fields['transactionalId']}"
        return text, _TOMBSTONE if value is None else _transaction_text(value, release)

    return parse


def unknown_transaction_key(number: int, release: str) -> tuple[str, None]:
    """Return what is printed for an unknown key of `__transaction_state`, or raise the exception."""
    if in_releases(release, "3.5", None):
        return f"unknown::version={number}", None
    old = "Unknown transaction log message key schema version {}"
    raise _unknown(old, "Unknown version {} from the transaction log message", release)(number)


def transaction_fields(value: bytes, release: str) -> tuple[_Fields, str, list[str]]:
    """Return the fields of a transactional id, its state, and its partitions in the broker's order."""
    old = "Unknown transaction log message value schema version {}"
    unknown_version = _unknown(old, "Unknown version {} from the transaction log message value", release)
    fields = _read_value(transaction_log.TRANSACTION_LOG_VALUE, value, release, unknown_version)
    status = fields["transactionStatus"]
    state = _TRANSACTION_STATES.get(status)
    if state is None:
        noun = "id" if in_releases(release, "3.0", None) else "byte"
        raise JavaError(ILLEGAL_STATE, f"Unknown transaction state {noun} {status} from the transaction status message")
    return fields, state, [] if status == _EMPTY else _partitions(fields["transactionPartitions"], release)


def _transaction_text(value: bytes, release: str) -> str:
    fields, state, partitions = transaction_fields(value, release)
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
