"""Groups of listed partitions and markers whose key identifies, or may identify, several transactions.

There may be millions of small groups, or one of millions: a batch has many small groups, so that NumPy is called for
all of them at once, or one large group.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.transactions.marker_alignment import TransactionEnds
from kforensics.forensics.coordinators.transactions.transaction_partitions import KeyGroups
from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

__all__ = ["GroupBatch", "GroupEnds", "GroupMarkers", "group_batches"]

# Listed partitions of a batch, if its groups are small.
BATCH = 1 << 16


@dataclass(frozen=True, slots=True)
class GroupBatch:
    """Some groups.

    Attributes:
        rows: indexes of listed partitions, group by group, in the order of their decisions.
        markers: indexes of markers, group by group, in the order of the log; those of other groups may lie between.
        bounds: where the rows and the markers of each group are.
    """

    rows: IntArray
    markers: IntArray
    bounds: list[tuple[slice, slice]]


@dataclass(frozen=True, slots=True)
class GroupEnds:
    """The ends of the transactions of some listed partitions.

    Attributes:
        ends: the ends; their markers are required only if the history of their id shows that, too.
        is_covered: whether each was decided when the log of the partition covered its marker.
        is_whole: whether the history of its id is complete.
        coordinator: number of its coordinator.
    """

    ends: TransactionEnds
    is_covered: BoolArray
    is_whole: BoolArray
    coordinator: IntArray

    def part(self, rows: slice) -> GroupEnds:
        """Return some of them."""
        return GroupEnds(self.ends.select(rows), self.is_covered[rows], self.is_whole[rows], self.coordinator[rows])


@dataclass(frozen=True, slots=True)
class GroupMarkers:
    """What the alignment needs of some markers.

    Attributes:
        times: their timestamps.
        outcomes: their outcomes, as numbers of ``TransactionOutcome``.
        epochs: epochs of the coordinators that sent them.
        is_empty: whether each ended no data.
        by_operator: whether an operator may have written it.
    """

    times: IntArray
    outcomes: Column
    epochs: IntArray
    is_empty: BoolArray
    by_operator: BoolArray

    def part(self, rows: slice) -> GroupMarkers:
        """Return some of them."""
        return GroupMarkers(*(getattr(self, name)[rows] for name in self.__slots__))

    def optional(self) -> BoolArray:
        """Return which markers of a group may be duplicates or an operator's."""
        optional: BoolArray = self.by_operator & (self.epochs == 0)
        optional[1:] |= self.by_operator[1:] & (self.epochs[1:] == self.epochs[:-1])
        optional[1:] |= self.is_empty[1:] & (self.outcomes[1:] == self.outcomes[:-1])
        return optional


def group_batches(groups: KeyGroups, rows: IntArray) -> Iterator[GroupBatch]:
    """Yield the groups of some listed partitions, in batches.

    Args:
        groups: all groups.
        rows: indexes of listed partitions, sorted by group.
    """
    group_of = groups.of_partitions[rows]
    starts = np.flatnonzero(np.concatenate([[len(rows) > 0], group_of[1:] != group_of[:-1]]))
    numbers, stops = group_of[starts], np.append(starts[1:], len(rows))
    del group_of
    markers = np.argsort(groups.of_markers, kind="stable")
    in_order = groups.of_markers[markers]
    begins, ends = (np.searchsorted(in_order, numbers, side=side) for side in ("left", "right"))
    del in_order
    first = 0
    while first < len(numbers):
        last = max(int(np.searchsorted(stops, starts[first] + BATCH, "right")), first + 1)
        begin, start = int(begins[first]), int(starts[first])
        every = (column[first:last].tolist() for column in (starts, stops, begins, ends))
        bounds = [(slice(a - start, b - start), slice(c - begin, d - begin)) for a, b, c, d in zip(*every, strict=True)]
        yield GroupBatch(rows[start : stops[last - 1]], markers[begin : ends[last - 1]], bounds)
        first = last
