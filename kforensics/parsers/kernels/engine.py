"""Runs a kernel over a log, block by block, on several processors, and returns the blocks in order.

Blocks end where batches end. If a kernel declines a batch, the engine stops before it; `read_with_fallback` has pure
Python read it and hands the rest back to the engine.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from threading import Thread
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels.host_codecs import ZstdContext, decompress_on_host, lz4_function, zstd_function
from kforensics.parsers.kernels.library import Kernel, Kernels, Request
from kforensics.parsers.kernels.policy import MAX_DECOMPRESSED_BYTES, KernelLoader
from kforensics.parsers.kernels.request import DECLINED, NEEDS_HOST_CODEC, OUTPUT_FULL, SLACK, SLOT

if TYPE_CHECKING:
    from kforensics.parsers.kernels.block_filter import BlockFilter

__all__ = ["Block", "Engine", "KernelTask", "MappedMemory", "PythonReader", "read_with_fallback"]

# Bytes per read. The first reads are small, so that little work is lost if a kernel declines a batch.
FIRST_READ, READ = 1 << 16, 1 << 20
# The largest batch that kernels are given.
MAX_BATCH_BYTES = 1 << 22
MAX_WORKERS = 4


class MappedMemory:
    """Memory at a fixed address. Pages that are never touched cost nothing.

    Attributes:
        address: of its first byte.
        size: bytes, without the slack after them.
        view: the bytes.
    """

    def __init__(self, size: int) -> None:
        self._pages = mmap.mmap(-1, size + SLACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self.view = memoryview(self._pages)


class KernelTask(Protocol):
    """What to do with each block of a log."""

    def prepare(self, request: Request) -> Any:
        """Set what the kernel needs in a block's request; the return value is kept as ``Block.output``."""

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel to run."""


class Block:
    """A range of a log and the kernel's output for it.

    Attributes:
        request: the kernel's answer.
        output: what the task prepared.
        position: of the block's first byte in the log.
        size: bytes that were read.
        done: receives None, or an exception, when the kernel has finished.
        selection: which batches are selected, for the filter.
    """

    headers: MappedMemory
    selected: MappedMemory
    selection: Any = None

    def __init__(self, task: KernelTask, block_filter: BlockFilter | None = None) -> None:
        self.request = Request()
        self.area, self._scratch = MappedMemory(MAX_BATCH_BYTES), MappedMemory(MAX_DECOMPRESSED_BYTES)
        self.position = self.size = 0
        self.done: SimpleQueue[Exception | None] = SimpleQueue()
        self.request[SLOT.data] = self.area.address
        self.request[SLOT.lz4_function] = lz4_function()
        self.request[SLOT.scratch], self.request[SLOT.scratch_size] = self._scratch.address, self._scratch.size
        self.output = task.prepare(self.request)
        self._part = 0, 0
        if block_filter:
            block_filter.prepare(self.request)

    def set_filter(self, block_filter: BlockFilter) -> None:
        """Get memory for the selection of batches."""
        self.headers, self.selected = block_filter.memory(self.request)

    def fill(self, source: Source, position: int, length: int) -> None:
        """Read bytes of the log, fewer at its end."""
        self.size = source.read_into(position, self.area.view[:length]) if length > 0 else 0
        self.position = self.request[SLOT.position] = position
        self.request[SLOT.start], self.request[SLOT.end] = 0, self.size

    def begin(self, start: int) -> None:
        """Empty the outputs and begin at a batch."""
        request = self.request
        request[SLOT.start], request[SLOT.payload_size] = start, -1
        request[SLOT.batches] = request[SLOT.records] = request[SLOT.written] = request[SLOT.gap_count] = 0
        request[SLOT.first_offset] = request[SLOT.last_offset] = -1
        request[SLOT.rows] = 0
        if not start:
            request[SLOT.number] = 0
        self._part = start, request[SLOT.number]

    def begin_again(self) -> None:
        """Empty the outputs and begin where the last part began."""
        start, number = self._part
        self.begin(start)
        self.request[SLOT.number] = number
        self._part = start, number

    def decompress(self) -> bool:
        """Give the kernel the codec's functions or else the decompressed bytes; return False if neither is possible."""
        request = self.request
        codec, start = request[SLOT.compressed_codec], request[SLOT.compressed_start]
        if self._set_functions(codec):
            return True
        data = self.area.view[start : start + request[SLOT.compressed_size]]
        target = self._scratch.view[: self._scratch.size]
        size = decompress_on_host(codec, data, target, request[SLOT.compressed_magic])
        request[SLOT.payload_size] = size
        return size >= 0

    def _set_functions(self, codec: int) -> bool:
        """Give the kernel the functions of a codec; return False if it has them already or there are none."""
        request = self.request
        if codec == CODECS.index("zstd") and not request[SLOT.zstd_function]:
            self._zstd = ZstdContext()
            request[SLOT.zstd_function], request[SLOT.zstd_context] = zstd_function(), self._zstd.address
            return bool(request[SLOT.zstd_function])
        return False


