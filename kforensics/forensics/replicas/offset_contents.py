"""Whether two replicas have the same records at the same offsets, in batches that cleaners have thinned out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.replica import Replica
from kforensics.forensics.replicas.side_by_side import Batches
from kforensics.parsers.columns.hash_columns import hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice

__all__ = ["RecordDifference", "SameOffsets"]

# Records that are compared at once.
AT_ONCE = 1 << 20
# Fewer bytes than this between two batches are read over.
NEAR = 1 << 20
HASH = np.dtype([("offset", "i8"), ("low", "u8"), ("high", "u8"), ("segment", "i4"), ("position", "i8")])


@dataclass(frozen=True, slots=True)
class RecordDifference:
    """An offset at which two replicas have records that say different things.

    Attributes:
        first: number of the one replica.
        second: number of the other one.
        offset: the offset.
        at: segment and position of the batch of the first.
        other_at: those of the second.
    """

    first: int
    second: int
    offset: int
    at: tuple[int, int]
    other_at: tuple[int, int]


class SameOffsets:
    """Compares the records of two replicas, window by window.

    Args:
        first: the one replica.
        second: the other one.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Attributes:
        found: the first differences.
        count: how many there are.
        compared: records that both have at the same offset.
    """

    def __init__(self, first: Replica, second: Replica, kernels: Choice, workers: int | None) -> None:
        self._replicas, self._kernels, self._workers = (first, second), kernels, workers
        self.found: list[RecordDifference] = []
        self.count = 0
        self.compared = 0

    def add(self, first: Batches, second: Batches) -> None:
        """Take batches with the same base offsets, in pairs."""
        most = np.maximum(first.columns.count, second.columns.count)
        parts = np.cumsum(most, dtype="i8") // AT_ONCE
        for part in np.unique(parts):
            which = parts == part
            self._compare(self._hashes(0, first[which]), self._hashes(1, second[which]))

    def _compare(self, first: Records, second: Records) -> None:
        offsets, mine, others = np.intersect1d(first["offset"], second["offset"], return_indices=True)
        one, other = first[mine], second[others]
        unlike = np.flatnonzero((one["low"] != other["low"]) | (one["high"] != other["high"]))
        self.compared += len(offsets)
        self.count += len(unlike)
        for at in unlike[: MOST - len(self.found)].tolist():
            places = [(int(row["segment"][at]), int(row["position"][at])) for row in (one, other)]
            numbers = [replica.number for replica in self._replicas]
            self.found.append(RecordDifference(numbers[0], numbers[1], int(offsets[at]), places[0], places[1]))

    def _hashes(self, side: int, batches: Batches) -> Records:
        partition = self._replicas[side].partition
        parts = [np.empty(0, HASH)]
        for segment in np.unique(batches.columns.segment).tolist():
            mine = batches.columns[batches.columns.segment == segment]
            parts += _of_segment(partition, segment, mine.position, mine.size, self._kernels, self._workers)
        return np.concatenate(parts)


def _of_segment(  # noqa: PLR0913, PLR0917  # which bytes of which file, and how to read them
    partition: Partition, segment: int, positions: Records, sizes: Records, kernels: Choice, workers: int | None
) -> Iterator[Records]:
    """Yield HASH rows of the records of some batches of a segment, which come in its order."""
    with open_source(partition.segments[segment].path) as source:
        for start, stop in _ranges(positions, positions + sizes):
            for columns in hash_chunks(source, _say_nothing, kernels, start=start, stop=stop, workers=workers):
                position = np.repeat(columns.position, columns.records)
                wanted = np.isin(position, positions)
                rows = np.empty(int(wanted.sum()), HASH)
                for name in ("offset", "low", "high"):
                    rows[name] = getattr(columns, name)[wanted]
                rows["segment"], rows["position"] = segment, position[wanted]
                yield rows


def _ranges(begins: Records, ends: Records) -> Iterator[tuple[int, int]]:
    gaps = np.flatnonzero(begins[1:] - ends[:-1] >= NEAR)
    starts, stops = begins[np.append(0, gaps + 1)], ends[np.append(gaps, len(ends) - 1)]
    yield from zip(starts.tolist(), stops.tolist(), strict=True)


def _say_nothing(_damage: object) -> None:
    """Damage was told of when the case was made."""
