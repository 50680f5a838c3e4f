import contextlib
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kforensics.parsers.messages import group, metadata, remote_log, share_and_streams_groups
from kforensics.parsers.messages.codec import UNKNOWN_TAGS, decode, decode_exact
from kforensics.parsers.messages.reader import MessageError, limits_of
from kforensics.parsers.messages.schema import MessageSchema
from tests.parsers.messages.encoder import encode, random_value, unsigned_varint
from tests.parsers.messages.tables import MESSAGES, versions

RANDOM = st.randoms(use_true_random=False)
NAMES = [message.name for message in MESSAGES]


@pytest.mark.parametrize("message", MESSAGES, ids=NAMES)
@settings(max_examples=5)
@given(rng=RANDOM)
def test_encoded_messages_of_every_release_and_version_are_decoded(message: MessageSchema, rng: random.Random) -> None:
    for release, version in versions(message):
        value = random_value(message, version, rng, release)
        data = encode(message, version, value, release)
        decoded = decode(message, version, data, release)
        # In text form NaN equals itself, and the order of the fields matters.
        assert str(decoded.value) == str(value)
        assert decoded.consumed == len(data)


@pytest.mark.parametrize("message", MESSAGES, ids=NAMES)
@settings(max_examples=5)
@given(rng=RANDOM)
def test_a_truncated_message_is_an_error_at_every_length(message: MessageSchema, rng: random.Random) -> None:
    version = rng.randrange(message.highest_version + 1)
    data = encode(message, version, random_value(message, version, rng))
    for length in range(len(data)):
        with pytest.raises(MessageError):
            decode(message, version, data[:length])


@given(data=st.binary(max_size=60), rng=RANDOM)
def test_random_bytes_are_a_message_or_an_error(data: bytes, rng: random.Random) -> None:
    message = rng.choice(MESSAGES)
    version = rng.randrange(message.highest_version + 1)
    with contextlib.suppress(MessageError):
        assert 0 <= decode(message, version, data).consumed <= len(data)


def test_unknown_tags_are_kept_as_they_are() -> None:
    decoded = decode(group.CONSUMER_GROUP_METADATA_VALUE, 0, bytes.fromhex("00000005 01 63 02 abcd"))
    assert decoded.value == {"epoch": 5, "metadataHash": 0, UNKNOWN_TAGS: [(0x63, b"\xab\xcd")]}


def test_an_absent_tag_and_a_null_tag_differ() -> None:
    head = bytes.fromhex("00 00 01 01 01 00 ffffffff 00")
    absent = decode(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0, head + b"\0")
    null = decode(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0, head + bytes.fromhex("01 00 01 00"))
    assert absent.value["classicMemberMetadata"] == {"sessionTimeoutMs": 0, "supportedProtocols": []}
    assert null.value["classicMemberMetadata"] is None


def test_defaults_are_not_shared_between_records() -> None:
    first = decode(metadata.REGISTER_BROKER_RECORD, 3, encode(metadata.REGISTER_BROKER_RECORD, 3, _BROKER)).value
    first["logDirs"].append("x")
    second = decode(metadata.REGISTER_BROKER_RECORD, 3, encode(metadata.REGISTER_BROKER_RECORD, 3, _BROKER)).value
    assert second["logDirs"] == []


_BROKER = {
    "brokerId": 1,
    "isMigratingZkBroker": False,
    "incarnationId": "A" * 22,
    "brokerEpoch": 2,
    "endPoints": [],
    "features": [],
    "rack": None,
    "fenced": True,
    "inControlledShutdown": False,
    "logDirs": [],
}


