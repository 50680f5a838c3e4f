"""Checks whether the log of a partition is missing although other files show that it had one.

Rule: ``LogLoader.load`` deletes indexes that have no log, and ``LogSegments`` without a segment get an empty one at the
checkpointed log start offset. A partition folder always has a segment, except for the moment in which it is created.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets
from kforensics.forensics.core.result_rows import Rows
from kforensics.forensics.partition.partition_files import CLEANER, DELETED, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.input_paths import is_archive_name
from kforensics.parsers.log.log_rows import Place

CODES = by_name(
    Code(
        "log-missing",
        Severity.CRITICAL,
        meaning=(
            "A partition has no log, or only empty .log files, although its checkpoints, snapshots or indexes show "
            "that it had one."
        ),
        remedy=(
            "Keep the broker stopped and copy its log directory. Restore the .log files of {topic}-{partition}, or "
            "start the broker only while another replica that has the records leads."
        ),
        why=(
            "The .log files were deleted by hand, not copied, or lost with their file system. A broker that starts on "
            "these files deletes the indexes, begins an empty log at the checkpointed log start offset, and reports no "
            "error. If it becomes the leader, the other replicas truncate their logs to its end, and the records are "
            "lost everywhere."
        ),
        benign=(
            "Only some of the files were copied. The partition was deleted or moved to another log directory while the "
            "files of a running broker were copied. A folder that a broker has just created has neither a log nor a "
            "checkpoint above 0, and is not reported."
        ),
    ),
)

CHECKPOINTS = {
    "high_watermark": (HIGH_WATERMARK, "high watermark"),
    "recovery_point": (RECOVERY_POINT, "recovery point"),
    "log_start_offset": (LOG_START, "log start offset"),
    "first_dirty_offset": (CLEANER, "first dirty offset of the cleaner"),
}


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield that the log is missing, and what the other files say about it."""
    partition = state.partition
    if partition.has_log:
        return
    first, end = partition.checkpoint(LOG_START) or 0, partition.lost_end
    lost = f"At least {format_offsets(first, end - 1)} were there. " if first < end else ""
    aside = [file.path for file in partition.others if file.kind == "log"]
    deleted = list(state.other_logs(DELETED)) if state.was_deleting_files else []
    why = "The .log file is empty" if partition.is_emptied else "The folder has no .log file"
    packed = [file.path.rpartition("/")[2] for file in partition.others if is_archive_name(file.path)]
    if packed:
        why += f", but {format_count(len(packed), 'packed file')}, such as {packed[0]}: unpack them"
    finding = state.finding(
        CODES["log-missing"],
        f"{why}. {lost}{_clues(state)}.",
        # Its broker was replacing segments: there are new ones, which the copy does not have.
        severity=Severity.WARNING if deleted else None,
        offsets=(first, end - 1) if first < end else None,
        evidence={**_checkpoints(state), **_files(state), "log_end_offset_at_least": end, "set_aside": aside},
        benign=(
            "only some of the files were copied: not ruled out",
            f"deleted, moved or replaced during the copy by a running broker: {_by_running_broker(state, deleted)}",
        ),
    )
    yield replace(finding, path=partition.folder)


def _by_running_broker(state: PartitionState, deleted: list[FoundFile]) -> str:
    if state.partition.log_dir.clean_shutdown:
        return "no, clean shutdown"
    return f"likely, {format_count(len(deleted), '.log.deleted file')}" if deleted else "not ruled out"


def _checkpoints(state: PartitionState) -> dict[str, object]:
    """Return the offsets of the partition in the checkpoints of its log directory."""
    offsets = {name: state.partition.checkpoint(file) for name, (file, _) in CHECKPOINTS.items()}
    return {name: offset for name, offset in offsets.items() if offset is not None}


def _files(state: PartitionState) -> dict[str, object]:
    """Return the offsets in the names of the files that are left."""
    partition = state.partition
    indexes = {*partition.indexes, *partition.time_indexes, *partition.transaction_indexes}
    return {"snapshots": sorted(partition.snapshots), "index_base_offsets": sorted(indexes)}


def _clues(state: PartitionState) -> str:
    """Return what is left of the partition, as the end of a sentence."""
    known, files = _checkpoints(state), _files(state)
    clues = [f"{CHECKPOINTS[name][1]} {offset}" for name, offset in known.items()]
    for name, noun in (("snapshots", "snapshot"), ("index_base_offsets", "segment with an index")):
        offsets = files[name]
        if isinstance(offsets, list) and offsets:
            nouns = "segments with an index" if noun.startswith("segment") else None
            clues.append(f"{format_count(len(offsets), noun, nouns)} up to offset {offsets[-1]}")
    return f"Left are: {', '.join(clues)}"


CHECK = Check("missing_logs", CODES, findings, needs_log=False)


@dataclass(frozen=True, slots=True)
class MissingLog:
    """What is known of a partition whose log is missing, instead of what only the log shows.

    Attributes:
        place: the partition.
        folder: folder of the partition.
        unknown: what only the log shows.
        findings: that the log is missing.
    """

    place: Place
    folder: str
    unknown: str
    findings: tuple[Finding, ...]

    @property
    def placed(self) -> tuple[tuple[Place, Finding], ...]:
        """The findings with their places."""
        return tuple((self.place, finding) for finding in self.findings)

    @property
    def rows(self) -> Mapping[str, Rows]:
        """No rows of any table."""
        return {}

    @classmethod
    def of(cls, state: PartitionState, unknown: str) -> MissingLog:
        """Return what is known of a partition without a log.

        Args:
            state: the partition.
            unknown: what only the log shows.
        """
        return cls(state.partition.place, state.partition.folder, unknown, tuple(findings(state)))
