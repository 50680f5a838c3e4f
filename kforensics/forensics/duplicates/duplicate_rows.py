"""The result of a search for duplicates as NumPy rows: levels, views, reasons, and runs of consecutive duplicates."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from kforensics.forensics.core.record_arrays import take_rows
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "DUPLICATE",
    "LEVEL_NAMES",
    "REASON_NAMES",
    "VIEW_NAMES",
    "DuplicateArray",
    "DuplicateLevel",
    "DuplicateReason",
    "DuplicateView",
    "merge_runs",
    "run_starts",
]


class DuplicateLevel(IntEnum):
    """How two copies are recognized as duplicates."""

    SEQUENCE = 0
    CONTENT_RETRY = 1
    CONTENT = 2


LEVEL_NAMES = {
    DuplicateLevel.SEQUENCE: "sequence",
    DuplicateLevel.CONTENT_RETRY: "content-retry",
    DuplicateLevel.CONTENT: "content",
}


class DuplicateView(IntEnum):
    """Which consumers receive both copies: only read_uncommitted consumers, or read_committed consumers as well."""

    RAW = 0
    COMMITTED = 1


VIEW_NAMES = {DuplicateView.RAW: "raw", DuplicateView.COMMITTED: "committed"}


class DuplicateReason(IntEnum):
    """What the two copies have in common, and how they differ."""

    SEQUENCE_AND_CONTENT = 0
    SEQUENCE_NOT_CONTENT = 1
    SEQUENCE_ALONE = 2
    RETRY_SAME_TIME = 3
    RETRY_WHOLE_BATCH = 4
    OTHER_PRODUCER = 5
    OTHER_EPOCH = 6
    OTHER_SEQUENCE = 7
    OTHER_BATCH = 8
    NO_PRODUCER = 9
    NO_TIME = 10
    PERIODIC = 11
    SAME_PRODUCER = 12
    USUAL = 13
    SINGLE = 14


REASON_NAMES = {
    DuplicateReason.SEQUENCE_AND_CONTENT: "same sequence, same content",
    DuplicateReason.SEQUENCE_NOT_CONTENT: "same sequence, different content",
    DuplicateReason.SEQUENCE_ALONE: "same sequence; the contents cannot be compared",
    DuplicateReason.RETRY_SAME_TIME: "same content and timestamp, soon after, without a producer id",
    DuplicateReason.RETRY_WHOLE_BATCH: "a whole batch of the same content, soon after, without a producer id",
    DuplicateReason.OTHER_PRODUCER: "same content from another producer id",
    DuplicateReason.OTHER_EPOCH: "same content from another epoch of the producer",
    DuplicateReason.OTHER_SEQUENCE: "same content from the same producer under another sequence",
    DuplicateReason.OTHER_BATCH: "same content and sequence in a batch that was cut otherwise",
    DuplicateReason.NO_PRODUCER: "same content without a producer id, at another time, in part of a batch or far away",
    DuplicateReason.NO_TIME: "same content without a producer id or a timestamp",
    DuplicateReason.PERIODIC: "same content again and again, without a producer id",
    DuplicateReason.SAME_PRODUCER: "same content from the same producer",
    DuplicateReason.USUAL: "same content without a producer id, as much else in the partition",
    DuplicateReason.SINGLE: "same content without a producer id; a single batch may be a new event",
}

_SIDE = [
    ("segment", "i4"),  # index in the partition
    ("position", "i8"),  # of the batch
    ("offset", "i8"),  # of the first record
    ("last_offset", "i8"),  # of the last record
    ("timestamp", "i8"),  # of the first record, -1 for none; at level SEQUENCE the maximum timestamp of the batch
    ("producer_id", "i8"),
    ("producer_epoch", "i2"),
]
# A run: consecutive records (first_*) and their consecutive later copies (second_*). The later copies are from one
# producer. The earlier ones may be from several; the row names the producer of the first record.
DUPLICATE = np.dtype(
    [
        ("level", "i1"),
        ("why", "i1"),  # a DuplicateReason
        ("view", "i1"),
        ("records", "i8"),
        *((f"first_{name}", kind) for name, kind in _SIDE),
        *((f"second_{name}", kind) for name, kind in _SIDE),
    ]
)
DuplicateArray: TypeAlias = "npt.NDArray[np.void]"
# Rows that differ in one of these fields never belong to the same run.
_RUN_KEY = ("level", "why", "view", "second_producer_id", "second_producer_epoch")


def run_starts(rows: StructArray, continues: BoolArray) -> IntArray:
    """Return the indexes of the rows that start a run.

    Args:
        rows: at least one row of DUPLICATE or of a dtype with more fields.
        continues: for each row except the first, whether it starts where the row before it ends.
    """
    same = continues.copy()
    for name in _RUN_KEY:
        same &= rows[name][1:] == rows[name][:-1]
    return np.flatnonzero(np.concatenate([[True], ~same]))


def merge_runs(rows: StructArray, starts: IntArray) -> StructArray:
    """Return one row per run: its first row, with the records of the whole run and the last offsets of its last row.

    Args:
        rows: the argument of :func:`run_starts`.
        starts: the result of :func:`run_starts`.
    """
    merged = take_rows(rows, starts)
    merged["records"] = np.add.reduceat(rows["records"], starts)
    last_rows = np.append(starts[1:], len(rows)) - 1
    for name in ("first_last_offset", "second_last_offset"):
        merged[name] = rows[name][last_rows]
    return merged
