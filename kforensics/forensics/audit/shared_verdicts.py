"""Adds what checks across partitions found to the verdict of each partition.

Findings of a comparison of replicas belong to none of them, but a replica that has diverged, or lacks records, is not
clean. Those on the keys of a topic, or on records in several of its partitions, have a partition as their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Finding, Severity

__all__ = ["SharedVerdict", "merge_verdicts", "shared_verdicts", "with_shared_verdict"]


class SharedVerdict(NamedTuple):
    """What checks across partitions say of a partition.

    Attributes:
        worst: the worst severity.
        findings: number of findings that concern it, by their occurrences.
    """

    worst: Severity
    findings: int


def shared_verdicts(results: Iterable[PartitionResult]) -> dict[str, SharedVerdict]:
    """Return the verdicts of partitions by their folder.

    Args:
        results: any results; those of comparisons, and of topics, have verdicts on partitions.
    """
    verdicts: dict[str, SharedVerdict] = {}
    for result in results:
        for finding in () if result.is_counted else result.findings:
            of_finding = SharedVerdict(finding.severity, finding.occurrences)
            # A set has another order in each process.
            merge_verdicts(verdicts, dict.fromkeys(_folders(result, finding), of_finding))
    return verdicts


def merge_verdicts(verdicts: dict[str, SharedVerdict], others: Mapping[str, SharedVerdict]) -> None:
    """Add the verdicts of other results to some verdicts."""
    for folder, (worst, findings) in others.items():
        known = verdicts.get(folder, SharedVerdict(worst, 0))
        verdicts[folder] = SharedVerdict(max(known.worst, worst), known.findings + findings)


def _folders(result: PartitionResult, finding: Finding) -> Iterator[str]:
    """Yield the folders of the partitions that a finding concerns: of replicas from severity warning on."""
    if "replica_differences" not in result.rows:
        yield from filter(None, [result.folder])
        return
    if finding.severity >= Severity.WARNING:
        evidence = finding.evidence
        yield from (str(evidence[name]) for name in ("replica", "other") if name in evidence)
        yield from evidence.get("others", ())


def with_shared_verdict(result: PartitionResult, verdicts: Mapping[str, SharedVerdict]) -> PartitionResult:
    """Return the final result of a partition with the verdict of the checks across partitions.

    Args:
        result: any result; only the final one of a partition that was read changes.
        verdicts: verdicts of partitions by their folder.
    """
    verdict = verdicts.get(result.folder)
    if verdict is None or not result.is_counted or result.why is not None or "partitions" not in result.rows:
        return result
    revised = replace(result, shared_worst=verdict.worst)
    (summary,) = result.rows["partitions"].parts()
    findings = sum(finding.occurrences for finding in result.findings) + verdict.findings
    verdict_columns = {"verdict": str(revised.worst), "findings": findings}
    rows = replace(summary, columns={**summary.columns, **verdict_columns})
    return replace(revised, rows={**result.rows, "partitions": rows})
