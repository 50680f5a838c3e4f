"""From a case to the rows of the tables of verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.core.result_rows import Lists, Rows
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.stable_offset import StableOffset
from kforensics.forensics.partition.transaction_tables import durations
from kforensics.parsers.log.log_rows import Place

__all__ = ["finding_rows", "lso_rows", "producer_rows", "remedy", "worst"]


def _rows(place: Place, name: str, length: int, columns: dict[str, Any]) -> Rows:
    return Rows(RESULTS[name], length, {**place._asdict(), **columns})


def _same(records: Records, names: Iterable[str]) -> dict[str, Any]:
    return {name: records[name] for name in names}


def producer_rows(case: Case, producers: Records | None = None, snapshot: Records | None = None) -> Rows:
    """Return the producers at the end of the log, or at an earlier offset.

    Args:
        case: the partition.
        producers: their state, None for that at the end of the log.
        snapshot: what the snapshot at the same offset says, PRODUCER records too; None if there is none.
    """
    found = case.producers if producers is None else producers
    columns = _same(
        found,
        (
            *("producer_id", "producer_epoch", "last_sequence", "last_offset", "last_timestamp", "coordinator_epoch"),
            "current_txn_first_offset",
        ),
    )
    columns |= {
        "recent_batches": Lists(found["recent"], found["recent_count"]),
        # Behind its first marker on hand a producer is known exactly.
        "exact": (found["coordinator_epoch"] >= 0) | (case.exact_from is not None and not case.is_broken),
        "expired": (found["current_txn_first_offset"] < 0)
        & (case.rules.as_of_ms - found["last_timestamp"] >= case.rules.pid_expiry_ms),
        "in_snapshot": None if snapshot is None else _agrees(found, snapshot),
        **_costs(case, found["producer_id"]),
    }
    return _rows(case.partition.place, "producers", len(found), columns)


STATE = (
    *("producer_epoch", "last_sequence", "last_offset", "offset_delta", "last_timestamp", "coordinator_epoch"),
    "current_txn_first_offset",
)


def _agrees(producers: Records, snapshot: Records) -> Any:
    """Return for each producer whether a snapshot has it with the same state."""
    if not len(snapshot):
        return np.zeros(len(producers), bool)
    order = np.argsort(snapshot["producer_id"], kind="stable")
    at = np.searchsorted(snapshot["producer_id"], producers["producer_id"], sorter=order)
    other = snapshot[order[np.minimum(at, len(snapshot) - 1)]]
    same = other["producer_id"] == producers["producer_id"]
    for name in STATE:
        same &= other[name] == producers[name]
    return same


COSTS = ("transactions", "aborted", "records", "bytes", "transaction_ms")


def _costs(case: Case, producer_ids: Any) -> dict[str, Any]:
    """Return what the transactions of producers amount to."""
    sums = {name: np.zeros(len(producer_ids), "i8") for name in COSTS}
    for rows in case.ledger if len(producer_ids) else ():
        at = np.searchsorted(producer_ids, rows["producer_id"])
        at[at >= len(producer_ids)] = 0
        known = producer_ids[at] == rows["producer_id"]
        at, found = at[known], rows[known]
        closed = found["ending"] != Ending.OPEN
        weights = {
            "transactions": np.ones(len(found), "i8"),
            "aborted": (found["ending"] == Ending.ABORTED).astype("i8"),
            "records": found["records"],
            "bytes": found["bytes"],
            "transaction_ms": np.where(closed, durations(case.rules, found), 0),
        }
        for name in COSTS:
            np.add.at(sums[name], at, weights[name])
    return sums


def lso_rows(case: Case, stable: StableOffset) -> Rows:
    """Return where the last stable offset of a partition is."""
    holder = stable.holder
    high_watermark = case.high_watermark
    columns = {
        "log_start_offset": case.log_start_offset,
        "log_end_offset": case.log_end_offset,
        "high_watermark": high_watermark,
        "high_watermark_source": "log end" if high_watermark is None else "checkpoint",
        "last_stable_offset": stable.last_stable_offset,
        "lowest_last_stable_offset": stable.lowest,
        "last_stable_offset_at_checkpoint": stable.at_checkpoint,
        "exact": stable.exact,
        "producer_id": None,
        "producer_epoch": None,
        "first_offset": None,
        "last_timestamp": None,
        "age_ms": None,
        "open_transactions": len(case.open_transactions),
        "hidden_records": stable.hidden_records,
        "hidden_bytes": stable.hidden_bytes,
    }
    if holder is not None:
        for name in ("producer_id", "producer_epoch", "first_offset", "last_timestamp"):
            columns[name] = int(holder[name])
        columns["age_ms"] = stable.silent_ms
    return _rows(case.partition.place, "lso", 1, columns)


def finding_rows(place: Place, findings: Sequence[Finding]) -> Rows:
    """Return findings of a partition."""
    columns = {
        name: [getattr(found, name) for found in findings]
        for name in (
            "first_offset",
            "last_offset",
            "producer_id",
            "producer_epoch",
            "path",
            "position",
            "message",
            "cause",
        )
    }
    columns |= {
        "code": [found.code.name for found in findings],
        "severity": [str(found.severity) for found in findings],
        "evidence": [json.dumps(found.evidence, default=int) for found in findings],
        "exactness": [str(found.exactness) for found in findings],
        "benign": ["; ".join(found.benign) or None for found in findings],
        "remedy": [remedy(place, found) for found in findings],
    }
    return _rows(place, "findings", len(findings), columns)


def remedy(place: Place, found: Finding) -> str | None:
    """Return what to do about a finding, with its own figures in the words."""
    text = found.code.remedy if found.remedy is None else found.remedy
    transactional_id = found.evidence.get("transactional_id")
    for name, value in {
        "topic": place.topic,
        "partition": place.partition,
        "first_offset": found.first_offset,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "path": found.path,
        "transactional_id": None if transactional_id is None else quote(transactional_id),
    }.items():
        text = text.replace(f"{{{name}}}", f"<{name}>" if value is None else str(value))
    return text or None


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity, None where nothing was found."""
    return max((found.severity for found in findings), default=None)
