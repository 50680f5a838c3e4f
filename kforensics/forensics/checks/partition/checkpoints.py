"""Whether the offsets that a log directory's checkpoints have for a partition can be true of its log.

Rule: ``LogLoader``, ``UnifiedLog`` and ``LogCleanerManager`` when a broker starts. A recovery point behind the end of
the log is no finding of its own, because a broker moves it to the end and goes on; but it says that what is missing had
been flushed, which is told where something is missing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.errors import InputError
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.partition.partition_files import CLEANER, HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.source import open_source
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

__all__ = ["CODES", "findings"]

CODES = codes("""
checkpoint-hw-beyond-end warning
The high watermark on record lies behind the end of the log: the replica has lost its end.
Compare with the other replicas of {topic}-{partition}, and take none that has less for a leader.
why: What lies below the high watermark was on every replica in sync. This one had it and has it no longer: a crash \
before it was flushed, or a file that was cut.
innocent: The log was copied before the checkpoint. Other replicas have the records, as a rule.

checkpoint-start-invalid error
The log start offset on record cannot be that of this log.
Keep a copy of the log directory before a broker starts here: it deletes all of a log that ends before its start.
why: A log start beyond the end makes the broker delete everything in the partition when it loads it and begin anew \
from there. One far below says that a segment is missing at the front.
innocent: The checkpoint is older than the last run of retention; the broker takes the larger of both. Remote storage, \
where the start is that of the remote part.

checkpoint-cleaner-invalid warning
The cleaner's first dirty offset on record lies outside the log.
Nothing is to be done: the cleaner begins again at the log start.
why: It says from where the cleaner is to go on. A value outside is reset to the log start, so that one pass has more \
to do.
innocent: Retention or DeleteRecords passed it between two cleanings.
""")

# Whom a checkpoint concerns that a broker refuses, how much, and what it does without.
REFUSED = {
    HIGH_WATERMARK: ("checkpoint-hw-beyond-end", Severity.ERROR, "no high watermark of this log directory is known"),
    LOG_START: ("checkpoint-start-invalid", Severity.ERROR, "records deleted by offset may be there again"),
    RECOVERY_POINT: ("checkpoint-start-invalid", Severity.WARNING, "all segments have to be recovered"),
    CLEANER: ("checkpoint-cleaner-invalid", Severity.WARNING, "the cleaner does not know how far it came"),
}
UNCLEAN = "the broker ran or crashed, and has not brought the checkpoint up to date: "


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the checkpoints, as far as they concern this partition."""
    yield from _refused(case)
    yield from _high_watermark(case)
    yield from _log_start(case)
    yield from _first_dirty_offset(case)


def _refused(case: Case) -> Iterator[Finding]:
    """Yield the files that a broker would not read; the same in every partition of the log directory."""
    log_dir = case.partition.log_dir
    for name, why in log_dir.damaged.items():
        if name in REFUSED:
            code, severity, outcome = REFUSED[name]
            message = f"A broker refuses {name}, so that {outcome}: {why}."
            path = f"{log_dir.path}/{name}" if log_dir.path else name
            yield replace(case.finding(CODES[code], message, severity=severity), path=path)


def _high_watermark(case: Case) -> Iterator[Finding]:
    high_watermark, end = case.high_watermark, case.log_end_offset
    if high_watermark is not None and high_watermark > end:
        message = f"The high watermark on record is {high_watermark}, but the log ends at offset {end}."
        yield case.finding(
            CODES["checkpoint-hw-beyond-end"],
            message + _flushed(case),
            offsets=(end, high_watermark - 1),
            evidence=_evidence(case, high_watermark=high_watermark),
            exactness=_exactness(case),
            benign=(
                "the log was copied before the checkpoint: " + _ruled_out(case),
                "a crash took what had not been flushed: " + _ruled_out(case),
            ),
        )


