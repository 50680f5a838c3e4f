"""Who committed a lower offset: the member that had the partition, or the transactional id of the producer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kforensics
from kforensics.parsers.messages import group as schemas
from tests.analyses.test_groups import AS_OF, history
from tests.command import run
from tests.forensics.batch_notation import NOW
from tests.forensics.checks.cluster.test_group_resets import LABS, RELEASES, group_findings
from tests.forensics.coordinators.clusters import commit_record
from tests.forensics.forge import Content, forge
from tests.parsers.messages.encoder import encode

TOPIC_ID = "jQFbuQ7dTPSukhPUClADlw"
UNKNOWN = "the group had 2 members: client-0, client-1; which one is not known, as"
NAMES = ("member", "client_id", "client_host", "transactional_id")


def assigned(*partitions: int, topic: str = "in") -> bytes:
    """Return an assignment as the consumer's assignors write it."""
    fields = {"assignedPartitions": [{"topic": topic, "partitions": list(partitions)}], "userData": None}
    return b"\x00\x01" + encode(schemas.CONSUMER_PROTOCOL_ASSIGNMENT, 1, fields)


def classic(*assignments: bytes, protocol_type: str = "consumer") -> Content:
    """Return the record of a classic group with a member for each assignment."""
    same = {"groupInstanceId": None, "rebalanceTimeout": 1, "sessionTimeout": 1, "subscription": b""}
    members = [
        {**same, "memberId": f"m{n}", "clientId": f"client-{n}", "clientHost": f"/10.0.0.{n}", "assignment": assignment}
        for n, assignment in enumerate(assignments)
    ]
    value = {"protocolType": protocol_type, "generation": 7, "protocol": None, "leader": None, "members": members}
    key = b"\x00\x02" + encode(schemas.GROUP_METADATA_KEY, 0, {"group": "g"})
    return key, b"\x00\x03" + encode(schemas.GROUP_METADATA_VALUE, 3, {**value, "currentStateTimestamp": NOW})


def consumer(member: str, *partitions: int, revoking: tuple[int, ...] = ()) -> list[Content]:
    """Return the records of a member of a group of the consumer protocol, and of what it may read."""
    key = {"groupId": "g", "memberId": member}
    metadata = {
        **dict.fromkeys(("instanceId", "rackId", "subscribedTopicRegex", "serverAssignor", "classicMemberMetadata")),
        "clientId": f"client-{member}",
        "clientHost": "/10.0.0.9",
        "subscribedTopicNames": ["in"],
        "rebalanceTimeoutMs": 1,
    }
    owned, given_up = (
        [{"topicId": TOPIC_ID, "partitions": list(some), "assignmentEpochs": None}] for some in (partitions, revoking)
    )
    current: dict[str, Any] = {"memberEpoch": 1, "previousMemberEpoch": 0, "state": 0}
    current |= {"assignedPartitions": owned, "partitionsPendingRevocation": given_up}
    of_member, of_assignment = (
        (schemas.CONSUMER_GROUP_MEMBER_METADATA_KEY, schemas.CONSUMER_GROUP_MEMBER_METADATA_VALUE),
        (
            schemas.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_KEY,
            schemas.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT_VALUE,
        ),
    )
    return [
        (number.to_bytes(2, "big") + encode(of_key, 0, key), b"\x00\x00" + encode(of_value, 0, value))
        for number, (of_key, of_value), value in ((5, of_member, metadata), (8, of_assignment, current))
    ]


def reset_in(folder: Path, *records: Content) -> dict[str, Any]:
    """Return the only reset in a log of records, one batch each."""
    log = "; ".join(f"plain @{at}-{at} ts {NOW + at}" for at in range(len(records)))
    forge(folder, log, topic="__consumer_offsets", records={at: [record] for at, record in enumerate(records)})
    (reset,) = (event for event in history(folder, "g") if event["event"] == "reset")
    return reset


