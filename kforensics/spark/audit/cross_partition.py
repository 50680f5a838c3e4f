"""What is judged across partitions: their contributions come to one task for each cluster, and copies to one another.

Runs on workers, but for what follows from the plan.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain, groupby
from typing import Any
from zlib import crc32

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copies import Elected, compared_copies, copies_of, elected_in
from kforensics.forensics.audit.deferred_verdicts import settled
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.audit.topic_keys import (
    Described,
    described,
    in_pieces,
    judged_keys_of,
    metadata_in,
    out_of_pieces,
    summary_of_keys,
    topics_among,
)
from kforensics.forensics.audit.topic_result import has_keys
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.partition_files import Partition
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import Travelling

__all__ = [
    "Contributed",
    "compared",
    "copy_of",
    "described_of",
    "elected_of",
    "keys_in",
    "keys_of_topics",
    "member_of",
    "of_clusters",
]

# Stands for the partition where a contribution is meant: one number for each cluster, before those of answers.
FIRST_CLUSTER = -2
# Ordinal of what a task takes before partitions: what the metadata tells of them.
TOLD = -1


@dataclass(slots=True)
class Contributed:
    """Takes the judgements of a task, and keeps what they add to clusters until these are judged.

    Attributes:
        clusters: all clusters, None if none is judged.
        origin: tells the contributions of this kind of task from those of others.
        kept: the contributions.
    """

    clusters: Clusters | None
    origin: int
    kept: list[Travelling] = field(default_factory=list)

    def take(self, numbered: Iterable[tuple[int, Judgement]]) -> Iterator[Judgement]:
        """Yield judgements as they can be written.

        Args:
            numbered: judgements, each with a number that no other one of this origin has.
        """
        for number, judgement in numbered:
            if judgement.contribution and self.clusters:
                cluster = self.clusters.number(judgement.contribution.cluster)
                place = Address(FIRST_CLUSTER - cluster, cluster, cluster, cluster, number, self.origin)
                self.kept.append((place, judgement.contribution))
            yield replace(judgement, contribution=None)


def of_clusters(arriving: Iterable[Travelling], rules: Rules) -> Iterator[tuple[int, Iterator[Judgement]]]:
    """Yield the number of each cluster, and the verdicts that were put off there.

    Args:
        arriving: contributions, cluster by cluster.
        rules: limits and the time of evaluation.
    """
    for partition, some in groupby(arriving, lambda one: one[0].partition):
        yield FIRST_CLUSTER - partition, settled((value for _, value in some), rules)


def copy_of(number: int, partition: Partition, tasks: int) -> Iterator[Travelling]:
    """Yield a partition on its way to the task that compares its copies.

    Args:
        number: of the partition.
        partition: its files.
        tasks: how many tasks compare.
    """
    place = partition.place
    if place.topic is not None and place.partition is not None:
        yield _meeting(place.topic, place.partition, tasks, number, 0), partition


def elected_of(partitions: Iterable[Partition], clusters: Clusters, tasks: int) -> Iterator[Travelling]:
    """Yield the elections that copies of the metadata tell of, on their way to the tasks that compare.

    Args:
        partitions: of the metadata's topic.
        clusters: all clusters.
        tasks: how many tasks compare.
    """
    for number, elected in enumerate(elected_in(partitions, clusters)):
        if elected.topic is not None:
            yield _meeting(elected.topic, elected.partition, tasks, TOLD, number), elected


def _meeting(topic: str, partition: int | None, tasks: int, ordinal: int, sequence: int) -> Address:
    """Return where all copies of a partition meet, or all partitions of a topic, and what is known of them."""
    meeting = crc32(f"{topic}-{partition}".encode("utf-8", "surrogatepass"))
    return Address(meeting, meeting % tasks, 0, 0, ordinal, sequence)


def compared(arriving: Iterable[Travelling], clusters: Clusters, rules: Rules) -> Iterator[Judgement]:
    """Yield what is to be said of the copies of partitions.

    Args:
        arriving: elections and partitions, all that meet in one place one after the other.
        clusters: all clusters.
        rules: limits and the time of evaluation.
    """
    for _, some in groupby(arriving, lambda one: one[0].partition):
        values = [value for _, value in some]
        elected = [value for value in values if isinstance(value, Elected)]
        partitions = [value for value in values if isinstance(value, Partition)]
        for copies in copies_of(partitions, clusters, elected):
            yield compared_copies(copies, rules, workers=0)


def keys_in(number: int, partition: Partition, tasks: int, rules: Rules) -> Iterator[Travelling]:
    """Yield the keys of a partition on their way to the task that judges those of its topic.

    Args:
        number: of the partition.
        partition: its files.
        tasks: how many tasks judge keys.
        rules: limits and the time of evaluation.
    """
    topic = partition.place.topic
    if topic is not None and has_keys(partition.place) and (summary := summary_of_keys(partition, rules, workers=0)):
        for sequence, value in enumerate(chain([partition], in_pieces(summary))):
            yield _meeting(topic, None, tasks, number, sequence), value


def member_of(number: int, partition: Partition, tasks: int) -> Iterator[Travelling]:
    """Yield a partition on its way to the task where those of its topic meet, if users write to that.

    Args:
        number: of the partition.
        partition: its files.
        tasks: how many tasks there are to meet in.
    """
    if partition.place.topic is not None and has_keys(partition.place):
        yield _meeting(partition.place.topic, None, tasks, number, 0), partition


def described_of(partitions: Iterable[Partition], clusters: Clusters, tasks: int) -> Iterator[Travelling]:
    """Yield what copies of the metadata say of topics, on its way to the tasks that judge their keys.

    Args:
        partitions: of the metadata's topic.
        clusters: all clusters.
        tasks: how many tasks judge keys.
    """
    for number, one in enumerate(metadata_in(partitions, clusters)):
        yield _meeting(one.metadata.name, None, tasks, TOLD, number), one


def keys_of_topics(arriving: Iterable[Travelling], clusters: Clusters, rules: Rules) -> Iterator[Judgement]:
    """Yield what is to be said of the keys of topics.

    Args:
        arriving: what the metadata says of topics, and keys partition by partition, all of a topic one after the other.
        clusters: all clusters.
        rules: limits and the time of evaluation.
    """
    for _, some in groupby(arriving, lambda one: one[0].partition):
        told: list[Described] = []
        partitions: list[Partition] = []
        summaries = {one.folder: one for one in out_of_pieces(_pieces(some, told, partitions))}
        known = described(told)
        for topic, members in topics_among(partitions, clusters).items():
            mine = [summaries[one.folder] for one in members]
            yield from judged_keys_of(topic, mine, rules, known.get((topic.cluster, topic.topic_id or "")))


def _pieces(some: Iterable[Travelling], told: list[Described], partitions: list[Partition]) -> Iterator[Any]:
    """Yield the pieces of summaries, and put what comes between them where it belongs."""
    for _, value in some:
        if isinstance(value, Described):
            told.append(value)
        elif isinstance(value, Partition):
            partitions.append(value)
        else:
            yield value
