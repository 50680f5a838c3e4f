"""Where a producer snapshot differs from the replay of the log up to it, without a benign cause.

The cleaner removes batches and markers that a snapshot still includes. A broker that loads a log begins at the log
start offset, so it forgets producers with nothing after it. A producer without an open transaction expires.

Rule: ``ProducerStateManager`` (``readSnapshot``, ``removeExpiredProducers``), ``Cleaner`` and ``LogLoader``.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.producer_states import ProducerEntryArray, ProducerStates
from kforensics.forensics.core.record_types import PRODUCER, ProducerArray
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import ProducerMarkerArray, have_marker_since, markers_before
from kforensics.forensics.partition.snapshot_records import SnapshotEntries
from kforensics.forensics.replay.boundary import BoundaryKind
from kforensics.forensics.sidecar.aborted_entries import first_available_offset
from kforensics.forensics.sidecar.file_times import lag_of_follower
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray

__all__ = [
    "PRODUCER_PAIR",
    "STATE_FIELDS",
    "AgreeingSnapshot",
    "ProducerPairArray",
    "SnapshotDifferences",
    "cleaned_below",
    "paired_producers",
    "snapshot_differences",
]

NOTHING = -1
NEVER = np.iinfo("i8").max
STATE_FIELDS = ("producer_epoch", "last_sequence", "last_offset", "offset_delta")
PRODUCER_FIELDS = (*STATE_FIELDS, "last_timestamp", "coordinator_epoch", "current_txn_first_offset")
# Values for a producer that a replica does not know.
UNKNOWN_PRODUCER = dict.fromkeys(PRODUCER_FIELDS, NOTHING) | {"offset_delta": 0}

PRODUCER_PAIR = np.dtype(
    [
        ("producer_id", "i8"),
        ("is_stored", "?"),
        ("is_expected", "?"),
        *((f"{side}_{name}", PRODUCER[name]) for side in ("stored", "expected") for name in PRODUCER_FIELDS),
        ("idle_before_marker", "i8"),  # ms before the last marker, if a snapshot knows only that; else NOTHING
    ]
)
ProducerPairArray: TypeAlias = StructArray


def paired_producers(stored: StructArray, expected: StructArray) -> ProducerPairArray:
    """Return PRODUCER_PAIR records of all producers of two states, sorted by producer id.

    Args:
        stored: PRODUCER or PRODUCER_ENTRY records, one per producer, sorted by producer id.
        expected: records in the same form.
    """
    # np.union1d would hash a million ids that are already sorted.
    ids = np.sort(np.concatenate([stored["producer_id"], expected["producer_id"]]), kind="stable")
    ids = ids[np.append(True, ids[1:] != ids[:-1])[: len(ids)]]
    pairs = np.zeros(len(ids), PRODUCER_PAIR)
    pairs["producer_id"], pairs["idle_before_marker"] = ids, NOTHING
    for side, producers in (("stored", stored), ("expected", expected)):
        rows = ids.searchsorted(producers["producer_id"])
        pairs[f"is_{side}"][rows] = True
        for name in PRODUCER_FIELDS:
            column = pairs[f"{side}_{name}"]
            column[:] = UNKNOWN_PRODUCER[name]
            column[rows] = producers[name]
    return pairs


def _differ(pairs: ProducerPairArray, names: tuple[str, ...]) -> Any:
    """Return the pairs in which any of some columns differs."""
    differ = np.zeros(len(pairs), bool)
    for name in names:
        differ |= pairs[f"stored_{name}"] != pairs[f"expected_{name}"]
    return differ


@dataclass(frozen=True, slots=True, eq=False)
class AgreeingSnapshot:
    """A snapshot that agreed with the log; changes in the next snapshot must follow from the log after it.

    Attributes:
        offset: offset of the snapshot.
        stored: its entries, one per producer.
        replayed: the producers of the replay at that offset.
    """

    offset: int
    stored: SnapshotEntries
    replayed: ProducerStates


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotDifferences:
    """The differences without a benign cause, as PRODUCER_PAIR records.

    If the log before the first available batch is unknown, only open transactions are compared.

    Attributes:
        open_transaction: another open transaction.
        state: another epoch, sequence, offset or offset delta.
        minor: another timestamp or coordinator epoch.
        missing: not in the snapshot.
        extra: only in the snapshot.
    """

    open_transaction: ProducerPairArray
    state: ProducerPairArray
    minor: ProducerPairArray
    missing: ProducerPairArray
    extra: ProducerPairArray

    def __bool__(self) -> bool:
        return any(map(len, (self.open_transaction, self.state, self.minor, self.missing, self.extra)))


def cleaned_below(state: PartitionState) -> int:
    """Return the offset below which the replay lacks what the cleaner has removed, 0 if it lacks nothing.

    Args:
        state: the partition.
    """
    first = first_available_offset(state)
    begin = max(first, state.boundary.offset)
    return max(
        # If it is the boundary, the replay starts without transactions that ended before the cleaner came.
        state.first_uncompacted_offset if state.first_uncompacted_offset >= begin else 0,
        first if first > state.boundary.offset else 0,
    )


def snapshot_differences(
    state: PartitionState,
    offset: int,
    block: tuple[ProducerEntryArray, ProducerArray],
    now_ms: int,
    link: AgreeingSnapshot | None = None,
) -> SnapshotDifferences:
    """Return where a snapshot differs from the replay, in a range of producer ids.

    Args:
        state: the partition, with the replay up to the snapshot.
        offset: offset of the snapshot.
        block: the entries of the snapshot, one per producer, and the producers of the replay, both by producer id.
        now_ms: when the snapshot was taken, for the expiry of producers.
        link: an earlier snapshot that agreed.
    """
    stored, replayed = block
    pairs = paired_producers(stored, replayed)
    pairs = pairs[_differ(pairs, PRODUCER_FIELDS) | (pairs["is_stored"] != pairs["is_expected"])]
    if not len(pairs):
        return SnapshotDifferences(pairs, pairs, pairs, pairs, pairs)
    below = cleaned_below(state)
    causes = _BenignCauses(state, offset, pairs, replayed, below, np.full(len(pairs), below > 0), stored)
    may_be_cleaned = causes.may_be_cleaned & ~_changed_without_events(link, causes, stored, replayed)
    return replace(causes, may_be_cleaned=may_be_cleaned).differences(now_ms)


def _changed_without_events(
    link: AgreeingSnapshot | None, causes: _BenignCauses, stored: ProducerEntryArray, replayed: ProducerArray
) -> BoolArray:
    """Return the producers that changed from one snapshot to the next without a cause in the log.

    After the compacted part of the log all causes are available.
    """
    ids = causes.pairs["producer_id"]
    if link is None or not len(ids) or not 0 < causes.cleaned_below <= link.offset:
        return np.zeros(len(ids), bool)
    stored, replayed = (rows[np.isin(rows["producer_id"], ids)] for rows in (stored, replayed))
    replays = paired_producers(replayed, link.replayed[np.isin(link.replayed["producer_id"], ids)])
    unchanged = ~(_differ(replays, PRODUCER_FIELDS) | (replays["is_stored"] != replays["is_expected"]))
    without_events, known = replays[unchanged]["producer_id"], replays["producer_id"]
    snapshots = paired_producers(stored, link.stored.of(ids))
    is_changed = snapshots["is_stored"] & (_differ(snapshots, PRODUCER_FIELDS) | ~snapshots["is_expected"])
    changed = snapshots[is_changed]["producer_id"]
    result: BoolArray = np.isin(ids, changed) & (np.isin(ids, without_events) | ~np.isin(ids, known))
    return result


@dataclass(frozen=True, slots=True, eq=False)
class _BenignCauses:
    """Tests the benign causes of differences; the methods return masks of the pairs.

    Attributes:
        state: the partition.
        offset: offset of the snapshot.
        pairs: PRODUCER_PAIR records.
        replayed: PRODUCER records that include those of the pairs.
        cleaned_below: offset from which the log is as it was written.
        may_be_cleaned: producers whose differences the cleaner may explain.
        stored: PRODUCER records in the snapshot.
    """

    state: PartitionState
    offset: int
    pairs: ProducerPairArray
    replayed: ProducerArray
    cleaned_below: int
    may_be_cleaned: Any
    stored: ProducerArray

    def differences(self, now_ms: int) -> SnapshotDifferences:
        """Return the differences that no benign cause explains."""
        pairs, both = self.pairs, self.pairs["is_stored"] & self.pairs["is_expected"]
        no_transaction = (pairs["stored_current_txn_first_offset"] < 0) & (
            pairs["expected_current_txn_first_offset"] < 0
        )
        opens = _differ(pairs, ("current_txn_first_offset",))
        state = both & _differ(pairs, STATE_FIELDS)
        minor = both & ~opens & ~state & _differ(pairs, ("last_timestamp", "coordinator_epoch"))
        missing, extra = (no_transaction & ~pairs[f"is_{side}"] for side in ("stored", "expected"))
        if self._lacks_start:
            none = pairs[:0]
            return SnapshotDifferences(pairs[opens & ~self._transaction_explained()], none, none, none, none)
        return SnapshotDifferences(
            pairs[opens & ~self._transaction_explained()],
            self._unexplained_states(state, now_ms),
            pairs[minor & ~(self._timestamp_explained() & self._coordinator_explained())],
            pairs[missing & ~self._missing_explained(now_ms)],
            pairs[extra & ~self._extra_explained()],
        )

    def _transaction_explained(self) -> Any:
        stored, expected = (self.pairs[f"{side}_current_txn_first_offset"] for side in ("stored", "expected"))
        larger = np.where(expected < 0, self.cleaned_below, expected)
        # Data of an open transaction is never cleaned.
        has_ended = self._is_ended() | (self.offset < self.state.first_uncompacted_offset)
        cleaned = (stored >= 0) & (stored < np.minimum(larger, self.cleaned_below)) & has_ended & self.may_be_cleaned
        start = self.state.local_log_start_offset
        all_below = self.pairs["expected_last_offset"] < start
        forgotten = (expected >= 0) & (expected < start) & ((stored > expected) | ((stored < 0) & all_below))
        # A cleaner stops at the last stable offset: a transaction before its end had ended, and its marker may be gone.
        before = self.pairs["expected_last_offset"] < self.state.boundary.offset
        ended = (stored < 0) & (expected >= 0) & (expected < self.cleaned_below) & before & self.may_be_cleaned
        return cleaned | forgotten | ended | self._began_before(stored, expected)

    @property
    def _lacks_start(self) -> bool:
        """Whether the replay up to the snapshot began with an unknown state; from the first snapshot on it is known."""
        return self.state.boundary.kind is BoundaryKind.UNKNOWN or self.offset == self.state.boundary.offset

    def _began_before(self, stored: Any, expected: Any) -> Any:
        """Return the transactions that may have begun before the available log; after a marker a producer is known."""
        if not self._lacks_start:
            return False
        has_marker = self._last_markers()["marker_offset"] != NOTHING
        is_before = (stored >= 0) & (stored < first_available_offset(self.state))
        return ~has_marker & is_before & ((expected < 0) | (stored < expected))

    def _last_markers(self) -> ProducerMarkerArray:
        """Return the last marker of each producer below the snapshot."""
        ends = np.full(len(self.pairs), self.offset)
        return markers_before(self.state, self.pairs["producer_id"], ends)

    def _is_ended(self) -> Any:
        """Return the producers that have a marker after the snapshot."""
        return have_marker_since(self.state, self.pairs["producer_id"], self.offset)

    def _unexplained_states(self, differs: Any, now_ms: int) -> ProducerPairArray:
        """Return the pairs with another state that nothing explains, and how long each was idle before its marker."""
        idle = self._idle_before_marker(now_ms)
        expired = idle >= self.state.rules.possible_pid_expiry_ms
        is_unexplained = differs & ~self._state_explained() & ~expired
        pairs: ProducerPairArray = self.pairs[is_unexplained]
        pairs["idle_before_marker"] = idle[is_unexplained]
        return pairs

    def _state_explained(self) -> Any:
        pairs = self.pairs
        epoch, known_epoch = pairs["stored_producer_epoch"], pairs["expected_producer_epoch"]
        last, known_last = pairs["stored_last_offset"], pairs["expected_last_offset"]
        ahead = (epoch > known_epoch) | ((epoch == known_epoch) & (last > known_last))
        cleaned = ahead & (last < self.cleaned_below) & (known_last < self.cleaned_below) & self.may_be_cleaned
        # A broker that began to load after the data has seen no more than a marker of the same epoch.
        forgotten = (
            (epoch == known_epoch) & (last < 0) & (known_last >= 0) & (known_last < self.state.local_log_start_offset)
        )
        return cleaned | forgotten | self._counts_marker()

    def _was_recovered(self, now_ms: int) -> bool:
        """Return whether a broker wrote the snapshot when it recovered the log, not when it rolled the segment.

        It is younger than the last write to the segment that begins there.
        """
        starting = (one for one in self.state.partition.segments if one.base_offset == self.offset)
        return any(one.mtime_ms is not None and one.mtime_ms < now_ms for one in starting)

    def _idle_before_marker(self, now_ms: int) -> IntArray:
        """Return how long each producer was idle before its last marker if the snapshot knows only that, else NOTHING.

        The broker had forgotten the producer by then. A coordinator sends a marker again if it was stopped before all
        brokers had confirmed it. A broker that loads a log loads the snapshot before without the producers that have
        expired by then. It reads the marker after that, or fetches it later than other replicas did, because it was
        stopped. Rule: ``ProducerStateManager.loadFromSnapshot``.
        """
        pairs, marker = self.pairs, self._last_markers()
        offsets, last = marker["marker_offset"], pairs["stored_last_offset"]
        only_marker = (pairs["stored_last_sequence"] == NOTHING) & (pairs["stored_offset_delta"] == 0)
        only_marker &= (offsets != NOTHING) & ((last == NOTHING) | (last == offsets))  # the latter in 0.11
        only_marker &= pairs["stored_producer_epoch"] == pairs["expected_producer_epoch"]
        earlier = markers_before(self.state, pairs["producer_id"], offsets)["marker_timestamp"]
        read = now_ms if self._was_recovered(now_ms) else NOTHING
        appended = marker["marker_timestamp"] + lag_of_follower(self.state, offsets)
        idle = np.maximum(appended, read) - np.maximum(earlier, self._data_timestamps())
        is_last = pairs["expected_last_offset"] < offsets
        known: IntArray = np.where(only_marker & is_last, idle, NOTHING)
        return known

    def _counts_marker(self) -> Any:
        """Return the producers that differ only because 0.11 treated a marker as a batch of one record.

        Rule: ``ProducerAppendInfo.appendEndTxnMarker`` of 0.11, which sets ``lastOffset`` and clears ``offsetDelta``.
        """
        pairs, marker = self.pairs, self._last_markers()["marker_offset"]
        same = ~_differ(pairs, ("producer_epoch", "last_sequence"))
        return (
            same & (marker != NOTHING) & (pairs["stored_last_offset"] == marker) & (pairs["stored_offset_delta"] == 0)
        )

    def _timestamp_explained(self) -> Any:
        pairs = self.pairs
        stored, expected = pairs["stored_last_timestamp"], pairs["expected_last_timestamp"]
        lowered = (stored > expected) & (pairs["expected_last_offset"] < self.cleaned_below) & self.may_be_cleaned
        return (stored == expected) | lowered | self._is_of_data(stored)

    def _is_of_data(self, stored: Any) -> Any:
        """Return the timestamps that are those of the newest data before a marker.

        Rule: ``ProducerStateEntry.lastTimestamp`` of 1.0 to 2.3, which is that of its newest batch, -1 without one.
        """
        is_marker = self._last_markers()["marker_timestamp"] == self.pairs["expected_last_timestamp"]
        return self.pairs["is_expected"] & is_marker & (stored == self._data_timestamps())

    def _data_timestamps(self) -> IntArray:
        """Return the timestamp of the newest data of each producer, NOTHING without any in its epoch."""
        replayed = self.replayed
        known = np.zeros(len(self.pairs), PRODUCER)
        is_known = self.pairs["is_expected"]
        known[is_known] = replayed[replayed["producer_id"].searchsorted(self.pairs["producer_id"][is_known])]
        newest = known["recent"]["timestamp"][np.arange(len(known)), np.maximum(known["recent_count"], 1) - 1]
        timestamps: IntArray = np.where(known["recent_count"] > 0, newest, NOTHING)
        return timestamps

    def _coordinator_explained(self) -> Any:
        pairs = self.pairs
        stored, expected = pairs["stored_coordinator_epoch"], pairs["expected_coordinator_epoch"]
        cleaned = (stored > expected) & self.may_be_cleaned
        return (stored == expected) | cleaned | ((stored == NOTHING) & self._expired_since_marker())

    def _expired_since_marker(self) -> Any:
        """Return the producers that may have expired between their last marker and their last batch."""
        elapsed = self.pairs["expected_last_timestamp"] - self._last_markers()["marker_timestamp"]
        return elapsed >= self.state.rules.possible_pid_expiry_ms

    def _missing_explained(self, now_ms: int) -> Any:
        rules, times = self.state.rules, self.pairs["expected_last_timestamp"]
        expired = now_ms - times >= rules.possible_pid_expiry_ms
        if rules.least_pid_expiry_ms is not None:
            # The files alone show the expiry, perhaps too long. It takes the producers that wrote least recently.
            idle = self.stored[(self.stored["current_txn_first_offset"] < 0) & (self.stored["last_timestamp"] > 0)]
            oldest = idle["last_timestamp"].min(initial=NEVER)
            expired |= (times < oldest) & (2 * (now_ms - times) >= rules.pid_expiry_ms)
        start, last = self.state.local_log_start_offset, self.pairs["expected_last_offset"]
        # The position of a producer that has only markers is unknown. Up to 2.3 a broker also forgot each producer
        # whose data was all below the log start offset as soon as that moved (ProducerStateManager.truncateHead).
        forgotten = (last < start) & ((start > self.state.partition.first_offset) | (last >= 0))
        return expired | forgotten | self._forgotten_by_old_releases()

    def _forgotten_by_old_releases(self) -> Any:
        """Return the producers that 1.0 to 2.3 may have forgotten; topics of these releases have no id.

        The time of a producer was that of its newest data, -1 without any in its epoch: then it expired at once. The
        log start offset may have moved since its checkpoint was written, once a minute.
        Rules: ``ProducerStateEntry.lastTimestamp``, ``ProducerStateManager.truncateHead``.
        """
        last, log_dir = self.pairs["expected_last_offset"], self.state.partition.log_dir
        if self.state.partition.topic_id is not None:
            return np.zeros(len(last), bool)
        known = self.stored["last_offset"][self.stored["last_offset"] >= 0]  # those of markers only show no offset
        below = known.min() if len(known) else NOTHING
        return (last == NOTHING) | ((last < below) & (not log_dir.clean_shutdown))

    def _extra_explained(self) -> Any:
        return (self.pairs["stored_last_offset"] < self.cleaned_below) & self.may_be_cleaned
