"""What the records of producers on both sides of a seam say of each other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import chosen, joined_records, picked, placed
from kforensics.forensics.core.record_types import RECENT_BATCH, RECENT_BATCHES, Anomaly, Records
from kforensics.forensics.replay.open_spans import product
from kforensics.forensics.replay.replay_rows import Rows
from kforensics.forensics.replay.row_building import (
    NO_PENDING,
    NO_ROWS,
    anomaly_rows,
    closed_rows,
    duplicate_rows,
    pending_rows,
)
from kforensics.forensics.replay.sequence_rules import NOTHING, compared, expected_sequence, sequence_kinds

__all__ = ["Seam", "end_regions", "last_sequences", "twins"]


@dataclass(frozen=True, slots=True)
class Seam:
    """Producers that both stretches know.

    Attributes:
        left: their PRODUCER_SUMMARY records in the stretch before the seam.
        right: those in the stretch behind it, of the same producers, with holes counted from the beginning of the left.
        sequences: whether sequences mean anything in the topic.
    """

    left: Records
    right: Records
    sequences: bool

    def joined(self) -> Records:
        """Return PRODUCER_SUMMARY records of both stretches together."""
        left, right = self.left, self.right
        found: Records = left.copy()
        self._join_ends(found)
        for name in ("has_data", "has_transactional", "has_other", "has_marker"):
            found[name] = left[name] | right[name]
        for name in ("ends_with_marker", "end_epoch"):
            found[name] = right[name]
        _take(found, right, right["has_data"], "last_data")
        _take(found, right, right["has_marker"], "last_marker", "last_coordinator_epoch", "last_ending")
        _take(found, right, ~left["has_data"], "first")
        _take(found, right, ~left["has_marker"], "first_marker")
        self._join_lead(found)
        self._join_regions(found)
        self._join_recent(found)
        return found

    def closed(self) -> Rows:
        """Return the transactions that begin before the seam and end behind it."""
        at = np.flatnonzero(self.left["has_marker"] & self.right["has_marker"])
        if not len(at):
            return Rows.of()
        left, right = picked(self.left, at), picked(self.right, at)
        return closed_rows(left["producer_id"], product(left["tail"], right["head"]), right["first_marker"])

    def anomalies(self) -> tuple[Records, Records]:
        """Return ANOMALY records of what does not go together, and PENDING records of what may not."""
        certain, waiting = zip(self._of_sequence(), self._of_modes(), self._of_markers(), strict=True)
        return joined_records(certain), joined_records(waiting)

    def _join_ends(self, found: Records) -> None:
        left, right = self.left, self.right
        found["is_uniform"] &= right["is_uniform"] & self._goes_on()
        mixed = left["is_mixed"] | right["is_mixed"] | (end_regions(left)["begun"] & right["has_other"])
        found["is_mixed"] = np.where(right["has_marker"], right["is_mixed"], mixed)

    def _goes_on(self) -> Records:
        """Whether the first event behind the seam has the epoch of the last one before it."""
        agrees: Records = self.left["end_epoch"] == start_epochs(self.right)
        return agrees

    def _join_lead(self, found: Records) -> None:
        """Put the markers before the first batch together where the left stretch has no batch."""
        longer = ~self.left["has_data"] & self.right["starts_with_marker"]
        uniform = self.left["lead_is_uniform"] & self.right["lead_is_uniform"] & self._goes_on()
        found["lead_is_uniform"] = np.where(longer, uniform, self.left["lead_is_uniform"])
        _take(found, self.right, longer, "lead", "lead_epoch")

    def _join_regions(self, found: Records) -> None:
        left, right = self.left, self.right
        touching = product(end_regions(left), right["head"])
        placed(found["head"], slice(None), chosen(left["has_marker"], left["head"], touching))
        placed(found["tail"], slice(None), chosen(left["has_marker"], touching, left["tail"]))
        _take(found, right, right["has_marker"], "tail")

    def _join_recent(self, found: Records) -> None:
        """Keep the last batches of the last epoch; it may have begun before the seam."""
        _take(found, self.right, np.ones(len(found), "?"), "recent", "recent_count")
        at = np.flatnonzero(self.right["is_uniform"] & self._goes_on() & (self.left["recent_count"] > 0))
        if len(at):
            left, right = picked(self.left, at), picked(self.right, at)
            before, behind = left["recent_count"][:, None], right["recent_count"][:, None]
            count = np.minimum(before + behind, RECENT_BATCHES)
            slot = np.arange(RECENT_BATCHES)
            wanted = before + behind - count + slot
            wanted += np.where(wanted < before, 0, RECENT_BATCHES - before)
            both = np.empty((len(at), 2 * RECENT_BATCHES), RECENT_BATCH)
            placed(both, np.s_[:, :RECENT_BATCHES], left["recent"])
            placed(both, np.s_[:, RECENT_BATCHES:], right["recent"])
            recent = picked(both, (np.arange(len(at))[:, None], np.minimum(wanted, 2 * RECENT_BATCHES - 1)))
            placed(recent, slot >= count, np.zeros(1, RECENT_BATCH))
            placed(found["recent"], at, recent)
            found["recent_count"][at] = count[:, 0]

    def _last_event(self) -> Records:
        """Return SEEN records of the last events before the seam."""
        return chosen(self.left["ends_with_marker"], self.left["last_marker"], self.left["last_data"])

    def _of_sequence(self) -> tuple[Records, Records]:
        """Compare the first batch behind the seam with what stands before it, markers in between included."""
        first = self.right["first"]
        epoch, expected = self._expected()
        odd = (first["producer_epoch"] != epoch) | (first["base_sequence"] != expected)
        # Without a batch before the seam the markers there say nothing yet of sequences: the check waits.
        at = np.flatnonzero(odd & self.left["has_data"] & self.right["has_data"])
        if not len(at):
            return NO_ROWS, NO_PENDING
        return Seam(picked(self.left, at), picked(self.right, at), sequences=self.sequences).compared_sequences()

    def _expected(self) -> tuple[Records, Records]:
        """Return the epoch and the sequence with which the first batch behind the seam should begin."""
        epoch = np.where(self.right["starts_with_marker"], self.right["lead_epoch"], self.left["end_epoch"])
        return epoch, np.where(self._keeps_recent(), expected_sequence(last_sequences(self.left)), 0)

    def _keeps_recent(self) -> Records:
        """Whether the recent batches before the seam are still those at the first batch behind it."""
        markers_agree = self.right["lead_is_uniform"] & self._goes_on()
        kept: Records = (self.left["recent_count"] > 0) & (~self.right["starts_with_marker"] | markers_agree)
        return kept

    def compared_sequences(self) -> tuple[Records, Records]:
        """Return ANOMALY and PENDING records of first batches, all of which have a batch before the seam."""
        left, right, first = self.left, self.right, self.right["first"]
        epoch, expected = self._expected()
        kind, amount = compared(
            first["producer_epoch"], first["base_sequence"], epoch, expected, sequences=self.sequences
        )
        last_event = chosen(right["starts_with_marker"], right["lead"], self._last_event())
        neighbour = chosen(self._keeps_recent() & sequence_kinds(kind), left["last_data"], last_event)
        rows = anomaly_rows(kind, left["producer_id"], first, neighbour, amount)
        back = self._keeps_recent() & (kind == Anomaly.SEQ_OVERLAP)
        last_sequence = expected_sequence(first["base_sequence"].astype("i8") + first["offset_delta"] - 1)
        certain, waiting = twins(pending_rows(picked(rows, back), last_sequence[back]), picked(left, back))
        return joined_records([picked(rows, ~back & (kind != NOTHING)), certain]), waiting

    def _rows(
        self, kind: Anomaly, where: Records, event: str, neighbour: Records, amount: Records | int = 0
    ) -> Records:
        """Return ANOMALY records of events behind the seam where a mask holds, which is seldom."""
        (at,) = where.nonzero()
        if not len(at):
            return NO_ROWS
        counted = amount if isinstance(amount, int) else amount[at]
        events = picked(self.right[event], at)
        return anomaly_rows(kind, self.left["producer_id"][at], events, picked(neighbour, at), counted)

    def _of_modes(self) -> tuple[Records, Records]:
        """Compare transactional data with other data."""
        left, right, first = self.left, self.right, self.right["first"]
        region, neighbour = end_regions(left), left["last_data"]
        touches = region["begun"] & right["has_data"] & ~right["starts_with_marker"]
        risen = first["producer_epoch"].astype("i8") - region["producer_epoch"]
        bumps = touches & first["is_transactional"] & (risen > 0)
        inside = touches & ~first["is_transactional"] & ~left["is_mixed"]
        one_mode = (left["has_transactional"] != left["has_other"]) & right["has_data"]
        second = one_mode & (left["has_other"] == first["is_transactional"])
        certain = [
            self._rows(Anomaly.EPOCH_BUMP_WITHOUT_MARKER, bumps, "first", neighbour, risen),
            self._rows(Anomaly.TXN_NONTXN_INSIDE, inside & left["has_marker"], "first", neighbour),
        ]
        waiting = [
            self._rows(Anomaly.TXN_NONTXN_INSIDE, inside & ~left["has_marker"], "first", neighbour),
            self._rows(Anomaly.PID_MIXED_MODES, second, "first", neighbour),
        ]
        return joined_records(certain), pending_rows(joined_records(waiting))

    def _of_markers(self) -> tuple[Records, Records]:
        """Compare the first marker behind the seam with the last event and the last marker before it."""
        left, right, marker = self.left, self.right, self.right["first_marker"]
        if not right["has_marker"].any():
            return NO_ROWS, NO_PENDING
        starts, last_event = right["starts_with_marker"], self._last_event()
        fallen = left["end_epoch"].astype("i8") - marker["producer_epoch"]
        again = starts & left["ends_with_marker"] & (fallen == 0) & (left["last_ending"] != NOTHING)
        same = left["last_ending"] == marker["ending"]
        lower = left["last_coordinator_epoch"].astype("i8") - marker["coordinator_epoch"]
        regressed = left["has_marker"] & right["has_marker"] & (lower > 0)
        event = "first_marker"
        rows = [
            self._rows(Anomaly.MARKER_EPOCH_REGRESSED, starts & (fallen > 0), event, last_event, fallen),
            self._rows(Anomaly.MARKER_DUPLICATE, again & same, event, last_event),
            self._rows(Anomaly.MARKER_CONFLICT, again & ~same, event, last_event),
            self._rows(Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED, regressed, event, left["last_marker"], lower),
        ]
        return joined_records(rows), NO_PENDING


def start_epochs(producers: Records) -> Records:
    """Return the epoch of the first event of each producer."""
    first, marker = producers["first"]["producer_epoch"], producers["first_marker"]["producer_epoch"]
    return np.where(producers["starts_with_marker"], marker, first)


def end_regions(producers: Records) -> Records:
    """Return the REGION records behind the last markers; of producers without marker, all there is."""
    return chosen(producers["has_marker"], producers["tail"], producers["head"])


def last_sequences(producers: Records) -> Records:
    """Return the last sequence of each producer's recent batches, -1 where there are none."""
    newest = np.maximum(producers["recent_count"] - 1, 0)
    sequence = producers["recent"]["last_sequence"][np.arange(len(producers)), newest]
    return np.where(producers["recent_count"] > 0, sequence, NOTHING)


