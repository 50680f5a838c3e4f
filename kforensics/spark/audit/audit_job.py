"""The audit of any number of log directories as a Spark job: plan, work, and what is put together of it.

Only data frames are used, so that it runs over Spark Connect too. Tasks find their rows by slots that follow from the
plan alone: one that is run again gives its rows to the same tasks. The driver sees sizes and what the sink returns.

A round of tasks costs Java some tenths of a second, however little there is to be done. So there are three (look into
folders; deal out; read and judge), and a fourth where partitions are split. Rounds that only many segments need, to cut
them and to join runs of them, are left out where there are few.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.forensics.audit.audit_scope import Asked
from kforensics.forensics.audit.cluster_membership import Clusters, Member
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.files.discover import Unreadable
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.spark.audit.cross_partition import copy_of, described_of, elected_of, keys_in, member_of
from kforensics.spark.audit.listing import FILES, PARTITION, PLANNED, UNREADABLE, items_of, looked
from kforensics.spark.audit.scheduling import Deal, dealt
from kforensics.spark.audit.segment_contents import hashes_of, records_of, repeated_of
from kforensics.spark.audit.serialization import (
    IN_BUCKET,
    IN_PARTITION,
    IN_TASK,
    SCHEMA,
    Row,
    batches_of,
    framed,
    loaded,
    packed,
    rows_of,
    schema_text,
    values,
)
from kforensics.spark.audit.split_merging import run_of
from kforensics.spark.audit.splitting import Travelling, cut
from kforensics.spark.audit.task_results import Sink, done, ended, met, settled
from kforensics.spark.audit.task_sizing import TASKS, WORTH_A_TASK, Shares, Sharing, shared_out
from kforensics.spark.audit.topic_contents import (
    HASHING,
    entries_in,
    hashed_in,
    have_topics,
    members_of,
    paired_in,
    shared_in,
)
from kforensics.spark.session import parallelism
from kforensics.spark.worker import settle

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SIZES", "Plan", "audit", "mapped", "plan_of", "put_together"]

ITEMS = pa.schema([("slot", pa.int32()), ("payload", pa.binary())])
# What the driver knows of a partition.
SIZES = ("number", "size", "segments", "largest", "mtime_ms", "taken_ms", "member")
# Unreadable places that the driver hears of by name.
NAMED = 100
ITEMS_PER_TASK = 4

Step = Callable[[Iterator[Row]], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Plan:
    """What there is to be judged.

    Attributes:
        frame: its rows, which stay on the cluster.
        sizes: ``number``, ``size``, ``segments``, ``largest``, ``mtime_ms``, ``taken_ms`` and, pickled, ``member`` of
            each partition.
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
    def taken(self) -> Iterator[tuple[str | None, int | None]]:
        """The log directory of each partition, and when it was copied from a running broker, if it was."""
        return zip((one.log_dir for one in self.members), self.sizes["taken_ms"].to_pylist(), strict=True)

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return int(sum(self.sizes["size"].to_pylist()))

    @property
    def members(self) -> Iterator[Member]:
        """Where the partitions belong."""
        return (loaded(one.as_py()) for one in self.sizes["member"] if one.is_valid)


def plan_of(spark: SparkSession, paths: Sequence[str], topics: Sequence[str] = ()) -> Plan:
    """Return what is to be judged under paths; folders are looked into by many tasks.

    Args:
        spark: the session.
        paths: as for ``discover``.
        topics: only partitions of these, all if none is named.
    """
    items = [(slot, packed(item)) for slot, item in enumerate(items_of(paths))]
    rows = spark.createDataFrame(pa.Table.from_batches(batches_of(ITEMS, items), ITEMS))
    tasks = ITEMS_PER_TASK * parallelism(spark)
    spread = _by_slot(rows, tasks, "slot") if len(items) > tasks else rows
    frame = mapped(spread, [partial(_looked, topics=tuple(topics))], PLANNED).persist()
    found = frame.where(frame.kind != FILES).select("kind", *SIZES).toArrow()
    sizes = found.filter(pc.equal(found["kind"], PARTITION)).drop_columns(["kind"])
    many = len(found) - len(sizes)
    named = frame.where(frame.kind == UNREADABLE).select("payload").limit(NAMED).collect() if many else []
    return Plan(frame, sizes, many, tuple(sorted((loaded(row.payload) for row in named), key=lambda one: one.path)))


