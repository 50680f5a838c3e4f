"""Checks for records that were written twice, by comparing their contents.

``producer_sequences`` finds batches that a leader accepted twice with the same sequences, without decoding records.
This check finds batches with the same sequences and different records.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration, format_offsets
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME, Anomaly
from kforensics.forensics.core.reporting import Row, RowPart, first_n_of_parts
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.duplicates.duplicate_rows import (
    REASON_NAMES,
    VIEW_NAMES,
    DuplicateArray,
    DuplicateLevel,
    DuplicateReason,
    DuplicateView,
)
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import (
    NOTHING,
    anomalies_of,
    epochs_bumped_by_transactions,
    last_before,
)
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.messages.registry import INTERNAL_TOPICS

CODES = by_name(
    Code(
        "seq-reuse",
        Severity.ERROR,
        meaning="A producer used the same sequences for batches with different records.",
        remedy=(
            "Look for a client that restarted at sequence 0. Both batches are in the log, but a retry of either "
            "may be mistaken for the other."
        ),
        why=(
            "A broker identifies a batch by producer id, epoch and sequence. If two different batches share "
            "them, the broker may discard either as a duplicate of the other."
        ),
        benign="The producer had expired and restarted at sequence 0 in the same epoch.",
    ),
    Code(
        "content-duplicate-retry",
        Severity.WARNING,
        meaning="The log has records without a producer id twice, as after a client timed out and retried.",
        remedy="Deduplicate in consumers that keep their results, and set enable.idempotence in the producer.",
        why=(
            "Without idempotence a producer that gets no response can only send again, and the broker cannot "
            "recognize the retry. Where little else in the partition is repeated, whole batches that match record for "
            "record are rarely anything else."
        ),
        benign="Events that really repeat, with coarse timestamps: heartbeats, sensors.",
    ),
    Code(
        "content-duplicate-cross-producer",
        Severity.INFO,
        meaning="The log has records twice, from different producer ids or epochs, and both copies are committed.",
        remedy=(
            "If an application resent them after a restart, deduplicate in the consumers. To prevent it, write in "
            "transactions that also commit the offsets of its input."
        ),
        why=(
            "Idempotence covers one producer session only. An application that restarts and resends its records "
            "does so under a new producer id."
        ),
        benign="An application repeated records on purpose, or events are equal.",
    ),
    Code(
        "content-duplicate-repeated",
        Severity.INFO,
        meaning="Consumers receive records with the same key, value and headers more than once.",
        remedy="If each should count once, deduplicate in the consumers.",
        why=(
            "Neither sequences nor what is usual in the partition show a retry, so a broker is not at fault. The same "
            "producer wrote the records again, or no producer id shows who did."
        ),
        benign="Events that really repeat: heartbeats, states, sensors.",
    ),
)

PRODUCERS = {
    DuplicateReason.OTHER_PRODUCER: "by a different producer id",
    DuplicateReason.OTHER_EPOCH: "in a different epoch",
}
# Repeated records that no other code reports.
REPEATED = (
    DuplicateReason.OTHER_SEQUENCE,
    DuplicateReason.OTHER_BATCH,
    DuplicateReason.NO_PRODUCER,
    DuplicateReason.NO_TIME,
    DuplicateReason.PERIODIC,
    DuplicateReason.USUAL,
    DuplicateReason.SINGLE,
)
UNKNOWN_TIMES = (NO_TIME, -1)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield duplicate records, if the records were compared, in the part of the log that was never compacted."""
    if state.duplicates is None or not state.checks_sequences:
        return
    parts = partial(_parts, state, state.duplicates)
    first_rows = partial(first_n_of_parts, by="second_offset")
    reused = parts(DuplicateLevel.SEQUENCE, DuplicateReason.SEQUENCE_NOT_CONTENT)
    yield from first_rows((_with_anomalies(state, rows) for rows in reused), partial(_reuse, state))
    yield from first_rows(map(RowPart, parts(DuplicateLevel.CONTENT_RETRY)), partial(_retry, state))
    bumped = _bumped_producers(state, parts(DuplicateLevel.CONTENT, *PRODUCERS))
    across_producers = (
        RowPart(rows, {"has_version_2": np.isin(rows["second_producer_id"], bumped)})
        for rows in parts(DuplicateLevel.CONTENT, *PRODUCERS)
    )
    yield from first_rows(across_producers, partial(_across_producers, state))
    if state.partition.place.topic not in INTERNAL_TOPICS:
        yield from _repeated(state, parts(DuplicateLevel.CONTENT, *REPEATED))


