"""Find out which cluster each partition belongs to, and which clusters have logs of coordinators."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from kforensics.forensics.coordinators.coordinator_records import TRANSACTION_STATE
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.cluster_copies import CopiedLogDir, copy_folders
from kforensics.forensics.partition.log_places import LogPlace
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS
from kforensics.parsers.files.log_names import METADATA_TOPIC

# Name of the only cluster if no log directory has a cluster id.
NAMELESS = ""


class PartitionMembership(NamedTuple):
    """The attributes of a partition that determine its cluster.

    Attributes:
        cluster_id: cluster id from ``meta.properties`` of the log directory.
        log_dir: the log directory.
        broker_id: broker id from ``meta.properties``.
        topic: topic.
        partition: partition number.
        topic_id: topic id from ``partition.metadata``.
        directory_id: directory id from ``meta.properties``.
        has_log: whether it has any segment, and not only empty ones that had data.
        first_offset: base offset of its first segment.
        last_segment: base offset and size of its last segment.
        copied_ms: the newest modification time of its files and of the checkpoints beside it; None if there is none.
        cleaned_to: offset that its cleaner has reached, None if the cleaner's checkpoint does not list this log.
    """

    cluster_id: str | None
    log_dir: str | None
    broker_id: int | None
    topic: str | None
    partition: int | None
    topic_id: str | None
    directory_id: str | None = None
    has_log: bool = True
    first_offset: int = 0
    last_segment: tuple[int, int] = (0, 0)
    copied_ms: int | None = None
    cleaned_to: int | None = None

    @classmethod
    def of(cls, partition: Partition) -> PartitionMembership:
        """Return the attributes of a partition."""
        (broker_id, path, topic, number), log_dir = partition.place, partition.log_dir
        ids = partition.topic_id, log_dir.directory_id
        last = next(((segment.base_offset or 0, segment.size) for segment in partition.segments[-1:]), (0, 0))
        extent, copied_ms = (partition.first_offset, last), partition.copied_ms
        known = log_dir.cluster_id, path, broker_id, topic, number, *ids, partition.has_log, *extent, copied_ms
        return cls(*known, partition.cleaned_to)

    @property
    def log_place(self) -> LogPlace:
        """Where it is, and whether its log is there."""
        ids = self.cluster_id, self.broker_id, self.log_dir, self.directory_id
        return LogPlace(*ids, self.topic, self.partition, self.has_log)


def with_cluster_times(rules: Rules, members: Iterable[PartitionMembership], clusters: Clusters) -> Rules:
    """Return rules by which clusters, and copies of one, that were copied long before others have their own time.

    Nothing is known of them from later on, though they may have been stopped.

    Args:
        rules: limits and the time of evaluation.
        members: all partitions.
        clusters: their clusters.
    """
    if not rules.is_assumed:
        return rules
    log_dirs, times = dict[str | None, str](), dict[str, int]()
    for member in members:
        name = log_dirs[member.log_dir] = clusters.name_of_member(member)
        times[name] = max(member.copied_ms or 0, times.get(name, 0))
    earlier = {name: time for name, time in times.items() if 0 < time < rules.as_of_ms - rules.late_buffer_ms}
    if len(times) == 1 or len(earlier) == len(times):
        return rules
    return replace(rules, cluster_times={path: earlier[name] for path, name in log_dirs.items() if name in earlier})


@dataclass(frozen=True, slots=True)
class Clusters:
    """The clusters of some partitions; small enough to send to every worker.

    A log directory whose ``meta.properties`` has no cluster id belongs to the only cluster there is. If there are
    several, its cluster is unknown, and it counts as a cluster of its own.

    If two log directories of a broker are copies of one, or a topic has two ids, the cluster was copied several times,
    or cloned, and log directories belong together according to their folders:
    :mod:`kforensics.forensics.partition.cluster_copies`.

    Attributes:
        ids: ids of all clusters, from ``meta.properties``.
        copies: the folder of its copy, by log directory, in clusters that have several copies.
        coordinated: names of the clusters with logs of transaction coordinators.
        grouped: names of the clusters with logs of group coordinators.
        controlled: names of the clusters with a log of their metadata, which has the leader elections.
    """

    ids: frozenset[str] = frozenset()
    copies: Mapping[str, str] = field(default_factory=dict)
    coordinated: frozenset[str] = frozenset()
    grouped: frozenset[str] = frozenset()
    controlled: frozenset[str] = frozenset()

    @classmethod
    def of(cls, partitions: Iterable[Partition]) -> Clusters:
        """Return the clusters of partitions."""
        return cls.of_members(map(PartitionMembership.of, partitions))

    @classmethod
    def of_members(cls, members: Iterable[PartitionMembership]) -> Clusters:
        """Return the clusters of partitions, given only the attributes that determine them."""
        members = [member for member in members if member.has_log]
        clusters = cls(frozenset(member.cluster_id for member in members if member.cluster_id is not None))
        clusters = cls(clusters.ids, clusters._copies(members))
        topics = (TRANSACTION_STATE, CONSUMER_OFFSETS, METADATA_TOPIC)
        return cls(clusters.ids, clusters.copies, *(clusters._with_topic(topic, members) for topic in topics))

    def _copies(self, members: Iterable[PartitionMembership]) -> dict[str, str]:
        log_dirs = defaultdict[str, dict[str, CopiedLogDir]](dict)
        for member in members:
            if member.topic is not None and member.log_dir is not None:
                cluster = log_dirs[self._uncopied_name(member.cluster_id, member.log_dir)]
                empty = CopiedLogDir(member.log_dir, member.broker_id, member.directory_id)
                log_dir = cluster.setdefault(member.log_dir, empty)
                log_dir.add(member.topic, member.partition, member.topic_id, member.copied_ms)
        folders = (copy_folders([*cluster.values()]) for cluster in log_dirs.values())
        return {log_dir: folder for copies in folders for log_dir, folder in copies.items()}

    def _with_topic(self, topic: str, members: Iterable[PartitionMembership]) -> frozenset[str]:
        with_topic = (member for member in members if member.topic == topic)
        return frozenset(self._name_of(member.cluster_id, member.log_dir) for member in with_topic)

    def has_copies(self, members: Iterable[PartitionMembership]) -> bool:
        """Return whether a cluster may have several copies of a partition."""
        copies = Counter(
            (self._name_of(member.cluster_id, member.log_dir), member.topic, member.partition) for member in members
        )
        return any(count > 1 and topic is not None for (_, topic, _), count in copies.items())

    def name_of(self, partition: Partition) -> str:
        """Return the name of the cluster of a partition."""
        return self._name_of(partition.log_dir.cluster_id, partition.place.log_dir)

    def name_of_member(self, member: PartitionMembership) -> str:
        """Return the name of the cluster of a partition, given only its attributes."""
        return self._name_of(member.cluster_id, member.log_dir)

    def _name_of(self, cluster_id: str | None, log_dir: str | None) -> str:
        name = self._uncopied_name(cluster_id, log_dir)
        folder = None if log_dir is None else self.copies.get(log_dir)
        return name if folder is None else f"{name} in {folder}"

    def _uncopied_name(self, cluster_id: str | None, log_dir: str | None) -> str:
        if cluster_id is not None:
            return cluster_id
        if len(self.ids) > 1:
            return log_dir or NAMELESS
        return next(iter(self.ids), NAMELESS)

    def number(self, name: str) -> int:
        """Return the number of a cluster among those with cluster checks."""
        return sorted(self.checked).index(name)

    @property
    def checked(self) -> frozenset[str]:
        """Names of the clusters with cluster checks: those that have logs of coordinators or of metadata."""
        return self.coordinated | self.grouped | self.controlled

    def has_cluster_checks(self, name: str) -> bool:
        """Return whether there are checks across the partitions of a cluster."""
        return name in self.checked
