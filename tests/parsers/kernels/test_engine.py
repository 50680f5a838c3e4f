"""The engine: blocks and their borders, full outputs, threads, errors and early ends."""

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
from kforensics.parsers.kernels.engine import Block, Engine, MappedMemory
from kforensics.parsers.kernels.library import Kernels, Request, load_kernels
from kforensics.parsers.kernels.request import SLOT
from kforensics.parsers.kernels.templates import Template
from lab.places import ROOT
from tests.parsers.builders import GZIP, LZ4, SNAPPY, ZSTD, batch, batch_of, batches, record

BATCH, RECORD = Template(["batch {base_offset} at {position}\n"], {}), Template(["record {offset}\n"], {})
ROOM = 1 << 20
every_number_of_workers = pytest.mark.parametrize("workers", [0, 1, 2, 4])


class OffsetLines:
    """A task that writes a line for each batch and each record.

    Args:
        room: bytes for text.
        gaps: capacity for pairs of offsets.
    """

    def __init__(self, room: int = ROOM, gaps: int = 100) -> None:
        self._room, self._gaps = room, gaps

    def prepare(self, request: Request) -> tuple[MappedMemory, MappedMemory]:
        """Set up memory for text and for gaps."""
        text, gaps = MappedMemory(self._room), MappedMemory(16 * self._gaps)
        request[SLOT.out], request[SLOT.out_size] = text.address, text.size
        request[SLOT.gaps], request[SLOT.gaps_capacity] = gaps.address, self._gaps
        request[SLOT.batch_ops], request[SLOT.batch_margin] = BATCH.address, BATCH.margin
        request[SLOT.record_ops], request[SLOT.control_ops], request[SLOT.record_margin] = (
            RECORD.address,
            RECORD.address,
            RECORD.margin,
        )
        return text, gaps

    def kernel(self, compiled: Kernels) -> Callable[[int], int]:
        """Return the kernel that writes lines."""
        return compiled.lines


class Failing(OffsetLines):
    """A task whose kernel raises, which real kernels do not."""

    def kernel(self, _compiled: Kernels) -> Callable[[int], int]:
        """Return a kernel that raises."""

        def raises(_request: int) -> int:
            raise ZeroDivisionError

        return raises


@pytest.fixture(scope="module")
def compiled() -> Kernels:
    """Return the kernels."""
    kernels = load_kernels()
    assert kernels, "the kernels cannot be compiled here"
    return kernels


