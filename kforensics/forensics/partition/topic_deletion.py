"""Recognizes copies of a partition whose topic was deleted: files that were not copied by then were no longer there.

A broker renames the folder of a deleted partition while a copy of it may be under way. Whatever is missing then, no
broker has the partition any more. Rule: ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.forensics.core.rules import COPY_MS, Rules
from kforensics.forensics.partition.partition_files import CLEANER, Partition

__all__ = ["Deletion", "deletion_during_copy"]

# The files that a broker has for each segment, from its first batch to its deletion.
OF_SEGMENT = frozenset({"log", "index", "timeindex"})
# Those that retention was deleting are no longer among the segments; the first one after them may be incomplete.
SEVERAL = 3


class Deletion(NamedTuple):
    """How the deletion of a topic explains what is missing in a copy.

    Attributes:
        phrase: what shows it, as a phrase.
        worst: the worst severity that a finding on such a copy can have.
    """

    phrase: str
    worst: Severity


def deletion_during_copy(partition: Partition, rules: Rules) -> Deletion | None:
    """Return how the deletion of its topic explains what is missing in a partition; None if it does not.

    Args:
        partition: its files.
        rules: what the metadata log shows.
    """
    deleted = rules.deleted_topics.get(partition.topic_id or "")
    taken = partition.taken_ms
    if deleted is not None and taken is not None and deleted - taken <= COPY_MS:
        when = f"topic deleted at {format_time(deleted)}, before its files were copied or meanwhile: possible"
        return Deletion(when, Severity.INFO)
    incomplete = _incomplete_segments(partition)
    if incomplete < SEVERAL or taken is None:
        return None
    return Deletion(
        f"topic deleted while its files were copied: likely, {format_count(incomplete, 'segment')} lack some of their "
        "files, in the middle of the log, too",
        Severity.WARNING,
    )


def _incomplete_segments(partition: Partition) -> int:
    """Return how many segments lack some of their files; 0 if none in the middle of the log lacks its log.

    A cleaner, too, takes logs from the middle, one after the other. Of a folder that is not that of a broker, only some
    kinds of files may have been copied.
    """
    if not partition.segments or not partition.log_dir.checkpoints or partition.checkpoint(CLEANER) is not None:
        return 0
    kinds: dict[int, set[str]] = defaultdict(set)
    for segment in partition.segments:
        kinds[segment.base_offset or 0].add("log")
    for kind, bases in (("index", partition.indexes), ("timeindex", partition.time_indexes)):
        for base in bases:
            kinds[base].add(kind)
    first, last = (partition.segments[number].base_offset or 0 for number in (0, -1))
    lacks_log = any(first < base < last and "log" not in present for base, present in kinds.items())
    return sum(not present >= OF_SEGMENT for base, present in kinds.items() if first <= base < last) if lacks_log else 0
