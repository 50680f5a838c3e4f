"""What is asked of a slow file: the right bytes, in few requests, and not much more than is read."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files.read_ahead import AHEAD, LEAST, PIECE, ReadAhead

DATA = random.Random(7).randbytes(3 << 20)  # noqa: S311 - bytes like any other


class File:
    """A file that notes what it is asked for."""

    def __init__(self, data: bytes = DATA) -> None:
        self.data, self.asked = data, list[tuple[int, int]]()

    def fetch(self, start: int, length: int) -> bytes:
        """Return bytes."""
        self.asked.append((start, length))
        return self.data[start : start + length]

    def ranges(self, size: int | None = None) -> ReadAhead:
        """Return a reader of a file that had this size when it was opened."""
        return ReadAhead(self.fetch, len(self.data) if size is None else size)


def read(ranges: ReadAhead, position: int, length: int) -> bytes:
    return b"".join(ranges.parts(position, length))


@given(reads=st.lists(st.tuples(st.integers(0, len(DATA) + 10), st.integers(0, 300_000)), max_size=20))
def test_any_reads_give_the_bytes_of_the_file(reads: list[tuple[int, int]]) -> None:
    ranges = File().ranges()
    for position, length in reads:
        assert read(ranges, position, length) == DATA[position : position + length]


@given(steps=st.lists(st.tuples(st.integers(-50_000, 20_000), st.integers(1, 400_000)), max_size=30))
def test_a_reader_that_goes_on_and_looks_back_gets_the_bytes_of_the_file(steps: list[tuple[int, int]]) -> None:
    ranges, position = File().ranges(), 0
    for step, length in steps:
        position = max(0, position + step)
        assert read(ranges, position, length) == DATA[position : position + length]
        position += length


@pytest.mark.parametrize("size", [0, 1, LEAST, LEAST + 1, 5 << 20])
def test_a_file_that_is_read_at_once_is_asked_for_once(size: int) -> None:
    file = File(bytes(size))
    assert read(file.ranges(), 0, size) == file.data
    assert file.asked == ([(0, size)] if size else [])


def test_a_small_file_is_asked_for_once_however_it_is_read() -> None:
    file = File(DATA[:LEAST])
    ranges = file.ranges()
    assert b"".join(read(ranges, position, 61) for position in range(0, LEAST, 61)) == file.data
    assert file.asked == [(0, LEAST)]


def test_what_is_read_from_front_to_back_is_asked_for_in_large_pieces_once() -> None:
    """Also where the reader steps back a little each time, as one does who was given half a batch."""
    file = File(bytes(100 << 20))
    ranges, position, step = file.ranges(), 0, 1 << 20
    while position < len(file.data):
        assert len(read(ranges, position, step)) == min(step, len(file.data) - position)
        position += step - 1000
    assert sum(length for _, length in file.asked) == len(file.data)
    assert sorted(start for start, _ in file.asked)[1:] == sorted(start + length for start, length in file.asked)[:-1]
    assert len(file.asked) < 100 // 4 + 10
    assert max(length for _, length in file.asked) == PIECE


def test_no_more_is_asked_for_ahead_than_was_read() -> None:
    """Who stops after the first header has not paid for the rest."""
    file = File(bytes(100 << 20))
    ranges = file.ranges()
    for end in (1 << 20, 2 << 20, 10 << 20, 30 << 20):
        read(ranges, end - (1 << 20), 1 << 20)
        done = max(start + length for start, length in file.asked)
        assert done <= min(2 * end, end + AHEAD) + PIECE


def test_a_look_elsewhere_does_not_end_a_run() -> None:
    """Indexes are bisected and single headers looked at while a log is walked through."""
    file = File(bytes(40 << 20))
    ranges = file.ranges()
    for position in range(0, 20 << 20, 1 << 20):
        read(ranges, position, 1 << 20)
        read(ranges, (39 << 20) - 3 * position // 2, 17)
    once = [asked for asked in file.asked if asked[1] != LEAST]
    assert len(set(once)) == len(once)
    assert sum(length for _, length in once) <= 40 << 20


def test_a_file_that_has_shrunk_gives_what_there_is() -> None:
    file = File(DATA[: 1 << 20])
    ranges = file.ranges(len(DATA))
    assert read(ranges, 0, 1000) == DATA[:1000]
    assert read(ranges, 1000, len(DATA)) == DATA[1000 : 1 << 20]
    assert read(ranges, 2 << 20, 10) == b""


def test_what_fails_ahead_is_raised_where_it_is_read() -> None:
    class Broken(File):
        def fetch(self, start: int, length: int) -> bytes:
            if start + length > 1 << 20:
                raise OSError("gone")
            return super().fetch(start, length)

    ranges = Broken().ranges()
    assert read(ranges, 0, LEAST) == DATA[:LEAST]
    with pytest.raises(OSError, match="gone"):
        read(ranges, LEAST, 2 << 20)


def test_several_files_may_be_read_at_a_time() -> None:
    with ThreadPoolExecutor(4) as pool:
        found = pool.map(lambda _: read_on(File().ranges()), range(8))
    assert set(found) == {DATA}


def read_on(ranges: ReadAhead) -> bytes:
    return b"".join(read(ranges, position, 10_000) for position in range(0, len(DATA), 10_000))


def test_what_is_forgotten_is_asked_for_anew() -> None:
    file = File()
    ranges = file.ranges()
    read(ranges, 0, 10)
    ranges.forget()
    assert read(ranges, 0, 10) == DATA[:10]
    assert file.asked == [(0, LEAST)] * 2
