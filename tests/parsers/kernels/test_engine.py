"""The engine: blocks, their borders, what does not fit, who works, and how it ends."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import accumulate
from typing import Any

import pytest

from kforensics.errors import InputError
from kforensics.parsers.files.source import BytesSource, Source
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels import engine as module
from kforensics.parsers.kernels.engine import Area, Block, Engine
from kforensics.parsers.kernels.headers import SMALL
from kforensics.parsers.kernels.library import Kernels, Request, kernels
from kforensics.parsers.kernels.request import (
    BATCH_MARGIN,
    BATCH_OPS,
    BATCHES,
    CONTROL_OPS,
    GAPS,
    GAPS_FOUND,
    GAPS_ROOM,
    OUT,
    OUT_SIZE,
    RECORD_MARGIN,
    RECORD_OPS,
    RECORDS,
    WRITTEN,
)
from kforensics.parsers.kernels.templates import Template
from lab.places import ROOT
from tests.parsers.builders import GZIP, LZ4, SNAPPY, ZSTD, batch, batch_of, batches, record

BATCH, RECORD = Template(["batch {base_offset} at {position}\n"], {}), Template(["record {offset}\n"], {})
ROOM = 1 << 20
every_number_of_workers = pytest.mark.parametrize("workers", [0, 1, 2, 4])


class OffsetLines:
    """A task: a line for each batch and each record.

    Args:
        room: bytes for text.
        gaps: pairs of offsets there is room for.
    """

    def __init__(self, room: int = ROOM, gaps: int = 100) -> None:
        self._room, self._gaps = room, gaps

    def prepare(self, request: Request) -> tuple[Area, Area]:
        """Give the kernel a place for text and one for gaps."""
        text, gaps = Area(self._room), Area(16 * self._gaps)
        request[OUT], request[OUT_SIZE] = text.address, text.size
        request[GAPS], request[GAPS_ROOM] = gaps.address, self._gaps
        request[BATCH_OPS], request[BATCH_MARGIN] = BATCH.address, BATCH.margin
        request[RECORD_OPS], request[CONTROL_OPS], request[RECORD_MARGIN] = (
            RECORD.address,
            RECORD.address,
            RECORD.margin,
        )
        return text, gaps

    def kernel(self, compiled: Kernels) -> Callable[[int], int]:
        """Return the kernel that writes lines."""
        return compiled.lines


class Failing(OffsetLines):
    """A task whose kernel raises, which none of ours does."""

    def kernel(self, _compiled: Kernels) -> Callable[[int], int]:
        """Return what raises."""

        def raises(_request: int) -> int:
            raise ZeroDivisionError

        return raises


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    """Return the kernels."""
    found = kernels()
    assert found, "the kernels cannot be compiled here"
    return found


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in such small pieces that small segments have many blocks."""
    monkeypatch.setattr(module, "FIRST_READ", 200)
    monkeypatch.setattr(module, "READ", 300)


