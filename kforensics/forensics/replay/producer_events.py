"""The events of producers in a chunk: data batches and transaction markers, and the open spans between markers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import put_rows, take_rows
from kforensics.forensics.core.record_types import RECENT_BATCH
from kforensics.forensics.replay.summary import (
    FIRST_BATCH,
    MARKER,
    OPEN_SPAN,
    PREVIOUS_EVENT,
    FirstBatchArray,
    MarkerArray,
    OpenSpanArray,
    PreviousEventArray,
)
from kforensics.parsers.columns.batch_columns import COMMIT, BatchColumns
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray, StructArray
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT

__all__ = ["OpenSpans", "ProducerEvents", "offset_gaps_before", "run_edges"]

RADIX_BITS = 16


@dataclass(frozen=True, slots=True)
class ProducerEvents:
    """Events ordered by producer, those of one producer in log order.

    Only a few columns are sorted in advance; the others are read from the chunk when they are needed.

    Attributes:
        columns: the batches of the chunk.
        offset_gaps: for each batch, the offsets missing before it since the start of the chunk.
        order: index in the chunk of each event.
        producer_id: of each event.
        producer_epoch: of each event.
        is_marker: whether each event is a marker.
        is_transactional: whether each event is transactional data.
    """

    columns: BatchColumns
    offset_gaps: IntArray
    order: IntArray
    producer_id: IntArray
    producer_epoch: IntArray
    is_marker: BoolArray
    is_transactional: BoolArray

    @classmethod
    def of(cls, columns: BatchColumns, offset_gaps: IntArray) -> ProducerEvents:
        """Return the events among batches; control batches without a readable marker are not events."""
        is_event = (columns.producer_id >= 0) & (columns.control <= COMMIT)
        order = _by_producer(columns.producer_id, None if is_event.all() else np.flatnonzero(is_event))
        is_marker = columns.control[order] >= 0
        is_transactional = (columns.attributes[order] & TRANSACTIONAL_BIT).astype("?")
        return cls(
            columns=columns,
            offset_gaps=offset_gaps,
            order=order,
            producer_id=columns.producer_id[order],
            producer_epoch=columns.producer_epoch[order],
            is_marker=is_marker,
            is_transactional=is_transactional & ~is_marker,
        )

    def __len__(self) -> int:
        return len(self.order)

    def column(self, name: str, indexes: IntArray) -> Column:
        """Return a column of the chunk for some events."""
        column: Column = getattr(self.columns, name)[self.order[indexes]]
        return column

    def previous_events(self, indexes: IntArray) -> PreviousEventArray:
        """Return some events as PREVIOUS_EVENT records."""
        records = np.empty(len(indexes), PREVIOUS_EVENT)
        records["offset"] = self.column("last_offset", indexes)
        records["timestamp"] = self.column("max_timestamp", indexes)
        records["offset_gaps"] = self.offset_gaps[self.order[indexes]]
        return records

    def first_batches(self, indexes: IntArray) -> FirstBatchArray:
        """Return some data batches as FIRST_BATCH records."""
        records = self._events(indexes, FIRST_BATCH)
        records["base_sequence"] = self.column("base_sequence", indexes)
        records["is_transactional"] = self.is_transactional[indexes]
        return records

    def markers(self, indexes: IntArray) -> MarkerArray:
        """Return some markers as MARKER records."""
        records = self._events(indexes, MARKER)
        records["coordinator_epoch"] = self.column("coordinator_epoch", indexes)
        records["outcome"] = self.column("control", indexes)
        return records

    def recent_batches(self, indexes: IntArray) -> StructArray:
        """Return some data batches as RECENT_BATCH records, in the shape of ``indexes``."""
        records = np.empty(indexes.shape, RECENT_BATCH)
        records["last_sequence"] = self.column("last_sequence", indexes)
        records["last_offset"] = self.column("last_offset", indexes)
        records["offset_delta"] = records["last_offset"] - self.column("base_offset", indexes)
        records["timestamp"] = self.column("max_timestamp", indexes)
        return records

    def _events(self, indexes: IntArray, dtype: np.dtype[np.void]) -> StructArray:
        records = np.empty(len(indexes), dtype)
        records["producer_epoch"] = self.producer_epoch[indexes]
        records["base_offset"] = self.column("base_offset", indexes)
        records["offset_delta"] = self.column("last_offset", indexes) - records["base_offset"]
        records["timestamp"] = self.column("max_timestamp", indexes)
        records["offset_gaps"] = self.offset_gaps[self.order[indexes]]
        records["segment"] = self.column("segment", indexes)
        records["position"] = self.column("position", indexes)
        return records


@dataclass(frozen=True, slots=True)
class OpenSpans:
    """The open spans of a chunk that contain transactional data.

    Attributes:
        number: number of the span of each event; a marker has the number of the span it ends.
        transactional: indexes of the events that are transactional data.
        numbers: numbers of the spans with transactional data, ascending.
        spans: these spans.
    """

    number: IntArray
    transactional: IntArray
    numbers: IntArray
    spans: OpenSpanArray

    @classmethod
    def of(cls, events: ProducerEvents) -> OpenSpans:
        """Return the open spans of events."""
        begins = np.ones(len(events), "?")
        begins[1:] = (events.producer_id[1:] != events.producer_id[:-1]) | events.is_marker[:-1]
        number = np.cumsum(begins, dtype="i4")
        transactional = np.flatnonzero(events.is_transactional)
        first, last = run_edges(number[transactional])
        spans = _open_spans(events, transactional, first, last)
        return cls(number, transactional, number[transactional[first]], spans)

    def find(self, number: IntArray) -> OpenSpanArray:
        """Return the spans with some numbers, zeros for spans without transactional data."""
        if not len(self.numbers):
            return np.zeros(len(number), OPEN_SPAN)
        index = np.minimum(np.searchsorted(self.numbers, number), len(self.numbers) - 1)
        spans = take_rows(self.spans, index)
        missing = self.numbers[index] != number
        if missing.any():
            put_rows(spans, missing, np.zeros(1, OPEN_SPAN))
        return spans


def _open_spans(events: ProducerEvents, transactional: IntArray, first: IntArray, last: IntArray) -> OpenSpanArray:
    """Return one span per run of transactional batches.

    Args:
        events: all events.
        transactional: indexes of the transactional batches.
        first: index in ``transactional`` of the first batch of each run.
        last: index in ``transactional`` of the last batch of each run.
    """
    spans = np.zeros(len(first), OPEN_SPAN)
    if not len(first):
        return spans
    epoch, timestamp = events.producer_epoch[transactional], events.column("max_timestamp", transactional)
    spans["has_transaction"] = True
    spans["producer_epoch"] = epoch[last]
    spans["lowest_epoch"] = np.minimum.reduceat(epoch, first)
    spans["highest_epoch"] = np.maximum.reduceat(epoch, first)
    spans["first_offset"] = events.column("base_offset", transactional[first])
    spans["last_offset"] = events.column("last_offset", transactional[last])
    spans["batches"] = last - first + 1
    spans["records"] = np.add.reduceat(events.column("count", transactional), first, dtype="i8")
    spans["bytes"] = np.add.reduceat(events.column("size", transactional), first, dtype="i8")
    spans["first_timestamp"] = np.minimum.reduceat(timestamp, first)
    spans["last_timestamp"] = np.maximum.reduceat(timestamp, first)
    spans["segment"] = events.column("segment", transactional[first])
    spans["position"] = events.column("position", transactional[first])
    return spans


def offset_gaps_before(columns: BatchColumns) -> IntArray:
    """Return how many offsets are missing before each batch, since the first one.

    No gap is counted before a legacy entry whose header lacks the first offset.
    """
    missing = np.zeros(len(columns), "i8")
    np.subtract(columns.base_offset[1:], columns.last_offset[:-1], out=missing[1:])
    missing[1:] -= 1
    if not missing.any():
        return missing
    missing[(missing < 0) | ~columns.exact] = 0
    return np.cumsum(missing)


def run_edges(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Return the index of the first and of the last element of each run of equal labels."""
    if not len(labels):
        return np.zeros(0, "i8"), np.zeros(0, "i8")
    cuts = np.flatnonzero(labels[1:] != labels[:-1])
    return np.concatenate(([0], cuts + 1)), np.concatenate((cuts, [len(labels) - 1]))


def _by_producer(producer_id: IntArray, selected: IntArray | None) -> IntArray:
    """Return the indexes of the selected batches by producer id; None selects all. The sort is stable.

    NumPy sorts 16-bit integers by radix, several times faster than any wider type. So ids are sorted digit by digit, in
    as many digits as their range needs. Ids are assigned in blocks, so one digit is usually enough.
    """
    ids = producer_id if selected is None else producer_id[selected]
    indexes: IntArray = np.arange(len(ids)) if selected is None else selected
    if not len(ids) or not (ids[1:] < ids[:-1]).any():
        return indexes
    digits = ids - ids.min()
    order = np.argsort(digits.astype("u2"), kind="stable")
    for shift in range(RADIX_BITS, int(digits.max()).bit_length(), RADIX_BITS):
        digit = (digits[order] >> shift).astype("u2")
        order = order[np.argsort(digit, kind="stable")]
    return order if selected is None else indexes[order]
