"""Reads the records of a large partition segment by segment: collects their evidence and finds duplicates.

This takes three stages on the workers: all hashes go to buckets, so that equal hashes meet; each bucket sends the
hashes that occur more than once to the tasks that read the segments again; and these send the entries of such records
to the task that evaluates the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain, groupby

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.duplicates.content_duplicates import duplicates_of_entries
from kforensics.forensics.duplicates.content_pairs import RetryWindow
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.duplicates.partition_duplicates import find_batch_duplicates, partition_reader
from kforensics.forensics.duplicates.record_reader import (
    RECORD_ENTRY,
    RecordChunk,
    RecordEntryArray,
    RecordReader,
    hidden_transactions,
    record_entries,
)
from kforensics.forensics.duplicates.repetition import KINDS, Repetition, records_by_kind
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.record_evidence import RecordEvidence, iter_hash_chunks
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import IN_SEGMENT, AddressedValue, Reading

__all__ = [
    "Recorded",
    "Suspects",
    "are_among",
    "buckets_for",
    "by_bucket",
    "hashes_of",
    "into_records",
    "records_of",
    "repeated_of",
]

# Bytes of log per bucket of hashes, and maximum number of buckets of a partition.
LOG_BYTES_PER_BUCKET = 1 << 28
MOST_BUCKETS = 1 << 12
# Ordinals of record evidence: after those of all splits.
AFTER_SPLITS = 1 << 62
HASH_BITS = 64


@dataclass(frozen=True, slots=True)
class Hashes:
    """Hashes of one segment that belong to one bucket.

    Attributes:
        home: first slot of the partition for reading.
        segments: number of its slots for reading.
        final_slot: slot of the task that evaluates it.
        hashes: the low halves of record hashes.
    """

    home: int
    segments: int
    final_slot: int
    hashes: IntArray


@dataclass(frozen=True, slots=True)
class Recorded:
    """The evidence of the records of a segment.

    Attributes:
        records: number of records.
        batches: number of batches that contain them.
        evidence: what the records show about their batches.
        segment: index of the segment.
        by_kind: number of records of each kind, see :func:`.repetition.records_by_kind`.
        failed: why the segment cannot be read, None if it can.
    """

    records: int
    batches: int
    evidence: RecordEvidence
    segment: int
    by_kind: IntArray
    failed: InputError | None = None


@dataclass(frozen=True, slots=True)
class Suspects:
    """Entries of records that may be duplicates.

    Attributes:
        entries: RECORD_ENTRY rows, counted from the beginning of the segment; ``is_hidden`` is not known yet.
        base_offset: base offset of the batch of each record.
        attributes: attributes of the batch of each record.
    """

    entries: RecordEntryArray
    base_offset: IntArray
    attributes: IntArray

    @property
    def producer_id(self) -> IntArray:
        """Producer id of each record."""
        producer_ids: IntArray = self.entries["producer_id"]
        return producer_ids


def hashes_of(address: Address, reading: Reading) -> Iterator[AddressedValue]:
    """Yield the hashes of the records of a segment, by bucket.

    A segment that cannot be read yields none; the task that reads it again reports the error.
    """
    segment, partition = reading.split.segment, reading.partition
    home, count = address.split_slot - segment, len(partition.segments)
    buckets = buckets_for(reading.size)
    try:
        for sequence, (columns, _) in enumerate(iter_hash_chunks(partition, SegmentSplit(segment), workers=0)):
            sorted_hashes = np.sort(columns.low) if columns else np.empty(0, "u8")
            for bucket, hashes in by_bucket(sorted_hashes, sorted_hashes, buckets):
                # The run slot is the segment here: it separates what different segments send to one bucket.
                target = Address(address.partition, home + bucket, segment, 0, bucket, sequence)
                yield target, Hashes(home, count, address.final_slot, hashes)
    except InputError:
        return


def buckets_for(size: int) -> int:
    """Return the number of buckets for the hashes of a log of this many bytes; a power of two."""
    return min(1 << (size // LOG_BYTES_PER_BUCKET).bit_length(), MOST_BUCKETS)


def by_bucket(rows: StructArray, hashes: IntArray, buckets: int) -> Iterator[tuple[int, StructArray]]:
    """Yield bucket numbers with the rows of each bucket; empty buckets are omitted.

    Args:
        rows: any rows.
        hashes: the hash of each row, ascending.
        buckets: number of buckets, a power of two.
    """
    bits = buckets.bit_length() - 1
    numbers = (hashes >> np.uint64(HASH_BITS - bits)) if bits else np.zeros(len(hashes), "u8")
    starts = np.searchsorted(numbers, np.arange(buckets + 1, dtype="u8"))
    for bucket in range(buckets):
        if starts[bucket] < starts[bucket + 1]:
            yield bucket, rows[starts[bucket] : starts[bucket + 1]]


def are_among(hashes: IntArray, candidates: IntArray) -> BoolArray:
    """Return a mask of the hashes that are among the candidates, which are sorted."""
    if not len(candidates):
        return np.zeros(len(hashes), bool)
    indexes = np.minimum(np.searchsorted(candidates, hashes), len(candidates) - 1)
    is_candidate: BoolArray = candidates[indexes] == hashes
    return is_candidate


def repeated_of(arriving: Iterable[AddressedValue], readers: int) -> Iterator[AddressedValue]:
    """Yield the hashes that occur more than once in a bucket, for each task that reads the partition.

    Args:
        arriving: hashes, grouped by bucket.
        readers: number of tasks that read.
    """
    for (partition, bucket), group in groupby(arriving, lambda pair: (pair[0].partition, pair[0].ordinal)):
        parts = [value for _, value in group]
        first = parts[0]
        hashes = np.sort(np.concatenate([part.hashes for part in parts]))
        repeated = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        for segment in range(min(first.segments, readers) if len(repeated) else 0):
            yield Address(partition, first.home + segment, 0, first.final_slot, -1, bucket), repeated


def records_of(arriving: Iterable[AddressedValue]) -> Iterator[AddressedValue]:
    """Yield the evidence of the records of segments, and the entries of possible duplicates.

    Args:
        arriving: for each partition the hashes that occur more than once, then the segments to read.
    """
    for _, group in groupby(arriving, lambda pair: pair[0].partition):
        repeated = np.empty(0, "u8")
        for address, value in group:
            if isinstance(value, Reading):
                yield from _records_of(address, value, repeated)
            else:
                # Buckets arrive by number, which is the first bits of their hashes: the result stays sorted.
                repeated = np.concatenate([repeated, value])


def _records_of(address: Address, reading: Reading, repeated: IntArray) -> Iterator[AddressedValue]:
    target = replace(address, ordinal=AFTER_SPLITS + (address.ordinal >> IN_SEGMENT))
    without_transactions = RecordReader([], hidden_transactions(None))
    records = batches = 0
    evidence = RecordEvidence()
    by_kind, segment = np.zeros(KINDS, "i8"), reading.split.segment
    suspects: list[Suspects] = []
    try:
        for columns, chunk_evidence in iter_hash_chunks(reading.partition, reading.split, workers=0):
            evidence = evidence.merged(chunk_evidence)
            if columns:
                chunk = RecordChunk(columns, segment, records, batches - columns.is_continued)
                by_kind += records_by_kind(chunk)
                suspects += _suspects(chunk, repeated, without_transactions)
                records, batches = records + len(columns), batches + columns.new_batches
    except InputError as error:
        yield target, Recorded(0, 0, evidence, segment, by_kind, error)
        return
    yield target, Recorded(records, batches, evidence, segment, by_kind)
    for sequence, chunk_suspects in enumerate(suspects, 1):
        yield replace(target, sequence=sequence), chunk_suspects


def _suspects(chunk: RecordChunk, repeated: IntArray, reader: RecordReader) -> list[Suspects]:
    is_repeated = are_among(chunk.columns.low, repeated)
    if not is_repeated.any():
        return []
    entries = record_entries(chunk, is_repeated, reader)
    batch = entries["batch"] - chunk.batches_before
    return [Suspects(entries, chunk.columns.base_offset[batch], chunk.columns.attributes[batch])]


def into_records(state: PartitionState, arriving: Iterator[Recorded | Suspects]) -> PartitionState:
    """Return a partition state with the evidence of its records and its duplicates.

    Args:
        state: the partition state.
        arriving: for each segment the evidence of its records, then the entries of possible duplicates.

    Raises:
        InputError: a segment could not be read.
    """
    counted = _Counted(arriving)
    reader = partition_reader(state, kernels_for, 0)
    repetition = Repetition(reader.first_uncompacted, RetryWindow().offsets)
    found = duplicates_of_entries(counted.entries(reader, repetition), repetition)
    rows = chain(find_batch_duplicates(state, reader), found)
    duplicates = SpilledRows.of(DUPLICATE, rows)
    return replace(state, records=counted.evidence, duplicates=duplicates)


class _Counted:
    """Converts positions in segments to positions in the partition, by counting records and batches.

    Args:
        arriving: as for :func:`into_records`.
    """

    def __init__(self, arriving: Iterator[Recorded | Suspects]) -> None:
        self._arriving = arriving
        self.evidence = RecordEvidence()
        self.batches = 0

    def entries(self, reader: RecordReader, repetition: Repetition) -> Iterator[RecordEntryArray]:
        """Yield RECORD_ENTRY rows that are numbered from the beginning of the partition.

        Args:
            reader: knows which batches are hidden.
            repetition: counts all records.
        """
        records = batches = next_records = 0
        for value in self._arriving:
            if isinstance(value, Recorded):
                if value.failed:
                    raise value.failed
                self.evidence = self.evidence.merged(value.evidence)
                repetition.add_records(value.segment, value.by_kind)
                records, batches = next_records, self.batches
                next_records, self.batches = next_records + value.records, self.batches + value.batches
                continue
            rows = np.empty(len(value.entries), RECORD_ENTRY)
            rows[:] = value.entries
            rows["ordinal"] += records
            rows["batch"] += batches
            rows["is_hidden"] = reader.hides(value)
            yield rows
