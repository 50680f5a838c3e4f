"""Takes the summaries of log chunks from the store of an earlier audit where a log is unchanged, and keeps all of them.

A chunk is taken if what it depends on is the same: its bytes, by samples of them; the entries of the indexes up to
there; the limits that observations depend on; and no snapshot was written inside it. The first chunk of a segment that
differs, and all after it, are read.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.partition.chunk_bytes import chunk_bytes, chunk_from, is_intact
from kforensics.forensics.partition.index_evidence import SegmentEvidence
from kforensics.forensics.partition.log_chunk import LogChunk, ReadTask
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.parsers.files.discover import open_found
from kforensics.parsers.files.source import Source
from kforensics.parsers.tables.schemas import parse_columns, placed_table

__all__ = ["CHUNK_SUMMARIES", "ChunkKeeper", "PreviousChunks", "StoredChunk", "SummaryUse"]

CHUNK_SUMMARIES = placed_table(
    "chunk_summaries",
    "chunk of a segment",
    parse_columns("""
topic_id string topic id from partition.metadata
base_offset int64 base offset of the segment
start int64 byte position of the first batch
stop int64 byte position after the last batch
last_position int64 byte position of the last batch
sample binary hash of some bytes of the range
first_offset int64 first offset of the first batch
highest_offset int64 largest offset in the chunk
newest_timestamp int64 largest timestamp in ms; -1 if none
as_of_ms int64 time of the evaluation in ms
copied_ms int64 time of the copy in ms
limits string limits that the summary depends on
offset_entries int64 number of entries of the offset index
time_entries int64 number of entries of the time index
entries binary hash of these entries
summary binary the summary, in a format of this release
"""),
)
# What is hashed of a chunk: the beginning of its first and its last batch with their checksums, and a sample of every
# 64 KB, eight at most.
HEAD_SIZE, SAMPLE_SIZE, SAMPLE_EVERY, MAX_SAMPLES = 21, 64, 1 << 16, 8
DIGEST_SIZE = 16
# Bytes of summaries to keep in memory, and of a part of the rows of the table.
ROOM, ROWS_BYTES = 4 << 20, 4 << 20


class StoredChunk(NamedTuple):
    """A row of the table ``chunk_summaries`` after its place; see there."""

    topic_id: str | None
    base_offset: int
    start: int
    stop: int
    last_position: int
    sample: bytes
    first_offset: int
    highest_offset: int
    newest_timestamp: int
    as_of_ms: int
    copied_ms: int
    limits: str
    offset_entries: int
    time_entries: int
    entries: bytes
    summary: bytes


class PreviousChunks(Protocol):
    """The chunks in the store of an earlier audit; it is serialized to workers.

    Attributes:
        folder: folder of the store.
    """

    @property
    def folder(self) -> str:
        """Folder of the store, a path or a URI."""

    def of_segment(self, partition: Partition, base_offset: int) -> Iterator[StoredChunk]:
        """Yield the chunks of a segment in log order, none if there are none."""


ReadChunks: TypeAlias = Callable[[ReadTask, SegmentSplit], Iterator[LogChunk]]


@dataclass(slots=True)
class SummaryUse:
    """Whether summaries are kept, and which ones are there already.

    Attributes:
        previous: those of an earlier audit, None for none.
        keeps: whether this audit keeps them, too.
        saved: bytes that were taken from there by this process, and not read.
    """

    previous: PreviousChunks | None = None
    keeps: bool = False
    saved: int = 0


@dataclass(slots=True)
class ChunkKeeper:
    """Yields the chunks of splits, stored ones where there are any, and keeps all of them.

    Attributes:
        use: where stored chunks come from.
        saved: bytes that were not read.
    """

    use: SummaryUse
    saved: int = 0
    _rows: list[StoredChunk] = field(default_factory=list)
    _sizes: list[int] = field(default_factory=list)
    _summaries: SpilledRows = field(default_factory=partial(SpilledRows, np.dtype("u1"), ROOM))

    def chunks(self, task: ReadTask, split: SegmentSplit, read: ReadChunks) -> Iterator[LogChunk]:
        """Yield the chunks of a split: the first one of a segment has all that are stored of it.

        Args:
            task: the partition, and how to read it.
            split: a range of a segment.
            read: reads chunks.

        Raises:
            InputError: the segment or the earlier store cannot be read, or the segment shrinks.
        """
        count, stop, sampled = self._stored(task, split.segment)
        covered = max(split.start, stop)
        size = task.partition.segments[split.segment].size
        end = size if split.stop is None else split.stop
        self._save(min(covered, end) - split.start - sampled)
        for row in self._previous(task, split.segment, count if split.start == 0 else 0):
            self._keep(row)
            cuts = task.offsets[: bisect_right(task.offsets, row.first_offset)]
            yield chunk_from(row.summary, cuts, task.partition, split.segment)
        if covered < end or not covered:
            yield from self._read(task, replace(split, start=covered), read)

    def rows(self, partition: Partition) -> RowStream:
        """Return what was kept, as rows of the table ``chunk_summaries``."""
        return RowStream(CHUNK_SUMMARIES, partial(_table_parts, partition, self._rows, self._sizes, self._summaries))

    def add(self, other: ChunkKeeper) -> None:
        """Add what was kept of a later part."""
        self.saved += other.saved
        for part in other._parts():
            self._keep(part)

    def _parts(self) -> Iterator[StoredChunk]:
        data = _pieces(self._sizes, self._summaries)
        return (row._replace(summary=summary) for row, summary in zip(self._rows, data, strict=True))

    def _save(self, size: int) -> None:
        self.saved += size
        self.use.saved += size

    def _keep(self, row: StoredChunk) -> None:
        if not self.use.keeps:
            return
        self._rows.append(row._replace(summary=b""))
        self._sizes.append(len(row.summary))
        self._summaries.add(np.frombuffer(row.summary, "u1"))

    def _read(self, task: ReadTask, split: SegmentSplit, read: ReadChunks) -> Iterator[LogChunk]:
        with open_found(task.partition.segments[split.segment]) as source:
            for log_chunk in read(task, split):
                is_kept = self.use.keeps and log_chunk.log.batches and log_chunk.evidence.segments
                if is_kept and not _is_damaged(log_chunk):
                    self._keep(_row(task, split.segment, log_chunk, source))
                yield log_chunk

    def _previous(self, task: ReadTask, number: int, count: int | None = None) -> Iterator[StoredChunk]:
        """Yield the first stored chunks of a segment, one at a time: all of them together may be large."""
        if self.use.previous is not None and count != 0:
            base_offset = task.partition.segments[number].base_offset or 0
            yield from islice(self.use.previous.of_segment(task.partition, base_offset), count)

    def _stored(self, task: ReadTask, number: int) -> tuple[int, int, int]:
        """Return how many stored chunks are still valid, where they end, and how many bytes were read to know that."""
        if self.use.previous is None:
            return 0, 0, 0
        segment, unseen = task.partition.segments[number], SegmentEvidence.of(task.partition, number)
        count = end = sampled = 0
        with open_found(segment) as source:
            for row in self._previous(task, number):
                if row.start != end or row.stop > segment.size or not _is_valid(row, task, unseen):
                    break
                sample, size = _sampled(source, row.start, row.stop, row.last_position)
                sampled += size
                if sample != row.sample:
                    break
                count, end = count + 1, row.stop
        return count, end, sampled


def _is_damaged(log_chunk: LogChunk) -> bool:
    """Return whether a chunk has damage; what follows its last batch is read again."""
    end = int(log_chunk.log.segments["end"][-1])
    return any(damage.start < end for _, damage in log_chunk.log.damage)


def _is_valid(row: StoredChunk, task: ReadTask, unseen: SegmentEvidence) -> bool:
    """Return whether a chunk would have the same summary today if its bytes are the same."""
    rules = task.rules_here
    times = (rules.as_of_ms, _copied(rules))
    newest = min(*times, row.as_of_ms, row.copied_ms) + rules.clock_skew_ms
    return (
        row.topic_id == task.partition.topic_id
        and row.limits == _limits(rules)
        # Observations about the future compare timestamps with the time of the evaluation.
        and (times == (row.as_of_ms, row.copied_ms) or row.newest_timestamp <= newest)
        and bisect_right(task.offsets, row.first_offset) == bisect_right(task.offsets, row.highest_offset)
        and len(unseen.offsets) >= row.offset_entries
        and len(unseen.times) >= row.time_entries
        and unseen.has_newer_entries_only(row.offset_entries, row.time_entries, row.stop, row.highest_offset)
        and unseen.entries_digest(row.offset_entries, row.time_entries) == row.entries
        and is_intact(row.summary)
    )


def _limits(rules: Rules) -> str:
    """Return the limits that collectors use."""
    return f"{rules.clock_skew_ms} {rules.ancient_ms} {rules.near_exhaustion} {rules.pid_expiry_ms}"


def _copied(rules: Rules) -> int:
    return rules.as_of_ms if rules.copied_ms is None else rules.copied_ms


def _row(task: ReadTask, number: int, log_chunk: LogChunk, source: Source) -> StoredChunk:
    log, (evidence,), rules = log_chunk.log, log_chunk.evidence.segments, task.rules_here
    start, last = int(log.first.position[0]), int(log.last.position[0])
    stop = int(log.segments["end"][-1])
    entries = len(evidence.offsets), len(evidence.times)
    return StoredChunk(
        topic_id=task.partition.topic_id,
        base_offset=task.partition.segments[number].base_offset or 0,
        start=start,
        stop=stop,
        last_position=last,
        sample=_sampled(source, start, stop, last)[0],
        first_offset=int(log.first.base_offset[0]),
        highest_offset=int(log.segments["highest_offset"][-1]),
        newest_timestamp=log.newest_timestamp,
        as_of_ms=rules.as_of_ms,
        copied_ms=_copied(rules),
        limits=_limits(rules),
        offset_entries=entries[0],
        time_entries=entries[1],
        entries=evidence.entries_digest(*entries),
        summary=chunk_bytes(log_chunk),
    )


def _sampled(source: Source, start: int, stop: int, last_position: int) -> tuple[bytes, int]:
    """Return a hash of some bytes of a range, and how many these are."""
    count = min(MAX_SAMPLES, (stop - start) // SAMPLE_EVERY)
    between = (start + (stop - start) * number // (count + 1) for number in range(1, count + 1))
    ranges = [(start, HEAD_SIZE), *((position, SAMPLE_SIZE) for position in between), (last_position, HEAD_SIZE)]
    digest, size = blake2b(digest_size=DIGEST_SIZE), 0
    for position, length in ranges:
        data = source.read(position, min(length, stop - position))
        digest.update(data)
        size += len(data)
    return digest.digest(), size


def _pieces(sizes: Sequence[int], summaries: SpilledRows) -> Iterator[bytes]:
    """Yield the summaries one by one."""
    parts, data, position = iter(summaries), b"", 0
    for size in sizes:
        while len(data) - position < size:
            data, position = data[position:] + next(parts).tobytes(), 0
        yield data[position : position + size]
        position += size


def _table_parts(
    partition: Partition, rows: Sequence[StoredChunk], sizes: Sequence[int], summaries: SpilledRows
) -> Iterator[Rows]:
    waiting: list[StoredChunk] = []
    pending = 0
    for row, summary in zip(rows, _pieces(sizes, summaries), strict=True):
        waiting.append(row._replace(summary=summary))
        pending += len(summary)
        if pending >= ROWS_BYTES:
            yield _table_rows(partition, waiting)
            waiting, pending = [], 0
    if waiting:
        yield _table_rows(partition, waiting)


def _table_rows(partition: Partition, rows: Sequence[StoredChunk]) -> Rows:
    columns: dict[str, Any] = dict(zip(StoredChunk._fields, map(list, zip(*rows, strict=True)), strict=True))
    return Rows(CHUNK_SUMMARIES, len(rows), {**partition.place._asdict(), **columns})
