"""Completes the replay of a log with what is known about the log before its first batch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_arrays import concat_rows, free_unused, put_rows, take_rows
from kforensics.forensics.core.record_types import (
    NO_TIME,
    PRODUCER,
    RECENT_BATCH,
    RECENT_BATCHES,
    Anomaly,
    AnomalyArray,
    ProducerArray,
    TransactionArray,
)
from kforensics.forensics.replay.boundary import Boundary, BoundaryKind
from kforensics.forensics.replay.merging import STEP_SIZE, aligned_blocks, consume_blocks, merge
from kforensics.forensics.replay.neighbor_anomalies import NO_ANOMALY, compare_batches
from kforensics.forensics.replay.replay_rows import (
    NO_ANOMALIES,
    NO_TRANSACTIONS,
    ReplayRows,
    anomaly_rows,
    closed_rows,
    joined_rows,
    open_rows,
)
from kforensics.forensics.replay.summary import (
    NONE,
    PRODUCER_SUMMARY,
    ProducerSummaryArray,
    ReplaySummary,
    last_sequences,
    last_spans,
)
from kforensics.parsers.format.array_types import BoolArray, StructArray

__all__ = ["FinalReplay", "finalize", "finalize_blocks"]


@dataclass(frozen=True, slots=True)
class FinalReplay:
    """What a replay from a boundary adds to the rows that are certain without it.

    Attributes:
        rows: the rows that became certain.
        open_transactions: the open transactions, by first offset.
        producers: the state of the producers, by producer id.
    """

    rows: ReplayRows
    open_transactions: TransactionArray
    producers: ProducerStates

    def without_open(self, has_ended: BoolArray) -> FinalReplay:
        """Return the replay without some of the open transactions, given as a mask: their markers are elsewhere."""
        if not has_ended.any():
            return self
        rows = self.open_transactions
        producers = self.producers.without_transactions_of(rows["producer_id"][has_ended])
        return replace(self, open_transactions=rows[~has_ended], producers=producers)


def finalize(summary: ReplaySummary, boundary: Boundary) -> FinalReplay:
    """Return the final rows and state of a log. The summary stays valid and can still be merged.

    Args:
        summary: of all batches from the boundary to the end of the log, or to the offset of the wanted state.
        boundary: what is known about the log before them.
    """
    return finalize_blocks([summary], boundary)


def finalize_blocks(blocks: list[ReplaySummary], boundary: Boundary, size: int = STEP_SIZE) -> FinalReplay:
    """Return what :func:`finalize` returns for a summary in blocks, and empty the list.

    Args:
        blocks: the summary of all batches from the boundary on, in at least one block.
        boundary: what is known about the log before them.
        size: approximate number of producers to process at once.
    """
    known = _concerned(boundary, blocks)
    # Producers that are in both are counted twice, but pages that are never written to take no memory.
    count = len(known) + sum(len(block.producers) for block in blocks)
    producers = np.empty(count, PRODUCER)
    parts, end = [], 0
    for before, block in aligned_blocks(_boundary_blocks(boundary, known, size), consume_blocks(blocks, size)):
        merged, boundary_rows = merge(before, block)
        start, end = end, end + len(merged.producers)
        if len(merged.producers):
            put_rows(producers, slice(start, end), _final_producers(merged.producers))
        parts.append(_final_rows(before, merged, boundary_rows, boundary.kind))
    if len(parts) > 1:
        free_unused()
    rows, open_transactions = joined_rows([part[0] for part in parts]), concat_rows([part[1] for part in parts])
    if len(parts) > 1:
        parts.clear()
        free_unused()
    states = ProducerStates(producers[:end], boundary.producers.entries)
    return FinalReplay(rows, _sorted_by(open_transactions, "first_offset"), states)


def _concerned(boundary: Boundary, blocks: list[ReplaySummary]) -> ProducerArray:
    """Return the producers of a boundary that wrote after it, or have an open transaction.

    The entries of the others stay as they are. They may be millions, and as summaries they take ten times the memory.
    """
    states = boundary.producers
    if not len(states.entries):
        return states.records
    is_concerned = states["current_txn_first_offset"] >= 0
    ids = states["producer_id"]
    for block in blocks:
        ranks = np.minimum(ids.searchsorted(block.producers["producer_id"]), len(ids) - 1)
        is_concerned[ranks[ids[ranks] == block.producers["producer_id"]]] = True
    return states[is_concerned]


def _final_rows(
    before: ReplaySummary, merged: ReplaySummary, boundary_rows: ReplayRows, kind: BoundaryKind
) -> tuple[ReplayRows, TransactionArray]:
    """Return the rows that become certain for a block of producers, and their open transactions."""
    if not len(merged.producers):
        return ReplayRows.of(), NO_TRANSACTIONS
    is_exact = kind is not BoundaryKind.UNKNOWN
    is_new = np.ones(len(merged.producers), "?")
    is_new[np.searchsorted(merged.producers["producer_id"], before.producers["producer_id"])] = False
    rows = [
        boundary_rows,
        _close_first_spans(merged.producers, is_new, is_exact=is_exact),
        ReplayRows.of(anomalies=_first_batch_anomalies(merged, is_new, kind)),
        ReplayRows.of(anomalies=merged.unresolved["anomaly"]),
    ]
    return joined_rows(rows), _open_transactions(merged.producers, is_exact=is_exact)


def _close_first_spans(producers: ProducerSummaryArray, is_new: BoolArray, *, is_exact: bool) -> ReplayRows:
    """Return the rows of the first marker of each producer that is new after the boundary."""
    indexes = np.flatnonzero(is_new & producers["has_marker"])
    if not len(indexes):
        return ReplayRows.of()
    spans, markers = (take_rows(producers[name], indexes) for name in ("first_span", "first_marker"))
    return closed_rows(producers["producer_id"][indexes], spans, markers, exact=is_exact)


def _boundary_blocks(boundary: Boundary, known: ProducerArray, size: int) -> Iterator[ReplaySummary]:
    """Yield a boundary, with some of its producers, as the summary of the log before it, in blocks."""
    if boundary.kind is not BoundaryKind.SNAPSHOT:
        yield ReplaySummary.empty()
        return
    for first in range(0, max(1, len(known)), size):
        yield _snapshot_summary(boundary.offset, known[first : first + size])


def _snapshot_summary(offset: int, snapshot: ProducerArray) -> ReplaySummary:
    """Return a snapshot, or some of its producers, as a summary.

    A snapshot has the state of a producer, but does not show whether its last event was a marker. So each producer gets
    a last marker of unknown outcome, followed by its open transaction, and counts as having data even if the snapshot
    lists no batch.
    """
    producers = np.zeros(len(snapshot), PRODUCER_SUMMARY)
    producers["producer_id"], producers["last_epoch"] = snapshot["producer_id"], snapshot["producer_epoch"]
    for name in ("has_data", "has_marker", "ends_with_marker"):
        producers[name] = True
    last = producers["last_marker"]
    last["offset"], last["timestamp"] = NONE, snapshot["last_timestamp"]
    producers["last_coordinator_epoch"], producers["last_outcome"] = snapshot["coordinator_epoch"], NONE
    _set_recent(producers, snapshot)
    _set_open_transactions(producers, snapshot)
    return ReplaySummary(producers=producers, last_offset=offset - 1)


def _set_recent(producers: ProducerSummaryArray, snapshot: ProducerArray) -> None:
    """Set the recent batches and the last data batch."""
    producers["last_data"] = producers["last_marker"]
    counts = snapshot["recent_count"]
    producers["recent_count"], producers["recent"] = counts, snapshot["recent"]
    producers["recent"][np.arange(RECENT_BATCHES) >= counts[:, None]] = np.zeros((), RECENT_BATCH)
    indexes = np.flatnonzero(counts)
    newest, last = snapshot["recent"][indexes, counts[indexes] - 1], producers["last_data"]
    last["offset"][indexes], last["timestamp"][indexes] = newest["last_offset"], newest["timestamp"]


def _set_open_transactions(producers: ProducerSummaryArray, snapshot: ProducerArray) -> None:
    """Set the last spans to the open transactions of a snapshot, without their batches before the snapshot."""
    indexes = np.flatnonzero(snapshot["current_txn_first_offset"] >= 0)
    producers["has_transactional"][indexes] = True
    spans, states = producers["last_span"], snapshot[indexes]
    spans["has_transaction"][indexes] = True
    for name in ("producer_epoch", "lowest_epoch", "highest_epoch"):
        spans[name][indexes] = states["producer_epoch"]
    spans["first_offset"][indexes] = states["current_txn_first_offset"]
    spans["last_offset"][indexes] = states["last_offset"]
    spans["first_timestamp"][indexes], spans["last_timestamp"][indexes] = NO_TIME, states["last_timestamp"]
    spans["segment"][indexes] = spans["position"][indexes] = NONE


def _first_batch_anomalies(merged: ReplaySummary, is_new: BoolArray, kind: BoundaryKind) -> AnomalyArray:
    """Return the anomalies of first batches that have no earlier batch to be compared with."""
    has_first_batch = is_new & merged.producers["has_data"]
    starts_with_marker = merged.producers["starts_with_marker"]
    parts = [NO_ANOMALIES]
    if len(after_markers := np.flatnonzero(has_first_batch & starts_with_marker)):
        producers = take_rows(merged.producers, after_markers)
        parts.append(_anomalies_after_markers(producers, kind, sequences=merged.sequences))
    if kind is BoundaryKind.EMPTY and merged.sequences:
        is_nonzero = merged.producers["first_batch"]["base_sequence"] > 0
        indexes = np.flatnonzero(has_first_batch & ~starts_with_marker & is_nonzero)
        first = take_rows(merged.producers["first_batch"], indexes)
        parts.append(anomaly_rows(Anomaly.SEQ_FIRST_NONZERO, merged.producers["producer_id"][indexes], first))
    return concat_rows(parts)


def _anomalies_after_markers(producers: ProducerSummaryArray, kind: BoundaryKind, *, sequences: bool) -> AnomalyArray:
    """Return the anomalies of first batches that have only markers before them."""
    first, expected = producers["first_batch"], np.zeros(len(producers), "i8")
    epoch, leading_epoch = first["producer_epoch"], producers["leading_epoch"]
    kinds, amount = compare_batches(epoch, first["base_sequence"], leading_epoch, expected, sequences=sequences)
    is_anomaly = kinds != NO_ANOMALY
    if kind is BoundaryKind.UNKNOWN:
        # Markers of one epoch do not reset the sequence, which is unknown before them.
        is_anomaly &= (epoch != leading_epoch) | ~producers["leading_is_uniform"]
    rows = anomaly_rows(kinds, producers["producer_id"], first, producers["leading_marker"], amount)
    return take_rows(rows, is_anomaly)


def _open_transactions(producers: ProducerSummaryArray, *, is_exact: bool) -> TransactionArray:
    spans = last_spans(producers)
    indexes = np.flatnonzero(spans["has_transaction"])
    if not len(indexes):
        return NO_TRANSACTIONS
    exact = producers["has_marker"][indexes] | is_exact
    return open_rows(producers["producer_id"][indexes], take_rows(spans, indexes), exact)


def _sorted_by(rows: StructArray, name: str) -> StructArray:
    keys = rows[name]
    if not (keys[1:] < keys[:-1]).any():
        return rows
    return take_rows(rows, np.argsort(keys, kind="stable"))


def _final_producers(producers: ProducerSummaryArray) -> ProducerArray:
    """Return the state of producers as a replica keeps it."""
    rows = np.zeros(len(producers), PRODUCER)
    rows["producer_id"], rows["producer_epoch"] = producers["producer_id"], producers["last_epoch"]
    rows["last_sequence"] = last_sequences(producers)
    rows["recent_count"], rows["recent"] = producers["recent_count"], producers["recent"]
    newest = producers["recent"][np.arange(len(producers)), np.maximum(producers["recent_count"] - 1, 0)]
    rows["offset_delta"] = newest["offset_delta"]
    rows["last_offset"] = np.where(producers["recent_count"] > 0, newest["last_offset"], NONE)
    marker_timestamp, data_timestamp = producers["last_marker"]["timestamp"], producers["last_data"]["timestamp"]
    rows["last_timestamp"] = np.where(producers["ends_with_marker"], marker_timestamp, data_timestamp)
    rows["coordinator_epoch"] = np.where(producers["has_marker"], producers["last_coordinator_epoch"], NONE)
    spans = last_spans(producers)
    rows["current_txn_first_offset"] = np.where(spans["has_transaction"], spans["first_offset"], NONE)
    return rows
