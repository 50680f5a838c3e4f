"""Find the batch that contains an offset, and its records; only one chunk of the log is read again.

Rule: a broker returns the first batch whose last offset is at or after the fetch offset (``LogSegment.read``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.explain.offset_story import StoredBatch
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.batch_columns import BatchColumns, concat_batches
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.columns.record_columns import record_chunks
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from kforensics.parsers.log.records import LEFT_OUT

CHANGED = "it changed while it was read; copy it and try again"


@dataclass(frozen=True, slots=True)
class OffsetPosition:
    """Where an offset is among the batches that were read.

    Attributes:
        spanning: index of the batch that spans it, None if none does.
        before: index of the last batch before it, None if there is none.
        after: index of the next batch if none spans it, else None.
    """

    spanning: int | None
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class DecodedBatch:
    """The records of a batch.

    Attributes:
        by_offset: the readable records.
        damage: why the others are unreadable, None if all can be read.
    """

    by_offset: dict[int, Record]
    damage: Damage | None = None


class _Part:
    """A part of a segment as a source of its own."""

    def __init__(self, source: Source, start: int, end: int) -> None:
        self._source, self._start = source, start
        self.path, self.size, self.mtime_ms = source.path, end - start, source.mtime_ms

    def read(self, position: int, length: int) -> bytes:
        """Return bytes of the part."""
        return self._source.read(self._start + position, max(min(length, self.size - position), 0))

    def read_into(self, position: int, target: memoryview) -> int:
        """Read bytes of the part into memory."""
        return self._source.read_into(self._start + position, target[: max(self.size - position, 0)])

    def next_data(self, position: int) -> int:
        """Return the position of the next data after a sparse range."""
        return min(self._source.next_data(self._start + position) - self._start, self.size)

    def close(self) -> None:
        """Leave the segment open, which is not the part's own."""


class BatchLookup:
    """Finds batches by offset, and caches the last chunks and the last batch.

    Args:
        state: the partition.
        kernels: provides the compiled kernels.
    """

    def __init__(self, state: PartitionState, kernels: KernelPolicy = kernels_for) -> None:
        self._state, self._kernels = state, kernels
        self._chunk_offsets = state.log.chunk_starts["base_offset"]
        self._chunks: dict[int, BatchColumns] = {}
        self._consecutive: dict[int, dict[int, tuple[int, int]]] = {}
        self._batch: StoredBatch | None = None
        self._decoded = DecodedBatch({})

    def find(self, offset: int) -> tuple[OffsetPosition, BatchColumns]:
        """Return the position of an offset, and the batches that it refers to.

        Args:
            offset: an offset from the first to the last one in the log.

        Raises:
            InputError: a segment cannot be read again.
        """
        number = max(0, int(np.searchsorted(self._chunk_offsets, offset, "right")) - 1)
        batches = self._chunk(number)
        # The batch after an offset gap may be the first one of the next chunk. That one begins after the offset, even
        # if the chunks are out of order, because the search ended between the two.
        if batches.last_offset.max() < offset and number + 1 < len(self._chunk_offsets):
            batches = concat_batches([batches, self._chunk(number + 1)])
        position = _position(batches, offset)
        if position.spanning is None or batches.exact[position.spanning]:
            return position, batches
        if self._complete(batches, position.spanning):
            position = _position(batches, offset)
        return position, batches

    def _complete(self, batches: BatchColumns, index: int) -> bool:
        """Set the first offset of a compressed entry of format 0 or 1 from its records; return whether that worked."""
        header = self.batch(batches, index).header
        if header.base_offset is None:
            return False
        batches.base_offset[index], batches.count[index], batches.exact[index] = header.base_offset, header.count, True
        return True

    def _chunk(self, number: int) -> BatchColumns:
        if number not in self._chunks:
            # A caller that asks for ascending offsets needs the next chunk soon, and never an earlier one again.
            self._chunks = {cached: self._chunks[cached] for cached in self._chunks if cached == number - 1}
            self._chunks[number] = self._read_chunk(number)
        return self._chunks[number]

    def _extent(self, number: int) -> tuple[int, int, int | None]:
        """Return the segment of a chunk, and the positions of its start and its end; None for that of the segment."""
        starts = self._state.log.chunk_starts
        start, following = starts[number], starts[number + 1 : number + 2]
        same_segment = len(following) and following["segment"][0] == start["segment"]
        return int(start["segment"]), int(start["position"]), int(following["position"][0]) if same_segment else None

    def has_all_records(self, batches: BatchColumns, row: int) -> bool:
        """Return whether each offset of a batch has a readable record.

        The records of its whole chunk are decoded, by kernels, and what is found is remembered.

        Args:
            batches: the batches that :meth:`find` returned.
            row: index of the batch.

        Raises:
            InputError: the segment cannot be read again.
        """
        first, span = int(batches.base_offset[row]), int(batches.last_offset[row] - batches.base_offset[row]) + 1
        at = int(batches.segment[row]), int(batches.position[row])
        number = max(0, int(np.searchsorted(self._chunk_offsets, first, "right")) - 1)
        if number + 1 < len(self._chunk_offsets) and self._extent(number + 1)[:2] <= at:
            number += 1
        if number not in self._consecutive:
            self._consecutive = {number: self._consecutive_records(number)}
        return self._consecutive[number].get(at[1]) == (first, span)

    def _consecutive_records(self, number: int) -> dict[int, tuple[int, int]]:
        """Return the first offset of each batch of a chunk, by position, and how many records follow without a gap."""
        segment, start, stop = self._extent(number)
        runs: dict[int, tuple[int, int]] = {}
        with open_source(self._state.partition.segments[segment].path) as source:
            part = _Part(source, start, source.size if stop is None else stop)
            for records in record_chunks(part, self._kernels(part.size)):
                offsets = records.rows["offset"]
                positions, begins, counts = np.unique(records.rows["position"], return_index=True, return_counts=True)
                fits = offsets - np.arange(len(offsets)) == np.repeat(offsets[begins] - begins, counts)
                counts = np.add.reduceat(fits, begins) if len(begins) else counts
                for position, first, count in zip(
                    (positions + start).tolist(), offsets[begins].tolist(), counts.tolist(), strict=True
                ):
                    earlier, known = runs.get(position, (first, 0))
                    if first == earlier + known:  # a large batch is spread over several chunks of records
                        runs[position] = earlier, known + count
        return runs

    def _read_chunk(self, number: int) -> BatchColumns:
        segment, start, stop = self._extent(number)
        path = self._state.partition.segments[segment].path
        with open_source(path) as source:
            chunks = batch_chunks(source, segment, _already_reported, self._kernels, start=start, stop=stop)
            batches = concat_batches([*chunks])
        if not len(batches):
            raise InputError(path, CHANGED)
        return batches

    def batch(self, batches: BatchColumns, index: int) -> StoredBatch:
        """Return one of the batches that :meth:`find` returned.

        Raises:
            InputError: its segment cannot be read again.
        """
        segment, position = int(batches.segment[index]), int(batches.position[index])
        cached = self._batch is not None and (self._batch.segment, self._batch.header.position) == (segment, position)
        if self._batch is None or not cached:
            batch = stored_batch(self._state, segment, position, int(batches.size[index]))
            self._decoded = _decoded(batch)
            self._batch = _with_extent(batch, self._decoded)
        return self._batch

    def decoded(self) -> DecodedBatch:
        """Return the records of the batch that :meth:`batch` returned last."""
        return self._decoded


