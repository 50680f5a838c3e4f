"""The window returns the bytes of the source in any order of reads, and detects a file that has shrunk."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kforensics.parsers.files import window as module
from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.files.window import Window
from tests.parsers.ranges import ShrunkSource

DATA = bytes(n * 7 % 251 for n in range(3 * module.BUFFER_BYTES // 2))
reads = st.tuples(st.integers(0, len(DATA) + 9), st.integers(0, 3000), st.booleans())


class CountedSource(BytesSource):
    """Counts its reads."""

    reads = 0

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range."""
        self.reads += 1
        return super().read(position, length)


@given(requests=st.lists(reads, max_size=12), end=st.sampled_from([None, 0, 5000, len(DATA) - 1, len(DATA) + 9]))
def test_any_range_in_any_order(requests: list[tuple[int, int, bool]], end: int | None) -> None:
    window = Window(BytesSource(DATA), end)
    limit = len(DATA) if end is None else min(end, len(DATA))
    assert window.end == limit
    for position, length, peeks in requests:
        read = window.peek if peeks else window.read
        assert read(position, length) == DATA[position : max(position, min(position + length, limit))]
    assert window.end == limit


def test_small_steps_share_one_read() -> None:
    source = CountedSource(DATA)
    window = Window(source)
    for position in range(0, module.BUFFER_BYTES - 61, 61):
        window.read(position, 61)
    assert source.reads == 1


def test_peeking_far_away_does_not_move_the_buffer() -> None:
    source = CountedSource(DATA)
    window = Window(source)
    window.read(0, 61)
    assert window.peek(len(DATA) - 10, 61) == DATA[-10:]
    window.read(61, 61)
    assert source.reads == 2


@given(start=st.integers(0, len(DATA)), end=st.integers(0, len(DATA)))
def test_chunks_cover_a_range_once(start: int, end: int) -> None:
    assert b"".join(Window(BytesSource(DATA)).chunks(start, end)) == DATA[start : max(start, end)]


def test_chunks_are_no_larger_than_the_buffer() -> None:
    assert max(map(len, Window(BytesSource(DATA * 6)).chunks(0, 6 * len(DATA)))) == module.BUFFER_BYTES


def test_the_end_decreases_when_the_file_has_shrunk() -> None:
    window = Window(ShrunkSource(DATA[:1000], len(DATA)))
    assert window.end == len(DATA)
    assert window.read(990, 61) == DATA[990:1000]
    assert window.end == 1000
    assert window.read(1000, 61) == b""
    assert list(window.chunks(0, len(DATA))) == [DATA[:1000]]


def test_peeking_detects_that_the_file_has_shrunk() -> None:
    window = Window(ShrunkSource(DATA[:1000], len(DATA)))
    assert window.peek(5000, 61) == b""
    assert window.end == 5000
    assert window.peek(990, 61) == DATA[990:1000]
    assert window.end == 1000
