"""The audit of any number of log directories as a Spark job: planning, reading, evaluation, and merging of the results.

The job uses data frames only, so that it runs over Spark Connect, too. Slots follow from the plan alone: a task that
runs again sends its rows to the same tasks as before. The driver gets only sizes and what the sink returns.

Each stage of tasks costs several tenths of a second, however little it does. Therefore a small job has three (list
folders; schedule; read and evaluate), and a fourth if partitions are split. The stages that cut segments and merge runs
of splits are added only if there are many segments.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kforensics.analyses.surroundings import FileTime
from kforensics.forensics.audit.audit_scope import AuditScope
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_places import moved_away
from kforensics.parsers.files.discover import Unreadable
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.spark.audit.cross_partition import copy_of, described_of, elected_of, keys_in, member_of
from kforensics.spark.audit.listing import FILES, PARTITION, PLANNED, UNREADABLE, items_of, list_item, newest_listed
from kforensics.spark.audit.scheduling import Schedule, scheduled
from kforensics.spark.audit.segment_contents import hashes_of, records_of, repeated_of
from kforensics.spark.audit.serialization import (
    IN_BUCKET,
    IN_PARTITION,
    IN_TASK,
    SCHEMA,
    Row,
    batches_of,
    deserialize,
    rows_of,
    schema_text,
    serialize,
    to_frames,
    values,
)
from kforensics.spark.audit.split_merging import run_of
from kforensics.spark.audit.splitting import AddressedValue, cut
from kforensics.spark.audit.task_results import Sink, done, ended, met, resolve_deferred
from kforensics.spark.audit.task_sizing import TASKS, WORTH_A_TASK, TaskPlan, TaskSizing, plan_tasks
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

__all__ = ["NUMBERED", "SIZES", "Plan", "mapped", "merge_answers", "plan_of", "run_audit_job"]

NUMBERED = pa.schema([("number", pa.int64()), ("payload", pa.binary())])
ITEMS = pa.schema([("slot", pa.int32()), ("payload", pa.binary())])
# Columns of the plan that the driver reads for each partition.
SIZES = ("number", "size", "segments", "largest", "mtime_ms", "taken_ms", "member")
# Maximum number of unreadable paths that the driver lists by name.
NAMED = 100
ITEMS_PER_TASK = 4

Step = Callable[[Iterator[Row]], Iterable[Row]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The partitions to evaluate.

    Attributes:
        frame: the rows of the plan, which stay on the cluster.
        sizes: ``number``, ``size``, ``segments``, ``largest``, ``mtime_ms``, ``taken_ms`` and the serialized ``member``
            of each partition.
        unreadable: number of paths that could not be listed.
        named: some of these paths.
        newest_file: the newest file of the log directories, None if no time is known.
    """

    frame: DataFrame
    sizes: pa.Table
    unreadable: int
    named: tuple[Unreadable, ...]
    newest_file: FileTime | None = None

    @property
    def taken(self) -> Iterator[tuple[str | None, int | None]]:
        """Log directory of each partition, and the time when it was copied from a running broker, if it was."""
        return zip((member.log_dir for member in self.members), self.sizes["taken_ms"].to_pylist(), strict=True)

    @property
    def size(self) -> int:
        """Bytes of all logs."""
        return int(sum(self.sizes["size"].to_pylist()))

    @property
    def members(self) -> Iterator[PartitionMembership]:
        """Cluster memberships of the partitions."""
        return (deserialize(member.as_py()) for member in self.sizes["member"] if member.is_valid)


def plan_of(spark: SparkSession, paths: Sequence[str], topics: Sequence[str] = ()) -> Plan:
    """Return the partitions under paths; many tasks list the folders.

    Args:
        spark: the session.
        paths: as for ``discover``.
        topics: only partitions of these topics; all if empty.
    """
    items = [(slot, serialize(item)) for slot, item in enumerate(items_of(paths))]
    rows = spark.createDataFrame(pa.Table.from_batches(batches_of(ITEMS, items), ITEMS))
    tasks = ITEMS_PER_TASK * parallelism(spark)
    spread = _by_slot(rows, tasks, "slot") if len(items) > tasks else rows
    frame = mapped(spread, [partial(_listed, topics=tuple(topics))], PLANNED).persist()
    listed = frame.select("kind", *SIZES).toArrow()
    sizes = listed.filter(pc.equal(listed["kind"], PARTITION)).drop_columns(["kind"])
    unreadable = pc.sum(pc.equal(listed["kind"], UNREADABLE)).as_py() or 0
    of_files = listed.filter(pc.equal(listed["kind"], FILES))
    moved = _moved_numbers(sizes)
    if moved:
        frame = frame.where((frame.kind != PARTITION) | ~frame.number.isin(moved))
        sizes = sizes.filter(pc.invert(pc.is_in(sizes["number"], pa.array(moved, pa.int64()))))
    rows_named = frame.where(frame.kind == UNREADABLE).select("payload").limit(NAMED).collect() if unreadable else []
    named = sorted((deserialize(row.payload) for row in rows_named), key=lambda path: path.path)
    plan = Plan(frame, sizes, unreadable, tuple(named))
    newest = newest_listed(of_files["member"].drop_null().to_pylist(), plan.members, paths)
    return replace(plan, newest_file=newest)


