"""Where a large segment can be cut: at batches that its index names and whose checksums hold."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.partition.index_entries import offset_index_entries
from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.files.window import Window
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import Walk
from kforensics.parsers.log.resync import Candidates

__all__ = ["SPLIT_SIZE", "segment_splits", "splits_of"]

# Bytes of a split, about: so large that what it costs to begin one does not show.
SPLIT_SIZE = 128 << 20


def splits_of(partition: Partition, size: int = SPLIT_SIZE) -> list[Split]:
    """Return the splits of a partition, in the order of its log; a segment without a usable index is not cut.

    Args:
        partition: its files.
        size: bytes that a split should have at least.
    """
    return [split for number in range(len(partition.segments)) for split in segment_splits(partition, number, size)]


def segment_splits(partition: Partition, number: int, size: int = SPLIT_SIZE) -> list[Split]:
    """Return the splits of a segment.

    Args:
        partition: its files.
        number: of the segment in it.
        size: bytes that a split should have at least.
    """
    cuts = list(_cuts(partition, number, size)) if partition.segments[number].size >= 2 * size else []
    return [Split(number, start, stop) for start, stop in zip([0, *cuts], [*cuts, None], strict=True)]


def _cuts(partition: Partition, number: int, size: int) -> Iterator[int]:
    segment = partition.segments[number]
    entries = offset_index_entries(partition.indexes.get(segment.base_offset or 0), number, is_closed=True)
    positions = entries.values if entries.values_ascend else np.unique(entries.values)
    at = 0
    try:
        with open_source(segment.path) as source:
            candidates, reached = Candidates(Window(source)), 0
            while (at := max(at, int(positions.searchsorted(reached + size)))) < len(positions):
                position = int(positions[at])
                if position > segment.size - size:
                    return
                if _is_sound(source, candidates, position):
                    reached = position
                    yield position
                at += 1
    except InputError:
        return  # who reads the segment will say so


def _is_sound(source: Source, candidates: Candidates, position: int) -> bool:
    """Whether a batch stands at a position beyond doubt: damage before it must not run into it.

    Who searches behind damage is more careful than the checksum, which does not cover the base offset.
    """
    first = next(iter(Walk(source, position).step()), None)
    is_whole = isinstance(first, Batch) and first.crc_valid
    return is_whole and next(candidates.behind(position, position + 1), None) == position
