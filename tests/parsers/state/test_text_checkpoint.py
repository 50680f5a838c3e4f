from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from kforensics.parsers.files.source import LocalSource, Source
from kforensics.parsers.files.text_lines import count_lines, parse_int, parse_long, text_lines
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import (
    CheckpointHeader,
    LeaderEpochEntry,
    OffsetCheckpointEntry,
    RemoteOffsetEntry,
    read_leader_epochs,
    read_offset_checkpoint,
    read_remote_offsets,
)
from tests.parsers.ranges import WideSource, check_cover, mutated, prefixes, reasons, rows_of

GOOD = b"0\n2\nfoo 0 42\nbar-baz 11 9000\n"


def test_offset_checkpoint() -> None:
    """A header of two lines, then topic, partition and offset of each entry."""
    rows = rows_of(read_offset_checkpoint, bytes.fromhex("300a320a666f6f20302034320a6261722d62617a20313120393030300a"))
    assert rows == [
        CheckpointHeader(0, 4, 0, 2),
        OffsetCheckpointEntry(4, 9, "foo", 0, 42),
        OffsetCheckpointEntry(13, 16, "bar-baz", 11, 9000),
    ]


def test_leader_epochs() -> None:
    """An entry of a leader-epoch checkpoint is an epoch and its first offset."""
    rows = rows_of(read_leader_epochs, b"0\n2\n0 0\n7 123\n")
    assert rows[1:] == [LeaderEpochEntry(4, 4, 0, 0), LeaderEpochEntry(8, 6, 7, 123)]


def test_remote_offsets() -> None:
    """An entry of _rlmm_committed_offsets is a partition and an offset."""
    assert rows_of(read_remote_offsets, b"0\n1\n3 99\n")[1] == RemoteOffsetEntry(4, 5, 3, 99)


@pytest.mark.parametrize("data", [b"", b"0\n", b"0"])
def test_no_entries(data: bytes) -> None:
    """An empty file and a version without a count mean no entries, as in Kafka."""
    rows = rows_of(read_offset_checkpoint, data)
    assert reasons(rows) == []
    assert [row.count for row in rows] == ([None] if data else [])


def test_every_truncation() -> None:
    """A truncation that removes or damages a line is reported; the lines before it are yielded."""
    for data in list(prefixes(GOOD))[3:-1]:
        rows = rows_of(read_offset_checkpoint, data)
        if data.count(b" ") < 4 or not data.split(b" ")[-1]:
            assert reasons(rows)
        assert sum(isinstance(row, OffsetCheckpointEntry) for row in rows) >= data.count(b"\n") - 2


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (b"1\n0\n", "version", "Unrecognised version:1, expected version: 0 in checkpoint file at: f"),
        (b"x\n0\n", "malformed", "Malformed line in checkpoint file [f]: x"),
        (b"0\nmany\n", "malformed", "Malformed line in checkpoint file [f]: many"),
        (b"0\n1\nfoo 0\n", "malformed", "Malformed line in checkpoint file [f]: foo 0"),
        (b"0\n1\n foo 0 1\n", "malformed", "Malformed line in checkpoint file [f]:  foo 0 1"),
        (b"0\n1\nfoo 0 9223372036854775808\n", "malformed", None),
        (b"0\n1\n\xff 0 1\n", "malformed", "Malformed line in checkpoint file [f]: not UTF-8"),
        (b"0\n3\nfoo 0 1\n", "count", "Expected [3] entries in checkpoint file [f], but found only [1]"),
        (b"0\n0\nfoo 0 1\n", "count", "Expected [0] entries in checkpoint file [f], but found only [1]"),
        (b"0\n-5\n", "count", "Expected [-5] entries in checkpoint file [f], but found only [0]"),
        (bytes(29), "zeros", None),
    ],
)
def test_faults(data: bytes, reason: str, detail: str | None) -> None:
    """Each fault has its reason and, where Kafka has one, its message."""
    (damage,) = [row for row in rows_of(read_offset_checkpoint, data) if isinstance(row, Damage)]
    assert damage.reason == reason
    assert detail is None or damage.detail == detail


def test_valid_lines_next_to_a_malformed_one() -> None:
    """Kafka rejects the whole file; here only the line is lost."""
    rows = rows_of(read_offset_checkpoint, b"0\n3\na 0 1\n???\nb 1 2\n")
    assert [row.topic for row in rows if isinstance(row, OffsetCheckpointEntry)] == ["a", "b"]


def test_line_breaks_are_javas() -> None:
    """A carriage return ends a line, alone or before a line feed; the last line needs no line break."""
    rows = rows_of(read_offset_checkpoint, b"0\r\n2\ra 0 1\nb \t1  2 ")
    assert [row.topic for row in rows if isinstance(row, OffsetCheckpointEntry)] == ["a", "b"]


@pytest.mark.slow
def test_garbage_of_many_lines_is_one_row() -> None:
    """Millions of malformed lines do not become millions of rows."""
    rows = rows_of(read_offset_checkpoint, b"0\n0\n" + b"\n" * 200_000)
    assert len(rows) == 3


def test_a_huge_file_is_not_read() -> None:
    """A file of a gigabyte is damage."""
    source = WideSource(GOOD, 1 << 30)
    rows = list(read_offset_checkpoint(source))
    check_cover(rows, source.size)
    assert (reasons(rows), source.largest_read) == (["too-large"], 0)


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes."""
    for reader in (read_offset_checkpoint, read_leader_epochs, read_remote_offsets):
        rows_of(reader, data)


@given(mutated(b"a\r\nb\rc\n\n\r\rd"))
def test_counted_lines_are_the_lines(data: bytes) -> None:
    """Counting and reading lines agree."""
    assert count_lines(data) == len(list(text_lines(data)))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("7", 7),
        ("+7", 7),
        ("-0", 0),
        ("2147483647", 2**31 - 1),
        ("2147483648", None),
        ("-2147483648", -(2**31)),
        *((text, None) for text in ("", " 7", "7_0", "0x7", "--7", "9" * 9999)),
    ],
)
def test_int(text: str, number: int | None) -> None:
    """Numbers are exactly what Integer.parseInt accepts."""
    assert parse_int(text) == number


def test_long() -> None:
    """The range of a long is asymmetric."""
    assert parse_long("-9223372036854775808") == -(2**63)
    assert parse_long("9223372036854775808") is None
    assert parse_long("0" * 5000 + "7") == 7


@pytest.mark.parametrize(
    ("pattern", "reader"),
    [("*-offset-checkpoint", read_offset_checkpoint), ("leader-epoch-checkpoint", read_leader_epochs)],
)
def test_samples(sample_logs: Path, pattern: str, reader: Callable[[Source], Iterator[Any]]) -> None:
    """Checkpoints of real brokers are empty or have as many entries as they count."""
    paths = [path for path in sorted(sample_logs.rglob(pattern)) if "damaged" not in path.parts]
    entries = 0
    for path in paths:
        with LocalSource(path) as source:
            rows = list(reader(source))
            check_cover(rows, source.size)
        assert reasons(rows) == []
        if rows:
            assert rows[0].count == len(rows) - 1
            entries += len(rows) - 1
    assert entries
