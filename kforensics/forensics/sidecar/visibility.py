"""Which batches a read_committed consumer receives: according to the markers of a log, or to its transaction indexes.

Rule: a broker serves such a consumer up to the last stable offset, including aborted data, and names the aborted
transactions from its indexes (``UnifiedLog.read``); the consumer skips their batches and all control batches
(``CompletedFetch.nextFetchedRecord`` and ``consumeAbortedTransactionsUpTo``; ``Fetcher`` before 3.6).

Transactions are spans of offsets by producer id, in NumPy arrays: there may be millions of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import TransactionArray, TransactionOutcome
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT
from kforensics.parsers.state.indexes import TransactionIndexEntry

NEVER = int(np.iinfo("i8").max)


class BatchVisibility(IntEnum):
    """What a read_committed consumer sees of a batch."""

    VISIBLE = 0
    ABORTED = 1  # its transaction was aborted
    UNDECIDED = 2  # its transaction is open or unknown
    HELD_BACK = 3  # its transaction has ended, but an older open transaction blocks the last stable offset
    DELETED = 4  # below the log start offset, where a broker serves nothing
    CONTROL = 5  # it contains markers or other control records, which applications never receive


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """What the visibility of batches depends on; each field is an array with one value per batch.

    Attributes:
        producer_id: -1 if there is none.
        base_offset: first offset.
        last_offset: last offset.
        is_transactional: whether the records belong to a transaction.
        is_control: whether the records are control records.
    """

    producer_id: IntArray
    base_offset: IntArray
    last_offset: IntArray
    is_transactional: BoolArray
    is_control: BoolArray

    @classmethod
    def of_columns(cls, columns: BatchColumns) -> Batches:
        """Return batches that were read as columns."""
        return cls(
            columns.producer_id,
            columns.base_offset,
            columns.last_offset,
            (columns.attributes & TRANSACTIONAL_BIT) != 0,
            columns.control != NO_CONTROL,
        )


class _Spans:
    """Half-open spans of offsets by producer id, in which two binary searches find a batch.

    Where spans of a producer overlap, their ends must not decrease as their first offsets increase.

    Args:
        producer_id: producer of each span.
        first_offset: where each begins.
        end: where each ends.
        visibility: visibility of the batches in each.
    """

    def __init__(self, producer_id: IntArray, first_offset: IntArray, end: IntArray, visibility: IntArray) -> None:
        order = np.lexsort((first_offset, end, producer_id))
        self._producers, self._ends = np.unique(producer_id), np.unique(end)
        # One number for producer and end, so that one search finds both.
        self._keys = self._key(producer_id[order], self._ends.searchsorted(end[order]))
        # After the last span there is one without a producer, for batches that are in no span.
        self.producer_id = np.append(producer_id[order], -1)
        self.first_offset = np.append(first_offset[order], NEVER)
        self.end = np.append(end[order], NEVER)
        self.visibility = np.append(visibility[order], BatchVisibility.UNDECIDED).astype("i1")

    def _key(self, producer_id: Any, rank: Any) -> Any:
        return self._producers.searchsorted(producer_id) * len(self._ends) + rank

    def find(self, producer_id: Any, offset: Any) -> Any:
        """Return the index of the first span of a producer that ends after an offset.

        If the producer has no such span, it is the index of another producer's span. Takes numbers or arrays.
        """
        return self._keys.searchsorted(self._key(producer_id, self._ends.searchsorted(offset, side="right")))


@dataclass(frozen=True, slots=True, eq=False)
class ConsumerView:
    """What a read_committed consumer of a partition receives; made by the functions ``view_by_*``.

    Attributes:
        log_start_offset: first offset that is visible to consumers.
        last_stable_offset: offset at which the log ends for them.
        outside: visibility of transactional data that is in no known span.
    """

    log_start_offset: int
    last_stable_offset: int
    outside: BatchVisibility
    _spans: _Spans

    def visibility_of(
        self, producer_id: int, base_offset: int, last_offset: int, *, is_transactional: bool, is_control: bool
    ) -> BatchVisibility:
        """Return the visibility of one batch."""
        if is_control:
            return BatchVisibility.CONTROL
        if is_transactional:
            by_transaction = self._by_transaction(producer_id, base_offset, last_offset)
            if by_transaction is not BatchVisibility.VISIBLE:
                return by_transaction
        if last_offset < self.log_start_offset:
            return BatchVisibility.DELETED
        # The log start offset and the last stable offset may be inside the same batch, with nothing between them.
        first_served = max(base_offset, self.log_start_offset)
        return BatchVisibility.HELD_BACK if first_served >= self.last_stable_offset else BatchVisibility.VISIBLE

    def _by_transaction(self, producer_id: int, base_offset: int, last_offset: int) -> BatchVisibility:
        spans = self._spans
        index = spans.find(producer_id, base_offset)
        inside = spans.producer_id[index] == producer_id and spans.first_offset[index] <= last_offset
        return BatchVisibility(spans.visibility[index]) if inside else self.outside

    def visibilities(self, batches: Batches) -> IntArray:
        """Return the visibility of many batches, as numbers."""
        spans = self._spans
        indexes = spans.find(batches.producer_id, batches.base_offset)
        inside = spans.producer_id[indexes] == batches.producer_id
        inside &= spans.first_offset[indexes] <= batches.last_offset
        by_transaction = np.where(inside, spans.visibility[indexes], self.outside)
        first_served = np.maximum(batches.base_offset, self.log_start_offset)
        held_back = first_served >= self.last_stable_offset
        by_offset = np.where(held_back, BatchVisibility.HELD_BACK, BatchVisibility.VISIBLE)
        by_offset[batches.last_offset < self.log_start_offset] = BatchVisibility.DELETED
        hidden = batches.is_transactional & (by_transaction != BatchVisibility.VISIBLE)
        of_data = np.where(hidden, by_transaction, by_offset)
        return np.where(batches.is_control, BatchVisibility.CONTROL, of_data).astype("i1")


def view_by_markers(transactions: TransactionArray, log_start_offset: int, last_stable_offset: int) -> ConsumerView:
    """Return what a consumer should receive according to the markers.

    Args:
        transactions: records with the fields ``producer_id``, ``first_offset``, ``marker_offset`` and ``outcome`` of
            :data:`.record_types.TRANSACTION`. It makes no difference whether open ones are among them: they have no
            end, so no batch is found in them, and a batch that is in no span is undecided, too.
        log_start_offset: first offset that is visible to consumers.
        last_stable_offset: offset at which the log ends for them.
    """
    is_aborted = transactions["outcome"] == TransactionOutcome.ABORTED
    visibility = np.where(is_aborted, BatchVisibility.ABORTED, BatchVisibility.VISIBLE)
    spans = _Spans(transactions["producer_id"], transactions["first_offset"], transactions["marker_offset"], visibility)
    return ConsumerView(log_start_offset, last_stable_offset, BatchVisibility.UNDECIDED, spans)


def view_by_index(
    entries: Iterable[TransactionIndexEntry],
    markers: Iterable[StructArray],
    log_start_offset: int,
    last_stable_offset: int,
) -> ConsumerView:
    """Return what a consumer does receive according to the transaction indexes.

    The consumer keeps a set of aborted producer ids. At each batch it adds the producers of all entries whose first
    offset is not after the batch's last offset; an ABORT marker removes its producer from the set. So an entry hides
    the transactional batches of its producer from its first offset to the producer's next ABORT marker, whatever the
    entry says about the end. This assumes one fetch of the whole log: a fetch that begins after the end of a wrong
    entry would not return that entry.

    Args:
        entries: entries of all transaction indexes of the partition.
        markers: all markers of the log, those of closed transactions and empty ones; with the fields ``producer_id``,
            ``marker_offset`` and ``outcome`` of :data:`.record_types.TRANSACTION`.
        log_start_offset: first offset that is visible to consumers.
        last_stable_offset: offset at which the log ends for them.
    """
    pairs = [(entry.producer_id, entry.first_offset) for entry in entries]
    producer_id, first_offset = np.array(pairs, "i8").reshape(-1, 2).T
    ends = next_aborts(producer_id, first_offset, markers)
    return view_by_spans(producer_id, first_offset, ends, log_start_offset, last_stable_offset)


def next_aborts(producer_id: IntArray, offset: IntArray, markers: Iterable[StructArray]) -> IntArray:
    """Return the offset of each producer's first ABORT marker at or after an offset, NEVER where there is none.

    Args:
        producer_id: producer ids.
        offset: an offset for each.
        markers: markers as for :func:`view_by_index`.
    """
    aborts = [np.empty((0, 2), "i8")]
    for rows in markers:
        aborted = rows[rows["outcome"] == TransactionOutcome.ABORTED]
        aborts.append(np.stack([aborted["producer_id"], aborted["marker_offset"]], axis=1))
    producers, offsets = np.concatenate(aborts).T
    spans = _Spans(producers, offsets, offsets, np.full(len(offsets), BatchVisibility.ABORTED))
    indexes = spans.find(producer_id, offset - 1)
    return np.where(spans.producer_id[indexes] == producer_id, spans.end[indexes], NEVER)


def view_by_spans(
    producer_id: IntArray, first_offset: IntArray, end: IntArray, log_start_offset: int, last_stable_offset: int
) -> ConsumerView:
    """Return what a consumer does receive if some spans are hidden.

    Args:
        producer_id: producer whose data each span hides.
        first_offset: where each begins.
        end: where each ends, exclusive.
        log_start_offset: first offset that is visible to consumers.
        last_stable_offset: offset at which the log ends for them.
    """
    spans = _Spans(producer_id, first_offset, end, np.full(len(producer_id), BatchVisibility.ABORTED))
    return ConsumerView(log_start_offset, last_stable_offset, BatchVisibility.VISIBLE, spans)


@dataclass(frozen=True, slots=True)
class VisibilityDifference:
    """A range of offsets that a consumer receives but should not, or should receive but does not.

    Attributes:
        producer_id: producer of the data.
        first_offset: first offset of the range.
        last_offset: last offset of the range.
        by_log: the correct visibility.
        by_index: the visibility that consumers act on.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    by_log: BatchVisibility
    by_index: BatchVisibility

    @property
    def is_shown(self) -> bool:
        """Whether consumers receive data that they should not receive; otherwise they miss data."""
        return self.by_index is BatchVisibility.VISIBLE


