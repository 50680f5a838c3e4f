"""What stands in a log before an event of the same producer, for many events at once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kforensics.forensics.core.observations import Noticed, of_kind
from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import NO_TIME, TRANSACTION, Anomaly, Ending, Records
from kforensics.forensics.partition.marker_times import marker_ranges, marker_times
from kforensics.forensics.partition.partition_state import Case

__all__ = [
    "MARKER",
    "NOTHING",
    "anomalies_of",
    "are_raised_by_commits",
    "have_marker_since",
    "is_expired",
    "last_before",
    "markers_before",
    "transactions_before",
    "with_markers_before",
]

NOTHING = -1
MARKER = np.dtype(
    [
        ("producer_id", "i8"),
        ("marker_offset", "i8"),
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("ending", "i1"),
        ("marker_timestamp", "i8"),
        ("data_epoch", "i2"),  # highest one of the data it ended; NOTHING if it ended none, or if there is no marker
        ("highest_epoch", "i2"),  # of the producer's markers up to this one
    ]
)
SAME = ("producer_id", "marker_offset", "marker_epoch", "coordinator_epoch", "ending", "marker_timestamp")
# More than there are producer epochs.
EPOCHS = 1 << 17


def _markers(closed: Records, empty: Records, before: Records | None = None) -> Records:
    """Return MARKER records by producer id and offset.

    Args:
        closed: TRANSACTION records.
        empty: EMPTY_MARKER records.
        before: MARKER records of earlier markers, which come along; None for none.
    """
    markers = np.empty(len(closed) + len(empty), MARKER)
    for name in SAME:
        markers[name] = np.concatenate([closed[name], empty[name]])
    markers["data_epoch"][: len(closed)] = closed["highest_epoch"]
    markers["data_epoch"][len(closed) :] = NOTHING
    markers["highest_epoch"] = markers["marker_epoch"]
    markers = markers if before is None else joined_records([before, markers])
    markers = picked(markers, np.lexsort((markers["marker_offset"], markers["producer_id"])))
    producers = np.cumsum(np.diff(markers["producer_id"], prepend=markers["producer_id"][:1]) != 0) * EPOCHS
    markers["highest_epoch"] = np.maximum.accumulate(producers + markers["highest_epoch"]) - producers
    return markers


def markers_before(case: Case, producer_ids: Records, offsets: Records) -> Records:
    """Return for each event the last marker of the same producer below its offset.

    Args:
        case: the partition.
        producer_ids: of the events.
        offsets: theirs.

    Returns:
        MARKER records, with NOTHING in all fields where there is none.
    """
    found = np.full(len(producer_ids), NOTHING, MARKER)
    if not len(found):
        return found
    events = _ByProducer(producer_ids)
    for closed, empty in marker_ranges(case):
        markers = _markers(*(one.compress(np.isin(one["producer_id"], events.ids)) for one in (closed, empty)))
        asked = events.of(markers["producer_id"])
        at = last_before(markers["producer_id"], markers["marker_offset"], producer_ids[asked], offsets[asked])
        asked, at = asked[at != NOTHING], at[at != NOTHING]
        later = picked(markers, at)
        later["highest_epoch"] = np.maximum(later["highest_epoch"], found["highest_epoch"][asked])
        placed(found, asked, later)
    return found


class _ByProducer:
    """Events, of which those of some producers are quickly found.

    Attributes:
        ids: their producer ids, each once.
    """

    def __init__(self, producer_ids: Records) -> None:
        self._order = np.argsort(producer_ids, kind="stable")
        self.ids, self._starts = np.unique(producer_ids[self._order], return_index=True)
        self._ends = np.append(self._starts[1:], len(producer_ids))

    def of(self, producer_ids: Records) -> Records:
        """Return the indexes of the events of some producers."""
        which = np.flatnonzero(np.isin(self.ids, producer_ids))
        starts, counts = self._starts[which], self._ends[which] - self._starts[which]
        first = np.repeat(starts - np.cumsum(counts) + counts, counts)
        found: Records = self._order[first + np.arange(len(first))]
        return found


def with_markers_before(case: Case) -> Iterator[tuple[Records, Records]]:
    """Yield all transactions, as the ledger does, each with the last marker of its producer below its first offset.

    Yields:
        TRANSACTION records, and MARKER records as :func:`markers_before` returns them.
    """
    latest = np.empty(0, MARKER)
    for closed, empty in marker_ranges(case):
        known = np.isin(latest["producer_id"], np.concatenate([closed["producer_id"], empty["producer_id"]]))
        markers = _markers(closed, empty, picked(latest, known))
        yield closed, _before(markers, closed)
        is_last = np.append(np.diff(markers["producer_id"]) != 0, True)[: len(markers)]
        latest = joined_records([picked(latest, ~known), picked(markers, is_last)])
    opened = case.open_transactions
    yield opened, _before(latest, opened)


def _before(markers: Records, transactions: Records) -> Records:
    ids, offsets = transactions["producer_id"], transactions["first_offset"]
    none = np.full(1, NOTHING, MARKER)
    return picked(
        joined_records([markers, none]), last_before(markers["producer_id"], markers["marker_offset"], ids, offsets)
    )


def have_marker_since(case: Case, producer_ids: Records, offset: int) -> Records:
    """Return which producers have a marker at an offset or behind it."""
    empty = case.empty_markers
    found: Records = np.isin(producer_ids, empty["producer_id"][empty["marker_offset"] >= offset])
    for rows in case.ledger.since(offset):
        found |= np.isin(producer_ids, rows["producer_id"][rows["marker_offset"] >= offset])
    return found


def are_raised_by_commits(case: Case, producer_ids: Records) -> Records:
    """Return whether COMMITs of the producers raise their epochs, as those of transaction version 2 do."""
    found: Records = np.zeros(len(producer_ids), bool)
    for closed in case.ledger.closed if len(producer_ids) else ():
        raised = (closed["ending"] == Ending.COMMITTED) & (closed["marker_epoch"] > closed["highest_epoch"])
        found |= np.isin(producer_ids, closed["producer_id"][raised])
    return found


def last_before(past_ids: Records, past_offsets: Records, producer_ids: Records, offsets: Records) -> Records:
    """Return for each event the index of the last one of the same producer below its offset; NOTHING where none is.

    Args:
        past_ids: producer ids of the events to choose from.
        past_offsets: their offsets.
        producer_ids: of the events asked about.
        offsets: theirs.
    """
    if not len(past_ids) or not len(producer_ids):
        return np.full(len(producer_ids), NOTHING, "i8")
    is_past = np.repeat([True, False], [len(past_ids), len(producer_ids)])
    ids = np.concatenate([past_ids, producer_ids])
    # At the same offset the one asked about goes first, so that it does not find the other.
    order = np.lexsort((is_past, np.concatenate([past_offsets, offsets]), ids))
    places = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(is_past[order], places, NOTHING))
    before = np.where((latest >= 0) & (ids[order[latest]] == ids[order]), order[latest], NOTHING)
    found = np.empty(len(order), "i8")
    found[order] = before
    answers: Records = found[len(past_ids) :]
    return answers


def transactions_before(case: Case, producer_ids: Records, offsets: Records) -> Records:
    """Return for each event the last transaction of the same producer that begins below its offset.

    Args:
        case: the partition.
        producer_ids: of the events.
        offsets: theirs.

    Returns:
        TRANSACTION records, with NOTHING in all fields where there is none.
    """
    found = np.full(len(producer_ids), NOTHING, TRANSACTION)
    left = np.arange(len(found))
    ranges = case.ledger.closed.ranges if len(left) else 0
    for number in range(ranges, -1, -1) if len(left) else ():
        if number < ranges and case.ledger.earliest(number) >= offsets[left].max(initial=NOTHING):
            continue
        rows = case.ledger.closed.read(number) if number < ranges else case.open_transactions
        asked = left[_ByProducer(producer_ids[left]).of(rows["producer_id"])]
        at = last_before(rows["producer_id"], rows["first_offset"], producer_ids[asked], offsets[asked])
        placed(found, asked[at != NOTHING], picked(rows, at[at != NOTHING]))
        left = left[found["producer_id"][left] == NOTHING]
    return found


def anomalies_of(case: Case, *kinds: Anomaly) -> Records:
    """Return the anomalies of some kinds, in the order of the log."""
    found = case.anomalies
    return found.compress(np.isin(found["kind"], kinds)) if len(found) else found


def is_expired(case: Case, anomalies: Records) -> Records:
    """Return whether a leader had to forget the producer between the event before an anomaly and the anomaly.

    Rule: ``ProducerStateManager.isProducerExpired``. When a batch was appended is not in the log; it was not before the
    timestamp of the marker in front of it, and probably not before its own. A producer with an open transaction is
    never forgotten.
    """
    if not len(anomalies):
        return np.zeros(0, bool)
    before, here = anomalies["previous_timestamp"], anomalies["first_offset"]
    appended = np.maximum(anomalies["timestamp"], marker_times(case, here))
    silent = (appended - before >= case.rules.pid_expiry_ms) | (before == NOTHING)
    ids = anomalies["producer_id"]
    old = of_kind(case.log.notes, Noticed.PRODUCER_EXPIRED_BY_TIMESTAMP)
    silent |= last_before(old["producer_id"], old["first_offset"], ids, here) != NOTHING
    expired: Records = silent & (before != NO_TIME) & ~_is_inside(case, anomalies)
    return expired


def _is_inside(case: Case, anomalies: Records) -> Records:
    """Return whether a transaction was open from the event before each anomaly up to it."""
    here = anomalies["first_offset"]
    around = transactions_before(case, anomalies["producer_id"], here)
    is_open = (around["marker_offset"] == NOTHING) | (around["marker_offset"] >= here)
    mine = (around["producer_id"] == anomalies["producer_id"]) & (around["first_offset"] < here)
    inside: Records = mine & is_open & (around["first_offset"] <= anomalies["previous_offset"])
    return inside
