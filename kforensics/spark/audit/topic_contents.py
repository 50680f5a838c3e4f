"""Finds records that occur in several partitions of a topic, with as many tasks as there are segments and hash buckets.

The search takes six stages on the workers:

1. The partitions of a topic meet in one task, which selects one copy of each.
2. The hashes of the records of each segment go to buckets of the topic, so that equal hashes meet.
3. Each bucket sends the hashes that several partitions share to the tasks that read these partitions again.
4. These tasks send the entries of such records to buckets.
5. Each bucket pairs equal records.
6. The pairs go to the task that evaluates the partition of the second occurrence.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from zlib import crc32

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters, PartitionMembership
from kforensics.forensics.audit.cross_partition_duplicates import evaluate_cross_partition, topics_to_search
from kforensics.forensics.audit.partition_result import PartitionResult
from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition_pairs import HASH_COUNT, partition_numbers, shared_hashes
from kforensics.forensics.duplicates.topic_search import (
    CrossPartitionState,
    SearchedPartition,
    pair_bucket,
    partition_hash_counts,
    partition_number,
    runs_by_partition,
    topic_entries,
)
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.format.array_types import IntArray, StructArray
from kforensics.parsers.log.log_rows import Place
from kforensics.spark.audit.segment_contents import are_among, buckets_for, by_bucket
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import AddressedValue

__all__ = [
    "HASHING",
    "entries_in",
    "evaluate_pairs",
    "hashed_in",
    "have_topics",
    "members_of",
    "paired_in",
    "shared_in",
]

# Ordinal of segments to hash; partitions to read again have their partition number instead.
HASHING = -1
# Sequence of a partition to read again: after all its hashes.
AFTER_HASHES = (1 << 31) - 1
# Number of batches of second occurrences whose pairs form one value, as a power of two.
BATCH_GROUP_BITS = 12


@dataclass(frozen=True, slots=True)
class Hashing:
    """A segment whose records are to be hashed.

    Attributes:
        path: path of the segment.
        number: partition number.
        buckets: number of hash buckets of the topic.
    """

    path: str
    number: int
    buckets: int


@dataclass(frozen=True, slots=True)
class Searching:
    """A partition that is read again if it shares hashes with another one.

    Attributes:
        partition: its files.
        buckets: number of hash buckets of the topic.
    """

    partition: Partition
    buckets: int


@dataclass(frozen=True, slots=True)
class PairedPartition:
    """The properties of a partition that the evaluation of its pairs needs.

    Attributes:
        place: the partition.
        folder: its folder.
        first_uncompacted_offset: offset from which on batches are as the leader wrote them.
    """

    place: Place
    folder: str
    first_uncompacted_offset: int


@dataclass(frozen=True, slots=True)
class PartitionRows:
    """The entries of records of a partition, or pairs whose second record is in the partition.

    Attributes:
        origin: the partition.
        rows: RECORD_ENTRY or content pair rows.
        paths: path of each segment that occurs in the rows, by partition number and segment number.
    """

    origin: PairedPartition
    rows: StructArray
    paths: Mapping[tuple[int, int], str]


def have_topics(members: Iterable[PartitionMembership]) -> bool:
    """Return whether a topic may have several partitions."""
    first: dict[str, int | None] = {}
    return any(
        first.setdefault(member.topic, member.partition) != member.partition
        for member in members
        if member.topic is not None
    )


def members_of(arriving: Iterable[AddressedValue], clusters: Clusters) -> Iterator[AddressedValue]:
    """Yield the segments and partitions of the topics to search.

    Args:
        arriving: partitions, addressed with their numbers as ordinals and grouped by topic.
        clusters: all clusters.
    """
    for _, group in groupby(arriving, lambda pair: pair[0].partition):
        by_folder = {partition.folder: (address.ordinal, partition) for address, partition in group}
        for topic in topics_to_search([partition for _, partition in by_folder.values()], clusters):
            # The plan's number of the first partition identifies the topic: no other topic has it.
            yield from _members(by_folder[topic[0].folder][0], topic)


def _members(topic: int, partitions: tuple[Partition, ...]) -> Iterator[AddressedValue]:
    buckets, slot = buckets_for(sum(partition.size for partition in partitions)), _slot(topic)
    for partition in partitions:
        number = partition_number(partition)
        for segment, file in enumerate(partition.segments):
            yield Address(topic, slot, segment, number, HASHING), Hashing(file.path, number, buckets)
            slot += 1
        yield Address(topic, _slot(topic) + number, 0, 0, number, AFTER_HASHES), Searching(partition, buckets)


def _slot(topic: int) -> int:
    """Return the first slot of a topic: the plan's numbers exceed the range of slots and have gaps."""
    return crc32(str(topic).encode("ascii")) >> 2


def hashed_in(arriving: Iterable[AddressedValue]) -> Iterator[AddressedValue]:
    """Yield the record hashes of segments, by bucket of their topic.

    Args:
        arriving: the segments to hash.
    """
    for address, value in arriving:
        for sequence, rows in enumerate(partition_hash_counts([value.path], value.number, workers=0)):
            for bucket, bucket_rows in by_bucket(rows, rows["low"], value.buckets):
                slot = _slot(address.partition) + bucket
                target = Address(address.partition, slot, address.run_slot, address.final_slot, bucket, sequence)
                yield target, bucket_rows