def visibility_differences(
    by_log: ConsumerView, by_index: ConsumerView, batches: Batches
) -> list[VisibilityDifference]:
    """Return where log and indexes of a partition differ in what a consumer receives, in the order of the batches.

    Consecutive batches of a producer without an offset gap form one range.

    Args:
        by_log: from :func:`view_by_markers`.
        by_index: from :func:`view_by_index`, between the same offsets.
        batches: batches of the partition, or some of them.
    """
    correct, actual = by_log.visibilities(batches), by_index.visibilities(batches)
    differ = np.flatnonzero((correct == BatchVisibility.VISIBLE) != (actual == BatchVisibility.VISIBLE))
    columns = (batches.producer_id, batches.base_offset, batches.last_offset, correct, actual)
    ranges: list[VisibilityDifference] = []
    for producer_id, first, last, log, index in zip(*(column[differ].tolist() for column in columns), strict=True):
        following = VisibilityDifference(producer_id, first, last, BatchVisibility(log), BatchVisibility(index))
        if ranges and _continues(ranges[-1], following):
            first_offset = ranges.pop().first_offset
            following = VisibilityDifference(
                producer_id, first_offset, last, BatchVisibility(log), BatchVisibility(index)
            )
        ranges.append(following)
    return ranges


def _continues(before: VisibilityDifference, following: VisibilityDifference) -> bool:
    same = (before.producer_id, before.by_log, before.by_index)
    adjacent = following.first_offset == before.last_offset + 1
    return adjacent and same == (following.producer_id, following.by_log, following.by_index)
