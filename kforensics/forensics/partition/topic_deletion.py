"""Recognizes copies of a partition whose topic was deleted: files that were not copied by then were no longer there.

A broker renames the folder of a deleted partition while a copy of it may be under way. Whatever is missing then, no
broker has the partition any more. Rule: ``LogManager.asyncDelete``.
"""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.rules import COPY_MS, Rules
from kforensics.forensics.partition.log_summary import LogSummary
from kforensics.forensics.partition.partition_files import CLEANER, Partition, is_recreated

__all__ = ["Deletion", "deletion_during_copy", "was_recreated"]

# The files that a broker has for each segment, from its first batch to its deletion.
OF_SEGMENT = frozenset({"log", "index", "timeindex"})
# How many incomplete segments show it. Retention leaves one: those before it are not read as segments of the log.
SEVERAL = 3
# Codes of findings that missing files explain.
OF_MISSING_FILES = frozenset({"segment-missing", "replica-divergence", "replica-txn-state-divergence"})


class Deletion(NamedTuple):
    """How the deletion of a topic explains what is missing in a copy.

    Attributes:
        phrase: what shows it, as a phrase.
        is_known: whether the metadata log shows it, so that nothing in the copy matters any more. Otherwise it is only
            likely, and explains that files are missing.
    """

    phrase: str
    is_known: bool

    def limit(self, severity: Severity, code: str) -> Severity:
        """Return the severity of a finding on such a copy.

        Args:
            severity: its severity without that.
            code: its code.
        """
        if self.is_known:
            return Severity.INFO
        return min(severity, Severity.WARNING) if code in OF_MISSING_FILES else severity


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
        return Deletion(when, is_known=True)
    # A metadata log that goes on shows a deletion; a controller writes to it all the time.
    known_until = max(rules.running_until.values(), default=None)
    if taken is None or (known_until is not None and known_until > taken + COPY_MS):
        return None
    incomplete = _incomplete_segments(partition)
    if incomplete < SEVERAL:
        return None
    return Deletion(
        f"topic deleted while its files were copied, or files lost on the disk: likely, {incomplete} segments lack "
        "some of their files, in the middle of the log, too",
        is_known=False,
    )


def was_recreated(partition: Partition, log: LogSummary, checkpoint: str) -> bool:
    """Return whether the log of a partition is younger than a checkpoint file: the topic was deleted and created again.

    The folder of the deleted log may still be there. A whole log that begins with a batch, or its empty file, from
    after the checkpoint was created since. So was one whose metadata file is newer, but no newer than its batches: in a
    copy without the times of files it would be.

    Args:
        partition: its files.
        log: summary of its log.
        checkpoint: name of the checkpoint file.
    """
    if is_recreated(partition):
        return True
    written, segments = partition.log_dir.written.get(checkpoint), partition.segments
    if written is None or not segments or partition.first_offset != 0:
        return False
    began = int(log.first.max_timestamp[0]) if log.batches else segments[0].mtime_ms
    return (began is not None and began > written) or written < (partition.created_ms or 0) <= log.newest_timestamp


def _incomplete_segments(partition: Partition) -> int:
    """Return how many segments lack some of their files; 0 if none in the middle of the log lacks its log.

    A cleaner, too, takes logs from the middle, one after the other.
    """
    if not partition.segments or not partition.log_dir.checkpoints or partition.checkpoint(CLEANER) is not None:
        return 0
    kinds: dict[int, set[str]] = defaultdict(set)
    for segment in partition.segments:
        kinds[segment.base_offset or 0].add("log")
    for kind, bases in (("index", partition.indexes), ("timeindex", partition.time_indexes)):
        for base in bases:
            kinds[base].add(kind)
    usual = OF_SEGMENT & {kind for present in kinds.values() for kind in present}  # some kinds may not have been copied
    first, last = (partition.segments[number].base_offset or 0 for number in (0, -1))
    lacks_log = any(first < base < last and "log" not in present for base, present in kinds.items())
    return sum(not present >= usual for base, present in kinds.items() if first <= base < last) if lacks_log else 0