@pytest.fixture(autouse=True)
def _no_thread_is_left() -> Iterator[None]:
    """Fail where a thread of the engine outlives a test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def text_of(block: Block) -> str:
    """Return the lines in a block."""
    return str(block.output[0].view[: block.request[WRITTEN]], "ascii")


def taken(engine: Engine, position: int = 0, refused_sizes: int = 0) -> list[str]:
    """Return the lines of each block, having closed the engine."""
    try:
        return [text_of(block) for block in engine.blocks(position, refused_sizes)]
    finally:
        engine.close()


def lines(parts: list[bytes], first: int = 0) -> str:
    """Return the lines of batches as ``batches`` builds them, of two records each."""
    starts = [0, *accumulate(map(len, parts))]
    texts = (f"batch {2 * n} at {starts[n]}\nrecord {2 * n}\nrecord {2 * n + 1}\n" for n in range(len(parts)))
    return "".join(list(texts)[first:])


@pytest.fixture(params=CODECS)
def parts(request: pytest.FixtureRequest) -> list[bytes]:
    """Return batches of each codec in turn."""
    return batches(40, codec=CODECS.index(request.param))


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_blocks_are_cut_where_batches_end(compiled: Kernels, parts: list[bytes], workers: int) -> None:
    """Whoever works, all batches are there once and in order, and each block begins and ends with a batch."""
    data = b"".join(parts)
    engine = Engine(compiled, OffsetLines(), BytesSource(data), workers=workers)
    found = taken(engine)
    assert "".join(found) == lines(parts)
    assert len(found) > 10
    assert all(text.startswith("batch ") for text in found)
    assert engine.position == len(data)


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_a_walk_may_begin_and_end_at_any_batch(compiled: Kernels, workers: int) -> None:
    parts = batches(12)
    starts = [0, *accumulate(map(len, parts))]
    for first in range(12):
        for cut in (0, 1, 30):
            engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), starts[10] + cut, workers)
            assert "".join(taken(engine, starts[first])) == lines(parts[:10], first)
            assert engine.position == starts[max(10, first)]


@pytest.mark.parametrize("size", [150, 199, 200, 201, 299, 300, 301, 900, 5000])
@pytest.mark.usefixtures("small_reads")
def test_a_batch_larger_than_a_read_is_read_whole(compiled: Kernels, size: int) -> None:
    parts = [*batches(3), batch(record(0, None, bytes(size)), record(1), base_offset=6), *batches(3, first=4)]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=2)
    assert "".join(taken(engine)) == lines(parts)


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_a_batch_larger_than_any_block_is_left_to_others(
    compiled: Kernels, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LARGEST", 1000)
    parts = [*batches(3), batch(record(0, None, bytes(1000)), record(1), base_offset=6), *batches(3, first=4)]
    starts = [0, *accumulate(map(len, parts))]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=workers)
    assert "".join(text_of(block) for block in engine.blocks(0)) == lines(parts[:3])
    assert engine.position == starts[3]
    assert list(engine.blocks(starts[3])) == []
    assert engine.position == starts[3]
    assert "".join(taken(engine, starts[4])) == lines(parts, 4)
    assert engine.position == starts[-1]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODECS[1:])
def test_more_than_is_decompressed_is_left_to_others(
    compiled: Kernels, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "DECOMPRESSED", 1000)
    parts = [*batches(2, codec=codec), batch(record(0, None, bytes(1000)), base_offset=4, codec=codec)]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=0)
    assert "".join(taken(engine)) == lines(parts[:2])
    assert engine.position == sum(map(len, parts[:2]))


@every_number_of_workers
def test_text_that_does_not_fit_at_once_comes_in_pieces(compiled: Kernels, parts: list[bytes], workers: int) -> None:
    """The room is for some batches; what is left of a block is worked at anew, its records decompressed again."""
    for room in (600, 700, 1000):
        engine = Engine(compiled, OffsetLines(room), BytesSource(b"".join(parts)), workers=workers)
        found = taken(engine)
        assert "".join(found) == lines(parts)
        assert len(found) > 1
        assert all(0 < len(text) <= room for text in found)


def test_a_batch_whose_text_never_fits_is_left_to_others(compiled: Kernels) -> None:
    many = batch(*(record(n) for n in range(200)), base_offset=6)
    data = b"".join([*batches(3), many])
    engine = Engine(compiled, OffsetLines(1500), BytesSource(data), workers=0)
    assert "".join(taken(engine)) == lines(batches(3))
    assert engine.position == len(data) - len(many)


def test_gaps_that_do_not_fit_come_in_pieces(compiled: Kernels) -> None:
    """A batch with more gaps than there is room for is left to others."""
    parts = [batch(record(0), record(2), base_offset=3 * n) for n in range(10)]
    wild = batch(*(record(2 * n) for n in range(7)), base_offset=90)
    data = b"".join([*parts, wild])
    engine = Engine(compiled, OffsetLines(gaps=4), BytesSource(data), workers=0)
    found = []
    for block in engine.blocks(0):
        numbers = block.output[1].view[: 16 * block.request[GAPS_FOUND]].cast("q").tolist()
        found.append(
            (block.request[BATCHES], block.request[RECORDS], list(zip(numbers[::2], numbers[1::2], strict=True)))
        )
    assert [batch_count for batch_count, _, _ in found] == [4, 4, 2]
    assert [record_count for _, record_count, _ in found] == [8, 8, 4]
    assert [gap for _, _, gaps in found for gap in gaps] == [(3 * n, 3 * n + 2) for n in range(10)]
    assert engine.position == len(data) - len(wild)


@every_number_of_workers
@pytest.mark.parametrize("broken", range(0, 40, 3))
@pytest.mark.usefixtures("small_reads")
def test_the_engine_stops_in_front_of_what_a_kernel_refuses(compiled: Kernels, workers: int, broken: int) -> None:
    """And goes on behind it when told to."""
    parts = batches(40, codec=ZSTD)
    parts[broken] = batch(record(), base_offset=2 * broken, crc=5)
    starts = [0, *accumulate(map(len, parts))]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=workers)
    assert "".join(text_of(block) for block in engine.blocks(0)) == lines(parts[:broken])
    assert engine.position == starts[broken]
    assert "".join(taken(engine, starts[broken + 1])) == lines(parts, broken + 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODECS[1:])
def test_a_broken_stream_is_refused_and_its_block_goes_no_further(compiled: Kernels, codec: int) -> None:
    parts = [
        *batches(3, codec=codec),
        batch_of(b"no stream of any codec at all", attributes=codec, count=1, base_offset=6),
    ]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join([*parts, *batches(3)])), workers=2)
    assert "".join(taken(engine)) == lines(parts[:3])
    assert engine.position == sum(map(len, parts[:3]))


def test_sizes_that_may_not_be_summed_are_refused(compiled: Kernels) -> None:
    """Small batches are summed whatever the bits say."""
    large = batch(record(0, None, bytes(2 * SMALL)), record(1), base_offset=4)
    parts = [*batches(2), large, *batches(2, first=3)]
    source = BytesSource(b"".join(parts))
    bit = 1 << len(large).bit_length()
    assert "".join(taken(Engine(compiled, OffsetLines(), source, workers=2))) == lines(parts)
    assert "".join(taken(Engine(compiled, OffsetLines(), source, workers=2), refused_sizes=~bit)) == lines(parts)
    engine = Engine(compiled, OffsetLines(), source, workers=2)
    assert "".join(taken(engine, refused_sizes=bit)) == lines(parts[:2])
    assert engine.position == sum(map(len, parts[:2]))


@pytest.mark.parametrize("workers", [0, 2, 4])
@pytest.mark.parametrize("wanted", [0, 1, 3])
@pytest.mark.usefixtures("small_reads")
def test_whoever_reads_may_stop_early(compiled: Kernels, workers: int, wanted: int) -> None:
    """No thread outlives it, and the blocks under way are all given back: the engine can be used again."""
    parts = batches(40)
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=workers)
    blocks = engine.blocks(0)
    for _ in range(wanted):
        next(blocks)
    blocks.close()  # type: ignore[attr-defined]  # it is a generator
    assert "".join(taken(engine)) == lines(parts)


def test_an_empty_log_has_no_blocks(compiled: Kernels) -> None:
    engine = Engine(compiled, OffsetLines(), BytesSource(b""))
    assert taken(engine) == []
    assert engine.position == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_start_behind_the_end_has_no_blocks(compiled: Kernels, workers: int) -> None:
    data = b"".join(batches(3))
    engine = Engine(compiled, OffsetLines(), BytesSource(data), 70, workers)
    assert taken(engine, 83) == []
    assert engine.position == 83


class Shrinking(BytesSource):
    """Becomes shorter after some reads, its size still what it was."""

    def __init__(self, data: bytes, reads: int, left: int) -> None:
        super().__init__(data)
        self.reads, self.left = reads, left

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy what is left."""
        self.reads -= 1
        if self.reads < 0:
            self.data = self.data[: self.left]
        return super().read_into(position, target)


