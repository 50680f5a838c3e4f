"""Reports merged from partial reports have the same lines, however the partitions are divided."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest

from kforensics.analyses.pool import partition_results
from kforensics.forensics.audit.audit_scope import AuditScope
from kforensics.forensics.audit.partition_result import PartitionResult, unreadable_result
from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import partitions_of
from kforensics.parsers.files.discover import FoundFile, discover
from kforensics.parsers.log.log_rows import Place
from kforensics.render.audit_report import AuditReport
from kforensics.render.scan_text import partition_summaries
from kforensics.render.screen import Screen
from tests.command import SAMPLES

AS_OF_MS = 1_795_264_200_000


@cache
def _results() -> list[PartitionResult]:
    files = [
        row
        for row in discover([str(SAMPLES / "transactions-v2"), str(SAMPLES / "ghosts")])
        if isinstance(row, FoundFile)
    ]
    results = list(partition_results(partitions_of(files), AuditScope(Rules(AS_OF_MS)), lambda _: None))
    missing = [
        unreadable_result(Place(1, "/logs", "t", number), f"/logs/t-{number}", 5, "it is gone") for number in range(3)
    ]
    return [*missing, *results]


@pytest.mark.parametrize("seed", range(8))
def test_merged_reports_equal_the_report_of_all_partitions(seed: int) -> None:
    dice, results = random.Random(seed), _results()  # noqa: S311  # a random order
    expected = AuditReport(AS_OF_MS)
    for result in results:
        expected.add(result)
    shuffled = dice.sample(results, len(results))
    cuts = sorted([0, *dice.sample(range(len(results)), 5), len(results)])
    merged = AuditReport(AS_OF_MS)
    for start, stop in pairwise(cuts):
        part = AuditReport(AS_OF_MS)
        for result in shuffled[start:stop]:
            part.add(result)
        merged.merge(part)
    assert list(merged.lines()) == list(expected.lines())
    assert (merged.worst, merged.unread_count) == (expected.worst, 3)
    assert sum(line.startswith("  not read: t-") for line in expected.lines()) == 3


def test_a_report_without_readable_partitions_is_not_clean() -> None:
    unread_only = AuditReport(AS_OF_MS, unreadable_paths=1)
    assert list(unread_only.lines()) == ["NOTHING COULD BE READ: 0 partitions, 0 bytes of log"]
    for result in _results()[:2]:
        unread_only.add(result)
    first, *rest = unread_only.lines()
    assert first == "NOTHING COULD BE READ: 2 partitions, 10 bytes of log"
    assert [line.endswith(": it is gone") for line in rest] == [True] * 2


def test_an_unreadable_path_is_in_the_verdict() -> None:
    part, whole = AuditReport(AS_OF_MS), AuditReport(AS_OF_MS, unreadable_paths=1)
    part.add(next(result for result in _results() if result.why is None and result.worst is None))
    whole.merge(part)
    assert next(part.lines()).startswith("CLEAN: 1 partition, ")
    assert next(whole.lines()).startswith("CLEAN, AND NOT ALL COULD BE READ: 1 partition, ")


def test_findings_that_were_left_out_are_counted() -> None:
    """Of 1,826 findings of a code, the first thousand are in the result; the report has the true total."""
    found = next(result for result in _results() if result.findings)
    finding = replace(found.findings[0], severity=Severity.WARNING, evidence={})
    last = replace(finding, evidence={"left_out": 826})
    report = AuditReport(AS_OF_MS)
    report.add(replace(found, findings=(*[finding] * 999, last)))
    assert report.findings_by_code == {(Severity.WARNING, finding.code.name): 1_826}
    summary = b"".join(partition_summaries([replace(found, findings=(*[finding] * 999, last))], Screen()))
    assert f"{finding.code.name} 1826" in summary.decode()
