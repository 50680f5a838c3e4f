"""Rows made of records: many at a time."""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import ANOMALY, EMPTY_MARKER, NO_TIME, TRANSACTION, Anomaly, Ending, Records
from kforensics.forensics.replay.replay_rows import Rows
from kforensics.forensics.replay.summary_record import PENDING, REGION

__all__ = ["NO_PENDING", "NO_ROWS", "anomaly_rows", "closed_rows", "duplicate_rows", "open_rows", "pending_rows"]

NONE = -1
NO_ROWS, NO_PENDING = np.zeros(0, ANOMALY), np.zeros(0, PENDING)
OF_REGION = tuple(name for name in REGION.names or () if name != "begun")
OF_EVENT = ("producer_epoch", "timestamp", "segment", "position")


def anomaly_rows(
    kind: Anomaly | Records,
    producer_id: Records,
    event: Records,
    neighbour: Records | None = None,
    amount: Records | int = 0,
) -> Records:
    """Return ANOMALY records.

    Args:
        kind: of all, or of each.
        producer_id: producer ids.
        event: FIRST_BATCH or MARKER records of the events at which they show.
        neighbour: SEEN records of the events that those do not go with; None if there are none.
        amount: of all, or of each.
    """
    rows = np.zeros(len(event), ANOMALY)
    rows["kind"], rows["producer_id"], rows["amount"] = kind, producer_id, amount
    rows["first_offset"] = event["base_offset"]
    rows["last_offset"] = event["base_offset"] + event["offset_delta"]
    for name in OF_EVENT:
        rows[name] = event[name]
    if neighbour is None:
        rows["previous_offset"], rows["previous_timestamp"] = NONE, NO_TIME
    else:
        rows["previous_offset"], rows["previous_timestamp"] = neighbour["offset"], neighbour["timestamp"]
        rows["hole"] = event["holes"] - neighbour["holes"]
    return rows


def duplicate_rows(overlaps: Records, twin: Records) -> Records:
    """Return the rows of batches that repeat others, made of those that say they overlap.

    Args:
        overlaps: ANOMALY records.
        twin: RECENT_BATCH records of the batches they repeat.
    """
    rows = overlaps.copy()
    rows["kind"], rows["amount"] = Anomaly.SEQ_DUPLICATE_BATCH, twin["offset_delta"].astype("i8") + 1
    rows["previous_offset"], rows["previous_timestamp"] = twin["last_offset"], twin["timestamp"]
    return rows


def pending_rows(rows: Records, last_sequence: Records | int = 0, compared: Records | int = 0) -> Records:
    """Return PENDING records: anomalies that are not certain yet."""
    if not len(rows):
        return NO_PENDING
    pending = np.zeros(len(rows), PENDING)
    pending["row"], pending["last_sequence"], pending["compared"] = rows, last_sequence, compared
    return pending


def closed_rows(producer_id: Records, region: Records, marker: Records, *, exact: bool = True) -> Rows:
    """Return the transactions that markers end, and the markers that end none.

    Args:
        producer_id: producer ids.
        region: REGION records, what stands before the markers.
        marker: MARKER records.
        exact: whether nothing of the transactions can stand before the regions.
    """
    begun = region["begun"]
    if begun.all():
        return Rows.of(transactions=_transactions(producer_id, region, marker, exact=exact))
    empty = ~begun
    return Rows.of(
        transactions=_transactions(producer_id[begun], picked(region, begun), picked(marker, begun), exact=exact),
        empty_markers=_empty_markers(producer_id[empty], picked(marker, empty), exact=exact),
    )


def open_rows(producer_id: Records, region: Records, exact: Records) -> Records:
    """Return TRANSACTION records of regions that no marker ends; the arguments are as for ``closed_rows``."""
    rows = np.zeros(len(region), TRANSACTION)
    rows["producer_id"], rows["first_offset_exact"], rows["ending"] = producer_id, exact, Ending.OPEN
    for name in OF_REGION:
        rows[name] = region[name]
    for name in ("marker_offset", "marker_epoch", "coordinator_epoch", "marker_segment", "marker_position"):
        rows[name] = NONE
    rows["marker_timestamp"] = NO_TIME
    return rows


def _transactions(producer_id: Records, region: Records, marker: Records, *, exact: bool) -> Records:
    rows = np.zeros(len(region), TRANSACTION)
    rows["producer_id"], rows["first_offset_exact"] = producer_id, exact
    for name in OF_REGION:
        rows[name] = region[name]
    rows["marker_offset"], rows["marker_epoch"] = marker["base_offset"], marker["producer_epoch"]
    rows["coordinator_epoch"], rows["ending"] = marker["coordinator_epoch"], marker["ending"]
    rows["marker_timestamp"] = marker["timestamp"]
    rows["marker_segment"], rows["marker_position"] = marker["segment"], marker["position"]
    return rows


def _empty_markers(producer_id: Records, marker: Records, *, exact: bool) -> Records:
    rows = np.zeros(len(marker), EMPTY_MARKER)
    rows["producer_id"], rows["exact"] = producer_id, exact
    rows["marker_offset"], rows["marker_epoch"] = marker["base_offset"], marker["producer_epoch"]
    rows["marker_timestamp"] = marker["timestamp"]
    for name in ("coordinator_epoch", "ending", "segment", "position"):
        rows[name] = marker[name]
    return rows
