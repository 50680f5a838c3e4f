"""Computes the verdict of a stored audit, with the same lines as the text report of the audit."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow.compute as pc

from kforensics.errors import InputError
from kforensics.forensics.audit.partition_result import CLEAN, UNREAD
from kforensics.forensics.core.findings import Severity
from kforensics.parsers.log.log_rows import Place
from kforensics.render.audit_report import MAX_UNREAD_NAMED, AuditReport, UnreadPartition
from kforensics.report_html.store_reader import SortKey, StoreReader, count_values, first_rows

SEVERITIES = {str(severity): severity for severity in Severity}


@dataclass(frozen=True, slots=True)
class StoreVerdict:
    """The verdict of a stored audit.

    Attributes:
        name: ``critical``, ``error``, ``warning``, ``info`` or ``clean``.
        sentence: first line of the text report.
        details: the following lines.
        worst: the worst severity, None if there are no findings.
        is_complete: whether all inputs could be read.
        partitions: number of partitions by their verdict.
        findings_by_code: number of findings by severity and code.
        incidents_by_severity: number of incidents by severity, also of those that the report has no card for.
    """

    name: str
    sentence: str
    details: tuple[str, ...]
    worst: Severity | None
    is_complete: bool
    partitions: dict[str, int]
    findings_by_code: dict[tuple[Severity, str], int]
    incidents_by_severity: dict[str, int]


def store_verdict(store: StoreReader) -> StoreVerdict:
    """Return the verdict of a store.

    Raises:
        InputError: a table cannot be read.
    """
    code_counts = count_values(store.batches("findings", ["severity", "code"]), ["severity", "code"])
    codes = Counter({(_severity(store, severity), str(code)): count for (severity, code), count in code_counts.items()})
    codes += _left_out(store)
    verdict_counts = count_values(store.batches("partitions", ["verdict"]), ["verdict"])
    partitions = {str(verdict): count for (verdict,), count in verdict_counts.items()}
    report = _audit_report(store, codes, partitions)
    sentence, *details = takewhile(bool, report.lines())
    name = CLEAN if report.worst is None else str(report.worst)
    is_complete = not (report.unread_count or report.unreadable_paths)
    stored = store.batches("incidents", ["severity"]) if "incidents" in store.manifest["rows"] else ()
    incidents = {str(severity): count for (severity,), count in count_values(stored, ["severity"]).items()}
    return StoreVerdict(name, sentence, tuple(details), report.worst, is_complete, partitions, codes, incidents)


def _audit_report(
    store: StoreReader, codes: dict[tuple[Severity, str], int], partitions: dict[str, int]
) -> AuditReport:
    by_severity = {SEVERITIES.get(verdict): count for verdict, count in partitions.items() if verdict != UNREAD}
    return AuditReport(
        as_of_ms=store.manifest["as_of_ms"],
        partitions=sum(partitions.values()),
        size=_log_size(store),
        unread_count=partitions.get(UNREAD, 0),
        unread=_unread_partitions(store) if UNREAD in partitions else [],
        unreadable_paths=store.manifest.get("unreadable", 0),
        partitions_by_severity=Counter(by_severity),
        findings_by_code=Counter(codes),
        incident_count=store.count("incidents"),
    )


def _left_out(store: StoreReader) -> Counter[tuple[Severity, str]]:
    """Return how many findings of each severity and code have no row of their own; the last row before them says it."""
    counts = Counter[tuple[Severity, str]]()
    for batch in store.batches("findings", ["severity", "code", "evidence"]):
        has_more = pc.match_substring(batch["evidence"], '"left_out"')
        for row in batch.filter(pc.fill_null(has_more, False)).to_pylist():  # noqa: FBT003  # the value, not a flag
            try:
                left_out = json.loads(row["evidence"]).get("left_out")
            except (ValueError, AttributeError, RecursionError):
                raise InputError(
                    f"{store.root}/findings", "the column 'evidence' is not JSON; run the audit again"
                ) from None
            counts[_severity(store, row["severity"]), row["code"]] += left_out if isinstance(left_out, int) else 0
    return counts


def _severity(store: StoreReader, name: object) -> Severity:
    """Return the severity of a name.

    Raises:
        InputError: there is no such severity.
    """
    if name not in SEVERITIES:
        why = f"the column 'severity' has the value {name!r}, which is none; run the audit again"
        raise InputError(f"{store.root}/findings", why)
    return SEVERITIES[str(name)]


def _log_size(store: StoreReader) -> int:
    """Return the bytes of all live segments."""
    size = 0
    for batch in store.batches("files", ["kind", "state", "size"]):
        is_segment = pc.and_(pc.equal(batch["kind"], "log"), pc.equal(batch["state"], "live"))
        size += pc.sum(batch.filter(is_segment)["size"]).as_py() or 0
    return size


def _unread_partitions(store: StoreReader) -> list[UnreadPartition]:
    batches = (
        batch.filter(pc.equal(batch["verdict"], UNREAD))
        for batch in store.batches("partitions", [*Place._fields, "verdict", "read"])
    )
    order = [SortKey("topic"), SortKey("partition"), SortKey("broker_id")]
    rows: Any = first_rows(batches, order, MAX_UNREAD_NAMED)
    return [
        UnreadPartition(Place(*(row[name] for name in Place._fields)), row["log_dir"] or "", row["read"])
        for row in rows.to_pylist()
    ]
