"""Checks that the offsets in the log directory's checkpoint files are possible for this log.

Rule: ``LogLoader``, ``UnifiedLog`` and ``LogCleanerManager`` when a broker starts. A recovery point beyond the end of
the log is not a finding of its own, because the broker moves it to the end and continues. It does prove that the
missing data had been flushed, which the findings about missing data mention.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_offsets
from kforensics.forensics.partition.lost_end import is_log_copied_before, traces_of_lost_end
from kforensics.forensics.partition.partition_files import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA

CODES = by_name(
    Code(
        "checkpoint-hw-beyond-end",
        Severity.WARNING,
        meaning="The checkpointed high watermark is beyond the end of the log: the replica has lost its tail.",
        remedy=(
            "Compare the other replicas of {topic}-{partition}. If one has these records, let this one fetch them from "
            "it before it can become leader."
        ),
        why=(
            "Every record below the high watermark was on all in-sync replicas. This replica had those records "
            "and has lost them: the broker crashed before they were flushed, or the file was truncated."
        ),
        benign=(
            "The log was copied before the checkpoint. The other replicas usually still have the records. If an "
            "unclean election has truncated them, the loss is unclean-election-loss, and this is only information."
        ),
    ),
    Code(
        "checkpoint-start-invalid",
        Severity.ERROR,
        meaning="The checkpointed log start offset is impossible for this log.",
        remedy=(
            "Copy the log directory before a broker starts on it: the broker deletes the whole log if it ends "
            "before its log start offset."
        ),
        why=(
            "If the log start offset is beyond the end, the broker deletes all data of the partition when it "
            "loads the log, and restarts it at that offset. If it is far below the first segment, a segment is "
            "missing at the front."
        ),
        benign=(
            "The log was copied before the checkpoint. The checkpoint is older than the last retention run; the broker "
            "uses the larger of the two offsets. With remote storage the log start offset is that of the remote log."
        ),
    ),
    Code(
        "log-start-forgotten",
        Severity.ERROR,
        meaning="The log start offset is in remote storage before the leader epochs: consumers there receive nothing.",
        remedy="Delete the records before the first leader epoch again, with kafka-delete-records.sh.",
        why=(
            "DeleteRecords moves the log start and the start of the leader epochs at once, but the log start is in a "
            "checkpoint only up to a minute later. A broker that is killed before forgets it. It then answers an "
            "older log start, and refuses to read from there: it finds segments in remote storage by leader epoch. A "
            "consumer with auto.offset.reset=earliest gets the same offset again and again."
        ),
        benign=(
            "The running broker was copied before it wrote the checkpoint. So the checkpoint must be of an orderly "
            "stop, or younger than the leader epochs."
        ),
    ),
    Code(
        "checkpoint-cleaner-invalid",
        Severity.WARNING,
        meaning="The cleaner's checkpointed first dirty offset is outside the log.",
        remedy="No action: the cleaner restarts at the log start.",
        why=(
            "The first dirty offset is where the cleaner resumes. A value outside the log is reset to the log "
            "start, so one cleaning pass has more work."
        ),
        benign=(
            "Retention or DeleteRecords passed the offset between two cleanings. The log was copied before the "
            "checkpoint."
        ),
    ),
)

# For each checkpoint file that a broker rejects: the code, its severity here, and the consequence.
REJECTED_FILES = {
    HIGH_WATERMARK: (
        "checkpoint-hw-beyond-end",
        Severity.ERROR,
        "The high watermarks of this log directory are unknown.",
    ),
    LOG_START: ("checkpoint-start-invalid", Severity.ERROR, "The records removed by DeleteRecords may reappear."),
    RECOVERY_POINT: (
        "checkpoint-start-invalid",
        Severity.WARNING,
        "A broker with this log directory alone does not start; without the file it recovers all segments.",
    ),
    CLEANER: ("checkpoint-cleaner-invalid", Severity.WARNING, "The cleaner does not know where to resume."),
}
# For each checkpoint file whose offsets may be beyond the end of a log: the code, and the name of the offset.
BEYOND_END = {
    HIGH_WATERMARK: ("checkpoint-hw-beyond-end", "high_watermark"),
    LOG_START: ("checkpoint-start-invalid", "log_start"),
    CLEANER: ("checkpoint-cleaner-invalid", "first_dirty_offset"),
}
# How many ranges of missing offsets are listed.
MOST_RANGES = 20
COPIED_FIRST = "metadata copied before the files"
LOST_IN_CRASH, COPIED_BEFORE = "unflushed data lost in a crash", "log copied before the checkpoint"
COPY_ORDER = {
    True: "likely, the checkpoint was written after the log",
    False: "no, the log was written after the checkpoint",
    None: "",
}


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the checkpoint entries of this partition."""
    yield from _rejected_files(state)
    if not state.partition.has_log:
        return  # the log is missing, and every offset would be beyond its end
    yield from _high_watermark(state)
    yield from _log_start(state)
    yield from _forgotten_start(state)
    yield from _first_dirty_offset(state)


