"""A streams group is not ready until its coordinator has found all topics of its topology."""

from __future__ import annotations

from typing import Any

import pytest

from kforensics.forensics.coordinators.consumer_groups.group_states import GroupRecord, GroupStates
from kforensics.parsers.messages import share_and_streams_groups as schemas
from kforensics.parsers.messages.schema import MessageSchema
from tests.analyses.test_groups import history
from tests.forensics.batch_notation import NOW
from tests.forensics.partition_states import SAMPLES
from tests.parsers.messages.encoder import encode

CONFIGS = [{"key": "num.standby.replicas", "value": "0"}]
LAYOUTS: dict[int, tuple[MessageSchema, MessageSchema]] = {
    17: (schemas.STREAMS_GROUP_METADATA_KEY, schemas.STREAMS_GROUP_METADATA_VALUE),
    19: (schemas.STREAMS_GROUP_MEMBER_METADATA_KEY, schemas.STREAMS_GROUP_MEMBER_METADATA_VALUE),
    20: (schemas.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_KEY, schemas.STREAMS_GROUP_TARGET_ASSIGNMENT_METADATA_VALUE),
    22: (schemas.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY, schemas.STREAMS_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE),
    23: (schemas.STREAMS_GROUP_TOPOLOGY_KEY, schemas.STREAMS_GROUP_TOPOLOGY_VALUE),
}
TASKS = [f"{kind}Tasks{pending}" for kind in ("active", "standby", "warmup") for pending in ("", "PendingRevocation")]
MEMBER: dict[str, Any] = {
    **dict.fromkeys(("instanceId", "rackId", "userEndpoint")),
    "clientId": "c",
    "clientHost": "/10.0.0.9",
    "processId": "p",
    "rebalanceTimeoutMs": 1,
    "topologyEpoch": 0,
    "clientTags": [],
}
# What a record has but for its epoch, by type.
USUAL: dict[int, dict[str, Any]] = {
    17: {"metadataHash": 1, "storedDescriptionTopologyEpoch": -1, "failedDescriptionTopologyEpoch": -1},
    19: MEMBER,
    20: {"assignmentTimestamp": NOW},
    22: {"previousMemberEpoch": 0, "state": 1, **{name: [] for name in TASKS}},
    23: {"subtopologies": []},
}
Step = tuple[int, dict[str, Any] | None]


def topology(epoch: int) -> Step:
    return 23, {"epoch": epoch}


def group(epoch: int, validated: int, *, is_of_4_1: bool = False) -> Step:
    configs = [] if is_of_4_1 else CONFIGS
    return 17, {"epoch": epoch, "validatedTopologyEpoch": validated, "lastAssignmentConfigs": configs}


def assigned(epoch: int) -> list[Step]:
    return [(20, {"assignmentEpoch": epoch}), (22, {"memberEpoch": epoch})]


JOINED: Step = (19, {})
LEFT: Step = (19, None)
STATES: dict[str, tuple[list[Step], str]] = {
    "found": ([JOINED, topology(0), group(2, 0), *assigned(2)], "Stable"),
    "found, but not assigned yet": ([JOINED, topology(0), group(2, 0)], "Assigning"),
    "topics are missing": ([JOINED, topology(0), group(2, -1), *assigned(2)], "NotReady"),
    "topics are missing, not assigned yet": ([JOINED, topology(0), group(2, -1)], "NotReady"),
    "a source topic was deleted": (
        [JOINED, topology(0), group(2, 0), *assigned(2), group(3, -1), *assigned(3)],
        "NotReady",
    ),
    "the next topology": ([JOINED, topology(0), group(2, 0), *assigned(2), topology(1)], "NotReady"),
    "the next topology was found": (
        [JOINED, topology(0), group(2, 0), topology(1), group(3, 1), *assigned(3)],
        "Stable",
    ),
    "no topology": ([JOINED, group(2, 0), *assigned(2)], "NotReady"),
    "no members": ([JOINED, topology(0), group(2, -1), LEFT, group(3, -1)], "Empty"),
    "4.1 does not write it": ([JOINED, topology(0), group(2, -1, is_of_4_1=True), *assigned(2)], "Stable"),
    "removed": ([JOINED, topology(0), group(2, 0), LEFT, (17, None), (23, None)], "Dead"),
    "another one of the same name": (
        [JOINED, topology(3), group(2, 3), LEFT, (17, None), (23, None), JOINED, topology(0), group(1, 0)],
        "Assigning",
    ),
}


@pytest.mark.parametrize("case", STATES)
def test_the_state_of_a_streams_group(case: str) -> None:
    steps, name = STATES[case]
    states = GroupStates()
    for at, (kind, fields) in enumerate(steps):
        of_key, of_value = LAYOUTS[kind]
        key = kind.to_bytes(2, "big") + encode(of_key, 0, {"groupId": "g", "memberId": "m"})
        value = None if fields is None else b"\x00\x00" + encode(of_value, 0, {**USUAL[kind], **fields})
        states.add(at, GroupRecord(0, at, at, NOW), key, value)
    assert states.last["g"].name == name


def test_a_real_group_is_ready_when_its_internal_topics_are_there() -> None:
    states = [event["state"] for event in history(SAMPLES / "streams-group", "counting") if event["event"] == "state"]
    assert states[:2] == ["NotReady", "Stable"]
    assert "NotReady" not in states[2:]
