"""The data batches and markers of producers in a chunk of a log, ordered by producer and, for each, by the log."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import RECENT_BATCH, Records
from kforensics.forensics.replay.summary_record import FIRST_BATCH, MARKER, SEEN
from kforensics.parsers.columns.batch_columns import COMMIT, BatchColumns
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT

__all__ = ["Events", "edges", "holes_before"]

DIGIT_BITS = 16


@dataclass(frozen=True, slots=True)
class Events:
    """Events, of which all but a few columns stay where they are until somebody asks.

    Attributes:
        columns: the chunk.
        holes: for each batch of it, the offsets missing before it since the chunk began.
        order: where in the chunk the events stand.
        producer_id: of the events.
        producer_epoch: of the events.
        is_marker: whether they are markers.
        is_transactional: whether they are transactional data.
    """

    columns: BatchColumns
    holes: Records
    order: Records
    producer_id: Records
    producer_epoch: Records
    is_marker: Records
    is_transactional: Records

    @classmethod
    def of(cls, columns: BatchColumns, holes: Records) -> Events:
        """Return the events among batches: control batches that are no readable markers are none."""
        counts = (columns.producer_id >= 0) & (columns.control <= COMMIT)
        order = _by_producer(columns.producer_id, None if counts.all() else np.flatnonzero(counts))
        is_marker = columns.control[order] >= 0
        is_transactional = (columns.attributes[order] & TRANSACTIONAL_BIT).astype("?")
        return cls(
            columns=columns,
            holes=holes,
            order=order,
            producer_id=columns.producer_id[order],
            producer_epoch=columns.producer_epoch[order],
            is_marker=is_marker,
            is_transactional=is_transactional & ~is_marker,
        )

    def __len__(self) -> int:
        return len(self.order)

    def column(self, name: str, at: Records) -> Records:
        """Return a column of some of the events."""
        found: Records = getattr(self.columns, name)[self.order[at]]
        return found

    def seen(self, at: Records) -> Records:
        """Return SEEN records of some of the events."""
        found = np.empty(len(at), SEEN)
        found["offset"] = self.column("last_offset", at)
        found["timestamp"] = self.column("max_timestamp", at)
        found["holes"] = self.holes[self.order[at]]
        return found

    def batches(self, at: Records) -> Records:
        """Return FIRST_BATCH records of some of the events, which are data."""
        found = self._events(at, FIRST_BATCH)
        found["base_sequence"] = self.column("base_sequence", at)
        found["is_transactional"] = self.is_transactional[at]
        return found

    def markers(self, at: Records) -> Records:
        """Return MARKER records of some of the events, which are markers."""
        found = self._events(at, MARKER)
        found["coordinator_epoch"] = self.column("coordinator_epoch", at)
        found["ending"] = self.column("control", at)
        return found

    def recent(self, at: Records) -> Records:
        """Return RECENT_BATCH records of some of the events, which are data; the shape is that of ``at``."""
        found = np.empty(at.shape, RECENT_BATCH)
        found["last_sequence"] = self.column("last_sequence", at)
        found["last_offset"] = self.column("last_offset", at)
        found["offset_delta"] = found["last_offset"] - self.column("base_offset", at)
        found["timestamp"] = self.column("max_timestamp", at)
        return found

    def _events(self, at: Records, kind: np.dtype[np.void]) -> Records:
        found = np.empty(len(at), kind)
        found["producer_epoch"] = self.producer_epoch[at]
        found["base_offset"] = self.column("base_offset", at)
        found["offset_delta"] = self.column("last_offset", at) - found["base_offset"]
        found["timestamp"] = self.column("max_timestamp", at)
        found["holes"] = self.holes[self.order[at]]
        found["segment"] = self.column("segment", at)
        found["position"] = self.column("position", at)
        return found


def holes_before(columns: BatchColumns) -> Records:
    """Return how many offsets are missing before each batch, since the first one.

    An entry that does not tell its first offset has no hole before it that anybody could see.
    """
    missing = np.zeros(len(columns), "i8")
    np.subtract(columns.base_offset[1:], columns.last_offset[:-1], out=missing[1:])
    missing[1:] -= 1
    if not missing.any():
        return missing
    missing[(missing < 0) | ~columns.exact] = 0
    return np.cumsum(missing)


def edges(labels: Records) -> tuple[Records, Records]:
    """Return where runs of equal labels begin, and where they end: the index of the last in each."""
    if not len(labels):
        return np.zeros(0, "i8"), np.zeros(0, "i8")
    cuts = np.flatnonzero(labels[1:] != labels[:-1])
    return np.concatenate(([0], cuts + 1)), np.concatenate((cuts, [len(labels) - 1]))


def _by_producer(producer_id: Records, which: Records | None) -> Records:
    """Return the indexes of some batches by producer, those of one producer in the order they had.

    Numpy sorts numbers of 16 bits by radix, which is several times faster than any other sort; so ids are sorted digit
    by digit, as many digits as their range needs. They come from few blocks, so mostly that is one.
    """
    ids = producer_id if which is None else producer_id[which]
    order: Records = np.arange(len(ids)) if which is None else which
    if not len(ids) or not (ids[1:] < ids[:-1]).any():
        return order
    digits = ids - ids.min()
    found = np.argsort(digits.astype("u2"), kind="stable")
    for shift in range(DIGIT_BITS, int(digits.max()).bit_length(), DIGIT_BITS):
        digit = (digits[found] >> shift).astype("u2")
        found = found[np.argsort(digit, kind="stable")]
    return found if which is None else order[found]
