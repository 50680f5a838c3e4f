"""Summarizes a chunk of batches, with NumPy operations over all batches and producers at once."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import put_rows, take_rows
from kforensics.forensics.core.record_types import RECENT_BATCHES
from kforensics.forensics.replay.neighbor_anomalies import ChunkNeighbors
from kforensics.forensics.replay.producer_events import ProducerEvents, offset_gaps_before, run_edges
from kforensics.forensics.replay.replay_rows import ReplayRows, closed_rows, joined_rows
from kforensics.forensics.replay.summary import (
    PRODUCER_SUMMARY,
    ProducerSummaryArray,
    ReplaySummary,
    sorted_unresolved,
)
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.array_types import IntArray

__all__ = ["summarize"]


def summarize(batches: BatchColumns, *, sequences: bool = True) -> tuple[ReplaySummary, ReplayRows]:
    """Return the summary of a log chunk, and the rows that are certain whatever comes before and after the chunk.

    Args:
        batches: adjacent batches of a partition, in log order.
        sequences: False for ``__consumer_offsets``, where coordinators start every batch at sequence 0.
    """
    if not len(batches):
        return ReplaySummary(sequences=sequences), ReplayRows.of()
    offset_gaps = offset_gaps_before(batches)
    neighbors = ChunkNeighbors.of(ProducerEvents.of(batches, offset_gaps))
    producers = np.zeros(len(neighbors.starts), PRODUCER_SUMMARY)
    producers["producer_id"] = neighbors.events.producer_id[neighbors.starts]
    closed = ReplayRows.of()
    if len(producers):
        _set_ends(producers, neighbors)
        _set_data(producers, neighbors)
        closed = _set_markers(producers, neighbors)
        _set_leading_markers(producers, neighbors)
    anomalies, unresolved = neighbors.anomalies(sequences=sequences)
    summary = ReplaySummary(
        producers=producers,
        unresolved=sorted_unresolved(unresolved),
        first_offset=int(batches.base_offset[0]) if batches.exact[0] else None,
        last_offset=int(batches.last_offset[-1]),
        batches=len(batches),
        offset_gaps=int(offset_gaps[-1]),
        sequences=sequences,
    )
    return summary, joined_rows([closed, ReplayRows.of(anomalies=anomalies)])


def _set_ends(producers: ProducerSummaryArray, neighbors: ChunkNeighbors) -> None:
    """Set the fields of the first and the last event, and of the last span."""
    events, run, starts, ends = neighbors.events, neighbors.epoch_run, neighbors.starts, neighbors.ends
    producers["starts_with_marker"] = events.is_marker[starts]
    producers["ends_with_marker"] = events.is_marker[ends]
    producers["last_epoch"] = events.producer_epoch[ends]
    producers["is_uniform"] = run[starts] == run[ends]
    if len(mixed := neighbors.first_mixed()):
        number = neighbors.open_spans.number
        producers["is_mixed"] = np.isin(number[ends], number[mixed]) & ~events.is_marker[ends]


def _set_data(producers: ProducerSummaryArray, neighbors: ChunkNeighbors) -> None:
    """Set the fields of the data batches, except for the spans."""
    events, data = neighbors.events, neighbors.data
    first, last = run_edges(events.producer_id[data])
    indexes = _indexes(producers, events.producer_id[data[first]])
    producers["has_data"][indexes] = True
    put_rows(producers["first_batch"], indexes, events.first_batches(data[first]))
    put_rows(producers["last_data"], indexes, events.previous_events(data[last]))
    is_transactional = events.is_transactional[data].astype("i8")
    if len(data):
        count = np.add.reduceat(is_transactional, first)
        producers["has_transactional"][indexes] = count > 0
        producers["has_non_transactional"][indexes] = count <= last - first
    _set_recent(producers, indexes, neighbors, first, last)


def _set_recent(
    producers: ProducerSummaryArray, indexes: IntArray, neighbors: ChunkNeighbors, first: IntArray, last: IntArray
) -> None:
    """Set the recent batches: the last ones of the last epoch, which may have started with a marker.

    ``first`` and ``last`` are indexes in ``neighbors.data``.
    """
    data, run = neighbors.data, neighbors.epoch_run
    slots = np.arange(RECENT_BATCHES)
    backwards = last[:, None] - slots
    last_run = run[neighbors.ends[indexes]]
    is_recent = (backwards >= first[:, None]) & (run[data[np.maximum(backwards, 0)]] == last_run[:, None])
    count = is_recent.sum(axis=1)
    forwards = np.minimum(last[:, None] - count[:, None] + 1 + slots, last[:, None])
    recent = neighbors.events.recent_batches(data[np.maximum(forwards, 0)])
    put_rows(recent, slots >= count[:, None], np.zeros(1, recent.dtype))
    producers["recent_count"][indexes] = count
    put_rows(producers["recent"], indexes, recent)


def _set_markers(producers: ProducerSummaryArray, neighbors: ChunkNeighbors) -> ReplayRows:
    """Set the first and last marker and the spans outside them; return the rows of the spans between markers.

    Of ``s0 m1 s1 m2 ... mk sk``, ``s0 m1`` and ``sk`` stay unresolved.
    """
    events, open_spans, indexes = neighbors.events, neighbors.open_spans, neighbors.markers
    ids = events.producer_id[indexes]
    first, last = run_edges(ids)
    with_marker = _indexes(producers, ids[first])
    markers = events.markers(indexes)
    producers["has_marker"][with_marker] = True
    put_rows(producers["first_marker"], with_marker, take_rows(markers, first))
    put_rows(producers["last_marker"], with_marker, events.previous_events(indexes[last]))
    producers["last_coordinator_epoch"][with_marker] = markers["coordinator_epoch"][last]
    producers["last_outcome"][with_marker] = markers["outcome"][last]
    producers["first_span"] = open_spans.find(open_spans.number[neighbors.starts])
    has_last_span = producers["has_marker"] & ~producers["ends_with_marker"]
    last_spans = open_spans.find(open_spans.number[neighbors.ends[has_last_span]])
    put_rows(producers["last_span"], has_last_span, last_spans)
    is_later = np.ones(len(indexes), "?")
    is_later[first] = False
    spans = open_spans.find(open_spans.number[indexes[is_later]])
    return closed_rows(ids[is_later], spans, take_rows(markers, is_later))


def _set_leading_markers(producers: ProducerSummaryArray, neighbors: ChunkNeighbors) -> None:
    """Set the fields of the markers before the first batch."""
    indexes = np.flatnonzero(producers["starts_with_marker"])
    if not len(indexes):
        return
    events, data, starts = neighbors.events, neighbors.data, neighbors.starts[indexes]
    last = neighbors.ends[indexes]
    has_data = producers["has_data"][indexes]
    last[has_data] = data[np.searchsorted(data, starts[has_data])] - 1
    put_rows(producers["leading_marker"], indexes, events.previous_events(last))
    producers["leading_epoch"][indexes] = events.producer_epoch[last]
    producers["leading_is_uniform"][indexes] = neighbors.epoch_run[starts] == neighbors.epoch_run[last]


def _indexes(producers: ProducerSummaryArray, producer_id: IntArray) -> IntArray:
    """Return the indexes of producers by their ids."""
    return np.searchsorted(producers["producer_id"], producer_id)
