"""Records of any number put into an order in bounded memory, and given back range by range."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import copied, joined_records, owned, picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.spill_file import RowFile

__all__ = ["RANGE", "ROOM", "Sorted", "Sorting"]

Key = Callable[[Records], Any]

# Bytes of records that are kept in memory.
ROOM = 16 << 20
# Records of a range: so many that numpy's own overhead does not show, and few enough to be held several times over.
RANGE = 1 << 15


@dataclass(frozen=True, slots=True)
class _Piece:
    """Sorted records in the file.

    Attributes:
        first: number of the first.
        count: how many.
        last_key: key of the last.
    """

    first: int
    count: int
    last_key: int


class Sorting:
    """Takes records in any order; those with the same key stay in the order they came in.

    It is made for records that are nearly in order. Half of the room is for the newest, before which late ones may
    come; what is older goes into a temporary file, piece by piece. What comes later still stays in memory, and only
    where that is very much it is sorted into a file of its own, and all is merged in the end.

    Args:
        dtype: type of a record.
        key: returns what to sort records by, an integer each.
        room: bytes of records to keep in memory; sorting takes twice that for a moment.
        size: records of a range, at most; but for late ones, which all fit into the room.
    """

    def __init__(self, dtype: np.dtype[Any], key: Key, room: int = ROOM, size: int = RANGE) -> None:
        self._dtype, self._key, self._bytes, self._size = dtype, key, room, size
        self._room = max(room // dtype.itemsize, 4)
        self._parts: list[Records] = []
        self._pending = 0
        self._file: RowFile | None = None
        # In the file: what follows in order from its beginning, and what came too late for that.
        self._pieces: list[_Piece] = []
        self._late: list[list[_Piece]] = []

    def add(self, rows: Records) -> None:
        """Take records; the array is kept."""
        for first in range(0, len(rows), self._room):
            self._parts.append(owned(rows[first : first + self._room]))
            self._pending += len(self._parts[-1])
            if self._pending > self._room:
                self._write()

    def _write(self) -> None:
        rows = self._in_order()
        keys = self._key(rows)
        late = int(np.searchsorted(keys, self._pieces[-1].last_key)) if self._pieces else 0
        newest = max(late, len(rows) - self._room // 2)
        self._pieces += self._written(rows[late:newest])
        if late > self._room // 4:
            self._late.append(self._written(rows[:late]))
            late = 0
        self._parts = [copied(rows[:late]), copied(rows[newest:])]
        self._pending = late + len(rows) - newest

    def _in_order(self) -> Records:
        rows = joined_records(self._parts) if self._parts else np.empty(0, self._dtype)
        self._parts, self._pending = [], 0
        return _ordered(rows, self._key)

    def _written(self, rows: Records) -> list[_Piece]:
        self._file = self._file or RowFile(self._dtype)
        pieces = []
        for first in range(0, len(rows), self._size):
            some = rows[first : first + self._size]
            pieces.append(_Piece(self._file.append(some), len(some), int(self._key(some[-1:])[0])))
        return pieces

    def finish(self) -> Sorted:
        """Return the records in order; no others may be added."""
        rest = self._in_order()
        if not self._late:
            return Sorted(self._dtype, self._key, self._file, self._pieces, rest, self._size)
        merged = Sorting(self._dtype, self._key, self._bytes, self._size)
        for rows in self._merged(rest):
            merged.add(rows)
        return merged.finish()

    def _merged(self, rest: Records) -> Iterator[Records]:
        """Yield all records in order, from runs that each are in order; of one key, the earlier run goes first."""
        nothing = np.empty(0, self._dtype)
        runs = [_Run(self._file, pieces, nothing) for pieces in (self._pieces, *self._late)]
        runs.append(_Run(self._file, [], rest))
        block = max(self._room // (2 * len(runs)), 1)
        while True:
            for run in runs:
                run.load(block)
            keys = [self._key(run.rows) for run in runs]
            ends = [(int(key[-1]), at) for at, (run, key) in enumerate(zip(runs, keys, strict=True)) if run.goes_on]
            if not ends:
                yield _ordered(joined_records([run.rows for run in runs]), self._key)
                return
            # Behind the first of these ends its run may go on with records that belong before what others have there.
            bound, which = min(ends)
            sides: Any = ["right" if at <= which else "left" for at in range(len(runs))]
            cuts = [int(np.searchsorted(key, bound, side)) for key, side in zip(keys, sides, strict=True)]
            yield _ordered(joined_records([run.take(cut) for run, cut in zip(runs, cuts, strict=True)]), self._key)


class _Run:
    """Records in order, of which some are in memory.

    Attributes:
        rows: those that are.
    """

    def __init__(self, file: RowFile | None, pieces: Sequence[_Piece], rows: Records) -> None:
        self._file, self._left = file, [(piece.first, piece.count) for piece in reversed(pieces)]
        self.rows = rows

    @property
    def goes_on(self) -> bool:
        """Whether there are more behind those in memory."""
        return bool(self._left)

    def load(self, block: int) -> None:
        """See to it that there are some in memory."""
        if self._file is not None and self._left and not len(self.rows):
            first, count = self._left.pop()
            if count > block:
                self._left.append((first + block, count - block))
            self.rows = self._file.read(first, min(count, block))

    def take(self, count: int) -> Records:
        """Return so many."""
        taken, self.rows = self.rows[:count], self.rows[count:]
        return taken


def _ordered(rows: Records, key: Key) -> Records:
    keys = key(rows)
    if not (keys[1:] < keys[:-1]).any():
        return rows
    return picked(rows, np.argsort(keys, kind="stable"))


class Sorted:
    """Records in order, in memory or in a temporary file, as ranges that may be read again and again.

    Args:
        dtype: type of a record.
        key: what they are sorted by.
        file: holds the pieces.
        pieces: records in the file, in order.
        rest: records that are in memory, in order.
        size: records of a range, at most; but for those in memory that stand between those of a piece.

    Attributes:
        last_keys: for each range the key of its last record.
    """

    def __init__(  # noqa: PLR0913, PLR0917  # only Sorting makes it
        self,
        dtype: np.dtype[Any],
        key: Key,
        file: RowFile | None,
        pieces: Sequence[_Piece],
        rest: Records,
        size: int,
    ) -> None:
        self._dtype, self._key, self._file, self._rest = dtype, key, file, rest
        keys = key(rest)
        ends = [piece.last_key for piece in pieces]
        # A piece may begin with the key that the one before it ends with; what is in memory came later than both.
        cuts = [0, *np.searchsorted(keys, ends).tolist()]
        self._ranges = [(piece.first, piece.count, *cuts[at : at + 2]) for at, piece in enumerate(pieces)]
        behind = range(cuts[-1], len(rest), size)
        self._ranges += [(0, 0, first, min(first + size, len(rest))) for first in behind]
        self.last_keys = np.array(ends + [int(keys[min(at + size, len(rest)) - 1]) for at in behind], "i8")
        self._count = len(rest) + sum(piece.count for piece in pieces)

    def __len__(self) -> int:
        return self._count

    @property
    def ranges(self) -> int:
        """How many ranges there are."""
        return len(self._ranges)

    @property
    def is_in_memory(self) -> bool:
        """Whether none of the records are in a file."""
        return self._file is None

    def read(self, number: int) -> Records:
        """Return the records of a range."""
        first, count, begin, end = self._ranges[number]
        others = self._rest[begin:end]
        if self._file is None or not count:
            return others
        rows = self._file.read(first, count)
        return _ordered(joined_records([rows, others]), self._key) if end > begin else rows

    def __iter__(self) -> Iterator[Records]:
        for number in range(self.ranges):
            yield self.read(number)

    def between(self, first: int, last: int) -> Iterator[Records]:
        """Yield the records with a key from the first to the last, this included, range by range."""
        for number in range(int(np.searchsorted(self.last_keys, first)), self.ranges):
            rows = self.read(number)
            keys = self._key(rows)
            if keys[0] > last:
                return
            some = rows[np.searchsorted(keys, first) : np.searchsorted(keys, last, "right")]
            if len(some):
                yield some

    def at(self, first: int, last: int) -> Records:
        """Return the same in one array."""
        return joined_records([np.empty(0, self._dtype), *self.between(first, last)])
