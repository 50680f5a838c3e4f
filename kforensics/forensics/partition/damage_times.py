"""When damaged bytes or files were written: between the batches around them, since a log is only appended to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import UNKNOWN_TIMES, format_time
from kforensics.forensics.core.observations import (
    Observed,
    log_positions,
    observations_of,
)
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import APPENDED, WRITTEN, time_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.files.log_names import base_offset_of
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import Damage

__all__ = [
    "DamageTimes",
    "TimeSpan",
    "clock_of",
    "position_after",
    "with_times_of_segments",
]

# What findings about a file of a segment state of times, if they state any.
STATED = (APPENDED, WRITTEN, "since_ms", "silent_ms", "lasts_ms", "lagged_ms")


def position_after(segment: int, row: Damage) -> int:
    """Return the log position of the batch that follows damage between batches, as :func:`log_positions` does."""
    return (segment + 1) << 40 if row.next_good_position is None else segment << 40 | row.next_good_position


def clock_of(state: PartitionState) -> str:
    """Return the name in evidence of the times of batches: whether brokers set all of them."""
    return APPENDED if state.log.has_append_times else WRITTEN


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """Between which times something was written.

    Attributes:
        after: newest known time before it in ms, None if there is none.
        before: oldest known time after it.
        name: of such times in evidence.
    """

    after: int | None
    before: int | None
    name: str

    @property
    def evidence(self) -> dict[str, object]:
        """The times as evidence: the earliest one, and both."""
        first = self.before if self.after is None else self.after
        if first is None:
            return {}
        return {**time_of(first, self.name), "written_between_ms": [self.after, self.before]}

    @property
    def sentence(self) -> str:
        """The times as a sentence after a space; nothing if none is known."""
        after, before = (None if time is None else format_time(time) for time in (self.after, self.before))
        if after == before:
            return "" if after is None else f" Written at about {after}, by the batches around it."
        if before is None:
            return f" Written after {after}, by the batch before it."
        if after is None:
            return f" Written before {before}, by the batch after it."
        return f" Written between {after} and {before}, by the batches around it."


@dataclass(frozen=True, slots=True)
class DamageTimes:
    """The times of the readable batches around damage.

    Attributes:
        state: the partition.
        positions: log positions of batches after damage and of damaged ones, ascending.
        times_before: time of the last readable batch before each, NO_TIME if there is none.
        times: time of each or of the first readable one after it.
    """

    state: PartitionState
    positions: IntArray
    times_before: IntArray
    times: IntArray

    @classmethod
    def of(cls, state: PartitionState) -> DamageTimes:
        """Return the times of a partition."""
        rows = observations_of(state.log.observations, Observed.AROUND_DAMAGE)
        rows = rows.take(np.argsort(log_positions(rows), kind="stable"))
        damaged = log_positions(observations_of(state.log.observations, Observed.BATCH_CRC_MISMATCH))
        positions = log_positions(rows)
        times = np.where(np.isin(positions, damaged), NO_TIME, rows["timestamp"])
        return cls(state, positions, _filled(rows["previous"]), _filled(times[::-1])[::-1])

    def around(self, segment: int, row: Damage) -> TimeSpan:
        """Return between which times damage was written."""
        if row.inside_batch is None and row.next_good_position is None:
            after, before = self._around_end_of(segment)
        elif row.inside_batch is None:
            after, before = self._around(position_after(segment, row), position_after(segment, row))
        else:
            at = segment << 40 | row.inside_batch
            after, before = self._around(at, at + 1)
        if after is not None and before is not None:  # producers set timestamps, and not always in order
            after, before = min(after, before), max(after, before)
        return TimeSpan(after, before, clock_of(self.state))

    def _around(self, at: int, following: int) -> tuple[int | None, int | None]:
        """Return the time of the last readable batch before a position, and of the first one from another one on."""
        first = self.state.log.first
        if len(first) and int(first.segment[0]) << 40 | int(first.position[0]) == following:  # no batch is before it
            return None, _known_at(_readable(first), 0)
        index, end = np.searchsorted(self.positions, [at + 1, following]).tolist()
        return _known_at(self.times_before, index - 1), _known_at(self.times, end)

    def _around_end_of(self, segment: int) -> tuple[int | None, int | None]:
        """Return the newest time in a segment, and in the next one, None after the end of the log."""
        segments, last = self.state.log.segments, self.state.log.last
        if len(last) and int(last.segment[0]) <= segment:
            return _known_at(_readable(last), 0), None
        index = int(np.searchsorted(segments["segment"], segment, "right"))
        newest = _newest_times(self.state)
        return _known_at(newest, index - 1), _known_at(newest, index)


def with_times_of_segments(state: PartitionState, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; those about a file of a segment with the times between which that segment was written.

    A finding that states a time is left as it is, as are those that need no action.
    """
    times: SegmentTimes | None = None
    for finding in findings:
        base = base_offset_of(finding.path or "")
        if base is None or finding.severity < Severity.WARNING or any(name in finding.evidence for name in STATED):
            yield finding
            continue
        times = times or SegmentTimes.of(state)  # few partitions have such findings
        is_snapshot = str(finding.path).endswith(".snapshot")
        known = times.of_snapshot(base) if is_snapshot else times.of_segment(base)
        yield replace(finding, evidence={**finding.evidence, **known})


