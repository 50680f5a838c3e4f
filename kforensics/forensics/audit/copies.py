"""Compare the copies of partitions: select the copies within each cluster, and evaluate their differences."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.checks.check import collectors_of
from kforensics.forensics.checks.partition.structure import CHECK as STRUCTURE
from kforensics.forensics.checks.replicas import FOLDER_CHECKS, REPLICA_CHECKS
from kforensics.forensics.checks.replicas.log_directories import Pair
from kforensics.forensics.core.election import Election, SyncChange
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.cluster_metadata import leadership_in
from kforensics.forensics.metadata.topic_metadata import topics_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import finding_rows, worst_severity
from kforensics.forensics.partition.topic_deletion import Deletion
from kforensics.forensics.replicas.comparison import (
    Comparison,
    compare_states,
    difference_rows,
    lineage_rows,
    lost_rows,
)
from kforensics.forensics.replicas.replica import replica_groups
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.log_rows import Place


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one partition, and the known leader elections; can be serialized.

    Attributes:
        partitions: the copies to compare, each of another broker.
        elections: the elections in their order.
        sync_changes: when replicas came into sync or fell out of it for the last time.
        pairs: an older and the newest folder of a broker that has several.
    """

    partitions: tuple[Partition, ...]
    elections: tuple[Election, ...] = ()
    sync_changes: tuple[SyncChange, ...] = ()
    pairs: tuple[Pair, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all copies."""
        return sum(partition.size for partition in self.partitions)


@dataclass(frozen=True, slots=True)
class PartitionElections:
    """The leader elections of a partition in the metadata of its cluster; can be serialized.

    Attributes:
        cluster: name of the cluster.
        topic: name of the topic, None if the available metadata does not have it.
        topic_id: id of the topic.
        partition: partition number.
        elections: the elections in their order.
        sync_changes: when replicas came into sync or fell out of it for the last time.
    """

    cluster: str
    topic: str | None
    topic_id: str
    partition: int
    elections: tuple[Election, ...]
    sync_changes: tuple[SyncChange, ...] = ()


def copies_among(
    partitions: Sequence[Partition], clusters: Clusters, others: Sequence[Partition] = ()
) -> Iterator[Copies]:
    """Yield the partitions that have several copies, cluster by cluster.

    If one broker has several folders of a partition, the newest one is compared.

    Args:
        partitions: all partitions of some clusters, or those that are selected.
        clusters: all clusters.
        others: partitions whose copies are not compared; the metadata logs among them count, too.
    """
    around = _by_cluster(others, clusters)
    for name, members in _by_cluster(partitions, clusters).items():
        groups = replica_groups(members)
        known = partition_elections((*members, *around[name]), clusters) if groups else ()
        yield from _copies(name, groups, known)


def copies_of(
    partitions: Iterable[Partition], clusters: Clusters, elections: Collection[PartitionElections] = ()
) -> Iterator[Copies]:
    """Yield the partitions that have several copies, with elections that are already known.

    Args:
        partitions: some partitions with all their copies.
        clusters: all clusters.
        elections: the known elections of these partitions, and possibly of others.
    """
    for name, members in _by_cluster(partitions, clusters).items():
        yield from _copies(name, replica_groups(members), elections)


def partition_elections(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[PartitionElections]:
    """Yield the elections in the metadata logs among some partitions, cluster by cluster.

    Args:
        partitions: partitions of any topics and clusters.
        clusters: all clusters.
    """
    for name, members in _by_cluster(partitions, clusters).items():
        with suppress(InputError):  # the result of the metadata log itself reports this
            topics = topics_in(members)
            for (topic_id, number), leadership in leadership_in(members).items():
                topic = topics.get(topic_id)
                known = leadership.elections, leadership.sync_changes
                yield PartitionElections(name, topic.name if topic else None, topic_id, number, *known)


def _by_cluster(partitions: Iterable[Partition], clusters: Clusters) -> dict[str, list[Partition]]:
    by_cluster: dict[str, list[Partition]] = defaultdict(list)
    for partition in partitions:
        by_cluster[clusters.name_of(partition)].append(partition)
    return by_cluster


def _copies(
    cluster: str, groups: Iterable[tuple[Partition, ...]], elections: Iterable[PartitionElections]
) -> Iterator[Copies]:
    known = {(entry.topic_id, entry.partition): entry for entry in elections if entry.cluster == cluster}
    for group in groups:
        topic_id = next((partition.topic_id for partition in group if partition.topic_id is not None), "")
        number = group[0].place.partition
        entry = None if number is None else known.get((topic_id, number))
        copies = _by_broker(group)
        yield replace(copies, elections=entry.elections, sync_changes=entry.sync_changes) if entry else copies


def _by_broker(partitions: Sequence[Partition]) -> Copies:
    """Return the newest copy of each broker, which the log directory distinguishes if it has no known id."""
    brokers = defaultdict[int | str | None, list[Partition]](list)
    for partition in sorted(partitions, key=lambda partition: partition.newest_mtime_ms or 0):
        place = partition.place
        brokers[place.log_dir if place.broker_id is None else place.broker_id].append(partition)
    newest = [copies[-1] for copies in brokers.values()]
    pairs = tuple((older, copies[-1]) for copies in brokers.values() for older in copies[:-1])
    return Copies(tuple(partition for partition in partitions if partition in newest), pairs=pairs)


def evaluate_copies(copies: Copies, rules: Rules, workers: int | None) -> PartitionResult:
    """Return the rows and findings of a comparison of copies, as a result that belongs to none of them.

    Args:
        copies: the copies of one partition.
        rules: limits and the time of evaluation.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    place = copies.partitions[0].place
    common = Place(None, None, place.topic, place.partition)
    findings = tuple(one for check in FOLDER_CHECKS for pair in copies.pairs for one in check.findings(pair))
    rows: Mapping[str, Rows] = {}
    if findings:  # by its table the result is known as one of a comparison
        rows = {"replica_differences": difference_rows(Comparison(())), "findings": finding_rows(common, findings)}
    if len(copies.partitions) > 1:
        with suppress(InputError):  # the result of the unreadable copy itself reports this
            result = compare_replicas(
                copies.partitions, rules, copies.elections, workers=workers, sync_changes=copies.sync_changes
            )
            findings = tuple(sorted((*findings, *result.findings), key=_rank))
            rows = {**result.rows, "findings": finding_rows(common, findings)}
    return PartitionResult(common, "", 0, rows, findings, is_counted=False)


@dataclass(frozen=True, slots=True)
class ReplicaResult:
    """The rows and findings of a comparison of replicas.

    Attributes:
        place: topic and partition.
        folders: folders of the replicas.
        rows: rows by table, including ``findings``.
        findings: the worst first.
    """

    place: Place
    folders: tuple[str, ...]
    rows: Mapping[str, Rows]
    findings: tuple[Finding, ...]

    @property
    def worst(self) -> Severity | None:
        """The worst severity, None if there are no findings."""
        return worst_severity(self.findings)


def compare_replicas(  # noqa: PLR0913  # what is known of the partition, and how to read it
    partitions: Sequence[Partition],
    rules: Rules,
    elections: Sequence[Election] = (),
    *,
    sync_changes: Sequence[SyncChange] = (),
    kernels: KernelPolicy = kernels_for,
    workers: int | None = None,
) -> ReplicaResult:
    """Return rows and findings on the replicas of one partition.

    Calls are independent of each other: partitions can be compared in several processes or on several machines, and the
    arguments and the result can be serialized. :func:`.replica.replica_groups` groups copies by partition.

    Args:
        partitions: two or more copies of one partition.
        rules: limits and the time of evaluation.
        elections: its leader elections, from ``cluster_metadata.elections_in`` on the cluster's metadata; they
            distinguish an unclean election from a tail that was never committed.
        sync_changes: the last change of each replica's being in sync, from ``cluster_metadata.leadership_in``; a
            replica that is out of sync lacks committed records until it has caught up.
        kernels: provides the compiled kernels.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.

    Returns:
        Rows of the tables of ``core.replica_tables`` and of ``findings``.

    Raises:
        InputError: a segment cannot be read.
        ValueError: there are fewer than two copies.
    """
    if len(partitions) < 2:
        raise ValueError("it takes two copies of a partition to compare")
    comparison = compare_copies(partitions, rules, elections, kernels, workers)
    comparison = replace(comparison, sync_changes=tuple(sync_changes))
    findings = replica_findings(comparison)
    return ReplicaResult(
        place=comparison.place,
        folders=tuple(replica.partition.folder for replica in comparison.replicas),
        rows={
            "replica_differences": difference_rows(comparison),
            "leader_epoch_lineage": lineage_rows(comparison),
            "lost_records": lost_rows(comparison),
            "findings": finding_rows(comparison.place, findings),
        },
        findings=findings,
    )


def compare_copies(
    partitions: Sequence[Partition],
    rules: Rules,
    elections: Sequence[Election] = (),
    kernels: KernelPolicy = kernels_for,
    workers: int | None = None,
) -> Comparison:
    """Return where the replicas of one partition differ.

    Each log is read twice: once to examine it, and once together with the others.

    Args:
        partitions: two or more copies of one partition.
        rules: limits and the time of evaluation.
        elections: its leader elections, if the cluster metadata is available.
        kernels: returns the compiled kernels if they pay off.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    collectors = collectors_of([STRUCTURE])  # missing batches may be all that shows a cleaner
    states = [examine(partition, rules, collectors, kernels=kernels) for partition in partitions]
    return compare_states(states, elections, kernels, workers)


def replica_findings(comparison: Comparison) -> tuple[Finding, ...]:
    """Return the findings of all checks, the worst first, then in the order of the log."""
    findings = [finding for check in REPLICA_CHECKS for finding in check.findings(comparison)]
    deletion = next((one.state.deletion for one in comparison.replicas if one.state.deletion), None)
    if deletion is not None:
        findings = [_limited(one, deletion) for one in findings]
    return tuple(sorted(findings, key=_rank))


def _limited(finding: Finding, deletion: Deletion) -> Finding:
    """Return a finding on a replica whose topic was deleted while it was copied."""
    benign = (*(other for other in finding.benign if other != deletion.phrase), deletion.phrase)
    return replace(finding, severity=deletion.limit(finding.severity, finding.code.name), benign=benign)


def _rank(finding: Finding) -> tuple[int, int, str, str]:
    first = finding.first_offset
    return -finding.severity, -1 if first is None else first, finding.code.name, str(finding.evidence["replica"])
