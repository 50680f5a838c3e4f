"""A summary of all batches of a partition. Summaries of adjacent parts, cut anywhere, merge in log order.

See "The log summary" in ``docs/design.md``. A summary has a fixed size, plus one row per segment,
leader epoch, chunk and observation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.observations import (
    OBSERVATION,
    ObservationArray,
    around_damage,
    failed_checksums,
    merge_observations,
)
from kforensics.forensics.core.record_arrays import concat_rows, copy_rows
from kforensics.forensics.core.record_types import Portable
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.batch_histogram import (
    NO_BATCHES,
    BatchHistogramArray,
    batch_histogram,
    merged_histograms,
)
from kforensics.parsers.columns.batch_columns import EMPTY_CONTROL_BATCH, NO_CONTROL, BatchColumns, concat_batches
from kforensics.parsers.format.array_types import BoolArray, StructArray
from kforensics.parsers.format.rows import DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, Damage

__all__ = ["DAMAGE", "Collector", "LogSummary", "goes_back", "log_summary", "merged_logs"]

SEGMENT_SUMMARY = np.dtype(
    [
        ("segment", "i4"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),  # of its last batch
        ("highest_offset", "i8"),  # the largest last offset in it
        ("batches", "i8"),
        ("max_timestamp", "i8"),
        ("end", "i8"),  # position after its last batch
    ]
)
SegmentSummaryArray: TypeAlias = StructArray
# A run of consecutive batches with the same leader epoch.
EPOCH_RUN = np.dtype(
    [
        ("leader_epoch", "i4"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("segment", "i4"),
        ("position", "i8"),
        ("max_timestamp", "i8"),  # of its first batch
        ("after_old_format", "?"),  # whether batches of message format 0 or 1 precede it
    ]
)
EpochRunArray: TypeAlias = StructArray
# Where a chunk begins, and how much of the partition precedes it.
CHUNK_START = np.dtype(
    [("segment", "i4"), ("position", "i8"), ("base_offset", "i8"), ("records_before", "i8"), ("bytes_before", "i8")]
)
ChunkStartArray: TypeAlias = StructArray
# The first message format whose batches have a leader epoch.
EPOCH_MAGIC = 2
# Timestamp types without bit 0, that of create time.
APPEND_TIMES_ONLY = 2
FIRST, LAST = np.array([0]), np.array([-1])


@dataclass(frozen=True, slots=True)
class Collector:
    """What a check observes while the batches are read; each function yields arrays of observations.

    Attributes:
        batches: takes a chunk of batches.
        neighbors: takes two chunks of the same length; each batch of the second follows the same batch of the first.
        markers: the same for transaction markers with no other marker between them.
    """

    batches: Callable[[BatchColumns, Rules], Iterable[ObservationArray]] | None = None
    neighbors: Callable[[BatchColumns, BatchColumns, Rules], Iterable[ObservationArray]] | None = None
    markers: Callable[[BatchColumns, BatchColumns, Rules], Iterable[ObservationArray]] | None = None


# What damage explains is not a finding of its own, so every question that evaluates transactions or sequences needs it.
DAMAGE = Collector(batches=failed_checksums, neighbors=around_damage)


@dataclass(frozen=True, slots=True)
class LogSummary(Portable):
    """All batches of a part of a partition, summarized.

    Attributes:
        first: the first batch as columns of length 1, or of length 0 if there is none.
        last: the last batch, in the same form.
        first_marker: the first COMMIT or ABORT, in the same form.
        last_marker: the last COMMIT or ABORT, in the same form.
        batches: number of batches.
        records: number of data records; a compressed message of formats 0 and 1 counts as one.
        compressed_messages: number of such messages, whose records are not counted.
        bytes: size of all batches.
        control_batches: number of batches without data records.
        control_bytes: size of those batches.
        offset_gaps: offsets that no batch covers, between the first and the last batch.
        newest_timestamp: the largest maximum timestamp, -1 if there is none.
        newest_offset: first offset of the batch that has it.
        timestamp_types: bit 0 if there is create time, bit 1 if there is log append time.
        cleaned_to: last offset up to which there is evidence of compaction, -1 if there is none.
        gaps_between_segments: how many offset gaps are between two segments.
        segments: SEGMENT_SUMMARY rows.
        epochs: EPOCH_RUN rows.
        ends_in_old_format: whether a batch of message format 0 or 1 follows the last of them.
        chunk_starts: CHUNK_START rows.
        observations: OBSERVATION rows.
        damage: segment number and damage, in log order.
        histogram: BATCH_HISTOGRAM rows of the data batches.
    """

    first: BatchColumns
    last: BatchColumns
    first_marker: BatchColumns
    last_marker: BatchColumns
    batches: int = 0
    records: int = 0
    compressed_messages: int = 0
    bytes: int = 0
    control_batches: int = 0
    control_bytes: int = 0
    offset_gaps: int = 0
    newest_timestamp: int = -1
    newest_offset: int = -1
    timestamp_types: int = 0
    cleaned_to: int = -1
    gaps_between_segments: int = 0
    segments: SegmentSummaryArray = field(default_factory=lambda: np.empty(0, SEGMENT_SUMMARY))
    epochs: EpochRunArray = field(default_factory=lambda: np.empty(0, EPOCH_RUN))
    ends_in_old_format: bool = False
    chunk_starts: ChunkStartArray = field(default_factory=lambda: np.empty(0, CHUNK_START))
    observations: ObservationArray = field(default_factory=lambda: np.empty(0, OBSERVATION))
    damage: tuple[tuple[int, Damage], ...] = ()
    histogram: BatchHistogramArray = field(default_factory=lambda: NO_BATCHES)

    @property
    def has_append_times(self) -> bool:
        """Whether brokers have set all timestamps."""
        return self.timestamp_types == APPEND_TIMES_ONLY

    @property
    def has_old_format(self) -> bool:
        """Whether it begins or ends with message format 0 or 1."""
        return self.ends_in_old_format or bool((self.first.magic < EPOCH_MAGIC).any())

    @property
    def has_damaged_batches(self) -> bool:
        """Whether there is damage inside a batch, whose records cannot all be read."""
        return any(damage.inside_batch is not None for _, damage in self.damage)

    def contiguous_from(self, first_offset: int, last_base: int) -> int:
        """Return the offset from which no offset is missing and no batch has lost a record, whatever a cleaner did.

        Before message format 2 a batch may have lost records without a trace.

        Args:
            first_offset: base offset of the first segment.
            last_base: base offset of the last segment, which may have no batch.
        """
        if not self.batches:
            return last_base
        end = int(self.last.last_offset[0]) + 1
        if self.has_old_format:
            return max(end, last_base)
        begins, reached = self.segments["first_offset"], self.segments["highest_offset"]
        after_gaps = begins[1:][begins[1:] > reached[:-1] + 1]
        after_old_format = self.epochs["first_offset"][self.epochs["after_old_format"]]
        return max(
            self.cleaned_to + 1,
            int(after_gaps.max(initial=0)),
            int(after_old_format.max(initial=0)),
            int(begins[0]) if begins[0] > first_offset else 0,
            last_base if last_base > end else 0,
        )

    @classmethod
    def empty(cls) -> LogSummary:
        """Return the summary of no batches."""
        none = concat_batches([])
        return cls(none, none, none, none)


def log_summary(batches: BatchColumns, rules: Rules, collectors: Sequence[Collector]) -> LogSummary:
    """Return the summary of a chunk of batches of one segment."""
    if not len(batches):
        return LogSummary.empty()
    is_control = batches.control != NO_CONTROL
    markers = batches[(batches.control == 0) | (batches.control == 1)]
    before, after = batches[:-1], batches[1:]
    newest = int(np.argmax(batches.max_timestamp))
    offset_gaps = after.base_offset - before.last_offset - 1
    offset_gaps[~after.exact] = 0
    return LogSummary(
        # By index arrays instead of slices: a copy does not keep the chunk in memory.
        first=batches[FIRST],
        last=batches[LAST],
        first_marker=markers[FIRST[: len(markers)]],
        last_marker=markers[LAST[: len(markers)]],
        batches=len(batches),
        records=int(batches.count[~is_control].sum()),
        compressed_messages=int((~batches.exact).sum()),
        bytes=int(batches.size.sum()),
        control_batches=int(is_control.sum()),
        control_bytes=int(batches.size[is_control].sum()),
        offset_gaps=int(offset_gaps[offset_gaps > 0].sum()),
        newest_timestamp=int(batches.max_timestamp[newest]),
        newest_offset=int(batches.base_offset[newest]),
        timestamp_types=_timestamp_types(batches),
        cleaned_to=max(_cleaned_to(batches), _last(after.last_offset, offset_gaps > 0)),
        segments=_segment_summary(batches),
        epochs=_epoch_runs(batches),
        ends_in_old_format=_ends_in_old_format(batches),
        chunk_starts=np.array([(batches.segment[0], batches.position[0], batches.base_offset[0], 0, 0)], CHUNK_START),
        observations=merge_observations(_observations(batches, (before, after), markers, rules, collectors)),
        histogram=batch_histogram(batches[~is_control] if is_control.any() else batches),
    )


def _observations(
    batches: BatchColumns,
    neighbors: tuple[BatchColumns, BatchColumns],
    markers: BatchColumns,
    rules: Rules,
    collectors: Sequence[Collector],
) -> list[ObservationArray]:
    observations: list[ObservationArray] = []
    for collector in collectors:
        if collector.batches:
            observations.extend(collector.batches(batches, rules))
        if collector.neighbors:
            observations.extend(collector.neighbors(*neighbors, rules))
        if collector.markers and len(markers) > 1:
            observations.extend(collector.markers(markers[:-1], markers[1:], rules))
    return observations


def _timestamp_types(batches: BatchColumns) -> int:
    timed = batches.magic >= 1
    append = (batches.attributes & LOG_APPEND_TIME_BIT) != 0
    return int((timed & ~append).any()) | int((timed & append).any()) << 1


def _cleaned_to(batches: BatchColumns) -> int:
    """Return the last offset of the last batch that only the cleaner can have left like that, -1 if there is none."""
    partially_compacted = batches.count < batches.last_offset - batches.base_offset + 1
    horizon = (batches.attributes & DELETE_HORIZON_BIT) != 0
    is_cleaned = (
        (partially_compacted | horizon | (batches.control == EMPTY_CONTROL_BATCH))
        & (batches.magic >= 2)
        & batches.crc_valid
    )
    return _last(batches.last_offset, is_cleaned)


def _last(offsets: Any, mask: Any) -> int:
    return int(offsets[mask].max(initial=-1))


def _segment_summary(batches: BatchColumns) -> SegmentSummaryArray:
    row = (
        batches.segment[0],
        batches.base_offset[0],
        batches.last_offset[-1],
        batches.last_offset.max(),
        len(batches),
        batches.max_timestamp.max(),
        batches.position[-1] + batches.size[-1],
    )
    return np.array([row], SEGMENT_SUMMARY)


def _epoch_runs(batches: BatchColumns) -> EpochRunArray:
    """Return the runs of leader epochs in sound batches; message formats 0 and 1 have none, and end a run."""
    known = np.flatnonzero((batches.leader_epoch >= 0) & batches.crc_valid)
    epochs, old = batches.leader_epoch[known], np.cumsum(batches.magic < EPOCH_MAGIC)[known]
    if not len(known):
        return np.empty(0, EPOCH_RUN)
    after_old = np.diff(old, prepend=0) > 0
    starts = np.flatnonzero(np.concatenate([[True], epochs[1:] != epochs[:-1]]) | after_old)
    first, last = known[starts], known[np.append(starts[1:], len(known)) - 1]
    runs = np.empty(len(starts), EPOCH_RUN)
    runs["leader_epoch"], runs["first_offset"] = epochs[starts], batches.base_offset[first]
    runs["last_offset"], runs["after_old_format"] = batches.last_offset[last], after_old[starts]
    runs["segment"], runs["position"] = batches.segment[first], batches.position[first]
    runs["max_timestamp"] = batches.max_timestamp[first]
    return runs


def _ends_in_old_format(batches: BatchColumns) -> bool:
    known, old = batches.leader_epoch >= 0, batches.magic < EPOCH_MAGIC
    return _last_index(old) > _last_index(known)


def _last_index(mask: BoolArray) -> int:
    return int(np.flatnonzero(mask).max(initial=-1))


def goes_back(log: LogSummary, *, has_epochs: bool = False) -> bool:
    """Return whether batches of message format 0 or 1 follow others.

    Args:
        log: summary of a part.
        has_epochs: whether there are batches of format 2 before that part.
    """
    after_old = log.epochs["after_old_format"]
    ends_in_old = log.ends_in_old_format and (has_epochs or len(log.epochs) > 0)
    return bool(ends_in_old or after_old[1:].any() or (has_epochs and after_old[:1].any()))


def merged_logs(left: LogSummary, right: LogSummary, rules: Rules, collectors: Sequence[Collector]) -> LogSummary:
    """Return the summary of two parts; the right one follows the left one in the log."""
    if not right.batches or not left.batches:
        return replace(left if left.batches else right, damage=left.damage + right.damage)
    offset_gap = max(0, int(right.first.base_offset[0] - left.last.last_offset[0]) - 1) if right.first.exact[0] else 0
    new_segment = bool(left.last.segment[0] != right.first.segment[0])
    chunk_starts = right.chunk_starts.copy()
    chunk_starts["records_before"] += left.records
    chunk_starts["bytes_before"] += left.bytes
    newer = right.newest_timestamp > left.newest_timestamp
    return LogSummary(
        first=left.first,
        last=right.last,
        first_marker=left.first_marker if len(left.first_marker) else right.first_marker,
        last_marker=right.last_marker if len(right.last_marker) else left.last_marker,
        batches=left.batches + right.batches,
        records=left.records + right.records,
        compressed_messages=left.compressed_messages + right.compressed_messages,
        bytes=left.bytes + right.bytes,
        control_batches=left.control_batches + right.control_batches,
        control_bytes=left.control_bytes + right.control_bytes,
        offset_gaps=left.offset_gaps + right.offset_gaps + offset_gap,
        newest_timestamp=max(left.newest_timestamp, right.newest_timestamp),
        newest_offset=right.newest_offset if newer else left.newest_offset,
        timestamp_types=left.timestamp_types | right.timestamp_types,
        # An offset gap between two segments may also be a lost segment.
        cleaned_to=max(
            left.cleaned_to, right.cleaned_to, int(right.first.last_offset[0]) if offset_gap and not new_segment else -1
        ),
        gaps_between_segments=left.gaps_between_segments
        + right.gaps_between_segments
        + int(offset_gap > 0 and new_segment),
        segments=_merged_segments(left.segments, right.segments),
        epochs=_merged_epochs(left, right),
        ends_in_old_format=right.ends_in_old_format or (left.ends_in_old_format and not len(right.epochs)),
        chunk_starts=concat_rows([left.chunk_starts, chunk_starts]),
        observations=merge_observations(_merged_observations(left, right, rules, collectors)),
        damage=left.damage + right.damage,
        histogram=merged_histograms(left.histogram, right.histogram),
    )


def _merged_observations(
    left: LogSummary, right: LogSummary, rules: Rules, collectors: Sequence[Collector]
) -> list[ObservationArray]:
    observations = [left.observations]
    for collector in collectors:
        if collector.neighbors:
            observations.extend(collector.neighbors(left.last, right.first, rules))
        if collector.markers and len(left.last_marker) and len(right.first_marker):
            observations.extend(collector.markers(left.last_marker, right.first_marker, rules))
    return [*observations, right.observations]


def _merged_segments(left: SegmentSummaryArray, right: SegmentSummaryArray) -> SegmentSummaryArray:
    if left["segment"][-1] != right["segment"][0]:
        return concat_rows([left, right])
    both = copy_rows(concat_rows([left, right[1:]]))
    continued, after = both[len(left) - 1], right[0]
    for name in ("last_offset", "end"):
        continued[name] = after[name]
    continued["batches"] += after["batches"]
    for name in ("highest_offset", "max_timestamp"):
        continued[name] = max(continued[name], after[name])
    return both


def _merged_epochs(left: LogSummary, right: LogSummary) -> EpochRunArray:
    before, after = left.epochs, right.epochs
    if left.ends_in_old_format and len(after):
        after = copy_rows(after)
        after["after_old_format"][0] = True
    is_continued = len(before) and len(after) and before["leader_epoch"][-1] == after["leader_epoch"][0]
    if not is_continued or after["after_old_format"][0]:
        return concat_rows([before, after])
    both = copy_rows(concat_rows([before, after[1:]]))
    both[len(before) - 1]["last_offset"] = after["last_offset"][0]
    return both
