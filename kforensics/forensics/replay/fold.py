"""The replay of a partition, batch after batch: the definition of its producers, transactions and last stable offset.

Rule: ``org.apache.kafka.storage.internals.log.ProducerStateManager`` and ``ProducerAppendInfo``, as a replica applies
them when it reads its own log: whatever is there is taken as it is. Nothing is rejected, neither epochs that fall nor
sequences that jump; those are handed out beside the state.

Plain on purpose: faster ways to the same values are tested against it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kforensics.forensics.replay.neighbours import Past, Seen, anomalies_of_data, anomalies_of_marker, past_of
from kforensics.forensics.replay.replay_types import (
    EMPTY,
    AbortedTransaction,
    AnomalyRow,
    BatchSummary,
    Boundary,
    BoundaryKind,
    EmptyMarker,
    LastStableOffset,
    Marker,
    Outcome,
    Producer,
    RecentBatch,
    Transaction,
)

__all__ = ["Replay", "fold"]

NONE = -1
# ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
RECENT_BATCHES = 5


@dataclass(frozen=True, slots=True)
class Replay:
    """What a partition's batches amount to.

    Attributes:
        boundary: where the replay began.
        log_start_offset: first offset of the log that consumers may see.
        log_end_offset: offset behind the last batch.
        producers: by producer id.
        transactions: the closed ones, in the order of their markers.
        open_transactions: the others, in the order of their first offsets.
        empty_markers: markers that closed nothing, in the order of the log.
        aborted_transactions: entries of the transaction indexes, in the order of their markers.
        anomalies: what a leader that knew all of a producer would not have written, in the order of the log.
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
        """Return the last stable offset of the log, and which transaction holds it back.

        A transaction is unstable until its marker is below the high watermark. Where the log goes on below the log
        start offset, as after DeleteRecords, a transaction from there holds it at the log start offset.

        Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``maybeIncrementFirstUnstableOffset``.

        Args:
            high_watermark: offset behind the last replicated one, None if all of the log is replicated. A checkpoint
                may name one outside the log; it is moved to the nearer end, as ``UnifiedLog.updateHighWatermark`` does.
        """
        end = self.log_end_offset
        if high_watermark is not None:
            end = min(max(high_watermark, self.log_start_offset), end)
        unstable = [found for found in (*self.transactions, *self.open_transactions) if _unstable(found, end)]
        holder = min(unstable, key=lambda found: found.first_offset, default=None)
        offset = end if holder is None else min(end, max(holder.first_offset, self.log_start_offset))
        known = self.boundary.kind is not BoundaryKind.UNKNOWN and end >= self.boundary.offset
        return LastStableOffset(
            last_stable_offset=offset,
            lowest=offset if known else min(offset, self.log_start_offset),
            holder=holder if offset < end else None,
        )


def fold(
    batches: Iterable[BatchSummary], boundary: Boundary = EMPTY, log_start_offset: int = 0, *, sequences: bool = True
) -> Replay:
    """Replay the batches of a partition.

    Args:
        batches: in the order of the log. Those below the log start offset that are still there belong to it; those
            below the offset of a snapshot are in the snapshot and passed over.
        boundary: what is known of the log before them.
        log_start_offset: first offset that consumers may see.
        sequences: False for ``__consumer_offsets``, where coordinators start every batch at 0.
    """
    state = _State(boundary, sequences=sequences)
    log_end_offset = max(boundary.offset, log_start_offset)
    for batch in batches:
        if batch.base_offset >= boundary.offset:
            state.take(batch)
            log_end_offset = batch.last_offset + 1
    return Replay(
        boundary=boundary,
        log_start_offset=log_start_offset,
        log_end_offset=log_end_offset,
        producers={one: past.producer for one, past in state.pasts.items() if past.producer is not None},
        transactions=tuple(state.closed),
        open_transactions=tuple(sorted(state.open.values(), key=lambda found: found.first_offset)),
        empty_markers=tuple(state.empty_markers),
        aborted_transactions=tuple(state.aborted),
        anomalies=tuple(state.anomalies),
    )


