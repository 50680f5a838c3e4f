"""Runs a kernel over a log, block after block, on all processors, and gives the blocks back in order.

Blocks are cut where batches end. Where a kernel refuses a batch, the engine stops in front of it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections import deque
from collections.abc import Callable, Iterator
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.rows import CODECS
from kforensics.parsers.kernels.host_codecs import decompressed_outside
from kforensics.parsers.kernels.library import Kernel, Kernels, Request
from kforensics.parsers.kernels.policy import DECOMPRESSED, Supply
from kforensics.parsers.kernels.request import (
    BATCHES,
    DATA,
    END,
    FIRST_OFFSET,
    FULL,
    GAPS_FOUND,
    LAST_OFFSET,
    LZ4,
    NEEDED,
    OUTSIDE,
    PACKED,
    PACKED_CODEC,
    PACKED_MAGIC,
    PACKED_SIZE,
    PAYLOAD_SIZE,
    POSITION,
    RECORDS,
    REFUSED,
    REFUSED_SIZES,
    SCRATCH,
    SCRATCH_SIZE,
    SLACK,
    START,
    STATUS,
    STOP,
    WRITTEN,
    ZSTD,
    ZSTD_CONTEXT,
)
from kforensics.parsers.kernels.symbols import ZstdContext, lz4_function, zstd_function

__all__ = ["Area", "Block", "Engine", "Task"]

# Bytes read at once: small ones first, for where a kernel refuses, little work should be lost.
FIRST_READ, READ = 1 << 16, 1 << 20
# The largest batch that kernels are given.
LARGEST = 1 << 22
MOST_WORKERS = 4


class Area:
    """Memory at a fixed address; pages that are never touched cost nothing.

    Attributes:
        address: of its first byte.
        size: bytes, the slack behind them not counted.
        view: the bytes.
    """

    def __init__(self, size: int) -> None:
        self._pages = mmap.mmap(-1, size + SLACK, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.size = size
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._pages))
        self.view = memoryview(self._pages)


class Task(Protocol):
    """What is to be done with each block."""

    def prepare(self, request: Request) -> Any:
        """Put what the kernel needs into a request of its own; what is returned is kept as ``Block.output``."""

    def kernel(self, kernels: Kernels) -> Callable[[int], int]:
        """Return the kernel to run."""


class Block:
    """A range of a log and what a kernel made of it.

    Attributes:
        request: the kernel's answer.
        output: what the task prepared.
        position: of the block's first byte in the log.
        size: bytes that were read.
        done: has an item when the kernel is through: None, or what went wrong.
    """

    def __init__(self, task: Task) -> None:
        self.request, self.area, self._scratch = Request(), Area(LARGEST), Area(DECOMPRESSED)
        self.position = self.size = 0
        self.done: SimpleQueue[Exception | None] = SimpleQueue()
        self.request[DATA] = self.area.address
        self.request[LZ4] = lz4_function()
        self.request[SCRATCH], self.request[SCRATCH_SIZE] = self._scratch.address, self._scratch.size
        self.output = task.prepare(self.request)

    def fill(self, source: Source, position: int, length: int) -> None:
        """Read bytes of the log, as many as there are."""
        self.size = source.read_into(position, self.area.view[:length]) if length > 0 else 0
        self.position = self.request[POSITION] = position
        self.request[START], self.request[END] = 0, self.size

    def begin(self, start: int) -> None:
        """Begin with empty outputs at a batch."""
        request = self.request
        request[START], request[PAYLOAD_SIZE] = start, -1
        request[BATCHES] = request[RECORDS] = request[WRITTEN] = request[GAPS_FOUND] = 0
        request[FIRST_OFFSET] = request[LAST_OFFSET] = -1

    def decompress(self) -> bool:
        """Help the kernel to decompress: with the codec's function, else with bytes; or tell it cannot."""
        request = self.request
        codec, start = request[PACKED_CODEC], request[PACKED]
        if self._arm(codec):
            return True
        data = self.area.view[start : start + request[PACKED_SIZE]]
        target = self._scratch.view[: self._scratch.size]
        size = request[PAYLOAD_SIZE] = decompressed_outside(codec, data, target, request[PACKED_MAGIC])
        return size >= 0

    def _arm(self, codec: int) -> bool:
        """Give the kernel the functions for a codec; tell whether it has not had them yet."""
        request = self.request
        if codec == CODECS.index("zstd") and not request[ZSTD]:
            self._zstd = ZstdContext()
            request[ZSTD], request[ZSTD_CONTEXT] = zstd_function(), self._zstd.address
            return bool(request[ZSTD])
        return False


