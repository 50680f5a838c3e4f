"""Evaluate the transactions and consumer groups of a cluster: coordinators' logs and markers in, rows and findings out.

Each coordinator partition becomes a ``History`` and every other partition ``PartitionMarkers``. Both take a few hundred
bytes per transaction and can be serialized, so they may come from other machines. :func:`evaluate_cluster` joins them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.cluster import CLUSTER_CHECKS
from kforensics.forensics.coordinators.cluster_evidence import Cluster, Join, PlacedFinding
from kforensics.forensics.coordinators.cluster_rows import distributed_transaction_rows, id_rows
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_of
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.consumer_groups.group_rows import committed_rows, with_outcomes
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE, TopicPartition
from kforensics.forensics.coordinators.partition_markers import PartitionMarkers
from kforensics.forensics.coordinators.record_rows import offset_commit_rows, state_record_rows
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.transactions.history_replay import history_of
from kforensics.forensics.core.election import Election
from kforensics.forensics.core.record_arrays import free_unused
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.replica_ranks import best_ranked


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """The rows and findings of a cluster.

    Attributes:
        rows: rows of ``transactional_ids`` and ``distributed_transactions`` for each partition of the transaction
            coordinators, and of ``committed_offsets`` for each partition of the group coordinators.
        findings: findings with their places, the worst first. A finding with a code of ``partition_checks`` replaces
            the finding of the partition with the same code, place and first offset, which was made without the
            coordinator.
        cluster: the evaluated cluster; ``overrides.is_overridden`` uses it to find findings of partitions that the
            coordinator proves wrong.
    """

    rows: tuple[Rows | RowStream, ...]
    findings: tuple[PlacedFinding, ...]
    cluster: Cluster


def is_coordinator(state: PartitionState) -> bool:
    """Return whether a partition belongs to ``__transaction_state``."""
    return state.partition.place.topic == TRANSACTION_STATE


def coordinator_history(state: PartitionState, add_rows: Callable[[Rows], None] | None = None) -> History:
    """Return the history of a coordinator's partition; its log is read once more.

    Args:
        state: the partition.
        add_rows: takes the rows of ``coordinator_transactions``, a few thousand at a time, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
    """
    if add_rows is None:
        return history_of(state)
    return history_of(state, lambda transitions: add_rows(state_record_rows(state.partition, transitions)))


def group_commits(state: PartitionState, add_rows: Callable[[Rows], None] | None = None) -> Commits:
    """Return the offset commits in a partition of ``__consumer_offsets``; its log is read once more.

    Args:
        state: the partition.
        add_rows: takes the rows of ``group_offsets``, a few thousand at a time, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
        ValueError: it is a partition of another topic.
    """
    if add_rows is None:
        return commits_of(state)
    commits = commits_of(
        state, lambda chunk: add_rows(with_outcomes(state, offset_commit_rows(state.partition, chunk)))
    )
    free_unused()
    return commits


def best_replicas(replicas: Iterable[PartitionMarkers]) -> list[PartitionMarkers]:
    """Return the best replica of each partition; the oldest one shows since when its log existed."""
    every = list(replicas)
    return dated_by_all(best_markers(every), every)


def dated_by_all(chosen: Iterable[PartitionMarkers], replicas: Iterable[PartitionMarkers]) -> list[PartitionMarkers]:
    """Return some replicas with the time by which the oldest replica of the same log existed.

    Args:
        chosen: the replicas.
        replicas: all of the cluster, these among them.
    """
    by_name: dict[TopicPartition, list[PartitionMarkers]] = {}
    for markers in replicas:
        by_name.setdefault(markers.name, []).append(markers)
    return [
        replace(one, coverage=one.coverage._replace(existed_by=_existed_by(one, by_name[one.name]))) for one in chosen
    ]


def _existed_by(chosen: PartitionMarkers, replicas: Iterable[PartitionMarkers]) -> int:
    return min(markers.coverage.existed_by for markers in replicas if markers.is_of_one_topic(chosen))


def best_markers(replicas: Iterable[PartitionMarkers]) -> list[PartitionMarkers]:
    """Return the replica of each partition whose log counts.

    Of those with the same last leader epoch it is the one with the highest log end offset, then by offset gaps. Of
    equally long ones it is by whether it is in sync, coverage, and log start. Renamed copies do not count.
    """
    return best_ranked(_with_own_names(replicas), attrgetter("name"), attrgetter("rank"), _extent_of_log, _completeness)


def _with_own_names(replicas: Iterable[PartitionMarkers]) -> list[PartitionMarkers]:
    """Return those whose folder has not been renamed since, as when it was copied within its log directory.

    A topic keeps its name, so of several with the same id only one is right: that of a checkpoint, or of most copies.
    """
    every = list(replicas)
    names: dict[str, Counter[str]] = defaultdict(Counter)
    for one in every:
        if one.topic_id is not None:
            names[one.topic_id][one.name[0]] += len(every) if one.high_watermark is not None else 1
    own = {topic_id: counts.most_common(1)[0][0] for topic_id, counts in names.items()}
    return [one for one in every if one.topic_id is None or own[one.topic_id] == one.name[0]]


def _extent_of_log(markers: PartitionMarkers) -> tuple[int, int]:
    return markers.log_end_offset, -markers.offset_gaps


def _completeness(markers: PartitionMarkers) -> tuple[bool, int, int]:
    is_in_sync = markers.coverage.lagging_since is None
    return is_in_sync, -markers.coverage.start, -markers.log_start_offset


def best_histories(histories: Iterable[History]) -> list[History]:
    """Return the history of the replica of each coordinator partition whose log counts.

    Of those with the same last leader epoch it is the one with the newest record, then the one with the most, then the
    one that was in sync for longest.
    """
    key = attrgetter("place.partition")
    return best_ranked(histories, key, attrgetter("rank"), _reach, lambda history: (history.known_until,))


def _reach(history: History) -> tuple[int, int]:
    return history.last_record_time, history.records


def best_commits(replicas: Iterable[Commits]) -> list[Commits]:
    """Return the commits of the replica of each partition of ``__consumer_offsets`` whose log counts.

    Of those with the same last leader epoch it is the one with the highest log end offset, then one in sync.
    """
    key = attrgetter("place.partition")
    return best_ranked(replicas, key, attrgetter("rank"), _end_of_commits, lambda one: (one.lagging_since is None,))


def _end_of_commits(commits: Commits) -> tuple[int]:
    return (commits.log_end_offset,)


def evaluate_cluster(  # noqa: PLR0913  # what a cluster is made of
    histories: Iterable[History],
    markers: Iterable[PartitionMarkers],
    rules: Rules,
    *,
    commits: Iterable[Commits] = (),
    coordinator_replicas: Iterable[PartitionMarkers] = (),
    partition_count: int | None = None,
    offsets_partition_count: int | None = None,
    elections: Mapping[tuple[str, int], tuple[Election, ...]] | None = None,
    removed_topics: Mapping[str, tuple[int, ...]] | None = None,
    checks: Sequence[Check[Cluster, PlacedFinding]] = CLUSTER_CHECKS,
    join: Join | None = None,
) -> ClusterResult:
    """Return rows and findings about the transactions and consumer groups of a cluster.

    Of several replicas of a partition, the best one is used. A partition that a transaction lists and that is
    not among the replicas is unverifiable.

    Args:
        histories: histories of coordinator partitions, from :func:`coordinator_history`.
        markers: markers of all other partitions, including ``__consumer_offsets``, from ``PartitionMarkers.of``.
        rules: limits and the time of evaluation.
        commits: offset commits of the partitions of ``__consumer_offsets``, from :func:`group_commits`.
        coordinator_replicas: the replicas of coordinator partitions, for their elections.
        partition_count: number of partitions of ``__transaction_state``, None if it is unknown.
        offsets_partition_count: number of partitions of ``__consumer_offsets``, None if it is unknown.
        elections: leader elections by topic id and partition, None without the metadata log.
        removed_topics: when topics were deleted, by name and by topic id, as far as the metadata log shows it.
        checks: which checks to run.
        join: joins transactions with markers elsewhere, which yields the rows of transactions; None to join them here.
    """
    replicas = list(markers)
    cluster = Cluster.of(
        best_histories(histories),
        best_replicas(replicas),
        rules,
        commits=best_commits(commits),
        partition_count=partition_count,
        offsets_partition_count=offsets_partition_count,
        join=join,
    ).with_elections(elections, [*replicas, *coordinator_replicas])
    cluster = replace(cluster, removed_topics=removed_topics or {})
    findings = [placed for check in checks for placed in check.findings(cluster)]
    rows: tuple[Rows | RowStream, ...] = (
        *id_rows(cluster),
        *(distributed_transaction_rows(cluster) if join is None else ()),
        *committed_rows(cluster),
    )
    return ClusterResult(rows, tuple(sorted(findings, key=_rank)), cluster)


def _rank(placed: PlacedFinding) -> tuple[int, str, int, int, str]:
    place, finding = placed
    first = -1 if finding.first_offset is None else finding.first_offset
    return -finding.severity, place.topic or "", place.partition or 0, first, finding.code.name
