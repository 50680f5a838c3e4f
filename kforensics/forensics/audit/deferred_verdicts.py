"""Defer the findings of partitions that their cluster may change, and resolve them once all partitions are evaluated.

A coordinator's log shows the outcome of transactions that look open or late in a partition alone, and the log of the
metadata how leaders were elected. So each partition of a cluster with one of them adds a :class:`ClusterInput`, and
:func:`resolve_deferred` yields the final results.
"""

from __future__ import annotations

import pickle  # nosec B403  # for unnamed files of this process
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain

import numpy as np

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.cluster_result import (
    ClusterResult,
    coordinator_history,
    evaluate_cluster,
    group_commits,
    is_coordinator,
)
from kforensics.forensics.audit.joined_parts import JoinedPart, merge_parts
from kforensics.forensics.audit.other_replicas import identity, replica_findings
from kforensics.forensics.audit.partition_result import CLEAN, PartitionResult
from kforensics.forensics.audit.producer_parts import (
    Order,
    ProducerRows,
    ProducersOf,
    without_markers,
    without_transactions,
)
from kforensics.forensics.checks.check import ranked
from kforensics.forensics.coordinators.cluster_evidence import PlacedFinding
from kforensics.forensics.coordinators.consumer_groups.commits import Commits
from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.coordinators.overrides import is_overridden
from kforensics.forensics.coordinators.partition_markers import NO_MARKERS, PartitionMarkers
from kforensics.forensics.coordinators.remedies import CoordinatorRemedies
from kforensics.forensics.coordinators.transactions.history import History
from kforensics.forensics.coordinators.used_epochs import with_used_epochs
from kforensics.forensics.core.cluster_tables import COORDINATOR_TRANSACTIONS, GROUP_OFFSETS
from kforensics.forensics.core.election import Election, may_lack_records
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.core.spill_file import SpillFile
from kforensics.forensics.metadata.cluster_events import removed_topics_in
from kforensics.forensics.metadata.cluster_metadata import elections_in, in_force
from kforensics.forensics.metadata.topic_metadata import partition_counts_in
from kforensics.forensics.partition.partition_files import partition_sort_key
from kforensics.forensics.partition.partition_rows import finding_rows, worst_severity
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, PartitionState
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.array_types import Column
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Table

# Tables whose rows the coordinators may still change.
DEFERRED = ("partitions", "findings")
COORDINATOR_TOPICS = (TRANSACTION_STATE, CONSUMER_OFFSETS)
BYTE = np.dtype("u1")


@dataclass(frozen=True, slots=True)
class ClusterInput:
    """What a partition contributes to the evaluation of its cluster; can be serialized.

    Attributes:
        cluster: name of its cluster.
        result: the result of the partition alone, with the deferred rows only.
        markers: its transaction markers, none for a transaction coordinator's log; None if its topic was deleted.
        history: what the transaction coordinator wrote, None for another partition.
        commits: what the group coordinator wrote, None for another partition.
        partition_counts: number of partitions by coordinator topic, if this is the log of the cluster's metadata.
        elections: leader elections by topic id and partition, of those partitions that had an unclean one or no leader
            for a time; None if this is not the log of the cluster's metadata.
        removed_topics: when topics were deleted, by name and by topic id, if this is the log of the cluster's metadata.
        is_neighbor: whether the partition is read only for what it shows about others; it has no result of its own.
    """

    cluster: str
    result: PartitionResult
    markers: PartitionMarkers | None = None
    history: History | None = None
    commits: Commits | None = None
    partition_counts: Mapping[str, int] = field(default_factory=dict)
    elections: Mapping[tuple[str, int], tuple[Election, ...]] | None = None
    removed_topics: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    is_neighbor: bool = False

    @property
    def paths(self) -> tuple[str, ...]:
        """Paths of its segments, as findings name them."""
        return next((one.paths for one in (self.history, self.commits, self.markers) if one), ())


def with_cluster_input(result: PartitionResult, state: PartitionState, clusters: Clusters) -> PartitionResult:
    """Return the result of a partition with the input for its cluster, if the cluster has checks.

    In this case the findings are deferred: only the cluster input has them, and the rows of DEFERRED.

    Args:
        result: the result of the partition alone.
        state: the partition; the log of a coordinator is read once more.
        clusters: all clusters.

    Raises:
        InputError: a segment cannot be read.
    """
    cluster = clusters.name_of(state.partition)
    if not clusters.has_cluster_checks(cluster):
        return result
    deferred = {name: rows for name, rows in result.rows.items() if name in DEFERRED}
    final = {name: rows for name, rows in result.rows.items() if name not in DEFERRED}
    cluster_input = ClusterInput(cluster, replace(result, rows=deferred, damage=()))
    cluster_input, coordinator_rows = _completed(cluster_input, state, has_coordinators=cluster in clusters.coordinated)
    rows = {**final, **coordinator_rows}
    return replace(result, rows=rows, findings=(), stable=None, is_counted=False, cluster_input=cluster_input)


