import struct

import pytest

from kforensics.parsers.messages import control_messages, group, metadata
from kforensics.parsers.messages.codec import UNKNOWN_TAGS, decode
from kforensics.parsers.messages.json_render import double_text, json_text, to_json

# Bits, and the text that Java 17 prints.
DOUBLES = [
    ("0000000000000000", "0.0"),
    ("8000000000000000", "-0.0"),
    ("0000000000000001", "4.9E-324"),
    ("000fffffffffffff", "2.225073858507201E-308"),
    ("0010000000000000", "2.2250738585072014E-308"),
    ("7fefffffffffffff", "1.7976931348623157E308"),
    ("4539931be1544332", "3.0917847662113995E25"),
    ("c536b4e891849aaa", "-2.7450684128739365E25"),
    ("44b52d02c7e14af6", "9.999999999999999E22"),
    ("44c52d02c7e14af6", "1.9999999999999998E23"),
    ("3f60624dd2f1a9fc", "0.002"),
    ("416312d000000000", "1.0E7"),
    ("416312cfe0000000", "9999999.0"),
    ("3f50624dd2f1a9fc", "0.001"),
    ("3f5061e273273f09", "9.999E-4"),
    ("4130000000000000", "1048576.0"),
    ("3fb999999999999a", "0.1"),
    ("419d6f3454800000", "1.23456789125E8"),
    ("4340000000000000", "9.007199254740992E15"),
    ("000000000000002d", "2.2E-322"),
    ("43d0000000000000", "4.6116860184273879E18"),
    ("43e0000000000000", "9.223372036854776E18"),
    ("447c7e83209e90b2", "8.409999999999999E21"),
    ("3ef4f8b588e368f1", "2.0E-5"),
    ("7ff0000000000000", "Infinity"),
    ("fff0000000000000", "-Infinity"),
    ("7ff8000000000000", "NaN"),
]


@pytest.mark.parametrize(("bits", "text"), DOUBLES)
def test_doubles_have_javas_digits(bits: str, text: str) -> None:
    assert double_text(struct.unpack(">d", bytes.fromhex(bits))[0]) == text


def test_json_has_jacksons_form() -> None:
    tree = {
        "a": [1, -1, True, False, None],
        "b": b"\xfb\xff",
        "c": 1e7,
        "d": float("nan"),
        "e": 'ü"\\\x1f\x7f/\n',
        "f": {},
    }
    expected = r'{"a":[1,-1,true,false,null],"b":"+/8=","c":1.0E7,"d":"NaN","e":"ü\"\\\u001F' + "\x7f" + r'/\n","f":{}}'
    assert json_text(tree) == expected


def test_tagged_fields_are_in_schema_order_and_only_present_if_they_differ_from_the_default() -> None:
    value = {"partitionId": 0, "topicId": "A" * 22, "isr": [0, 1], "leader": -2, "replicas": None}
    text = to_json(metadata.PARTITION_CHANGE_RECORD, value, 0)
    assert text == '{"partitionId":0,"topicId":"AAAAAAAAAAAAAAAAAAAAAA","isr":[0,1]}'


def test_an_empty_array_is_not_the_default_null() -> None:
    value = {"partitionId": 0, "topicId": "A" * 22, "isr": []}
    assert '"isr":[]' in to_json(metadata.PARTITION_CHANGE_RECORD, value, 0)


def test_a_default_of_json_null_means_empty() -> None:
    head = bytes.fromhex("00 00 01 01 01 00 ffffffff 00")
    null = decode(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0, head + bytes.fromhex("01 00 01 00")).value
    absent = decode(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, 0, head + b"\0").value
    assert to_json(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, null, 0).endswith(',"classicMemberMetadata":null}')
    assert "classicMemberMetadata" not in to_json(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, absent, 0)


def test_a_default_struct_with_unknown_tags_is_printed() -> None:
    classic = {"sessionTimeoutMs": 0, "supportedProtocols": [], UNKNOWN_TAGS: [(9, b"")]}
    text = to_json(group.CONSUMER_GROUP_MEMBER_METADATA_VALUE, {"classicMemberMetadata": classic}, 0)
    assert text.endswith('"classicMemberMetadata":{"sessionTimeoutMs":0,"supportedProtocols":[]}}')


def test_a_message_can_be_printed_as_another_version_than_was_read() -> None:
    value = {"version": 127, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": []}
    assert "voterDirectoryId" not in to_json(control_messages.LEADER_CHANGE_MESSAGE, value, 0)
    assert '"voterDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA"' in to_json(control_messages.LEADER_CHANGE_MESSAGE, value, 127)
