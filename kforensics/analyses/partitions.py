"""Finds the partitions under paths and replays their logs. Every question begins here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from kforensics.analyses.find_files import Notify, find_files
from kforensics.errors import InputError, UsageError
from kforensics.forensics.core.formatting import format_count, format_duration, format_time
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile

if TYPE_CHECKING:
    from kforensics.forensics.audit.cluster_membership import Clusters

# Takes the error of a partition that cannot be read.
OnUnreadable: TypeAlias = Callable[[InputError], None]
# How many old log directories are named.
NAMED_LOG_DIRS = 10


@dataclass(frozen=True)  # no slots: cached_property needs the instance dictionary
class Investigation:
    """The partitions to analyze.

    Attributes:
        files: all files under the paths.
        partitions: the partitions with a live log, by log directory, topic and number.
        rules: limits and the time of evaluation.
        unreadable: how many paths cannot be read.
    """

    files: tuple[FoundFile, ...]
    partitions: tuple[Partition, ...]
    rules: Rules
    unreadable: int = 0

    @cached_property
    def clusters(self) -> Clusters:
        """The clusters that the partitions belong to."""
        from kforensics.forensics.audit.cluster_membership import Clusters  # most questions are about one partition

        return Clusters.of(self.partitions)

    def of(self, partitions: Sequence[Partition]) -> Investigation:
        """Return the investigation of some of the partitions."""
        return replace(self, partitions=tuple(partitions))

    def states(self, on_unreadable: OnUnreadable, collectors: Sequence[Collector] = ()) -> Iterator[PartitionState]:
        """Yield the state of each partition that can be read.

        Args:
            on_unreadable: takes the error of a partition that cannot be read; the next partition follows.
            collectors: what checks observe while the batches are read.
        """
        for partition in self.partitions:
            try:
                yield examine(partition, self.rules, collectors)
            except InputError as error:
                on_unreadable(error)


def investigate(
    paths: Sequence[str], as_of_ms: int | None, warn: Notify, note: Notify, *, topics: Sequence[str] = ()
) -> Investigation:
    """Return the partitions under the paths.

    Args:
        paths: files, partition folders, log directories, globs or URIs.
        as_of_ms: time of evaluation; None for the newest modification time of the files.
        warn: takes a sentence for each path that cannot be read.
        note: takes a sentence on the time of evaluation if it is assumed, and on copies that are older.
        topics: only partitions of these topics; all topics if it is empty.

    Raises:
        UsageError: there is no log under the paths.
    """
    files, unreadable = find_files(paths, warn)
    partitions = partitions_of(files)
    if topics:
        partitions = [partition for partition in partitions if partition.place.topic in topics]
    if not partitions and not unreadable:
        where = ", ".join(paths)
        raise UsageError(f"there is no log under {where}; name partition folders, log directories or .log files")
    mtimes = [partition.newest_mtime_ms for partition in partitions if partition.newest_mtime_ms is not None]
    rules = Rules(max(mtimes, default=0), is_assumed=True) if as_of_ms is None else Rules(as_of_ms)
    if partitions:
        copy_times = ((partition.place.log_dir, partition.taken_ms) for partition in partitions)
        for sentence in as_of_notes(copy_times, rules):
            note(sentence)
    return Investigation(tuple(files), tuple(partitions), rules, unreadable)


def as_of_notes(copy_times: Iterable[tuple[str | None, int | None]], rules: Rules) -> Iterator[str]:
    """Yield sentences on an assumed time of evaluation, and on log directories evaluated as of an earlier time.

    Args:
        copy_times: log directory and time of the copy of each partition; None for an unknown value.
        rules: limits and the time of evaluation.
    """
    if not rules.is_assumed:
        return
    yield (
        f"evaluated as of {format_time(rules.as_of_ms)}, the modification time of the newest file;"
        " set another time with --as-of"
    )
    newest: dict[str, int] = {}
    for log_dir, time in copy_times:
        if log_dir is not None and time is not None:
            newest[log_dir] = max(time, newest.get(log_dir, time))
    old = [(time, log_dir) for log_dir, time in newest.items() if rules.as_of_ms - time > rules.max_txn_timeout_ms]
    for time, log_dir in sorted(old)[:NAMED_LOG_DIRS]:
        yield (
            f"{log_dir} was copied {format_duration(rules.as_of_ms - time)} earlier, while its broker was running or"
            f" after it crashed: its open transactions are evaluated as of {format_time(time)}"
        )
    if len(old) > NAMED_LOG_DIRS:
        yield f"… and {format_count(len(old) - NAMED_LOG_DIRS, 'more log directory', 'more log directories')}"