class _State:
    """The state of all producers of a partition, and what has happened so far."""

    def __init__(self, boundary: Boundary, *, sequences: bool) -> None:
        known = {producer.producer_id: producer for producer in boundary.producers}
        # By producer id alone: transaction version 2 writes its marker at the epoch behind that of the data, and a
        # marker ends what is open whatever its epoch.
        self.open = {
            producer.producer_id: _carried_over(producer)
            for producer in known.values()
            if producer.current_txn_first_offset >= 0
        }
        self.pasts = {number: past_of(producer, self.open.get(number)) for number, producer in known.items()}
        self.closed: list[Transaction] = []
        self.empty_markers: list[EmptyMarker] = []
        self.aborted: list[AbortedTransaction] = []
        self.anomalies: list[AnomalyRow] = []
        self._known = boundary.kind is not BoundaryKind.UNKNOWN
        self._is_beginning = boundary.kind is BoundaryKind.EMPTY
        self._sequences = sequences
        self._marked: set[int] = set()
        self._holes = 0
        self._end = boundary.offset if boundary.kind is BoundaryKind.SNAPSHOT else None

    def take(self, batch: BatchSummary) -> None:
        """Apply the next batch."""
        if self._end is not None and batch.exact:
            self._holes += max(0, batch.base_offset - self._end)
        self._end = batch.last_offset + 1
        if batch.producer_id < 0:
            return
        past = self.pasts.get(batch.producer_id, Past())
        if batch.marker is not None:
            self.pasts[batch.producer_id] = self._take_marker(batch, batch.marker, past)
        # A control batch that the cleaner has emptied changes nothing, not even the epoch. A data batch it has
        # emptied still counts, and even opens a transaction.
        elif not batch.is_control:
            self.pasts[batch.producer_id] = self._take_data(batch, past)

    def _take_marker(self, batch: BatchSummary, marker: Marker, past: Past) -> Past:
        self.anomalies += anomalies_of_marker(batch, marker, past, self._holes)
        self._end_transaction(batch, marker)
        self._marked.add(batch.producer_id)
        seen = Seen(batch.last_offset, batch.max_timestamp, self._holes)
        before = past.producer or Producer(batch.producer_id)
        rises = past.producer is not None and past.producer.producer_epoch != batch.producer_epoch
        return replace(
            past,
            producer=_after_marker(before, batch, marker),
            transaction=None,
            event=seen,
            marker=seen,
            outcome=marker.outcome,
            is_mixed=False,
            # A marker of another epoch erases sequences, known or not.
            knows_sequence=rises or (past.knows_sequence and (self._known or past.producer is not None)),
        )

    def _take_data(self, batch: BatchSummary, past: Past) -> Past:
        self.anomalies += anomalies_of_data(
            batch, past, self._holes, sequences=self._sequences, is_beginning=self._is_beginning
        )
        if batch.is_transactional:
            self._write(batch)
        seen = Seen(batch.last_offset, batch.max_timestamp, self._holes)
        return replace(
            past,
            producer=_after_data(past.producer or Producer(batch.producer_id), batch),
            transaction=self.open.get(batch.producer_id),
            event=seen,
            data=seen,
            outcome=None,
            modes=past.modes | {batch.is_transactional},
            is_mixed=past.transaction is not None and (past.is_mixed or not batch.is_transactional),
            knows_sequence=True,
        )

    def _write(self, batch: BatchSummary) -> None:
        found = self.open.get(batch.producer_id)
        exact = self._beyond_doubt(batch.producer_id)
        self.open[batch.producer_id] = _begun(batch, exact=exact) if found is None else _continued(found, batch)

    def _end_transaction(self, batch: BatchSummary, marker: Marker) -> None:
        found = self.open.pop(batch.producer_id, None)
        if found is None:
            self.empty_markers.append(
                EmptyMarker(
                    producer_id=batch.producer_id,
                    marker_offset=batch.base_offset,
                    marker_epoch=batch.producer_epoch,
                    coordinator_epoch=marker.coordinator_epoch,
                    marker_timestamp=batch.max_timestamp,
                    outcome=marker.outcome,
                    exact=self._beyond_doubt(batch.producer_id),
                    segment=batch.segment,
                    position=batch.position,
                )
            )
            return
        self.closed.append(_ended(found, batch, marker))
        if marker.outcome is Outcome.ABORTED:
            self.aborted.append(self._index_entry(found, batch.base_offset))

    def _index_entry(self, found: Transaction, marker_offset: int) -> AbortedTransaction:
        """Return the entry of the transaction index; the transaction itself is no longer among the open ones.

        Rule: ``ProducerStateManager.lastStableOffset``. The high watermark plays no part.
        """
        others = (other.first_offset for other in self.open.values())
        return AbortedTransaction(
            producer_id=found.producer_id,
            first_offset=found.first_offset,
            last_offset=marker_offset,
            last_stable_offset=min(others, default=marker_offset + 1),
            first_offset_exact=found.first_offset_exact,
            last_stable_offset_exact=self._known,
        )

    def _beyond_doubt(self, producer_id: int) -> bool:
        """Whether nothing from before the replay can be open: behind its first marker a producer is known exactly."""
        return self._known or producer_id in self._marked


