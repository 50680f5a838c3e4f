"""What consumers receive, and should, of a log that is gone through, without all of its transactions at once."""

from __future__ import annotations

from collections.abc import Iterator
from operator import itemgetter

import numpy as np

from kforensics.forensics.core.external_sort import Sorted, Sorting
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import TRANSACTION, Records
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, Ledger
from kforensics.forensics.sidecar.visibility import NEVER, Visibility, next_aborts, visible_by_log, visible_by_spans

__all__ = ["IndexSweep", "VisibilitySweep"]

FARTHEST = int(np.iinfo("i8").min)
SPAN = np.dtype([("producer_id", "i8"), ("first_offset", "i8"), ("end", "i8")])


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


class IndexSweep:
    """What a consumer does receive of batches that are asked about in the order of the log, by the transaction indexes.

    An entry hides from its first offset to the next ABORT of its producer. Whether that is before or behind the last
    batch that was asked about is all that has to be known.

    Args:
        begun: producer id and first offset of all entries, by first offset.
        case: the partition.
        last_stable_offset: where the log ends for consumers.
    """

    def __init__(self, begun: Sorted, case: Case, last_stable_offset: int) -> None:
        self._begun, self._case, self._last_stable_offset = begun, case, last_stable_offset
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._window, self._from, self._upto = np.empty(0, SPAN), FARTHEST, FARTHEST
        self._visibility = self._made()

    def _made(self) -> Visibility:
        start, spans = self._case.log_start_offset, self._window
        owners, firsts, ends = (np.ascontiguousarray(spans[name]) for name in SPAN.names or ())
        return visible_by_spans(owners, firsts, ends, start, self._last_stable_offset)

    def around(self, first_offset: int, last_offset: int) -> Visibility:
        """Return what is true of batches between two offsets."""
        if first_offset < self._from:
            self._begin_anew()
        if last_offset > self._upto:
            self._go_on(first_offset, last_offset)
        return self._visibility

    def _go_on(self, first_offset: int, last_offset: int) -> None:
        new = self._begun.at(self._upto + 1, last_offset)
        spans = np.empty(len(self._window) + len(new), SPAN)
        spans[: len(self._window)] = self._window
        for name in new.dtype.names or ():
            spans[name][len(self._window) :] = new[name]
        spans["end"][len(self._window) :] = NEVER
        left = np.flatnonzero(spans["end"] == NEVER)
        spans["end"][left] = next_aborts(
            spans["producer_id"][left], spans["first_offset"][left], self._markers(self._upto + 1, last_offset)
        )
        self._from, self._upto = first_offset, last_offset
        self._window = picked(spans, spans["end"] > first_offset)
        self._visibility = self._made()

    def _markers(self, first: int, last: int) -> Iterator[Records]:
        yield from self._case.ledger.closed.between(first, last)
        empty = self._case.empty_markers
        yield empty[slice(*empty["marker_offset"].searchsorted([first, last + 1]))]
