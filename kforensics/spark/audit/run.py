"""The audit on Spark: the same judgements, report and store as in process, from any number of workers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import reduce
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kforensics.analyses.audit import STORED, Stages, sha256_of
from kforensics.errors import UsageError
from kforensics.forensics.audit.audit_scope import Asked
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import is_uri
from kforensics.parsers.tables.schemas import Table, columns
from kforensics.render.report import Report
from kforensics.render.staged_store import Part, StagedStore, TaskParts
from kforensics.spark.audit.audit_job import Plan, audit, plan_of
from kforensics.spark.audit.serialization import loaded, packed
from kforensics.spark.audit.task_sizing import FEW, Sharing
from kforensics.spark.session import answering, parallelism
from kforensics.version import __version__

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["CHECKSUMS", "SparkRequest", "audited_on_spark", "planned", "rules_of"]

CHECKSUMS = Table(
    "checksums",
    "input",
    columns("""
path string file as given
sha256 string SHA-256 of its bytes; null if it could not be read any more
"""),
)


@dataclass(frozen=True, slots=True)
class SparkRequest:
    """How to audit on Spark.

    Attributes:
        paths: as for ``discover``.
        topics: only partitions of these, all if none is named.
        output: folder of the evidence store, a path or a URI that all workers share; None for none.
        as_of_ms: time of evaluation; None for the newest modification time among the inputs.
        records: whether records are decoded, checked and searched for what is there twice.
        checksums: whether the store gets the SHA-256 of every input.
        split_size: bytes of a split, about.
        whole: bytes up to which a partition is never split, None to derive them from how much there is.
        few: as for ``Sharing``.
        command: what was asked, for the manifest.
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
    command: tuple[str, ...] = ()


@dataclass(slots=True)
class _Outcome:
    """What tasks did."""

    report: Report
    parts: list[Part] = field(default_factory=list)

    def with_other(self, other: _Outcome) -> _Outcome:
        self.report.merge(other.report)
        self.parts += other.parts
        return self


@dataclass(frozen=True, slots=True)
class _Sink:
    """Writes what a task finds into files of its own and keeps what a report needs."""

    staging: str | None
    as_of_ms: int
    checksums: bool

    def judged(self, task: str, judgements: Iterable[Judgement]) -> bytes:
        outcome = _Outcome(Report(self.as_of_ms))
        parts = None if self.staging is None else TaskParts(self.staging, task)
        for judgement in judgements:
            outcome.report.add(judgement)
            if parts:
                for rows in judgement.rows.values():
                    parts.add(rows)
                parts.add_values(STORED["damage"], judgement.damage)
        outcome.parts += parts.finish() if parts else ()
        return packed(outcome)

    def found(self, task: str, files: Iterable[FoundFile]) -> bytes:
        outcome = _Outcome(Report(self.as_of_ms))
        if self.staging is None:
            return packed(outcome)
        parts = TaskParts(self.staging, task)
        for file in files:
            parts.add_values(STORED["files"], [attrgetter(*STORED["files"].names)(file)])
            if self.checksums:
                parts.add_values(CHECKSUMS, [(file.path, sha256_of(file.path))])
        outcome.parts += parts.finish()
        return packed(outcome)

    def merged(self, outcomes: Iterable[bytes]) -> bytes:
        return packed(reduce(_Outcome.with_other, map(loaded, outcomes), _Outcome(Report(self.as_of_ms))))


def planned(spark: SparkSession, request: SparkRequest) -> Plan:
    """Return what is to be judged.

    Raises:
        UsageError: nothing under the paths is a log.
        EngineError: Spark breaks off.
    """
    with answering("the folders were not looked into"):
        plan = plan_of(spark, _as_workers_know(spark, request.paths), request.topics)
    if not len(plan.sizes) and not plan.unreadable:
        where = ", ".join(request.paths)
        raise UsageError(f"there is no log under {where}; name partition folders, log directories or .log files")
    return plan


def _as_workers_know(spark: SparkSession, paths: Sequence[str]) -> Sequence[str]:
    """Return paths that mean the same wherever a worker stands; those of this process stand where it stands."""
    if re.fullmatch(r"local(\[.*\])?", spark.conf.get("spark.master", "") or ""):
        return paths
    return [path if is_uri(path) else str(Path(path).absolute()) for path in paths]


def rules_of(plan: Plan, request: SparkRequest) -> Rules:
    """Return limits and the time of evaluation."""
    if request.as_of_ms is None:
        return Rules(plan.newest_mtime_ms or 0, is_assumed=True)
    return Rules(request.as_of_ms)


def audited_on_spark(spark: SparkSession, plan: Plan, request: SparkRequest) -> Report:
    """Judge all that is planned, write the evidence store, and return what is to be told.

    Raises:
        UsageError: the store cannot be written.
        EngineError: Spark breaks off; there is no store then.
    """
    stages = Stages()
    rules = rules_of(plan, request)
    sharing = Sharing(parallelism(spark), request.split_size, request.whole, request.few)
    with StagedStore(request.output) if request.output else nullcontext() as store:
        sink = _Sink(store.staging if store else None, rules.as_of_ms, request.checksums)
        with stages.stage("examine"), answering("the audit broke off"):
            clusters = Clusters.of_members(plan.members)
            asked = Asked(rules, records=request.records, clusters=clusters)
            outcome: _Outcome = loaded(audit(plan, asked, sink, sharing))
        if store:
            tables = {**STORED, CHECKSUMS.name: CHECKSUMS} if request.checksums else STORED
            store.finish(outcome.parts, tables, _manifest(spark, plan, request, rules.as_of_ms, stages))
    outcome.report.places = plan.unreadable
    return outcome.report


def _manifest(
    spark: SparkSession, plan: Plan, request: SparkRequest, as_of_ms: int, stages: Stages
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
        # A cluster has millions: they are rows, not lines of this file.
        "inputs": {"tables": tables},
        "seconds": {name: round(seconds, 3) for name, seconds in stages.seconds.items()},
    }
