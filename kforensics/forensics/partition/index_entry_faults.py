"""Compare the entries of offset and time indexes with the batches of their segment, chunk by chunk.

Each chunk of batches sets flags for the entries it affects; flags of several chunks are or-ed. Once all batches of the
segment have been seen, the flags show which entries do not match the log.

Offset index (rule: ``OffsetIndex``). An entry names the position of a batch and, depending on the writing release,

* up to 1.1 the first offset of an append, which is the first offset of the batch there;
* from 2.0 to 3.9.0, and in 4.0.0, the largest offset of an append, whose last batch may come later. If the cleaner
  wrote it, it is the largest offset of the records that were kept, and may be inside a partially compacted batch;
* since 3.9.1 and 4.0.2 the last offset of the batch there.

Rebuilt indexes have one entry per batch. No particular entry is required: the counter of bytes between entries
restarts with the broker.

Time index (rule: ``TimeIndex``). An entry names the largest timestamp so far, and an offset of the batch that has it:
the last offset or, as leaders up to 3.6 wrote it for uncompressed batches with create time, the offset of the first
record with that timestamp. This module does not decode records, so any offset of the batch is accepted.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.index_entries import INDEX_FAULT, IndexEntries, IndexFault, IndexFaultArray
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray

# Flags of an offset index entry. A batch begins at the position, or extends over it.
BATCH_BEGINS, INSIDE_BATCH = 1, 2
# The batch at the position begins with the offset; the batch before it already reaches the offset.
IS_FIRST_OFFSET, IS_REACHED_BEFORE = 4, 8
# A batch ends with the offset; the offset is inside a partially compacted batch, or inside a full one.
IS_LAST_OFFSET, IN_COMPACTED_BATCH, IN_FULL_BATCH = 16, 32, 64
# Flags of a time index entry. The batch with the offset has the timestamp, or another one; an earlier batch has a
# larger one.
SAME_TIMESTAMP, OTHER_TIMESTAMP, LARGER_BEFORE = 1, 2, 4


def offset_entry_flags(entries: IndexEntries, batches: BatchColumns) -> Any:
    """Return a byte of flags for each entry of an offset index, from one chunk of batches."""
    flags = np.zeros(len(entries), np.uint8)
    if len(entries) and len(batches):
        ends = batches.position + batches.size
        _flag_positions(flags, entries, batches, ends)
        _flag_reached(flags, entries, batches, ends)
        _flag_offsets(flags, entries, batches)
    return flags


def _flag_positions(flags: IntArray, entries: IndexEntries, batches: BatchColumns, ends: IntArray) -> None:
    selected = entries.with_values(int(batches.position[0]), int(ends[-1]) - 1)
    position, offset = entries.values[selected], entries.offsets[selected]
    rows = np.searchsorted(batches.position, position, "right") - 1
    begins = batches.position[rows] == position
    # The first offset of a compressed wrapper of formats 0 and 1 is unknown; IS_REACHED_BEFORE bounds it from below.
    first = (batches.base_offset[rows] == offset) | (~batches.exact[rows] & (offset <= batches.last_offset[rows]))
    inside = ~begins & (position < ends[rows])
    flags[selected] |= (begins * BATCH_BEGINS + inside * INSIDE_BATCH + (begins & first) * IS_FIRST_OFFSET).astype(
        np.uint8
    )


def _flag_reached(flags: IntArray, entries: IndexEntries, batches: BatchColumns, ends: IntArray) -> None:
    selected = entries.with_values(int(batches.position[0]) + 1, int(ends[-1]))
    position, offset = entries.values[selected], entries.offsets[selected]
    rows = np.searchsorted(ends, position)
    reached = (ends[rows] == position) & (batches.last_offset[rows] >= offset)
    flags[selected] |= (reached * IS_REACHED_BEFORE).astype(np.uint8)


def _flag_offsets(flags: IntArray, entries: IndexEntries, batches: BatchColumns) -> None:
    last, order = _by_last_offset(batches)
    selected = entries.with_offsets(int(batches.base_offset.min()), int(last[-1]))
    offset = entries.offsets[selected]
    ranks = np.searchsorted(last, offset)
    rows = ranks if order is None else order[ranks]
    base, end = batches.base_offset[rows], batches.last_offset[rows]
    inside, is_last = base <= offset, end == offset
    partially_compacted = inside & (batches.count[rows] < end - base + 1)
    in_full = inside & ~partially_compacted & ~is_last
    flags[selected] |= (
        is_last * IS_LAST_OFFSET + partially_compacted * IN_COMPACTED_BATCH + in_full * IN_FULL_BATCH
    ).astype(np.uint8)


def _by_last_offset(batches: BatchColumns) -> tuple[Any, Any]:
    """Return the last offsets in ascending order, and the order, or None if they are already ascending."""
    last = batches.last_offset
    if (last[1:] >= last[:-1]).all():
        return last, None
    order = np.argsort(last, kind="stable")
    return last[order], order


def offset_index_faults(
    entries: IndexEntries, flags: IntArray, segment: int, end: int, *, is_whole: bool
) -> IndexFaultArray:
    """Return INDEX_FAULT rows for the entries that do not match the log, once all its batches have been seen.

    Args:
        entries: entries of the index.
        flags: their flags from all batches.
        segment: number of the segment.
        end: position after its last batch.
        is_whole: whether batches cover the log up to that position. If not, an entry may refer to a lost batch.
    """
    if not len(entries):
        return np.empty(0, INDEX_FAULT)

    def has(flag: int) -> BoolArray:
        is_set: BoolArray = (flags & flag) != 0
        return is_set

    begins = has(BATCH_BEGINS)
    beyond = ~begins & (entries.values >= end)
    misplaced = ~begins & ~beyond & (has(INSIDE_BATCH) | (entries.values < 0) | is_whole)
    reached = begins & has(IS_REACHED_BEFORE)
    accepted = IS_FIRST_OFFSET | IS_LAST_OFFSET | IN_COMPACTED_BATCH
    unmatched = begins & ~reached & ~has(accepted) & (has(IN_FULL_BATCH) | is_whole)
    is_faulty = entries.is_sound & (misplaced | reached | unmatched)
    kinds = np.select(
        [misplaced, reached], [IndexFault.NO_BATCH_BEGINS, IndexFault.OFFSET_BEFORE_POSITION], IndexFault.NO_BATCH_ENDS
    )
    return concat_rows(
        [
            entries.rows(entries.is_sound & beyond, IndexFault.BEYOND_LOG, segment, is_time=False, actual=end),
            entries.rows(is_faulty, kinds, segment, is_time=False),
        ]
    )


def time_entry_flags(entries: IndexEntries, batches: BatchColumns) -> Any:
    """Return a byte of flags for each entry of a time index, from one chunk of batches."""
    flags = np.zeros(len(entries), np.uint8)
    if len(entries) and len(batches):
        last, order = _by_last_offset(batches)
        selected = entries.with_offsets(int(batches.base_offset.min()), int(last[-1]))
        offset, timestamp = entries.offsets[selected], entries.values[selected]
        ranks = np.searchsorted(last, offset)
        rows = ranks if order is None else order[ranks]
        inside = batches.base_offset[rows] <= offset
        # Format 0 has no timestamps, but 0.10.2 indexed the timestamps of messages that it then stored in this format.
        same = inside & ((batches.max_timestamp[rows] == timestamp) | (batches.magic[rows] == 0))
        larger = inside & (_largest_before(batches)[rows] > timestamp)
        flags[selected] |= (same * SAME_TIMESTAMP + (inside & ~same) * OTHER_TIMESTAMP + larger * LARGER_BEFORE).astype(
            np.uint8
        )
    return flags


def _largest_before(batches: BatchColumns) -> Any:
    return np.concatenate([[NO_TIME], np.maximum.accumulate(batches.max_timestamp)[:-1]])


def with_larger_before(entries: IndexEntries, flags: IntArray, largest_before: int) -> Any:
    """Return time index flags of one part of a segment, updated with what is known of the part before it.

    Args:
        entries: entries of the time index.
        flags: their flags from one part of the segment.
        largest_before: largest timestamp before that part, in the segment.
    """
    larger = (flags != 0) & (entries.values < largest_before)
    return flags | (larger * LARGER_BEFORE).astype(np.uint8)


def time_index_faults(  # noqa: PLR0913  # what is known of a segment
    entries: IndexEntries, flags: IntArray, segment: int, largest: int, *, is_closed: bool, is_whole: bool
) -> IndexFaultArray:
    """Return INDEX_FAULT rows for the entries that do not match the log, once all its batches have been seen.

    Args:
        entries: entries of the index.
        flags: their flags from all batches.
        segment: number of the segment.
        largest: largest timestamp in it.
        is_closed: whether it is not the last segment. Closing a segment adds an entry with its largest timestamp.
        is_whole: whether batches cover the log. If not, an entry may refer to a lost batch.
    """
    if not entries.is_there:
        return np.empty(0, INDEX_FAULT)
    same, larger = (flags & SAME_TIMESTAMP) != 0, (flags & LARGER_BEFORE) != 0
    other = ~same & ((flags & OTHER_TIMESTAMP) != 0)
    misplaced = ~same & ~other & is_whole
    is_faulty = entries.is_sound & (other | misplaced | larger)
    kinds = np.select(
        [misplaced, other], [IndexFault.OFFSET_NOT_IN_LOG, IndexFault.OTHER_TIMESTAMP], IndexFault.LARGER_BEFORE
    )
    rows = entries.rows(is_faulty, kinds, segment, is_time=True)
    if is_closed and is_whole and not is_faulty[-1:].any():
        rows = np.append(rows, _last_entry_fault(entries, segment, largest))
    return rows


def _last_entry_fault(entries: IndexEntries, segment: int, largest: int) -> IndexFaultArray:
    """Return a row if the last timestamp is not the largest one of the segment."""
    if not len(entries) and largest >= 0:
        return np.array([(segment, True, 0, IndexFault.EMPTY, -1, -1, largest)], INDEX_FAULT)
    is_too_small = entries.is_sound & (entries.values < largest)
    is_too_small[:-1] = False
    return entries.rows(is_too_small, IndexFault.NOT_LARGEST, segment, is_time=True, actual=largest)
