from pathlib import Path

import pytest
from hypothesis import given

from kforensics.parsers.files.meta_properties import MetaProperties, Property, meta_properties, read_meta_properties
from kforensics.parsers.files.source import LocalSource
from tests.parsers.ranges import WideSource, check_cover, mutated, prefixes, reasons, rows_of

GOOD = (
    b"#\n#Sat Nov 21 11:12:50 UTC 2026\nnode.id=1\ndirectory.id=mDbRojYCZvmi6-CwwJBAqA\nversion=1\n"
    b"cluster.id=a2ZvcmVuc2ljcy1sYWItMQ\n"
)


def test_version_1() -> None:
    """The file of a KRaft node contains node, cluster and directory id."""
    rows = rows_of(read_meta_properties, GOOD)
    assert [(row.name, row.value) for row in rows[:3]] == [
        ("#", ""),
        ("#", "Sat Nov 21 11:12:50 UTC 2026"),
        ("node.id", "1"),
    ]
    assert meta_properties(rows) == MetaProperties(1, 1, "a2ZvcmVuc2ljcy1sYWItMQ", "mDbRojYCZvmi6-CwwJBAqA")


def test_version_0() -> None:
    """Before KRaft the node was a broker; a file without a version has version 0."""
    assert meta_properties(rows_of(read_meta_properties, b"broker.id=7\n")).node_id == 7


def test_javas_syntax() -> None:
    """Blanks, separators, escapes and continued lines are read as by java.util.Properties."""
    data = b"  a : 1 \nb\\=c 2\nd=x\\\n   y\ne\nf=\\u0041\\t\\q\n!note\n\ng=\\\r\nh"
    rows = rows_of(read_meta_properties, data)
    assert [(row.name, row.value) for row in rows] == [
        ("a", "1 "),
        ("b=c", "2"),
        ("d", "xy"),
        ("e", ""),
        ("f", "A\tq"),
        ("#", "note"),
        ("#", ""),
        ("g", "h"),
    ]


@pytest.mark.parametrize(
    ("line", "reason", "detail"),
    [
        (b"version=x", "malformed", "Invalid meta.properties version string 'x'"),
        (b"version=2", "version", "Unknown meta.properties version number 2"),
        (b"node.id=one", "malformed", "Unable to read node.id as a base-10 number."),
        (b"directory.id=short", "malformed", "Unable to read directory.id as a Uuid: short"),
        (bytes(40), "zeros", None),
    ],
)
def test_faults(line: bytes, reason: str, detail: str | None) -> None:
    """Each fault has its reason and, where Kafka has one, its message."""
    (damage,) = rows_of(read_meta_properties, line)
    assert damage.reason == reason
    assert detail is None or damage.detail == detail


def test_every_truncation() -> None:
    """No truncation crashes the reader, and the whole lines before it are read."""
    for data in prefixes(GOOD):
        rows = rows_of(read_meta_properties, data)
        assert sum(isinstance(row, Property) for row in rows) >= data.count(b"\n")


@pytest.mark.slow
def test_a_file_of_backslashes() -> None:
    """A megabyte of escapes is read quickly."""
    rows_of(read_meta_properties, b"\\" * (1 << 20))
    rows_of(read_meta_properties, b"\\\n" * (1 << 19))


def test_a_huge_file_is_not_read() -> None:
    """A file of a gigabyte is damage."""
    source = WideSource(GOOD, 1 << 30)
    assert reasons(read_meta_properties(source)) == ["too-large"]


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes, and the values can always be extracted."""
    meta_properties(rows_of(read_meta_properties, data))


def test_samples(sample_logs: Path) -> None:
    """The id of every real broker is read."""
    paths = [path for path in sorted(sample_logs.rglob("meta.properties")) if "damaged" not in path.parts]
    assert paths
    for path in paths:
        with LocalSource(path) as source:
            rows = list(read_meta_properties(source))
            check_cover(rows, source.size)
        assert reasons(rows) == []
        assert meta_properties(rows).node_id is not None
