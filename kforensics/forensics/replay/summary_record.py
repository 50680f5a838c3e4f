"""What a stretch of a log says of its producers without what stands before it: one record of fixed size for each.

A producer's events in the stretch are a word ``r0 m1 r1 m2 r2 ... mk rk`` of *regions*, the data batches between
markers, and markers. What lies between two markers is certain and written out as rows; ``r0 m1`` and ``rk`` wait for
the neighbours of the stretch, as does the comparison of the first batch with what precedes it.

Holes are counted from the beginning of the stretch, so that two events know how many offsets are missing between them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from kforensics.forensics.core.portable import Portable
from kforensics.forensics.core.record_arrays import are_same, picked
from kforensics.forensics.core.record_types import ANOMALY, RECENT_BATCH, RECENT_BATCHES, Records

__all__ = ["FIRST_BATCH", "MARKER", "PENDING", "PRODUCER_SUMMARY", "REGION", "SEEN", "Summary", "sorted_pending"]

# Where an event was seen: its last offset, its timestamp, and the offsets that the stretch misses before it.
SEEN = np.dtype([("offset", "i8"), ("timestamp", "i8"), ("holes", "i8")])
_EVENT = [
    ("producer_epoch", "i2"),
    ("base_offset", "i8"),
    ("offset_delta", "i4"),
    ("timestamp", "i8"),
    ("holes", "i8"),
    ("segment", "i4"),
    ("position", "i8"),
]
FIRST_BATCH = np.dtype([*_EVENT, ("base_sequence", "i4"), ("is_transactional", "?")])
MARKER = np.dtype([*_EVENT, ("coordinator_epoch", "i4"), ("ending", "i1")])
REGION = np.dtype(
    [
        ("begun", "?"),  # whether it holds transactional data; the rest speaks of that alone
        ("producer_epoch", "i2"),  # of the last batch
        ("lowest_epoch", "i2"),
        ("highest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("batches", "i4"),
        ("records", "i8"),
        ("bytes", "i8"),
        ("first_timestamp", "i8"),
        ("last_timestamp", "i8"),
        ("segment", "i4"),
        ("position", "i8"),
    ]
)
# What is not there is zero, so that equal stretches have equal records.
PRODUCER_SUMMARY = np.dtype(
    [
        ("producer_id", "i8"),
        ("has_data", "?"),
        ("has_transactional", "?"),
        ("has_other", "?"),
        ("has_marker", "?"),
        ("starts_with_marker", "?"),
        ("ends_with_marker", "?"),
        ("is_uniform", "?"),  # all events have one epoch
        ("is_mixed", "?"),  # the last region has other data behind transactional data
        ("end_epoch", "i2"),  # of the last event
        ("first", FIRST_BATCH),
        # The markers before the first batch, of which the first is ``first_marker``.
        ("lead", SEEN),
        ("lead_epoch", "i2"),
        ("lead_is_uniform", "?"),
        ("last_data", SEEN),
        ("first_marker", MARKER),
        ("last_marker", SEEN),
        ("last_coordinator_epoch", "i4"),
        ("last_ending", "i1"),
        ("head", REGION),  # before the first marker
        ("tail", REGION),  # behind the last marker; nothing if there is no marker
        ("recent_count", "i1"),
        ("recent", RECENT_BATCH, RECENT_BATCHES),  # of the last epoch, oldest first
    ]
)
# An anomaly that is none, or another one, if certain events stand before the stretch.
PENDING = np.dtype(
    [
        ("row", ANOMALY),
        ("last_sequence", "i4"),  # of a SEQ_OVERLAP, which may turn out to be a batch written twice
        ("compared", "i1"),  # the recent batches it was compared with
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class Summary(Portable):
    """A stretch of a partition's log, as far as the stretches beside it need to know.

    Attributes:
        producers: PRODUCER_SUMMARY records, by producer id.
        pending: PENDING records, by producer id, kind and offset. Few logs have any.
        first_offset: of its first batch; None if there is none, or if that is an entry of format 0 or 1 that does not
            tell it.
        last_offset: of its last batch, None if there is none.
        batches: how many there are.
        holes: offsets missing between them.
        sequences: whether sequences mean anything in the topic.
    """

    producers: Records = field(default_factory=lambda: np.zeros(0, PRODUCER_SUMMARY))
    pending: Records = field(default_factory=lambda: np.zeros(0, PENDING))
    first_offset: int | None = None
    last_offset: int | None = None
    batches: int = 0
    holes: int = 0
    sequences: bool = True

    @classmethod
    def empty(cls) -> Summary:
        """Return the summary of no batch, which changes nothing it is merged with."""
        return cls()

    @property
    def is_empty(self) -> bool:
        """Whether it says nothing, neither of batches nor of what stands before them."""
        return self.last_offset is None and self.sequences and not len(self.producers)

    def cut(self, at: int) -> tuple[Summary, Summary]:
        """Return two summaries of the same stretch: of the producers before an index, and of the others."""
        if at >= len(self.producers):
            return self, replace(self, producers=self.producers[:0], pending=self.pending[:0])
        waits = int(np.searchsorted(self.pending["row"]["producer_id"], self.producers["producer_id"][at]))
        return (
            replace(self, producers=self.producers[:at], pending=self.pending[:waits]),
            replace(self, producers=self.producers[at:], pending=self.pending[waits:]),
        )

    @property
    def facts(self) -> tuple[int | None, int | None, int, int, bool]:
        """What it says of the partition: first and last offset, batches, holes, and whether sequences matter."""
        return self.first_offset, self.last_offset, self.batches, self.holes, self.sequences

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Summary)
            and self.facts == other.facts
            and are_same(self.producers, other.producers)
            and are_same(self.pending, other.pending)
        )

    __hash__ = None  # type: ignore[assignment]  # it holds arrays


def sorted_pending(pending: Records) -> Records:
    """Return PENDING records in their order."""
    rows = pending["row"]
    if len(rows) < 2:
        return pending
    return picked(pending, np.lexsort((rows["first_offset"], rows["kind"], rows["producer_id"])))
