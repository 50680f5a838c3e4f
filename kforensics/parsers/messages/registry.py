"""Which message a record of an internal topic holds."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from kforensics.parsers.messages import (
    group,
    metadata,
    remote_log,
    share,
    share_group,
    streams_group,
    transaction,
)
from kforensics.parsers.messages.schema import Message

CONSUMER_OFFSETS: Final = "__consumer_offsets"
TRANSACTION_STATE: Final = "__transaction_state"
SHARE_GROUP_STATE: Final = "__share_group_state"
CLUSTER_METADATA: Final = "__cluster_metadata"
REMOTE_LOG_METADATA: Final = "__remote_log_metadata"

# Before 4.1 the type 0 was read with the messages of type 1; the bytes of the keys are the same.
LEGACY_OFFSET_COMMIT: Final = 0
LEGACY_OFFSET_COMMIT_SINCE: Final = "4.1"


@dataclass(frozen=True, slots=True)
class RecordType:
    """A record type of a coordinator's topic: the number in front of the key, and what key and value hold."""

    id: int
    key: Message
    value: Message

    @property
    def name(self) -> str:
        """Kafka's name of the type, `OffsetCommit` for example."""
        return self.key.name.removesuffix("Key")


def _messages(*modules: object) -> list[Message]:
    return [held for module in modules for held in vars(module).values() if isinstance(held, Message)]


def _record_types(*modules: object) -> dict[int, RecordType]:
    by_name = {message.name: message for message in _messages(*modules)}
    keys = [message for message in by_name.values() if message.name.endswith("Key") and message.id is not None]
    types = [RecordType(key.id or 0, key, by_name[f"{key.name.removesuffix('Key')}Value"]) for key in keys]
    return {kind.id: kind for kind in types}


def _by_id(module: object) -> dict[int, tuple[Message, ...]]:
    found: dict[int, tuple[Message, ...]] = {}
    for message in _messages(module):
        if message.id is not None:
            found[message.id] = (*found.get(message.id, ()), message)
    return found


COORDINATOR_TYPES: Final[dict[str, dict[int, RecordType]]] = {
    CONSUMER_OFFSETS: _record_types(group, share_group, streams_group),
    TRANSACTION_STATE: _record_types(transaction),
    SHARE_GROUP_STATE: _record_types(share),
}

# An id can have had two messages: 14 was QuotaRecord in the preview of 2.8 and is ClientQuotaRecord since.
_FRAMED_TYPES: Final[dict[str, dict[int, tuple[Message, ...]]]] = {
    CLUSTER_METADATA: _by_id(metadata),
    REMOTE_LOG_METADATA: _by_id(remote_log),
}

INTERNAL_TOPICS: Final = (*COORDINATOR_TYPES, *_FRAMED_TYPES)


def record_type(topic: str, number: int, release: str | None = None) -> RecordType | None:
    """The record type of a number in a coordinator's topic.

    Args:
        topic: `__consumer_offsets`, `__transaction_state` or `__share_group_state`.
        number: The number in front of the key.
        release: Only if this release knew it; None for any release.
    """
    kind = COORDINATOR_TYPES[topic].get(number)
    if kind is None or release is None:
        return kind
    if topic == CONSUMER_OFFSETS and number == LEGACY_OFFSET_COMMIT and not kind.key.known_to(release):
        kind = COORDINATOR_TYPES[topic][1]
    return kind if kind.key.known_to(release) else None


def framed_message(topic: str, number: int, release: str | None = None) -> Message | None:
    """The message of an id in `__cluster_metadata` or `__remote_log_metadata`, the newest if several are asked for."""
    messages = _FRAMED_TYPES[topic].get(number, ())
    known = [message for message in messages if release is None or message.known_to(release)]
    return known[-1] if known else None


def enum_name(message: Message) -> str:
    """The name Kafka's tools print for a metadata record, `REGISTER_BROKER_RECORD` for example."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", message.name).upper()
