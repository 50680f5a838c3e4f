"""Anomalies between adjacent events of a producer: the rules, and their application to all events of a chunk at once.

``tests/reference/neighbors.py`` defines the same rules for one event at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.core.record_types import ANOMALY, RECENT_BATCHES, Anomaly, AnomalyArray
from kforensics.forensics.replay.producer_events import OpenSpans, ProducerEvents, run_edges
from kforensics.forensics.replay.replay_rows import (
    NO_ANOMALIES,
    NO_UNRESOLVED,
    anomaly_rows,
    as_duplicate_batches,
    unresolved_anomalies,
)
from kforensics.forensics.replay.summary import UNRESOLVED, UnresolvedArray
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = [
    "NO_ANOMALY",
    "SEQUENCE_COUNT",
    "ChunkNeighbors",
    "are_sequence_anomalies",
    "compare_batches",
    "expected_sequences",
]

NO_ANOMALY = -1
# DefaultRecordBatch.incrementSequence: sequences wrap around after 2^31.
SEQUENCE_COUNT = 1 << 31
# A design decision: a sequence more than half the range ahead of the expected one counts as before it.
HALF_RANGE = 1 << 30

SEQUENCE_ANOMALIES = (Anomaly.SEQ_GAP, Anomaly.SEQ_OVERLAP, Anomaly.SEQ_DUPLICATE_BATCH)


def expected_sequences(last_sequence: IntArray) -> IntArray:
    """Return the sequence that follows each last sequence; 0 follows -1 (none)."""
    return (last_sequence + 1) & (SEQUENCE_COUNT - 1)


def are_sequence_anomalies(kinds: IntArray) -> BoolArray:
    """Return which kinds of anomalies compare sequences rather than epochs."""
    return np.isin(kinds, SEQUENCE_ANOMALIES)


def compare_batches(
    epoch: IntArray, sequence: IntArray, known_epoch: IntArray, expected: IntArray, *, sequences: bool
) -> tuple[IntArray, IntArray]:
    """Return the kind of anomaly of each batch, NO_ANOMALY for none, and its amount.

    A batch reported as SEQ_OVERLAP may still turn out to be a duplicate batch.

    Args:
        epoch: producer epochs of the batches.
        sequence: first sequences of the batches.
        known_epoch: epochs of the producers before the batches.
        expected: the sequences at which the batches should start.
        sequences: whether sequences are checked in this topic.
    """
    bump = epoch.astype("i8") - known_epoch
    ahead = (sequence.astype("i8") - expected) % SEQUENCE_COUNT
    is_gap, is_same_epoch = ahead < HALF_RANGE, bump == 0
    kind = np.where(is_gap, Anomaly.SEQ_GAP, Anomaly.SEQ_OVERLAP)
    amount = np.where(is_gap, ahead, SEQUENCE_COUNT - ahead)
    if not is_same_epoch.all():
        epoch_kind = np.where(bump < 0, Anomaly.EPOCH_REGRESSED, Anomaly.EPOCH_BUMP_NONZERO_SEQ)
        kind, amount = np.where(is_same_epoch, kind, epoch_kind), np.where(is_same_epoch, amount, abs(bump))
    kind[(sequence < 0) | (is_same_epoch & (ahead == 0)) | ((bump > 0) & (sequence == 0))] = NO_ANOMALY
    if not sequences:
        kind[kind != Anomaly.EPOCH_REGRESSED] = NO_ANOMALY
    return kind, amount


@dataclass(frozen=True, slots=True)
class ChunkNeighbors:
    """The events of a chunk with the indexes needed to compare neighbors.

    Attributes:
        events: the events.
        open_spans: their open spans.
        data: indexes of the data batches among the events.
        markers: indexes of the markers.
        epoch_run: for each event, the number of its run of events with the same producer and epoch.
        starts: index of the first event of each producer.
        ends: index of the last event of each producer.
    """

    events: ProducerEvents
    open_spans: OpenSpans
    data: IntArray
    markers: IntArray
    epoch_run: IntArray
    starts: IntArray
    ends: IntArray

    @classmethod
    def of(cls, events: ProducerEvents) -> ChunkNeighbors:
        """Return the neighbors among the events of a chunk."""
        starts, ends = run_edges(events.producer_id)
        begins = np.ones(len(events), "?")
        begins[1:] = events.producer_epoch[1:] != events.producer_epoch[:-1]
        begins[starts] = True
        return cls(
            events=events,
            open_spans=OpenSpans.of(events),
            data=np.flatnonzero(~events.is_marker),
            markers=np.flatnonzero(events.is_marker),
            epoch_run=np.cumsum(begins, dtype="i4"),
            starts=starts,
            ends=ends,
        )

    def anomalies(self, *, sequences: bool) -> tuple[AnomalyArray, UnresolvedArray]:
        """Return the certain and the unresolved anomalies of the chunk."""
        parts = [*self._batch_anomalies(sequences=sequences), *self._mode_anomalies(), *self._marker_anomalies()]
        certain = [part for part in parts if part.dtype == ANOMALY]
        unresolved = [part for part in parts if part.dtype == UNRESOLVED]
        return concat_rows([NO_ANOMALIES, *certain]), concat_rows([NO_UNRESOLVED, *unresolved])

    def first_mixed(self) -> IntArray:
        """Return the index of the first non-transactional batch after transactional data in each span that has one."""
        events, number = self.events, self.open_spans.number
        transactional = self.open_spans.transactional
        non_transactional = self.data[~events.is_transactional[self.data]]
        if not len(transactional) or not len(non_transactional):
            return np.zeros(0, "i8")
        preceding = np.cumsum(events.is_transactional)[non_transactional]
        in_span = (preceding > 0) & (number[transactional[preceding - 1]] == number[non_transactional])
        mixed = non_transactional[in_span]
        first: IntArray = mixed[run_edges(number[mixed])[0]]
        return first

    def _rows(
        self,
        kind: Anomaly | IntArray,
        indexes: IntArray,
        previous: IntArray | None = None,
        amount: IntArray | int = 0,
    ) -> AnomalyArray:
        """Return anomalies at some events, all of them batches or all markers; ``previous`` are indexes, too."""
        if not len(indexes):
            return NO_ANOMALIES
        events = self.events
        records = events.markers(indexes) if events.is_marker[indexes[0]] else events.first_batches(indexes)
        previous_events = None if previous is None else events.previous_events(previous)
        return anomaly_rows(kind, events.producer_id[indexes], records, previous_events, amount)

    def _batch_anomalies(self, *, sequences: bool) -> list[StructArray]:
        """Return anomalies of epochs and sequences of data batches."""
        events, current, previous = self.events, self.data[1:], self.data[:-1]
        sequence = events.column("base_sequence", self.data)
        differs = events.producer_epoch[current] != events.producer_epoch[current - 1]
        if sequences:
            expected = expected_sequences(events.column("last_sequence", previous))
            if len(self.markers):
                expected[self.epoch_run[current - 1] != self.epoch_run[previous]] = 0
            differs |= sequence[1:] != expected
        differs &= events.producer_id[current] == events.producer_id[previous]
        parts = []
        if sequences and (missing := np.flatnonzero(sequence < 0)).size:
            parts.append(self._rows(Anomaly.SEQ_MISSING, self.data[missing]))
        if (suspects := np.flatnonzero(differs) + 1).size:
            parts += self._compared_batches(suspects, sequence, sequences=sequences)
        return parts

    def _compared_batches(self, suspects: IntArray, sequence: IntArray, *, sequences: bool) -> list[StructArray]:
        """Return the anomalies among batches that may be anomalous; ``suspects`` are indexes in ``data``."""
        events, current, previous = self.events, self.data[suspects], self.data[suspects - 1]
        continues = self.epoch_run[current - 1] == self.epoch_run[previous]
        expected = np.where(continues, expected_sequences(events.column("last_sequence", previous)), 0)
        known_epoch = events.producer_epoch[current - 1]
        kind, amount = compare_batches(
            events.producer_epoch[current], sequence[suspects], known_epoch, expected, sequences=sequences
        )
        neighbor = np.where(continues & are_sequence_anomalies(kind), previous, current - 1)
        overlaps = kind == Anomaly.SEQ_OVERLAP
        others = (kind != NO_ANOMALY) & ~overlaps
        parts = [self._rows(kind[others], current[others], neighbor[others], amount[others])]
        if overlaps.any():
            rows = self._rows(Anomaly.SEQ_OVERLAP, current[overlaps], neighbor[overlaps], amount[overlaps])
            parts += self._compared_overlaps(suspects[overlaps], rows)
        return parts

    def _compared_overlaps(self, indexes: IntArray, rows: AnomalyArray) -> list[StructArray]:
        """Return overlaps, as duplicate batches where one of the recent batches is the same.

        ``indexes`` are those of the overlapping batches in ``data``.
        """
        current = self.data[indexes]
        batch = self.events.recent_batches(current)
        undecided = np.ones(len(indexes), "?")
        compared = np.zeros(len(indexes), "i1")
        for distance in range(1, RECENT_BATCHES + 1):
            earlier = self.data[np.maximum(indexes - distance, 0)]
            is_recent = (indexes >= distance) & (self.epoch_run[earlier] == self.epoch_run[current])
            compared += is_recent
            recent = self.events.recent_batches(earlier)
            same = is_recent & undecided & (recent["last_sequence"] == batch["last_sequence"])
            same &= recent["offset_delta"] == batch["offset_delta"]
            put_rows(rows, same, as_duplicate_batches(take_rows(rows, same), take_rows(recent, same)))
            undecided &= ~same
        start = self.starts[np.searchsorted(self.starts, current, "right") - 1]
        # Batches before the chunk may be among the recent ones as well.
        undecided &= (compared < RECENT_BATCHES) & (self.epoch_run[start] == self.epoch_run[current])
        last_sequence = batch["last_sequence"][undecided]
        unresolved = unresolved_anomalies(take_rows(rows, undecided), last_sequence, compared[undecided])
        return [take_rows(rows, ~undecided), unresolved]

    def _mode_anomalies(self) -> list[StructArray]:
        """Return anomalies between transactional and non-transactional data."""
        events, open_spans = self.events, self.open_spans
        transactional = open_spans.transactional
        if not len(transactional):
            return []
        current, previous = transactional[1:], transactional[:-1]
        bump = events.producer_epoch[current].astype("i8") - events.producer_epoch[previous]
        bumped = (bump > 0) & (open_spans.number[current] == open_spans.number[previous])
        parts = [self._rows(Anomaly.EPOCH_BUMP_WITHOUT_MARKER, current[bumped], current[bumped] - 1, bump[bumped])]
        if len(transactional) < len(self.data):
            mixed = self.first_mixed()
            rows = self._rows(Anomaly.TXN_NONTXN_INSIDE, mixed, mixed - 1)
            start = self.starts[np.searchsorted(self.starts, mixed, "right") - 1]
            in_first_span = open_spans.number[mixed] == open_spans.number[start]
            parts += [take_rows(rows, ~in_first_span), unresolved_anomalies(take_rows(rows, in_first_span))]
            parts.append(self._second_modes())
        return parts

    def _second_modes(self) -> UnresolvedArray:
        """Return the first batch of the second mode of each producer with transactional and other data."""
        events = self.events
        transactional = self._first_of_producers(self.open_spans.transactional)
        non_transactional = self._first_of_producers(self.data[~events.is_transactional[self.data]])
        _, indexes, other_indexes = np.intersect1d(
            events.producer_id[transactional],
            events.producer_id[non_transactional],
            assume_unique=True,
            return_indices=True,
        )
        second = np.maximum(transactional[indexes], non_transactional[other_indexes])
        previous = self.data[np.searchsorted(self.data, second) - 1]
        return unresolved_anomalies(self._rows(Anomaly.PID_MIXED_MODES, second, previous))

    def _first_of_producers(self, indexes: IntArray) -> IntArray:
        """Return the first of some events of each producer."""
        first: IntArray = indexes[run_edges(self.events.producer_id[indexes])[0]]
        return first

    def _marker_anomalies(self) -> list[StructArray]:
        """Return anomalies between markers and the events before them."""
        events, markers = self.events, self.markers
        if not len(markers):
            return []
        following = markers[markers > 0]
        following = following[events.producer_id[following] == events.producer_id[following - 1]]
        drop = events.producer_epoch[following - 1].astype("i8") - events.producer_epoch[following]
        regressed = following[drop > 0]
        parts = [self._rows(Anomaly.MARKER_EPOCH_REGRESSED, regressed, regressed - 1, drop[drop > 0])]
        current, previous = markers[1:], markers[:-1]
        same_producer = events.producer_id[current] == events.producer_id[previous]
        current, previous = current[same_producer], previous[same_producer]
        drop = events.column("coordinator_epoch", previous) - events.column("coordinator_epoch", current).astype("i8")
        lower = drop > 0
        parts.append(
            self._rows(Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED, current[lower], previous[lower], drop[lower])
        )
        repeated = (current - previous == 1) & (self.epoch_run[current] == self.epoch_run[previous])
        same_outcome = events.column("control", current) == events.column("control", previous)
        kind = np.where(same_outcome, Anomaly.MARKER_DUPLICATE, Anomaly.MARKER_CONFLICT)
        parts.append(self._rows(kind[repeated], current[repeated], previous[repeated]))
        return parts
