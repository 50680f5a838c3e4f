"""The audit of any number of log directories as a Spark job: plan, splits, runs, verdicts.

Only data frames are used, so that it runs over Spark Connect too. Tasks find their rows by slots that follow from the
plan alone: one that is run again gives its rows to the same tasks. The driver sees sizes and what the sink returns.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain, count, islice
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from kforensics.forensics.asked import Asked, judged_whole
from kforensics.forensics.judgement import Judgement
from kforensics.forensics.spark.contents import hashes_of, records_of, repeated_of
from kforensics.forensics.spark.looking import FILES, IN_ITEM, PARTITION, PLANNED, UNREADABLE, items_of, looked
from kforensics.forensics.spark.merging import judged, run_of
from kforensics.forensics.spark.session import parallelism
from kforensics.forensics.spark.shares import Shares, Sharing, shared_out
from kforensics.forensics.spark.splitting import Shared, Travelling, cut, pieces_of, summary_of
from kforensics.forensics.spark.travel import (
    IN_BUCKET,
    IN_PARTITION,
    SCHEMA,
    Address,
    Row,
    batches_of,
    framed,
    loaded,
    packed,
    rows_of,
    schema_text,
    values,
)
from kforensics.parsers.discover import FoundFile, Unreadable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Plan", "Sink", "audit", "mapped", "plan_of", "put_together"]

ITEMS = pa.schema([("slot", pa.int32()), ("payload", pa.binary())])
# What the sink returns, and which task of the last round takes it.
OUTCOMES = ITEMS
# Unreadable places that the driver hears of by name.
NAMED = 100
ITEMS_PER_TASK = 4
# Tasks that this worker has begun.
BEGUN = count(1)


class Sink(Protocol):
    """Takes what tasks find, where they run; it travels there, and what it returns travels back.

    Tasks have names: one that is run again has the same name as before.
    """

    def judged(self, task: str, judgements: Iterable[Judgement]) -> bytes:
        """Take the judgements of a task."""

    def found(self, task: str, files: Iterable[FoundFile]) -> bytes:
        """Take the files that a task has found."""

    def merged(self, outcomes: Iterable[bytes]) -> bytes:
        """Return what several outcomes say together."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to be judged.

    Attributes:
        frame: its rows, which stay on the cluster.
        sizes: ``number``, ``size``, ``segments``, ``largest`` and ``mtime_ms`` of each partition.
        unreadable: how many places could not be looked into.
        named: some of them.
    """

    frame: DataFrame
    sizes: pa.Table
    unreadable: int
    named: tuple[Unreadable, ...]

    @property
    def newest_mtime_ms(self) -> int | None:
        """When the newest file of a log was last written to."""
        times: list[int] = self.sizes["mtime_ms"].drop_null().to_pylist()
        return max(times, default=None)

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return int(sum(self.sizes["size"].to_pylist()))


def plan_of(spark: SparkSession, paths: Sequence[str], topics: Sequence[str] = ()) -> Plan:
    """Return what is to be judged under paths; folders are looked into by many tasks.

    Args:
        spark: the session.
        paths: as for ``discover``.
        topics: only partitions of these, all if none is named.
    """
    items = [(slot, packed(item)) for slot, item in enumerate(items_of(paths))]
    rows = spark.createDataFrame(pa.Table.from_batches(batches_of(ITEMS, items), ITEMS))
    tasks = min(max(1, len(items)), ITEMS_PER_TASK * parallelism(spark))
    frame = mapped(_by_slot(rows, tasks, "slot"), partial(_looked, topics=tuple(topics)), PLANNED).persist()
    names = ("number", "size", "segments", "largest", "mtime_ms")
    unreadable = frame.where(frame.kind == UNREADABLE)
    named = [loaded(row.payload) for row in unreadable.select("payload").limit(NAMED).collect()]
    many = len(named) if len(named) < NAMED else unreadable.count()
    sizes = frame.where(frame.kind == PARTITION).select(*names).toArrow()
    return Plan(frame, sizes, many, tuple(sorted(named, key=lambda one: one.path)))


def audit(spark: SparkSession, plan: Plan, asked: Asked, sink: Sink, sharing: Sharing) -> bytes:
    """Return what the sink says of all that the plan holds.

    Args:
        spark: the session.
        plan: what is to be judged.
        asked: what to look for.
        sink: takes the judgements.
        sharing: how to share the work.
    """
    job = _Job(spark, plan, asked, sink, shared_out(plan.sizes, sharing), sharing.split_size)
    rounds = [job.large()] if len(job.shares.large) else []
    rounds += [job.small()] if len(job.shares.small) else []
    outcomes = _together([*rounds, job.files()])
    last = mapped(_by_slot(outcomes, parallelism(spark), "slot"), partial(_merged, sink=sink), OUTCOMES)
    return sink.merged(row.payload for row in last.collect())


@dataclass(frozen=True, slots=True)
class _Job:
    """The parts of the job, each a frame of outcomes."""

    spark: SparkSession
    plan: Plan
    asked: Asked
    sink: Sink
    shares: Shares
    split_size: int

    def files(self) -> DataFrame:
        """Return what the sink says of all files."""
        from pyspark.sql.functions import shiftright  # as below

        frame, tasks = self.plan.frame, max(1, self.shares.tasks // ITEMS_PER_TASK)
        rows = frame.where(frame.kind == FILES).select(shiftright("number", IN_ITEM).alias("item"), "payload")
        return mapped(_by_slot(rows, tasks, "item"), partial(_found, sink=self.sink), OUTCOMES)

    def small(self) -> DataFrame:
        """Return what the sink says of partitions that one task judges whole."""
        rows = self._partitions(self.shares.small).select("final_slot", "number", "payload")
        ready = rows.repartitionById(self.shares.tasks, rows.final_slot).sortWithinPartitions("number")
        return mapped(ready, partial(_judged_whole, asked=self.asked, sink=self.sink), OUTCOMES)

    def large(self) -> DataFrame:
        """Return what the sink says of partitions that are read split by split."""
        shares = self.shares
        whole = self._partitions(shares.large).select("number", *Shared.__slots__, "payload")
        segments = mapped(whole, _pieces, SCHEMA)
        splits = mapped(_by_slot(segments, shares.cuts, "split_slot"), partial(_cut, size=self.split_size), SCHEMA)
        read = partial(_summarised, asked=self.asked)
        said = [mapped(_by_slot(splits, shares.reads, "split_slot"), read, SCHEMA)]
        said += [self._records(segments)] if self.asked.records else []
        return put_together(whole, said, shares, self.asked, self.sink)

    def _records(self, segments: DataFrame) -> DataFrame:
        """Return what the records of large partitions say; what joining runs needs has no part in this."""
        readers, segments = self.shares.reads, segments.where(segments.ordinal >= 0)
        hashes = _by_slot(mapped(segments, _hashed, SCHEMA), readers, "split_slot")
        repeated = mapped(hashes.sortWithinPartitions(*IN_BUCKET), partial(_repeated, readers=readers), SCHEMA)
        again = _by_slot(_together([segments, repeated]), readers, "split_slot")
        return mapped(again.sortWithinPartitions(*IN_PARTITION), _recorded, SCHEMA)

    def _partitions(self, share: pa.Table) -> DataFrame:
        from pyspark.sql.functions import broadcast  # as below

        frame = self.plan.frame
        rows = frame.where(frame.kind == PARTITION).select("number", "payload")
        return rows.join(broadcast(self.spark.createDataFrame(share)), "number")


def put_together(whole: DataFrame, said: Sequence[DataFrame], shares: Shares, asked: Asked, sink: Sink) -> DataFrame:
    """Return what the sink says of large partitions, as a frame of outcomes.

    Args:
        whole: the partitions: their numbers, where their parts go, and their files.
        said: what their splits say, and what joining them needs; then what their records say, if that is asked for.
        shares: who does what.
        asked: what to look for.
        sink: takes the judgements.
    """
    summaries, *of_records = said
    ready = _by_slot(summaries, shares.runs, "run_slot").sortWithinPartitions("run_slot", *IN_PARTITION)
    parts = [mapped(whole, _whole, SCHEMA), mapped(ready, partial(_runs, asked=asked), SCHEMA), *of_records]
    last = _by_slot(_together(parts), shares.finals, "final_slot").sortWithinPartitions("final_slot", *IN_PARTITION)
    return mapped(last, partial(_judged, asked=asked, sink=sink), OUTCOMES)


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    return reduce(lambda some, more: some.unionAll(more), frames)


def _by_slot(frame: DataFrame, tasks: int, slot: str) -> DataFrame:
    """Return a frame whose rows are where their slot says."""
    from pyspark.sql.functions import col, lit, pmod  # only Spark pays for Spark

    return frame.repartitionById(tasks, pmod(col(slot), lit(tasks)).cast("int"))


def mapped(frame: DataFrame, rows_from: Callable[[Iterator[Row]], Iterable[Row]], schema: pa.Schema) -> DataFrame:
    """Return what a function makes of the rows of each task.

    Args:
        frame: the rows.
        rows_from: the function.
        schema: of what it gives.
    """
    return frame.mapInArrow(partial(_batches, rows_from=rows_from, schema=schema), schema_text(schema))


def _batches(
    batches: Iterable[pa.RecordBatch], rows_from: Callable[[Iterator[Row]], Iterable[Row]], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    _settle(next(BEGUN))
    return batches_of(schema, rows_from(rows_of(batches)))


def _settle(begun: int) -> None:
    """Have the collector leave alone what a worker has loaded: Spark calls it behind every task, however short."""
    if begun & (begun - 1) == 0:  # seldom, for what is left alone once is so for good
        gc.freeze()


def _looked(rows: Iterator[Row], topics: tuple[str, ...]) -> Iterator[Row]:
    for number, payload in rows:
        yield from looked(number, loaded(payload), topics)


def _found(rows: Iterator[Row], sink: Sink) -> Iterator[Row]:
    for item, payload in islice(rows, 1):
        files = chain.from_iterable(loaded(data) for data in chain([payload], (row[-1] for row in rows)))
        yield item, sink.found(f"files-{item:05}", files)


def _judged_whole(rows: Iterator[Row], asked: Asked, sink: Sink) -> Iterator[Row]:
    for slot, _, payload in islice(rows, 1):
        partitions = (loaded(data) for data in chain([payload], (row[-1] for row in rows)))
        judgements = (judged_whole(partition, asked, workers=0) for partition in partitions)
        yield slot, sink.judged(f"small-{slot:05}", judgements)


def _pieces(rows: Iterator[Row]) -> Iterator[Row]:
    for number, *slots, payload in rows:
        yield from _framed(pieces_of(number, loaded(payload), Shared(*slots)))


def _cut(rows: Iterator[Row], size: int) -> Iterator[Row]:
    for address, reading in values(rows):
        yield from _framed(cut(address, reading, size))


def _summarised(rows: Iterator[Row], asked: Asked) -> Iterator[Row]:
    for address, reading in values(rows):
        yield from _framed(summary_of(address, reading, asked))


def _hashed(rows: Iterator[Row]) -> Iterator[Row]:
    for address, reading in values(rows):
        yield from _framed(hashes_of(address, reading))


def _repeated(rows: Iterator[Row], readers: int) -> Iterator[Row]:
    return _framed(repeated_of(values(rows), readers))


def _recorded(rows: Iterator[Row]) -> Iterator[Row]:
    return _framed(records_of(values(rows)))


def _runs(rows: Iterator[Row], asked: Asked) -> Iterator[Row]:
    return _framed(run_of(values(rows), asked))


def _whole(rows: Iterator[Row]) -> Iterator[Row]:
    for number, split_slot, run_slot, final_slot, _, payload in rows:
        yield from framed(Address(number, split_slot, run_slot, final_slot), loaded(payload))


def _judged(rows: Iterator[Row], asked: Asked, sink: Sink) -> Iterator[Row]:
    arriving = values(rows)
    for address, partition in islice(arriving, 1):
        numbered = ((one.partition, value) for one, value in chain([(address, partition)], arriving))
        yield address.final_slot, sink.judged(f"large-{address.final_slot:05}", judged(numbered, asked))


def _merged(rows: Iterator[Row], sink: Sink) -> Iterator[Row]:
    for slot, payload in islice(rows, 1):
        yield slot, sink.merged(chain([payload], (row[-1] for row in rows)))


def _framed(found: Iterable[Travelling]) -> Iterator[Row]:
    return chain.from_iterable(framed(address, value) for address, value in found)
