"""The rows that a replay emits once they are certain: transactions, empty markers and anomalies."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.record_types import (
    ANOMALY,
    EMPTY_MARKER,
    NO_TIME,
    TRANSACTION,
    Anomaly,
    AnomalyArray,
    EmptyMarkerArray,
    Portable,
    TransactionArray,
    TransactionOutcome,
)
from kforensics.forensics.replay.summary import (
    NONE,
    OPEN_SPAN,
    UNRESOLVED,
    MarkerArray,
    OpenSpanArray,
    PreviousEventArray,
    UnresolvedArray,
)
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = [
    "NO_ANOMALIES",
    "NO_TRANSACTIONS",
    "NO_UNRESOLVED",
    "ReplayRows",
    "anomaly_rows",
    "as_duplicate_batches",
    "closed_rows",
    "joined_rows",
    "open_rows",
    "unresolved_anomalies",
]

NO_TRANSACTIONS, NO_EMPTY_MARKERS = np.zeros(0, TRANSACTION), np.zeros(0, EMPTY_MARKER)
NO_ANOMALIES, NO_UNRESOLVED = np.zeros(0, ANOMALY), np.zeros(0, UNRESOLVED)
# Fields that rows copy from a span or an event.
SPAN_FIELDS = tuple(name for name in OPEN_SPAN.names or () if name != "has_transaction")
EVENT_FIELDS = ("producer_epoch", "timestamp", "segment", "position")


@dataclass(frozen=True, slots=True)
class ReplayRows(Portable):
    """Rows that are certain and not read again by the replay, in no particular order unless ``in_order`` returned them.

    Attributes:
        transactions: closed transactions.
        empty_markers: markers that ended no transaction.
        anomalies: events that a leader would not have written.
    """

    transactions: TransactionArray
    empty_markers: EmptyMarkerArray
    anomalies: AnomalyArray

    @classmethod
    def of(
        cls,
        transactions: TransactionArray | None = None,
        empty_markers: EmptyMarkerArray | None = None,
        anomalies: AnomalyArray | None = None,
    ) -> ReplayRows:
        """Return rows of the given kinds."""
        return cls(
            NO_TRANSACTIONS if transactions is None else transactions,
            NO_EMPTY_MARKERS if empty_markers is None else empty_markers,
            NO_ANOMALIES if anomalies is None else anomalies,
        )

    def __len__(self) -> int:
        return len(self.transactions) + len(self.empty_markers) + len(self.anomalies)

    def in_order(self) -> ReplayRows:
        """Return the rows in log order: by the offset of the marker, or the first offset of the anomaly."""
        anomalies = self.anomalies
        by_offset = np.lexsort((anomalies["producer_id"], anomalies["kind"], anomalies["first_offset"]))
        return ReplayRows(
            take_rows(self.transactions, np.argsort(self.transactions["marker_offset"], kind="stable")),
            take_rows(self.empty_markers, np.argsort(self.empty_markers["marker_offset"], kind="stable")),
            take_rows(anomalies, by_offset),
        )


def joined_rows(parts: Iterable[ReplayRows]) -> ReplayRows:
    """Return the rows of all parts."""
    filled = [part for part in parts if len(part)]
    if len(filled) == 1:
        return filled[0]
    if not filled:
        return ReplayRows.of()
    return ReplayRows(*(concat_rows([getattr(part, field.name) for part in filled]) for field in fields(ReplayRows)))


def anomaly_rows(
    kind: Anomaly | IntArray,
    producer_id: IntArray,
    event: StructArray,
    previous: PreviousEventArray | None = None,
    amount: IntArray | int = 0,
) -> AnomalyArray:
    """Return anomalies.

    Args:
        kind: the kind of all, or of each.
        producer_id: producer ids.
        event: FIRST_BATCH or MARKER records of the events that are anomalous.
        previous: the earlier events that conflict with them, None without such events.
        amount: the amount of all, or of each.
    """
    rows = np.zeros(len(event), ANOMALY)
    rows["kind"], rows["producer_id"], rows["amount"] = kind, producer_id, amount
    rows["first_offset"] = event["base_offset"]
    rows["last_offset"] = event["base_offset"] + event["offset_delta"]
    for name in EVENT_FIELDS:
        rows[name] = event[name]
    if previous is None:
        rows["previous_offset"], rows["previous_timestamp"] = NONE, NO_TIME
    else:
        rows["previous_offset"], rows["previous_timestamp"] = previous["offset"], previous["timestamp"]
        rows["offset_gap"] = event["offset_gaps"] - previous["offset_gaps"]
    return rows


def as_duplicate_batches(overlaps: AnomalyArray, originals: StructArray) -> AnomalyArray:
    """Return SEQ_OVERLAP anomalies as SEQ_DUPLICATE_BATCH.

    Args:
        overlaps: the anomalies.
        originals: RECENT_BATCH records of the batches that they repeat.
    """
    rows = overlaps.copy()
    rows["kind"], rows["amount"] = Anomaly.SEQ_DUPLICATE_BATCH, originals["offset_delta"].astype("i8") + 1
    rows["previous_offset"], rows["previous_timestamp"] = originals["last_offset"], originals["timestamp"]
    return rows


def unresolved_anomalies(
    anomalies: AnomalyArray, last_sequence: IntArray | int = 0, compared: IntArray | int = 0
) -> UnresolvedArray:
    """Return anomalies as unresolved."""
    if not len(anomalies):
        return NO_UNRESOLVED
    unresolved = np.zeros(len(anomalies), UNRESOLVED)
    unresolved["anomaly"], unresolved["last_sequence"], unresolved["compared"] = anomalies, last_sequence, compared
    return unresolved


def closed_rows(producer_id: IntArray, spans: OpenSpanArray, markers: MarkerArray, *, exact: bool = True) -> ReplayRows:
    """Return the transactions that markers end, and the markers that end none.

    Args:
        producer_id: producer ids.
        spans: the spans before the markers.
        markers: the markers.
        exact: whether the transactions cannot have started before the spans.
    """
    closes = spans["has_transaction"]
    if closes.all():
        return ReplayRows.of(transactions=_transactions(producer_id, spans, markers, exact=exact))
    empty = ~closes
    return ReplayRows.of(
        transactions=_transactions(
            producer_id[closes], take_rows(spans, closes), take_rows(markers, closes), exact=exact
        ),
        empty_markers=_empty_markers(producer_id[empty], take_rows(markers, empty), exact=exact),
    )


def open_rows(producer_id: IntArray, spans: OpenSpanArray, exact: BoolArray) -> TransactionArray:
    """Return the open transactions of spans that no marker ends.

    Args:
        producer_id: producer ids.
        spans: spans with a transaction.
        exact: for each span, whether the transaction cannot have started before it.
    """
    rows = np.zeros(len(spans), TRANSACTION)
    rows["producer_id"], rows["first_offset_exact"], rows["outcome"] = producer_id, exact, TransactionOutcome.OPEN
    for name in SPAN_FIELDS:
        rows[name] = spans[name]
    for name in ("marker_offset", "marker_epoch", "coordinator_epoch", "marker_segment", "marker_position"):
        rows[name] = NONE
    rows["marker_timestamp"] = NO_TIME
    return rows


def _transactions(
    producer_id: IntArray, spans: OpenSpanArray, markers: MarkerArray, *, exact: bool
) -> TransactionArray:
    rows = np.zeros(len(spans), TRANSACTION)
    rows["producer_id"], rows["first_offset_exact"] = producer_id, exact
    for name in SPAN_FIELDS:
        rows[name] = spans[name]
    rows["marker_offset"], rows["marker_epoch"] = markers["base_offset"], markers["producer_epoch"]
    rows["coordinator_epoch"], rows["outcome"] = markers["coordinator_epoch"], markers["outcome"]
    rows["marker_timestamp"] = markers["timestamp"]
    rows["marker_segment"], rows["marker_position"] = markers["segment"], markers["position"]
    return rows


def _empty_markers(producer_id: IntArray, markers: MarkerArray, *, exact: bool) -> EmptyMarkerArray:
    rows = np.zeros(len(markers), EMPTY_MARKER)
    rows["producer_id"], rows["exact"] = producer_id, exact
    rows["marker_offset"], rows["marker_epoch"] = markers["base_offset"], markers["producer_epoch"]
    rows["marker_timestamp"] = markers["timestamp"]
    for name in ("coordinator_epoch", "outcome", "segment", "position"):
        rows[name] = markers[name]
    return rows
