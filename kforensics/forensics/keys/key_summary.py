"""The keys and producers of one partition: a value that can be sent elsewhere and joined with those of its topic."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kforensics.forensics.duplicates.partition_duplicates import partition_reader
from kforensics.forensics.duplicates.record_reader import hidden_batches
from kforensics.forensics.keys.key_columns import KeyColumns, read_key_columns
from kforensics.forensics.keys.key_rows import (
    KEY_MEMORY_LIMIT,
    KEY_ROW,
    NO_MINIMUM,
    SEGMENT_SPAN,
    KeyAggregator,
    KeyRowArray,
    KeyRows,
    share_bounds,
)
from kforensics.forensics.keys.murmur2 import murmur2
from kforensics.forensics.keys.producer_batches import BatchSizes, BatchTimeArray, BatchTotals, ProducerBatchesArray
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.splits import SegmentSplit, splits_of
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns, concat_batches
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT, ignore_damage
from kforensics.parsers.kernels.policy import MIN_RECORD_BYTES, KernelLoader, KernelPolicy, kernels_for
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.file_rows import ReadOptions

__all__ = ["SAMPLE", "KeyCounts", "KeySummary", "key_summary"]

# Rows per partition from which the partition counts and the partitioner are derived.
SAMPLE = 4_096


@dataclass(frozen=True, slots=True)
class KeyCounts:
    """Numbers of records of a partition, or of a part of it.

    Attributes:
        records: records of users that a read_committed consumer receives.
        keyless: those of them without a key.
        hidden: records of aborted or open transactions; their keys are not counted.
        unread: batches whose records could not be read completely.
    """

    records: int = 0
    keyless: int = 0
    hidden: int = 0
    unread: int = 0

    def __add__(self, other: KeyCounts) -> KeyCounts:
        return KeyCounts(
            self.records + other.records,
            self.keyless + other.keyless,
            self.hidden + other.hidden,
            self.unread + other.unread,
        )


@dataclass(frozen=True, slots=True)
class KeySummary:
    """The keys of a partition, and how its producers fill their batches.

    Attributes:
        place: broker, log directory, topic and partition.
        folder: folder of its files.
        topic_id: from ``partition.metadata``, None without that file.
        paths: paths of its segments.
        log_start_offset: first offset that consumers can read.
        log_end_offset: offset after the last batch.
        is_compacted: whether the log cleaner has processed it, by the cleaner's checkpoint.
        counts: numbers of its records.
        keys: KEY_ROWs, at least one per key and producer.
        producers: PRODUCER_BATCHES by producer.
        batch_times: BATCH_TIMEs of its first batches.
    """

    place: Place
    folder: str
    topic_id: str | None
    paths: tuple[str, ...]
    log_start_offset: int
    log_end_offset: int
    is_compacted: bool
    counts: KeyCounts
    keys: KeyRows
    producers: ProducerBatchesArray
    batch_times: BatchTimeArray

    @property
    def number(self) -> int:
        """Partition number, -1 if the name of the folder does not contain it."""
        return -1 if self.place.partition is None else self.place.partition

    def share(self, share: int, shares: int) -> KeyRowArray:
        """Return the KEY_ROWs of share number ``share`` of ``shares``; a key is in the same share in all partitions."""
        return self.keys.between(*share_bounds(share, shares))

    def sampled(self) -> KeySummary:
        """Return the summary with a sample of its keys, enough for :func:`.partitioner_fit.sample_keys`."""
        return replace(self, keys=KeyRows(self.keys.lowest(SAMPLE)))


def key_summary(
    state: PartitionState,
    kernels: KernelPolicy = kernels_for,
    workers: int | None = None,
    *,
    memory_limit: int = KEY_MEMORY_LIMIT,
) -> KeySummary:
    """Return the keys and producers of a partition; reads its log once for batch headers and once for records.

    Calls share no state, so they can run in separate processes. Arguments and result can be sent to other machines,
    except for the temporary file of very many keys, which :meth:`KeySummary.share` returns in parts.

    Args:
        state: the examined partition.
        kernels: returns the compiled kernels if they pay off.
        workers: number of reading threads, 0 to read in the calling thread, None for one per processor.
        memory_limit: bytes of keys to keep in memory; the others go to a temporary file.

    Raises:
        InputError: a segment cannot be read.
    """
    reader = _KeyReader(state, kernels, workers, KeyAggregator(memory_limit))
    for split in splits_of(state.partition):
        reader.read(split)
    partition = state.partition
    return KeySummary(
        partition.place,
        partition.folder,
        partition.topic_id,
        tuple(segment.path for segment in partition.segments),
        state.local_log_start_offset,
        state.log_end_offset,
        state.first_dirty_offset is not None,
        reader.counts,
        reader.keys.finish(),
        reader.totals.producers,
        reader.totals.batch_times,
    )


class _KeyReader:
    """Reads the splits of a partition.

    Attributes:
        counts: numbers of the records read so far.
        keys: their keys.
        totals: sums of their batches.
    """

    def __init__(self, state: PartitionState, kernels: KernelPolicy, workers: int | None, keys: KeyAggregator) -> None:
        self._state, self._kernels, self._workers = state, kernels, workers
        self._hidden = partition_reader(state, kernels, workers).hidden
        self.counts, self.keys, self.totals = KeyCounts(), keys, BatchTotals.empty()
        self._markers = 0

    def read(self, split: SegmentSplit) -> None:
        """Read a split."""
        batches, markers_before = self._batches(split)
        is_hidden, sizes = hidden_batches(batches, self._hidden), BatchSizes(batches)
        reading = ReadOptions(records=True, start=split.start, stop=split.stop)
        segment = self._state.partition.segments[split.segment]
        least = MIN_RECORD_BYTES * int(batches.count.sum())  # a small file may decompress to much

        def kernels(size: int) -> KernelLoader | None:
            return self._kernels(max(size, least))

        for chunk in read_key_columns(segment, reading, kernels, self._workers):
            batch, is_counted = _batch_indexes(chunk, batches)
            columns, batch = (chunk, batch) if is_counted.all() else (chunk.take(is_counted), batch[is_counted])
            if len(batch):
                sizes.add(columns, batch)
                self._add_keys(columns, batches, batch, is_hidden[batch], split.segment)
        self.counts += KeyCounts(unread=int((sizes.read_records < batches.count).sum()))
        sizes.add_to(self.totals, markers_before)

    def _add_keys(
        self, columns: KeyColumns, batches: BatchColumns, batch: IntArray, is_hidden: BoolArray, segment: int
    ) -> None:
        in_log = columns.offset >= self._state.local_log_start_offset
        visible, keyless = in_log & ~is_hidden, columns.key_size < 0
        self.counts += KeyCounts(
            records=int(visible.sum()),
            keyless=int((visible & keyless).sum()),
            hidden=int((in_log & is_hidden).sum()),
        )
        keyed = np.flatnonzero(visible & ~keyless)
        if len(keyed):
            self.keys.add(_key_rows(columns.take(keyed), batches.producer_id[batch[keyed]], segment))

    def _batches(self, split: SegmentSplit) -> tuple[BatchColumns, IntArray]:
        """Return the data batches of a split with a valid checksum.

        With them comes how many markers are before each transactional one: the end of a transaction flushes a producer.
        """
        with open_source(self._state.partition.segments[split.segment].path) as source:
            chunks = batch_chunks(
                source,
                split.segment,
                ignore_damage,
                self._kernels,
                start=split.start,
                stop=split.stop,
                workers=self._workers,
            )
            data, before = list[BatchColumns](), [np.zeros(0, "i8")]
            for chunk in chunks:
                is_data = chunk.control == NO_CONTROL
                is_sound = is_data & chunk.crc_valid
                markers = self._markers + np.cumsum(~is_data)
                data.append(chunk[is_sound])
                before.append(np.where(chunk.attributes[is_sound] & TRANSACTIONAL_BIT, markers[is_sound], 0))
                self._markers += int((~is_data).sum())
                self.counts += KeyCounts(unread=int((is_data & ~is_sound).sum()))
        return concat_batches(data), np.concatenate(before)


def _batch_indexes(columns: KeyColumns, batches: BatchColumns) -> tuple[IntArray, BoolArray]:
    """Return the batch index of each record, and whether its batch is one of ``batches``."""
    if not len(batches):
        return np.zeros(len(columns), "i8"), np.zeros(len(columns), bool)
    starts = np.flatnonzero(np.append(True, columns.position[1:] != columns.position[:-1]))
    positions = columns.position[starts]
    indexes = np.minimum(np.searchsorted(batches.position, positions), len(batches) - 1)
    lengths = np.diff(np.append(starts, len(columns)))
    return np.repeat(indexes, lengths), np.repeat(batches.position[indexes] == positions, lengths)


def _key_rows(columns: KeyColumns, producer_ids: IntArray, segment: int) -> KeyRowArray:
    """Return a KEY_ROW for each record; all have keys."""
    rows = np.empty(len(columns), KEY_ROW)
    rows["murmur"], rows["identity"] = murmur2(columns.keys)
    rows["producer_id"], rows["records"] = producer_ids, 1
    rows["first_offset"], rows["first_position"] = columns.offset, segment * SEGMENT_SPAN + columns.position
    rows["last_tagged_offset"] = 2 * columns.offset + (columns.value_size < 0)
    rows["first_timestamp"] = np.where(columns.timestamp < 0, NO_MINIMUM, columns.timestamp)
    rows["last_timestamp"] = columns.timestamp
    return rows
