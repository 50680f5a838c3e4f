"""What the numbers in internal records mean.

The enumerations are those of Kafka's classes; a number that is not in a map has no name in any release up to 4.4.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

TRANSACTION_STATES: Final[Mapping[int, str]] = {
    0: "Empty",
    1: "Ongoing",
    2: "PrepareCommit",
    3: "PrepareAbort",
    4: "CompleteCommit",
    5: "CompleteAbort",
    6: "Dead",
    7: "PrepareEpochFence",
}
CONSUMER_MEMBER_STATES: Final[Mapping[int, str]] = {
    0: "STABLE",
    1: "UNREVOKED_PARTITIONS",
    2: "UNRELEASED_PARTITIONS",
    127: "UNKNOWN",
}
STREAMS_MEMBER_STATES: Final[Mapping[int, str]] = {
    1: "STABLE",
    2: "UNREVOKED_TASKS",
    3: "UNRELEASED_TASKS",
    127: "UNKNOWN",
}
SHARE_DELIVERY_STATES: Final[Mapping[int, str]] = {0: "AVAILABLE", 1: "ACQUIRED", 2: "ACKNOWLEDGED", 4: "ARCHIVED"}
REMOTE_SEGMENT_STATES: Final[Mapping[int, str]] = {
    0: "COPY_SEGMENT_STARTED",
    1: "COPY_SEGMENT_FINISHED",
    2: "DELETE_SEGMENT_STARTED",
    3: "DELETE_SEGMENT_FINISHED",
}
REMOTE_PARTITION_DELETE_STATES: Final[Mapping[int, str]] = {
    0: "DELETE_PARTITION_MARKED",
    1: "DELETE_PARTITION_STARTED",
    2: "DELETE_PARTITION_FINISHED",
}
LEADER_RECOVERY_STATES: Final[Mapping[int, str]] = {0: "RECOVERED", 1: "RECOVERING", -1: "NO_CHANGE"}
FENCING_CHANGES: Final[Mapping[int, str]] = {-1: "UNFENCE", 0: "NONE", 1: "FENCE"}
CONTROLLED_SHUTDOWN_CHANGES: Final[Mapping[int, str]] = {0: "NONE", 1: "IN_CONTROLLED_SHUTDOWN"}
SECURITY_PROTOCOLS: Final[Mapping[int, str]] = {0: "PLAINTEXT", 1: "SSL", 2: "SASL_PLAINTEXT", 3: "SASL_SSL"}
CONFIG_RESOURCE_TYPES: Final[Mapping[int, str]] = {
    2: "TOPIC",
    4: "BROKER",
    8: "BROKER_LOGGER",
    16: "CLIENT_METRICS",
    32: "GROUP",
}
ACL_RESOURCE_TYPES: Final[Mapping[int, str]] = {
    2: "TOPIC",
    3: "GROUP",
    4: "CLUSTER",
    5: "TRANSACTIONAL_ID",
    6: "DELEGATION_TOKEN",
    7: "USER",
}
ACL_PATTERN_TYPES: Final[Mapping[int, str]] = {3: "LITERAL", 4: "PREFIXED"}
ACL_OPERATIONS: Final[Mapping[int, str]] = {
    2: "ALL",
    3: "READ",
    4: "WRITE",
    5: "CREATE",
    6: "DELETE",
    7: "ALTER",
    8: "DESCRIBE",
    9: "CLUSTER_ACTION",
    10: "DESCRIBE_CONFIGS",
    11: "ALTER_CONFIGS",
    12: "IDEMPOTENT_WRITE",
    13: "CREATE_TOKENS",
    14: "DESCRIBE_TOKENS",
    15: "TWO_PHASE_COMMIT",
}
ACL_PERMISSION_TYPES: Final[Mapping[int, str]] = {2: "DENY", 3: "ALLOW"}
SCRAM_MECHANISMS: Final[Mapping[int, str]] = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
ZK_MIGRATION_STATES: Final[Mapping[int, str]] = {
    0: "NONE",
    1: "MIGRATION",
    2: "PRE_MIGRATION",
    3: "POST_MIGRATION",
    4: "ZK",
}

# Which map explains which field, by the name of the message and of the field, wherever in the message it stands.
FIELD_NAMES: Final[Mapping[tuple[str, str], Mapping[int, str]]] = {
    ("TransactionLogValue", "transactionStatus"): TRANSACTION_STATES,
    ("ConsumerGroupCurrentMemberAssignmentValue", "state"): CONSUMER_MEMBER_STATES,
    ("StreamsGroupCurrentMemberAssignmentValue", "state"): STREAMS_MEMBER_STATES,
    ("ShareSnapshotValue", "deliveryState"): SHARE_DELIVERY_STATES,
    ("ShareUpdateValue", "deliveryState"): SHARE_DELIVERY_STATES,
    ("RemoteLogSegmentMetadataRecord", "remoteLogSegmentState"): REMOTE_SEGMENT_STATES,
    ("RemoteLogSegmentMetadataUpdateRecord", "remoteLogSegmentState"): REMOTE_SEGMENT_STATES,
    ("RemoteLogSegmentMetadataSnapshotRecord", "remoteLogSegmentState"): REMOTE_SEGMENT_STATES,
    ("RemotePartitionDeleteMetadataRecord", "remotePartitionDeleteState"): REMOTE_PARTITION_DELETE_STATES,
    ("PartitionRecord", "leaderRecoveryState"): LEADER_RECOVERY_STATES,
    ("PartitionChangeRecord", "leaderRecoveryState"): LEADER_RECOVERY_STATES,
    ("BrokerRegistrationChangeRecord", "fenced"): FENCING_CHANGES,
    ("BrokerRegistrationChangeRecord", "inControlledShutdown"): CONTROLLED_SHUTDOWN_CHANGES,
    ("RegisterBrokerRecord", "securityProtocol"): SECURITY_PROTOCOLS,
    ("RegisterControllerRecord", "securityProtocol"): SECURITY_PROTOCOLS,
    ("ConfigRecord", "resourceType"): CONFIG_RESOURCE_TYPES,
    ("AccessControlEntryRecord", "resourceType"): ACL_RESOURCE_TYPES,
    ("AccessControlEntryRecord", "patternType"): ACL_PATTERN_TYPES,
    ("AccessControlEntryRecord", "operation"): ACL_OPERATIONS,
    ("AccessControlEntryRecord", "permissionType"): ACL_PERMISSION_TYPES,
    ("UserScramCredentialRecord", "mechanism"): SCRAM_MECHANISMS,
    ("RemoveUserScramCredentialRecord", "mechanism"): SCRAM_MECHANISMS,
    ("ZkMigrationStateRecord", "zkMigrationState"): ZK_MIGRATION_STATES,
}
