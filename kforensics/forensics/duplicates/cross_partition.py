"""What a partition has that was written to others of its topic before, and how that becomes rows of the table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.result_rows import Rows, Words
from kforensics.forensics.duplicates.partition_duplicates import table_rows
from kforensics.forensics.duplicates.topic_pairs import numbers_of
from kforensics.parsers.log.log_rows import Place

__all__ = ["AcrossCase", "PathOf"]

PathOf = Callable[[int, int], str]
# Bits of a number for the segment, below that of the partition.
SEGMENT_BITS = 32


@dataclass(frozen=True, slots=True)
class AcrossCase:
    """What a partition has that was written to others of its topic before.

    Attributes:
        place: the partition.
        folder: where its files lie.
        strict_from: offset from which batches stand as the leader wrote them.
        runs: RUN records, by view and place.
        path_of: returns the path of a segment, by the number of a partition and of a segment in it.
    """

    place: Place
    folder: str
    strict_from: int
    runs: Records
    path_of: PathOf

    @property
    def number(self) -> int:
        """Number of the partition."""
        return self.place.partition or 0

    def rows(self) -> Rows:
        """Return the runs as rows of the table ``duplicates``."""
        words = {f"{side}_path": self._paths(side) for side in ("first", "second")}
        return table_rows(self.place, self.runs, {**words, "first_partition": numbers_of(self.runs["first"])})

    def _paths(self, side: str) -> Words:
        places = (numbers_of(self.runs[side]) << SEGMENT_BITS) + self.runs[f"{side}_segment"]
        known, codes = np.unique(places, return_inverse=True)
        mask = (1 << SEGMENT_BITS) - 1
        return Words(codes, [self.path_of(one >> SEGMENT_BITS, one & mask) for one in known.tolist()])
