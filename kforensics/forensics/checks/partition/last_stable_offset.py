"""Checks whether the last stable offset is stuck, and why read_committed consumers stop there.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata``. The whole log counts as replicated, because a copy does not know the
current high watermark.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition import missing_logs, open_transactions
from kforensics.forensics.core.broker_settings import MAX_TIMEOUT
from kforensics.forensics.core.commands import ABORT, FIND_HANGING
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_time
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.core.reporting import Row, RowPart, first_n, first_n_of_parts
from kforensics.forensics.partition.blocking_transactions import (
    BlockedTransactions,
    begin_times,
    idle_times,
    is_surely_idle,
)
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS

CODES = by_name(
    Code(
        "lso-stuck",
        Severity.CRITICAL,
        meaning=(
            "The last stable offset stays below the end of the log: read_committed consumers receive nothing "
            "from there on."
        ),
        remedy=(
            f"Check whether the blocking transaction hangs: {FIND_HANGING}. If it is listed, end it with {ABORT}. If "
            "it is not listed, wait for its coordinator to end it: an abort would lose data. Check compaction too: the "
            "cleaner cannot pass this offset."
        ),
        why=(
            "One transaction that does not end blocks everything after its first offset, including records of "
            "other producers and records without transactions. Consumers with read_committed see their lag grow "
            "without an error; consumers with read_uncommitted notice nothing."
        ),
        benign=(
            "The high watermark is stuck rather than the transaction: then replication is the problem. Or no "
            "producer writes to the partition, so nothing is blocked. Or the records have old timestamps, as those "
            "of Kafka Streams and MirrorMaker have, which write with the timestamps of what they read: it is a warning "
            "unless append times, a later marker, the time of the files or the coordinator's log show that the "
            "transaction is old."
        ),
    ),
    Code(
        "lso-prefix-unknown",
        Severity.INFO,
        meaning="The last stable offset is known only as a range, because the start of the log is missing.",
        remedy="Capture the .snapshot files of the partition too.",
        why=(
            "Without the producer state at the first captured offset, a transaction from the missing part may "
            "still be open. Therefore the last stable offset has a lower and an upper bound."
        ),
        benign="This is never a fault of the cluster. It shows how exact the other findings are.",
    ),
    Code(
        "txn-open-many",
        Severity.INFO,
        meaning="Very many transactions were open at once, or one transaction spans very many segments.",
        why=(
            "To find the last stable offset a broker searches all open transactions, and read_committed fetches "
            "search the transaction indexes of all segments that a transaction spans. This costs time and has "
            "no other effect."
        ),
        benign="A large Kafka Streams application, or long transactions in small segments.",
    ),
)

NOTHING = -1
UNCONFIRMED = "idle by times of the broker: unknown, only by timestamps that the client may have set"


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield why the last stable offset is stuck or unknown, and what makes it expensive to compute."""
    blocked = BlockedTransactions.of(state)
    if blocked is not None:
        yield from _stuck_at(state, blocked)
    yield from _prefix_unknown(state, blocked)
    yield from _many_at_once(state)
    yield from first_n_of_parts(_many_segments(state), partial(_spans, state))


def _stuck_at(state: PartitionState, blocked: BlockedTransactions) -> Iterator[Finding]:
    blocking_transaction = state.open_transactions[:1]
    idle_time, _ = idle_times(state, blocking_transaction)
    if idle_time[0] > state.rules.late_ms:
        is_sure = is_surely_idle(state, blocking_transaction, state.rules.late_ms)
        begin = begin_times(state, blocking_transaction)
        yield from first_n(blocking_transaction, partial(_stuck, state, blocked, is_sure), begin=begin)


