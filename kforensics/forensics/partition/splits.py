"""Where a large segment can be split: at batches that its offset index names and whose checksums are valid."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.partition.index_entries import offset_index_entries
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import Source, Window, open_source
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import LogWalk
from kforensics.parsers.log.resync import Candidates

__all__ = ["SPLIT_SIZE", "SegmentSplit", "segment_splits", "splits_of"]

# Approximate size of a split in bytes: large enough that the cost of starting one is negligible.
SPLIT_SIZE = 128 << 20


@dataclass(frozen=True, slots=True)
class SegmentSplit:
    """A range of a segment that is read on its own.

    Attributes:
        segment: number of the segment in the partition.
        start: position of a batch.
        stop: position after the last batch, None for the end of the file.
    """

    segment: int
    start: int = 0
    stop: int | None = None


def splits_of(partition: Partition, size: int = SPLIT_SIZE) -> list[SegmentSplit]:
    """Return the splits of a partition, in log order. A segment without a usable index is not split.

    Args:
        partition: its files.
        size: minimum size of a split in bytes.
    """
    return [split for number in range(len(partition.segments)) for split in segment_splits(partition, number, size)]


def segment_splits(partition: Partition, number: int, size: int = SPLIT_SIZE) -> list[SegmentSplit]:
    """Return the splits of a segment.

    Args:
        partition: its files.
        number: number of the segment in the partition.
        size: minimum size of a split in bytes.
    """
    positions = list(_split_positions(partition, number, size)) if partition.segments[number].size >= 2 * size else []
    return [SegmentSplit(number, start, stop) for start, stop in zip([0, *positions], [*positions, None], strict=True)]


def _split_positions(partition: Partition, number: int, size: int) -> Iterator[int]:
    segment = partition.segments[number]
    entries = offset_index_entries(partition.indexes.get(segment.base_offset or 0), number, is_closed=True)
    positions = entries.values if entries.values_ascend else np.unique(entries.values)
    entry = 0
    try:
        with open_source(segment.path) as source:
            candidates, reached = Candidates(Window(source)), 0
            while (entry := max(entry, int(positions.searchsorted(reached + size)))) < len(positions):
                position = int(positions[entry])
                if position > segment.size - size:
                    return
                if _is_sound(source, candidates, position):
                    reached = position
                    yield position
                entry += 1
    except InputError:
        return  # the error is reported when the segment is read


def _is_sound(source: Source, candidates: Candidates, position: int) -> bool:
    """Return whether a batch certainly begins at a position, so that damage before it cannot extend into it.

    The search for batches after damage is stricter than the checksum, which does not cover the base offset.
    """
    first = next(iter(LogWalk(source, position).step()), None)
    is_whole = isinstance(first, Batch) and first.crc_valid
    return is_whole and next(candidates.between(position, position + 1), None) == position