def _after_data(before: Producer, batch: BatchSummary) -> Producer:
    """Return the state of a producer after a data batch; the epoch is taken over even where it falls."""
    delta = batch.last_offset - batch.base_offset
    newest = RecentBatch(batch.last_sequence, batch.last_offset, delta, batch.max_timestamp)
    opens = batch.is_transactional and before.current_txn_first_offset < 0
    return replace(
        before,
        producer_epoch=batch.producer_epoch,
        recent=(*_recent_of_epoch(before, batch.producer_epoch), newest)[-RECENT_BATCHES:],
        last_timestamp=batch.max_timestamp,
        current_txn_first_offset=batch.base_offset if opens else before.current_txn_first_offset,
    )


def _after_marker(before: Producer, batch: BatchSummary, marker: Marker) -> Producer:
    """Return the state of a producer after a marker; both epochs are taken over even where they fall."""
    return replace(
        before,
        producer_epoch=batch.producer_epoch,
        recent=_recent_of_epoch(before, batch.producer_epoch),
        last_timestamp=batch.max_timestamp,
        coordinator_epoch=marker.coordinator_epoch,
        current_txn_first_offset=NONE,
    )


def _recent_of_epoch(before: Producer, producer_epoch: int) -> tuple[RecentBatch, ...]:
    """Return the recent batches as long as the epoch stays: with a new one sequences begin at 0 again."""
    return before.recent if producer_epoch == before.producer_epoch else ()


def _carried_over(producer: Producer) -> Transaction:
    """Return the open transaction of a snapshot's entry, with nothing counted of what stands before the snapshot."""
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


def _begun(batch: BatchSummary, *, exact: bool) -> Transaction:
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


def _continued(found: Transaction, batch: BatchSummary) -> Transaction:
    """Return a transaction with one more batch; a new epoch does not begin another one."""
    first = found.first_timestamp
    return replace(
        found,
        producer_epoch=batch.producer_epoch,
        lowest_epoch=min(found.lowest_epoch, batch.producer_epoch),
        highest_epoch=max(found.highest_epoch, batch.producer_epoch),
        last_offset=batch.last_offset,
        batches=found.batches + 1,
        records=found.records + batch.count,
        bytes=found.bytes + batch.size,
        first_timestamp=None if first is None else min(first, batch.max_timestamp),
        last_timestamp=max(found.last_timestamp, batch.max_timestamp),
    )


def _ended(found: Transaction, batch: BatchSummary, marker: Marker) -> Transaction:
    return replace(
        found,
        outcome=marker.outcome,
        marker_offset=batch.base_offset,
        marker_epoch=batch.producer_epoch,
        coordinator_epoch=marker.coordinator_epoch,
        marker_timestamp=batch.max_timestamp,
        marker_segment=batch.segment,
        marker_position=batch.position,
    )


def _unstable(found: Transaction, high_watermark: int) -> bool:
    """Whether a transaction is undecided, or its marker not replicated, at a high watermark."""
    ended = found.marker_offset is not None and found.marker_offset < high_watermark
    return found.first_offset < high_watermark and not ended
