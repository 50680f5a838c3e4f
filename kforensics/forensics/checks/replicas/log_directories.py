"""Checks that no partition is in two log directories of a broker.

Rule: ``LogManager.loadLog``; ``kforensics forecast`` shows the exception.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import shell_word
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_size, format_time
from kforensics.forensics.forecast.metadata_loading import metadata_beside
from kforensics.forensics.partition.partition_files import Partition

__all__ = ["CHECK", "CODES", "Pair", "findings"]

# Two folders of one partition of one broker, the one with the newer files last.
Pair: TypeAlias = tuple[Partition, Partition]

CODES = by_name(
    Code(
        "partition-in-two-log-dirs",
        Severity.CRITICAL,
        meaning="A broker has two folders of the same partition, and refuses to start.",
        remedy=(
            "While the broker is stopped, move one of the two out of its log directories: the one that lacks records, "
            "or the older one."
        ),
        why=(
            "A log directory failed and came back after the partition had been created again in another one; or the "
            "broker was killed when a replica that moves between log directories took the place of the old one; or a "
            "folder was copied by hand. The broker ends with an IllegalStateException: Duplicate log directories."
        ),
        benign=(
            "Copied while the replica moved from one log directory to the other, or two copies of one log directory "
            "that have no ids (before 3.7): a warning, if the broker was not shut down cleanly or there is no id."
        ),
    )
)
REMEDY = (
    "Look at both: `kforensics verify {folders}`. While the broker is stopped, move one of them out of its log "
    "directories: the one that lacks records, or the older one. Then see what a start does, with all log directories "
    "of the broker: `kforensics forecast {log_dirs}`."
)
WHILE_MOVING = "copied while the replica moved between log directories: not ruled out"
SAME_DIRECTORY = "copies of the same log directory: not ruled out, neither has an id"


def findings(pair: Pair) -> Iterator[Finding]:
    """Yield that a broker would load both folders as the same partition."""
    older, newer = pair
    log_dirs = older.log_dir, newer.log_dir
    if log_dirs[0].path == log_dirs[1].path or _are_stray(pair):
        return  # start-refused, of the log directory; or start-stray, of both
    benign = []
    if not all(log_dir.clean_shutdown for log_dir in log_dirs):
        benign.append(WHILE_MOVING)
    if all(log_dir.directory_id is None for log_dir in log_dirs):
        benign.append(SAME_DIRECTORY)
    code = CODES["partition-in-two-log-dirs"]
    yield Finding(
        code=code,
        message=(
            f"One broker has the partition in two folders and does not start with both: {_described(older)}, and "
            f"{_described(newer)}."
        ),
        severity=Severity.WARNING if benign else code.severity,
        evidence={"replica": newer.folder, "other": older.folder},
        benign=tuple(benign),
        remedy=REMEDY.format(
            folders=_words(older.folder, newer.folder), log_dirs=_words(*(each.path for each in log_dirs))
        ),
    )


def _are_stray(pair: Pair) -> bool:
    """Return whether a broker renames both folders, so that they do not clash; from 3.7 on, after it has read them."""
    metadata = next(filter(None, map(metadata_beside, pair)), None)
    place = pair[1].place
    return metadata is not None and not metadata.assigns(pair[1].topic_id, place.partition, place.broker_id)


def _words(*paths: str | None) -> str:
    return " ".join(shell_word(path) for path in paths if path is not None)


def _described(partition: Partition) -> str:
    written = partition.newest_mtime_ms
    when = "" if written is None else f", last written {format_time(written)}"
    return f"{shell_word(partition.folder)} ({format_size(partition.size)} of log{when})"


CHECK = Check("log_directories", CODES, findings)
