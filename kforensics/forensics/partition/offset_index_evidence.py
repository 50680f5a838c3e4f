"""What a chunk of batches says of the entries of an offset index, and what is wrong once the segment is known.

Rule: ``OffsetIndex``. An entry names a batch's position and, by the release that wrote it,

* up to 1.1 the first offset of an append, which is that of the batch there;
* from 2.0 to 3.9.0, and in 4.0.0, the largest offset of an append, whose last batch may stand further on. When the
  cleaner writes, that is the largest offset of the records it kept, and may lie inside a batch that it thinned;
* since 3.9.1 and 4.0.2 the last offset of the batch there.

Rebuilt indexes have entries batch by batch. No entry may be demanded anywhere: the counter of bytes between entries
starts anew with the broker.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.index_entries import FAULT, Fault, IndexEntries
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["by_last_offset", "offset_index_faults", "offset_index_marks"]

# A batch begins at the position, or reaches over it.
BEGINS, INSIDE = 1, 2
# The batch at the position begins with the offset, the batch before it reaches the offset.
FIRST, REACHED = 4, 8
# A batch ends with the offset; it lies inside a batch that is thinned, or whole.
LAST, THINNED, WITHIN = 16, 32, 64


def offset_index_marks(entries: IndexEntries, batches: BatchColumns) -> Any:
    """Return a byte of marks for each entry, from a chunk of batches; those of several chunks are or-ed."""
    marks = np.zeros(len(entries), np.uint8)
    if len(entries) and len(batches):
        ends = batches.position + batches.size
        _mark_positions(marks, entries, batches, ends)
        _mark_before(marks, entries, batches, ends)
        _mark_offsets(marks, entries, batches)
    return marks


def _mark_positions(marks: Any, entries: IndexEntries, batches: BatchColumns, ends: Any) -> None:
    which = entries.with_values(int(batches.position[0]), int(ends[-1]) - 1)
    position, offset = entries.values[which], entries.offsets[which]
    at = np.searchsorted(batches.position, position, "right") - 1
    begins = batches.position[at] == position
    # A compressed wrapper of formats 0 and 1 does not tell its first offset; see REACHED for what bounds it.
    first = (batches.base_offset[at] == offset) | (~batches.exact[at] & (offset <= batches.last_offset[at]))
    inside = ~begins & (position < ends[at])
    marks[which] |= (begins * BEGINS + inside * INSIDE + (begins & first) * FIRST).astype(np.uint8)


def _mark_before(marks: Any, entries: IndexEntries, batches: BatchColumns, ends: Any) -> None:
    which = entries.with_values(int(batches.position[0]) + 1, int(ends[-1]))
    position, offset = entries.values[which], entries.offsets[which]
    at = np.searchsorted(ends, position)
    reached = (ends[at] == position) & (batches.last_offset[at] >= offset)
    marks[which] |= (reached * REACHED).astype(np.uint8)


def _mark_offsets(marks: Any, entries: IndexEntries, batches: BatchColumns) -> None:
    last, order = by_last_offset(batches)
    which = entries.with_offsets(int(batches.base_offset.min()), int(last[-1]))
    offset = entries.offsets[which]
    found = np.searchsorted(last, offset)
    at = found if order is None else order[found]
    base, end = batches.base_offset[at], batches.last_offset[at]
    inside, ends_there = base <= offset, end == offset
    thinned = inside & (batches.count[at] < end - base + 1)
    within = inside & ~thinned & ~ends_there
    marks[which] |= (ends_there * LAST + thinned * THINNED + within * WITHIN).astype(np.uint8)


def by_last_offset(batches: BatchColumns) -> tuple[Any, Any]:
    """Return the last offsets in ascending order, and the order; None for the order they stand in, as they should."""
    last = batches.last_offset
    if (last[1:] >= last[:-1]).all():
        return last, None
    order = np.argsort(last, kind="stable")
    return last[order], order


def offset_index_faults(entries: IndexEntries, marks: Any, segment: int, end: int, *, is_whole: bool) -> Records:
    """Return FAULT rows for the entries that do not fit the log, once all its batches have been seen.

    Args:
        entries: of the index.
        marks: of all batches.
        segment: number of the segment.
        end: position behind its last batch.
        is_whole: whether batches cover the log up to there. Where they do not, an entry may speak of what is lost.
    """
    if not len(entries):
        return np.empty(0, FAULT)

    def has(mark: int) -> Any:
        return (marks & mark) != 0

    begins = has(BEGINS)
    beyond = ~begins & (entries.values >= end)
    astray = ~begins & ~beyond & (has(INSIDE) | (entries.values < 0) | is_whole)
    reached = begins & has(REACHED)
    nameless = begins & ~reached & ~has(FIRST | LAST | THINNED) & (has(WITHIN) | is_whole)
    struck = entries.is_sound & (astray | reached | nameless)
    kinds = np.select([astray, reached], [Fault.NO_BATCH_BEGINS, Fault.OFFSET_BEFORE_POSITION], Fault.NO_BATCH_ENDS)
    return joined_records(
        [
            entries.rows(entries.is_sound & beyond, Fault.BEYOND_LOG, segment, is_time=False, found=end),
            entries.rows(struck, kinds, segment, is_time=False),
        ]
    )
