"""``audit`` on Spark: from words to a session, a job and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kforensics.analyses.audit import without_secrets
from kforensics.analyses.filters import moment_ms
from kforensics.cli.question_command import Tally, say, severity_of
from kforensics.errors import UsageError
from kforensics.forensics.audit.copy_ages import as_of_sentences
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.files.source import is_uri
from kforensics.render.formatting import amount
from kforensics.render.output import check_beside, open_output
from kforensics.render.report import Report
from kforensics.render.staged_store import check_free
from kforensics.render.streams import TextSink
from kforensics.spark.audit.audit_job import Plan
from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned, rules_of
from kforensics.spark.session import session

__all__ = ["run_spark_audit"]


def run_spark_audit(words: Mapping[str, Any]) -> int:
    """Judge partitions on Spark, write the evidence store and the report, and return the exit code.

    Raises:
        UsageError: the words do not go together, there is no log, or the store cannot be written.
        MissingExtraError: pyspark is not installed.
        EngineError: Spark does not start, or breaks off.
    """
    fail_on, request = severity_of(words["fail_on"]), _request(words)
    with session(words["master"], {**_shown(words), **_properties(words["conf"] or ())}) as spark:
        plan = planned(spark, request)
        _say_unreadable(plan)
        report = audited_on_spark(spark, plan, request)
    if report.partitions and not words["quiet"]:
        for sentence in as_of_sentences(plan.taken, rules_of(plan, request)):
            say(sentence)
    _write(report)
    if request.output and not words["quiet"]:
        say(f"the evidence of {amount(report.partitions, 'partition')} is in {request.output}")
    return Tally(report.places + report.unread_count, report.worst).code(fail_on)


def _say_unreadable(plan: Plan) -> None:
    for place in plan.named:
        say(f"cannot read {place.path}: {place.why}")
    if more := plan.unreadable - len(plan.named):
        say(f"… and {more:,} more that cannot be read")


def _request(words: Mapping[str, Any]) -> SparkRequest:
    paths, output = tuple(words["paths"] or ()), words["output"]
    if not paths:
        raise UsageError("nothing to look at; name log directories on storage that all workers share")
    if words["processes"] is not None:
        raise UsageError(
            "--processes is for an audit in process; on Spark, --master and --conf say how much runs at once"
        )
    if words["output_format"] != "text":
        raise UsageError("on Spark the tables of an audit go into the folder in --output; leave --format out")
    if output is not None:
        if not is_uri(output):
            check_beside(Path(output), paths)
        check_free(output)
    split_size = words["split_size"]
    return SparkRequest(
        paths,
        tuple(words["topic"] or ()),
        output,
        None if words["as_of"] is None else moment_ms(words["as_of"], "--as-of"),
        records=words["records"],
        checksums=words["checksums"],
        split_size=SPLIT_SIZE if split_size is None else split_size << 20,
        command=without_secrets(sys.argv[1:]),
    )


def _shown(words: Mapping[str, Any]) -> dict[str, str]:
    """Return the property by which Spark shows how far it is."""
    wanted = words["progress"] if words["progress"] is not None else sys.stderr.isatty()
    return {"spark.ui.showConsoleProgress": str(wanted and not words["quiet"]).lower()}


def _properties(words: tuple[str, ...] | list[str]) -> dict[str, str]:
    """Return the properties that ``--conf NAME=VALUE`` gives.

    Raises:
        UsageError: a word is none.
    """
    found = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals):
            raise UsageError(f"--conf {word!r} is no property; write NAME=VALUE, as in spark.executor.memory=4g")
        found[name] = value
    return found


def _write(report: Report) -> None:
    with open_output(None) as out:
        sink = TextSink(out)
        for one in report.unread:
            say(f"{one.why}; the other partitions are looked at all the same")
        for line in report.lines():
            sink.write(f"{line}\n")
        sink.flush()
