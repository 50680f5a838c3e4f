"""Select the replicas that are searched for duplicates, find records that are in several partitions, and evaluate them.

Rule: a follower fetches the batches of the leader as they are, so what one replica has twice, the others have as well,
unless an older leader's batches were truncated or retention deleted segments at another time.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeAlias

from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.topic_result import INTERNAL, partitions_by_topic
from kforensics.forensics.checks.check import ranked
from kforensics.forensics.checks.topics import TOPIC_CHECKS
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition_pairs import MAX_TOPIC_PARTITIONS
from kforensics.forensics.duplicates.duplicate_rows import DuplicateArray
from kforensics.forensics.duplicates.partition_duplicates import DEFAULT_MEMORY
from kforensics.forensics.duplicates.topic_search import (
    CrossPartitionState,
    PrepareSearch,
    SearchedPartition,
    partition_number,
    search_topic,
)
from kforensics.forensics.partition.epoch_starts import checkpointed_epochs, epochs_in
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import finding_rows
from kforensics.forensics.partition.partition_state import PartitionState


def topics_to_search(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[tuple[Partition, ...]]:
    """Yield the partitions of each topic that has several, one copy of each, by number.

    Of several copies, the one with the highest offset by its files is used.

    Args:
        partitions: all partitions of some topics.
        clusters: all clusters.
    """
    for members in partitions_by_topic(partitions, clusters).values():
        copies: dict[int, list[Partition]] = defaultdict(list)
        for partition in members:
            if partition.segments and partition_number(partition) < MAX_TOPIC_PARTITIONS:
                copies[partition_number(partition)].append(partition)
        if len(copies) > 1:
            yield tuple(max(copies[number], key=_extent) for number in sorted(copies))


def _extent(partition: Partition) -> tuple[tuple[int, int], int]:
    last = partition.segments[-1]
    return (last.base_offset or 0, last.size), -partition.first_offset


# Log directory, topic and partition.
ReplicaKey: TypeAlias = tuple[str | None, str | None, int | None]


@dataclass(frozen=True, slots=True)
class SearchedReplicas:
    """Which partitions are searched for duplicates, and what they report; can be serialized.

    Of several replicas of a partition, the one with the highest offset by its files reports all of its duplicates. Each
    of the others reports only what no longer one has: pairs whose first record is before the beginning of its log, and
    pairs in batches of another leader, by the checkpoints of leader epochs.

    Attributes:
        longer: for each replica but the longest, the first offset and the log directory of each longer one.
        internal: whether internal topics are searched; brokers repeat what they write there.
    """

    longer: Mapping[ReplicaKey, tuple[tuple[int, str], ...]] = field(default_factory=dict)
    internal: bool = False

    @classmethod
    def of(
        cls, members: Iterable[PartitionMembership], clusters: Clusters, *, internal: bool = False
    ) -> SearchedReplicas:
        """Return which of some partitions are searched.

        Args:
            members: all partitions of some clusters.
            clusters: all clusters.
            internal: whether to search internal topics.
        """
        longer: dict[ReplicaKey, tuple[tuple[int, str], ...]] = {}
        for replicas in _replicas(members, clusters):
            # Serialized, one object per name takes a few bytes.
            names = [sys.intern(member.log_dir or "") for member in replicas]
            shown = tuple(zip((member.first_offset for member in replicas), names, strict=True))
            topic = sys.intern(replicas[0].topic or "")
            for rank, name in enumerate(names[1:], 1):
                longer[name, topic, replicas[0].partition] = shown[:rank]
        return cls(longer, internal)

    def is_longest(self, partition: Partition) -> bool:
        """Return whether a partition reports all of its duplicates: it has no longer replica."""
        return _key(partition) not in self.longer

    def may_report(self, partition: Partition) -> bool:
        """Return whether a partition may have duplicates to report, by its files."""
        if partition.place.topic in INTERNAL and not self.internal:
            return False
        shown = self._shown_elsewhere(partition)
        return all(partition.first_offset < start or stop is not None for start, stop in shown)

    def searches(self, state: PartitionState) -> bool:
        """Return whether a partition may have duplicates to report, by its files and the end of its log."""
        start_of_log, end = state.partition.first_offset, state.log_end_offset
        return self.may_report(state.partition) and all(
            start_of_log < start or (stop is not None and stop < end)
            for start, stop in self._shown_elsewhere(state.partition)
        )

    def reported(self, partition: Partition, duplicates: Iterable[DuplicateArray]) -> Iterator[DuplicateArray]:
        """Yield the duplicates of a partition that it reports, part by part."""
        if not self.may_report(partition):
            return
        shown = self._shown_elsewhere(partition)
        for part in duplicates:
            kept = part
            for start, stop in shown:
                is_only_here = kept["first_offset"] < start
                if stop is not None:
                    is_only_here |= kept["second_last_offset"] >= stop
                kept = kept[is_only_here]
            yield kept

    def _shown_elsewhere(self, partition: Partition) -> list[tuple[int, int | None]]:
        """Return the offsets that each longer replica shows as well: the first, and where another leader's begin."""
        longer = self.longer.get(_key(partition), ())
        epochs = checkpointed_epochs(partition) if longer else {}
        paths = [f"{log_dir.rstrip('/')}/{partition.name}/leader-epoch-checkpoint" for _, log_dir in longer]
        return [
            (start, _first_other_epoch(epochs, epochs_in(path), start))
            for (start, _), path in zip(longer, paths, strict=True)
        ]


