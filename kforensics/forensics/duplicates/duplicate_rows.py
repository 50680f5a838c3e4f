"""What is found of records that were written twice, as numpy records."""

from __future__ import annotations

from enum import IntEnum

import numpy as np

from kforensics.forensics.core.record_arrays import picked
from kforensics.forensics.core.record_types import Records

__all__ = ["DUPLICATE", "LEVELS", "REASONS", "VIEWS", "Level", "View", "Why", "joined_runs", "run_starts"]


class Level(IntEnum):
    """How two writings of the same are known as such."""

    SEQUENCE = 0
    CONTENT_RETRY = 1
    CONTENT = 2


LEVELS = {Level.SEQUENCE: "sequence", Level.CONTENT_RETRY: "content-retry", Level.CONTENT: "content"}


class View(IntEnum):
    """Who gets both writings: only who reads everything, or a read_committed consumer too."""

    RAW = 0
    COMMITTED = 1


VIEWS = {View.RAW: "raw", View.COMMITTED: "committed"}


class Why(IntEnum):
    """What the two writings have in common, and what not."""

    SEQUENCE_AND_CONTENT = 0
    SEQUENCE_NOT_CONTENT = 1
    SEQUENCE_ALONE = 2
    RETRY_SAME_TIME = 3
    RETRY_WHOLE_BATCH = 4
    RETRY_NEXT_BATCH = 5
    OTHER_PRODUCER = 6
    OTHER_EPOCH = 7
    OTHER_SEQUENCE = 8
    OTHER_BATCH = 9
    NO_PRODUCER = 10
    SAME_PRODUCER = 11


REASONS = {
    Why.SEQUENCE_AND_CONTENT: "same sequence, same content",
    Why.SEQUENCE_NOT_CONTENT: "same sequence, different content",
    Why.SEQUENCE_ALONE: "same sequence; the contents cannot be compared",
    Why.RETRY_SAME_TIME: "same content and timestamp, soon after, without a producer id",
    Why.RETRY_WHOLE_BATCH: "a whole batch of the same content, soon after, without a producer id",
    Why.RETRY_NEXT_BATCH: "same content in the next batch, without a producer id",
    Why.OTHER_PRODUCER: "same content from another producer id",
    Why.OTHER_EPOCH: "same content from another epoch of the producer",
    Why.OTHER_SEQUENCE: "same content from the same producer under another sequence",
    Why.OTHER_BATCH: "same content and sequence in a batch that was cut otherwise",
    Why.NO_PRODUCER: "same content without a producer id, at another time or far away",
    Why.SAME_PRODUCER: "same content from the same producer",
}

_SIDE = [
    ("segment", "i4"),  # of the partition, counted from 0
    ("position", "i8"),  # of the batch
    ("offset", "i8"),  # of the first record
    ("last_offset", "i8"),  # of the last one
    ("timestamp", "i8"),  # of the first record; -1 if it has none; at level SEQUENCE the batch's maximum
    ("producer_id", "i8"),
    ("producer_epoch", "i2"),
]
# One row for records that follow one another, and that were written before as records that follow one another. Those
# may be of several producers, of which it names that of the first record; the later ones are of one.
DUPLICATE = np.dtype(
    [
        ("level", "i1"),
        ("why", "i1"),
        ("view", "i1"),
        ("records", "i8"),
        *((f"first_{name}", kind) for name, kind in _SIDE),
        *((f"second_{name}", kind) for name, kind in _SIDE),
    ]
)
_SAME = ("level", "why", "view", "second_producer_id", "second_producer_epoch")


def run_starts(rows: Records, follows: Records) -> Records:
    """Return where runs begin: rows alike but for places and earlier producers, each going on where the last one ends.

    Args:
        rows: at least one, of DUPLICATE or of a type that has more fields.
        follows: whether a row goes on where the one before it ends, for all rows but the first.
    """
    same = follows.copy()
    for name in _SAME:
        same &= rows[name][1:] == rows[name][:-1]
    return np.flatnonzero(np.concatenate([[True], ~same]))


def joined_runs(rows: Records, starts: Records) -> Records:
    """Return one row for each run: the values of its first row, but with all its records and its last offsets.

    Args:
        rows: as for :func:`run_starts`.
        starts: what that returned.
    """
    joined = picked(rows, starts)
    joined["records"] = np.add.reduceat(rows["records"], starts)
    ends = np.append(starts[1:], len(rows)) - 1
    for name in ("first_last_offset", "second_last_offset"):
        joined[name] = rows[name][ends]
    return joined
