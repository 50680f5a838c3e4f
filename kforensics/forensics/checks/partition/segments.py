"""Checks that each segment of a partition starts where the previous one ends.

Rule: ``UnifiedLog.roll`` names a segment after the log end offset. Before the first segment anything may be missing:
deleted, or on remote storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import REBUILD, UNLESS_REPLICAS_DIFFER
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.reporting import first_findings
from kforensics.forensics.partition.compaction_evidence import compacted_elsewhere
from kforensics.forensics.partition.damage_codes import code_of, is_reported
from kforensics.forensics.partition.fetched_compacted import FETCHED, compacted_by_leader, has_files_of_lost_segment
from kforensics.forensics.partition.log_gaps import SegmentBounds
from kforensics.forensics.partition.lost_end import traces_of_lost_end
from kforensics.forensics.partition.partition_files import DELETED, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.superseded_segments import first_checkpointed_epoch, has_index_between
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import file_name

CODES = by_name(
    Code(
        "segment-missing",
        Severity.CRITICAL,
        meaning=(
            "Offsets are missing between two segments, or at the end of the log: a segment, or the end of one, is "
            "missing."
        ),
        remedy=REBUILD,
        why=(
            "Consumers skip from the last record before the gap to the first one after it, without an error; at the "
            "end, new records get the offsets of the missing ones. A segment was deleted by hand, not copied, or lost "
            "with its file system."
        ),
        benign=(
            "Only some of the files were copied. The segment was being deleted when the files were copied. Segments "
            "before the gap were left in the folder by an earlier copy. A cleaner emptied the end of a segment: "
            "without its checkpoint, a few missing offsets may be its work, and in message formats 0 and 1 any. A "
            "replica of a compacted topic that was away fetched what its leader had left: info, as long as the cleaner "
            "checkpoint lists the partition and no other file of a missing segment is left. "
            "Remote storage takes segments from the front only, so it does not explain a gap in the middle."
        ),
    ),
    Code(
        "segment-overlap",
        Severity.CRITICAL,
        meaning="A segment has offsets that belong to the next segment.",
        remedy=f"{REBUILD} This one cannot be used from here on.",
        why=(
            "Segments never share offsets. After a crash during cleaning both old and new files may exist, and "
            "the broker resolves this by rules at startup. If it did not, the log has two versions of the same "
            "offsets."
        ),
        benign=(
            "A cleaning or segment split was interrupted, and its .swap and .cleaned files are still there. The "
            "files of a running broker were copied while its cleaner replaced segments. An earlier copy left its "
            "segments in the folder."
        ),
    ),
    Code(
        "segment-base-mismatch",
        Severity.ERROR,
        meaning="A segment starts below the offset in its name.",
        remedy=f"Check first whether the file was renamed when it was copied. {REBUILD}",
        why=(
            "A segment is named after its first offset. If its data starts below, lookups by offset go to the "
            "wrong file and miss it."
        ),
        benign=(
            "The file was renamed, by hand or by a restore. A segment that starts above its name is normal, and "
            "not reported."
        ),
    ),
)

COPY_AGAIN = f"Copy the files again. If the segments are missing then, too: {REBUILD}"
COPY_INTO_EMPTY = (
    "Start no broker on this folder. Copy the files of the stopped broker into an empty one, or have what no longer "
    "exists deleted, as `rsync --delete` does."
)
# States of files left by an interrupted cleaning or split; the broker completes or reverts it at the next startup.
UNFINISHED = ("cleaned", "swap")
# A lost segment is rarely smaller than a tenth of the one before it.
FEW = 10


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield segments that do not continue each other."""
    if not state.partition.segments:
        return
    bounds = state.segment_bounds
    renamed = np.flatnonzero(bounds.first < bounds.base).tolist()
    yield from first_findings((_base_mismatch(state, bounds, segment) for segment in renamed), len(renamed))
    overlapping = np.flatnonzero(bounds.highest[:-1] >= bounds.base[1:]).tolist()
    yield from first_findings((_overlap(state, bounds, segment) for segment in overlapping), len(overlapping))
    start = int(bounds.base[0])
    superseded = [file for file in state.partition.superseded if file.kind == "log"]
    deleted = [file for file in superseded if (file.base_offset or 0) < start]
    yield from first_findings((_deleted(state, file, start) for file in deleted), len(deleted))
    superseded = superseded[len(deleted) :]
    yield from first_findings((_superseded(state, bounds, file) for file in superseded), len(superseded))
    incomplete = state.log_gaps.incomplete.tolist()
    yield from first_findings((_missing(state, bounds, segment) for segment in incomplete), len(incomplete))
    if state.log_gaps.has_lost_end:
        yield _missing_end(state)


