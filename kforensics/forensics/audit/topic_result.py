"""Evaluate the keys of topics: group partitions by topic, summarize their keys, and run the checks of the keys."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.checks.check import ranked
from kforensics.forensics.checks.keys import KEY_CHECKS
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_result_rows import key_partition_rows, producer_batch_rows, split_key_rows
from kforensics.forensics.keys.key_rows import KEY_ROW, KeyAggregator, KeyRowArray, KeyRows
from kforensics.forensics.keys.key_summary import KeySummary, key_summary
from kforensics.forensics.keys.topic_keys import KeyFinding, TopicKeys, join_topic_keys
from kforensics.forensics.metadata.topic_metadata import TopicMetadata, topics_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition, partition_sort_key
from kforensics.forensics.partition.partition_rows import finding_rows, worst_severity
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.log.log_rows import Place

# The brokers place the records of these topics by other hashes than murmur2, or by none; cluster checks cover them.
INTERNAL = ("__consumer_offsets", "__transaction_state", "__share_group_state", "__remote_log_metadata", METADATA_TOPIC)
# Bytes of keys that are serialized together.
WIRE_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class TopicKeyResult:
    """The rows and findings on the keys of a topic.

    Attributes:
        topic: the keys.
        rows: rows by table.
        placed: findings with their places, the worst first.
    """

    topic: TopicKeys
    rows: Mapping[str, Rows]
    placed: tuple[KeyFinding, ...]

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings without their places."""
        return tuple(placed.finding for placed in self.placed)

    @property
    def worst(self) -> Severity | None:
        """The worst severity, None if there are no findings."""
        return worst_severity(self.findings)


def has_keys(place: Place) -> bool:
    """Return whether the keys of a partition are evaluated: its topic is known, and is not an internal one."""
    return place.topic is not None and place.partition is not None and place.topic not in INTERNAL


def best_copies(summaries: Iterable[KeySummary]) -> list[KeySummary]:
    """Return the copy of each partition with the highest log end, then with the lowest log start, by number."""
    best: dict[int, KeySummary] = {}
    for summary in summaries:
        other = best.get(summary.number)
        if other is None or _extent(summary) > _extent(other):
            best[summary.number] = summary
    return [best[number] for number in sorted(best)]


def _extent(summary: KeySummary) -> tuple[int, int]:
    return summary.log_end_offset, -summary.log_start_offset


def evaluate_keys(
    summaries: Sequence[KeySummary],
    rules: Rules,
    partition_count: int | None = None,
    metadata: TopicMetadata | None = None,
) -> TopicKeyResult:
    """Return rows and findings on the keys of one topic.

    Args:
        summaries: summaries of its partitions, from ``key_summary``, in this process or another one. Of several copies
            of a partition, the best one is used. The segments that they refer to must be accessible.
        rules: limits and the time of evaluation.
        partition_count: number of partitions that the topic has today, None if it is unknown.
        metadata: the topic in the cluster's metadata, from ``topic_metadata.topics_in``.

    Returns:
        Rows of the tables of ``core.key_tables``, and findings.

    Raises:
        InputError: a segment cannot be read.
        ValueError: there is no partition.
    """
    copies = best_copies(summaries)
    if not copies:
        raise ValueError("it takes at least one partition to evaluate keys")
    return topic_key_result(join_topic_keys(copies, rules, partition_count, metadata))


def topic_key_result(topic: TopicKeys) -> TopicKeyResult:
    """Return rows and findings on the joined keys of a topic."""
    tables = (key_partition_rows(topic), split_key_rows(topic), producer_batch_rows(topic))
    findings = [placed for check in KEY_CHECKS for placed in check.findings(topic)]
    return TopicKeyResult(topic, {rows.table.name: rows for rows in tables}, tuple(sorted(findings, key=_rank)))


def _rank(placed: KeyFinding) -> tuple[int, str, int, int]:
    place, finding = placed
    first = -1 if finding.first_offset is None else finding.first_offset
    return -finding.severity, finding.code.name, -1 if place.partition is None else place.partition, first


class TopicIdentity(NamedTuple):
    """The attributes that distinguish topics.

    Attributes:
        cluster: name of the cluster.
        name: name of the topic.
        topic_id: topic id; None if no copy of a partition has one.
    """

    cluster: str
    name: str
    topic_id: str | None


def partitions_by_topic(partitions: Iterable[Partition], clusters: Clusters) -> dict[TopicIdentity, list[Partition]]:
    """Return partitions by topic, without the internal topics.

    A copy without a topic id belongs to the only topic of its name in the cluster; if there are several, it counts as a
    topic of its own.

    Args:
        partitions: all partitions of some topics.
        clusters: all clusters.
    """
    by_name: dict[tuple[str, str], list[Partition]] = defaultdict(list)
    for partition in sorted(partitions, key=lambda partition: partition_sort_key(partition.place, partition.folder)):
        if has_keys(partition.place):
            by_name[clusters.name_of(partition), partition.place.topic or ""].append(partition)
    by_topic: dict[TopicIdentity, list[Partition]] = defaultdict(list)
    for (cluster, name), members in sorted(by_name.items()):
        ids = {partition.topic_id for partition in members if partition.topic_id is not None}
        only_id = next(iter(ids)) if len(ids) == 1 else None
        for partition in members:
            by_topic[TopicIdentity(cluster, name, partition.topic_id or only_id)].append(partition)
    return by_topic