def _stuck(state: PartitionState, blocked: BlockedTransactions, is_sure: bool, row: Row) -> Finding:
    hidden = state.log_end_offset - blocked.offset
    may_have_ended = state.log_gaps.between(row["last_offset"], state.log_end_offset).cause is not None
    return state.finding(
        CODES["lso-stuck"],
        f"LSO stuck at {blocked.offset} (log end {state.log_end_offset}, {format_count(hidden, 'offset')} hidden) "
        f"since {format_time(row['begin'])}: open transaction of producer {row['producer_id']}, epoch "
        f"{row['producer_epoch']}, first offset {row['first_offset']}; {blocked}.",
        severity=None if is_sure and not may_have_ended else Severity.WARNING,
        offsets=(row["first_offset"], state.log_end_offset - 1),
        producer=(row["producer_id"], row["producer_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={
            "last_stable_offset": blocked.offset,
            "log_end_offset": state.log_end_offset,
            "ended_transactions": blocked.ended,
            "open_transactions": blocked.open,
            "since_ms": row["begin"],
            **state.rules.evidence(MAX_TIMEOUT),
        },
        benign=(
            f"high watermark stuck instead: {_watermark(state, blocked)}",
            f"idle partition: {'yes, nothing else is blocked' if _is_alone(state, blocked, row) else 'no'}",
            f"damaged, or ended in damaged bytes or a lost segment: {'possible' if may_have_ended else 'no'}",
            *(() if is_sure else (UNCONFIRMED,)),
        ),
        cause="txn-late",
    )


def _watermark(state: PartitionState, blocked: BlockedTransactions) -> str:
    high_watermark = state.high_watermark
    if high_watermark is None:
        return "unknown, no checkpoint"
    return f"{'yes' if high_watermark <= blocked.offset else 'no'}, checkpointed at {high_watermark}"


def _is_alone(state: PartitionState, blocked: BlockedTransactions, row: Row) -> bool:
    return not blocked.open and state.log_end_offset - blocked.offset <= row["records"]


def _prefix_unknown(state: PartitionState, blocked: BlockedTransactions | None) -> Iterator[Finding]:
    end = state.log_end_offset
    is_known = state.exact_from is not None and state.exact_from <= end
    if is_known or not state.log.batches or state.local_log_start_offset >= end:
        return
    lowest, highest = state.local_log_start_offset, end if blocked is None else blocked.offset
    yield state.finding(
        CODES["lso-prefix-unknown"],
        f"The last stable offset is between {lowest} and {highest}: the captured log starts at offset "
        f"{int(state.log.first.base_offset[0])}, and no producer snapshot shows the transactions open there.",
        offsets=(lowest, highest),
        evidence={"lowest": lowest, "highest": highest},
    )


def _many_at_once(state: PartitionState) -> Iterator[Finding]:
    if len(state.transaction_store) <= state.rules.many_open_transactions:
        return
    most, offset = _most_at_once(state)
    if most > state.rules.many_open_transactions:
        yield state.finding(
            CODES["txn-open-many"],
            f"{most} transactions were open at once at offset {offset}.",
            offsets=(offset, offset),
            evidence={"open_transactions": most},
            benign=("large Kafka Streams application: possible",),
        )


def _most_at_once(state: PartitionState) -> tuple[int, int]:
    """Return the largest number of transactions open at once, and the first offset where that many were open.

    The log is processed from its end, keeping the first offsets of the transactions that are open.
    """
    opened, most, offset = state.open_transactions["first_offset"], 0, 0
    closed = state.transaction_store.closed
    for number in range(closed.page_count, -1, -1):
        rows = closed.read(number) if number < closed.page_count else NO_TRANSACTIONS
        before = closed.last_keys[number - 1] if number else NOTHING
        firsts = np.concatenate([rows["first_offset"], opened])
        begun = firsts[firsts > before]
        offsets = np.concatenate([begun, rows["marker_offset"]])
        order = np.argsort(offsets, kind="stable")
        opened = firsts[firsts <= before]
        at_once = len(opened) + np.cumsum(np.repeat([1, -1], [len(begun), len(rows)])[order])
        if len(order) and at_once.max() >= most:
            most, offset = int(at_once.max()), int(offsets[order[at_once.argmax()]])
    return most, offset


def _many_segments(state: PartitionState) -> Iterator[RowPart]:
    bases = [segment.base_offset or 0 for segment in state.partition.segments]
    for rows in state.transaction_store if len(bases) > state.rules.many_segments else ():
        ends = np.where(rows["outcome"] == TransactionOutcome.OPEN, rows["last_offset"], rows["marker_offset"])
        first, last = (np.searchsorted(bases, offsets, "right") for offsets in (rows["first_offset"], ends))
        segments = last - np.maximum(first, 1) + 1
        many = segments > state.rules.many_segments
        yield RowPart(rows[many], {"segments": segments[many]})


def _spans(state: PartitionState, row: Row) -> Finding:
    return state.finding(
        CODES["txn-open-many"],
        f"The transaction of producer {row['producer_id']}, first offset {row['first_offset']}, spans "
        f"{row['segments']} segments.",
        offsets=(row["first_offset"], row["last_offset"]),
        producer=(row["producer_id"], row["producer_epoch"]),
        at=(row["segment"], row["position"]),
        evidence={"segments": row["segments"]},
        benign=("long transactions in small segments: possible",),
    )


CHECK = Check("last_stable_offset", CODES, findings)
# The checks for what blocks or hides the last stable offset; ``lso`` loads only these.
BLOCKING_CHECKS: tuple[Check[PartitionState, Finding], ...] = (missing_logs.CHECK, open_transactions.CHECK, CHECK)
