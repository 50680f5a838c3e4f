"""How a producer goes from partition to partition with records that have no key, or whose key does not matter.

A sticky partitioner fills a batch of one partition and goes on to another one (KIP-480, KIP-794): what it writes to one
does not overlap in time with what it writes to another. A round-robin one writes a record here, the next one there: its
batches come in the order of the partitions, or overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.keys.key_summary import KeySummary
from kforensics.forensics.keys.producer_batches import MOMENT, PRODUCER_BATCHES, by_producer

__all__ = ["Style", "styles_of"]

# Fewer batches, or times at which it went elsewhere, tell nothing.
LEAST = 6
# Share of batches that must speak for a style.
MOSTLY = 0.7
SITED = np.dtype([*((name, MOMENT[name]) for name in MOMENT.names or ()), ("partition", "i4")])


class Style(StrEnum):
    """How a producer chooses partitions."""

    KEYED = "keyed"
    STICKY = "sticky"
    ROUND_ROBIN = "round-robin"


def styles_of(summaries: Sequence[KeySummary], count: int, *, by_key: bool) -> dict[int, Style]:
    """Return the style of each producer of which it can be told.

    Args:
        summaries: of all partitions of a topic.
        count: how many partitions it has.
        by_key: whether records with keys are placed by them.
    """
    totals = by_producer(joined_records([np.empty(0, PRODUCER_BATCHES), *(one.producers for one in summaries)]))
    keyed = totals["producer_id"][2 * totals["keyless"] < totals["records"]]
    found = dict.fromkeys(keyed.tolist(), Style.KEYED) if by_key else {}
    for producer_id, batches in _by_producer(summaries):
        if producer_id not in found and (style := _style(batches, count)):
            found[producer_id] = style
    return found


def _by_producer(summaries: Sequence[KeySummary]) -> Iterator[tuple[int, Records]]:
    """Yield the batches of each producer in the order of time."""
    parts = [np.empty(0, SITED)]
    for summary in summaries:
        sited = np.empty(len(summary.moments), SITED)
        for name in MOMENT.names or ():
            sited[name] = summary.moments[name]
        sited["partition"] = summary.number
        parts.append(sited)
    rows = joined_records(parts)
    names = ("last_timestamp", "first_timestamp", "producer_id")
    rows = picked(rows, np.lexsort([rows["partition"], *(rows[name] for name in names)]))
    for some in np.split(rows, np.flatnonzero(np.diff(rows["producer_id"])) + 1):
        if len(some):
            yield int(some["producer_id"][0]), some


def _style(batches: Records, count: int) -> Style | None:
    """Return the style of a producer by its batches, in the order of time."""
    before, after = batches[:-1], batches[1:]
    goes_on = before["partition"] != after["partition"]
    if len(batches) < LEAST or goes_on.sum() < LEAST // 2:
        return None
    # When all that was written before this batch was through, to whatever partition.
    latest = np.maximum.accumulate(before["last_timestamp"])
    overlaps = (after["first_timestamp"] < latest) & goes_on
    steps = (before["partition"] + 1) % count == after["partition"]
    goes_round = count > 2 and steps.sum() > MOSTLY * len(after)
    if goes_round or overlaps.sum() > MOSTLY * goes_on.sum() or _is_even(batches, after["first_timestamp"] > latest):
        return Style.ROUND_ROBIN
    apart = (after["first_timestamp"] > latest) & goes_on
    return Style.STICKY if apart.sum() > MOSTLY * goes_on.sum() else None


def _is_even(batches: Records, begins: Records) -> bool:
    """Whether each time as many records went to every partition.

    Args:
        batches: of a producer, in the order of time.
        begins: whether another time begins with a batch, for each but the first.
    """
    times = np.cumsum(np.append(True, begins)) - 1
    numbers, partition = np.unique(batches["partition"], return_inverse=True)
    counts = np.zeros((times[-1] + 1, len(numbers)), "i8")
    np.add.at(counts, (times, partition), batches["records"])
    even = (counts.min(axis=1) > 0) & (np.ptp(counts, axis=1) <= 1)
    return bool(even[times].mean() > MOSTLY)
