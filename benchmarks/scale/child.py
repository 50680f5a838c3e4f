"""``python -m benchmarks.scale.child JSON``: one measurement in a process of its own; prints its metrics as JSON."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kforensics
from benchmarks.scale import synthetic
from benchmarks.scale.synthetic import SCOPE, Counting, Made
from benchmarks.scale.usage import cpu_seconds, load, peak_bytes, peak_of_others
from kforensics.analyses.audit import AuditRequest, Stages, run_audit
from kforensics.analyses.partitions import investigate
from kforensics.render.audit_report import AuditReport
from kforensics.spark.audit.audit_job import merge_answers, run_audit_job
from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned
from kforensics.spark.audit.serialization import deserialize, rows_of, values
from kforensics.spark.audit.task_sizing import TaskSizing, plan_tasks
from kforensics.spark.session import session
from lab.progress import say

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Metrics = dict[str, float]

LOOPBACK = "127.0.0.1"
AS_OF_MS = 1_795_264_200_000


@dataclass(frozen=True, slots=True)
class _Given:
    """What to measure.

    Attributes:
        folder: for whatever the job writes.
        warm: a small partition.
        paths: logs, each measured by itself.
        cores: processors: so many tasks at once, and so many for all processes together, Java's included.
        is_pinned: whether it has no others.
        made: partitions that exist on no disk, each kind measured by itself.
        scans: tables and the columns that are read of them, all if none is named.
        properties: of Spark, beyond those that the command would give it.
    """

    folder: Path
    warm: str
    paths: tuple[str, ...] = ()
    cores: int = 2
    is_pinned: bool = True
    made: tuple[Made, ...] = ()
    scans: tuple[tuple[str, str], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, arguments: Mapping[str, Any]) -> _Given:
        made = tuple(Made(**one) for one in arguments.get("made", ()))
        given = {name: arguments[name] for name in ("cores", "is_pinned", "scans", "properties") if name in arguments}
        return cls(Path(arguments["folder"]), arguments["warm"], tuple(arguments.get("paths", ())), made=made, **given)

    def store(self) -> str:
        """A folder that does not exist."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        return str(self.folder / "store")


@contextmanager
def _taking(metrics: Metrics, prefix: str = "") -> Iterator[None]:
    cpu, of_jvm, begun = cpu_seconds(), cpu_seconds(of_jvm=True), time.perf_counter()
    yield
    metrics[f"{prefix}seconds"] = time.perf_counter() - begun
    metrics[f"{prefix}cpu"] = cpu_seconds() - cpu
    metrics[f"{prefix}jvm"] = cpu_seconds(of_jvm=True) - of_jvm


def in_process(given: _Given) -> Iterator[Metrics]:
    """The audit of logs in this process, or in a pool of them."""
    _audited(given, given.warm)
    for path in given.paths:
        metrics: Metrics = {}
        with _taking(metrics):
            report = _audited(given, path)
        yield {**metrics, "own_peak": peak_bytes(), "partitions": report.partitions, "unread": report.unread_count}


def _audited(given: _Given, path: str) -> AuditReport:
    """Do what the command does: write a store, and keep what its report needs."""
    partitions = investigate([path], AS_OF_MS, say, say)
    report = AuditReport(AS_OF_MS)
    request = AuditRequest(Path(given.store()), given.cores)
    for result in run_audit(partitions, request, lambda _size: None, Stages()):
        report.add(result)
    return report


def on_spark(given: _Given) -> Iterator[Metrics]:
    """The audit of logs on Spark; the first one, of a small log, is part of the start."""
    start: Metrics = {}
    with _session(given) as spark:
        with _taking(start, "start_"):
            _run_audit(spark, given, given.warm, is_warming=True)
            _run_audit(spark, given, given.warm)
        for path in given.paths:
            metrics: Metrics = {}
            before = _stages(spark)
            with _taking(metrics):
                metrics |= _run_audit(spark, given, path)
            yield {**start, **metrics, **_spark_metrics(spark, before)}


def _run_audit(spark: SparkSession, given: _Given, path: str, *, is_warming: bool = False) -> Metrics:
    metrics: Metrics = {}
    request = SparkRequest((path,), output=given.store(), as_of_ms=AS_OF_MS)
    # A small log is split all the same, so that every part of the job has run once.
    request = replace(request, whole=0, split_size=1) if is_warming else request
    with _taking(metrics, "plan_"):
        plan = planned(spark, request)
    report = audited_on_spark(spark, plan, request)
    plan.frame.unpersist()
    return {**metrics, "partitions": report.partitions, "unread": report.unread_count}


