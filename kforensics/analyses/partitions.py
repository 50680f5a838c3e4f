"""Finds the partitions under paths and examines them one after the other: what every question begins with."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from kforensics.analyses.dump import Outcome, find_files
from kforensics.errors import InputError, UsageError
from kforensics.forensics.audit.cluster_membership import Clusters
from kforensics.forensics.audit.copy_ages import as_of_sentences
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_files import Partition, partitions_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["Examined", "Investigation", "investigate"]

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Examined:
    """A partition and what its log amounts to.

    Attributes:
        partition: its files.
        case: None if it could not be read.
        why: then half a sentence that completes "cannot read <path>: …".
    """

    partition: Partition
    case: Case | None
    why: str | None = None


@dataclass(frozen=True)  # no slots: what is asked for often is computed once
class Investigation:
    """Partitions to examine.

    Attributes:
        files: everything found under the paths.
        partitions: those with a live log, by log directory, topic and number.
        rules: limits and the time of evaluation.
        unreadable: how many paths could not be looked into.
    """

    files: tuple[FoundFile, ...]
    partitions: tuple[Partition, ...]
    rules: Rules
    unreadable: int = 0

    @cached_property
    def clusters(self) -> Clusters:
        """The clusters that the partitions belong to."""
        return Clusters.of(self.partitions)

    def examined(self, noters: Sequence[Noter] = (), kernels: Choice = kernels_for) -> Iterator[Examined]:
        """Yield the partitions as they have been read; one that cannot be does not keep the others from it.

        Args:
            noters: what checks want to note as batches go by.
            kernels: gives the compiled kernels.
        """
        for partition in self.partitions:
            try:
                yield Examined(partition, examine(partition, self.rules, noters, kernels))
            except InputError as error:
                yield Examined(partition, None, str(error))


def investigate(
    paths: Sequence[str], as_of_ms: int | None, say: Say, note: Say, *, topics: Sequence[str] = ()
) -> Investigation:
    """Return what is to be examined under paths.

    Args:
        paths: files, partition folders, log directories or URIs; globs work.
        as_of_ms: time of evaluation; None for the newest modification time among the inputs, which is then said.
        say: told what cannot be looked into.
        note: told as of when is judged, if that was not given, and which copies are judged as of before.
        topics: only partitions of these, all if none is named.

    Raises:
        UsageError: nothing under the paths is a log.
    """
    outcome = Outcome()
    files = find_files(tuple(paths), say, outcome)
    partitions = partitions_of(files)
    if topics:
        partitions = [partition for partition in partitions if partition.place.topic in topics]
    if not partitions and not outcome.unreadable:
        where = ", ".join(paths)
        raise UsageError(f"there is no log under {where}; name partition folders, log directories or .log files")
    newest = max((one.newest_mtime_ms for one in partitions if one.newest_mtime_ms is not None), default=0)
    rules = Rules(newest, is_assumed=True) if as_of_ms is None else Rules(as_of_ms)
    if partitions:
        for sentence in as_of_sentences(((one.place.log_dir, one.taken_ms) for one in partitions), rules):
            note(sentence)
    return Investigation(tuple(files), tuple(partitions), rules, outcome.unreadable)
