"""What the producer snapshots of a partition show of ``producer.id.expiration.ms``.

Rule: ``ProducerStateManager.removeExpiredProducers``. At intervals a broker forgets all producers without an open
transaction that have been idle for that time. So a producer that one snapshot has and the next one lacks bounds the
setting from above, unless a later snapshot has it again as it was, or one that has been idle for longer is still there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from kforensics.forensics.core.record_types import ProducerArray
from kforensics.forensics.partition.partition_files import LOG_START, Partition
from kforensics.forensics.partition.snapshot_records import latest_entries, snapshot_records
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.format.array_types import BoolArray

__all__ = ["Expired", "SnapshotExpiry", "snapshot_expiry"]


@dataclass(frozen=True, slots=True)
class Expired:
    """Producers that a broker forgot between two snapshots.

    Attributes:
        idle_ms: how long the one that wrote last had been idle when the second snapshot was taken.
        taken_ms: when that was, at the latest.
        producer_id: its id.
        count: how many there are.
        path: the second snapshot.
    """

    idle_ms: int
    taken_ms: int
    producer_id: int
    count: int
    path: str

    def taken_by(self, stopped_ms: int | None) -> Expired:
        """Return the same if the broker stopped, or was copied, at a known time: no snapshot is later."""
        surplus = 0 if stopped_ms is None else max(0, self.taken_ms - stopped_ms)
        return replace(self, idle_ms=self.idle_ms - surplus, taken_ms=self.taken_ms - surplus)


@dataclass(frozen=True, slots=True)
class SnapshotExpiry:
    """What the snapshots of a partition show.

    Attributes:
        expired: the forgotten producers, for each snapshot that shows some.
        idle: for each snapshot, when it was taken at the latest, and how long a producer in it had then been idle.
        newest_ms: the newest timestamp in a snapshot.
    """

    expired: tuple[Expired, ...] = ()
    idle: tuple[tuple[int, int], ...] = ()
    newest_ms: int = 0

    def longest_idle_ms(self, stopped_ms: int | None) -> int:
        """Return how long a producer in a snapshot had been idle, at most."""
        times = (idle if stopped_ms is None else idle - max(0, taken - stopped_ms) for taken, idle in self.idle)
        return max(times, default=0)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """A snapshot.

    Attributes:
        offset: its offset.
        path: the file.
        taken_ms: when it was taken.
        producers: PRODUCER records in it, one per producer, sorted by id.
    """

    offset: int
    path: str
    taken_ms: int
    producers: ProducerArray

    @property
    def idle(self) -> ProducerArray:
        """The producers without an open transaction, which may expire."""
        return self.producers[(self.producers["current_txn_first_offset"] < 0) & (self.producers["last_timestamp"] > 0)]


def snapshot_expiry(partition: Partition, as_of_ms: int) -> SnapshotExpiry | None:
    """Return what the snapshots of a partition show of the expiry of producers, None if there are not two of them.

    Args:
        partition: its files; only the snapshots are read.
        as_of_ms: time of evaluation; no snapshot was taken later, whatever the time of its file.
    """
    if len(partition.snapshots) < 2:  # two are compared
        return None
    read = (_snapshot(offset, file, as_of_ms) for offset, file in sorted(partition.snapshots.items()))
    snapshots = [snapshot for snapshot in read if snapshot is not None]
    start = max(partition.checkpoint(LOG_START) or 0, partition.first_offset)
    idle = tuple((one.taken_ms, int((one.taken_ms - one.idle["last_timestamp"]).max(initial=0))) for one in snapshots)
    newest = max((int(one.producers["last_timestamp"].max(initial=0)) for one in snapshots), default=0)
    return SnapshotExpiry(tuple(_expired(snapshots, start)), idle, newest)


def _snapshot(offset: int, file: FoundFile, as_of_ms: int) -> _Snapshot | None:
    stored = snapshot_records(file.path)
    if stored is None:
        return None
    newest = int(stored["last_timestamp"].max(initial=0))
    taken = newest if file.mtime_ms is None else min(file.mtime_ms, as_of_ms)
    return _Snapshot(offset, file.path, taken, latest_entries(stored))


def _expired(snapshots: list[_Snapshot], log_start: int) -> Iterator[Expired]:
    """Yield what is missing in a snapshot and was in the one before, and has no cause but expiry."""
    for number, (before, after) in enumerate(pairwise(snapshots)):
        known = before.idle
        # Deleting the start of a log made brokers up to 2.3 forget producers.
        known = known[known["last_offset"] >= log_start]
        missing = known[~np.isin(known["producer_id"], after.producers["producer_id"])]
        if len(missing):
            retained = known[_are_unchanged(known, after.producers)]
            missing = missing[~_have_older(missing, retained)]
        for later in snapshots[number + 2 :]:
            missing = missing[~_are_unchanged(missing, later.producers)] if len(missing) else missing
        if len(missing):
            last = missing[missing["last_timestamp"].argmax()]
            idle_ms = after.taken_ms - int(last["last_timestamp"])
            yield Expired(idle_ms, after.taken_ms, int(last["producer_id"]), len(missing), after.path)


def _are_unchanged(producers: ProducerArray, later: ProducerArray) -> BoolArray:
    """Return which producers a later snapshot has, with the same newest batch."""
    if not len(later):
        return np.zeros(len(producers), bool)
    ranks = np.minimum(later["producer_id"].searchsorted(producers["producer_id"]), len(later) - 1)
    same: BoolArray = np.ones(len(producers), bool)
    for name in ("producer_id", "last_offset", "last_timestamp"):
        same &= later[name][ranks] == producers[name]
    return same


def _have_older(missing: ProducerArray, retained: ProducerArray) -> BoolArray:
    """Return which producers wrote later than one that is still known, so that they have not expired."""
    times, offsets = missing["last_timestamp"][:, None], missing["last_offset"][:, None]
    is_older = (retained["last_timestamp"] < times) & (retained["last_offset"] < offsets)
    have_older: BoolArray = np.any(is_older, axis=1)
    return have_older