def _completed(
    cluster_input: ClusterInput, state: PartitionState, *, has_coordinators: bool
) -> tuple[ClusterInput, Mapping[str, RowStream]]:
    """Return a complete cluster input, and the rows of a coordinator's records by table."""
    if is_coordinator(state):
        spill = _RowSpill(COORDINATOR_TRANSACTIONS)
        replica = replace(PartitionMarkers.of(state), markers=NO_MARKERS)  # only its elections count
        history = coordinator_history(state, spill.add)
        return replace(cluster_input, history=history, markers=replica), spill.rows()
    if state.deletion is not None and state.deletion.is_known:  # coordinators owe it no marker
        return cluster_input, {}
    markers = PartitionMarkers.of(state)
    if not has_coordinators:
        markers = replace(markers, markers=NO_MARKERS)  # only transaction coordinators need them
    cluster_input = replace(
        cluster_input, markers=markers, partition_counts=_partition_counts(state), elections=_elections(state)
    )
    if state.partition.place.topic == METADATA_TOPIC and in_force([state.partition]):
        cluster_input = replace(cluster_input, removed_topics=removed_topics_in([state.partition]))
    if state.partition.place.topic != CONSUMER_OFFSETS:
        return cluster_input, {}
    spill = _RowSpill(GROUP_OFFSETS)
    return replace(cluster_input, commits=group_commits(state, spill.add)), spill.rows()


def _partition_counts(state: PartitionState) -> dict[str, int]:
    if state.partition.place.topic != METADATA_TOPIC:
        return {}
    counts = partition_counts_in([state.partition])
    return {name: count for name, count in counts.items() if name in COORDINATOR_TOPICS}


def _elections(state: PartitionState) -> dict[tuple[str, int], tuple[Election, ...]] | None:
    if state.partition.place.topic != METADATA_TOPIC or not in_force([state.partition]):
        return None
    elections = elections_in([state.partition])
    return {key: known for key, known in elections.items() if may_lack_records(known)}


