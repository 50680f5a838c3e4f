"""Everything that is to be said of the replicas of one partition: the way in for whoever compares many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kforensics.forensics.checks.replica_checks import REPLICA_FAMILIES
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.elections import Election
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import finding_rows, worst
from kforensics.forensics.replicas.compare import compared
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.comparison_rows import difference_rows, lineage_rows, lost_rows
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.log_rows import Place

__all__ = ["ReplicaJudgement", "compare_replicas", "findings_on", "judge_replicas"]


@dataclass(frozen=True, slots=True)
class ReplicaJudgement:
    """What is said of the replicas of a partition.

    Attributes:
        place: topic and partition.
        folders: where the replicas lie.
        rows: rows by table, findings among them.
        findings: the worst first.
    """

    place: Place
    folders: tuple[str, ...]
    rows: Mapping[str, Rows]
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity | None:
        """The worst severity, None where nothing was found."""
        return worst(self.findings)


def compare_replicas(
    partitions: Sequence[Partition],
    rules: Rules,
    elections: Sequence[Election] = (),
    kernels: Choice = kernels_for,
    workers: int | None = None,
) -> ReplicaJudgement:
    """Return rows and findings on the replicas of one partition.

    It shares nothing with other calls: partitions can be compared in processes or on machines of their own, and what it
    takes and returns can be sent there. :func:`.replica.replica_groups` tells which copies belong together.

    Args:
        partitions: two or more copies of one partition.
        rules: limits and the time of evaluation.
        elections: of its leaders, as :func:`.elections.elections_in` finds them in the cluster's metadata; they tell
            an unclean election from a tail that was never committed.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Returns:
        Rows of the tables of ``replicas.tables`` and of ``findings``.

    Raises:
        InputError: a segment cannot be read.
        ValueError: fewer than two copies are given.
    """
    if len(partitions) < 2:
        raise ValueError("it takes two copies of a partition to compare")
    return judge_replicas(compared(partitions, rules, elections, kernels, workers))


def judge_replicas(comparison: Comparison) -> ReplicaJudgement:
    """Return rows and findings of a comparison."""
    findings = findings_on(comparison)
    return ReplicaJudgement(
        place=comparison.place,
        folders=tuple(one.partition.folder for one in comparison.replicas),
        rows={
            "replica_differences": difference_rows(comparison),
            "leader_epoch_lineage": lineage_rows(comparison),
            "lost_records": lost_rows(comparison),
            "findings": finding_rows(comparison.place, findings),
        },
        findings=findings,
    )


def findings_on(comparison: Comparison) -> tuple[Finding, ...]:
    """Return what all families find, the worst first, then in the order of the log."""
    found = [finding for family in REPLICA_FAMILIES for finding in family.findings(comparison)]
    return tuple(sorted(found, key=_rank))


def _rank(finding: Finding) -> tuple[int, int, str, str]:
    first = finding.first_offset
    return -finding.severity, -1 if first is None else first, finding.code.name, str(finding.evidence["replica"])
