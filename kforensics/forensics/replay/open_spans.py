"""Regions: what a producer wrote in transactions between two of its markers, counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.core.record_arrays import chosen, picked, placed
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.replay.producer_events import Events, edges
from kforensics.forensics.replay.summary_record import REGION

__all__ = ["Regions", "product"]


@dataclass(frozen=True, slots=True)
class Regions:
    """The regions of a chunk that hold transactional data.

    Attributes:
        number: for each event the number of its region; a marker has that of the region it ends.
        transactional: which events are transactional data.
        numbers: numbers of the regions that hold any, ascending.
        records: REGION records of these.
    """

    number: Records
    transactional: Records
    numbers: Records
    records: Records

    @classmethod
    def of(cls, events: Events) -> Regions:
        """Return the regions of events."""
        begins = np.ones(len(events), "?")
        begins[1:] = (events.producer_id[1:] != events.producer_id[:-1]) | events.is_marker[:-1]
        number = np.cumsum(begins, dtype="i4")
        transactional = np.flatnonzero(events.is_transactional)
        first, last = edges(number[transactional])
        return cls(number, transactional, number[transactional[first]], _counted(events, transactional, first, last))

    def find(self, number: Records) -> Records:
        """Return the REGION records with some numbers; zeros where a region holds nothing."""
        if not len(self.numbers):
            return np.zeros(len(number), REGION)
        at = np.minimum(np.searchsorted(self.numbers, number), len(self.numbers) - 1)
        found = picked(self.records, at)
        nothing = self.numbers[at] != number
        if nothing.any():
            placed(found, nothing, np.zeros(1, REGION))
        return found


def product(left: Records, right: Records) -> Records:
    """Return REGION records of the regions in ``left`` with those in ``right`` behind them.

    A new epoch does not begin another transaction, and an empty region changes nothing.
    """
    found = chosen(left["begun"], left, right)
    both = np.flatnonzero(left["begun"] & right["begun"])
    if len(both):
        one, other = picked(left, both), picked(right, both)
        one["producer_epoch"], one["last_offset"] = other["producer_epoch"], other["last_offset"]
        for name in ("batches", "records", "bytes"):
            one[name] += other[name]
        for name in ("lowest_epoch", "first_timestamp"):
            one[name] = np.minimum(one[name], other[name])
        for name in ("highest_epoch", "last_timestamp"):
            one[name] = np.maximum(one[name], other[name])
        placed(found, both, one)
    return found


def _counted(events: Events, at: Records, first: Records, last: Records) -> Records:
    """Return REGION records of runs of transactional batches; ``first`` and ``last`` count in ``at``."""
    records = np.zeros(len(first), REGION)
    if not len(first):
        return records
    epoch, timestamp = events.producer_epoch[at], events.column("max_timestamp", at)
    records["begun"] = True
    records["producer_epoch"] = epoch[last]
    records["lowest_epoch"] = np.minimum.reduceat(epoch, first)
    records["highest_epoch"] = np.maximum.reduceat(epoch, first)
    records["first_offset"] = events.column("base_offset", at[first])
    records["last_offset"] = events.column("last_offset", at[last])
    records["batches"] = last - first + 1
    records["records"] = np.add.reduceat(events.column("count", at), first, dtype="i8")
    records["bytes"] = np.add.reduceat(events.column("size", at), first, dtype="i8")
    records["first_timestamp"] = np.minimum.reduceat(timestamp, first)
    records["last_timestamp"] = np.maximum.reduceat(timestamp, first)
    records["segment"] = events.column("segment", at[first])
    records["position"] = events.column("position", at[first])
    return records
