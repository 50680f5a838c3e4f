"""What is known of each key of a partition: one row for each key and producer, kept in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.spill_file import RowFile

__all__ = ["IN_FILE", "KEY", "KEY_ROOM", "LATER", "KeyGathering", "KeyRows", "grouped", "share_bounds"]

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
# Bytes of rows that are kept in memory.
KEY_ROOM = 32 << 20
# Rows that are gathered before those of the same key are put together.
GATHERED = 1 << 18
# Rows are put together in the file too once there are this many times as many as there were keys.
GROWTH, LEAST = 2, 1 << 22
# Rows lie in the file by the first bits of their identity.
BUCKET_BITS, IDENTITY_BITS = 10, 64
BUCKETS = 1 << BUCKET_BITS
# Spreads producer ids over all bits, so that keys and producers can be sorted by one number.
ODD = np.int64(-7046029254386353131)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """KEY rows, in memory or in a temporary file; those of one key and producer may be several.

    Attributes:
        rest: those in memory: all of them or none.
        file: holds the others, None if there are none.
        starts: for each time rows were written, where those of each bucket begin and the last ones end.
    """

    rest: Records
    file: RowFile | None = None
    starts: Sequence[Records] = ()

    def __len__(self) -> int:
        return len(self.rest) + sum(int(starts[-1] - starts[0]) for starts in self.starts)

    @property
    def is_in_memory(self) -> bool:
        """Whether none of the rows are in a file."""
        return self.file is None

    def between(self, first: int, last: int) -> Records:
        """Return the rows of the identities from the first to the last, those of one key and producer as one."""
        rows = joined_records([self.rest, self._read(*_buckets(np.array([first, last])).tolist())])
        wanted = (rows["identity"] >= first) & (rows["identity"] <= last)
        return grouped(rows if wanted.all() else picked(rows, wanted))

    def _read(self, first: int, last: int) -> Records:
        parts = [np.empty(0, KEY)]
        for starts in self.starts if self.file is not None else ():
            begin, end = int(starts[first]), int(starts[last + 1])
            if end > begin and self.file is not None:
                parts.append(self.file.read(begin, end - begin))
        return joined_records(parts)

    def lowest(self, size: int) -> Records:
        """Return so many rows of the lowest identities, which are as good as drawn by lot; all if there are fewer."""
        shares = max(len(self) // (2 * size), 1)
        found = self.between(*share_bounds(0, shares))
        while len(found) < size and shares > 1:
            shares = max(shares // 4, 1)
            found = self.between(*share_bounds(0, shares))
        return picked(found, np.argsort(found["identity"], kind="stable")[:size])


class KeyGathering:
    """Takes rows of keys in any order, and puts those of the same key and producer together as room demands it.

    Args:
        room: bytes of rows to keep in memory; what does not fit goes into a temporary file.
        least: rows of which it is worth a pass to put those of the same key together.
    """

    def __init__(self, room: int = KEY_ROOM, least: int = LEAST) -> None:
        self._room, self._least = max(room // KEY.itemsize, 1), least
        self._parts: list[Records] = []
        self._grouped: list[Records] = []
        self._pending = self._kept = self._distinct = 0
        self._file: RowFile | None = None
        self._starts: list[Records] = []

    def add(self, rows: Records) -> None:
        """Take rows of KEY; the array is kept."""
        self._parts.append(rows)
        self._pending += len(rows)
        if self._pending > GATHERED:
            self._group()

    def _group(self) -> None:
        rows = grouped(joined_records([np.empty(0, KEY), *self._parts]))
        self._parts, self._pending = [], 0
        self._grouped.append(rows)
        self._kept += len(rows)
        if self._kept > self._room:
            self._group_all()

    def _group_all(self) -> None:
        """Put together what is in memory; where that does not make room, write it."""
        rows = grouped(joined_records(self._grouped))
        self._grouped, self._kept = [rows], len(rows)
        if 2 * len(rows) > self._room:
            self._write()

    def _write(self) -> None:
        self._file = self._file or RowFile(KEY)
        self._starts.append(_written(self._file, joined_records(self._grouped)))
        self._grouped, self._kept = [], 0
        if self._rows_in_file > max(GROWTH * self._distinct, self._least):
            self._fold(self._file)

    @property
    def _rows_in_file(self) -> int:
        return sum(int(starts[-1] - starts[0]) for starts in self._starts)

    def _fold(self, old: RowFile) -> None:
        """Put together what is in the file, some buckets at a time."""
        every, new = KeyRows(np.empty(0, KEY), old, self._starts), RowFile(KEY)
        shares = min(self._rows_in_file // self._room + 1, BUCKETS)
        starts = [_written(new, every.between(*share_bounds(share, shares))) for share in range(shares)]
        self._file, self._starts = new, starts
        self._distinct = self._rows_in_file

    def finish(self) -> KeyRows:
        """Return the rows; no others may be added."""
        self._group()
        if self._file is None:
            return KeyRows(joined_records([np.empty(0, KEY), *self._grouped]))
        if self._grouped:
            self._write()
        return KeyRows(np.empty(0, KEY), self._file, self._starts)


def _written(file: RowFile, rows: Records) -> Records:
    """Write rows by bucket, and return where each begins, and the last one ends."""
    buckets = _buckets(rows["identity"])
    counts = np.bincount(buckets, minlength=BUCKETS)
    begun = file.append(picked(rows, np.argsort(buckets, kind="stable")))
    starts: Records = begun + np.concatenate([[0], np.cumsum(counts)])
    return starts


def _buckets(identities: Records) -> Records:
    buckets: Records = ((identities >> (IDENTITY_BITS - BUCKET_BITS)) + BUCKETS // 2).astype("u2")
    return buckets


def grouped(rows: Records) -> Records:
    """Return rows of which those that are equal in identity, hash and producer are one, in no order to rely on."""
    if not len(rows):
        return rows
    spread = rows["identity"] + rows["producer_id"] * ODD
    order = np.argsort(spread)
    spread = spread[order]
    same = spread[1:] == spread[:-1]
    twins = np.flatnonzero(same)
    one, other = order[twins], order[twins + 1]
    for name in ("identity", "murmur", "producer_id"):
        # Unlike ones are a matter of chance; that they may then come more than once does no harm.
        same[twins] &= rows[name][one] == rows[name][other]
    starts = np.flatnonzero(np.append(True, ~same))
    found = picked(rows, order[starts])
    sizes = np.diff(np.append(starts, len(rows)))
    several = np.flatnonzero(sizes > 1)
    if len(several):
        # Most keys are there once, and reading their columns would take longer than all else.
        some = picked(rows, order[np.repeat(sizes > 1, sizes)])
        begins = np.cumsum(sizes[several]) - sizes[several]
        found["records"][several] = np.add.reduceat(some["records"], begins)
        for reduce, fields in ((np.minimum, LOWEST), (np.maximum, HIGHEST)):
            for name in fields:
                found[name][several] = reduce.reduceat(some[name], begins)
    return found


def share_bounds(share: int, shares: int) -> tuple[int, int]:
    """Return the first and the last identity of one of so many shares of all keys."""
    lowest, every = int(np.iinfo("i8").min), 1 << IDENTITY_BITS
    return lowest + every * share // shares, lowest + every * (share + 1) // shares - 1
