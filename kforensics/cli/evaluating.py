"""Evaluates partitions for ``scan`` and ``verify``, and writes one table of the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from kforensics.analyses.audit import AuditRequest, Stages, audit_size, run_audit
from kforensics.analyses.partitions import Investigation, ignore
from kforensics.cli.partition_options import ExitStatus, FindingSelection, PartitionOptions, severities_of
from kforensics.cli.writing import write_parts, write_tables
from kforensics.forensics.audit.incident_kinds import KINDS
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.reporting import newest_time
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.partition.partition_rows import finding_rows
from kforensics.render.formats import Format
from kforensics.render.output import open_output
from kforensics.render.screen import Screen
from kforensics.render.streams import ProgressMeter, progress_meter

# What is not over: it is shown however long ago it began.
LASTING_KINDS = ("stuck-transaction", "under-replication", "open-transactions")
LASTING = frozenset(code for kind in KINDS if kind.name in LASTING_KINDS for code in kind.codes)


def evaluate(
    options: PartitionOptions,
    request: AuditRequest,
    table: str,
    text: Callable[[list[PartitionResult], Screen], Iterable[bytes]],
) -> int:
    """Evaluate all partitions, write one table of the results, and return the exit code.

    Args:
        options: the options of the command.
        request: what to evaluate, and how.
        table: the name of the table.
        text: returns the text of all results for a screen.

    Raises:
        UsageError: the options do not go together, or there is no log.
    """
    selection, since = options.selected_findings(), options.since_time()
    severity, output_format, brokers = options.severity(), options.format(), options.brokers()
    investigation = options.investigation()
    status = ExitStatus(investigation.unreadable)
    with options.stage("partitions read and evaluated"), audit_meter(options, investigation, request) as meter:
        every = run_audit(investigation, request, meter.advance if meter else ignore, Stages())
        began = since.ms(investigation.rules.as_of_ms) if since else None
        results = watch_partitions(selected_results(every, selection, began), status, meter)
        kept, finding_results = [], list[PartitionResult]()
        for result in results:
            if output_format is Format.JSON:
                finding_results.append(result.only("findings", "incidents").for_brokers(brokers))
            if result.is_counted and (selection.is_all or result.findings or result.why is not None):
                kept.append(result.only(table).for_brokers(brokers))
    with options.stage("results written"), open_output(options.output) as out:
        if output_format is Format.TEXT:
            write_parts(text(kept, options.screen()), out)
        else:
            write_tables([table], kept, output_format, out, finding_results)
    return status.code(severity)


def audit_meter(
    options: PartitionOptions, investigation: Investigation, request: AuditRequest
) -> AbstractContextManager[ProgressMeter | None]:
    """Return what shows how far the partitions have been read; None if nothing does."""
    return progress_meter(
        audit_size(investigation, request),
        show=options.shows_progress,
        what=options.command_name,
        partitions=len(investigation.partitions),
    )


def watch_partitions(
    results: Iterable[PartitionResult], status: ExitStatus, meter: ProgressMeter | None = None
) -> Iterator[PartitionResult]:
    """Yield the results of partitions, and take their findings, or that they cannot be read, into account.

    Args:
        results: the results.
        status: decides the exit code.
        meter: shows how many partitions have a result, None if nothing does.
    """
    for result in results:
        if meter is not None and result.folder:
            meter.finish(result.folder)
        if result.why is not None:
            status.add_unreadable(result.why)
        status.add(severities_of(result))
        yield result


def selected_results(
    results: Iterable[PartitionResult], selection: FindingSelection, since_ms: int | None
) -> Iterator[PartitionResult]:
    """Yield the results with the selected findings only, and the incidents of these.

    Args:
        results: the results.
        selection: which findings to show.
        since_ms: also leaves out what is over and began before this time; None for any time.
    """
    if selection.is_all:
        yield from results
        return
    for result in results:
        findings = tuple(finding for finding in selection.of(result.findings) if _is_since(finding, since_ms))
        rows = dict(result.rows)
        if "incidents" in rows:
            rows["incidents"] = _selected_incidents(rows["incidents"], selection, since_ms)
        if "findings" in rows:
            rows["findings"] = finding_rows(result.place, findings)
        yield replace(result, findings=findings, rows=rows, replica_worst=None)


def _is_since(finding: Finding, since_ms: int | None) -> bool:
    """Return whether what a finding is about began since a time, is not over, or has no known time."""
    newest = newest_time(finding.evidence)
    return since_ms is None or newest is None or newest >= since_ms or finding.code.name in LASTING


def _selected_incidents(incidents: Rows | RowStream, selection: FindingSelection, since_ms: int | None) -> Rows:
    names = incidents.table.names
    rows = (dict(zip(names, row, strict=True)) for row in incidents)
    kept = [row for row in rows if _is_selected(row, selection, since_ms)]
    return Rows(incidents.table, len(kept), {name: [row[name] for row in kept] for name in names})


def _is_selected(row: Mapping[str, Any], selection: FindingSelection, since_ms: int | None) -> bool:
    codes, times = json.loads(row["codes"]), [row[name] for name in ("since", "first_timestamp")]
    is_since = (
        since_ms is None or not LASTING.isdisjoint(codes) or (max(filter(None, times), default=since_ms) >= since_ms)
    )
    return is_since and selection.has_incident(Severity[row["severity"].upper()], codes)
