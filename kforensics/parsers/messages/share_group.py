"""Message schemas of the records that share groups write to `__consumer_offsets` (KIP-932).

Source: https://github.com/apache/kafka/tree/trunk/group-coordinator/src/main/resources/common/message,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

_TOPIC_PARTITIONS_INFO = (
    Field("topicId", "uuid"),
    Field("topicName", "string"),
    Field("partitions", "[]int32"),
)
_TOPIC_INFO = (
    Field("topicId", "uuid"),
    Field("topicName", "string"),
)

SHARE_GROUP_PARTITION_METADATA_KEY = MessageSchema(
    "ShareGroupPartitionMetadataKey",
    9,
    (Field("groupId", "string"),),
    flexible=None,
    highest=(("3.9", 0),),
    until="4.0",
)
SHARE_GROUP_PARTITION_METADATA_VALUE = MessageSchema(
    "ShareGroupPartitionMetadataValue",
    9,
    (
        Field("initializedTopics", "[]TopicPartitionsInfo", fields=_TOPIC_PARTITIONS_INFO, until="3.9", common=True),
        Field("deletingTopics", "[]TopicInfo", fields=_TOPIC_INFO, until="3.9", common=True),
        Field(
            "topics",
            "[]TopicMetadata",
            fields=(
                Field("topicId", "uuid"),
                Field("topicName", "string"),
                Field("numPartitions", "int32"),
                Field(
                    "partitionMetadata",
                    "[]PartitionMetadata",
                    fields=(
                        Field("partition", "int32"),
                        Field("racks", "[]string"),
                    ),
                ),
            ),
            since="4.0",
        ),
    ),
    highest=(("3.9", 0),),
    until="4.0",
)
SHARE_GROUP_MEMBER_METADATA_KEY = MessageSchema(
    "ShareGroupMemberMetadataKey",
    10,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("3.9", 0),),
)
SHARE_GROUP_MEMBER_METADATA_VALUE = MessageSchema(
    "ShareGroupMemberMetadataValue",
    10,
    (
        Field("rackId", "string", nullable="0+"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "[]string"),
    ),
    highest=(("3.9", 0),),
)
SHARE_GROUP_METADATA_KEY = MessageSchema(
    "ShareGroupMetadataKey", 11, (Field("groupId", "string"),), flexible=None, highest=(("3.9", 0),)
)
SHARE_GROUP_METADATA_VALUE = MessageSchema(
    "ShareGroupMetadataValue",
    11,
    (
        Field("epoch", "int32"),
        Field("metadataHash", "int64", since="4.1"),
    ),
    highest=(("3.9", 0),),
)
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = MessageSchema(
    "ShareGroupTargetAssignmentMetadataKey", 12, (Field("groupId", "string"),), flexible=None, highest=(("4.0", 0),)
)
SHARE_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = MessageSchema(
    "ShareGroupTargetAssignmentMetadataValue",
    12,
    (
        Field("assignmentEpoch", "int32"),
        Field("assignmentTimestamp", "int64", tag=0, since="4.3"),
    ),
    highest=(("4.0", 0),),
)
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = MessageSchema(
    "ShareGroupTargetAssignmentMemberKey",
    13,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("4.0", 0),),
)
SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = MessageSchema(
    "ShareGroupTargetAssignmentMemberValue",
    13,
    (
        Field(
            "topicPartitions",
            "[]TopicPartition",
            fields=(
                Field("topicId", "uuid"),
                Field("partitions", "[]int32"),
            ),
        ),
    ),
    highest=(("4.0", 0),),
)
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = MessageSchema(
    "ShareGroupCurrentMemberAssignmentKey",
    14,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("4.0", 0),),
)
SHARE_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = MessageSchema(
    "ShareGroupCurrentMemberAssignmentValue",
    14,
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field(
            "assignedPartitions",
            "[]TopicPartitions",
            fields=(
                Field("topicId", "uuid"),
                Field("partitions", "[]int32"),
            ),
            common=True,
        ),
    ),
    highest=(("4.0", 0),),
)
SHARE_GROUP_STATE_PARTITION_METADATA_KEY = MessageSchema(
    "ShareGroupStatePartitionMetadataKey", 15, (Field("groupId", "string"),), flexible=None, highest=(("4.0", 0),)
)
SHARE_GROUP_STATE_PARTITION_METADATA_VALUE = MessageSchema(
    "ShareGroupStatePartitionMetadataValue",
    15,
    (
        Field("initializingTopics", "[]TopicPartitionsInfo", fields=_TOPIC_PARTITIONS_INFO, since="4.1", common=True),
        Field("initializedTopics", "[]TopicPartitionsInfo", fields=_TOPIC_PARTITIONS_INFO, common=True),
        Field("deletingTopics", "[]TopicInfo", fields=_TOPIC_INFO, common=True),
    ),
    highest=(("4.0", 0),),
)
