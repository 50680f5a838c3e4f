"""Message schemas of `__cluster_metadata` and of KRaft snapshots.

Source: https://github.com/apache/kafka/tree/trunk/metadata/src/main/resources/common/metadata,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from kforensics.parsers.messages.schema import Field, MessageSchema

_ENTITY_DATA = (
    Field("entityType", "string"),
    Field("entityName", "string", nullable="0+"),
)

REGISTER_BROKER_RECORD = MessageSchema(
    "RegisterBrokerRecord",
    0,
    (
        Field("brokerId", "int32"),
        Field("isMigratingZkBroker", "bool", "2+", since="3.4"),
        Field("incarnationId", "uuid"),
        Field("brokerEpoch", "int64"),
        Field(
            "endPoints",
            "[]BrokerEndpoint",
            fields=(
                Field("name", "string"),
                Field("host", "string"),
                Field("port", "uint16"),
                Field("securityProtocol", "int16"),
            ),
        ),
        Field(
            "features",
            "[]BrokerFeature",
            fields=(
                Field("name", "string"),
                Field("minSupportedVersion", "int16"),
                Field("maxSupportedVersion", "int16"),
            ),
        ),
        Field("rack", "string", nullable="0+"),
        Field("fenced", "bool", default=True, since="3.0"),
        Field("inControlledShutdown", "bool", "1+", since="3.3"),
        Field("logDirs", "[]uuid", "3+", tag=0, since="3.7"),
        Field("cordonedLogDirs", "[]uuid", "4+", nullable="4+", tag=1, default=None, since="4.3"),
    ),
    highest=(
        ("2.8", 0),
        ("3.3", 1),
        ("3.4", 2),
        ("3.7", 3),
        ("4.3", 4),
    ),
    rigid_until="2.8",
)
UNREGISTER_BROKER_RECORD = MessageSchema(
    "UnregisterBrokerRecord",
    1,
    (
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
TOPIC_RECORD = MessageSchema(
    "TopicRecord",
    2,
    (
        Field("name", "string"),
        Field("topicId", "uuid"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
PARTITION_RECORD = MessageSchema(
    "PartitionRecord",
    3,
    (
        Field("partitionId", "int32", default=-1),
        Field("topicId", "uuid"),
        Field("replicas", "[]int32"),
        Field("isr", "[]int32"),
        Field("removingReplicas", "[]int32", nullable="0+", until="2.8"),
        Field("addingReplicas", "[]int32", nullable="0+", until="2.8"),
        Field("removingReplicas", "[]int32", since="3.0"),
        Field("addingReplicas", "[]int32", since="3.0"),
        Field("leader", "int32", default=-1),
        Field("leaderRecoveryState", "int8", tag=0, since="3.2"),
        Field("leaderEpoch", "int32", default=-1),
        Field("partitionEpoch", "int32", default=-1),
        Field("directories", "[]uuid", "1+", since="3.7"),
        Field("eligibleLeaderReplicas", "[]int32", "2+", nullable="2+", tag=1, default=None, since="3.7"),
        Field("lastKnownELR", "[]int32", "2+", nullable="2+", tag=2, default=None, since="3.7", until="3.7"),
        Field("lastKnownElr", "[]int32", "2+", nullable="2+", tag=2, default=None, since="3.8"),
    ),
    highest=(
        ("2.8", 0),
        ("3.7", 2),
    ),
    rigid_until="2.8",
)
CONFIG_RECORD = MessageSchema(
    "ConfigRecord",
    4,
    (
        Field("resourceType", "int8"),
        Field("resourceName", "string"),
        Field("name", "string"),
        Field("value", "string", until="2.8"),
        Field("value", "string", nullable="0+", since="3.0"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
PARTITION_CHANGE_RECORD = MessageSchema(
    "PartitionChangeRecord",
    5,
    (
        Field("partitionId", "int32", default=-1),
        Field("topicId", "uuid"),
        Field("isr", "[]int32", nullable="0+", tag=0, default=None),
        Field("leader", "int32", tag=1, default=-2),
        Field("replicas", "[]int32", nullable="0+", tag=2, default=None, since="3.0"),
        Field("removingReplicas", "[]int32", nullable="0+", tag=3, default=None, since="3.0"),
        Field("addingReplicas", "[]int32", nullable="0+", tag=4, default=None, since="3.0"),
        Field("leaderRecoveryState", "int8", tag=5, default=-1, since="3.2"),
        Field("directories", "[]uuid", "1+", nullable="1+", tag=8, default=None, since="3.7"),
        Field("eligibleLeaderReplicas", "[]int32", "2+", nullable="2+", tag=6, default=None, since="3.7"),
        Field("lastKnownELR", "[]int32", "2+", nullable="2+", tag=7, default=None, since="3.7", until="3.7"),
        Field("lastKnownElr", "[]int32", "2+", nullable="2+", tag=7, default=None, since="3.8"),
    ),
    highest=(
        ("2.8", 0),
        ("3.7", 2),
    ),
)
ACCESS_CONTROL_RECORD = MessageSchema(
    "AccessControlRecord",
    6,
    (
        Field("resourceType", "int8"),
        Field("resourceName", "string", nullable="0+"),
        Field("patternType", "int8"),
        Field("principal", "string"),
        Field("host", "string"),
        Field("operation", "int8"),
        Field("permissionType", "int8"),
    ),
    highest=(("2.8", 0),),
    until="3.4",
)
FENCE_BROKER_RECORD = MessageSchema(
    "FenceBrokerRecord",
    7,
    (
        Field("id", "int32"),
        Field("epoch", "int64"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
UNFENCE_BROKER_RECORD = MessageSchema(
    "UnfenceBrokerRecord",
    8,
    (
        Field("id", "int32"),
        Field("epoch", "int64"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
REMOVE_TOPIC_RECORD = MessageSchema(
    "RemoveTopicRecord", 9, (Field("topicId", "uuid"),), highest=(("2.8", 0),), rigid_until="2.8"
)
DELEGATION_TOKEN_RECORD = MessageSchema(
    "DelegationTokenRecord",
    10,
    (
        Field("owner", "string"),
        Field("requester", "string", since="3.6"),
        Field("renewers", "[]string"),
        Field("issueTimestamp", "int64"),
        Field("maxTimestamp", "int64"),
        Field("expirationTimestamp", "int64"),
        Field("tokenId", "string"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
USER_SCRAM_CREDENTIAL_RECORD = MessageSchema(
    "UserScramCredentialRecord",
    11,
    (
        Field("name", "string"),
        Field(
            "credentialInfos",
            "[]CredentialInfo",
            fields=(
                Field("mechanism", "int8"),
                Field("salt", "bytes"),
                Field("saltedPassword", "bytes"),
                Field("iterations", "int32"),
            ),
            until="3.4",
        ),
        Field("mechanism", "int8", since="3.5"),
        Field("salt", "bytes", since="3.5"),
        Field("storedKey", "bytes", since="3.5"),
        Field("serverKey", "bytes", since="3.5"),
        Field("iterations", "int32", since="3.5"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
FEATURE_LEVEL_RECORD = MessageSchema(
    "FeatureLevelRecord",
    12,
    (
        Field("name", "string"),
        Field("minFeatureLevel", "int16", until="3.2"),
        Field("maxFeatureLevel", "int16", until="3.2"),
        Field("featureLevel", "int16", since="3.3"),
    ),
    highest=(("2.8", 0),),
    rigid_until="2.8",
)
QUOTA_RECORD = MessageSchema(
    "QuotaRecord",
    14,
    (
        Field("entity", "[]EntityData", fields=_ENTITY_DATA),
        Field("key", "string"),
        Field("value", "float64"),
        Field("remove", "bool"),
    ),
    flexible=None,
    highest=(("2.8", 0),),
    until="2.8",
)
CLIENT_QUOTA_RECORD = MessageSchema(
    "ClientQuotaRecord",
    14,
    (
        Field("entity", "[]EntityData", fields=_ENTITY_DATA),
        Field("key", "string"),
        Field("value", "float64"),
        Field("remove", "bool"),
    ),
    highest=(("3.0", 0),),
)
PRODUCER_IDS_RECORD = MessageSchema(
    "ProducerIdsRecord",
    15,
    (
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64", default=-1),
        Field("producerIdsEnd", "int64", until="3.1"),
        Field("nextProducerId", "int64", since="3.2"),
    ),
    highest=(("3.0", 0),),
)
REMOVE_FEATURE_LEVEL_RECORD = MessageSchema(
    "RemoveFeatureLevelRecord", 16, (Field("name", "string"),), highest=(("3.0", 0),), until="3.2"
)
BROKER_REGISTRATION_CHANGE_RECORD = MessageSchema(
    "BrokerRegistrationChangeRecord",
    17,
    (
        Field("brokerId", "int32"),
        Field("brokerEpoch", "int64"),
        Field("fenced", "int8", tag=0),
        Field("inControlledShutdown", "int8", "1+", tag=1, since="3.3"),
        Field("logDirs", "[]uuid", "2+", tag=2, since="3.7"),
        Field("cordonedLogDirs", "[]uuid", "3+", nullable="3+", tag=3, default=None, since="4.3"),
    ),
    highest=(
        ("3.0", 0),
        ("3.3", 1),
        ("3.7", 2),
        ("4.3", 3),
    ),
)
ACCESS_CONTROL_ENTRY_RECORD = MessageSchema(
    "AccessControlEntryRecord",
    18,
    (
        Field("id", "uuid"),
        Field("resourceType", "int8"),
        Field("resourceName", "string"),
        Field("patternType", "int8"),
        Field("principal", "string"),
        Field("host", "string"),
        Field("operation", "int8"),
        Field("permissionType", "int8"),
    ),
    highest=(("3.2", 0),),
)
REMOVE_ACCESS_CONTROL_ENTRY_RECORD = MessageSchema(
    "RemoveAccessControlEntryRecord", 19, (Field("id", "uuid"),), highest=(("3.2", 0),)
)
NO_OP_RECORD = MessageSchema("NoOpRecord", 20, (), highest=(("3.3", 0),))
ZK_MIGRATION_STATE_RECORD = MessageSchema(
    "ZkMigrationStateRecord", 21, (Field("zkMigrationState", "int8"),), highest=(("3.4", 0),)
)
REMOVE_USER_SCRAM_CREDENTIAL_RECORD = MessageSchema(
    "RemoveUserScramCredentialRecord",
    22,
    (
        Field("name", "string"),
        Field("mechanism", "int8"),
    ),
    highest=(("3.5", 0),),
)
BEGIN_TRANSACTION_RECORD = MessageSchema(
    "BeginTransactionRecord", 23, (Field("name", "string", nullable="0+", tag=0, default=None),), highest=(("3.6", 0),)
)
END_TRANSACTION_RECORD = MessageSchema("EndTransactionRecord", 24, (), highest=(("3.6", 0),))
ABORT_TRANSACTION_RECORD = MessageSchema(
    "AbortTransactionRecord",
    25,
    (Field("reason", "string", nullable="0+", tag=0, default=None),),
    highest=(("3.6", 0),),
)
REMOVE_DELEGATION_TOKEN_RECORD = MessageSchema(
    "RemoveDelegationTokenRecord", 26, (Field("tokenId", "string"),), highest=(("3.6", 0),)
)
REGISTER_CONTROLLER_RECORD = MessageSchema(
    "RegisterControllerRecord",
    27,
    (
        Field("controllerId", "int32"),
        Field("incarnationId", "uuid"),
        Field("zkMigrationReady", "bool"),
        Field(
            "endPoints",
            "[]ControllerEndpoint",
            fields=(
                Field("name", "string"),
                Field("host", "string"),
                Field("port", "uint16"),
                Field("securityProtocol", "int16"),
            ),
        ),
        Field(
            "features",
            "[]ControllerFeature",
            fields=(
                Field("name", "string"),
                Field("minSupportedVersion", "int16"),
                Field("maxSupportedVersion", "int16"),
            ),
        ),
    ),
    highest=(("3.7", 0),),
)
CLEAR_ELR_RECORD = MessageSchema("ClearElrRecord", 28, (Field("topicName", "string"),), highest=(("4.0", 0),))
UNREGISTER_CONTROLLER_RECORD = MessageSchema(
    "UnregisterControllerRecord", 29, (Field("controllerId", "int32"),), highest=(("4.4", 0),)
)
