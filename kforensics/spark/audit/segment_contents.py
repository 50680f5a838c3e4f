"""The records of a large partition, looked into segment by segment: what they say, and which are there twice.

Three rounds, on workers: all hashes go to buckets, each with all that can be equal; a bucket sends those that occur
twice to whoever reads the segments once more; and what these know of such records goes to who judges the partition.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates import content_entries
from kforensics.forensics.duplicates.content import paired
from kforensics.forensics.duplicates.content_entries import ENTRY, Chunk, entries, hidden_intervals
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE
from kforensics.forensics.duplicates.partition_duplicates import batch_duplicates_of, reading_of
from kforensics.forensics.partition.log_chunk import Split
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.record_evidence import RecordEvidence, looked_through
from kforensics.parsers.kernels.policy import kernels_for
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import IN_SEGMENT, Reading, Travelling

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

# Bytes of log whose hashes come together, and the most buckets of a partition.
BEHIND_A_BUCKET = 1 << 28
MOST_BUCKETS = 1 << 12
# Behind all parts of a partition.
BEHIND_PARTS = 1 << 62
HASH_BITS = 64


@dataclass(frozen=True, slots=True)
class Hashes:
    """Some hashes of a bucket.

    Attributes:
        home: first slot of the partition for reading.
        segments: how many slots it has.
        final_slot: where it is judged.
        hashes: the first halves of hashes of records.
    """

    home: int
    segments: int
    final_slot: int
    hashes: Records


@dataclass(frozen=True, slots=True)
class Recorded:
    """What the records of a segment say.

    Attributes:
        records: how many there are.
        batches: how many hold them.
        evidence: what they say of their batches.
        failed: why the segment cannot be read, None if it can.
    """

    records: int
    batches: int
    evidence: RecordEvidence
    failed: InputError | None = None


@dataclass(frozen=True, slots=True)
class Suspects:
    """Records of a segment that may be there twice.

    Attributes:
        entries: ENTRY rows, counted from the beginning of the segment; which are hidden is not known yet.
        base_offset: of the batch of each.
        attributes: likewise.
    """

    entries: Records
    base_offset: Records
    attributes: Records

    @property
    def producer_id(self) -> Records:
        """Producer id of each."""
        found: Records = self.entries["producer_id"]
        return found


def hashes_of(address: Address, reading: Reading) -> Iterator[Travelling]:
    """Yield the hashes of the records of a segment, by bucket.

    A segment that cannot be read has none; who reads it again says so.
    """
    segment, partition = reading.split.segment, reading.partition
    home, many = address.split_slot - segment, len(partition.segments)
    buckets = buckets_for(reading.size)
    try:
        for turn, (columns, _) in enumerate(looked_through(partition, Split(segment), workers=0)):
            sorted_hashes = np.sort(columns.low) if columns else np.empty(0, "u8")
            for bucket, hashes in by_bucket(sorted_hashes, sorted_hashes, buckets):
                # Where they come from keeps what different segments send to one bucket apart.
                place = Address(address.partition, home + bucket, segment, 0, bucket, turn)
                yield place, Hashes(home, many, address.final_slot, hashes)
    except InputError:
        return


def buckets_for(size: int) -> int:
    """Return into how many buckets the hashes of so many bytes of log go; a power of two."""
    return min(1 << (size // BEHIND_A_BUCKET).bit_length(), MOST_BUCKETS)


def by_bucket(rows: Records, hashes: Records, buckets: int) -> Iterator[tuple[int, Records]]:
    """Yield the numbers of buckets with the rows whose hashes belong there.

    Args:
        rows: any rows.
        hashes: one for each of them, in ascending order.
        buckets: how many there are, a power of two.
    """
    bits = buckets.bit_length() - 1
    numbers = (hashes >> np.uint64(HASH_BITS - bits)) if bits else np.zeros(len(hashes), "u8")
    starts = np.searchsorted(numbers, np.arange(buckets + 1, dtype="u8"))
    for bucket in range(buckets):
        if starts[bucket] < starts[bucket + 1]:
            yield bucket, rows[starts[bucket] : starts[bucket + 1]]


def are_among(hashes: Records, some: Records) -> Records:
    """Return which hashes are among some that are sorted."""
    if not len(some):
        return np.zeros(len(hashes), bool)
    found: Records = some[np.minimum(np.searchsorted(some, hashes), len(some) - 1)] == hashes
    return found


def repeated_of(arriving: Iterable[Travelling], readers: int) -> Iterator[Travelling]:
    """Yield the hashes that occur twice in a bucket, for each task that reads the partition.

    Args:
        arriving: hashes, those of a bucket one after the other.
        readers: how many tasks read.
    """
    for (partition, bucket), some in groupby(arriving, lambda one: (one[0].partition, one[0].ordinal)):
        parts = [value for _, value in some]
        of = parts[0]
        hashes = np.sort(np.concatenate([part.hashes for part in parts]))
        twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
        for segment in range(min(of.segments, readers) if len(twice) else 0):
            yield Address(partition, of.home + segment, 0, of.final_slot, -1, bucket), twice


def records_of(arriving: Iterable[Travelling]) -> Iterator[Travelling]:
    """Yield what the records of segments say, and those that may be there twice.

    Args:
        arriving: of each partition the hashes that occur twice, then segments to read.
    """
    for _, some in groupby(arriving, lambda one: one[0].partition):
        twice = np.empty(0, "u8")
        for address, value in some:
            if isinstance(value, Reading):
                yield from _records_of(address, value, twice)
            else:
                # Buckets come in the order of their numbers, which are first bits.
                twice = np.concatenate([twice, value])


def _records_of(address: Address, reading: Reading, twice: Records) -> Iterator[Travelling]:
    place = replace(address, ordinal=BEHIND_PARTS + (address.ordinal >> IN_SEGMENT))
    unread = content_entries.Reading([], hidden_intervals(None))
    records = batches = 0
    evidence = RecordEvidence()
    suspects: list[Suspects] = []
    try:
        for columns, said in looked_through(reading.partition, reading.split, workers=0):
            evidence = evidence.merged(said)
            if columns:
                chunk = Chunk(columns, reading.split.segment, records, batches)
                suspects += _suspects(chunk, twice, unread)
                records, batches = records + len(columns), batches + len(columns.position)
    except InputError as error:
        yield place, Recorded(0, 0, evidence, error)
        return
    yield place, Recorded(records, batches, evidence)
    for sequence, some in enumerate(suspects, 1):
        yield replace(place, sequence=sequence), some


def _suspects(chunk: Chunk, twice: Records, unread: content_entries.Reading) -> list[Suspects]:
    is_wanted = are_among(chunk.columns.low, twice)
    if not is_wanted.any():
        return []
    found = entries(chunk, is_wanted, unread)
    batch = found["batch"] - chunk.batches_before
    return [Suspects(found, chunk.columns.base_offset[batch], chunk.columns.attributes[batch])]


def into_records(case: Case, arriving: Iterator[Recorded | Suspects]) -> Case:
    """Return a case with what its records say.

    Args:
        case: the partition.
        arriving: of each segment what its records say, then those that may be there twice.

    Raises:
        InputError: a segment could not be read.
    """
    counted = _Counted(arriving)
    reading = reading_of(case, kernels_for, 0)
    found = [np.empty(0, DUPLICATE), *batch_duplicates_of(case, reading)]
    found += paired(counted.entries(reading), lambda: counted.batches)
    return replace(case, records=counted.evidence, duplicates=np.concatenate(found))


class _Counted:
    """Counts records and batches from the beginning of the partition."""

    def __init__(self, arriving: Iterator[Recorded | Suspects]) -> None:
        self._arriving = arriving
        self.evidence = RecordEvidence()
        self.batches = 0

    def entries(self, reading: content_entries.Reading) -> Iterator[Records]:
        """Yield ENTRY rows as they are in the whole partition."""
        records = before = next_records = 0
        for value in self._arriving:
            if isinstance(value, Recorded):
                if value.failed:
                    raise value.failed
                self.evidence = self.evidence.merged(value.evidence)
                records, before = next_records, self.batches
                next_records, self.batches = next_records + value.records, self.batches + value.batches
                continue
            rows = np.empty(len(value.entries), ENTRY)
            rows[:] = value.entries
            rows["ordinal"] += records
            rows["batch"] += before
            rows["is_hidden"] = reading.hides(value)
            yield rows
