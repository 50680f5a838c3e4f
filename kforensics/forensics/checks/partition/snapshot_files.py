"""Checks that producer snapshots exist, are valid, and belong to the segments of the log.

Rule: ``ProducerStateManager`` writes a snapshot when a segment is rolled, at a clean shutdown and after it has loaded a
log. When it loads a log it removes snapshots that belong to no segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count
from kforensics.forensics.core.producer_states import PRODUCER_ENTRY, ProducerEntryArray
from kforensics.forensics.core.reporting import Row, first_n
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.snapshot_records import SnapshotEntries, snapshot_entries
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import forbidden, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.producer_snapshot import read_producer_snapshot

CODES = by_name(
    Code(
        "snapshot-corrupt",
        Severity.WARNING,
        meaning="Brokers reject this producer snapshot, delete it and use an older one.",
        remedy="No action, as long as another snapshot is left.",
        why=(
            "Its length, version or checksum is wrong, for example after a crash during the write. The broker "
            "deletes it and uses an older one, so it replays more of the log."
        ),
        benign="The files of a running broker were copied, if it is the newest snapshot.",
    ),
    Code(
        "snapshot-beyond-offset",
        Severity.ERROR,
        meaning="A snapshot contains offsets at or above its own offset.",
        remedy="Stop the broker and move this snapshot away; keep an older valid one.",
        why=(
            "A snapshot is the producer state after all batches below its offset; later offsets could not be "
            "known then. A broker that starts from it treats new batches as duplicates."
        ),
        benign="It was written by a broker before 2.0 (KAFKA-6683).",
    ),
    Code(
        "snapshot-absent",
        Severity.WARNING,
        meaning=(
            "The log contains producers without a snapshot: a broker that was shut down cleanly starts without "
            "any producer state."
        ),
        remedy=(
            "Before you start the broker, delete .kafka_cleanshutdown from its log directory: without that file "
            "it replays the log."
        ),
        why=(
            "After a clean shutdown a broker relies on its snapshots and replays nothing. Without a snapshot it "
            "starts without any producer: open transactions are forgotten and their data becomes visible, and "
            "retries are not recognized."
        ),
        benign=(
            "The broker was not shut down cleanly, so it replays the log: then this is only information. Running "
            "brokers have no snapshot in the first segment, and for a while after a truncation. Or the snapshots were "
            "left out of the copy."
        ),
    ),
    Code(
        "snapshot-stray",
        Severity.INFO,
        meaning="A snapshot belongs neither to a segment nor to the end of the log.",
        why="Snapshots belong to the start of a segment or to the end of the log. The segment of this one is missing.",
        benign="Segments were deleted or merged; the broker removes the snapshot at its next startup.",
    ),
)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the snapshot files of a partition, without comparing them with the log."""
    readable: dict[int, ProducerEntryArray] = {}
    denied = [error for file in state.partition.snapshots.values() if (error := forbidden(file.path))]
    yield from (state.forbidden(CODES["snapshot-corrupt"], error.path, error.why) for error in denied)
    for offset, file in sorted(state.partition.snapshots.items()):
        if file.path in {error.path for error in denied}:
            continue
        stored = snapshot_entries(file.path)
        if stored is None:
            yield _corrupt(state, offset, file)
        else:
            readable[offset] = _beyond(stored, offset)
    offsets = np.repeat([*readable], [len(rows) for rows in readable.values()]) if readable else np.empty(0, "i8")
    rows = np.concatenate([np.empty(0, PRODUCER_ENTRY), *readable.values()])
    yield from first_n(rows, partial(_reaches_beyond, state), snapshot=offsets)
    if not readable and not denied:
        yield from _absent(state)
    yield from _strays(state)


def _beyond(stored: SnapshotEntries, offset: int) -> ProducerEntryArray:
    """Return the entries with an offset at or above that of the snapshot, by producer id."""
    parts = (
        part[(part["last_offset"] >= offset) | (part["current_txn_first_offset"] >= offset)] for part in stored.chunks()
    )
    entries = np.concatenate([np.empty(0, PRODUCER_ENTRY), *parts])
    return entries[np.argsort(entries["producer_id"], kind="stable")]


