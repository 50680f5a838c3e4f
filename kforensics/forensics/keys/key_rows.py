"""One row per key and producer of a partition, aggregated in bounded memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.spill_file import SpillFile
from kforensics.parsers.format.array_types import IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

KEY_ROW = np.dtype(
    [
        ("identity", "i8"),  # a 64-bit hash; together with the next field it identifies the key
        ("murmur", "i8"),  # Kafka's hash, made positive
        ("producer_id", "i8"),
        ("records", "i8"),
        ("first_offset", "i8"),
        ("first_position", "i8"),  # segment and position of the first record's batch, see SEGMENT_SPAN
        ("last_tagged_offset", "i8"),  # twice the offset of the last record, plus 1 if it is a tombstone
        ("first_timestamp", "i8"),  # smallest one, NO_MINIMUM if no record has a timestamp
        ("last_timestamp", "i8"),  # largest one, -1 if no record has a timestamp
    ]
)
KeyRowArray: TypeAlias = "npt.NDArray[np.void]"
# A segment number times this, plus a position; Kafka's positions are below 1 << 31.
SEGMENT_SPAN = 1 << 40
NO_MINIMUM = np.iinfo("i8").max
LOWEST = {"first_offset", "first_position", "first_timestamp"}
HIGHEST = {"last_tagged_offset", "last_timestamp"}
# Bytes of rows to keep in memory.
KEY_MEMORY_LIMIT = 32 << 20
# Rows to gather before those of the same key are merged.
GATHERED = 1 << 18
# The file is rewritten with merged rows once it has GROWTH times as many rows as keys, and LEAST rows.
GROWTH, LEAST = 2, 1 << 22
# The file is divided into buckets by the first bits of the identity.
BUCKET_BITS, IDENTITY_BITS = 10, 64
BUCKETS = 1 << BUCKET_BITS
# Spreads producer ids over all bits, so that keys and producers can be sorted by one number.
ODD = np.int64(-7046029254386353131)


@dataclass(frozen=True, slots=True, eq=False)
class KeyRows:
    """KEY_ROWs in memory or in a temporary file; there may be several of one key and producer.

    Attributes:
        rest: the rows in memory: all of them or none.
        file: the other rows, None if there are none.
        starts: one array per write to the file: the start of each bucket, and the end of the last one.
    """

    rest: KeyRowArray
    file: SpillFile | None = None
    starts: Sequence[IntArray] = ()

    def __len__(self) -> int:
        return len(self.rest) + sum(int(starts[-1] - starts[0]) for starts in self.starts)

    @property
    def is_in_memory(self) -> bool:
        """Whether none of the rows are in a file."""
        return self.file is None

    def between(self, first: int, last: int) -> KeyRowArray:
        """Return the rows with identities from ``first`` to ``last``, merged by key and producer."""
        rows = concat_rows([self.rest, self._read(*_buckets(np.array([first, last])).tolist())])
        is_inside = (rows["identity"] >= first) & (rows["identity"] <= last)
        return merged_rows(rows if is_inside.all() else take_rows(rows, is_inside))

    def _read(self, first_bucket: int, last_bucket: int) -> KeyRowArray:
        parts = [np.empty(0, KEY_ROW)]
        for starts in self.starts if self.file is not None else ():
            begin, end = int(starts[first_bucket]), int(starts[last_bucket + 1])
            if end > begin and self.file is not None:
                parts.append(self.file.read(begin, end - begin))
        return concat_rows(parts)

    def lowest(self, size: int) -> KeyRowArray:
        """Return the ``size`` rows with the lowest identities, a random sample of the keys; all if there are fewer."""
        shares = max(len(self) // (2 * size), 1)
        rows = self.between(*share_bounds(0, shares))
        while len(rows) < size and shares > 1:
            shares = max(shares // 4, 1)
            rows = self.between(*share_bounds(0, shares))
        return take_rows(rows, np.argsort(rows["identity"], kind="stable")[:size])


class KeyAggregator:
    """Takes KEY_ROWs in any order, and merges those of the same key and producer when memory runs short.

    Args:
        memory_limit: bytes of rows to keep in memory; the others go to a temporary file.
        least: rows in the file from which on merging them is worth a pass.
    """

    def __init__(self, memory_limit: int = KEY_MEMORY_LIMIT, least: int = LEAST) -> None:
        self._max_rows, self._least = max(memory_limit // KEY_ROW.itemsize, 1), least
        self._parts: list[KeyRowArray] = []
        self._merged: list[KeyRowArray] = []
        self._pending_count = self._merged_count = self._distinct_count = 0
        self._file: SpillFile | None = None
        self._starts: list[IntArray] = []

    def add(self, rows: KeyRowArray) -> None:
        """Add KEY_ROWs; the array is kept."""
        self._parts.append(rows)
        self._pending_count += len(rows)
        if self._pending_count > GATHERED:
            self._merge_pending()

    def _merge_pending(self) -> None:
        rows = merged_rows(concat_rows([np.empty(0, KEY_ROW), *self._parts]))
        self._parts, self._pending_count = [], 0
        self._merged.append(rows)
        self._merged_count += len(rows)
        if self._merged_count > self._max_rows:
            self._merge_all()

    def _merge_all(self) -> None:
        """Merge all rows in memory, and write them if that does not free enough of it."""
        rows = merged_rows(concat_rows(self._merged))
        self._merged, self._merged_count = [rows], len(rows)
        if 2 * len(rows) > self._max_rows:
            self._write()

    def _write(self) -> None:
        self._file = self._file or SpillFile(KEY_ROW)
        self._starts.append(_write_buckets(self._file, concat_rows(self._merged)))
        self._merged, self._merged_count = [], 0
        if self._rows_in_file > max(GROWTH * self._distinct_count, self._least):
            self._rewrite(self._file)

    @property
    def _rows_in_file(self) -> int:
        return sum(int(starts[-1] - starts[0]) for starts in self._starts)

    def _rewrite(self, old: SpillFile) -> None:
        """Write a new file with the merged rows of the old one, some buckets at a time."""
        old_rows, new = KeyRows(np.empty(0, KEY_ROW), old, self._starts), SpillFile(KEY_ROW)
        shares = min(self._rows_in_file // self._max_rows + 1, BUCKETS)
        starts = [_write_buckets(new, old_rows.between(*share_bounds(share, shares))) for share in range(shares)]
        self._file, self._starts = new, starts
        self._distinct_count = self._rows_in_file

    def finish(self) -> KeyRows:
        """Return the rows; none may be added after this call."""
        self._merge_pending()
        if self._file is None:
            return KeyRows(concat_rows([np.empty(0, KEY_ROW), *self._merged]))
        if self._merged:
            self._write()
        return KeyRows(np.empty(0, KEY_ROW), self._file, self._starts)


def _write_buckets(file: SpillFile, rows: KeyRowArray) -> IntArray:
    """Write rows by bucket; return the start of each bucket, and the end of the last one."""
    buckets = _buckets(rows["identity"])
    counts = np.bincount(buckets, minlength=BUCKETS)
    begin = file.append(take_rows(rows, np.argsort(buckets, kind="stable")))
    starts: IntArray = begin + np.concatenate([[0], np.cumsum(counts)])
    return starts


def _buckets(identities: IntArray) -> IntArray:
    buckets: IntArray = ((identities >> (IDENTITY_BITS - BUCKET_BITS)) + BUCKETS // 2).astype("u2")
    return buckets


def merged_rows(rows: KeyRowArray) -> KeyRowArray:
    """Return one row for all rows with the same identity, hash and producer, in unspecified order."""
    if not len(rows):
        return rows
    spread = rows["identity"] + rows["producer_id"] * ODD
    order = np.argsort(spread)
    spread = spread[order]
    same = spread[1:] == spread[:-1]
    equal = np.flatnonzero(same)
    first, second = order[equal], order[equal + 1]
    for name in ("identity", "murmur", "producer_id"):
        # Different rows rarely have the same number; a row may then be left unmerged, which does no harm.
        same[equal] &= rows[name][first] == rows[name][second]
    starts = np.flatnonzero(np.append(True, ~same))
    merged = take_rows(rows, order[starts])
    sizes = np.diff(np.append(starts, len(rows)))
    several = np.flatnonzero(sizes > 1)
    if len(several):
        # Most keys have one row, and reading their columns would take longer than everything else.
        repeated = take_rows(rows, order[np.repeat(sizes > 1, sizes)])
        begins = np.cumsum(sizes[several]) - sizes[several]
        merged["records"][several] = np.add.reduceat(repeated["records"], begins)
        for reduce, names in ((np.minimum, LOWEST), (np.maximum, HIGHEST)):
            for name in names:
                merged[name][several] = reduce.reduceat(repeated[name], begins)
    return merged


def share_bounds(share: int, shares: int) -> tuple[int, int]:
    """Return the first and the last identity of share number ``share``, if all keys are divided into ``shares``."""
    lowest, count = int(np.iinfo("i8").min), 1 << IDENTITY_BITS
    return lowest + count * share // shares, lowest + count * (share + 1) // shares - 1