class _RowSpill:
    """Writes the rows of a table, which may be very many, to a temporary file."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._file: SpillFile | None = None
        self._chunks: list[tuple[int, int]] = []

    def add(self, rows: Rows) -> None:
        """Write rows."""
        self._file = self._file or SpillFile(BYTE)
        data: Column = np.frombuffer(pickle.dumps(rows, pickle.HIGHEST_PROTOCOL), BYTE)
        self._chunks.append((self._file.append(data), len(data)))

    def rows(self) -> dict[str, RowStream]:
        """Return all rows by the name of their table."""
        return {self._table.name: RowStream(self._table, partial(_read, self._file, tuple(self._chunks)))}


def _read(file: SpillFile | None, chunks: tuple[tuple[int, int], ...]) -> Iterator[Rows]:
    if file is None:
        return
    for first, size in chunks:
        rows: Rows = pickle.loads(file.read(first, size).data)  # noqa: S301  # nosec B301  # this process wrote it
        yield rows


def resolve_deferred(
    cluster_inputs: Iterable[ClusterInput], rules: Rules, parts: Iterable[JoinedPart] | None = None
) -> Iterator[PartitionResult]:
    """Yield the final results of partitions, cluster by cluster, and the rows of each cluster; none of neighbors.

    Findings that a coordinator proves wrong are removed, and more precise findings of the cluster replace them.

    Args:
        cluster_inputs: the inputs of all partitions of some clusters.
        rules: limits and the time of evaluation.
        parts: the join of the only cluster, whose inputs then have no transactions and markers: :mod:`.joined_parts`.
    """
    by_cluster: dict[str, list[ClusterInput]] = defaultdict(list)
    for cluster_input in sorted(cluster_inputs, key=_order):  # tasks deliver them in any order
        by_cluster[cluster_input.cluster].append(cluster_input)
    for members in by_cluster.values():
        yield from _resolved(members, rules, parts)


def _order(cluster_input: ClusterInput) -> Order:
    """Return the sort key of an input; of replicas that are equally complete, one that is no neighbor comes first."""
    result = cluster_input.result
    return cluster_input.is_neighbor, *partition_sort_key(result.place, result.folder)


def _resolved(
    members: Sequence[ClusterInput], rules: Rules, parts: Iterable[JoinedPart] | None
) -> Iterator[PartitionResult]:
    metadata = (member for member in members if member.partition_counts)
    newest = max(metadata, key=lambda member: member.result.log_end_offset or 0, default=None)
    counts = newest.partition_counts if newest else {}
    of_metadata = (member for member in members if member.elections is not None)
    newest_elections = max(of_metadata, key=lambda member: member.result.log_end_offset or 0, default=None)
    cluster_result = evaluate_cluster(
        (member.history for member in members if member.history),
        (member.markers for member in members if member.markers and not member.history),
        rules.across({member.result.place.log_dir for member in members}),
        commits=(member.commits for member in members if member.commits),
        coordinator_replicas=(member.markers for member in members if member.markers and member.history),
        partition_count=counts.get(TRANSACTION_STATE),
        offsets_partition_count=counts.get(CONSUMER_OFFSETS),
        elections=newest_elections.elections if newest_elections else None,
        removed_topics=newest_elections.removed_topics if newest_elections else None,
        join=None if parts is None else partial(merge_parts, parts=parts),
    )
    by_place = _by_place(cluster_result.findings, members)
    remedies = CoordinatorRemedies(cluster_result.cluster)
    for member in members:
        if member.is_neighbor:
            continue
        own = replica_findings(cluster_result.cluster, member.markers) if member.markers else []
        # The best replica may be a neighbor, and both may have the same transaction.
        known = {identity(finding) for finding in own}
        of_best = (one for one in by_place.get(member.result.place, ()) if identity(one) not in known)
        yield _revised(member.result, remedies, [*of_best, *own])
    yield _rows_of_cluster(cluster_result)


def _by_place(findings: Iterable[PlacedFinding], members: Sequence[ClusterInput]) -> dict[Place, list[Finding]]:
    """Return the findings of a cluster by partition.

    What the replica of a neighbor shows is a finding on the replica that was asked for, at the same offset. The bytes
    may be elsewhere in that one.
    """
    asked: dict[tuple[str | None, int | None], ClusterInput] = {}
    for member in members:
        if not member.is_neighbor:
            asked.setdefault(member.result.place[-2:], member)
    neighbors = {member.result.place for member in members if member.is_neighbor}
    by_place: dict[Place, list[Finding]] = defaultdict(list)
    for place, finding in findings:
        own = asked.get(place[-2:]) if place in neighbors else None
        if own is None:
            by_place[place].append(finding)
            continue
        path = next((path for path in own.paths if file_name(path) == file_name(finding.path or "")), None)
        by_place[own.result.place].append(replace(finding, path=path, position=None))
    return by_place


def _revised(
    result: PartitionResult, remedies: CoordinatorRemedies, cluster_findings: Sequence[Finding]
) -> PartitionResult:
    """Return the result of a partition with the findings that its cluster adds, replaces or removes."""
    findings = revised_findings(result.place, result.findings, remedies, cluster_findings)
    if findings == result.findings:
        return result
    rows = {
        "partitions": _revised_summary(result.rows["partitions"], findings),
        "findings": finding_rows(result.place, findings),
    }
    return replace(result, findings=findings, rows=rows)


def revised_findings(
    place: Place, findings: Iterable[Finding], remedies: CoordinatorRemedies, cluster_findings: Sequence[Finding]
) -> tuple[Finding, ...]:
    """Return the findings on a partition with those that its cluster adds, replaces or removes.

    Args:
        place: the partition.
        findings: its findings alone.
        remedies: adds what the coordinators know.
        cluster_findings: the cluster's findings on the partition.
    """
    replaced = {(finding.code.name, finding.first_offset) for finding in cluster_findings}
    retained = [
        finding
        for finding in findings
        if (finding.code.name, finding.first_offset) not in replaced
        and not is_overridden(remedies.cluster, place, finding)
    ]
    known = (with_used_epochs(remedies.cluster, finding) for finding in (*retained, *cluster_findings))
    return ranked(remedies.applied(place, finding) for finding in known)


def _revised_summary(rows: Rows | RowStream, findings: Sequence[Finding]) -> Rows:
    """Return the row of a partition with the verdict and the number of other findings."""
    (summary,) = rows.parts()
    worst = worst_severity(findings)
    count = sum(finding.occurrences for finding in findings)
    verdict = {"verdict": CLEAN if worst is None else str(worst), "findings": count}
    return replace(summary, columns={**summary.columns, **verdict})


def _rows_of_cluster(cluster_result: ClusterResult) -> PartitionResult:
    """Return the rows that do not belong to one partition."""
    by_table: dict[str, list[Rows | RowStream]] = defaultdict(list)
    for rows in cluster_result.rows:
        by_table[rows.table.name].append(rows)
    streams = {name: RowStream(chunks[0].table, partial(_parts_of, tuple(chunks))) for name, chunks in by_table.items()}
    return PartitionResult(Place(None, None, None, None), "", 0, streams, is_counted=False)


def _parts_of(chunks: Iterable[Rows | RowStream]) -> Iterator[Rows]:
    return chain.from_iterable(rows.parts() for rows in chunks)


def in_parts(cluster_input: ClusterInput, parts: int) -> Iterator[tuple[int, ProducersOf | ProducerRows]]:
    """Yield the transactions or markers of a partition for each part of the join of its cluster, with the part.

    What every part needs to know of the partition comes first.

    Args:
        cluster_input: the input of the partition.
        parts: number of parts.
    """
    order, history, markers = _order(cluster_input), cluster_input.history, cluster_input.markers
    if history:
        yield from enumerate(ProducersOf.of_history(order, history, parts))
        yield from ProducerRows.of(order, history.transactions, parts, is_numbered=True)
    elif markers:
        yield from enumerate([ProducersOf.of_markers(order, markers, cluster_input.result.findings)] * parts)
        yield from ProducerRows.of(order, markers.markers, parts)


def without_parts(cluster_input: ClusterInput) -> ClusterInput:
    """Return an input without what :func:`in_parts` yields."""
    history, markers = cluster_input.history, cluster_input.markers
    return replace(
        cluster_input,
        history=without_transactions(history) if history else None,
        markers=without_markers(markers) if markers else None,
    )
