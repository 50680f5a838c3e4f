"""Which copies of partitions an audit holds against each other, and what is said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.audit.replica_result import compare_replicas
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.elections import Election, elections_in
from kforensics.forensics.metadata.topic_metadata import topics_in
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.replicas.replica import replica_groups
from kforensics.parsers.log.log_rows import Place

__all__ = ["Copies", "Elected", "compared_copies", "copies_among", "copies_of", "elected_in"]


@dataclass(frozen=True, slots=True)
class Copies:
    """The copies of one partition, and the elections of its leaders as far as they are known; it may travel.

    Attributes:
        partitions: two or more, each of another broker.
        elections: in their order.
    """

    partitions: tuple[Partition, ...]
    elections: tuple[Election, ...] = ()

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return sum(one.size for one in self.partitions)


@dataclass(frozen=True, slots=True)
class Elected:
    """The elections of leaders of a partition, as a cluster's metadata has them; it may travel.

    Attributes:
        cluster: name of the cluster.
        topic: name of the topic, None if the metadata on hand does not tell.
        topic_id: its id.
        partition: number of the partition.
        elections: in their order.
    """

    cluster: str
    topic: str | None
    topic_id: str
    partition: int
    elections: tuple[Election, ...]


def copies_among(partitions: Sequence[Partition], clusters: Clusters) -> Iterator[Copies]:
    """Yield the copies that there are of the same partition, cluster by cluster.

    Of several copies of one broker, taken at several times, the newest stands for it.

    Args:
        partitions: all partitions of some clusters.
        clusters: all clusters.
    """
    for name, some in _by_cluster(partitions, clusters).items():
        groups = _groups(some)
        yield from _copies(name, groups, elected_in(some, clusters) if groups else ())


def copies_of(
    partitions: Iterable[Partition], clusters: Clusters, elected: Collection[Elected] = ()
) -> Iterator[Copies]:
    """Yield what :func:`copies_among` does, of some partitions with all their copies.

    Args:
        partitions: of any clusters.
        clusters: all clusters.
        elected: the elections of these partitions, as far as they are known, and maybe others.
    """
    for name, some in _by_cluster(partitions, clusters).items():
        yield from _copies(name, _groups(some), elected)


def elected_in(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[Elected]:
    """Yield the elections that the metadata among some partitions tells of, cluster by cluster.

    Args:
        partitions: of any topics and clusters.
        clusters: all clusters.
    """
    for name, some in _by_cluster(partitions, clusters).items():
        with suppress(InputError):  # who judges the metadata's own log says so
            topics, found = topics_in(some), elections_in(some)
            for (topic_id, number), elections in found.items():
                topic = topics.get(topic_id)
                yield Elected(name, topic.name if topic else None, topic_id, number, elections)


def _by_cluster(partitions: Iterable[Partition], clusters: Clusters) -> dict[str, list[Partition]]:
    found: dict[str, list[Partition]] = defaultdict(list)
    for one in partitions:
        found[clusters.name_of(one)].append(one)
    return found


def _groups(partitions: Iterable[Partition]) -> list[tuple[Partition, ...]]:
    return [group for group in map(_newest, replica_groups(partitions)) if len(group) > 1]


def _copies(cluster: str, groups: Iterable[tuple[Partition, ...]], elected: Iterable[Elected]) -> Iterator[Copies]:
    known = {(one.topic_id, one.partition): one.elections for one in elected if one.cluster == cluster}
    for group in groups:
        topic_id = next((one.topic_id for one in group if one.topic_id is not None), "")
        number = group[0].place.partition
        yield Copies(group, () if number is None else known.get((topic_id, number), ()))


def _newest(copies: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return one copy of each broker; those of unknown brokers are told apart by their log directories."""
    newest: dict[int | str | None, Partition] = {}
    for one in sorted(copies, key=lambda one: one.newest_mtime_ms or 0):
        place = one.place
        newest[place.log_dir if place.broker_id is None else place.broker_id] = one
    return tuple(one for one in copies if one in newest.values())


def compared_copies(copies: Copies, rules: Rules, workers: int | None) -> Judgement:
    """Return what is said of the copies of a partition; what is wrong with each alone is said elsewhere.

    Args:
        copies: of one partition.
        rules: limits and the time of evaluation.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
    """
    place = copies.partitions[0].place
    both = Place(None, None, place.topic, place.partition)
    try:
        found = compare_replicas(copies.partitions, rules, copies.elections, workers=workers)
    except InputError:
        return Judgement(both, "", 0, is_counted=False)  # the copy that cannot be read has a verdict that says so
    return Judgement(both, "", 0, found.rows, found.findings, is_counted=False)
