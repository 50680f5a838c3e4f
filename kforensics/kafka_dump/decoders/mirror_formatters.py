"""The formatters of `kafka-console-consumer` for what MirrorMaker 2 writes: `CheckpointFormatter` and its siblings.

They are in `connect-mirror` since 2.7 (KIP-597), and print the same in all releases: a line of Java's `toString`.
"""

from __future__ import annotations

import re
from typing import Any, Final

from kforensics.kafka_dump.decoders.handwritten import read_struct
from kforensics.kafka_dump.java import NULL_POINTER, JavaError
from kforensics.parsers.messages.mirror_maker import (
    CHECKPOINT_KEY,
    CHECKPOINT_VALUE,
    HEARTBEAT_KEY,
    HEARTBEAT_VALUE,
    OFFSET_SYNC_KEY,
    OFFSET_SYNC_VALUE,
    VERSION_BYTES,
)
from kforensics.parsers.messages.schema import Field, MessageSchema

__all__ = ["MIRROR_TOPICS", "mirror_text"]

# ``DefaultReplicationPolicy`` and ``MirrorClientConfig``. Mirrored heartbeats have the alias of their cluster in front.
MIRROR_TOPICS: Final = {
    "checkpoint": re.compile(r".+\.checkpoints\.internal"),
    "heartbeat": re.compile(r"(.+\.)?heartbeats"),
    "offset-sync": re.compile(r"mm2-offset-syncs\..+\.internal"),
}
_VERSION: Final = MessageSchema("Header", None, (Field("version", "int16"),), flexible=None, highest=(("2.4", 0),))
_NO_ARRAY: Final = 'Cannot read the array length because "array" is null'


def mirror_text(kind: str, key: bytes | None, value: bytes | None) -> str:
    """Return the line that a formatter prints for a record.

    Args:
        kind: one of `MIRROR_TOPICS`.
        key: the key of the record.
        value: its value.

    Raises:
        JavaError: the formatter throws an exception.
    """
    return {"checkpoint": _checkpoint, "heartbeat": _heartbeat, "offset-sync": _offset_sync}[kind](key, value)


def _checkpoint(key: bytes | None, value: bytes | None) -> str:
    fields, names = _with_version(CHECKPOINT_VALUE, value), _read(CHECKPOINT_KEY, key)
    return (
        f"Checkpoint{{consumerGroupId={names['group']}, topicPartition={names['topic']}-{names['partition']}, "
        f"upstreamOffset={fields['upstreamOffset']}, downstreamOffset={fields['offset']}, "
        f"metadata={fields['metadata']}}}\n"
    )


def _heartbeat(key: bytes | None, value: bytes | None) -> str:
    fields, names = _with_version(HEARTBEAT_VALUE, value), _read(HEARTBEAT_KEY, key)
    return (
        f"Heartbeat{{sourceClusterAlias={names['sourceClusterAlias']}, "
        f"targetClusterAlias={names['targetClusterAlias']}, timestamp={fields['timestamp']}}}\n"
    )


def _offset_sync(key: bytes | None, value: bytes | None) -> str:
    names, fields = _read(OFFSET_SYNC_KEY, key), _read(OFFSET_SYNC_VALUE, value)
    return (
        f"OffsetSync{{topicPartition={names['topic']}-{names['partition']}, "
        f"upstreamOffset={fields['upstreamOffset']}, downstreamOffset={fields['offset']}}}\n"
    )


def _with_version(message: MessageSchema, value: bytes | None) -> dict[str, Any]:
    """Return the fields of a value after its version. Kafka checks that only if assertions are enabled."""
    _read(_VERSION, value)
    return _read(message, value, VERSION_BYTES)


def _read(message: MessageSchema, data: bytes | None, start: int = 0) -> dict[str, Any]:
    if data is None:
        raise JavaError(NULL_POINTER, _NO_ARRAY)
    return read_struct(message, 0, data, start)
