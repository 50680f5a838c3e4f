"""Turns issues with single coordinator records into findings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from kforensics.forensics.coordinators.cluster_evidence import Cluster, PlacedFinding
from kforensics.forensics.coordinators.record_issues import StateIssue, StateIssueKind
from kforensics.forensics.core.reporting import MOST


def issue_findings(
    cluster: Cluster, kind: StateIssueKind, finding_of: Callable[[int, StateIssue], PlacedFinding]
) -> Iterator[PlacedFinding]:
    """Yield a finding for each issue of a kind; the last one of a partition states how many are ``left_out``.

    Args:
        cluster: the cluster.
        kind: kind of the issues.
        finding_of: creates a finding from the number of a coordinator and an issue.
    """
    for coordinator, history in enumerate(cluster.coordinators.histories):
        left_out = history.issue_counts.get(kind, 0) - MOST
        issues = [issue for issue in history.issues if issue.kind is kind]
        for count, issue in enumerate(issues, 1):
            place, finding = finding_of(coordinator, issue)
            if left_out > 0 and count == len(issues):
                finding = replace(finding, evidence={**finding.evidence, "left_out": left_out})
            yield PlacedFinding(place, finding)
