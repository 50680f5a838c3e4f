"""What is known about a log before the batches that are replayed: it was empty, a snapshot describes it, or unknown."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.core.record_types import PRODUCER

NO_PRODUCERS = ProducerStates(np.zeros(0, PRODUCER))


class BoundaryKind(Enum):
    """How much is known about the log before the batches that are replayed."""

    EMPTY = "empty"
    SNAPSHOT = "snapshot"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Boundary:
    """The state from which a replay starts.

    Attributes:
        kind: EMPTY if there are no earlier batches, SNAPSHOT if a producer snapshot describes them, else UNKNOWN.
        offset: offset of the snapshot; the replay starts with the batch at this offset.
        producers: the producers in the snapshot, by producer id.
    """

    kind: BoundaryKind
    offset: int = 0
    producers: ProducerStates = field(default=NO_PRODUCERS, compare=False, repr=False)

    def without_transactions_before(self, cleaned_to: int) -> Boundary:
        """Return the boundary without the open transactions that begin below an offset up to which a cleaner has been.

        A cleaner stops at the last stable offset, so they ended before it came, and it may have removed their markers:
        their data is not in the log. Rule: ``LogCleanerManager.cleanableOffsets``, ``Cleaner.buildOffsetMap``.

        A snapshot from that offset or after it has what was open then: retention moves the checkpoint of the cleaner to
        the log start, past open transactions.
        """
        if self.offset >= cleaned_to:
            return self
        return replace(self, producers=self.producers.without_transactions_before(cleaned_to))


EMPTY, UNKNOWN = Boundary(BoundaryKind.EMPTY), Boundary(BoundaryKind.UNKNOWN)