def _base_mismatch(state: PartitionState, bounds: SegmentBounds, segment: int) -> Finding:
    first, base = int(bounds.first[segment]), int(bounds.base[segment])
    follows = segment > 0 and first == int(bounds.reached[segment - 1]) + 1
    outcome = "likely, its first batch continues the previous segment" if follows else "possible"
    return state.finding(
        CODES["segment-base-mismatch"],
        f"The first batch starts at offset {first}, below the segment's base offset {base}.",
        at=(segment, 0),
        offsets=(first, base - 1),
        evidence={"base_offset": base},
        benign=(f"renamed file: {outcome}",),
    )


def _overlap(state: PartitionState, bounds: SegmentBounds, segment: int) -> Finding:
    base, highest = int(bounds.base[segment + 1]), int(bounds.highest[segment])
    unfinished = [file for file in state.other_logs(*UNFINISHED) if (file.base_offset or 0) <= base]
    outcome = f"likely, {format_count(len(unfinished), 'file')} left" if unfinished else "ruled out, no file left"
    replaced = _may_be_of_two_cleanings(state, base)
    damage = _damage_in(state, segment)
    is_explained = bool(unfinished) or replaced or damage is not None
    return state.finding(
        CODES["segment-overlap"],
        f"The segment ends at offset {highest}, but the next one starts at offset {base}.",
        severity=Severity.WARNING if is_explained else None,
        at=(segment, 0),
        offsets=(base, highest),
        evidence={"next_base_offset": base, "unfinished": [file.path for file in unfinished]},
        exactness=Exactness.APPROXIMATE if is_explained else Exactness.EXACT,
        benign=(
            f"interrupted cleaning or segment split: {outcome}",
            "copied while the cleaner of the running broker replaced segments: "
            + ("likely, compacted here" if replaced else "ruled out"),
            *(() if damage is None else ("damaged batch in the segment, with a wrong offset: possible",)),
        ),
        cause=damage,
    )


def _damage_in(state: PartitionState, segment: int) -> str | None:
    """Return the code of the finding about a damaged batch in a segment, None if it has none."""
    rows = (row for number, row in state.log.damage if number == segment and row.inside_batch is not None)
    return next((code_of(row) for row in rows if is_reported(row)), None)


def _superseded(state: PartitionState, bounds: SegmentBounds, file: FoundFile) -> Finding:
    """Return the finding about a segment whose records are in the one before it too, and which is not read."""
    base = file.base_offset or 0
    segment = int(bounds.base.searchsorted(base)) - 1
    highest = int(bounds.highest[segment])
    is_running = not state.partition.log_dir.clean_shutdown
    finding = state.finding(
        CODES["segment-overlap"],
        f"The segment ends at offset {highest}, but another one starts at offset {base}: {file_name(file.path)} has "
        "the same batches from before the cleaner merged the two, and is not analyzed.",
        # Only a copy has both: the broker goes on with the merged segment. One that starts on the copy reads both.
        severity=Severity.INFO if is_running else Severity.WARNING,
        at=(segment, 0),
        offsets=(base, max(base, highest)),
        evidence={"next_base_offset": base, "unfinished": [], "superseded": file.path},
        benign=(
            "copied while the cleaner of the running broker replaced segments: "
            + ("likely, all batches are equal" if is_running else "ruled out, clean shutdown"),
            f"left in the folder by an earlier copy: {'possible' if is_running else 'likely, all batches are equal'}",
        ),
    )
    return finding if is_running else replace(finding, remedy=COPY_INTO_EMPTY)


