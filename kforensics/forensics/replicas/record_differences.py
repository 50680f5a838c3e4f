"""Compares the records of two replicas at the same offsets, in batches that are partially compacted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.batch_windows import ReplicaBatches
from kforensics.forensics.replicas.replica import Replica
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["RecordComparer", "RecordDifference"]

# Number of records to compare at once.
RECORDS_AT_ONCE = 1 << 20
# Gaps between two batches that are smaller than this are read too.
NEAR = 1 << 20
RECORD_HASH = np.dtype([("offset", "i8"), ("low", "u8"), ("high", "u8"), ("segment", "i4"), ("position", "i8")])
RecordHashArray: TypeAlias = "npt.NDArray[np.void]"


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """An offset at which two replicas have different records.

    Attributes:
        first: number of the first replica.
        second: number of the second replica.
        offset: the offset.
        at: segment and position of the batch on the first replica.
        other_at: segment and position of the batch on the second replica.
    """

    first: int
    second: int
    offset: int
    at: tuple[int, int]
    other_at: tuple[int, int]


class RecordComparer:
    """Compares the records of two replicas, window by window.

    Args:
        first: the first replica.
        second: the second replica.
        kernels: returns the compiled kernels if they pay off.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.

    Attributes:
        differences: the first differences.
        count: number of all differences.
    """

    def __init__(self, first: Replica, second: Replica, kernels: KernelPolicy, workers: int | None) -> None:
        self._replicas, self._kernels, self._workers = (first, second), kernels, workers
        self.differences: list[RecordDifference] = []
        self.count = 0

    def add(self, first: ReplicaBatches, second: ReplicaBatches) -> None:
        """Compare pairs of batches with the same base offsets."""
        counts = np.maximum(first.columns.count, second.columns.count)
        parts = np.cumsum(counts, dtype="i8") // RECORDS_AT_ONCE
        for part in np.unique(parts):
            selected = parts == part
            self._compare(self._hashes(0, first[selected]), self._hashes(1, second[selected]))

    def _compare(self, first: RecordHashArray, second: RecordHashArray) -> None:
        offsets, first_indexes, second_indexes = np.intersect1d(first["offset"], second["offset"], return_indices=True)
        sides = first[first_indexes], second[second_indexes]
        differs = (sides[0]["low"] != sides[1]["low"]) | (sides[0]["high"] != sides[1]["high"])
        differing = np.flatnonzero(differs)
        self.count += len(differing)
        numbers = [replica.number for replica in self._replicas]
        for index in differing[: MOST - len(self.differences)].tolist():
            at, other_at = ((int(rows["segment"][index]), int(rows["position"][index])) for rows in sides)
            self.differences.append(RecordDifference(numbers[0], numbers[1], int(offsets[index]), at, other_at))

    def _hashes(self, side: int, batches: ReplicaBatches) -> RecordHashArray:
        partition = self._replicas[side].partition
        parts = [np.empty(0, RECORD_HASH)]
        for segment in np.unique(batches.columns.segment).tolist():
            columns = batches.columns[batches.columns.segment == segment]
            parts += _of_segment(partition, segment, columns.position, columns.size, self._kernels, self._workers)
        return np.concatenate(parts)


def _of_segment(  # noqa: PLR0913, PLR0917  # what to read, and how
    partition: Partition, segment: int, positions: IntArray, sizes: IntArray, kernels: KernelPolicy, workers: int | None
) -> Iterator[RecordHashArray]:
    """Yield RECORD_HASHes of the records of some batches of a segment, which are in file order."""
    with open_source(partition.segments[segment].path) as source:
        for start, stop in _ranges(positions, positions + sizes):
            for columns in hash_chunks(source, ignore_damage, kernels, start=start, stop=stop, workers=workers):
                position = np.repeat(columns.position, columns.records)
                wanted = np.isin(position, positions)
                rows = np.empty(int(wanted.sum()), RECORD_HASH)
                for name in ("offset", "low", "high"):
                    rows[name] = getattr(columns, name)[wanted]
                rows["segment"], rows["position"] = segment, position[wanted]
                yield rows


def _ranges(begins: IntArray, ends: IntArray) -> Iterator[tuple[int, int]]:
    gaps = np.flatnonzero(begins[1:] - ends[:-1] >= NEAR)
    starts, stops = begins[np.append(0, gaps + 1)], ends[np.append(gaps, len(ends) - 1)]
    yield from zip(starts.tolist(), stops.tolist(), strict=True)