class Engine:
    """Runs a task over a log.

    Args:
        kernels: loads the compiled kernels.
        task: which kernel to run, and its output.
        source: the log.
        end: position after the last byte to read, None for the end of the log.
        workers: threads; 0 to use the caller's thread only, None for one per processor.
        block_filter: selects batches and records; None for all.
        rows_left: returns the most rows or record lines that blocks may have from now on; None for no limit.

    Attributes:
        position: after the last byte that a kernel has processed.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # the reader, and what to read
        self,
        kernels: KernelLoader,
        task: KernelTask,
        source: Source,
        end: int | None = None,
        workers: int | None = None,
        block_filter: BlockFilter | None = None,
        rows_left: Callable[[], int | None] = lambda: None,
    ) -> None:
        # The task owns memory that requests point to.
        self._task, self._loader = task, kernels
        self.block_filter, self._rows_left = block_filter, rows_left
        self._source, self._end = source, source.size if end is None else min(end, source.size)
        requested = len(os.sched_getaffinity(0)) if workers is None else workers
        is_single_threaded = requested <= 1 or self._end <= FIRST_READ
        self._workers = 0 if is_single_threaded else min(requested, MAX_WORKERS)
        self._jobs: SimpleQueue[Block | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._free: list[Block] = []
        self._kernel: Kernel
        self._find_batch_ends: Kernel
        self._read = FIRST_READ
        self.position = 0

    def _is_ready(self) -> bool:
        """Return whether the kernels are available. When they become so, create the blocks and threads."""
        if self._free:
            return True
        kernels = self._loader.poll()
        if kernels is None:
            return False
        self._kernel, self._find_batch_ends = self._task.kernel(kernels), kernels.whole_batches
        self._read_headers = kernels.batch_headers
        self._free = [Block(self._task, self.block_filter) for _ in range(self._workers + 1)]
        if self.block_filter:
            for block in self._free:
                block.set_filter(self.block_filter)
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(self._workers)]
        for thread in self._threads:
            thread.start()
        return True

    def blocks(self, position: int, refused_sizes: int = 0) -> Iterator[Block]:
        """Yield the processed blocks of the log from a position on, in order; none while there are no kernels.

        A block is reused when the next one is requested.

        Args:
            position: where a batch should begin.
            refused_sizes: see ``request.Slots``.
        """
        self.position, self._read = position, FIRST_READ
        if self.block_filter:
            self.block_filter.restart()
        if not self._is_ready():
            return
        pending = deque[Block]()
        next_position, has_more = position, True
        try:
            while True:
                while has_more and self._free:
                    length, has_more = self._begin(pending, next_position, refused_sizes)
                    next_position += length
                if not pending:
                    return
                block = pending.popleft()
                try:
                    if error := block.done.get():
                        raise error
                    yield from self._outputs(block)
                finally:
                    self._free.append(block)
                if self.position != block.position + block.request[SLOT.end]:
                    return
        finally:
            for block in pending:
                block.done.get()
                self._free.append(block)

    def close(self) -> None:
        """Stop the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads = []

    def _begin(self, pending: deque[Block], position: int, refused_sizes: int) -> tuple[int, bool]:
        """Start to process a block of complete batches; return its size, and whether more may follow."""
        block = self._free.pop()
        request = block.request
        block.fill(self._source, position, min(self._read, self._end - position))
        self._read = min(2 * self._read, READ)
        self._find_batch_ends(request.address)
        if not request[SLOT.stop] and block.size < request[SLOT.needed_size] <= MAX_BATCH_BYTES:
            block.fill(self._source, position, min(request[SLOT.needed_size], self._end - position))
            self._find_batch_ends(request.address)
        length, has_more = request[SLOT.stop], request[SLOT.status] != DECLINED
        if not length:
            self._free.append(block)
            return 0, False
        request[SLOT.end], request[SLOT.refused_sizes] = length, refused_sizes
        has_more &= self._select(block)
        block.begin(0)
        request[SLOT.most_rows] = self._rows_left() or 0
        if self._threads:
            self._jobs.put(block)
        else:
            self._run(block)
            block.done.put(None)
        # Only now: waiting for a block that an exception left unfinished would never end.
        pending.append(block)
        return length, has_more

    def _select(self, block: Block) -> bool:
        """Select batches of a block; return whether more may follow."""
        if self.block_filter is None:
            return True
        self._read_headers(block.request.address)
        block.selection, has_more = self.block_filter.select(block.request, block.headers, block.selected)
        return has_more

    def _run(self, block: Block) -> None:
        """Run the kernel on a block, and decompress for it what it cannot decompress itself."""
        request = block.request
        self._kernel(request.address)
        while request[SLOT.status] == NEEDS_HOST_CODEC:
            if not block.decompress():
                request[SLOT.status] = DECLINED
                return
            request[SLOT.start] = request[SLOT.stop]
            self._kernel(request.address)

    def _work(self) -> None:
        while (block := self._jobs.get()) is not None:
            error = None
            try:
                self._run(block)
            except Exception as raised:  # noqa: BLE001  # raised again in the thread that waits for the block
                error = raised
            block.done.put(error)

    def _outputs(self, block: Block) -> Iterator[Block]:
        """Yield a block, several times if its output does not fit at once."""
        request = block.request
        while True:
            left = self._rows_left()
            if left is not None and request[SLOT.rows] > left:
                block.begin_again()
                request[SLOT.most_rows] = left
                self._run(block)
            if self.block_filter:
                self.block_filter.passed(block.selection, request[SLOT.number])
            if request[SLOT.batches]:
                yield block
            self.position = block.position + request[SLOT.stop]
            if request[SLOT.status] != OUTPUT_FULL or not request[SLOT.batches]:
                return
            block.begin(request[SLOT.stop])
            self._run(block)


