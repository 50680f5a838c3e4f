"""The JSON form of records of coordinators, which newer tools print.

Offsets have it since 3.8, share state since 4.0, transactions since 4.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kforensics.kafka_dump.decoders.decoder_styles import RUNTIME, Decoder
from kforensics.kafka_dump.java import JavaError
from kforensics.parsers.messages import group
from kforensics.parsers.messages.codec import decode
from kforensics.parsers.messages.internal_records import DecodedMessage, decode_consumer_protocol, decode_record
from kforensics.parsers.messages.json_render import json_text, json_tree, to_json
from kforensics.parsers.messages.reader import MessageError, Reader
from kforensics.parsers.messages.registry import COORDINATOR_TYPES, record_type
from kforensics.parsers.messages.releases import NEWEST, in_releases
from kforensics.parsers.messages.schema import Message, layout

_TOMBSTONE = "<DELETE>"
_EMBEDDED = {"subscription": group.CONSUMER_PROTOCOL_SUBSCRIPTION, "assignment": group.CONSUMER_PROTOCOL_ASSIGNMENT}
# The tool of 3.8 and 3.9 has its own list of types, which ends here although the schemas go on.
_LAST_TYPE_OF_3_9 = 8


class _UnknownTypeError(Exception):
    """The number in front of the key is not a type of the release."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@dataclass(frozen=True, slots=True)
class _Tool:
    """The tool of one release at one topic."""

    topic: str
    release: str

    @property
    def is_common(self) -> bool:
        """Whether the decoders share their code (since 4.1), and with it the check of value versions."""
        return in_releases(self.release, "4.1", None)

    def record(self, key: bytes, value: bytes | None) -> tuple[str, str]:
        number = self._number(key, "key")
        kind = record_type(self.topic, number, self.release)
        if kind is None or (not self.is_common and number > _LAST_TYPE_OF_3_9):
            raise _UnknownTypeError(number)
        key_text = self._part(kind.key, number, key, "type", "key")
        if value is None:
            return key_text, _TOMBSTONE
        version = self._number(value, "value")
        known = layout(kind.value, self.release)
        if self.is_common and not 0 <= version <= known.highest_version:
            raise MessageError(RUNTIME, f"Found an unknown record version {version} for {number} type")
        return key_text, self._part(kind.value, version, value, "version", "value")

    def _number(self, data: bytes, name: str) -> int:
        if len(data) < 2:
            raise MessageError(RUNTIME, f"Could not read version from {name}'s buffer.")
        return Reader(data).int16()

    def _part(self, message: Message, number: int, data: bytes, label: str, name: str) -> str:
        try:
            fields = decode(message, number, data, self.release, start=2).value
        except MessageError as error:
            text = f"Could not read record with version {number} from {name}'s buffer due to: {_message(error)}."
            raise MessageError(RUNTIME, text) from error
        # Record types stand in for the version of a key, and every version of a key has all its fields.
        body = data_text(message, fields, number, self.release)
        return f'{{"{label}":"{number}","data":{body}}}'


def _message(error: MessageError) -> str:
    return "null" if error.java_message is None else error.java_message


def data_text(message: Message, fields: dict[str, Any], version: int, release: str) -> str:
    """The JSON of a key or value; subscriptions and assignments in a classic group of consumers are decoded too."""
    if message.name != group.GROUP_METADATA_VALUE.name:
        return to_json(message, fields, version, release)
    tree = json_tree(message, fields, version, release)
    if tree["protocolType"] == "consumer":
        for member in tree["members"]:
            for name, embedded in _EMBEDDED.items():
                member[name] = _embedded(embedded, member[name], release)
    return json_text(tree)


def _embedded(message: Message, blob: bytes, release: str) -> bytes | dict[str, Any]:
    try:
        version, fields = decode_consumer_protocol(message, blob, release)
    except MessageError:
        return blob
    return json_tree(message, fields, version, release)


def _missing_key(tool: _Tool, offset: int) -> JavaError:
    which = "the specified" if tool.is_common else "offset topic"
    return JavaError(
        RUNTIME, f"Failed to decode message at offset {offset} using {which} decoder (message had a missing key)"
    )


def decoder(topic: str, release: str) -> Decoder:
    """The decoder of a topic as one release has it.

    Args:
        topic: The topic of a coordinator.
        release: The release to imitate, 3.8 or later.
    """
    tool = _Tool(topic, release)

    def parse(key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        if key is None:
            raise _missing_key(tool, offset)
        try:
            return tool.record(key, value)
        except _UnknownTypeError as error:
            return f"Unknown record type {error.number} at offset {offset}, skipping.", None
        except MessageError as error:
            return f"Error at offset {offset}, skipping. {_message(error)}", None

    return parse


def forensic_decoder(topic: str) -> Decoder:
    """The same texts for records of any release, and a text instead of an abort."""

    def parse(key: bytes | None, value: bytes | None, offset: int) -> tuple[str | None, str | None]:
        found = decode_record(topic, key, value)
        if found.key is None:
            if found.type_name is None and found.type_id is not None:
                return f"Unknown record type {found.type_id} at offset {offset}, skipping.", None
            return f"Error at offset {offset}, skipping. {found.error}", None
        return _forensic_key(topic, found), _forensic_value(found, value, offset)

    return parse


def _forensic_key(topic: str, found: DecodedMessage) -> str:
    number = found.type_id or 0
    body = to_json(COORDINATOR_TYPES[topic][number].key, found.key or {}, 0)
    return f'{{"type":"{number}","data":{body}}}'


def _forensic_value(found: DecodedMessage, value: bytes | None, offset: int) -> str:
    if value is None:
        return _TOMBSTONE
    if found.value is None or found.value_message is None:
        return f"Error at offset {offset}, skipping. {found.error}"
    body = data_text(found.value_message, found.value, found.version or 0, NEWEST)
    text = f'{{"version":"{found.version}","data":{body}}}'
    return f"{text} ({found.error})" if found.error else text
