"""Message schemas of the topics that MirrorMaker 2 writes.

The keys have no version in front, nor have the values of offset syncs. Source: ``OffsetSync``, ``Checkpoint`` and
``Heartbeat`` in https://github.com/apache/kafka/tree/trunk/connect.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

__all__ = [
    "CHECKPOINT_KEY",
    "CHECKPOINT_VALUE",
    "HEARTBEAT_KEY",
    "HEARTBEAT_VALUE",
    "OFFSET_SYNC_KEY",
    "OFFSET_SYNC_VALUE",
    "VERSION_BYTES",
]

# The values of checkpoints and heartbeats begin with a version, an int16.
VERSION_BYTES = 2


def _schema(name: str, *fields: Field) -> MessageSchema:
    return MessageSchema(name, None, fields, flexible=None, highest=(("2.4", 0),))


OFFSET_SYNC_KEY = _schema("OffsetSyncKey", Field("topic", "string"), Field("partition", "int32"))
OFFSET_SYNC_VALUE = _schema("OffsetSyncValue", Field("upstreamOffset", "int64"), Field("offset", "int64"))
CHECKPOINT_KEY = _schema(
    "CheckpointKey", Field("group", "string"), Field("topic", "string"), Field("partition", "int32")
)
CHECKPOINT_VALUE = _schema(
    "CheckpointValue", Field("upstreamOffset", "int64"), Field("offset", "int64"), Field("metadata", "string")
)
HEARTBEAT_KEY = _schema("HeartbeatKey", Field("sourceClusterAlias", "string"), Field("targetClusterAlias", "string"))
HEARTBEAT_VALUE = _schema("HeartbeatValue", Field("timestamp", "int64"))