def _log_start(case: Case) -> Iterator[Finding]:
    log_start, first = case.partition.checkpoint(LOG_START), case.partition.first_offset
    if log_start is None:
        return
    if log_start > _last(case):
        message = (
            f"The log start offset on record is {log_start}, but the log ends at offset {_last(case)}: a broker that "
            "starts here deletes all of it."
        )
        yield case.finding(
            CODES["checkpoint-start-invalid"], message + _flushed(case), evidence=_evidence(case, log_start=log_start)
        )
    elif log_start < first and not _is_tiered(case):
        message = (
            f"The log start offset on record is {log_start}, but the first segment begins at offset {first}, and "
            "nothing shows that remote storage has what is between."
        )
        epochs = case.partition.leader_epochs
        # Only a log with remote storage has its start on record while that lies before the first segment.
        yield case.finding(
            CODES["checkpoint-start-invalid"],
            message,
            severity=Severity.ERROR if _is_up_to_date(case) else Severity.INFO,
            offsets=(log_start, first - 1),
            evidence=_evidence(case, log_start=log_start),
            benign=(
                UNCLEAN + _ruled_out(case) + "; a broker takes the larger offset",
                f"remote storage: {'no' if epochs else 'not known without them'}, by the leader epochs",
            ),
        )


def _first_dirty_offset(case: Case) -> Iterator[Finding]:
    dirty, end = case.first_dirty_offset, case.log_end_offset
    # A log start behind the end is a finding of its own.
    start = min(case.log_start_offset, end)
    if dirty is None or start <= dirty <= end:
        return
    evidence = _evidence(case, first_dirty_offset=dirty)
    if dirty > end:
        message = f"The cleaner's first dirty offset is {dirty}, but the log ends at offset {end}."
        crash = "a crash took what had not been flushed: " + _ruled_out(case)
        yield case.finding(
            CODES["checkpoint-cleaner-invalid"], message + _flushed(case), evidence=evidence, benign=(crash,)
        )
    else:
        passed = "deletion of old segments or DeleteRecords passed it before the next cleaning: not ruled out"
        message = f"The cleaner's first dirty offset is {dirty}, but the log starts at offset {start}."
        yield case.finding(
            CODES["checkpoint-cleaner-invalid"], message, severity=Severity.INFO, evidence=evidence, benign=(passed,)
        )


def _last(case: Case) -> int:
    """Return the log's end as its files alone tell it: that of the case is never before the log start on record."""
    if case.log.batches:
        return case.log_end_offset
    segments = case.partition.segments
    return (segments[-1].base_offset or 0) if segments else 0


def _flushed(case: Case) -> str:
    recovery_point = case.partition.checkpoint(RECOVERY_POINT)
    if recovery_point is None or recovery_point <= _last(case):
        return ""
    return f" All below offset {recovery_point} had been flushed, which a crash alone does not take away."


def _evidence(case: Case, **offsets: int) -> dict[str, object]:
    recovery_point = case.partition.checkpoint(RECOVERY_POINT)
    more = {} if recovery_point is None else {"recovery_point": recovery_point}
    return {**offsets, "log_end_offset": _last(case), **more}


def _is_up_to_date(case: Case) -> bool:
    """Whether the broker wrote its checkpoints when it was shut down in order."""
    return case.partition.log_dir.clean_shutdown


def _exactness(case: Case) -> Exactness:
    return Exactness.EXACT if _is_up_to_date(case) else Exactness.APPROXIMATE


def _ruled_out(case: Case) -> str:
    return "no, it was shut down in order" if _is_up_to_date(case) else "not ruled out"


def _is_tiered(case: Case) -> bool:
    """Whether the leader epochs reach back before the first segment, which only remote storage leaves them.

    Without it they are cut at the log start, that is at the first segment or behind. Rule:
    ``UnifiedLog.updateLogStartOffset`` and ``LeaderEpochFileCache.truncateFromStart``.
    """
    found = case.partition.leader_epochs
    if found is None:
        return False
    try:
        with open_source(found.path) as source:
            entries = (row for row in read_leader_epochs(source) if isinstance(row, LeaderEpochEntry))
            return any(entry.start_offset < case.partition.first_offset for entry in entries)
    except InputError:
        return False