@dataclass(frozen=True, slots=True)
class ClusterTopicMetadata:
    """A topic in the metadata of a cluster; can be serialized.

    Attributes:
        cluster: name of the cluster.
        metadata: the topic.
    """

    cluster: str
    metadata: TopicMetadata


def topic_metadata_in(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[ClusterTopicMetadata]:
    """Yield the topics in the metadata logs among some partitions, cluster by cluster.

    Args:
        partitions: partitions of any topics and clusters.
        clusters: all clusters.
    """
    by_cluster: dict[str, list[Partition]] = defaultdict(list)
    for partition in partitions:
        by_cluster[clusters.name_of(partition)].append(partition)
    for cluster, members in by_cluster.items():
        with suppress(InputError):  # the result of the metadata log itself reports this
            yield from (ClusterTopicMetadata(cluster, topic) for topic in topics_in(members).values())


def metadata_by_topic(topics: Iterable[ClusterTopicMetadata]) -> Mapping[tuple[str, str], TopicMetadata]:
    """Return the metadata of topics by cluster and topic id."""
    return {(topic.cluster, topic.metadata.topic_id): topic.metadata for topic in topics}


def summarize_keys(partition: Partition, rules: Rules, workers: int | None) -> KeySummary | None:
    """Return the keys of a partition; None if it cannot be read or has no log, which its own result reports.

    Args:
        partition: its files; its log is read twice.
        rules: limits and the time of evaluation.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    with suppress(InputError):
        return key_summary(examine(partition, rules), workers=workers) if partition.has_log else None
    return None


def summary_to_wire(summary: KeySummary) -> Iterator[KeySummary | KeyRowArray]:
    """Yield a summary for serialization: first without its keys, then the keys, a few megabytes at a time."""
    yield replace(summary, keys=KeyRows(np.empty(0, KEY_ROW)))
    shares = len(summary.keys) * KEY_ROW.itemsize // WIRE_BYTES + 1
    yield from (summary.share(share, shares) for share in range(shares))


def summaries_from_wire(values: Iterable[KeySummary | KeyRowArray]) -> Iterator[KeySummary]:
    """Yield deserialized summaries; very many keys are in a temporary file."""
    summary: KeySummary | None = None
    keys = KeyAggregator()
    for value in values:
        if not isinstance(value, KeySummary):
            keys.add(value)
            continue
        if summary:
            yield replace(summary, keys=keys.finish())
        summary, keys = value, KeyAggregator()
    if summary:
        yield replace(summary, keys=keys.finish())


def topic_key_results(
    topic: TopicIdentity, summaries: Sequence[KeySummary], rules: Rules, metadata: TopicMetadata | None
) -> Iterator[PartitionResult]:
    """Yield the results on the keys of a topic: first its tables, then the findings by place.

    Args:
        topic: the topic.
        summaries: summaries of its partitions.
        rules: limits and the time of evaluation.
        metadata: the topic in the cluster's metadata, None if it is not there.
    """
    try:
        result = evaluate_keys(summaries, rules, None, metadata)
    except InputError:  # a segment has disappeared since; the result of its partition may report this
        return
    yield PartitionResult(Place(None, None, topic.name, None), "", 0, result.rows, is_counted=False)
    by_place: dict[Place, list[Finding]] = defaultdict(list)
    for place, finding in result.placed:
        by_place[place].append(finding)
    folders = {summary.place: summary.folder for summary in result.topic.summaries}
    for place, findings in by_place.items():
        rows = {"findings": finding_rows(place, findings)}
        yield PartitionResult(place, folders[place], 0, rows, ranked(findings), is_counted=False)


def evaluate_topics(
    partitions: Sequence[Partition], clusters: Clusters, rules: Rules, workers: int | None
) -> Iterator[PartitionResult]:
    """Yield the results on the keys of all topics.

    Args:
        partitions: all partitions of some clusters.
        clusters: all clusters.
        rules: limits and the time of evaluation.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    topics = partitions_by_topic(partitions, clusters)
    known = metadata_by_topic(topic_metadata_in(partitions, clusters)) if topics else {}
    for topic, members in topics.items():
        summaries = [
            summary for summary in (summarize_keys(partition, rules, workers) for partition in members) if summary
        ]
        if summaries:
            yield from topic_key_results(topic, summaries, rules, known.get((topic.cluster, topic.topic_id or "")))
