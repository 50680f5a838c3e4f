"""Open transactions: how long they have been idle, the marker before them, and what the oldest one blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, TransactionArray
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.kept_times import newest_written_ms
from kforensics.forensics.partition.lagging_replica import lag_of
from kforensics.forensics.partition.marker_times import marker_times, time_of_marker_after
from kforensics.forensics.partition.partition_files import CONSUMER_OFFSETS
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import markers_before
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = [
    "HANGING_EVIDENCE",
    "UNKNOWN",
    "BlockedTransactions",
    "HangingEvidenceArray",
    "appended_by",
    "are_expired",
    "begin_times",
    "copy_time",
    "elapsed_since",
    "evaluation_time",
    "hanging_evidence",
    "idle_times",
    "is_surely_idle",
    "last_times",
    "silence",
    "silence_of",
]

# A time that nothing shows: later than any.
UNKNOWN = int(np.iinfo("i8").max)
HANGING_EVIDENCE = np.dtype(
    [
        ("marker_offset", "i8"),  # of the producer's last marker before the data; NOTHING if there is none
        ("marker_epoch", "i2"),  # the highest one before the data
        ("coordinator_epoch", "i4"),
    ]
)
HangingEvidenceArray: TypeAlias = StructArray


@dataclass(frozen=True, slots=True)
class BlockedTransactions:
    """What the oldest open transaction blocks.

    Attributes:
        offset: the last stable offset, if the whole log is replicated.
        blocking_transaction: first offset of the oldest open transaction.
        ended: transactions that have a marker, and data at or after the last stable offset.
        open: other open transactions.
    """

    offset: int
    blocking_transaction: int
    ended: int
    open: int

    @classmethod
    def of(cls, state: PartitionState) -> BlockedTransactions | None:
        """Return what is blocked in a partition, or None if nothing is."""
        open_transactions = state.open_transactions
        if not len(open_transactions):
            return None
        blocking_transaction = int(open_transactions["first_offset"][0])
        offset = max(blocking_transaction, state.local_log_start_offset)
        if offset >= state.log_end_offset:
            return None
        blocked = sum(int((rows["last_offset"] >= offset).sum()) for rows in state.transaction_store.since(offset))
        blocked_open = int((open_transactions["last_offset"] >= offset).sum())
        return cls(offset, blocking_transaction, blocked - blocked_open, len(open_transactions) - 1)

    def __str__(self) -> str:
        return f"{self.ended} ended and {self.open} other open transactions are blocked"


def elapsed_since(state: PartitionState, timestamps: Any) -> Any:
    """Return how many ms have passed since some timestamps, as far as the copy of a partition can show.

    A copy taken before the time of evaluation does not contain what was written after it was taken. If the user sets
    the time of evaluation explicitly, the log counts as complete up to that time. The replica of a broker that was shut
    down while the cluster went on shows nothing that came later.

    Args:
        state: the partition.
        timestamps: one timestamp in ms, or an array of them.
    """
    ages, evaluated_ms = state.rules.as_of_ms - timestamps, evaluation_time(state)
    if evaluated_ms >= state.rules.as_of_ms:
        return ages
    # A file may have been written to after its modification time was read and before its bytes were copied.
    return np.minimum(ages, np.maximum(evaluated_ms - timestamps, 0))


def evaluation_time(state: PartitionState) -> int:
    """Return until when the copy of a partition can show what happened, in ms, at most the time of evaluation."""
    lag = lag_of(state)
    return min(state.rules.as_of_ms, lag.since) if lag is not None and lag.left_by_shutdown else copy_time(state)


def copy_time(state: PartitionState) -> int:
    """Return what :func:`evaluation_time` does, as far as the partition shows it without the metadata of its cluster.

    The rows of tables follow from it, so that they are the same in every command.
    """
    rules, copied = state.rules, state.partition.taken_ms
    return rules.as_of_ms if not rules.is_assumed or copied is None else min(rules.as_of_ms, copied)


def are_expired(producers: Any, evaluated_ms: int, pid_expiry_ms: int) -> Any:
    """Return whether producers have expired: they have no open transaction, and have been idle for long enough.

    Args:
        producers: the state of one producer, or of several.
        evaluated_ms: until when the copy shows what happened, in ms.
        pid_expiry_ms: ``producer.id.expiration.ms``.
    """
    idle_ms = evaluated_ms - producers["last_timestamp"]
    return (producers["current_txn_first_offset"] < 0) & (idle_ms >= pid_expiry_ms)


def silence_of(rules: Rules, transaction: Mapping[str, Any]) -> dict[str, object]:
    """Return for how long the producer of an open transaction has been silent, as :func:`silence`."""
    idle_ms = transaction["idle_ms"]
    return silence(rules, idle_ms, transaction["last_time"] + idle_ms)


def silence(rules: Rules, idle_ms: int, evaluated_ms: int) -> dict[str, object]:
    """Return for how long a producer has been silent, as evidence; with until when, if that is not the time of all."""
    return {"silent_ms": idle_ms, **rules.evaluated_at(evaluated_ms)}


def last_times(state: PartitionState, transactions: TransactionArray) -> tuple[IntArray, BoolArray]:
    """Return the time of the last batch of each transaction, and whether a marker before it shows it, not the batch.

    A client may write timestamps that are long past, but the last batch of a transaction is no older than any marker
    before it in the log. A batch without a timestamp counts as new, as it does for a broker.
    """
    own = np.where(transactions["last_timestamp"] > 0, transactions["last_timestamp"], state.rules.as_of_ms)
    marker = marker_times(state, transactions["last_offset"])
    implied = marker > own + state.rules.clock_skew_ms
    return np.where(implied, marker, own), implied


def idle_times(state: PartitionState, transactions: TransactionArray) -> tuple[IntArray, BoolArray]:
    """Return the idle time of each transaction, and whether it follows from a marker rather than from its own batches.

    It counts from the time that :func:`last_times` returns.
    """
    times, implied = last_times(state, transactions)
    return elapsed_since(state, times), implied


def begin_times(state: PartitionState, transactions: TransactionArray) -> IntArray:
    """Return when each transaction began, as its first batch shows: no earlier than any marker before it in the log.

    If the first batch is before the available log, the timestamp of the last one counts.
    """
    first, last = transactions["first_timestamp"], transactions["last_timestamp"]
    own = np.where(first == NO_TIME, last, first)
    marker = marker_times(state, transactions["first_offset"])
    begins: IntArray = np.where((own > 0) & (marker > own + state.rules.clock_skew_ms), marker, own)
    return begins


def appended_by(state: PartitionState, transactions: TransactionArray, following: IntArray) -> IntArray:
    """Return the latest time at which the last batch of each transaction can have been written, in ms.

    Client timestamps do not show it: that of a copied record is the time of its original. Neither do files that are
    older than what they contain.

    Args:
        state: the partition.
        transactions: transactions in it.
        following: timestamp of the first marker after each of them; UNKNOWN if there is none.

    Returns:
        Times in ms; UNKNOWN where nothing shows it.
    """
    newest, latest = newest_written_ms(state), following
    if newest is not None:
        latest = np.minimum(latest, newest)
    if state.log.has_append_times:
        latest = np.minimum(latest, transactions["last_timestamp"])
    return latest


def is_surely_idle(state: PartitionState, transactions: TransactionArray, longer_than_ms: int) -> bool:
    """Return whether an open transaction has been idle for so long whatever timestamps its client has set.

    Kafka Streams and MirrorMaker write with the timestamps of what they read, which may be days old.

    Args:
        state: the partition.
        transactions: the transaction, alone.
        longer_than_ms: the time, in ms.
    """
    time = time_of_marker_after(state, int(transactions["last_offset"][0]))
    latest = appended_by(state, transactions, np.array([UNKNOWN if time is None else time]))
    if state.partition.place.topic == CONSUMER_OFFSETS:  # the group coordinator sets the timestamps
        latest = np.minimum(latest, transactions["last_timestamp"])
    return bool(elapsed_since(state, latest)[0] > longer_than_ms)


def hanging_evidence(state: PartitionState, transactions: TransactionArray) -> HangingEvidenceArray:
    """Return the last marker of its producer before each transaction.

    Args:
        state: the partition.
        transactions: open transactions.

    Returns:
        One HANGING_EVIDENCE record per transaction.
    """
    before = markers_before(state, transactions["producer_id"], transactions["first_offset"])
    evidence = np.empty(len(transactions), HANGING_EVIDENCE)
    evidence["marker_offset"], evidence["marker_epoch"] = before["marker_offset"], before["highest_epoch"]
    evidence["coordinator_epoch"] = before["coordinator_epoch"]
    return evidence
