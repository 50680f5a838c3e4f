"""Transactions that nobody has ended, and what they hold back.

Rule: ``ProducerStateManager.hasLateTransaction`` for late ones, ``TransactionsCommand.FindHangingTransactionsCommand``
for hanging ones, of which the log alone tells only a part: who knows better is the coordinator.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from kforensics.forensics.core.findings import Exactness, Finding, codes
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Row, each, moment, place, span
from kforensics.forensics.partition.blocking_transactions import Wait, signs_of_hanging, silence_of
from kforensics.forensics.partition.partition_state import Case

__all__ = ["CODES", "findings"]

CODES = codes("""
txn-open-at-end info
A transaction has data and no marker at the end of the log.
why: Every transaction looks like this until its producer ends it; as long as it is open, consumers with \
read_committed do not get past its first record.
innocent: It was in flight when the files were copied, or the broker was writing to them meanwhile. If it is old, \
txn-late or txn-hanging say so.

txn-late warning
A transaction has been open for longer than any producer may keep one.
Ask the brokers with kafka-transactions.sh --bootstrap-server <host:port> find-hanging --topic {topic} \
--partition {partition}; then describe its transactional id, and see whether it hangs.
why: The coordinator aborts what is open for longer than its producer's timeout, and brokers allow no timeout above \
transaction.max.timeout.ms. So the coordinator is kept from doing it, or does not know of this transaction.
innocent: Data with old timestamps, as of an import, look old at once. A producer of a two-phase commit may take as \
long as it likes; only the coordinator's log tells.

txn-hanging critical
Nobody will ever end this transaction.
Confirm with kafka-transactions.sh --bootstrap-server <host:port> find-hanging --topic {topic} \
--partition {partition}; if it is listed, end it with kafka-transactions.sh --bootstrap-server <host:port> abort \
--topic {topic} --partition {partition} --start-offset {first_offset}; on brokers before 3.0 with \
kafka-transactions.sh --bootstrap-server <host:port> abort --topic {topic} --partition {partition} \
--producer-id {producer_id} --producer-epoch {producer_epoch} --coordinator-epoch <coordinator_epoch of the evidence>. \
Never while the coordinator still owes a marker: state Ongoing or Prepare with this partition listed.
why: The coordinator has no transaction with this partition in it, so it will never send a marker. It comes from a \
write that arrived behind the marker (before 3.6 every broker let it in, and later ones do where \
transaction.partition.verification.enable is off: KAFKA-9144, KAFKA-12671), from a client that never enlisted the \
partition, or from a cleaner of before 3.3 that took the marker away. Until it is ended, consumers with read_committed \
stand still, and the cleaner does not pass it.
innocent: The log of its coordinator is not among the files, or was copied long before this partition. Clocks of \
clients are wrong. An empty answer of find-hanging is no contradiction while the transaction is younger than 15 \
minutes: that is the default of --max-transaction-timeout.

txn-head-deleted warning
An open transaction begins below the log start offset.
Have its producer end it. If kafka-transactions.sh --bootstrap-server <host:port> find-hanging --topic {topic} \
--partition {partition} lists it, end it with kafka-transactions.sh --bootstrap-server <host:port> abort --topic \
{topic} --partition {partition} --start-offset {first_offset}. A broker that restarts before may forget it and show \
its data.
why: Retention or DeleteRecords has removed the beginning of a transaction that is still open. The running broker \
remembers where it began, but one that loads the log again may not: then the last stable offset moves on, and data \
that nobody has committed is shown.
innocent: Retention is short, and transactions are long.
""")


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of the transactions that are open at the end of a log.

    That the cleaner took a marker is known by the notes of ``marker_batches``.
    """
    found = case.open_transactions
    if not len(found):
        return
    silence, implied = silence_of(case, found)
    late = silence > case.rules.late_ms
    yield from each(found, partial(_open_at_end, case), silence=silence)
    yield from each(found[late], partial(_late, case), silence=silence[late], implied=implied[late])
    yield from _hanging(case, found[late], silence[late])
    yield from each(found[found["first_offset"] < case.log_start_offset], partial(_head_deleted, case))


