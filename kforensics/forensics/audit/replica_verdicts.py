"""Adds what a comparison of replicas found to the verdict of each replica.

The findings themselves belong to none of the replicas, but a replica that has diverged, or lacks records, is not clean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.findings import Finding, Severity

__all__ = ["ReplicaVerdict", "is_comparison", "replica_verdicts", "with_replica_verdict"]


class ReplicaVerdict(NamedTuple):
    """What the comparison with other replicas says of a replica.

    Attributes:
        worst: the worst severity.
        findings: number of findings that concern it.
    """

    worst: Severity
    findings: int


def is_comparison(result: PartitionResult) -> bool:
    """Return whether a result is that of a comparison of replicas."""
    return "replica_differences" in result.rows


def replica_verdicts(results: Iterable[PartitionResult]) -> dict[str, ReplicaVerdict]:
    """Return the verdicts of replicas by their folder, from findings of at least severity warning.

    Args:
        results: results of comparisons.
    """
    verdicts: dict[str, ReplicaVerdict] = {}
    for result in results:
        for finding in result.findings:
            if finding.severity >= Severity.WARNING:
                for folder in dict.fromkeys(_folders(finding)):  # a set has another order in each process
                    worst, count = verdicts.get(folder, (finding.severity, 0))
                    verdicts[folder] = ReplicaVerdict(max(worst, finding.severity), count + 1)
    return verdicts


def _folders(finding: Finding) -> Iterator[str]:
    """Yield the folders of the replicas that a finding compares."""
    evidence = finding.evidence
    yield from (str(evidence[name]) for name in ("replica", "other") if name in evidence)
    yield from evidence.get("others", ())


def with_replica_verdict(result: PartitionResult, verdicts: Mapping[str, ReplicaVerdict]) -> PartitionResult:
    """Return the final result of a partition with the verdict of its comparison with other replicas.

    Args:
        result: any result; only the final one of a partition that was read changes.
        verdicts: verdicts of replicas by their folder.
    """
    verdict = verdicts.get(result.folder)
    if verdict is None or not result.is_counted or result.why is not None or "partitions" not in result.rows:
        return result
    revised = replace(result, replica_worst=verdict.worst)
    (summary,) = result.rows["partitions"].parts()
    verdict_columns = {"verdict": str(revised.worst), "findings": len(result.findings) + verdict.findings}
    rows = replace(summary, columns={**summary.columns, **verdict_columns})
    return replace(revised, rows={**result.rows, "partitions": rows})
