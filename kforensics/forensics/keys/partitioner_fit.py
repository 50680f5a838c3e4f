"""Which partition counts explain where the keys of a topic lie.

A key that the default partitioner has placed lies in partition ``murmur2(key) mod count``, with the count of its time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.keys.key_summary import SAMPLE, KeySummary
from kforensics.forensics.metadata.topic_metadata import PartitionCount, TopicMetadata
from kforensics.parsers.columns.content_hash import mixed

__all__ = ["CountSource", "Placing", "Sample", "placing_of", "sample_of"]

# A count that nobody told is looked for up to here.
MOST_PARTITIONS = 1_024
# A count that nobody told must explain this share of all keys; counts before it this share of the others, over what
# chance would give. Fewer keys tell nothing.
EXPLAINED, EXPLAINED_BEFORE, LEAST_KEYS = 0.9, 0.7, 8
# Of two that are found together each must explain this share of them alone.
NEEDED = 0.2
# Below this share, over what chance would give, the keys follow another rule.
FOLLOWED = 0.5
DICE = 1 << 12
# Where one count before does not do, two are looked for, up to so many partitions and by so many keys.
MOST_TWICE, LOOKED_AT = 64, 512


class CountSource(StrEnum):
    """Who says how many partitions a topic has."""

    GIVEN = "given"
    METADATA = "metadata"
    # Keys lie as with more partitions than are here.
    KEYS = "keys"
    # The highest partition on hand; there may be more.
    PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class Sample:
    """Some keys of a topic.

    Attributes:
        murmur: Kafka's hash of each.
        partition: where it lies.
    """

    murmur: Records
    partition: Records

    def fits(self, count: int) -> Records:
        """Return which of them lie where they do with so many partitions."""
        found: Records = self.murmur % count == self.partition
        return found

    def taken(self, which: Records) -> Sample:
        """Return some of them."""
        return Sample(self.murmur[which], self.partition[which])


@dataclass(frozen=True, slots=True)
class Placing:
    """How the keys of a topic were placed, as far as their places tell.

    Attributes:
        counts: partition counts, the oldest first; the last one is today's.
        source: who says so.
        follows: whether the default partitioner placed most keys, None if that cannot be told: with one partition every
            key is right, and a few that are not may be anything.
        share: of the keys that lie where one of the counts would have them.
        by_chance: what that share would be if they lay anywhere.
        keys: how many were looked at.
    """

    counts: tuple[PartitionCount, ...]
    source: CountSource
    follows: bool | None
    share: float
    by_chance: float
    keys: int

    @property
    def count(self) -> int:
        """How many partitions there are today."""
        return self.counts[-1].count

    @property
    def numbers(self) -> tuple[int, ...]:
        """The counts alone."""
        return tuple(one.count for one in self.counts)

    @property
    def has_grown(self) -> bool:
        """Whether there were fewer once."""
        return len(self.counts) > 1

    def eras(self, murmur: Records, partition: Records) -> tuple[Records, Records]:
        """Return for each key the numbers of the oldest and the newest count it is right with, -1 if with none."""
        oldest, newest = np.full(len(murmur), -1), np.full(len(murmur), -1)
        for number, count in enumerate(self.numbers):
            is_right = murmur % count == partition
            newest[is_right] = number
            oldest[is_right & (oldest < 0)] = number
        return oldest, newest


def sample_of(summaries: Sequence[KeySummary]) -> Sample:
    """Return some keys of each partition, as good as drawn by lot."""
    some = [(summary.number, summary.keys.lowest(SAMPLE)) for summary in summaries]
    murmur = np.concatenate([np.empty(0, "i8"), *(rows["murmur"] for _, rows in some)])
    numbers = [np.full(len(rows), number) for number, rows in some]
    return Sample(murmur, np.concatenate([np.empty(0, "i8"), *numbers]))


def placing_of(
    sample: Sample, supplied: Sequence[int], given: int | None = None, metadata: TopicMetadata | None = None
) -> Placing:
    """Return which partition counts explain where keys lie.

    Args:
        sample: some keys of the topic.
        supplied: numbers of the partitions on hand, one at least.
        given: how many partitions there are today, as the user says; None if nobody does.
        metadata: what the cluster's metadata says, None if it is not there.
    """
    counts, source = _told(supplied, given, metadata)
    if source is CountSource.PARTITIONS:
        larger = _larger(sample, counts[-1].count)
        counts, source = ((PartitionCount(larger),), CountSource.KEYS) if larger else (counts, source)
    if len(counts) == 1 and source is not CountSource.METADATA:
        counts = (*_earlier(sample, supplied, counts[0].count), *counts)
    right = np.logical_or.reduce([sample.fits(one.count) for one in counts])
    share = float(right.mean()) if len(right) else 0.0
    chance = _chance(supplied, [one.count for one in counts])
    return Placing(counts, source, _follows(share, chance, len(right)), share, chance, len(right))


def _follows(share: float, chance: float, keys: int) -> bool | None:
    if not keys or chance == 1:
        return None
    if (share - chance) / (1 - chance) >= FOLLOWED:
        return True
    return None if keys < LEAST_KEYS else False


def _told(
    supplied: Sequence[int], given: int | None, metadata: TopicMetadata | None
) -> tuple[tuple[PartitionCount, ...], CountSource]:
    if metadata is not None and metadata.partition_counts and given in (None, metadata.partition_counts[-1].count):
        return metadata.partition_counts, CountSource.METADATA
    if given is not None:
        return (PartitionCount(given),), CountSource.GIVEN
    return (PartitionCount(max(supplied) + 1),), CountSource.PARTITIONS


def _larger(sample: Sample, least: int) -> int | None:
    """Return the largest count that nearly all keys go with, None if that is no more than there must be."""
    if len(sample.murmur) < LEAST_KEYS:
        return None
    every = range(MOST_PARTITIONS, least, -1)
    return next((count for count in every if sample.fits(count).mean() >= EXPLAINED), None)


def _earlier(sample: Sample, supplied: Sequence[int], count: int) -> list[PartitionCount]:
    """Return the counts before one that explain the keys which it does not, the oldest first."""
    other = np.flatnonzero(~sample.fits(count))
    # Of every partition some: they come one after the other.
    left = sample.taken(other[:: len(other) // LOOKED_AT + 1])
    found: set[int] = set()
    while len(left.murmur) >= LEAST_KEYS and (more := _explaining(left, supplied, count)):
        found.update(more)
        left = left.taken(~np.logical_or.reduce([left.fits(older) for older in more]))
    return [PartitionCount(older) for older in sorted(found)]


def _explaining(left: Sample, supplied: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the largest count below one that explains most of some keys; else two that do; else none."""
    below = range(min(count, MOST_PARTITIONS) - 1, 0, -1)
    fits = {older: left.fits(older) for older in below}
    pairs = ((older, newer) for newer in below[-MOST_TWICE:] for older in range(newer - 1, 0, -1))
    choices = chain(((older,) for older in below), pairs)
    return next((counts for counts in choices if _explain(supplied, fits, *counts)), ())


def _explain(supplied: Sequence[int], fits: Mapping[int, Records], *counts: int) -> bool:
    """Whether most keys go with one of some counts, over what chance would give, and each is needed for many."""
    fitting = [fits[count] for count in counts]
    together = np.add.reduce(fitting, dtype="i8")
    alone = min(int((one & (together == 1)).sum()) for one in fitting)
    # Where two counts agree, which they may often do, this is more than chance.
    by_chance = sum(sum(number < count for number in supplied) / count for count in counts) / len(supplied)
    share = float((together > 0).mean())
    is_needed = alone >= max(LEAST_KEYS, NEEDED * len(together))
    return is_needed and by_chance < 1 and (share - by_chance) / (1 - by_chance) >= EXPLAINED_BEFORE


def _chance(supplied: Sequence[int], counts: Sequence[int]) -> float:
    """Return the share of keys that would lie right if each lay anywhere, with any hash."""
    thrown = (mixed(np.arange(DICE, dtype="u8")) >> np.uint64(33)).astype("i8")
    right = [np.logical_or.reduce([thrown % count == number for count in counts]).mean() for number in set(supplied)]
    return float(np.mean(right))
