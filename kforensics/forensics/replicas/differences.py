"""Where two replicas differ, as ranges of offsets with what each side has there.

Ranges are listed one by one, but what a cleaner explains, as every broker cleans when it likes, is one range for each
pair, and so is what lies before the start of one of the two.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST
from kforensics.forensics.replicas.batch_alignment import Aligned, Verdict, aligned
from kforensics.forensics.replicas.replica import Replica
from kforensics.forensics.replicas.side_by_side import Batches

__all__ = ["Difference", "Differences", "Kind", "Side"]

# Producers, of whom a range may have millions, that are named.
NAMED = 20
NO_BATCH = -1


class Kind(StrEnum):
    """What a range is."""

    # Both have batches there, and not the same ones.
    DIVERGED = "diverged"
    # The same bytes, but the leader epoch, which no checksum covers.
    LEADER_EPOCH = "leader-epoch"
    # The checksum of one side's batch fails.
    DAMAGED = "damaged"
    # One side has batches there, and both have batches behind.
    MISSING = "missing"
    # One side has them and the other has ended.
    BEHIND = "behind"
    # One side has them and the other begins behind.
    BEFORE_START = "before-start"
    # The cleaner has been at one side, or at both, and not as far.
    CLEANED = "cleaned"


@dataclass(frozen=True, slots=True)
class Side:
    """What one replica has in a range.

    Attributes:
        batches: how many begin there.
        records: records in them, of users.
        markers: control batches.
        bytes: of all of them.
        producer_ids: the first producers, no more than are named.
        leader_epochs: the lowest and the highest; None without batches, as are the next two.
        timestamps: the smallest and the largest maximum timestamp in ms.
        at: segment and position of the first batch.
    """

    batches: int = 0
    records: int = 0
    markers: int = 0
    bytes: int = 0
    producer_ids: tuple[int, ...] = ()
    leader_epochs: tuple[int, int] | None = None
    timestamps: tuple[int, int] | None = None
    at: tuple[int, int] | None = None

    @classmethod
    def of(cls, batches: Batches) -> Side:
        """Return what some batches amount to."""
        found = batches.columns
        if not len(found):
            return cls()
        is_data = found.control < 0
        producers = np.unique(found.producer_id[found.producer_id >= 0])[:NAMED]
        return cls(
            batches=len(found),
            records=int(found.count[is_data].sum()),
            markers=int((~is_data).sum()),
            bytes=int(found.size.sum()),
            producer_ids=tuple(producers.tolist()),
            leader_epochs=(int(found.leader_epoch.min()), int(found.leader_epoch.max())),
            timestamps=(int(found.max_timestamp.min()), int(found.max_timestamp.max())),
            at=(int(found.segment[0]), int(found.position[0])),
        )

    def merged(self, after: Side) -> Side:
        """Return both together, of which the other follows this one."""
        if not (self.batches and after.batches):
            return self if self.batches else after
        return Side(
            self.batches + after.batches,
            self.records + after.records,
            self.markers + after.markers,
            self.bytes + after.bytes,
            tuple(sorted({*self.producer_ids, *after.producer_ids})[:NAMED]),
            _span(self.leader_epochs, after.leader_epochs),
            _span(self.timestamps, after.timestamps),
            self.at,
        )


def _span(one: tuple[int, int] | None, other: tuple[int, int] | None) -> tuple[int, int] | None:
    ends = [*(one or ()), *(other or ())]
    return (min(ends), max(ends)) if ends else None


@dataclass(frozen=True, slots=True)
class Difference:
    """A range of offsets in which two replicas differ.

    Attributes:
        first: number of the one replica.
        second: number of the other one.
        kind: what the range is.
        first_offset: first offset of the first batch that differs.
        last_offset: last offset of the last one.
        sides: what each of the two has there, where it differs.
        left_out: further ranges of the same pair that are counted here and not listed.
    """

    first: int
    second: int
    kind: Kind
    first_offset: int
    last_offset: int
    sides: tuple[Side, Side]
    left_out: int = 0

    def merged(self, after: Difference) -> Difference:
        """Return both as one, of which the other follows this one."""
        mine, others = self.sides, after.sides
        return replace(
            self,
            first_offset=min(self.first_offset, after.first_offset),
            last_offset=max(self.last_offset, after.last_offset),
            sides=(mine[0].merged(others[0]), mine[1].merged(others[1])),
        )


class Differences:
    """Gathers the ranges in which two replicas differ, window by window.

    Args:
        first: the one replica.
        second: the other one.

    Attributes:
        common: batches that are the same on both sides.
    """

    def __init__(self, first: Replica, second: Replica) -> None:
        self._replicas = first, second
        self._start = max(first.first_offset, second.first_offset)
        self._before_start: Difference | None = None
        self._cleaned: Difference | None = None
        self._listed: list[Difference] = []
        self._open: tuple[int, Difference] | None = None
        self._left_out = 0
        self.common = 0

    def add(self, first: Batches, second: Batches) -> tuple[Batches, Batches]:
        """Take a window.

        Returns:
            The batches of which a cleaner may have made the one out of the other.
        """
        window = aligned(first, second)
        differs = window.verdict != Verdict.SAME
        self.common += int((~differs).sum())
        early = differs & (window.offsets < self._start)
        cleaned = ~early & self._is_cleaned(window)
        self._before_start = self._with(self._before_start, Kind.BEFORE_START, window, early)
        self._cleaned = self._with(self._cleaned, Kind.CLEANED, window, cleaned)
        self._list(window, np.where(early | cleaned, Verdict.SAME, window.verdict))
        thinned = np.flatnonzero(cleaned & (window.verdict == Verdict.THINNED))
        return window.batches(0, thinned), window.batches(1, thinned)

    def _is_cleaned(self, window: Aligned) -> Records:
        """Return which differences a cleaner explains: the side that has less was cleaned there."""
        fewer = [self._counts(window, side) for side in (0, 1)]
        found = (window.verdict == Verdict.THINNED) | (window.verdict == Verdict.ONE_SIDED)
        reached = [window.offsets < one.strict_from for one in self._replicas]
        by_one = (fewer[0] <= fewer[1]) & reached[0]
        by_other = (fewer[1] <= fewer[0]) & reached[1]
        cleaned: Records = found & (by_one | by_other)
        return cleaned

    @staticmethod
    def _counts(window: Aligned, side: int) -> Records:
        """Return how many records one side has in each batch, -1 where it has none."""
        counts = np.append(window.sides[side].columns.count, NO_BATCH)
        found: Records = counts[window.at[side]]
        return found

    def _with(self, before: Difference | None, kind: Kind, window: Aligned, which: Records) -> Difference | None:
        if not which.any():
            return before
        found = self._difference(kind, window, np.flatnonzero(which))
        return found if before is None else before.merged(found)

    def _difference(self, kind: Kind, window: Aligned, which: Records) -> Difference:
        held = [window.batches(side, which) for side in (0, 1)]
        last = max(int(one.columns.last_offset.max(initial=-1)) for one in held)
        first, second = (Side.of(one) for one in held)
        one, other = self._replicas
        return Difference(one.number, other.number, kind, int(window.offsets[which[0]]), last, (first, second))

    def _list(self, window: Aligned, verdict: Records) -> None:
        """Take what no cleaner explains; neighbours of one kind are one range."""
        kinds = np.minimum(verdict, Verdict.THINNED)
        for start, stop in _runs(kinds):
            found = int(kinds[start])
            if found == Verdict.SAME:
                self._close()
                continue
            one = self._difference(_KINDS[found], window, np.arange(start, stop))
            if self._open is not None and self._open[0] != found:
                self._close()
            self._open = found, one if self._open is None else self._open[1].merged(one)

    def _close(self) -> None:
        if self._open is None:
            return
        _, found = self._open
        self._open = None
        if found.kind is Kind.DIVERGED:
            found = replace(found, kind=self._kind(found))
        if len(self._listed) < MOST:
            self._listed.append(found)
        else:
            self._left_out += 1

    def _kind(self, found: Difference) -> Kind:
        """Return what a range is in which the two do not have the same batches."""
        if found.sides[0].batches and found.sides[1].batches:
            return Kind.DIVERGED
        absent = self._replicas[1 if found.sides[0].batches else 0]
        return Kind.BEHIND if found.first_offset >= absent.end else Kind.MISSING

    def found(self) -> Iterator[Difference]:
        """Yield the ranges in the order of the log, once all windows were taken."""
        self._close()
        ranges = [one for one in (self._before_start, self._cleaned) if one is not None]
        ranges += self._listed
        if self._left_out:
            ranges[-1] = replace(ranges[-1], left_out=self._left_out)
        yield from ranges


# Where no cleaner has been, it makes no difference whether it could have.
_KINDS = {
    Verdict.LEADER_EPOCH: Kind.LEADER_EPOCH,
    Verdict.FIRST_DAMAGED: Kind.DAMAGED,
    Verdict.SECOND_DAMAGED: Kind.DAMAGED,
    Verdict.THINNED: Kind.DIVERGED,
}


def _runs(values: Any) -> Sequence[tuple[int, int]]:
    """Return where equal values stand in a row, from and to."""
    if not len(values):
        return ()
    starts = np.concatenate([[0], np.flatnonzero(values[1:] != values[:-1]) + 1])
    return tuple(zip(starts.tolist(), [*starts[1:].tolist(), len(values)], strict=True))