@pytest.fixture
def small_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read so little at a time that small segments have many blocks."""
    monkeypatch.setattr(module, "FIRST_READ", 200)
    monkeypatch.setattr(module, "READ", 300)


@pytest.fixture(autouse=True)
def _no_thread_survives() -> Iterator[None]:
    """Fail if a thread of the engine outlives a test."""
    before = set(threading.enumerate())
    yield
    for thread in set(threading.enumerate()) - before:
        thread.join(10)
        assert not thread.is_alive()


def text_converter(block: Block) -> str:
    """Return the lines in a block."""
    return str(block.output[0].view[: block.request[SLOT.written]], "ascii")


def taken(engine: Engine, position: int = 0, refused_sizes: int = 0) -> list[str]:
    """Return the lines of each block, and close the engine."""
    try:
        return [text_converter(block) for block in engine.blocks(position, refused_sizes)]
    finally:
        engine.close()


def lines(parts: list[bytes], first: int = 0) -> str:
    """Return the lines of batches that ``batches`` has built, with two records each."""
    starts = [0, *accumulate(map(len, parts))]
    texts = (f"batch {2 * n} at {starts[n]}\nrecord {2 * n}\nrecord {2 * n + 1}\n" for n in range(len(parts)))
    return "".join(list(texts)[first:])


@pytest.fixture(params=CODECS)
def parts(request: pytest.FixtureRequest) -> list[bytes]:
    """Return batches of each codec."""
    return batches(40, codec=CODECS.index(request.param))


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_blocks_end_where_batches_end(compiled: Kernels, parts: list[bytes], workers: int) -> None:
    """With any number of threads, each batch comes once and in order, and each block begins and ends with a batch."""
    data = b"".join(parts)
    engine = Engine(compiled, OffsetLines(), BytesSource(data), workers=workers)
    texts = taken(engine)
    assert "".join(texts) == lines(parts)
    assert len(texts) > 10
    assert all(text.startswith("batch ") for text in texts)
    assert engine.position == len(data)


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_reading_may_begin_and_end_at_any_batch(compiled: Kernels, workers: int) -> None:
    parts = batches(12)
    starts = [0, *accumulate(map(len, parts))]
    for first in range(12):
        for cut in (0, 1, 30):
            engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), starts[10] + cut, workers)
            assert "".join(taken(engine, starts[first])) == lines(parts[:10], first)
            assert engine.position == starts[max(10, first)]


@pytest.mark.parametrize("size", [150, 199, 200, 201, 299, 300, 301, 900, 5000])
@pytest.mark.usefixtures("small_reads")
def test_a_batch_larger_than_a_read_is_read_completely(compiled: Kernels, size: int) -> None:
    parts = [*batches(3), batch(record(0, None, bytes(size)), record(1), base_offset=6), *batches(3, first=4)]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=2)
    assert "".join(taken(engine)) == lines(parts)


@every_number_of_workers
@pytest.mark.usefixtures("small_reads")
def test_a_batch_larger_than_any_block_is_declined(
    compiled: Kernels, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_BATCH_BYTES", 1000)
    parts = [*batches(3), batch(record(0, None, bytes(1000)), record(1), base_offset=6), *batches(3, first=4)]
    starts = [0, *accumulate(map(len, parts))]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=workers)
    assert "".join(text_converter(block) for block in engine.blocks(0)) == lines(parts[:3])
    assert engine.position == starts[3]
    assert list(engine.blocks(starts[3])) == []
    assert engine.position == starts[3]
    assert "".join(taken(engine, starts[4])) == lines(parts, 4)
    assert engine.position == starts[-1]


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODECS[1:])
def test_a_batch_above_the_decompression_limit_is_declined(
    compiled: Kernels, codec: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MAX_DECOMPRESSED_BYTES", 1000)
    parts = [*batches(2, codec=codec), batch(record(0, None, bytes(1000)), base_offset=4, codec=codec)]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=0)
    assert "".join(taken(engine)) == lines(parts[:2])
    assert engine.position == sum(map(len, parts[:2]))


@every_number_of_workers
def test_text_that_does_not_fit_at_once_comes_in_parts(compiled: Kernels, parts: list[bytes], workers: int) -> None:
    """There is room for some batches only; the rest of a block is processed again, including decompression."""
    for room in (600, 700, 1000):
        engine = Engine(compiled, OffsetLines(room), BytesSource(b"".join(parts)), workers=workers)
        texts = taken(engine)
        assert "".join(texts) == lines(parts)
        assert len(texts) > 1
        assert all(0 < len(text) <= room for text in texts)


def test_a_batch_whose_text_never_fits_is_declined(compiled: Kernels) -> None:
    many = batch(*(record(n) for n in range(200)), base_offset=6)
    data = b"".join([*batches(3), many])
    engine = Engine(compiled, OffsetLines(1500), BytesSource(data), workers=0)
    assert "".join(taken(engine)) == lines(batches(3))
    assert engine.position == len(data) - len(many)


def test_gaps_that_do_not_fit_come_in_parts(compiled: Kernels) -> None:
    """A batch with more gaps than fit at all is declined."""
    parts = [batch(record(0), record(2), base_offset=3 * n) for n in range(10)]
    wild = batch(*(record(2 * n) for n in range(7)), base_offset=90)
    data = b"".join([*parts, wild])
    engine = Engine(compiled, OffsetLines(gaps=4), BytesSource(data), workers=0)
    outputs = []
    for block in engine.blocks(0):
        numbers = block.output[1].view[: 16 * block.request[SLOT.gap_count]].cast("q").tolist()
        outputs.append(
            (
                block.request[SLOT.batches],
                block.request[SLOT.records],
                list(zip(numbers[::2], numbers[1::2], strict=True)),
            )
        )
    assert [batch_count for batch_count, _, _ in outputs] == [4, 4, 2]
    assert [record_count for _, record_count, _ in outputs] == [8, 8, 4]
    assert [gap for _, _, gaps in outputs for gap in gaps] == [(3 * n, 3 * n + 2) for n in range(10)]
    assert engine.position == len(data) - len(wild)


@every_number_of_workers
@pytest.mark.parametrize("broken", range(0, 40, 3))
@pytest.mark.usefixtures("small_reads")
def test_the_engine_stops_before_a_batch_that_a_kernel_declines(compiled: Kernels, workers: int, broken: int) -> None:
    """It can continue after that batch."""
    parts = batches(40, codec=ZSTD)
    parts[broken] = batch(record(), base_offset=2 * broken, crc=5)
    starts = [0, *accumulate(map(len, parts))]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=workers)
    assert "".join(text_converter(block) for block in engine.blocks(0)) == lines(parts[:broken])
    assert engine.position == starts[broken]
    assert "".join(taken(engine, starts[broken + 1])) == lines(parts, broken + 1)


@pytest.mark.parametrize("codec", [GZIP, SNAPPY, LZ4, ZSTD], ids=CODECS[1:])
def test_a_corrupt_stream_is_declined_and_ends_its_block(compiled: Kernels, codec: int) -> None:
    parts = [
        *batches(3, codec=codec),
        batch_of(b"no stream of any codec at all", attributes=codec, count=1, base_offset=6),
    ]
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join([*parts, *batches(3)])), workers=2)
    assert "".join(taken(engine)) == lines(parts[:3])
    assert engine.position == sum(map(len, parts[:3]))


def test_sizes_that_must_not_be_checksummed_are_declined(compiled: Kernels) -> None:
    """Small batches are always checksummed."""
    large = batch(record(0, None, bytes(2 << 14)), record(1), base_offset=4)
    parts = [*batches(2), large, *batches(2, first=3)]
    source = BytesSource(b"".join(parts))
    bit = 1 << len(large).bit_length()
    assert "".join(taken(Engine(compiled, OffsetLines(), source, workers=2))) == lines(parts)
    assert "".join(taken(Engine(compiled, OffsetLines(), source, workers=2), refused_sizes=~bit)) == lines(parts)
    engine = Engine(compiled, OffsetLines(), source, workers=2)
    assert "".join(taken(engine, refused_sizes=bit)) == lines(parts[:2])
    assert engine.position == sum(map(len, parts[:2]))


@pytest.mark.parametrize("workers", [0, 2, 4])
@pytest.mark.parametrize("count", [0, 1, 3])
@pytest.mark.usefixtures("small_reads")
def test_the_caller_may_stop_early(compiled: Kernels, workers: int, count: int) -> None:
    """No thread survives and all blocks in progress are returned, so the engine can be used again."""
    parts = batches(40)
    engine = Engine(compiled, OffsetLines(), BytesSource(b"".join(parts)), workers=workers)
    blocks = engine.blocks(0)
    for _ in range(count):
        next(blocks)
    blocks.close()  # type: ignore[attr-defined]  # it is a generator
    assert "".join(taken(engine)) == lines(parts)


def test_an_empty_log_has_no_blocks(compiled: Kernels) -> None:
    engine = Engine(compiled, OffsetLines(), BytesSource(b""))
    assert taken(engine) == []
    assert engine.position == 0


@pytest.mark.parametrize("workers", [0, 2])
def test_a_start_after_the_end_has_no_blocks(compiled: Kernels, workers: int) -> None:
    data = b"".join(batches(3))
    engine = Engine(compiled, OffsetLines(), BytesSource(data), 70, workers)
    assert taken(engine, 83) == []
    assert engine.position == 83


class Shrinking(BytesSource):
    """A source that becomes shorter after some reads, although its size stays the same."""

    def __init__(self, data: bytes, reads: int, left: int) -> None:
        super().__init__(data)
        self.reads, self.left = reads, left

    def read_into(self, position: int, target: memoryview) -> int:
        """Copy the remaining bytes."""
        self.reads -= 1
        if self.reads < 0:
            self.data = self.data[: self.left]
        return super().read_into(position, target)


@every_number_of_workers
@pytest.mark.parametrize("reads", [0, 1, 2, 5])
@pytest.mark.usefixtures("small_reads")
def test_a_shrinking_source_ends_where_its_bytes_end(compiled: Kernels, workers: int, reads: int) -> None:
    """Bytes of an earlier block that are still in memory are not mistaken for the log."""
    parts = batches(40)
    starts = [0, *accumulate(map(len, parts))]
    source = Shrinking(b"".join(parts), reads, starts[20] + 33)
    engine = Engine(compiled, OffsetLines(), source, workers=workers)
    assert "".join(taken(engine)) == lines(parts[:20])
    assert engine.position == starts[20]


class Unreadable(BytesSource):
    """A source that cannot be read after some position."""

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
    """Otherwise the caller would wait forever."""
    engine = Engine(compiled, Failing(), BytesSource(b"".join(batches(40))), workers=workers)
    with pytest.raises(ZeroDivisionError):
        taken(engine)


def test_one_thread_per_processor_up_to_the_maximum(compiled: Kernels, monkeypatch: pytest.MonkeyPatch) -> None:
    """One processor needs no thread, nor does a log that fits into one read."""
    source: Source = BytesSource(bytes(module.FIRST_READ + 1))
    for processors, threads in ((1, 0), (2, 2), (64, module.MAX_WORKERS)):
        available: Any = set(range(processors))
        monkeypatch.setattr("os.sched_getaffinity", lambda _process, available=available: available)
        engine = Engine(compiled, OffsetLines(), source)
        assert list(engine.blocks(0)) == []
        assert len(engine._threads) == threads
        engine.close()


def test_any_number_of_workers_reads_large_logs_alike(compiled: Kernels) -> None:
    """Several MB of every codec, in blocks of the real size."""
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
    texts = {
        workers: "".join(taken(Engine(compiled, OffsetLines(), BytesSource(data), workers=workers)))
        for workers in (0, 2, 4)
    }
    assert texts[0] == texts[2] == texts[4]
    assert texts[0].count("record ") == offset
    assert texts[0].count("batch ") == len(parts)


def test_kernels_never_read_far_past_their_input() -> None:
    """Hostile segments in memory whose end, 64 bytes after the segment, is followed by an inaccessible page."""
    command = [sys.executable, "-m", "tests.parsers.kernels.fenced", "4000"]
    root = ROOT
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    counts = {name: int(count) for count, name in (line.split(" ", 1) for line in done.stdout.splitlines())}
    assert set(counts) == {"done", "incomplete", "full", "declined", "needs host codec"}
    assert all(count > 30 for count in counts.values()), counts
