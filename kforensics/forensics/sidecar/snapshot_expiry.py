"""What the producer snapshots of a partition show of ``producer.id.expiration.ms``.

Rule: ``ProducerStateManager.removeExpiredProducers``. At intervals a broker forgets all producers without an open
transaction that have been idle for that time. So a producer that one snapshot has and the next one lacks bounds the
setting from above, unless a later snapshot has it again as it was, or one that has been idle for longer is still there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.producer_states import ProducerStates
from kforensics.forensics.partition.partition_files import LOG_START, Partition
from kforensics.forensics.partition.snapshot_records import (
    FAR_FUTURE,
    SnapshotEntries,
    are_idle,
    latest_entries,
    snapshot_entries,
)
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.format.array_types import BoolArray, StructArray

__all__ = ["Expired", "SnapshotExpiry", "TakenSnapshot", "expired_before", "snapshot_expiry"]

# The newest batch or marker of a producer; entries of snapshots would take twice the memory.
LAST_EVENT = np.dtype([("producer_id", "i8"), ("last_offset", "i8"), ("last_timestamp", "i8"), ("is_idle", "?")])
LAST_EVENT_FIELDS = ("producer_id", "last_offset", "last_timestamp")


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
        entries: its entries.
        taken_ms: when it was taken.
        idle_ms: how long a producer without an open transaction had then been idle, at most.
        newest_ms: the newest timestamp in it.
    """

    entries: SnapshotEntries
    taken_ms: int
    idle_ms: int
    newest_ms: int

    def producers(self) -> StructArray:
        """Return LAST_EVENT records of its producers, one per producer, sorted by id."""
        rows, end = np.empty(len(self.entries), LAST_EVENT), 0
        for block in self.entries.blocks():
            latest = latest_entries(block)
            start, end = end, end + len(latest)
            for name in LAST_EVENT_FIELDS:
                rows[name][start:end] = latest[name]
            rows["is_idle"][start:end] = are_idle(latest)
        return rows[:end]


def snapshot_expiry(partition: Partition, as_of_ms: int) -> SnapshotExpiry | None:
    """Return what the snapshots of a partition show of the expiry of producers, None if there are not two of them.

    Args:
        partition: its files; only the snapshots are read.
        as_of_ms: time of evaluation; no snapshot was taken later, whatever the time of its file.
    """
    if len(partition.snapshots) < 2:  # two are compared
        return None
    try:
        read = (_snapshot(file, as_of_ms) for _, file in sorted(partition.snapshots.items()))
        snapshots = [snapshot for snapshot in read if snapshot is not None]
        start = max(partition.checkpoint(LOG_START) or 0, partition.first_offset)
        idle = tuple((snapshot.taken_ms, snapshot.idle_ms) for snapshot in snapshots)
        newest = max((snapshot.newest_ms for snapshot in snapshots), default=0)
        return SnapshotExpiry(tuple(_expired(snapshots, start)), idle, newest)
    except InputError:  # one that is gone shows nothing
        return None


class TakenSnapshot(NamedTuple):
    """A snapshot and what the log has before it.

    Attributes:
        offset: its offset.
        taken_ms: when it was taken.
        stored: its entries.
        replay: the producers of the log below its offset.
    """

    offset: int
    taken_ms: int
    stored: SnapshotEntries
    replay: ProducerStates


def expired_before(
    earlier: Sequence[TakenSnapshot], missing: Mapping[str, Any], taken_ms: int, expiry_ms: int
) -> TakenSnapshot | None:
    """Return an earlier snapshot from which a producer that a later one lacks had expired; None if there is none.

    A broker whose clock was ahead forgets producers too early. Once the clock is set back, it does not know them again
    until they write: it loads the snapshot that lacks them.

    Args:
        earlier: the snapshots before, in the order of their offsets.
        missing: the producer, as a PRODUCER_PAIR record.
        taken_ms: when the later snapshot was taken.
        expiry_ms: the time after which a producer may have expired.
    """
    if all(snapshot.taken_ms <= taken_ms for snapshot in earlier):  # no clock was set back
        return None
    producer_ids = np.array([missing["producer_id"]], "i8")
    for snapshot in reversed(earlier):
        known = snapshot.replay[np.isin(snapshot.replay["producer_id"], producer_ids)]
        events = [(row["last_offset"], row["last_timestamp"]) for row in known]
        is_same = events == [(missing["expected_last_offset"], missing["expected_last_timestamp"])]
        if not is_same or len(snapshot.stored.of(producer_ids)):
            return None
        if snapshot.taken_ms - missing["expected_last_timestamp"] >= expiry_ms:
            return snapshot
    return None


def _snapshot(file: FoundFile, as_of_ms: int) -> _Snapshot | None:
    entries = snapshot_entries(file.path)
    if entries is None:
        return None
    newest = max((int(part["last_timestamp"].max(initial=0)) for part in entries.chunks()), default=0)
    taken = newest if file.mtime_ms is None else min(file.mtime_ms, as_of_ms)
    return _Snapshot(entries, taken, max(0, taken - entries.oldest_idle_timestamp()), newest)


def _expired(snapshots: list[_Snapshot], log_start: int) -> Iterator[Expired]:
    """Yield what is missing in a snapshot and was in the one before, and has no cause but expiry."""
    loaded = (snapshot.producers() for snapshot in snapshots)
    for number, (before, after) in enumerate(pairwise(loaded)):
        # Deleting the start of a log made brokers up to 2.3 forget producers.
        is_known = before["is_idle"] & (before["last_offset"] >= log_start)
        missing = before[is_known & ~_are_in(before, after, ("producer_id",))]
        if len(missing):
            missing = missing[~_have_older(missing, before[is_known & _are_in(before, after)])]
        later = number + 2
        while len(missing) and later < len(snapshots):
            missing, later = missing[~_are_in(missing, snapshots[later].producers())], later + 1
        if len(missing):
            last, snapshot = missing[missing["last_timestamp"].argmax()], snapshots[number + 1]
            idle_ms = snapshot.taken_ms - int(last["last_timestamp"])
            yield Expired(idle_ms, snapshot.taken_ms, int(last["producer_id"]), len(missing), snapshot.entries.path)


def _are_in(producers: StructArray, later: StructArray, names: tuple[str, ...] = LAST_EVENT_FIELDS) -> BoolArray:
    """Return which producers a later snapshot has, by default with the same newest batch."""
    if not len(later):
        return np.zeros(len(producers), bool)
    ranks = np.minimum(later["producer_id"].searchsorted(producers["producer_id"]), len(later) - 1)
    same: BoolArray = np.ones(len(producers), bool)
    for name in names:
        same &= later[name][ranks] == producers[name]
    return same


def _have_older(missing: StructArray, retained: StructArray) -> BoolArray:
    """Return which producers wrote later than one that is still known, so that they have not expired."""
    order = np.argsort(retained["last_timestamp"], kind="stable")
    times = retained["last_timestamp"][order]
    # The lowest offset of those with the lowest times; none for no time.
    lowest = np.append(FAR_FUTURE, np.minimum.accumulate(retained["last_offset"][order]))
    have_older: BoolArray = lowest[times.searchsorted(missing["last_timestamp"])] < missing["last_offset"]
    return have_older
