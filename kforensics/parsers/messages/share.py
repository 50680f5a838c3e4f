"""Message schemas of `__share_group_state` (KIP-932).

Source: https://github.com/apache/kafka/tree/trunk/share-coordinator/src/main/resources/common/message,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

_STATE_BATCH = (
    Field("firstOffset", "int64"),
    Field("lastOffset", "int64"),
    Field("deliveryState", "int8"),
    Field("deliveryCount", "int16"),
)

SHARE_SNAPSHOT_KEY = MessageSchema(
    "ShareSnapshotKey",
    0,
    (
        Field("groupId", "string"),
        Field("topicId", "uuid"),
        Field("partition", "int32"),
    ),
    flexible=None,
    highest=(("4.0", 0),),
)
SHARE_SNAPSHOT_VALUE = MessageSchema(
    "ShareSnapshotValue",
    0,
    (
        Field("snapshotEpoch", "uint16", until="4.0"),
        Field("snapshotEpoch", "int32", since="4.1"),
        Field("stateEpoch", "int32"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        Field("deliveryCompleteCount", "int32", tag=0, default=-1, since="4.2"),
        Field("createTimestamp", "int64", since="4.1"),
        Field("writeTimestamp", "int64", since="4.1"),
        Field("stateBatches", "[]StateBatch", fields=_STATE_BATCH),
    ),
    highest=(("4.0", 0),),
)
SHARE_UPDATE_KEY = MessageSchema(
    "ShareUpdateKey",
    1,
    (
        Field("groupId", "string"),
        Field("topicId", "uuid"),
        Field("partition", "int32"),
    ),
    flexible=None,
    highest=(("4.0", 0),),
)
SHARE_UPDATE_VALUE = MessageSchema(
    "ShareUpdateValue",
    1,
    (
        Field("snapshotEpoch", "uint16", until="4.0"),
        Field("snapshotEpoch", "int32", since="4.1"),
        Field("leaderEpoch", "int32"),
        Field("startOffset", "int64"),
        Field("deliveryCompleteCount", "int32", tag=0, default=-1, since="4.2"),
        Field("stateBatches", "[]StateBatch", fields=_STATE_BATCH),
    ),
    highest=(("4.0", 0),),
)
