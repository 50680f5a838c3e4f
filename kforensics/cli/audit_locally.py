"""Runs an audit in this process or a pool of processes, and prints its report."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from kforensics.analyses.audit import AuditRequest, Stages, run_audit
from kforensics.analyses.partitions import ignore
from kforensics.analyses.topics import similar
from kforensics.cli.evaluating import audit_meter, selected_results, watch_partitions
from kforensics.cli.messages import notify
from kforensics.cli.partition_options import ExitStatus, PartitionOptions
from kforensics.cli.writing import write_report_lines, write_tables
from kforensics.errors import UsageError
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.tables import RESULTS
from kforensics.parsers.files.input_paths import is_uri
from kforensics.render.audit_report import AuditReport
from kforensics.render.formats import ONE_TABLE, Format
from kforensics.render.incident_lines import IncidentView
from kforensics.render.output import open_output


def audit_locally(
    options: PartitionOptions, request: AuditRequest, view: IncidentView, table: str | None = None
) -> int:
    """Audit all partitions, write the evidence store, print the report, and return the exit code.

    Args:
        options: the options of the command.
        request: what to audit, and how.
        view: how to show the incidents.
        table: the only table to write, None for all; for formats that hold one table, the incidents by default.

    Raises:
        UsageError: the options do not go together, or the store cannot be written.
    """
    selection, since = options.selected_findings(), options.since_time()
    severity, output_format, brokers = options.severity(), options.format(), options.brokers()
    if request.redaction is not None and since is not None:
        raise UsageError("--since selects findings before they are redacted; leave out --since or --redact")
    if request.redaction is not None:
        brokers = request.redaction.addresses(brokers)
    tables = _tables(output_format, table)
    investigation = replace(options, output=request.output).investigation()
    report = AuditReport(investigation.rules.as_of_ms, unreadable_paths=investigation.unreadable)
    report.names_clean, report.selection = view.screen.shows_all, options.selection()
    status, kept = ExitStatus(investigation.unreadable), list[PartitionResult]()
    stages = Stages()
    with (
        options.stage("partitions read and evaluated, and the store written"),
        audit_meter(options, investigation, request) as meter,
    ):
        advance = meter.advance if meter else ignore
        # An interrupt between two results must close the generator, so that no part of the store is left.
        with closing(run_audit(investigation, request, advance, stages, notify)) as results:
            for result in watch_partitions(selected_results(results, selection, investigation, since), status, meter):
                report.add(result)
                if output_format is not Format.TEXT:
                    kept.append(result.for_brokers(brokers))
    status.add(filter(None, [report.worst]))  # a selected incident may have a worse finding than those selected
    for name, seconds in stages.seconds.items():
        options.report_time(name, seconds)
    if request.redaction is not None:
        view = replace(view, screen=view.screen.with_words(request.redaction.words))
    with options.stage("report written"), open_output(None) as out:
        if output_format is Format.TEXT:
            write_report_lines(report.lines(brokers, view), out, view)
        else:
            write_tables(tables, kept, output_format, out)
    if request.output and not options.quiet:
        notify(f"the evidence of {format_count(report.partitions, 'partition')} is in {request.output}")
    return status.code(severity)


def _tables(output_format: Format, table: str | None) -> Sequence[str]:
    """Return the tables to write.

    Raises:
        UsageError: there is no such table, or text has none.
    """
    if table is not None and output_format is Format.TEXT:
        raise UsageError("--table is for rows; add --format csv, parquet or another one")
    there_are = f"there are {', '.join(RESULTS)}"
    if table is not None and table not in RESULTS:
        raise UsageError(f"no table {table!r}; {similar(table, RESULTS) or there_are}")
    if table is not None:
        return (table,)
    return ("incidents",) if output_format in ONE_TABLE else tuple(RESULTS)


def store_folder(output: str | None) -> Path | None:
    """Return the folder of the evidence store.

    Raises:
        UsageError: it is a URI.
    """
    if output is not None and is_uri(output):
        raise UsageError(f"--output {output} is for --engine spark; add --engine spark, or name a local folder")
    return None if output is None else Path(output)
