"""Whether leader epochs rise along the log, and ``leader-epoch-checkpoint`` says where each began.

Rule: ``LeaderEpochFileCache``. The files of healthy replicas differ, because a leader notes its epoch when elected and
a follower with the first batch of it: each file is held against its own log, and entries more than that are legal.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.findings import Finding, codes
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Row, each
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

__all__ = ["CODES", "findings"]

CODES = codes("""
leader-epoch-regressed error
A batch has a lower leader epoch than the batch before it: the replica kept what a later leader had cut off.
Compare the replicas of {topic}-{partition} from this offset on, and build this one again if they differ.
why: Epochs rise with each election. A lower one behind a higher one is a tail of the old leader that should have been \
cut off when the new one took over, so that this replica may hold records that no other one has.
innocent: None for batches that have an epoch; those of formats 0 and 1 have none.

leader-epoch-checkpoint-mismatch error
The leader epoch checkpoint disagrees with the batches, so that the next change of leader may cut the log wrongly.
Stop the broker, keep a copy of {path} and correct it after the log, or build the replica again.
why: A follower asks where the epoch of the leader ended and cuts its log there. A wrong entry makes it cut too much, \
which loses records, or too little, which leaves other ones than the leader has.
innocent: Epochs in which nothing was written are legal, and so are entries that were moved up to the log start. Files \
of healthy replicas differ from one another; each is held against its own log only.

leader-epoch-missing warning
Batches have a leader epoch that the leader epoch checkpoint does not know.
Build the replica again, or stop the broker and add the entry: a recovery adds only epochs above the newest entry.
why: A leader that is asked for the end of such an epoch answers for an older one, so that a follower may cut off more \
than it must.
innocent: An earlier return to an older inter-broker protocol.
""")

FILE = "leader-epoch-checkpoint"
NO_ENTRY = -1
OLD_FORMAT = "an older message format was set for a time: not ruled out"


@dataclass(frozen=True, slots=True)
class _Checkpoint:
    """What the file says.

    Attributes:
        path: the file.
        entries: epoch and start offset, in the order of the file.
        fault: why a broker would refuse it, None if it would not.
    """

    path: str
    entries: tuple[tuple[int, int], ...] = ()
    fault: str | None = None


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the leader epochs of the batches and of the checkpoint beside them."""
    yield from _regressed(case)
    checkpoint = _read(case)
    if checkpoint is None:
        yield from _without_file(case)
    elif checkpoint.fault is not None:
        yield _disagrees(case, checkpoint, f"A broker refuses {FILE}: {checkpoint.fault}.")
    elif fall := _fall(checkpoint):
        yield _disagrees(case, checkpoint, fall)
    else:
        yield from _held_against_log(case, checkpoint)


def _regressed(case: Case) -> Iterator[Finding]:
    """Yield where epochs fall; batches of old formats between, which have none, do not hide it."""
    runs = case.log.epochs
    falls = np.flatnonzero(runs["leader_epoch"][1:] < runs["leader_epoch"][:-1])
    before = runs[falls]

    def finding(run: Row) -> Finding:
        return case.finding(
            CODES["leader-epoch-regressed"],
            f"Offset {run['first_offset']} begins a batch of leader epoch {run['leader_epoch']}, behind leader epoch "
            f"{run['epoch_before']} up to offset {run['offset_before']}.",
            evidence={"leader_epoch": run["leader_epoch"], "leader_epoch_before": run["epoch_before"]},
            benign=("a format without leader epochs: no, both batches have one",),
            **_place(run),
        )

    yield from each(runs[falls + 1], finding, epoch_before=before["leader_epoch"], offset_before=before["last_offset"])


def _place(run: Row) -> dict[str, Any]:
    return {"at": (run["segment"], run["position"]), "offsets": (run["first_offset"], run["last_offset"])}


def _read(case: Case) -> _Checkpoint | None:
    found = case.partition.leader_epochs
    if found is None:
        return None
    try:
        with open_source(found.path) as source:
            rows = list(read_leader_epochs(source))
    except InputError as error:
        return _Checkpoint(found.path, fault=error.why)
    entries = tuple((row.leader_epoch, row.start_offset) for row in rows if isinstance(row, LeaderEpochEntry))
    faults = [row.detail for row in rows if isinstance(row, Damage)]
    faults += [f"epoch {epoch} from offset {start} is negative" for epoch, start in entries if min(epoch, start) < 0]
    return _Checkpoint(found.path, entries, faults[0] if faults else None)


def _without_file(case: Case) -> Iterator[Finding]:
    """Yield the finding for a file that is missing, unless only the files of segments seem to have been copied."""
    runs, partition = case.log.epochs, case.partition
    if len(runs) and (partition.snapshots or partition.topic_id is not None):
        first, last = runs[0], runs[-1]
        yield case.finding(
            CODES["leader-epoch-missing"],
            f"There is no {FILE}, although the batches have leader epochs, the first {first['leader_epoch']} and the "
            f"last {last['leader_epoch']}.",
            at=(int(first["segment"]), int(first["position"])),
            offsets=(int(first["first_offset"]), int(last["last_offset"])),
            benign=("only the segments were copied: no, other files of the partition are there", OLD_FORMAT),
        )