# For a partition without other replicas.
ONLY_REPLICA = SearchedReplicas()


def _key(partition: Partition) -> ReplicaKey:
    _, log_dir, topic, number = partition.place
    return log_dir, topic, number


def _first_other_epoch(epochs: Mapping[int, int], others: Mapping[int, int], start: int) -> int | None:
    """Return the first offset from a start on that has another leader epoch in two checkpoints, None if there is none.

    Args:
        epochs: start offsets by leader epoch.
        others: those of the other checkpoint; without epochs nothing is known.
        start: offset before which nothing is compared.
    """
    if not epochs or not others:
        return None
    begin = max(start, min(epochs.values()), min(others.values()))
    starts = sorted({begin, *epochs.values(), *others.values()})
    return next((at for at in starts if at >= begin and _epoch_at(epochs, at) != _epoch_at(others, at)), None)


def _epoch_at(epochs: Mapping[int, int], offset: int) -> int:
    return max(epoch for epoch, start in epochs.items() if start <= offset)


def _replicas(members: Iterable[PartitionMembership], clusters: Clusters) -> Iterator[list[PartitionMembership]]:
    """Yield the replicas of each partition that has several, the longest first.

    Which copies are replicas, :func:`.replica.replica_groups` states.
    """
    by_partition: dict[tuple[str, str, int], list[PartitionMembership]] = defaultdict(list)
    for member in members:
        if member.has_log and member.log_dir is not None and member.topic is not None and member.partition is not None:
            by_partition[clusters.name_of_member(member), member.topic, member.partition].append(member)
    for group in by_partition.values():
        ids = {member.topic_id for member in group if member.topic_id is not None}
        only_id = next(iter(ids)) if len(ids) == 1 else None
        by_id: dict[str | None, list[PartitionMembership]] = defaultdict(list)
        for member in sorted(group, key=_length, reverse=True):
            by_id[member.topic_id or only_id].append(member)
        yield from (replicas for replicas in by_id.values() if len(replicas) > 1)


def _length(member: PartitionMembership) -> tuple[tuple[int, int], int, int, str]:
    """Return what is greater for longer replicas; of equal ones, for those of the broker with the lower id."""
    broker_id = -1 if member.broker_id is None else member.broker_id
    return member.last_segment, -member.first_offset, -broker_id, member.log_dir or ""


def cross_partition_states(
    partitions: Sequence[Partition], prepare: PrepareSearch, *, memory: int = DEFAULT_MEMORY, workers: int | None = None
) -> Iterator[CrossPartitionState]:
    """Yield the records of each partition of a topic that were written to another one before.

    Args:
        partitions: one copy of each partition, by number.
        prepare: examines a partition for the search; may raise an InputError.
        memory: approximate bytes of memory to use.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """
    by_number = {partition_number(partition): partition for partition in partitions}
    for searched, runs in search_topic(partitions, prepare, memory=memory, workers=workers):
        yield CrossPartitionState(
            searched.place, searched.folder, searched.first_uncompacted_offset, runs, partial(_path, by_number)
        )


def _path(partitions: dict[int, Partition], number: int, segment: int) -> str:
    return partitions[number].segments[segment].path


def evaluate_cross_partition(state: CrossPartitionState) -> PartitionResult:
    """Return rows and findings on the records of a partition that were written to another one before."""
    findings = ranked(finding for check in TOPIC_CHECKS for finding in check.findings(state))
    rows = {"duplicates": state.rows(), **({"findings": finding_rows(state.place, findings)} if findings else {})}
    return PartitionResult(state.place, state.folder, 0, rows, findings, is_counted=False)


def evaluate_topic_duplicates(
    partitions: Sequence[Partition], clusters: Clusters, rules: Rules, workers: int | None
) -> Iterator[PartitionResult]:
    """Yield the results on records that are in several partitions of a topic.

    Args:
        partitions: all partitions of some clusters.
        clusters: all clusters.
        rules: limits and the time of evaluation.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
    """

    def prepare(partition: Partition) -> SearchedPartition:
        return SearchedPartition.of(examine(partition, rules), workers=workers)

    for members in topics_to_search(partitions, clusters):
        yield from map(evaluate_cross_partition, cross_partition_states(members, prepare, workers=workers))
