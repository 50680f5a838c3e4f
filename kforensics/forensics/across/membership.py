"""Which cluster a partition belongs to, and what is to be judged there across partitions."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kforensics.forensics.case import CONSUMER_OFFSETS
from kforensics.forensics.cluster.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.partition import LogDir, Partition

__all__ = ["Clusters"]

# How the only cluster is called if no log directory says what it is.
NAMELESS = ""


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters among some partitions; a small value that goes to every worker.

    A log directory whose ``meta.properties`` names no cluster belongs to the only one there is. Where several are
    named, nobody can tell to which, and it stands alone.

    A cluster of which one broker has a partition twice, or a topic has two ids, was copied at several times, or cloned.
    Then only log directories in the same folder belong together.

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
        found = list(partitions)
        some = cls(frozenset(one.log_dir.cluster_id for one in found if one.log_dir.cluster_id is not None))
        some = cls(some.ids, frozenset(some._copied(found)))
        return cls(some.ids, some.copied, some._with(TRANSACTION_STATE, found), some._with(CONSUMER_OFFSETS, found))

    def _copied(self, partitions: Iterable[Partition]) -> Iterator[str]:
        copies = Counter[tuple[str, int, str, int | None]]()
        topic_ids = defaultdict[tuple[str, str], set[str]](set)
        for one in partitions:
            cluster, place = self._called(one.log_dir), one.place
            if place.topic is None:
                continue
            if place.broker_id is not None:
                copies[cluster, place.broker_id, place.topic, place.partition] += 1
            if one.topic_id is not None:
                topic_ids[cluster, place.topic].add(one.topic_id)
        yield from (cluster for (cluster, *_), count in copies.items() if count > 1)
        yield from (cluster for (cluster, _), ids in topic_ids.items() if len(ids) > 1)

    def _with(self, topic: str, partitions: Iterable[Partition]) -> frozenset[str]:
        return frozenset(self.name_of(one.log_dir) for one in partitions if one.place.topic == topic)

    def name_of(self, log_dir: LogDir) -> str:
        """Return what to call the cluster of a log directory."""
        name = self._called(log_dir)
        if name not in self.copied or log_dir.path is None:
            return name
        return f"{name} in {log_dir.path.rstrip('/').rpartition('/')[0]}"

    def _called(self, log_dir: LogDir) -> str:
        if log_dir.cluster_id is not None:
            return log_dir.cluster_id
        if len(self.ids) > 1:
            return log_dir.path or NAMELESS
        return next(iter(self.ids), NAMELESS)

    def is_judged(self, name: str) -> bool:
        """Whether there is anything to be judged across the partitions of a cluster."""
        return name in self.coordinated or name in self.grouped
