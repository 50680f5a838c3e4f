import random
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.messages import control_messages, group, metadata, share
from kforensics.parsers.messages.internal_records import (
    LAYOUT_RELEASES,
    decode_consumer_protocol,
    decode_control_record,
    decode_record,
)
from kforensics.parsers.messages.registry import (
    COORDINATOR_TYPES,
    INTERNAL_TOPICS,
    enum_name,
    framed_message,
    record_type,
)
from kforensics.parsers.messages.schema import MessageSchema, layout
from tests.parsers.messages.encoder import encode, random_value, unsigned_varint
from tests.parsers.messages.tables import versions

TYPES = [(topic, kind) for topic, kinds in COORDINATOR_TYPES.items() for kind in kinds]
FRAMED = [
    (topic, number)
    for topic in ("__cluster_metadata", "__remote_log_metadata")
    for number in range(30)
    if framed_message(topic, number)
]


@pytest.mark.parametrize(("topic", "number"), TYPES)
@settings(max_examples=5)
@given(rng=st.randoms(use_true_random=False))
def test_coordinator_records_of_all_releases_are_decoded(topic: str, number: int, rng: random.Random) -> None:
    kind = COORDINATOR_TYPES[topic][number]
    for release, version in versions(kind.value):
        value = random_value(kind.value, version, rng, release)
        key = number.to_bytes(2, "big") + encode(kind.key, 0, random_value(kind.key, 0, rng))
        written = encode(kind.value, version, value, release)
        decoded = decode_record(topic, key, version.to_bytes(2, "big") + written)
        assert (decoded.type_name, decoded.type_id, decoded.version, decoded.error) == (
            kind.name,
            number,
            version,
            None,
        )
        # A newer layout that fits only adds tagged fields, so every field that was written is decoded.
        assert decoded.value is not None
        assert _contains(decoded.value, value) or _may_mean(kind.value, version, decoded.value, written)


def _may_mean(message: MessageSchema, version: int, value: dict[str, Any], written: bytes) -> bool:
    """Tell whether bytes are a value in the layout of any release; random bytes may be one in two layouts."""
    for release, _ in versions(message):
        with suppress(KeyError):  # a field of that layout is not in the value
            if encode(message, version, value, release) == written:
                return True
    return False


def _contains(decoded: object, written: object) -> bool:
    if isinstance(written, dict) and isinstance(decoded, dict):
        return all(name in decoded and _contains(decoded[name], value) for name, value in written.items())
    if isinstance(written, list) and isinstance(decoded, list):
        return len(decoded) == len(written) and all(map(_contains, decoded, written))
    return str(decoded) == str(written)


@pytest.mark.parametrize(("topic", "number"), FRAMED)
@settings(max_examples=5)
@given(rng=st.randoms(use_true_random=False))
def test_framed_records_of_every_release_are_decoded(topic: str, number: int, rng: random.Random) -> None:
    message = framed_message(topic, number)
    assert message is not None
    for release, version in versions(message):
        value = random_value(message, version, rng, release)
        frame = bytes([release != "2.8"]) + unsigned_varint(number) + unsigned_varint(version)
        decoded = decode_record(topic, None, frame + encode(message, version, value, release))
        assert (decoded.type_name, decoded.version, decoded.error) == (message.name, version, None)


@given(key=st.none() | st.binary(max_size=12), value=st.none() | st.binary(max_size=40), kind=st.integers(0, 25))
def test_arbitrary_bytes_raise_nothing(key: bytes | None, value: bytes | None, kind: int) -> None:
    for topic in INTERNAL_TOPICS:
        for prefix in (b"", kind.to_bytes(2, "big")):
            decoded = decode_record(topic, None if key is None else prefix + key, value)
            assert decoded.error or decoded.key is not None or decoded.value is not None
    decode_control_record(key, value)


def test_unknown_types_and_versions_are_errors() -> None:
    assert decode_record("t", b"", b"").error == "t is not an internal topic"
    assert decode_record("__consumer_offsets", None, b"").error == "the record has no key"
    unknown_type = decode_record("__consumer_offsets", b"\x00\x12", b"\0\0")
    assert (unknown_type.type_name, unknown_type.type_id, unknown_type.error) == (None, 18, "unknown record type 18")
    unknown_version = decode_record("__transaction_state", b"\0\0\0\1t", b"\0\x09")
    assert unknown_version.key == {"transactionalId": "t"}
    assert unknown_version.version == 9
    assert unknown_version.error == "unknown version 9 of TransactionLogValue, known are 0 to 1"
    assert unknown_version.value is None
    assert decode_record("__cluster_metadata", None, b"\x02\0\0").error == "unknown frame version 2"
    assert decode_record("__cluster_metadata", None, b"\1\x0d\0").error == "unknown record type 13"


def test_an_unknown_version_is_read_as_the_newest_known_one_if_that_fits() -> None:
    decoded = decode_record("__cluster_metadata", None, bytes.fromhex("01 01 05 00000007 0000000000000009 00"))
    assert decoded.value == {"brokerId": 7, "brokerEpoch": 9}
    assert decoded.error == "unknown version 5 of UnregisterBrokerRecord, known are 0 to 0, read as 0"


def test_a_tombstone_has_a_key_and_no_value() -> None:
    decoded = decode_record("__transaction_state", b"\0\0\0\1t", None)
    assert (decoded.key, decoded.value, decoded.version, decoded.error) == ({"transactionalId": "t"}, None, None, None)


def test_trailing_bytes_are_an_error_beside_the_value() -> None:
    decoded = decode_record("__consumer_offsets", b"\0\2\0\1g", b"\0\0" + bytes(14) + b"xyz")
    assert decoded.value is not None
    assert decoded.error == "3 byte(s) after the value"


