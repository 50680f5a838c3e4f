"""Control records, with the worked bytes of section 5."""

from __future__ import annotations

import pytest

from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import Record

WORKED = [
    ("COMMIT", "00000001", "00000000000c", 12),
    ("ABORT", "00000000", "00000000000c", 12),
    ("LEADER_CHANGE", "00000002", "0000000000010300000001000000000200020000000100 00", None),
    ("SNAPSHOT_HEADER", "00000003", "00000000018bcfe567ff00", None),
    ("SNAPSHOT_FOOTER", "00000004", "000000", None),
    ("KRAFT_VERSION", "00000005", "0000000100", None),
    ("KRAFT_VOTERS", "00000006", "00000200000001", None),
    ("UNKNOWN(7)", "00000007", "", None),
    ("UNKNOWN(-1)", "0000ffff", "00000000000c", None),
    ("COMMIT", "00090001ffff", "0009ffffffff0102", -1),
]


def record(key: bytes | None, value: bytes | None) -> Record:
    """Return a record with this key and value."""
    return Record(0, 0, -1, key, value)


@pytest.mark.parametrize(("name", "key", "value", "epoch"), WORKED)
def test_control_records(name: str, key: str, value: str, epoch: int | None) -> None:
    assert control_fields(record(bytes.fromhex(key), bytes.fromhex(value))) == (name, epoch)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0"])
def test_a_key_that_is_too_short_has_no_type(key: bytes | None) -> None:
    assert control_fields(record(key, bytes(6))) == (None, None)


@pytest.mark.parametrize("value", [None, b"", bytes(5)])
def test_a_marker_that_is_too_short_has_no_epoch(value: bytes | None) -> None:
    assert control_fields(record(b"\0\0\0\1", value)) == ("COMMIT", None)
