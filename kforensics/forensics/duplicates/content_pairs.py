"""Pairs records of equal content within a partition, explains each pair, and joins consecutive pairs into runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import concat_rows, put_rows, take_rows
from kforensics.forensics.duplicates.duplicate_rows import (
    DUPLICATE,
    DuplicateArray,
    DuplicateLevel,
    DuplicateReason,
    DuplicateView,
    merge_runs,
    run_starts,
)
from kforensics.forensics.duplicates.record_reader import RECORD_ENTRY, RecordEntryArray
from kforensics.forensics.replay.neighbor_anomalies import SEQUENCE_COUNT
from kforensics.parsers.columns.hash_columns import EMPTY_RECORD, NON_EMPTY
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "CONTENT_PAIR",
    "DUPLICATE_RUN",
    "LARGEST_UNDIVIDED",
    "ContentPairArray",
    "DuplicateRunArray",
    "RetryWindow",
    "are_whole_batches",
    "as_duplicates",
    "have_same_create_time",
    "is_by_clock",
    "join_runs",
    "matching_batches",
    "pair_entries",
    "partition_reasons",
    "repeated_hashes",
    "single_runs",
]

CONTENT_PAIR = np.dtype([("first", RECORD_ENTRY), ("second", RECORD_ENTRY)])
ContentPairArray: TypeAlias = "npt.NDArray[np.void]"
# A duplicate that may still be joined with its neighbors.
DUPLICATE_RUN = np.dtype(
    [
        *((name, DUPLICATE[name]) for name in DUPLICATE.names or ()),
        ("first", "i8"),  # ordinal of the first record
        ("second", "i8"),  # ordinal of its later copy
        ("low", "u8"),  # hash of the first record
        ("batch", "i8"),  # ordinal of the batch of its later copy
        ("span", "i8"),  # ordinals covered, including gaps
        ("is_conclusive", "?"),  # see _are_conclusive
        ("is_varied", "?"),  # whether its records differ in content
        ("is_several", "?"),  # whether its later copies are in several batches
    ]
)
DuplicateRunArray: TypeAlias = "npt.NDArray[np.void]"
# Entries to pair at once.
PAIRED_ROWS = 1 << 17
# Records of the largest batch whose pairs are always judged together.
LARGEST_UNDIVIDED = 1 << 16
# Returns a DuplicateReason for each pair.
FindReasons: TypeAlias = Callable[[ContentPairArray, "RetryWindow"], IntArray]


@dataclass(frozen=True, slots=True)
class RetryWindow:
    """How close to the earlier copy the later copy must be to count as a retry of the client.

    Attributes:
        offsets: the offsets of the two differ by less than this.
        milliseconds: their timestamps differ by less than this.
    """

    offsets: int = 100_000
    milliseconds: int = 600_000


def repeated_hashes(parts: Iterable[IntArray]) -> Iterator[IntArray]:
    """Yield the hashes that occur more than once in the parts of a bucket; a hash may be yielded repeatedly.

    Args:
        parts: hashes; the arrays are sorted in place.
    """
    seen: IntArray | None = None
    for part in parts:
        hashes = part if seen is None else np.concatenate([seen, part])
        hashes.sort()
        same = hashes[1:] == hashes[:-1]
        yield hashes[1:][same]
        seen = np.concatenate([hashes[:1], hashes[1:][~same]])


def pair_entries(parts: Iterable[RecordEntryArray], window: RetryWindow) -> Iterator[ContentPairArray]:
    """Yield the pairs of a bucket: each record with the nearest earlier one of equal content.

    If a read_committed consumer receives the record but not the earlier one, the record is also paired with the nearest
    earlier one that the consumer receives. Only records without a producer id are repeated unchanged by a retry. For
    these, an earlier record within the window is preferred that has the same timestamp and the same index in its batch.
    Without a timestamp, nothing shows that a record is a retry.

    Args:
        parts: entries in log order; all entries with equal content are in the same bucket.
        window: the limits of a retry.
    """
    rows = np.empty(0, RECORD_ENTRY)
    slices = (part[start : start + PAIRED_ROWS] for part in parts for start in range(0, len(part), PAIRED_ROWS))
    for part in slices:
        carried = _carried_over(rows, window) if len(rows) else rows
        rows = concat_rows([carried, part])
        earlier = _earlier_copies(rows, window)
        yield _pairs(rows, earlier, len(carried))
        visible = np.flatnonzero(~rows["is_hidden"])
        if len(visible) < len(rows):
            visible_earlier = _earlier_copies(take_rows(rows, visible), window)
            has_earlier = visible_earlier >= 0
            additional = np.full(len(rows), -1)
            additional[visible[has_earlier]] = visible[visible_earlier[has_earlier]]
            additional[additional == earlier] = -1
            yield _pairs(rows, additional, len(carried))


def _pairs(rows: RecordEntryArray, earlier: IntArray, start: int) -> ContentPairArray:
    """Return the pairs of the rows from ``start`` on; ``earlier`` is the index of the earlier copy, -1 for none."""
    later = np.flatnonzero(earlier >= 0)
    later = later[later >= start]
    sides = np.empty((len(later), 2), RECORD_ENTRY)
    put_rows(sides[:, 0], slice(None), take_rows(rows, earlier[later]))
    put_rows(sides[:, 1], slice(None), take_rows(rows, later))
    pairs = sides.view(CONTENT_PAIR).reshape(-1)
    excluded = _are_sequence_duplicates(pairs)
    return take_rows(pairs, ~excluded) if excluded.any() else pairs


def _carried_over(rows: RecordEntryArray, window: RetryWindow) -> RecordEntryArray:
    """Return the rows that rows of later parts may be paired with."""
    order, same = _sorted_by(rows, "low", "high", "is_hidden")
    kept = np.zeros(len(rows), bool)
    kept[order[np.append(~same, True)]] = True
    near = rows["offset"] > rows["offset"].max() - window.offsets
    near &= rows["ordinal"] > rows["ordinal"][-1] - window.offsets
    kept |= (rows["producer_id"] < 0) & near
    return take_rows(rows, kept)


def _sorted_by(rows: RecordEntryArray, *names: str) -> tuple[IntArray, BoolArray]:
    """Return the stable order of the rows by some columns, and which rows in it equal the row after them."""
    order = np.argsort(rows[names[0]], kind="stable")
    same, *others = (_equal_next(rows[name][order]) for name in names)
    if all((other | ~same).all() for other in others):
        # Rows that are equal in the first column are equal in all columns.
        return order, same
    order = np.lexsort([rows[name] for name in reversed(names)])
    return order, np.logical_and.reduce([_equal_next(rows[name][order]) for name in names])


def _equal_next(column: Column) -> BoolArray:
    equal: BoolArray = column[1:] == column[:-1]
    return equal


def _earlier_copies(rows: RecordEntryArray, window: RetryWindow) -> IntArray:
    """Return for each row the index of the row it is paired with, -1 for none."""
    earlier = np.full(len(rows), -1)
    order, same = _sorted_by(rows, "low", "high")
    earlier[order[1:][same]] = order[:-1][same]
    without_producer = np.flatnonzero((rows["producer_id"] < 0) & (rows["timestamp"] >= 0))
    retries = take_rows(rows, without_producer)
    retries["timestamp"][~retries["has_create_time"]] = -1
    order, same = _sorted_by(retries, "low", "high", "timestamp", "index")
    first, second = without_producer[order[:-1][same]], without_producer[order[1:][same]]
    near = rows["offset"][second] - rows["offset"][first] < window.offsets
    # The offsets of a malformed batch need not ascend.
    near &= rows["ordinal"][second] - rows["ordinal"][first] < window.offsets
    near &= np.abs(rows["timestamp"][second] - rows["timestamp"][first]) < window.milliseconds
    earlier[second[near]] = first[near]
    return earlier


def _are_sequence_duplicates(pairs: ContentPairArray) -> BoolArray:
    """Return which pairs belong to two batches with the same sequences, which :mod:`.partition_duplicates` reports."""
    first, second = pairs["first"], pairs["second"]
    same: BoolArray = (first["producer_id"] >= 0) & (first["sequence"] >= 0)
    for name in ("producer_id", "producer_epoch", "sequence", "index", "count"):
        same &= first[name] == second[name]
    # Further apart, the sequences have wrapped around.
    same &= second["offset"] - first["offset"] < SEQUENCE_COUNT
    return same


def single_runs(pairs: ContentPairArray, window: RetryWindow, find_reasons: FindReasons) -> DuplicateRunArray:
    """Return a run for each pair, to be joined by :func:`join_runs`.

    Args:
        pairs: all pairs whose later copies are in some batches.
        window: the limits of a retry.
        find_reasons: returns the reason of each pair, for example :func:`partition_reasons`.
    """
    view = _views(pairs)
    order = np.lexsort([pairs["second"]["ordinal"], view])
    pairs = take_rows(pairs, order)
    runs = np.empty(len(pairs), DUPLICATE_RUN)
    for side in ("first", "second"):
        entry = pairs[side]
        for name in ("segment", "position", "offset", "timestamp", "producer_id", "producer_epoch"):
            runs[f"{side}_{name}"] = entry[name]
        runs[f"{side}_last_offset"] = entry["offset"]
        runs[side] = entry["ordinal"]
    runs["records"], runs["span"], runs["view"] = 1, 1, view[order]
    runs["low"], runs["batch"] = pairs["second"]["low"], pairs["second"]["batch"]
    runs["is_varied"] = runs["is_several"] = False
    reasons = find_reasons(pairs, window)
    is_retry = (reasons == DuplicateReason.RETRY_SAME_TIME) | (reasons == DuplicateReason.RETRY_WHOLE_BATCH)
    runs["why"] = reasons
    runs["level"] = np.where(is_retry, DuplicateLevel.CONTENT_RETRY, DuplicateLevel.CONTENT)
    runs["is_conclusive"] = _are_conclusive(pairs)
    return runs


def _views(pairs: ContentPairArray) -> IntArray:
    """Return the DuplicateView of each pair."""
    is_hidden = pairs["first"]["is_hidden"] | pairs["second"]["is_hidden"]
    return np.where(is_hidden, DuplicateView.RAW, DuplicateView.COMMITTED)


def as_duplicates(runs: DuplicateRunArray) -> DuplicateArray:
    """Return runs as DUPLICATE rows."""
    rows = np.empty(len(runs), DUPLICATE)
    for name in DUPLICATE.names or ():
        rows[name] = runs[name]
    return rows


def join_runs(runs: DuplicateRunArray, max_gap: int = 0) -> DuplicateRunArray:
    """Join runs that continue one another, and return them ordered by view and later copy.

    No run reaches into its own earlier copy: content that follows itself again and again becomes several runs.

    Args:
        runs: in any order; of those that continue one another, only the first may have several records.
        max_gap: how many records may lie between two runs; both copies must have the same number there.
    """
    if not len(runs):
        return runs
    runs = take_rows(runs, np.lexsort([runs["second"], runs["view"]]))
    previous, current = runs[:-1], runs[1:]
    gap = current["second"] - previous["second"] - previous["span"]
    continues = (gap >= 0) & (gap <= max_gap)
    continues &= current["first"] - previous["first"] - previous["span"] == gap
    starts = _without_overlap(runs, run_starts(runs, continues))
    joined = merge_runs(runs, starts)
    last = runs[np.append(starts[1:], len(runs)) - 1]
    joined["span"] = last["second"] + last["span"] - joined["second"]
    joined["is_conclusive"] = np.logical_or.reduceat(runs["is_conclusive"], starts)
    sizes = np.diff(np.append(starts, len(runs)))
    for is_so, name in (("is_varied", "low"), ("is_several", "batch")):
        differs = runs[name] != np.repeat(joined[name], sizes)
        joined[is_so] = np.logical_or.reduceat(runs[is_so] | differs, starts)
    return joined


def _without_overlap(runs: DuplicateRunArray, starts: IntArray) -> IntArray:
    """Return the starts of joined runs, with further starts wherever the earlier copies reach the first later one."""
    distance = np.abs(runs["second"] - runs["first"])
    begin = np.repeat(runs["second"][starts], np.diff(np.append(starts, len(runs))))
    repetition = (runs["second"] - begin) // distance
    is_start = np.zeros(len(runs), bool)
    is_start[starts] = True
    is_start[1:] |= repetition[1:] != repetition[:-1]
    return np.flatnonzero(is_start)


def have_same_create_time(pairs: ContentPairArray) -> BoolArray:
    """Return which pairs have equal timestamps, both set by the producer."""
    first, second = pairs["first"], pairs["second"]
    both = first["has_create_time"] & second["has_create_time"]
    same: BoolArray = both & (first["timestamp"] == second["timestamp"])
    return same


def is_by_clock(timestamps: IntArray) -> BoolArray:
    """Return which timestamps may come from a clock, rather than from the seconds, days or constants of an event."""
    by_clock: BoolArray = timestamps % 1000 != 0
    return by_clock


def _are_conclusive(pairs: ContentPairArray) -> BoolArray:
    """Return which pairs are worth reporting on their own; the others are reported only in a run with such a pair.

    Equal tombstones and equal empty values are normal.
    """
    emptiness = pairs["second"]["emptiness"]
    conclusive: BoolArray = (emptiness == NON_EMPTY) | ((emptiness < EMPTY_RECORD) & have_same_create_time(pairs))
    return conclusive


def partition_reasons(
    pairs: ContentPairArray,
    window: RetryWindow,
    find_whole: Callable[[ContentPairArray], BoolArray] | None = None,
) -> IntArray:
    """Return a DuplicateReason for each pair of one partition.

    Most clients send a retry as the whole batch that they have sent before; librdkafka sends its records, with their
    timestamps, in front of others that have come since.

    Args:
        pairs: all pairs whose later copies are in some batches, ordered by view, then by the later copy.
        window: the limits of a retry.
        find_whole: returns which pairs belong to whole batches, None for :func:`are_whole_batches`.
    """
    first, second = pairs["first"], pairs["second"]
    without_producer = (first["producer_id"] < 0) & (second["producer_id"] < 0)
    has_time = (first["timestamp"] >= 0) & (second["timestamp"] >= 0)
    retry = without_producer & has_time & (first["batch"] != second["batch"])
    retry &= second["offset"] - first["offset"] < window.offsets
    # The offsets of a malformed batch need not ascend.
    retry &= second["ordinal"] - first["ordinal"] < window.offsets
    retry &= np.abs(second["timestamp"] - first["timestamp"]) < window.milliseconds
    is_whole = (find_whole or are_whole_batches)(pairs)
    is_divided = second["count"] > LARGEST_UNDIVIDED
    others = np.flatnonzero(retry & ~is_whole & ~is_divided & have_same_create_time(pairs))
    if len(others):
        is_whole[others] = _begin_batches(pairs, others)
    retry &= is_whole
    return np.select(
        [
            retry & have_same_create_time(pairs),
            retry & ~first["has_create_time"] & ~second["has_create_time"],
            without_producer & ~has_time,
            without_producer,
            first["producer_id"] != second["producer_id"],
            first["producer_epoch"] != second["producer_epoch"],
            (first["sequence"] == second["sequence"]) & (first["sequence"] >= 0),
        ],
        [
            DuplicateReason.RETRY_SAME_TIME,
            DuplicateReason.RETRY_WHOLE_BATCH,
            DuplicateReason.NO_TIME,
            DuplicateReason.NO_PRODUCER,
            DuplicateReason.OTHER_PRODUCER,
            DuplicateReason.OTHER_EPOCH,
            DuplicateReason.OTHER_BATCH,
        ],
        DuplicateReason.OTHER_SEQUENCE,
    )


def are_whole_batches(pairs: ContentPairArray) -> BoolArray:
    """Return which pairs belong to two batches whose records match one by one.

    Args:
        pairs: ordered by view, then by the later copy.
    """
    first, second = pairs["first"], pairs["second"]
    is_new = np.ones(len(pairs), bool)
    is_new[1:] = (first["batch"][1:] != first["batch"][:-1]) | (second["batch"][1:] != second["batch"][:-1])
    group = np.cumsum(is_new) - 1
    aligned = np.bincount(group, first["index"] == second["index"])[group] if len(pairs) else group
    whole: BoolArray = (aligned == first["count"]) & (aligned == second["count"])
    return whole


def matching_batches(pairs: ContentPairArray) -> IntArray:
    """Return view, earlier batch and later batch of each pair, one row per pair."""
    return np.stack([_views(pairs), pairs["first"]["batch"], pairs["second"]["batch"]], axis=1)


def _begin_batches(pairs: ContentPairArray, rows: IntArray) -> BoolArray:
    """Return which pairs belong to whole batches, one or more, that are repeated at the beginning of a larger one.

    A single record that does not directly follow its earlier copy proves little, because the same event may have
    occurred twice in a millisecond, and so does a timestamp of whole seconds, which hardly came from a clock.

    Args:
        pairs: as for :func:`partition_reasons`.
        rows: indexes of the pairs in question, which have equal timestamps.
    """
    later, batch = pairs["second"]["ordinal"][rows], pairs["second"]["batch"][rows]
    distance = later - pairs["first"]["ordinal"][rows]
    starts = np.ones(len(rows), bool)
    starts[1:] = (batch[1:] != batch[:-1]) | (distance[1:] != distance[:-1]) | (later[1:] != later[:-1] + 1)
    begins = np.flatnonzero(starts)
    ends = np.append(begins[1:], len(rows)) - 1
    sizes = ends - begins + 1
    first, last = take_rows(pairs, rows[begins]), take_rows(pairs, rows[ends])["first"]
    is_whole = (first["first"]["index"] == 0) & (first["second"]["index"] == 0)
    is_whole &= last["index"] == last["count"] - 1
    by_clock = is_by_clock(first["second"]["timestamp"])
    is_whole &= by_clock & ((sizes > 1) | (distance[begins] == sizes))
    whole: BoolArray = np.repeat(is_whole, sizes)
    return whole
