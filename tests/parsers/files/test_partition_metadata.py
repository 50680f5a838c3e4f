from pathlib import Path

import pytest
from hypothesis import given

from kforensics.parsers.files.partition_metadata import PartitionMetadata, read_partition_metadata
from kforensics.parsers.files.source import LocalSource
from tests.parsers.ranges import WideSource, mutated, prefixes, reasons, rows_of

ID = "jWEeNoYKSW2RQRjlZxT1Xg"
GOOD = f"version: 0\ntopic_id: {ID}".encode()


def test_two_lines_without_an_end() -> None:
    """43 bytes: a version and a UUID."""
    assert len(GOOD) == 43
    assert rows_of(read_partition_metadata, GOOD) == [PartitionMetadata(0, 43, 0, ID)]


def test_every_truncation() -> None:
    """No truncated file is accepted."""
    for data in list(prefixes(GOOD))[:-1]:
        rows = rows_of(read_partition_metadata, data)
        assert not any(isinstance(row, PartitionMetadata) for row in rows)
        assert len(reasons(rows)) == 1


@pytest.mark.parametrize(
    ("data", "reason", "detail"),
    [
        (
            b"version: -1\ntopic_id: " + ID.encode(),
            "version",
            "Unrecognized version of partition metadata file (f): -1",
        ),
        (b"version: x\ntopic_id: a", "malformed", "Malformed line in partition metadata file [f]: version: x"),
        (b"version 0 0\ntopic_id: a", "malformed", "Malformed line in partition metadata file [f]: version 0 0"),
        (b"version: 0\ntopic_id:", "malformed", "Malformed line in partition metadata file [f]: topic_id:"),
        (b"version: 0\ntopic_id: " + b"A" * 22, "malformed", "Invalid topic ID in partition metadata file (f)"),
        (b"version: 0", "truncated", None),
        (bytes(43), "zeros", None),
        (GOOD + b"\nmore", "trailing", None),
    ],
)
def test_faults(data: bytes, reason: str, detail: str | None) -> None:
    """Each fault has its reason and, where Kafka has one, its message."""
    damage = rows_of(read_partition_metadata, data)[-1]
    assert damage.reason == reason
    assert detail is None or damage.detail == detail


def test_higher_versions_and_other_names_are_accepted() -> None:
    """Kafka accepts later versions to allow downgrades, and ignores the names."""
    rows = rows_of(read_partition_metadata, f"v 9\nid {ID}\n".encode())
    assert rows == [PartitionMetadata(0, 30, 9, ID)]


def test_a_huge_file_is_not_read() -> None:
    """A file of a gigabyte is damage."""
    source = WideSource(GOOD, 1 << 30)
    assert reasons(read_partition_metadata(source)) == ["too-large"]
    assert source.largest_read == 0


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes."""
    assert rows_of(read_partition_metadata, data)


def test_samples(sample_logs: Path) -> None:
    """The topic id of every real partition is read."""
    paths = [path for path in sorted(sample_logs.rglob("partition.metadata")) if "damaged" not in path.parts]
    assert paths
    for path in paths:
        with LocalSource(path) as source:
            (row,) = read_partition_metadata(source)
        assert isinstance(row, PartitionMetadata)
        assert len(row.topic_id) == 22
