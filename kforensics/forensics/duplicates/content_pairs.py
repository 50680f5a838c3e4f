"""Pairs of records of equal content, and what each pair looks like: a retry, another producer, a restore."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked, placed
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.duplicates.content_entries import ENTRY
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE, Level, View, Why, joined_runs, run_starts
from kforensics.parsers.columns.hash_columns import EMPTY_RECORD, SOME_VALUE

__all__ = [
    "PAIR",
    "RUN",
    "Window",
    "are_whole_batches",
    "of_same_time",
    "pairs_of",
    "reasons_within",
    "repeated",
    "rows_of_runs",
    "runs_of",
    "together",
]

PAIR = np.dtype([("first", ENTRY), ("second", ENTRY)])
# What may yet be joined with what follows. The ordinals are those of the first records, as is the hash; a run is varied
# if not all its records say the same. The span is that of ordinals, which may have gaps.
RUN = np.dtype(
    [
        *((name, DUPLICATE[name]) for name in DUPLICATE.names or ()),
        ("first", "i8"),
        ("second", "i8"),
        ("low", "u8"),
        ("span", "i8"),
        ("tells", "?"),
        ("is_varied", "?"),
    ]
)
# Says what pairs have in common.
Reasons = Callable[[Records, "Window"], Records]
# A sequence comes again after so many records; in one partition that takes as many offsets.
ALL_SEQUENCES = 1 << 31


@dataclass(frozen=True, slots=True)
class Window:
    """How soon after the first writing the second one may be a retry of the client.

    Attributes:
        offsets: the two are less apart than this.
        milliseconds: the same of their timestamps.
    """

    offsets: int = 100_000
    milliseconds: int = 600_000


def repeated(parts: Iterable[Records]) -> Iterator[Records]:
    """Yield the hashes that occur twice or more in the parts of a bucket, some of them more than once.

    Args:
        parts: hashes; they are sorted in place.
    """
    seen: Records | None = None
    for part in parts:
        hashes = part if seen is None else np.concatenate([seen, part])
        hashes.sort()
        same = hashes[1:] == hashes[:-1]
        yield hashes[1:][same]
        seen = np.concatenate([hashes[:1], hashes[1:][~same]])


def pairs_of(parts: Iterable[Records], window: Window) -> Iterator[Records]:
    """Yield PAIR rows: each record that was written before, with the nearest earlier one.

    Where a read_committed consumer gets the record but not that earlier one, there is another pair with the nearest
    earlier one it gets. Of records without producer id, which alone a client writes twice as they are, the nearest
    earlier one is preferred that also has the timestamp and the place in its batch, if it is in the window.

    Args:
        parts: ENTRY rows in the order of the log; all that can be equal to one of them are among them.
        window: see there.
    """
    rows = np.empty(0, ENTRY)
    for part in parts:
        carried = _carried(rows, window) if len(rows) else rows
        rows = joined_records([carried, part])
        earlier = _earlier(rows, window)
        yield _pairs(rows, earlier, len(carried))
        seen = np.flatnonzero(~rows["is_hidden"])
        if len(seen) < len(rows):
            of_seen = _earlier(picked(rows, seen), window)
            other = np.full(len(rows), -1)
            other[seen[of_seen >= 0]] = seen[of_seen[of_seen >= 0]]
            other[other == earlier] = -1
            yield _pairs(rows, other, len(carried))


def _pairs(rows: Records, earlier: Records, begin: int) -> Records:
    """Return rows from one on with those that ``earlier`` names, where it names any."""
    found = np.flatnonzero(earlier >= 0)
    found = found[found >= begin]
    both = np.empty((len(found), 2), ENTRY)
    placed(both[:, 0], slice(None), picked(rows, earlier[found]))
    placed(both[:, 1], slice(None), picked(rows, found))
    pairs = both.view(PAIR).reshape(-1)
    left_out = _is_of_sequence(pairs)
    return picked(pairs, ~left_out) if left_out.any() else pairs


def _carried(rows: Records, window: Window) -> Records:
    """Return those of the rows that later ones may be paired with."""
    order, same = _by(rows, "low", "high", "is_hidden")
    kept = np.zeros(len(rows), bool)
    kept[order[np.append(~same, True)]] = True
    kept |= (rows["producer_id"] < 0) & (rows["offset"] > rows["offset"].max() - window.offsets)
    return picked(rows, kept)


def _by(rows: Records, *names: str) -> tuple[Records, Records]:
    """Return the rows in the order of some columns, else of the log, and which are equal to the one behind them."""
    order = np.argsort(rows[names[0]], kind="stable")
    same, *others = (_equal_neighbours(rows[name][order]) for name in names)
    if all((other | ~same).all() for other in others):
        # Whatever is equal in the first column is so in all.
        return order, same
    order = np.lexsort([rows[name] for name in reversed(names)])
    return order, np.logical_and.reduce([_equal_neighbours(rows[name][order]) for name in names])


def _equal_neighbours(column: Records) -> Records:
    equal: Records = column[1:] == column[:-1]
    return equal


def _earlier(rows: Records, window: Window) -> Records:
    """Return for each row the index of the one it is paired with, -1 if there is none."""
    earlier = np.full(len(rows), -1)
    order, same = _by(rows, "low", "high")
    earlier[order[1:][same]] = order[:-1][same]
    plain = np.flatnonzero(rows["producer_id"] < 0)
    retries = picked(rows, plain)
    retries["timestamp"][~retries["is_stamped"]] = -1
    order, same = _by(retries, "low", "high", "timestamp", "index")
    first, second = plain[order[:-1][same]], plain[order[1:][same]]
    near = rows["offset"][second] - rows["offset"][first] < window.offsets
    near &= np.abs(rows["timestamp"][second] - rows["timestamp"][first]) < window.milliseconds
    earlier[second[near]] = first[near]
    return earlier


def _is_of_sequence(pairs: Records) -> Records:
    """Return which pairs are records of one batch that was written twice under its sequence, see batch_duplicates."""
    first, second = pairs["first"], pairs["second"]
    same: Records = (first["producer_id"] >= 0) & (first["sequence"] >= 0)
    for name in ("producer_id", "producer_epoch", "sequence", "index", "count"):
        same &= first[name] == second[name]
    same &= second["offset"] - first["offset"] < ALL_SEQUENCES
    return same


def runs_of(pairs: Records, window: Window, reasons: Reasons, gap: int = 0) -> Records:
    """Return RUN rows.

    Args:
        pairs: all pairs of some batches, of the second writings.
        window: see there.
        reasons: returns why each of the pairs is one, as :func:`reasons_within` does.
        gap: as for :func:`together`.
    """
    view = np.where(pairs["first"]["is_hidden"] | pairs["second"]["is_hidden"], View.RAW, View.COMMITTED)
    order = np.lexsort([pairs["second"]["ordinal"], view])
    pairs = picked(pairs, order)
    runs = np.empty(len(pairs), RUN)
    for side in ("first", "second"):
        entry = pairs[side]
        for name in ("segment", "position", "offset", "timestamp", "producer_id", "producer_epoch"):
            runs[f"{side}_{name}"] = entry[name]
        runs[f"{side}_last_offset"] = entry["offset"]
        runs[side] = entry["ordinal"]
    runs["records"], runs["span"], runs["view"] = 1, 1, view[order]
    runs["low"], runs["is_varied"] = pairs["second"]["low"], False
    runs["why"] = reasons(pairs, window)
    is_retry = (runs["why"] >= Why.RETRY_SAME_TIME) & (runs["why"] <= Why.RETRY_NEXT_BATCH)
    runs["level"] = np.where(is_retry, Level.CONTENT_RETRY, Level.CONTENT)
    runs["tells"] = _tells(pairs)
    return together(runs, gap)


def rows_of_runs(runs: Records) -> Records:
    """Return RUN rows as DUPLICATE rows."""
    rows = np.empty(len(runs), DUPLICATE)
    for name in DUPLICATE.names or ():
        rows[name] = runs[name]
    return rows


def together(runs: Records, gap: int = 0) -> Records:
    """Return RUN rows of which those that go on where another one ends are one with it, by view and second writing.

    Args:
        runs: RUN rows in any order.
        gap: so many records may be missing between them, as many of the first writing as of the second one.
    """
    if not len(runs):
        return runs
    runs = picked(runs, np.lexsort([runs["second"], runs["view"]]))
    before, after = runs[:-1], runs[1:]
    missing = after["second"] - before["second"] - before["span"]
    follows = (missing >= 0) & (missing <= gap)
    follows &= after["first"] - before["first"] - before["span"] == missing
    starts = run_starts(runs, follows)
    joined = joined_runs(runs, starts)
    last = runs[np.append(starts[1:], len(runs)) - 1]
    joined["span"] = last["second"] + last["span"] - joined["second"]
    other = runs["low"] != np.repeat(joined["low"], np.diff(np.append(starts, len(runs))))
    joined["tells"] = np.logical_or.reduceat(runs["tells"], starts)
    joined["is_varied"] = np.logical_or.reduceat(runs["is_varied"] | other, starts)
    return joined


def of_same_time(pairs: Records) -> Records:
    """Return which pairs have the same timestamp, and from the producer."""
    first, second = pairs["first"], pairs["second"]
    stamped = first["is_stamped"] & second["is_stamped"]
    same: Records = stamped & (first["timestamp"] == second["timestamp"])
    return same


def _tells(pairs: Records) -> Records:
    """Return which pairs say something by themselves; the others do so only among these.

    Tombstones and empty values are the same again and again, for good reasons.
    """
    emptiness = pairs["second"]["emptiness"]
    telling: Records = (emptiness == SOME_VALUE) | ((emptiness < EMPTY_RECORD) & of_same_time(pairs))
    return telling


def reasons_within(pairs: Records, window: Window) -> Records:
    """Return why each of the pairs in one partition is one; they are by view, in the order of the second writings."""
    first, second = pairs["first"], pairs["second"]
    without = (first["producer_id"] < 0) & (second["producer_id"] < 0)
    near = without & (first["batch"] != second["batch"])
    near &= second["offset"] - first["offset"] < window.offsets
    near &= np.abs(second["timestamp"] - first["timestamp"]) < window.milliseconds
    unstamped = near & ~first["is_stamped"] & ~second["is_stamped"]
    same_epoch = first["producer_epoch"] == second["producer_epoch"]
    return np.select(
        [
            near & of_same_time(pairs),
            unstamped & are_whole_batches(pairs),
            unstamped & (second["batch"] - first["batch"] == 1),
            without,
            first["producer_id"] != second["producer_id"],
            ~same_epoch,
            (first["sequence"] == second["sequence"]) & (first["sequence"] >= 0),
        ],
        [
            Why.RETRY_SAME_TIME,
            Why.RETRY_WHOLE_BATCH,
            Why.RETRY_NEXT_BATCH,
            Why.NO_PRODUCER,
            Why.OTHER_PRODUCER,
            Why.OTHER_EPOCH,
            Why.OTHER_BATCH,
        ],
        Why.OTHER_SEQUENCE,
    )


def are_whole_batches(pairs: Records) -> Records:
    """Return which pairs belong to two batches that match record for record.

    Args:
        pairs: by view, in the order of the second writings.
    """
    first, second = pairs["first"], pairs["second"]
    new = np.ones(len(pairs), bool)
    new[1:] = (first["batch"][1:] != first["batch"][:-1]) | (second["batch"][1:] != second["batch"][:-1])
    group = np.cumsum(new) - 1
    aligned = np.bincount(group, first["index"] == second["index"])[group] if len(pairs) else group
    whole: Records = (aligned == first["count"]) & (aligned == second["count"])
    return whole