def _reaches_beyond(state: PartitionState, row: Row) -> Finding:
    offset, last, first = row["snapshot"], row["last_offset"], row["current_txn_first_offset"]
    transaction = "no open transaction" if first < 0 else f"an open transaction at offset {first}"
    finding = state.finding(
        CODES["snapshot-beyond-offset"],
        f"The snapshot at offset {offset} has last offset {last} and {transaction} for producer "
        f"{row['producer_id']}, but can only cover offsets below {offset}.",
        offsets=(offset, max(last, first)),
        producer=(row["producer_id"], row["producer_epoch"]),
        evidence={"last_offset": last, "current_txn_first_offset": first},
        benign=("written before 2.0 (KAFKA-6683): possible, files do not show the release",),
    )
    return replace(finding, path=state.partition.snapshots[offset].path)


def _corrupt(state: PartitionState, offset: int, file: FoundFile) -> Finding:
    fault, unread, is_overwritten = _fault(file.path)
    is_newest = offset == max(state.partition.snapshots) and not state.partition.log_dir.clean_shutdown
    outcome = "yes, and the broker has an older one or the log" if is_overwritten else "no"
    finding = state.finding(
        CODES["snapshot-corrupt"],
        f"The snapshot at offset {offset} cannot be read: {fault}."
        if unread
        else f"Brokers reject the snapshot at offset {offset}: {fault}.",
        # Brokers write such files without a crash: when a topic goes back to an old message format, they write empty
        # snapshots over those that are there. Rule: ProducerStateManager.writeSnapshot up to 2.8.
        severity=Severity.INFO if is_overwritten else None,
        offsets=(offset, offset),
        exactness=Exactness.UNVERIFIABLE if unread else Exactness.EXACT,
        benign=(
            f"copied while the broker was writing it: {'possible, it is the newest' if is_newest else 'no'}",
            f"written over an older, longer one: {outcome}",
        ),
    )
    return replace(finding, path=file.path)


def _fault(path: str) -> tuple[str, bool, bool]:
    """Return what is wrong with a snapshot, whether it could not be read at all, and whether only its end is wrong."""
    try:
        with open_source(path) as source:
            faults = [row for row in read_producer_snapshot(source) if isinstance(row, Damage)]
    except InputError as error:
        return error.why, True, False
    if not faults:
        return "its length does not match its entries", False, False
    return faults[0].detail, False, [row.reason for row in faults] == ["stale-tail"]


def _absent(state: PartitionState) -> Iterator[Finding]:
    partition = state.partition
    clean = partition.log_dir.clean_shutdown
    is_young = len(partition.segments) == 1 and not partition.first_offset and not clean
    only_logs = not (partition.indexes or partition.time_indexes or partition.snapshots)
    producers, opened = _loaded(state), len(state.open_transactions)
    if only_logs or not producers or (is_young and not partition.snapshots):
        return
    consequence = "a broker that starts on these files replays the log"
    if clean:
        consequence = "after the clean shutdown the broker will start without their state"
    finding = state.finding(
        CODES["snapshot-absent"],
        f"The log has {format_count(producers, 'producer')} and {format_count(opened, 'open transaction')}, but no "
        f"usable snapshot: {consequence}.",
        severity=Severity.INFO if not clean else Severity.CRITICAL if opened else None,
        evidence={"producers": producers, "open_transactions": opened, "clean_shutdown": clean},
        benign=(
            f"single segment of a running broker: {'yes' if is_young else 'no'}",
            f"left out of the copy: {'no' if partition.snapshots else 'possible'}",
        ),
        cause="snapshot-corrupt" if partition.snapshots else None,
    )
    # Running brokers are without a snapshot after a truncation or DeleteRecords, until the next segment begins.
    yield finding if clean else replace(finding, remedy="No action: a broker that was not shut down replays the log.")


def _loaded(state: PartitionState) -> int:
    """Return how many producers a broker finds when it replays the log from its start offset."""
    start = state.local_log_start_offset
    if start <= state.partition.first_offset:
        return len(state.producers)
    return int((state.producers["last_offset"] >= start).sum())


def _strays(state: PartitionState) -> Iterator[Finding]:
    partition = state.partition
    bases = {segment.base_offset for segment in partition.segments}
    for offset, file in sorted(partition.snapshots.items())[:-1]:
        if offset not in bases:
            finding = state.finding(
                CODES["snapshot-stray"],
                f"The snapshot at offset {offset} is neither at the start of a segment nor the newest.",
                offsets=(offset, offset),
                benign=("segments merged or deleted, or broker restarted: likely, the next startup removes it",),
            )
            yield replace(finding, path=file.path)


CHECK = Check("snapshot_files", CODES, findings)
