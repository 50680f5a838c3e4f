"""Message schemas of the records that classic and consumer groups write to `__consumer_offsets`.

The consumer protocol, which is embedded in group metadata values, is here too.

Source: https://github.com/apache/kafka/tree/trunk/group-coordinator/src/main/resources/common/message,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

_TOPIC_PARTITIONS = (
    Field("topicId", "uuid"),
    Field("partitions", "[]int32"),
    Field("assignmentEpochs", "[]int32", nullable="0+", tag=0, since="4.3"),
)

LEGACY_OFFSET_COMMIT_KEY = MessageSchema(
    "LegacyOffsetCommitKey",
    0,
    (
        Field("group", "string"),
        Field("topic", "string"),
        Field("partition", "int32"),
    ),
    flexible=None,
    highest=(("4.1", 0),),
)
LEGACY_OFFSET_COMMIT_VALUE = MessageSchema(
    "LegacyOffsetCommitValue",
    0,
    (
        Field("offset", "int64"),
        Field("metadata", "string"),
        Field("commitTimestamp", "int64"),
    ),
    flexible=None,
    highest=(("4.1", 0),),
)
OFFSET_COMMIT_KEY = MessageSchema(
    "OffsetCommitKey",
    1,
    (
        Field("group", "string"),
        Field("topic", "string"),
        Field("partition", "int32"),
    ),
    flexible=None,
    highest=(("2.8", 0),),
)
OFFSET_COMMIT_VALUE = MessageSchema(
    "OffsetCommitValue",
    1,
    (
        Field("offset", "int64"),
        Field("leaderEpoch", "int32", "3+", default=-1),
        Field("metadata", "string"),
        Field("commitTimestamp", "int64"),
        Field("expireTimestamp", "int64", "1", default=-1),
        Field("topicId", "uuid", "4+", tag=0, since="4.1"),
    ),
    flexible="4+",
    highest=(
        ("2.8", 3),
        ("3.4", 4),
    ),
)
GROUP_METADATA_KEY = MessageSchema(
    "GroupMetadataKey", 2, (Field("group", "string"),), flexible=None, highest=(("2.8", 0),)
)
GROUP_METADATA_VALUE = MessageSchema(
    "GroupMetadataValue",
    2,
    (
        Field("protocolType", "string"),
        Field("generation", "int32"),
        Field("protocol", "string", nullable="0+"),
        Field("leader", "string", nullable="0+"),
        Field("currentStateTimestamp", "int64", "2+", default=-1),
        Field(
            "members",
            "[]MemberMetadata",
            fields=(
                Field("memberId", "string"),
                Field("groupInstanceId", "string", "3+", nullable="3+", default=None),
                Field("clientId", "string"),
                Field("clientHost", "string"),
                Field("rebalanceTimeout", "int32", "1+", default=-1),
                Field("sessionTimeout", "int32"),
                Field("subscription", "bytes"),
                Field("assignment", "bytes"),
            ),
            common=True,
        ),
    ),
    flexible="4+",
    highest=(
        ("2.8", 3),
        ("3.4", 4),
    ),
)
CONSUMER_GROUP_METADATA_KEY = MessageSchema(
    "ConsumerGroupMetadataKey", 3, (Field("groupId", "string"),), flexible=None, highest=(("3.6", 0),)
)
CONSUMER_GROUP_METADATA_VALUE = MessageSchema(
    "ConsumerGroupMetadataValue",
    3,
    (
        Field("epoch", "int32"),
        Field("metadataHash", "int64", tag=0, since="4.1"),
    ),
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_PARTITION_METADATA_KEY = MessageSchema(
    "ConsumerGroupPartitionMetadataKey", 4, (Field("groupId", "string"),), flexible=None, highest=(("3.6", 0),)
)
CONSUMER_GROUP_PARTITION_METADATA_VALUE = MessageSchema(
    "ConsumerGroupPartitionMetadataValue",
    4,
    (
        Field("epoch", "int32", until="3.7"),
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
        ),
    ),
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_MEMBER_METADATA_KEY = MessageSchema(
    "ConsumerGroupMemberMetadataKey",
    5,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_MEMBER_METADATA_VALUE = MessageSchema(
    "ConsumerGroupMemberMetadataValue",
    5,
    (
        Field("instanceId", "string", nullable="0+"),
        Field("rackId", "string", nullable="0+"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("subscribedTopicNames", "[]string"),
        Field("subscribedTopicRegex", "string", nullable="0+"),
        Field("rebalanceTimeoutMs", "int32", default=-1),
        Field("serverAssignor", "string", nullable="0+"),
        Field(
            "assignors",
            "[]Assignor",
            fields=(
                Field("name", "string"),
                Field("minimumVersion", "int16"),
                Field("maximumVersion", "int16"),
                Field("reason", "int8"),
                Field("version", "int16"),
                Field("metadata", "bytes"),
            ),
            until="3.7",
        ),
        Field(
            "classicMemberMetadata",
            "ClassicMemberMetadata",
            nullable="0+",
            tag=0,
            fields=(
                Field("sessionTimeoutMs", "int32"),
                Field(
                    "supportedProtocols",
                    "[]ClassicProtocol",
                    fields=(
                        Field("name", "string"),
                        Field("metadata", "bytes"),
                    ),
                ),
            ),
            since="3.8",
        ),
    ),
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = MessageSchema(
    "ConsumerGroupTargetAssignmentMetadataKey", 6, (Field("groupId", "string"),), flexible=None, highest=(("3.6", 0),)
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = MessageSchema(
    "ConsumerGroupTargetAssignmentMetadataValue",
    6,
    (
        Field("assignmentEpoch", "int32"),
        Field("assignmentTimestamp", "int64", tag=0, since="4.3"),
    ),
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = MessageSchema(
    "ConsumerGroupTargetAssignmentMemberKey",
    7,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = MessageSchema(
    "ConsumerGroupTargetAssignmentMemberValue",
    7,
    (
        Field("error", "int8", until="3.7"),
        Field(
            "topicPartitions",
            "[]TopicPartition",
            fields=(
                Field("topicId", "uuid"),
                Field("partitions", "[]int32"),
            ),
        ),
        Field("metadataVersion", "int16", until="3.7"),
        Field("metadataBytes", "bytes", until="3.7"),
    ),
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = MessageSchema(
    "ConsumerGroupCurrentMemberAssignmentKey",
    8,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = MessageSchema(
    "ConsumerGroupCurrentMemberAssignmentValue",
    8,
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("targetMemberEpoch", "int32", until="3.7"),
        Field("state", "int8", since="3.8"),
        Field("assignedPartitions", "[]TopicPartitions", fields=_TOPIC_PARTITIONS, common=True),
        Field("partitionsPendingRevocation", "[]TopicPartitions", fields=_TOPIC_PARTITIONS, common=True),
        Field(
            "partitionsPendingAssignment",
            "[]TopicPartitions",
            fields=(
                Field("topicId", "uuid"),
                Field("partitions", "[]int32"),
            ),
            until="3.7",
            common=True,
        ),
        Field("error", "int8", until="3.7"),
        Field("metadataVersion", "int16", until="3.7"),
        Field("metadataBytes", "bytes", until="3.7"),
    ),
    highest=(("3.6", 0),),
)
CONSUMER_GROUP_REGULAR_EXPRESSION_KEY = MessageSchema(
    "ConsumerGroupRegularExpressionKey",
    16,
    (
        Field("groupId", "string"),
        Field("regularExpression", "string"),
    ),
    flexible=None,
    highest=(("4.0", 0),),
)
CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE = MessageSchema(
    "ConsumerGroupRegularExpressionValue",
    16,
    (
        Field("topics", "[]string"),
        Field("version", "int64"),
        Field("timestamp", "int64"),
    ),
    highest=(("4.0", 0),),
)
CONSUMER_PROTOCOL_SUBSCRIPTION = MessageSchema(
    "ConsumerProtocolSubscription",
    None,
    (
        Field("topics", "[]string"),
        Field("userData", "bytes", nullable="0+", default=None, zero_copy=True),
        Field(
            "ownedPartitions",
            "[]TopicPartition",
            "1+",
            fields=(
                Field("topic", "string", "1+"),
                Field("partitions", "[]int32", "1+"),
            ),
        ),
        Field("generationId", "int32", "2+", default=-1, since="3.4"),
        Field("rackId", "string", "3+", nullable="3+", default=None, since="3.4"),
    ),
    flexible=None,
    highest=(
        ("2.7", 1),
        ("3.4", 3),
    ),
)
CONSUMER_PROTOCOL_ASSIGNMENT = MessageSchema(
    "ConsumerProtocolAssignment",
    None,
    (
        Field(
            "assignedPartitions",
            "[]TopicPartition",
            fields=(
                Field("topic", "string"),
                Field("partitions", "[]int32"),
            ),
        ),
        Field("userData", "bytes", nullable="0+", default=None, zero_copy=True),
    ),
    flexible=None,
    highest=(
        ("2.7", 1),
        ("3.4", 3),
    ),
)