@dataclass(frozen=True, slots=True)
class SegmentTimes:
    """Between which times the segments of a partition were written.

    Attributes:
        bases: their base offsets, ascending.
        newest: the newest time of each, unknown if it may be damaged.
    """

    bases: list[int]
    newest: IntArray

    @classmethod
    def of(cls, state: PartitionState) -> SegmentTimes:
        """Return the times of the segments that have batches."""
        segments = state.partition.segments
        bases = [segments[number].base_offset or 0 for number in state.log.segments["segment"].tolist()]
        return cls(bases, _newest_times(state))

    def of_segment(self, base: int) -> dict[str, object]:
        """Return the times of the files with a base offset, as evidence."""
        index = bisect_right(self.bases, base) - 1
        before, newest = _known_at(self.newest, index - 1), _known_at(self.newest, index)
        if before is not None and newest is not None:  # producers set timestamps, and not always in order
            before = min(before, newest)
        first = before if newest is None else newest
        return {} if first is None else {WRITTEN: first, "written_between_ms": [before, newest]}

    def of_snapshot(self, offset: int) -> dict[str, object]:
        """Return the times of a snapshot, which is taken when the segment before it is complete, as evidence."""
        newest = _known_at(self.newest, bisect_left(self.bases, offset) - 1)
        return {} if newest is None else {WRITTEN: newest, "written_between_ms": [newest, None]}


def _newest_times(state: PartitionState) -> IntArray:
    """Return the newest time of each segment, unknown for those with a damaged batch: its time may be damaged, too."""
    segments = state.log.segments
    damaged = observations_of(state.log.observations, Observed.BATCH_CRC_MISMATCH)["segment"]
    times: IntArray = np.where(np.isin(segments["segment"], damaged), NO_TIME, segments["max_timestamp"])
    return times


def _filled(times: IntArray) -> IntArray:
    """Return times in which each unknown one is replaced by the last known one before it."""
    known = np.where(np.isin(times, UNKNOWN_TIMES), 0, np.arange(len(times)))
    filled: IntArray = times[np.maximum.accumulate(known)]
    return filled


def _readable(batch: BatchColumns) -> IntArray:
    times: IntArray = np.where(batch.crc_valid, batch.max_timestamp, NO_TIME)
    return times


def _known_at(times: IntArray, index: int) -> int | None:
    time = int(times[index]) if 0 <= index < len(times) else NO_TIME
    return None if time in UNKNOWN_TIMES else time
