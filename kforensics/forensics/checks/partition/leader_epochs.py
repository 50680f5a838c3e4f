"""Checks that leader epochs never decrease in the log, and that ``leader-epoch-checkpoint`` agrees with the batches.

Rule: ``LeaderEpochFileCache``. The files of healthy replicas differ, because a leader adds an entry when it is elected
and a follower when it appends the first batch of the epoch. Each file is compared with its own log only, and additional
entries are legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.reporting import Row, first_n
from kforensics.forensics.partition.log_summary import EpochRunArray, LogSummary
from kforensics.forensics.partition.partition_files import HIGH_WATERMARK, LOG_START, RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import forbidden, open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

CODES = by_name(
    Code(
        "leader-epoch-regressed",
        Severity.ERROR,
        meaning=(
            "A batch has a lower leader epoch than the batch before it: the replica kept records that a later "
            "leader had truncated."
        ),
        remedy="Compare the replicas of {topic}-{partition} from this offset, and rebuild this one if they differ.",
        why=(
            "The leader epoch rises with each election. A lower epoch after a higher one is the tail of an old "
            "leader that should have been truncated when the new leader took over. This replica may have "
            "records that no other replica has."
        ),
        benign="None for batches with a leader epoch; message formats 0 and 1 have none.",
    ),
    Code(
        "leader-epoch-checkpoint-mismatch",
        Severity.ERROR,
        meaning=(
            "The leader epoch checkpoint disagrees with the batches, so the log may be truncated at a wrong "
            "offset after the next leader change."
        ),
        remedy="Stop the broker, copy {path} and correct it to match the log, or rebuild the replica.",
        why=(
            "A follower asks the leader where its epoch ended and truncates its log there. A wrong entry makes "
            "it truncate too much, which loses records, or too little, which leaves records that the leader "
            "does not have."
        ),
        benign=(
            "Epochs without any batch are legal, and so are entries moved up to the log start. If a crash then takes "
            "the log start back, the first entry stays where it was, and the severity is info. A batch of message "
            "format 0 or 1 makes the broker forget all epochs before it. The files of healthy replicas differ from "
            "one another; each is compared with its own log only."
        ),
    ),
    Code(
        "leader-epoch-missing",
        Severity.WARNING,
        meaning="Batches have a leader epoch that is missing from the leader epoch checkpoint.",
        remedy=(
            "Look at the file on the broker, for a copy that was broken off lacks it. If the entry is missing there, "
            "too, rebuild the replica, or stop the broker and add the entry: recovery adds only epochs above the "
            "newest entry."
        ),
        why=(
            "Asked for the end of this epoch, the leader answers for an older one, so a follower may truncate "
            "more than necessary."
        ),
        benign=(
            "The cluster once returned to an older inter-broker protocol, or the topic to an older message format: the "
            "broker then deletes the file, and the severity is info. The log of a follower began again between "
            "the copies of the log and of the checkpoint; the severity is info then. The copy was broken off."
        ),
    ),
)

FILE = "leader-epoch-checkpoint"
NO_ENTRY = -1
OLD_FORMAT = "older message format in use for a time: not ruled out"


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """The content of the file.

    Attributes:
        path: the file.
        entries: epoch and start offset, in the order of the file.
        fault: why a broker would reject the file, None if it would not.
    """

    path: str
    entries: tuple[tuple[int, int], ...] = ()
    fault: str | None = None


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the leader epochs of the batches and of the checkpoint."""
    yield from _regressed(state)
    file = state.partition.leader_epochs
    if file is not None and (error := forbidden(file.path)):
        yield state.forbidden(CODES["leader-epoch-checkpoint-mismatch"], error.path, error.why)
        return
    checkpoint = _read(state)
    if checkpoint is None:
        yield from _without_file(state)
    elif checkpoint.fault is not None:
        yield _mismatch(state, checkpoint, f"Brokers reject {FILE}: {checkpoint.fault}.")
    elif disorder := _disorder(checkpoint):
        yield _mismatch(state, checkpoint, disorder)
    else:
        yield from _compared_with_log(state, checkpoint)


