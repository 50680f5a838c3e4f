"""Messages decoded into columns equal messages decoded one by one."""

from __future__ import annotations

import base64
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kforensics.parsers.format.byte_slices import ByteSlices, to_byte_slices
from kforensics.parsers.format.text_encoding import java_utf8
from kforensics.parsers.messages.codec import decode, decode_exact
from kforensics.parsers.messages.group import GROUP_METADATA_VALUE, LEGACY_OFFSET_COMMIT_VALUE, OFFSET_COMMIT_VALUE
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES, decode_record
from kforensics.parsers.messages.message_columns import NO_TYPE, ReadColumns, read_columns, read_keys
from kforensics.parsers.messages.metadata import FEATURE_LEVEL_RECORD
from kforensics.parsers.messages.reader import MessageError
from kforensics.parsers.messages.registry import COORDINATOR_TYPES
from kforensics.parsers.messages.schema import Field, MessageSchema
from kforensics.parsers.messages.transaction_log import TRANSACTION_LOG_VALUE
from tests.parsers.messages.encoder import encode, random_value

MESSAGES = [
    (message, version)
    for message in (OFFSET_COMMIT_VALUE, LEGACY_OFFSET_COMMIT_VALUE, TRANSACTION_LOG_VALUE)
    for version in range(message.highest_version + 1)
]
PREFIX = b"\x00\x07"


def decoded_exactly(message: MessageSchema, version: int, data: bytes) -> dict[str, Any] | None:
    """Return what the codec decodes, if the newest layout consumes all bytes."""
    try:
        decoded = decode_exact(message, version, data, LAYOUT_RELEASES, len(PREFIX))
    except MessageError:
        return None
    return decoded.value if len(PREFIX) + decoded.consumed == len(data) else None


def in_row(message: MessageSchema, version: int, read: ReadColumns, row: int) -> dict[str, Any]:
    """Return the fields of a row as the codec returns them."""
    return {
        field.name: _value(field, message, version, read, row) for field in message.fields if field.name in read.columns
    }


def _value(field: Field, message: MessageSchema, version: int, read: ReadColumns, row: int) -> Any:
    column = read.columns[field.name]
    if not isinstance(column, ByteSlices):
        return int(column[row])
    data = column.get(row)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(data or bytes(16)).decode()[:22]
    if field.type == "string":
        return None if data is None else java_utf8(data)
    # A message of this field alone has no tags.
    alone = replace(message, fields=(field,))
    return None if data is None else decode(alone, version, data + b"\x00").value[field.name]


@pytest.mark.parametrize(
    ("message", "version"), MESSAGES, ids=[f"{message.name}-{version}" for message, version in MESSAGES]
)
def test_random_messages(message: MessageSchema, version: int) -> None:
    """Messages that fit equal those of the codec, and most intact messages fit."""
    dice = Random(version)  # noqa: S311  # for messages
    data = [PREFIX + encode(message, version, random_value(message, version, dice)) for _ in range(400)]
    broken = [damaged(encoded, dice) for encoded in data]
    read = read_columns(message, version, to_byte_slices([*data, *broken]), len(PREFIX))
    for row, encoded in enumerate([*data, *broken]):
        value = decoded_exactly(message, version, encoded)
        if read.fits[row]:
            assert value is not None
            assert in_row(message, version, read, row) == value
    assert read.fits[:400].mean() > 0.8
    assert 0 < read.fits[400:].mean() < 0.8


def damaged(data: bytes, dice: Random) -> bytes:
    position = dice.randrange(len(data) + 1)
    kind = dice.randrange(3)
    if kind == 0:
        return data[:position]
    return data + dice.randbytes(1) if kind == 1 else data[:position] + dice.randbytes(1) + data[position + 1 :]


def test_fields_that_a_version_does_not_have() -> None:
    value = {"offset": 1, "metadata": "m", "commitTimestamp": 2}
    read = read_columns(
        OFFSET_COMMIT_VALUE, 2, to_byte_slices([PREFIX + encode(OFFSET_COMMIT_VALUE, 2, value)]), len(PREFIX)
    )
    assert read.numbers("leaderEpoch", -1).tolist() == [-1]
    assert read.slices("topicId").get(0) is None
    assert read.slices("metadata").get(0) == b"m"


def test_an_array_of_too_many_structs_does_not_fit() -> None:
    values = [
        random_value(TRANSACTION_LOG_VALUE, 1, Random(1))  # noqa: S311  # for a message
        | {"transactionPartitions": [{"topic": "t", "partitionIds": [number]} for number in range(count)]}
        for count in (256, 257)
    ]
    data = to_byte_slices([encode(TRANSACTION_LOG_VALUE, 1, value) for value in values])
    assert read_columns(TRANSACTION_LOG_VALUE, 1, data).fits.tolist() == [True, False]


def test_other_messages_of_integers_and_strings() -> None:
    value = random_value(FEATURE_LEVEL_RECORD, 0, Random(2))  # noqa: S311  # for a message
    data = encode(FEATURE_LEVEL_RECORD, 0, value)
    read = read_columns(FEATURE_LEVEL_RECORD, 0, to_byte_slices([data]))
    assert in_row(FEATURE_LEVEL_RECORD, 0, read, 0) == decode(FEATURE_LEVEL_RECORD, 0, data).value
    assert read.fits.all()


def test_a_message_with_a_field_of_another_type_is_rejected() -> None:
    with pytest.raises(TypeError, match="of type bytes is not read in columns"):
        read_columns(GROUP_METADATA_VALUE, 3, to_byte_slices([b"x"]))


@pytest.mark.parametrize(("topic", "types"), [("__consumer_offsets", (0, 1)), ("__transaction_state", (0,))])
def test_keys_are_those_that_the_codec_reads(topic: str, types: tuple[int, ...]) -> None:
    """Also cut, extended, and with a byte changed; what does not have the exact layout is left to the codec."""
    dice = Random(7)  # noqa: S311  # dice for a test
    keys: dict[bytes, None] = {b"": None, b"\0": None, b"\0\2\0\1g": None}
    for number in types:
        for text in ("", "a", "group-\u00e9", "t" * 300):
            strings = len(text.encode()).to_bytes(2) + text.encode()
            key = number.to_bytes(2) + (strings if topic == "__transaction_state" else 2 * strings + b"\0\0\1\7")
            for _ in range(20):
                changed = bytearray(key)
                changed[dice.randrange(2, len(key))] ^= dice.randrange(1, 256)
                keys |= dict.fromkeys([key, key[: dice.randrange(len(key))], key + b"\0", bytes(changed)])
    (read_types, read), exact = read_keys(topic, types, to_byte_slices(keys)), 0
    for row, key in enumerate(keys):
        number = int.from_bytes(key[:2])
        kind = COORDINATOR_TYPES[topic][number] if len(key) >= 2 and number in types else None
        expected = kind and decoded_exactly(kind.key, 0, key)
        exact += expected is not None
        assert read_types[row] == (int.from_bytes(key[:2], signed=True) if len(key) >= 2 else NO_TYPE)
        assert read.fits[row] == (expected is not None), key
        assert not (kind and expected) or in_row(kind.key, 0, read, row) == expected
        assert expected is None or decode_record(topic, key, None).key == expected
    assert 40 < exact * 2 < len(keys) * 2 - 80
