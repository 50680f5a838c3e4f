import struct

import pytest
from hypothesis import given

from kforensics.parsers.state.remote_log_snapshot import (
    RemoteLogSnapshotEntry,
    RemoteLogSnapshotHeader,
    read_remote_log_snapshot,
)
from tests.parsers.ranges import WideSource, mutated, prefixes, reasons, rows_of


def snapshot(values: list[bytes], count: int | None = None, version: int = 0) -> bytes:
    """Build a snapshot of partition 4 at offset 77."""
    head = struct.pack(">hiqi", version, 4, 77, len(values) if count is None else count)
    return head + b"".join(struct.pack(">i", len(value)) + value for value in values)


GOOD = snapshot([b"first", b"", b"third"])


def test_header_and_entries() -> None:
    """A header of 18 bytes, then entries preceded by their length."""
    rows = rows_of(read_remote_log_snapshot, bytes.fromhex("0000 00000004 000000000000004d 00000001 00000002 abcd"))
    assert rows == [RemoteLogSnapshotHeader(0, 0, 4, 77, 1), RemoteLogSnapshotEntry(18, 6, b"\xab\xcd")]


def test_header_only() -> None:
    """3.6 and 3.7 often wrote only the header, sometimes all zeros."""
    assert reasons(rows_of(read_remote_log_snapshot, snapshot([]))) == []
    assert rows_of(read_remote_log_snapshot, bytes(18)) == [RemoteLogSnapshotHeader(0, 0, 0, 0, 0)]
    assert rows_of(read_remote_log_snapshot, b"") == []


def test_every_truncation() -> None:
    """Whole entries survive a truncation, and damage reports the rest."""
    for data in list(prefixes(GOOD))[1:-1]:
        rows = rows_of(read_remote_log_snapshot, data)
        assert reasons(rows)[0] == ("truncated" if len(data) < 18 else "count")


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (snapshot([b"x"], version=1), "version"),
        (snapshot([b"x"], count=-1), "count"),
        (snapshot([b"x"], count=2**31 - 1), "count"),
        (snapshot([], count=1) + struct.pack(">i", -5), "count"),
        (snapshot([], count=1) + struct.pack(">i", 2**31 - 1), "count"),
        (GOOD + b"more", "trailing"),
    ],
)
def test_faults(data: bytes, reason: str) -> None:
    """Corrupt counts and lengths are reported and allocate no memory."""
    assert reasons(rows_of(read_remote_log_snapshot, data))[0] == reason


def test_a_huge_file_is_not_read() -> None:
    """A file of a gigabyte is damage."""
    assert reasons(read_remote_log_snapshot(WideSource(GOOD, 1 << 30))) == ["too-large"]


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes."""
    rows_of(read_remote_log_snapshot, data)