def _parts(
    state: PartitionState, duplicates: SpilledRows, level: DuplicateLevel, *reasons: DuplicateReason
) -> Iterator[DuplicateArray]:
    """Yield the uncompacted duplicates at a level, with one of the reasons if any are given, part by part.

    There may be too many to hold in memory. At level CONTENT only those in the view COMMITTED count: in the other, the
    older copy was not committed, so a read_committed consumer gets the records once.
    """
    for rows in duplicates:
        selected = (rows["level"] == level) & (rows["second_offset"] >= state.first_uncompacted_offset)
        if reasons:
            selected &= np.isin(rows["why"], reasons)
        if level == DuplicateLevel.CONTENT:
            selected &= rows["view"] == DuplicateView.COMMITTED
        if selected.any():
            yield rows if selected.all() else take_rows(rows, selected)


def _with_anomalies(state: PartitionState, rows: DuplicateArray) -> RowPart:
    return RowPart(rows, {"is_taken_for_copy": _are_taken_for_copies(state, rows)})


def _bumped_producers(state: PartitionState, parts: Iterable[DuplicateArray]) -> IntArray:
    """Return the producers of some duplicates that have markers which bump the epoch as version 2 does."""
    producers = np.empty(0, "i8")
    for rows in parts:
        producers = np.union1d(producers, rows["second_producer_id"])
    return producers[epochs_bumped_by_transactions(state, producers)]


def _are_taken_for_copies(state: PartitionState, rows: DuplicateArray) -> BoolArray:
    """Return which rows ``seq-duplicate-batch`` reports as well, because it compares headers only."""
    duplicates = anomalies_of(state, Anomaly.SEQ_DUPLICATE_BATCH)
    ends = rows["second_last_offset"] + 1
    index = last_before(duplicates["producer_id"], duplicates["first_offset"], rows["second_producer_id"], ends)
    offsets = np.append(duplicates["first_offset"], NOTHING)[index]
    taken: BoolArray = offsets >= rows["second_offset"]
    return taken


def _both_offsets(row: Row) -> str:
    first = format_offsets(row["first_offset"], row["first_last_offset"])
    second = format_offsets(row["second_offset"], row["second_last_offset"])
    return f"first at {first}, again at {second}"


def _second_copy(row: Row) -> dict[str, Any]:
    """Return the location and producer of the second copy, as arguments of ``PartitionState.finding``."""
    has_producer = row["second_producer_id"] >= 0
    return {
        "offsets": (row["second_offset"], row["second_last_offset"]),
        "producer": (row["second_producer_id"], row["second_producer_epoch"]) if has_producer else None,
        "at": (row["second_segment"], row["second_position"]),
    }


def _evidence(row: Row) -> dict[str, object]:
    """Return the evidence about both copies."""
    first = {name: row[f"first_{name}"] for name in ("offset", "last_offset", "position", "producer_id")}
    view = VIEW_NAMES[DuplicateView(row["view"])]
    return {"records": row["records"], "why": REASON_NAMES[DuplicateReason(row["why"])], "view": view} | {
        f"first_{name}": value for name, value in first.items()
    }


