"""Evaluates partitions for ``scan`` and ``verify``, and writes one table of the results."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from kforensics.analyses.audit import AuditRequest, Stages, audit_size, no_incidents, run_audit
from kforensics.analyses.partitions import Investigation, ignore
from kforensics.analyses.times import Since
from kforensics.cli.partition_options import ExitStatus, PartitionOptions, severities_of
from kforensics.cli.writing import write_parts, write_tables
from kforensics.forensics.audit.incident_kinds import kind_of
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Finding, FindingSelection, Severity
from kforensics.forensics.core.reporting import newest_time
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.parsers.tables.schemas import Table
from kforensics.render.formats import Format
from kforensics.render.output import open_output
from kforensics.render.screen import Screen
from kforensics.render.streams import ProgressMeter, progress_meter

# What is over once it has happened. Everything else is still so, such as a stuck transaction or damaged bytes.
EVENT_KINDS = (
    *("unclean-election", "split-transaction", "late-writes", "fencing-loop", "producer-duplicates", "sequence-gap"),
    *("retry-duplicates", "group-offsets", "group-reset", "faulty-markers", "misplaced-keys", "slow-transactions"),
    *("aborted-transactions", "operator-abort", "broker-clocks", "timestamps", "repeated-content", "client-usage"),
    "harmless-traces",
)
# Of these kinds, what stays open all the same.
LASTING_CODES = ("atomicity-marker-missing",)


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
    status, is_all = ExitStatus(investigation.unreadable), selection.minimum is None and since is None
    with options.stage("partitions read and evaluated"), audit_meter(options, investigation, request) as meter:
        every = run_audit(investigation, request, meter.advance if meter else ignore, Stages())
        results = watch_partitions(selected_results(every, selection, investigation, since), status, meter)
        kept, finding_results = [], list[PartitionResult]()
        for result in results:
            if output_format is Format.JSON:
                finding_results.append(result.only("findings", "incidents").for_brokers(brokers))
            if result.is_counted and (is_all or result.findings or result.why is not None):
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
    results: Iterable[PartitionResult],
    selection: FindingSelection,
    investigation: Investigation,
    since: Since | None,
) -> Iterator[PartitionResult]:
    """Yield the results with the selected findings only, and the incidents of these.

    Args:
        results: the results; the one with the incidents is the last one.
        selection: which findings to show.
        investigation: what was evaluated.
        since: also leaves out what was over at this time; None for any time.
    """
    if selection.minimum is None and since is None:
        yield from results
        return
    for result in results if since is None else _since(results, investigation, since):
        selected = _keeping(result, selection.of(result.findings))
        rows = dict(selected.rows)
        if "incidents" in rows:
            rows["incidents"] = _selected_incidents(rows["incidents"], selection)
        yield replace(selected, rows=rows, shared_worst=None)


def _since(results: Iterable[PartitionResult], investigation: Investigation, since: Since) -> Iterator[PartitionResult]:
    """Yield the results with what happened since a time, what is still so, and what has no known time."""
    incidents, since_ms = no_incidents(investigation), since.ms(investigation.rules.as_of_ms)
    for result in results:
        recent = _keeping(result, tuple(one for one in result.findings if _is_recent(one, since_ms)))
        incidents.add(recent)
        if "incidents" in recent.rows:
            recent = replace(recent, rows={**recent.rows, "incidents": incidents.rows()})
        yield recent


def _keeping(result: PartitionResult, findings: tuple[Finding, ...]) -> PartitionResult:
    """Return a result with some of its findings. Their rows stay: those of a redacted result are redacted."""
    rows, kept = dict(result.rows), set(map(id, findings))
    if "findings" in rows:
        pairs = zip(rows["findings"], result.findings, strict=True)
        rows["findings"] = _rows_of(rows["findings"].table, [row for row, one in pairs if id(one) in kept])
    return replace(result, findings=findings, rows=rows)


def _is_recent(finding: Finding, since_ms: int) -> bool:
    """Return whether what a finding is about happened since a time, is still so, or may be newer than it says."""
    newest = newest_time(finding.evidence)
    is_event = kind_of(finding).name in EVENT_KINDS and finding.code.name not in LASTING_CODES
    return newest is None or newest >= since_ms or not is_event or finding.occurrences > 1


def _selected_incidents(incidents: Rows | RowStream, selection: FindingSelection) -> Rows:
    names = incidents.table.names
    severity, codes = names.index("severity"), names.index("codes")
    kept = [row for row in incidents if selection.has(Severity[row[severity].upper()], json.loads(row[codes]))]
    return _rows_of(incidents.table, kept)


def _rows_of(table: Table, rows: Sequence[Sequence[Any]]) -> Rows:
    return Rows(table, len(rows), {name: [row[at] for row in rows] for at, name in enumerate(table.names)})
