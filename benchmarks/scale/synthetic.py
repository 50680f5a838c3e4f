"""Partitions and splits that exist on no disk: as many as a cluster of brokers has, for Spark to plan and to merge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from kforensics.forensics.audit.audit_scope import AuditScope, read_task
from kforensics.forensics.audit.cluster_membership import PartitionMembership
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_chunk import LogChunk
from kforensics.forensics.partition.log_summary import Collector, log_summary
from kforensics.forensics.partition.partition_files import LogDir, Partition
from kforensics.forensics.replay.summarizing import summarize
from kforensics.parsers.columns.batch_columns import COMMIT, NO_CONTROL, BatchColumns, column_dtype
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.log.log_rows import Place
from kforensics.spark.audit.listing import PARTITION, PLANNED
from kforensics.spark.audit.plan import SIZES, Plan, mapped
from kforensics.spark.audit.serialization import SCHEMA, Row, deserialize, serialize, to_frames
from kforensics.spark.audit.splitting import AddressedValue, Shared, apart, pieces_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOWHERE = "/nowhere"
"""A log directory that does not exist."""
SCOPE = AuditScope(Rules(0), watches_indexes=False)
_TRANSACTIONAL, _CONTROL = 1 << 4, 1 << 5


@dataclass(frozen=True, slots=True)
class Made:
    """So many partitions, all alike.

    Attributes:
        partitions: how many.
        segments: of each, which are splits too.
        segment_bytes: of each segment.
        producers: of each segment; each writes a marker that ends the transaction begun in the segment
            before, and a batch that begins another, except in the last segment.
    """

    partitions: int
    segments: int
    segment_bytes: int
    producers: int = 10

    @property
    def splits(self) -> int:
        """How many there are in all."""
        return self.partitions * self.segments

    def partition(self, number: int) -> Partition:
        """Return the files of a partition, which do not exist."""
        folder = f"{NOWHERE}/made-{number}"
        offsets = (index * 2 * self.producers for index in range(self.segments))
        files = (
            FoundFile(f"{folder}/{at:020}.log", "log", self.segment_bytes, 0, NOWHERE, "made", number, at, 0)
            for at in offsets
        )
        return Partition(Place(0, NOWHERE, "made", number), folder, LogDir(NOWHERE), tuple(files))


class Counting:
    """A sink that counts."""

    def evaluated(self, _task: str, results: Iterable[PartitionResult]) -> bytes:
        """Return how many partitions were evaluated."""
        return serialize(sum(1 for _ in results))

    def listed(self, _task: str, _files: Iterable[FoundFile]) -> bytes:
        """Return that no partition was evaluated."""
        return serialize(0)

    def informed(self, _compared: bytes) -> Counting:
        """Return itself: verdicts do not matter."""
        return self

    def merged(self, outcomes: Iterable[bytes]) -> bytes:
        """Return the sum."""
        return serialize(sum(map(deserialize, outcomes)))


def plan_of(spark: SparkSession, made: Made) -> Plan:
    """Return a plan as if all of these partitions had been found."""
    tasks = min(made.partitions, 32)
    rows = spark.range(0, made.partitions, 1, tasks)
    frame = mapped(rows, [partial(_planned, made=made)], PLANNED).persist()
    return Plan(frame, frame.select(*SIZES).toArrow(), 0, ())


def summaries_of(spark: SparkSession, made: Made, large: pa.Table) -> DataFrame:
    """Return the summaries of the splits, and what merging them needs, as rows that are still to be merged.

    Args:
        spark: the session.
        made: the partitions.
        large: where their parts go, as ``TaskPlan`` has it.
    """
    rows = spark.createDataFrame(large.select(["number", *Shared.__slots__])).repartition(32)
    return mapped(rows, [partial(summary_rows, made=made)], SCHEMA)


def _planned(rows: Iterable[Row], made: Made) -> Iterator[Row]:
    size = made.segments * made.segment_bytes
    for (number,) in rows:
        partition = made.partition(number)
        known = {
            "kind": PARTITION,
            "number": number,
            "size": size,
            "segments": made.segments,
            "largest": made.segment_bytes,
            "member": serialize(PartitionMembership.of(partition)),
            "payload": serialize(partition),
        }
        yield tuple(known.get(name) for name in PLANNED.names)


def summary_rows(rows: Iterable[Row], made: Made) -> Iterator[Row]:
    """Yield what merging partitions needs, and the summaries of their splits, as in a Spark job.

    Args:
        rows: of each partition its number, and where its parts go.
        made: the partitions.
    """
    for number, *slots in rows:
        partition = made.partition(number)
        collectors = tuple(read_task(partition, SCOPE, workers=0).collectors)
        for address, reading in pieces_of(number, partition, Shared(*slots)):
            values: Iterable[AddressedValue] = [(address, reading)]
            if address.ordinal >= 0:
                values = apart(address, [_log_chunk(made, reading.split.segment, collectors)], None)
            for one, value in values:
                yield from to_frames(one, value)


def _log_chunk(made: Made, segment: int, collectors: tuple[Collector, ...]) -> LogChunk:
    batches = _batches(made.producers, segment)
    # What is open at the end would be looked for in the file.
    batches = batches[: made.producers] if segment == made.segments - 1 else batches
    return LogChunk((), log_summary(batches, SCOPE.rules, collectors), *summarize(batches))


def _batches(producers: int, segment: int) -> BatchColumns:
    """The markers of all producers, then a batch of each."""
    index = np.arange(2 * producers)
    is_marker = index < producers
    offset = index + segment * len(index)
    sequence = np.where(is_marker, -1, segment)
    columns: dict[str, Any] = {
        "segment": segment,
        "position": 100 * index,
        "size": 100,
        "base_offset": offset,
        "last_offset": offset,
        "count": 1,
        "magic": 2,
        "leader_epoch": 0,
        "attributes": np.where(is_marker, _TRANSACTIONAL | _CONTROL, _TRANSACTIONAL),
        "crc_valid": True,
        "max_timestamp": offset,
        "producer_id": index % producers,
        "producer_epoch": 0,
        "base_sequence": sequence,
        "last_sequence": sequence,
        "control": np.where(is_marker, COMMIT, NO_CONTROL),
        "coordinator_epoch": np.where(is_marker, 0, -1),
        "exact": True,
    }
    return BatchColumns(**{name: np.full(len(index), one, column_dtype(name)) for name, one in columns.items()})
