"""Splits a large partition and summarizes each split. Runs on workers.

Each split is read independently, with only the files of its partition that it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from kforensics.forensics.audit.audit_scope import AuditScope, summarize_split
from kforensics.forensics.core.record_types import TransactionArray
from kforensics.forensics.partition.log_chunk import LogChunk
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.splits import SegmentSplit, segment_splits
from kforensics.forensics.partition.stored_chunks import ChunkKeeper
from kforensics.forensics.replay.replay_rows import ReplayRows
from kforensics.spark.audit.serialization import Address

__all__ = [
    "HEAD",
    "IN_SEGMENT",
    "WHOLE",
    "AddressedValue",
    "Reading",
    "Shared",
    "apart",
    "cut",
    "pieces_of",
    "summary_of",
]

# Closed transactions per value; they are certain, need no merging, and go straight to the last stage.
TRANSACTIONS_PER_VALUE = 1 << 16
# Up to this many rows stay with their summary.
FEW_ROWS = 1 << 10
# Bits of an ordinal for the position in the segment.
IN_SEGMENT = 32
# Ordinals of the files of a partition, for the evaluating task, and of what merging a run needs.
WHOLE, HEAD = -2, -1


@dataclass(frozen=True, slots=True)
class Shared:
    """Tasks of a large partition.

    Attributes:
        split_slot: its first slot for reading.
        run_slot: its first slot for merging.
        final_slot: its slot for evaluation.
        width: number of segments merged in one run; 0 if there are no runs.
    """

    split_slot: int
    run_slot: int
    final_slot: int
    width: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A split of a partition to be read.

    Attributes:
        partition: the files of the partition that the split needs.
        cuts: offsets at which log chunks end.
        split: the split.
        size: bytes of the whole partition.
    """

    partition: Partition
    cuts: tuple[int, ...]
    split: SegmentSplit
    size: int


AddressedValue = tuple[Address, Any]


def pieces_of(number: int, partition: Partition, shared: Shared) -> Iterator[AddressedValue]:
    """Yield the files of a partition, its segments to be read, and for each run of them what merging needs.

    Args:
        number: number of the partition.
        partition: its files.
        shared: its tasks.
    """
    address = Address(number, shared.split_slot, shared.run_slot, shared.final_slot, WHOLE)
    yield address, partition
    cuts, many, size = tuple(sorted(partition.snapshots)), len(partition.segments), partition.size
    width = shared.width or many
    for first in range(0, many, width):
        run = range(first, min(first + width, many))
        slot = shared.run_slot + first // width
        address = Address(number, shared.split_slot + first, slot, shared.final_slot, HEAD)
        if shared.width:
            yield address, Reading(_only(partition, run), cuts, SegmentSplit(first), size)
        for segment in run:
            address = replace(address, split_slot=shared.split_slot + segment, ordinal=segment << IN_SEGMENT)
            yield address, Reading(_only(partition, range(segment, segment + 1)), cuts, SegmentSplit(segment), size)


def _only(partition: Partition, wanted: range) -> Partition:
    """Return a partition with the files of some segments only; segment numbers are unchanged."""
    first = partition.segments[0]
    segments = tuple(segment if number in wanted else first for number, segment in enumerate(partition.segments))
    bases = {partition.segments[number].base_offset for number in wanted}
    return Partition(
        place=partition.place,
        folder=partition.folder,
        log_dir=replace(partition.log_dir, checkpoints={}, damaged={}),
        segments=segments,
        indexes={base: file for base, file in partition.indexes.items() if base in bases},
        time_indexes={base: file for base, file in partition.time_indexes.items() if base in bases},
        topic_id=partition.topic_id,
    )


def cut(address: Address, reading: Reading, size: int) -> Iterator[AddressedValue]:
    """Yield the splits of a segment; values that precede segments are passed through.

    Args:
        address: address of the segment.
        reading: the whole segment.
        size: minimum bytes of a split.
    """
    if address.ordinal < 0:
        yield address, reading
        return
    for index, split in enumerate(segment_splits(reading.partition, reading.split.segment, size)):
        slot = replace(address, split_slot=address.split_slot + index, ordinal=address.ordinal + index)
        yield slot, replace(reading, split=split)


def summary_of(
    address: Address, reading: Reading, scope: AuditScope, keeper: ChunkKeeper | None = None
) -> Iterator[AddressedValue]:
    """Yield the summary of a split, or why it cannot be read; values that precede splits are passed through.

    Args:
        address: address of the split.
        reading: the split.
        scope: the audit scope.
        keeper: keeps the summaries of its chunks for a store, None to keep none.
    """
    if address.ordinal < 0:
        yield address, reading
        return
    chunks, closed, failed = summarize_split(reading.partition, scope, reading.split, reading.cuts, keeper)
    yield from apart(address, chunks, failed, closed)


def apart(
    address: Address, chunks: list[LogChunk], failed: str | None, closed: Iterable[TransactionArray] = ()
) -> Iterator[AddressedValue]:
    """Yield log chunks, and their certain rows as values of their own if there are many.

    Args:
        address: address of the chunks.
        chunks: the log chunks.
        failed: why something could not be read, None if everything could.
        closed: transactions that were already taken out of them.
    """
    rows = [log_chunk.rows for log_chunk in chunks]
    are_many = sum(map(len, rows)) > FEW_ROWS
    yield address, ([replace(log_chunk, rows=ReplayRows.of()) for log_chunk in chunks] if are_many else chunks, failed)
    certain = chain(_pages(rows) if are_many else (), (ReplayRows.of(page) for page in closed if len(page)))
    for sequence, page in enumerate(certain, address.sequence + 1):
        yield replace(address, sequence=sequence), page


def _pages(parts: Iterable[ReplayRows]) -> Iterator[ReplayRows]:
    for rows in parts:
        if len(rows.empty_markers) or len(rows.anomalies):
            yield replace(rows, transactions=rows.transactions[:0])
        for start in range(0, len(rows.transactions), TRANSACTIONS_PER_VALUE):
            yield ReplayRows.of(rows.transactions[start : start + TRANSACTIONS_PER_VALUE])
