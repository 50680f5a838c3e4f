"""Which batches a read_committed consumer receives: as the markers of a log decide, and as its transaction indexes do.

Rule: a broker serves such a consumer up to the last stable offset, aborted data included, and names the aborted
transactions from its indexes (``UnifiedLog.read``); the consumer passes over their batches and over all control batches
(``CompletedFetch.nextFetchedRecord`` and ``consumeAbortedTransactionsUpTo``; ``Fetcher`` before 3.6).

Transactions are spans of offsets by producer id, in numpy arrays: there may be millions of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_types import Ending, Records
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT
from kforensics.parsers.state.transaction_index import TransactionIndexEntry

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "NEVER",
    "Batches",
    "Difference",
    "Verdict",
    "Visibility",
    "next_aborts",
    "visibility_differences",
    "visible_by_index",
    "visible_by_log",
    "visible_by_spans",
]

Numbers: TypeAlias = "npt.NDArray[Any]"
NEVER = int(np.iinfo("i8").max)


class Verdict(IntEnum):
    """What becomes of a batch on its way to a read_committed consumer."""

    VISIBLE = 0
    ABORTED = 1  # its transaction was aborted
    UNDECIDED = 2  # its transaction is open, or not on hand
    HELD_BACK = 3  # it is decided, and waits behind an open transaction for the last stable offset
    DELETED = 4  # it is below the log start offset, where a broker serves nothing
    CONTROL = 5  # it holds markers or other control records, which are for no application


@dataclass(frozen=True, slots=True, eq=False)
class Batches:
    """What the verdict on batches depends on, each field an array with one value per batch.

    Attributes:
        producer_id: -1 if there is none.
        base_offset: first offset.
        last_offset: last offset.
        is_transactional: whether the records belong to a transaction.
        is_control: whether the records are control records.
    """

    producer_id: Numbers
    base_offset: Numbers
    last_offset: Numbers
    is_transactional: Numbers
    is_control: Numbers

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
    """Half-open spans of offsets by producer id, in which a batch is found by two binary searches.

    Where spans of a producer overlap, the ends must not fall as the firsts rise.

    Args:
        producer_id: whose they are.
        first_offset: where they begin.
        end: where they end.
        verdict: what is to be said of the batches in them.
    """

    def __init__(self, producer_id: Numbers, first_offset: Numbers, end: Numbers, verdict: Numbers) -> None:
        order = np.lexsort((first_offset, end, producer_id))
        self._producers, self._ends = np.unique(producer_id), np.unique(end)
        # One number for producer and end, so that one search finds both.
        self._keys = self._key(producer_id[order], self._ends.searchsorted(end[order]))
        # Behind the last span stands one of nobody, for what is found nowhere.
        self.producer_id = np.append(producer_id[order], -1)
        self.first_offset = np.append(first_offset[order], NEVER)
        self.end = np.append(end[order], NEVER)
        self.verdict = np.append(verdict[order], Verdict.UNDECIDED).astype("i1")

    def _key(self, producer_id: Any, rank: Any) -> Any:
        return self._producers.searchsorted(producer_id) * len(self._ends) + rank

    def find(self, producer_id: Any, offset: Any) -> Any:
        """Return the index of the first span of the producer that ends behind an offset.

        Of a producer that has none it is the index of a span of somebody else. Takes numbers and arrays of them.
        """
        return self._keys.searchsorted(self._key(producer_id, self._ends.searchsorted(offset, side="right")))


@dataclass(frozen=True, slots=True, eq=False)
class Visibility:
    """What a read_committed consumer of a partition receives; made by the two functions below.

    Attributes:
        log_start_offset: where the log begins for consumers.
        last_stable_offset: where it ends for them.
        outside: the verdict on data of a transaction that is not on hand.
    """

    log_start_offset: int
    last_stable_offset: int
    outside: Verdict
    _spans: _Spans

    def verdict(
        self, producer_id: int, base_offset: int, last_offset: int, *, is_transactional: bool, is_control: bool
    ) -> Verdict:
        """Return the verdict on one batch."""
        if is_control:
            return Verdict.CONTROL
        fate = self._fate(producer_id, base_offset, last_offset) if is_transactional else Verdict.VISIBLE
        if fate is not Verdict.VISIBLE:
            return fate
        if last_offset < self.log_start_offset:
            return Verdict.DELETED
        # Log start and last stable offset may both lie inside the same batch, with nothing between them.
        first_served = max(base_offset, self.log_start_offset)
        return Verdict.HELD_BACK if first_served >= self.last_stable_offset else Verdict.VISIBLE

    def _fate(self, producer_id: int, base_offset: int, last_offset: int) -> Verdict:
        spans = self._spans
        at = spans.find(producer_id, base_offset)
        inside = spans.producer_id[at] == producer_id and spans.first_offset[at] <= last_offset
        return Verdict(spans.verdict[at]) if inside else self.outside

    def verdicts(self, batches: Batches) -> Numbers:
        """Return the verdicts on many batches as their numbers."""
        spans = self._spans
        at = spans.find(batches.producer_id, batches.base_offset)
        inside = (spans.producer_id[at] == batches.producer_id) & (spans.first_offset[at] <= batches.last_offset)
        fates = np.where(inside, spans.verdict[at], self.outside)
        first_served = np.maximum(batches.base_offset, self.log_start_offset)
        places = np.where(first_served >= self.last_stable_offset, Verdict.HELD_BACK, Verdict.VISIBLE)
        places[batches.last_offset < self.log_start_offset] = Verdict.DELETED
        hidden = batches.is_transactional & (fates != Verdict.VISIBLE)
        return np.where(batches.is_control, Verdict.CONTROL, np.where(hidden, fates, places)).astype("i1")


def visible_by_log(transactions: Records, log_start_offset: int, last_stable_offset: int) -> Visibility:
    """Return what a consumer should receive, as the markers decide.

    Args:
        transactions: with the fields ``producer_id``, ``first_offset``, ``marker_offset`` and ``ending`` of
            :data:`.results.TRANSACTION`. Open ones may be among them or not: as they end nowhere, nothing is found in
            them, and what is found nowhere is undecided too.
        log_start_offset: where the log begins for consumers.
        last_stable_offset: where it ends for them.
    """
    verdict = np.where(transactions["ending"] == Ending.ABORTED, Verdict.ABORTED, Verdict.VISIBLE)
    spans = _Spans(transactions["producer_id"], transactions["first_offset"], transactions["marker_offset"], verdict)
    return Visibility(log_start_offset, last_stable_offset, Verdict.UNDECIDED, spans)


def visible_by_index(
    entries: Iterable[TransactionIndexEntry], markers: Iterable[Records], log_start_offset: int, last_stable_offset: int
) -> Visibility:
    """Return what a consumer does receive, as the transaction indexes decide.

    The consumer keeps a set of aborted producer ids. At each batch it adds those of all entries whose first offset is
    not behind the batch's last; an ABORT marker takes its producer out again. So an entry hides the transactional
    batches of its producer from the first offset to the producer's next ABORT marker, wherever the entry says that is.
    One fetch over the whole log is assumed: one that begins behind the end of a false entry would not be given it.

    Args:
        entries: of all transaction indexes of the partition.
        markers: all markers of the log, those of closed transactions and those that ended nothing; with the fields
            ``producer_id``, ``marker_offset`` and ``ending`` of :data:`.results.TRANSACTION`.
        log_start_offset: as in :func:`visible_by_log`.
        last_stable_offset: likewise.
    """
    pairs = [(entry.producer_id, entry.first_offset) for entry in entries]
    producer_id, first_offset = np.array(pairs, "i8").reshape(-1, 2).T
    ends = next_aborts(producer_id, first_offset, markers)
    return visible_by_spans(producer_id, first_offset, ends, log_start_offset, last_stable_offset)


def next_aborts(producer_id: Numbers, offset: Numbers, markers: Iterable[Records]) -> Numbers:
    """Return the offset of the first ABORT of each producer at an offset or behind it, NEVER where there is none.

    Args:
        producer_id: producer ids.
        offset: their offsets.
        markers: as in :func:`visible_by_index`.
    """
    aborts = [np.empty((0, 2), "i8")]
    for some in markers:
        aborted = some[some["ending"] == Ending.ABORTED]
        aborts.append(np.stack([aborted["producer_id"], aborted["marker_offset"]], axis=1))
    owners, places = np.concatenate(aborts).T
    marker = _Spans(owners, places, places, np.full(len(places), Verdict.ABORTED))
    at = marker.find(producer_id, offset - 1)
    return np.where(marker.producer_id[at] == producer_id, marker.end[at], NEVER)


def visible_by_spans(
    producer_id: Numbers, first_offset: Numbers, end: Numbers, log_start_offset: int, last_stable_offset: int
) -> Visibility:
    """Return what a consumer does receive if these spans are hidden.

    Args:
        producer_id: whose data each hides.
        first_offset: where they begin.
        end: where they end, this not included.
        log_start_offset: as in :func:`visible_by_log`.
        last_stable_offset: likewise.
    """
    spans = _Spans(producer_id, first_offset, end, np.full(len(producer_id), Verdict.ABORTED))
    return Visibility(log_start_offset, last_stable_offset, Verdict.VISIBLE, spans)


@dataclass(frozen=True, slots=True)
class Difference:
    """A range of offsets that a consumer receives and should not, or should and does not.

    Attributes:
        producer_id: whose data it is.
        first_offset: first offset of the range.
        last_offset: its last offset.
        by_log: the verdict that is right.
        by_index: the verdict that consumers go by.
    """

    producer_id: int
    first_offset: int
    last_offset: int
    by_log: Verdict
    by_index: Verdict

    @property
    def is_shown(self) -> bool:
        """Whether consumers receive what they should not, rather than miss what they should receive."""
        return self.by_index is Verdict.VISIBLE


def visibility_differences(by_log: Visibility, by_index: Visibility, batches: Batches) -> list[Difference]:
    """Return where log and indexes of a partition differ in what a consumer receives, in the order of the batches.

    Batches of a producer that follow each other without a gap are one range.

    Args:
        by_log: from :func:`visible_by_log`.
        by_index: from :func:`visible_by_index`, between the same offsets.
        batches: of the partition, or some of them.
    """
    right, found = by_log.verdicts(batches), by_index.verdicts(batches)
    differ = np.flatnonzero((right == Verdict.VISIBLE) != (found == Verdict.VISIBLE))
    columns = (batches.producer_id, batches.base_offset, batches.last_offset, right, found)
    ranges: list[Difference] = []
    for producer_id, first, last, log, index in zip(*(column[differ].tolist() for column in columns), strict=True):
        following = Difference(producer_id, first, last, Verdict(log), Verdict(index))
        if ranges and _continues(ranges[-1], following):
            following = Difference(producer_id, ranges.pop().first_offset, last, Verdict(log), Verdict(index))
        ranges.append(following)
    return ranges


def _continues(before: Difference, following: Difference) -> bool:
    same = (before.producer_id, before.by_log, before.by_index)
    adjacent = following.first_offset == before.last_offset + 1
    return adjacent and same == (following.producer_id, following.by_log, following.by_index)
