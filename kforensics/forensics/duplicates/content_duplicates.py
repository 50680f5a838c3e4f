"""Finds records whose key, value and headers equal those of an earlier record of the partition, in bounded memory.

The first pass reads only the hashes of all records, eight bytes each, and groups them into buckets by their first bits,
in memory or in a temporary file. Sorting a bucket shows which hashes repeat. If none does, the search ends. Otherwise a
second pass reads the entries of those records, and of some whose hashes merely start with the same bits, and groups
them into buckets in the same way. Within a bucket, entries whose whole hashes are equal are paired.

How often content recurs distinguishes retries from what is sent periodically, such as heartbeats.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import numpy as np

from kforensics.forensics.core.hash_buckets import HashBuckets
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.spill_file import SpilledRows
from kforensics.forensics.duplicates.content_pairs import (
    CONTENT_PAIR,
    DUPLICATE_RUN,
    LARGEST_UNDIVIDED,
    ContentPairArray,
    DuplicateRunArray,
    RetryWindow,
    are_whole_batches,
    as_duplicates,
    join_runs,
    matching_batches,
    pair_entries,
    partition_reasons,
    repeated_hashes,
    single_runs,
)
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE, DuplicateArray, DuplicateLevel
from kforensics.forensics.duplicates.periodic_retries import NO_OTHER_REASON, Retries
from kforensics.forensics.duplicates.record_reader import (
    RECORD_ENTRY,
    RecordEntryArray,
    RecordReader,
    ReportDamage,
    record_entries,
)
from kforensics.forensics.duplicates.repetition import Repetition, records_by_kind
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import ignore_damage

__all__ = [
    "DEFAULT_MEMORY",
    "MEMORY_SHARES",
    "HashFilter",
    "buckets_by_hash",
    "content_duplicates",
    "duplicates_of_entries",
    "pair_bucket_count",
    "runs_of_buckets",
]


# Bytes of memory for a search before it uses temporary files.
DEFAULT_MEMORY = 256 << 20
_HASH_BITS = 64
# Sorting, copying and pairing rows takes a few times their size.
MEMORY_SHARES = 12
BUCKET_BITS = 10
MAX_PAIR_BUCKETS = 1 << 12
# Slots of a HashFilter per record, as a power of two.
FILTER_BITS_PER_RECORD = 3


class HashFilter:
    """A set of 64-bit hashes that keeps only their first bits, so it may also match hashes that were never added.

    Args:
        records: number of records that the hashes come from.
        memory: bytes of memory for the search; the filter takes its share of them at most.
    """

    def __init__(self, records: int, memory: int) -> None:
        max_bits = max((memory // MEMORY_SHARES).bit_length() - 1, 1)
        self._bits = min(max(records, 1).bit_length() + FILTER_BITS_PER_RECORD, max_bits)
        self._slots = np.zeros(1 << self._bits, bool)

    def add(self, hashes: IntArray) -> None:
        """Add hashes."""
        self._slots[_first_bits(hashes, self._bits)] = True

    def matches(self, hashes: IntArray) -> BoolArray:
        """Return which hashes have been added, or start with the bits of one that has been."""
        matches: BoolArray = self._slots[_first_bits(hashes, self._bits)]
        return matches

    def is_empty(self) -> bool:
        """Whether no hash has been added."""
        return not self._slots.any()


def content_duplicates(
    reader: RecordReader,
    report: ReportDamage,
    *,
    memory: int = DEFAULT_MEMORY,
    window: RetryWindow | None = None,
) -> Iterator[DuplicateArray]:
    """Yield the duplicates of levels CONTENT_RETRY and CONTENT, roughly in the order of the later copies.

    Each record is paired with the nearest earlier record of equal key, value and headers. Consecutive pairs become one
    row. Whole batches with repeated sequences are left to :func:`.sequence_duplicates`. Tombstones, records with an
    empty value and records that are empty altogether count only in a run with other records or, except for the last
    kind, if the producer gave both copies the same timestamp.

    Args:
        reader: reads the records of the partition, and knows which are hidden.
        report: called with the index of a segment and damage in it, in log order.
        memory: approximate bytes of memory before temporary files are used.
        window: the limits of a retry, None for Kafka's defaults.
    """
    window = window or RetryWindow()
    repetition = Repetition(reader.first_uncompacted, window.offsets)
    repeated = _repeated_filter(reader, report, memory, repetition)
    if repeated.is_empty():
        return
    entries = _matching_entries(reader, repeated)
    del repeated  # freed when the entries have been read
    yield from duplicates_of_entries(entries, repetition, memory=memory, window=window)


def _matching_entries(reader: RecordReader, repeated: HashFilter) -> Iterator[RecordEntryArray]:
    for chunk in reader.chunks(ignore_damage):
        yield record_entries(chunk, repeated.matches(chunk.columns.low), reader)


def duplicates_of_entries(
    entries: Iterable[RecordEntryArray],
    repetition: Repetition,
    *,
    memory: int = DEFAULT_MEMORY,
    window: RetryWindow | None = None,
) -> Iterator[DuplicateArray]:
    """Yield what :func:`content_duplicates` yields, from the entries of the records that may be duplicates.

    Args:
        entries: in log order, including all records whose content occurs more than once.
        repetition: counts their repeats; once they have been read, it has counted all records.
        memory: approximate bytes of memory before temporary files are used.
        window: the limits of a retry, None for Kafka's defaults.
    """
    window, limit = window or RetryWindow(), memory // MEMORY_SHARES
    # A record has two pairs at most.
    parts = _LogParts(max(limit // (2 * CONTENT_PAIR.itemsize), 1))
    with buckets_by_hash(RECORD_ENTRY, limit, "low") as by_hash:
        for rows in entries:
            by_hash.add(rows)
            parts.add(rows)
        divided = _DividedBatches(parts)
        to_runs = partial(
            single_runs, window=window, find_reasons=partial(partition_reasons, find_whole=divided.are_whole)
        )
        with HashBuckets(CONTENT_PAIR, limit, parts.count, parts.of_pairs) as by_part:
            for bucket in by_hash.buckets():
                for pairs in pair_entries(repetition.counted(bucket), window):
                    by_part.add(pairs)
                    divided.add(pairs)
            # How often a content recurs is known at the end of the log.
            found, retries = SpilledRows(DUPLICATE, limit), Retries()
            for runs in runs_of_buckets(by_part.buckets(), to_runs):
                found.add(as_duplicates(runs))
                retries.add(runs)
    yield from _with_reasons(found, retries.reasons(repetition))


def _with_reasons(found: Iterable[DuplicateArray], reasons: IntArray) -> Iterator[DuplicateArray]:
    """Yield duplicates, at level CONTENT those that are hardly retries.

    Args:
        found: all duplicates.
        reasons: for those at level CONTENT_RETRY, in the same order, what :meth:`.Retries.reasons` returns.
    """
    first = 0
    for rows in found:
        indexes = np.flatnonzero(rows["level"] == DuplicateLevel.CONTENT_RETRY)
        found_reasons = reasons[first : first + len(indexes)]
        others = found_reasons != NO_OTHER_REASON
        rows["level"][indexes[others]] = DuplicateLevel.CONTENT
        rows["why"][indexes[others]] = found_reasons[others]
        first += len(indexes)
        yield rows


class _LogParts:
    """Divides a log into parts with about as many entries each.

    Args:
        size: entries of a part, as long as there are not too many parts.
    """

    def __init__(self, size: int) -> None:
        self._size, self._rows = size, 0
        self._starts: list[int] = []

    def add(self, rows: RecordEntryArray) -> None:
        """Add entries, in log order."""
        self._starts += rows["ordinal"][-self._rows % self._size :: self._size].tolist()
        self._rows += len(rows)
        while len(self._starts) > MAX_PAIR_BUCKETS:
            self._starts, self._size = self._starts[::2], 2 * self._size

    @property
    def count(self) -> int:
        """Number of parts."""
        return max(len(self._starts), 1)

    def of(self, ordinals: IntArray) -> IntArray:
        """Return the part that each record is in."""
        parts: IntArray = np.maximum(np.searchsorted(self._starts, ordinals, side="right") - 1, 0)
        return parts

    def of_pairs(self, pairs: ContentPairArray) -> IntArray:
        """Return the part that the later copy of each pair is in, with the others of its batch if that is not huge."""
        second = pairs["second"]
        return self.of(second["ordinal"] - np.where(second["count"] > LARGEST_UNDIVIDED, 0, second["index"]))


class _DividedBatches:
    """Finds which batches repeat a whole batch among those that are divided between parts of the log."""

    def __init__(self, parts: _LogParts) -> None:
        self._parts = parts
        self._matching: Counter[tuple[int, ...]] = Counter()

    def add(self, pairs: ContentPairArray) -> None:
        """Count the records of batches that match one by one."""
        if self._parts.count > 1:
            candidates = take_rows(pairs, self._candidates(pairs))
            keys, counts = np.unique(matching_batches(candidates), axis=0, return_counts=True)
            for key, count in zip(keys.tolist(), counts.tolist(), strict=True):
                self._matching[tuple(key)] += count

    def _candidates(self, pairs: ContentPairArray) -> BoolArray:
        first, second = pairs["first"], pairs["second"]
        candidates: BoolArray = (first["batch"] != second["batch"]) & (first["index"] == second["index"])
        candidates &= (first["count"] == second["count"]) & (second["count"] > LARGEST_UNDIVIDED)
        return candidates

    def are_whole(self, pairs: ContentPairArray) -> BoolArray:
        """Return what :func:`are_whole_batches` returns for the pairs of all parts; here are those of one."""
        whole = are_whole_batches(pairs)
        if self._matching:
            rows = np.flatnonzero(self._candidates(pairs))
            keys, index = np.unique(matching_batches(take_rows(pairs, rows)), axis=0, return_inverse=True)
            counts = np.array([self._matching[tuple(key)] for key in keys.tolist()], "i8")
            whole[rows] |= counts[index.reshape(-1)] == pairs["second"]["count"][rows]
        return whole


def buckets_by_hash(dtype: np.dtype[np.void], memory: int, field: str) -> HashBuckets:
    """Return buckets for rows with a hash.

    Args:
        dtype: type of the rows.
        memory: bytes of rows to keep in memory.
        field: name of the field with the hash.
    """
    return HashBuckets(dtype, memory, 1 << BUCKET_BITS, lambda rows: _hash_bucket(rows[field]))


def _hash_bucket(hashes: IntArray) -> IntArray:
    """Return the bucket of each hash, which is its first bits."""
    return _first_bits(hashes, BUCKET_BITS)


def pair_bucket_count(records: int, memory: int) -> int:
    """Return how many buckets the pairs of so many records need if each bucket has to fit into ``memory`` bytes."""
    return min(max(2 * records * CONTENT_PAIR.itemsize // memory, 1), MAX_PAIR_BUCKETS)


def _repeated_filter(reader: RecordReader, report: ReportDamage, memory: int, repetition: Repetition) -> HashFilter:
    """Return a filter of the hashes that occur more than once, and count all records."""
    with HashBuckets("u8", memory // MEMORY_SHARES, 1 << BUCKET_BITS, _hash_bucket) as hashes:
        for chunk in reader.chunks(report):
            hashes.add(chunk.columns.low.copy())
            repetition.add_records(chunk.segment, records_by_kind(chunk))
        repeated = HashFilter(hashes.rows, memory)
        for bucket in hashes.buckets():
            for part in repeated_hashes(bucket):
                repeated.add(part)
    return repeated


def _first_bits(hashes: IntArray, bits: int) -> IntArray:
    """Return the first bits of hashes as integers."""
    first: IntArray = hashes >> np.uint64(_HASH_BITS - bits)
    return first


def runs_of_buckets(
    buckets: Iterable[Iterable[ContentPairArray]],
    to_runs: Callable[[ContentPairArray], DuplicateRunArray],
    max_gap: int = 0,
) -> Iterator[DuplicateRunArray]:
    """Yield the conclusive runs of all pairs, roughly in the order of the later copies.

    Args:
        buckets: the pairs in buckets, which are ordered by the later copies.
        to_runs: returns a run for each pair of one bucket.
        max_gap: see :func:`.content_pairs.join_runs`.
    """
    runs = np.empty(0, DUPLICATE_RUN)
    for bucket in buckets:
        parts = list(bucket)
        if parts:
            # The last run of each view may continue in this bucket.
            is_last = np.append(runs["view"][1:] != runs["view"][:-1], True)[: len(runs)]
            yield from _conclusive(runs[~is_last])
            runs = join_runs(concat_rows([runs[is_last], to_runs(concat_rows(parts))]), max_gap)
    yield from _conclusive(runs)


def _conclusive(runs: DuplicateRunArray) -> Iterator[DuplicateRunArray]:
    conclusive = runs[runs["is_conclusive"]]
    if len(conclusive):
        yield conclusive[np.argsort(conclusive["second"], kind="stable")]