# While kernels make no progress, pure Python takes ever more steps between the attempts, up to this number.
MAX_STEPS = 1 << 10

Row_co = TypeVar("Row_co", covariant=True)


class PythonReader(Protocol[Row_co]):
    """Reads a log in pure Python, step by step.

    Attributes:
        position: after the last byte read. It is set after kernels have read a part of the log.
        refused_sizes: bit n is set if batches whose size has a ``bit_length`` of n must not be checksummed.
    """

    position: int

    @property
    def refused_sizes(self) -> int:
        """See the class."""

    def step(self) -> Sequence[Row_co]:
        """Return the rows at the position and advance past them; nothing at the end."""


def read_with_fallback(reader: PythonReader[Row_co], engine: Engine) -> Iterator[Block | Row_co]:
    """Yield the blocks that kernels read and the rows that pure Python reads between them, in log order.

    Args:
        reader: reads in pure Python.
        engine: runs the kernels; closed at the end.
    """
    steps = 1
    try:
        while True:
            start = reader.position
            yield from engine.blocks(start, reader.refused_sizes)
            reader.position = engine.position
            steps = 1 if engine.position > start else min(2 * steps, MAX_STEPS)
            for _ in range(steps):
                rows = reader.step()
                if not rows:
                    return
                yield from rows
    finally:
        engine.close()
