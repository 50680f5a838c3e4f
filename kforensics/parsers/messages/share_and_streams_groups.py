"""Message schemas of the records of share groups (KIP-932) and streams groups (KIP-1071) in `__consumer_offsets`.

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


_TASK_IDS = (
    Field("subtopologyId", "string"),
    Field("partitions", "[]int32"),
)
_CURRENT_TASK_IDS = (
    Field("subtopologyId", "string"),
    Field("partitions", "[]int32"),
    Field("assignmentEpochs", "[]int32", nullable="0+", tag=0, since="4.2"),
)
_TOPIC_CONFIG = (
    Field("key", "string"),
    Field("value", "string"),
)

STREAMS_GROUP_METADATA_KEY = MessageSchema(
    "StreamsGroupMetadataKey", 17, (Field("groupId", "string"),), flexible=None, highest=(("4.1", 0),)
)
STREAMS_GROUP_METADATA_VALUE = MessageSchema(
    "StreamsGroupMetadataValue",
    17,
    (
        Field("epoch", "int32"),
        Field("metadataHash", "int64"),
        Field("validatedTopologyEpoch", "int32", tag=0, default=-1, since="4.2"),
        Field(
            "lastAssignmentConfigs",
            "[]LastAssignmentConfig",
            nullable="0+",
            tag=1,
            fields=(
                Field("key", "string"),
                Field("value", "string"),
            ),
            since="4.2",
            common=True,
        ),
        Field("storedDescriptionTopologyEpoch", "int32", tag=2, default=-1, since="4.4"),
        Field("failedDescriptionTopologyEpoch", "int32", tag=3, default=-1, since="4.4"),
    ),
    highest=(("4.1", 0),),
)
STREAMS_GROUP_MEMBER_METADATA_KEY = MessageSchema(
    "StreamsGroupMemberMetadataKey",
    19,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("4.1", 0),),
)
STREAMS_GROUP_MEMBER_METADATA_VALUE = MessageSchema(
    "StreamsGroupMemberMetadataValue",
    19,
    (
        Field("instanceId", "string", nullable="0+"),
        Field("rackId", "string", nullable="0+"),
        Field("clientId", "string"),
        Field("clientHost", "string"),
        Field("rebalanceTimeoutMs", "int32", default=-1),
        Field("topologyEpoch", "int32"),
        Field("processId", "string"),
        Field(
            "userEndpoint",
            "Endpoint",
            nullable="0+",
            default=None,
            fields=(
                Field("host", "string"),
                Field("port", "uint16"),
            ),
            common=True,
        ),
        Field(
            "clientTags",
            "[]KeyValue",
            fields=(
                Field("key", "string"),
                Field("value", "string"),
            ),
            common=True,
        ),
    ),
    highest=(("4.1", 0),),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY = MessageSchema(
    "StreamsGroupTargetAssignmentMetadataKey", 20, (Field("groupId", "string"),), flexible=None, highest=(("4.1", 0),)
)
STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE = MessageSchema(
    "StreamsGroupTargetAssignmentMetadataValue",
    20,
    (
        Field("assignmentEpoch", "int32"),
        Field("assignmentTimestamp", "int64", tag=0, since="4.3"),
    ),
    highest=(("4.1", 0),),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY = MessageSchema(
    "StreamsGroupTargetAssignmentMemberKey",
    21,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("4.1", 0),),
)
STREAMS_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE = MessageSchema(
    "StreamsGroupTargetAssignmentMemberValue",
    21,
    (
        Field("activeTasks", "[]TaskIds", fields=_TASK_IDS, common=True),
        Field("standbyTasks", "[]TaskIds", fields=_TASK_IDS, common=True),
        Field("warmupTasks", "[]TaskIds", fields=_TASK_IDS, common=True),
    ),
    highest=(("4.1", 0),),
)
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY = MessageSchema(
    "StreamsGroupCurrentMemberAssignmentKey",
    22,
    (
        Field("groupId", "string"),
        Field("memberId", "string"),
    ),
    flexible=None,
    highest=(("4.1", 0),),
)
STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE = MessageSchema(
    "StreamsGroupCurrentMemberAssignmentValue",
    22,
    (
        Field("memberEpoch", "int32"),
        Field("previousMemberEpoch", "int32"),
        Field("state", "int8"),
        Field("activeTasks", "[]TaskIds", fields=_CURRENT_TASK_IDS, common=True),
        Field("standbyTasks", "[]TaskIds", fields=_CURRENT_TASK_IDS, common=True),
        Field("warmupTasks", "[]TaskIds", fields=_CURRENT_TASK_IDS, common=True),
        Field("activeTasksPendingRevocation", "[]TaskIds", fields=_CURRENT_TASK_IDS, common=True),
        Field("standbyTasksPendingRevocation", "[]TaskIds", fields=_CURRENT_TASK_IDS, common=True),
        Field("warmupTasksPendingRevocation", "[]TaskIds", fields=_CURRENT_TASK_IDS, common=True),
    ),
    highest=(("4.1", 0),),
)
STREAMS_GROUP_TOPOLOGY_KEY = MessageSchema(
    "StreamsGroupTopologyKey", 23, (Field("groupId", "string"),), flexible=None, highest=(("4.1", 0),)
)
STREAMS_GROUP_TOPOLOGY_VALUE = MessageSchema(
    "StreamsGroupTopologyValue",
    23,
    (
        Field("epoch", "int32"),
        Field(
            "subtopologies",
            "[]Subtopology",
            fields=(
                Field("subtopologyId", "string"),
                Field("sourceTopics", "[]string"),
                Field("sourceTopicRegex", "[]string"),
                Field(
                    "stateChangelogTopics",
                    "[]TopicInfo",
                    fields=(
                        Field("name", "string"),
                        Field("partitions", "int32"),
                        Field("replicationFactor", "int16"),
                        Field("topicConfigs", "[]TopicConfig", fields=_TOPIC_CONFIG, common=True),
                    ),
                    common=True,
                ),
                Field("repartitionSinkTopics", "[]string"),
                Field(
                    "repartitionSourceTopics",
                    "[]TopicInfo",
                    fields=(
                        Field("name", "string"),
                        Field("partitions", "int32"),
                        Field("replicationFactor", "int16"),
                        Field("topicConfigs", "[]TopicConfig", fields=_TOPIC_CONFIG, common=True),
                    ),
                    common=True,
                ),
                Field(
                    "copartitionGroups",
                    "[]CopartitionGroup",
                    fields=(
                        Field("sourceTopics", "[]int16"),
                        Field("sourceTopicRegex", "[]int16"),
                        Field("repartitionSourceTopics", "[]int16"),
                    ),
                ),
            ),
        ),
    ),
    highest=(("4.1", 0),),
)
