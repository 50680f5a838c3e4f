"""Message schemas of `__remote_log_metadata` (KIP-405).

Source: https://github.com/apache/kafka/tree/trunk/storage/src/main/resources/message,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

_TOPIC_ID_PARTITION_ENTRY = (
    Field("name", "string"),
    Field("id", "uuid"),
    Field("partition", "int32"),
)
_SEGMENT_LEADER_EPOCH_ENTRY = (
    Field("leaderEpoch", "int32"),
    Field("offset", "int64"),
)

REMOTE_LOG_SEGMENT_METADATA_RECORD = MessageSchema(
    "RemoteLogSegmentMetadataRecord",
    0,
    (
        Field(
            "remoteLogSegmentId",
            "RemoteLogSegmentIdEntry",
            fields=(
                Field("topicIdPartition", "TopicIdPartitionEntry", fields=_TOPIC_ID_PARTITION_ENTRY),
                Field("id", "uuid"),
            ),
        ),
        Field("startOffset", "int64"),
        Field("endOffset", "int64"),
        Field("brokerId", "int32"),
        Field("maxTimestampMs", "int64"),
        Field("eventTimestampMs", "int64"),
        Field("segmentLeaderEpochs", "[]SegmentLeaderEpochEntry", fields=_SEGMENT_LEADER_EPOCH_ENTRY),
        Field("segmentSizeInBytes", "int32"),
        Field("customMetadata", "bytes", nullable="0+", default=None, since="3.6"),
        Field("remoteLogSegmentState", "int8"),
        Field("txnIndexEmpty", "bool", tag=0, since="4.0"),
    ),
    highest=(("3.0", 0),),
)
REMOTE_LOG_SEGMENT_METADATA_UPDATE_RECORD = MessageSchema(
    "RemoteLogSegmentMetadataUpdateRecord",
    1,
    (
        Field(
            "remoteLogSegmentId",
            "RemoteLogSegmentIdEntry",
            fields=(
                Field("topicIdPartition", "TopicIdPartitionEntry", fields=_TOPIC_ID_PARTITION_ENTRY),
                Field("id", "uuid"),
            ),
        ),
        Field("brokerId", "int32"),
        Field("eventTimestampMs", "int64"),
        Field("customMetadata", "bytes", nullable="0+", default=None, since="3.6"),
        Field("remoteLogSegmentState", "int8"),
    ),
    highest=(("3.0", 0),),
)
REMOTE_PARTITION_DELETE_METADATA_RECORD = MessageSchema(
    "RemotePartitionDeleteMetadataRecord",
    2,
    (
        Field("topicIdPartition", "TopicIdPartitionEntry", fields=_TOPIC_ID_PARTITION_ENTRY),
        Field("brokerId", "int32"),
        Field("eventTimestampMs", "int64"),
        Field("remotePartitionDeleteState", "int8"),
    ),
    highest=(("3.0", 0),),
)
REMOTE_LOG_SEGMENT_METADATA_SNAPSHOT_RECORD = MessageSchema(
    "RemoteLogSegmentMetadataSnapshotRecord",
    3,
    (
        Field("segmentId", "uuid"),
        Field("startOffset", "int64"),
        Field("endOffset", "int64"),
        Field("brokerId", "int32"),
        Field("maxTimestampMs", "int64"),
        Field("eventTimestampMs", "int64"),
        Field("segmentLeaderEpochs", "[]SegmentLeaderEpochEntry", fields=_SEGMENT_LEADER_EPOCH_ENTRY),
        Field("segmentSizeInBytes", "int32"),
        Field("customMetadata", "bytes", nullable="0+", default=None, since="3.6"),
        Field("remoteLogSegmentState", "int8"),
        Field("txnIndexEmpty", "bool", tag=0, since="4.0"),
    ),
    highest=(("3.1", 0),),
)
