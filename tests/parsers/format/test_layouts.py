"""The published sizes and offsets, and the worked bytes of the format notes."""

from __future__ import annotations

import pytest
from construct import Struct

from kforensics.parsers.format import layouts
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import (
    BATCH_HEADER,
    CONTROL_KEY,
    END_TXN_MARKER,
    ENTRY_PREFIX,
    LEGACY_HEADER_V0,
    LEGACY_HEADER_V1,
    RECORD,
)
from tests.parsers.builders import record

# From Kafka's classes: RECORD_BATCH_OVERHEAD, HEADER_SIZE_UP_TO_MAGIC, LegacyRecord's offsets, ControlRecordType.
SIZES = [
    (ENTRY_PREFIX, 17),
    (BATCH_HEADER, 61),
    (LEGACY_HEADER_V0, 18),
    (LEGACY_HEADER_V1, 26),
    (CONTROL_KEY, 4),
    (END_TXN_MARKER, 6),
]
PLACES = {
    "base_offset": 0,
    "length": 8,
    "partition_leader_epoch": 12,
    "magic": 16,
    "crc": 17,
    "attributes": 21,
    "last_offset_delta": 23,
    "base_timestamp": 27,
    "max_timestamp": 35,
    "producer_id": 43,
    "producer_epoch": 51,
    "base_sequence": 53,
    "count": 57,
}


@pytest.mark.parametrize(("layout", "size"), SIZES)
def test_sizes_are_kafkas(layout: Struct, size: int) -> None:
    assert layout.sizeof() == fixed_layout(layout).size == size


def test_offsets_in_a_batch_header_are_kafkas() -> None:
    assert fixed_layout(BATCH_HEADER).offsets == PLACES


@pytest.mark.parametrize("name", ["BATCH_HEADER", "RECORD", "RECORD_HEADER", "LEGACY_HEADER_V0", "LEGACY_HEADER_V1"])
def test_every_field_has_a_description(name: str) -> None:
    assert all(field.docs for field in getattr(layouts, name).subcons)


def test_a_record_is_built_and_read_as_documented() -> None:
    raw = bytes.fromhex("14000000 046b31 047631 00")
    fields = RECORD.parse(raw)
    assert (fields.length, fields.timestamp_delta, fields.offset_delta) == (10, 0, 0)
    assert (fields.key, fields.value, fields.header_count) == (b"k1", b"v1", 0)
    assert record(0, b"k1", b"v1") == raw


def test_a_header_is_built_and_read_as_documented() -> None:
    raw = record(5, "héader".encode(), b"x", [(b"h1", b"a"), (b"h,2", None)], timestamp_delta=9)
    assert raw == bytes.fromhex("3000120a 0e68c3a961646572 0278 04 046831 0261 06682c32 01")