def _regressed(state: PartitionState) -> Iterator[Finding]:
    """Yield decreasing epochs; batches of old formats in between, which have no epoch, do not hide them."""
    runs = state.log.epochs
    decreases = np.flatnonzero(runs["leader_epoch"][1:] < runs["leader_epoch"][:-1])
    before = runs[decreases]

    def finding(run: Row) -> Finding:
        return state.finding(
            CODES["leader-epoch-regressed"],
            f"The batch at offset {run['first_offset']} has leader epoch {run['leader_epoch']}, after leader epoch "
            f"{run['epoch_before']} up to offset {run['offset_before']}.",
            evidence={"leader_epoch": run["leader_epoch"], "leader_epoch_before": run["epoch_before"]},
            benign=("format without leader epochs: no, both batches have one",),
            **_location(run),
        )

    more = {"epoch_before": before["leader_epoch"], "offset_before": before["last_offset"]}
    yield from first_n(runs[decreases + 1], finding, **more)


def _location(run: Row) -> dict[str, Any]:
    return {"at": (run["segment"], run["position"]), "offsets": (run["first_offset"], run["last_offset"])}


def _read(state: PartitionState) -> _Checkpoint | None:
    file = state.partition.leader_epochs
    if file is None:
        return None
    try:
        with open_source(file.path) as source:
            rows = list(read_leader_epochs(source))
    except InputError as error:
        return _Checkpoint(file.path, fault=error.why)
    entries = tuple((row.leader_epoch, row.start_offset) for row in rows if isinstance(row, LeaderEpochEntry))
    faults = [row.detail for row in rows if isinstance(row, Damage)]
    faults += [f"epoch {epoch} at offset {start} is negative" for epoch, start in entries if min(epoch, start) < 0]
    return _Checkpoint(file.path, entries, faults[0] if faults else None)


def _without_file(state: PartitionState) -> Iterator[Finding]:
    """Yield a finding if the file is missing, unless apparently only the segments were copied.

    A broker deletes the file as soon as its topic has an older message format, before there is a batch of it; brokers
    of 3.7 and newer, which have ids for their log directories, ignore such a setting. Rule:
    ``Log.maybeCreateLeaderEpochCache`` and ``LogConfig.shouldIgnoreMessageFormatVersion``.
    """
    runs, partition = _cached(state.log), state.partition
    may_have_old_format = partition.log_dir.directory_id is None
    old_format = f"older message format since the last batch: {'possible' if may_have_old_format else 'no'}"
    if len(runs) and (partition.snapshots or partition.topic_id is not None):
        first, last = runs[0], runs[-1]
        yield state.finding(
            CODES["leader-epoch-missing"],
            f"{FILE} is missing, although the batches have leader epochs {first['leader_epoch']} to "
            f"{last['leader_epoch']}.",
            severity=Severity.INFO if may_have_old_format else None,
            at=(int(first["segment"]), int(first["position"])),
            offsets=(int(first["first_offset"]), int(last["last_offset"])),
            benign=(
                "only the segments were copied: no, other files of the partition exist",
                "copy broken off: not ruled out",
                old_format,
            ),
        )


def _cached(log: LogSummary) -> EpochRunArray:
    """Return the epochs that a broker still knows: those after the last batch of an old message format.

    Such a batch has no epoch, and a broker that appends one clears its cache, so that the next election truncates by
    high watermark. Rule: ``UnifiedLog.append`` (``Log.append`` until 3.0).
    """
    if log.ends_in_old_format:
        return log.epochs[:0]
    forgotten = np.flatnonzero(log.epochs["after_old_format"])
    return log.epochs[forgotten[-1] :] if len(forgotten) else log.epochs


def _disorder(checkpoint: _Checkpoint) -> str | None:
    """Return a sentence about the first entry that does not ascend; a broker drops the entries it conflicts with.

    Old brokers move the entry of the epoch at the log start up to the log start even if the next epoch starts there, as
    files of 0.11.0.3 and 1.1.1 show. No record of that epoch is left, and brokers still answer correctly for its end.
    """
    log_start = checkpoint.entries[0][1] if checkpoint.entries else 0
    for (epoch, start), (next_epoch, next_start) in pairwise(checkpoint.entries):
        if next_epoch <= epoch or next_start < start or (next_start == start != log_start):
            entries = f"epoch {next_epoch} at offset {next_start} after epoch {epoch} at offset {start}"
            return f"{FILE} has {entries}; epochs and offsets must ascend."
    return None


