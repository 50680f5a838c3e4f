"""What stands in a log before an event of the same producer, for many events at once."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.case import Case
from kforensics.forensics.notes import Noticed, of_kind
from kforensics.forensics.replay.results import NO_TIME, Anomaly, Records

__all__ = [
    "MARKER",
    "NOTHING",
    "anomalies_of",
    "is_expired",
    "last_before",
    "marker_times",
    "markers_before",
    "markers_of",
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


def markers_of(case: Case, producer_ids: Records | None = None) -> Records:
    """Return the markers of a partition as MARKER records, by producer id and offset.

    Args:
        case: the partition.
        producer_ids: only markers of these; None for all.
    """
    closed, empty = case.closed_transactions, case.empty_markers
    if producer_ids is not None:
        closed, empty = (one.compress(np.isin(one["producer_id"], producer_ids)) for one in (closed, empty))
    markers = np.empty(len(closed) + len(empty), MARKER)
    for name in SAME:
        markers[name] = np.concatenate([closed[name], empty[name]])
    markers["data_epoch"][: len(closed)] = closed["highest_epoch"]
    markers["data_epoch"][len(closed) :] = NOTHING
    markers = markers.take(np.lexsort((markers["marker_offset"], markers["producer_id"])))
    producers = np.cumsum(np.diff(markers["producer_id"], prepend=markers["producer_id"][:1]) != 0) * EPOCHS
    markers["highest_epoch"] = np.maximum.accumulate(producers + markers["marker_epoch"]) - producers
    return markers


def markers_before(markers: Records, producer_ids: Records, offsets: Records) -> Records:
    """Return for each event the last marker of the same producer below its offset, with NOTHING in it if there is none.

    Args:
        markers: as ``markers_of`` gives them.
        producer_ids: of the events.
        offsets: theirs.
    """
    none = np.full(1, NOTHING, MARKER)
    found: Records = np.concatenate([markers, none])[
        last_before(markers["producer_id"], markers["marker_offset"], producer_ids, offsets)
    ]
    return found


def last_before(past_ids: Records, past_offsets: Records, producer_ids: Records, offsets: Records) -> Records:
    """Return for each event the index of the last one of the same producer below its offset; NOTHING where none is.

    Args:
        past_ids: producer ids of the events to choose from.
        past_offsets: their offsets.
        producer_ids: of the events asked about.
        offsets: theirs.
    """
    is_past = np.repeat([True, False], [len(past_ids), len(producer_ids)])
    ids = np.concatenate([past_ids, producer_ids])
    # At the same offset the one asked about goes first, so that it does not find the other.
    order = np.lexsort((is_past, np.concatenate([past_offsets, offsets]), ids))
    places = np.arange(len(order))
    latest = np.maximum.accumulate(np.where(is_past[order], places, NOTHING)) if len(order) else places
    before = np.where((latest >= 0) & (ids[order[latest]] == ids[order]), order[latest], NOTHING)
    found = np.empty(len(order), "i8")
    found[order] = before
    answers: Records = found[len(past_ids) :]
    return answers


def marker_times(case: Case, offsets: Records) -> Records:
    """Return the time of the last marker of anybody below each offset, NO_TIME where there is none.

    What stands behind it is no older, whatever timestamp a client gave it.
    """
    sources = (case.closed_transactions, case.empty_markers)
    places, times = (np.concatenate([one[name] for one in sources]) for name in ("marker_offset", "marker_timestamp"))
    order = np.argsort(places)
    times = np.append(times[order], NO_TIME)
    found: Records = times[np.searchsorted(places[order], offsets) - 1]
    return found


def anomalies_of(case: Case, *kinds: Anomaly) -> Records:
    """Return the anomalies of some kinds, in the order of the log."""
    return case.anomalies.compress(np.isin(case.anomalies["kind"], kinds))


def is_expired(case: Case, anomalies: Records) -> Records:
    """Return whether a leader had to forget the producer between the event before an anomaly and the anomaly.

    Rule: ``ProducerStateManager.isProducerExpired``. When a batch was appended is not in the log; it was not before the
    timestamp of the marker in front of it, and probably not before its own. A producer with an open transaction is
    never forgotten.
    """
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
    found = case.transactions
    if not len(found):
        return np.zeros(len(anomalies), bool)
    here = anomalies["first_offset"]
    around = found[last_before(found["producer_id"], found["first_offset"], anomalies["producer_id"], here)]
    is_open = (around["marker_offset"] == NOTHING) | (around["marker_offset"] >= here)
    mine = (around["producer_id"] == anomalies["producer_id"]) & (around["first_offset"] < here)
    inside: Records = mine & is_open & (around["first_offset"] <= anomalies["previous_offset"])
    return inside
