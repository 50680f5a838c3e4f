"""Finds the partitions of each key of a topic, and why a key is in several.

Works on all keys at once or on shares of them, with all partitions of a key in the same share.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.keys.key_rows import HIGHEST, KEY_ROW, LOWEST, NO_MINIMUM, KeyRowArray
from kforensics.forensics.keys.murmur2 import murmur2, pack_keys
from kforensics.forensics.keys.partitioner_fit import PartitionerFit
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "METADATA_MAX_AGE_MS",
    "MULTIPLE_PRODUCERS",
    "KeyLocationArray",
    "KeyLocations",
    "SplitKeyCause",
    "locate_keys",
    "location_rows",
]

# Default of the producer's ``metadata.max.age.ms``: it refreshes the partition count at least this often.
METADATA_MAX_AGE_MS = 300_000
# Generation of a key that no partition count explains.
MISPLACED = -1
# Producer id of a row for the records of several producers.
MULTIPLE_PRODUCERS = -2
# A generation is the index of a partition count in PartitionerFit.counts.
KEY_LOCATION = np.dtype(
    [
        *((name, KEY_ROW[name]) for name in KEY_ROW.names or ()),
        ("partition", "i4"),
        ("oldest_generation", "i2"),  # first generation in which the key belongs here, MISPLACED if none
        ("newest_generation", "i2"),  # last one
    ]
)
KEY_PAIR = np.dtype([("cause", "i1"), ("first", KEY_LOCATION), ("second", KEY_LOCATION)])
KEY_PAIR_COUNT = np.dtype(
    [
        ("cause", "i1"),
        ("first", "i4"),
        ("second", "i4"),
        ("generation", "i2"),  # the one that brought the key to the second partition
        ("keys", "i8"),
        ("records", "i8"),
    ]
)
WRITER = np.dtype(
    [
        ("partition", "i4"),
        ("producer_id", "i8"),
        ("keys", "i8"),
        ("records", "i8"),
        ("astray_keys", "i8"),  # misplaced: in the wrong partition by every partition count of the topic
        ("astray_records", "i8"),
        ("late_keys", "i8"),  # still written by the old partition count after the growth
        ("first_offset", "i8"),  # of these two kinds of keys, NO_MINIMUM if there are none; so are the next fields
        ("first_position", "i8"),
        ("late_timestamp", "i8"),  # latest one of the late keys, -1 if there are none
        ("last_tagged_offset", "i8"),
    ]
)
WRITER_SUMS = ("keys", "records", "astray_keys", "astray_records", "late_keys")
GROWTH_BOUND = np.dtype(
    [
        ("partition", "i4"),
        ("step", "i2"),  # growth from the generation of this number to the next one
        ("old_offset", "i8"),  # last record that only an earlier count explains, -1 if there is none
        ("old_timestamp", "i8"),
        ("new_offset", "i8"),  # first record that only a later count explains, NO_MINIMUM if there is none
        ("new_timestamp", "i8"),
    ]
)
KeyLocationArray: TypeAlias = "npt.NDArray[np.void]"
KeyPairArray: TypeAlias = "npt.NDArray[np.void]"
KeyPairCountArray: TypeAlias = "npt.NDArray[np.void]"
WriterArray: TypeAlias = "npt.NDArray[np.void]"
GrowthBoundArray: TypeAlias = "npt.NDArray[np.void]"


class SplitKeyCause(IntEnum):
    """Why a key is in two partitions."""

    # The topic grew in between, and nothing was written to the first partition afterwards.
    GROWN = 0
    # The topic grew, and a producer with stale metadata wrote to the first partition for some minutes more.
    LATE = 1
    STRAY = 2
    # The newest record of the key is a tombstone, which does not delete the value in the other partition.
    TOMBSTONE = 3
    # The key is empty, and nothing shows that the default partitioner of the Java client placed the keys. That of
    # librdkafka, ``consistent_random``, places empty keys at random, as records without a key.
    EMPTY = 4


@dataclass(frozen=True, slots=True)
class KeyLocations:
    """The partitions of some keys of a topic.

    Attributes:
        keys: number of keys.
        split_count: number of keys in more than one partition.
        writers: WRITERs by partition and producer.
        partitions: WRITERs by partition, with the keys of all producers.
        bounds: GROWTH_BOUNDs by partition and step.
        counts: KEY_PAIR_COUNTs.
        pairs: the first KEY_PAIRs of each cause, by identity.
    """

    keys: int
    split_count: int
    writers: WriterArray
    partitions: WriterArray
    bounds: GrowthBoundArray
    counts: KeyPairCountArray
    pairs: KeyPairArray

    def merged(self, other: KeyLocations) -> KeyLocations:
        """Return the locations of the keys of both shares."""
        return KeyLocations(
            self.keys + other.keys,
            self.split_count + other.split_count,
            _merged_writers(concat_rows([self.writers, other.writers])),
            _merged_writers(concat_rows([self.partitions, other.partitions])),
            _merged_bounds(concat_rows([self.bounds, other.bounds])),
            _merged_counts(concat_rows([self.counts, other.counts])),
            _first_of_causes(concat_rows([self.pairs, other.pairs])),
        )


def location_rows(rows: Iterable[tuple[int, KeyRowArray]], fit: PartitionerFit) -> KeyLocationArray:
    """Return KEY_LOCATIONs.

    Args:
        rows: partition numbers, each with KEY_ROWs.
        fit: the partition counts of the topic.
    """
    parts = [np.empty(0, KEY_LOCATION)]
    for partition, keys in rows:
        located = np.empty(len(keys), KEY_LOCATION)
        for name in KEY_ROW.names or ():
            located[name] = keys[name]
        located["partition"] = partition
        parts.append(located)
    joined = concat_rows(parts)
    joined["oldest_generation"], joined["newest_generation"] = fit.generations(joined["murmur"], joined["partition"])
    return joined


def locate_keys(rows: KeyLocationArray, fit: PartitionerFit, grown_ms: int | None, *, tombstones: bool) -> KeyLocations:
    """Return the locations of keys.

    Args:
        rows: KEY_LOCATIONs, those of a key in all partitions.
        fit: the partition counts of the topic.
        grown_ms: when the topic got its current partition count, None if it never grew or the time is unknown.
        tombstones: whether tombstones delete values, as in a compacted topic.
    """
    keys = _by_partition(rows)
    begins = np.append(True, _differ(keys, "identity", "murmur"))[: len(keys)]
    key = np.cumsum(begins) - 1
    is_split = np.bincount(key)[key] > 1 if len(keys) else begins
    pairs = _pairs(take_rows(keys, is_split), key[is_split], fit, tombstones=tombstones)
    return KeyLocations(
        int(begins.sum()),
        int((begins & is_split).sum()),
        _merged_writers(_writers(rows, fit, grown_ms)),
        _merged_writers(_without_producers(_writers(keys, fit, grown_ms))),
        _merged_bounds(_bounds(rows, fit)),
        _merged_counts(_pair_counts(pairs)),
        _first_of_causes(pairs),
    )


def _differ(rows: StructArray, *names: str) -> BoolArray:
    """Return for each row but the first whether it differs from the previous one."""
    differs: BoolArray = np.logical_or.reduce([rows[name][1:] != rows[name][:-1] for name in names])
    return differs


def _reduced(rows: StructArray, names: tuple[str, ...], reductions: Sequence[tuple[Any, Iterable[str]]]) -> StructArray:
    """Return one row for all rows that are equal in some fields, with other fields reduced by ufuncs."""
    if not len(rows):
        return rows
    rows = take_rows(rows, np.lexsort([rows[name] for name in reversed(names)]))
    starts = np.flatnonzero(np.append(True, _differ(rows, *names)))
    reduced = take_rows(rows, starts)
    for ufunc, fields in reductions:
        for name in fields:
            reduced[name] = ufunc.reduceat(rows[name], starts)
    return reduced


def _by_partition(rows: KeyLocationArray) -> KeyLocationArray:
    """Return one row per key and partition, for all producers together."""
    names = ("identity", "murmur", "partition")
    lowest = _reduced(rows, names, ((np.add, ("records",)), (np.minimum, (*LOWEST, "producer_id"))))
    highest = _reduced(rows, names, ((np.maximum, (*HIGHEST, "producer_id")),))
    lowest["producer_id"][lowest["producer_id"] != highest["producer_id"]] = MULTIPLE_PRODUCERS
    for name in HIGHEST:
        lowest[name] = highest[name]
    return lowest


def _writers(rows: KeyLocationArray, fit: PartitionerFit, grown_ms: int | None) -> WriterArray:
    writers = np.zeros(len(rows), WRITER)
    for name in ("partition", "producer_id", "records"):
        writers[name] = rows[name]
    misplaced, newest = rows["newest_generation"] == MISPLACED, len(fit.counts) - 1
    late = ~misplaced & (rows["newest_generation"] < newest) & (grown_ms is not None)
    late &= rows["last_timestamp"] > (grown_ms or 0)
    writers["keys"], writers["astray_keys"], writers["late_keys"] = 1, misplaced, late
    writers["astray_records"] = np.where(misplaced, rows["records"], 0)
    for name, missing in (("first_offset", NO_MINIMUM), ("first_position", NO_MINIMUM), ("last_tagged_offset", -1)):
        writers[name] = np.where(misplaced | late, rows[name], missing)
    writers["late_timestamp"] = np.where(late, rows["last_timestamp"], -1)
    return writers


def _without_producers(rows: WriterArray) -> WriterArray:
    rows["producer_id"] = MULTIPLE_PRODUCERS
    return rows


def _merged_writers(rows: WriterArray) -> WriterArray:
    reductions = (
        (np.add, WRITER_SUMS),
        (np.minimum, ("first_offset", "first_position")),
        (np.maximum, ("late_timestamp", "last_tagged_offset")),
    )
    return _reduced(rows, ("partition", "producer_id"), reductions)


def _bounds(rows: KeyLocationArray, fit: PartitionerFit) -> GrowthBoundArray:
    parts = [np.empty(0, GROWTH_BOUND)]
    for step in range(len(fit.counts) - 1):
        old = (rows["newest_generation"] >= 0) & (rows["newest_generation"] <= step)
        new = (rows["newest_generation"] > step) & (rows["oldest_generation"] > step)
        decisive = rows[old | new]
        bounds, is_old = np.empty(len(decisive), GROWTH_BOUND), old[old | new]
        bounds["partition"], bounds["step"] = decisive["partition"], step
        bounds["old_offset"] = np.where(is_old, decisive["last_tagged_offset"] >> 1, -1)
        bounds["old_timestamp"] = np.where(is_old, decisive["last_timestamp"], -1)
        bounds["new_offset"] = np.where(is_old, NO_MINIMUM, decisive["first_offset"])
        bounds["new_timestamp"] = np.where(is_old, NO_MINIMUM, decisive["first_timestamp"])
        parts.append(bounds)
    return concat_rows(parts)


def _merged_bounds(rows: GrowthBoundArray) -> GrowthBoundArray:
    reductions = ((np.maximum, ("old_offset", "old_timestamp")), (np.minimum, ("new_offset", "new_timestamp")))
    return _reduced(rows, ("partition", "step"), reductions)


def _pairs(rows: KeyLocationArray, key: IntArray, fit: PartitionerFit, *, tombstones: bool) -> KeyPairArray:
    """Return the consecutive partitions of each key, and the tombstones that do not delete a value.

    Args:
        rows: KEY_LOCATIONs of keys in several partitions, one per key and partition.
        key: number of the key of each row.
        fit: the partition counts of the topic.
        tombstones: whether tombstones delete values.
    """
    order = np.lexsort([rows["first_timestamp"], rows["oldest_generation"], key])
    rows, key = take_rows(rows, order), key[order]
    first = np.flatnonzero(key[1:] == key[:-1])
    pairs = np.empty(len(first), KEY_PAIR)
    pairs["first"], pairs["second"] = rows[first], rows[first + 1]
    pairs["cause"] = _causes(pairs["first"], pairs["second"], fit)
    if not tombstones:
        return pairs
    ineffective = _ineffective_tombstones(rows, key)
    return concat_rows([pairs, ineffective[~_are_random(ineffective["first"], fit)]])


def _are_random(rows: KeyLocationArray, fit: PartitionerFit) -> BoolArray:
    """Return which keys may be placed at random: empty ones, unless the default partitioner placed the others."""
    ((murmur,), (identity,)) = murmur2(pack_keys([b""]))
    is_empty: BoolArray = (rows["murmur"] == murmur) & (rows["identity"] == identity)
    return is_empty & (not fit.uses_default)


def _causes(first: KeyLocationArray, second: KeyLocationArray, fit: PartitionerFit) -> IntArray:
    fits_growth = first["oldest_generation"] >= 0
    fits_growth &= (second["newest_generation"] > first["oldest_generation"]) & (fit.uses_default is not False)
    overlap = first["last_timestamp"] - second["first_timestamp"]
    # Without timestamps nothing contradicts the growth.
    known = (first["last_timestamp"] >= 0) & (second["first_timestamp"] != NO_MINIMUM)
    in_order = ~known | (overlap <= 0)
    # A third partition count may return a key to an earlier partition: its times then enclose those of the other.
    in_order |= second["oldest_generation"] < first["newest_generation"]
    causes = {
        SplitKeyCause.GROWN: fits_growth & in_order,
        SplitKeyCause.LATE: fits_growth & ~in_order & (overlap <= METADATA_MAX_AGE_MS),
        SplitKeyCause.EMPTY: _are_random(first, fit),
    }
    return np.select([*causes.values()], [*causes], SplitKeyCause.STRAY)


def _ineffective_tombstones(rows: KeyLocationArray, key: IntArray) -> KeyPairArray:
    """Return pairs of a value and a newer tombstone of the same key in another partition, the newest record of it."""
    order = np.lexsort([rows["last_timestamp"], key])
    rows, key = take_rows(rows, order), key[order]
    last = np.flatnonzero(np.append(key[1:] != key[:-1], True)[: len(key)])
    newest = last[np.searchsorted(key[last], key)]
    is_tombstone = rows["last_tagged_offset"] & 1 == 1
    is_earlier = (rows["last_timestamp"] >= 0) & (rows["last_timestamp"] < rows["last_timestamp"][newest])
    values = np.flatnonzero(is_tombstone[newest] & ~is_tombstone & is_earlier)
    pairs = np.empty(len(values), KEY_PAIR)
    pairs["cause"], pairs["first"], pairs["second"] = SplitKeyCause.TOMBSTONE, rows[values], rows[newest[values]]
    return pairs


def _pair_counts(pairs: KeyPairArray) -> KeyPairCountArray:
    counts = np.empty(len(pairs), KEY_PAIR_COUNT)
    counts["cause"], counts["keys"] = pairs["cause"], 1
    counts["first"], counts["second"] = pairs["first"]["partition"], pairs["second"]["partition"]
    counts["records"] = pairs["first"]["records"] + pairs["second"]["records"]
    # The first generation after that of the first partition in which the key belongs to the second one.
    oldest, newest = (pairs["second"][name] for name in ("oldest_generation", "newest_generation"))
    counts["generation"] = np.where(oldest > pairs["first"]["oldest_generation"], oldest, newest)
    return counts


def _merged_counts(rows: KeyPairCountArray) -> KeyPairCountArray:
    return _reduced(rows, ("cause", "first", "second", "generation"), ((np.add, ("keys", "records")),))


def _first_of_causes(pairs: KeyPairArray) -> KeyPairArray:
    """Return the first pairs of each cause, as many as are reported."""
    parts = [pairs[:0]]
    for cause in SplitKeyCause:
        of_cause = pairs[pairs["cause"] == cause]
        parts.append(take_rows(of_cause, np.argsort(of_cause["first"]["identity"], kind="stable")[:MOST]))
    return concat_rows(parts)
