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
from itertools import chain, groupby
from typing import TYPE_CHECKING

from kforensics.forensics.audit.audit_scope import AuditScope
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.forensics.core.rules import Rules
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.spark.audit.cross_partition import (
    FIRST_PART,
    contributed,
    copy_of,
    described_of,
    elected_of,
    keys_in,
    member_of,
)
from kforensics.spark.audit.finished_tasks import FinishedTasks
from kforensics.spark.audit.listing import CONTEXT, PARTITION
from kforensics.spark.audit.plan import NUMBERED, Plan, Step, by_slot, mapped
from kforensics.spark.audit.read_counter import ReadCounter
from kforensics.spark.audit.scheduling import Schedule, scheduled
from kforensics.spark.audit.segment_contents import hashes_of, records_of, repeated_of
from kforensics.spark.audit.serialization import (
    IN_BUCKET,
    IN_PARTITION,
    IN_TASK,
    SCHEMA,
    Row,
    deserialize,
    rows_of,
    to_frames,
    values,
)
from kforensics.spark.audit.split_merging import run_of
from kforensics.spark.audit.splitting import AddressedValue, cut
from kforensics.spark.audit.task_results import Sink, done, ended, joined, met, resolve_deferred
from kforensics.spark.audit.task_sizing import MOST_JOINS, TASKS, WORTH_A_TASK, TaskPlan, TaskSizing, plan_tasks
from kforensics.spark.audit.topic_contents import (
    HASHING,
    entries_in,
    hashed_in,
    have_topics,
    members_of,
    paired_in,
    shared_in,
)
from kforensics.spark.session import described

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["merge_answers", "run_audit_job"]


