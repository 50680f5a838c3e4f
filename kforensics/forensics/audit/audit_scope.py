"""A partition whole, from what to look for in it to its judgement; where it cannot be read, the judgement says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_input import contributing
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.partition_result import Judgement, judge, noters_of, unread, with_records
from kforensics.forensics.checks.partition_checks import GROUPS
from kforensics.forensics.core.external_sort import Sorted, Sorting
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import Examination
from kforensics.forensics.partition.log_chunk import Joining, Split, Stretch, Task, stretches
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, sorting_by_marker

__all__ = ["Asked", "arrived", "departing", "finished", "judged_whole", "summarised", "task_of"]

# Bytes of closed transactions of a split that travel themselves: several splits wait at a time.
TRAVELLING = 4 << 20
IntoRecords = Callable[[Case], Case]


@dataclass(frozen=True, slots=True)
class Asked:
    """What to look for in partitions.

    Attributes:
        rules: limits and the time of evaluation.
        families: which findings, a name in ``families.GROUPS``.
        watches_indexes: whether offset and time indexes are compared with the log.
        records: whether records are decoded, checked and searched for what is there twice.
        clusters: what is judged across partitions; None for nothing.
    """

    rules: Rules
    families: str = "all"
    watches_indexes: bool = True
    records: bool = False
    clusters: Clusters | None = None


def task_of(partition: Partition, asked: Asked, workers: int | None) -> Task:
    """Return what to do with a partition.

    Args:
        partition: its files.
        asked: what to look for.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
    """
    return Task(partition, asked.rules, noters_of(GROUPS[asked.families]), asked.watches_indexes, workers)


def judged_whole(partition: Partition, asked: Asked, workers: int | None) -> Judgement:
    """Return what is to be said of a partition that is read from its beginning to its end.

    Args:
        partition: its files.
        asked: what to look for.
        workers: as for :func:`task_of`.
    """
    task = task_of(partition, asked, workers)
    examination = Examination(task)
    try:
        for segment in range(len(partition.segments)):
            examination.add(stretches(task, Split(segment)))
    except InputError as error:
        return unread(partition.place, partition.folder, partition.size, str(error))
    return finished(partition, asked, examination, None, partial(with_records, workers=workers))


def summarised(
    partition: Partition, asked: Asked, split: Split, cuts: tuple[int, ...] | None = None
) -> tuple[list[Stretch], Sorted, str | None]:
    """Return the stretches of a split as they travel to another process here, or why it cannot be read.

    Args:
        partition: its files.
        asked: what to look for.
        split: which part.
        cuts: offsets at which to cut the log, None for those of the snapshots.

    Returns:
        The stretches without their closed transactions, and these: very many go as a file.
    """
    task, closed = replace(task_of(partition, asked, workers=0), cuts=cuts), sorting_by_marker(TRAVELLING)
    joining = Joining(task)
    try:
        for stretch in stretches(task, split):
            joining.add(_without_closed(stretch, closed))
    except InputError as error:
        return [], closed.finish(), str(error)
    found = [departing(_without_closed(stretch, closed)) for stretch in joining.found()]
    return found, closed.finish(), None


def _without_closed(stretch: Stretch, closed: Sorting) -> Stretch:
    """Return a stretch without its closed transactions, which are taken."""
    closed.add(stretch.rows.transactions)
    return replace(stretch, rows=replace(stretch.rows, transactions=NO_TRANSACTIONS))


def departing(stretch: Stretch) -> Stretch:
    """Return a stretch as it travels: entries of indexes are read again where it arrives."""
    return replace(stretch, evidence=stretch.evidence.without_entries())


def arrived(partition: Partition, stretch: Stretch) -> Stretch:
    """Return a stretch that has travelled, as it was."""
    return replace(stretch, evidence=stretch.evidence.with_entries(partition))


def finished(
    partition: Partition, asked: Asked, examination: Examination, failed: str | None, into_records: IntoRecords
) -> Judgement:
    """Return what is to be said of a partition all of whose stretches were taken.

    Args:
        partition: its files.
        asked: what to look for.
        examination: has taken them.
        failed: why one of them could not be read, None if all could.
        into_records: looks into the records of a case, where that is asked for.
    """
    if failed:
        return unread(partition.place, partition.folder, partition.size, failed)
    try:
        case = examination.case()
        found = judge(into_records(case) if asked.records else case, GROUPS[asked.families])
        return found if asked.clusters is None else contributing(found, case, asked.clusters)
    except InputError as error:
        return unread(partition.place, partition.folder, partition.size, str(error))
