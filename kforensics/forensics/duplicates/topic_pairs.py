"""Pairs of records of equal content in two partitions of a topic: which contents count, and which two make a pair.

There is no order of offsets across partitions, only that of timestamps. What comes again and again within a partition
is no event that could be told from another one, wherever else it stands: heartbeats, and values of which there are few.
"""

from __future__ import annotations

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_entries import ENTRY
from kforensics.forensics.duplicates.content_pairs import PAIR, Window, are_whole_batches, of_same_time
from kforensics.forensics.duplicates.duplicate_rows import Why

__all__ = [
    "GAP",
    "HASHED",
    "MOST_PARTITIONS",
    "OFTEN",
    "hashed",
    "numbers_of",
    "pairs_across",
    "places_of",
    "reasons_across",
    "shared",
    "telling_entries",
    "within_topic",
]

# A content that a partition has more often is not looked for in others.
OFTEN = 10
# So many records between two of a run may be such contents, or others that do not match.
GAP = 100
# Ordinals of a topic: above so many bits for the place in the partition is the partition's number.
IN_PARTITION = 40
MOST_PARTITIONS = 1 << 15
HASHED = np.dtype([("low", "u8"), ("partition", "i4"), ("records", "i4")])


def within_topic(rows: Records, number: int) -> Records:
    """Return ENTRY rows of a partition with the ordinals of records and batches that they have in the topic.

    Args:
        rows: ENTRY rows; they are changed in place.
        number: of the partition, below MOST_PARTITIONS.
    """
    for name in ("ordinal", "batch"):
        rows[name] += number << IN_PARTITION
    return rows


def numbers_of(ordinals: Records) -> Records:
    """Return the numbers of the partitions that ordinals of a topic belong to."""
    numbers: Records = ordinals >> IN_PARTITION
    return numbers


def places_of(ordinals: Records) -> Records:
    """Return the ordinals in their partitions that ordinals of a topic are."""
    places: Records = ordinals & ((1 << IN_PARTITION) - 1)
    return places


def hashed(low: Records, number: int) -> Records:
    """Return HASHED rows of some records of a partition, one for each hash."""
    hashes, counts = np.unique(low, return_counts=True)
    rows = np.empty(len(hashes), HASHED)
    rows["low"], rows["partition"], rows["records"] = hashes, number, np.minimum(counts, OFTEN + 1)
    return rows


def shared(rows: Records) -> Records:
    """Return a HASHED row for each hash and partition, of the hashes that several have and none of them too often.

    Args:
        rows: all rows of some hashes.
    """
    # Most hashes are there once, and sorting all their rows would take longer than all else.
    order = np.argsort(rows["low"])
    hashes = rows["low"][order]
    same = hashes[1:] == hashes[:-1]
    rows = _totals(picked(rows, order[np.append(same, False)[: len(rows)] | np.append(False, same)[: len(rows)]]))
    starts = np.flatnonzero(np.append(True, rows["low"][1:] != rows["low"][:-1])[: len(rows)])
    if not len(starts):
        return rows
    counts = np.diff(np.append(starts, len(rows)))
    wanted = (counts > 1) & (np.maximum.reduceat(rows["records"], starts) <= OFTEN)
    return picked(rows, np.repeat(wanted, counts))


def _totals(rows: Records) -> Records:
    """Return HASHED rows by hash and partition, one for each."""
    rows = picked(rows, np.lexsort([rows["partition"], rows["low"]]))
    new = np.append(True, (rows["low"][1:] != rows["low"][:-1]) | (rows["partition"][1:] != rows["partition"][:-1]))
    starts = np.flatnonzero(new[: len(rows)])
    found = picked(rows, starts)
    if len(starts):
        sums = np.add.reduceat(rows["records"].astype("i8"), starts)
        found["records"] = np.minimum(sums, OFTEN + 1)
    return found


def telling_entries(rows: Records) -> Records:
    """Return some of the entries, no more of a content and a partition than tell that it has it too often.

    Args:
        rows: ENTRY rows with ordinals of the topic.
    """
    order, _, of_place = _by_content(rows)
    starts = np.maximum.accumulate(np.where(of_place, 0, np.arange(len(rows))))
    return picked(rows, order[np.arange(len(rows)) - starts <= OFTEN])


