"""The audit on Spark: the same results, report and evidence store as in one process, from any number of workers."""

from __future__ import annotations

import os
import platform
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kforensics.analyses.audit import NO_PLACE, STORED, Stages, cluster_ids, summaries_in_manifest
from kforensics.analyses.partitions import NO_LOG, ignore, rules_as_of
from kforensics.analyses.topics import check_topics
from kforensics.errors import EngineError, InputError, UsageError
from kforensics.forensics.audit.audit_scope import AuditScope
from kforensics.forensics.audit.cluster_membership import with_cluster_times
from kforensics.forensics.audit.cross_partition_duplicates import SearchedReplicas
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.setting_evidence import rules_by_evidence
from kforensics.forensics.audit.setting_rows import setting_rows
from kforensics.forensics.core.broker_settings import Setting
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.forensics.partition.stored_chunks import CHUNK_SUMMARIES, SummaryUse
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.input_paths import INSIDE, UNPACKED, is_archive_name, is_uri
from kforensics.render.audit_report import AuditReport
from kforensics.render.previous_store import previous_store
from kforensics.render.staged_store import StagedStore, StorePart, TaskWriter
from kforensics.render.streams import ProgressMeter
from kforensics.spark.audit.audit_job import run_audit_job
from kforensics.spark.audit.finished_tasks import FinishedTasks, resume_key
from kforensics.spark.audit.listing import topics_under
from kforensics.spark.audit.outcomes import CHECKSUMS, Outcome, ResultSink
from kforensics.spark.audit.plan import Plan, plan_of, setting_evidence_of
from kforensics.spark.audit.read_counter import ReadCounter
from kforensics.spark.audit.serialization import deserialize, serialize
from kforensics.spark.audit.task_sizing import FEW, TaskSizing
from kforensics.spark.session import answering, check_workers, described, parallelism
from kforensics.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkRequest", "audited_on_spark", "planned", "rules_of"]


@dataclass(frozen=True, slots=True)
class SparkRequest:
    """Parameters of an audit on Spark.

    Attributes:
        paths: as for ``discover``.
        topics: only partitions of these topics; all if empty.
        output: folder of the evidence store, a path or URI that all workers share; None for no store.
        as_of_ms: time of evaluation; None for the newest modification time among the inputs.
        records: whether records are decoded, checked and searched for duplicates.
        checksums: whether the store gets the SHA-256 of every input.
        split_size: approximate bytes of a split.
        whole: bytes up to which a partition is never split, None to derive it from the total.
        few: as for ``TaskSizing``.
        joins: as for ``TaskSizing``.
        command: the command line, for the manifest.
        settings: settings that the user gives, those that count first.
        alone: whether to ignore the logs of coordinators and of the cluster's metadata that are around the paths, or of
            another topic.
        resume: whether to go on from what the same audit has left in the folder of the store that ended early.
        previous: the store of an earlier audit, a path or a URI: what is unchanged since is not read again.
    """

    paths: tuple[str, ...]
    topics: tuple[str, ...] = ()
    output: str | None = None
    as_of_ms: int | None = None
    records: bool = False
    checksums: bool = False
    split_size: int = SPLIT_SIZE
    whole: int | None = None
    few: int = FEW
    joins: int | None = None
    command: tuple[str, ...] = ()
    settings: tuple[Setting, ...] = ()
    alone: bool = False
    resume: bool = True
    previous: str | None = None


def planned(spark: SparkSession, request: SparkRequest) -> Plan:
    """Return the partitions to evaluate, and begin the store; close the plan if it is not to be evaluated.

    Raises:
        UsageError: there is no log under the paths, or no such topic, or the store cannot be written.
        EngineError: Spark fails, or its Python workers on this machine do not have this package.
    """
    check_workers(spark)
    with ExitStack() as unfinished:
        store = unfinished.enter_context(StagedStore(request.output)) if request.output else None
        listing = described(spark, "list the folders")
        with _naming_output(store, request), answering("the folders were not looked into"), listing:
            paths = _as_workers_know(spark, request.paths)
            plan = plan_of(spark, paths, request.topics, alone=request.alone, store=store)
        if request.topics and not plan.unreadable:
            _check_topics(plan, request)
        if not len(plan.sizes) and not plan.unreadable:
            raise UsageError(NO_LOG.format(", ".join(request.paths)))
        finished = _finished_tasks(plan, request, parallelism(spark))
        unfinished.pop_all()
    return replace(plan, finished=finished)


