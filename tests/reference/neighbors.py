"""The reference rules for anomalies: how a producer's batch or marker compares with the events before it.

Rule: the checks of ``org.apache.kafka.storage.internals.log.ProducerAppendInfo``, which a leader makes before it
appends. A replay rejects nothing: what such a leader would have rejected becomes a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kforensics.forensics.core.record_types import Anomaly, TransactionOutcome
from tests.reference.replay_values import NONE, AnomalyRow, BatchSummary, Marker, Producer, RecentBatch, Transaction

__all__ = ["Past", "PreviousEvent", "anomalies_of_data", "anomalies_of_marker", "past_of"]

# DefaultRecordBatch.incrementSequence: sequences wrap around after 2^31.
SEQUENCE_COUNT = 2**31
# A design decision: a sequence more than half the range ahead of the expected one counts as before it.
HALF_RANGE = 2**30


@dataclass(frozen=True, slots=True)
class PreviousEvent:
    """An event of a producer that later events are compared with.

    Attributes:
        offset: last offset, -1 if it is only known from a snapshot.
        timestamp: maximum timestamp.
        offset_gaps: offsets missing from the log before it, counted from the start of the replay.
    """

    offset: int
    timestamp: int
    offset_gaps: int


@dataclass(frozen=True, slots=True)
class Past:
    """What the next event of a producer is compared with.

    Attributes:
        producer: the state of the producer, None if nothing is known of it.
        transaction: its open transaction, None for none.
        event: its last data batch or marker.
        data: its last data batch.
        marker: its last marker.
        outcome: the outcome of the last event if that is a marker, else None.
        modes: the values of ``is_transactional`` among its data batches so far.
        is_mixed: whether its open transaction is known to have non-transactional data inside.
        knows_sequence: False while the last sequence depends on batches before the available log.
    """

    producer: Producer | None = None
    transaction: Transaction | None = None
    event: PreviousEvent | None = None
    data: PreviousEvent | None = None
    marker: PreviousEvent | None = None
    outcome: TransactionOutcome | None = None
    modes: frozenset[bool] = frozenset()
    is_mixed: bool = False
    knows_sequence: bool = True


def past_of(producer: Producer, transaction: Transaction | None) -> Past:
    """Return the past of a producer in a snapshot, which does not show what the last event was."""
    newest = producer.recent[-1] if producer.recent else None
    event = PreviousEvent(NONE, producer.last_timestamp, 0)
    return Past(
        producer=producer,
        transaction=transaction,
        event=event,
        data=PreviousEvent(newest.last_offset, newest.timestamp, 0) if newest else event,
        marker=event,
        modes=frozenset() if transaction is None else frozenset({True}),
    )


def anomalies_of_data(
    batch: BatchSummary, past: Past, offset_gaps: int, *, sequences: bool, is_log_start: bool
) -> Iterator[AnomalyRow]:
    """Yield the anomalies of a data batch.

    Args:
        batch: the data batch.
        past: the past of its producer.
        offset_gaps: offsets missing from the log before it, counted from the start of the replay.
        sequences: whether sequences are checked in this topic.
        is_log_start: whether there were no batches before the replay.
    """
    current = _Current(batch, offset_gaps)
    if batch.base_sequence < 0:
        yield from [current.row(Anomaly.SEQ_MISSING)] if sequences else []
    elif past.producer is not None:
        yield from _epoch_and_sequence(current, past, past.producer, sequences=sequences)
    elif sequences and is_log_start and batch.base_sequence > 0:
        yield current.row(Anomaly.SEQ_FIRST_NONZERO)
    if past.transaction is not None and batch.is_transactional:
        bump = batch.producer_epoch - past.transaction.producer_epoch
        yield from [current.row(Anomaly.EPOCH_BUMP_WITHOUT_MARKER, past.data, bump)] if bump > 0 else []
    if past.transaction is not None and not batch.is_transactional and not past.is_mixed:
        yield current.row(Anomaly.TXN_NONTXN_INSIDE, past.data)
    if past.modes == {not batch.is_transactional}:
        yield current.row(Anomaly.PID_MIXED_MODES, past.data)


def anomalies_of_marker(batch: BatchSummary, marker: Marker, past: Past, offset_gaps: int) -> Iterator[AnomalyRow]:
    """Yield the anomalies of a marker.

    Args:
        batch: the control batch.
        marker: its marker.
        past: the past of its producer.
        offset_gaps: offsets missing from the log before it, counted from the start of the replay.
    """
    if past.producer is None:
        return
    current = _Current(batch, offset_gaps)
    drop = past.producer.producer_epoch - batch.producer_epoch
    if drop > 0:
        yield current.row(Anomaly.MARKER_EPOCH_REGRESSED, past.event, drop)
    coordinator_drop = past.producer.coordinator_epoch - marker.coordinator_epoch
    if coordinator_drop > 0:
        yield current.row(Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED, past.marker, coordinator_drop)
    if past.outcome is not None and drop == 0:
        same_outcome = past.outcome is marker.outcome
        yield current.row(Anomaly.MARKER_DUPLICATE if same_outcome else Anomaly.MARKER_CONFLICT, past.event)


def _epoch_and_sequence(current: _Current, past: Past, producer: Producer, *, sequences: bool) -> Iterator[AnomalyRow]:
    batch = current.batch
    bump = batch.producer_epoch - producer.producer_epoch
    if bump < 0:
        yield current.row(Anomaly.EPOCH_REGRESSED, past.event, -bump)
    elif not sequences:
        return
    elif bump > 0:
        if batch.base_sequence > 0:
            yield current.row(Anomaly.EPOCH_BUMP_NONZERO_SEQ, past.event, bump)
    elif past.knows_sequence:
        yield from _sequence(current, past, producer)


def _sequence(current: _Current, past: Past, producer: Producer) -> Iterator[AnomalyRow]:
    batch = current.batch
    expected = (producer.last_sequence + 1) % SEQUENCE_COUNT
    ahead = (batch.base_sequence - expected) % SEQUENCE_COUNT
    # Without a batch of this epoch, sequence 0 is expected because of the last marker, or the snapshot.
    previous = past.data if producer.recent else past.event
    if 0 < ahead < HALF_RANGE:
        yield current.row(Anomaly.SEQ_GAP, previous, ahead)
    elif ahead:
        original = _original(batch, producer.recent)
        if original is None:
            yield current.row(Anomaly.SEQ_OVERLAP, previous, SEQUENCE_COUNT - ahead)
        else:
            row = current.row(Anomaly.SEQ_DUPLICATE_BATCH, previous, original.offset_delta + 1)
            yield replace(row, previous_offset=original.last_offset, previous_timestamp=original.timestamp)


def _original(batch: BatchSummary, recent: tuple[RecentBatch, ...]) -> RecentBatch | None:
    """Return the newest of the recent batches with the sequences of a batch.

    Rule: ``ProducerStateEntry.findDuplicateBatch``.
    """
    sequences = (batch.last_sequence, batch.last_offset - batch.base_offset)
    return next((each for each in reversed(recent) if (each.last_sequence, each.offset_delta) == sequences), None)


@dataclass(frozen=True, slots=True)
class _Current:
    """A batch or marker, and the offsets missing from the log before it."""

    batch: BatchSummary
    offset_gaps: int

    def row(self, kind: Anomaly, previous: PreviousEvent | None = None, amount: int = 0) -> AnomalyRow:
        batch = self.batch
        return AnomalyRow(
            kind=kind,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            first_offset=batch.base_offset,
            last_offset=batch.last_offset,
            timestamp=batch.max_timestamp,
            amount=amount,
            previous_offset=NONE if previous is None else previous.offset,
            previous_timestamp=None if previous is None else previous.timestamp,
            offset_gap=0 if previous is None else self.offset_gaps - previous.offset_gaps,
            segment=batch.segment,
            position=batch.position,
        )
