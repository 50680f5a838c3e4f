"""Has kernels read a batch that is larger than a block, part by part.

A part is presented to the kernel as a batch of its own: the header of the batch and some of its records, uncompressed.
Offsets, timestamps and sequences of records are relative to the header, so they stay the same.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.checksums import crc32c
from kforensics.parsers.format.decompression import DEFAULT_BUDGET, decompressed_chunks
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER
from kforensics.parsers.format.rows import CODEC_MASK, Batch, Failure
from kforensics.parsers.kernels.block_filter import BlockFilter
from kforensics.parsers.kernels.column_buffers import SOFT_ROWS
from kforensics.parsers.kernels.engine import MAX_BATCH_BYTES, Block, KernelTask
from kforensics.parsers.kernels.library import Kernels
from kforensics.parsers.kernels.policy import KernelLoader
from kforensics.parsers.kernels.request import DONE, SLOT

__all__ = ["LargeBatchReader"]

HEADER = fixed_layout(BATCH_HEADER)
LENGTH_END, CRC_START = HEADER.end_of("length"), HEADER.end_of("crc")
FORMAT = 2
# Smaller batches take less time in pure Python than memory for a block.
MIN_RECORDS, MIN_BYTES = 1 << 12, 1 << 20
# Bytes of records to give the kernel at once, unless a single record is larger.
PART_BYTES = 1 << 20


def _may_be_large(batch: Batch) -> bool:
    """Return whether a batch that a kernel has declined is worth an attempt in parts."""
    return batch.magic == FORMAT and ((batch.count or 0) >= MIN_RECORDS or batch.size >= MIN_BYTES)


class LargeBatchReader:
    """Reads batches part by part.

    Args:
        loader: loads the compiled kernels.
        task: which kernel to run, and its output.
        source: the log.
        budget: maximum number of bytes of a batch's records, compressed or not.
        block_filter: selects the records of selected batches; None for all.

    Attributes:
        is_whole: whether the kernel has read all records of the latest batch, and there was nothing else in it.
    """

    def __init__(
        self,
        loader: KernelLoader,
        task: KernelTask,
        source: Source,
        budget: int = DEFAULT_BUDGET,
        block_filter: BlockFilter | None = None,
    ) -> None:
        self._loader, self._task, self._source, self._budget = loader, task, source, budget
        self._block: Block | None = None
        self._filter = block_filter
        self.is_whole = False

    def parts(self, batch: Batch) -> Iterator[tuple[Block, int]]:
        """Yield a block for each part of a batch with a valid checksum, and the number of its records.

        It ends before the first part that the kernel declines, or at once if the batch is not large or there are no
        kernels yet. A block is reused when the next one is requested.
        """
        self.is_whole = False
        kernels = self._loader.poll() if _may_be_large(batch) else None
        if kernels is None or batch.size - HEADER.size > self._budget:
            return
        self._block = block = self._block or Block(self._task, self._filter)
        stored = self._source.read(batch.position, HEADER.size).ljust(HEADER.size, b"\0")  # the file may have shrunk
        header = dict(zip(HEADER.names, HEADER.unpack_from(stored), strict=True))
        records, left = _Records(block, kernels, self._chunks(batch)), batch.count or 0
        while left > 0 and (count := records.take(min(left, SOFT_ROWS))):
            _put_header(block, header, count)
            block.position = block.request[SLOT.position] = batch.position
            block.begin(0)
            self._task.kernel(kernels)(block.request.address)
            if block.request[SLOT.status] != DONE or block.request[SLOT.batches] != 1:
                return
            yield block, count
            left -= count
        self.is_whole = not left and records.are_at_end()

    def _chunks(self, batch: Batch) -> Iterator[bytes | Failure]:
        """Yield the records of a batch as bytes, decompressed."""
        start, end = batch.position + HEADER.size, batch.position + batch.size
        if batch.codec:
            yield from decompressed_chunks(batch.codec, self._source.read(start, end - start), self._budget)
            return
        for position in range(start, end, PART_BYTES):
            yield self._source.read(position, min(PART_BYTES, end - position))


class _Records:
    """The records of a batch that are in the memory of a block, after the place for a header.

    Args:
        block: the block.
        kernels: find where records end.
        chunks: the bytes of all records, and a failure if not all can be read.
    """

    def __init__(self, block: Block, kernels: Kernels, chunks: Iterator[bytes | Failure]) -> None:
        self._block, self._kernels, self._chunks = block, kernels, chunks
        self._chunk = memoryview(b"")
        self._end = block.size = HEADER.size
        self._has_failed = False

    def take(self, most: int) -> int:
        """Make the block end after its next complete records, at most so many, and return their number."""
        view = self._block.area.view
        rest = self._end - self._block.size
        view[HEADER.size : HEADER.size + rest] = bytes(view[self._block.size : self._end])
        self._end, request = HEADER.size + rest, self._block.request
        for size in (PART_BYTES, MAX_BATCH_BYTES - HEADER.size):
            self._fill(HEADER.size + size)
            request[SLOT.start], request[SLOT.end], request[SLOT.records] = HEADER.size, self._end, most
            self._kernels.whole_records(request.address)
            if count := request[SLOT.records]:
                self._block.size = request[SLOT.end] = request[SLOT.stop]
                return int(count)
        return 0

    def are_at_end(self) -> bool:
        """Return whether nothing follows the records that were taken."""
        self._fill(MAX_BATCH_BYTES)
        return self._end == self._block.size and not self._has_failed

    def _fill(self, end: int) -> None:
        while self._end < end and (self._chunk or self._next()):
            taken = min(len(self._chunk), end - self._end)
            self._block.area.view[self._end : self._end + taken] = self._chunk[:taken]
            self._chunk = self._chunk[taken:]
            self._end += taken

    def _next(self) -> bool:
        for chunk in self._chunks:
            if isinstance(chunk, Failure):
                self._has_failed = True
            elif chunk:
                self._chunk = memoryview(chunk)
                return True
        return False


def _put_header(block: Block, header: dict[str, int], count: int) -> None:
    """Write the header of a batch with some of its records, uncompressed, which fill the block after it."""
    attributes, length = header["attributes"] & ~CODEC_MASK, block.size - LENGTH_END
    part = HEADER.struct.pack(*(header | {"length": length, "attributes": attributes, "count": count}).values())
    checksum = crc32c(bytes(block.area.view[HEADER.size : block.size]), crc32c(part[CRC_START:]))
    block.area.view[: HEADER.size] = part
    HEADER.reader("crc").pack_into(block.area.view, HEADER.offsets["crc"], checksum)