def _reuse(state: PartitionState, row: Row) -> Finding:
    other = " The seq-duplicate-batch finding there is this reuse." if row["is_taken_for_copy"] else ""
    return state.finding(
        CODES["seq-reuse"],
        f"Producer {row['second_producer_id']}, epoch {row['second_producer_epoch']}, used the same sequences for "
        f"different records: {_both_offsets(row)}.{other}",
        **_second_copy(row),
        evidence=_evidence(row),
        benign=(
            "same records with another compression or encoding: ruled out, decoded records were compared",
            f"sequences wrapped around: ruled out, only {row['second_offset'] - row['first_offset']} offsets between",
            f"producer expired at the leader, or restarted at sequence 0: {_expired(state, row)}",
        ),
    )


def _expired(state: PartitionState, row: Row) -> str:
    elapsed = _elapsed(row)
    if elapsed is None:
        return "possible, write times unknown"
    return f"{'likely' if elapsed >= state.rules.pid_expiry_ms else 'possible'}, {format_duration(elapsed)} between"


def _elapsed(row: Row) -> int | None:
    """Return the time between the two writes in ms, None if it is not known."""
    if row["first_timestamp"] in UNKNOWN_TIMES or row["second_timestamp"] in UNKNOWN_TIMES:
        return None
    elapsed: int = row["second_timestamp"] - row["first_timestamp"]
    return elapsed


def _retry(state: PartitionState, row: Row) -> Finding:
    is_same_time = row["why"] == DuplicateReason.RETRY_SAME_TIME
    coincidence = "equal events in the same millisecond" if is_same_time else "equal events"
    return state.finding(
        CODES["content-duplicate-retry"],
        f"{_records_were(row)} written twice without a producer id, as by a retry: {_both_offsets(row)}.",
        **_second_copy(row),
        evidence=_evidence(row),
        exactness=Exactness.EXACT if is_same_time else Exactness.APPROXIMATE,
        benign=(
            f"{coincidence}: possible, {row['records']} in a row",
            "tombstones and empty values: ruled out, not counted",
        ),
    )


def _across_producers(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["content-duplicate-cross-producer"],
        f"{_records_were(row)} written again {PRODUCERS[DuplicateReason(row['why'])]}: {_both_offsets(row)}.",
        **_second_copy(row),
        evidence=_evidence(row),
        benign=(
            "application resent its records after a restart: possible",
            "older copy in an aborted transaction: ruled out, a read_committed consumer gets both",
            *_epoch_explanation(row),
        ),
    )


def _repeated(state: PartitionState, parts: Iterable[DuplicateArray]) -> Iterator[Finding]:
    """Yield one finding for all of the records: there may be many, and each may be innocent."""
    first: Row | None = None
    total = runs = last_offset = 0
    for rows in parts:
        total, runs = total + int(rows["records"].sum()), runs + len(rows)
        last_offset = max(last_offset, int(rows["second_last_offset"].max()))
        earliest = int(rows["second_offset"].argmin())
        if first is None or rows["second_offset"][earliest] < first["second_offset"]:
            (first,) = RowPart(rows[earliest : earliest + 1]).values()
    if first is None:
        return
    yield state.finding(
        CODES["content-duplicate-repeated"],
        f"{format_count(total, 'record')} with the content of an earlier one, in {format_count(runs, 'run')}: "
        f"{_both_offsets(first)} ({REASON_NAMES[DuplicateReason(first['why'])]}).",
        **_second_copy(first) | {"offsets": (first["second_offset"], last_offset)},
        evidence=_evidence(first) | {"records": total, "runs": runs},
        benign=(
            "events that repeat, such as heartbeats: possible",
            "older copy in an aborted transaction: ruled out, a read_committed consumer gets both",
        ),
    )


def _epoch_explanation(row: Row) -> tuple[str, ...]:
    if row["why"] != DuplicateReason.OTHER_EPOCH:
        return ()
    outcome = "likely, its markers raise the epoch" if row["has_version_2"] else "ruled out, none of its markers does"
    return (f"same client in another transaction, each raising the epoch: {outcome}",)


def _records_were(row: Row) -> str:
    return "1 record was" if row["records"] == 1 else f"{row['records']} records were"


CHECK = Check("duplicate_records", CODES, findings)
