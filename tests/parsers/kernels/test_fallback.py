"""The fallback from kernels to pure Python: when each of them reads, and that nothing is lost in between."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from kforensics.parsers.files.source import BytesSource
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.kernels import engine as module
from kforensics.parsers.kernels.engine import Block, Engine, read_with_fallback
from kforensics.parsers.kernels.library import Kernels, load_kernels
from kforensics.parsers.kernels.request import SLOT
from kforensics.parsers.log.batches import LogWalk, walk
from tests.parsers.builders import batch, batches, message, record
from tests.parsers.kernels.test_engine import OffsetLines, Shrinking


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    """Return the kernels."""
    kernels = load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    return kernels


class RecordingEngine(Engine):
    """An engine that records which blocks were requested."""

    def __init__(self, compiled: Kernels, source: BytesSource) -> None:
        super().__init__(compiled, OffsetLines(), source, workers=0)
        self.requests: list[tuple[int, int]] = []

    def blocks(self, position: int, refused_sizes: int = 0) -> Iterator[Block]:
        """Record the request."""
        self.requests.append((position, refused_sizes))
        return super().blocks(position, refused_sizes)


def read(compiled: Kernels, source: BytesSource) -> tuple[list[tuple[int, int]], list[int], list[Batch | Damage]]:
    """Return the ranges that kernels read, the positions they were requested from, and the rows of pure Python."""
    engine = RecordingEngine(compiled, source)
    ranges, rows = [], []
    for item in read_with_fallback(LogWalk(source), engine):
        if isinstance(item, Block):
            assert item.request[SLOT.batches] > 0
            ranges.append((item.position, item.position + item.request[SLOT.stop]))
        else:
            rows.append(item)
    return ranges, [position for position, _ in engine.requests], rows


def test_kernels_alone_read_a_valid_log(compiled: Kernels) -> None:
    data = b"".join(batches(9))
    assert read(compiled, BytesSource(data)) == ([(0, len(data))], [0], [])


def test_pure_python_takes_one_step_past_each_declined_batch(compiled: Kernels) -> None:
    """As long as kernels make progress in between, one step is enough."""
    parts = batches(9)
    for index in (2, 4, 6):
        parts[index] = message(2 * index)
    starts = [sum(map(len, parts[:n])) for n in range(10)]
    ranges, positions, rows = read(compiled, BytesSource(b"".join(parts)))
    assert ranges == [(starts[first], starts[end]) for first, end in ((0, 2), (3, 4), (5, 6), (7, 9))]
    assert positions == [starts[first] for first in (0, 3, 5, 7)]
    assert [row.position for row in rows if isinstance(row, Batch)] == [starts[index] for index in (2, 4, 6)]


def test_pure_python_takes_more_steps_while_kernels_make_no_progress(
    compiled: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A log of an old format costs few attempts; one step is enough again as soon as kernels make progress."""
    monkeypatch.setattr(module, "MAX_STEPS", 16)
    legacy = [message(n) for n in range(70)]
    modern = batches(3, first=40)
    data = b"".join([*legacy, *modern, *legacy[:3], *modern])
    size = len(legacy[0])
    _, positions, rows = read(compiled, BytesSource(data))
    steps = [0, 2, 6, 14, 30, 46, 62]
    assert positions[: len(steps)] == [step * size for step in steps]
    assert (positions[len(steps)] - 70 * size) in range(-16 * size, 16 * len(modern[0]))
    read_batches = [row for row in rows if isinstance(row, Batch)]
    assert [row.magic for row in read_batches[:70]] == [1] * 70


def test_the_number_of_steps_is_reset_after_progress(compiled: Kernels) -> None:
    """Three damaged batches cost one step, an attempt and two steps each time, not more and more."""
    good, bad = batches(2), [batch(record(), base_offset=9, crc=1)] * 3
    parts = [*good, *bad, *good, *good, *bad, *good, *good]
    starts = [sum(map(len, parts[:n])) for n in range(len(parts))]
    _, positions, _ = read(compiled, BytesSource(b"".join(parts)))
    assert [starts.index(position) for position in positions] == [0, 3, 5, 10, 12]


def test_rows_between_blocks_agree_with_the_walk(compiled: Kernels) -> None:
    """Blocks and rows cover the log in order, and damage is the same as without kernels."""
    parts = [*batches(3), b"noise" * 30, *batches(2, first=3), bytes(100), message(9), *batches(3, first=5), b"\0" * 40]
    source = BytesSource(b"".join(parts))
    expected = list(walk(source))
    ranges, _, rows = read(compiled, source)
    assert [row for row in expected if isinstance(row, Damage)] == [row for row in rows if isinstance(row, Damage)]
    spans = [(row.start, row.end) for row in rows if isinstance(row, Damage) and row.inside_batch is None]
    spans += [(row.position, row.position + row.size) for row in rows if isinstance(row, Batch)]
    covered = sorted([*spans, *ranges])
    assert [start for start, _ in covered] == [0, *(end for _, end in covered[:-1])]
    assert covered[-1][1] == source.size


def test_kernels_receive_the_refused_sizes(compiled: Kernels) -> None:
    class SparingWalk(LogWalk):
        """A walk that no longer checksums batches of one order of size."""

        refused_sizes = 1 << 17

    source = BytesSource(b"".join([*batches(2), batch(record(value=bytes(70_000)), base_offset=4)]))
    engine = RecordingEngine(compiled, source)
    kinds = [type(row) for row in read_with_fallback(SparingWalk(source), engine)]
    assert kinds == [Block, Batch]
    assert {refused for _, refused in engine.requests} == {1 << 17}


def test_a_shrinking_log_ends_as_without_kernels(compiled: Kernels) -> None:
    parts = batches(6)
    source = Shrinking(b"".join(parts), 0, sum(map(len, parts[:3])) + 20)
    ranges, _, rows = read(compiled, source)
    assert ranges == [(0, sum(map(len, parts[:3])))]
    assert [row.reason for row in rows if isinstance(row, Damage)] == [
        row.reason for row in walk(source, ranges[0][1]) if isinstance(row, Damage)
    ]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_threads_end_however_many_rows_are_read(compiled: Kernels, count: int) -> None:
    before = set(threading.enumerate())
    source = BytesSource(b"".join([*batches(3), message(9), *batches(3)]))
    rows = read_with_fallback(LogWalk(source), Engine(compiled, OffsetLines(), source, workers=3))
    next(rows)
    for _ in range(count):
        next(rows)
    rows.close()  # type: ignore[attr-defined]  # it is a generator
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()