def _fall(checkpoint: _Checkpoint) -> str | None:
    """Return a sentence about the first entry that does not ascend; a broker drops those it conflicts with.

    Old brokers move the entry of the epoch at the log start up to it, though the next one may begin there, as is seen
    in files of 0.11.0.3 and 1.1.1. Nothing of that epoch is left, and its end is answered rightly.
    """
    log_start = checkpoint.entries[0][1] if checkpoint.entries else 0
    for (epoch, start), (later, begins) in pairwise(checkpoint.entries):
        if later <= epoch or begins < start or (begins == start != log_start):
            said = f"{FILE} has epoch {later} from offset {begins} behind epoch {epoch} from offset {start}"
            return f"{said}; both numbers have to rise from entry to entry."
    return None


def _held_against_log(case: Case, checkpoint: _Checkpoint) -> Iterator[Finding]:
    """Yield each epoch whose first batch does not go with its entry.

    Left out is what lies below the log start, whose entries may be gone, and what :func:`_regressed` speaks of.
    """
    runs, log_start = case.log.epochs, _log_start(case, checkpoint)
    starts = _starts(runs, checkpoint)
    before = np.concatenate([[-1], runs["last_offset"]])[: len(runs)]
    late, early = starts > np.maximum(runs["first_offset"], log_start), starts <= before
    struck = _rises(runs) & (runs["last_offset"] >= log_start) & (late | early | (starts == NO_ENTRY))

    def finding(run: Row) -> Finding:
        if run["start"] == NO_ENTRY:
            return _missing(case, run)
        other = f"offset {run['first_offset']} has it already"
        if not run["late"]:
            other = f"the batches up to offset {run['before']} have an older one"
        said = f"{FILE} lets leader epoch {run['leader_epoch']} begin at offset {run['start']}, but {other}."
        return _disagrees(case, checkpoint, said, run)

    yield from each(runs[struck], finding, start=starts[struck], before=before[struck], late=late[struck])


def _starts(runs: Records, checkpoint: _Checkpoint) -> Records:
    """Return the start offset that the file has for the epoch of each run, NO_ENTRY where it has none."""
    starts = dict(checkpoint.entries)
    known = np.array(sorted(starts), np.int64)
    given = np.array([*(starts[epoch] for epoch in sorted(starts)), NO_ENTRY], np.int64)
    at = np.searchsorted(known, runs["leader_epoch"])
    return np.where(np.append(known, NO_ENTRY)[at] == runs["leader_epoch"], given[at], NO_ENTRY)


def _rises(runs: Records) -> Records:
    """Return which runs are of an epoch above all before, and are not followed by a lower one."""
    epochs = runs["leader_epoch"]
    highest = np.concatenate([[-1], np.maximum.accumulate(epochs)])[: len(epochs)]
    rises: Records = epochs > highest
    rises[:-1] &= epochs[1:] > epochs[:-1]
    return rises


def _log_start(case: Case, checkpoint: _Checkpoint) -> int:
    """Return the offset up to which the entries of the file were cut, as well as it can be told.

    The first entry moves up with the log start. The checkpoint of log starts may be older than that where the broker
    was not shut down in order, and never names the metadata log, whose start its oldest snapshot tells.
    """
    known = case.partition.log_dir.clean_shutdown and LOG_START in case.partition.log_dir.checkpoints
    first = checkpoint.entries[0][1] if checkpoint.entries else 0
    if first <= case.log_end_offset and (not known or case.partition.place.topic == METADATA_TOPIC):
        return max(case.log_start_offset, first)
    return case.log_start_offset


def _missing(case: Case, run: Row) -> Finding:
    return case.finding(
        CODES["leader-epoch-missing"],
        f"{FILE} has no entry for leader epoch {run['leader_epoch']}, which offset {run['first_offset']} begins.",
        evidence={"leader_epoch": run["leader_epoch"]},
        benign=("all of the epoch lies below the log start: no", OLD_FORMAT),
        **_place(run),
    )


def _disagrees(case: Case, checkpoint: _Checkpoint, message: str, run: Row | None = None) -> Finding:
    """Return a finding about the file, and maybe about the first batches of an epoch."""
    finding = case.finding(CODES["leader-epoch-checkpoint-mismatch"], message)
    if run is not None:
        finding = replace(
            finding,
            first_offset=run["first_offset"],
            last_offset=run["last_offset"],
            evidence={"leader_epoch": run["leader_epoch"], "start_offset": run["start"]},
            benign=("the first entry was moved up to the log start: no",),
        )
    return replace(finding, path=checkpoint.path)
