"""The text forms of older tools: offsets up to 3.7, transactions up to 4.0; a record they cannot read ends the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kforensics.kafka_dump.decoders.decoder_styles import (
    ILLEGAL_STATE,
    KAFKA_EXCEPTION,
    NULL_POINTER,
    Decoder,
    null_pointer_text,
)
from kforensics.kafka_dump.decoders.group_metadata import check_subscriptions, loaded_members, member_text
from kforensics.kafka_dump.decoders.schema_2_7 import read_struct
from kforensics.kafka_dump.java import JavaError, scala_set_order, topic_partition_hash
from kforensics.parsers.messages import group, transaction
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.enum_names import TRANSACTION_STATES
from kforensics.parsers.messages.json_render import json_text
from kforensics.parsers.messages.reader import MessageError, Reader
from kforensics.parsers.messages.releases import in_releases
from kforensics.parsers.messages.schema import Message, layout

_TOMBSTONE: Final = "<DELETE>"
_EMPTY: Final = 0
_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
Fields = dict[str, Any]


def _by_hand(release: str) -> bool:
    """Whether the release still has hand-made schemas instead of generated messages."""
    return not in_releases(release, "2.8", None)


def _number(data: bytes) -> int:
    try:
        return Reader(data).int16()
    except MessageError as error:
        raise JavaError.of(error) from error


def _read(message: Message, version: int, data: bytes, release: str) -> Fields:
    if _by_hand(release):
        return read_struct(message, version, data, start=2)
    try:
        return decode(message, version, data, release, start=2).value
    except MessageError as error:
        raise JavaError.of(error) from error


def _value(message: Message, data: bytes, release: str, refuse: Callable[[int], JavaError]) -> tuple[int, Fields]:
    """The version and the fields of a value, if the release knows the version."""
    version = _number(data)
    # The hand-made schemas of 2.7 are those of 2.8.
    known = layout(message, "2.8" if _by_hand(release) else release)
    if not 0 <= version <= known.highest_version:
        raise refuse(version)
    return version, _read(message, version, data, release)


def offsets_decoder(release: str) -> Decoder:
    """The offsets decoder of a release from 2.4 to 3.4.0.

    Args:
        release: The release to imitate.
    """

    def parse(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        if key is None:
            text = "Failed to decode message using offset topic decoder (message had a missing key)"
            raise JavaError(KAFKA_EXCEPTION, text)
        number = _number(key)
        if number in _OFFSET_KEYS:
            fields = _read(group.OFFSET_COMMIT_KEY, 0, key, release)
            partition = f"{fields['topic']}-{fields['partition']}"
            return f"offset_commit::group={fields['group']},partition={partition}", _offset_text(value, release)
        if number == _GROUP_KEY:
            fields = _read(group.GROUP_METADATA_KEY, 0, key, release)
            return f"group_metadata::group={fields['group']}", _group_text(value, release)
        if _by_hand(release):
            raise JavaError(KAFKA_EXCEPTION, f"Unknown message key schema version {number}")
        raise JavaError(ILLEGAL_STATE, f"Unknown group metadata message version: {number}")

    return parse


def _offset_text(value: bytes | None, release: str) -> str:
    if value is None:
        return _TOMBSTONE

    def refuse(version: int) -> JavaError:
        if _by_hand(release):
            return JavaError(KAFKA_EXCEPTION, f"Unknown offset schema version {version}")
        return JavaError(ILLEGAL_STATE, f"Unknown offset message version: {version}")

    fields = _value(group.OFFSET_COMMIT_VALUE, value, release, refuse)[1]
    metadata = fields["metadata"]
    return f"offset={fields['offset']},metadata={metadata}" if metadata else f"offset={fields['offset']}"


def _group_text(value: bytes | None, release: str) -> str:
    if value is None:
        return _TOMBSTONE

    def refuse(version: int) -> JavaError:
        if _by_hand(release):
            return JavaError(KAFKA_EXCEPTION, f"Unknown group metadata version {version}")
        return JavaError(ILLEGAL_STATE, f"Unknown group metadata message version: {version}")

    fields = _value(group.GROUP_METADATA_VALUE, value, release, refuse)[1]
    members = loaded_members(fields)
    check_subscriptions(fields, members, release)
    texts = (member_text(fields["protocolType"], member, release) for member in members)
    return json_text(
        {
            "protocolType": fields["protocolType"],
            "protocol": fields["protocol"],
            "generationId": fields["generation"],
            "assignment": "{" + ",".join(texts) + "}",
        }
    )


def transaction_decoder(release: str) -> Decoder:
    """The transaction decoder of a release from 2.5 to 4.0.

    Args:
        release: The release to imitate.
    """

    def parse(key: bytes | None, value: bytes | None, _offset: int) -> tuple[str | None, str | None]:
        if key is None:
            raise JavaError(NULL_POINTER, null_pointer_text("java.nio.ByteBuffer.getShort()", '"buffer"'))
        number = _number(key)
        if number != 0:
            return _unknown_transaction_key(number, release)
        fields = _read(transaction.TRANSACTION_LOG_KEY, 0, key, release)
        text = f"transaction_metadata::transactionalId={fields['transactionalId']}"
        return text, _TOMBSTONE if value is None else _transaction_text(value, release)

    return parse


def _unknown_transaction_key(number: int, release: str) -> tuple[str, None]:
    if in_releases(release, "3.5", None):
        return f"unknown::version={number}", None
    if _by_hand(release):
        raise JavaError(KAFKA_EXCEPTION, f"Unknown transaction log message key schema version {number}")
    raise JavaError(ILLEGAL_STATE, f"Unknown version {number} from the transaction log message")


def _transaction_text(value: bytes, release: str) -> str:
    def refuse(version: int) -> JavaError:
        if _by_hand(release):
            return JavaError(KAFKA_EXCEPTION, f"Unknown transaction log message value schema version {version}")
        return JavaError(ILLEGAL_STATE, f"Unknown version {version} from the transaction log message value")

    fields = _value(transaction.TRANSACTION_LOG_VALUE, value, release, refuse)[1]
    status = fields["transactionStatus"]
    state = TRANSACTION_STATES.get(status)
    if state is None:
        word = "id" if in_releases(release, "3.0", None) else "byte"
        raise JavaError(ILLEGAL_STATE, f"Unknown transaction state {word} {status} from the transaction status message")
    partitions = [] if status == _EMPTY else _partitions(fields["transactionPartitions"], release)
    return (
        f"producerId:{fields['producerId']},producerEpoch:{fields['producerEpoch']},state={state},"
        f"partitions=[{','.join(partitions)}],txnLastUpdateTimestamp={fields['transactionLastUpdateTimestampMs']},"
        f"txnTimeoutMs={fields['transactionTimeoutMs']}"
    )


def _partitions(topics: list[Fields] | None, release: str) -> list[str]:
    """The partitions in the order of the Scala set that holds them in the broker."""
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
    if _by_hand(release):
        return 'Cannot read the array length because "topicPartitionArray" is null'
    moved = in_releases(release, "3.8", None)
    package = "org.apache.kafka.coordinator.transaction.generated" if moved else "kafka.internals.generated"
    target = f'the return value of "{package}.TransactionLogValue.transactionPartitions()"'
    return null_pointer_text("java.util.List.forEach(java.util.function.Consumer)", target)
