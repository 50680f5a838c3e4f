"""Which cluster a partition belongs to, and what is to be judged there across partitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations, product
from typing import NamedTuple

from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS

__all__ = ["Clusters", "Member"]

# How the only cluster is called if no log directory says what it is.
NAMELESS = ""


class Member(NamedTuple):
    """What tells of a partition where it belongs.

    Attributes:
        cluster_id: from ``meta.properties`` beside it, as is the next but one.
        log_dir: its log directory.
        broker_id: its broker.
        topic: its topic.
        partition: its number.
        topic_id: from ``partition.metadata``.
    """

    cluster_id: str | None
    log_dir: str | None
    broker_id: int | None
    topic: str | None
    partition: int | None
    topic_id: str | None

    @classmethod
    def of(cls, partition: Partition) -> Member:
        """Return what tells of a partition."""
        broker_id, log_dir, topic, number = partition.place
        return cls(partition.log_dir.cluster_id, log_dir, broker_id, topic, number, partition.topic_id)


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters among some partitions; a small value that goes to every worker.

    A log directory whose ``meta.properties`` names no cluster belongs to the only one there is. Where several are
    named, nobody can tell to which, and it stands alone.

    A cluster of which one broker has a partition twice, or a topic has two ids, was copied at several times, or cloned.
    Then only log directories in the same folder belong together. A topic that was deleted and made again between the
    copy of one broker and that of the next has two ids as well; but other topics of both have one.

    Attributes:
        ids: of all clusters, as ``meta.properties`` has them.
        copied: those of which there are several copies.
        coordinated: names of those with logs of transaction coordinators.
        grouped: names of those with logs of group coordinators.
    """

    ids: frozenset[str] = frozenset()
    copied: frozenset[str] = frozenset()
    coordinated: frozenset[str] = frozenset()
    grouped: frozenset[str] = frozenset()

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Clusters:
        """Return the clusters of partitions."""
        return cls.of_members(map(Member.of, partitions))

    @classmethod
    def of_members(cls, members: Iterable[Member]) -> Clusters:
        """Return the clusters of partitions of which no more is known than where they belong."""
        found = list(members)
        some = cls(frozenset(one.cluster_id for one in found if one.cluster_id is not None))
        some = cls(some.ids, frozenset(some._copied(found)))
        return cls(some.ids, some.copied, some._with(TRANSACTION_STATE, found), some._with(CONSUMER_OFFSETS, found))

    def _copied(self, members: Iterable[Member]) -> Iterator[str]:
        copies = Counter[tuple[str, int, str, int | None]]()
        found = defaultdict[str, dict[str, dict[str, set[str | None]]]](lambda: defaultdict(lambda: defaultdict(set)))
        for one in members:
            cluster = self._called(one.cluster_id, one.log_dir)
            if one.topic is not None and one.broker_id is not None:
                copies[cluster, one.broker_id, one.topic, one.partition] += 1
            if one.topic is not None and one.topic_id is not None:
                found[cluster][one.topic][one.topic_id].add(one.log_dir)
        yield from (cluster for (cluster, *_), count in copies.items() if count > 1)
        yield from (cluster for cluster, topics in found.items() if _are_clones(topics))

    def _with(self, topic: str, members: Iterable[Member]) -> frozenset[str]:
        return frozenset(self._name_of(one.cluster_id, one.log_dir) for one in members if one.topic == topic)

    def has_copies(self, members: Iterable[Member]) -> bool:
        """Return whether there may be several copies of a partition in a cluster."""
        seen = Counter((self._name_of(one.cluster_id, one.log_dir), one.topic, one.partition) for one in members)
        return any(count > 1 and topic is not None for (_, topic, _), count in seen.items())

    def name_of(self, partition: Partition) -> str:
        """Return what to call the cluster of a partition."""
        return self._name_of(partition.log_dir.cluster_id, partition.place.log_dir)

    def _name_of(self, cluster_id: str | None, log_dir: str | None) -> str:
        name = self._called(cluster_id, log_dir)
        if name not in self.copied or log_dir is None:
            return name
        return f"{name} in {log_dir.rstrip('/').rpartition('/')[0]}"

    def _called(self, cluster_id: str | None, log_dir: str | None) -> str:
        if cluster_id is not None:
            return cluster_id
        if len(self.ids) > 1:
            return log_dir or NAMELESS
        return next(iter(self.ids), NAMELESS)

    def number(self, name: str) -> int:
        """Return the number of a cluster in which something is judged across partitions."""
        return sorted(self.judged).index(name)

    @property
    def judged(self) -> frozenset[str]:
        """Names of the clusters in which there is anything to be judged across partitions."""
        return self.coordinated | self.grouped

    def is_judged(self, name: str) -> bool:
        """Whether there is anything to be judged across the partitions of a cluster."""
        return name in self.judged


def _are_clones(topics: Mapping[str, Mapping[str, set[str | None]]]) -> bool:
    """Return whether topics have several ids of which nothing tells that they are of the same cluster.

    Args:
        topics: log directories by name and id of a topic.
    """
    alike = (ids.values() for ids in topics.values() if len(ids) == 1)
    shared = {pair for (log_dirs,) in alike for pair in product(log_dirs, repeat=2)}
    apart = (combinations(ids.values(), 2) for ids in topics.values() if len(ids) > 1)
    return any(shared.isdisjoint(product(one, other)) for pairs in apart for one, other in pairs)
