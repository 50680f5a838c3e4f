"""Finds records whose key, value and headers equal those of a record in another partition of the topic.

Like the search within a partition (:mod:`.content_duplicates`), it works in bounded memory. The first pass reads only
the hashes of all partitions. The second pass reads only partitions that share a hash with another partition, and groups
the entries of the shared records into buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import TypeAlias

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.hash_buckets import HashBuckets
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.result_rows import Rows, Words
from kforensics.forensics.duplicates.content_duplicates import (
    DEFAULT_MEMORY,
    MEMORY_SHARES,
    HashFilter,
    buckets_by_hash,
    pair_bucket_count,
    runs_of_buckets,
)
from kforensics.forensics.duplicates.content_pairs import (
    CONTENT_PAIR,
    DUPLICATE_RUN,
    ContentPairArray,
    DuplicateRunArray,
    RetryWindow,
    single_runs,
)
from kforensics.forensics.duplicates.cross_partition_pairs import (
    HASH_COUNT,
    MAX_RUN_GAP,
    HashCountArray,
    capped_entries,
    cross_partition_pairs,
    cross_partition_reasons,
    hash_counts,
    partition_numbers,
    partition_ordinals,
    shared_hashes,
    to_topic_ordinals,
)
from kforensics.forensics.duplicates.partition_duplicates import duplicate_table_rows, partition_reader
from kforensics.forensics.duplicates.record_reader import (
    RECORD_ENTRY,
    RecordEntryArray,
    RecordReader,
    hidden_transactions,
    record_entries,
)
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import BoolArray, IntArray
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "CrossPartitionState",
    "PrepareSearch",
    "SearchedPartition",
    "pair_bucket",
    "partition_hash_counts",
    "partition_number",
    "runs_by_partition",
    "search_topic",
    "topic_entries",
]

# Bits of the segment index in a combined number of partition and segment.
SEGMENT_BITS = 32


@dataclass(frozen=True, slots=True)
class SearchedPartition:
    """A partition whose records may have copies in other partitions; it can be pickled.

    Attributes:
        place: broker, log directory, topic and partition.
        folder: the folder of its files.
        reader: reads its records, and knows which are hidden.
        first_uncompacted_offset: offset from which batches are as the leader wrote them.
    """

    place: Place
    folder: str
    reader: RecordReader
    first_uncompacted_offset: int

    @classmethod
    def of(
        cls, state: PartitionState, kernels: KernelPolicy = kernels_for, workers: int | None = None
    ) -> SearchedPartition:
        """Return the partition that a state describes.

        Args:
            state: the state.
            kernels: loads the compiled kernels.
            workers: threads that read ahead, 0 for none, None for one per processor.
        """
        reader = partition_reader(state, kernels, workers)
        return cls(state.partition.place, state.partition.folder, reader, state.first_uncompacted_offset)


@dataclass(frozen=True, slots=True)
class CrossPartitionState:
    """The records of a partition that are later copies of records in other partitions of the topic.

    Attributes:
        place: the partition.
        folder: the folder of its files.
        first_uncompacted_offset: offset from which batches are as the leader wrote them.
        runs: DUPLICATE_RUN rows, by view and later copy.
        path_of: returns the path of a segment, given a partition number and the index of the segment.
    """

    place: Place
    folder: str
    first_uncompacted_offset: int
    runs: DuplicateRunArray
    path_of: Callable[[int, int], str]

    @property
    def number(self) -> int:
        """Number of the partition."""
        return self.place.partition or 0

    def rows(self) -> Rows:
        """Return the runs as rows of the table ``duplicates``."""
        paths = {f"{side}_path": self._paths(side) for side in ("first", "second")}
        other_columns = {**paths, "first_partition": partition_numbers(self.runs["first"])}
        return duplicate_table_rows(self.place, self.runs, other_columns)

    def _paths(self, side: str) -> Words:
        segments = (partition_numbers(self.runs[side]) << SEGMENT_BITS) + self.runs[f"{side}_segment"]
        distinct, codes = np.unique(segments, return_inverse=True)
        mask = (1 << SEGMENT_BITS) - 1
        return Words(codes, [self.path_of(number >> SEGMENT_BITS, number & mask) for number in distinct.tolist()])


# Examines a partition; may raise an InputError.
PrepareSearch: TypeAlias = Callable[[Partition], SearchedPartition]
SelectHashes: TypeAlias = Callable[[IntArray], BoolArray]


def partition_number(partition: Partition) -> int:
    """Return the number of a partition, 0 if it is unknown."""
    return partition.place.partition or 0


def search_topic(
    partitions: Sequence[Partition],
    prepare: PrepareSearch,
    *,
    memory: int = DEFAULT_MEMORY,
    kernels: KernelPolicy = kernels_for,
    workers: int | None = None,
) -> Iterator[tuple[SearchedPartition, DuplicateRunArray]]:
    """Yield the partitions that have later copies of records in other partitions, by number, with those runs.

    Partitions that cannot be read are left out; their own results report the error.

    Args:
        partitions: one copy of each partition of the topic; at least two, with numbers below MAX_TOPIC_PARTITIONS.
        prepare: examines a partition.
        memory: approximate bytes of memory before temporary files are used.
        kernels: loads the compiled kernels.
        workers: threads that read ahead, 0 for none, None for one per processor.
    """
    shared, numbers = _shared_filter(partitions, memory, kernels, workers)
    limit, second_pass = memory // MEMORY_SHARES, _SecondPass(prepare)
    with buckets_by_hash(RECORD_ENTRY, limit, "low") as by_hash:
        for partition in partitions:
            if partition_number(partition) in numbers:
                for rows in second_pass.entries(partition, shared.matches):
                    by_hash.add(rows)
        del shared
        pair_buckets = PairBuckets(second_pass.records, second_pass.batches, pair_bucket_count(by_hash.rows, limit))
        with HashBuckets(CONTENT_PAIR, limit, pair_buckets.count, pair_buckets.bucket_of) as by_batch:
            for bucket in by_hash.buckets():
                by_batch.add(pair_bucket(bucket))
            for number, runs in runs_by_partition(by_batch.buckets()):
                yield second_pass.searched[number], runs


class _SecondPass:
    """Reads the entries of partitions, and counts them.

    Args:
        prepare: examines a partition.

    Attributes:
        searched: the partitions read, by number.
        records: by partition number, how many entries were read.
        batches: by partition number, how many batches there are up to the last entry.
    """

    def __init__(self, prepare: PrepareSearch) -> None:
        self._prepare = prepare
        self.searched: dict[int, SearchedPartition] = {}
        self.records: Counter[int] = Counter()
        self.batches: dict[int, int] = {}

    def entries(self, partition: Partition, select: SelectHashes) -> Iterator[RecordEntryArray]:
        """Yield the selected entries of a partition, as far as it can be read."""
        number = partition_number(partition)
        with suppress(InputError):
            self.searched[number] = self._prepare(partition)
            for rows in topic_entries(self.searched[number], select):
                self.records[number] += len(rows)
                self.batches[number] = int(partition_ordinals(rows["batch"][-1:])[0]) + 1
                yield rows


def _shared_filter(
    partitions: Sequence[Partition], memory: int, kernels: KernelPolicy, workers: int | None
) -> tuple[HashFilter, set[int]]:
    """Return a filter of the hashes that several partitions have, and the numbers of these partitions."""
    numbers: set[int] = set()
    with buckets_by_hash(HASH_COUNT, memory // MEMORY_SHARES, "low") as by_hash:
        for partition in partitions:
            paths = [segment.path for segment in partition.segments]
            for rows in partition_hash_counts(paths, partition_number(partition), kernels, workers):
                by_hash.add(rows)
        shared = HashFilter(by_hash.rows, memory)
        for bucket in by_hash.buckets():
            rows = shared_hashes(concat_rows([np.empty(0, HASH_COUNT), *bucket]))
            shared.add(rows["low"])
            numbers.update(np.unique(rows["partition"]).tolist())
    return shared, numbers


def partition_hash_counts(
    paths: Sequence[str], number: int, kernels: KernelPolicy = kernels_for, workers: int | None = None
) -> Iterator[HashCountArray]:
    """Yield the hash counts of some segments of a partition, as far as they can be read.

    Args:
        paths: the segments.
        number: number of the partition.
        kernels: loads the compiled kernels.
        workers: threads that read ahead, 0 for none, None for one per processor.
    """
    with suppress(InputError):
        for chunk in RecordReader(paths, hidden_transactions(None), None, kernels, workers).chunks(ignore_damage):
            yield hash_counts(chunk.columns.low, number)


def topic_entries(searched: SearchedPartition, select: SelectHashes) -> Iterator[RecordEntryArray]:
    """Yield the entries of some records of a partition, with topic ordinals.

    Args:
        searched: the partition.
        select: returns which records to take, given their hashes.

    Raises:
        InputError: a segment cannot be read.
    """
    for chunk in searched.reader.chunks(ignore_damage):
        selected = select(chunk.columns.low)
        if selected.any():
            entries = record_entries(chunk, selected, searched.reader)
            yield to_topic_ordinals(entries, searched.place.partition or 0)


def pair_bucket(parts: Iterable[RecordEntryArray]) -> ContentPairArray:
    """Return the pairs of a bucket.

    Args:
        parts: entries with topic ordinals, including all entries of the contents in the bucket.
    """
    entries = np.empty(0, RECORD_ENTRY)
    for part in parts:
        entries = capped_entries(concat_rows([entries, part]))
    return cross_partition_pairs(entries)


class PairBuckets:
    """Assigns pairs to buckets that are in the order of the later copies and never split a batch.

    Args:
        records: number of entries, by partition number.
        batches: number of batches, by partition number.
        least: approximate number of buckets wanted.

    Attributes:
        count: number of buckets.
    """

    def __init__(self, records: Mapping[int, int], batches: Mapping[int, int], least: int) -> None:
        numbers, total = sorted(records), max(sum(records.values()), 1)
        self._numbers = np.array(numbers, "i8")
        self._batches = np.array([batches[number] for number in numbers], "i8")
        self._counts = np.array([-(-least * records[number] // total) for number in numbers], "i8").clip(1)
        self._starts = np.cumsum(self._counts) - self._counts
        self.count = max(int(self._counts.sum()), 1)

    def bucket_of(self, pairs: ContentPairArray) -> IntArray:
        """Return the bucket of each pair."""
        batch = pairs["second"]["batch"]
        index = np.searchsorted(self._numbers, partition_numbers(batch))
        count = self._counts[index]
        part = (partition_ordinals(batch) * (count / np.maximum(self._batches[index], 1))).astype("i8")
        buckets: IntArray = self._starts[index] + np.minimum(part, count - 1)
        return buckets


def runs_by_partition(buckets: Iterable[Iterable[ContentPairArray]]) -> Iterator[tuple[int, DuplicateRunArray]]:
    """Yield the runs of later copies in each partition, with the partition number.

    Args:
        buckets: the pairs, in buckets as :class:`PairBuckets` assigns them or all in one.
    """
    to_runs = partial(single_runs, window=RetryWindow(), find_reasons=cross_partition_reasons)
    for number, numbered_pairs in groupby(_by_partition(buckets), lambda numbered: numbered[0]):
        parts = runs_of_buckets(([pairs] for _, pairs in numbered_pairs), to_runs, MAX_RUN_GAP)
        runs = concat_rows([np.empty(0, DUPLICATE_RUN), *parts])
        if len(runs):
            yield number, take_rows(runs, np.lexsort([runs["second"], runs["view"]]))


def _by_partition(buckets: Iterable[Iterable[ContentPairArray]]) -> Iterator[tuple[int, ContentPairArray]]:
    for bucket in buckets:
        pairs = concat_rows([np.empty(0, CONTENT_PAIR), *bucket])
        numbers = partition_numbers(pairs["second"]["ordinal"])
        for number in np.unique(numbers).tolist():
            yield number, take_rows(pairs, numbers == number)
