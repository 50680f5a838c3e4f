"""Finds how each producer chooses partitions for records without a key, or if the key does not determine the partition.

A sticky partitioner (KIP-480, KIP-794) fills a batch of one partition and then moves to another one, so its batches in
different partitions do not overlap in time. A round-robin partitioner writes each record to the next partition: its
batches follow the order of the partitions, or overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, take_rows
from kforensics.forensics.keys.key_summary import KeySummary
from kforensics.forensics.keys.producer_batches import BATCH_TIME, PRODUCER_BATCHES, totals_by_producer
from kforensics.parsers.format.array_types import BoolArray

if TYPE_CHECKING:
    import numpy.typing as npt

# Fewer batches, or half as many moves to another partition, prove nothing.
LEAST = 6
# Share of batches that must match a style.
MOSTLY = 0.7
PARTITION_BATCH_TIME = np.dtype([*((name, BATCH_TIME[name]) for name in BATCH_TIME.names or ()), ("partition", "i4")])
PartitionBatchTimeArray: TypeAlias = "npt.NDArray[np.void]"


class WritingStyle(StrEnum):
    """How a producer chooses partitions."""

    KEYED = "keyed"
    STICKY = "sticky"
    ROUND_ROBIN = "round-robin"


def styles_of(summaries: Sequence[KeySummary], count: int, *, by_key: bool) -> dict[int, WritingStyle]:
    """Return the style of each producer whose batches show one.

    Args:
        summaries: all partitions of a topic.
        count: its partition count.
        by_key: whether keys determine the partition.
    """
    producers = (summary.producers for summary in summaries)
    totals = totals_by_producer(concat_rows([np.empty(0, PRODUCER_BATCHES), *producers]))
    keyed = totals["producer_id"][2 * totals["keyless"] < totals["records"]]
    styles = dict.fromkeys(keyed.tolist(), WritingStyle.KEYED) if by_key else {}
    for producer_id, batches in _by_producer(summaries):
        if producer_id not in styles and (style := _style(batches, count)):
            styles[producer_id] = style
    return styles


def _by_producer(summaries: Sequence[KeySummary]) -> Iterator[tuple[int, PartitionBatchTimeArray]]:
    """Yield the batches of each producer in time order."""
    parts = [np.empty(0, PARTITION_BATCH_TIME)]
    for summary in summaries:
        batches = np.empty(len(summary.batch_times), PARTITION_BATCH_TIME)
        for name in BATCH_TIME.names or ():
            batches[name] = summary.batch_times[name]
        batches["partition"] = summary.number
        parts.append(batches)
    rows = concat_rows(parts)
    names = ("last_timestamp", "first_timestamp", "producer_id")
    rows = take_rows(rows, np.lexsort([rows["partition"], *(rows[name] for name in names)]))
    for batches in np.split(rows, np.flatnonzero(np.diff(rows["producer_id"])) + 1):
        if len(batches):
            yield int(batches["producer_id"][0]), batches


def _style(batches: PartitionBatchTimeArray, count: int) -> WritingStyle | None:
    """Return the style of a producer from its batches in time order, None if they show none."""
    before, after = batches[:-1], batches[1:]
    moves = before["partition"] != after["partition"]
    if len(batches) < LEAST or moves.sum() < LEAST // 2:
        return None
    # Last timestamp of all earlier batches, whatever their partition.
    latest = np.maximum.accumulate(before["last_timestamp"])
    overlaps = (after["first_timestamp"] < latest) & moves
    steps = (before["partition"] + 1) % count == after["partition"]
    goes_round = count > 2 and steps.sum() > MOSTLY * len(after)
    if goes_round or overlaps.sum() > MOSTLY * moves.sum() or _is_even(batches, after["first_timestamp"] > latest):
        return WritingStyle.ROUND_ROBIN
    follow_each_other = (after["first_timestamp"] > latest) & moves
    return WritingStyle.STICKY if follow_each_other.sum() > MOSTLY * moves.sum() else None


def _is_even(batches: PartitionBatchTimeArray, begins_period: BoolArray) -> bool:
    """Whether every partition got the same number of records in most periods of overlapping batches.

    Args:
        batches: batches of a producer in time order.
        begins_period: for each batch but the first, whether it starts after all earlier ones have ended.
    """
    periods = np.cumsum(np.append(True, begins_period)) - 1
    numbers, partition = np.unique(batches["partition"], return_inverse=True)
    counts = np.zeros((periods[-1] + 1, len(numbers)), "i8")
    np.add.at(counts, (periods, partition), batches["records"])
    is_even = (counts.min(axis=1) > 0) & (np.ptp(counts, axis=1) <= 1)
    return bool(is_even[periods].mean() > MOSTLY)
