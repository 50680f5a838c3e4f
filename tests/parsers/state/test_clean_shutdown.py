from pathlib import Path

import pytest
from hypothesis import given

from kforensics.parsers.files.source import LocalSource
from kforensics.parsers.state.json_state import CleanShutdown, read_clean_shutdown
from tests.parsers.ranges import WideSource, mutated, prefixes, reasons, rows_of

GOOD = b'{"version":0,"brokerEpoch":55}'


def test_before_3_7() -> None:
    """The file is empty."""
    assert rows_of(read_clean_shutdown, b"") == [CleanShutdown(0, 0, None, None)]


def test_since_3_7() -> None:
    """The file contains the broker epoch."""
    assert rows_of(read_clean_shutdown, GOOD) == [CleanShutdown(0, len(GOOD), 0, 55)]


def test_every_truncation() -> None:
    """A truncated marker is still a marker, with damage."""
    for data in list(prefixes(GOOD))[1:-1]:
        rows = rows_of(read_clean_shutdown, data)
        assert rows[0] == CleanShutdown(0, 0, None, None)
        assert reasons(rows) == ["malformed"]


@pytest.mark.parametrize("data", [b"[1]", b"\xff\xfe", b"[" * 100_000, bytes(8), b'{"a":' * 50_000], ids=str)
def test_garbage(data: bytes) -> None:
    """Whatever the file contains, the shutdown was clean."""
    rows = rows_of(read_clean_shutdown, data)
    assert isinstance(rows[0], CleanShutdown)
    assert len(reasons(rows)) == 1


def test_a_huge_file_is_not_read() -> None:
    """A file of a gigabyte is still a marker."""
    source = WideSource(GOOD, 1 << 30)
    assert isinstance(next(read_clean_shutdown(source)), CleanShutdown)
    assert source.largest_read == 0


@given(mutated(GOOD))
def test_every_byte_is_accounted_for(data: bytes) -> None:
    """Rows and damage cover any bytes, and there is always a marker."""
    assert isinstance(rows_of(read_clean_shutdown, data)[0], CleanShutdown)


def test_samples(sample_logs: Path) -> None:
    """Markers of real brokers are read without damage."""
    paths = sorted(sample_logs.rglob(".kafka_cleanshutdown"))
    assert paths
    for path in paths:
        with LocalSource(path) as source:
            assert reasons(read_clean_shutdown(source)) == []
