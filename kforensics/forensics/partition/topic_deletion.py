"""Recognizes copies of a partition whose topic was deleted: files that were not copied by then were no longer there.

A broker renames the folder of a deleted partition while a copy of it may be under way. Whatever is missing then, no
broker has the partition any more. Rule: ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.rules import COPY_MS, Rules
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["deletion_during_copy"]


def deletion_during_copy(partition: Partition, rules: Rules) -> str | None:
    """Return how the deletion of its topic explains what is missing in a partition, as a phrase; None if it does not.

    Args:
        partition: its files.
        rules: what the metadata log shows.
    """
    deleted = rules.deleted_topics.get(partition.topic_id or "")
    taken = partition.taken_ms
    if deleted is None or taken is None or deleted - taken > COPY_MS:
        return None
    return f"topic deleted at {format_time(deleted)}, before its files were copied or meanwhile: possible"
