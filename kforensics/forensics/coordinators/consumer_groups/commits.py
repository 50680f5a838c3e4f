"""Offsets that groups committed, in the order in which they took effect.

Rule: ``OffsetMetadataManager.replay`` and ``replayEndTransactionMarker``: what a transaction commits takes effect with
its COMMIT marker, unless a commit that stands behind it in the log has done so before.
"""

from __future__ import annotations

from collections.abc import Callable

from kforensics.forensics.coordinators.consumer_groups.commit_columns import CommitColumns
from kforensics.forensics.coordinators.consumer_groups.commit_records import commits_by_record
from kforensics.forensics.coordinators.consumer_groups.commit_replay import commits_in_columns
from kforensics.forensics.coordinators.consumer_groups.commit_types import (
    Commit,
    CommitRecord,
    CommitRemark,
    Commits,
    GroupPartition,
    Seat,
    Spoken,
)
from kforensics.forensics.partition.partition_state import CONSUMER_OFFSETS, Case
from kforensics.parsers.columns.record_columns import WORTH_COLUMNS
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["Commit", "CommitRecord", "CommitRemark", "Commits", "GroupPartition", "Seat", "Spoken", "commits_of"]


def commits_of(
    case: Case, keep: Callable[[CommitRecord | CommitColumns], None] | None = None, kernels: Choice = kernels_for
) -> Commits:
    """Return the offsets in a partition of ``__consumer_offsets``; its log is read once more.

    Args:
        case: the partition, examined as any other one is.
        keep: told of all records with a committed offset, in the order of the log; of those of a log that is not small
            many at a time.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.

    Raises:
        InputError: a segment cannot be read.
        ValueError: it is a partition of another topic.
    """
    if case.partition.place.topic != CONSUMER_OFFSETS:
        raise ValueError(f"{case.partition.name} holds no offsets of groups")
    if case.partition.size < WORTH_COLUMNS:
        return commits_by_record(case, keep)
    return commits_in_columns(case, keep, kernels)
