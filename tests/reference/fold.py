"""The reference replay, batch by batch: the definition of producers, transactions and the last stable offset.

Rule: ``org.apache.kafka.storage.internals.log.ProducerStateManager`` and ``ProducerAppendInfo``, as a replica applies
them when it loads its own log: every batch is accepted. An epoch that regresses or a sequence that jumps is not
rejected but reported as an anomaly.

It is simple on purpose. The optimized replay of the package is tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.replay.boundary import EMPTY, Boundary, BoundaryKind
from tests.reference.neighbors import Past, PreviousEvent, anomalies_of_data, anomalies_of_marker, past_of
from tests.reference.replay_values import (
    NONE,
    AbortedTransaction,
    AnomalyRow,
    BatchSummary,
    EmptyMarker,
    LastStableOffset,
    Marker,
    Producer,
    RecentBatch,
    Transaction,
    producers_of,
)

__all__ = ["Replay", "fold"]

# ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
RECENT_BATCHES = 5


@dataclass(frozen=True, slots=True)
class Replay:
    """The result of a replay.

    Attributes:
        boundary: where the replay started.
        log_start_offset: first offset of the log that is visible to consumers.
        log_end_offset: offset after the last batch.
        producers: by producer id.
        transactions: closed transactions, in the order of their markers.
        open_transactions: open transactions, in the order of their first offsets.
        empty_markers: markers that ended no transaction, in log order.
        aborted_transactions: entries of the transaction indexes, in the order of their markers.
        anomalies: events that a leader with full knowledge of the producer would not have written, in log order.
    """

    boundary: Boundary
    log_start_offset: int
    log_end_offset: int
    producers: dict[int, Producer]
    transactions: tuple[Transaction, ...]
    open_transactions: tuple[Transaction, ...]
    empty_markers: tuple[EmptyMarker, ...]
    aborted_transactions: tuple[AbortedTransaction, ...]
    anomalies: tuple[AnomalyRow, ...]

    def last_stable_offset(self, high_watermark: int | None = None) -> LastStableOffset:
        """Return the last stable offset of the log, and the transaction that blocks it.

        A transaction is unstable until its marker is below the high watermark. If a transaction starts below the log
        start offset, for example after DeleteRecords, it keeps the last stable offset at the log start offset.

        Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``maybeIncrementFirstUnstableOffset``.

        Args:
            high_watermark: offset after the last replicated one, None if the whole log is replicated. A checkpoint may
                contain an offset outside the log; it is moved to the nearer end of the log, as
                ``UnifiedLog.updateHighWatermark`` does.
        """
        end = self.log_end_offset
        if high_watermark is not None:
            end = min(max(high_watermark, self.log_start_offset), end)
        unstable = [each for each in (*self.transactions, *self.open_transactions) if _is_unstable(each, end)]
        oldest = min(unstable, key=lambda transaction: transaction.first_offset, default=None)
        offset = end if oldest is None else min(end, max(oldest.first_offset, self.log_start_offset))
        is_exact = self.boundary.kind is not BoundaryKind.UNKNOWN and end >= self.boundary.offset
        return LastStableOffset(
            last_stable_offset=offset,
            lowest=offset if is_exact else min(offset, self.log_start_offset),
            blocking_transaction=oldest if offset < end else None,
        )


def fold(
    batches: Iterable[BatchSummary], boundary: Boundary = EMPTY, log_start_offset: int = 0, *, sequences: bool = True
) -> Replay:
    """Replay the batches of a partition.

    Args:
        batches: in log order. Batches below the log start offset that are still in the log are replayed; batches below
            the offset of a snapshot are part of the snapshot and skipped.
        boundary: what is known about the log before them.
        log_start_offset: first offset that is visible to consumers.
        sequences: False for ``__consumer_offsets``, where coordinators start every batch at sequence 0.
    """
    state = _State(boundary, sequences=sequences)
    log_end_offset = max(boundary.offset, log_start_offset)
    for batch in batches:
        if batch.base_offset >= boundary.offset:
            state.apply(batch)
            log_end_offset = batch.last_offset + 1
    return Replay(
        boundary=boundary,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        producers={
            producer_id: past.producer for producer_id, past in state.pasts.items() if past.producer is not None
        },
        transactions=tuple(state.closed),
        open_transactions=tuple(sorted(state.open.values(), key=lambda transaction: transaction.first_offset)),
        empty_markers=tuple(state.empty_markers),
        aborted_transactions=tuple(state.aborted),
        anomalies=tuple(state.anomalies),
    )


class _State:
    """The state of all producers of a partition, and the rows so far."""

    def __init__(self, boundary: Boundary, *, sequences: bool) -> None:
        producers = producers_of(boundary.producers[:])
        # By producer id alone: with transaction version 2 the epoch of the marker is one higher than that of the data,
        # and a marker ends the open transaction whatever its epoch.
        self.open = {
            producer.producer_id: _carried_over(producer)
            for producer in producers
            if producer.current_txn_first_offset >= 0
        }
        self.pasts = {
            producer.producer_id: past_of(producer, self.open.get(producer.producer_id)) for producer in producers
        }
        self.closed: list[Transaction] = []
        self.empty_markers: list[EmptyMarker] = []
        self.aborted: list[AbortedTransaction] = []
        self.anomalies: list[AnomalyRow] = []
        self._known = boundary.kind is not BoundaryKind.UNKNOWN
        self._is_log_start = boundary.kind is BoundaryKind.EMPTY
        self._sequences = sequences
        self._with_marker: set[int] = set()
        self._offset_gaps = 0
        self._end = boundary.offset if boundary.kind is BoundaryKind.SNAPSHOT else None

    def apply(self, batch: BatchSummary) -> None:
        """Apply the next batch."""
        if self._end is not None and batch.exact:
            self._offset_gaps += max(0, batch.base_offset - self._end)
        self._end = batch.last_offset + 1
        if batch.producer_id < 0:
            return
        past = self.pasts.get(batch.producer_id, Past())
        if batch.marker is not None:
            self.pasts[batch.producer_id] = self._apply_marker(batch, batch.marker, past)
        # An empty control batch changes nothing, not even the epoch. An empty data batch still counts: it may start a
        # transaction.
        elif not batch.is_control:
            self.pasts[batch.producer_id] = self._apply_data(batch, past)

    def _apply_marker(self, batch: BatchSummary, marker: Marker, past: Past) -> Past:
        self.anomalies += anomalies_of_marker(batch, marker, past, self._offset_gaps)
        self._end_transaction(batch, marker)
        self._with_marker.add(batch.producer_id)
        event = PreviousEvent(batch.last_offset, batch.max_timestamp, self._offset_gaps)
        before = past.producer or Producer(batch.producer_id)
        changes_epoch = past.producer is not None and past.producer.producer_epoch != batch.producer_epoch
        return replace(
            past,
            producer=_after_marker(before, batch, marker),
            transaction=None,
            event=event,
            marker=event,
            outcome=marker.outcome,
            is_mixed=False,
            # A marker of another epoch resets the sequence, whether it was known or not.
            knows_sequence=changes_epoch or (past.knows_sequence and (self._known or past.producer is not None)),
        )

    def _apply_data(self, batch: BatchSummary, past: Past) -> Past:
        self.anomalies += anomalies_of_data(
            batch, past, self._offset_gaps, sequences=self._sequences, is_log_start=self._is_log_start
        )
        if batch.is_transactional:
            self._extend_transaction(batch)
        event = PreviousEvent(batch.last_offset, batch.max_timestamp, self._offset_gaps)
        return replace(
            past,
            producer=_after_data(past.producer or Producer(batch.producer_id), batch),
            transaction=self.open.get(batch.producer_id),
            event=event,
            data=event,
            outcome=None,
            modes=past.modes | {batch.is_transactional},
            is_mixed=past.transaction is not None and (past.is_mixed or not batch.is_transactional),
            knows_sequence=True,
        )

    def _extend_transaction(self, batch: BatchSummary) -> None:
        transaction = self.open.get(batch.producer_id)
        exact = self._is_exact(batch.producer_id)
        self.open[batch.producer_id] = (
            _started(batch, exact=exact) if transaction is None else _extended(transaction, batch)
        )

    def _end_transaction(self, batch: BatchSummary, marker: Marker) -> None:
        transaction = self.open.pop(batch.producer_id, None)
        if transaction is None:
            self.empty_markers.append(
                EmptyMarker(
                    producer_id=batch.producer_id,
                    marker_offset=batch.base_offset,
                    marker_epoch=batch.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch,
                    marker_timestamp=batch.max_timestamp,
                    outcome=marker.outcome,
                    exact=self._is_exact(batch.producer_id),
                    segment=batch.segment,
                    position=batch.position,
                )
            )
            return
        self.closed.append(_ended(transaction, batch, marker))
        if marker.outcome is TransactionOutcome.ABORTED:
            self.aborted.append(self._index_entry(transaction, batch.base_offset))

    def _index_entry(self, transaction: Transaction, marker_offset: int) -> AbortedTransaction:
        """Return the entry of the transaction index; the transaction itself is no longer open.

        Rule: ``ProducerStateManager.lastStableOffset``. The high watermark does not matter.
        """
        others = (other.first_offset for other in self.open.values())
        return AbortedTransaction(
            producer_id=transaction.producer_id,
            first_offset=transaction.first_offset,
            last_offset=marker_offset,
            last_stable_offset=min(others, default=marker_offset + 1),
            first_offset_exact=transaction.first_offset_exact,
            last_stable_offset_exact=self._known,
        )

    def _is_exact(self, producer_id: int) -> bool:
        """Whether no transaction from before the replay can be open: after its first marker, a producer is exact."""
        return self._known or producer_id in self._with_marker


def _after_data(before: Producer, batch: BatchSummary) -> Producer:
    """Return the state of a producer after a data batch; the epoch is taken over even if it regresses."""
    delta = batch.last_offset - batch.base_offset
    newest = RecentBatch(batch.last_sequence, batch.last_offset, delta, batch.max_timestamp)
    starts_transaction = batch.is_transactional and before.current_txn_first_offset < 0
    return replace(
        before,
        producer_epoch=batch.producer_epoch,
        recent=(*_recent_of_epoch(before, batch.producer_epoch), newest)[-RECENT_BATCHES:],
        last_timestamp=batch.max_timestamp,
        current_txn_first_offset=batch.base_offset if starts_transaction else before.current_txn_first_offset,
    )


def _after_marker(before: Producer, batch: BatchSummary, marker: Marker) -> Producer:
    """Return the state of a producer after a marker; both epochs are taken over even if they regress."""
    return replace(
        before,
        producer_epoch=batch.producer_epoch,
        recent=_recent_of_epoch(before, batch.producer_epoch),
        last_timestamp=batch.max_timestamp,
        coordinator_epoch=marker.coordinator_epoch,
        current_txn_first_offset=NONE,
    )


def _recent_of_epoch(before: Producer, producer_epoch: int) -> tuple[RecentBatch, ...]:
    """Return the recent batches if the epoch is the same: in a new epoch, sequences start at 0 again."""
    return before.recent if producer_epoch == before.producer_epoch else ()


def _carried_over(producer: Producer) -> Transaction:
    """Return the open transaction of a producer in a snapshot, without its batches before the snapshot."""
    return Transaction(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        lowest_epoch=producer.producer_epoch,
        highest_epoch=producer.producer_epoch,
        first_offset=producer.current_txn_first_offset,
        last_offset=producer.last_offset,
        batches=0,
        records=0,
        bytes=0,
        first_timestamp=None,
        last_timestamp=producer.last_timestamp,
    )


def _started(batch: BatchSummary, *, exact: bool) -> Transaction:
    return Transaction(
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        lowest_epoch=batch.producer_epoch,
        highest_epoch=batch.producer_epoch,
        first_offset=batch.base_offset,
        last_offset=batch.last_offset,
        batches=1,
        records=batch.count,
        bytes=batch.size,
        first_timestamp=batch.max_timestamp,
        last_timestamp=batch.max_timestamp,
        first_offset_exact=exact,
        segment=batch.segment,
        position=batch.position,
    )


def _extended(transaction: Transaction, batch: BatchSummary) -> Transaction:
    """Return a transaction with one more batch; a new epoch does not start another transaction."""
    first = transaction.first_timestamp
    return replace(
        transaction,
        producer_epoch=batch.producer_epoch,
        lowest_epoch=min(transaction.lowest_epoch, batch.producer_epoch),
        highest_epoch=max(transaction.highest_epoch, batch.producer_epoch),
        last_offset=batch.last_offset,
        batches=transaction.batches + 1,
        records=transaction.records + batch.count,
        bytes=transaction.bytes + batch.size,
        first_timestamp=None if first is None else min(first, batch.max_timestamp),
        last_timestamp=max(transaction.last_timestamp, batch.max_timestamp),
    )


def _ended(transaction: Transaction, batch: BatchSummary, marker: Marker) -> Transaction:
    return replace(
        transaction,
        outcome=marker.outcome,
        marker_offset=batch.base_offset,
        marker_epoch=batch.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        marker_timestamp=batch.max_timestamp,
        marker_segment=batch.segment,
        marker_position=batch.position,
    )


def _is_unstable(transaction: Transaction, high_watermark: int) -> bool:
    """Whether a transaction is open, or its marker is not replicated, at a high watermark."""
    ended = transaction.marker_offset is not None and transaction.marker_offset < high_watermark
    return transaction.first_offset < high_watermark and not ended
