"""What is known about a log before the batches that are replayed: it was empty, a snapshot describes it, or unknown."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

import numpy as np

from kforensics.forensics.core.record_types import PRODUCER, ProducerArray


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
    producers: ProducerArray = field(default_factory=lambda: np.zeros(0, PRODUCER), compare=False, repr=False)


EMPTY, UNKNOWN = Boundary(BoundaryKind.EMPTY), Boundary(BoundaryKind.UNKNOWN)
