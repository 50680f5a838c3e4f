"""Finds segments that a copy has although they were no longer in the log.

A cleaner merges segments into one with the name of the first, and the broker deletes the others at once. But a copy of
a running broker may have the merged segment and some of the others, which were copied before. What is in both must not
be replayed twice. Rule: ``UnifiedLog.replaceSegments``.

Retention deletes the oldest segments, each with its indexes. A copy may have some files of the first one, but not those
of the segments after it, which were deleted before it came to them. Rule: ``LocalLog.deleteSegmentFiles``.

A folder into which a broker was copied twice, without deleting what no longer existed, has both kinds of segments even
if the broker had been stopped before the second time.

A follower may write batches to the file of a segment and then fail, for example because the time index is full. Its log
end stays, so it fetches them again, from a leader that may have compacted them meanwhile, and rolls a new segment for
them. Both segments are in the log, and the first one has what the second one begins with. Rule:
``UnifiedLog.append``, ``LogSegment.append``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs
from kforensics.forensics.partition.index_entries import offset_index_entries
from kforensics.forensics.partition.log_summary import EPOCH_MAGIC
from kforensics.parsers.columns.batch_columns import BatchColumns, concat_batches
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Batch, Damage, ignore_damage
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.log.batches import LogWalk

if TYPE_CHECKING:
    from kforensics.forensics.partition.partition_files import Partition
    from kforensics.parsers.files.discover import FoundFile
    from kforensics.parsers.files.source import Source

__all__ = [
    "first_checkpointed_epoch",
    "has_index_between",
    "without_deleted",
    "without_earlier",
    "without_superseded",
]

# What a cleaner never changes in a batch that it keeps, even as an empty one.
KEPT = ("base_offset", "last_offset", "producer_id", "producer_epoch", "base_sequence")


class _DamagedError(Exception):
    """A segment is damaged, so that what it has is not certain."""


def without_superseded(partition: Partition) -> Partition:
    """Return a partition whose superseded segments, with their indexes, are not among its segments any more.

    Args:
        partition: its files.
    """
    return _without(partition, _superseded_segments(partition.segments, partition.indexes))


def without_deleted(partition: Partition, log_start_offset: int | None) -> Partition:
    """Return a partition without the first segments if they were being deleted while the files were copied.

    Offsets are missing after them, and the last of them or a later segment lacks an index while others have both: a
    broker deletes in the order of the log, and the files may be copied in another. Or the checkpoint of the log start
    offset is beyond them and what is missing. Or there is an index of what is missing, but up to there none of the
    snapshots that a broker deletes with segments. Only a log directory with checkpoints is that of a broker; of another
    folder, the indexes may not have been copied.

    Args:
        partition: its files.
        log_start_offset: its offset in the checkpoint of log start offsets, None if it has none there.
    """
    if not partition.log_dir.checkpoints:
        return partition
    segments, indexes = partition.segments, (partition.indexes, partition.time_indexes)
    has_both = [all(each.base_offset in files for files in indexes) for each in segments]
    incomplete = (number for number in range(len(segments) - 1, 0, -1) if not has_both[number - 1])
    renamed = next(incomplete, 0) if any(has_both) else 0
    starts = (number for number, each in enumerate(segments[1:]) if (each.base_offset or 0) > (log_start_offset or 0))
    count = max(renamed, next(starts, len(segments) - 1))
    numbers = (_first_with_snapshot(partition), *range(count, 0, -1))
    after_gap = (number for number in numbers if number and _follows_gap(partition, number))
    return _without(partition, segments[: next(after_gap, 0)])


def without_earlier(partition: Partition) -> Partition:
    """Return a partition without the first segments if they had been deleted before the leader epochs were written.

    Offsets are missing after them, and the leader epochs begin after those. Or they begin among those, and the broker
    was running: then it deleted the segments that followed after the leader epochs had been copied. A broker that moves
    the log start offset has the first leader epoch begin there, before it deletes segments. Rule:
    ``LeaderEpochFileCache.truncateFromStart``.

    Args:
        partition: its files.
    """
    segments = partition.segments
    start = first_checkpointed_epoch(partition) if len(segments) > 1 else 0
    last = sum((segment.base_offset or 0) <= start for segment in segments)  # the first one that begins after the start
    is_running = 0 < last < len(segments) and not partition.log_dir.clean_shutdown
    is_below = is_running and _has_epochs_below(partition, last - 1, start)
    numbers = range(last if is_below else last - 1, 0, -1)
    return _without(partition, segments[: next((each for each in numbers if _follows_gap(partition, each)), 0)])


def first_checkpointed_epoch(partition: Partition) -> int:
    """Return the offset at which the first leader epoch of the checkpoint begins, 0 without one."""
    return min(checkpointed_epochs(partition).values(), default=0)


def _first_with_snapshot(partition: Partition) -> int:
    """Return the number of the segment from which on all have a snapshot, if those before it may have been deleted.

    From 2.8 on, the release of topic ids, a broker keeps the snapshot of each segment that it rolls, and deletes it
    with the segment. Rule: ``ProducerStateManager.removeAndMarkSnapshotForDeletion``.
    The result is 0 if the snapshots or indexes do not show a deletion.
    """
    bases = [segment.base_offset or 0 for segment in partition.segments]
    first = max((number for number, base in enumerate(bases, 1) if base not in partition.snapshots), default=0)
    if partition.topic_id is None or first in (0, len(bases)) or not bases[first - 1]:
        return 0
    before, after = bases[first - 1], bases[first]
    has_snapshot = any(before < offset < after for offset in partition.snapshots)
    return first if has_index_between(partition, before, after) and not has_snapshot else 0


def has_index_between(partition: Partition, before: int, after: int) -> bool:
    """Return whether there is an index of a segment that is missing between two others, given their base offsets."""
    return any(before < base < after for base in (*partition.indexes, *partition.time_indexes))


def _follows_gap(partition: Partition, number: int) -> bool:
    """Return whether offsets are missing between a segment, by its number, and the one before it."""
    before, following = partition.segments[number - 1 : number + 1]
    end = _last_offset(before, partition.indexes.get(before.base_offset or 0))
    return end is not None and end + 1 < (following.base_offset or 0)


def _has_epochs_below(partition: Partition, number: int, offset: int) -> bool:
    """Return whether a segment ends below an offset, with a batch that has a leader epoch."""
    segment = partition.segments[number]
    end = _end(segment, partition.indexes.get(segment.base_offset or 0))
    return end is not None and end[0] < offset and end[1] >= EPOCH_MAGIC


def _without(partition: Partition, superseded: Sequence[FoundFile]) -> Partition:
    if not superseded:
        return partition
    bases = {segment.base_offset for segment in superseded}

    def others(files: Mapping[int, FoundFile]) -> dict[int, FoundFile]:
        return {base: file for base, file in files.items() if base not in bases}

    by_offset = (partition.indexes, partition.time_indexes, partition.transaction_indexes)
    return replace(
        partition,
        segments=tuple(segment for segment in partition.segments if segment.base_offset not in bases),
        indexes=others(partition.indexes),
        time_indexes=others(partition.time_indexes),
        transaction_indexes=others(partition.transaction_indexes),
        superseded=(*superseded, *(file for files in by_offset for base, file in files.items() if base in bases)),
    )


def _superseded_segments(segments: Sequence[FoundFile], indexes: Mapping[int, FoundFile]) -> list[FoundFile]:
    """Return the segments whose records are in the segment before them, as far as they are still in the log.

    That is so if every batch of that segment in their range is one of their batches, and there is one. A segment
    between it and such a one may have no record left. A segment that repeats the end of the one before it and then goes
    on is not superseded.

    Args:
        segments: the segments of a partition, sorted by base offset.
        indexes: their offset indexes, by base offset.
    """
    superseded: list[FoundFile] = []
    emptied: list[FoundFile] = []
    merged: FoundFile | None = None
    end: int | None = None
    for segment in segments:
        base = segment.base_offset or 0
        overlaps = merged is not None and end is not None and end >= base
        is_last = segment is segments[-1]
        matching = _replaced_batches(merged, segment, is_last=is_last) if merged is not None and overlaps else None
        if matching:
            superseded += [*emptied, segment]
            emptied = []
        elif matching == 0:
            emptied.append(segment)
        else:
            merged, emptied = segment, []
            end = _last_offset(segment, indexes.get(base)) if not is_last else None
    return superseded


def _last_offset(segment: FoundFile, index: FoundFile | None) -> int | None:
    """Return the largest offset of a segment, None if it cannot be read."""
    end = _end(segment, index)
    return None if end is None else end[0]


def _end(segment: FoundFile, index: FoundFile | None) -> tuple[int, int] | None:
    """Return the largest offset of a segment, and the message format there; its index shows where to begin."""
    entries = offset_index_entries(index, 0, is_closed=True)
    try:
        with open_source(segment.path) as source:
            position = int(entries.values[-1]) if len(entries) else 0
            if position and not _begins_batch(source, position, int(entries.offsets[-1])):
                position = 0
            chunks = batch_chunks(source, 0, ignore_damage, kernels_for, start=position, workers=0)
            return max(((int(chunk.last_offset.max()), int(chunk.magic[-1])) for chunk in chunks), default=None)
    except InputError:
        return None  # the error is reported when the segment is read


def _begins_batch(source: Source, position: int, offset: int) -> bool:
    """Return whether a batch with an offset, or before it, begins at a position."""
    first = next(iter(LogWalk(source, position).step()), None) if position < source.size else None
    return isinstance(first, Batch) and first.crc_valid and (first.base_offset or 0) <= offset


def _replaced_batches(merged: FoundFile, segment: FoundFile, *, is_last: bool) -> int | None:
    """Return how many batches of a segment the one before it has, None if that one does not replace it.

    Args:
        merged: the segment before it.
        segment: the segment.
        is_last: whether it is the last one of the partition.
    """
    try:
        matching = _matching_batches(merged, segment)
        return None if matching and _goes_on(merged, segment, is_last=is_last) else matching
    except (InputError, _DamagedError):
        return None


def _matching_batches(merged: FoundFile, segment: FoundFile) -> int | None:
    """Return how many batches of a segment the one before it has, None if it has others in that range.

    Raises:
        InputError: a segment cannot be read.
        _DamagedError: a segment is damaged.
    """
    matching, base = 0, segment.base_offset or 0
    own = _sound_batches(segment)
    batches = next(own, None)
    if batches is None:
        return None
    for chunk in _sound_batches(merged, base):
        while batches.base_offset[-1] < chunk.base_offset[-1] and (after := next(own, None)) is not None:
            batches = concat_batches([batches[batches.base_offset >= chunk.base_offset[0]], after])
        in_range = chunk[chunk.base_offset <= batches.last_offset.max()]
        if not _are_among(in_range, batches):
            return None
        matching += len(in_range)
    return matching


def _goes_on(merged: FoundFile, segment: FoundFile, *, is_last: bool) -> bool:
    """Return whether a segment goes on where the one before it ends, although it begins with batches of that one.

    If the cleaner has removed the last batches of a segment, it has in all likelihood removed something before them
    too. It never cleans the last segment. Rule: ``LogCleanerManager.cleanableOffsets``.

    Args:
        merged: the segment before it, all of whose batches in the range of the segment are in the segment.
        segment: the segment.
        is_last: whether it is the last one of the partition.

    Raises:
        InputError: a segment cannot be read.
        _DamagedError: a segment is damaged.
    """
    both, whole = _extent(merged, segment.base_offset or 0), _extent(segment)
    if whole.end <= both.end:
        return False
    return is_last or _extent(segment, end=both.end) == both


class _Extent(NamedTuple):
    """What cleaning changes in a range of batches.

    Attributes:
        end: offset after the last batch.
        batches: number of batches.
        bytes: their size.
        attributes: sum of their attributes: a cleaner marks batches from which tombstones will be removed.
    """

    end: int = 0
    batches: int = 0
    bytes: int = 0
    attributes: int = 0


def _extent(segment: FoundFile, base: int = 0, end: int | None = None) -> _Extent:
    """Return the extent of those batches of a segment that do not end before one offset, but before another, if any.

    Raises:
        InputError: it cannot be read.
        _DamagedError: it is damaged.
    """
    last, batches, size, attributes = 0, 0, 0, 0
    for chunk in _sound_batches(segment, base):
        within = chunk if end is None else chunk[chunk.last_offset < end]
        if len(within):
            last = max(last, int(within.last_offset.max()) + 1)
            batches += len(within)
            size += int(within.size.sum())
            attributes += int(within.attributes.sum())
    return _Extent(last, batches, size, attributes)


def _sound_batches(segment: FoundFile, base: int = 0) -> Iterator[BatchColumns]:
    """Yield the batches of a segment that do not end before an offset.

    Raises:
        InputError: it cannot be read.
        _DamagedError: it is damaged.
    """
    damage: list[Damage] = []
    with open_source(segment.path) as source:
        for chunk in batch_chunks(source, 0, damage.append, kernels_for, workers=0):
            if damage or not chunk.crc_valid.all():
                break
            later = chunk[chunk.last_offset >= base]
            if len(later):
                yield later
        else:
            if not damage:
                return
    raise _DamagedError


def _are_among(wanted: BatchColumns, batches: BatchColumns) -> bool:
    """Return whether all of some batches are among others, whatever records a cleaner has removed from them."""
    order = np.argsort(batches.base_offset, kind="stable")
    ranks = batches.base_offset[order].searchsorted(wanted.base_offset)
    if (ranks == len(order)).any():
        return False
    rows = order[ranks]
    return all((getattr(batches, name)[rows] == getattr(wanted, name)).all() for name in KEPT)
