"""Audits on Spark and in process, to be compared: what either left in its evidence store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kforensics
from kforensics.analyses.audit import STORED
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch
from kforensics.parsers.log.batches import walk
from kforensics.render.evidence_store import StoredTables
from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned
from tests.command import ROOT, SAMPLES

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "AS_OF_MS",
    "audit_elsewhere",
    "audit_here",
    "audit_in_process",
    "cluster_of_samples",
    "dense_indexes",
    "stored",
]

AS_OF_MS = 1_795_264_200_000
Stored = dict[str, Counter[str]]


def stored(store: object) -> Stored:
    """Return the rows of all tables of a store, order aside."""
    tables = StoredTables(str(store), [*STORED])
    return {name: Counter(map(repr, table.to_pylist())) for name, table in tables.items()}


def audit_in_process(paths: list[str], store: Path, *, records: bool = False) -> Stored:
    """Return what an audit in this process leaves."""
    kforensics.audit(paths, output=store, as_of=AS_OF_MS, records=records)
    return stored(store)


def audit_here(spark: SparkSession, request: SparkRequest) -> Stored:
    """Return what an audit in the session of this process leaves."""
    audited_on_spark(spark, planned(spark, request), request)
    return stored(request.output)


def read_bytes(store: Path) -> int:
    """Return how many bytes the tasks of the last run have read, as the manifest states it."""
    return int(json.loads((store / "manifest.json").read_text(encoding="utf-8"))["read_bytes"])


def audit_elsewhere(
    conf: Mapping[str, str], request: SparkRequest, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start an audit with a driver of its own, for a process has one Spark at most.

    Args:
        conf: properties of Spark, the master among them.
        request: what to audit.
        environment: more variables.
    """
    words = json.dumps({"conf": dict(conf), "request": asdict(request)})
    variables = {**os.environ, "PYSPARK_PYTHON": sys.executable, **(environment or {})}
    command = [sys.executable, "-m", "tests.spark.audits", words]
    return subprocess.Popen(
        command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def cluster_of_samples(folder: Path) -> list[str]:
    """Put all log directories of all samples into one folder, as the brokers of one cluster; return where it is."""
    found = {path.parent for name in ("meta.properties", "*-offset-checkpoint") for path in SAMPLES.rglob(name)}
    for log_dir in sorted(found):
        (folder / "-".join(log_dir.relative_to(SAMPLES).parts)).symlink_to(log_dir)
    return [str(folder)]


def dense_indexes(folder: Path) -> None:
    """Give every segment under a folder an index with an entry for each batch, so that it can be cut anywhere."""
    for log in folder.rglob("*.log"):
        base = int(log.stem)
        with open_source(log) as source:
            batches = [row for row in walk(source) if isinstance(row, Batch) and row.position and row.crc_valid]
        entries = [{"relative_offset": row.last_offset - base, "position": row.position} for row in batches]
        log.with_suffix(".index").write_bytes(b"".join(map(OFFSET_INDEX_ENTRY.build, entries)))


def _main(words: dict[str, Any]) -> None:
    """Audit, and print how many partitions were audited."""
    from pyspark.sql import SparkSession  # only the driver's process needs it

    builder = SparkSession.builder
    for name, value in words["conf"].items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    given = words["request"]
    # A finished task counts for a request with the same types, too.
    given |= {name: tuple(given[name]) for name in ("paths", "topics", "settings") if name in given}
    request = SparkRequest(**given)
    plan = planned(spark, request)
    print(f"going on from {plan.finished.count() if plan.finished else 0} finished tasks")  # noqa: T201  # as below
    report = audited_on_spark(spark, plan, request)
    print(f"audited {report.partitions} partitions")  # noqa: T201  # the parent process reads it
    spark.stop()


if __name__ == "__main__":
    _main(json.loads(sys.argv[1]))
