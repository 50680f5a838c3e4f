"""The data records of a partition, hashed, and what is kept of those that are looked at twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.parsers.columns.hash_columns import HashColumns, hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, Damage
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["ENTRY", "Batches", "Chunk", "Reading", "entries", "hidden_batches", "hidden_intervals"]

Report = Callable[[int, Damage], None]

# Sequences count from 0 to 2147483647 and on from 0.
LAST_SEQUENCE = 0x7FFFFFFF
HIDDEN = np.dtype([("producer_id", "i8"), ("first_offset", "i8"), ("marker_offset", "i8")])
ENTRY = np.dtype(
    [
        ("low", "u8"),
        ("high", "u8"),
        ("ordinal", "i8"),  # of the record among all data records
        ("batch", "i8"),  # ordinal of its batch
        ("index", "i4"),  # of the record in its batch
        ("count", "i4"),  # records in the batch
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
        ("timestamp", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("sequence", "i4"),  # -1 if there is none
        ("emptiness", "i1"),  # see HashColumns
        ("is_stamped", "?"),  # whether the timestamp is the producer's own
        ("is_hidden", "?"),  # whether a read_committed consumer does not get it
    ]
)


class Batches(Protocol):
    """Batches, as columns."""

    @property
    def base_offset(self) -> Records:
        """First offset of each."""

    @property
    def attributes(self) -> Records:
        """Attributes of each, as stored."""

    @property
    def producer_id(self) -> Records:
        """Producer id of each, -1 if there is none."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How to read a partition.

    Attributes:
        paths: its segments, in order.
        hidden: what :func:`hidden_intervals` returned of transactions that are not committed.
        last_stable_offset: a read_committed consumer gets no record from here on; None if it gets all.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        workers: threads that read, 0 for none beside the caller's, None for one per processor.
    """

    paths: Sequence[str]
    hidden: Records
    last_stable_offset: int | None = None
    kernels: Choice = kernels_for
    workers: int | None = None

    def chunks(self, report: Report) -> Iterator[Chunk]:
        """Yield the data records of all segments.

        Args:
            report: told of the number of a segment and damage in it.
        """
        records = batches = 0
        for segment, path in enumerate(self.paths):
            with open_source(path) as source:
                told = partial(report, segment)
                for columns in hash_chunks(source, told, self.kernels, workers=self.workers):
                    yield Chunk(columns, segment, records, batches)
                    records += len(columns)
                    batches += len(columns.position)

    def hides(self, batches: Batches) -> Records:
        """Return which batches a read_committed consumer gets nothing of."""
        hidden = hidden_batches(batches, self.hidden)
        if self.last_stable_offset is not None:
            hidden |= batches.base_offset >= self.last_stable_offset
        return hidden


@dataclass(frozen=True, slots=True)
class Chunk:
    """Data records of a segment.

    Attributes:
        columns: what they are.
        segment: number of the segment.
        records_before: data records of the partition before them.
        batches_before: batches of the partition before them that have data records.
    """

    columns: HashColumns
    segment: int
    records_before: int
    batches_before: int


def hidden_intervals(transactions: Records | None) -> Records:
    """Return HIDDEN rows.

    Args:
        transactions: rows with ``producer_id``, ``first_offset`` and ``marker_offset``, such as TRANSACTION, of
            transactions that are not committed; open ones have -1 for a marker and reach to the end of the log.
    """
    intervals = np.empty(0 if transactions is None else len(transactions), HIDDEN)
    if transactions is not None:
        for name in HIDDEN.names or ():
            intervals[name] = transactions[name]
        is_open = intervals["marker_offset"] < 0
        intervals["marker_offset"][is_open] = np.iinfo("i8").max
    return intervals


def hidden_batches(columns: Batches, hidden: Records) -> Records:
    """Return which batches lie in a hidden transaction of their producer.

    Args:
        columns: the batches.
        hidden: HIDDEN rows; those of one producer do not overlap.
    """
    found = np.zeros(len(columns.base_offset), bool)
    if not len(hidden) or not len(found):
        return found
    lowest, highest = columns.base_offset.min(), columns.base_offset.max()
    near = hidden[(hidden["first_offset"] <= highest) & (hidden["marker_offset"] > lowest)]
    of_transactions = (columns.attributes & TRANSACTIONAL_BIT != 0) & (columns.producer_id >= 0)
    if not len(near) or not of_transactions.any():
        return found
    # Producer and offset as one number each, made of their ranks: offsets themselves may be too large for that.
    producers = np.unique(near["producer_id"])
    ranks = np.unique(np.concatenate([near["first_offset"], columns.base_offset]), return_inverse=True)[1]
    begins = np.searchsorted(producers, near["producer_id"]) * len(ranks) + ranks[: len(near)]
    order = np.argsort(begins)
    wanted = np.minimum(np.searchsorted(producers, columns.producer_id), len(producers) - 1)
    at = np.searchsorted(begins[order], wanted * len(ranks) + ranks[len(near) :], side="right") - 1
    last = near[order][at]
    inside = (at >= 0) & (last["producer_id"] == columns.producer_id) & (columns.base_offset < last["marker_offset"])
    of_hidden: Records = of_transactions & inside
    return of_hidden


def entries(chunk: Chunk, is_wanted: Records, reading: Reading) -> Records:
    """Return ENTRY rows of some records.

    Args:
        chunk: records.
        is_wanted: which of them.
        reading: tells which are hidden.
    """
    columns = chunk.columns
    rows = np.flatnonzero(is_wanted)
    ends = np.cumsum(columns.records)
    batch = np.searchsorted(ends, rows, side="right")
    found = np.empty(len(rows), ENTRY)
    for name in ("low", "high", "offset", "timestamp", "emptiness"):
        found[name] = getattr(columns, name)[rows]
    for name in ("position", "producer_id", "producer_epoch"):
        found[name] = getattr(columns, name)[batch]
    found["ordinal"] = chunk.records_before + rows
    found["batch"] = chunk.batches_before + batch
    found["count"] = columns.records[batch]
    found["index"] = rows - ends[batch] + found["count"]
    found["segment"] = chunk.segment
    found["sequence"] = _sequences(columns, rows, batch)
    found["is_stamped"] = (columns.attributes[batch] & LOG_APPEND_TIME_BIT == 0) & (found["timestamp"] >= 0)
    found["is_hidden"] = reading.hides(columns)[batch]
    return found


def _sequences(columns: HashColumns, rows: Records, batch: Records) -> Records:
    sequences = (columns.base_sequence[batch] + columns.offset[rows] - columns.base_offset[batch]) & LAST_SEQUENCE
    has_one = (columns.producer_id[batch] >= 0) & (columns.base_sequence[batch] >= 0)
    return np.where(has_one, sequences, -1)
