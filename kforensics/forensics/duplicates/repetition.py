"""Counts how usual it is in a partition that a record repeats an earlier one, in bounded memory.

That is the control for retries: a client sends a few records again, while in a topic of measurements or of events that
several producers report, much of the content repeats. Only records without a producer id count, in the part of the log
that was never compacted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.duplicates.record_reader import RecordChunk, RecordEntryArray
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["KINDS", "Repetition", "records_by_kind"]

# Kinds of timestamps: a retry keeps the timestamp of its producer, so with these only records of equal timestamps are
# repeats; timestamps of the broker show nothing.
KINDS = 2
NO_CREATE_TIME = -1
# Records to count at once.
COUNTED_ROWS = 1 << 17
OCCURRENCE = np.dtype(
    [
        ("low", "u8"),
        ("high", "u8"),
        ("timestamp", "i8"),  # NO_CREATE_TIME unless the producer set it
        ("ordinal", "i8"),
        ("batch", "i8"),
        ("is_repeat", "?"),
    ]
)
OccurrenceArray: TypeAlias = "npt.NDArray[np.void]"


def records_by_kind(chunk: RecordChunk) -> IntArray:
    """Return how many records of a chunk have no producer id: without and with a timestamp of their producer."""
    columns = chunk.columns
    has_no_producer = np.repeat(columns.producer_id < 0, columns.records)
    has_append_time = np.repeat(columns.attributes & LOG_APPEND_TIME_BIT != 0, columns.records)
    has_create_time = ~has_append_time & (columns.timestamp >= 0)
    return np.bincount(has_create_time[has_no_producer], minlength=KINDS).astype("i8")


class Repetition:
    """The repeats in a partition: records that equal one of the records shortly before.

    Args:
        first_segment: index of the first segment whose records count.
        distance: an equal record as many records or more before does not count.

    Attributes:
        records: number of records of each kind, see :func:`records_by_kind`.
        repeats: number of records of each kind that repeat an earlier one.
        repeated: number of contents of each kind that have such repeats.
        has_repeats_within_batches: whether a batch contains records of equal content and timestamp.
    """

    def __init__(self, first_segment: int, distance: int) -> None:
        self._first_segment, self._distance = first_segment, distance
        self.records, self.repeats, self.repeated = (np.zeros(KINDS, "i8") for _ in range(3))
        self.has_repeats_within_batches = False

    def add_records(self, segment: int, records: IntArray) -> None:
        """Count records of a segment, whether or not they repeat others."""
        if segment >= self._first_segment:
            self.records += records

    def counted(self, parts: Iterable[RecordEntryArray]) -> Iterator[RecordEntryArray]:
        """Yield the parts, and count their repeats.

        Args:
            parts: entries in log order, including all that share their content with one of them.
        """
        latest = np.empty(0, OCCURRENCE)
        for part in parts:
            for start in range(0, len(part), COUNTED_ROWS):
                latest = self._count(latest, self._occurrences(part[start : start + COUNTED_ROWS]))
            yield part

    def shares(self) -> npt.NDArray[np.float64]:
        """Return the share of the contents of each kind that have repeats."""
        contents = np.maximum(self.records - self.repeats, 1)
        shares: npt.NDArray[np.float64] = self.repeated / contents
        return shares

    def _occurrences(self, entries: RecordEntryArray) -> OccurrenceArray:
        entries = take_rows(entries, (entries["producer_id"] < 0) & (entries["segment"] >= self._first_segment))
        rows = np.empty(len(entries), OCCURRENCE)
        for name in ("low", "high", "ordinal", "batch"):
            rows[name] = entries[name]
        rows["timestamp"] = np.where(entries["has_create_time"], entries["timestamp"], NO_CREATE_TIME)
        rows["is_repeat"] = False
        return rows

    def _count(self, latest: OccurrenceArray, added: OccurrenceArray) -> OccurrenceArray:
        """Count the repeats among added rows, and return the latest row of each content that may still be repeated."""
        if not len(added):
            return latest
        rows = concat_rows([latest, added])
        rows = take_rows(rows, np.lexsort([rows[name] for name in ("timestamp", "high", "low")]))
        previous, current = rows[:-1], rows[1:]
        same = _are_same(previous, current)
        is_repeat = same & (current["ordinal"] - previous["ordinal"] < self._distance)
        current["is_repeat"] |= is_repeat
        kinds = (current["timestamp"] != NO_CREATE_TIME).astype("i8")
        self.repeats += np.bincount(kinds[is_repeat], minlength=KINDS)
        self.repeated += np.bincount(kinds[is_repeat & ~previous["is_repeat"]], minlength=KINDS)
        is_within = is_repeat & (kinds > 0) & (current["batch"] == previous["batch"])
        self.has_repeats_within_batches |= bool(is_within.any())
        is_latest = np.append(~same, True) & (rows["ordinal"] > added["ordinal"][-1] - self._distance)
        return take_rows(rows, is_latest)


def _are_same(previous: OccurrenceArray, current: OccurrenceArray) -> BoolArray:
    same: BoolArray = np.logical_and.reduce([previous[name] == current[name] for name in ("low", "high", "timestamp")])
    return same
