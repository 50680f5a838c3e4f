"""Merges and compares the producers of two adjacent chunks at the chunk boundary, and resolves their anomalies."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows, where_rows
from kforensics.forensics.core.record_types import RECENT_BATCH, RECENT_BATCHES, Anomaly, AnomalyArray
from kforensics.forensics.replay.neighbor_anomalies import (
    NO_ANOMALY,
    are_sequence_anomalies,
    compare_batches,
    expected_sequences,
)
from kforensics.forensics.replay.replay_rows import (
    NO_ANOMALIES,
    NO_UNRESOLVED,
    ReplayRows,
    anomaly_rows,
    as_duplicate_batches,
    closed_rows,
    unresolved_anomalies,
)
from kforensics.forensics.replay.summary import (
    NONE,
    OpenSpanArray,
    PreviousEventArray,
    ProducerSummaryArray,
    ReplaySummary,
    UnresolvedArray,
    last_sequences,
    last_spans,
)
from kforensics.parsers.format.array_types import BoolArray, IntArray

__all__ = ["ChunkBoundary", "resolve_anomalies", "resolve_overlaps"]


@dataclass(frozen=True, slots=True)
class ChunkBoundary:
    """The producers with events in both of two adjacent chunks.

    Attributes:
        left: the producers in the chunk before the boundary.
        right: the same producers in the chunk after it, with offset gaps counted from the start of the left chunk.
        sequences: whether sequences are checked in this topic.
    """

    left: ProducerSummaryArray
    right: ProducerSummaryArray
    sequences: bool

    def merged(self) -> ProducerSummaryArray:
        """Return the producers of both chunks together."""
        left, right = self.left, self.right
        merged: ProducerSummaryArray = left.copy()
        self._merge_ends(merged)
        for name in ("has_data", "has_transactional", "has_non_transactional", "has_marker"):
            merged[name] = left[name] | right[name]
        for name in ("ends_with_marker", "last_epoch"):
            merged[name] = right[name]
        _take(merged, right, right["has_data"], "last_data")
        _take(merged, right, right["has_marker"], "last_marker", "last_coordinator_epoch", "last_outcome")
        _take(merged, right, ~left["has_data"], "first_batch")
        _take(merged, right, ~left["has_marker"], "first_marker")
        self._merge_leading_markers(merged)
        self._merge_spans(merged)
        self._merge_recent(merged)
        return merged

    def closed(self) -> ReplayRows:
        """Return the transactions that start before the boundary and end after it."""
        indexes = np.flatnonzero(self.left["has_marker"] & self.right["has_marker"])
        if not len(indexes):
            return ReplayRows.of()
        left, right = take_rows(self.left, indexes), take_rows(self.right, indexes)
        spans = _join_spans(left["last_span"], right["first_span"])
        return closed_rows(left["producer_id"], spans, right["first_marker"])

    def anomalies(self) -> tuple[AnomalyArray, UnresolvedArray]:
        """Return the certain and the unresolved anomalies at the boundary."""
        parts = (self._batch_anomalies(), self._mode_anomalies(), (self._marker_anomalies(), NO_UNRESOLVED))
        certain, unresolved = zip(*parts, strict=True)
        return concat_rows(certain), concat_rows(unresolved)

    def _merge_ends(self, merged: ProducerSummaryArray) -> None:
        left, right = self.left, self.right
        merged["is_uniform"] &= right["is_uniform"] & self._epoch_continues()
        becomes_mixed = last_spans(left)["has_transaction"] & right["has_non_transactional"]
        is_mixed = left["is_mixed"] | right["is_mixed"] | becomes_mixed
        merged["is_mixed"] = np.where(right["has_marker"], right["is_mixed"], is_mixed)

    def _epoch_continues(self) -> BoolArray:
        """Return whether the first event after the boundary has the epoch of the last event before it."""
        right = self.right
        batch_epoch, marker_epoch = right["first_batch"]["producer_epoch"], right["first_marker"]["producer_epoch"]
        continues: BoolArray = self.left["last_epoch"] == np.where(
            right["starts_with_marker"], marker_epoch, batch_epoch
        )
        return continues

    def _merge_leading_markers(self, merged: ProducerSummaryArray) -> None:
        """Merge the markers before the first batch, of producers without data in the left chunk."""
        extends = ~self.left["has_data"] & self.right["starts_with_marker"]
        uniform = self.left["leading_is_uniform"] & self.right["leading_is_uniform"] & self._epoch_continues()
        merged["leading_is_uniform"] = np.where(extends, uniform, self.left["leading_is_uniform"])
        _take(merged, self.right, extends, "leading_marker", "leading_epoch")

    def _merge_spans(self, merged: ProducerSummaryArray) -> None:
        left, right = self.left, self.right
        across = _join_spans(last_spans(left), right["first_span"])
        put_rows(merged["first_span"], slice(None), where_rows(left["has_marker"], left["first_span"], across))
        put_rows(merged["last_span"], slice(None), where_rows(left["has_marker"], across, left["last_span"]))
        _take(merged, right, right["has_marker"], "last_span")

    def _merge_recent(self, merged: ProducerSummaryArray) -> None:
        """Keep the recent batches of the last epoch, which may have started before the boundary."""
        _take(merged, self.right, np.ones(len(merged), "?"), "recent", "recent_count")
        indexes = np.flatnonzero(self.right["is_uniform"] & self._epoch_continues() & (self.left["recent_count"] > 0))
        if len(indexes):
            left, right = take_rows(self.left, indexes), take_rows(self.right, indexes)
            left_count, right_count = left["recent_count"][:, None], right["recent_count"][:, None]
            count = np.minimum(left_count + right_count, RECENT_BATCHES)
            slots = np.arange(RECENT_BATCHES)
            source = left_count + right_count - count + slots
            source += np.where(source < left_count, 0, RECENT_BATCHES - left_count)
            both = np.empty((len(indexes), 2 * RECENT_BATCHES), RECENT_BATCH)
            put_rows(both, np.s_[:, :RECENT_BATCHES], left["recent"])
            put_rows(both, np.s_[:, RECENT_BATCHES:], right["recent"])
            recent = take_rows(both, (np.arange(len(indexes))[:, None], np.minimum(source, 2 * RECENT_BATCHES - 1)))
            put_rows(recent, slots >= count, np.zeros(1, RECENT_BATCH))
            put_rows(merged["recent"], indexes, recent)
            merged["recent_count"][indexes] = count[:, 0]

    def _last_events(self) -> PreviousEventArray:
        """Return the last event of each producer before the boundary."""
        return where_rows(self.left["ends_with_marker"], self.left["last_marker"], self.left["last_data"])

    def _batch_anomalies(self) -> tuple[AnomalyArray, UnresolvedArray]:
        """Compare the first batch after the boundary with the events before it, including markers in between."""
        first = self.right["first_batch"]
        epoch, expected = self._expected()
        differs = (first["producer_epoch"] != epoch) | (first["base_sequence"] != expected)
        # Markers alone do not determine the sequence: without a batch in the left chunk, the comparison waits.
        suspects = np.flatnonzero(differs & self.left["has_data"] & self.right["has_data"])
        if not len(suspects):
            return NO_ANOMALIES, NO_UNRESOLVED
        left, right = take_rows(self.left, suspects), take_rows(self.right, suspects)
        return ChunkBoundary(left, right, sequences=self.sequences).compared_batches()

    def _expected(self) -> tuple[IntArray, IntArray]:
        """Return the epoch and the sequence with which the first batch after the boundary should start."""
        epoch = np.where(self.right["starts_with_marker"], self.right["leading_epoch"], self.left["last_epoch"])
        return epoch, np.where(self._keeps_recent(), expected_sequences(last_sequences(self.left)), 0)

    def _keeps_recent(self) -> BoolArray:
        """Return whether the recent batches of the left chunk are still recent at the first batch of the right one."""
        markers_agree = self.right["leading_is_uniform"] & self._epoch_continues()
        kept: BoolArray = (self.left["recent_count"] > 0) & (~self.right["starts_with_marker"] | markers_agree)
        return kept

    def compared_batches(self) -> tuple[AnomalyArray, UnresolvedArray]:
        """Return the anomalies of first batches; all producers have data on both sides of the boundary."""
        left, right, first = self.left, self.right, self.right["first_batch"]
        epoch, expected = self._expected()
        kind, amount = compare_batches(
            first["producer_epoch"], first["base_sequence"], epoch, expected, sequences=self.sequences
        )
        last_events = where_rows(right["starts_with_marker"], right["leading_marker"], self._last_events())
        previous = where_rows(self._keeps_recent() & are_sequence_anomalies(kind), left["last_data"], last_events)
        rows = anomaly_rows(kind, left["producer_id"], first, previous, amount)
        overlaps = self._keeps_recent() & (kind == Anomaly.SEQ_OVERLAP)
        last_sequence = expected_sequences(first["base_sequence"].astype("i8") + first["offset_delta"] - 1)
        certain, unresolved = resolve_overlaps(
            unresolved_anomalies(take_rows(rows, overlaps), last_sequence[overlaps]), take_rows(left, overlaps)
        )
        return concat_rows([take_rows(rows, ~overlaps & (kind != NO_ANOMALY)), certain]), unresolved

    def _rows(
        self,
        kind: Anomaly,
        mask: BoolArray,
        event: str,
        previous: PreviousEventArray,
        amount: IntArray | int = 0,
    ) -> AnomalyArray:
        """Return anomalies at the ``event`` of the producers in a mask, which is seldom set."""
        (indexes,) = mask.nonzero()
        if not len(indexes):
            return NO_ANOMALIES
        amounts = amount if isinstance(amount, int) else amount[indexes]
        events = take_rows(self.right[event], indexes)
        return anomaly_rows(kind, self.left["producer_id"][indexes], events, take_rows(previous, indexes), amounts)

    def _mode_anomalies(self) -> tuple[AnomalyArray, UnresolvedArray]:
        """Compare transactional with non-transactional data."""
        left, right, first = self.left, self.right, self.right["first_batch"]
        span, previous = last_spans(left), left["last_data"]
        adjacent = span["has_transaction"] & right["has_data"] & ~right["starts_with_marker"]
        bump = first["producer_epoch"].astype("i8") - span["producer_epoch"]
        bumped = adjacent & first["is_transactional"] & (bump > 0)
        inside = adjacent & ~first["is_transactional"] & ~left["is_mixed"]
        has_one_mode = (left["has_transactional"] != left["has_non_transactional"]) & right["has_data"]
        second_mode = has_one_mode & (left["has_non_transactional"] == first["is_transactional"])
        certain = [
            self._rows(Anomaly.EPOCH_BUMP_WITHOUT_MARKER, bumped, "first_batch", previous, bump),
            self._rows(Anomaly.TXN_NONTXN_INSIDE, inside & left["has_marker"], "first_batch", previous),
        ]
        unresolved = [
            self._rows(Anomaly.TXN_NONTXN_INSIDE, inside & ~left["has_marker"], "first_batch", previous),
            self._rows(Anomaly.PID_MIXED_MODES, second_mode, "first_batch", previous),
        ]
        return concat_rows(certain), unresolved_anomalies(concat_rows(unresolved))

    def _marker_anomalies(self) -> AnomalyArray:
        """Compare the first marker after the boundary with the last event and the last marker before it."""
        left, right, marker = self.left, self.right, self.right["first_marker"]
        if not right["has_marker"].any():
            return NO_ANOMALIES
        starts, last_events = right["starts_with_marker"], self._last_events()
        drop = left["last_epoch"].astype("i8") - marker["producer_epoch"]
        repeated = starts & left["ends_with_marker"] & (drop == 0) & (left["last_outcome"] != NONE)
        same_outcome = left["last_outcome"] == marker["outcome"]
        coordinator_drop = left["last_coordinator_epoch"].astype("i8") - marker["coordinator_epoch"]
        regressed = left["has_marker"] & right["has_marker"] & (coordinator_drop > 0)
        event, last_marker = "first_marker", left["last_marker"]
        return concat_rows(
            [
                self._rows(Anomaly.MARKER_EPOCH_REGRESSED, starts & (drop > 0), event, last_events, drop),
                self._rows(Anomaly.MARKER_DUPLICATE, repeated & same_outcome, event, last_events),
                self._rows(Anomaly.MARKER_CONFLICT, repeated & ~same_outcome, event, last_events),
                self._rows(Anomaly.MARKER_COORDINATOR_EPOCH_REGRESSED, regressed, event, last_marker, coordinator_drop),
            ]
        )


def _join_spans(left: OpenSpanArray, right: OpenSpanArray) -> OpenSpanArray:
    """Return each span of ``left`` extended by the span of ``right`` that follows it.

    A new epoch does not start another transaction. A span without a transaction adds nothing.
    """
    joined = where_rows(left["has_transaction"], left, right)
    both = np.flatnonzero(left["has_transaction"] & right["has_transaction"])
    if len(both):
        extended, extension = take_rows(left, both), take_rows(right, both)
        extended["producer_epoch"], extended["last_offset"] = extension["producer_epoch"], extension["last_offset"]
        for name in ("batches", "records", "bytes"):
            extended[name] += extension[name]
        for name in ("lowest_epoch", "first_timestamp"):
            extended[name] = np.minimum(extended[name], extension[name])
        for name in ("highest_epoch", "last_timestamp"):
            extended[name] = np.maximum(extended[name], extension[name])
        put_rows(joined, both, extended)
    return joined


def _take(merged: ProducerSummaryArray, right: ProducerSummaryArray, mask: BoolArray, *names: str) -> None:
    """Copy fields from the right chunk where a mask is set."""
    (indexes,) = mask.nonzero()
    for name in names if len(indexes) else ():
        put_rows(merged[name], indexes, take_rows(right[name], indexes))


def resolve_anomalies(left: ProducerSummaryArray, right: ReplaySummary) -> tuple[AnomalyArray, UnresolvedArray]:
    """Return the anomalies that become certain when two chunks are merged, and those that stay unresolved.

    Args:
        left: the producers of the first chunk.
        right: the summary of the second chunk, with the unresolved anomalies.
    """
    unresolved, ids = right.unresolved, left["producer_id"]
    if not len(unresolved) or not len(ids):
        return unresolved["anomaly"][:0], unresolved
    producer_id = unresolved["anomaly"]["producer_id"]
    index = np.minimum(np.searchsorted(ids, producer_id), len(ids) - 1)
    in_left = ids[index] == producer_id
    known, before = take_rows(unresolved, in_left), take_rows(left, index[in_left])
    after = take_rows(right.producers, np.searchsorted(right.producers["producer_id"], producer_id[in_left]))
    kind = known["anomaly"]["kind"]
    is_overlap, is_mixed = kind == Anomaly.SEQ_OVERLAP, kind == Anomaly.TXN_NONTXN_INSIDE
    is_second_mode = kind == Anomaly.PID_MIXED_MODES
    parts = [
        resolve_overlaps(take_rows(known, is_overlap), take_rows(before, is_overlap)),
        _resolve_mixed_spans(take_rows(known, is_mixed), take_rows(before, is_mixed), take_rows(after, is_mixed)),
        _resolve_second_modes(
            take_rows(known, is_second_mode), take_rows(before, is_second_mode), take_rows(after, is_second_mode)
        ),
    ]
    certain = concat_rows([part[0] for part in parts])
    return certain, concat_rows([take_rows(unresolved, ~in_left), *(part[1] for part in parts)])


def resolve_overlaps(unresolved: UnresolvedArray, left: ProducerSummaryArray) -> tuple[AnomalyArray, UnresolvedArray]:
    """Return what becomes certain of overlaps, and those that stay unresolved.

    An overlap is a duplicate batch if it equals one of the last five batches of its epoch. Some of these are before the
    chunk boundary.

    Args:
        unresolved: SEQ_OVERLAP anomalies; between the chunk boundary and each of them, the epoch does not change.
        left: their producers before the chunk boundary.
    """
    if not len(unresolved):
        return NO_ANOMALIES, NO_UNRESOLVED
    rows, compared = unresolved["anomaly"].copy(), unresolved["compared"].astype("i8")
    recent, count = left["recent"], left["recent_count"].astype("i8")
    continues = left["last_epoch"] == rows["producer_epoch"]
    undecided = np.ones(len(rows), "?")
    delta = rows["last_offset"] - rows["first_offset"]
    for distance in range(1, RECENT_BATCHES + 1):
        batch = take_rows(recent, (np.arange(len(rows)), np.maximum(count - distance, 0)))
        is_recent = continues & (distance <= count) & (compared + distance <= RECENT_BATCHES) & undecided
        same = is_recent & (batch["last_sequence"] == unresolved["last_sequence"]) & (batch["offset_delta"] == delta)
        put_rows(rows, same, as_duplicate_batches(take_rows(rows, same), take_rows(batch, same)))
        undecided &= ~same
    undecided &= continues & left["is_uniform"] & (compared + count < RECENT_BATCHES)
    last_sequence, compared = unresolved["last_sequence"][undecided], (compared + count)[undecided]
    return take_rows(rows, ~undecided), unresolved_anomalies(take_rows(rows, undecided), last_sequence, compared)


def _resolve_mixed_spans(
    unresolved: UnresolvedArray, left: ProducerSummaryArray, right: ProducerSummaryArray
) -> tuple[AnomalyArray, UnresolvedArray]:
    """Keep an anomaly only if it is at the first non-transactional batch after transactional data in its span."""
    has_transaction = last_spans(left)["has_transaction"]
    is_later = left["is_mixed"] | (has_transaction & ~right["first_batch"]["is_transactional"])
    certain = left["has_marker"]
    return take_rows(unresolved["anomaly"], ~is_later & certain), take_rows(unresolved, ~is_later & ~certain)


def _resolve_second_modes(
    unresolved: UnresolvedArray, left: ProducerSummaryArray, right: ProducerSummaryArray
) -> tuple[AnomalyArray, UnresolvedArray]:
    """Keep an anomaly only if it is at the first batch of the second mode of its producer.

    If that batch is transactional, it is the first such batch of its span, so its epoch may be the one that is bumped.
    """
    first_is_transactional = right["first_batch"]["is_transactional"]
    is_later = np.where(first_is_transactional, left["has_non_transactional"], left["has_transactional"])
    span = last_spans(left)
    bump = unresolved["anomaly"]["producer_epoch"].astype("i8") - span["producer_epoch"]
    starts_transaction = right["first_span"]["has_transaction"] & ~first_is_transactional
    bumped = span["has_transaction"] & starts_transaction & (bump > 0)
    rows = take_rows(unresolved["anomaly"], bumped)
    rows["kind"], rows["amount"] = Anomaly.EPOCH_BUMP_WITHOUT_MARKER, bump[bumped]
    return rows, take_rows(unresolved, ~is_later)