def _position(batches: BatchColumns, offset: int) -> OffsetPosition:
    ends_after = np.flatnonzero(batches.last_offset >= offset)
    index = int(ends_after[0]) if len(ends_after) else None
    before = _before(batches, offset, len(batches) if index is None else index)
    # A compressed entry of format 0 or 1 has only its last offset: it may contain any lower offset.
    if index is not None and (batches.base_offset[index] <= offset or not batches.exact[index]):
        return OffsetPosition(index, before, None)
    return OffsetPosition(None, before, index)


def _before(batches: BatchColumns, offset: int, end: int) -> int | None:
    lower = np.flatnonzero(batches.last_offset[:end] < offset)
    return int(lower[-1]) if len(lower) else None


def stored_batch(state: PartitionState, segment: int, position: int, size: int) -> StoredBatch:
    """Return the batch at a position.

    Raises:
        InputError: its segment cannot be read again, or has changed since.
    """
    path = state.partition.segments[segment].path
    with open_source(path) as source:
        header = next(iter(walk(source, position, position + size)), None)
    if not isinstance(header, Batch):
        raise InputError(path, CHANGED)
    return StoredBatch(path, segment, header)


def _decoded(batch: StoredBatch) -> DecodedBatch:
    records: dict[int, Record] = {}
    with open_source(batch.path) as source:
        for row in read_records(source, batch.header):
            if isinstance(row, Damage):
                if row.reason == LEFT_OUT.reason:
                    raise InputError(batch.path, LEFT_OUT.detail)
                return DecodedBatch(records, row)
            records.setdefault(row.offset, row)
    return DecodedBatch(records)


def _with_extent(batch: StoredBatch, decoded: DecodedBatch) -> StoredBatch:
    """Return a batch with first offset and count; a compressed entry of format 0 or 1 has them in its records only."""
    if batch.header.base_offset is not None or decoded.damage is not None or not decoded.by_offset:
        return batch
    header = replace(batch.header, base_offset=min(decoded.by_offset), count=len(decoded.by_offset))
    return replace(batch, header=header)


def stored_batches(state: PartitionState, kernels: KernelPolicy = kernels_for) -> Iterator[BatchColumns]:
    """Yield all batches of a partition, chunk by chunk; its log is read again.

    Raises:
        InputError: a segment cannot be read.
    """
    for number, segment in enumerate(state.partition.segments):
        with open_source(segment.path) as source:
            yield from batch_chunks(source, number, _already_reported, kernels)


def _already_reported(_damage: object) -> None:
    """Ignore damage: it was reported when the log was read for the first time."""
