"""The message schemas of each internal topic by record type."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kforensics.parsers.files.log_names import (
    CONSUMER_OFFSETS,
    REMOTE_LOG_METADATA,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
)
from kforensics.parsers.messages import (
    group,
    metadata,
    remote_log,
    share,
    share_and_streams_groups,
    transaction_log,
)
from kforensics.parsers.messages.schema import MessageSchema

CLUSTER_METADATA: Final = "__cluster_metadata"


# Before 4.1 type 0 was read with the schemas of type 1. The keys of both have the same bytes.
LEGACY_OFFSET_COMMIT: Final = 0


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record type of a coordinator's topic.

    Attributes:
        id: The number at the start of the key.
        key: The schema of the key.
        value: The schema of the value.
    """

    id: int
    key: MessageSchema
    value: MessageSchema

    @property
    def name(self) -> str:
        """Kafka's name of the type, for example `OffsetCommit`."""
        return self.key.name.removesuffix("Key")


def _messages(*modules: object) -> list[MessageSchema]:
    return [value for module in modules for value in vars(module).values() if isinstance(value, MessageSchema)]


def _record_types(*modules: object) -> dict[int, RecordType]:
    by_name = {message.name: message for message in _messages(*modules)}
    keys = [message for message in by_name.values() if message.name.endswith("Key") and message.id is not None]
    types = [RecordType(key.id or 0, key, by_name[f"{key.name.removesuffix('Key')}Value"]) for key in keys]
    return {coordinator_type.id: coordinator_type for coordinator_type in types}


def _by_id(module: object) -> dict[int, tuple[MessageSchema, ...]]:
    by_id: dict[int, tuple[MessageSchema, ...]] = {}
    for message in _messages(module):
        if message.id is not None:
            by_id[message.id] = (*by_id.get(message.id, ()), message)
    return by_id


COORDINATOR_TYPES: Final[dict[str, dict[int, RecordType]]] = {
    CONSUMER_OFFSETS: _record_types(group, share_and_streams_groups),
    TRANSACTION_STATE: _record_types(transaction_log),
    SHARE_GROUP_STATE: _record_types(share),
}

# An id can have had two messages: 14 was QuotaRecord in the KRaft preview of 2.8 and is ClientQuotaRecord since.
_FRAMED_TYPES: Final[dict[str, dict[int, tuple[MessageSchema, ...]]]] = {
    CLUSTER_METADATA: _by_id(metadata),
    REMOTE_LOG_METADATA: _by_id(remote_log),
}

INTERNAL_TOPICS: Final = (*COORDINATOR_TYPES, *_FRAMED_TYPES)


def record_type(topic: str, number: int, release: str | None = None) -> RecordType | None:
    """Return the record type with a number in a coordinator's topic; None if there is none.

    Args:
        topic: `__consumer_offsets`, `__transaction_state` or `__share_group_state`.
        number: The number at the start of the key.
        release: The release that must know the type; None for any release.
    """
    registered = COORDINATOR_TYPES[topic].get(number)
    if registered is None or release is None:
        return registered
    if topic == CONSUMER_OFFSETS and number == LEGACY_OFFSET_COMMIT and not registered.key.known_to(release):
        registered = COORDINATOR_TYPES[topic][1]
    return registered if registered.key.known_to(release) else None


def framed_message(topic: str, number: int, release: str | None = None) -> MessageSchema | None:
    """Return the newest message with an id; None if there is none.

    Args:
        topic: `__cluster_metadata` or `__remote_log_metadata`.
        number: The id in the frame of the value.
        release: The release that must know the message; None for any release.
    """
    messages = _FRAMED_TYPES[topic].get(number, ())
    known = [message for message in messages if release is None or message.known_to(release)]
    return known[-1] if known else None


def enum_name(message: MessageSchema) -> str:
    """Return the name Kafka's tools print for a metadata record, for example `REGISTER_BROKER_RECORD`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message.name).upper()
