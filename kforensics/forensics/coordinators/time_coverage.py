"""Which time the log of a partition covers: since when it existed, and until when it has all that was written.

The clocks of brokers and controllers show it: times of markers and files, log append times, and the elections in the
metadata log, which date leader epochs. Clients choose create times: those of records that MirrorMaker or Kafka Streams
write may be older than the topic.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, NONE
from kforensics.forensics.coordinators.refused_markers import may_have_refused
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.packed_rows import StructRows, pieces, search_column
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.rules import FIRST_KAFKA_MS
from kforensics.forensics.partition.compaction_evidence import compacted_elsewhere
from kforensics.forensics.partition.epoch_starts import EpochStarts, dated_epochs
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.lagging_replica import Lag, lag_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.rows import LOG_APPEND_TIME_BIT

__all__ = ["FirstEpoch", "TimeCoverage"]


class FirstEpoch(NamedTuple):
    """The leader epoch that the offset 0 of a log has.

    Attributes:
        epoch: the epoch.
        began: when it began, in ms.
        known_since: when the metadata shows the partition for the first time, in ms, which is earlier.
    """

    epoch: int
    began: int
    known_since: int


class TimeCoverage(NamedTuple):
    """Which time a log covers.

    Attributes:
        start: time from which every marker is available: ALWAYS, or NEVER if any may be missing.
        existed_by: when it existed at the latest, by the clock of a broker; NEVER if nothing shows it.
        is_whole: whether it begins with the first batch that was ever written to it.
        seen_until: newest time that is known of it: what was written before is in it, unless it is lost.
        first_led: the leader epoch that its offset 0 has, if the metadata dates it and knew the partition before; None
            otherwise.
        newest_marker: time of the last marker of any producer.
        copied_at: when it was copied, judging by its files; NEVER if the broker was stopped, or the time from which on
            the cluster went on without it.
        end: time from which on markers may have been written after the copy was taken; NEVER if none can.
        lag: why it may lack what its leader has.
    """

    start: int
    existed_by: int
    is_whole: bool
    seen_until: int
    first_led: FirstEpoch | None
    newest_marker: int
    copied_at: int
    end: int
    lag: Lag | None

    @classmethod
    def of(cls, state: PartitionState, markers: StructRows, starts: EpochStarts) -> TimeCoverage:
        """Return the coverage of a partition.

        Args:
            state: the partition, with the rules that follow from all settings.
            markers: its markers, in the order of the log.
            starts: its leader epochs with their start offsets.
        """
        newest = max((int(part["marker_timestamp"].max()) for part in pieces(markers)), default=NO_TIME)
        lag = lag_of(state, newest)
        copied_at = _copied_at(state, lag)
        seen_until = max(newest, _seen_until(state, starts))
        is_broken = state.is_broken or state.log.has_damaged_batches
        return cls(
            start=NEVER if is_broken else _start(state, markers),
            existed_by=_existed_by(state, markers, newest, led=bool(starts)),
            is_whole=state.is_complete and state.first_complete_offset == 0 and not _was_cleaned_elsewhere(state),
            seen_until=seen_until,
            first_led=_first_led(state, starts),
            newest_marker=newest,
            copied_at=copied_at,
            end=_end(state, (newest, seen_until), copied_at, lag),
            lag=lag,
        )

    def tolerating(self, further_ms: int) -> TimeCoverage:
        """Return the same, if the clocks of brokers may differ by more than was assumed when the log was read."""
        is_end_certain, is_start_certain = self.end in (NEVER, NO_TIME), self.existed_by == NEVER
        return self._replace(
            end=self.end - (0 if is_end_certain else further_ms),
            existed_by=self.existed_by + (0 if is_start_certain else further_ms),
        )

    @property
    def lagging_since(self) -> int | None:
        """Since when this replica may lack what its leader has, in ms, NO_TIME if it may always have.

        None if it was in sync at last, or nothing is known.
        """
        return None if self.lag is None else self.lag.since

    @property
    def left_by_shutdown(self) -> bool:
        """Whether it lags because its broker was shut down, so that it has all that was there before."""
        return self.lag is not None and self.lag.left_by_shutdown

    @property
    def first_time(self) -> int:
        """Time before which what was complete may have no marker here, ALWAYS if earlier batches may be missing.

        The topic is younger, or was deleted and created again, and coordinators list it by name.
        """
        return self.existed_by if self.is_whole else ALWAYS

    def lost_since(self, time: int) -> str | None:
        """Return what shows that the log of a time, in ms, is lost as a whole, as a clause; None if nothing does.

        The partition had that log, and has one that a later leader began at offset 0.
        """
        first = self.first_led
        if first is None or not self.is_whole or not max(self.existed_by, first.known_since) <= time < first.began:
            return None
        began = f"leader epoch {first.epoch} of {format_time(first.began)}"
        return f"its log begins at offset 0 with {began}, earlier records are gone"


def _start(state: PartitionState, markers: StructRows) -> int:
    """Return the time from which every marker is available.

    That is the time of the first marker from which on no record can be missing. An offset gap that no cleaner made does
    not count: its markers are lost in this copy. In a log fetched from a leader that had compacted it, they may be
    missing anywhere. While a topic has message format 0 or 1, brokers append no markers: :mod:`.refused_markers`.
    """
    if may_have_refused(state.log) or _was_cleaned_elsewhere(state):
        return NEVER
    if state.is_complete and state.first_complete_offset == 0:
        return ALWAYS
    (first,) = search_column(markers, "marker_offset", np.array([state.first_complete_offset])).tolist()
    return int(markers[first]["marker_timestamp"]) if first < len(markers) else NEVER


def _was_cleaned_elsewhere(state: PartitionState) -> bool:
    """Return whether the log was fetched from a leader that had compacted it, and lacks batches or records for that."""
    if not state.is_known_uncleaned or not state.log.batches:
        return False
    # Nothing else leaves a segment that begins after its base offset.
    lacks_first = int(state.log.first.base_offset[0]) > state.partition.first_offset
    lacks_others = state.log.offset_gaps > 0 or state.log.cleaned_to >= 0
    began = int(state.log.first.max_timestamp[0])
    return lacks_first or (lacks_others and compacted_elsewhere(state, state.log.cleaned_to, began) is not None)


def _existed_by(state: PartitionState, markers: StructRows, newest_marker: int, *, led: bool) -> int:
    """Return when a log existed at the latest, NEVER if nothing shows it.

    An empty log may have been created at any time, unless its broker led the partition. A broker writes
    ``partition.metadata`` when it creates the log, so create times before that are no evidence. They are where a copy
    has not kept the times of files.
    """
    log, dated, skew = state.log, dated_epochs(state), state.rules.clock_skew_ms
    known = [dated.known_since + skew] if dated else []
    if not log.batches:
        return min(known, default=NEVER) if led else NEVER
    times = [*known, *markers[:1]["marker_timestamp"].tolist()]
    created, counts = state.partition.created_ms or NO_TIME, log.first.max_timestamp >= 0
    if created >= FIRST_KAFKA_MS and kept_until(state, newest_marker) != NO_TIME:
        times.append(created + skew)
        counts &= (log.first.magic >= 1) & (log.first.attributes & LOG_APPEND_TIME_BIT != 0)
    return min([*times, *log.first.max_timestamp[counts].tolist()], default=NEVER)


def _seen_until(state: PartitionState, starts: EpochStarts) -> int:
    """Return the newest time that batches and leader epochs show of a log, NO_TIME if they show none.

    The checkpoint of leader epochs may have been copied after the log: an epoch beyond its end shows nothing.
    """
    dated, end = dated_epochs(state), state.log_end_offset
    elected = dated.newest(epoch for epoch, start in starts if start <= end) if dated else None
    appended = state.log.newest_timestamp if state.log.has_append_times else NO_TIME
    return max(appended, NO_TIME if elected is None else elected)


def _first_led(state: PartitionState, starts: EpochStarts) -> FirstEpoch | None:
    dated, (epoch, start) = dated_epochs(state), next(iter(starts), (NONE, NONE))
    began = dated.elected.get(epoch) if dated and start == 0 else None
    if dated is None or began is None or began <= dated.known_since:
        return None
    return FirstEpoch(epoch, began, dated.known_since)


def _copied_at(state: PartitionState, lag: Lag | None) -> int:
    """Return when the copy was taken, or when the cluster went on without it; NEVER if nothing followed."""
    if lag is not None and lag.left_by_shutdown:
        return lag.since
    if state.partition.log_dir.clean_shutdown and lag is None:
        return NEVER
    modified, as_of_ms = state.partition.newest_mtime_ms, state.rules.as_of_ms
    return as_of_ms if modified is None else min(modified, as_of_ms)


def _end(state: PartitionState, times: tuple[int, int], copied_at: int, lag: Lag | None) -> int:
    """Return the time from which markers may have been written after the copy was taken, NEVER if none can.

    Running brokers are copied one after the other. A later marker, append time or election, or files younger by more
    than the longest transaction, prove that the copy is not too early; the latter not of a replica that lags, whose
    files are younger than what it has fetched.
    """
    rules, (newest_marker, seen_until) = state.rules, times
    if copied_at == NEVER:
        return NEVER
    if lag is not None and lag.left_by_shutdown:  # all replicas in sync had the markers of what was decided before
        return copied_at - rules.clock_skew_ms
    if lag is not None:
        return max(seen_until - rules.clock_skew_ms, NO_TIME)
    # Files without their times show nothing but the markers, unless the user says when they were copied.
    is_kept = kept_until(state, newest_marker) != NO_TIME or not rules.is_assumed
    return max(seen_until - rules.clock_skew_ms, copied_at - rules.max_txn_timeout_ms if is_kept else NO_TIME)
