"""From the files of several replicas to their comparison."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from kforensics.forensics.core.rules import Rules
from kforensics.forensics.metadata.elections import Election
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.replicas.comparison import Comparison, UnlikeRecords
from kforensics.forensics.replicas.differences import Differences, Kind
from kforensics.forensics.replicas.key_differences import KeyDifference, key_differences
from kforensics.forensics.replicas.lost_records import branches, lost_records
from kforensics.forensics.replicas.offset_contents import SameOffsets
from kforensics.forensics.replicas.replica import Replica, replicas_of
from kforensics.forensics.replicas.side_by_side import Batches, windows
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["compared", "compared_cases"]


def compared(
    partitions: Sequence[Partition],
    rules: Rules,
    elections: Sequence[Election] = (),
    kernels: Choice = kernels_for,
    workers: int | None = None,
) -> Comparison:
    """Return where the replicas of one partition differ.

    Each log is read twice, once for what it amounts to and once beside the others.

    Args:
        partitions: two or more copies of one partition.
        rules: limits and the time of evaluation.
        elections: of its leaders, if the cluster's metadata is at hand.
        kernels: gives the compiled kernels.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    cases = [examine(partition, rules, kernels=kernels) for partition in partitions]
    return compared_cases(cases, elections, kernels, workers)


def compared_cases(
    cases: Sequence[Case],
    elections: Sequence[Election] = (),
    kernels: Choice = kernels_for,
    workers: int | None = None,
) -> Comparison:
    """Return where replicas differ of which is known already what each amounts to; their logs are read once more.

    Records are decoded only where replicas differ, and of keys that cleaning may have left differently.

    Args:
        cases: of two or more copies of one partition.
        elections: as for :func:`compared`, as are the next two.
        kernels: see there.
        workers: see there.

    Raises:
        InputError: a segment cannot be read.
    """
    replicas = replicas_of(cases)
    pairs = [_Pair.of(first, second, kernels, workers) for first, second in combinations(replicas, 2)]
    for window in windows([case.partition for case in cases], kernels, workers):
        for pair in pairs:
            pair.add(window)
    found = tuple(one for pair in pairs for one in pair.differences.found())
    comparison = Comparison(
        replicas,
        found,
        common={pair.numbers: pair.differences.common for pair in pairs},
        branches=tuple(branches(replicas, found)),
        unlike_records=UnlikeRecords(
            tuple(one for pair in pairs for one in pair.records.found), sum(pair.records.count for pair in pairs)
        ),
        elections=tuple(elections),
    )
    return replace(
        comparison,
        lost=lost_records(comparison.branches, kernels, workers),
        unlike_keys=tuple(_unlike_keys(comparison, kernels)),
    )


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two replicas while they are read.

    Attributes:
        numbers: of the two.
        differences: where their batches differ.
        records: where the records of batches differ that cleaners have thinned out.
    """

    numbers: tuple[int, int]
    differences: Differences
    records: SameOffsets

    @classmethod
    def of(cls, first: Replica, second: Replica, kernels: Choice, workers: int | None) -> _Pair:
        """Return two replicas of which nothing was read yet."""
        records = SameOffsets(first, second, kernels, workers)
        return cls((first.number, second.number), Differences(first, second), records)

    def add(self, window: Sequence[Batches]) -> None:
        """Take a window of all replicas."""
        first, second = self.differences.add(*(window[number] for number in self.numbers))
        self.records.add(first, second)


def _unlike_keys(comparison: Comparison, kernels: Choice) -> Iterator[KeyDifference]:
    for first, second in comparison.pairs():
        end = comparison.agrees_to(first, second)
        for found in comparison.of_pair(first, second, Kind.CLEANED):
            if found.first_offset < end:
                yield from key_differences(first, second, found, end, kernels)
