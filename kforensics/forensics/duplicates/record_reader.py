"""Reads the data records of a partition as hash columns, and keeps an entry for each record that may be a duplicate."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

import numpy as np

from kforensics.parsers.columns.hash_columns import HashColumns, hash_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT, Damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "RECORD_ENTRY",
    "BatchHeaders",
    "HiddenTransactionArray",
    "RecordChunk",
    "RecordEntryArray",
    "RecordReader",
    "ReportDamage",
    "hidden_batches",
    "hidden_transactions",
    "record_entries",
]

# Takes the index of a segment and damage in it.
ReportDamage: TypeAlias = Callable[[int, Damage], None]

# Sequences count from 0 to 2147483647, then start at 0 again.
MAX_SEQUENCE = 0x7FFFFFFF
HIDDEN_TRANSACTION = np.dtype([("producer_id", "i8"), ("first_offset", "i8"), ("marker_offset", "i8")])
HiddenTransactionArray: TypeAlias = "npt.NDArray[np.void]"
RECORD_ENTRY = np.dtype(
    [
        ("low", "u8"),
        ("high", "u8"),
        ("ordinal", "i8"),  # of the record among all data records of the partition
        ("batch", "i8"),  # ordinal of its batch
        ("index", "i4"),  # of the record in its batch
        ("count", "i4"),  # records in the batch that can be read
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
        ("timestamp", "i8"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("sequence", "i4"),  # -1 for none
        ("emptiness", "i1"),  # as in HashColumns
        ("has_create_time", "?"),  # whether the timestamp was set by the producer
        ("is_hidden", "?"),  # whether read_committed consumers do not receive it
    ]
)
RecordEntryArray: TypeAlias = "npt.NDArray[np.void]"


class BatchHeaders(Protocol):
    """The header columns that :func:`hidden_batches` needs; HashColumns and BatchColumns have them."""

    @property
    def base_offset(self) -> IntArray:
        """First offset of each batch."""

    @property
    def attributes(self) -> IntArray:
        """Attributes of each batch, as stored."""

    @property
    def producer_id(self) -> IntArray:
        """Producer id of each batch, -1 for none."""


@dataclass(frozen=True, slots=True)
class RecordReader:
    """Reads the data records of a partition.

    Attributes:
        paths: its segments, in order.
        hidden: its transactions that are not committed, see :func:`hidden_transactions`.
        last_stable_offset: read_committed consumers receive nothing from here on; None if there is no such limit.
        kernels: loads the compiled kernels, if that is worth it for so many bytes.
        workers: threads that read ahead, 0 for none, None for one per processor.
        first_uncompacted: index of the first segment that has offsets which were never compacted.
    """

    paths: Sequence[str]
    hidden: HiddenTransactionArray
    last_stable_offset: int | None = None
    kernels: KernelPolicy = kernels_for
    workers: int | None = None
    first_uncompacted: int = 0

    def chunks(self, report: ReportDamage) -> Iterator[RecordChunk]:
        """Yield the data records of all segments.

        Args:
            report: called with the index of a segment and damage in it.
        """
        records = batches = 0
        for segment, path in enumerate(self.paths):
            with open_source(path) as source:
                for columns in hash_chunks(source, partial(report, segment), self.kernels, workers=self.workers):
                    yield RecordChunk(columns, segment, records, batches - columns.is_continued)
                    records += len(columns)
                    batches += columns.new_batches

    def hides(self, batches: BatchHeaders) -> BoolArray:
        """Return which batches read_committed consumers do not receive."""
        hidden = hidden_batches(batches, self.hidden)
        if self.last_stable_offset is not None:
            hidden |= batches.base_offset >= self.last_stable_offset
        return hidden


@dataclass(frozen=True, slots=True)
class RecordChunk:
    """Consecutive data records of a segment.

    Attributes:
        columns: the records.
        segment: index of the segment.
        records_before: data records of the partition before this chunk.
        batches_before: batches with data records before the first one of this chunk.
    """

    columns: HashColumns
    segment: int
    records_before: int
    batches_before: int


def hidden_transactions(transactions: StructArray | None) -> HiddenTransactionArray:
    """Return the offset ranges of transactions that are not committed.

    Args:
        transactions: the transactions, None for none. Rows of TRANSACTION or of another dtype with ``producer_id``,
            ``first_offset`` and ``marker_offset``; open transactions have marker offset -1 and extend to the log end.
    """
    hidden = np.empty(0 if transactions is None else len(transactions), HIDDEN_TRANSACTION)
    if transactions is not None:
        for name in HIDDEN_TRANSACTION.names or ():
            hidden[name] = transactions[name]
        is_open = hidden["marker_offset"] < 0
        hidden["marker_offset"][is_open] = np.iinfo("i8").max
    return hidden


def hidden_batches(headers: BatchHeaders, hidden: HiddenTransactionArray) -> BoolArray:
    """Return which batches belong to a hidden transaction of their producer.

    Args:
        headers: the batches.
        hidden: the hidden transactions; those of one producer do not overlap.
    """
    nothing_hidden = np.zeros(len(headers.base_offset), bool)
    if not len(hidden) or not len(nothing_hidden):
        return nothing_hidden
    lowest, highest = headers.base_offset.min(), headers.base_offset.max()
    nearby = hidden[(hidden["first_offset"] <= highest) & (hidden["marker_offset"] > lowest)]
    is_transactional = (headers.attributes & TRANSACTIONAL_BIT != 0) & (headers.producer_id >= 0)
    if not len(nearby) or not is_transactional.any():
        return nothing_hidden
    # One integer for producer and offset, made of their ranks: offsets themselves may be too large for that.
    producers = np.unique(nearby["producer_id"])
    ranks = np.unique(np.concatenate([nearby["first_offset"], headers.base_offset]), return_inverse=True)[1]
    begins = np.searchsorted(producers, nearby["producer_id"]) * len(ranks) + ranks[: len(nearby)]
    order = np.argsort(begins)
    producer = np.minimum(np.searchsorted(producers, headers.producer_id), len(producers) - 1)
    index = np.searchsorted(begins[order], producer * len(ranks) + ranks[len(nearby) :], side="right") - 1
    latest = nearby[order][index]
    inside = (index >= 0) & (latest["producer_id"] == headers.producer_id)
    inside &= headers.base_offset < latest["marker_offset"]
    is_hidden: BoolArray = is_transactional & inside
    return is_hidden


def record_entries(chunk: RecordChunk, selected: BoolArray, reader: RecordReader) -> RecordEntryArray:
    """Return the entries of some records.

    Args:
        chunk: the records.
        selected: which of them.
        reader: knows which batches are hidden.
    """
    columns = chunk.columns
    rows = np.flatnonzero(selected)
    ends = np.cumsum(columns.records)
    batch = np.searchsorted(ends, rows, side="right")
    entries = np.empty(len(rows), RECORD_ENTRY)
    for name in ("low", "high", "offset", "timestamp", "emptiness"):
        entries[name] = getattr(columns, name)[rows]
    for name in ("position", "producer_id", "producer_epoch"):
        entries[name] = getattr(columns, name)[batch]
    entries["ordinal"] = chunk.records_before + rows
    entries["batch"] = chunk.batches_before + batch
    entries["count"] = columns.total[batch]
    entries["index"] = rows - (ends - columns.records - columns.first_index)[batch]
    entries["segment"] = chunk.segment
    entries["sequence"] = _sequences(columns, rows, batch)
    has_append_time = columns.attributes[batch] & LOG_APPEND_TIME_BIT != 0
    entries["has_create_time"] = ~has_append_time & (entries["timestamp"] >= 0)
    entries["is_hidden"] = reader.hides(columns)[batch]
    return entries


def _sequences(columns: HashColumns, rows: IntArray, batch: IntArray) -> IntArray:
    sequences = (columns.base_sequence[batch] + columns.offset[rows] - columns.base_offset[batch]) & MAX_SEQUENCE
    has_sequence = (columns.producer_id[batch] >= 0) & (columns.base_sequence[batch] >= 0)
    return np.where(has_sequence, sequences, -1)
