"""Signs in the files of a partition that its cleaner has been at work."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.forensics.core.observations import Observed, observations_of
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import DELETED, Partition
from kforensics.parsers.files.discover import FoundFile

__all__ = ["has_gaps_of_a_cleaner", "has_replaced_segment", "logs_in"]

# Gaps inside segments from which on a cleaner is more likely than a loss.
LEAST_GAPS = 3


def logs_in(partition: Partition, *states: str) -> Iterator[FoundFile]:
    """Yield the ``.log`` files of a partition in some of the states that files may have beside LIVE."""
    return (file for file in partition.others if file.kind == "log" and file.state in states)


def has_replaced_segment(partition: Partition) -> bool:
    """Return whether a segment has a file marked for deletion beside its own: the cleaner has replaced it.

    Rule: ``LocalLog.replaceSegments``.
    """
    bases = {segment.base_offset for segment in partition.segments}
    return any(file.base_offset in bases for file in logs_in(partition, DELETED))


def has_gaps_of_a_cleaner(partition: Partition, log: LogSummary) -> bool:
    """Return whether batches are missing inside segments in several places, but not in the active one.

    No cleaner reads that one. A lost segment leaves a gap between two others, and lost bytes leave damage.
    """
    gaps = observations_of(log.observations, Observed.OFFSET_GAP)
    bases = np.array([segment.base_offset or 0 for segment in partition.segments], "i8")
    inside = gaps["previous"] + 1 > bases[gaps["segment"]]
    is_active = gaps["segment"][inside] == len(bases) - 1
    return len(is_active) >= LEAST_GAPS and not is_active.any() and not log.damage
