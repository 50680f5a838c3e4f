"""What the replay of a partition gives, as numpy records: millions of transactions or producers need no object each.

Offsets, epochs, sequences and ids are Kafka's numbers, its own -1 ("none") included; timestamps are milliseconds since
the epoch, NO_TIME where nothing tells one.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = [
    "ANOMALY",
    "EMPTY_MARKER",
    "NO_TIME",
    "PRODUCER",
    "RECENT_BATCH",
    "RECENT_BATCHES",
    "TRANSACTION",
    "Anomaly",
    "Ending",
    "Records",
]

Records: TypeAlias = "npt.NDArray[Any]"

NO_TIME = int(np.iinfo("i8").min)
# ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
RECENT_BATCHES = 5


class Ending(IntEnum):
    """How a transaction ended in this partition; the first two are the numbers of the markers."""

    ABORTED = 0
    COMMITTED = 1
    OPEN = 2


class Anomaly(IntEnum):
    """What the replay of one producer meets that a leader with full knowledge of it would not have written.

    The names are those of findings; ``forensics.checks`` weighs what may excuse each.
    """

    SEQ_MISSING = 0
    SEQ_FIRST_NONZERO = 1
    SEQ_GAP = 2
    SEQ_OVERLAP = 3
    SEQ_DUPLICATE_BATCH = 4
    EPOCH_REGRESSED = 5
    EPOCH_BUMP_NONZERO_SEQ = 6
    EPOCH_BUMP_WITHOUT_MARKER = 7
    TXN_NONTXN_INSIDE = 8
    MARKER_EPOCH_REGRESSED = 9
    MARKER_COORDINATOR_EPOCH_REGRESSED = 10
    MARKER_DUPLICATE = 11
    MARKER_CONFLICT = 12
    PID_MIXED_MODES = 13


# Where a batch stands: the number of its segment in the partition, and the byte in it.
_AT = [("segment", "i4"), ("position", "i8")]

TRANSACTION = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),  # of its last data batch
        ("lowest_epoch", "i2"),  # of its data batches
        ("highest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),  # of its data
        ("marker_offset", "i8"),  # -1 while it is open, as are the next two
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("ending", "i1"),
        ("batches", "i8"),
        ("records", "i8"),
        ("bytes", "i8"),
        ("first_timestamp", "i8"),  # smallest maximum timestamp of its batches; NO_TIME if some precede a snapshot
        ("last_timestamp", "i8"),
        ("marker_timestamp", "i8"),  # NO_TIME while it is open
        ("first_offset_exact", "?"),
        *_AT,  # of its first batch on hand; -1 where that precedes a snapshot
        ("marker_segment", "i4"),
        ("marker_position", "i8"),
    ]
)
EMPTY_MARKER = np.dtype(
    [
        ("producer_id", "i8"),
        ("marker_offset", "i8"),
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("ending", "i1"),
        ("marker_timestamp", "i8"),
        ("exact", "?"),  # False if it may have ended a transaction whose data stands before the log on hand
        *_AT,
    ]
)
RECENT_BATCH = np.dtype([("last_sequence", "i4"), ("last_offset", "i8"), ("offset_delta", "i4"), ("timestamp", "i8")])
PRODUCER = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("last_sequence", "i4"),
        ("last_offset", "i8"),
        ("offset_delta", "i4"),
        ("last_timestamp", "i8"),
        ("coordinator_epoch", "i4"),
        ("current_txn_first_offset", "i8"),
        ("recent_count", "i1"),
        ("recent", RECENT_BATCH, RECENT_BATCHES),  # oldest first; only the first ``recent_count`` mean something
    ]
)
ANOMALY = np.dtype(
    [
        ("kind", "i1"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("first_offset", "i8"),  # of the batch at which it shows
        ("last_offset", "i8"),
        ("amount", "i8"),  # records missing or written again; epochs fallen or risen; 0 where nothing is counted
        ("timestamp", "i8"),
        ("previous_offset", "i8"),  # last offset of the producer's event before it that it does not go with; -1 if none
        ("previous_timestamp", "i8"),
        ("hole", "i8"),  # offsets that the log misses between the two
        *_AT,
    ]
)