def _rejected_files(state: PartitionState) -> Iterator[Finding]:
    """Yield the checkpoint files that a broker rejects; the same for every partition of the log directory."""
    log_dir = state.partition.log_dir
    for name, (code, severity, consequence) in REJECTED_FILES.items():
        path = f"{log_dir.path}/{name}" if log_dir.path else name
        if name in log_dir.forbidden:
            yield state.forbidden(CODES[code], path, log_dir.forbidden[name])
        elif name in log_dir.damaged:
            message = f"Brokers reject {name}: {log_dir.damaged[name]}. {consequence}"
            # A broker replaces the file as a whole, but a copy may still be incomplete.
            least = severity if _is_clean_shutdown(state) else min(severity, Severity.WARNING)
            yield replace(state.finding(CODES[code], message, severity=least), path=path)


def _high_watermark(state: PartitionState) -> Iterator[Finding]:
    high_watermark, end = state.high_watermark, state.log_end_offset
    if high_watermark is not None and high_watermark > end:
        message = (
            f"High watermark {high_watermark} is beyond the log end offset {end}: committed "
            f"{format_offsets(end, high_watermark - 1)} missing."
        )
        is_lost, finding = state.log_gaps.has_lost_end, _beyond_end(state, HIGH_WATERMARK, message, high_watermark)
        severity = Severity.INFO if is_lost else finding.severity
        cause = "segment-missing" if is_lost else None
        yield replace(finding, severity=severity, cause=cause, first_offset=end, last_offset=high_watermark - 1)


def _beyond_end(state: PartitionState, name: str, message: str, offset: int) -> Finding:
    """Return the finding on an offset in a checkpoint file that is beyond the end of the log.

    It is information if the log was probably copied before the checkpoint, unless there are traces of a lost end.

    Args:
        state: the partition.
        name: name of the checkpoint file.
        message: what the finding says first.
        offset: the offset.
    """
    code, field = BEYOND_END[name]
    traces, evidence = traces_of_lost_end(state)
    copied_before, flushed = is_log_copied_before(state, name), _flushed(state)
    innocent = [COPIED_BEFORE] * (copied_before is not False) + [LOST_IN_CRASH] * (not flushed)
    not_ruled_out = "" if _is_clean_shutdown(state) or not innocent else f" Not ruled out: {', or '.join(innocent)}."
    return state.finding(
        CODES[code],
        message + flushed + traces + not_ruled_out,
        severity=Severity.INFO if copied_before and not traces else None,
        evidence={**_evidence(state, **{field: offset}), **evidence},
        exactness=_exactness(state),
        benign=(
            f"{COPIED_BEFORE}: {COPY_ORDER[copied_before] or _unless_clean_shutdown(state)}",
            f"{LOST_IN_CRASH}: {'no, it had been flushed' if flushed else _unless_clean_shutdown(state)}",
        ),
    )


def _log_start(state: PartitionState) -> Iterator[Finding]:
    log_start, first = state.partition.checkpoint(LOG_START), state.partition.first_offset
    if log_start is None:
        return
    if log_start > _end_of_files(state):
        message = (
            f"Log start offset {log_start} is beyond the log end offset {_end_of_files(state)}: a broker that starts "
            "on these files deletes the whole log."
        )
        yield _beyond_end(state, LOG_START, message, log_start)
    elif log_start < first and state.remote_log_start_offset is not None:
        yield from _missing_in_remote_storage(state, state.remote_log_start_offset)
    elif log_start < first and not _is_deleted_remotely(state):
        message = (
            f"Log start offset {log_start} is below the first segment, which starts at offset {first}: offsets "
            f"{log_start} to {first - 1} are missing, and nothing shows that remote storage has them."
        )
        epochs = state.partition.leader_epochs
        # Only a log with remote storage has a checkpointed log start offset below its first segment.
        yield state.finding(
            CODES["checkpoint-start-invalid"],
            message,
            severity=Severity.ERROR if _is_clean_shutdown(state) else Severity.INFO,
            offsets=(log_start, first - 1),
            evidence=_evidence(state, log_start=log_start),
            benign=(
                "checkpoint out of date, the broker uses the larger offset: " + _unless_clean_shutdown(state),
                f"remote storage: {'no, by the leader epochs' if epochs else 'unknown, no leader epoch checkpoint'}",
            ),
        )


def _is_deleted_remotely(state: PartitionState) -> bool:
    """Return whether all before the files was deleted from remote storage, so that the checkpoint is out of date."""
    return state.remote_log is not None and state.remote_log.deleted_to >= state.partition.first_offset


