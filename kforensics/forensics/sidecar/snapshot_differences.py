"""Where a ``.snapshot`` and the replay of the log up to it do not agree, and which of that has an innocent reason.

The cleaner takes batches and markers away that a snapshot still remembers. A broker that loads a log begins at the log
start offset, so that it forgets what was below it. A producer without an open transaction expires.

Rule: ``ProducerStateManager`` (``readSnapshot``, ``removeExpiredProducers``), ``Cleaner`` and ``LogLoader``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kforensics.forensics.core.record_types import PRODUCER, Records
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import have_marker_since, markers_before
from kforensics.forensics.replay.replay_types import BoundaryKind
from kforensics.forensics.sidecar.aborted_entries import first_on_disk

__all__ = ["PAIR", "STATE", "Differences", "Link", "cleaned_below", "differences", "paired_producers"]

NOTHING = -1
STATE = ("producer_epoch", "last_sequence", "last_offset", "offset_delta")
COLUMNS = (*STATE, "last_timestamp", "coordinator_epoch", "current_txn_first_offset")
# What a replica says of a producer it does not know.
UNKNOWN = dict.fromkeys(COLUMNS, NOTHING) | {"offset_delta": 0}

PAIR = np.dtype(
    [
        ("producer_id", "i8"),
        ("is_stored", "?"),
        ("is_expected", "?"),
        *((f"{side}_{name}", PRODUCER[name]) for side in ("stored", "expected") for name in COLUMNS),
    ]
)


def paired_producers(stored: Records, expected: Records) -> Records:
    """Return PAIR records of all producers of two states, by producer id.

    Args:
        stored: PRODUCER records, no producer twice, by producer id.
        expected: likewise.
    """
    # np.union1d would hash a million ids that are sorted already.
    ids = np.sort(np.concatenate([stored["producer_id"], expected["producer_id"]]), kind="stable")
    ids = ids[np.append(True, ids[1:] != ids[:-1])[: len(ids)]]
    pairs = np.zeros(len(ids), PAIR)
    pairs["producer_id"] = ids
    for side, producers in (("stored", stored), ("expected", expected)):
        at = ids.searchsorted(producers["producer_id"])
        pairs[f"is_{side}"][at] = True
        for name in COLUMNS:
            column = pairs[f"{side}_{name}"]
            column[:] = UNKNOWN[name]
            column[at] = producers[name]
    return pairs


def _differ(pairs: Records, names: tuple[str, ...]) -> Any:
    """Return in which pairs any of some columns differs."""
    differ = np.zeros(len(pairs), bool)
    for name in names:
        differ |= pairs[f"stored_{name}"] != pairs[f"expected_{name}"]
    return differ


@dataclass(frozen=True, slots=True, eq=False)
class Link:
    """A snapshot that agreed with the log: the next one has to go on from it.

    Attributes:
        offset: of the snapshot.
        stored: PRODUCER records in it.
        replayed: those of the replay at that offset.
    """

    offset: int
    stored: Records
    replayed: Records


@dataclass(frozen=True, slots=True, eq=False)
class Differences:
    """What has no innocent reason, as PAIR records.

    Where nobody knows what stood before the log on hand, only open transactions are compared.

    Attributes:
        open_transaction: another open transaction.
        state: another epoch, sequence, offset or offset delta.
        minor: another timestamp or coordinator epoch.
        missing: not in the snapshot.
        extra: in the snapshot only.
    """

    open_transaction: Records
    state: Records
    minor: Records
    missing: Records
    extra: Records

    def __bool__(self) -> bool:
        return any(map(len, (self.open_transaction, self.state, self.minor, self.missing, self.extra)))


def cleaned_below(case: Case) -> int:
    """Return the offset below which the replay lacks what the cleaner has taken, 0 if it lacks nothing.

    Args:
        case: the partition.
    """
    first = first_on_disk(case)
    begin = max(first, case.boundary.offset)
    return max(case.strict_from if case.strict_from > begin else 0, first if first > case.boundary.offset else 0)


def differences(case: Case, offset: int, stored: Records, now_ms: int, link: Link | None = None) -> Differences:
    """Return where a snapshot differs from the replay.

    Args:
        case: the partition; it has the replay up to the snapshot.
        offset: of the snapshot.
        stored: PRODUCER records in it, no producer twice, by producer id.
        now_ms: when it was taken, for the expiry of producers.
        link: an earlier one that agreed.
    """
    replayed = case.producers_at[offset]
    pairs = paired_producers(stored, replayed)
    pairs = pairs[_differ(pairs, COLUMNS) | (pairs["is_stored"] != pairs["is_expected"])]
    if not len(pairs):
        return Differences(pairs, pairs, pairs, pairs, pairs)
    below = cleaned_below(case)
    judge = _Judge(case, offset, pairs, below, np.full(len(pairs), below > 0))
    judge = replace(judge, may_be_cleaned=judge.may_be_cleaned & ~_breaks(link, judge, stored, replayed))
    return judge.differences(now_ms)


def _breaks(link: Link | None, judge: _Judge, stored: Records, replayed: Records) -> Any:
    """Return which producers changed from one snapshot to the next, though nothing on disk tells of a reason.

    Behind what was cleaned all reasons are on disk.
    """
    ids = judge.pairs["producer_id"]
    if link is None or not len(ids) or not 0 < judge.cleaned_below <= link.offset:
        return np.zeros(len(ids), bool)
    events = paired_producers(replayed, link.replayed)
    quiet = events[~(_differ(events, COLUMNS) | (events["is_stored"] != events["is_expected"]))]["producer_id"]
    heard = events["producer_id"]
    steps = paired_producers(stored, link.stored)
    changed = steps[steps["is_stored"] & (_differ(steps, COLUMNS) | ~steps["is_expected"])]["producer_id"]
    return np.isin(ids, changed) & (np.isin(ids, quiet) | ~np.isin(ids, heard))


@dataclass(frozen=True, slots=True, eq=False)
class _Judge:
    """Looks for innocent reasons.

    Attributes:
        case: the partition.
        offset: of the snapshot.
        pairs: PAIR records.
        cleaned_below: from there on the log is as it was written.
        may_be_cleaned: which producers the cleaner may excuse.
    """

    case: Case
    offset: int
    pairs: Records
    cleaned_below: int
    may_be_cleaned: Any

    def differences(self, now_ms: int) -> Differences:
        pairs, both = self.pairs, self.pairs["is_stored"] & self.pairs["is_expected"]
        no_transaction = (pairs["stored_current_txn_first_offset"] < 0) & (
            pairs["expected_current_txn_first_offset"] < 0
        )
        opens = _differ(pairs, ("current_txn_first_offset",))
        state = both & _differ(pairs, STATE)
        minor = both & ~opens & ~state & _differ(pairs, ("last_timestamp", "coordinator_epoch"))
        missing, extra = (no_transaction & ~pairs[f"is_{side}"] for side in ("stored", "expected"))
        if self._lacks_prefix:
            none = pairs[:0]
            return Differences(pairs[opens & ~self._transaction_excused()], none, none, none, none)
        return Differences(
            pairs[opens & ~self._transaction_excused()],
            pairs[state & ~self._state_excused()],
            pairs[minor & ~(self._timestamp_excused() & self._coordinator_excused())],
            pairs[missing & ~self._missing_excused(now_ms)],
            pairs[extra & ~self._extra_excused()],
        )

    def _transaction_excused(self) -> Any:
        stored, expected = (self.pairs[f"{side}_current_txn_first_offset"] for side in ("stored", "expected"))
        larger = np.where(expected < 0, self.cleaned_below, expected)
        # Data of a transaction that is still open is never cleaned.
        has_ended = self._is_ended() | (self.offset < self.case.strict_from)
        cleaned = (stored >= 0) & (stored < np.minimum(larger, self.cleaned_below)) & has_ended & self.may_be_cleaned
        start = self.case.log_start_offset
        all_below = self.pairs["expected_last_offset"] < start
        forgotten = (expected >= 0) & (expected < start) & ((stored > expected) | ((stored < 0) & all_below))
        return cleaned | forgotten | self._precedes(stored, expected)

    @property
    def _lacks_prefix(self) -> bool:
        """Whether the replay up to the snapshot began with nothing known; from the first snapshot on it is known."""
        return self.case.boundary.kind is BoundaryKind.UNKNOWN or self.offset == self.case.boundary.offset

    def _precedes(self, stored: Any, expected: Any) -> Any:
        """Return which transactions may have begun before the log on hand; behind a marker a producer is known."""
        if not self._lacks_prefix:
            return False
        marked = self._last_markers()["marker_offset"] != NOTHING
        return ~marked & (stored >= 0) & (stored < first_on_disk(self.case)) & ((expected < 0) | (stored < expected))

    def _last_markers(self) -> Records:
        """Return the last marker of each producer below the snapshot."""
        ends = np.full(len(self.pairs), self.offset)
        return markers_before(self.case, self.pairs["producer_id"], ends)

    def _is_ended(self) -> Any:
        """Return which producers have a marker behind the snapshot."""
        return have_marker_since(self.case, self.pairs["producer_id"], self.offset)

    def _state_excused(self) -> Any:
        pairs = self.pairs
        epoch, known_epoch = pairs["stored_producer_epoch"], pairs["expected_producer_epoch"]
        last, known_last = pairs["stored_last_offset"], pairs["expected_last_offset"]
        ahead = (epoch > known_epoch) | ((epoch == known_epoch) & (last > known_last))
        cleaned = ahead & (last < self.cleaned_below) & (known_last < self.cleaned_below) & self.may_be_cleaned
        # A broker that began to load behind the data has seen no more than a marker of the same epoch.
        forgotten = (epoch == known_epoch) & (last < 0) & (known_last >= 0) & (known_last < self.case.log_start_offset)
        return cleaned | forgotten | self._counts_marker()

    def _counts_marker(self) -> Any:
        """Return which producers differ in nothing but that 0.11 took a marker for a batch of one record.

        Rule: ``ProducerAppendInfo.appendEndTxnMarker`` of 0.11, which sets ``lastOffset`` and clears ``offsetDelta``.
        """
        pairs, marker = self.pairs, self._last_markers()["marker_offset"]
        same = ~_differ(pairs, ("producer_epoch", "last_sequence"))
        return (
            same & (marker != NOTHING) & (pairs["stored_last_offset"] == marker) & (pairs["stored_offset_delta"] == 0)
        )

    def _timestamp_excused(self) -> Any:
        pairs = self.pairs
        stored, expected = pairs["stored_last_timestamp"], pairs["expected_last_timestamp"]
        lowered = (stored > expected) & (pairs["expected_last_offset"] < self.cleaned_below) & self.may_be_cleaned
        return (stored == expected) | lowered | self._is_of_data(stored)

    def _is_of_data(self, stored: Any) -> Any:
        """Return which timestamps are those of the newest data in front of a marker.

        Rule: ``ProducerStateEntry.lastTimestamp`` of 1.0 to 2.3, which is that of its newest batch, -1 without one.
        """
        replayed = self.case.producers_at[self.offset]
        known = np.zeros(len(self.pairs), PRODUCER)
        is_known = self.pairs["is_expected"]
        known[is_known] = replayed[replayed["producer_id"].searchsorted(self.pairs["producer_id"][is_known])]
        newest = known["recent"]["timestamp"][np.arange(len(known)), np.maximum(known["recent_count"], 1) - 1]
        data = np.where(known["recent_count"] > 0, newest, NOTHING)
        marker = self._last_markers()
        return is_known & (marker["marker_timestamp"] == self.pairs["expected_last_timestamp"]) & (stored == data)

    def _coordinator_excused(self) -> Any:
        pairs = self.pairs
        stored, expected = pairs["stored_coordinator_epoch"], pairs["expected_coordinator_epoch"]
        cleaned = (stored > expected) & self.may_be_cleaned
        return (stored == expected) | cleaned | ((stored == NOTHING) & self._began_anew())

    def _began_anew(self) -> Any:
        """Return which producers may have expired between their last marker and their last batch."""
        since = self.pairs["expected_last_timestamp"] - self._last_markers()["marker_timestamp"]
        return since >= self.case.rules.pid_expiry_ms

    def _missing_excused(self, now_ms: int) -> Any:
        expired = now_ms - self.pairs["expected_last_timestamp"] >= self.case.rules.pid_expiry_ms
        start = self.case.log_start_offset
        # Of a producer with nothing but markers nobody can say where they are. Up to 2.3 a broker also forgot whoever
        # had all data below the log start offset as soon as that moved (ProducerStateManager.truncateHead).
        last = self.pairs["expected_last_offset"]
        forgotten = (last < start) & ((start > self.case.partition.first_offset) | (last >= 0))
        return expired | forgotten

    def _extra_excused(self) -> Any:
        return (self.pairs["stored_last_offset"] < self.cleaned_below) & self.may_be_cleaned