def _open_at_end(case: Case, row: Row) -> Finding:
    is_late = row["silence"] > case.rules.late_ms
    return case.finding(
        CODES["txn-open-at-end"],
        f"The transaction of producer {row['producer_id']} from offset {row['first_offset']} on, records: "
        f"{row['records']}, last offset: {row['last_offset']}, has no marker.",
        **place(row),
        evidence={"records": row["records"], "silent_ms": row["silence"]},
        benign=(f"in flight when the files were copied: {'no, it is late' if is_late else 'likely'}",),
    )


def _late(case: Case, row: Row) -> Finding:
    since = "the marker before its last batch" if row["implied"] else "its last batch"
    return case.finding(
        CODES["txn-late"],
        f"The transaction of producer {row['producer_id']} from offset {row['first_offset']} on is still open, "
        f"{span(row['silence'])} after {since}; a broker calls it late after {span(case.rules.late_ms)}.",
        **place(row),
        evidence={"silent_ms": row["silence"], "late_ms": case.rules.late_ms},
        benign=(
            f"timestamps set by the client: {'yes, so that marker counts' if row['implied'] else 'no sign of it'}",
            "producer of a two-phase commit: cannot be seen without the coordinator log",
        ),
    )


def _hanging(case: Case, late: Records, silence: Records) -> Iterator[Finding]:
    signs = signs_of_hanging(case, late)
    hangs = signs["behind_marker"] | signs["marker_cleaned"]
    more = {name: signs[name][hangs] for name in signs.dtype.names or ()}
    yield from each(late[hangs], partial(_hangs, case, Wait.of(case)), silence=silence[hangs], **more)


def _hangs(case: Case, wait: Wait | None, row: Row) -> Finding:
    first, producer_id = row["first_offset"], row["producer_id"]
    holds = wait is not None and wait.holder == first
    return case.finding(
        CODES["txn-hanging"],
        f"Probably nobody will ever end the transaction of producer {producer_id}, epoch {row['producer_epoch']}, that "
        f"is open since offset {first}, {moment(row['first_timestamp'])}: {_why(row)}, and it has been silent "
        f"for {span(row['silence'])}. {_held(wait, holds=holds)}",
        **place(row),
        evidence={
            "silent_ms": row["silence"],
            "coordinator_epoch": row["coordinator_epoch"],
            "marker_offset": row["marker_offset"],
            "holds_last_stable_offset": holds,
        },
        exactness=Exactness.APPROXIMATE,
        benign=(
            "known to its coordinator: the coordinator log was not consulted",
            "producer of a two-phase commit: cannot be seen without the coordinator log",
        ),
    )


def _why(row: Row) -> str:
    if not row["behind_marker"]:
        return "its marker was removed before its data, as cleaners before 3.3 did"
    if row["marker_epoch"] > row["lowest_epoch"]:
        return (
            f"its epoch {row['lowest_epoch']} had been ended by a marker of epoch {row['marker_epoch']} "
            f"(the last marker is at offset {row['marker_offset']})"
        )
    return f"it begins behind the marker at offset {row['marker_offset']}, of the same epoch, as a late write does"


def _held(wait: Wait | None, *, holds: bool) -> str:
    if wait is None:
        return "It holds nothing back: the log start offset is at the end of the log."
    if holds:
        return f"It holds the last stable offset at {wait.offset}; {wait}."
    return f"The last stable offset is held by the transaction from offset {wait.holder} on, which is older."


def _head_deleted(case: Case, row: Row) -> Finding:
    return case.finding(
        CODES["txn-head-deleted"],
        f"The open transaction of producer {row['producer_id']} begins at offset {row['first_offset']}, below the log "
        f"start offset {case.log_start_offset}: a part of it was deleted before it ended.",
        **place(row),
        evidence={"log_start_offset": case.log_start_offset},
        benign=("short retention with long transactions: possible",),
    )
