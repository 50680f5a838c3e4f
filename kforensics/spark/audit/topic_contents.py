"""Records that stand in several partitions of a topic, searched by as many tasks as there are segments and hashes.

Six rounds, on workers. The partitions of a topic meet, and one copy of each goes on. The hashes of each segment go to
buckets of the topic, each with all that can be equal. A bucket sends those that several partitions have to whoever
reads these once more; what is known of such records goes to buckets again, where they find each other; and pairs go to
who judges the partition of the second writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from zlib import crc32

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.audit.cluster_membership import Clusters, Member
from kforensics.forensics.audit.cross_partition_duplicates import judged_across, searched_topics
from kforensics.forensics.audit.partition_result import Judgement
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.duplicates.cross_partition import AcrossCase
from kforensics.forensics.duplicates.topic_pairs import HASHED, numbers_of, shared
from kforensics.forensics.duplicates.topic_search import (
    Searched,
    entries_of,
    hashes_of,
    number_of,
    pairs_in,
    runs_by_partition,
)
from kforensics.forensics.partition.examine import examine
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.log.log_rows import Place
from kforensics.spark.audit.segment_contents import are_among, buckets_for, by_bucket
from kforensics.spark.audit.serialization import Address
from kforensics.spark.audit.splitting import Travelling

__all__ = ["HASHING", "entries_in", "hashed_in", "have_topics", "judged_pairs", "members_of", "paired_in", "shared_in"]

# Ordinal of what is to be hashed; partitions to be read once more have their numbers.
HASHING = -1
# Behind all hashes of a partition.
BEHIND_HASHES = (1 << 31) - 1
# Batches of the second writings whose pairs come together, as a power of two.
TOGETHER = 12


@dataclass(frozen=True, slots=True)
class Hashing:
    """A segment whose records are to be hashed.

    Attributes:
        path: the segment.
        number: of its partition.
        buckets: into how many buckets the hashes of its topic go.
    """

    path: str
    number: int
    buckets: int


@dataclass(frozen=True, slots=True)
class Searching:
    """A partition that is read once more, if another one has some of its hashes.

    Attributes:
        partition: its files.
        buckets: into how many buckets the hashes of its topic go.
    """

    partition: Partition
    buckets: int


@dataclass(frozen=True, slots=True)
class Head:
    """What is to be known of a partition whose records are in pairs.

    Attributes:
        place: the partition.
        folder: where its files lie.
        strict_from: offset from which batches stand as the leader wrote them.
    """

    place: Place
    folder: str
    strict_from: int


@dataclass(frozen=True, slots=True)
class Rows:
    """Records of a partition, or pairs of which it has the second ones.

    Attributes:
        head: the partition.
        rows: ENTRY or PAIR rows.
        paths: of all segments in them, by number of the partition and of the segment.
    """

    head: Head
    rows: Records
    paths: Mapping[tuple[int, int], str]


def have_topics(members: Iterable[Member]) -> bool:
    """Return whether there may be a topic with several partitions."""
    seen: dict[str, int | None] = {}
    return any(seen.setdefault(one.topic, one.partition) != one.partition for one in members if one.topic is not None)


def members_of(arriving: Iterable[Travelling], clusters: Clusters) -> Iterator[Travelling]:
    """Yield the segments and partitions of topics that are to be searched.

    Args:
        arriving: partitions with their numbers as ordinals, all of a topic one after the other.
        clusters: all clusters.
    """
    for _, some in groupby(arriving, lambda one: one[0].partition):
        by_folder = {partition.folder: (address.ordinal, partition) for address, partition in some}
        for topic in searched_topics([partition for _, partition in by_folder.values()], clusters):
            # The number of one of its partitions, as the plan has it, is no other topic's.
            yield from _members(by_folder[topic[0].folder][0], topic)


def _members(topic: int, partitions: tuple[Partition, ...]) -> Iterator[Travelling]:
    buckets, slot = buckets_for(sum(one.size for one in partitions)), _slot(topic)
    for one in partitions:
        number = number_of(one)
        for segment, found in enumerate(one.segments):
            yield Address(topic, slot, segment, number, HASHING), Hashing(found.path, number, buckets)
            slot += 1
        yield Address(topic, _slot(topic) + number, 0, 0, number, BEHIND_HASHES), Searching(one, buckets)


def _slot(topic: int) -> int:
    """Return the first slot of a topic: numbers of the plan are larger than slots can be, and have gaps."""
    return crc32(str(topic).encode("ascii")) >> 2


def hashed_in(arriving: Iterable[Travelling]) -> Iterator[Travelling]:
    """Yield the hashes of segments, by bucket of their topic.

    Args:
        arriving: segments to be hashed.
    """
    for address, value in arriving:
        for turn, rows in enumerate(hashes_of([value.path], value.number, workers=0)):
            for bucket, some in by_bucket(rows, rows["low"], value.buckets):
                slot = _slot(address.partition) + bucket
                yield Address(address.partition, slot, address.run_slot, address.final_slot, bucket, turn), some


def shared_in(arriving: Iterable[Travelling]) -> Iterator[Travelling]:
    """Yield the hashes that several partitions have, to each of those.

    Args:
        arriving: hashes, those of a bucket one after the other.
    """
    for (topic, bucket), some in groupby(arriving, _bucket):
        found = shared(joined_records([np.empty(0, HASHED), *(rows for _, rows in some)]))
        for number in np.unique(found["partition"]).tolist():
            place = Address(topic, _slot(topic) + number, 0, 0, number, bucket)
            yield place, found["low"][found["partition"] == number].copy()


def _bucket(one: Travelling) -> tuple[int, int]:
    return one[0].partition, one[0].ordinal


def entries_in(arriving: Iterable[Travelling], rules: Rules) -> Iterator[Travelling]:
    """Yield what is known of records that may stand in several partitions, by bucket of their topic.

    Args:
        arriving: of each partition the hashes that others have, and then the partition.
        rules: limits and the time of evaluation.
    """
    for _, some in groupby(arriving, _bucket):
        # Buckets come in the order of their numbers, which are first bits.
        low = [np.empty(0, "u8")]
        for address, value in some:
            if not isinstance(value, Searching):
                low.append(value)
            elif len(low) > 1:
                with suppress(InputError):  # its own verdict says so
                    yield from _entries(address, value, np.concatenate(low), rules)


def _entries(address: Address, searching: Searching, low: Records, rules: Rules) -> Iterator[Travelling]:
    one, number = Searched.of(examine(searching.partition, rules), workers=0), address.ordinal
    head = Head(one.place, one.folder, one.strict_from)
    for turn, found in enumerate(entries_of(one, lambda hashes: are_among(hashes, low))):
        rows = picked(found, np.argsort(found["low"], kind="stable"))
        for bucket, some in by_bucket(rows, rows["low"], searching.buckets):
            segments = np.unique(some["segment"]).tolist()
            paths = {(number, segment): one.reading.paths[segment] for segment in segments}
            place = Address(address.partition, _slot(address.partition) + bucket, number, 0, bucket, turn)
            yield place, Rows(head, some, paths)


def paired_in(arriving: Iterable[Travelling]) -> Iterator[Travelling]:
    """Yield the pairs in buckets, to who judges the partition of the second writing.

    Args:
        arriving: records, those of a bucket one after the other.
    """
    for (topic, bucket), some in groupby(arriving, _bucket):
        heads: dict[int, Head] = {}
        paths: dict[tuple[int, int], str] = {}
        pairs = pairs_in(_remembered((value for _, value in some), heads, paths))
        parts = pairs["second"]["batch"] >> TOGETHER
        pairs = picked(pairs, np.argsort(parts, kind="stable"))
        parts, starts = np.unique(np.sort(parts), return_index=True)
        for part, rows in zip(parts.tolist(), np.split(pairs, starts[1:]), strict=False):
            number = int(numbers_of(rows["second"]["ordinal"][0]))
            used = {place: paths[place] for side in ("first", "second") for place in _segments(rows[side])}
            yield Address(topic, _slot(topic) + number, number, 0, part, bucket), Rows(heads[number], rows.copy(), used)


def _remembered(values: Iterable[Rows], heads: dict[int, Head], paths: dict[tuple[int, int], str]) -> Iterator[Records]:
    """Yield rows, and put what comes with them where it belongs."""
    for value in values:
        paths.update(value.paths)
        heads[value.head.place.partition or 0] = value.head
        yield value.rows


def _segments(rows: Records) -> set[tuple[int, int]]:
    return set(zip(numbers_of(rows["ordinal"]).tolist(), rows["segment"].tolist(), strict=True))


def judged_pairs(arriving: Iterable[Travelling], _clusters: Clusters, _rules: Rules) -> Iterator[Judgement]:
    """Yield what is said of partitions that have what others had before.

    Args:
        arriving: pairs, those of a partition one after the other, in the order of their batches.
    """
    for _, some in groupby(arriving, lambda one: (one[0].partition, one[0].run_slot)):
        heads: dict[int, Head] = {}
        paths: dict[tuple[int, int], str] = {}
        for number, runs in runs_by_partition(_ranges(some, heads, paths)):
            head = heads[number]
            yield judged_across(AcrossCase(head.place, head.folder, head.strict_from, runs, _Paths(paths)))


def _ranges(
    some: Iterable[Travelling], heads: dict[int, Head], paths: dict[tuple[int, int], str]
) -> Iterator[Iterator[Records]]:
    for _, values in groupby(some, _bucket):
        yield _remembered((value for _, value in values), heads, paths)


@dataclass(frozen=True, slots=True)
class _Paths:
    """Paths of segments by the number of a partition and of a segment in it."""

    known: Mapping[tuple[int, int], str]

    def __call__(self, number: int, segment: int) -> str:
        return self.known[number, segment]
