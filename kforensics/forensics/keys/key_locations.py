"""Keys and the partitions they lie in: those of some keys of all partitions at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.keys.key_rows import HIGHEST, KEY, LATER, LOWEST
from kforensics.forensics.keys.partitioner_fit import Placing

__all__ = [
    "ASTRAY",
    "BOUND",
    "FAMILIAR_MS",
    "LYING",
    "MANY",
    "PAIR",
    "WRITER",
    "Apart",
    "Lying",
    "lying",
    "lying_rows",
]

# A producer asks for the partitions of a topic this often, in ms: ``metadata.max.age.ms``.
FAMILIAR_MS = 300_000
ASTRAY = -1
# Producer of what several have written.
MANY = -2
LYING = np.dtype(
    [
        *((name, KEY[name]) for name in KEY.names or ()),
        ("partition", "i4"),
        ("oldest", "i2"),  # number of the oldest count the place is right with, ASTRAY if there is none
        ("era", "i2"),  # of the newest one
    ]
)
PAIR = np.dtype([("kind", "i1"), ("first", LYING), ("second", LYING)])
PAIR_COUNT = np.dtype(
    [
        ("kind", "i1"),
        ("first", "i4"),
        ("second", "i4"),
        ("era", "i2"),  # number of the count that brought the key to the second
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
        ("astray_keys", "i8"),  # that lie where no count of the topic would have them
        ("astray_records", "i8"),
        ("late_keys", "i8"),  # that were still written where an earlier count would have them
        ("first_offset", "i8"),  # of the astray and late ones, LATER if there are none, as are the next two
        ("first_place", "i8"),
        ("late_timestamp", "i8"),  # latest one of the late keys, -1 if there are none
        ("last_mark", "i8"),
    ]
)
WRITER_SUMS = ("keys", "records", "astray_keys", "astray_records", "late_keys")
BOUND = np.dtype(
    [
        ("partition", "i4"),
        ("step", "i2"),  # growth from the count of this number to the next one
        ("old_offset", "i8"),  # last record that only an earlier count has here, -1 if there is none
        ("old_timestamp", "i8"),
        ("new_offset", "i8"),  # first record that only a later count has here, LATER if there is none
        ("new_timestamp", "i8"),
    ]
)


class Apart(IntEnum):
    """Why a key lies in two partitions."""

    # The topic grew between the two, and nothing was written to the first afterwards.
    GROWN = 0
    # The topic grew, and somebody who had not heard of it yet wrote to the first for some minutes more.
    LATE = 1
    STRAY = 2
    # The newest record of the key is a tombstone, and does not delete the value in the other partition.
    TOMBSTONE = 3


@dataclass(frozen=True, slots=True)
class Lying:
    """Where some keys lie; those of several shares of all keys are merged.

    Attributes:
        keys: how many there are.
        twice: how many of them lie in more than one partition.
        writers: WRITER rows, by partition and producer.
        partitions: WRITER rows, by partition, whoever wrote the keys.
        bounds: BOUND rows, by partition and step.
        counts: PAIR_COUNT rows.
        pairs: PAIR rows, the first ones of each kind, by identity.
    """

    keys: int
    twice: int
    writers: Records
    partitions: Records
    bounds: Records
    counts: Records
    pairs: Records

    def merged(self, other: Lying) -> Lying:
        """Return where the keys of both shares lie."""
        return Lying(
            self.keys + other.keys,
            self.twice + other.twice,
            _writers(joined_records([self.writers, other.writers])),
            _writers(joined_records([self.partitions, other.partitions])),
            _bounds(joined_records([self.bounds, other.bounds])),
            _counts(joined_records([self.counts, other.counts])),
            _first_of_kinds(joined_records([self.pairs, other.pairs])),
        )


def lying_rows(rows: Iterable[tuple[int, Records]], placing: Placing) -> Records:
    """Return LYING rows.

    Args:
        rows: numbers of partitions, each with KEY rows.
        placing: the partition counts by which they were placed.
    """
    parts = [np.empty(0, LYING)]
    for partition, keys in rows:
        found = np.empty(len(keys), LYING)
        for name in KEY.names or ():
            found[name] = keys[name]
        found["partition"] = partition
        parts.append(found)
    every = joined_records(parts)
    every["oldest"], every["era"] = placing.eras(every["murmur"], every["partition"])
    return every


def lying(rows: Records, placing: Placing, grown_ms: int | None, *, tombstones: bool) -> Lying:
    """Return where keys lie.

    Args:
        rows: LYING, those of a key in all partitions.
        placing: as for :func:`lying_rows`.
        grown_ms: when the topic had its last count, None if it never grew or nobody knows.
        tombstones: whether tombstones are to delete values, as in a compacted topic.
    """
    keys = _by_partition(rows)
    begins = np.append(True, _differ(keys, "identity", "murmur"))[: len(keys)]
    key = np.cumsum(begins) - 1
    shared = np.bincount(key)[key] > 1 if len(keys) else begins
    pairs = _pairs(picked(keys, shared), key[shared], placing, tombstones=tombstones)
    return Lying(
        int(begins.sum()),
        int((begins & shared).sum()),
        _writers(_written(rows, placing, grown_ms)),
        _writers(_anyones(_written(keys, placing, grown_ms))),
        _bounds(_bounding(rows, placing)),
        _counts(_counting(pairs)),
        _first_of_kinds(pairs),
    )


def _differ(rows: Records, *names: str) -> Records:
    """Return for each row but the first whether it is unlike the one before it."""
    unlike: Records = np.logical_or.reduce([rows[name][1:] != rows[name][:-1] for name in names])
    return unlike


def _reduced(rows: Records, names: tuple[str, ...], ways: Sequence[tuple[Any, Iterable[str]]]) -> Records:
    """Return rows by some fields, those that are equal in them as one."""
    if not len(rows):
        return rows
    rows = picked(rows, np.lexsort([rows[name] for name in reversed(names)]))
    starts = np.flatnonzero(np.append(True, _differ(rows, *names)))
    found = picked(rows, starts)
    for reduce, fields in ways:
        for name in fields:
            found[name] = reduce.reduceat(rows[name], starts)
    return found


def _by_partition(rows: Records) -> Records:
    """Return a row for each key and partition, whoever wrote it."""
    names = ("identity", "murmur", "partition")
    lowest = _reduced(rows, names, ((np.add, ("records",)), (np.minimum, (*LOWEST, "producer_id"))))
    highest = _reduced(rows, names, ((np.maximum, (*HIGHEST, "producer_id")),))
    lowest["producer_id"][lowest["producer_id"] != highest["producer_id"]] = MANY
    for name in HIGHEST:
        lowest[name] = highest[name]
    return lowest


def _written(rows: Records, placing: Placing, grown_ms: int | None) -> Records:
    found = np.zeros(len(rows), WRITER)
    for name in ("partition", "producer_id", "records"):
        found[name] = rows[name]
    astray, newest = rows["era"] == ASTRAY, len(placing.counts) - 1
    late = ~astray & (rows["era"] < newest) & (grown_ms is not None)
    late &= rows["last_timestamp"] > (grown_ms or 0)
    found["keys"], found["astray_keys"], found["late_keys"] = 1, astray, late
    found["astray_records"] = np.where(astray, rows["records"], 0)
    for name, nothing in (("first_offset", LATER), ("first_place", LATER), ("last_mark", -1)):
        found[name] = np.where(astray | late, rows[name], nothing)
    found["late_timestamp"] = np.where(late, rows["last_timestamp"], -1)
    return found


def _anyones(rows: Records) -> Records:
    rows["producer_id"] = MANY
    return rows


def _writers(rows: Records) -> Records:
    ways = (
        (np.add, WRITER_SUMS),
        (np.minimum, ("first_offset", "first_place")),
        (np.maximum, ("late_timestamp", "last_mark")),
    )
    return _reduced(rows, ("partition", "producer_id"), ways)


def _bounding(rows: Records, placing: Placing) -> Records:
    parts = [np.empty(0, BOUND)]
    for step in range(len(placing.counts) - 1):
        old = (rows["era"] >= 0) & (rows["era"] <= step)
        new = (rows["era"] > step) & (rows["oldest"] > step)
        some = rows[old | new]
        found, is_old = np.empty(len(some), BOUND), old[old | new]
        found["partition"], found["step"] = some["partition"], step
        found["old_offset"] = np.where(is_old, some["last_mark"] >> 1, -1)
        found["old_timestamp"] = np.where(is_old, some["last_timestamp"], -1)
        found["new_offset"] = np.where(is_old, LATER, some["first_offset"])
        found["new_timestamp"] = np.where(is_old, LATER, some["first_timestamp"])
        parts.append(found)
    return joined_records(parts)


def _bounds(rows: Records) -> Records:
    ways = ((np.maximum, ("old_offset", "old_timestamp")), (np.minimum, ("new_offset", "new_timestamp")))
    return _reduced(rows, ("partition", "step"), ways)


def _pairs(rows: Records, key: Records, placing: Placing, *, tombstones: bool) -> Records:
    """Return each two partitions of a key that follow one another in time, and where a tombstone misses a value.

    Args:
        rows: a row for each partition of keys that lie in several.
        key: number of the key of each.
        placing: as above.
        tombstones: as above.
    """
    order = np.lexsort([rows["first_timestamp"], rows["oldest"], key])
    rows, key = picked(rows, order), key[order]
    follows = np.flatnonzero(key[1:] == key[:-1])
    found = np.empty(len(follows), PAIR)
    found["first"], found["second"] = rows[follows], rows[follows + 1]
    found["kind"] = _kinds(found["first"], found["second"], placing)
    return joined_records([found, _missed(rows, key)]) if tombstones else found


def _kinds(first: Records, second: Records, placing: Placing) -> Records:
    goes_by_count = (first["oldest"] >= 0) & (second["era"] > first["oldest"]) & (placing.follows is not False)
    overlap = first["last_timestamp"] - second["first_timestamp"]
    # Nothing speaks against it where times are missing.
    known = (first["last_timestamp"] >= 0) & (second["first_timestamp"] != LATER)
    in_order = ~known | (overlap <= 0)
    # With a third count the key may have come back to where it lay once: then the one time lies inside the other.
    in_order |= second["oldest"] < first["era"]
    grown = goes_by_count & in_order
    late = goes_by_count & ~in_order & (overlap <= FAMILIAR_MS)
    return np.select([grown, late], [Apart.GROWN, Apart.LATE], Apart.STRAY)


def _missed(rows: Records, key: Records) -> Records:
    """Return values of keys whose newest record is a tombstone in another partition."""
    order = np.lexsort([rows["last_timestamp"], key])
    rows, key = picked(rows, order), key[order]
    last = np.flatnonzero(np.append(key[1:] != key[:-1], True)[: len(key)])
    newest = last[np.searchsorted(key[last], key)]
    is_tombstone = rows["last_mark"] & 1 == 1
    earlier = (rows["last_timestamp"] >= 0) & (rows["last_timestamp"] < rows["last_timestamp"][newest])
    which = np.flatnonzero(is_tombstone[newest] & ~is_tombstone & earlier)
    found = np.empty(len(which), PAIR)
    found["kind"], found["first"], found["second"] = Apart.TOMBSTONE, rows[which], rows[newest[which]]
    return found


def _counting(pairs: Records) -> Records:
    found = np.empty(len(pairs), PAIR_COUNT)
    found["kind"], found["keys"] = pairs["kind"], 1
    found["first"], found["second"] = pairs["first"]["partition"], pairs["second"]["partition"]
    found["records"] = pairs["first"]["records"] + pairs["second"]["records"]
    # The first count behind that of the first partition with which the second one is right.
    oldest, newest = (pairs["second"][name] for name in ("oldest", "era"))
    found["era"] = np.where(oldest > pairs["first"]["oldest"], oldest, newest)
    return found


def _counts(rows: Records) -> Records:
    return _reduced(rows, ("kind", "first", "second", "era"), ((np.add, ("keys", "records")),))


def _first_of_kinds(pairs: Records) -> Records:
    """Return the first pairs of each kind, as many as are told."""
    parts = [pairs[:0]]
    for kind in Apart:
        some = pairs[pairs["kind"] == kind]
        parts.append(picked(some, np.argsort(some["first"]["identity"], kind="stable")[:MOST]))
    return joined_records(parts)
