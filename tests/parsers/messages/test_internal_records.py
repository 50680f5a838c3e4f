import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.messages import control, group, metadata, share
from kforensics.parsers.messages.enum_names import FIELD_NAMES
from kforensics.parsers.messages.internal_records import (
    LAYOUT_RELEASES,
    decode_consumer_protocol,
    decode_control_record,
    decode_record,
    metadata_type_name,
)
from kforensics.parsers.messages.registry import COORDINATOR_TYPES, INTERNAL_TOPICS, framed_message, record_type
from kforensics.parsers.messages.schema import Field, layout
from tests.parsers.messages.encoder import encode, random_value, unsigned_varint
from tests.parsers.messages.tables import MESSAGES, versions

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
def test_a_coordinators_record_of_any_release_is_recognised(topic: str, number: int, rng: random.Random) -> None:
    kind = COORDINATOR_TYPES[topic][number]
    for release, version in versions(kind.value):
        value = random_value(kind.value, version, rng, release)
        key = number.to_bytes(2, "big") + encode(kind.key, 0, random_value(kind.key, 0, rng))
        found = decode_record(topic, key, version.to_bytes(2, "big") + encode(kind.value, version, value, release))
        assert (found.type_name, found.type_id, found.version, found.error) == (kind.name, number, version, None)
        # Newer layouts only add tagged fields to what fits, so every field that was written is there with its value.
        assert found.value is not None
        assert _contains(found.value, value)


def _contains(found: object, written: object) -> bool:
    if isinstance(written, dict) and isinstance(found, dict):
        return all(name in found and _contains(found[name], held) for name, held in written.items())
    if isinstance(written, list) and isinstance(found, list):
        return len(found) == len(written) and all(map(_contains, found, written))
    return str(found) == str(written)


@pytest.mark.parametrize(("topic", "number"), FRAMED)
@settings(max_examples=5)
@given(rng=st.randoms(use_true_random=False))
def test_a_framed_record_of_any_release_is_recognised(topic: str, number: int, rng: random.Random) -> None:
    message = framed_message(topic, number)
    assert message is not None
    for release, version in versions(message):
        value = random_value(message, version, rng, release)
        frame = bytes([release != "2.8"]) + unsigned_varint(number) + unsigned_varint(version)
        found = decode_record(topic, None, frame + encode(message, version, value, release))
        assert (found.type_name, found.version, found.error) == (message.name, version, None)


@given(key=st.none() | st.binary(max_size=12), value=st.none() | st.binary(max_size=40), kind=st.integers(0, 25))
def test_no_bytes_make_it_raise(key: bytes | None, value: bytes | None, kind: int) -> None:
    for topic in INTERNAL_TOPICS:
        for prefix in (b"", kind.to_bytes(2, "big")):
            found = decode_record(topic, None if key is None else prefix + key, value)
            assert found.error or found.key is not None or found.value is not None
    decode_control_record(key, value)


def test_what_is_unknown_is_shown_as_such() -> None:
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


def test_a_newer_version_is_read_as_the_newest_known_if_that_fits() -> None:
    found = decode_record("__cluster_metadata", None, bytes.fromhex("01 01 05 00000007 0000000000000009 00"))
    assert found.value == {"brokerId": 7, "brokerEpoch": 9}
    assert found.error == "unknown version 5 of UnregisterBrokerRecord, known are 0 to 0, read as 0"


def test_a_tombstone_has_a_key_and_no_value() -> None:
    found = decode_record("__transaction_state", b"\0\0\0\1t", None)
    assert (found.key, found.value, found.version, found.error) == ({"transactionalId": "t"}, None, None, None)


def test_bytes_left_over_are_named_beside_the_value() -> None:
    found = decode_record("__consumer_offsets", b"\0\2\0\1g", b"\0\0" + bytes(14) + b"xyz")
    assert found.value is not None
    assert found.error == "3 byte(s) after the value"


def test_type_0_is_read_with_newer_values_too() -> None:
    key = encode(group.OFFSET_COMMIT_KEY, 0, {"group": "g", "topic": "t", "partition": 1})
    value = {"offset": 7, "leaderEpoch": 2, "metadata": "", "commitTimestamp": 3}
    found = decode_record("__consumer_offsets", b"\0\0" + key, b"\0\3" + encode(group.OFFSET_COMMIT_VALUE, 3, value))
    assert found.value == value


def test_the_preview_of_kraft_is_read_by_its_frame_version() -> None:
    body = encode(metadata.TOPIC_RECORD, 0, {"name": "t", "topicId": "A" * 22}, "2.8")
    found = decode_record("__cluster_metadata", None, b"\0\2\0" + body)
    assert found.value == {"name": "t", "topicId": "A" * 22}
    assert metadata_type_name(found) == "TOPIC_RECORD"


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
def test_control_records_are_read(key: str, value: str, name: str, fields: dict[str, int]) -> None:
    found = decode_control_record(bytes.fromhex(key), bytes.fromhex(value))
    assert (found.type_name, found.error) == (name, None)
    assert found.value is not None
    assert fields.items() <= found.value.items()


@pytest.mark.parametrize(("release", "number"), [("2.8", 3), ("3.0", 2), ("4.4", 2)])
def test_leader_changes_of_every_release_are_read(release: str, number: int) -> None:
    voter = {"voterId": 1}
    value = {"version": 0, "leaderId": 1, "voters": [voter, voter], "grantingVoters": [voter]}
    data = encode(control.LEADER_CHANGE_MESSAGE, 0, value, release)
    found = decode_control_record(b"\0\0\0" + bytes([number]), data)
    assert (found.type_name, found.error) == ("LEADER_CHANGE", None)
    assert found.value is not None
    assert [entry["voterId"] for entry in found.value["grantingVoters"]] == [1]


def test_control_records_nobody_knows_are_shown_as_such() -> None:
    assert decode_control_record(b"\0\0", b"").error == "a key of 2 byte(s) holds no control type"
    assert decode_control_record(b"\0\0\0\x63", b"").error == "unknown control type 99"
    assert decode_control_record(b"\0\0\0\1", None).error == "the control record has no value"
    assert decode_control_record(b"\0\0\0\1", b"\0").error == "value: the bytes end inside a field"


def test_the_consumer_protocol_is_read_from_its_blob() -> None:
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


def test_every_named_field_exists() -> None:
    fields = {(message.name, name) for message in MESSAGES for name in _names(message.fields)}
    assert set(FIELD_NAMES) <= fields


def _names(fields: tuple[Field, ...]) -> list[str]:
    return [name for field in fields for name in (field.name, *_names(field.fields))]


def test_early_share_layouts_are_told_apart_by_their_bytes() -> None:
    value = {"snapshotEpoch": 65535, "stateEpoch": 1, "leaderEpoch": 2, "startOffset": 3, "stateBatches": []}
    data = encode(share.SHARE_SNAPSHOT_VALUE, 0, value, "4.0")
    key = b"\0\0" + encode(share.SHARE_SNAPSHOT_KEY, 0, {"groupId": "g", "topicId": "A" * 22, "partition": 0})
    found = decode_record("__share_group_state", key, b"\0\0" + data)
    assert found.value == value
    assert found.value_message is not None
    assert found.value_message.fields == layout(share.SHARE_SNAPSHOT_VALUE, "4.0").fields


def test_the_releases_to_try_begin_with_the_newest() -> None:
    assert LAYOUT_RELEASES[0] == "4.4"
    assert len(set(LAYOUT_RELEASES)) == len(LAYOUT_RELEASES)