@contextmanager
def _naming_output(store: StagedStore | None, request: SparkRequest) -> Iterator[None]:
    """Name the folder of the store in errors, rather than the staging folder that tasks know."""
    try:
        yield
    except UsageError as error:
        if store is None or request.output is None:
            raise
        raise UsageError(str(error).replace(store.staging, request.output)) from error


def _check_topics(plan: Plan, request: SparkRequest) -> None:
    """Check that the topics exist; if one does not, list the folders above the partitions again for similar names."""
    there = {member.topic for member in plan.members}
    if not there.issuperset(request.topics) and (known := topics_under(request.paths)):
        check_topics(request.topics, there, known)


def _as_workers_know(spark: SparkSession, paths: Sequence[str]) -> Sequence[str]:
    """Return paths that workers with other working directories understand; those of a local master share this one.

    Raises:
        UsageError: a path is an archive, and workers on other machines do not share what this one unpacks.
    """
    packed = [path for path in paths if (is_archive_name(path) or INSIDE in path) and not is_uri(path)]
    if re.fullmatch(r"local(\[.*\])?", spark.conf.get("spark.master", "") or ""):
        _unpack(spark, packed)
        return paths
    for path in packed:
        raise UsageError(f"{path} is unpacked on one machine; unpack it into a folder that all workers share")
    return [path if is_uri(path) else str(Path(path).absolute()) for path in paths]


def _unpack(spark: SparkSession, paths: Sequence[str]) -> None:
    """Unpack archives once, for all workers of a local master."""
    for path in paths:
        with suppress(InputError):  # listing the paths reports it
            folders_of(path).expand(path)
    if (unpacked := os.environ.get(UNPACKED)) and hasattr(spark, "sparkContext"):
        spark.sparkContext.environment[UNPACKED] = unpacked


def _finished_tasks(plan: Plan, request: SparkRequest, tasks: int) -> FinishedTasks | None:
    """Return what keeps the finished tasks of an audit, with those of the same audit that ended early.

    Args:
        plan: the plan.
        request: what to audit, and how.
        tasks: number of tasks that can run at once, unless the other audit began with another one.

    Returns:
        None if nothing can be kept: there is no store, or no place for the key of this user.

    Raises:
        UsageError: what the other audit has left cannot be read.
    """
    key = resume_key() if request.resume else None
    if plan.store is None:
        return None
    same = (__version__, platform.python_version(), plan.hash, replace(request, output=None, command=()))
    name = sha256(serialize(same)).hexdigest()[:32]
    finished = plan.store.adopt(name if key else "")
    return FinishedTasks(plan.store.staging, finished or f"{name}-{tasks}", key) if key else None


def rules_of(plan: Plan, request: SparkRequest) -> Rules:
    """Return the time of evaluation, and the limits without what the files show of the settings."""
    return with_cluster_times(rules_as_of(request.as_of_ms, plan.newest_file), plan.all_members, plan.all_clusters)


def _known_rules(plan: Plan, request: SparkRequest) -> Rules:
    """Return the limits and the time of evaluation."""
    rules = rules_of(plan, request)
    evidence = setting_evidence_of(plan, rules.as_of_ms)
    return rules_by_evidence(rules, request.settings, evidence, plan.all_members, plan.all_clusters)


