"""A large partition split by split: which splits there are, and what each of them says. Runs on workers.

Each split is read on its own, with no more of its partition than it needs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from kforensics.forensics.audit.audit_scope import Asked, summarised
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.log_chunk import Split, Stretch
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.splits import segment_splits
from kforensics.forensics.replay.replay_rows import Rows
from kforensics.spark.audit.serialization import Address

__all__ = ["HEAD", "IN_SEGMENT", "WHOLE", "Reading", "Shared", "Travelling", "apart", "cut", "pieces_of", "summary_of"]

# Closed transactions that travel together; what is certain needs no merging and goes straight to the end.
ROWS_TOGETHER = 1 << 16
# So many rows may as well stay with their summary.
FEW_ROWS = 1 << 10
# Bits of an ordinal for the place in the segment.
IN_SEGMENT = 32
# Ordinals of the files of a partition, for who judges it, and of what joining a run needs.
WHOLE, HEAD = -2, -1


@dataclass(frozen=True, slots=True)
class Shared:
    """Where the parts of a large partition go.

    Attributes:
        split_slot: its first slot for reading.
        run_slot: its first slot for joining.
        final_slot: its slot for judging.
        width: segments that are joined in one run; 0 if there are no runs.
    """

    split_slot: int
    run_slot: int
    final_slot: int
    width: int


@dataclass(frozen=True, slots=True)
class Reading:
    """A part of a partition to be read.

    Attributes:
        partition: as much of it as is needed for that.
        cuts: offsets at which the log is cut.
        split: which part.
        size: bytes of all of the partition.
    """

    partition: Partition
    cuts: tuple[int, ...]
    split: Split
    size: int


Travelling = tuple[Address, Any]


def pieces_of(number: int, partition: Partition, shared: Shared) -> Iterator[Travelling]:
    """Yield the files of a partition, its segments to be read, and for each run of them what joining it needs.

    Args:
        number: of the partition.
        partition: its files.
        shared: where its parts go.
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
            yield address, Reading(_only(partition, run), cuts, Split(first), size)
        for segment in run:
            address = replace(address, split_slot=shared.split_slot + segment, ordinal=segment << IN_SEGMENT)
            yield address, Reading(_only(partition, range(segment, segment + 1)), cuts, Split(segment), size)


def _only(partition: Partition, wanted: range) -> Partition:
    """Return a partition with the files of some segments alone; the numbers of all segments stay."""
    first = partition.segments[0]
    segments = tuple(one if at in wanted else first for at, one in enumerate(partition.segments))
    bases = {partition.segments[at].base_offset for at in wanted}
    return Partition(
        place=partition.place,
        folder=partition.folder,
        log_dir=replace(partition.log_dir, checkpoints={}, damaged={}),
        segments=segments,
        indexes={base: found for base, found in partition.indexes.items() if base in bases},
        time_indexes={base: found for base, found in partition.time_indexes.items() if base in bases},
    )


def cut(address: Address, reading: Reading, size: int) -> Iterator[Travelling]:
    """Yield the splits of a segment; what comes before segments is handed on as it came.

    Args:
        address: where the segment belongs.
        reading: all of it.
        size: bytes that a split should have at least.
    """
    if address.ordinal < 0:
        yield address, reading
        return
    for index, split in enumerate(segment_splits(reading.partition, reading.split.segment, size)):
        slot = replace(address, split_slot=address.split_slot + index, ordinal=address.ordinal + index)
        yield slot, replace(reading, split=split)


def summary_of(address: Address, reading: Reading, asked: Asked) -> Iterator[Travelling]:
    """Yield what a split says, or why it cannot be read; what comes before splits is handed on as it came."""
    if address.ordinal < 0:
        yield address, reading
        return
    found, closed, failed = summarised(reading.partition, asked, reading.split, reading.cuts)
    yield from apart(address, found, failed, closed)


def apart(
    address: Address, found: list[Stretch], failed: str | None, closed: Iterable[Records] = ()
) -> Iterator[Travelling]:
    """Yield stretches, and the rows that are certain in them by themselves if they are many.

    Args:
        address: where they come from.
        found: the stretches.
        failed: why something could not be read, None if all could.
        closed: TRANSACTION records that were taken out of them already.
    """
    rows = [stretch.rows for stretch in found]
    are_many = sum(map(len, rows)) > FEW_ROWS
    yield address, ([replace(stretch, rows=Rows.of()) for stretch in found] if are_many else found, failed)
    certain = chain(_some(rows) if are_many else (), (Rows.of(some) for some in closed if len(some)))
    for sequence, some in enumerate(certain, address.sequence + 1):
        yield replace(address, sequence=sequence), some


def _some(rows: Iterable[Rows]) -> Iterator[Rows]:
    for one in rows:
        if len(one.empty_markers) or len(one.anomalies):
            yield replace(one, transactions=one.transactions[:0])
        for start in range(0, len(one.transactions), ROWS_TOGETHER):
            yield Rows.of(one.transactions[start : start + ROWS_TOGETHER])
