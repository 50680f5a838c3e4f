"""What is known of each key of a partition: one row for each key and producer, kept in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kforensics.forensics.replay.record_arrays import joined_records, picked
from kforensics.forensics.replay.results import Records
from kforensics.forensics.sorting import Sorted, Sorting

__all__ = ["IN_FILE", "KEY", "KEY_ROOM", "LATER", "KeyGathering", "grouped", "share_bounds"]

KEY = np.dtype(
    [
        ("identity", "i8"),  # hash of 64 bits that tells keys apart, together with the next one
        ("murmur", "i8"),  # Kafka's hash, made positive
        ("producer_id", "i8"),
        ("records", "i8"),
        ("first_offset", "i8"),
        ("first_place", "i8"),  # of the batch of the first record: segment and position, see IN_FILE
        ("last_mark", "i8"),  # twice the offset of the last record, and one more if it is a tombstone
        ("first_timestamp", "i8"),  # smallest one, LATER if no record has any
        ("last_timestamp", "i8"),  # largest one, -1 if no record has any
    ]
)
# Positions in a segment are below this; Kafka's own are below 1 << 31.
IN_FILE = 1 << 40
LATER = np.iinfo("i8").max
LOWEST = {"first_offset", "first_place", "first_timestamp"}
HIGHEST = {"last_mark", "last_timestamp"}
# Bytes of rows that are kept in memory; identities come in no order at all, so that a little more spares much merging.
KEY_ROOM = 64 << 20
# Rows that are gathered before those of the same key are put together.
GATHERED = 1 << 18
# Rows are put together in the file too once there are this many more than there were keys.
GROWTH, LEAST = 2, 1 << 22


class KeyGathering:
    """Takes rows of keys in any order, and puts those of the same key and producer together as room demands it.

    Args:
        room: bytes of rows to keep in memory; what does not fit goes into a temporary file.
        least: rows of which it is worth a pass to put those of the same key together.
    """

    def __init__(self, room: int = KEY_ROOM, least: int = LEAST) -> None:
        self._room, self._least = room, least
        self._parts: list[Records] = []
        self._pending = self._rows = self._distinct = 0
        self._sorting = Sorting(KEY, _identity, room)

    def add(self, rows: Records) -> None:
        """Take rows of KEY; the array is kept."""
        self._parts.append(rows)
        self._pending += len(rows)
        if self._pending > GATHERED:
            self._group()

    def _group(self) -> None:
        rows = grouped(joined_records([np.empty(0, KEY), *self._parts]))
        self._parts, self._pending = [], 0
        self._sorting.add(rows)
        self._rows += len(rows)
        if self._rows > max(GROWTH * self._distinct, self._least):
            self._fold()

    def _fold(self) -> None:
        merged = Sorting(KEY, _identity, self._room)
        self._rows = 0
        for rows in _together(self._sorting.finish()):
            merged.add(rows)
            self._rows += len(rows)
        self._sorting, self._distinct = merged, self._rows

    def finish(self) -> Sorted:
        """Return the rows by identity; those of one key and producer may still be several, for :func:`grouped`."""
        self._group()
        return self._sorting.finish()


def _identity(rows: Records) -> Records:
    identity: Records = rows["identity"]
    return identity


def _together(ranges: Iterable[Records]) -> Iterator[Records]:
    """Yield rows in their order, of which those of one key and producer are one."""
    left = np.empty(0, KEY)
    for some in ranges:
        rows = joined_records([left, some])
        whole = int(np.searchsorted(rows["identity"], rows["identity"][-1])) if len(rows) else 0
        yield grouped(rows[:whole])
        left = rows[whole:]
    yield grouped(left)


def grouped(rows: Records, *names: str) -> Records:
    """Return rows by identity, of which those that are equal in it, the hash and the producer are one.

    Args:
        rows: records that have the fields of KEY, and maybe others.
        names: other fields in which they must be equal.
    """
    if not len(rows):
        return rows
    rows = picked(rows, np.argsort(rows["identity"], kind="stable"))
    same = rows["identity"][1:] == rows["identity"][:-1]
    others = ("murmur", "producer_id", *names)
    if any((same & (rows[name][1:] != rows[name][:-1])).any() for name in others):
        rows = picked(rows, np.lexsort([rows[name] for name in (*reversed(others), "identity")]))
        same = np.logical_and.reduce([rows[name][1:] == rows[name][:-1] for name in ("identity", *others)])
    starts = np.flatnonzero(np.append(True, ~same))
    found = picked(rows, starts)
    sizes = np.diff(np.append(starts, len(rows)))
    several = np.flatnonzero(sizes > 1)
    if len(several):
        # Most keys are there once, and reading their columns would take longer than all else.
        some = picked(rows, np.repeat(sizes > 1, sizes))
        begins = np.cumsum(sizes[several]) - sizes[several]
        found["records"][several] = np.add.reduceat(some["records"], begins)
        for reduce, fields in ((np.minimum, LOWEST), (np.maximum, HIGHEST)):
            for name in fields:
                found[name][several] = reduce.reduceat(some[name], begins)
    return found


def share_bounds(share: int, shares: int) -> tuple[int, int]:
    """Return the first and the last identity of one of so many shares of all keys."""
    lowest, every = np.iinfo("i8").min, 1 << 64
    return int(lowest) + every * share // shares, int(lowest) + every * (share + 1) // shares - 1
