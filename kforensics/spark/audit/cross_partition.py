"""Evaluation across partitions: cluster inputs meet in one task per cluster, and so do the copies of a partition.

Runs on workers, except for what follows from the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any
from zlib import crc32

from kforensics.forensics.audit.audit_scope import AuditScope, evaluate_partition
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copies import PartitionElections, copies_of, evaluate_copies, partition_elections
from kforensics.forensics.audit.deferred_verdicts import ClusterInput, in_parts, resolve_deferred, without_parts
from kforensics.forensics.audit.joined_parts import JoinedPart, join_part
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.producer_parts import ProducerRows, ProducersOf
from kforensics.forensics.audit.topic_result import (
    ClusterTopicMetadata,
    has_keys,
    metadata_by_topic,
    partitions_by_topic,
    summaries_from_wire,
    summarize_keys,
    summary_to_wire,
    topic_key_results,
    topic_metadata_in,
)
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.log.log_rows import Place
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import AddressedValue

__all__ = [
    "FIRST_PART",
    "Contributed",
    "JoinedParts",
    "compared",
    "contributed",
    "copy_of",
    "described_of",
    "elected_of",
    "keys_in",
    "keys_of_topics",
    "member_of",
    "of_clusters",
]

# Partition numbers of cluster inputs: one per cluster, sorting before those of answers.
FIRST_CLUSTER = -2
# Partition numbers of the parts of the joins of clusters: before all others.
FIRST_PART = -(1 << 40)
# Ordinals of transactions and markers, which follow what a part needs to know of logs, and of what parts return, which
# follows cluster inputs; listed partitions whose epoch is to be compared come last.
ROWS, JOINED, UNCERTAIN = 1 << 60, 1 << 61, 1 << 62
# Kinds of tasks that return cluster inputs of the same number.
ORIGINS = 4
# Ordinal of cluster metadata, which a task processes before partitions.
METADATA = -1
# Origin of the cluster inputs of partitions that are not to be evaluated themselves.
AROUND = 0


@dataclass(slots=True)
class Contributed:
    """Takes the results of a task and keeps their cluster inputs until the clusters are evaluated.

    Attributes:
        clusters: all clusters, None if none is evaluated.
        origin: distinguishes the cluster inputs of this kind of task from those of others.
        parts: number of parts in which the transactions of each cluster are joined, 0 to join them at once.
        kept: the cluster inputs of each result, not yet divided among the parts.
    """

    clusters: Clusters | None
    origin: int
    parts: int = 0
    kept: list[Iterator[AddressedValue]] = field(default_factory=list)

    def take(self, numbered: Iterable[tuple[int, PartitionResult]]) -> Iterator[PartitionResult]:
        """Yield results without their cluster inputs, ready to be written.

        Args:
            numbered: results, each with a number that is unique within this origin.
        """
        for number, result in numbered:
            if result.cluster_input and self.clusters:
                cluster = self.clusters.number(result.cluster_input.cluster)
                self.kept.append(_inputs(result.cluster_input, cluster, number, self.origin, self.parts))
            yield replace(result, cluster_input=None)


def _inputs(
    cluster_input: ClusterInput, cluster: int, number: int, origin: int, parts: int
) -> Iterator[AddressedValue]:
    """Yield the input of a cluster, and what it has for the parts of the join."""
    address = Address(FIRST_CLUSTER - cluster, cluster, cluster, cluster, number, origin)
    if not parts:
        yield address, cluster_input
        return
    yield address, without_parts(cluster_input)
    for sequence, (part, value) in enumerate(in_parts(cluster_input, parts)):
        slot = cluster * parts + part
        ordinal = number + (ROWS if isinstance(value, ProducerRows) else 0)
        yield Address(FIRST_PART - slot, slot, slot, slot, ordinal, sequence * ORIGINS + origin), value


def contributed(number: int, partition: Partition, scope: AuditScope, parts: int = 0) -> Iterator[AddressedValue]:
    """Yield what a partition that is not to be evaluated itself contributes to its cluster.

    Args:
        number: number of the partition, unique among those of its kind.
        partition: its files.
        scope: the audit scope.
        parts: number of parts in which the transactions of each cluster are joined, 0 to join them at once.
    """
    result = evaluate_partition(partition, replace(scope, records=False, summaries=None), workers=0)
    if result.cluster_input and scope.clusters:
        cluster = scope.clusters.number(result.cluster_input.cluster)
        yield from _inputs(replace(result.cluster_input, is_neighbor=True), cluster, number, AROUND, parts)


@dataclass(slots=True)
class JoinedParts:
    """Joins the transactions of parts of clusters, and keeps what the evaluation of the clusters needs.

    Attributes:
        parts: number of parts of each cluster.
        rules: limits and the time of evaluation.
        kept: what the evaluation needs.
    """

    parts: int
    rules: Rules
    kept: list[AddressedValue] = field(default_factory=list)

    def results(self, slot: int, arriving: Iterable[Any]) -> Iterator[PartitionResult]:
        """Yield the rows of the transactions of a part.

        Args:
            slot: the part.
            arriving: what it needs to know of each log, then transactions and markers.
        """
        cluster, part = divmod(slot, self.parts)
        address = Address(FIRST_CLUSTER - cluster, cluster, cluster, cluster, JOINED + part)
        logs: list[ProducersOf] = []
        arriving_rows: Iterable[ProducerRows] = ()
        values = iter(arriving)
        for value in values:
            if isinstance(value, ProducerRows):
                arriving_rows = chain([value], values)
                break
            logs.append(value)
        joined = join_part(logs, arriving_rows, self.rules)
        for sequence, value in enumerate(joined):
            rows = {value.rows.table.name: value.rows} if value.rows else {}
            yield PartitionResult(Place(None, None, None, None), "", 0, rows, is_counted=False)
            ordinal = (JOINED if value.totals else UNCERTAIN) + part
            self.kept.append((replace(address, ordinal=ordinal, sequence=sequence), replace(value, rows=None)))


def of_clusters(arriving: Iterable[AddressedValue], rules: Rules) -> Iterator[tuple[int, Iterator[PartitionResult]]]:
    """Yield the number of each cluster and its deferred results.

    Args:
        arriving: cluster inputs, cluster by cluster, and what their joins show, if these are made in parts.
        rules: limits and the time of evaluation.
    """
    for partition, group in groupby(arriving, lambda pair: pair[0].partition):
        inputs: list[ClusterInput] = []
        parts: Iterable[JoinedPart] | None = None
        for _, value in group:
            if isinstance(value, JoinedPart):
                parts = chain([value], (part for _, part in group))
                break
            inputs.append(value)
        yield FIRST_CLUSTER - partition, resolve_deferred(inputs, rules, parts)


def copy_of(number: int, partition: Partition, tasks: int) -> Iterator[AddressedValue]:
    """Yield a partition, addressed to the task that compares its copies.

    Args:
        number: number of the partition.
        partition: its files.
        tasks: number of tasks that compare.
    """
    place = partition.place
    if place.topic is not None and place.partition is not None:
        yield _meeting(place.topic, place.partition, tasks, number, 0), partition


def elected_of(partitions: Iterable[Partition], clusters: Clusters, tasks: int) -> Iterator[AddressedValue]:
    """Yield the elections in copies of the metadata log, addressed to the tasks that compare.

    Args:
        partitions: partitions of the metadata topic.
        clusters: all clusters.
        tasks: number of tasks that compare.
    """
    for number, elected in enumerate(partition_elections(partitions, clusters)):
        if elected.topic is not None:
            yield _meeting(elected.topic, elected.partition, tasks, METADATA, number), elected


def _meeting(topic: str, partition: int | None, tasks: int, ordinal: int, sequence: int) -> Address:
    """Return the address where all copies of a partition, or all partitions of a topic, meet with their metadata."""
    meeting = crc32(f"{topic}-{partition}".encode("utf-8", "surrogatepass"))
    return Address(meeting, meeting % tasks, 0, 0, ordinal, sequence)


def compared(arriving: Iterable[AddressedValue], clusters: Clusters, rules: Rules) -> Iterator[PartitionResult]:
    """Yield the results of comparing the copies of partitions.

    Args:
        arriving: elections and partitions, grouped by where they meet.
        clusters: all clusters.
        rules: limits and the time of evaluation.
    """
    for _, group in groupby(arriving, lambda pair: pair[0].partition):
        values = [value for _, value in group]
        elected = [value for value in values if isinstance(value, PartitionElections)]
        partitions = [value for value in values if isinstance(value, Partition)]
        for copies in copies_of(partitions, clusters, elected):
            yield evaluate_copies(copies, rules, workers=0)


def keys_in(number: int, partition: Partition, tasks: int, rules: Rules) -> Iterator[AddressedValue]:
    """Yield the keys of a partition, addressed to the task that evaluates its topic.

    Args:
        number: number of the partition.
        partition: its files.
        tasks: number of tasks that evaluate keys.
        rules: limits and the time of evaluation.
    """
    topic = partition.place.topic
    if topic is not None and has_keys(partition.place) and (summary := summarize_keys(partition, rules, workers=0)):
        for sequence, value in enumerate(chain([partition], summary_to_wire(summary))):
            yield _meeting(topic, None, tasks, number, sequence), value


def member_of(number: int, partition: Partition, tasks: int) -> Iterator[AddressedValue]:
    """Yield a partition, addressed to the task of its topic, unless that is an internal topic.

    Args:
        number: number of the partition.
        partition: its files.
        tasks: number of tasks for topics.
    """
    if partition.place.topic is not None and has_keys(partition.place):
        yield _meeting(partition.place.topic, None, tasks, number, 0), partition


def described_of(partitions: Iterable[Partition], clusters: Clusters, tasks: int) -> Iterator[AddressedValue]:
    """Yield the topics in copies of the metadata log, addressed to the tasks that evaluate their keys.

    Args:
        partitions: partitions of the metadata topic.
        clusters: all clusters.
        tasks: number of tasks that evaluate keys.
    """
    for number, topic in enumerate(topic_metadata_in(partitions, clusters)):
        yield _meeting(topic.metadata.name, None, tasks, METADATA, number), topic


def keys_of_topics(arriving: Iterable[AddressedValue], clusters: Clusters, rules: Rules) -> Iterator[PartitionResult]:
    """Yield the results about the keys of topics.

    Args:
        arriving: topic metadata, and keys partition by partition, grouped by topic.
        clusters: all clusters.
        rules: limits and the time of evaluation.
    """
    for _, group in groupby(arriving, lambda pair: pair[0].partition):
        metadata: list[ClusterTopicMetadata] = []
        partitions: list[Partition] = []
        pieces = _pieces(group, metadata, partitions)
        summaries = {summary.folder: summary for summary in summaries_from_wire(pieces)}
        by_topic = metadata_by_topic(metadata)
        for topic, members in partitions_by_topic(partitions, clusters).items():
            members_keys = [summaries[member.folder] for member in members]
            topic_metadata = by_topic.get((topic.cluster, topic.topic_id or ""))
            yield from topic_key_results(topic, members_keys, rules, topic_metadata)


def _pieces(
    group: Iterable[AddressedValue], metadata: list[ClusterTopicMetadata], partitions: list[Partition]
) -> Iterator[Any]:
    """Yield the pieces of summaries, and append metadata and partitions to their lists."""
    for _, value in group:
        if isinstance(value, ClusterTopicMetadata):
            metadata.append(value)
        elif isinstance(value, Partition):
            partitions.append(value)
        else:
            yield value
