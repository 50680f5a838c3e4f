"""Checks for open transactions at the end of the log: late ones, and ones whose first records were deleted.

Rule: ``ProducerStateManager.hasLateTransaction`` for late transactions. ``txn-hanging`` is declared here and found by
the check ``hanging`` of clusters (rule: ``TransactionsCommand.FindHangingTransactionsCommand``), because only the
coordinator's log shows it: before transaction version 2 every second transaction of a producer begins after a marker of
its own epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.broker_settings import MAX_TIMEOUT
from kforensics.forensics.core.commands import ABORT, FIND_HANGING, LIST, TRANSACTIONS_TOOL
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_duration
from kforensics.forensics.core.reporting import Row, first_n, place
from kforensics.forensics.partition.blocking_transactions import evaluation_time, idle_times, silence
from kforensics.forensics.partition.partition_state import PartitionState

END = f"Have its producer end it. If {FIND_HANGING} lists it, end it with {ABORT}."
# Of a transaction without any record above the log start offset.
NO_DATA_LEFT = f"{END} A broker that restarts before that may forget the transaction, with no data left to expose."
CONFIRMED_ABORT = f"Confirm with {FIND_HANGING}. If it is listed, end it with {ABORT}"
NOT_WHILE_AWAITED = (
    "Never abort it while the coordinator still owes a marker: state Ongoing or Prepare with this partition listed."
)
# Where no broker is older than 3.0, whose tool finds the producer by the start offset.
ABORT_SINCE_3_0 = f"{CONFIRMED_ABORT}. {NOT_WHILE_AWAITED}"
CODES = by_name(
    Code(
        "txn-open-at-end",
        Severity.INFO,
        meaning="A transaction has data and no marker at the end of the log.",
        why=(
            "Every transaction looks like this until its producer ends it. While it is open, read_committed "
            "consumers cannot read past its first record."
        ),
        benign=(
            "It was in flight when the files were copied, or the broker was writing to them at that time. For "
            "old transactions txn-late or txn-hanging is reported as well."
        ),
    ),
    Code(
        "txn-late",
        Severity.WARNING,
        meaning="A transaction has been open for longer than any producer may keep one.",
        remedy=(
            f"Ask the brokers whether it hangs: {FIND_HANGING}. Find its transactional id and state with {LIST}. While "
            "the id of producer {producer_id} is Ongoing, its coordinator will end the transaction: do not abort it."
        ),
        why=(
            "The coordinator aborts a transaction when its producer's timeout expires, and brokers allow no "
            "timeout above transaction.max.timeout.ms. So something prevents the coordinator from aborting it, "
            "or the coordinator does not know this transaction."
        ),
        benign=(
            "Data with old timestamps looks old immediately, for example from an import, or from Kafka Streams and "
            "MirrorMaker, which write with the timestamps of what they read. A producer of a "
            "two-phase commit has no time limit; only the coordinator log shows which it is."
        ),
    ),
    Code(
        "txn-hanging",
        Severity.CRITICAL,
        meaning="No coordinator will ever end this transaction.",
        remedy=(
            f"{CONFIRMED_ABORT}; on brokers before 3.0 with "
            f"`{TRANSACTIONS_TOOL} abort --topic {{topic}} --partition {{partition}} --producer-id {{producer_id}} "
            f"--producer-epoch {{producer_epoch}} --coordinator-epoch {{coordinator_epoch}}`. {NOT_WHILE_AWAITED}"
        ),
        why=(
            "The coordinator has no transaction with this partition, so it will never send a marker. Either a "
            "write arrived after the marker (every broker before 3.6 accepted it, later ones do if "
            "transaction.partition.verification.enable is off: KAFKA-9144, KAFKA-12671), or a client never "
            "added the partition to its transaction, or a cleaner removed the marker. Until the "
            "transaction is ended, read_committed consumers are stuck, and the cleaner does not pass it."
        ),
        benign=(
            "The coordinator log is not among the files, or was copied long before this partition. Client "
            "clocks are wrong. This replica lags, and its leader has the marker; that is ruled out where the metadata "
            "log shows that it is in sync. An empty answer of find-hanging is no contradiction while the transaction "
            "is younger than 15 minutes, the default of --max-transaction-timeout."
        ),
    ),
    Code(
        "txn-head-deleted",
        Severity.WARNING,
        meaning="An open transaction starts below the log start offset.",
        remedy=f"{END} A broker that restarts before that may forget the transaction and expose its data.",
        why=(
            "Retention or DeleteRecords removed the beginning of a transaction that is still open. The running "
            "broker remembers its first offset, but a broker that reloads the log may not: then the last stable "
            "offset advances, and consumers receive data that was never committed."
        ),
        benign="Retention is short, and transactions are long.",
    ),
)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield the transactions that are open at the end of the log."""
    open_transactions = state.open_transactions
    if not len(open_transactions):
        return
    idle_time, implied = idle_times(state, open_transactions)
    late = idle_time > state.rules.late_ms
    yield from first_n(open_transactions, partial(_open_at_end, state), idle_time=idle_time)
    yield from first_n(open_transactions[late], partial(_late, state), idle_time=idle_time[late], implied=implied[late])
    head_deleted = open_transactions["first_offset"] < state.local_log_start_offset
    yield from first_n(open_transactions[head_deleted], partial(_head_deleted, state))


def _open_at_end(state: PartitionState, row: Row) -> Finding:
    is_late = row["idle_time"] > state.rules.late_ms
    return state.finding(
        CODES["txn-open-at-end"],
        f"The transaction of producer {row['producer_id']}, first offset {row['first_offset']}, has no marker: "
        f"{format_count(row['records'], 'record')}, last offset {row['last_offset']}.",
        **place(row),
        evidence={"records": row["records"], **_silence(state, row)},
        benign=(f"in flight when the files were copied: {'no, it is late' if is_late else 'likely'}",),
    )


def _silence(state: PartitionState, row: Row) -> dict[str, object]:
    return silence(state.rules, row["idle_time"], evaluation_time(state))


def _late(state: PartitionState, row: Row) -> Finding:
    since = "the marker before its last batch" if row["implied"] else "its last batch"
    return state.finding(
        CODES["txn-late"],
        f"The transaction of producer {row['producer_id']}, first offset {row['first_offset']}, is still open "
        f"{format_duration(row['idle_time'])} after {since}; brokers count it as late after "
        f"{format_duration(state.rules.late_ms)}.",
        **place(row),
        evidence={**_silence(state, row), "late_ms": state.rules.late_ms, **state.rules.evidence(MAX_TIMEOUT)},
        benign=(
            f"timestamps set by the client: {'yes, so the marker counts' if row['implied'] else 'no sign of it'}",
            "producer of a two-phase commit: not visible without the coordinator log",
        ),
    )


def _head_deleted(state: PartitionState, row: Row) -> Finding:
    is_whole = row["last_offset"] < state.local_log_start_offset
    deleted = "all its records so far were deleted" if is_whole else "part of it was deleted"
    finding = state.finding(
        CODES["txn-head-deleted"],
        f"The open transaction of producer {row['producer_id']} starts at offset {row['first_offset']}, below the log "
        f"start offset {state.local_log_start_offset}: {deleted} before it ended.",
        **place(row),
        evidence={"log_start_offset": state.local_log_start_offset},
        benign=("short retention with long transactions: possible",),
    )
    return replace(finding, remedy=NO_DATA_LEFT) if is_whole else finding


CHECK = Check("open_transactions", CODES, findings)