def audited_on_spark(
    spark: SparkSession,
    plan: Plan,
    request: SparkRequest,
    meter: ProgressMeter | None = None,
    note: Callable[[str], object] = ignore,
) -> AuditReport:
    """Evaluate all partitions of a plan, write the evidence store, and return the report.

    Args:
        spark: the session of the plan.
        plan: the partitions.
        request: what to audit, and how.
        meter: shows how much has been read, None for nothing.
        note: takes a sentence if everything is read although there is a store of an earlier audit.

    Raises:
        UsageError: the store cannot be written, or that of the earlier audit is of another cluster, or none.
        EngineError: Spark fails; no store is written then.
    """
    stages, counter, store = Stages(), ReadCounter.of(spark), plan.store
    with closing(plan), _naming_output(store, request), _keeping_finished(plan):
        summaries = _summary_use(plan, request, note)
        with answering("the settings were not looked up"), described(spark, "look up the settings"):
            rules = _known_rules(plan, request)
        tasks = plan.finished.parallelism if plan.finished else parallelism(spark)
        sharing = TaskSizing(tasks, request.split_size, request.whole, request.few, request.joins)
        names = {member.log_dir: plan.clusters.name_of_member(member) for member in plan.members}
        sink = ResultSink(store.staging if store else None, rules.as_of_ms, request.checksums, names)
        progress = counter.shown(meter) if counter else nullcontext()
        with stages.stage("examine"), answering("the audit broke off"), progress:
            replicas = SearchedReplicas.of(plan.members if request.records else (), plan.clusters)
            scope = AuditScope(
                rules, records=request.records, clusters=plan.clusters, replicas=replicas, summaries=summaries
            )
            outcome: Outcome = deserialize(run_audit_job(spark, plan, scope, sink, sharing, plan.finished, counter))
        _check_complete(plan, outcome)
        incidents = outcome.incidents.rows()
        outcome.report.add(PartitionResult(NO_PLACE, "", 0, {incidents.table.name: incidents}, is_counted=False))
        if store:
            outcome.parts += _stored_rows(store.staging, setting_rows(rules), incidents)
            more = [CHUNK_SUMMARIES, *([CHECKSUMS] if request.checksums else [])]
            tables = {**STORED, **{table.name: table for table in more}}
            manifest = _manifest(spark, plan, request, rules.as_of_ms, stages, counter)
            unread = {"unread": outcome.report.unread_count}
            store.finish(outcome.parts, tables, {**manifest, **unread, **summaries_in_manifest(summaries)})
    outcome.report.unreadable_paths = plan.unreadable
    return outcome.report


def _summary_use(plan: Plan, request: SparkRequest, note: Callable[[str], object]) -> SummaryUse:
    """Return where the summaries of unchanged logs come from, and whether they are kept."""
    previous = previous_store(request.previous, cluster_ids(plan.members), note) if request.previous else None
    return SummaryUse(previous, keeps=request.output is not None)


@contextmanager
def _keeping_finished(plan: Plan) -> Iterator[None]:
    """Say what is kept if Spark fails; keep nothing if the user ends the audit, or the store cannot be written."""
    try:
        yield
    except EngineError as error:
        count = plan.finished.count() if plan.finished else 0
        if not count:
            raise
        raise EngineError(f"{error}; the same command goes on from {format_count(count, 'finished task')}") from error
    except (UsageError, KeyboardInterrupt):
        if plan.store:
            plan.store.discard()
        raise


def _check_complete(plan: Plan, outcome: Outcome) -> None:
    """Check that every planned partition has exactly one row among the results, evaluated or unread.

    Raises:
        EngineError: one has none, or several.
    """
    planned_places = Counter((member.log_dir, member.topic, member.partition) for member in plan.members)
    stored = sum(part.rows for part in outcome.parts if part.table == "partitions")
    if outcome.places == planned_places and (plan.store is None or stored == len(plan.sizes)):
        return
    if plan.store:
        plan.store.discard()
    different = (planned_places - outcome.places) + (outcome.places - planned_places)
    names = [f"{topic}-{number} in {log_dir}" for log_dir, topic, number in sorted(different, key=str)[:1]]
    raise EngineError(
        f"the audit broke off: of {format_count(len(plan.sizes), 'planned partition')}, {outcome.places.total():,}"
        f" have a result and {stored:,} a row in the store{'; the first that differs is '.join(['', *names])};"
        " run the audit again"
    )


def _stored_rows(staging: str, *tables: Rows) -> tuple[StorePart, ...]:
    parts = TaskWriter(staging, "driver")
    for rows in tables:
        parts.add(rows)
    return parts.finish()


def _manifest(  # noqa: PLR0913, PLR0917  # what it states
    spark: SparkSession,
    plan: Plan,
    request: SparkRequest,
    as_of_ms: int,
    stages: Stages,
    counter: ReadCounter | None,
) -> Mapping[str, Any]:
    tables: Sequence[str] = ["files", "checksums"] if request.checksums else ["files"]
    return {
        "schema": "kforensics-store/1",
        "version": __version__,
        "command": list(request.command),
        "as_of_ms": as_of_ms,
        "options": {
            "engine": "spark",
            "spark": spark.version,
            "split_size": request.split_size,
            "records": request.records,
            "checksums": request.checksums,
        },
        "partitions": len(plan.sizes),
        "unreadable": plan.unreadable,
        "clusters": cluster_ids(plan.members),
        # A cluster has millions of inputs: they are rows of a table, not lines of this file.
        "inputs": {"tables": tables},
        # What this run has read: tasks that another run had finished do not read again.
        "read_bytes": counter.read_bytes.value if counter else None,
        "seconds": {name: round(seconds, 3) for name, seconds in stages.seconds.items()},
    }
