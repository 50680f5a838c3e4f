"""Records that stand in the log twice, as far as their contents tell.

A batch that a leader took twice under the same sequences is found without its records, by the family ``sequences``;
that its contents differ is found here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Exactness, Finding, codes
from kforensics.forensics.core.record_types import NO_TIME, Anomaly, Records
from kforensics.forensics.core.reporting import Row, each, span
from kforensics.forensics.duplicates.duplicate_rows import REASONS, VIEWS, Level, View, Why
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import NOTHING, anomalies_of, are_raised_by_commits, last_before

__all__ = ["CODES", "findings"]

CODES = codes("""
seq-reuse error
A producer gave the same sequences to batches with different records.
Both are in the log, yet a retry of either may be taken for the other: look for a client that began anew at sequence 0.
why: To a broker a batch is known by producer id, epoch and sequence. If two have the same and differ, either of them \
may be refused as a repetition of the other.
innocent: A producer that had expired and began anew at 0 in the same epoch.

content-duplicate-retry warning
Records without a producer id stand in the log twice, as a client leaves them that got no answer and sent them again.
Remove the second where consumers keep what they got; set enable.idempotence in the producer.
why: Without idempotence a producer that gets no answer can only send again, and the broker cannot tell. Whole batches \
that match record for record, timestamps included, are hardly anything else.
innocent: Events that really repeat, with coarse timestamps: heartbeats, sensors.

content-duplicate-cross-producer info
Records stand in the log twice, from different producer ids or epochs, and both are committed.
If an application sent them again after a restart, give it a transactional id, or let consumers drop what they have.
why: Idempotence only reaches as far as one producer and its session: an application that starts again and sends what \
it had sent before has a new producer id.
innocent: Repeated on purpose, or events that are the same.
""")

BY = {Why.OTHER_PRODUCER: "the second time by another producer id", Why.OTHER_EPOCH: "the second time in another epoch"}
UNKNOWN_TIMES = (NO_TIME, -1)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of records that are there twice, if somebody looked for them, where no cleaner was."""
    if case.duplicates is None or not case.judges_sequences:
        return
    rows = case.duplicates.compress(case.duplicates["second_offset"] >= case.strict_from)
    rows = rows.take(np.argsort(rows["second_offset"], kind="stable"))
    reused = rows.compress((rows["level"] == Level.SEQUENCE) & (rows["why"] == Why.SEQUENCE_NOT_CONTENT))
    yield from each(reused, partial(_reuse, case), is_taken_for_copy=_are_taken_for_copies(case, reused))
    yield from each(rows.compress(rows["level"] == Level.CONTENT_RETRY), partial(_retry, case))
    across = (rows["level"] == Level.CONTENT) & np.isin(rows["why"], list(BY))
    # Else the older copy is of a transaction that was not committed, and no duplicate to whom it concerns.
    across &= rows["view"] == View.COMMITTED
    found = rows.compress(across)
    has_version_2 = are_raised_by_commits(case, found["second_producer_id"])
    yield from each(found, partial(_across_producers, case), has_version_2=has_version_2)


def _are_taken_for_copies(case: Case, rows: Records) -> Records:
    """Return of which rows the headers alone look like a batch that was written twice."""
    found = anomalies_of(case, Anomaly.SEQ_DUPLICATE_BATCH)
    behind = rows["second_last_offset"] + 1
    at = last_before(found["producer_id"], found["first_offset"], rows["second_producer_id"], behind)
    offsets = np.append(found["first_offset"], NOTHING)[at]
    taken: Records = offsets >= rows["second_offset"]
    return taken


def _places(row: Row) -> str:
    second, first = _place(row, "second"), _place(row, "first")
    return f"at {second}, and before that at {first}"


def _place(row: Row, side: str) -> str:
    first, last = row[f"{side}_offset"], row[f"{side}_last_offset"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _at(row: Row) -> dict[str, Any]:
    """Return where the second writing stands and whose it is, as ``Case.finding`` takes it."""
    has_producer = row["second_producer_id"] >= 0
    return {
        "offsets": (row["second_offset"], row["second_last_offset"]),
        "producer": (row["second_producer_id"], row["second_producer_epoch"]) if has_producer else None,
        "at": (row["second_segment"], row["second_position"]),
    }


def _evidence(row: Row) -> dict[str, object]:
    """Return what is known of both writings."""
    first = {name: row[f"first_{name}"] for name in ("offset", "last_offset", "position", "producer_id")}
    view = VIEWS[View(row["view"])]
    return {"records": row["records"], "why": REASONS[Why(row["why"])], "view": view} | {
        f"first_{name}": value for name, value in first.items()
    }


def _reuse(case: Case, row: Row) -> Finding:
    other = " What is reported there as seq-duplicate-batch is this." if row["is_taken_for_copy"] else ""
    return case.finding(
        CODES["seq-reuse"],
        f"Producer {row['second_producer_id']}, epoch {row['second_producer_epoch']}, used the same sequences for "
        f"different records, {_places(row)}.{other}",
        **_at(row),
        evidence=_evidence(row),
        benign=(
            "the same records compressed or encoded otherwise: ruled out, decoded records were compared",
            f"sequences wrapped: ruled out, only {row['second_offset'] - row['first_offset']} offsets lie between",
            f"producer expired at the leader, or began anew at sequence 0: {_expired(case, row)}",
        ),
    )


def _expired(case: Case, row: Row) -> str:
    silence = _between(row)
    if silence is None:
        return "possible, when both were written is not known"
    return f"{'likely' if silence >= case.rules.pid_expiry_ms else 'possible'}, {span(silence)} lie between"


def _between(row: Row) -> int | None:
    """Return the time between both writings in ms, None if it is not known."""
    if row["first_timestamp"] in UNKNOWN_TIMES or row["second_timestamp"] in UNKNOWN_TIMES:
        return None
    apart: int = row["second_timestamp"] - row["first_timestamp"]
    return apart


def _retry(case: Case, row: Row) -> Finding:
    is_same_time = row["why"] == Why.RETRY_SAME_TIME
    coarse = "events that are equal down to the millisecond: possible" if is_same_time else "equal events: possible"
    return case.finding(
        CODES["content-duplicate-retry"],
        f"{_many(row)} written twice without a producer id, as a retry does, {_places(row)}.",
        **_at(row),
        evidence=_evidence(row),
        exactness=Exactness.EXACT if is_same_time else Exactness.APPROXIMATE,
        benign=(f"{coarse}, {row['records']} in a row", "tombstones and empty values: ruled out, they do not count"),
    )


def _across_producers(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["content-duplicate-cross-producer"],
        f"{_many(row)} written twice, {BY[Why(row['why'])]}, {_places(row)}.",
        **_at(row),
        evidence=_evidence(row),
        benign=(
            "an application that sent again after a restart: possible",
            "the older copy of an aborted transaction: ruled out, a read_committed consumer gets both",
            *_excuse_of_epoch(row),
        ),
    )


def _excuse_of_epoch(row: Row) -> tuple[str, ...]:
    if row["why"] != Why.OTHER_EPOCH:
        return ()
    outcome = "likely, markers of this producer do" if row["has_version_2"] else "ruled out, no marker of it does"
    return (f"the same client in another transaction, as each raises the epoch: {outcome}",)


def _many(row: Row) -> str:
    return "1 record was" if row["records"] == 1 else f"{row['records']} records were"