# The texts are from Kafka's own tools (tests/parsers/messages/golden) and, for 4.4, from its library.
ERRORS = [
    (group.GROUP_METADATA_KEY, 0, "ffff", "4.3", "non-nullable field group was serialized as null"),
    (group.GROUP_METADATA_KEY, 0, "000561", "4.3", "Error reading byte array of 5 byte(s): only 1 byte(s) available"),
    (metadata.TOPIC_RECORD, 0, "818004", "4.3", "string field name had invalid length 65536"),
    (metadata.TOPIC_RECORD, 0, "ffffffff80", "4.3",
     "Varint is too long, the most significant bit in the 5th byte is set, converted value: fffffff"),
    (group.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE, 0, "0500", "4.3",
     "Tried to allocate a collection of size 4, but there are only 1 bytes remaining."),
    (group.CONSUMER_GROUP_REGULAR_EXPRESSION_VALUE, 0, "0200", "4.3",
     "non-nullable field topics element was serialized as null"),
    (group.CONSUMER_PROTOCOL_ASSIGNMENT, 0, "00000000 00000005 01", "4.3", "newLimit > capacity: (5 > 1)"),
    (group.OFFSET_COMMIT_VALUE, 3, "0000", "4.3", "java.nio.BufferUnderflowException"),
    (metadata.CLIENT_QUOTA_RECORD, 9, "0201610200", "4.3", "Can't read version 9 of EntityData"),
    (metadata.BROKER_REGISTRATION_CHANGE_RECORD, 0, "00000001 0000000000000002 01 01 01 01", "4.3",
     "Tag 1 is not valid for version 0"),
    (metadata.NO_OP_RECORD, 0, "01 63 ffffffff0f", "4.3", "-1"),
    (metadata.NO_OP_RECORD, 0, "ffffffff0f", "4.4", "Invalid negative number of tagged fields -1"),
    (metadata.NO_OP_RECORD, 0, "05 00", "4.4", "Tried to read 5 tagged fields, but there are only 1 bytes remaining."),
]  # fmt: skip


@pytest.mark.parametrize(("message", "version", "data", "release", "text"), ERRORS, ids=[row[4][:40] for row in ERRORS])
def test_errors_are_kafkas(message: MessageSchema, version: int, data: str, release: str, text: str) -> None:
    with pytest.raises(MessageError) as caught:
        decode(message, version, bytes.fromhex(data), release)
    assert (caught.value.java_message or caught.value.java_class) == text
    assert str(caught.value)


def test_4_4_limits_the_number_of_elements_and_of_tags() -> None:
    many = unsigned_varint(1_000_002) + b"\0" * 1_000_010
    with pytest.raises(MessageError, match="size 1000001, which exceeds the maximum allowed size of 1000000"):
        decode(share_and_streams_groups.SHARE_GROUP_TARGET_ASSIGNMENT_MEMBER_VALUE, 0, many, "4.4")
    tags = unsigned_varint(10_001) + b"\x7f\0" * 10_001
    with pytest.raises(MessageError, match="10001 tagged fields, which exceeds the maximum allowed count of 10000"):
        decode(metadata.NO_OP_RECORD, 0, tags, "4.4")
    assert decode(metadata.NO_OP_RECORD, 0, tags, "4.3").consumed == len(tags)


def test_up_to_4_3_a_negative_number_of_tags_means_none() -> None:
    assert decode(metadata.NO_OP_RECORD, 0, bytes.fromhex("ffffffff0f"), "4.3").value == {}


def test_2_7_allocates_before_it_checks() -> None:
    assert not limits_of("2.7.2").check_remaining
    with pytest.raises(MessageError) as caught:
        decode(group.CONSUMER_PROTOCOL_ASSIGNMENT, 0, bytes.fromhex("7f000000"), "2.7")
    assert caught.value.java_class == "java.lang.OutOfMemoryError"


def test_the_layout_that_consumes_all_bytes_is_used() -> None:
    value = random_value(remote_log.REMOTE_LOG_SEGMENT_METADATA_RECORD, 0, random.Random(4), "3.5")  # noqa: S311 - a fixed die
    data = encode(remote_log.REMOTE_LOG_SEGMENT_METADATA_RECORD, 0, value, "3.5")
    decoded = decode_exact(remote_log.REMOTE_LOG_SEGMENT_METADATA_RECORD, 0, data, ("4.4", "3.5"))
    assert decoded.value == value
    assert "customMetadata" not in decoded.value


def test_if_no_layout_fits_the_error_is_that_of_the_first() -> None:
    with pytest.raises(MessageError, match="non-nullable field name was serialized as null"):
        decode_exact(metadata.FEATURE_LEVEL_RECORD, 0, b"\0", ("4.4", "3.0"))
