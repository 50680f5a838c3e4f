"""What two adjacent events of a producer say of each other: the definition of the anomalies of the replay.

Rule: the checks of ``org.apache.kafka.storage.internals.log.ProducerAppendInfo``, which a leader makes before it
appends. A replay rejects nothing; what such a leader would have rejected becomes a row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kforensics.forensics.core.record_types import Anomaly
from kforensics.forensics.replay.replay_types import (
    AnomalyRow,
    BatchSummary,
    Marker,
    Outcome,
    Producer,
    RecentBatch,
    Transaction,
)

__all__ = ["Past", "Seen", "anomalies_of_data", "anomalies_of_marker", "past_of"]

NONE = -1
# DefaultRecordBatch.incrementSequence: sequences are a ring of 2^31.
RING = 2**31
# A design decision: what seems more than half a ring ahead lies behind.
HALF_RING = 2**30


@dataclass(frozen=True, slots=True)
class Seen:
    """Where an event of a producer was seen.

    Attributes:
        offset: its last offset, -1 if a snapshot does not tell it.
        timestamp: its maximum timestamp.
        holes: offsets the log misses before it, counted from the beginning of the replay.
    """

    offset: int
    timestamp: int
    holes: int


@dataclass(frozen=True, slots=True)
class Past:
    """What of a producer's past its next event is compared with.

    Attributes:
        producer: its state; None if nothing is known of it.
        transaction: its open transaction, if there is one.
        event: where its last data batch or marker was seen, as are
        data: its last data batch, and
        marker: its last marker.
        outcome: that of its last event, None unless it is a marker.
        modes: whether its data batches are transactional: one value, both, or none seen yet.
        is_mixed: whether its open transaction is known to have other data inside.
        knows_sequence: False while an unknown past may have left a last sequence behind.
    """

    producer: Producer | None = None
    transaction: Transaction | None = None
    event: Seen | None = None
    data: Seen | None = None
    marker: Seen | None = None
    outcome: Outcome | None = None
    modes: frozenset[bool] = frozenset()
    is_mixed: bool = False
    knows_sequence: bool = True


def past_of(producer: Producer, transaction: Transaction | None) -> Past:
    """Return the past that a snapshot tells of a producer; what its last event was, it does not."""
    newest = producer.recent[-1] if producer.recent else None
    event = Seen(NONE, producer.last_timestamp, 0)
    return Past(
        producer=producer,
        transaction=transaction,
        event=event,
        data=Seen(newest.last_offset, newest.timestamp, 0) if newest else event,
        marker=event,
        modes=frozenset() if transaction is None else frozenset({True}),
    )


def anomalies_of_data(
    batch: BatchSummary, past: Past, holes: int, *, sequences: bool, is_beginning: bool
) -> Iterator[AnomalyRow]:
    """Yield what does not go together with its producer's past in a data batch.

    Args:
        batch: the data batch.
        past: of its producer.
        holes: offsets the log misses before it, counted from the beginning of the replay.
        sequences: whether sequences mean anything in this topic.
        is_beginning: whether nothing can have been written before the replay.
    """
    compared = _Comparison(batch, holes)
    if batch.base_sequence < 0:
        yield from [compared.row(Anomaly.SEQ_MISSING)] if sequences else []
    elif past.producer is not None:
        yield from _epoch_and_sequence(compared, past, past.producer, sequences=sequences)
    elif sequences and is_beginning and batch.base_sequence > 0:
        yield compared.row(Anomaly.SEQ_FIRST_NONZERO)
    if past.transaction is not None and batch.is_transactional:
        risen = batch.producer_epoch - past.transaction.producer_epoch
        yield from [compared.row(Anomaly.EPOCH_BUMP_WITHOUT_MARKER, past.data, risen)] if risen > 0 else []
    if past.transaction is not None and not batch.is_transactional and not past.is_mixed:
        yield compared.row(Anomaly.TXN_NONTXN_INSIDE, past.data)
    if past.modes == {not batch.is_transactional}:
        yield compared.row(Anomaly.PID_MIXED_MODES, past.data)


def anomalies_of_marker(batch: BatchSummary, marker: Marker, past: Past, holes: int) -> Iterator[AnomalyRow]:
    """Yield what does not go together with its producer's past in a marker; the arguments are as for data."""
    if past.producer is None:
        return
    compared = _Comparison(batch, holes)
    fallen = past.producer.producer_epoch - batch.producer_epoch
    if fallen > 0:
        yield compared.row(Anomaly.MARKER_EPOCH_REGRESSED, past.event, fallen)
    if marker.coordinator_epoch < past.producer.coordinator_epoch:
        fallen_by = past.producer.coordinator_epoch - marker.coordinator_epoch
        yield compared.row(Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED, past.marker, fallen_by)
    if past.outcome is not None and fallen == 0:
        same = past.outcome is marker.outcome
        yield compared.row(Anomaly.MARKER_DUPLICATE if same else Anomaly.MARKER_CONFLICT, past.event)


def _epoch_and_sequence(
    compared: _Comparison, past: Past, producer: Producer, *, sequences: bool
) -> Iterator[AnomalyRow]:
    batch = compared.batch
    risen = batch.producer_epoch - producer.producer_epoch
    if risen < 0:
        yield compared.row(Anomaly.EPOCH_REGRESSED, past.event, -risen)
    elif not sequences:
        return
    elif risen > 0:
        if batch.base_sequence > 0:
            yield compared.row(Anomaly.EPOCH_BUMP_NONZERO_SEQ, past.event, risen)
    elif past.knows_sequence:
        yield from _sequence(compared, past, producer)


def _sequence(compared: _Comparison, past: Past, producer: Producer) -> Iterator[AnomalyRow]:
    batch = compared.batch
    expected = (producer.last_sequence + 1) % RING
    ahead = (batch.base_sequence - expected) % RING
    # Without a batch of this epoch it is the last marker, or the snapshot, that lets 0 be expected.
    neighbour = past.data if producer.recent else past.event
    if 0 < ahead < HALF_RING:
        yield compared.row(Anomaly.SEQ_GAP, neighbour, ahead)
    elif ahead:
        twin = _twin(batch, producer.recent)
        if twin is None:
            yield compared.row(Anomaly.SEQ_OVERLAP, neighbour, RING - ahead)
        else:
            found = compared.row(Anomaly.SEQ_DUPLICATE_BATCH, neighbour, twin.offset_delta + 1)
            yield replace(found, previous_offset=twin.last_offset, previous_timestamp=twin.timestamp)


def _twin(batch: BatchSummary, recent: tuple[RecentBatch, ...]) -> RecentBatch | None:
    """Return the newest of the recent batches with the same sequences.

    Rule: ``ProducerStateEntry.findDuplicateBatch``.
    """
    written = (batch.last_sequence, batch.last_offset - batch.base_offset)
    return next((one for one in reversed(recent) if (one.last_sequence, one.offset_delta) == written), None)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """A batch or marker, and the offsets the log misses before it."""

    batch: BatchSummary
    holes: int

    def row(self, kind: Anomaly, neighbour: Seen | None = None, amount: int = 0) -> AnomalyRow:
        batch = self.batch
        return AnomalyRow(
            kind=kind,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            first_offset=batch.base_offset,
            last_offset=batch.last_offset,
            timestamp=batch.max_timestamp,
            amount=amount,
            previous_offset=NONE if neighbour is None else neighbour.offset,
            previous_timestamp=None if neighbour is None else neighbour.timestamp,
            hole=0 if neighbour is None else self.holes - neighbour.holes,
            segment=batch.segment,
            position=batch.position,
        )
