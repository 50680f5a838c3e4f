"""Records of the metadata log decoded by columns equal those decoded one by one."""

from __future__ import annotations

from random import Random

import pytest

from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.format.byte_slices import to_byte_slices
from kforensics.parsers.messages import metadata as schemas
from kforensics.parsers.messages.framed_columns import MIN_ROWS, framed_records
from kforensics.parsers.messages.internal_records import decode_record
from kforensics.parsers.messages.schema import MessageSchema
from tests.parsers.messages.encoder import encode, random_value, unsigned_varint

MESSAGES = [message for message in vars(schemas).values() if isinstance(message, MessageSchema) and not message.until]
RANDOM = Random(1)  # noqa: S311
HOT = (schemas.PARTITION_RECORD, schemas.PARTITION_CHANGE_RECORD, schemas.TOPIC_RECORD, schemas.CONFIG_RECORD)


def _values(message: MessageSchema, version: int, random: Random, count: int = 60) -> list[bytes]:
    frame = b"\1" + unsigned_varint(message.id or 0) + unsigned_varint(version)
    return [frame + encode(message, version, random_value(message, version, random)) for _ in range(count)]


def _check(values: list[bytes]) -> None:
    """Check each record that is read in columns; the others are left to the codec."""
    for value, *found in zip(values, *framed_records(METADATA_TOPIC, to_byte_slices(values)), strict=True):
        if found != [None, None, None]:
            decoded = decode_record(METADATA_TOPIC, None, value)
            # As text: with the order of the fields, and NaN equals NaN.
            assert decoded.error is None
            assert repr(found) == repr([decoded.type_name, decoded.value, decoded.version])


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.name)
def test_records_are_those_that_the_codec_decodes(message: MessageSchema) -> None:
    """Also cut, extended, with a byte changed, and of versions that no release knows."""
    random = Random(message.id)  # noqa: S311
    for version in range(message.highest_version + 2):
        known = min(version, message.highest_version)
        values = [
            value.replace(value[:3], value[:2] + bytes([version]), 1) for value in _values(message, known, random)
        ]
        _check(values)
        damaged = []
        for value in values:
            position = random.randrange(len(value))
            changed = value[:position] + bytes([random.randrange(256)]) + value[position + 1 :]
            damaged += [value[:position], value + b"\0", changed]
        _check(damaged)


@pytest.mark.parametrize("message", HOT, ids=lambda message: message.name)
def test_frequent_records_are_read_in_columns(message: MessageSchema) -> None:
    values = to_byte_slices(_values(message, message.highest_version, RANDOM))
    names = framed_records(METADATA_TOPIC, values).type_names
    assert names.count(message.name) > 0.6 * len(names)  # others have an unknown tag


def test_an_empty_chunk_and_few_records() -> None:
    _check([])
    _check(_values(schemas.TOPIC_RECORD, 0, RANDOM, MIN_ROWS - 1))


def test_types_that_are_not_asked_for_have_a_name_and_no_value() -> None:
    values = [value for message in HOT for value in _values(message, message.highest_version, RANDOM)]
    every = framed_records(METADATA_TOPIC, to_byte_slices(values))
    some = framed_records(METADATA_TOPIC, to_byte_slices(values), {HOT[0].name})
    for name, value, found_name, found in zip(
        every.type_names, every.values, some.type_names, some.values, strict=True
    ):
        assert found == (value if name == HOT[0].name else None)
        assert name is None or found_name == name