def _by_content(rows: Records, *last: str) -> tuple[Records, Records, Records]:
    """Return the order of rows by content, some columns, partition and place there, and which are as the one before.

    Returns:
        The order; which rows in it have the content of the one before, and which ones the partition too.
    """
    order = np.lexsort([rows["ordinal"], *(rows[name] for name in reversed(last)), rows["high"], rows["low"]])
    same = np.zeros(len(rows), bool)
    low, high, number = rows["low"][order], rows["high"][order], numbers_of(rows["ordinal"])[order]
    same[1:] = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    of_place = same.copy()
    of_place[1:] &= number[1:] == number[:-1]
    return order, same, of_place


def pairs_across(rows: Records) -> Records:
    """Return PAIR rows: each record with the nearest one before it, by time, in another partition of the topic.

    Of two records of the same time that of the higher partition counts as the later. Where a read_committed consumer
    gets the record but not that earlier one, there is another pair with the nearest earlier one it gets.

    Args:
        rows: ENTRY rows with ordinals of the topic, all of some contents, or what :func:`telling_entries` leaves.
    """
    rows = _counting(rows)
    order, same, of_place = _by_content(rows, "timestamp")
    rows = picked(rows, order)
    earlier = _earlier(same, of_place)
    seen = np.flatnonzero(~rows["is_hidden"])
    other = np.full(len(rows), -1)
    visible = picked(rows, seen)
    _, same, of_place = _by_content(visible, "timestamp")
    of_seen = _earlier(same, of_place)
    other[seen[of_seen >= 0]] = seen[of_seen[of_seen >= 0]]
    other[other == earlier] = -1
    return joined_records([_pairs(rows, earlier), _pairs(rows, other)])


def _counting(rows: Records) -> Records:
    """Return the entries of contents that no partition has too often."""
    order, same, of_place = _by_content(rows)
    at = np.arange(len(rows))
    nth = at - np.maximum.accumulate(np.where(of_place, 0, at))
    starts = np.flatnonzero(~same)
    if not len(starts):
        return rows
    wanted = np.maximum.reduceat(nth, starts) < OFTEN
    return picked(rows, order[np.repeat(wanted, np.diff(np.append(starts, len(rows))))])


def _earlier(same: Records, of_place: Records) -> Records:
    """Return the index of the one before each row, in another partition, -1 if there is none."""
    stretch = np.maximum.accumulate(np.where(of_place, 0, np.arange(len(same))))
    return np.where(same[stretch], stretch - 1, -1)


def _pairs(rows: Records, earlier: Records) -> Records:
    found = np.flatnonzero(earlier >= 0)
    pairs = np.empty(len(found), PAIR)
    both = pairs.view(ENTRY).reshape(-1, 2)
    placed(both[:, 0], slice(None), picked(rows, earlier[found]))
    placed(both[:, 1], slice(None), picked(rows, found))
    return pairs


def reasons_across(pairs: Records, window: Window) -> Records:
    """Return why each of the pairs in two partitions is one; they are by view, in the order of the second writings.

    A producer sends each retry to the partition that it has chosen, so what comes to another one was sent again by an
    application: maybe with the same timestamp, maybe with its own one.
    """
    first, second = pairs["first"], pairs["second"]
    without = (first["producer_id"] < 0) & (second["producer_id"] < 0)
    near = without & (first["timestamp"] >= 0)
    near &= second["timestamp"] - first["timestamp"] < window.milliseconds
    return np.select(
        [
            near & of_same_time(pairs),
            near & are_whole_batches(pairs) & (second["count"] > 1),
            without,
            first["producer_id"] != second["producer_id"],
            first["producer_epoch"] != second["producer_epoch"],
        ],
        [Why.RETRY_SAME_TIME, Why.RETRY_WHOLE_BATCH, Why.NO_PRODUCER, Why.OTHER_PRODUCER, Why.OTHER_EPOCH],
        Why.SAME_PRODUCER,
    )
