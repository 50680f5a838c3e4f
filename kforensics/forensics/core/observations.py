"""What is noticed batch by batch, before anybody has weighed it: compact rows that travel and merge.

A check notes what strikes it in a chunk of batches, or between neighbours, with numpy over whole columns. What may
strike it in millions of batches is tallied, one row per kind and producer; the rest is listed. Once the whole partition
is known the same check weighs the notes and makes findings of those that stand.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import numpy as np

from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import Records
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["NOTE", "Noticed", "noted", "of_kind", "together"]


class Noticed(IntEnum):
    """Kinds of notes; the names are those of findings."""

    # Listed.
    OFFSET_NOT_MONOTONIC = 0
    OFFSET_OVERLAP = 1
    OFFSET_GAP = 2
    LEADER_EPOCH_REGRESSED = 3
    MARKER_TIMESTAMP_REGRESSED = 4
    BATCH_CRC_MISMATCH = 5
    # Tallied: one row per kind and producer id, from here on.
    BATCH_MAGIC_OLD = 101
    BATCH_ATTRIBUTES_UNKNOWN = 102
    SEQ_COUNT_MISMATCH = 103
    CONTROL_SHELL = 104
    MARKER_MALFORMED = 105
    MARKER_FLAGS_UNEXPECTED = 106
    EPOCH_NEAR_EXHAUSTION = 107
    EPOCH_MAX_USED = 108
    TS_FUTURE = 109
    TS_ANCIENT = 110
    TS_MISSING = 111
    TS_APPEND_REGRESSED = 112
    PRODUCER_EXPIRED_BY_TIMESTAMP = 113


FIRST_TALLIED = 100

NOTE = np.dtype(
    [
        ("kind", "i2"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("first_offset", "i8"),  # of the first batch it was noticed at
        ("last_offset", "i8"),  # of the last one
        ("count", "i8"),  # batches
        ("amount", "i8"),  # what there is to measure: the largest of a tally
        ("previous", "i8"),  # what it was compared with
        ("timestamp", "i8"),  # of the first batch
        ("segment", "i4"),
        ("position", "i8"),
    ]
)


def noted(
    kind: Noticed, batches: BatchColumns, which: Any = slice(None), *, amount: Any = 0, previous: Any = -1
) -> Records:
    """Return a note for each of some batches.

    Args:
        kind: what was noticed.
        batches: a chunk.
        which: mask or indexes of the batches that strike.
        amount: a number for each batch of the chunk, or one for all.
        previous: what it was compared with, likewise.
    """
    struck = batches[which]
    notes = np.empty(len(struck), NOTE)
    notes["kind"], notes["count"] = kind, 1
    for name in ("producer_id", "producer_epoch", "last_offset", "segment", "position"):
        notes[name] = getattr(struck, name)
    notes["first_offset"], notes["timestamp"] = struck.base_offset, struck.max_timestamp
    for name, value in (("amount", amount), ("previous", previous)):
        notes[name] = value[which] if isinstance(value, np.ndarray) else value
    return notes


def together(notes: Sequence[Records]) -> Records:
    """Return notes in the order of the log as one array, those to be tallied added up.

    Args:
        notes: of parts that follow one another.
    """
    some = [part for part in notes if len(part)]
    if not some:
        return np.empty(0, NOTE)
    whole = some[0] if len(some) == 1 else np.concatenate(some)
    tallied = whole["kind"] >= FIRST_TALLIED
    if not tallied.any():
        return whole
    return joined_records([picked(whole, ~tallied), _tally(picked(whole, tallied))])


def _tally(notes: Records) -> Records:
    order = np.lexsort((np.arange(len(notes)), notes["producer_id"], notes["kind"]))
    notes = picked(notes, order)
    new = np.ones(len(notes), bool)
    new[1:] = (notes["kind"][1:] != notes["kind"][:-1]) | (notes["producer_id"][1:] != notes["producer_id"][:-1])
    starts = np.flatnonzero(new)
    totals = picked(notes, starts)
    totals["count"] = np.add.reduceat(notes["count"], starts)
    totals["amount"] = np.maximum.reduceat(notes["amount"], starts)
    totals["last_offset"] = np.maximum.reduceat(notes["last_offset"], starts)
    return totals


def of_kind(notes: Records, kind: Noticed) -> Records:
    """Return the notes of one kind, in the order of the log."""
    if not len(notes):  # as in most of very many small logs
        return notes
    found: Records = notes[notes["kind"] == kind]
    return found.take(np.argsort(found["first_offset"], kind="stable"))