def scanning(given: _Given) -> Iterator[Metrics]:
    """Rows of tables counted by Spark, of one column and of all, and how many records there are."""
    with _session(given) as spark:
        kforensics.register(spark)
        _scanned(spark, "records", given.warm, "offset").count()
        for path in given.paths:
            batches = _scanned(spark, "batches", path, "count")
            (records,) = batches.selectExpr("sum(count)").first() or (0,)
            for table, columns in given.scans:
                metrics: Metrics = {}
                with _taking(metrics):
                    rows = _scanned(spark, table, path, columns).count()
                yield {**metrics, "rows": rows, "records": records}


def _scanned(spark: SparkSession, table: str, path: str, columns: str) -> DataFrame:
    return spark.read.format("kforensics").options(table=table, columns=columns).load(path)


def merging(given: _Given) -> Iterator[Metrics]:
    """Made splits summarized, and then summarized and joined; what is more in the second is the joining."""
    with _session(given) as spark:
        for made in given.made:
            metrics: Metrics = {}
            sizing = TaskSizing(given.cores, split_size=made.segment_bytes, whole=0)
            tasks = plan_tasks(synthetic.plan_of(spark, made).sizes, sizing)
            summaries = synthetic.summaries_of(spark, made, tasks.large)
            with _taking(metrics, "made_"):
                ((size, rows),) = summaries.selectExpr("sum(length(payload))", "count(*)").collect()
            before = _stages(spark)
            with _taking(metrics):
                outcomes = merge_answers([summaries], tasks, SCOPE, Counting()).toArrow()
            evaluated = sum(deserialize(answer.outcome) for _, answer in values(rows_of(outcomes.to_batches())))
            yield {**metrics, **_spark_metrics(spark, before), "bytes": size, "rows": rows, "partitions": evaluated}


def planning(given: _Given) -> Iterator[Metrics]:
    """A job over made partitions, none of whose files exists: all of it but the reading."""
    with _session(given) as spark:
        for made in given.made:
            metrics: Metrics = {}
            before = _stages(spark)
            with _taking(metrics):
                plan = synthetic.plan_of(spark, made)
                sizing = TaskSizing(given.cores, split_size=made.segment_bytes, whole=0)
                outcome = run_audit_job(spark, plan, SCOPE, Counting(), sizing)
            plan.frame.unpersist()
            yield {
                **metrics,
                **_spark_metrics(spark, before),
                "partitions": deserialize(outcome),
                "sizes": plan.sizes.nbytes,
            }


JOBS: Mapping[str, Callable[[_Given], Iterator[Metrics]]] = {
    "in_process": in_process,
    "merging": merging,
    "on_spark": on_spark,
    "planning": planning,
    "scanning": scanning,
}


def _session(given: _Given) -> AbstractContextManager[SparkSession]:
    """A session as the command starts it."""
    os.environ |= {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": LOOPBACK}
    conf = {
        "spark.driver.bindAddress": LOOPBACK,
        "spark.driver.host": LOOPBACK,
        "spark.driver.memory": "2g",
        "spark.local.dir": str(given.folder / "spark"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    return session(f"local[{given.cores}]", {**conf, **given.properties})


def _stages(spark: SparkSession) -> list[tuple[int, int, int, int]]:
    """Id, tasks, milliseconds and shuffled bytes of each stage that was run."""
    context = spark.sparkContext
    jvm: Any = context._jvm  # noqa: SLF001  # PySpark has no public access to what its web UI shows
    quantiles = context._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]  # noqa: SLF001  # no public access
    store = context._jsc.sc().statusStore()  # noqa: SLF001  # no public access
    listed = store.stageList(None, False, False, quantiles, jvm.java.util.ArrayList())  # noqa: FBT003  # Java has no names
    stages = (listed.apply(index) for index in range(listed.size()))
    return [
        (stage.stageId(), stage.numCompleteTasks(), stage.executorRunTime(), stage.shuffleWriteBytes())
        for stage in stages
        if stage.numCompleteTasks()
    ]


def _spark_metrics(spark: SparkSession, before: list[tuple[int, int, int, int]]) -> Metrics:
    stages = [stage for stage in _stages(spark) if stage not in before]
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # no public access
    jvm.java.lang.System.gc()
    heap = jvm.java.lang.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed()
    return {
        "heap": heap,
        "own_peak": peak_bytes(),
        "worker_peak": peak_of_others(),
        "tasks": sum(stage[1] for stage in stages),
        "executor_seconds": sum(stage[2] for stage in stages) / 1000,
        "shuffled": sum(stage[3] for stage in stages),
    }


def main(arguments: Mapping[str, Any]) -> None:
    """Measure, and print a line of metrics for each log and each kind of made partitions."""
    before, given = load(), _Given.of(arguments)
    if given.is_pinned:  # what is started from here on, too
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    for metrics in JOBS[arguments["job"]](given):
        print(json.dumps({**metrics, "load": max(before, load())}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
