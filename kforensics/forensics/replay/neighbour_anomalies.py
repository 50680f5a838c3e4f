"""Anomalies between adjacent events of a chunk: the columns' side of ``neighbours``.

Each function returns rows that are certain and PENDING records that need what stands before the chunk.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import ANOMALY, RECENT_BATCHES, Anomaly, Records
from kforensics.forensics.replay.open_spans import Regions
from kforensics.forensics.replay.producer_events import Events, edges
from kforensics.forensics.replay.row_building import NO_PENDING, NO_ROWS, anomaly_rows, duplicate_rows, pending_rows
from kforensics.forensics.replay.sequence_rules import NOTHING, compared, expected_sequence, sequence_kinds
from kforensics.forensics.replay.summary_record import PENDING

__all__ = ["Neighbours"]


@dataclass(frozen=True, slots=True)
class Neighbours:
    """The events of a chunk with what their comparison needs.

    Attributes:
        events: the events.
        regions: their regions.
        data: which events are data, as indexes.
        markers: which are markers.
        epoch_run: for each event the number of the run of events of one producer and one epoch that it is in.
        starts: the first event of each producer.
        ends: the last event of each producer.
    """

    events: Events
    regions: Regions
    data: Records
    markers: Records
    epoch_run: Records
    starts: Records
    ends: Records

    @classmethod
    def of(cls, events: Events, regions: Regions) -> Neighbours:
        """Return the events of a chunk, ready to be compared."""
        starts, ends = edges(events.producer_id)
        begins = np.ones(len(events), "?")
        begins[1:] = events.producer_epoch[1:] != events.producer_epoch[:-1]
        begins[starts] = True
        return cls(
            events=events,
            regions=regions,
            data=np.flatnonzero(~events.is_marker),
            markers=np.flatnonzero(events.is_marker),
            epoch_run=np.cumsum(begins, dtype="i4"),
            starts=starts,
            ends=ends,
        )

    def anomalies(self, *, sequences: bool) -> tuple[Records, Records]:
        """Return ANOMALY records and PENDING records of the chunk."""
        found = [*self._of_batches(sequences=sequences), *self._of_modes(), *self._of_markers()]
        rows = [each for each in found if each.dtype == ANOMALY]
        pending = [each for each in found if each.dtype == PENDING]
        return joined_records([NO_ROWS, *rows]), joined_records([NO_PENDING, *pending])

    def _row(
        self, kind: Anomaly | Records, at: Records, neighbour: Records | None = None, amount: Records | int = 0
    ) -> Records:
        if not len(at):
            return NO_ROWS
        event = self.events.markers(at) if self.events.is_marker[at[0]] else self.events.batches(at)
        seen = None if neighbour is None else self.events.seen(neighbour)
        return anomaly_rows(kind, self.events.producer_id[at], event, seen, amount)

    def _of_batches(self, *, sequences: bool) -> list[Records]:
        """Return what the epochs and sequences of batches say of each other."""
        events, here, before = self.events, self.data[1:], self.data[:-1]
        sequence = events.column("base_sequence", self.data)
        odd = events.producer_epoch[here] != events.producer_epoch[here - 1]
        if sequences:
            expected = expected_sequence(events.column("last_sequence", before))
            if len(self.markers):
                expected[self.epoch_run[here - 1] != self.epoch_run[before]] = 0
            odd |= sequence[1:] != expected
        odd &= events.producer_id[here] == events.producer_id[before]
        found = []
        if sequences and (missing := np.flatnonzero(sequence < 0)).size:
            found.append(self._row(Anomaly.SEQ_MISSING, self.data[missing]))
        if (at := np.flatnonzero(odd) + 1).size:
            found += self._compared(at, sequence, sequences=sequences)
        return found

    def _compared(self, at: Records, sequence: Records, *, sequences: bool) -> list[Records]:
        """Return the anomalies among batches that may be some; ``at`` counts in ``data``."""
        events, here, before = self.events, self.data[at], self.data[at - 1]
        goes_on = self.epoch_run[here - 1] == self.epoch_run[before]
        expected = np.where(goes_on, expected_sequence(events.column("last_sequence", before)), 0)
        kind, amount = compared(
            events.producer_epoch[here], sequence[at], events.producer_epoch[here - 1], expected, sequences=sequences
        )
        neighbour = np.where(goes_on & sequence_kinds(kind), before, here - 1)
        plain = (kind != NOTHING) & (kind != Anomaly.SEQ_OVERLAP)
        back = kind == Anomaly.SEQ_OVERLAP
        found = [self._row(kind[plain], here[plain], neighbour[plain], amount[plain])]
        if back.any():
            rows = self._row(Anomaly.SEQ_OVERLAP, here[back], neighbour[back], amount[back])
            found += self._written_again(at[back], rows)
        return found

    def _written_again(self, at: Records, rows: Records) -> list[Records]:
        """Return the overlaps with those made duplicates that have a twin among the recent batches."""
        here = self.data[at]
        batch = self.events.recent(here)
        undecided = np.ones(len(at), "?")
        window = np.zeros(len(at), "i1")
        for back in range(1, RECENT_BATCHES + 1):
            there = self.data[np.maximum(at - back, 0)]
            inside = (at >= back) & (self.epoch_run[there] == self.epoch_run[here])
            window += inside
            other = self.events.recent(there)
            twin = inside & undecided & (other["last_sequence"] == batch["last_sequence"])
            twin &= other["offset_delta"] == batch["offset_delta"]
            placed(rows, twin, duplicate_rows(picked(rows, twin), picked(other, twin)))
            undecided &= ~twin
        start = self.starts[np.searchsorted(self.starts, here, "right") - 1]
        # What stands before the chunk may belong to the recent batches too.
        undecided &= (window < RECENT_BATCHES) & (self.epoch_run[start] == self.epoch_run[here])
        pending = pending_rows(picked(rows, undecided), batch["last_sequence"][undecided], window[undecided])
        return [picked(rows, ~undecided), pending]

    def _of_modes(self) -> list[Records]:
        """Return what transactional data and other data say of each other."""
        events, regions = self.events, self.regions
        inside = regions.transactional
        if not len(inside):
            return []
        here, before = inside[1:], inside[:-1]
        risen = events.producer_epoch[here].astype("i8") - events.producer_epoch[before]
        odd = (risen > 0) & (regions.number[here] == regions.number[before])
        found = [self._row(Anomaly.EPOCH_BUMP_WITHOUT_MARKER, here[odd], here[odd] - 1, risen[odd])]
        if len(inside) < len(self.data):
            at = self.mixed()
            rows = self._row(Anomaly.TXN_NONTXN_INSIDE, at, at - 1)
            start = self.starts[np.searchsorted(self.starts, at, "right") - 1]
            waits = regions.number[at] == regions.number[start]
            found += [picked(rows, ~waits), pending_rows(picked(rows, waits)), self._second_modes()]
        return found

    def mixed(self) -> Records:
        """Return the first other data behind transactional data in each region, as indexes of events."""
        events, number = self.events, self.regions.number
        inside = self.regions.transactional
        other = self.data[~events.is_transactional[self.data]]
        if not len(inside) or not len(other):
            return np.zeros(0, "i8")
        behind = np.cumsum(events.is_transactional)[other]
        mixed = other[(behind > 0) & (number[inside[behind - 1]] == number[other])]
        first: Records = mixed[edges(number[mixed])[0]]
        return first

    def _second_modes(self) -> Records:
        """Return PENDING records of the first batches of the mode that a producer shows second."""
        events = self.events
        other = self.data[~events.is_transactional[self.data]]
        first_of = [each[edges(events.producer_id[each])[0]] for each in (self.regions.transactional, other)]
        ids, others = (events.producer_id[each] for each in first_of)
        _, one, two = np.intersect1d(ids, others, assume_unique=True, return_indices=True)
        at = np.maximum(first_of[0][one], first_of[1][two])
        before = self.data[np.searchsorted(self.data, at) - 1]
        return pending_rows(self._row(Anomaly.PID_MIXED_MODES, at, before))

    def _of_markers(self) -> list[Records]:
        """Return what markers say of the event before them, and of each other."""
        events, every = self.events, self.markers
        if not len(every):
            return []
        later = every[every > 0]
        later = later[events.producer_id[later] == events.producer_id[later - 1]]
        fallen = events.producer_epoch[later - 1].astype("i8") - events.producer_epoch[later]
        odd = fallen > 0
        found = [self._row(Anomaly.MARKER_EPOCH_REGRESSED, later[odd], later[odd] - 1, fallen[odd])]
        here, before = every[1:], every[:-1]
        same = events.producer_id[here] == events.producer_id[before]
        here, before = here[same], before[same]
        coordinator, ending = (
            (events.column(name, here).astype("i8"), events.column(name, before))
            for name in ("coordinator_epoch", "control")
        )
        fallen = coordinator[1] - coordinator[0]
        odd = fallen > 0
        found.append(self._row(Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED, here[odd], before[odd], fallen[odd]))
        again = (here - before == 1) & (self.epoch_run[here] == self.epoch_run[before])
        kind = np.where(ending[0] == ending[1], Anomaly.MARKER_DUPLICATE, Anomaly.MARKER_CONFLICT)
        found.append(self._row(kind[again], here[again], before[again]))
        return found
