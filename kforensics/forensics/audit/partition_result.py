"""All checks of a partition, and everything an audit keeps of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from kforensics.forensics.core.findings import Code, Finding, Severity
from kforensics.forensics.core.record_types import NO_TIME, Ending
from kforensics.forensics.core.result_rows import Rows, RowStream
from kforensics.forensics.core.tables import RESULTS
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.duplicates.partition_duplicates import duplicate_rows, duplicates_of
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_rows import finding_rows, lso_rows, producer_rows, worst
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.record_evidence import record_evidence
from kforensics.forensics.partition.stable_offset import StableOffset, stable_offset
from kforensics.forensics.partition.transaction_store import Ledger
from kforensics.forensics.partition.transaction_tables import TransactionTables
from kforensics.forensics.sidecar.transaction_entries import index_records
from kforensics.parsers.log.log_rows import Place, damage_row

if TYPE_CHECKING:
    from kforensics.forensics.audit.cluster_input import Contribution

__all__ = [
    "CLEAN",
    "Judgement",
    "all_codes",
    "findings_of",
    "judge",
    "noters_of",
    "partition_rows",
    "ranked",
    "unread",
    "with_records",
]

CLEAN = "clean"
UNREAD = "unread"


def all_codes(families: Sequence[ModuleType]) -> dict[str, Code]:
    """Return the codes of some families by name."""
    return {name: code for family in families for name, code in family.CODES.items()}


def noters_of(families: Sequence[ModuleType]) -> tuple[Noter, ...]:
    """Return what some families want to note as batches go by."""
    return tuple(family.NOTER for family in families if hasattr(family, "NOTER"))


def findings_of(case: Case, families: Sequence[ModuleType]) -> tuple[Finding, ...]:
    """Return what some families find in a partition, the worst first, then in the order of the log."""
    return ranked(finding for family in families for finding in family.findings(case))


def ranked(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return findings on one partition, the worst first, then in the order of the log."""
    return tuple(sorted(findings, key=_rank))


def _rank(finding: Finding) -> tuple[int, int, str, int]:
    first, producer = finding.first_offset, finding.producer_id
    return -finding.severity, -1 if first is None else first, finding.code.name, -1 if producer is None else producer


@dataclass(frozen=True, slots=True)
class Judgement:
    """What an audit keeps of a partition.

    Attributes:
        place: which partition.
        folder: where its files lie.
        size: bytes of its segments.
        rows: rows by table; those of which there may be very many are made when they are asked for.
        findings: the worst first.
        stable: where its last stable offset is, None if it could not be read, as is the next one.
        log_end_offset: its log end offset.
        why: why it could not be read, None if it could.
        damage: rows of the table ``damage``.
        is_counted: whether this is the verdict on a partition, and not rows beside it or what several say together.
        contribution: what the partition adds to its cluster, and its verdict that is put off until all have; None if
            there is nothing to be judged across partitions.
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
    contribution: Contribution | None = None

    def only(self, table: str) -> Judgement:
        """Return what is said without the rows of other tables."""
        return replace(self, rows={table: self.rows[table]} if table in self.rows else {}, damage=())

    @property
    def worst(self) -> Severity | None:
        """The worst severity, None where nothing was found."""
        return worst(self.findings)


def with_records(case: Case, workers: int | None) -> Case:
    """Return a case to which its records have been looked into; the log is read once or twice more.

    Args:
        case: the partition.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.

    Raises:
        InputError: a segment cannot be read.
    """
    found = [np.empty(0, DUPLICATE), *duplicates_of(case, workers=workers)]
    return replace(case, records=record_evidence(case.partition, workers=workers), duplicates=np.concatenate(found))


def judge(case: Case, families: Sequence[ModuleType]) -> Judgement:
    """Return everything that is to be said of a partition.

    Raises:
        InputError: a file of the partition cannot be read.
    """
    findings = findings_of(case, families)
    stable = stable_offset(case)
    place = case.partition.place
    tables = TransactionTables.of(case)
    return Judgement(
        place=place,
        folder=case.partition.folder,
        size=case.partition.size,
        rows={
            "partitions": partition_rows(case, stable, findings),
            "lso": lso_rows(case, stable),
            "lso_history": tables.history(),
            "transactions": tables.transactions(),
            "producers": producer_rows(case),
            "aborted_transactions": tables.aborted(index_records(case.partition)),
            "findings": finding_rows(place, findings),
            **({} if case.duplicates is None else {"duplicates": duplicate_rows(case, case.duplicates)}),
        },
        findings=findings,
        stable=stable,
        log_end_offset=case.log_end_offset,
        damage=tuple(
            damage_row(place, case.partition.segments[segment].path, found) for segment, found in case.log.damage
        ),
    )


def partition_rows(case: Case, stable: StableOffset, findings: Sequence[Finding]) -> Rows:
    """Return the card of a partition: how large it is, what lies in it, what it costs and whether it is well."""
    log, ledger = case.log, case.ledger
    closed, aborted = len(ledger.closed), ledger.aborted
    data_batches = log.batches - log.control_batches
    transaction_records, transaction_ms = _on_average(ledger)
    bad = worst(findings)
    columns: dict[str, Any] = {
        **case.partition.place._asdict(),
        "verdict": CLEAN if bad is None else str(bad),
        "segments": len(case.partition.segments),
        "bytes": log.bytes,
        "batches": log.batches,
        "records": log.records,
        "first_offset": int(log.first.base_offset[0]) if log.batches else None,
        "log_end_offset": case.log_end_offset,
        "last_stable_offset": stable.last_stable_offset,
        "newest_timestamp": log.newest_timestamp if log.newest_timestamp >= 0 else None,
        "producers": len(case.producers),
        "open_transactions": len(case.open_transactions),
        "committed": closed - aborted,
        "aborted": aborted,
        "control_batches": log.control_batches,
        "control_records_share": _share(log.control_batches, log.control_batches + log.records),
        "control_bytes_share": _share(log.control_bytes, log.bytes),
        "records_per_batch": _share(log.records, data_batches),
        "aborted_share": _share(aborted, closed),
        "transaction_records": transaction_records,
        "transaction_ms": transaction_ms,
        "findings": len(findings),
        "read": "ok",
    }
    return Rows(RESULTS["partitions"], 1, columns)


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _on_average(ledger: Ledger) -> tuple[float | None, float | None]:
    """Return the records of a transaction, and how long a closed one lasted in ms."""
    records = lasted = timed = 0
    for rows in ledger:
        records += int(rows["records"].sum())
        known = (rows["ending"] != Ending.OPEN) & (rows["first_timestamp"] != NO_TIME)
        timed += int(known.sum())
        lasted += int((rows["marker_timestamp"] - rows["first_timestamp"])[known].sum())
    return _share(records, len(ledger)), _share(lasted, timed)


def unread(place: Place, folder: str, size: int, why: str) -> Judgement:
    """Return what is said of a partition that could not be read."""
    table = RESULTS["partitions"]
    columns: dict[str, Any] = dict.fromkeys(table.names)
    columns |= {**place._asdict(), "verdict": UNREAD, "read": why, "findings": 0}
    return Judgement(place, folder, size, {"partitions": Rows(table, 1, columns)}, why=why)