class Engine:
    """Runs a task over a log.

    Args:
        kernels: gives the compiled kernels once they are there.
        task: which kernel, with what.
        source: the log.
        end: position behind the last byte to look at.
        workers: threads; 0 to do everything in the caller's, None for as many as there are processors.

    Attributes:
        position: behind the last byte that a kernel took.
    """

    def __init__(
        self, kernels: Supply, task: Task, source: Source, end: int | None = None, workers: int | None = None
    ) -> None:
        # The task owns memory that requests point to.
        self._task, self._supply = task, kernels
        self._source, self._end = source, source.size if end is None else min(end, source.size)
        wanted = len(os.sched_getaffinity(0)) if workers is None else workers
        alone = wanted <= 1 or self._end <= FIRST_READ
        self._workers = 0 if alone else min(wanted, MOST_WORKERS)
        self._jobs: SimpleQueue[Block | None] = SimpleQueue()
        self._threads: list[Thread] = []
        self._free: list[Block] = []
        self._kernel: Kernel
        self._cut: Kernel
        self._read = FIRST_READ
        self.position = 0

    def _ready(self) -> bool:
        """Tell whether the kernels are there, and make everything else ready once they are."""
        if self._free:
            return True
        kernels = self._supply.ready()
        if kernels is None:
            return False
        self._kernel, self._cut = self._task.kernel(kernels), kernels.whole_batches
        self._free = [Block(self._task) for _ in range(self._workers + 1)]
        self._threads = [Thread(target=self._work, daemon=True) for _ in range(self._workers)]
        for thread in self._threads:
            thread.start()
        return True

    def blocks(self, position: int, refused_sizes: int = 0) -> Iterator[Block]:
        """Yield what the kernel makes of the log from a position on, in order; nothing while there are no kernels yet.

        A block is used anew once the next one is asked for.

        Args:
            position: where a batch should begin.
            refused_sizes: see ``request``.
        """
        self.position, self._read = position, FIRST_READ
        if not self._ready():
            return
        pending = deque[Block]()
        ahead, goes_on = position, True
        try:
            while True:
                while goes_on and self._free:
                    length, goes_on = self._begin(pending, ahead, refused_sizes)
                    ahead += length
                if not pending:
                    return
                block = pending.popleft()
                try:
                    if error := block.done.get():
                        raise error
                    yield from self._finished(block)
                finally:
                    self._free.append(block)
                if self.position != block.position + block.request[END]:
                    return
        finally:
            for block in pending:
                block.done.get()
                self._free.append(block)

    def close(self) -> None:
        """Let the threads end."""
        for _ in self._threads:
            self._jobs.put(None)
        self._threads = []

    def _begin(self, pending: deque[Block], position: int, refused_sizes: int) -> tuple[int, bool]:
        """Let a block of whole batches be worked at; return how many bytes it has, and whether more may follow."""
        block = self._free.pop()
        request = block.request
        block.fill(self._source, position, min(self._read, self._end - position))
        self._read = min(2 * self._read, READ)
        self._cut(request.address)
        if not request[STOP] and block.size < request[NEEDED] <= LARGEST:
            block.fill(self._source, position, min(request[NEEDED], self._end - position))
            self._cut(request.address)
        length, goes_on = request[STOP], request[STATUS] != REFUSED
        if not length:
            self._free.append(block)
            return 0, False
        block.begin(0)
        request[END], request[REFUSED_SIZES] = length, refused_sizes
        if self._threads:
            self._jobs.put(block)
        else:
            self._run(block)
            block.done.put(None)
        # Not before: a block that an exception has left undone must not be waited for.
        pending.append(block)
        return length, goes_on

    def _run(self, block: Block) -> None:
        """Let the kernel work at a block; what it cannot decompress itself is decompressed for it."""
        request = block.request
        self._kernel(request.address)
        while request[STATUS] == OUTSIDE:
            if not block.decompress():
                request[STATUS] = REFUSED
                return
            request[START] = request[STOP]
            self._kernel(request.address)

    def _work(self) -> None:
        while (block := self._jobs.get()) is not None:
            error = None
            try:
                self._run(block)
            except Exception as raised:  # noqa: BLE001  # it is raised where the block is waited for
                error = raised
            block.done.put(error)

    def _finished(self, block: Block) -> Iterator[Block]:
        """Yield a block, several times if its output did not fit at once."""
        request = block.request
        while True:
            if request[BATCHES]:
                yield block
            self.position = block.position + request[STOP]
            if request[STATUS] != FULL or not request[BATCHES]:
                return
            block.begin(request[STOP])
            self._run(block)
