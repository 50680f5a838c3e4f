"""Message schemas of control records: transaction markers and what KRaft writes into its log.

Source: https://github.com/apache/kafka/tree/trunk/clients/src/main/resources/common/message,
as shipped in the jars of releases 2.7 to 4.4.
"""

from __future__ import annotations

from typing import Final

from kforensics.parsers.messages.schema import Field, MessageSchema

_VOTER = (
    Field("voterId", "int32"),
    Field("voterDirectoryId", "uuid", "1+", since="3.9"),
)

CONTROL_RECORD_TYPE_SCHEMA = MessageSchema(
    "ControlRecordTypeSchema", None, (Field("type", "int16"),), flexible=None, highest=(("4.3", 0),)
)
END_TXN_MARKER_SCHEMA = MessageSchema(
    "EndTxnMarker", None, (Field("coordinatorEpoch", "int32"),), flexible=None, highest=(("4.1", 0),)
)
LEADER_CHANGE_MESSAGE = MessageSchema(
    "LeaderChangeMessage",
    None,
    (
        Field("version", "int16", since="3.0"),
        Field("leaderId", "int32"),
        Field("voters", "[]Voter", fields=_VOTER, common=True),
        Field("grantingVoters", "[]Voter", fields=_VOTER, since="2.8", common=True),
    ),
    highest=(
        ("2.7", 0),
        ("3.9", 1),
    ),
)
SNAPSHOT_HEADER_RECORD = MessageSchema(
    "SnapshotHeaderRecord",
    None,
    (
        Field("version", "int16"),
        Field("lastContainedLogTimestamp", "int64"),
    ),
    highest=(("3.0", 0),),
)
SNAPSHOT_FOOTER_RECORD = MessageSchema(
    "SnapshotFooterRecord", None, (Field("version", "int16"),), highest=(("3.0", 0),)
)
KRAFT_VERSION_RECORD = MessageSchema(
    "KRaftVersionRecord",
    None,
    (
        Field("version", "int16"),
        Field("kRaftVersion", "int16"),
    ),
    highest=(("3.8", 0),),
)
VOTERS_RECORD = MessageSchema(
    "VotersRecord",
    None,
    (
        Field("version", "int16"),
        Field(
            "voters",
            "[]Voter",
            fields=(
                Field("voterId", "int32"),
                Field("voterDirectoryId", "uuid"),
                Field(
                    "endpoints",
                    "[]Endpoint",
                    fields=(
                        Field("name", "string"),
                        Field("host", "string"),
                        Field("port", "uint16"),
                    ),
                ),
                Field(
                    "kRaftVersionFeature",
                    "KRaftVersionFeature",
                    fields=(
                        Field("minSupportedVersion", "int16"),
                        Field("maxSupportedVersion", "int16"),
                    ),
                ),
            ),
        ),
    ),
    highest=(("3.8", 0),),
)

# Names of the control record types since 3.0. In 2.7 and 2.8 LEADER_CHANGE was 3, and type 2 was never written.
CONTROL_TYPE_NAMES: Final = {
    0: "ABORT",
    1: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
CONTROL_TYPE_NAMES_2_8: Final = {0: "ABORT", 1: "COMMIT", 2: "QUORUM_REASSIGNMENT", 3: "LEADER_CHANGE"}
CONTROL_MESSAGES: Final = {
    "ABORT": END_TXN_MARKER_SCHEMA,
    "COMMIT": END_TXN_MARKER_SCHEMA,
    "LEADER_CHANGE": LEADER_CHANGE_MESSAGE,
    "SNAPSHOT_HEADER": SNAPSHOT_HEADER_RECORD,
    "SNAPSHOT_FOOTER": SNAPSHOT_FOOTER_RECORD,
    "KRAFT_VERSION": KRAFT_VERSION_RECORD,
    "KRAFT_VOTERS": VOTERS_RECORD,
}
