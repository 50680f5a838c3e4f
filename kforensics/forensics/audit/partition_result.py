"""Run all checks of a partition, and collect its findings and rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kforensics.forensics.checks.check import Check, findings_of
from kforensics.forensics.core.commands import for_brokers
from kforensics.forensics.core.findings import Finding, Severity
from kforensics.forensics.core.record_types import NO_TIME, TransactionOutcome
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.duplicates.partition_duplicates import find_duplicates, partition_duplicate_rows
from kforensics.forensics.metadata.cluster_events import event_rows
from kforensics.forensics.metadata.image_entities import image_rows
from kforensics.forensics.partition.batch_histogram import histogram_rows
from kforensics.forensics.partition.damage_times import with_times_of_segments
from kforensics.forensics.partition.partition_rows import (
    ProducerTable,
    TransactionTables,
    finding_rows,
    lso_rows,
    worst_severity,
)
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.record_evidence import record_evidence
from kforensics.forensics.partition.stable_offset import StableOffset, stable_offset
from kforensics.forensics.partition.transaction_store import TransactionStore
from kforensics.forensics.sidecar.aborted_entries import index_records
from kforensics.parsers.files.log_names import METADATA_TOPIC
from kforensics.parsers.log.log_rows import Place, damage_row

if TYPE_CHECKING:
    from kforensics.forensics.audit.deferred_verdicts import ClusterInput


CLEAN = "clean"
UNREAD = "unread"


@dataclass(frozen=True, slots=True)
class PartitionResult:
    """The result of an audit for a partition.

    Attributes:
        place: the partition.
        folder: folder of the partition.
        size: bytes of its segments.
        rows: rows by table; very many rows are a stream, which creates them on demand.
        findings: the worst first.
        stable: its last stable offset; None if it cannot be read or has no log, as is the next attribute.
        log_end_offset: its log end offset.
        why: why it cannot be read, None if it can.
        damage: rows of the table ``damage``.
        is_counted: whether this is the final result of a partition; False for its rows while the findings are deferred,
            and for results of several partitions.
        cluster_input: what the partition contributes to its cluster, with its deferred findings; None if its cluster
            has no checks.
        shared_worst: the worst severity that checks across partitions found, None without any finding.
        saved_bytes: bytes of its segments that were not read, because an earlier audit had kept summaries of them.
    """

    place: Place
    folder: str
    size: int
    rows: Mapping[str, Rows | RowStream] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    stable: StableOffset | None = None
    log_end_offset: int | None = None
    why: str | None = None
    damage: tuple[tuple[Any, ...], ...] = ()
    is_counted: bool = True
    cluster_input: ClusterInput | None = None
    shared_worst: Severity | None = None
    saved_bytes: int = 0

    def only(self, *tables: str) -> PartitionResult:
        """Return the result with the rows of some tables only."""
        return replace(self, rows={table: self.rows[table] for table in tables if table in self.rows}, damage=())

    def for_brokers(self, bootstrap_server: str | None) -> PartitionResult:
        """Return the result with the addresses of brokers in the remedies of its rows; unchanged for None."""
        if bootstrap_server is None:
            return self
        changed: dict[str, Rows] = {}
        for name in ("findings", "incidents"):
            if isinstance(rows := self.rows.get(name), Rows):
                remedies = [text and for_brokers(text, bootstrap_server) for text in rows.columns["remedy"]]
                changed[name] = replace(rows, columns={**rows.columns, "remedy": remedies})
        return replace(self, rows={**self.rows, **changed})

    @property
    def worst(self) -> Severity | None:
        """The worst severity, None if there are no findings."""
        worst = [severity for severity in (worst_severity(self.findings), self.shared_worst) if severity is not None]
        return max(worst, default=None)


def with_records(
    state: PartitionState, workers: int | None, searches: Callable[[PartitionState], bool] = lambda _: True
) -> PartitionState:
    """Return a partition state with the evidence of its records; the log is read once or twice more.

    Args:
        state: the partition.
        workers: number of reader threads: 0 to read in the calling thread, None for one per processor.
        searches: whether to search the partition for duplicates.

    Raises:
        InputError: a segment cannot be read.
    """
    found = find_duplicates(state, workers=workers) if searches(state) else ()
    duplicates = SpilledRows.of(DUPLICATE, found)
    return replace(state, records=record_evidence(state.partition, workers=workers), duplicates=duplicates)


def evaluate_state(state: PartitionState, checks: Sequence[Check[PartitionState, Finding]]) -> PartitionResult:
    """Return the result of a partition.

    Args:
        state: the partition.
        checks: which checks to run.

    Raises:
        InputError: a file of the partition cannot be read.
    """
    findings = tuple(with_times_of_segments(state, findings_of(state, checks)))
    if not state.partition.has_log:
        return _result_without_log(state, findings)
    stable = stable_offset(state)
    place = state.partition.place
    tables = TransactionTables.of(state)
    return PartitionResult(
        place=place,
        folder=state.partition.folder,
        size=state.partition.size,
        rows={
            "partitions": _partition_row(state, stable, findings),
            "lso": lso_rows(state, stable),
            "lso_history": tables.history(),
            "transactions": tables.transactions(),
            "producers": ProducerTable.of(state, state.producers, state.log_end_offset).stream(),
            "batch_histograms": histogram_rows(place, state.log.histogram),
            "aborted_transactions": tables.aborted(index_records(state.partition)),
            "cluster_events": event_rows(state),
            **({"cluster_image": image_rows(state.partition)} if place.topic == METADATA_TOPIC else {}),
            "findings": finding_rows(place, findings),
            **({} if state.duplicates is None else {"duplicates": partition_duplicate_rows(state, state.duplicates)}),
        },
        findings=findings,
        stable=stable,
        log_end_offset=state.log_end_offset,
        damage=tuple(
            damage_row(place, state.partition.segments[segment].path, damage) for segment, damage in state.log.damage
        ),
    )


def _result_without_log(state: PartitionState, findings: tuple[Finding, ...]) -> PartitionResult:
    """Return the result of a partition whose log is missing: its findings, and that its offsets are unknown."""
    rows = {
        "partitions": _partition_row(state, None, findings),
        "lso": lso_rows(state, stable_offset(state)),
        "findings": finding_rows(state.partition.place, findings),
    }
    return PartitionResult(state.partition.place, state.partition.folder, 0, rows, findings)


def _partition_row(state: PartitionState, stable: StableOffset | None, findings: Sequence[Finding]) -> Rows:
    """Return the row of ``partitions``: the verdict on a partition, its size, its contents and its overhead.

    Args:
        state: the partition.
        stable: its last stable offset, None if its log is missing.
        findings: its findings.
    """
    log, transaction_store = state.log, state.transaction_store
    closed, aborted = len(transaction_store.closed), transaction_store.aborted
    data_batches = log.batches - log.control_batches
    all_records = 0 if log.compressed_messages and log.control_batches else log.records + log.control_batches
    transaction_records, transaction_ms = _averages(transaction_store)
    worst = worst_severity(findings)
    columns: dict[str, Any] = {
        **state.partition.place._asdict(),
        "verdict": CLEAN if worst is None else str(worst),
        "segments": len(state.partition.segments),
        "bytes": log.bytes,
        "batches": log.batches,
        "records": log.records,
        "first_offset": int(log.first.base_offset[0]) if log.batches else None,
        "log_end_offset": state.log_end_offset if stable else None,
        "last_stable_offset": stable.last_stable_offset if stable else None,
        "newest_timestamp": log.newest_timestamp if log.newest_timestamp >= 0 else None,
        "producers": len(state.producers),
        "open_transactions": len(state.open_transactions),
        "committed": closed - aborted,
        "aborted": aborted,
        "control_batches": log.control_batches,
        "control_records_share": _share(log.control_batches, all_records),
        "control_bytes_share": _share(log.control_bytes, log.bytes),
        "records_per_batch": None if log.compressed_messages else _share(log.records, data_batches),
        "aborted_share": _share(aborted, closed),
        "transaction_records": transaction_records,
        "transaction_ms": transaction_ms,
        "findings": sum(finding.occurrences for finding in findings),
        "read": "ok",
    }
    return Rows(RESULTS["partitions"], 1, columns)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _averages(transaction_store: TransactionStore) -> tuple[float | None, float | None]:
    """Return the average number of records of a transaction, and the average duration of a closed one in ms."""
    records = duration_ms = timed = 0
    for rows in transaction_store:
        records += int(rows["records"].sum())
        known = (rows["outcome"] != TransactionOutcome.OPEN) & (rows["first_timestamp"] != NO_TIME)
        timed += int(known.sum())
        duration_ms += int((rows["marker_timestamp"] - rows["first_timestamp"])[known].sum())
    return _share(records, len(transaction_store)), _share(duration_ms, timed)


def unreadable_result(place: Place, folder: str, size: int, why: str) -> PartitionResult:
    """Return the result of a partition that cannot be read."""
    table = RESULTS["partitions"]
    columns: dict[str, Any] = dict.fromkeys(table.names)
    columns |= {**place._asdict(), "verdict": UNREAD, "read": why, "findings": 0}
    return PartitionResult(place, folder, size, {"partitions": Rows(table, 1, columns)}, why=why)