def lowered(topic_id: str | None = None) -> list[Content]:
    return [commit_record("g", "in-0", offset, topic_id=topic_id) for offset in (9, 4)]


@pytest.mark.parametrize(
    ("group", "member", "why"),
    [
        (
            classic(assigned(0)),
            "m0",
            "its only member m0 (client client-0, host 10.0.0.0) in generation 7 committed it",
        ),
        (
            classic(assigned(1), assigned(0, 2)),
            "m1",
            "the group had members, and in-0 was assigned to m1 (client client-1, host 10.0.0.1) in generation 7",
        ),
        (
            classic(assigned(1), assigned(2)),
            None,
            f"{UNKNOWN} in-0 was assigned to none of them",
        ),
        (
            classic(assigned(0), assigned(0)),
            None,
            f"{UNKNOWN} in-0 was assigned to 2 of them",
        ),
        (
            classic(b"", b"\xff"),
            None,
            f"{UNKNOWN} in-0 was assigned to none of them",
        ),
        (
            classic(assigned(0), b"", protocol_type="own"),
            None,
            f"{UNKNOWN} the records of such a group do not show who has a partition",
        ),
    ],
)
def test_the_member_that_had_the_partition(group: Content, member: str | None, why: str, tmp_path: Path) -> None:
    reset = reset_in(tmp_path, group, *lowered())
    assert (reset["cause"], reset["member"], reset["why"]) == ("member", member, why)
    number = (member or "").removeprefix("m")
    known = (f"client-{number}", f"/10.0.0.{number}") if member else (None, None)
    assert (reset["client_id"], reset["client_host"]) == known


def test_members_of_the_consumer_protocol_have_partitions_by_topic_id(tmp_path: Path) -> None:
    """Also one that it is still to give up; without the id of the topic nothing is said."""
    records = [*consumer("a", 1), *consumer("b", 2, revoking=(0,))]
    reset = reset_in(tmp_path / "known", *records, *lowered(TOPIC_ID))
    assert (reset["member"], reset["client_id"], reset["client_host"]) == ("b", "client-b", "/10.0.0.9")
    reset = reset_in(tmp_path / "unknown", *records, *lowered())
    assert reset["member"] is None
    assert reset["why"].endswith(
        "which one is not known, as the records of the group name topics by id, and that of in is unknown"
    )


@pytest.mark.parametrize("release", RELEASES)
def test_the_real_member_and_the_real_transactional_id(release: str) -> None:
    """In the history and in the audit."""
    (by_member,) = (event for event in history(LABS / release, "member") if event["event"] == "reset")
    assert by_member["member"].startswith("member-")
    assert (by_member["client_id"], by_member["client_host"]) == ("member", "/127.0.0.1")
    evidence = {row["evidence"]["group"]: row["evidence"] for row in group_findings(release)}
    assert {name: evidence["member"][name] for name in NAMES} == {name: by_member[name] for name in NAMES}
    (by_transaction,) = (event for event in history(LABS / release, "transaction") if event["event"] == "reset")
    assert by_transaction["transactional_id"] == evidence["transaction"]["transactional_id"] == "transaction"
    assert by_transaction["why"] == f"producer {by_transaction['producer_id']} of 'transaction' committed it"
    rows = kforensics.audit(LABS / release, as_of=AS_OF).findings.to_pylist()
    (message,) = (row["message"] for row in rows if row["code"] == "eos-offset-regressed")
    assert f"producer {by_transaction['producer_id']} of 'transaction'" in message


def test_without_the_log_of_its_coordinator_an_id_is_unknown() -> None:
    (folder,) = (LABS / "4.4.0").glob("broker-1/__consumer_offsets-0")
    text = run("groups", "--quiet", "--alone", "--as-of", AS_OF, "--group", "transaction", folder).text
    assert "its transactional id is unknown, as no log of a transaction coordinator is among the files\n" in text