def _compared_with_log(state: PartitionState, checkpoint: _Checkpoint) -> Iterator[Finding]:
    """Yield each epoch whose first batch does not match its entry.

    Left out are epochs below the log start, whose entries may be gone, and those that :func:`_regressed` reports.
    """
    runs, log_start = _cached(state.log), _log_start(state, checkpoint)
    starts = _starts(runs, checkpoint)
    before = np.concatenate([[-1], runs["last_offset"]])[: len(runs)]
    late, early = starts > np.maximum(runs["first_offset"], log_start), starts <= before
    early &= starts != NO_ENTRY
    is_wrong = _ascends(runs) & (runs["last_offset"] >= log_start) & (late | early | (starts == NO_ENTRY))
    is_moved = is_wrong & ~early & _precedes(runs, checkpoint, state)
    is_wrong &= ~is_moved
    if is_moved.any():
        yield _moved(state, checkpoint, int(runs["first_offset"][is_moved][0]))

    def finding(run: Row) -> Finding:
        if run["start"] == NO_ENTRY:
            return _missing(state, checkpoint, run)
        batches = f"the batch at offset {run['first_offset']} already has it"
        if not run["late"]:
            batches = f"the batches up to offset {run['before']} have an older one"
        message = f"In {FILE} leader epoch {run['leader_epoch']} starts at offset {run['start']}, but {batches}."
        return _mismatch(state, checkpoint, message, run)

    yield from first_n(runs[is_wrong], finding, start=starts[is_wrong], before=before[is_wrong], late=late[is_wrong])


def _precedes(runs: EpochRunArray, checkpoint: _Checkpoint, state: PartitionState) -> BoolArray:
    """Return which runs begin before the first entry, with its epoch or an older one.

    The first entry moves with the log start offset, and its file is written at once; the log start is written later. A
    crash in between takes the log start back, and deleted records with it, while the entry stays where it is. So does
    a copy of the log from before the deletion. The end of its epoch is still right, and for older epochs brokers
    truncate by high watermark.
    """
    if not checkpoint.entries or (_is_beyond(checkpoint, state) and not _is_deleted_since(state)):
        return np.zeros(len(runs), bool)
    epoch, start = checkpoint.entries[0]
    is_before = (runs["leader_epoch"] < epoch) & (runs["last_offset"] < start)
    precedes: BoolArray = is_before | (runs["leader_epoch"] == epoch) & (runs["first_offset"] < start)
    return precedes


def _is_beyond(checkpoint: _Checkpoint, state: PartitionState) -> bool:
    """Return whether the first entry begins beyond the end of the log."""
    return checkpoint.entries[0][1] > state.log_end_offset


def _is_deleted_since(state: PartitionState) -> bool:
    """Return whether a running broker may have deleted all of the log between the copies of it and of the file.

    Retention rolls the active segment to delete it too, and moves the first entry to the new log start. Checkpoints
    beyond the end of the log would show that it has lost its end instead.
    """
    if state.partition.log_dir.clean_shutdown or not _is_younger(state):
        return False
    ends = (state.partition.checkpoint(name) for name in (HIGH_WATERMARK, RECOVERY_POINT))
    return all(end is not None and end <= state.log_end_offset for end in ends)


def _is_younger(state: PartitionState, segment: int = -1) -> bool:
    """Return whether the file is no older than a segment, by default the last one, by the times of both."""
    file, written = state.partition.leader_epochs, state.partition.segments[segment].mtime_ms
    return file is not None and file.mtime_ms is not None and written is not None and file.mtime_ms >= written


def _starts(runs: EpochRunArray, checkpoint: _Checkpoint) -> IntArray:
    """Return the checkpointed start offset for the epoch of each run, NO_ENTRY where there is none."""
    starts = dict(checkpoint.entries)
    epochs = np.array(sorted(starts), np.int64)
    offsets = np.array([*(starts[epoch] for epoch in sorted(starts)), NO_ENTRY], np.int64)
    index = np.searchsorted(epochs, runs["leader_epoch"])
    return np.where(np.append(epochs, NO_ENTRY)[index] == runs["leader_epoch"], offsets[index], NO_ENTRY)


def _ascends(runs: EpochRunArray) -> BoolArray:
    """Return which runs have a higher epoch than all runs before them and are not followed by a lower one."""
    epochs = runs["leader_epoch"]
    highest = np.concatenate([[-1], np.maximum.accumulate(epochs)])[: len(epochs)]
    ascends: BoolArray = epochs > highest
    ascends[:-1] &= epochs[1:] > epochs[:-1]
    return ascends


