"""Read-ahead returns the right bytes with few requests and fetches little more than is read."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files.remote_prefetch import MIN_REQUEST_BYTES, READ_AHEAD_BYTES, REQUEST_BYTES, ReadAhead

DATA = random.Random(7).randbytes(3 << 20)  # noqa: S311 - test data


class File:
    """A file that records its requests."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data, self.requests = data, list[tuple[int, int]]()

    def fetch(self, start: int, length: int) -> bytes:
        """Return the bytes of a range."""
        self.requests.append((start, length))
        return self.data[start : start + length]

    def ranges(self, size: int | None = None) -> ReadAhead:
        """Return a reader for a file that had this size when it was opened."""
        return ReadAhead(self.fetch, len(self.data) if size is None else size)


def read(ranges: ReadAhead, position: int, length: int) -> bytes:
    return b"".join(ranges.parts(position, length))


@given(reads=st.lists(st.tuples(st.integers(0, len(DATA) + 10), st.integers(0, 300_000)), max_size=20))
def test_any_reads_return_the_bytes_of_the_file(reads: list[tuple[int, int]]) -> None:
    ranges = File().ranges()
    for position, length in reads:
        assert read(ranges, position, length) == DATA[position : position + length]


@given(steps=st.lists(st.tuples(st.integers(-50_000, 20_000), st.integers(1, 400_000)), max_size=30))
def test_sequential_reads_with_steps_back_return_the_bytes_of_the_file(steps: list[tuple[int, int]]) -> None:
    ranges, position = File().ranges(), 0
    for step, length in steps:
        position = max(0, position + step)
        assert read(ranges, position, length) == DATA[position : position + length]
        position += length


@pytest.mark.parametrize("size", [0, 1, MIN_REQUEST_BYTES, MIN_REQUEST_BYTES + 1, 5 << 20])
def test_a_file_read_in_one_call_needs_one_request(size: int) -> None:
    file = File(bytes(size))
    assert read(file.ranges(), 0, size) == file.data
    assert file.requests == ([(0, size)] if size else [])


def test_a_small_file_needs_one_request_however_it_is_read() -> None:
    file = File(DATA[:MIN_REQUEST_BYTES])
    ranges = file.ranges()
    assert b"".join(read(ranges, position, 61) for position in range(0, MIN_REQUEST_BYTES, 61)) == file.data
    assert file.requests == [(0, MIN_REQUEST_BYTES)]


def test_sequential_reads_fetch_every_byte_once_in_large_requests() -> None:
    """Also if the reader steps back a little each time, as after half a batch."""
    file = File(bytes(100 << 20))
    ranges, position, step = file.ranges(), 0, 1 << 20
    while position < len(file.data):
        assert len(read(ranges, position, step)) == min(step, len(file.data) - position)
        position += step - 1000
    assert sum(length for _, length in file.requests) == len(file.data)
    assert (
        sorted(start for start, _ in file.requests)[1:]
        == sorted(start + length for start, length in file.requests)[:-1]
    )
    assert len(file.requests) < 100 // 4 + 10
    assert max(length for _, length in file.requests) == REQUEST_BYTES


def test_no_more_is_fetched_ahead_than_was_read() -> None:
    """A reader that stops after the first header does not fetch the rest."""
    file = File(bytes(100 << 20))
    ranges = file.ranges()
    for end in (1 << 20, 2 << 20, 10 << 20, 30 << 20):
        read(ranges, end - (1 << 20), 1 << 20)
        done = max(start + length for start, length in file.requests)
        assert done <= min(2 * end, end + READ_AHEAD_BYTES) + REQUEST_BYTES


def test_a_read_elsewhere_does_not_end_a_sequential_run() -> None:
    """Indexes are bisected and single headers read during a walk over the log."""
    file = File(bytes(40 << 20))
    ranges = file.ranges()
    for position in range(0, 20 << 20, 1 << 20):
        read(ranges, position, 1 << 20)
        read(ranges, (39 << 20) - 3 * position // 2, 17)
    once = [request for request in file.requests if request[1] != MIN_REQUEST_BYTES]
    assert len(set(once)) == len(once)
    assert sum(length for _, length in once) <= 40 << 20


def test_a_file_that_has_shrunk_returns_the_remaining_bytes() -> None:
    file = File(DATA[: 1 << 20])
    ranges = file.ranges(len(DATA))
    assert read(ranges, 0, 1000) == DATA[:1000]
    assert read(ranges, 1000, len(DATA)) == DATA[1000 : 1 << 20]
    assert read(ranges, 2 << 20, 10) == b""


def test_a_failed_request_is_raised_when_its_bytes_are_read() -> None:
    class Broken(File):
        def fetch(self, start: int, length: int) -> bytes:
            if start + length > 1 << 20:
                raise OSError("gone")
            return super().fetch(start, length)

    ranges = Broken().ranges()
    assert read(ranges, 0, MIN_REQUEST_BYTES) == DATA[:MIN_REQUEST_BYTES]
    with pytest.raises(OSError, match="gone"):
        read(ranges, MIN_REQUEST_BYTES, 2 << 20)


def test_several_files_can_be_read_concurrently() -> None:
    with ThreadPoolExecutor(4) as pool:
        contents = pool.map(lambda _: read_on(File().ranges()), range(8))
    assert set(contents) == {DATA}


def read_on(ranges: ReadAhead) -> bytes:
    return b"".join(read(ranges, position, 10_000) for position in range(0, len(DATA), 10_000))


def test_forgotten_bytes_are_fetched_again() -> None:
    file = File()
    ranges = file.ranges()
    read(ranges, 0, 10)
    ranges.forget()
    assert read(ranges, 0, 10) == DATA[:10]
    assert file.requests == [(0, MIN_REQUEST_BYTES)] * 2
