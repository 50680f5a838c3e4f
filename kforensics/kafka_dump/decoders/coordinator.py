"""The records of coordinators as JSON, as newer tools print them.

Offsets are printed as JSON since 3.8, share group state since 4.0, and transaction state since 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kforensics.kafka_dump.decoders.classes import Decoder
from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.files.log_names import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from kforensics.parsers.messages import group
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_consumer_protocol, decode_record
from kforensics.parsers.messages.json_render import json_text, json_tree, to_json
from kforensics.parsers.messages.reader import RUNTIME, MessageError, MessageReader
from kforensics.parsers.messages.registry import (
    COORDINATOR_TYPES,
    RecordType,
    record_type,
)
from kforensics.parsers.messages.releases import NEWEST, in_releases
from kforensics.parsers.messages.schema import MessageSchema, layout

_TOMBSTONE = "<DELETE>"
_TOPICS = {
    "offsets": CONSUMER_OFFSETS,
    "transaction": TRANSACTION_STATE,
    "share-group-state": SHARE_GROUP_STATE,
}
_EMBEDDED = {"subscription": group.CONSUMER_PROTOCOL_SUBSCRIPTION, "assignment": group.CONSUMER_PROTOCOL_ASSIGNMENT}
# The tools of 3.8 and 3.9 have their own list of types, which is shorter than that of the schemas.
_LAST_TYPE_OF_3_9 = 8


class UnknownTypeError(Exception):
    """The number at the start of the key is not a record type of the release."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class CoordinatorMessage:
    """A decoded record of a coordinator's topic.

    Attributes:
        number: the number of its type.
        kind: its type.
        key: the fields of its key.
        version: the version of its value.
        value: the fields of its value, None for a tombstone.
    """

    number: int
    kind: RecordType
    key: dict[str, Any]
    version: int = 0
    value: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class CoordinatorReader:
    """Reads the records of a topic as the tools of one release do.

    Attributes:
        topic: the internal topic.
        release: the release.
    """

    topic: str
    release: str

    @property
    def is_common(self) -> bool:
        """Whether the decoders share their code (since 4.1), which includes the check of value versions."""
        return in_releases(self.release, "4.1", None)

    def record(self, key: bytes, value: bytes | None) -> tuple[str, str]:
        """Return the texts of a key and a value."""
        message = self.decoded(key, value)
        # The version of a key is its record type. Keys have all their fields in every version.
        key_body = data_text(message.kind.key, message.key, message.number, self.release)
        key_text = f'{{"type":"{message.number}","data":{key_body}}}'
        if message.value is None:
            return key_text, _TOMBSTONE
        body = data_text(message.kind.value, message.value, message.version, self.release)
        return key_text, f'{{"version":"{message.version}","data":{body}}}'

    def decoded(self, key: bytes, value: bytes | None) -> CoordinatorMessage:
        """Return the fields of a record.

        Raises:
            UnknownTypeError: the release does not have its type.
            MessageError: the release cannot read it.
        """
        number = self._number(key, "key")
        kind = record_type(self.topic, number, self.release)
        if kind is None or (not self.is_common and number > _LAST_TYPE_OF_3_9):
            raise UnknownTypeError(number)
        key_fields = self._fields(kind.key, number, key, "key")
        if value is None:
            return CoordinatorMessage(number, kind, key_fields)
        version = self._number(value, "value")
        known = layout(kind.value, self.release)
        if self.is_common and not 0 <= version <= known.highest_version:
            raise MessageError(RUNTIME, f"Found an unknown record version {version} for {number} type")
        return CoordinatorMessage(number, kind, key_fields, version, self._fields(kind.value, version, value, "value"))

    def _number(self, data: bytes, name: str) -> int:
        if len(data) < 2:
            raise MessageError(RUNTIME, f"Could not read version from {name}'s buffer.")
        return MessageReader(data).int16()

    def _fields(self, message: MessageSchema, number: int, data: bytes, name: str) -> dict[str, Any]:
        try:
            return decode(message, number, data, self.release, start=2).value
        except MessageError as error:
            text = f"Could not read record with version {number} from {name}'s buffer due to: {message_text(error)}."
            raise MessageError(RUNTIME, text) from error


def message_text(error: MessageError) -> str:
    """Return the message of Kafka's exception as Java concatenates it."""
    return "null" if error.java_message is None else error.java_message


def data_text(message: MessageSchema, fields: dict[str, Any], version: int, release: str) -> str:
    """Return a key or a value as JSON; the subscriptions and assignments in classic consumer groups are decoded too."""
    if message.name != group.GROUP_METADATA_VALUE.name:
        return to_json(message, fields, version, release)
    tree = json_tree(message, fields, version, release)
    if tree["protocolType"] == "consumer":
        for member in tree["members"]:
            for name, embedded in _EMBEDDED.items():
                member[name] = _embedded(embedded, member[name], release)
    return json_text(tree)


def _embedded(message: MessageSchema, data: bytes, release: str) -> bytes | dict[str, Any]:
    try:
        version, fields = decode_consumer_protocol(message, data, release)
    except MessageError:
        return data
    return json_tree(message, fields, version, release)


def _missing_key(tool: CoordinatorReader, offset: int) -> JavaError:
    name = "the specified" if tool.is_common else "offset topic"
    return JavaError(
        RUNTIME, f"Failed to decode message at offset {offset} using {name} decoder (message had a missing key)"
    )


def coordinator_decoder(kind: str, release: str) -> Decoder:
    """Return the decoder of a coordinator's topic in one release.

    Args:
        kind: `offsets`, `transaction` or `share-group-state`.
        release: The release to imitate, 3.8 or later.
    """
    tool = CoordinatorReader(_TOPICS[kind], release)

    def parse(key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        if key is None:
            raise _missing_key(tool, offset)
        try:
            return tool.record(key, value)
        except UnknownTypeError as error:
            return f"Unknown record type {error.number} at offset {offset}, skipping.", None
        except MessageError as error:
            return f"Error at offset {offset}, skipping. {message_text(error)}", None

    return parse


def best_effort_coordinator_decoder(kind: str) -> Decoder:
    """Return a decoder that prints the same texts for records of any release, and an error text where tools abort."""
    topic = _TOPICS[kind]

    def parse(key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        record = decode_record(topic, key, value)
        if record.key is None:
            if record.type_name is None and record.type_id is not None:
                return f"Unknown record type {record.type_id} at offset {offset}, skipping.", None
            return f"Error at offset {offset}, skipping. {record.error}", None
        return _key_text(topic, record), _value_text(record, value, offset)

    return parse


def _key_text(topic: str, record: DecodedMessage) -> str:
    number = record.type_id or 0
    body = to_json(COORDINATOR_TYPES[topic][number].key, record.key or {}, 0)
    return f'{{"type":"{number}","data":{body}}}'


def _value_text(record: DecodedMessage, value: bytes | None, offset: int) -> str:
    if value is None:
        return _TOMBSTONE
    if record.value is None or record.value_message is None:
        return f"Error at offset {offset}, skipping. {record.error}"
    body = data_text(record.value_message, record.value, record.version or 0, NEWEST)
    text = f'{{"version":"{record.version}","data":{body}}}'
    return f"{text} ({record.error})" if record.error else text
