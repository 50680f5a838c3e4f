"""``python -m benchmarks.scale.child JSON``: one measurement in a process of its own; prints its figures as JSON."""

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
from benchmarks.scale.synthetic import ASKED, Counting, Made
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

Figures = dict[str, float]

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
        made: partitions that lie on no disk, each kind measured by itself.
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
    def of(cls, words: Mapping[str, Any]) -> _Given:
        made = tuple(Made(**one) for one in words.get("made", ()))
        given = {name: words[name] for name in ("cores", "is_pinned", "scans", "properties") if name in words}
        return cls(Path(words["folder"]), words["warm"], tuple(words.get("paths", ())), made=made, **given)

    def store(self) -> str:
        """A folder that is not there."""
        shutil.rmtree(self.folder / "store", ignore_errors=True)
        return str(self.folder / "store")


@contextmanager
def _taking(figures: Figures, prefix: str = "") -> Iterator[None]:
    cpu, of_jvm, begun = cpu_seconds(), cpu_seconds(of_jvm=True), time.perf_counter()
    yield
    figures[f"{prefix}seconds"] = time.perf_counter() - begun
    figures[f"{prefix}cpu"] = cpu_seconds() - cpu
    figures[f"{prefix}jvm"] = cpu_seconds(of_jvm=True) - of_jvm


def in_process(given: _Given) -> Iterator[Figures]:
    """The audit of logs in this process, or in a pool of them."""
    _judged(given, given.warm)
    for path in given.paths:
        figures: Figures = {}
        with _taking(figures):
            report = _judged(given, path)
        yield {**figures, "own_peak": peak_bytes(), "partitions": report.partitions, "unread": report.unread_count}


def _judged(given: _Given, path: str) -> AuditReport:
    """Do what the command does: write a store, and keep what its report needs."""
    found = investigate([path], AS_OF_MS, say, say)
    report = AuditReport(AS_OF_MS)
    request = AuditRequest(Path(given.store()), given.cores)
    for judgement in run_audit(found, request, lambda _size: None, Stages()):
        report.add(judgement)
    return report


def on_spark(given: _Given) -> Iterator[Figures]:
    """The audit of logs on Spark; the first one, of a small log, is part of the start."""
    start: Figures = {}
    with _session(given) as spark:
        with _taking(start, "start_"):
            _run_audit(spark, given, given.warm, is_warming=True)
            _run_audit(spark, given, given.warm)
        for path in given.paths:
            figures: Figures = {}
            before = _stages(spark)
            with _taking(figures):
                figures |= _run_audit(spark, given, path)
            yield {**start, **figures, **_told(spark, before)}


def _run_audit(spark: SparkSession, given: _Given, path: str, *, is_warming: bool = False) -> Figures:
    figures: Figures = {}
    request = SparkRequest((path,), output=given.store(), as_of_ms=AS_OF_MS)
    # A small log is split all the same, so that every part of the job has run once.
    request = replace(request, whole=0, split_size=1) if is_warming else request
    with _taking(figures, "plan_"):
        plan = planned(spark, request)
    report = audited_on_spark(spark, plan, request)
    plan.frame.unpersist()
    return {**figures, "partitions": report.partitions, "unread": report.unread_count}


def scanning(given: _Given) -> Iterator[Figures]:
    """Rows of tables counted by Spark, of one column and of all, and how many records there are."""
    with _session(given) as spark:
        kforensics.register(spark)
        _scanned(spark, "records", given.warm, "offset").count()
        for path in given.paths:
            batches = _scanned(spark, "batches", path, "count")
            (records,) = batches.selectExpr("sum(count)").first() or (0,)
            for table, columns in given.scans:
                figures: Figures = {}
                with _taking(figures):
                    rows = _scanned(spark, table, path, columns).count()
                yield {**figures, "rows": rows, "records": records}


def _scanned(spark: SparkSession, table: str, path: str, columns: str) -> DataFrame:
    return spark.read.format("kforensics").options(table=table, columns=columns).load(path)


def merging(given: _Given) -> Iterator[Figures]:
    """Made splits summarised, and then summarised and joined; what is more in the second is the joining."""
    with _session(given) as spark:
        for made in given.made:
            figures: Figures = {}
            sharing = TaskSizing(given.cores, split_size=made.segment_bytes, whole=0)
            shares = plan_tasks(synthetic.plan_of(spark, made).sizes, sharing)
            summaries = synthetic.summaries_of(spark, made, shares.large)
            with _taking(figures, "made_"):
                ((size, rows),) = summaries.selectExpr("sum(length(payload))", "count(*)").collect()
            before = _stages(spark)
            with _taking(figures):
                outcomes = merge_answers([summaries], shares, ASKED, Counting()).toArrow()
            judged = sum(deserialize(answer.outcome) for _, answer in values(rows_of(outcomes.to_batches())))
            yield {**figures, **_told(spark, before), "bytes": size, "rows": rows, "partitions": judged}


def planning(given: _Given) -> Iterator[Figures]:
    """A job over made partitions, none of whose files is there: all of it but the reading."""
    with _session(given) as spark:
        for made in given.made:
            figures: Figures = {}
            before = _stages(spark)
            with _taking(figures):
                plan = synthetic.plan_of(spark, made)
                sharing = TaskSizing(given.cores, split_size=made.segment_bytes, whole=0)
                found = run_audit_job(plan, ASKED, Counting(), sharing)
            plan.frame.unpersist()
            yield {**figures, **_told(spark, before), "partitions": deserialize(found), "sizes": plan.sizes.nbytes}


JOBS: Mapping[str, Callable[[_Given], Iterator[Figures]]] = {
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
    jvm: Any = context._jvm  # noqa: SLF001  # PySpark has no other way to what its pages show
    quantiles = context._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]  # noqa: SLF001  # as above
    store = context._jsc.sc().statusStore()  # noqa: SLF001  # as above
    found = store.stageList(None, False, False, quantiles, jvm.java.util.ArrayList())  # noqa: FBT003  # Java has no names
    stages = (found.apply(index) for index in range(found.size()))
    return [
        (one.stageId(), one.numCompleteTasks(), one.executorRunTime(), one.shuffleWriteBytes())
        for one in stages
        if one.numCompleteTasks()
    ]


def _told(spark: SparkSession, before: list[tuple[int, int, int, int]]) -> Figures:
    stages = [stage for stage in _stages(spark) if stage not in before]
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001  # as above
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


def main(words: Mapping[str, Any]) -> None:
    """Measure, and print a line of figures for each log and each kind of made partitions."""
    before, given = load(), _Given.of(words)
    if given.is_pinned:  # what is started from here on, too
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: given.cores])
    for figures in JOBS[words["job"]](given):
        print(json.dumps({**figures, "load": max(before, load())}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