def _missing_in_remote_storage(state: PartitionState, log_start: int) -> Iterator[Finding]:
    """Yield the offsets between the log start and the files that were never copied to remote storage.

    A broker copies segments one after the other, and deletes the local ones that it has copied. So only the newest
    copies may be missing because the metadata is older than the files.
    """
    remote, first = state.remote_log, state.partition.first_offset
    if remote is None or not remote.is_whole:
        return  # other metadata may list them
    for start, end in remote.missing(log_start, first - 1)[:MOST_RANGES]:
        is_newest = end == first - 1
        message = (
            f"{format_offsets(start, end).capitalize()} are missing: the log starts at offset {log_start}, its files"
            f" at {first}, and remote storage has no segment with them."
        )
        yield state.finding(
            CODES["checkpoint-start-invalid"],
            message + (f" Not ruled out: {COPIED_FIRST}." if is_newest else ""),
            severity=Severity.INFO if is_newest else Severity.ERROR,
            offsets=(start, end),
            evidence={**_evidence(state, log_start=log_start), "remote_log_metadata": list(remote.paths)},
            exactness=Exactness.UNVERIFIABLE if is_newest else Exactness.EXACT,
            benign=(
                f"{REMOTE_LOG_METADATA} incomplete: no, it begins at offset 0 and has no gap",
                f"{COPIED_FIRST}: {'not ruled out' if is_newest else 'no, later segments are listed'}",
            ),
        )


def _forgotten_start(state: PartitionState) -> Iterator[Finding]:
    """Yield that a broker has forgotten its log start, so that consumers get one that it cannot read."""
    earlier = state.earlier_start
    if earlier is None or not earlier.is_forgotten:
        return
    start, first_epoch, unread = earlier.offset, earlier.first_epoch, (earlier.offset, earlier.read_from - 1)
    finding = state.finding(
        CODES["log-start-forgotten"],
        f"The log starts at offset {start}, but its leader epochs begin at {first_epoch}: the broker cannot read "
        f"{format_offsets(*unread)} from remote storage, and a consumer at the log start receives "
        f"nothing. The broker was killed before it had checkpointed the log start {first_epoch}.",
        offsets=unread,
        evidence=_evidence(state, log_start=start, first_epoch_start=first_epoch),
        exactness=_exactness(state),
        benign=(
            "checkpoint out of date: "
            + ("no, clean shutdown" if _is_clean_shutdown(state) else "no, it is younger than the leader epochs"),
        ),
    )
    yield replace(finding, remedy=earlier.remedy(state.partition.place))


def _first_dirty_offset(state: PartitionState) -> Iterator[Finding]:
    dirty, end = state.first_dirty_offset, state.log_end_offset
    # A log start offset beyond the end is a finding of its own.
    start = min(state.local_log_start_offset, end)
    if dirty is None or start <= dirty <= end:
        return
    if dirty > end:
        message = f"The cleaner's first dirty offset {dirty} is beyond the log end offset {end}."
        yield _beyond_end(state, CLEANER, message, dirty)
    else:
        evidence = _evidence(state, first_dirty_offset=dirty)
        passed = "retention or DeleteRecords passed it before the next cleaning: not ruled out"
        message = f"The cleaner's first dirty offset {dirty} is below the log start offset {start}."
        yield state.finding(
            CODES["checkpoint-cleaner-invalid"], message, severity=Severity.INFO, evidence=evidence, benign=(passed,)
        )


def _end_of_files(state: PartitionState) -> int:
    """Return the log end offset by the files alone; ``state.log_end_offset`` is never below the log start offset."""
    if state.log.batches:
        return state.log_end_offset
    segments = state.partition.segments
    return (segments[-1].base_offset or 0) if segments else 0


def _flushed(state: PartitionState) -> str:
    """Return that missing data had been flushed; empty if not, and if the log was copied before that was noted."""
    recovery_point = state.partition.checkpoint(RECOVERY_POINT)
    if recovery_point is None or recovery_point <= _end_of_files(state) or is_log_copied_before(state, RECOVERY_POINT):
        return ""
    return f" All offsets below {recovery_point} had been flushed, so a crash alone does not explain the loss."


def _evidence(state: PartitionState, **offsets: int) -> dict[str, object]:
    recovery_point = state.partition.checkpoint(RECOVERY_POINT)
    more = {} if recovery_point is None else {"recovery_point": recovery_point}
    return {**offsets, "log_end_offset": _end_of_files(state), **more}


def _is_clean_shutdown(state: PartitionState) -> bool:
    """Return whether the broker was shut down cleanly; it writes all its checkpoints then."""
    return state.partition.log_dir.clean_shutdown


def _exactness(state: PartitionState) -> Exactness:
    return Exactness.EXACT if _is_clean_shutdown(state) else Exactness.APPROXIMATE


def _unless_clean_shutdown(state: PartitionState) -> str:
    return "no, clean shutdown" if _is_clean_shutdown(state) else "not ruled out"


CHECK = Check("checkpoints", CODES, findings, needs_log=False)
