"""What consumers should receive of a log that is gone through, without all of its transactions at once."""

from __future__ import annotations

from operator import itemgetter

import numpy as np

from kforensics.forensics.beside.visibility import Visibility, visible_by_log
from kforensics.forensics.ledger import NO_TRANSACTIONS, Ledger
from kforensics.forensics.replay.record_arrays import joined_records, picked
from kforensics.forensics.replay.results import TRANSACTION
from kforensics.forensics.sorting import Sorted, Sorting

__all__ = ["VisibilitySweep"]

FARTHEST, NEVER = int(np.iinfo("i8").min), int(np.iinfo("i8").max)


class VisibilitySweep:
    """What a consumer should receive of batches that are asked about in the order of the log, by the markers.

    Transactions come by their first offsets as the log goes on, and go where their markers are behind. Who goes back
    begins anew.

    Args:
        ledger: transactions of the partition.
        log_start_offset: where the log begins for consumers.
        last_stable_offset: where it ends for them.

    Attributes:
        log_start_offset: as above.
        last_stable_offset: as above.
    """

    def __init__(self, ledger: Ledger, log_start_offset: int, last_stable_offset: int) -> None:
        self.log_start_offset, self.last_stable_offset = log_start_offset, last_stable_offset
        self._ledger = ledger
        self._begun: Sorted | None = None
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._window, self._next, self._from, self._upto = NO_TRANSACTIONS, 0, FARTHEST, FARTHEST
        self._visibility = self._made()

    def _made(self) -> Visibility:
        return visible_by_log(self._window, self.log_start_offset, self.last_stable_offset)

    def around(self, first_offset: int, last_offset: int) -> Visibility:
        """Return what is true of batches between two offsets."""
        if first_offset < self._from:
            self._begin_anew()
        if last_offset > self._upto:
            self._go_on(first_offset, last_offset)
        return self._visibility

    def _go_on(self, first_offset: int, last_offset: int) -> None:
        begun = self._begun = self._begun or _by_first_offset(self._ledger)
        parts = [self._window]
        while last_offset > self._upto:
            if self._next < begun.ranges:
                parts.append(begun.read(self._next))
                self._next += 1
            # Where a range ends, the next one may begin with the same offset.
            done = self._next == begun.ranges
            self._upto = NEVER if done else int(begun.last_keys[self._next - 1]) - 1
        self._from = first_offset
        self._window = joined_records([picked(part, part["marker_offset"] >= first_offset) for part in parts])
        self._visibility = self._made()


def _by_first_offset(ledger: Ledger) -> Sorted:
    sorting = Sorting(TRANSACTION, itemgetter("first_offset"))
    for rows in ledger.closed:
        sorting.add(rows)
    return sorting.finish()
