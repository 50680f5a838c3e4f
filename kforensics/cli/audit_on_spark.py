"""Runs an audit on Spark, and prints its report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from kforensics.analyses.partitions import as_of_notes
from kforensics.cli.messages import notify, notify_unreadable
from kforensics.cli.partition_options import ExitStatus, PartitionOptions, clock_sentence, settings_sentence
from kforensics.cli.writing import write_report_lines
from kforensics.errors import UsageError
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.formatting import format_count, format_size
from kforensics.forensics.partition.splits import SPLIT_SIZE
from kforensics.parsers.files.input_paths import is_uri
from kforensics.render.audit_report import AuditReport
from kforensics.render.formats import Format
from kforensics.render.incident_lines import IncidentView
from kforensics.render.output import check_output, open_output
from kforensics.render.screen import COMMAND, Line, Screen
from kforensics.render.store_claim import check_unused
from kforensics.render.streams import progress_meter
from kforensics.spark.audit.listing import topic_names
from kforensics.spark.audit.plan import Plan
from kforensics.spark.audit.run import SparkRequest, audited_on_spark, planned, rules_of
from kforensics.spark.session import session


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """The options of the Spark session, as the user gives them.

    Attributes:
        master: URL of the Spark master, None for Spark's configuration.
        properties: Spark properties, as NAME=VALUE.
    """

    master: str | None
    properties: Sequence[str]


def audit_on_spark(
    options: PartitionOptions, request: SparkRequest, spark_options: SparkOptions, view: IncidentView
) -> int:
    """Audit all partitions on Spark, write the evidence store, print the report, and return the exit code.

    Args:
        options: the options of the command.
        request: what to audit, and how.
        spark_options: the options of the Spark session.
        view: how to show the incidents; partitions without any finding are counted, not named.

    Raises:
        UsageError: the options do not go together, there is no log, or the store cannot be written.
        MissingExtraError: pyspark is not installed.
        EngineError: Spark does not start, or fails.
    """
    severity, brokers, properties = options.severity(), options.brokers(), _properties(spark_options)
    with session(spark_options.master, properties) as spark:
        with options.stage("folders listed"):
            plan = planned(spark, request)
        _notify_unreadable(plan)
        for sentence in _evidence(plan, request) if options.verbose else ():
            notify(sentence)
        if plan.finished and not options.quiet and (count := plan.finished.count()):
            notify(f"going on from {format_count(count, 'finished task')} of an audit that ended early")
        with (
            progress_meter(
                plan.size, show=options.shows_progress, what=options.command_name, partitions=len(plan.sizes)
            ) as meter,
            options.stage("partitions read and evaluated"),
        ):
            report = audited_on_spark(spark, plan, request, meter, notify)
    if report.partitions and not options.quiet:
        for sentence in as_of_notes(plan.taken, rules_of(plan, request), plan.newest_file):
            notify(sentence)
    screen = _on_spark(view.screen)
    all_findings = _all_findings(screen, request.output)
    _write_report(report, brokers, replace(view, screen=screen, all_findings=all_findings))
    if request.output and not options.quiet:
        notify(f"the evidence of {format_count(report.partitions, 'partition')} is in {request.output}")
    return ExitStatus(report.unreadable_paths + report.unread_count, report.worst).code(severity)


def spark_request(
    options: PartitionOptions,
    output: str | None,
    split_size: int | None,
    *,
    records: bool,
    checksums: bool,
    command: tuple[str, ...],
) -> SparkRequest:
    """Return what to audit, and how.

    Args:
        options: the options of the command.
        output: folder of the evidence store, a path or a URI; None for no store.
        split_size: approximate size of a split in MB, None for the default.
        records: whether to decode records.
        checksums: whether the store gets the SHA-256 of every input.
        command: the command line, for the manifest.

    Raises:
        UsageError: the options do not go together.
    """
    paths = tuple(options.paths or ())
    if not paths:
        raise UsageError("there is no input; name log directories on storage that all workers share")
    options.refuse("an audit on Spark keeps all in its store", "min_severity", "codes", "since", "partitions")
    if options.output_format != Format.TEXT:
        raise UsageError("on Spark the tables of an audit go to the folder in --output; leave out --format")
    if output is not None:
        if not is_uri(output):
            check_output(Path(output), paths)
        check_unused(output)
    return SparkRequest(
        paths,
        topic_names(paths, tuple(options.topic or ())),
        output,
        options.as_of_ms(),
        records=records,
        checksums=checksums,
        split_size=SPLIT_SIZE if split_size is None else split_size << 20,
        command=command,
        settings=options.given_settings(),
        alone=options.alone,
    )


def _properties(spark_options: SparkOptions) -> dict[str, str]:
    """Return the properties of the Spark session.

    Raises:
        UsageError: one is not of the form NAME=VALUE.
    """
    properties = {"spark.ui.showConsoleProgress": "false"}
    for given in spark_options.properties:
        name, equals, value = given.partition("=")
        if not (name and equals):
            raise UsageError(f"--conf {given!r} is not a property; write NAME=VALUE, as in spark.executor.memory=4g")
        properties[name] = value
    return properties


def _notify_unreadable(plan: Plan) -> None:
    for path in plan.named:
        notify_unreadable(f"cannot read {path.path}: {path.why}")
    if more := plan.unreadable - len(plan.named):
        notify_unreadable(f"… and {more:,} more that cannot be read")


def _evidence(plan: Plan, request: SparkRequest) -> Iterator[str]:
    """Yield what is used as evidence: partitions, coordinators' logs, settings and the clock."""
    yield f"evidence: {format_count(len(plan.sizes), 'partition')} to analyze, with {format_size(plan.size)} of logs"
    around = len(plan.context) if plan.context else 0
    yield f"logs of coordinators and of the metadata beside them: {around or 'none'}"
    yield settings_sentence(request.settings)
    yield clock_sentence(rules_of(plan, request))


def _on_spark(screen: Screen) -> Screen:
    """Return a screen whose command runs on Spark, as it does under ``spark-submit`` without the option."""
    name, *given = screen.command
    return replace(screen, command=(name, ("--engine", "spark"), *(words for words in given if words[0] != "--engine")))


def _all_findings(screen: Screen, store: str | None) -> Line:
    """Return the command that shows all findings: on Spark no format does, only the evidence store has them."""
    if store is None:
        return next(screen.rest("--output", "evidence"))
    return Line(f"  {COMMAND}kforensics report {shell_word(store)} --output report.html", "command")


def _write_report(report: AuditReport, bootstrap_server: str | None, view: IncidentView) -> None:
    with open_output(None) as out:
        for partition in report.unread:
            notify_unreadable(f"{partition.why}; the other partitions are analyzed anyway")
        write_report_lines(report.lines(bootstrap_server, view), out, view)
