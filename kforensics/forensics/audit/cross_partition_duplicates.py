"""What stands in several partitions of a topic: which partitions are searched, and what is said of what is found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import Judgement, ranked
from kforensics.forensics.audit.topic_keys import topics_among
from kforensics.forensics.checks.topic_checks import TOPIC_FAMILIES
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition import AcrossCase
from kforensics.forensics.duplicates.partition_duplicates import MEMORY
from kforensics.forensics.duplicates.topic_pairs import MOST_PARTITIONS
from kforensics.forensics.duplicates.topic_search import Search, Searched, across_partitions, number_of
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_rows import finding_rows

__all__ = ["across_in", "judged_across", "judged_duplicates", "searched_topics"]


def searched_topics(partitions: Iterable[Partition], clusters: Clusters) -> Iterator[tuple[Partition, ...]]:
    """Yield the partitions of each topic of which there are two or more, one copy of each, by number.

    Of several copies that one is taken whose files reach furthest.

    Args:
        partitions: all partitions of some topics.
        clusters: all clusters.
    """
    for some in topics_among(partitions, clusters).values():
        copies: dict[int, list[Partition]] = defaultdict(list)
        for one in some:
            if one.segments and number_of(one) < MOST_PARTITIONS:
                copies[number_of(one)].append(one)
        if len(copies) > 1:
            yield tuple(max(copies[number], key=_reach) for number in sorted(copies))


def _reach(partition: Partition) -> tuple[int, int, int]:
    last = partition.segments[-1]
    return last.base_offset or 0, last.size, -partition.first_offset


def across_in(
    partitions: Sequence[Partition], searched: Search, *, memory: int = MEMORY, workers: int | None = None
) -> Iterator[AcrossCase]:
    """Yield what partitions of a topic have that was written to others of it before.

    Args:
        partitions: one copy of each, by number.
        searched: examines one of them; may raise an InputError.
        memory: bytes to work in, about.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
    """
    by_number = {number_of(one): one for one in partitions}
    for one, runs in across_partitions(partitions, searched, memory=memory, workers=workers):
        yield AcrossCase(one.place, one.folder, one.strict_from, runs, partial(_path, by_number))


def _path(partitions: dict[int, Partition], number: int, segment: int) -> str:
    return partitions[number].segments[segment].path


def judged_across(case: AcrossCase) -> Judgement:
    """Return rows and findings on what a partition has that was written to others before."""
    found = ranked(finding for family in TOPIC_FAMILIES for finding in family.findings(case))
    rows = {"duplicates": case.rows(), **({"findings": finding_rows(case.place, found)} if found else {})}
    return Judgement(case.place, case.folder, 0, rows, found, is_counted=False)


def judged_duplicates(
    partitions: Sequence[Partition], clusters: Clusters, rules: Rules, workers: int | None
) -> Iterator[Judgement]:
    """Yield what is said of what stands in several partitions of topics.

    Args:
        partitions: all partitions of some clusters.
        clusters: all clusters.
        rules: limits and the time of evaluation.
        workers: as for :func:`across_in`.
    """

    def searched(partition: Partition) -> Searched:
        return Searched.of(examine(partition, rules), workers=workers)

    for some in searched_topics(partitions, clusters):
        yield from map(judged_across, across_in(some, searched, workers=workers))
