"""Rows of the result tables of a partition: producers, last stable offset, findings and transactions.

Tables with about one row per transaction are made page by page, because there may be very many transactions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from kforensics.forensics.core.commands import filled_in, for_brokers
from kforensics.forensics.core.external_sort import SortedRows
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.formatting import UNKNOWN_TIMES
from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_types import UNENDED, TransactionArray, TransactionOutcome
from kforensics.forensics.core.result_rows import Lists, Rows, RowStream, Words, nullable
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.partition.blocking_transactions import are_expired, copy_time
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.snapshot_records import (
    SnapshotEntries,
    latest_entries,
    paired_blocks,
    snapshot_entries,
)
from kforensics.forensics.partition.stable_offset import StableOffset
from kforensics.forensics.partition.timeline import ExpectedAbortedEntryArray, expected_aborted_entries, lso_steps
from kforensics.forensics.partition.transaction_store import TransactionStore
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "ProducerTable",
    "TransactionTables",
    "durations",
    "finding_rows",
    "has_duration",
    "lso_rows",
    "remedy_text",
    "worst_severity",
]

NONE = -1
OUTCOMES = ("aborted", "committed", "open", "forgotten")
PRODUCER_COLUMNS = (
    *("producer_id", "producer_epoch", "last_sequence", "last_offset", "last_timestamp", "coordinator_epoch"),
    "current_txn_first_offset",
)
SNAPSHOT_FIELDS = (
    *("producer_epoch", "last_sequence", "last_offset", "offset_delta", "last_timestamp", "coordinator_epoch"),
    "current_txn_first_offset",
)
# Producers whose rows are made at once.
PRODUCER_PART = 1 << 17
PRODUCER_TOTALS = ("transactions", "aborted", "records", "bytes", "transaction_ms")
TRANSACTION_COLUMNS = (
    *("producer_id", "producer_epoch", "first_offset", "last_offset", "batches", "records", "bytes", "last_timestamp"),
    "first_offset_exact",
)
# Columns of ``lso`` that only the log shows.
OF_LOG = (
    *("log_end_offset", "last_stable_offset", "lowest_last_stable_offset", "last_stable_offset_at_checkpoint"),
    *("open_transactions", "hidden_records", "hidden_bytes"),
)
FINDING_COLUMNS = (
    *("first_offset", "last_offset", "producer_id", "producer_epoch", "path", "position", "message", "cause"),
)


def _rows(place: Place, name: str, length: int, columns: dict[str, Any]) -> Rows:
    return Rows(RESULTS[name], length, {**place._asdict(), **columns})


def _columns(rows: StructArray, names: Iterable[str]) -> dict[str, Any]:
    return {name: rows[name] for name in names}


@dataclass(frozen=True, slots=True, eq=False)
class ProducerTable:
    """Makes the rows of the producers of a partition.

    Attributes:
        place: the partition.
        evaluated_ms: until when the copy shows what happened, in ms.
        pid_expiry_ms: ``producer.id.expiration.ms``.
        producers: the producers at the end of the log, or at an earlier offset.
        in_snapshot: for each of them whether the snapshot at the same offset contains it with the same state; None
            without a snapshot.
        is_exact: whether all are known exactly.
        transaction_store: the transactions.
    """

    place: Place
    evaluated_ms: int
    pid_expiry_ms: int
    producers: ProducerStates
    in_snapshot: BoolArray | None
    is_exact: bool
    transaction_store: TransactionStore

    @classmethod
    def of(cls, state: PartitionState, producers: ProducerStates, offset: int) -> ProducerTable:
        """Return the table for producers of a partition after all batches below an offset.

        Raises:
            InputError: the snapshot at the offset cannot be read.
        """
        file = state.partition.snapshots.get(offset)
        snapshot = None if file is None else snapshot_entries(file.path)
        in_snapshot = None if snapshot is None else _agrees(producers, snapshot)
        is_exact = state.exact_from is not None and not state.is_broken
        times = copy_time(state), state.rules.pid_expiry_ms
        return cls(state.partition.place, *times, producers, in_snapshot, is_exact, state.transaction_store)

    def rows(self, selected: slice = slice(None)) -> Rows:
        """Return the rows, or some of them."""
        rows = self.producers[selected]
        columns: dict[str, Any] = {name: rows[name] for name in PRODUCER_COLUMNS}
        columns |= {
            "recent_batches": Lists(rows["recent"], rows["recent_count"]),
            # After its first available marker a producer is known exactly.
            "exact": (rows["coordinator_epoch"] >= 0) | self.is_exact,
            "expired": are_expired(rows, self.evaluated_ms, self.pid_expiry_ms),
            "in_snapshot": None if self.in_snapshot is None else self.in_snapshot[selected],
            **_totals(self, rows["producer_id"]),
        }
        return _rows(self.place, "producers", len(rows), columns)

    def stream(self) -> RowStream:
        """Return the rows, made part by part."""
        return RowStream(RESULTS["producers"], self._parts)

    def _parts(self) -> Iterator[Rows]:
        for start in range(0, len(self.producers), PRODUCER_PART):
            yield self.rows(slice(start, start + PRODUCER_PART))


def _agrees(producers: ProducerStates, snapshot: SnapshotEntries) -> BoolArray:
    """Return for each producer whether a snapshot contains it with the same state."""
    same, end = np.zeros(len(producers), bool), 0
    for block, replayed in paired_blocks(snapshot, producers):
        start, end = end, end + len(replayed)
        entries = latest_entries(block)
        if not len(entries):
            continue
        ranks = np.minimum(entries["producer_id"].searchsorted(replayed["producer_id"]), len(entries) - 1)
        equal = entries["producer_id"][ranks] == replayed["producer_id"]
        for name in SNAPSHOT_FIELDS:
            equal &= entries[name][ranks] == replayed[name]
        same[start:end] = equal
    return same


def _totals(table: ProducerTable, producer_ids: IntArray) -> dict[str, Any]:
    """Return the totals of the transactions of each producer."""
    sums = {name: np.zeros(len(producer_ids), "i8") for name in PRODUCER_TOTALS}
    for page in table.transaction_store if len(producer_ids) else ():
        indexes = np.searchsorted(producer_ids, page["producer_id"])
        indexes[indexes >= len(producer_ids)] = 0
        known = producer_ids[indexes] == page["producer_id"]
        indexes, transactions = indexes[known], page[known]
        closed = transactions["outcome"] != TransactionOutcome.OPEN
        weights = {
            "transactions": np.ones(len(transactions), "i8"),
            "aborted": (transactions["outcome"] == TransactionOutcome.ABORTED).astype("i8"),
            "records": transactions["records"],
            "bytes": transactions["bytes"],
            "transaction_ms": np.where(closed, durations(table.evaluated_ms, transactions), 0),
        }
        for name in PRODUCER_TOTALS:
            np.add.at(sums[name], indexes, weights[name])
    return sums


def lso_rows(state: PartitionState, stable: StableOffset) -> Rows:
    """Return where the last stable offset of a partition is; what only its log shows is null if the log is missing."""
    blocking_transaction = stable.blocking_transaction
    high_watermark = state.high_watermark
    columns = {
        "log_start_offset": state.log_start_offset,
        "log_end_offset": state.log_end_offset,
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
        "open_transactions": len(state.open_transactions),
        "hidden_records": stable.hidden_records,
        "hidden_bytes": stable.hidden_bytes,
    }
    if blocking_transaction is not None:
        for name in ("producer_id", "producer_epoch", "first_offset", "last_timestamp"):
            columns[name] = int(blocking_transaction[name])
        columns["age_ms"] = stable.idle_ms
        if columns["last_timestamp"] in UNKNOWN_TIMES:
            columns["last_timestamp"] = None
    if not state.partition.has_log:
        columns |= dict.fromkeys(OF_LOG) | {"exact": False}
    return _rows(state.partition.place, "lso", 1, columns)


def finding_rows(place: Place, findings: Sequence[Finding]) -> Rows:
    """Return the findings of a partition."""
    columns = {name: [getattr(finding, name) for finding in findings] for name in FINDING_COLUMNS}
    columns |= {
        "code": [finding.code.name for finding in findings],
        "severity": [str(finding.severity) for finding in findings],
        "evidence": [json.dumps(finding.evidence, default=int) for finding in findings],
        "exactness": [str(finding.exactness) for finding in findings],
        "benign": ["; ".join(finding.benign) or None for finding in findings],
        "remedy": [remedy_text(place, finding) for finding in findings],
    }
    return _rows(place, "findings", len(findings), columns)


def remedy_text(place: Place, finding: Finding, bootstrap_server: str | None = None) -> str | None:
    """Return the remedy of a finding with the finding's own values filled in, None if it has no remedy.

    Args:
        place: the partition.
        finding: the finding.
        bootstrap_server: addresses of brokers for its commands; None for the shell variable ``BOOTSTRAP``.
    """
    text = finding.code.remedy if finding.remedy is None else finding.remedy
    values = {
        "topic": place.topic,
        "partition": place.partition,
        "first_offset": finding.first_offset,
        "producer_id": finding.producer_id,
        "producer_epoch": finding.producer_epoch,
        "path": finding.path,
        "transactional_id": finding.evidence.get("transactional_id"),
        # Before any marker of its producer a partition knows no coordinator epoch, and the tool itself sends 0.
        "coordinator_epoch": max(finding.evidence.get("coordinator_epoch", 0), 0),
    }
    return for_brokers(filled_in(text, values), bootstrap_server) or None


def worst_severity(findings: Iterable[Finding]) -> Severity | None:
    """Return the worst severity of some findings, None if there are none."""
    return max((finding.severity for finding in findings), default=None)


@dataclass(frozen=True, slots=True, eq=False)
class TransactionTables:
    """What the tables of transactions are made of; a small value that may be sent to another process.

    The closed transactions are sent as the path of their file.

    Attributes:
        place: the partition.
        paths: paths of its segments.
        evaluated_ms: until when the copy shows what happened, in ms.
        transaction_store: its transactions.
        log_start_offset: first offset on disk that is visible to consumers.
        log_end_offset: offset after the last batch.
        lso_exact_from: high watermark from which no transaction from before the available log can block the last stable
            offset; None if there is none.
        exact_from: the same, as far as the boundary of the log shows.
    """

    place: Place
    paths: tuple[str, ...]
    evaluated_ms: int
    transaction_store: TransactionStore
    log_start_offset: int
    log_end_offset: int
    lso_exact_from: int | None
    exact_from: int | None

    @classmethod
    def of(cls, state: PartitionState) -> TransactionTables:
        """Return the tables of a partition."""
        return cls(
            state.partition.place,
            tuple(segment.path for segment in state.partition.segments),
            copy_time(state),
            state.transaction_store,
            state.local_log_start_offset,
            state.log_end_offset,
            None if state.is_broken else state.exact_from,
            state.exact_from,
        )

    def transactions(self, selected: Iterable[TransactionArray] | None = None) -> RowStream:
        """Return transactions, all of them if none are given, as parts that can be iterated more than once."""
        return RowStream(RESULTS["transactions"], partial(self._transaction_parts, selected))

    def history(self) -> RowStream:
        """Return the steps of the last stable offset as the high watermark moves from the log start to the log end."""
        return RowStream(RESULTS["lso_history"], self._steps)

    def aborted(self, indexed: SortedRows | None) -> RowStream:
        """Return the aborted transactions, and what the transaction indexes contain of them.

        Args:
            indexed: entries of all indexes sorted by last offset, as ``index_records`` returns them; None if one of the
                indexes cannot be read.
        """
        return RowStream(RESULTS["aborted_transactions"], partial(self._aborted, indexed))

    def _transaction_parts(self, selected: Iterable[TransactionArray] | None) -> Iterator[Rows]:
        return map(self._transactions, self.transaction_store.with_forgotten() if selected is None else selected)

    def _transactions(self, transactions: TransactionArray) -> Rows:
        is_open = np.isin(transactions["outcome"], UNENDED)
        columns = _columns(transactions, TRANSACTION_COLUMNS)
        columns |= {
            name: nullable(transactions[name], is_open)
            for name in ("marker_offset", "marker_epoch", "coordinator_epoch")
        }
        columns["last_timestamp"] = _times(transactions["last_timestamp"])
        columns |= {
            "outcome": Words(transactions["outcome"], OUTCOMES),
            "first_timestamp": _times(transactions["first_timestamp"]),
            "marker_timestamp": _times(transactions["marker_timestamp"]),
            "duration_ms": nullable(durations(self.evaluated_ms, transactions), ~has_duration(transactions)),
            "path": Words(transactions["segment"], self.paths),
            "position": nullable(transactions["position"], NONE),
        }
        return _rows(self.place, "transactions", len(transactions), columns)

    def _steps(self) -> Iterator[Rows]:
        if not self.paths:
            return  # the log is missing
        for steps in lso_steps(self.transaction_store, self.log_start_offset, self.log_end_offset):
            columns = _columns(steps, ("from_high_watermark", "to_high_watermark", "last_stable_offset"))
            columns["producer_id"] = nullable(steps["producer_id"], ~steps["is_blocked"])
            is_known = self.lso_exact_from is not None
            columns["exact"] = is_known & (steps["from_high_watermark"] >= (self.lso_exact_from or 0))
            yield _rows(self.place, "lso_history", len(steps), columns)

    def _aborted(self, indexed: SortedRows | None) -> Iterator[Rows]:
        for expected in expected_aborted_entries(self.transaction_store, self.exact_from):
            columns = _columns(expected, ("producer_id", "first_offset", "last_offset", "last_stable_offset"))
            columns["exact"] = expected["first_offset_exact"]
            columns |= {"indexed": None, "indexed_last_stable_offset": None}
            if indexed is not None:
                near = indexed.at(int(expected["last_offset"][0]), int(expected["last_offset"][-1]))
                is_indexed, rows = _matches(expected, near)
                values = near["last_stable_offset"][rows] if len(near) else np.zeros(len(expected), "i8")
                columns |= {"indexed": is_indexed, "indexed_last_stable_offset": nullable(values, ~is_indexed)}
            yield _rows(self.place, "aborted_transactions", len(expected), columns)


def _matches(expected: ExpectedAbortedEntryArray, indexed: StructArray) -> tuple[BoolArray, IntArray]:
    """Return for each expected entry whether an index has it, and the row of that entry."""
    if not len(indexed):
        return np.zeros(len(expected), bool), np.zeros(len(expected), int)
    rows = np.minimum(np.searchsorted(indexed["last_offset"], expected["last_offset"]), len(indexed) - 1)
    entries = indexed[rows]
    same = (entries["last_offset"] == expected["last_offset"]) & (entries["producer_id"] == expected["producer_id"])
    return same, rows


def durations(evaluated_ms: int, transactions: TransactionArray) -> IntArray:
    """Return the durations of transactions in ms, 0 if unknown; for open ones, up to the time of evaluation.

    Args:
        evaluated_ms: until when the copy shows what happened, as :func:`copy_time` returns it.
        transactions: the transactions.
    """
    is_open = np.isin(transactions["outcome"], UNENDED)
    ends = np.where(is_open, evaluated_ms, transactions["marker_timestamp"])
    firsts = np.where(has_duration(transactions), transactions["first_timestamp"], ends)
    elapsed: IntArray = ends - firsts
    return elapsed


def has_duration(transactions: TransactionArray) -> BoolArray:
    """Return which transactions have a known duration: both the first batch and the marker have a timestamp."""
    is_open = np.isin(transactions["outcome"], UNENDED)
    known: BoolArray = ~np.isin(transactions["first_timestamp"], UNKNOWN_TIMES)
    known &= is_open | ~np.isin(transactions["marker_timestamp"], UNKNOWN_TIMES)
    return known


def _times(timestamps: IntArray) -> Any:
    """Return timestamps as a column in which an absent one is null."""
    return nullable(timestamps, np.isin(timestamps, UNKNOWN_TIMES))
