"""What is to be known of all batches of a partition together, as a monoid: parts summarised anywhere merge in order.

Rule: section "partition-wide summary" of ``docs/design.md``. A summary does not grow with the log, but for one row per
segment, leader epoch, chunk and note.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.observations import NOTE, together
from kforensics.forensics.core.portable import Portable
from kforensics.forensics.core.record_arrays import copied, joined_records
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.columns.batch_columns import NO_CONTROL, SHELL, BatchColumns, joined
from kforensics.parsers.format.rows import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, Damage

__all__ = ["EPOCH", "MARK", "SEGMENT", "LogSummary", "Noter", "log_summary", "merged_logs"]

SEGMENT = np.dtype(
    [
        ("segment", "i4"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),  # of its last batch
        ("highest_offset", "i8"),  # the largest last offset in it
        ("batches", "i8"),
        ("max_timestamp", "i8"),
        ("end", "i8"),  # position behind its last batch
    ]
)
EPOCH = np.dtype(
    [("leader_epoch", "i4"), ("first_offset", "i8"), ("last_offset", "i8"), ("segment", "i4"), ("position", "i8")]
)
# Where a chunk begins, and how much of the partition stands before it.
MARK = np.dtype(
    [("segment", "i4"), ("position", "i8"), ("base_offset", "i8"), ("records_before", "i8"), ("bytes_before", "i8")]
)
FIRST, LAST = np.array([0]), np.array([-1])


@dataclass(frozen=True, slots=True)
class Noter:
    """What a check notes as batches go by, each function giving notes or nothing.

    Attributes:
        batches: of a chunk.
        neighbours: of two chunks of the same length, whose batches stand behind one another: before, after.
        markers: the same of transaction markers that no other marker stands between.
    """

    batches: Callable[[BatchColumns, Rules], Iterable[Records]] | None = None
    neighbours: Callable[[BatchColumns, BatchColumns, Rules], Iterable[Records]] | None = None
    markers: Callable[[BatchColumns, BatchColumns, Rules], Iterable[Records]] | None = None


@dataclass(frozen=True, slots=True)
class LogSummary(Portable):
    """All batches of a part of a partition, together.

    Attributes:
        first: the first batch, as columns of length 1; of length 0 if there is none, as are the next three.
        last: the last one.
        first_marker: the first COMMIT or ABORT.
        last_marker: the last one.
        batches: how many.
        records: records of users in them.
        bytes: of all batches.
        control_batches: batches without records of users.
        control_bytes: bytes of those.
        holes: offsets that no batch spans, between the first and the last batch.
        newest_timestamp: the largest maximum timestamp, -1 if there is none.
        newest_offset: first offset of the batch that has it.
        timestamp_types: bit 0 if there is create time, bit 1 if there is log append time.
        cleaned_to: last offset up to which something shows that the log was compacted, -1 if nothing does.
        holes_between_segments: how many of the holes are at the border of two segments.
        segments: SEGMENT rows.
        epochs: EPOCH rows, one for each run of a leader epoch.
        marks: MARK rows.
        notes: NOTE rows.
        damage: segment and damage, in the order of the log.
    """

    first: BatchColumns
    last: BatchColumns
    first_marker: BatchColumns
    last_marker: BatchColumns
    batches: int = 0
    records: int = 0
    bytes: int = 0
    control_batches: int = 0
    control_bytes: int = 0
    holes: int = 0
    newest_timestamp: int = -1
    newest_offset: int = -1
    timestamp_types: int = 0
    cleaned_to: int = -1
    holes_between_segments: int = 0
    segments: Records = field(default_factory=partial(np.empty, 0, SEGMENT))
    epochs: Records = field(default_factory=partial(np.empty, 0, EPOCH))
    marks: Records = field(default_factory=partial(np.empty, 0, MARK))
    notes: Records = field(default_factory=partial(np.empty, 0, NOTE))
    damage: tuple[tuple[int, Damage], ...] = ()

    @classmethod
    def empty(cls) -> LogSummary:
        """Return the summary of no batch."""
        none = joined([])
        return cls(none, none, none, none)


def log_summary(batches: BatchColumns, rules: Rules, noters: Sequence[Noter]) -> LogSummary:
    """Return the summary of a chunk of batches of one segment."""
    if not len(batches):
        return LogSummary.empty()
    is_control = batches.control != NO_CONTROL
    markers = batches[(batches.control == 0) | (batches.control == 1)]
    before, after = batches[:-1], batches[1:]
    newest = int(np.argmax(batches.max_timestamp))
    holes = after.base_offset - before.last_offset - 1
    holes[~after.exact] = 0
    return LogSummary(
        # By indexes, not slices: a copy does not keep the chunk in memory.
        first=batches[FIRST],
        last=batches[LAST],
        first_marker=markers[FIRST[: len(markers)]],
        last_marker=markers[LAST[: len(markers)]],
        batches=len(batches),
        records=int(batches.count[~is_control].sum()),
        bytes=int(batches.size.sum()),
        control_batches=int(is_control.sum()),
        control_bytes=int(batches.size[is_control].sum()),
        holes=int(holes[holes > 0].sum()),
        newest_timestamp=int(batches.max_timestamp[newest]),
        newest_offset=int(batches.base_offset[newest]),
        timestamp_types=_timestamp_types(batches),
        cleaned_to=max(_cleaned_to(batches), _last(after.last_offset, holes > 0)),
        segments=_segment(batches),
        epochs=_epochs(batches),
        marks=np.array([(batches.segment[0], batches.position[0], batches.base_offset[0], 0, 0)], MARK),
        notes=together(_notes(batches, (before, after), markers, rules, noters)),
    )


def _notes(
    batches: BatchColumns,
    neighbours: tuple[BatchColumns, BatchColumns],
    markers: BatchColumns,
    rules: Rules,
    noters: Sequence[Noter],
) -> list[Records]:
    notes: list[Records] = []
    for noter in noters:
        if noter.batches:
            notes.extend(noter.batches(batches, rules))
        if noter.neighbours:
            notes.extend(noter.neighbours(*neighbours, rules))
        if noter.markers and len(markers) > 1:
            notes.extend(noter.markers(markers[:-1], markers[1:], rules))
    return notes


def _timestamp_types(batches: BatchColumns) -> int:
    timed = batches.magic >= 1
    append = (batches.attributes & LOG_APPEND_TIME_BIT) != 0
    return int((timed & ~append).any()) | int((timed & append).any()) << 1


def _cleaned_to(batches: BatchColumns) -> int:
    """Return the last offset of the last batch that only a cleaner can have made so, -1 if there is none."""
    thinned = batches.count < batches.last_offset - batches.base_offset + 1
    horizon = (batches.attributes & DELETE_HORIZON_BIT) != 0
    shows = (thinned | horizon | (batches.control == SHELL)) & (batches.magic >= 2) & batches.crc_valid
    return _last(batches.last_offset, shows)


def _last(offsets: Any, which: Any) -> int:
    return int(offsets[which].max(initial=-1))


def _segment(batches: BatchColumns) -> Records:
    row = (
        batches.segment[0],
        batches.base_offset[0],
        batches.last_offset[-1],
        batches.last_offset.max(),
        len(batches),
        batches.max_timestamp.max(),
        batches.position[-1] + batches.size[-1],
    )
    return np.array([row], SEGMENT)


def _epochs(batches: BatchColumns) -> Records:
    """Return the runs of leader epochs; formats 0 and 1 have none."""
    known = np.flatnonzero(batches.leader_epoch >= 0)
    epochs = batches.leader_epoch[known]
    if not len(known):
        return np.empty(0, EPOCH)
    starts = np.flatnonzero(np.concatenate([[True], epochs[1:] != epochs[:-1]]))
    first, last = known[starts], known[np.append(starts[1:], len(known)) - 1]
    runs = np.empty(len(starts), EPOCH)
    runs["leader_epoch"], runs["first_offset"] = epochs[starts], batches.base_offset[first]
    runs["last_offset"] = batches.last_offset[last]
    runs["segment"], runs["position"] = batches.segment[first], batches.position[first]
    return runs


def merged_logs(left: LogSummary, right: LogSummary, rules: Rules, noters: Sequence[Noter]) -> LogSummary:
    """Return the summary of two parts, of which the right one follows the left one."""
    if not right.batches or not left.batches:
        filled = left if left.batches else right
        return replace(filled, damage=left.damage + right.damage)
    hole = max(0, int(right.first.base_offset[0] - left.last.last_offset[0]) - 1) if right.first.exact[0] else 0
    new_segment = bool(left.last.segment[0] != right.first.segment[0])
    marks = right.marks.copy()
    marks["records_before"] += left.records
    marks["bytes_before"] += left.bytes
    newer = right.newest_timestamp > left.newest_timestamp
    return LogSummary(
        first=left.first,
        last=right.last,
        first_marker=left.first_marker if len(left.first_marker) else right.first_marker,
        last_marker=right.last_marker if len(right.last_marker) else left.last_marker,
        batches=left.batches + right.batches,
        records=left.records + right.records,
        bytes=left.bytes + right.bytes,
        control_batches=left.control_batches + right.control_batches,
        control_bytes=left.control_bytes + right.control_bytes,
        holes=left.holes + right.holes + hole,
        newest_timestamp=max(left.newest_timestamp, right.newest_timestamp),
        newest_offset=right.newest_offset if newer else left.newest_offset,
        timestamp_types=left.timestamp_types | right.timestamp_types,
        # A hole between two segments may also be a segment that was lost.
        cleaned_to=max(
            left.cleaned_to, right.cleaned_to, int(right.first.last_offset[0]) if hole and not new_segment else -1
        ),
        holes_between_segments=left.holes_between_segments
        + right.holes_between_segments
        + int(hole > 0 and new_segment),
        segments=_merged_segments(left.segments, right.segments),
        epochs=_merged_epochs(left.epochs, right.epochs),
        marks=joined_records([left.marks, marks]),
        notes=together([left.notes, *_seam_notes(left, right, rules, noters), right.notes]),
        damage=left.damage + right.damage,
    )


def _seam_notes(left: LogSummary, right: LogSummary, rules: Rules, noters: Sequence[Noter]) -> list[Records]:
    notes: list[Records] = []
    for noter in noters:
        if noter.neighbours:
            notes.extend(noter.neighbours(left.last, right.first, rules))
        if noter.markers and len(left.last_marker) and len(right.first_marker):
            notes.extend(noter.markers(left.last_marker, right.first_marker, rules))
    return notes


def _merged_segments(left: Records, right: Records) -> Records:
    if left["segment"][-1] != right["segment"][0]:
        return joined_records([left, right])
    both = copied(joined_records([left, right[1:]]))
    seam, after = both[len(left) - 1], right[0]
    for name in ("last_offset", "end"):
        seam[name] = after[name]
    seam["batches"] += after["batches"]
    for name in ("highest_offset", "max_timestamp"):
        seam[name] = max(seam[name], after[name])
    return both


def _merged_epochs(left: Records, right: Records) -> Records:
    if not len(left) or not len(right) or left["leader_epoch"][-1] != right["leader_epoch"][0]:
        return joined_records([left, right])
    both = copied(joined_records([left, right[1:]]))
    both[len(left) - 1]["last_offset"] = right["last_offset"][0]
    return both
