"""Messages in columns are what the codec makes of them one by one."""

from __future__ import annotations

import base64
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from kforensics.parsers.format.byte_slices import Pieces, pieces_of
from kforensics.parsers.format.java_utf8 import java_utf8
from kforensics.parsers.messages.codec import decode, decode_exact
from kforensics.parsers.messages.group import GROUP_METADATA_VALUE, LEGACY_OFFSET_COMMIT_VALUE, OFFSET_COMMIT_VALUE
from kforensics.parsers.messages.internal_records import LAYOUT_RELEASES
from kforensics.parsers.messages.message_columns import ReadColumns, read_columns
from kforensics.parsers.messages.metadata import FEATURE_LEVEL_RECORD
from kforensics.parsers.messages.reader import MessageError
from kforensics.parsers.messages.schema import Field, Message
from kforensics.parsers.messages.transaction import TRANSACTION_LOG_VALUE
from tests.parsers.messages.encoder import encode, random_value

MESSAGES = [
    (message, version)
    for message in (OFFSET_COMMIT_VALUE, LEGACY_OFFSET_COMMIT_VALUE, TRANSACTION_LOG_VALUE)
    for version in range(message.highest_version + 1)
]
FRONT = b"\x00\x07"


def exactly(message: Message, version: int, data: bytes) -> dict[str, Any] | None:
    """Return what the codec reads if it is a message of the newest layout to the last byte."""
    try:
        found = decode_exact(message, version, data, LAYOUT_RELEASES, len(FRONT))
    except MessageError:
        return None
    return found.value if len(FRONT) + found.consumed == len(data) else None


def in_row(message: Message, version: int, read: ReadColumns, row: int) -> dict[str, Any]:
    """Return the fields of a row as the codec has them."""
    return {
        field.name: _value(field, message, version, read, row) for field in message.fields if field.name in read.columns
    }


def _value(field: Field, message: Message, version: int, read: ReadColumns, row: int) -> Any:
    column = read.columns[field.name]
    if not isinstance(column, Pieces):
        return int(column[row])
    data = column.at(row)
    if field.type == "uuid":
        return base64.urlsafe_b64encode(data or bytes(16)).decode()[:22]
    if field.type == "string":
        return None if data is None else java_utf8(data)
    # Behind the field alone there are no tags.
    alone = replace(message, fields=(field,))
    return None if data is None else decode(alone, version, data + b"\x00").value[field.name]


@pytest.mark.parametrize(("message", "version"), MESSAGES, ids=[f"{one.name}-{version}" for one, version in MESSAGES])
def test_random_messages(message: Message, version: int) -> None:
    """Sound ones and broken ones: what fits is what the codec says, and what is plainly right fits."""
    dice = Random(version)  # noqa: S311  # for messages
    data = [FRONT + encode(message, version, random_value(message, version, dice)) for _ in range(400)]
    broken = [damaged(one, dice) for one in data]
    read = read_columns(message, version, pieces_of([*data, *broken]), len(FRONT))
    for row, one in enumerate([*data, *broken]):
        value = exactly(message, version, one)
        if read.fits[row]:
            assert value is not None
            assert in_row(message, version, read, row) == value
    assert read.fits[:400].mean() > 0.8
    assert 0 < read.fits[400:].mean() < 0.8


def damaged(data: bytes, dice: Random) -> bytes:
    at = dice.randrange(len(data) + 1)
    kind = dice.randrange(3)
    if kind == 0:
        return data[:at]
    return data + dice.randbytes(1) if kind == 1 else data[:at] + dice.randbytes(1) + data[at + 1 :]


def test_what_a_version_does_not_have() -> None:
    value = {"offset": 1, "metadata": "m", "commitTimestamp": 2}
    read = read_columns(OFFSET_COMMIT_VALUE, 2, pieces_of([FRONT + encode(OFFSET_COMMIT_VALUE, 2, value)]), len(FRONT))
    assert read.numbers("leaderEpoch", -1).tolist() == [-1]
    assert read.pieces("topicId").at(0) is None
    assert read.pieces("metadata").at(0) == b"m"


def test_a_list_of_more_elements_than_columns_go_through_does_not_fit() -> None:
    values = [
        random_value(TRANSACTION_LOG_VALUE, 1, Random(1))  # noqa: S311  # for a message
        | {"transactionPartitions": [{"topic": "t", "partitionIds": [number]} for number in range(count)]}
        for count in (256, 257)
    ]
    data = pieces_of([encode(TRANSACTION_LOG_VALUE, 1, value) for value in values])
    assert read_columns(TRANSACTION_LOG_VALUE, 1, data).fits.tolist() == [True, False]


def test_other_messages_of_integers_and_strings() -> None:
    value = random_value(FEATURE_LEVEL_RECORD, 0, Random(2))  # noqa: S311  # for a message
    data = encode(FEATURE_LEVEL_RECORD, 0, value)
    read = read_columns(FEATURE_LEVEL_RECORD, 0, pieces_of([data]))
    assert in_row(FEATURE_LEVEL_RECORD, 0, read, 0) == decode(FEATURE_LEVEL_RECORD, 0, data).value
    assert read.fits.all()


def test_a_message_with_what_is_not_read_in_columns_is_refused() -> None:
    with pytest.raises(TypeError, match="of type bytes is not read in columns"):
        read_columns(GROUP_METADATA_VALUE, 3, pieces_of([b"x"]))
