"""Finds the batch of an offset in a log that was examined, and its records; of the log only one chunk is read again.

Rule: a broker gives a consumer the first batch that ends at the offset or behind it (``LogSegment.read``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.explain.offset_story import StoredBatch
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.batch_columns import BatchColumns, joined
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import records_of

__all__ = ["BatchLookup", "Found", "Records", "every_batch", "stored_batch"]

CHANGED = "it has changed while it was read; copy it and ask again"


@dataclass(frozen=True, slots=True)
class Found:
    """Where an offset is in a log.

    Attributes:
        at: index of the batch that spans it among the batches that were read, None if none does.
        before: index of the last batch in front of it, None if there is none.
        after: index of the batch behind it, None if there is none.
    """

    at: int | None
    before: int | None
    after: int | None


@dataclass(frozen=True, slots=True)
class Records:
    """The records of a batch.

    Attributes:
        by_offset: those that can be read.
        damage: why the others cannot, None if there are none.
    """

    by_offset: dict[int, Record]
    damage: Damage | None = None


class BatchLookup:
    """Finds batches by offset, and remembers the chunk and the batch it looked at last.

    Args:
        case: the partition.
        kernels: gives the compiled kernels.
    """

    def __init__(self, case: Case, kernels: Choice = kernels_for) -> None:
        self._case, self._kernels = case, kernels
        self._firsts = case.log.marks["base_offset"]
        self._chunks: dict[int, BatchColumns] = {}
        self._batch: StoredBatch | None = None
        self._records = Records({})

    def find(self, offset: int) -> tuple[Found, BatchColumns]:
        """Return where an offset is, and the batches that this speaks of.

        Args:
            offset: between the first and the last one in the log.

        Raises:
            InputError: a segment cannot be read again.
        """
        number = max(0, int(np.searchsorted(self._firsts, offset, "right")) - 1)
        batches = self._read(number)
        # The batch behind a hole may be the first one of the next chunk. Whatever the order of the others, that begins
        # behind the offset, for the search ended between the two.
        if batches.last_offset.max() < offset and number + 1 < len(self._firsts):
            batches = joined([batches, self._read(number + 1)])
        found = _found(batches, offset)
        if found.at is not None and not batches.exact[found.at] and self._settle(batches, found.at):
            found = _found(batches, offset)
        return found, batches

    def _settle(self, batches: BatchColumns, at: int) -> bool:
        """Fill in where a compressed entry of format 0 or 1 begins, which its records tell; whether they did."""
        header = self.batch(batches, at).header
        if header.base_offset is None:
            return False
        batches.base_offset[at], batches.count[at], batches.exact[at] = header.base_offset, header.count, True
        return True

    def _read(self, number: int) -> BatchColumns:
        if number not in self._chunks:
            # Who asks for offset after offset comes to the next chunk soon, and never back to the one before.
            self._chunks = {one: self._chunks[one] for one in self._chunks if one == number - 1}
            self._chunks[number] = self._chunk_at(number)
        return self._chunks[number]

    def _chunk_at(self, number: int) -> BatchColumns:
        marks = self._case.log.marks
        mark, following = marks[number], marks[number + 1 : number + 2]
        same = len(following) and following["segment"][0] == mark["segment"]
        stop = int(following["position"][0]) if same else None
        segment = int(mark["segment"])
        with open_source(self._case.partition.segments[segment].path) as source:
            chunks = batch_chunks(source, segment, _told_before, self._kernels, start=int(mark["position"]), stop=stop)
            found = joined([*chunks])
        if not len(found):
            raise InputError(self._case.partition.segments[segment].path, CHANGED)
        return found

    def batch(self, batches: BatchColumns, at: int) -> StoredBatch:
        """Return one of the batches that were found.

        Raises:
            InputError: its segment cannot be read again.
        """
        segment, position = int(batches.segment[at]), int(batches.position[at])
        same = self._batch is not None and (self._batch.segment, self._batch.header.position) == (segment, position)
        if self._batch is None or not same:
            stored = stored_batch(self._case, segment, position, int(batches.size[at]))
            self._records = _records(stored)
            self._batch = _with_extent(stored, self._records)
        return self._batch

    def records(self) -> Records:
        """Return the records of the batch that was asked for last."""
        return self._records


def _found(batches: BatchColumns, offset: int) -> Found:
    reaches = np.flatnonzero(batches.last_offset >= offset)
    at = int(reaches[0]) if len(reaches) else None
    before = _before(batches, offset, len(batches) if at is None else at)
    # A compressed entry of format 0 or 1 tells only its last offset: what is in front of it may be inside.
    if at is not None and (batches.base_offset[at] <= offset or not batches.exact[at]):
        return Found(at, before, None)
    return Found(None, before, at)


def _before(batches: BatchColumns, offset: int, end: int) -> int | None:
    lower = np.flatnonzero(batches.last_offset[:end] < offset)
    return int(lower[-1]) if len(lower) else None


def stored_batch(case: Case, segment: int, position: int, size: int) -> StoredBatch:
    """Return a batch by where it stands.

    Raises:
        InputError: its segment cannot be read again, or has changed meanwhile.
    """
    path = case.partition.segments[segment].path
    with open_source(path) as source:
        header = next(iter(walk(source, position, position + size)), None)
    if not isinstance(header, Batch):
        raise InputError(path, CHANGED)
    return StoredBatch(path, segment, header)


def _records(batch: StoredBatch) -> Records:
    found: dict[int, Record] = {}
    with open_source(batch.path) as source:
        for row in records_of(source, batch.header):
            if isinstance(row, Damage):
                return Records(found, row)
            found.setdefault(row.offset, row)
    return Records(found)


def _with_extent(batch: StoredBatch, records: Records) -> StoredBatch:
    """Return a batch with first offset and count, which those of format 0 or 1 do not tell if they are compressed."""
    if batch.header.base_offset is not None or records.damage is not None or not records.by_offset:
        return batch
    header = replace(batch.header, base_offset=min(records.by_offset), count=len(records.by_offset))
    return replace(batch, header=header)


def every_batch(case: Case, kernels: Choice = kernels_for) -> Iterator[BatchColumns]:
    """Yield all batches of a partition, chunk by chunk; its log is read again.

    Raises:
        InputError: a segment cannot be read.
    """
    for number, segment in enumerate(case.partition.segments):
        with open_source(segment.path) as source:
            yield from batch_chunks(source, number, _told_before, kernels)


def _told_before(_damage: object) -> None:
    """Damage was told of when the log was read for the first time."""
