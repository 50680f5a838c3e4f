"""Helpers for reader tests: coverage of every byte, damaged files, and files too large for memory."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from hypothesis import strategies as st

from kforensics.parsers.files.source import BytesSource, Source
from kforensics.parsers.format.rows import Damage

Reader = Callable[[Source], Iterable[Any]]


def rows_of(reader: Reader, data: bytes) -> list[Any]:
    """Return the rows of a file, after checking that they cover every byte once and in order."""
    rows = list(reader(BytesSource(data, "f")))
    check_cover(rows, len(data))
    return rows


def check_cover(rows: Iterable[Any], size: int) -> None:
    """Fail unless rows and damage cover a file of this size without gap or overlap."""
    reached = 0
    for row in rows:
        start, end = (row.start, row.end) if isinstance(row, Damage) else (row.position, row.position + row.size)
        assert start == reached, f"a gap or an overlap at {reached}: {row}"
        assert end >= start
        reached = end
    assert reached == size


def prefixes(data: bytes) -> Iterator[bytes]:
    """Yield the file cut at every length."""
    return (data[:length] for length in range(len(data) + 1))


def reasons(rows: Iterable[Any]) -> list[str]:
    """Return the reasons of the damage rows."""
    return [row.reason for row in rows if isinstance(row, Damage)]


@st.composite
def mutated(draw: st.DrawFn, data: bytes) -> bytes:
    """Draw a damaged form of a file: bytes changed, removed or inserted, zeros or noise appended."""
    content = bytearray(data)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(content)))
        kind = draw(st.sampled_from(("change", "remove", "insert", "zero", "tail")))
        if kind == "change" and at < len(content):
            content[at] = draw(st.integers(0, 255))
        elif kind == "remove":
            del content[at : at + draw(st.integers(1, 12))]
        elif kind == "insert":
            content[at:at] = draw(st.binary(max_size=12))
        elif kind == "zero":
            stop = min(len(content), at + draw(st.integers(1, 40)))
            content[at:stop] = bytes(stop - at)
        else:
            content += draw(st.sampled_from((bytes(64), bytes(5), b"\xff" * 9)))
    return bytes(content)


class WideSource(BytesSource):
    """A file that is zeros except for its beginning; records the largest read."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data, "wide")
        self.size, self.largest_read = size, 0

    def read(self, position: int, length: int) -> bytes:
        """Return the bytes of a range."""
        length = max(0, min(length, self.size - position))
        self.largest_read = max(self.largest_read, length)
        return super().read(position, length).ljust(length, b"\0")


class ShrunkSource(BytesSource):
    """A file that has been truncated since it was opened."""

    def __init__(self, data: bytes, size: int) -> None:
        super().__init__(data, "shrunk")
        self.size = size
