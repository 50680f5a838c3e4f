"""How each producer fills its batches, and when it wrote to this partition."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records

__all__ = ["MOMENT", "MOMENTS", "PRODUCER_BATCHES", "BatchTotals", "by_producer"]

PRODUCER_BATCHES = np.dtype(
    [
        ("producer_id", "i8"),
        ("batches", "i8"),
        ("records", "i8"),
        ("keyless", "i8"),
        ("bytes", "i8"),  # of the batches, as they are stored
        ("most_records", "i8"),  # in a batch
        ("most_bytes", "i8"),  # of a batch
        ("plain_bytes", "i8"),  # of the records of whole batches, before they were compressed
        ("stored_bytes", "i8"),  # of the same, as they are stored
        ("first_timestamp", "i8"),  # LATER if no record has any
        ("last_timestamp", "i8"),
    ]
)
SUMS = ("batches", "records", "keyless", "bytes", "plain_bytes", "stored_bytes")
HIGHEST = ("most_records", "most_bytes", "last_timestamp")
# When a batch was written: by that it can be told in which order a producer went from partition to partition.
MOMENT = np.dtype([("producer_id", "i8"), ("first_timestamp", "i8"), ("last_timestamp", "i8"), ("records", "i8")])
# Batches of a partition whose times are kept, the first ones with a producer id.
MOMENTS = 1 << 14


@dataclass(slots=True)
class BatchTotals:
    """Adds up batches.

    Attributes:
        producers: PRODUCER_BATCHES, by producer id.
        moments: MOMENT rows of the first batches.
    """

    producers: Records
    moments: Records

    @classmethod
    def empty(cls) -> BatchTotals:
        """Return the totals of no batches."""
        return cls(np.empty(0, PRODUCER_BATCHES), np.empty(0, MOMENT))

    def add(self, batches: Records) -> None:
        """Add PRODUCER_BATCHES, one for each batch, in the order of the log."""
        self.producers = by_producer(joined_records([self.producers, by_producer(batches)]))
        room = MOMENTS - len(self.moments)
        with_id = np.flatnonzero((batches["producer_id"] >= 0) & (batches["last_timestamp"] >= 0))[:room]
        moments = np.empty(len(with_id), MOMENT)
        for name in MOMENT.names or ():
            moments[name] = batches[name][with_id]
        self.moments = joined_records([self.moments, moments])


def by_producer(rows: Records) -> Records:
    """Return PRODUCER_BATCHES of which those of one producer are one, by producer id."""
    if not len(rows):
        return rows
    rows = picked(rows, np.argsort(rows["producer_id"], kind="stable"))
    starts = np.flatnonzero(np.append(True, rows["producer_id"][1:] != rows["producer_id"][:-1]))
    found = picked(rows, starts)
    for name in SUMS:
        found[name] = np.add.reduceat(rows[name], starts)
    for name in HIGHEST:
        found[name] = np.maximum.reduceat(rows[name], starts)
    found["first_timestamp"] = np.minimum.reduceat(rows["first_timestamp"], starts)
    return found
