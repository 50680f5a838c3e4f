"""The summary of a log chunk: the state of its producers, as far as it is known without the log before the chunk.

The events of a producer form a sequence ``s0 m1 s1 m2 s2 ... mk sk`` of transaction markers and the *open spans* of
data batches between them. A span between two markers is complete, so its transaction is emitted as a row at once. Only
``s0 m1``, ``sk`` and the first batch stay *unresolved* until the chunk is merged with its neighbors. A summary keeps
them in one record of fixed size per producer.

Offset gaps are counted from the start of the chunk, so the offsets missing between two events are a difference.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import same_bytes, take_rows, where_rows
from kforensics.forensics.core.record_types import ANOMALY, RECENT_BATCH, RECENT_BATCHES, Portable
from kforensics.parsers.format.array_types import IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "FIRST_BATCH",
    "MARKER",
    "NONE",
    "OPEN_SPAN",
    "PREVIOUS_EVENT",
    "PRODUCER_SUMMARY",
    "UNRESOLVED",
    "FirstBatchArray",
    "MarkerArray",
    "OpenSpanArray",
    "PreviousEventArray",
    "ProducerSummaryArray",
    "ReplaySummary",
    "UnresolvedArray",
    "last_sequences",
    "last_spans",
    "sorted_unresolved",
]

# An offset, sequence, epoch or outcome that does not exist or is unknown.
NONE = -1

# What later events are compared with: an event's last offset, its timestamp, and the offset gaps before it.
PREVIOUS_EVENT = np.dtype([("offset", "i8"), ("timestamp", "i8"), ("offset_gaps", "i8")])
PreviousEventArray: TypeAlias = "npt.NDArray[np.void]"
_EVENT = [
    ("producer_epoch", "i2"),
    ("base_offset", "i8"),
    ("offset_delta", "i4"),
    ("timestamp", "i8"),
    ("offset_gaps", "i8"),
    ("segment", "i4"),
    ("position", "i8"),
]
FIRST_BATCH = np.dtype([*_EVENT, ("base_sequence", "i4"), ("is_transactional", "?")])
FirstBatchArray: TypeAlias = "npt.NDArray[np.void]"
MARKER = np.dtype([*_EVENT, ("coordinator_epoch", "i4"), ("outcome", "i1")])
MarkerArray: TypeAlias = "npt.NDArray[np.void]"
OPEN_SPAN = np.dtype(
    [
        ("has_transaction", "?"),  # whether it contains transactional data, which the other fields describe
        ("producer_epoch", "i2"),  # of the last batch
        ("lowest_epoch", "i2"),
        ("highest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("batches", "i4"),
        ("records", "i8"),
        ("bytes", "i8"),
        ("first_timestamp", "i8"),
        ("last_timestamp", "i8"),
        ("segment", "i4"),
        ("position", "i8"),
    ]
)
OpenSpanArray: TypeAlias = "npt.NDArray[np.void]"
# Missing parts are zero, so that equal chunks have equal records.
PRODUCER_SUMMARY = np.dtype(
    [
        ("producer_id", "i8"),
        ("has_data", "?"),
        ("has_transactional", "?"),
        ("has_non_transactional", "?"),
        ("has_marker", "?"),
        ("starts_with_marker", "?"),
        ("ends_with_marker", "?"),
        ("is_uniform", "?"),  # all events have the same epoch
        ("is_mixed", "?"),  # the last span has non-transactional data after transactional data
        ("last_epoch", "i2"),  # of the last event
        ("first_batch", FIRST_BATCH),
        # The last of the markers before the first batch; the first of them is ``first_marker``.
        ("leading_marker", PREVIOUS_EVENT),
        ("leading_epoch", "i2"),
        ("leading_is_uniform", "?"),
        ("last_data", PREVIOUS_EVENT),
        ("first_marker", MARKER),
        ("last_marker", PREVIOUS_EVENT),
        ("last_coordinator_epoch", "i4"),
        ("last_outcome", "i1"),
        ("first_span", OPEN_SPAN),  # before the first marker
        ("last_span", OPEN_SPAN),  # after the last marker; zero without a marker
        ("recent_count", "i1"),
        ("recent", RECENT_BATCH, RECENT_BATCHES),  # of the last epoch, oldest first
    ]
)
ProducerSummaryArray: TypeAlias = "npt.NDArray[np.void]"
# An anomaly that becomes another one, or none, depending on the events before the chunk.
UNRESOLVED = np.dtype(
    [
        ("anomaly", ANOMALY),
        ("last_sequence", "i4"),  # of a SEQ_OVERLAP, which may turn out to be a duplicate batch
        ("compared", "i1"),  # number of recent batches it has been compared with
    ]
)
UnresolvedArray: TypeAlias = "npt.NDArray[np.void]"


@dataclass(frozen=True, slots=True, eq=False)
class ReplaySummary(Portable):
    """The summary of a log chunk, or of several adjacent chunks.

    Attributes:
        producers: PRODUCER_SUMMARY records, by producer id.
        unresolved: UNRESOLVED records, by producer id, kind and offset; most logs have none.
        first_offset: first offset of the first batch; None if there is no batch, or if it is a compressed entry of
            format 0 or 1, whose header lacks the first offset.
        last_offset: last offset of the last batch, None without batches.
        batches: number of batches.
        offset_gaps: offsets missing between the batches.
        sequences: whether sequences are checked in this topic.
    """

    producers: ProducerSummaryArray = field(default_factory=lambda: np.zeros(0, PRODUCER_SUMMARY))
    unresolved: UnresolvedArray = field(default_factory=lambda: np.zeros(0, UNRESOLVED))
    first_offset: int | None = None
    last_offset: int | None = None
    batches: int = 0
    offset_gaps: int = 0
    sequences: bool = True

    @classmethod
    def empty(cls) -> ReplaySummary:
        """Return the summary of no batches, the neutral element of merging."""
        return cls()

    @property
    def is_empty(self) -> bool:
        """Whether the summary describes neither batches nor a state before them."""
        return self.last_offset is None and self.sequences and not len(self.producers)

    def split(self, index: int) -> tuple[ReplaySummary, ReplaySummary]:
        """Return two summaries of the same chunk: of the producers before an index, and of the others."""
        if index >= len(self.producers):
            return self, replace(self, producers=self.producers[:0], unresolved=self.unresolved[:0])
        producer_id = self.producers["producer_id"][index]
        position = int(np.searchsorted(self.unresolved["anomaly"]["producer_id"], producer_id))
        return (
            replace(self, producers=self.producers[:index], unresolved=self.unresolved[:position]),
            replace(self, producers=self.producers[index:], unresolved=self.unresolved[position:]),
        )

    def of_producers(self, producer_ids: IntArray) -> ReplaySummary:
        """Return the summary of the same chunk with some of its producers only."""
        kept = np.isin(self.producers["producer_id"], producer_ids)
        unresolved = np.isin(self.unresolved["anomaly"]["producer_id"], producer_ids)
        return replace(
            self, producers=take_rows(self.producers, kept), unresolved=take_rows(self.unresolved, unresolved)
        )

    @property
    def _totals(self) -> tuple[int | None, int | None, int, int, bool]:
        return self.first_offset, self.last_offset, self.batches, self.offset_gaps, self.sequences

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ReplaySummary)
            and self._totals == other._totals
            and same_bytes(self.producers, other.producers)
            and same_bytes(self.unresolved, other.unresolved)
        )

    __hash__ = None  # type: ignore[assignment]  # it contains arrays


def sorted_unresolved(unresolved: UnresolvedArray) -> UnresolvedArray:
    """Return unresolved anomalies by producer id, kind and offset."""
    anomalies = unresolved["anomaly"]
    if len(anomalies) < 2:
        return unresolved
    order = np.lexsort((anomalies["first_offset"], anomalies["kind"], anomalies["producer_id"]))
    return take_rows(unresolved, order)


def last_spans(producers: ProducerSummaryArray) -> OpenSpanArray:
    """Return the span after the last marker of each producer; without a marker, its only span."""
    return where_rows(producers["has_marker"], producers["last_span"], producers["first_span"])


def last_sequences(producers: ProducerSummaryArray) -> IntArray:
    """Return the last sequence of each producer's recent batches, NONE without recent batches."""
    newest = np.maximum(producers["recent_count"] - 1, 0)
    sequence = producers["recent"]["last_sequence"][np.arange(len(producers)), newest]
    return np.where(producers["recent_count"] > 0, sequence, NONE)
