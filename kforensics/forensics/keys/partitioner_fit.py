"""Finds the partition counts that explain in which partitions the keys of a topic are.

The default partitioner puts a key into partition ``murmur2(key) mod count``, with the partition count of that time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain

import numpy as np

from kforensics.forensics.keys.key_summary import SAMPLE, KeySummary
from kforensics.forensics.metadata.topic_metadata import PartitionCount, TopicMetadata
from kforensics.parsers.columns.content_hash import mix_bits
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

__all__ = ["CountSource", "KeySample", "PartitionerFit", "fit_partitioner", "sample_keys"]

# Largest partition count to try if it is unknown.
MAX_PARTITIONS = 1_024
# An unknown partition count must explain this share of all keys; earlier counts must explain this share of the others,
# more than expected by chance. Fewer keys than LEAST_KEYS prove nothing.
EXPLAINED, EXPLAINED_BEFORE, LEAST_KEYS = 0.9, 0.7, 8
# If two counts are found together, each must be the only explanation of this share of keys.
NEEDED = 0.2
# With a smaller share of matching keys, corrected for chance, the partitioner is another one.
MATCHING = 0.5
# Counts found by the keys must match so often that this would be the probability by chance.
BY_CHANCE = 0.001
# Random hashes from which the matches by chance are counted.
RANDOM_HASHES = 1 << 12
# If one earlier count is not enough, pairs of counts up to this one are tried, with this number of keys.
MAX_OF_PAIR, PAIR_SAMPLE = 64, 512


class CountSource(StrEnum):
    """Where the partition count of a topic comes from."""

    GIVEN = "given"
    METADATA = "metadata"
    # The keys match a larger count than there are partitions available.
    KEYS = "keys"
    # The highest available partition number plus 1; the topic may have more.
    PARTITIONS = "partitions"


@dataclass(frozen=True, slots=True)
class KeySample:
    """Some keys of a topic.

    Attributes:
        murmur: Kafka's hash of each key.
        partition: its partition.
    """

    murmur: IntArray
    partition: IntArray

    def fits(self, count: int) -> BoolArray:
        """Return which keys are in the right partition with this partition count."""
        is_right: BoolArray = self.murmur % count == self.partition
        return is_right

    def take(self, selected: IntArray | BoolArray) -> KeySample:
        """Return some of the keys, by indexes or by a mask."""
        return KeySample(self.murmur[selected], self.partition[selected])


@dataclass(frozen=True, slots=True)
class PartitionerFit:
    """How well the default partitioner explains where the keys of a topic are.

    Attributes:
        counts: the partition counts, oldest first; the last one is the current one.
        source: where the current count comes from.
        uses_default: whether the default partitioner placed most keys. None if unknown: with one partition every key
            matches, and a few keys that do not match prove nothing.
        share: share of keys that match one of the counts.
        by_chance: share that would match by chance.
        keys: number of keys in the sample.
    """

    counts: tuple[PartitionCount, ...]
    source: CountSource
    uses_default: bool | None
    share: float
    by_chance: float
    keys: int

    @property
    def count(self) -> int:
        """The current partition count."""
        return self.counts[-1].count

    @property
    def numbers(self) -> tuple[int, ...]:
        """The partition counts as plain numbers."""
        return tuple(count.count for count in self.counts)

    @property
    def has_grown(self) -> bool:
        """Whether the topic had fewer partitions before."""
        return len(self.counts) > 1

    def generations(self, murmur: IntArray, partition: IntArray) -> tuple[IntArray, IntArray]:
        """Return for each key the indexes of the oldest and the newest count that it matches, -1 if none."""
        oldest, newest = np.full(len(murmur), -1), np.full(len(murmur), -1)
        for generation, count in enumerate(self.numbers):
            is_right = murmur % count == partition
            newest[is_right] = generation
            oldest[is_right & (oldest < 0)] = generation
        return oldest, newest


def sample_keys(summaries: Sequence[KeySummary]) -> KeySample:
    """Return a random sample of the keys of each partition."""
    samples = [(summary.number, summary.keys.lowest(SAMPLE)) for summary in summaries]
    murmur = np.concatenate([np.empty(0, "i8"), *(rows["murmur"] for _, rows in samples)])
    numbers = [np.full(len(rows), number) for number, rows in samples]
    return KeySample(murmur, np.concatenate([np.empty(0, "i8"), *numbers]))


def fit_partitioner(
    sample: KeySample, available: Sequence[int], given: int | None = None, metadata: TopicMetadata | None = None
) -> PartitionerFit:
    """Return the partition counts that explain where keys are.

    Args:
        sample: some keys of the topic.
        available: numbers of the available partitions, at least one.
        given: current partition count from the user, None without one.
        metadata: the topic in the cluster metadata, None if that is not available.
    """
    counts, source = _known_counts(available, given, metadata)
    if source is CountSource.PARTITIONS:
        larger = _larger_count(sample, counts[-1].count)
        counts, source = ((PartitionCount(larger),), CountSource.KEYS) if larger else (counts, source)
    if len(counts) == 1 and source is not CountSource.METADATA:
        earlier = _earlier_counts(sample, available, counts[0].count)
        counts = (
            (*earlier, *counts) if _are_proven(sample, [*(one.count for one in earlier), counts[0].count]) else counts
        )
    matches = np.logical_or.reduce([sample.fits(count.count) for count in counts])
    share = float(matches.mean()) if len(matches) else 0.0
    by_chance = _share_by_chance(available, [count.count for count in counts])
    uses_default = _uses_default(share, by_chance, len(matches))
    return PartitionerFit(counts, source, uses_default, share, by_chance, len(matches))


def _uses_default(share: float, by_chance: float, keys: int) -> bool | None:
    if not keys or by_chance == 1:
        return None
    if (share - by_chance) / (1 - by_chance) >= MATCHING:
        return True
    return None if keys < LEAST_KEYS else False


def _known_counts(
    available: Sequence[int], given: int | None, metadata: TopicMetadata | None
) -> tuple[tuple[PartitionCount, ...], CountSource]:
    if metadata is not None and metadata.partition_counts and given in (None, metadata.partition_counts[-1].count):
        return metadata.partition_counts, CountSource.METADATA
    if given is not None:
        return (PartitionCount(given),), CountSource.GIVEN
    return (PartitionCount(max(available) + 1),), CountSource.PARTITIONS


def _larger_count(sample: KeySample, least: int) -> int | None:
    """Return the largest count above ``least`` that nearly all keys match, None without one.

    It must match as many keys as each smaller count, or more of the keys of that one than chance would have it: of the
    keys that match a count, half match its double, so nine of ten sometimes do.
    """
    if len(sample.murmur) < LEAST_KEYS:
        return None
    fits = {count: sample.fits(count) for count in range(MAX_PARTITIONS, least - 1, -1)}
    fits = {count: matches for count, matches in fits.items() if count == least or matches.mean() >= EXPLAINED}
    larger = (count for count in fits if count > least)
    return next((count for count in larger if _is_best(fits, count)), None)


def _is_best(fits: Mapping[int, BoolArray], count: int) -> bool:
    """Whether a count explains the keys at least as well as each smaller one."""
    return all(
        fits[count].sum() >= matches.sum() or _is_no_chance(fits[count][matches], math.gcd(count, smaller) / count)
        for smaller, matches in fits.items()
        if smaller < count
    )


def _earlier_counts(sample: KeySample, available: Sequence[int], count: int) -> list[PartitionCount]:
    """Return the earlier counts that explain the keys that do not match the current one, oldest first."""
    unexplained = np.flatnonzero(~sample.fits(count))
    # The sample is ordered by partition: a stride takes some keys of each.
    left = sample.take(unexplained[:: len(unexplained) // PAIR_SAMPLE + 1])
    earlier: set[int] = set()
    while len(left.murmur) >= LEAST_KEYS and (explaining := _explaining_counts(left, available, count)):
        earlier.update(explaining)
        left = left.take(~np.logical_or.reduce([left.fits(older) for older in explaining]))
    return [PartitionCount(older) for older in sorted(earlier)]


def _are_proven(sample: KeySample, counts: Sequence[int]) -> bool:
    """Whether keys match some counts more often than chance would have it, over all counts that could have been tried.

    With one partition all keys match, so its keys prove nothing: those of the others must match.
    """
    chance = _chances(counts, sample.partition)
    is_open = chance < 1
    if not is_open.any():
        return False
    matches = np.logical_or.reduce([sample.fits(count) for count in counts])[is_open]
    return _is_no_chance(matches, float(chance[is_open].mean()), (len(counts) - 1) * math.log(max(counts)))


def _is_no_chance(matches: BoolArray, expected: float, tried: float = math.log(MAX_PARTITIONS)) -> bool:
    """Whether it is less probable than BY_CHANCE that so many keys match, by Chernoff's bound for independent events.

    Args:
        matches: which keys match.
        expected: the share that is expected to match by chance.
        tried: natural logarithm of the number of counts that could have been tried.
    """
    share = float(matches.mean()) if len(matches) else 0.0
    if share <= expected:
        return False
    missed = (1 - share) * math.log((1 - share) / (1 - expected)) if share < 1 else 0.0
    divergence = share * math.log(share / expected) + missed
    return len(matches) * divergence - tried >= -math.log(BY_CHANCE)


def _chances(counts: Sequence[int], partitions: IntArray) -> Column:
    """Return for each partition the share of random hashes that match one of some counts there."""
    hashes = (mix_bits(np.arange(RANDOM_HASHES, dtype="u8")) >> np.uint64(33)).astype("i8")
    distinct, indexes = np.unique(partitions, return_inverse=True)
    shares = [np.logical_or.reduce([hashes % count == number for count in counts]).mean() for number in distinct]
    return np.array(shares, "f8")[indexes]


def _explaining_counts(left: KeySample, available: Sequence[int], count: int) -> tuple[int, ...]:
    """Return the largest count below ``count`` that explains most of the keys; else two counts that do; else none."""
    below = range(min(count, MAX_PARTITIONS) - 1, 0, -1)
    fits = {older: left.fits(older) for older in below}
    pairs = ((older, newer) for newer in below[-MAX_OF_PAIR:] for older in range(newer - 1, 0, -1))
    candidates = chain(((older,) for older in below), pairs)
    return next((counts for counts in candidates if _explain(available, fits, *counts)), ())


def _explain(available: Sequence[int], fits: Mapping[int, BoolArray], *counts: int) -> bool:
    """Whether most keys match one of some counts, more than by chance, and many keys need each of the counts."""
    matches = [fits[count] for count in counts]
    matching_counts = np.add.reduce(matches, dtype="i8")
    alone = min(int((matched & (matching_counts == 1)).sum()) for matched in matches)
    # An upper bound: both counts often match the same partition.
    by_chance = sum(sum(number < count for number in available) / count for count in counts) / len(available)
    share = float((matching_counts > 0).mean())
    is_needed = alone >= max(LEAST_KEYS, NEEDED * len(matching_counts))
    return is_needed and by_chance < 1 and (share - by_chance) / (1 - by_chance) >= EXPLAINED_BEFORE


def _share_by_chance(available: Sequence[int], counts: Sequence[int]) -> float:
    """Return the share of keys that would match if each were in a random partition."""
    return float(_chances(counts, np.array(sorted(set(available)), "i8")).mean())
