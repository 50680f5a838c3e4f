"""The formatters of `kafka-console-consumer` for the records of coordinators and of MirrorMaker, release by release.

2.8 prints the objects of the broker; 3.9 and 4.3 print JSON, without white space and without a line break after a
record. 3.9 reads a value as the type that the formatter is for, whatever the key says. Since 4.0 the key decides:
records of other types are read and not printed, and those of unknown types are not read.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from kforensics.errors import UsageError
from kforensics.kafka_dump.decoders import old_text
from kforensics.kafka_dump.decoders.coordinator import CoordinatorReader, UnknownTypeError, message_text
from kforensics.kafka_dump.decoders.mirror_formatters import MIRROR_TOPICS, mirror_text
from kforensics.kafka_dump.java import JavaError
from kforensics.kafka_dump.styles import STYLES
from kforensics.parsers.files.log_names import CONSUMER_OFFSETS, TRANSACTION_STATE
from kforensics.parsers.format.failures import BUFFER_UNDERFLOW
from kforensics.parsers.messages import group, transaction_log
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.connect import CONNECT_TOPICS, connect_record, without_secrets
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.json_render import to_json
from kforensics.parsers.messages.reader import RUNTIME, MessageError, MessageReader
from kforensics.parsers.messages.schema import MessageSchema, layout

__all__ = ["FORMATTERS", "FORMATTER_STYLES", "Formatter", "fits_topic", "formatter", "topic_of"]

# Key, value and offset of a record to the text that is printed.
Formatter: TypeAlias = Callable[[bytes | None, bytes | None, int], str]

_TOPICS: Final = {
    "transaction-log": TRANSACTION_STATE,
    "offsets": CONSUMER_OFFSETS,
    "group-metadata": CONSUMER_OFFSETS,
}
_TOPICS_OF_MIRRORS: Final = {
    "checkpoint": "ALIAS.checkpoints.internal",
    "heartbeat": "heartbeats",
    "offset-sync": "mm2-offset-syncs.ALIAS.internal",
}
# Not a formatter of Kafka, whose tools print these records as they are.
CONNECT: Final = "connect"
FORMATTERS: Final = (*_TOPICS, *_TOPICS_OF_MIRRORS, CONNECT)
FORMATTER_STYLES: Final = ("4.3", "3.9", "2.8")
# The types that a formatter prints.
_TYPES: Final = {"transaction-log": (0,), "offsets": (0, 1), "group-metadata": (2,)}
_OFFSET_KEYS: Final = (0, 1)
_GROUP_KEY: Final = 2
_NO_EPOCH = _NO_TIME = -1
_UNKNOWN: Final = '"unknown"'


def topic_of(kind: str) -> str:
    """Return the topic that a formatter is for, or the pattern of its name.

    Raises:
        UsageError: There is no such formatter.
    """
    if kind not in FORMATTERS:
        raise UsageError(f"--formatter {kind!r} is not one of {', '.join(FORMATTERS)}")
    return {**_TOPICS, **_TOPICS_OF_MIRRORS, CONNECT: "connect-offsets, connect-configs or connect-status"}[kind]


def fits_topic(kind: str, topic: str | None) -> bool:
    """Return whether a formatter is for a topic.

    >>> fits_topic("checkpoint", "europe.checkpoints.internal"), fits_topic("offsets", "orders")
    (True, False)
    """
    patterns = {**MIRROR_TOPICS, CONNECT: CONNECT_TOPICS}
    if kind in patterns:
        return topic is not None and patterns[kind].fullmatch(topic) is not None
    return topic == topic_of(kind)


def formatter(kind: str, style: str | None = None) -> Formatter:
    """Return a formatter. With a style it raises `JavaError` where that of the release throws an exception.

    Args:
        kind: One of `FORMATTERS`.
        style: One of `FORMATTER_STYLES`; None for that of 4.3 with a line for each record, for records of any release.
            It raises `MessageError` or `JavaError` for a record that cannot be read.

    Raises:
        UsageError: There is no such formatter, or it is not known what that of the style prints.
    """
    topic_of(kind)
    if kind == CONNECT:
        if style is not None:
            raise UsageError(f"--formatter {kind} is none of Kafka's, and has no style; leave out --style {style}")
        return lambda key, value, _offset: _connect_text(key, value)
    if style is not None and style not in FORMATTER_STYLES:
        raise UsageError(f"--formatter imitates the styles {', '.join(FORMATTER_STYLES)}, not {style}; choose one")
    if kind in MIRROR_TOPICS:
        return lambda key, value, _offset: mirror_text(kind, key, value)
    if style is None:
        return _lines(kind)
    release = STYLES[style].release
    match style:
        case "2.8":
            return {"transaction-log": _old_transactions, "offsets": _old_offsets, "group-metadata": _old_groups}[kind](
                release
            )
        case "3.9":
            return _by_formatter(kind, release)
        case _:
            return _by_key(kind, release)


def _connect_text(key: bytes | None, value: bytes | None) -> str:
    """Return a record of Kafka Connect as a line of JSON without secrets, empty for any other record."""
    record = connect_record(key, value)
    if record is None:
        return ""
    names = {name: part for name, part in record._asdict().items() if part is not None and name != "value"}
    return f"{json.dumps({**names, 'value': without_secrets(record)}, ensure_ascii=False)}\n"


def _lines(kind: str) -> Formatter:
    """Return the formatter for records of any release."""

    def text(key: bytes | None, value: bytes | None, _offset: int) -> str:
        record = decode_record(_TOPICS[kind], key, value)
        if record.type_id is not None and record.type_id not in _TYPES[kind]:
            return ""
        if record.error is not None or record.key is None or record.type_id is None:
            raise MessageError(RUNTIME, record.error)
        schema = _KEYS[kind]
        body = f'{{"key":{{"type":{record.type_id},"data":{to_json(schema, record.key, record.type_id)}}}'
        if record.value is None or record.value_message is None:
            return f'{body},"value":null}}\n'
        value_body = to_json(record.value_message, record.value, record.version or 0)
        return f'{body},"value":{{"version":{record.version},"data":{value_body}}}}}\n'

    return text


_KEYS: Final = {
    "transaction-log": transaction_log.TRANSACTION_LOG_KEY,
    "offsets": group.OFFSET_COMMIT_KEY,
    "group-metadata": group.GROUP_METADATA_KEY,
}
_VALUES: Final = {
    "transaction-log": transaction_log.TRANSACTION_LOG_VALUE,
    "offsets": group.OFFSET_COMMIT_VALUE,
    "group-metadata": group.GROUP_METADATA_VALUE,
}


def _by_key(kind: str, release: str) -> Formatter:
    """Return the formatter since 4.0: `CoordinatorRecordMessageFormatter`."""
    reader = CoordinatorReader(_TOPICS[kind], release)

    def text(key: bytes | None, value: bytes | None, offset: int) -> str:
        if key is None:
            return ""
        try:
            record = reader.decoded(key, value)
        except UnknownTypeError:
            return ""
        except MessageError as error:
            why = f"Could not read record at offset {offset} due to: {message_text(error)}"
            raise JavaError(RUNTIME, why, JavaError.of(error)) from error
        if record.number not in _TYPES[kind]:
            return ""
        key_body = to_json(record.kind.key, record.key, record.number, release)
        body = f'{{"key":{{"type":{record.number},"data":{key_body}}}'
        if record.value is None:
            return f'{body},"value":null}}'
        value_body = to_json(record.kind.value, record.value, record.version, release)
        return f'{body},"value":{{"version":{record.version},"data":{value_body}}}}}'

    return text


def _by_formatter(kind: str, release: str) -> Formatter:
    """Return the formatter of 3.9: `ApiMessageFormatter`."""

    def text(key: bytes | None, value: bytes | None, _offset: int) -> str:
        try:
            key_body = "null" if key is None else _key_body(kind, key, release)
            if key_body is None:
                return ""
            value_body = "null" if value is None else _value_body(_VALUES[kind], value, release)
        except MessageError as error:
            raise JavaError.of(error) from error
        return f'{{"key":{key_body},"value":{value_body}}}'

    return text


def _key_body(kind: str, key: bytes, release: str) -> str | None:
    """Return a key as JSON, None if it is of a type that is not printed."""
    number = _version(key)
    schemas = {0: transaction_log.TRANSACTION_LOG_KEY} if kind == "transaction-log" else _GROUP_KEYS
    schema = schemas.get(number)
    if schema is None:
        return f'{{"version":{number},"data":{_UNKNOWN}}}'
    fields = decode(schema, number, key, release, start=2).value
    is_printed = number in _TYPES[kind]
    return f'{{"version":{number},"data":{to_json(schema, fields, number, release)}}}' if is_printed else None


_GROUP_KEYS: Final = {
    **dict.fromkeys(_OFFSET_KEYS, group.OFFSET_COMMIT_KEY),
    _GROUP_KEY: group.GROUP_METADATA_KEY,
}


def _value_body(schema: MessageSchema, value: bytes, release: str) -> str:
    version = _version(value)
    if not 0 <= version <= layout(schema, release).highest_version:
        return f'{{"version":{version},"data":{_UNKNOWN}}}'
    fields = decode(schema, version, value, release, start=2).value
    return f'{{"version":{version},"data":{to_json(schema, fields, version, release)}}}'


def _version(data: bytes) -> int:
    if len(data) < 2:
        raise MessageError(BUFFER_UNDERFLOW)
    return MessageReader(data).int16()


def _old_transactions(release: str) -> Formatter:
    """Return `TransactionLog.TransactionLogMessageFormatter`."""

    def text(key: bytes | None, value: bytes | None, _offset: int) -> str:
        if key is None:
            return ""
        if (number := old_text.type_number(key)) != 0:
            old_text.unknown_transaction_key(number, release)
        name = old_text.read_message(transaction_log.TRANSACTION_LOG_KEY, 0, key, release)["transactionalId"]
        if value is None:
            return f"{name}::NULL\n"
        fields, state, partitions = old_text.transaction_fields(value, release)
        return (
            f"{name}::TransactionMetadata(transactionalId={name}, producerId={fields['producerId']}, "
            f"producerEpoch={fields['producerEpoch']}, txnTimeoutMs={fields['transactionTimeoutMs']}, state={state}, "
            f"pendingState=None, topicPartitions=HashSet({', '.join(partitions)}), "
            f"txnStartTimestamp={fields['transactionStartTimestampMs']}, "
            f"txnLastUpdateTimestamp={fields['transactionLastUpdateTimestampMs']})\n"
        )

    return text


def _old_key(key: bytes | None, release: str) -> tuple[int | None, dict[str, Any]]:
    """Return the type and the fields of a key of `__consumer_offsets`."""
    if key is None:
        return None, {}
    number = old_text.type_number(key)
    schema = _GROUP_KEYS.get(number)
    if schema is None:
        raise old_text.unknown_group_key(release)(number)
    return number, old_text.read_message(schema, number, key, release)


def _old_offsets(release: str) -> Formatter:
    """Return `GroupMetadataManager.OffsetsMessageFormatter`."""

    def text(key: bytes | None, value: bytes | None, _offset: int) -> str:
        number, name = _old_key(key, release)
        if number not in _OFFSET_KEYS:
            return ""
        start = f"[{name['group']},{name['topic']},{name['partition']}]::"
        if value is None:
            return f"{start}NULL\n"
        fields = old_text.offset_fields(value, release)
        epoch, expiry = fields.get("leaderEpoch", _NO_EPOCH), fields.get("expireTimestamp", _NO_TIME)
        return (
            f"{start}OffsetAndMetadata(offset={fields['offset']}, "
            f"leaderEpoch={'Optional.empty' if epoch == _NO_EPOCH else f'Optional[{epoch}]'}, "
            f"metadata={fields['metadata']}, commitTimestamp={fields['commitTimestamp']}, "
            f"expireTimestamp={'None' if expiry == _NO_TIME else f'Some({expiry})'})\n"
        )

    return text


def _old_groups(release: str) -> Formatter:
    """Return `GroupMetadataManager.GroupMetadataMessageFormatter`."""

    def text(key: bytes | None, value: bytes | None, _offset: int) -> str:
        number, name = _old_key(key, release)
        if number != _GROUP_KEY:
            return ""
        if value is None:
            return f"{name['group']}::NULL\n"
        fields, members = old_text.group_fields(value, release)
        kind = f"Some({fields['protocolType']})" if fields["protocolType"] else "None"
        listed = ", ".join(f"{member['memberId']} -> {_old_member(member, fields)}" for member in members)
        return (
            f"{name['group']}::GroupMetadata(groupId={name['group']}, generation={fields['generation']}, "
            f"protocolType={kind}, currentState={'Stable' if members else 'Empty'}, members=HashMap({listed}))\n"
        )

    return text


def _old_member(member: dict[str, Any], fields: dict[str, Any]) -> str:
    instance = member.get("groupInstanceId")
    # Before version 1 of the value the timeout of a rebalance was that of a session.
    rebalance = member.get("rebalanceTimeout", -1)
    rebalance = member["sessionTimeout"] if rebalance < 0 else rebalance
    return (
        f"MemberMetadata(memberId={member['memberId']}, "
        f"groupInstanceId={'None' if instance is None else f'Some({instance})'}, clientId={member['clientId']}, "
        f"clientHost={member['clientHost']}, sessionTimeoutMs={member['sessionTimeout']}, "
        f"rebalanceTimeoutMs={rebalance}, "
        f"supportedProtocols=List({'null' if fields['protocol'] is None else fields['protocol']}), )"
    )
