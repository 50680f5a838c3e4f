"""Record types of the replay as NumPy dtypes, so that millions of transactions or producers need no object each.

Offsets, epochs, sequences and ids are Kafka's numbers, including its own -1 ("none"). Timestamps are milliseconds
since the epoch, NO_TIME if unknown.
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
    "UNENDED",
    "Anomaly",
    "Portable",
    "TransactionOutcome",
]


class Portable:
    """Base of frozen dataclasses with slots that are pickled as a call of their class with their fields.

    The pickling support of ``dataclasses`` looks up all fields for each value it loads, which takes longer than
    everything else together.
    """

    __slots__: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), tuple([getattr(self, name) for name in self.__slots__])


NO_TIME = int(np.iinfo("i8").min)
# ProducerStateEntry.NUM_BATCHES_TO_RETAIN.
RECENT_BATCHES = 5


class TransactionOutcome(IntEnum):
    """How a transaction ended in this partition; the first two values are Kafka's control record types.

    FORGOTTEN is one without a marker that its broker has forgotten.
    """

    ABORTED = 0
    COMMITTED = 1
    OPEN = 2
    FORGOTTEN = 3


# The outcomes of transactions without a marker.
UNENDED = (TransactionOutcome.OPEN, TransactionOutcome.FORGOTTEN)


class Anomaly(IntEnum):
    """Events of one producer that a leader with full knowledge of its state would not have written.

    The names match the codes of findings; the checks decide which benign explanations apply.
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


# Where a batch is: the number of its segment in the partition, and the byte position in it.
_AT = [("segment", "i4"), ("position", "i8")]

TRANSACTION = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),  # of its last data batch
        ("lowest_epoch", "i2"),  # of its data batches
        ("highest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),  # of its data
        ("marker_offset", "i8"),  # -1 while open, as are the next two fields
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("outcome", "i1"),
        ("batches", "i8"),
        ("records", "i8"),
        ("bytes", "i8"),
        ("first_timestamp", "i8"),  # smallest maximum timestamp of its batches; NO_TIME if some precede a snapshot
        ("last_timestamp", "i8"),
        ("marker_timestamp", "i8"),  # NO_TIME while open
        ("first_offset_exact", "?"),
        *_AT,  # of its first available batch; -1 if that precedes a snapshot
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
        ("outcome", "i1"),
        ("marker_timestamp", "i8"),
        ("exact", "?"),  # False if it may have ended a transaction whose data precedes the available log
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
        ("recent", RECENT_BATCH, RECENT_BATCHES),  # oldest first; only the first ``recent_count`` are set
    ]
)
ANOMALY = np.dtype(
    [
        ("kind", "i1"),
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("first_offset", "i8"),  # of the batch where it shows
        ("last_offset", "i8"),
        ("amount", "i8"),  # records missing or repeated; epochs regressed or bumped; 0 if not counted
        ("timestamp", "i8"),
        ("previous_offset", "i8"),  # last offset of the producer's conflicting earlier event; -1 if none
        ("previous_timestamp", "i8"),
        ("offset_gap", "i8"),  # offsets missing from the log between the two
        *_AT,
    ]
)

# Arrays of the record types above, for signatures; plain columns are IntArray and so on of parsers.format.array_types.
TransactionArray: TypeAlias = "npt.NDArray[np.void]"
EmptyMarkerArray: TypeAlias = "npt.NDArray[np.void]"
ProducerArray: TypeAlias = "npt.NDArray[np.void]"
AnomalyArray: TypeAlias = "npt.NDArray[np.void]"
