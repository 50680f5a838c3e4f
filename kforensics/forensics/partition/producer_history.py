"""The last marker or transaction of a producer before an event, for many events at once."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np

from kforensics.forensics.core.observations import Observed, observations_of
from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.core.record_types import (
    NO_TIME,
    TRANSACTION,
    Anomaly,
    AnomalyArray,
    EmptyMarkerArray,
    TransactionArray,
    TransactionOutcome,
)
from kforensics.forensics.partition.marker_times import marker_pages, marker_times
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = [
    "NOTHING",
    "PRODUCER_MARKER",
    "ProducerMarkerArray",
    "anomalies_of",
    "epochs_bumped_by_transactions",
    "have_marker_since",
    "is_expired",
    "last_before",
    "markers_before",
    "transactions_before",
    "with_markers_before",
]

NOTHING = -1
PRODUCER_MARKER = np.dtype(
    [
        ("producer_id", "i8"),
        ("marker_offset", "i8"),
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("outcome", "i1"),
        ("marker_timestamp", "i8"),
        ("data_epoch", "i2"),  # highest epoch of the data it ended; NOTHING if it ended none or there is no marker
        ("highest_epoch", "i2"),  # of the producer's markers up to this one
    ]
)
ProducerMarkerArray: TypeAlias = StructArray
MARKER_FIELDS = ("producer_id", "marker_offset", "marker_epoch", "coordinator_epoch", "outcome", "marker_timestamp")
# More than there are producer epochs.
EPOCHS = 1 << 17


def _markers(
    closed: TransactionArray, empty: EmptyMarkerArray, earlier: ProducerMarkerArray | None = None
) -> ProducerMarkerArray:
    """Return PRODUCER_MARKER records sorted by producer id and offset.

    Args:
        closed: TRANSACTION records.
        empty: EMPTY_MARKER records.
        earlier: PRODUCER_MARKER records of earlier markers to include; None for none.
    """
    markers = np.empty(len(closed) + len(empty), PRODUCER_MARKER)
    for name in MARKER_FIELDS:
        markers[name] = np.concatenate([closed[name], empty[name]])
    markers["data_epoch"][: len(closed)] = closed["highest_epoch"]
    markers["data_epoch"][len(closed) :] = NOTHING
    markers["highest_epoch"] = markers["marker_epoch"]
    markers = markers if earlier is None else concat_rows([earlier, markers])
    markers = take_rows(markers, np.lexsort((markers["marker_offset"], markers["producer_id"])))
    producers = np.cumsum(np.diff(markers["producer_id"], prepend=markers["producer_id"][:1]) != 0) * EPOCHS
    markers["highest_epoch"] = np.maximum.accumulate(producers + markers["highest_epoch"]) - producers
    return markers


def markers_before(state: PartitionState, producer_ids: IntArray, offsets: IntArray) -> ProducerMarkerArray:
    """Return the last marker of the same producer below the offset of each event.

    Args:
        state: the partition.
        producer_ids: producer ids of the events.
        offsets: offsets of the events.

    Returns:
        PRODUCER_MARKER records, with NOTHING in all fields where there is no marker.
    """
    latest = np.full(len(producer_ids), NOTHING, PRODUCER_MARKER)
    if not len(latest):
        return latest
    events = _EventsByProducer(producer_ids)
    for closed, empty in marker_pages(state):
        markers = _markers(*(rows.compress(np.isin(rows["producer_id"], events.ids)) for rows in (closed, empty)))
        affected = events.of(markers["producer_id"])
        indexes = last_before(
            markers["producer_id"], markers["marker_offset"], producer_ids[affected], offsets[affected]
        )
        affected, indexes = affected[indexes != NOTHING], indexes[indexes != NOTHING]
        later = take_rows(markers, indexes)
        later["highest_epoch"] = np.maximum(later["highest_epoch"], latest["highest_epoch"][affected])
        put_rows(latest, affected, later)
    return latest


class _EventsByProducer:
    """An index of events by producer id.

    Attributes:
        ids: the distinct producer ids of the events.
    """

    def __init__(self, producer_ids: IntArray) -> None:
        self._order = np.argsort(producer_ids, kind="stable")
        self.ids, self._starts = np.unique(producer_ids[self._order], return_index=True)
        self._ends = np.append(self._starts[1:], len(producer_ids))

    def of(self, producer_ids: IntArray) -> IntArray:
        """Return the indexes of the events of some producers."""
        groups = np.flatnonzero(np.isin(self.ids, producer_ids))
        starts, counts = self._starts[groups], self._ends[groups] - self._starts[groups]
        first = np.repeat(starts - np.cumsum(counts) + counts, counts)
        events: IntArray = self._order[first + np.arange(len(first))]
        return events


def with_markers_before(state: PartitionState) -> Iterator[tuple[TransactionArray, ProducerMarkerArray]]:
    """Yield all transactions page by page, each with the last marker of its producer below its first offset.

    Yields:
        TRANSACTION records, and PRODUCER_MARKER records as :func:`markers_before` returns them.
    """
    latest = np.empty(0, PRODUCER_MARKER)
    for closed, empty in marker_pages(state):
        known = np.isin(latest["producer_id"], np.concatenate([closed["producer_id"], empty["producer_id"]]))
        markers = _markers(closed, empty, take_rows(latest, known))
        yield closed, _before(markers, closed)
        is_last = np.append(np.diff(markers["producer_id"]) != 0, True)[: len(markers)]
        latest = concat_rows([take_rows(latest, ~known), take_rows(markers, is_last)])
    opened = state.open_transactions
    yield opened, _before(latest, opened)


def _before(markers: ProducerMarkerArray, transactions: TransactionArray) -> ProducerMarkerArray:
    ids, offsets = transactions["producer_id"], transactions["first_offset"]
    no_marker = np.full(1, NOTHING, PRODUCER_MARKER)
    return take_rows(
        concat_rows([markers, no_marker]),
        last_before(markers["producer_id"], markers["marker_offset"], ids, offsets),
    )


def have_marker_since(state: PartitionState, producer_ids: IntArray, offset: int) -> BoolArray:
    """Return which producers have a marker at or after an offset."""
    empty = state.empty_markers
    have_marker: BoolArray = np.isin(producer_ids, empty["producer_id"][empty["marker_offset"] >= offset])
    for rows in state.transaction_store.since(offset):
        have_marker |= np.isin(producer_ids, rows["producer_id"][rows["marker_offset"] >= offset])
    return have_marker


def epochs_bumped_by_transactions(state: PartitionState, producer_ids: IntArray) -> BoolArray:
    """Return which producers have markers that bump the epoch as those of transaction version 2 do.

    A COMMIT above the epoch of its data is one. So is an ABORT with whose epoch the producer went on: up to version 1
    such an abort fences the producer, which gets a still higher epoch.
    Rule: ``TransactionMetadata.prepareFenceProducerEpoch`` and ``prepareIncrementProducerEpoch``.
    """
    are_bumped: BoolArray = np.zeros(len(producer_ids), bool)
    for transactions, before in with_markers_before(state) if len(producer_ids) else ():
        by_commit = (transactions["outcome"] == TransactionOutcome.COMMITTED) & (
            transactions["marker_epoch"] > transactions["highest_epoch"]
        )
        goes_on = (before["data_epoch"] != NOTHING) & (before["marker_epoch"] > before["data_epoch"])
        goes_on &= transactions["lowest_epoch"] == before["marker_epoch"]
        are_bumped |= np.isin(producer_ids, transactions["producer_id"][by_commit | goes_on])
    return are_bumped


def last_before(past_ids: IntArray, past_offsets: IntArray, producer_ids: IntArray, offsets: IntArray) -> IntArray:
    """Return, for each event, the index of the last past event of the same producer below its offset.

    Args:
        past_ids: producer ids of the past events.
        past_offsets: offsets of the past events.
        producer_ids: producer ids of the events.
        offsets: offsets of the events.

    Returns:
        Indexes into the past events, NOTHING where there is none.
    """
    if not len(past_ids) or not len(producer_ids):
        return np.full(len(producer_ids), NOTHING, "i8")
    is_past = np.repeat([True, False], [len(past_ids), len(producer_ids)])
    ids = np.concatenate([past_ids, producer_ids])
    # At the same offset an event sorts before the past event, so that it does not match it.
    order = np.lexsort((is_past, np.concatenate([past_offsets, offsets]), ids))
    ranks = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(is_past[order], ranks, NOTHING))
    matches = np.where((latest >= 0) & (ids[order[latest]] == ids[order]), order[latest], NOTHING)
    unsorted = np.empty(len(order), "i8")
    unsorted[order] = matches
    indexes: IntArray = unsorted[len(past_ids) :]
    return indexes


def transactions_before(state: PartitionState, producer_ids: IntArray, offsets: IntArray) -> TransactionArray:
    """Return, for each event, the last transaction of the same producer that begins below its offset.

    Args:
        state: the partition.
        producer_ids: producer ids of the events.
        offsets: offsets of the events.

    Returns:
        TRANSACTION records, with NOTHING in all fields where there is none.
    """
    latest = np.full(len(producer_ids), NOTHING, TRANSACTION)
    remaining = np.arange(len(latest))
    store = state.transaction_store
    page_count = store.closed.page_count if len(remaining) else 0
    for number in range(page_count, -1, -1) if len(remaining) else ():
        if number < page_count and store.earliest_first_offset(number) >= offsets[remaining].max(initial=NOTHING):
            continue
        rows = store.closed.read(number) if number < page_count else state.open_transactions
        affected = remaining[_EventsByProducer(producer_ids[remaining]).of(rows["producer_id"])]
        indexes = last_before(rows["producer_id"], rows["first_offset"], producer_ids[affected], offsets[affected])
        put_rows(latest, affected[indexes != NOTHING], take_rows(rows, indexes[indexes != NOTHING]))
        remaining = remaining[latest["producer_id"][remaining] == NOTHING]
    return latest


def anomalies_of(state: PartitionState, *kinds: Anomaly) -> AnomalyArray:
    """Return the anomalies of some kinds, in log order."""
    anomalies = state.anomalies
    return anomalies.compress(np.isin(anomalies["kind"], kinds)) if len(anomalies) else anomalies


def sound_anomalies(state: PartitionState, kind: Anomaly) -> AnomalyArray:
    """Return the anomalies of a kind that no cleaner explains, without those of damaged batches, in log order."""
    anomalies = anomalies_of(state, kind)
    if not len(anomalies):
        return anomalies
    damaged = state.log_gaps.damaged
    is_damaged = damaged.have(anomalies["first_offset"]) | damaged.have(anomalies["previous_offset"])
    if len(damaged.after):  # only a damaged batch ends after the one that follows it
        is_damaged |= anomalies["previous_offset"] >= anomalies["first_offset"]
    return anomalies.compress((anomalies["first_offset"] >= state.first_uncompacted_offset) & ~is_damaged)


def is_expired(state: PartitionState, anomalies: AnomalyArray) -> BoolArray:
    """Return whether the producer must have expired on the leader between an anomaly and the event before it.

    Rule: ``ProducerStateManager.isProducerExpired``. The log does not record when a batch was appended. It was not
    appended before the timestamp of the marker that precedes it, and probably not before its own timestamp. A producer
    with an open transaction never expires.
    """
    if not len(anomalies):
        return np.zeros(0, bool)
    before, offsets = anomalies["previous_timestamp"], anomalies["first_offset"]
    appended = np.maximum(anomalies["timestamp"], marker_times(state, offsets))
    idle = (appended - before >= state.rules.pid_expiry_ms) | (before == NOTHING)
    ids = anomalies["producer_id"]
    expirations = observations_of(state.log.observations, Observed.PRODUCER_EXPIRED_BY_TIMESTAMP)
    idle |= last_before(expirations["producer_id"], expirations["first_offset"], ids, offsets) != NOTHING
    expired: BoolArray = idle & (before != NO_TIME) & ~_is_inside(state, anomalies)
    return expired


def _is_inside(state: PartitionState, anomalies: AnomalyArray) -> BoolArray:
    """Return whether a transaction was open from the event before each anomaly to the anomaly itself."""
    offsets = anomalies["first_offset"]
    latest = transactions_before(state, anomalies["producer_id"], offsets)
    is_open = (latest["marker_offset"] == NOTHING) | (latest["marker_offset"] >= offsets)
    same_producer = (latest["producer_id"] == anomalies["producer_id"]) & (latest["first_offset"] < offsets)
    inside: BoolArray = same_producer & is_open & (latest["first_offset"] <= anomalies["previous_offset"])
    return inside