def _deleted(state: PartitionState, file: FoundFile, start: int) -> Finding:
    """Return the finding about a segment from before the log start, which is not read."""
    base = file.base_offset or 0
    is_running = not state.partition.log_dir.clean_shutdown
    # No consumer can read what is below the log start offset, and a broker deletes no segment above it.
    is_below_start = max(first_checkpointed_epoch(state.partition), _checkpointed_start(state)) >= start
    was_deleting = has_index_between(state.partition, base, start)
    finding = state.finding(
        CODES["segment-missing"],
        f"Offsets are missing between {file_name(file.path)} and offset {start}, where the next segment starts: "
        f"{_why_left(state)}. The file is not analyzed.",
        severity=Severity.INFO if is_running and (is_below_start or was_deleting) else Severity.WARNING,
        offsets=(base, start - 1),
        evidence={"superseded": file.path},
        exactness=Exactness.APPROXIMATE,
        benign=_of_deletion(state, file, start),
    )
    return replace(finding, path=file.path, remedy=COPY_AGAIN if is_running else COPY_INTO_EMPTY)


def _why_left(state: PartitionState) -> str:
    if state.partition.log_dir.clean_shutdown:
        return f"by leader-epoch-checkpoint, the log began at offset {first_checkpointed_epoch(state.partition)}"
    return "the broker was probably deleting old segments when the files were copied"


def _of_deletion(state: PartitionState, file: FoundFile, start: int) -> tuple[str, ...]:
    """Return what else may be the reason why segments before an offset are there."""
    if state.partition.log_dir.clean_shutdown:
        return ("left in the folder by an earlier copy: likely, a broker deletes these segments before it stops",)
    sign = f"deleted by retention or DeleteRecords during the copy: likely, {_sign_of_deletion(state, file, start)}"
    return sign, "left in the folder by an earlier copy: possible"


def _sign_of_deletion(state: PartitionState, file: FoundFile, start: int) -> str:
    """Return what shows that a segment before an offset was being deleted."""
    first_epoch, base = first_checkpointed_epoch(state.partition), file.base_offset or 0
    has_index = any(each.kind == "index" and each.base_offset == base for each in state.partition.superseded)
    if first_epoch >= start or (has_index and first_epoch > base):
        return f"the leader epochs begin at offset {first_epoch}"
    log_start = _checkpointed_start(state)
    if log_start >= start:
        return f"the log starts at offset {log_start} by its checkpoint"
    return "all segments before the gap lack an index"


def _checkpointed_start(state: PartitionState) -> int:
    return state.partition.checkpoint(LOG_START) or 0


def _may_be_of_two_cleanings(state: PartitionState, base_offset: int) -> bool:
    """Return whether one of two segments may be a cleaned one that replaced both after the other had been copied.

    ``UnifiedLog.replaceSegments`` never leaves both to a broker that is running or was shut down cleanly.
    """
    return base_offset < state.first_uncompacted_offset and not state.partition.log_dir.clean_shutdown