@every_number_of_workers
@pytest.mark.parametrize("reads", [0, 1, 2, 5])
@pytest.mark.usefixtures("small_reads")
def test_a_source_that_shrinks_ends_where_it_ends(compiled: Kernels, workers: int, reads: int) -> None:
    """Bytes of an earlier block that are still in memory are not taken for the log's."""
    parts = batches(40)
    starts = [0, *accumulate(map(len, parts))]
    source = Shrinking(b"".join(parts), reads, starts[20] + 33)
    engine = Engine(compiled, OffsetLines(), source, workers=workers)
    assert "".join(taken(engine)) == lines(parts[:20])
    assert engine.position == starts[20]


class Unreadable(BytesSource):
    """Cannot be read from some position on."""

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy, or fail."""
        if position > 1000:
            raise InputError("a.log", "reading failed")
        return super().read_into(position, target)


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_an_error_of_the_source_reaches_the_caller(compiled: Kernels, workers: int) -> None:
    engine = Engine(compiled, OffsetLines(), Unreadable(b"".join(batches(40))), workers=workers)
    with pytest.raises(InputError, match="reading failed"):
        taken(engine)


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_an_error_in_a_thread_reaches_the_caller(compiled: Kernels, workers: int) -> None:
    """Else the caller would wait for ever."""
    engine = Engine(compiled, Failing(), BytesSource(b"".join(batches(40))), workers=workers)
    with pytest.raises(ZeroDivisionError):
        taken(engine)


def test_as_many_threads_as_processors_but_few(compiled: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """One processor needs no thread, nor does a log that is read at once."""
    source: Source = BytesSource(bytes(module.FIRST_READ + 1))
    for processors, threads in ((1, 0), (2, 2), (64, module.MOST_WORKERS)):
        available: Any = set(range(processors))
        monkeypatch.setattr("os.sched_getaffinity", lambda _process, available=available: available)
        engine = Engine(compiled, OffsetLines(), source)
        assert list(engine.blocks(0)) == []
        assert len(engine._threads) == threads
        engine.close()


def test_large_logs_are_read_alike_by_any_number_of_workers(compiled: Kernels) -> None:
    """Several MB in blocks as they are, of every codec."""
    dice = random.Random(9)  # noqa: S311 - dice for a test
    parts, offset = [], 0
    for n in range(400):
        values = [
            record(delta, b"key", dice.randbytes(40) * dice.randint(1, 40)) for delta in range(dice.randint(1, 60))
        ]
        parts.append(batch(*values, base_offset=offset, codec=n % len(CODECS)))
        offset += len(values)
    data = b"".join(parts)
    assert len(data) > 2 * module.READ
    found = {
        workers: "".join(taken(Engine(compiled, OffsetLines(), BytesSource(data), workers=workers)))
        for workers in (0, 2, 4)
    }
    assert found[0] == found[2] == found[4]
    assert found[0].count("record ") == offset
    assert found[0].count("batch ") == len(parts)


def test_kernels_never_look_far_behind_what_they_are_given() -> None:
    """Hostile segments, each in memory that ends the process 64 bytes behind it."""
    command = [sys.executable, "-m", "tests.parsers.kernels.fenced", "4000"]
    root = ROOT
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    counts = dict(line.split() for line in done.stdout.splitlines())
    assert set(counts) == {"done", "more", "full", "refused", "outside"}
    assert all(int(count) > 30 for count in counts.values()), counts
