"""From a case to the rows of the tables of verdicts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from kforensics.forensics.case import Case
from kforensics.forensics.findings import Finding, Severity
from kforensics.forensics.replay.results import NO_TIME, Ending, Records
from kforensics.forensics.replay.timeline import expected_index, history
from kforensics.forensics.result_columns import Lists, Rows, Words, nullable
from kforensics.forensics.stable_offset import StableOffset
from kforensics.forensics.tables import RESULTS
from kforensics.parsers.log_rows import Place

__all__ = ["aborted_rows", "finding_rows", "history_rows", "lso_rows", "producer_rows", "transaction_rows"]

OUTCOMES = ("aborted", "committed", "open")
NONE = -1


def _rows(place: Place, name: str, length: int, columns: dict[str, Any]) -> Rows:
    return Rows(RESULTS[name], length, {**place._asdict(), **columns})


def _same(records: Records, names: Iterable[str]) -> dict[str, Any]:
    return {name: records[name] for name in names}


def transaction_rows(case: Case, transactions: Records | None = None) -> Rows:
    """Return transactions of a partition, all of them unless some are given."""
    found = case.transactions if transactions is None else transactions
    paths = [segment.path for segment in case.partition.segments]
    is_open = found["ending"] == Ending.OPEN
    columns = _same(
        found,
        (
            *("producer_id", "producer_epoch", "first_offset", "last_offset", "batches", "records", "bytes"),
            *("last_timestamp", "first_offset_exact"),
        ),
    )
    columns |= {name: nullable(found[name], is_open) for name in ("marker_offset", "marker_epoch", "coordinator_epoch")}
    columns |= {
        "outcome": Words(found["ending"], OUTCOMES),
        "first_timestamp": nullable(found["first_timestamp"], NO_TIME),
        "marker_timestamp": nullable(found["marker_timestamp"], NO_TIME),
        "duration_ms": nullable(durations(case, found), found["first_timestamp"] == NO_TIME),
        "path": Words(found["segment"], paths),
        "position": nullable(found["position"], NONE),
    }
    return _rows(case.partition.place, "transactions", len(found), columns)


def durations(case: Case, transactions: Records) -> Any:
    """Return how long transactions lasted in ms, open ones up to the time of evaluation."""
    is_open = transactions["ending"] == Ending.OPEN
    ends = np.where(is_open, case.rules.as_of_ms, transactions["marker_timestamp"])
    firsts = np.where(transactions["first_timestamp"] == NO_TIME, ends, transactions["first_timestamp"])
    return ends - firsts


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


def _costs(case: Case, producer_ids: Any) -> dict[str, Any]:
    """Return what the transactions of producers amount to."""
    found = case.transactions
    at = np.searchsorted(producer_ids, found["producer_id"])
    at[at >= len(producer_ids)] = 0
    known = producer_ids[at] == found["producer_id"] if len(producer_ids) else np.zeros(len(found), bool)
    at, found = at[known], found[known]
    closed = found["ending"] != Ending.OPEN
    weights = {
        "transactions": np.ones(len(found), "i8"),
        "aborted": (found["ending"] == Ending.ABORTED).astype("i8"),
        "records": found["records"],
        "bytes": found["bytes"],
        "transaction_ms": np.where(closed, durations(case, found), 0),
    }
    return {name: _sums(at, weight, len(producer_ids)) for name, weight in weights.items()}


def _sums(at: Any, weights: Any, length: int) -> Any:
    sums = np.zeros(length, "i8")
    np.add.at(sums, at, weights)
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
        columns["age_ms"] = case.rules.as_of_ms - int(holder["last_timestamp"])
    return _rows(case.partition.place, "lso", 1, columns)


def history_rows(case: Case) -> Rows:
    """Return the steps of the last stable offset as the high watermark goes from the start of the log to its end."""
    steps = history(case.transactions, case.log_start_offset, case.log_end_offset)
    held = steps["holder"] >= 0
    columns = _same(steps, ("from_high_watermark", "to_high_watermark", "last_stable_offset"))
    producers = case.transactions["producer_id"]
    ids = producers[steps["holder"]] if len(producers) else np.zeros(len(steps), "i8")
    columns["producer_id"] = nullable(ids, ~held)
    known = case.exact_from is not None and not case.is_broken
    columns["exact"] = known & (steps["from_high_watermark"] >= (case.exact_from or 0))
    return _rows(case.partition.place, "lso_history", len(steps), columns)


def aborted_rows(case: Case, indexed: Records | None) -> Rows:
    """Return the aborted transactions, and what the transaction indexes hold of them.

    Args:
        case: the partition.
        indexed: entries of all its indexes with ``producer_id``, ``last_offset`` and ``last_stable_offset``, sorted by
            ``last_offset``; None if none of them can be read.
    """
    expected = expected_index(case.transactions, case.exact_from)
    columns = _same(expected, ("producer_id", "first_offset", "last_offset", "last_stable_offset"))
    columns["exact"] = expected["first_offset_exact"]
    if indexed is None:
        columns |= {"indexed": None, "indexed_last_stable_offset": None}
        return _rows(case.partition.place, "aborted_transactions", len(expected), columns)
    has, at = _found(expected, indexed)
    values = indexed["last_stable_offset"][at] if len(indexed) else np.zeros(len(expected), "i8")
    columns |= {"indexed": has, "indexed_last_stable_offset": nullable(values, ~has)}
    return _rows(case.partition.place, "aborted_transactions", len(expected), columns)


def _found(expected: Records, indexed: Records) -> tuple[Any, Any]:
    if not len(indexed):
        return np.zeros(len(expected), bool), np.zeros(len(expected), int)
    at = np.minimum(np.searchsorted(indexed["last_offset"], expected["last_offset"]), len(indexed) - 1)
    entry = indexed[at]
    same = (entry["last_offset"] == expected["last_offset"]) & (entry["producer_id"] == expected["producer_id"])
    return same, at


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
    text = found.code.remedy
    for name, value in {
        "topic": place.topic,
        "partition": place.partition,
        "first_offset": found.first_offset,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "path": found.path,
    }.items():
        text = text.replace(f"{{{name}}}", f"<{name}>" if value is None else str(value))
    return text or None


def worst(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity, None where nothing was found."""
    return max((found.severity for found in findings), default=None)
