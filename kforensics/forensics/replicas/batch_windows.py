"""Reads the batches of several replicas in windows of offsets: each log once, in bounded memory.

Batches are compared by their stored checksums. Kafka's checksum covers a whole batch except base offset, length, leader
epoch and magic byte, so two batches are the same if these fields and the checksums are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

import numpy as np

from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.batch_columns import BatchColumns, concat_batches
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import BATCH_HEADER, LEGACY_HEADER_V0
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy

HEADER, LEGACY = fixed_layout(BATCH_HEADER), fixed_layout(LEGACY_HEADER_V0)
FIRST_MAGIC_WITH_PRODUCERS = 2
# Bytes to read at once for the checksums in them; the rest of a larger batch is skipped.
BLOCK = 1 << 20


class _Sliceable(Protocol):
    def __len__(self) -> int: ...

    def __getitem__(self, selected: slice, /) -> Self: ...


ChunkT = TypeVar("ChunkT", bound=_Sliceable)


@dataclass(frozen=True, slots=True)
class ReplicaBatches:
    """Batches of a replica in ascending order of base offsets.

    Attributes:
        columns: their columns.
        crc: their stored checksums.
    """

    columns: BatchColumns
    crc: IntArray

    def __len__(self) -> int:
        return len(self.crc)

    def __getitem__(self, selected: slice | IntArray | BoolArray) -> ReplicaBatches:
        """Return some of the batches: by slice, mask or array of indexes."""
        return ReplicaBatches(self.columns[selected], self.crc[selected])


NO_BATCHES = ReplicaBatches(concat_batches([]), np.empty(0, "i8"))


def batch_windows(
    partitions: Sequence[Partition], kernels: KernelPolicy, workers: int | None = None
) -> Iterator[list[ReplicaBatches]]:
    """Yield the batches of several replicas by window: of each replica, the batches with a base offset in the window.

    Batches whose base offset is not above all earlier ones are left out: that log is broken, which its own findings
    report.

    Args:
        partitions: the replicas.
        kernels: returns the compiled kernels if they pay off.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    logs = [_ascending(_batches(partition, kernels, workers)) for partition in partitions]
    yield from aligned_windows(logs, lambda batches: batches.columns.base_offset, NO_BATCHES)


def aligned_windows(
    logs: Sequence[Iterator[ChunkT]], key: Callable[[ChunkT], IntArray], empty: ChunkT
) -> Iterator[list[ChunkT]]:
    """Yield, window by window, what several sequences have between the same two keys; keeps one chunk of each.

    Args:
        logs: sequences of chunks, with keys that ascend within a chunk and from chunk to chunk.
        key: returns the keys of a chunk.
        empty: an empty chunk.
    """
    pending = [empty for _ in logs]
    is_read = [False for _ in logs]
    while True:
        for number, log in enumerate(logs):
            while not len(pending[number]) and not is_read[number]:
                chunk = next(log, None)
                is_read[number], pending[number] = chunk is None, empty if chunk is None else chunk
        if not any(len(chunk) for chunk in pending):
            return
        border = min((key(chunk)[-1] for chunk, done in zip(pending, is_read, strict=True) if not done), default=None)
        stops = [len(chunk) if border is None else np.searchsorted(key(chunk), border, "right") for chunk in pending]
        yield [chunk[:stop] for chunk, stop in zip(pending, stops, strict=True)]
        pending = [chunk[stop:] for chunk, stop in zip(pending, stops, strict=True)]


def _ascending(chunks: Iterator[ReplicaBatches]) -> Iterator[ReplicaBatches]:
    highest: int = -1
    for chunk in chunks:
        offsets = chunk.columns.base_offset
        before = np.maximum.accumulate(np.concatenate([[highest], offsets]))[:-1]
        ascends = offsets > before
        highest = max(highest, int(offsets.max(initial=-1)))
        if ascends.any():
            yield chunk if ascends.all() else chunk[ascends]


def _batches(partition: Partition, kernels: KernelPolicy, workers: int | None) -> Iterator[ReplicaBatches]:
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            for columns in batch_chunks(source, number, ignore_damage, kernels, workers=workers):
                yield ReplicaBatches(columns, _stored_checksums(source, columns))


def _stored_checksums(source: Source, columns: BatchColumns) -> IntArray:
    """Return the checksums as stored in the log."""
    modern = columns.magic >= FIRST_MAGIC_WITH_PRODUCERS
    positions = columns.position + np.where(modern, HEADER.offsets["crc"], LEGACY.offsets["crc"])
    dtype = HEADER.dtype["crc"]
    checksums = np.zeros(len(positions), "i8")
    for start, stop in _blocks(positions):
        first = int(positions[start])
        data = source.read(first, int(positions[stop - 1]) - first + dtype.itemsize)
        indexes = (positions[start:stop] - first)[:, None] + np.arange(dtype.itemsize)
        buffer = np.frombuffer(data, np.uint8)
        if indexes.max() < len(buffer):
            checksums[start:stop] = buffer[indexes].view(dtype)[:, 0]
    return checksums


def _blocks(positions: IntArray) -> Iterator[tuple[int, int]]:
    """Yield ranges of positions that are in one block, as start and stop."""
    start, total = 0, len(positions)
    while start < total:
        stop = max(start + 1, int(np.searchsorted(positions, positions[start] + BLOCK)))
        yield start, stop
        start = stop
