"""Which copies of partitions an audit holds against each other, and what is said of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from kforensics.errors import InputError
from kforensics.forensics.across.membership import Clusters
from kforensics.forensics.judgement import Judgement
from kforensics.forensics.partition import Partition
from kforensics.forensics.replicas.elections import Election, elections_in
from kforensics.forensics.replicas.judgement import compare_replicas
from kforensics.forensics.replicas.replica import replica_groups
from kforensics.forensics.rules import Rules
from kforensics.parsers.log_rows import Place

__all__ = ["Copies", "compared_copies", "copies_among"]


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


def copies_among(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[Copies]:
    """Yield the copies that there are of the same partition, cluster by cluster.

    Of several copies of one broker, taken at several times, the newest stands for it.

    Args:
        partitions: of any clusters.
        clusters: all clusters.
    """
    by_cluster: dict[str, list[Partition]] = defaultdict(list)
    for one in partitions:
        by_cluster[clusters.name_of(one)].append(one)
    for some in by_cluster.values():
        groups = [group for group in map(_newest, replica_groups(some)) if len(group) > 1]
        elections = _elections(some) if groups else {}
        for group in groups:
            yield Copies(group, _of(group, elections))


def _newest(copies: Sequence[Partition]) -> tuple[Partition, ...]:
    """Return one copy of each broker; those of unknown brokers are told apart by their log directories."""
    newest: dict[int | str | None, Partition] = {}
    for one in sorted(copies, key=lambda one: one.newest_mtime_ms or 0):
        place = one.place
        newest[place.log_dir if place.broker_id is None else place.broker_id] = one
    return tuple(one for one in copies if one in newest.values())


def _elections(partitions: Iterable[Partition]) -> Mapping[tuple[str, int], tuple[Election, ...]]:
    try:
        return elections_in(partitions)
    except InputError:
        return {}  # who judges the metadata's own log says so


def _of(copies: Sequence[Partition], elections: Mapping[tuple[str, int], tuple[Election, ...]]) -> tuple[Election, ...]:
    number = copies[0].place.partition
    topic_id = next((one.topic_id for one in copies if one.topic_id is not None), None)
    return () if topic_id is None or number is None else elections.get((topic_id, number), ())


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