def audit(plan: Plan, asked: Asked, sink: Sink, sharing: Sharing) -> bytes:
    """Return what the sink says of all that the plan holds.

    Args:
        plan: what is to be judged.
        asked: what to look for.
        sink: takes the judgements.
        sharing: how to share the work.
    """
    job = _Job(plan.frame, asked, sink, shared_out(plan.sizes, sharing), sharing.split_size)
    answers, clusters = job.answers(), asked.clusters
    meetings = ["copies"] if clusters and clusters.has_copies(plan.members) else []
    meetings += ["keys"] if asked.records else []
    tasks = TASKS * sharing.parallelism
    said = [answers, *(job.meetings(what, clusters or Clusters(), tasks) for what in meetings)]
    if asked.records and have_topics(plan.members):
        said.append(job.duplicates(clusters or Clusters(), max(tasks, plan.size // WORTH_A_TASK)))
    answers = _together(said)
    return sink.merged(answer.outcome for _, answer in values(rows_of(answers.toArrow().to_batches())))


@dataclass(frozen=True, slots=True)
class _Job:
    """The rounds of the job, each a frame of what its tasks have to say."""

    frame: DataFrame
    asked: Asked
    sink: Sink
    shares: Shares
    split_size: int

    def answers(self) -> DataFrame:
        """Return what the sink says of partitions, and of clusters of them."""
        said = [mapped(self._spread(), [partial(_done, asked=self.asked, sink=self.sink)], SCHEMA)]
        said += [self._records()] if self.asked.records and self.shares.reads else []
        answers = put_together(said, self.shares, self.asked, self.sink)
        clusters = len(self.asked.clusters.judged) if self.asked.clusters else 0
        if not clusters:
            return answers
        meeting = _by_slot(answers, clusters, "final_slot").sortWithinPartitions(*IN_PARTITION)
        return mapped(meeting, [partial(_settled, asked=self.asked, sink=self.sink)], SCHEMA)

    def meetings(self, what: str, clusters: Clusters, tasks: int) -> DataFrame:
        """Return what the sink says of what several partitions say together.

        Args:
            what: ``copies`` of the same partition, or ``keys`` of the same topic.
            clusters: all clusters.
            tasks: how many tasks there are to meet in.
        """
        partitions, rules = self.frame.where(self.frame.kind == PARTITION), self.asked.rules
        spread = _by_slot(partitions, tasks, "number") if what == "keys" else partitions
        send = partial(_sent, what=what, tasks=tasks, rules=rules)
        metadata = _by_slot(mapped(partitions, [_metadata], ITEMS), 1, "slot")
        tell = partial(_told, what=what, clusters=clusters, tasks=tasks)
        coming = _together([mapped(spread, [send], SCHEMA), mapped(metadata, [tell], SCHEMA)])
        meeting = _by_slot(coming, tasks, "split_slot").sortWithinPartitions(*IN_PARTITION)
        return mapped(meeting, [partial(_met, what=what, clusters=clusters, rules=rules, sink=self.sink)], SCHEMA)

    def duplicates(self, clusters: Clusters, tasks: int) -> DataFrame:
        """Return what the sink says of records that stand in several partitions of a topic.

        Args:
            clusters: all clusters.
            tasks: how many tasks a round has.
        """
        partitions, rules = self.frame.where(self.frame.kind == PARTITION), self.asked.rules
        sent = mapped(partitions, [partial(_sent, what="duplicates", tasks=tasks, rules=rules)], SCHEMA)
        members = _in_turn(sent, tasks, IN_PARTITION, partial(members_of, clusters=clusters))
        hashed = _in_turn(members.where(members.ordinal == HASHING), tasks, IN_PARTITION, hashed_in)
        shared = _in_turn(hashed, tasks, IN_BUCKET, shared_in)
        again = _together([members.where(members.ordinal != HASHING), shared])
        entries = _in_turn(again, tasks, IN_PARTITION, partial(entries_in, rules=rules))
        pairs = _by_slot(_in_turn(entries, tasks, IN_BUCKET, paired_in), tasks, "split_slot")
        judge = partial(_met, what="duplicates", clusters=clusters, rules=rules, sink=self.sink)
        return mapped(pairs.sortWithinPartitions(*IN_PARTITION), [judge], SCHEMA)

    def _spread(self) -> DataFrame:
        """Return files, partitions and splits where they are listed, judged and read."""
        from pyspark.sql.functions import expr  # only Spark pays for Spark

        reads, tasks = self.shares.reads, self.shares.reads + self.shares.tasks
        # Splits have the first tasks, for more is to be done behind them; what counts from the end has the others.
        slot = expr(f"int(if(split_slot < 0, split_slot + {tasks}, pmod(split_slot, {max(1, reads)})))")
        return self._splits().repartitionById(tasks, slot).sortWithinPartitions(*IN_TASK)

    def _splits(self) -> DataFrame:
        shares, cuts = self.shares, partial(_cut, size=self.split_size)
        if shares.cuts:
            return mapped(_by_slot(self._segments(), shares.cuts, "split_slot"), [cuts], SCHEMA)
        return self._segments(cuts) if shares.reads else self._segments()

    def _segments(self, *steps: Step) -> DataFrame:
        return mapped(self.frame, [partial(_dealt, deal=Deal.of(self.shares)), *steps], SCHEMA)

    def _records(self) -> DataFrame:
        """Return what the records of large partitions say; what joining runs needs has no part in this."""
        readers, segments = self.shares.reads, self._segments()
        segments = segments.where(segments.ordinal >= 0)
        hashes = _by_slot(mapped(segments, [_hashed], SCHEMA), readers, "split_slot")
        repeated = mapped(hashes.sortWithinPartitions(*IN_BUCKET), [partial(_repeated, readers=readers)], SCHEMA)
        again = _by_slot(_together([segments, repeated]), readers, "split_slot")
        return mapped(again.sortWithinPartitions(*IN_PARTITION), [_recorded], SCHEMA)


def put_together(said: Sequence[DataFrame], shares: Shares, asked: Asked, sink: Sink) -> DataFrame:
    """Return what the sink says of all that tasks have said, as a frame of answers.

    Args:
        said: answers already, the files of large partitions, what their splits say, and what joining them needs; then
            what their records say, if that is asked for.
        shares: who does what.
        asked: what to look for.
        sink: takes the judgements.
    """
    parts, *of_records = said
    if shares.runs:
        ready = _by_slot(parts, shares.runs, "run_slot").sortWithinPartitions("run_slot", *IN_PARTITION)
        parts = mapped(ready, [partial(_runs, asked=asked)], SCHEMA)
    if not shares.finals:
        return parts
    last = _by_slot(_together([parts, *of_records]), shares.finals, "final_slot").sortWithinPartitions(*IN_PARTITION)
    return mapped(last, [partial(_ended, asked=asked, sink=sink)], SCHEMA)


def _together(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    return reduce(lambda some, more: some.unionAll(more), frames)


def _in_turn(
    frame: DataFrame, tasks: int, order: Sequence[str], step: Callable[[Iterable[Travelling]], Iterable[Travelling]]
) -> DataFrame:
    """Return what a function makes of the values that come to each task, which come in some order."""
    ordered = _by_slot(frame, tasks, "split_slot").sortWithinPartitions(*order)
    return mapped(ordered, [partial(_passed, step=step)], SCHEMA)


def _by_slot(frame: DataFrame, tasks: int, slot: str) -> DataFrame:
    """Return a frame whose rows are where their slot says."""
    from pyspark.sql.functions import expr  # as above

    return frame.repartitionById(tasks, expr(f"int(pmod({slot}, {tasks}))"))


def mapped(frame: DataFrame, steps: Sequence[Step], schema: pa.Schema) -> DataFrame:
    """Return what functions, one behind the other, make of the rows of each task.

    Args:
        frame: the rows.
        steps: the functions.
        schema: of what the last one gives.
    """
    return frame.mapInArrow(partial(_batches, steps=tuple(steps), schema=schema), schema_text(schema))


def _batches(batches: Iterable[pa.RecordBatch], steps: tuple[Step, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    settle()
    rows = rows_of(batches)
    for step in steps:
        rows = iter(step(rows))
    return batches_of(schema, rows)


def _looked(rows: Iterator[Row], topics: tuple[str, ...]) -> Iterator[Row]:
    for number, payload in rows:
        yield from looked(number, loaded(payload), topics)


def _dealt(rows: Iterator[Row], deal: Deal) -> Iterator[Row]:
    for kind, number, *_, payload in rows:
        yield from _framed(dealt(kind, number, payload, deal))


def _cut(rows: Iterator[Row], size: int) -> Iterator[Row]:
    for address, value in values(rows):
        yield from _framed(cut(address, value, size))


def _done(rows: Iterator[Row], asked: Asked, sink: Sink) -> Iterator[Row]:
    return _framed(done(values(rows), asked, sink))


def _hashed(rows: Iterator[Row]) -> Iterator[Row]:
    for address, reading in values(rows):
        yield from _framed(hashes_of(address, reading))


def _repeated(rows: Iterator[Row], readers: int) -> Iterator[Row]:
    return _framed(repeated_of(values(rows), readers))


def _recorded(rows: Iterator[Row]) -> Iterator[Row]:
    return _framed(records_of(values(rows)))


def _runs(rows: Iterator[Row], asked: Asked) -> Iterator[Row]:
    return _framed(run_of(values(rows), asked))


def _ended(rows: Iterator[Row], asked: Asked, sink: Sink) -> Iterator[Row]:
    return _framed(ended(values(rows), asked, sink))


def _settled(rows: Iterator[Row], asked: Asked, sink: Sink) -> Iterator[Row]:
    return _framed(settled(values(rows), asked, sink))


def _sent(rows: Iterator[Row], what: str, tasks: int, rules: Rules) -> Iterator[Row]:
    for _, number, *_, payload in rows:
        partition = loaded(payload)
        if what == "keys":
            yield from _framed(keys_in(number, partition, tasks, rules))
        else:
            send = member_of if what == "duplicates" else copy_of
            yield from _framed(send(number, partition, tasks))


def _passed(rows: Iterator[Row], step: Callable[[Iterable[Travelling]], Iterable[Travelling]]) -> Iterator[Row]:
    return _framed(step(values(rows)))


def _metadata(rows: Iterator[Row]) -> Iterator[Row]:
    return ((0, payload) for *_, member, payload in rows if loaded(member).topic == METADATA_TOPIC)


def _told(rows: Iterator[Row], what: str, clusters: Clusters, tasks: int) -> Iterator[Row]:
    tell = described_of if what == "keys" else elected_of
    return _framed(tell((loaded(payload) for _, payload in rows), clusters, tasks))


def _met(rows: Iterator[Row], what: str, clusters: Clusters, rules: Rules, sink: Sink) -> Iterator[Row]:
    return _framed(met(values(rows), what, clusters, rules, sink))


def _framed(found: Iterable[Travelling]) -> Iterator[Row]:
    return chain.from_iterable(framed(address, value) for address, value in found)
