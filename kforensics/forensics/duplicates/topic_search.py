"""Records of a topic that stand in several of its partitions with the same key, value and headers, in bounded memory.

As within a partition (see :mod:`.content`): all logs are read once for hashes alone. Only partitions that have a hash
which another one has, too, are read once more, and what is known of those records goes into buckets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.hash_buckets import Spill
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content import (
    BUCKET_BITS,
    MEMORY,
    SHARES,
    first_bits,
    mark,
    marked,
    pair_buckets,
    runs_in,
    table_for,
)
from kforensics.forensics.duplicates.content_entries import ENTRY, Reading, entries, hidden_intervals
from kforensics.forensics.duplicates.content_pairs import PAIR, RUN, Window, runs_of
from kforensics.forensics.duplicates.partition_duplicates import reading_of
from kforensics.forensics.duplicates.topic_pairs import (
    GAP,
    HASHED,
    hashed,
    numbers_of,
    pairs_across,
    places_of,
    reasons_across,
    shared,
    telling_entries,
    within_topic,
)
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.kernels.policy import Choice, kernels_for
from kforensics.parsers.log.log_rows import Place

__all__ = [
    "Parts",
    "Searched",
    "across_partitions",
    "entries_of",
    "hashes_of",
    "number_of",
    "pairs_in",
    "runs_by_partition",
]


@dataclass(frozen=True, slots=True)
class Searched:
    """A partition whose records may stand in others, too; it may travel.

    Attributes:
        place: broker, log directory, topic and partition.
        folder: where its files lie.
        reading: its log, and what a read_committed consumer gets of it.
        strict_from: offset from which batches stand as the leader wrote them.
    """

    place: Place
    folder: str
    reading: Reading
    strict_from: int

    @classmethod
    def of(cls, case: Case, kernels: Choice = kernels_for, workers: int | None = None) -> Searched:
        """Return the partition of a case.

        Args:
            case: that.
            kernels: gives the compiled kernels.
            workers: threads that read, 0 for none beside the caller's, None for one per processor.
        """
        reading = reading_of(case, kernels, workers)
        return cls(case.partition.place, case.partition.folder, reading, case.strict_from)


Search = Callable[[Partition], Searched]
IsWanted = Callable[[Records], Records]


def number_of(partition: Partition) -> int:
    """Return the number of a partition that has one."""
    return partition.place.partition or 0


def across_partitions(
    partitions: Sequence[Partition],
    searched: Search,
    *,
    memory: int = MEMORY,
    kernels: Choice = kernels_for,
    workers: int | None = None,
) -> Iterator[tuple[Searched, Records]]:
    """Yield partitions of a topic with RUN rows of what was written to others before, in the order of their numbers.

    What cannot be read is left out: the verdict on its partition says so.

    Args:
        partitions: one copy of each, two or more, with numbers below ``topic_pairs.MOST_PARTITIONS``.
        searched: examines one of them; may raise an InputError.
        memory: bytes to work in, about.
        kernels: gives the compiled kernels.
        workers: as for :meth:`Searched.of`.
    """
    table, wanted = _shared_table(partitions, memory, kernels, workers)
    room, found = memory // SHARES, _Found()
    with Spill(ENTRY, room, 1 << BUCKET_BITS, lambda rows: first_bits(rows["low"], BUCKET_BITS)) as kept:
        for partition in (one for one in partitions if number_of(one) in wanted):
            for rows in found.entries(partition, searched, partial(marked, table)):
                kept.add(rows)
        del table
        parts = Parts(found.records, found.batches, pair_buckets(kept.rows, room))
        with Spill(PAIR, room, parts.many, parts.of) as pairs:
            for bucket in kept.buckets():
                pairs.add(pairs_in(bucket))
            for number, runs in runs_by_partition(pairs.buckets()):
                yield found.searched[number], runs


class _Found:
    """Counts what is looked at twice.

    Attributes:
        searched: partitions by number, as are the next two.
        records: how many of their records.
        batches: how many batches they have, up to the last one with such a record.
    """

    def __init__(self) -> None:
        self.searched: dict[int, Searched] = {}
        self.records: Counter[int] = Counter()
        self.batches: dict[int, int] = {}

    def entries(self, partition: Partition, searched: Search, is_wanted: IsWanted) -> Iterator[Records]:
        """Yield the ENTRY rows of a partition, as far as it can be read."""
        number = number_of(partition)
        with suppress(InputError):
            self.searched[number] = searched(partition)
            for rows in entries_of(self.searched[number], is_wanted):
                self.records[number] += len(rows)
                self.batches[number] = int(places_of(rows["batch"][-1:])[0]) + 1
                yield rows


def _shared_table(
    partitions: Sequence[Partition], memory: int, kernels: Choice, workers: int | None
) -> tuple[Records, set[int]]:
    """Return a table of the hashes that several partitions have, and the numbers of these."""
    wanted: set[int] = set()
    with Spill(HASHED, memory // SHARES, 1 << BUCKET_BITS, lambda rows: first_bits(rows["low"], BUCKET_BITS)) as hashes:
        for partition in partitions:
            paths = [segment.path for segment in partition.segments]
            for rows in hashes_of(paths, number_of(partition), kernels, workers):
                hashes.add(rows)
        table = table_for(hashes.rows, memory)
        for bucket in hashes.buckets():
            found = shared(joined_records([np.empty(0, HASHED), *bucket]))
            mark(table, found["low"])
            wanted.update(np.unique(found["partition"]).tolist())
    return table, wanted


def hashes_of(
    paths: Sequence[str], number: int, kernels: Choice = kernels_for, workers: int | None = None
) -> Iterator[Records]:
    """Yield HASHED rows of some segments of a partition, as far as they can be read.

    Args:
        paths: the segments.
        number: of the partition.
        kernels: gives the compiled kernels.
        workers: as for :meth:`Searched.of`.
    """
    with suppress(InputError):
        for chunk in Reading(paths, hidden_intervals(None), None, kernels, workers).chunks(_say_nothing):
            yield hashed(chunk.columns.low, number)


def entries_of(one: Searched, is_wanted: IsWanted) -> Iterator[Records]:
    """Yield ENTRY rows of some records of a partition, with ordinals of the topic.

    Args:
        one: the partition.
        is_wanted: returns which records to take, by their hashes.

    Raises:
        InputError: a segment cannot be read.
    """
    for chunk in one.reading.chunks(_say_nothing):
        wanted = is_wanted(chunk.columns.low)
        if wanted.any():
            yield within_topic(entries(chunk, wanted, one.reading), one.place.partition or 0)


def pairs_in(parts: Iterable[Records]) -> Records:
    """Return the PAIR rows of a bucket.

    Args:
        parts: ENTRY rows with ordinals of the topic; all of some contents are among them.
    """
    known = np.empty(0, ENTRY)
    for part in parts:
        known = telling_entries(joined_records([known, part]))
    return pairs_across(known)


class Parts:
    """Says in which part of a topic a pair belongs: parts are in the order of the second writings, and cut no batch.

    Args:
        records: how many ENTRY rows there are, by the number of the partition.
        batches: how many batches these partitions have.
        least: how many parts there should be, about.

    Attributes:
        many: how many there are.
    """

    def __init__(self, records: Mapping[int, int], batches: Mapping[int, int], least: int) -> None:
        numbers, total = sorted(records), max(sum(records.values()), 1)
        self._numbers = np.array(numbers, "i8")
        self._batches = np.array([batches[number] for number in numbers], "i8")
        self._counts = np.array([-(-least * records[number] // total) for number in numbers], "i8").clip(1)
        self._starts = np.cumsum(self._counts) - self._counts
        self.many = max(int(self._counts.sum()), 1)

    def of(self, pairs: Records) -> Records:
        """Return the part of each pair."""
        batch = pairs["second"]["batch"]
        at = np.searchsorted(self._numbers, numbers_of(batch))
        count = self._counts[at]
        part = (places_of(batch) * (count / np.maximum(self._batches[at], 1))).astype("i8")
        found: Records = self._starts[at] + np.minimum(part, count - 1)
        return found


def runs_by_partition(buckets: Iterable[Iterable[Records]]) -> Iterator[tuple[int, Records]]:
    """Yield the numbers of partitions with the RUN rows of what was written to others before.

    Args:
        buckets: PAIR rows, in parts as :class:`Parts` has them, or all of them in one.
    """
    made = partial(runs_of, window=Window(), reasons=reasons_across, gap=GAP)
    for number, some in groupby(_by_partition(buckets), lambda one: one[0]):
        parts = runs_in(([pairs] for _, pairs in some), made, GAP)
        runs = joined_records([np.empty(0, RUN), *parts])
        if len(runs):
            yield number, picked(runs, np.lexsort([runs["second"], runs["view"]]))


def _by_partition(buckets: Iterable[Iterable[Records]]) -> Iterator[tuple[int, Records]]:
    for bucket in buckets:
        pairs = joined_records([np.empty(0, PAIR), *bucket])
        numbers = numbers_of(pairs["second"]["ordinal"])
        for number in np.unique(numbers).tolist():
            yield number, picked(pairs, numbers == number)


def _say_nothing(_segment: int, _damage: object) -> None:
    """The damage has been told of."""
