"""Find records that are in several partitions of a topic, and evaluate them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copies import copies_among
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.audit.topic_result import partitions_by_topic
from kforensics.forensics.checks.check import ranked
from kforensics.forensics.checks.topics import TOPIC_CHECKS
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition_pairs import MAX_TOPIC_PARTITIONS
from kforensics.forensics.duplicates.partition_duplicates import DEFAULT_MEMORY
from kforensics.forensics.duplicates.topic_search import (
    CrossPartitionState,
    PrepareSearch,
    SearchedPartition,
    partition_number,
    search_topic,
)
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import finding_rows


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


def without_other_copies(partitions: Sequence[Partition], clusters: Clusters) -> list[Partition]:
    """Return the partitions, of those with copies on several brokers the one with the highest offset by its files.

    Args:
        partitions: all partitions of some clusters.
        clusters: all clusters.
    """
    others: set[str] = set()
    for copies in copies_among(partitions, clusters):
        longest = max(copies.partitions, key=_extent)
        others |= {partition.folder for partition in copies.partitions if partition is not longest}
    return [partition for partition in partitions if partition.folder not in others]


def _extent(partition: Partition) -> tuple[int, int, int]:
    last = partition.segments[-1]
    return last.base_offset or 0, last.size, -partition.first_offset


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
