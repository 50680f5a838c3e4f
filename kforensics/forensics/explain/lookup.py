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
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records

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

    def _read_chunk(self, number: int) -> BatchColumns:
        starts = self._state.log.chunk_starts
        start, following = starts[number], starts[number + 1 : number + 2]
        same_segment = len(following) and following["segment"][0] == start["segment"]
        stop = int(following["position"][0]) if same_segment else None
        segment = int(start["segment"])
        path = self._state.partition.segments[segment].path
        with open_source(path) as source:
            chunks = batch_chunks(
                source, segment, _already_reported, self._kernels, start=int(start["position"]), stop=stop
            )
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