def twins(pending: Records, left: Records) -> tuple[Records, Records]:
    """Return what PENDING records of overlaps become, and those of them that still wait.

    A batch was written twice if it equals one of the last five of its epoch, of which some stand before the seam.

    Args:
        pending: the overlaps, whose epoch has been the same since the seam.
        left: PRODUCER_SUMMARY records of their producers before the seam.
    """
    if not len(pending):
        return NO_ROWS, NO_PENDING
    rows, window = pending["row"].copy(), pending["compared"].astype("i8")
    recent, count = left["recent"], left["recent_count"].astype("i8")
    goes_on = left["end_epoch"] == rows["producer_epoch"]
    undecided = np.ones(len(rows), "?")
    delta = rows["last_offset"] - rows["first_offset"]
    for back in range(1, RECENT_BATCHES + 1):
        slot = picked(recent, (np.arange(len(rows)), np.maximum(count - back, 0)))
        inside = goes_on & (back <= count) & (window + back <= RECENT_BATCHES) & undecided
        twin = inside & (slot["last_sequence"] == pending["last_sequence"]) & (slot["offset_delta"] == delta)
        placed(rows, twin, duplicate_rows(picked(rows, twin), picked(slot, twin)))
        undecided &= ~twin
    undecided &= goes_on & left["is_uniform"] & (window + count < RECENT_BATCHES)
    waiting = pending_rows(picked(rows, undecided), pending["last_sequence"][undecided], (window + count)[undecided])
    return picked(rows, ~undecided), waiting


def _take(found: Records, right: Records, where: Records, *names: str) -> None:
    (at,) = where.nonzero()
    for name in names if len(at) else ():
        placed(found[name], at, picked(right[name], at))