def shared_in(arriving: Iterable[AddressedValue]) -> Iterator[AddressedValue]:
    """Yield the hashes that several partitions share, addressed to each of these partitions.

    Args:
        arriving: hashes, grouped by bucket.
    """
    for (topic, bucket), group in groupby(arriving, _bucket):
        shared = shared_hashes(concat_rows([np.empty(0, HASH_COUNT), *(rows for _, rows in group)]))
        for number in np.unique(shared["partition"]).tolist():
            target = Address(topic, _slot(topic) + number, 0, 0, number, bucket)
            yield target, shared["low"][shared["partition"] == number].copy()


def _bucket(addressed: AddressedValue) -> tuple[int, int]:
    return addressed[0].partition, addressed[0].ordinal


def entries_in(arriving: Iterable[AddressedValue], rules: Rules) -> Iterator[AddressedValue]:
    """Yield the entries of records that may occur in several partitions, by bucket of their topic.

    Args:
        arriving: for each partition the hashes that it shares with others, then the partition.
        rules: limits and the time of evaluation.
    """
    for _, group in groupby(arriving, _bucket):
        # Buckets arrive by number, which is the first bits of their hashes: concatenated, the hashes are sorted.
        low = [np.empty(0, "u8")]
        for address, value in group:
            if not isinstance(value, Searching):
                low.append(value)
            elif len(low) > 1:
                with suppress(InputError):  # the result of the partition reports it
                    yield from _entries(address, value, np.concatenate(low), rules)


def _entries(address: Address, searching: Searching, low: IntArray, rules: Rules) -> Iterator[AddressedValue]:
    searched, number = SearchedPartition.of(examine(searching.partition, rules), workers=0), address.ordinal
    origin = PairedPartition(searched.place, searched.folder, searched.first_uncompacted_offset)
    for sequence, entries in enumerate(topic_entries(searched, lambda hashes: are_among(hashes, low))):
        rows = take_rows(entries, np.argsort(entries["low"], kind="stable"))
        for bucket, bucket_rows in by_bucket(rows, rows["low"], searching.buckets):
            segments = np.unique(bucket_rows["segment"]).tolist()
            paths = {(number, segment): searched.reader.paths[segment] for segment in segments}
            slot = _slot(address.partition) + bucket
            target = Address(address.partition, slot, number, 0, bucket, sequence)
            yield target, PartitionRows(origin, bucket_rows, paths)


def paired_in(arriving: Iterable[AddressedValue]) -> Iterator[AddressedValue]:
    """Yield the pairs of each bucket, addressed to the task that evaluates the partition of the second occurrence.

    Args:
        arriving: record entries, grouped by bucket.
    """
    for (topic, bucket), group in groupby(arriving, _bucket):
        origins: dict[int, PairedPartition] = {}
        paths: dict[tuple[int, int], str] = {}
        pairs = pair_bucket(_rows_of((value for _, value in group), origins, paths))
        batch_groups = pairs["second"]["batch"] >> BATCH_GROUP_BITS
        pairs = take_rows(pairs, np.argsort(batch_groups, kind="stable"))
        batch_groups, starts = np.unique(np.sort(batch_groups), return_index=True)
        for batch_group, rows in zip(batch_groups.tolist(), np.split(pairs, starts[1:]), strict=False):
            number = int(partition_numbers(rows["second"]["ordinal"][0]))
            used = {key: paths[key] for side in ("first", "second") for key in _segments(rows[side])}
            target = Address(topic, _slot(topic) + number, number, 0, batch_group, bucket)
            yield target, PartitionRows(origins[number], rows.copy(), used)


def _rows_of(
    values: Iterable[PartitionRows], origins: dict[int, PairedPartition], paths: dict[tuple[int, int], str]
) -> Iterator[StructArray]:
    """Yield the rows of values, and add their partitions and paths to the dictionaries."""
    for value in values:
        paths.update(value.paths)
        origins[value.origin.place.partition or 0] = value.origin
        yield value.rows


def _segments(rows: StructArray) -> set[tuple[int, int]]:
    return set(zip(partition_numbers(rows["ordinal"]).tolist(), rows["segment"].tolist(), strict=True))


def evaluate_pairs(arriving: Iterable[AddressedValue], _clusters: Clusters, _rules: Rules) -> Iterator[PartitionResult]:
    """Yield the results about partitions whose records already occurred in other partitions.

    Args:
        arriving: pairs, grouped by partition and in the order of their batches.
    """
    for _, group in groupby(arriving, lambda pair: (pair[0].partition, pair[0].run_slot)):
        origins: dict[int, PairedPartition] = {}
        paths: dict[tuple[int, int], str] = {}
        for number, runs in runs_by_partition(_batch_groups(group, origins, paths)):
            origin = origins[number]
            yield evaluate_cross_partition(
                CrossPartitionState(origin.place, origin.folder, origin.first_uncompacted_offset, runs, _Paths(paths))
            )


def _batch_groups(
    arriving: Iterable[AddressedValue], origins: dict[int, PairedPartition], paths: dict[tuple[int, int], str]
) -> Iterator[Iterator[StructArray]]:
    for _, values in groupby(arriving, _bucket):
        yield _rows_of((value for _, value in values), origins, paths)


@dataclass(frozen=True, slots=True)
class _Paths:
    """Returns the path of a segment by partition number and segment number."""

    known: Mapping[tuple[int, int], str]

    def __call__(self, number: int, segment: int) -> str:
        return self.known[number, segment]
