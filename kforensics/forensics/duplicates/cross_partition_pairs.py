"""Pairs records of equal content in two partitions of a topic: which contents count, and which records make a pair.

Across partitions, offsets have no order, so records are ordered by timestamp. A content that occurs often within one
partition, such as a heartbeat or one of few possible values, does not identify an event and is not compared.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.duplicates.content_pairs import (
    CONTENT_PAIR,
    ContentPairArray,
    RetryWindow,
    are_whole_batches,
    have_same_create_time,
)
from kforensics.forensics.duplicates.duplicate_rows import DuplicateReason
from kforensics.forensics.duplicates.record_reader import RECORD_ENTRY, RecordEntryArray
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "HASH_COUNT",
    "MAX_OCCURRENCES",
    "MAX_RUN_GAP",
    "MAX_TOPIC_PARTITIONS",
    "HashCountArray",
    "capped_entries",
    "cross_partition_pairs",
    "cross_partition_reasons",
    "hash_counts",
    "partition_numbers",
    "partition_ordinals",
    "shared_hashes",
    "to_topic_ordinals",
]

# A content that occurs more often than this in one partition is not compared with other partitions.
MAX_OCCURRENCES = 10
# A run may continue across so many records that are not compared or have no copy.
MAX_RUN_GAP = 100
# An ordinal in a topic is the partition number, then so many bits for the ordinal in the partition.
PARTITION_ORDINAL_BITS = 40
MAX_TOPIC_PARTITIONS = 1 << 15
HASH_COUNT = np.dtype([("low", "u8"), ("partition", "i4"), ("records", "i4")])
HashCountArray: TypeAlias = "npt.NDArray[np.void]"


def to_topic_ordinals(entries: RecordEntryArray, partition: int) -> RecordEntryArray:
    """Return the entries with ordinals that are unique in the topic.

    Args:
        entries: of one partition; they are changed in place.
        partition: number of the partition, below MAX_TOPIC_PARTITIONS.
    """
    for name in ("ordinal", "batch"):
        entries[name] += partition << PARTITION_ORDINAL_BITS
    return entries


def partition_numbers(ordinals: IntArray) -> IntArray:
    """Return the partition number in each topic ordinal."""
    numbers: IntArray = ordinals >> PARTITION_ORDINAL_BITS
    return numbers


def partition_ordinals(ordinals: IntArray) -> IntArray:
    """Return the ordinal within its partition of each topic ordinal."""
    within: IntArray = ordinals & ((1 << PARTITION_ORDINAL_BITS) - 1)
    return within


def hash_counts(low: IntArray, partition: int) -> HashCountArray:
    """Return the distinct hashes of some records of a partition, with the number of records of each."""
    hashes, counts = np.unique(low, return_counts=True)
    rows = np.empty(len(hashes), HASH_COUNT)
    rows["low"], rows["partition"], rows["records"] = hashes, partition, np.minimum(counts, MAX_OCCURRENCES + 1)
    return rows


def shared_hashes(rows: HashCountArray) -> HashCountArray:
    """Return one row per hash and partition, for hashes that several partitions have and none has too often.

    Args:
        rows: all rows of some hashes.
    """
    # Most hashes occur once. Sorting all of their rows would take longer than everything else.
    order = np.argsort(rows["low"])
    hashes = rows["low"][order]
    same = hashes[1:] == hashes[:-1]
    repeated = np.append(same, False)[: len(rows)] | np.append(False, same)[: len(rows)]
    rows = _totals(take_rows(rows, order[repeated]))
    starts = np.flatnonzero(np.append(True, rows["low"][1:] != rows["low"][:-1])[: len(rows)])
    if not len(starts):
        return rows
    partitions = np.diff(np.append(starts, len(rows)))
    wanted = (partitions > 1) & (np.maximum.reduceat(rows["records"], starts) <= MAX_OCCURRENCES)
    return take_rows(rows, np.repeat(wanted, partitions))


def _totals(rows: HashCountArray) -> HashCountArray:
    """Return one row per hash and partition, in that order."""
    rows = take_rows(rows, np.lexsort([rows["partition"], rows["low"]]))
    changes = (rows["low"][1:] != rows["low"][:-1]) | (rows["partition"][1:] != rows["partition"][:-1])
    starts = np.flatnonzero(np.append(True, changes)[: len(rows)])
    totals = take_rows(rows, starts)
    if len(starts):
        sums = np.add.reduceat(rows["records"].astype("i8"), starts)
        totals["records"] = np.minimum(sums, MAX_OCCURRENCES + 1)
    return totals


def capped_entries(entries: RecordEntryArray) -> RecordEntryArray:
    """Return at most MAX_OCCURRENCES + 1 entries per content and partition: enough to see that there are too many.

    Args:
        entries: with topic ordinals.
    """
    order, _, same_partition = _by_content(entries)
    starts = np.maximum.accumulate(np.where(same_partition, 0, np.arange(len(entries))))
    return take_rows(entries, order[np.arange(len(entries)) - starts <= MAX_OCCURRENCES])


def _by_content(entries: RecordEntryArray, *names: str) -> tuple[IntArray, BoolArray, BoolArray]:
    """Return the order of entries by content, then some columns, then topic ordinal.

    Returns:
        The order; which entries in it have the content of the previous one; which have its partition as well.
    """
    keys = [entries["ordinal"], *(entries[name] for name in reversed(names)), entries["high"], entries["low"]]
    order = np.lexsort(keys)
    same_content = np.zeros(len(entries), bool)
    low, high = entries["low"][order], entries["high"][order]
    partition = partition_numbers(entries["ordinal"])[order]
    same_content[1:] = (low[1:] == low[:-1]) & (high[1:] == high[:-1])
    same_partition = same_content.copy()
    same_partition[1:] &= partition[1:] == partition[:-1]
    return order, same_content, same_partition


def cross_partition_pairs(entries: RecordEntryArray) -> ContentPairArray:
    """Return each record paired with the nearest earlier one, by timestamp, in another partition of the topic.

    Of two records with equal timestamps, the one in the higher partition counts as the later one. If a read_committed
    consumer receives the record but not the earlier one, the record is also paired with the nearest earlier one that
    the consumer receives.

    Args:
        entries: with topic ordinals; all entries of some contents, or what :func:`capped_entries` keeps of them.
    """
    entries = _without_frequent(entries)
    order, same_content, same_partition = _by_content(entries, "timestamp")
    entries = take_rows(entries, order)
    earlier = _earlier_copies(same_content, same_partition)
    visible = np.flatnonzero(~entries["is_hidden"])
    visible_entries = take_rows(entries, visible)
    _, same_content, same_partition = _by_content(visible_entries, "timestamp")
    visible_earlier = _earlier_copies(same_content, same_partition)
    has_earlier = visible_earlier >= 0
    additional = np.full(len(entries), -1)
    additional[visible[has_earlier]] = visible[visible_earlier[has_earlier]]
    additional[additional == earlier] = -1
    return concat_rows([_pairs(entries, earlier), _pairs(entries, additional)])


def _without_frequent(entries: RecordEntryArray) -> RecordEntryArray:
    """Return the entries of contents that no partition has too often."""
    order, same_content, same_partition = _by_content(entries)
    index = np.arange(len(entries))
    occurrence = index - np.maximum.accumulate(np.where(same_partition, 0, index))
    starts = np.flatnonzero(~same_content)
    if not len(starts):
        return entries
    wanted = np.maximum.reduceat(occurrence, starts) < MAX_OCCURRENCES
    return take_rows(entries, order[np.repeat(wanted, np.diff(np.append(starts, len(entries))))])


def _earlier_copies(same_content: BoolArray, same_partition: BoolArray) -> IntArray:
    """Return the index of the nearest previous entry of each in another partition, -1 for none."""
    partition_start = np.maximum.accumulate(np.where(same_partition, 0, np.arange(len(same_content))))
    return np.where(same_content[partition_start], partition_start - 1, -1)


def _pairs(entries: RecordEntryArray, earlier: IntArray) -> ContentPairArray:
    later = np.flatnonzero(earlier >= 0)
    pairs = np.empty(len(later), CONTENT_PAIR)
    sides = pairs.view(RECORD_ENTRY).reshape(-1, 2)
    put_rows(sides[:, 0], slice(None), take_rows(entries, earlier[later]))
    put_rows(sides[:, 1], slice(None), take_rows(entries, later))
    return pairs


def cross_partition_reasons(pairs: ContentPairArray, window: RetryWindow) -> IntArray:
    """Return a DuplicateReason for each pair of two partitions.

    A producer sends a retry to the partition it has chosen. So a copy in another partition was sent again by an
    application, either with the same timestamp or with a new one.

    Args:
        pairs: ordered by view, then by the later copy.
        window: the limits of a retry.
    """
    first, second = pairs["first"], pairs["second"]
    without_producer = (first["producer_id"] < 0) & (second["producer_id"] < 0)
    near = without_producer & (first["timestamp"] >= 0)
    near &= second["timestamp"] - first["timestamp"] < window.milliseconds
    return np.select(
        [
            near & have_same_create_time(pairs),
            near & are_whole_batches(pairs) & (second["count"] > 1),
            without_producer,
            first["producer_id"] != second["producer_id"],
            first["producer_epoch"] != second["producer_epoch"],
        ],
        [
            DuplicateReason.RETRY_SAME_TIME,
            DuplicateReason.RETRY_WHOLE_BATCH,
            DuplicateReason.NO_PRODUCER,
            DuplicateReason.OTHER_PRODUCER,
            DuplicateReason.OTHER_EPOCH,
        ],
        DuplicateReason.SAME_PRODUCER,
    )