def _moved_numbers(sizes: pa.Table) -> list[int]:
    """Return the numbers of partitions that were moved to a log directory that other tasks have listed."""
    if not pc.any(pc.equal(sizes["segments"], 0)).as_py():
        return []
    places = [deserialize(member).log_place for member in sizes["member"].to_pylist()]
    numbers = sizes["number"].to_pylist()
    return [numbers[index] for index in sorted(moved_away(places))]


def run_audit_job(plan: Plan, scope: AuditScope, sink: Sink, sharing: TaskSizing) -> bytes:
    """Return the combined return values of the sink for the whole plan.

    Args:
        plan: the partitions to evaluate.
        scope: the audit scope.
        sink: takes the partition results.
        sharing: parameters of task sizing.
    """
    job = _Job(plan.frame, scope, sink, plan_tasks(plan.sizes, sharing), sharing.split_size)
    clusters, tasks = scope.clusters, TASKS * sharing.parallelism
    outcomes: list[bytes] = []
    if clusters and clusters.has_copies(plan.members):
        # The verdict of each replica includes what the comparison found, so this has to be known first.
        outcomes.append(sink.merged(_collected(job.meetings("copies", clusters, tasks))))
        job = replace(job, sink=sink.informed(outcomes[0]))
    frames = [job.answers()]
    if scope.records:
        frames.append(job.meetings("keys", clusters or Clusters(), tasks))
    if scope.records and have_topics(plan.members):
        frames.append(job.duplicates(clusters or Clusters(), max(tasks, plan.size // WORTH_A_TASK)))
    return sink.merged([*outcomes, *_collected(_union(frames))])


def _collected(answers: DataFrame) -> list[bytes]:
    """Return the return values of the sink that tasks have answered."""
    return [answer.outcome for _, answer in values(rows_of(answers.toArrow().to_batches()))]


@dataclass(frozen=True, slots=True)
class _Job:
    """The stages of the job, as data frames of what their tasks return."""

    frame: DataFrame
    scope: AuditScope
    sink: Sink
    shares: TaskPlan
    split_size: int

    def answers(self) -> DataFrame:
        """Return the answers for partitions, and for clusters of them."""
        frames = [mapped(self._spread(), [partial(_done, scope=self.scope, sink=self.sink)], SCHEMA)]
        frames += [self._records()] if self.scope.records and self.shares.reads else []
        answers = merge_answers(frames, self.shares, self.scope, self.sink)
        clusters = len(self.scope.clusters.checked) if self.scope.clusters else 0
        if not clusters:
            return answers
        by_cluster = _by_slot(answers, clusters, "final_slot").sortWithinPartitions(*IN_PARTITION)
        return mapped(by_cluster, [partial(_resolved, scope=self.scope, sink=self.sink)], SCHEMA)

    def meetings(self, kind: str, clusters: Clusters, tasks: int) -> DataFrame:
        """Return the answers for what several partitions show together.

        Args:
            kind: ``copies`` of the same partition, or ``keys`` of the same topic.
            clusters: all clusters.
            tasks: number of tasks that evaluate them.
        """
        partitions, rules = self.frame.where(self.frame.kind == PARTITION), self.scope.rules
        spread = _by_slot(partitions, tasks, "number") if kind == "keys" else partitions
        send = partial(_sent, kind=kind, tasks=tasks, rules=rules)
        metadata = _by_slot(mapped(partitions, [_metadata], ITEMS), 1, "slot")
        send_metadata = partial(_sent_metadata, kind=kind, clusters=clusters, tasks=tasks)
        arriving = _union([mapped(spread, [send], SCHEMA), mapped(metadata, [send_metadata], SCHEMA)])
        meeting = _by_slot(arriving, tasks, "split_slot").sortWithinPartitions(*IN_PARTITION)
        return mapped(meeting, [partial(_met, kind=kind, clusters=clusters, rules=rules, sink=self.sink)], SCHEMA)

    def duplicates(self, clusters: Clusters, tasks: int) -> DataFrame:
        """Return the answers for records that occur in several partitions of a topic.

        Args:
            clusters: all clusters.
            tasks: number of tasks of each stage.
        """
        partitions, rules = self.frame.where(self.frame.kind == PARTITION), self.scope.rules
        sent = mapped(partitions, [partial(_sent, kind="duplicates", tasks=tasks, rules=rules)], SCHEMA)
        members = _next_stage(sent, tasks, IN_PARTITION, partial(members_of, clusters=clusters))
        hashed = _next_stage(members.where(members.ordinal == HASHING), tasks, IN_PARTITION, hashed_in)
        shared = _next_stage(hashed, tasks, IN_BUCKET, shared_in)
        to_search = _union([members.where(members.ordinal != HASHING), shared])
        entries = _next_stage(to_search, tasks, IN_PARTITION, partial(entries_in, rules=rules))
        pairs = _by_slot(_next_stage(entries, tasks, IN_BUCKET, paired_in), tasks, "split_slot")
        evaluate = partial(_met, kind="duplicates", clusters=clusters, rules=rules, sink=self.sink)
        return mapped(pairs.sortWithinPartitions(*IN_PARTITION), [evaluate], SCHEMA)

    def _spread(self) -> DataFrame:
        """Return files, partitions and splits at the tasks that list, evaluate and read them."""
        from pyspark.sql.functions import expr  # only jobs on Spark import it

        reads, tasks = self.shares.reads, self.shares.reads + self.shares.tasks
        # Splits get the first tasks, because more stages follow them; slots that count from the end get the others.
        slot = expr(f"int(if(split_slot < 0, split_slot + {tasks}, pmod(split_slot, {max(1, reads)})))")
        return self._splits().repartitionById(tasks, slot).sortWithinPartitions(*IN_TASK)

    def _splits(self) -> DataFrame:
        shares, cuts = self.shares, partial(_cut, size=self.split_size)
        if shares.cuts:
            return mapped(_by_slot(self._segments(), shares.cuts, "split_slot"), [cuts], SCHEMA)
        return self._segments(cuts) if shares.reads else self._segments()

    def _segments(self, *steps: Step) -> DataFrame:
        return mapped(self.frame, [partial(_scheduled, deal=Schedule.of(self.shares)), *steps], SCHEMA)

    def _records(self) -> DataFrame:
        """Return the evidence of the records of large partitions, which needs nothing of what merges runs."""
        readers, segments = self.shares.reads, self._segments()
        segments = segments.where(segments.ordinal >= 0)
        hashes = _by_slot(mapped(segments, [_hashed], SCHEMA), readers, "split_slot")
        repeated = mapped(hashes.sortWithinPartitions(*IN_BUCKET), [partial(_repeated, readers=readers)], SCHEMA)
        to_read = _by_slot(_union([segments, repeated]), readers, "split_slot")
        return mapped(to_read.sortWithinPartitions(*IN_PARTITION), [_recorded], SCHEMA)


def merge_answers(frames: Sequence[DataFrame], shares: TaskPlan, scope: AuditScope, sink: Sink) -> DataFrame:
    """Return the answers for everything that tasks have returned, as a data frame.

    Args:
        frames: first a frame with answers, the files of large partitions, the summaries of their splits and what
            merging them needs; then a frame with the evidence of their records, if the scope includes records.
        shares: the tasks of each stage.
        scope: the audit scope.
        sink: takes the partition results.
    """
    parts, *of_records = frames
    if shares.runs:
        ready = _by_slot(parts, shares.runs, "run_slot").sortWithinPartitions("run_slot", *IN_PARTITION)
        parts = mapped(ready, [partial(_runs, scope=scope)], SCHEMA)
    if not shares.finals:
        return parts
    last = _by_slot(_union([parts, *of_records]), shares.finals, "final_slot").sortWithinPartitions(*IN_PARTITION)
    return mapped(last, [partial(_ended, scope=scope, sink=sink)], SCHEMA)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of all frames."""
    return reduce(lambda frame, other: frame.unionAll(other), frames)


def _next_stage(
    frame: DataFrame,
    tasks: int,
    order: Sequence[str],
    step: Callable[[Iterable[AddressedValue]], Iterable[AddressedValue]],
) -> DataFrame:
    """Return the result of a function of the values that arrive at each task, sorted by some columns."""
    ordered = _by_slot(frame, tasks, "split_slot").sortWithinPartitions(*order)
    return mapped(ordered, [partial(_passed, step=step)], SCHEMA)


def _by_slot(frame: DataFrame, tasks: int, slot: str) -> DataFrame:
    """Return a frame whose rows are at the task of their slot."""
    from pyspark.sql.functions import expr  # only jobs on Spark import it

    return frame.repartitionById(tasks, expr(f"int(pmod({slot}, {tasks}))"))


def mapped(frame: DataFrame, steps: Sequence[Step], schema: pa.Schema) -> DataFrame:
    """Return the result of functions that are applied one after the other to the rows of each task.

    Args:
        frame: the rows.
        steps: the functions.
        schema: schema of the rows that the last function yields.
    """
    return frame.mapInArrow(partial(_batches, steps=tuple(steps), schema=schema), schema_text(schema))


def _batches(batches: Iterable[pa.RecordBatch], steps: tuple[Step, ...], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    settle()
    rows = rows_of(batches)
    for step in steps:
        rows = iter(step(rows))
    return batches_of(schema, rows)


def _listed(rows: Iterator[Row], topics: tuple[str, ...]) -> Iterator[Row]:
    for number, payload in rows:
        yield from list_item(number, deserialize(payload), topics)


def _scheduled(rows: Iterator[Row], deal: Schedule) -> Iterator[Row]:
    for kind, number, *_, payload in rows:
        yield from _framed(scheduled(kind, number, payload, deal))


def _cut(rows: Iterator[Row], size: int) -> Iterator[Row]:
    for address, value in values(rows):
        yield from _framed(cut(address, value, size))


def _done(rows: Iterator[Row], scope: AuditScope, sink: Sink) -> Iterator[Row]:
    return _framed(done(values(rows), scope, sink))


def _hashed(rows: Iterator[Row]) -> Iterator[Row]:
    for address, reading in values(rows):
        yield from _framed(hashes_of(address, reading))


def _repeated(rows: Iterator[Row], readers: int) -> Iterator[Row]:
    return _framed(repeated_of(values(rows), readers))


def _recorded(rows: Iterator[Row]) -> Iterator[Row]:
    return _framed(records_of(values(rows)))


def _runs(rows: Iterator[Row], scope: AuditScope) -> Iterator[Row]:
    return _framed(run_of(values(rows), scope))


def _ended(rows: Iterator[Row], scope: AuditScope, sink: Sink) -> Iterator[Row]:
    return _framed(ended(values(rows), scope, sink))


def _resolved(rows: Iterator[Row], scope: AuditScope, sink: Sink) -> Iterator[Row]:
    return _framed(resolve_deferred(values(rows), scope, sink))


def _sent(rows: Iterator[Row], kind: str, tasks: int, rules: Rules) -> Iterator[Row]:
    for _, number, *_, payload in rows:
        partition = deserialize(payload)
        if kind == "keys":
            yield from _framed(keys_in(number, partition, tasks, rules))
        else:
            send = member_of if kind == "duplicates" else copy_of
            yield from _framed(send(number, partition, tasks))


def _passed(rows: Iterator[Row], step: Callable[[Iterable[AddressedValue]], Iterable[AddressedValue]]) -> Iterator[Row]:
    return _framed(step(values(rows)))


def _metadata(rows: Iterator[Row]) -> Iterator[Row]:
    return ((0, payload) for *_, member, payload in rows if deserialize(member).topic == METADATA_TOPIC)


def _sent_metadata(rows: Iterator[Row], kind: str, clusters: Clusters, tasks: int) -> Iterator[Row]:
    send = described_of if kind == "keys" else elected_of
    return _framed(send((deserialize(payload) for _, payload in rows), clusters, tasks))


def _met(rows: Iterator[Row], kind: str, clusters: Clusters, rules: Rules, sink: Sink) -> Iterator[Row]:
    return _framed(met(values(rows), kind, clusters, rules, sink))


def _framed(addressed: Iterable[AddressedValue]) -> Iterator[Row]:
    return chain.from_iterable(to_frames(address, value) for address, value in addressed)