def _log_start(state: PartitionState, checkpoint: _Checkpoint) -> int:
    """Return the offset at which the entries of the file were truncated, as well as it can be determined.

    The first entry moves up with the log start offset. The log start checkpoint may be older if the broker was not shut
    down cleanly, and never contains the metadata log, whose start is that of its oldest snapshot. A broker that forgot
    a log start in remote storage does not move the first entry back, which is a finding of its own.
    """
    known = state.partition.log_dir.clean_shutdown and LOG_START in state.partition.log_dir.checkpoints
    first = checkpoint.entries[0][1] if checkpoint.entries else 0
    is_forgotten = state.earlier_start is not None and state.earlier_start.is_forgotten
    is_metadata = state.partition.place.topic == METADATA_TOPIC
    if first <= state.log_end_offset and (not known or is_metadata or is_forgotten):
        return max(state.log_start_offset, first)
    return state.log_start_offset


def _moved(state: PartitionState, checkpoint: _Checkpoint, first_offset: int) -> Finding:
    epoch, start = checkpoint.entries[0]
    why = "records deleted, then a crash before the log start was written"
    if _is_beyond(checkpoint, state):
        why = "all of the log deleted by retention after it was copied"
    finding = state.finding(
        CODES["leader-epoch-checkpoint-mismatch"],
        f"{FILE} begins with leader epoch {epoch} at offset {start}, after the batches from offset {first_offset} on.",
        severity=Severity.INFO,
        evidence={"leader_epoch": epoch, "start_offset": start},
        benign=(f"{why}: likely",),
    )
    return replace(finding, path=checkpoint.path, first_offset=first_offset, last_offset=start - 1)


def _missing(state: PartitionState, checkpoint: _Checkpoint, run: Row) -> Finding:
    may_be_younger, may_be_older = _may_be_younger(state, checkpoint), _may_be_older(state, checkpoint, run)
    return state.finding(
        CODES["leader-epoch-missing"],
        f"{FILE} has no entry for leader epoch {run['leader_epoch']}, which starts at offset {run['first_offset']}.",
        severity=Severity.INFO if may_be_younger or may_be_older else None,
        evidence={"leader_epoch": run["leader_epoch"]},
        benign=(
            "epoch entirely below the log start: no",
            OLD_FORMAT,
            f"log begun again while the files were copied: {'possible' if may_be_younger else 'no'}",
            f"epoch begun after the file was copied: {'possible' if may_be_older else 'no'}",
        ),
        **_location(run),
    )


def _may_be_younger(state: PartitionState, checkpoint: _Checkpoint) -> bool:
    """Return whether the log of a running broker may have begun again between the copies of it and of its empty file.

    A follower truncates its log fully to begin again where the leader's log begins. It has one segment then, and no
    entry until the first batch is appended. Rule: ``UnifiedLog.truncateFullyAndStartAt``.
    """
    if checkpoint.entries or state.partition.log_dir.clean_shutdown:
        return False
    has_begun = len(state.partition.segments) == 1 and state.partition.first_offset > 0
    return has_begun or _ended_before(state)


def _may_be_older(state: PartitionState, checkpoint: _Checkpoint, run: Row) -> bool:
    """Return whether a running broker may have appended the first batch of an epoch after the copy of the file.

    A follower appends batches when it fetches them, however old they are. Since 3.8 a broker that appends them writes
    the file a moment later, which may be after it was killed. Rule: ``LeaderEpochFileCache.assign``.
    """
    is_newest = max((epoch for epoch, _ in checkpoint.entries), default=NO_ENTRY) < run["leader_epoch"]
    if not checkpoint.entries or not is_newest or state.partition.log_dir.clean_shutdown:
        return False
    return not _is_younger(state, run["segment"])


def _ended_before(state: PartitionState) -> bool:
    """Return whether the copy of the log is older than its file: it lacks the segment that begins at its end."""
    return bool(state.log.batches) and _is_younger(state) and state.log_end_offset in state.partition.snapshots


def _mismatch(state: PartitionState, checkpoint: _Checkpoint, message: str, run: Row | None = None) -> Finding:
    """Return a finding about the file, and about the first batches of an epoch if one is given."""
    finding = state.finding(CODES["leader-epoch-checkpoint-mismatch"], message)
    if run is not None:
        finding = replace(
            finding,
            first_offset=run["first_offset"],
            last_offset=run["last_offset"],
            evidence={"leader_epoch": run["leader_epoch"], "start_offset": run["start"]},
            benign=("first entry moved up to the log start: no",),
        )
    return replace(finding, path=checkpoint.path)


CHECK = Check("leader_epochs", CODES, findings)
