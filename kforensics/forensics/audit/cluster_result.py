"""The door to what spans partitions: coordinators and markers in, rows and findings out.

Each coordinator partition becomes a ``History`` and each other partition ``Markers``, wherever its files lie; both
travel, and hold some hundred bytes for each transaction. :func:`judge_cluster` joins them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import ModuleType

from kforensics.forensics.checks.cluster_checks import FAMILIES
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Placed
from kforensics.forensics.coordinators.cluster_rows import id_rows, transaction_rows
from kforensics.forensics.coordinators.consumer_groups.commit_outcomes import with_outcomes
from kforensics.forensics.coordinators.consumer_groups.commits import Commits, commits_of
from kforensics.forensics.coordinators.consumer_groups.group_rows import committed_rows
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.partition_markers import Markers
from kforensics.forensics.coordinators.record_rows import OffsetRows, StateRows
from kforensics.forensics.coordinators.transactions.history import History, history_of
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_state import Case

__all__ = [
    "ClusterJudgement",
    "best_replicas",
    "coordinator_history",
    "group_commits",
    "is_coordinator",
    "judge_cluster",
    "judged",
]


@dataclass(frozen=True, slots=True)
class ClusterJudgement:
    """What is to be said of a cluster.

    Attributes:
        rows: of ``transactional_ids`` and ``distributed_transactions``, some for each partition of a transaction
            coordinator, and of ``committed_offsets``, some for each of a group coordinator.
        findings: with their places, the worst first. Those whose code a family of ``forensics.families`` has stand for
            the finding of that code with the same place and first offset, which knew nothing of the coordinator.
        cluster: what was judged; ``refuting.is_refuted`` asks it for findings of a partition alone that are wrong.
    """

    rows: tuple[Rows, ...]
    findings: tuple[Placed, ...]
    cluster: Cluster


def is_coordinator(case: Case) -> bool:
    """Whether a partition is one of ``__transaction_state``."""
    return case.partition.place.topic == TRANSACTION_STATE


def coordinator_history(case: Case, keep: Callable[[Rows], None] | None = None) -> History:
    """Return the history of a coordinator's partition; its log is read once more.

    Args:
        case: the partition, examined as any other one is.
        keep: told of the rows of ``coordinator_transactions``, some thousand at a time, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
    """
    if keep is None:
        return history_of(case)
    rows = StateRows(case.partition, keep)
    history = history_of(case, rows.take)
    rows.finish()
    return history


def group_commits(case: Case, keep: Callable[[Rows], None] | None = None) -> Commits:
    """Return the offsets of groups in a partition of ``__consumer_offsets``; its log is read once more.

    Args:
        case: the partition, examined as any other one is.
        keep: told of the rows of ``group_offsets``, some thousand at a time, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
        ValueError: it is a partition of another topic.
    """
    if keep is None:
        return commits_of(case)
    rows = OffsetRows(case.partition, lambda found: keep(with_outcomes(case, found)))
    commits = commits_of(case, rows.take)
    rows.finish()
    return commits


def best_replicas(found: Iterable[Markers]) -> list[Markers]:
    """Return for each partition the replica that knows most: which reaches furthest, then back furthest, then whole."""
    best: dict[tuple[str, int], Markers] = {}
    for markers in found:
        other = best.get(markers.name)
        if other is None or _reach(markers) > _reach(other):
            best[markers.name] = markers
    return list(best.values())


def _reach(markers: Markers) -> tuple[int, int, int, int]:
    return markers.log_end_offset, -markers.known_from, -markers.log_start_offset, -markers.holes


def _best_histories(found: Iterable[History]) -> list[History]:
    best: dict[int | None, History] = {}
    for history in found:
        other = best.get(history.place.partition)
        if other is None or (history.known_to, history.records) > (other.known_to, other.records):
            best[history.place.partition] = history
    return list(best.values())


def judge_cluster(  # noqa: PLR0913  # what a cluster is made of
    histories: Iterable[History],
    markers: Iterable[Markers],
    rules: Rules,
    *,
    commits: Iterable[Commits] = (),
    partition_count: int | None = None,
    offsets_partition_count: int | None = None,
    families: Sequence[ModuleType] = FAMILIES,
) -> ClusterJudgement:
    """Return rows and findings about the transactions of a cluster.

    Partitions that are listed by a transaction and not supplied are said to be unverifiable; of several replicas of a
    partition the best is taken.

    Args:
        histories: of coordinator partitions, as :func:`coordinator_history` gives them.
        markers: of all other partitions, ``__consumer_offsets`` included, as ``Markers.of`` gives them.
        rules: limits and the time of evaluation.
        commits: of the partitions of ``__consumer_offsets``, as :func:`group_commits` gives them.
        partition_count: how many partitions ``__transaction_state`` has, None if nobody told.
        offsets_partition_count: the same of ``__consumer_offsets``.
        families: what to look for.
    """
    cluster = Cluster.of(
        _best_histories(histories),
        best_replicas(markers),
        rules,
        commits=_best_commits(commits),
        partition_count=partition_count,
        offsets_partition_count=offsets_partition_count,
    )
    return judged(cluster, families)


def _best_commits(found: Iterable[Commits]) -> list[Commits]:
    best: dict[int | None, Commits] = {}
    for commits in found:
        other = best.get(commits.place.partition)
        if other is None or commits.log_end_offset > other.log_end_offset:
            best[commits.place.partition] = commits
    return list(best.values())


def judged(cluster: Cluster, families: Sequence[ModuleType] = FAMILIES) -> ClusterJudgement:
    """Return rows and findings about a cluster.

    Args:
        cluster: the cluster.
        families: what to look for.
    """
    found = [placed for family in families for placed in family.findings(cluster)]
    rows = (*id_rows(cluster), *transaction_rows(cluster), *committed_rows(cluster))
    return ClusterJudgement(rows, tuple(sorted(found, key=_rank)), cluster)


def _rank(placed: Placed) -> tuple[int, str, int, int, str]:
    place, finding = placed
    first = -1 if finding.first_offset is None else finding.first_offset
    return -finding.severity, place.topic or "", place.partition or 0, first, finding.code.name
