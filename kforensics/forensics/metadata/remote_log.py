"""What ``__remote_log_metadata`` records about the segments of a partition in remote storage.

Rule: ``RemoteLogMetadataCache``. A segment is readable from COPY_SEGMENT_FINISHED until DELETE_SEGMENT_STARTED, and the
records of a partition are in one partition of the topic, in the order of the events. A copy that failed is deleted
without ever having been readable. Nothing removes records of the topic unless its retention is limited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import Any

from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.columns.record_columns import record_chunks
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.parsers.messages.internal_records import decode_record

__all__ = ["RemoteLog", "RemoteSegment", "remote_logs_at", "remote_logs_in", "remote_segments_at"]

SEGMENT, UPDATE, PARTITION_DELETED = 0, 1, 2
# States of a segment, in the order in which it passes through them.
COPY_FINISHED, DELETE_STARTED = 1, 2

PartitionId = tuple[str, int]
OffsetRange = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RemoteSegment:
    """A segment in remote storage, or one that was there.

    Attributes:
        segment_id: its id.
        first_offset: its first offset.
        last_offset: its last offset.
        copied_ms: when its copy was finished; None if it never was.
        deleted_ms: when its deletion began, or that of the topic; None if it did not.
    """

    segment_id: str
    first_offset: int
    last_offset: int
    copied_ms: int | None = None
    deleted_ms: int | None = None

    @property
    def is_readable(self) -> bool:
        """Whether consumers can read it."""
        return self.copied_ms is not None and self.deleted_ms is None


@dataclass(frozen=True, slots=True)
class RemoteLog:
    """The offsets of a partition in remote storage; small enough to send to every worker.

    Attributes:
        topic_id: id of its topic.
        partition: its number.
        readable: ranges of offsets that consumers can read, ascending.
        deleted: ranges of offsets that they could read once.
        is_whole: whether the metadata is known from its first record on, without a gap.
        last_event_ms: when the newest record was written.
        paths: the files of the metadata.
        log_dirs: log directories of its cluster; None for all.
    """

    topic_id: str
    partition: int
    readable: tuple[OffsetRange, ...]
    deleted: tuple[OffsetRange, ...]
    is_whole: bool
    last_event_ms: int
    paths: tuple[str, ...]
    log_dirs: frozenset[str | None] | None = None

    @property
    def start_offset(self) -> int | None:
        """The first offset that consumers can read from remote storage, None if there is none."""
        return self.readable[0][0] if self.readable else None

    @property
    def deleted_to(self) -> int:
        """The offset up to which everything that was readable once was deleted; 0 if nothing was."""
        before = (last + 1 for first, last in self.deleted if self.start_offset is None or first < self.start_offset)
        reached = max(before, default=0)
        return reached if self.start_offset is None else min(reached, self.start_offset)

    def missing(self, first: int, last: int) -> list[OffsetRange]:
        """Return the ranges between two offsets, inclusive, that were never readable."""
        ranges, position = [], first
        for start, end in _merged([*self.readable, *self.deleted]):
            if position < start <= last:
                ranges.append((position, start - 1))
            position = max(position, end + 1)
        return [*ranges, (position, last)] if position <= last else ranges


def remote_logs_in(partition: Partition) -> tuple[RemoteLog, ...]:
    """Return the remote logs that a partition of ``__remote_log_metadata`` describes, by topic id and number.

    Raises:
        InputError: a segment cannot be read.
    """
    return remote_logs_at([segment.path for segment in partition.segments])


def remote_logs_at(paths: Sequence[str]) -> tuple[RemoteLog, ...]:
    """Return the remote logs that segments of a partition of ``__remote_log_metadata`` describe, in their order.

    Raises:
        InputError: a segment cannot be read.
    """
    reader = _Reader()
    for path in paths:
        reader.read(path)
    return tuple(
        RemoteLog(
            *key,
            _merged((one.first_offset, one.last_offset) for one in segments if one.is_readable),
            _merged((one.first_offset, one.last_offset) for one in segments if one.copied_ms and one.deleted_ms),
            reader.is_whole,
            reader.last_event_ms[key],
            tuple(paths),
        )
        for key, segments in sorted(reader.segments())
    )


def remote_segments_at(log: RemoteLog, offset: int) -> list[RemoteSegment]:
    """Return the segments that contain an offset, in the order in which their copies began.

    Raises:
        InputError: a file of the metadata cannot be read.
    """
    return [segment for segment in remote_segments(log) if segment.first_offset <= offset <= segment.last_offset]


def remote_segments(log: RemoteLog) -> list[RemoteSegment]:
    """Return all segments, in the order in which their copies began.

    Raises:
        InputError: a file of the metadata cannot be read.
    """
    reader, key = _Reader(), (log.topic_id, log.partition)
    for path in log.paths:
        reader.read(path)
    return dict(reader.segments()).get(key, [])


@dataclass(slots=True)
class _Reader:
    """Takes the records of the metadata in log order.

    Attributes:
        is_whole: whether they are known from the first one on.
        last_event_ms: time of the newest record by partition.
    """

    is_whole: bool = True
    last_event_ms: dict[PartitionId, int] = field(default_factory=dict)
    _next_offset: int = 0
    _segments: dict[PartitionId, dict[str, RemoteSegment]] = field(default_factory=dict)

    def read(self, path: str) -> None:
        """Read a file of the metadata."""
        with open_source(path) as source:
            for records in record_chunks(source, kernels_for(source.size)):
                for number, offset in enumerate(records.rows["offset"].tolist()):
                    self.is_whole &= offset == self._next_offset
                    self._next_offset = offset + 1
                    decoded = decode_record(REMOTE_LOG_METADATA, None, records.values.get(number))
                    if decoded.value is None or decoded.type_id is None or decoded.error:
                        self.is_whole = False
                    else:
                        self._add(decoded.type_id, decoded.value)

    def segments(self) -> Iterator[tuple[PartitionId, list[RemoteSegment]]]:
        """Yield partitions with their segments."""
        yield from ((key, list(segments.values())) for key, segments in self._segments.items())

    def _add(self, type_id: int, value: Mapping[str, Any]) -> None:
        if type_id not in (SEGMENT, UPDATE, PARTITION_DELETED):
            return  # brokers write snapshots of segments to a file of their own only
        of_segment = value.get("remoteLogSegmentId")
        owner, time = (of_segment or value)["topicIdPartition"], value["eventTimestampMs"]
        key = owner["id"], owner["partition"]
        segments = self._segments.setdefault(key, {})
        self.last_event_ms[key] = max(time, self.last_event_ms.get(key, time))
        if of_segment is None:
            for one in segments.values():
                segments[one.segment_id] = replace(one, deleted_ms=one.deleted_ms or time)
            return
        known = segments.get(of_segment["id"])
        if type_id == SEGMENT:
            known = RemoteSegment(of_segment["id"], value["startOffset"], value["endOffset"])
        if known is None:
            self.is_whole = False  # the record that names its offsets is missing
        else:
            segments[known.segment_id] = _changed(known, value["remoteLogSegmentState"], time)


def _changed(segment: RemoteSegment, state: int, time: int) -> RemoteSegment:
    if state == COPY_FINISHED:
        return replace(segment, copied_ms=time)
    return replace(segment, deleted_ms=segment.deleted_ms or time) if state >= DELETE_STARTED else segment


def _merged(ranges: Iterable[OffsetRange]) -> tuple[OffsetRange, ...]:
    """Return ranges, last offsets included, with those joined that overlap or follow each other."""
    merged: list[OffsetRange] = []
    for first, last in sorted(ranges, key=itemgetter(0)):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = merged[-1][0], max(last, merged[-1][1])
        else:
            merged.append((first, last))
    return tuple(merged)
