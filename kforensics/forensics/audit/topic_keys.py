"""The keys of topics in an audit: which partitions make a topic, and what is said of the keys in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import Judgement, ranked
from kforensics.forensics.audit.topic_result import has_keys, judge_keys
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.keys.key_rows import KEY, KeyGathering, KeyRows
from kforensics.forensics.keys.key_summary import KeySummary, key_summary
from kforensics.forensics.metadata.topic_metadata import TopicMetadata, topics_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition, order_of
from kforensics.forensics.partition.partition_rows import finding_rows
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "Described",
    "Topic",
    "described",
    "in_pieces",
    "judged_keys_of",
    "judged_topics",
    "metadata_in",
    "out_of_pieces",
    "summary_of_keys",
    "topics_among",
]

# Bytes of keys that travel together.
PIECE = 4 << 20


class Topic(NamedTuple):
    """What tells topics apart.

    Attributes:
        cluster: name of the cluster.
        name: name of the topic.
        topic_id: its id; None if no copy of a partition has it.
    """

    cluster: str
    name: str
    topic_id: str | None


def topics_among(partitions: Iterable[Partition], clusters: Clusters) -> dict[Topic, list[Partition]]:
    """Return partitions by topic; those of the brokers' own topics are left out, whose keys lie otherwise.

    A copy without topic id belongs to the only topic of its name in its cluster, or to one of its own.

    Args:
        partitions: all partitions of some topics.
        clusters: all clusters.
    """
    named: dict[tuple[str, str], list[Partition]] = defaultdict(list)
    for one in sorted(partitions, key=lambda one: order_of(one.place, one.folder)):
        if has_keys(one.place):
            named[clusters.name_of(one), one.place.topic or ""].append(one)
    found: dict[Topic, list[Partition]] = defaultdict(list)
    for (cluster, name), some in sorted(named.items()):
        ids = {one.topic_id for one in some if one.topic_id is not None}
        only = next(iter(ids)) if len(ids) == 1 else None
        for one in some:
            found[Topic(cluster, name, one.topic_id or only)].append(one)
    return found


@dataclass(frozen=True, slots=True)
class Described:
    """What a cluster's metadata says of a topic; it may travel.

    Attributes:
        cluster: name of the cluster.
        metadata: that.
    """

    cluster: str
    metadata: TopicMetadata


def metadata_in(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[Described]:
    """Yield what the metadata among some partitions says of topics, cluster by cluster.

    Args:
        partitions: of any topics and clusters.
        clusters: all clusters.
    """
    by_cluster: dict[str, list[Partition]] = defaultdict(list)
    for one in partitions:
        by_cluster[clusters.name_of(one)].append(one)
    for cluster, some in by_cluster.items():
        with suppress(InputError):  # who judges the metadata's own log says so
            yield from (Described(cluster, topic) for topic in topics_in(some).values())


def described(found: Iterable[Described]) -> Mapping[tuple[str, str], TopicMetadata]:
    """Return what is known of topics by their cluster and id."""
    return {(one.cluster, one.metadata.topic_id): one.metadata for one in found}


def summary_of_keys(partition: Partition, rules: Rules, workers: int | None) -> KeySummary | None:
    """Return the keys of a partition; None if it cannot be read, which its own verdict says.

    Args:
        partition: its files; its log is read twice.
        rules: limits and the time of evaluation.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
    """
    with suppress(InputError):
        return key_summary(examine(partition, rules), workers=workers)
    return None


def in_pieces(summary: KeySummary) -> Iterator[KeySummary | Records]:
    """Yield a summary as it travels: all but its keys, and then these, some megabytes at a time."""
    yield replace(summary, keys=KeyRows(np.empty(0, KEY)))
    shares = len(summary.keys) * KEY.itemsize // PIECE + 1
    yield from (summary.share(share, shares) for share in range(shares))


def out_of_pieces(pieces: Iterable[KeySummary | Records]) -> Iterator[KeySummary]:
    """Yield summaries that have travelled; very many keys go into a temporary file."""
    summary: KeySummary | None = None
    keys = KeyGathering()
    for piece in pieces:
        if not isinstance(piece, KeySummary):
            keys.add(piece)
            continue
        if summary:
            yield replace(summary, keys=keys.finish())
        summary, keys = piece, KeyGathering()
    if summary:
        yield replace(summary, keys=keys.finish())


def judged_keys_of(
    topic: Topic, summaries: Sequence[KeySummary], rules: Rules, metadata: TopicMetadata | None
) -> Iterator[Judgement]:
    """Yield what is said of the keys of a topic: its tables, and findings place by place.

    Args:
        topic: which.
        summaries: of its partitions.
        rules: limits and the time of evaluation.
        metadata: what the cluster's metadata says of it, None if it is not there.
    """
    try:
        found = judge_keys(summaries, rules, None, metadata)
    except InputError:
        return  # a segment that was there a moment ago; the verdict of its partition may say so
    yield Judgement(Place(None, None, topic.name, None), "", 0, found.rows, is_counted=False)
    placed: dict[Place, list[Finding]] = defaultdict(list)
    for place, finding in found.placed:
        placed[place].append(finding)
    for place, findings in placed.items():
        rows = {"findings": finding_rows(place, findings)}
        yield Judgement(place, "", 0, rows, ranked(findings), is_counted=False)


def judged_topics(
    partitions: Sequence[Partition], clusters: Clusters, rules: Rules, workers: int | None
) -> Iterator[Judgement]:
    """Yield what is said of the keys of all topics.

    Args:
        partitions: all partitions of some clusters.
        clusters: all clusters.
        rules: limits and the time of evaluation.
        workers: as for :func:`summary_of_keys`.
    """
    topics = topics_among(partitions, clusters)
    known = described(metadata_in(partitions, clusters)) if topics else {}
    for topic, some in topics.items():
        summaries = [one for one in (summary_of_keys(partition, rules, workers) for partition in some) if one]
        if summaries:
            yield from judged_keys_of(topic, summaries, rules, known.get((topic.cluster, topic.topic_id or "")))
