"""Batches that are there twice under the same producer id, epoch and sequences: what a broker must not let in.

Only a producer whose sequences or epochs went back can have written a batch twice, and only in the sequences that it
went back over. So the replay's anomalies tell which batches to look at, and memory grows with what was written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from kforensics.forensics.core.record_types import Anomaly, Records
from kforensics.forensics.duplicates.batch_digests import DIGEST, batch_digests
from kforensics.forensics.duplicates.content_entries import Reading
from kforensics.forensics.duplicates.duplicate_rows import DUPLICATE, Level, View, Why, joined_runs, run_starts
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns

__all__ = ["sequence_duplicates"]

Batches = Callable[[], Iterable[BatchColumns]]

# Sequences are a ring; in one partition they come again after as many offsets at least.
RING_BITS, EPOCH_BITS = 31, 16
RING = 1 << RING_BITS
WENT_BACK = (Anomaly.SEQ_OVERLAP, Anomaly.SEQ_DUPLICATE_BATCH)
# Behind these, what is written again need not stand out: sequences begin anew.
EPOCH_FELL = (Anomaly.EPOCH_REGRESSED, Anomaly.MARKER_EPOCH_REGRESSED)
_BATCH = [
    ("producer_id", "i8"),
    ("producer_epoch", "i2"),
    ("base_sequence", "i4"),
    ("last_sequence", "i4"),
    ("base_offset", "i8"),
    ("last_offset", "i8"),
    ("count", "i4"),
    ("segment", "i4"),
    ("position", "i8"),
    ("size", "i8"),
    ("max_timestamp", "i8"),
]
# Also: the number of the batch among those of its producer and epoch that are looked at.
BATCH = np.dtype([*_BATCH, ("is_hidden", "?"), ("turn", "i8")])
IDENTITY = ("producer_id", "producer_epoch", "base_sequence", "last_sequence")
# Sequences that a producer went back over, the last one not included; they do not wrap.
SPAN = np.dtype([("producer_id", "i8"), ("producer_epoch", "i2"), ("begin", "i8"), ("end", "i8")])


def sequence_duplicates(anomalies: Records, batches: Batches, reading: Reading) -> Records:
    """Return DUPLICATE rows of level SEQUENCE, in the order of the second writings.

    A batch is paired with the nearest earlier one of the same producer id, epoch, first and last sequence. Batches so
    far apart that the sequences have gone round once are not the same.

    Args:
        anomalies: ANOMALY rows of the whole partition.
        batches: reads its batches, in order; called twice.
        reading: reads its records, to compare contents, and tells which ones a read_committed consumer gets.
    """
    back = anomalies[np.isin(anomalies["kind"], WENT_BACK)]
    fell = np.unique(anomalies["producer_id"][np.isin(anomalies["kind"], EPOCH_FELL)])
    if not len(back) and not len(fell):
        return np.empty(0, DUPLICATE)
    spans = _spans(batches(), back, reading)
    found = [_candidates(chunk, spans, fell, reading) for chunk in batches()]
    first, second = _pairs(np.concatenate([np.empty(0, BATCH), *found]))
    return _rows(first, second, _why(first, second, reading))


def _data(chunk: BatchColumns, which: Records, reading: Reading) -> Records:
    """Return BATCH rows of the data batches among some of a chunk that have sequences."""
    which = which & (chunk.control == NO_CONTROL) & (chunk.producer_id >= 0) & (chunk.base_sequence >= 0)
    which &= chunk.crc_valid
    rows = np.empty(int(np.count_nonzero(which)), BATCH)
    for name, _ in _BATCH:
        rows[name] = getattr(chunk, name)[which]
    rows["is_hidden"] = reading.hides(chunk)[which]
    return rows


def _spans(chunks: Iterable[BatchColumns], back: Records, reading: Reading) -> Records:
    """Return the sequences that producers went back over: from a batch to behind the one before it."""
    spans = [np.empty(0, SPAN)]
    last = np.empty(0, BATCH)
    producers, offsets = np.unique(back["producer_id"]), np.unique(back["first_offset"])
    for chunk in chunks:
        rows = np.concatenate([last, _data(chunk, np.isin(chunk.producer_id, producers), reading)])
        rows = rows[np.argsort(rows["producer_id"], kind="stable")]
        changes = rows["producer_id"][1:] != rows["producer_id"][:-1]
        before, after = rows[:-1][~changes], rows[1:][~changes]
        suspect = np.isin(after["base_offset"], offsets)
        spans.append(_without_wrap(_gone_back(before[suspect], after[suspect])))
        last = rows[np.append(changes, True)[: len(rows)]]
    return np.concatenate(spans)


def _gone_back(before: Records, after: Records) -> Records:
    """Return for neighbours of one producer the span from the second to the end of the first; it may wrap."""
    spans = np.empty(len(after), SPAN)
    for name in ("producer_id", "producer_epoch"):
        spans[name] = after[name]
    spans["begin"] = after["base_sequence"]
    length = (before["last_sequence"].astype("i8") + 1 - after["base_sequence"]) % RING
    spans["end"] = spans["begin"] + np.where(before["producer_epoch"] == after["producer_epoch"], length, RING // 2)
    return spans


def _without_wrap(spans: Records) -> Records:
    beyond = spans[spans["end"] > RING]
    beyond["begin"], beyond["end"] = 0, beyond["end"] - RING
    cut = spans.copy()
    cut["end"] = np.minimum(cut["end"], RING)
    return np.concatenate([cut, beyond])


def _candidates(chunk: BatchColumns, spans: Records, fell: Records, reading: Reading) -> Records:
    """Return the batches of a chunk that may be there twice."""
    rows = _data(chunk, np.isin(chunk.producer_id, np.concatenate([spans["producer_id"], fell])), reading)
    return rows[np.isin(rows["producer_id"], fell) | _within(rows, spans)]


def _within(rows: Records, spans: Records) -> Records:
    """Return which batches begin in a span of their producer and epoch."""
    if not len(spans):
        return np.zeros(len(rows), bool)
    producers = np.unique(spans["producer_id"])
    begins, ends = (np.sort(_places(spans, spans[name], producers)) for name in ("begin", "end"))
    places = _places(rows, rows["base_sequence"].astype("i8"), producers)
    # Within a span more have begun than ended. The end of one is at most where the next producer's epoch begins.
    begun = np.searchsorted(begins, places, side="right")
    within: Records = begun > np.searchsorted(ends, places, side="right")
    return within & np.isin(rows["producer_id"], producers)


def _places(rows: Records, sequences: Records, producers: Records) -> Records:
    """Return numbers in the order of producer, epoch and sequence."""
    producer = np.searchsorted(producers, rows["producer_id"])
    places: Records = ((producer << EPOCH_BITS) + rows["producer_epoch"].astype("i8") << RING_BITS) + sequences
    return places


def _pairs(rows: Records) -> tuple[Records, Records]:
    """Return batches and, for each, the nearest one before it of the same producer and sequences.

    Where a read_committed consumer gets the batch but not that one, there is another pair with the nearest one it gets.
    """
    rows = rows[np.lexsort([rows["producer_epoch"], rows["producer_id"]])]
    rows["turn"] = np.arange(len(rows))
    rows = rows[np.lexsort([rows[name] for name in reversed(IDENTITY)])]
    first, second = _neighbours(rows)
    seen = _neighbours(rows[~rows["is_hidden"]])
    # The others are neighbours among all of them too.
    is_new = ~np.isin(seen[1]["base_offset"], second["base_offset"][~first["is_hidden"]])
    return np.concatenate([first, seen[0][is_new]]), np.concatenate([second, seen[1][is_new]])


def _neighbours(rows: Records) -> tuple[Records, Records]:
    first, second = rows[:-1], rows[1:]
    same = second["base_offset"] - first["base_offset"] < RING
    for name in IDENTITY:
        same &= first[name] == second[name]
    return first[same], second[same]


def _why(first: Records, second: Records, reading: Reading) -> Records:
    """Return what the contents of both say."""
    digests = [_digests(rows, reading) for rows in (first, second)]
    read = (digests[0]["records"] > 0) & (digests[1]["records"] > 0)
    equal = read & (digests[0] == digests[1])
    whole = read
    for rows in (first, second):
        whole = whole & (rows["count"] == rows["last_offset"] - rows["base_offset"] + 1)
    return np.select([equal, whole], [Why.SEQUENCE_AND_CONTENT, Why.SEQUENCE_NOT_CONTENT], Why.SEQUENCE_ALONE)


def _digests(rows: Records, reading: Reading) -> Records:
    """Return DIGEST rows of batches; those that cannot be read have no records."""
    found = np.zeros(len(rows), DIGEST)
    for segment in np.unique(rows["segment"]):
        which = rows["segment"] == segment
        found[which] = batch_digests(
            reading.paths[segment], rows["position"][which], rows["size"][which], reading.kernels, reading.workers
        )
    return found


def _rows(first: Records, second: Records, why: Records) -> Records:
    """Return one row for batches that follow one another in the sequences of a producer, both times."""
    rows = np.empty(len(first), DUPLICATE)
    rows["level"], rows["why"], rows["records"] = Level.SEQUENCE, why, second["count"]
    for side, batch in (("first", first), ("second", second)):
        for name in ("segment", "position", "last_offset", "producer_id", "producer_epoch"):
            rows[f"{side}_{name}"] = batch[name]
        rows[f"{side}_offset"], rows[f"{side}_timestamp"] = batch["base_offset"], batch["max_timestamp"]
    rows["view"] = np.where(first["is_hidden"] | second["is_hidden"], View.RAW, View.COMMITTED)
    if not len(rows):
        return rows
    order = np.lexsort([second["base_offset"], second["producer_epoch"], second["producer_id"], rows["view"]])
    rows, first, second = rows[order], first[order], second[order]
    follows = (second["last_sequence"][:-1].astype("i8") + 1) % RING == second["base_sequence"][1:]
    for batch in (first, second):
        follows &= batch["turn"][1:] == batch["turn"][:-1] + 1
    joined = joined_runs(rows, run_starts(rows, follows))
    return joined[np.argsort(joined["second_offset"], kind="stable")]
