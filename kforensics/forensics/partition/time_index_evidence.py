"""What a chunk of batches says of the entries of a time index, and what is wrong once the segment is known.

Rule: ``TimeIndex``. An entry names the largest timestamp up to there, and an offset of the batch that has it: the last
one or, as leaders up to 3.6 wrote it for uncompressed batches with create time, that of the first record with the
timestamp. Records are not read here, so any offset of the batch will do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.partition.index_entries import FAULT, Fault, IndexEntries
from kforensics.forensics.partition.offset_index_evidence import by_last_offset
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["seen", "time_index_faults", "time_index_marks"]

# The batch with the offset has the timestamp, or another one; an earlier batch has a larger one.
SAME, OTHER, LARGER = 1, 2, 4


def time_index_marks(entries: IndexEntries, batches: BatchColumns) -> Any:
    """Return a byte of marks for each entry, from a chunk of batches; those of several chunks are or-ed."""
    marks = np.zeros(len(entries), np.uint8)
    if len(entries) and len(batches):
        last, order = by_last_offset(batches)
        which = entries.with_offsets(int(batches.base_offset.min()), int(last[-1]))
        offset, timestamp = entries.offsets[which], entries.values[which]
        found = np.searchsorted(last, offset)
        at = found if order is None else order[found]
        inside = batches.base_offset[at] <= offset
        # Format 0 has no timestamps, but 0.10.2 indexed those of messages that it then stored in this format.
        same = inside & ((batches.max_timestamp[at] == timestamp) | (batches.magic[at] == 0))
        larger = inside & (_largest_before(batches)[at] > timestamp)
        marks[which] |= (same * SAME + (inside & ~same) * OTHER + larger * LARGER).astype(np.uint8)
    return marks


def _largest_before(batches: BatchColumns) -> Any:
    return np.concatenate([[NO_TIME], np.maximum.accumulate(batches.max_timestamp)[:-1]])


def seen(entries: IndexEntries, marks: Any, largest_before: int) -> Any:
    """Return marks with what follows from a part of the log before the one they are of.

    Args:
        entries: of the index.
        marks: of a part.
        largest_before: largest timestamp before it, in the segment.
    """
    larger = (marks != 0) & (entries.values < largest_before)
    return marks | (larger * LARGER).astype(np.uint8)


def time_index_faults(  # noqa: PLR0913  # what is known of a segment
    entries: IndexEntries, marks: Any, segment: int, largest: int, *, is_closed: bool, is_whole: bool
) -> Records:
    """Return FAULT rows for the entries that do not fit the log, once all its batches have been seen.

    Args:
        entries: of the index.
        marks: of all batches.
        segment: number of the segment.
        largest: largest timestamp in it.
        is_closed: whether it is not the last one: closing a segment adds its largest timestamp.
        is_whole: whether batches cover the log. Where they do not, an entry may speak of what is lost.
    """
    if not entries.is_there:
        return np.empty(0, FAULT)
    same, larger = (marks & SAME) != 0, (marks & LARGER) != 0
    other = ~same & ((marks & OTHER) != 0)
    astray = ~same & ~other & is_whole
    struck = entries.is_sound & (other | astray | larger)
    kinds = np.select([astray, other], [Fault.OFFSET_NOT_IN_LOG, Fault.OTHER_TIMESTAMP], Fault.LARGER_BEFORE)
    rows = entries.rows(struck, kinds, segment, is_time=True)
    if is_closed and is_whole and not struck[-1:].any():
        rows = np.append(rows, _at_end(entries, segment, largest))
    return rows


def _at_end(entries: IndexEntries, segment: int, largest: int) -> Records:
    """Return a row if the last timestamp is not the largest one."""
    if not len(entries) and largest >= 0:
        return np.array([(segment, True, 0, Fault.EMPTY, -1, -1, largest)], FAULT)
    is_short = entries.is_sound & (entries.values < largest)
    is_short[:-1] = False
    return entries.rows(is_short, Fault.NOT_LARGEST, segment, is_time=True, found=largest)