def test_type_0_may_have_a_newer_value() -> None:
    key = encode(group.OFFSET_COMMIT_KEY, 0, {"group": "g", "topic": "t", "partition": 1})
    value = {"offset": 7, "leaderEpoch": 2, "metadata": "", "commitTimestamp": 3}
    decoded = decode_record("__consumer_offsets", b"\0\0" + key, b"\0\3" + encode(group.OFFSET_COMMIT_VALUE, 3, value))
    assert decoded.value == value


def test_an_early_access_value_is_not_taken_for_a_newer_one_with_an_unknown_tag() -> None:
    key = encode(group.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER_KEY, 0, {"groupId": "g", "memberId": "m"})
    early_access = bytes.fromhex("01 01 8000 01 00")  # in the final layout: no partitions, and tag 0 with one byte
    decoded = decode_record("__consumer_offsets", b"\0\7" + key, b"\0\0" + early_access)
    assert decoded.value == {"error": 1, "topicPartitions": [], "metadataVersion": -32768, "metadataBytes": b""}


def test_the_kraft_preview_is_recognized_by_its_frame_version() -> None:
    body = encode(metadata.TOPIC_RECORD, 0, {"name": "t", "topicId": "A" * 22}, "2.8")
    decoded = decode_record("__cluster_metadata", None, b"\0\2\0" + body)
    assert decoded.value == {"name": "t", "topicId": "A" * 22}
    assert decoded.value_message is not None
    assert enum_name(decoded.value_message) == "TOPIC_RECORD"


@pytest.mark.parametrize(
    ("key", "value", "name", "fields"),
    [
        ("00000001", "00000000000c", "COMMIT", {"coordinatorEpoch": 12}),
        ("00000000", "00000000000c", "ABORT", {"coordinatorEpoch": 12}),
        ("00000003", "00000000018bcfe567ff00", "SNAPSHOT_HEADER", {"lastContainedLogTimestamp": 1699999999999}),
        ("00000004", "000000", "SNAPSHOT_FOOTER", {"version": 0}),
        ("00000005", "0000000100", "KRAFT_VERSION", {"kRaftVersion": 1}),
    ],
)
def test_control_records_are_decoded(key: str, value: str, name: str, fields: dict[str, int]) -> None:
    decoded = decode_control_record(bytes.fromhex(key), bytes.fromhex(value))
    assert (decoded.type_name, decoded.error) == (name, None)
    assert decoded.value is not None
    assert fields.items() <= decoded.value.items()


@pytest.mark.parametrize(("release", "number"), [("2.8", 3), ("3.0", 2), ("4.4", 2)])
def test_leader_changes_of_every_release_are_decoded(release: str, number: int) -> None:
    voter = {"voterId": 1}
    value = {"version": 0, "leaderId": 1, "voters": [voter, voter], "grantingVoters": [voter]}
    data = encode(control_messages.LEADER_CHANGE_MESSAGE, 0, value, release)
    decoded = decode_control_record(b"\0\0\0" + bytes([number]), data)
    assert (decoded.type_name, decoded.error) == ("LEADER_CHANGE", None)
    assert decoded.value is not None
    assert [entry["voterId"] for entry in decoded.value["grantingVoters"]] == [1]


def test_unreadable_control_records_are_errors() -> None:
    assert decode_control_record(b"\0\0", b"").error == "a key of 2 byte(s) holds no control type"
    assert decode_control_record(b"\0\0\0\x63", b"").error == "unknown control type 99"
    assert decode_control_record(b"\0\0\0\1", None).error == "the control record has no value"
    assert decode_control_record(b"\0\0\0\1", b"\0").error == "value: the bytes end inside a field"


def test_the_consumer_protocol_is_decoded() -> None:
    blob = bytes.fromhex("0001 00000001 000174 ffffffff 00000000")
    version, fields = decode_consumer_protocol(group.CONSUMER_PROTOCOL_SUBSCRIPTION, blob)
    assert (version, fields) == (1, {"topics": ["t"], "userData": None, "ownedPartitions": []})


def test_a_release_knows_its_own_types_only() -> None:
    assert record_type("__consumer_offsets", 17, "4.0") is None
    assert record_type("__consumer_offsets", 9, "4.1") is None
    legacy = record_type("__consumer_offsets", 0, "3.9")
    assert legacy is not None
    assert legacy.value is group.OFFSET_COMMIT_VALUE
    assert framed_message("__cluster_metadata", 29, "4.3") is None
    assert framed_message("__cluster_metadata", 14, "2.8") is metadata.QUOTA_RECORD


def test_early_share_layouts_are_distinguished_by_their_bytes() -> None:
    value = {"snapshotEpoch": 65535, "stateEpoch": 1, "leaderEpoch": 2, "startOffset": 3, "stateBatches": []}
    data = encode(share.SHARE_SNAPSHOT_VALUE, 0, value, "4.0")
    key = b"\0\0" + encode(share.SHARE_SNAPSHOT_KEY, 0, {"groupId": "g", "topicId": "A" * 22, "partition": 0})
    decoded = decode_record("__share_group_state", key, b"\0\0" + data)
    assert decoded.value == value
    assert decoded.value_message is not None
    assert decoded.value_message.fields == layout(share.SHARE_SNAPSHOT_VALUE, "4.0").fields


def test_the_newest_release_is_tried_first() -> None:
    assert LAYOUT_RELEASES[0] == "4.4"
    assert len(set(LAYOUT_RELEASES)) == len(LAYOUT_RELEASES)
