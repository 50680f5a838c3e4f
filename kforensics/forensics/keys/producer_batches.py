"""How each producer fills its batches, and when it wrote to a partition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.keys.key_columns import KeyColumns, record_sizes
from kforensics.forensics.keys.key_rows import NO_MINIMUM
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import CODEC_MASK, LOG_APPEND_TIME_BIT
from kforensics.parsers.log.records import HEADER_SIZE

if TYPE_CHECKING:
    import numpy.typing as npt

PRODUCER_BATCHES = np.dtype(
    [
        ("producer_id", "i8"),
        ("batches", "i8"),
        ("records", "i8"),
        ("keyless", "i8"),
        ("bytes", "i8"),  # stored size of the batches
        ("most_records", "i8"),  # in one batch
        ("most_bytes", "i8"),  # of one batch
        ("plain_bytes", "i8"),  # uncompressed size of the records of completely read batches
        ("stored_bytes", "i8"),  # stored size of the same records
        ("first_timestamp", "i8"),  # NO_MINIMUM if no record has a timestamp
        ("last_timestamp", "i8"),
        ("timed", "i8"),  # batches whose records have times of their own
        ("wait_ms", "i8"),  # from the first to the last record of each of these
        ("most_wait_ms", "i8"),  # of one batch
        ("joined_10ms", "i8"),  # how many batches these would be if those begun in the same 10 ms were one
        ("joined_100ms", "i8"),  # and in the same 100 ms
    ]
)
SUMS = ("batches", "records", "keyless", "bytes", "plain_bytes", "stored_bytes", "timed", "wait_ms")
HIGHEST = ("most_records", "most_bytes", "last_timestamp", "most_wait_ms")
LINGERS = {"joined_10ms": 10, "joined_100ms": 100}
# The default of batch.size, which limits joined batches; producers compare the uncompressed size with it.
BATCH_SIZE = 1 << 14
# When a batch was written: shows in which order a producer moved from partition to partition.
BATCH_TIME = np.dtype([("producer_id", "i8"), ("first_timestamp", "i8"), ("last_timestamp", "i8"), ("records", "i8")])
# Batches that would be one, if it were not for its size: begun by a producer in the same interval.
BATCH_RUN = np.dtype([("producer_id", "i8"), ("flush", "i8"), ("interval", "i8"), ("size", "i8"), ("batches", "i8")])
RUN_KEY = ("producer_id", "flush", "interval")
ProducerBatchesArray: TypeAlias = "npt.NDArray[np.void]"
BatchTimeArray: TypeAlias = "npt.NDArray[np.void]"
BatchRunArray: TypeAlias = "npt.NDArray[np.void]"
NO_RUNS = np.empty(0, BATCH_RUN)
# The times of the first batches with a producer id are kept, up to this number per partition.
MAX_BATCH_TIMES = 1 << 14
# Batches that are summed together; a row of one is far larger than its columns.
PART = 1 << 15


@dataclass(slots=True)
class BatchTotals:
    """Sums of batches by producer.

    Attributes:
        producers: PRODUCER_BATCHES, by producer id.
        batch_times: BATCH_TIMEs of the first batches.
        open_runs: by field of LINGERS, the last BATCH_RUN of each producer.
    """

    producers: ProducerBatchesArray
    batch_times: BatchTimeArray
    open_runs: dict[str, BatchRunArray]

    @classmethod
    def empty(cls) -> BatchTotals:
        """Return the totals of no batches."""
        return cls(np.empty(0, PRODUCER_BATCHES), np.empty(0, BATCH_TIME), dict.fromkeys(LINGERS, NO_RUNS))

    def add(self, batches: ProducerBatchesArray, flush: IntArray) -> None:
        """Add batches.

        Args:
            batches: PRODUCER_BATCHES, one per batch, in log order.
            flush: by batch, how many flushes are known to be before it in the partition: no batch spans one.
        """
        self.producers = totals_by_producer(concat_rows([self.producers, totals_by_producer(batches)]))
        for name in LINGERS:
            self._join(name, batches, flush)
        free = MAX_BATCH_TIMES - len(self.batch_times)
        with_id = np.flatnonzero((batches["producer_id"] >= 0) & (batches["last_timestamp"] >= 0))[:free]
        batch_times = np.empty(len(with_id), BATCH_TIME)
        for name in BATCH_TIME.names or ():
            batch_times[name] = batches[name][with_id]
        self.batch_times = concat_rows([self.batch_times, batch_times])

    def _join(self, name: str, batches: ProducerBatchesArray, flush: IntArray) -> None:
        """Add to the totals how many batches these would be, less what was counted before of a run that goes on."""
        (timed,) = np.nonzero(batches["timed"])
        before, rows = self.open_runs[name], np.empty(len(timed), BATCH_RUN)
        rows["producer_id"], rows["flush"], rows["batches"] = batches["producer_id"][timed], flush[timed], 1
        rows["interval"] = batches["first_timestamp"][timed] // LINGERS[name]
        rows["size"] = np.maximum(batches["plain_bytes"], batches["bytes"])[timed]
        rows = concat_rows([before, rows])
        runs = _runs(take_rows(rows, np.argsort(rows["producer_id"], kind="stable")))
        last = np.append(runs["producer_id"][1:] != runs["producer_id"][:-1], True)[: len(runs)]
        self.open_runs[name] = take_rows(runs, np.flatnonzero(last))
        for counted, joined in ((runs, _joined(runs)), (before, -_joined(before))):
            totals = np.searchsorted(self.producers["producer_id"], counted["producer_id"])
            np.add.at(self.producers[name], totals, joined)


def _runs(rows: BatchRunArray) -> BatchRunArray:
    """Return each run of BATCH_RUNs with the same key as one."""
    differs = np.any([rows[name][1:] != rows[name][:-1] for name in RUN_KEY], axis=0)
    starts = np.flatnonzero(np.append(True, differs)[: len(rows)])
    runs = take_rows(rows, starts)
    for name in ("size", "batches") if len(rows) else ():
        runs[name] = np.add.reduceat(rows[name], starts)
    return runs


def _joined(runs: BatchRunArray) -> IntArray:
    """Return how many batches each run would be."""
    joined: IntArray = np.minimum(-(-runs["size"] // BATCH_SIZE), runs["batches"])
    return joined


def totals_by_producer(rows: ProducerBatchesArray) -> ProducerBatchesArray:
    """Return one row for all PRODUCER_BATCHES of a producer, by producer id."""
    if not len(rows):
        return rows
    rows = take_rows(rows, np.argsort(rows["producer_id"], kind="stable"))
    starts = np.flatnonzero(np.append(True, rows["producer_id"][1:] != rows["producer_id"][:-1]))
    totals = take_rows(rows, starts)
    for name in (*SUMS, *LINGERS):
        totals[name] = np.add.reduceat(rows[name], starts)
    for name in HIGHEST:
        totals[name] = np.maximum.reduceat(rows[name], starts)
    totals["first_timestamp"] = np.minimum.reduceat(rows["first_timestamp"], starts)
    return totals


class BatchSizes:
    """Sums of the records of each batch of a split.

    Attributes:
        read_records: number of records read of each batch.
    """

    def __init__(self, batches: BatchColumns) -> None:
        self._batches = batches
        self.read_records, self._keyless, self._plain = (np.zeros(len(batches), "i8") for _ in range(3))
        self._first_timestamp = np.full(len(batches), NO_MINIMUM)
        self._last_timestamp = np.full(len(batches), -1)
        self._is_compressed = batches.attributes & CODEC_MASK != 0

    def add(self, columns: KeyColumns, batch: IntArray) -> None:
        """Add records, at least one, each with the index of its batch."""
        starts = np.flatnonzero(np.append(True, batch[1:] != batch[:-1]))
        indexes = batch[starts]
        self.read_records[indexes] += np.diff(np.append(starts, len(batch)))
        self._keyless[indexes] += np.add.reduceat((columns.key_size < 0).astype("i8"), starts)
        first = np.where(columns.timestamp < 0, NO_MINIMUM, columns.timestamp)
        self._first_timestamp[indexes] = np.minimum(self._first_timestamp[indexes], np.minimum.reduceat(first, starts))
        self._last_timestamp[indexes] = np.maximum(
            self._last_timestamp[indexes], np.maximum.reduceat(columns.timestamp, starts)
        )
        if self._is_compressed[indexes].any():
            self._plain[indexes] += np.add.reduceat(self._plain_sizes(columns, batch, starts), starts)

    def _plain_sizes(self, columns: KeyColumns, batch: IntArray, starts: IntArray) -> IntArray:
        # If the batch began in an earlier chunk, its base timestamp is slightly off.
        base = np.repeat(columns.timestamp[starts], np.diff(np.append(starts, len(batch))))
        return record_sizes(
            columns.key_size,
            columns.value_size,
            columns.header_size,
            columns.offset - self._batches.base_offset[batch],
            columns.timestamp - base,
            self._batches.magic[batch],
        )

    def add_to(self, totals: BatchTotals, flush: IntArray) -> None:
        """Add all batches with records to totals, in parts: one row for each of very many batches would be too much.

        Args:
            totals: the totals of the batches before.
            flush: by batch, see :meth:`BatchTotals.add`.
        """
        filled, start = np.flatnonzero(self.read_records), 0
        while start < len(filled):
            # Each part goes through all producers so far, so its size grows with their number.
            part = filled[start : start + max(PART, len(totals.producers))]
            totals.add(self._rows(part), flush[part])
            start += len(part)

    def _rows(self, filled: IntArray) -> ProducerBatchesArray:
        """Return PRODUCER_BATCHES, one for each of some batches with records."""
        batches = self._batches[filled]
        rows = np.zeros(len(filled), PRODUCER_BATCHES)
        rows["producer_id"], rows["batches"] = batches.producer_id, 1
        rows["records"], rows["keyless"] = self.read_records[filled], self._keyless[filled]
        rows["bytes"] = rows["most_bytes"] = batches.size
        rows["most_records"] = rows["records"]
        rows["first_timestamp"] = self._first_timestamp[filled]
        rows["last_timestamp"] = self._last_timestamp[filled]
        is_complete, is_compressed = rows["records"] >= batches.count, self._is_compressed[filled]
        stored = batches.size - HEADER_SIZE
        rows["stored_bytes"] = np.where(is_complete, stored, 0)
        rows["plain_bytes"] = np.where(is_complete, np.where(is_compressed, self._plain[filled], stored), 0)
        has_times = (rows["first_timestamp"] != NO_MINIMUM) & (batches.attributes & LOG_APPEND_TIME_BIT == 0)
        rows["timed"] = has_times
        rows["wait_ms"] = np.where(has_times, rows["last_timestamp"] - rows["first_timestamp"], 0)
        rows["most_wait_ms"] = rows["wait_ms"]
        return rows