def _missing(state: PartitionState, bounds: SegmentBounds, segment: int) -> Finding:
    first, last = int(bounds.reached[segment]) + 1, int(bounds.first[segment + 1]) - 1
    deleted = [file for file in state.other_logs(DELETED) if first <= (file.base_offset or 0) <= last]
    fetched = compacted_by_leader(state, first, last)
    outcome = f"likely, {format_count(len(deleted), 'such file')}" if deleted else "ruled out, no such file"
    is_certain = state.is_known_uncleaned and not deleted and not fetched
    may_be_cleaned = _may_be_cleaned(state, bounds, segment)
    severity = Severity.WARNING if deleted or fetched or may_be_cleaned else None
    is_compacted = fetched is not None and not deleted and state.first_dirty_offset is not None
    finding = state.finding(
        CODES["segment-missing"],
        f"{format_count(last - first + 1, 'offset')} missing after the segment: {first} to {last}.",
        # As the brokers compact the log, every replica that was away for a time has fetched a compacted part of it.
        severity=Severity.INFO if is_compacted else severity,
        at=(segment, state.partition.segments[segment].size),
        offsets=(first, last),
        evidence={"missing": last - first + 1, "deleted": [file.path for file in deleted]},
        exactness=Exactness.EXACT if is_certain else Exactness.APPROXIMATE,
        benign=(
            "remote storage: ruled out, it takes segments from the front only",
            f"segment renamed to .deleted during the copy: {outcome}",
            *_cleaner(state, (first, last), fetched, may_be_cleaned=may_be_cleaned),
        ),
        cause=_cause(state, segment),
    )
    return replace(finding, remedy=UNLESS_REPLICAS_DIFFER) if is_compacted else finding


def _missing_end(state: PartitionState) -> Finding:
    first, last = state.log_end_offset, (state.partition.checkpoint(RECOVERY_POINT) or 0) - 1
    traces, evidence = traces_of_lost_end(state)
    return state.finding(
        CODES["segment-missing"],
        f"{format_count(last - first + 1, 'offset')} missing at the end: {first} to {last}. All offsets below "
        f"{last + 1} had been flushed when the broker was shut down cleanly.{traces}",
        at=(len(state.partition.segments) - 1, state.partition.segments[-1].size),
        offsets=(first, last),
        evidence={"missing": last - first + 1, "recovery_point": last + 1, **evidence},
        benign=("only some of the files were copied: not ruled out",),
    )


def _may_be_cleaned(state: PartitionState, bounds: SegmentBounds, segment: int) -> bool:
    """Return whether a cleaner may have removed the end of a segment, for all that a folder without checkpoints shows.

    Message formats 0 and 1 show nothing else of it, and a few records may be all that it has removed.
    """
    if state.knows_cleaner:
        return False
    missing = int(bounds.first[segment + 1]) - 1 - int(bounds.reached[segment])
    return state.log.has_old_format or missing * FEW < int(bounds.highest[segment]) - int(bounds.base[segment])


def _cleaner(
    state: PartitionState, missing: tuple[int, int], fetched: str | None, *, may_be_cleaned: bool
) -> tuple[str, ...]:
    """Return which cleaner may have removed what is missing.

    Args:
        state: the partition.
        missing: first and last offset.
        fetched: why that of a leader may have, None if it has not.
        may_be_cleaned: whether that of this broker may have.
    """
    if fetched:
        return (f"{FETCHED}: likely, {fetched}",)
    own = _own_cleaner(state, may_be_cleaned=may_be_cleaned)
    is_left = compacted_elsewhere(state, missing[1]) is not None and has_files_of_lost_segment(
        state.partition, *missing
    )
    return (own, f"{FETCHED}: no, other files of a missing segment are left") if is_left else (own,)


def _own_cleaner(state: PartitionState, *, may_be_cleaned: bool) -> str:
    if state.is_known_uncleaned:
        return "cleaner: ruled out, partition not in its checkpoint"
    if state.knows_cleaner:
        return f"cleaner: ruled out, it only reached offset {state.first_dirty_offset}"
    if may_be_cleaned:
        return "cleaner: possible, no checkpoint, and it may have left no other trace"
    return "cleaner: possible, no checkpoint, but nothing else suggests it"


def _cause(state: PartitionState, segment: int) -> str | None:
    """Return the code of damage at the end of a segment, where the missing batches may have been."""
    rows = (row for number, row in state.log.damage if number == segment and row.inside_batch is None)
    at_end = (row for row in rows if row.next_good_position is None)
    return next(map(code_of, at_end), None)


CHECK = Check("segments", CODES, findings)