def run_audit_job(  # noqa: PLR0913, PLR0917  # what a job consists of
    spark: SparkSession,
    plan: Plan,
    scope: AuditScope,
    sink: Sink,
    sharing: TaskSizing,
    finished: FinishedTasks | None = None,
    counter: ReadCounter | None = None,
) -> bytes:
    """Return the combined return values of the sink for the whole plan.

    Args:
        spark: the session of the plan.
        plan: the partitions to evaluate.
        scope: the audit scope.
        sink: takes the partition results.
        sharing: parameters of task sizing.
        finished: keeps what tasks that read logs return, None to keep nothing.
        counter: counts what the tasks have read, None to count nothing.
    """
    clusters, tasks = scope.clusters, TASKS * sharing.parallelism
    around = min(len(plan.context), tasks) if plan.context else 0
    joins = sharing.join_parts(plan.size, len(clusters.coordinated)) if clusters else 0
    shares = replace(plan_tasks(plan.sizes, sharing), joins=joins)
    job = _Job(plan.frame, scope, sink, shares, sharing.split_size, around, finished, counter)
    outcomes: list[bytes] = []
    frames: list[DataFrame] = []
    if clusters and clusters.has_copies(plan.members):
        frames.append(job.meetings("copies", clusters, tasks))
    if scope.records:
        frames.append(job.meetings("keys", clusters or Clusters(), tasks))
    if scope.records and have_topics(plan.members):
        frames.append(job.duplicates(clusters or Clusters(), max(tasks, plan.size // WORTH_A_TASK)))
    if frames:
        # The verdict of each partition includes what they find, so this has to be known first.
        with described(spark, f"compare copies of partitions{' and evaluate topics' if scope.records else ''}"):
            outcomes.append(sink.merged(_collected(_union(frames))))
        job = replace(job, sink=sink.informed(outcomes[0]))
    # Accumulators of Python have no names in Spark's UI, and no values before a job ends.
    work = f"{format_count(len(plan.sizes), 'partition')} with {format_size(plan.size)} of logs"
    with described(spark, f"read and evaluate {work}"):
        return sink.merged([*outcomes, *_collected(job.answers())])


def _collected(answers: DataFrame) -> list[bytes]:
    """Return the return values of the sink that tasks have answered."""
    return [answer.outcome for _, answer in values(rows_of(answers.toArrow().to_batches()))]


@dataclass(frozen=True, slots=True)
class _Job:
    """The stages of the job, as data frames of what their tasks return.

    ``around`` is the number of tasks that read logs of coordinators and of metadata that are not to be evaluated.
    Stages that read logs keep what their tasks return in ``finished``.
    """

    frame: DataFrame
    scope: AuditScope
    sink: Sink
    shares: TaskPlan
    split_size: int
    around: int = 0
    finished: FinishedTasks | None = None
    counter: ReadCounter | None = None

    def answers(self) -> DataFrame:
        """Return the answers for partitions, and for clusters of them."""
        read = partial(_done, scope=self.scope, sink=self.sink, counter=self.counter, parts=self.shares.joins)
        frames = [self._read("read", self._spread(), read)]
        frames += [self._records()] if self.scope.records and self.shares.reads else []
        answers = merge_answers(frames, self.shares, self.scope, self.sink, self.counter)
        clusters = len(self.scope.clusters.checked) if self.scope.clusters else 0
        if not clusters:
            return answers
        if self.around:
            context = by_slot(self.frame.where(self.frame.kind == CONTEXT), self.around, "hash(number)")
            neighbors = partial(_contributed, scope=self.scope, parts=self.shares.joins)
            answers = _union([answers, self._read("context", context, neighbors)])
        if self.shares.joins:
            tasks = min(clusters * self.shares.joins, MOST_JOINS)
            by_part = by_slot(answers, tasks, "run_slot").sortWithinPartitions(*IN_PARTITION)
            join = partial(_joined, scope=self.scope, sink=self.sink, parts=self.shares.joins)
            answers = mapped(by_part, [join], SCHEMA)
        by_cluster = by_slot(answers, clusters, "final_slot").sortWithinPartitions(*IN_PARTITION)
        return mapped(by_cluster, [partial(_resolved, scope=self.scope, sink=self.sink)], SCHEMA)

    def meetings(self, kind: str, clusters: Clusters, tasks: int) -> DataFrame:
        """Return the answers for what several partitions show together.

        Args:
            kind: ``copies`` of the same partition, or ``keys`` of the same topic.
            clusters: all clusters.
            tasks: number of tasks that evaluate them.
        """
        partitions, rules = self.frame.where(self.frame.kind == PARTITION), self.scope.rules
        spread = by_slot(partitions, tasks, "hash(number)") if kind == "keys" else partitions
        send = partial(_sent, kind=kind, tasks=tasks, rules=rules)
        kinds = (PARTITION, CONTEXT) if self.around else (PARTITION,)
        everything = self.frame.where(self.frame.kind.isin(*kinds))
        metadata = by_slot(mapped(everything, [_metadata], NUMBERED), 1, "number").sortWithinPartitions("number")
        send_metadata = partial(_sent_metadata, kind=kind, clusters=clusters, tasks=tasks)
        sent = self._read("keys", spread, send) if kind == "keys" else mapped(spread, [send], SCHEMA)
        arriving = _union([sent, mapped(metadata, [send_metadata], SCHEMA)])
        meeting = by_slot(arriving, tasks, "split_slot").sortWithinPartitions(*IN_PARTITION)
        evaluate = partial(_met, kind=kind, clusters=clusters, rules=rules, sink=self.sink)
        return self._read(kind, meeting, evaluate) if kind == "copies" else mapped(meeting, [evaluate], SCHEMA)

    def duplicates(self, clusters: Clusters, tasks: int) -> DataFrame:
        """Return the answers for records that occur in several partitions of a topic.

        Args:
            clusters: all clusters.
            tasks: number of tasks of each stage.
        """
        partitions, rules = self.frame.where(self.frame.kind == PARTITION), self.scope.rules
        sent = mapped(partitions, [partial(_sent, kind="duplicates", tasks=tasks, rules=rules)], SCHEMA)
        members = _next_stage(sent, tasks, IN_PARTITION, partial(members_of, clusters=clusters))
        segments = by_slot(members.where(members.ordinal == HASHING), tasks, "split_slot")
        hashed = self._read(
            "topic-hashes", segments.sortWithinPartitions(*IN_PARTITION), partial(_passed, step=hashed_in)
        )
        shared = _next_stage(hashed, tasks, IN_BUCKET, shared_in)
        to_search = _union([members.where(members.ordinal != HASHING), shared])
        to_search = by_slot(to_search, tasks, "split_slot").sortWithinPartitions(*IN_PARTITION)
        entries = self._read("topic-entries", to_search, partial(_passed, step=partial(entries_in, rules=rules)))
        pairs = by_slot(_next_stage(entries, tasks, IN_BUCKET, paired_in), tasks, "split_slot")
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
            return mapped(by_slot(self._segments(), shares.cuts, "split_slot"), [cuts], SCHEMA)
        return self._segments(cuts) if shares.reads else self._segments()

    def _segments(self, *steps: Step) -> DataFrame:
        return mapped(self.frame, [partial(_scheduled, deal=Schedule.of(self.shares)), *steps], SCHEMA)

    def _records(self) -> DataFrame:
        """Return the evidence of the records of large partitions, which needs nothing of what merges runs."""
        readers, segments = self.shares.reads, self._segments()
        segments = segments.where(segments.ordinal >= 0)
        hashes = by_slot(self._read("hashes", by_slot(segments, readers, "split_slot"), _hashed), readers, "split_slot")
        repeated = mapped(hashes.sortWithinPartitions(*IN_BUCKET), [partial(_repeated, readers=readers)], SCHEMA)
        to_read = by_slot(_union([segments, repeated]), readers, "split_slot")
        return self._read("records", to_read.sortWithinPartitions(*IN_PARTITION), _recorded)

    def _read(self, stage: str, frame: DataFrame, step: Step) -> DataFrame:
        """Return what the tasks of a stage return that read logs; its tasks are those of slots."""
        return mapped(frame, [step], SCHEMA, self.finished.stage(stage) if self.finished else None)


def merge_answers(
    frames: Sequence[DataFrame], shares: TaskPlan, scope: AuditScope, sink: Sink, counter: ReadCounter | None = None
) -> DataFrame:
    """Return the answers for everything that tasks have returned, as a data frame.

    Args:
        frames: first a frame with answers, the files of large partitions, the summaries of their splits and what
            merging them needs; then a frame with the evidence of their records, if the scope includes records.
        shares: the tasks of each stage.
        scope: the audit scope.
        sink: takes the partition results.
        counter: counts the partitions with a verdict, None to count nothing.
    """
    parts, *of_records = frames
    if shares.runs:
        ready = by_slot(parts, shares.runs, "run_slot").sortWithinPartitions("run_slot", *IN_PARTITION)
        parts = mapped(ready, [partial(_runs, scope=scope)], SCHEMA)
    if not shares.finals:
        return parts
    last = by_slot(_union([parts, *of_records]), shares.finals, "final_slot").sortWithinPartitions(*IN_PARTITION)
    return mapped(last, [partial(_ended, scope=scope, sink=sink, counter=counter, parts=shares.joins)], SCHEMA)


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
    ordered = by_slot(frame, tasks, "split_slot").sortWithinPartitions(*order)
    return mapped(ordered, [partial(_passed, step=step)], SCHEMA)


def _scheduled(rows: Iterator[Row], deal: Schedule) -> Iterator[Row]:
    for kind, number, *_, payload in rows:
        yield from _framed(scheduled(kind, number, payload, deal))


def _cut(rows: Iterator[Row], size: int) -> Iterator[Row]:
    for address, value in values(rows):
        yield from _framed(cut(address, value, size))


def _done(rows: Iterator[Row], scope: AuditScope, sink: Sink, counter: ReadCounter | None, parts: int) -> Iterator[Row]:
    arriving = values(rows)
    return _framed(done(counter.counted(arriving, scope.summaries) if counter else arriving, scope, sink, parts))


def _hashed(rows: Iterator[Row]) -> Iterator[Row]:
    for address, reading in values(rows):
        yield from _framed(hashes_of(address, reading))


def _repeated(rows: Iterator[Row], readers: int) -> Iterator[Row]:
    return _framed(repeated_of(values(rows), readers))


def _recorded(rows: Iterator[Row]) -> Iterator[Row]:
    return _framed(records_of(values(rows)))


def _runs(rows: Iterator[Row], scope: AuditScope) -> Iterator[Row]:
    return _framed(run_of(values(rows), scope))


def _ended(
    rows: Iterator[Row], scope: AuditScope, sink: Sink, counter: ReadCounter | None, parts: int
) -> Iterator[Row]:
    arriving = values(rows)
    return _framed(ended(counter.counted(arriving, partitions=True) if counter else arriving, scope, sink, parts))


def _contributed(rows: Iterator[Row], scope: AuditScope, parts: int) -> Iterator[Row]:
    for _, number, *_, payload in rows:
        yield from _framed(contributed(number, deserialize(payload), scope, parts))


def _joined(rows: Iterator[Row], scope: AuditScope, sink: Sink, parts: int) -> Iterator[Row]:
    """Join what belongs to parts, which sorts first; all else only passes through."""
    for is_part, group in groupby(rows, lambda row: bool(row[0] <= FIRST_PART)):
        if is_part:
            yield from _framed(joined(values(group), scope, sink, parts))
            continue
        yield from group


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
    return ((number, payload) for _, number, *_, member, payload in rows if deserialize(member).topic == METADATA_TOPIC)


def _sent_metadata(rows: Iterator[Row], kind: str, clusters: Clusters, tasks: int) -> Iterator[Row]:
    send = described_of if kind == "keys" else elected_of
    return _framed(send((deserialize(payload) for _, payload in rows), clusters, tasks))


def _met(rows: Iterator[Row], kind: str, clusters: Clusters, rules: Rules, sink: Sink) -> Iterator[Row]:
    return _framed(met(values(rows), kind, clusters, rules, sink))


def _framed(addressed: Iterable[AddressedValue]) -> Iterator[Row]:
    return chain.from_iterable(to_frames(address, value) for address, value in addressed)
