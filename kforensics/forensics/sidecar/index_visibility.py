"""Where read_committed consumers receive other records than they should because of the transaction indexes.

The log is processed in order, so that not all of its transactions have to be in memory at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter
from typing import TypeAlias

import numpy as np

from kforensics.forensics.core.external_sort import ExternalSort, SortedRows
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import TRANSACTION, TransactionArray
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, TransactionStore
from kforensics.forensics.sidecar.aborted_entries import AbortedEntries
from kforensics.forensics.sidecar.visibility import (
    NEVER,
    Batches,
    BatchVisibility,
    ConsumerView,
    VisibilityDifference,
    next_aborts,
    view_by_markers,
    view_by_spans,
    visibility_differences,
)
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import kernels_for

__all__ = ["IndexSweep", "IndexVisibility", "MarkerSweep", "VisibilityErrors", "index_visibility", "visibility_errors"]

NOTHING, FARTHEST = -1, int(np.iinfo("i8").min)
HIDDEN_SPAN = np.dtype([("producer_id", "i8"), ("first_offset", "i8"), ("end", "i8")])
HiddenSpanArray: TypeAlias = StructArray


class MarkerSweep:
    """What a consumer should receive according to the markers, for batches that are looked up in log order.

    Transactions are loaded in the order of their first offsets as the lookups advance, and dropped once their markers
    have been passed. A lookup at a lower offset starts again from the beginning.

    Args:
        transaction_store: transactions of the partition.
        log_start_offset: first offset that is visible to consumers.
        last_stable_offset: offset at which the log ends for them.
    """

    def __init__(self, transaction_store: TransactionStore, log_start_offset: int, last_stable_offset: int) -> None:
        self.log_start_offset, self.last_stable_offset = log_start_offset, last_stable_offset
        self._transaction_store = transaction_store
        # No marker ends them, and all consumers receive their data.
        self._forgotten = transaction_store.forgotten.copy()
        self._forgotten["marker_offset"] = self._forgotten["last_offset"] + 1
        self._by_first_offset: SortedRows | None = None
        self._restart()

    def _restart(self) -> None:
        self._window, self._next, self._from, self._upto = NO_TRANSACTIONS, 0, FARTHEST, FARTHEST
        self._view = self._window_view()

    def _window_view(self) -> ConsumerView:
        transactions = concat_rows([self._window, self._forgotten])
        return view_by_markers(transactions, self.log_start_offset, self.last_stable_offset)

    def around(self, first_offset: int, last_offset: int) -> ConsumerView:
        """Return a view that is valid for batches between two offsets."""
        if first_offset < self._from:
            self._restart()
        if last_offset > self._upto:
            self._advance(first_offset, last_offset)
        return self._view

    def _advance(self, first_offset: int, last_offset: int) -> None:
        ordered = self._by_first_offset = self._by_first_offset or _sorted_by_first_offset(self._transaction_store)
        parts = [self._window]
        while last_offset > self._upto:
            if self._next < ordered.page_count:
                parts.append(ordered.read(self._next))
                self._next += 1
            # The next page may begin with the offset at which this page ends.
            done = self._next == ordered.page_count
            self._upto = NEVER if done else int(ordered.last_keys[self._next - 1]) - 1
        self._from = first_offset
        self._window = concat_rows([take_rows(part, part["marker_offset"] >= first_offset) for part in parts])
        self._view = self._window_view()


def _sorted_by_first_offset(transaction_store: TransactionStore) -> SortedRows:
    by_first_offset = ExternalSort(TRANSACTION, itemgetter("first_offset"))
    for rows in transaction_store.closed:
        by_first_offset.add(rows)
    return by_first_offset.finish()


class IndexSweep:
    """What a consumer does receive according to the transaction indexes, for batches that are looked up in log order.

    An entry hides data from its first offset to the next ABORT marker of its producer. It is enough to know whether
    that marker is before or after the last batch looked up.

    Args:
        starts: ABORTED_START records of all entries, sorted by first offset.
        state: the partition.
        last_stable_offset: offset at which the log ends for consumers.
    """

    def __init__(self, starts: SortedRows, state: PartitionState, last_stable_offset: int) -> None:
        self._starts, self._state, self._last_stable_offset = starts, state, last_stable_offset
        self._restart()

    def _restart(self) -> None:
        self._window, self._from, self._upto = np.empty(0, HIDDEN_SPAN), FARTHEST, FARTHEST
        self._view = self._window_view()

    def _window_view(self) -> ConsumerView:
        log_start, spans = self._state.local_log_start_offset, self._window
        producer_ids, firsts, ends = (np.ascontiguousarray(spans[name]) for name in HIDDEN_SPAN.names or ())
        return view_by_spans(producer_ids, firsts, ends, log_start, self._last_stable_offset)

    def around(self, first_offset: int, last_offset: int) -> ConsumerView:
        """Return a view that is valid for batches between two offsets."""
        if first_offset < self._from:
            self._restart()
        if last_offset > self._upto:
            self._advance(first_offset, last_offset)
        return self._view

    def _advance(self, first_offset: int, last_offset: int) -> None:
        new = self._starts.at(self._upto + 1, last_offset)
        spans = np.empty(len(self._window) + len(new), HIDDEN_SPAN)
        spans[: len(self._window)] = self._window
        for name in new.dtype.names or ():
            spans[name][len(self._window) :] = new[name]
        spans["end"][len(self._window) :] = NEVER
        unended = np.flatnonzero(spans["end"] == NEVER)
        spans["end"][unended] = next_aborts(
            spans["producer_id"][unended], spans["first_offset"][unended], self._markers(self._upto + 1, last_offset)
        )
        self._from, self._upto = first_offset, last_offset
        self._window = take_rows(spans, spans["end"] > first_offset)
        self._view = self._window_view()

    def _markers(self, first: int, last: int) -> Iterator[StructArray]:
        yield from self._state.transaction_store.closed.between(first, last)
        empty = self._state.empty_markers
        yield empty[slice(*empty["marker_offset"].searchsorted([first, last + 1]))]


@dataclass(frozen=True, slots=True, eq=False)
class IndexVisibility:
    """What consumers should receive, what they do receive, and the transactions that show a difference.

    Attributes:
        by_log: what they should receive, according to the markers.
        by_index: what they do receive, according to the transaction indexes.
        hidden: producer ids of committed transactions whose beginning consumers do not receive.
        first_offset: the lowest first offset of these transactions and of aborted transactions whose beginning
            consumers do receive; None if there are none.
    """

    by_log: MarkerSweep
    by_index: IndexSweep
    hidden: IntArray
    first_offset: int | None


def index_visibility(state: PartitionState, index: AbortedEntries) -> IndexVisibility:
    """Return how the indexes of a partition represent its transactions, without reading their batches.

    Args:
        state: the partition.
        index: entries of its transaction indexes.
    """
    log_start, log_end = state.local_log_start_offset, np.array([state.log_end_offset])
    stable = int(last_stable_offsets(state.transaction_store, log_start, log_end)[0][0])
    entries = IndexSweep(index.starts, state, stable)
    hidden, first = [np.empty(0, "i8")], NEVER
    before = NOTHING
    for closed in state.transaction_store.closed:
        transactions = closed[closed["records"] > 0]
        # Each transaction is looked up by its own marker; the other transactions do not matter. An entry that ended
        # before this page hides nothing of it: the producer's transactions in the page had not begun.
        last = int(closed["marker_offset"][-1])
        by_log, by_index = view_by_markers(closed, log_start, stable), entries.around(before, last)
        before = last
        batches = _as_batches(transactions)
        expected, received = (view.visibilities(batches) == BatchVisibility.VISIBLE for view in (by_log, by_index))
        hidden.append(np.unique(transactions["producer_id"][expected & ~received]))
        first = int(transactions["first_offset"][expected != received].min(initial=first))
    sweep = MarkerSweep(state.transaction_store, log_start, stable)
    return IndexVisibility(sweep, entries, np.unique(np.concatenate(hidden)), None if first == NEVER else first)


def _as_batches(transactions: TransactionArray) -> Batches:
    yes = np.ones(len(transactions), bool)
    producer_id, first, last = (transactions[name] for name in ("producer_id", "first_offset", "last_offset"))
    return Batches(producer_id, first, last, is_transactional=yes, is_control=~yes)


@dataclass(frozen=True, slots=True)
class VisibilityErrors:
    """What consumers receive but should not, and what they should receive but do not.

    Attributes:
        ranges: ranges of offsets, in log order; only the first ones if there are very many.
        batches: total number of batches.
        records_shown: records of aborted transactions that consumers receive.
        records_hidden: records of committed transactions that consumers do not receive.
    """

    ranges: tuple[VisibilityDifference, ...]
    batches: int = 0
    records_shown: int = 0
    records_hidden: int = 0


def visibility_errors(
    state: PartitionState, visibility: IndexVisibility, first_offset: int, max_batches: int
) -> VisibilityErrors:
    """Return the differences for all batches; the log is read again.

    Args:
        state: the partition.
        visibility: from :func:`index_visibility`.
        first_offset: offset to start at.
        max_batches: maximum number of batches to include in the ranges.

    Raises:
        InputError: a segment cannot be read again.
    """
    ranges: list[VisibilityDifference] = []
    batches = shown = hidden = 0
    for number in range(_segment_of(state, first_offset), len(state.partition.segments)):
        with open_source(state.partition.segments[number].path) as source:
            for chunk in batch_chunks(source, number, ignore_damage, kernels_for):
                bounds = int(chunk.base_offset.min()), int(chunk.last_offset.max())
                by_log, by_index = visibility.by_log.around(*bounds), visibility.by_index.around(*bounds)
                differing, received = _differing(by_log, by_index, chunk)
                included = Batches.of_columns(differing[: max(0, max_batches - batches)])
                ranges += visibility_differences(by_log, by_index, included)
                batches += len(differing)
                shown += int(differing.count[received].sum())
                hidden += int(differing.count[~received].sum())
    return VisibilityErrors(tuple(ranges), batches, shown, hidden)


def _segment_of(state: PartitionState, offset: int) -> int:
    bases = [segment.base_offset or 0 for segment in state.partition.segments]
    return max(0, int(np.searchsorted(bases, offset, "right")) - 1)


def _differing(by_log: ConsumerView, by_index: ConsumerView, chunk: BatchColumns) -> tuple[BatchColumns, BoolArray]:
    """Return the non-empty batches that consumers wrongly receive or miss, and which of them they receive."""
    batches = Batches.of_columns(chunk)
    expected, received = (view.visibilities(batches) == BatchVisibility.VISIBLE for view in (by_log, by_index))
    differ = (expected != received) & (chunk.count > 0)
    return chunk[differ], received[differ]
