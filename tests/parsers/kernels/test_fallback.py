"""Kernels and plain Python in turns: who goes when, and that nothing is lost between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels import fallback as module
from kforensics.parsers.kernels.engine import Block, Engine
from kforensics.parsers.kernels.fallback import in_turns
from kforensics.parsers.kernels.library import Kernels, kernels
from kforensics.parsers.kernels.request import BATCHES, STOP
from kforensics.parsers.log.batches import Walk, walk
from tests.parsers.builders import batch, batches, message, record
from tests.parsers.kernels.test_engine import OffsetLines, Shrinking


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    """Return the kernels."""
    found = kernels()
    assert found, "the kernels cannot be compiled here"
    return found


class Counted(Engine):
    """Remembers from where it was asked for blocks."""

    def __init__(self, compiled: Kernels, source: BytesSource) -> None:
        super().__init__(compiled, OffsetLines(), source, workers=0)
        self.asked: list[tuple[int, int]] = []

    def blocks(self, position: int, refused_sizes: int = 0) -> Iterator[Block]:
        """Note the question."""
        self.asked.append((position, refused_sizes))
        return super().blocks(position, refused_sizes)


def turned(compiled: Kernels, source: BytesSource) -> tuple[list[tuple[int, int]], list[int], list[Batch | Damage]]:
    """Return the ranges that kernels took, where they were asked to begin, and the rows of plain Python."""
    engine = Counted(compiled, source)
    ranges, rows = [], []
    for found in in_turns(Walk(source), engine):
        if isinstance(found, Block):
            assert found.request[BATCHES] > 0
            ranges.append((found.position, found.position + found.request[STOP]))
        else:
            rows.append(found)
    return ranges, [position for position, _ in engine.asked], rows


def test_a_sound_log_is_for_kernels_alone(compiled: Kernels) -> None:
    data = b"".join(batches(9))
    assert turned(compiled, BytesSource(data)) == ([(0, len(data))], [0], [])


def test_plain_python_takes_one_step_past_what_kernels_refuse(compiled: Kernels) -> None:
    """As long as kernels come to something in between, one step is enough."""
    parts = batches(9)
    for place in (2, 4, 6):
        parts[place] = message(2 * place)
    starts = [sum(map(len, parts[:n])) for n in range(10)]
    ranges, asked, rows = turned(compiled, BytesSource(b"".join(parts)))
    assert ranges == [(starts[first], starts[end]) for first, end in ((0, 2), (3, 4), (5, 6), (7, 9))]
    assert asked == [starts[first] for first in (0, 3, 5, 7)]
    assert [row.position for row in rows if isinstance(row, Batch)] == [starts[place] for place in (2, 4, 6)]


def test_turns_of_plain_python_grow_where_kernels_come_to_nothing(
    compiled: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of an old format costs few tries; the turns shrink at once when kernels take something again."""
    monkeypatch.setattr(module, "MOST_STEPS", 16)
    old = [message(n) for n in range(70)]
    new = batches(3, first=40)
    data = b"".join([*old, *new, *old[:3], *new])
    size = len(old[0])
    _, asked, rows = turned(compiled, BytesSource(data))
    steps = [0, 2, 6, 14, 30, 46, 62]
    assert asked[: len(steps)] == [step * size for step in steps]
    assert (asked[len(steps)] - 70 * size) in range(-16 * size, 16 * len(new[0]))
    found = [row for row in rows if isinstance(row, Batch)]
    assert [row.magic for row in found[:70]] == [1] * 70


def test_turns_begin_anew_behind_a_success(compiled: Kernels) -> None:
    """Three damaged batches cost a turn of two and a try each time, not more and more."""
    good, bad = batches(2), [batch(record(), base_offset=9, crc=1)] * 3
    parts = [*good, *bad, *good, *good, *bad, *good, *good]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    _, asked, _ = turned(compiled, BytesSource(b"".join(parts)))
    assert [starts.index(position) for position in asked] == [0, 3, 5, 10, 12]


def test_what_stands_between_blocks_is_what_a_walk_finds(compiled: Kernels) -> None:
    """The ranges of both cover the log in order, and damage is the same as without kernels."""
    parts = [*batches(3), b"noise" * 30, *batches(2, first=3), bytes(100), message(9), *batches(3, first=5), b"\0" * 40]
    source = BytesSource(b"".join(parts))
    expected = list(walk(source))
    ranges, _, rows = turned(compiled, source)
    assert [row for row in expected if isinstance(row, Damage)] == [row for row in rows if isinstance(row, Damage)]
    spans = [(row.start, row.end) for row in rows if isinstance(row, Damage) and row.inside_batch is None]
    spans += [(row.position, row.position + row.size) for row in rows if isinstance(row, Batch)]
    covered = sorted([*spans, *ranges])
    assert [start for start, _ in covered] == [0, *(end for _, end in covered[:-1])]
    assert covered[-1][1] == source.size


def test_kernels_are_told_which_sizes_are_refused(compiled: Kernels) -> None:
    class Tired(Walk):
        """A walk that sums no more batches of one order of size."""

        refused_sizes = 1 << 17

    source = BytesSource(b"".join([*batches(2), batch(record(value=bytes(70_000)), base_offset=4)]))
    engine = Counted(compiled, source)
    kinds = [type(row) for row in in_turns(Tired(source), engine)]
    assert kinds == [Block, Batch]
    assert {refused for _, refused in engine.asked} == {1 << 17}


def test_a_log_that_shrinks_ends_as_without_kernels(compiled: Kernels) -> None:
    parts = batches(6)
    source = Shrinking(b"".join(parts), 0, sum(map(len, parts[:3])) + 20)
    ranges, _, rows = turned(compiled, source)
    assert ranges == [(0, sum(map(len, parts[:3])))]
    assert [row.reason for row in rows if isinstance(row, Damage)] == [
        row.reason for row in walk(source, ranges[0][1]) if isinstance(row, Damage)
    ]


@pytest.mark.parametrize("wanted", [0, 1, 2])
def test_threads_end_with_the_rows_however_many_are_read(compiled: Kernels, wanted: int) -> None:
    before = set(threading.enumerate())
    source = BytesSource(b"".join([*batches(3), message(9), *batches(3)]))
    rows = in_turns(Walk(source), Engine(compiled, OffsetLines(), source, workers=3))
    next(rows)
    for _ in range(wanted):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # it is a generator
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
