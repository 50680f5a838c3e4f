"""Message schemas of the topics that MirrorMaker 2 writes, which have no version in front.

Source: ``OffsetSync`` in https://github.com/apache/kafka/tree/trunk/connect/mirror/src/main/java.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

__all__ = ["OFFSET_SYNC_KEY", "OFFSET_SYNC_VALUE"]

OFFSET_SYNC_KEY = MessageSchema(
    "OffsetSyncKey",
    None,
    (Field("topic", "string"), Field("partition", "int32")),
    flexible=None,
    highest=(("2.4", 0),),
)
OFFSET_SYNC_VALUE = MessageSchema(
    "OffsetSyncValue",
    None,
    (Field("upstreamOffset", "int64"), Field("offset", "int64")),
    flexible=None,
    highest=(("2.4", 0),),
)
