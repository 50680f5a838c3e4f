"""What a data partition has to say of transactions that span several: its markers, and what is still open."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, TopicPartition
from kforensics.forensics.coordinators.transactions.history import ALWAYS, NEVER
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.partition.blocking_transactions import signs_of_hanging, silence_of
from kforensics.forensics.partition.partition_state import Case, who_else_cleaned
from kforensics.parsers.log.log_rows import Place

__all__ = ["MARK", "OPEN", "Markers"]

# A marker, and the data that it ended.
MARK = np.dtype(
    [
        ("partition", "i4"),  # number of the partition, which whoever joins them gives
        ("producer_id", "i8"),
        ("marker_offset", "i8"),
        ("marker_epoch", "i2"),
        ("coordinator_epoch", "i4"),
        ("ending", "i1"),
        ("marker_timestamp", "i8"),
        ("first_offset", "i8"),  # of the data; -1 if it ended none, as are the next three
        ("last_offset", "i8"),
        ("lowest_epoch", "i2"),
        ("data_epoch", "i2"),  # the highest one
        ("first_timestamp", "i8"),  # NO_TIME if it ended none
        ("segment", "i4"),
        ("position", "i8"),
    ]
)
SAME = ("producer_id", "marker_offset", "marker_epoch", "coordinator_epoch", "ending", "marker_timestamp")
# A transaction without a marker.
OPEN = np.dtype(
    [
        ("producer_id", "i8"),
        ("producer_epoch", "i2"),
        ("lowest_epoch", "i2"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("first_timestamp", "i8"),
        ("silence", "i8"),  # time since its last batch
        ("behind_marker", "i8"),  # offset of the last marker of its producer before it; -1 if there is none
        ("coordinator_epoch", "i4"),  # of that marker
        ("segment", "i4"),
        ("position", "i8"),
    ]
)
COVERED = ("producer_id", "producer_epoch", "lowest_epoch", "first_offset", "last_offset", "first_timestamp")


@dataclass(frozen=True, slots=True)
class Markers:
    """The ends of transactions in one partition, as far as its log on hand tells.

    Attributes:
        place: which partition.
        paths: of its segments.
        marks: MARK records, in the order of the log.
        still_open: OPEN records, by first offset.
        known_from: time from which every marker is on hand: ALWAYS, NEVER where any may be missing.
        known_to: time of the last marker, of anybody.
        whole_to: what is complete elsewhere since that time may have come here after the copy was taken; NEVER where
            the broker had been stopped.
        taken: when it was copied, as far as its files tell; NEVER where the broker had been stopped.
        log_start_offset: its log start offset.
        log_end_offset: its log end offset.
        has_append_times: whether all its timestamps are those of the append.
        holes: places in its log at which offsets are missing.
        is_broken: whether batches in its log cannot be read, which may be markers.
    """

    place: Place
    paths: tuple[str, ...]
    marks: Records
    still_open: Records
    known_from: int = ALWAYS
    known_to: int = NO_TIME
    whole_to: int = NEVER
    taken: int = NEVER
    log_start_offset: int = 0
    log_end_offset: int = 0
    has_append_times: bool = False
    holes: int = 0
    is_broken: bool = False

    @classmethod
    def of(cls, case: Case) -> Markers:
        """Return what a partition has to say."""
        marks = _marks(case)
        times = marks["marker_timestamp"]
        return cls(
            place=case.partition.place,
            paths=tuple(segment.path for segment in case.partition.segments),
            marks=marks,
            still_open=_still_open(case),
            known_from=_known_from(case, marks),
            known_to=int(times.max()) if len(times) else NO_TIME,
            whole_to=_whole_to(case, marks),
            taken=_taken(case),
            log_start_offset=case.log_start_offset,
            log_end_offset=case.log_end_offset,
            has_append_times=case.log.timestamp_types == 2,
            holes=case.log.holes,
            is_broken=case.is_broken,
        )

    @property
    def last_stable_offset(self) -> int:
        """The most it can be, once all of the log is replicated."""
        holder = self.still_open["first_offset"][:1].tolist()
        return max(self.log_start_offset, holder[0]) if holder else self.log_end_offset

    @property
    def name(self) -> TopicPartition:
        """Topic and partition."""
        return self.place.topic or "", NONE if self.place.partition is None else self.place.partition

    def begins_with(self, producer_ids: Records, epochs: Records) -> Records:
        """Return with which producer ids and epochs data of a transaction begins; none where the log is broken."""
        if self.is_broken:
            return np.zeros(len(epochs), bool)
        ended = self.marks[self.marks["first_offset"] != NONE]
        data = np.concatenate([_epochs(one["producer_id"], one["lowest_epoch"]) for one in (ended, self.still_open)])
        data, wanted = np.sort(data), _epochs(producer_ids, epochs)
        begins: Records = np.searchsorted(data, wanted, "right") > np.searchsorted(data, wanted)
        return begins

    def path(self, segment: int) -> str | None:
        """Return the path of a segment by its number; None for -1."""
        return self.paths[segment] if segment >= 0 else None


def _epochs(producer_ids: Records, epochs: Records) -> Records:
    """Return a number for each epoch of each producer; producer ids are counted from 0."""
    found: Records = producer_ids.astype("i8") << 16 | epochs.astype("i8") & 0xFFFF
    return found


def _marks(case: Case) -> Records:
    """Return all markers; the ledger gives those that ended something range by range."""
    found = joined_records([*map(_of_transactions, case.ledger.closed), _empty(case.empty_markers)])
    return picked(found, np.argsort(found["marker_offset"], kind="stable"))


def _of_transactions(closed: Records) -> Records:
    found = _same(closed)
    for name in ("first_offset", "last_offset", "lowest_epoch", "first_timestamp"):
        found[name] = closed[name]
    found["data_epoch"] = closed["highest_epoch"]
    for name in ("segment", "position"):
        found[name] = closed[f"marker_{name}"]
    return found


def _empty(markers: Records) -> Records:
    found = _same(markers)
    for name in ("first_offset", "last_offset", "lowest_epoch", "data_epoch"):
        found[name] = NONE
    found["first_timestamp"] = NO_TIME
    for name in ("segment", "position"):
        found[name] = markers[name]
    return found


def _same(records: Records) -> Records:
    found = np.empty(len(records), MARK)
    found["partition"] = NONE
    for name in SAME:
        found[name] = records[name]
    return found


def _known_from(case: Case, marks: Records) -> int:
    """Markers tell the time: any that is younger than the first one that nothing can be missing behind is there.

    Holes that no cleaner made do not hide a marker: it is gone from this copy. Those of a log that was fetched from a
    leader after cleaning may be anywhere.
    """
    if case.is_broken or (case.is_known_uncleaned and case.log.holes and who_else_cleaned(case)):
        return NEVER
    if case.is_complete and case.strict_from == 0:
        return ALWAYS
    behind = marks["marker_timestamp"][marks["marker_offset"] >= case.strict_from]
    return int(behind[0]) if len(behind) else NEVER


def _taken(case: Case) -> int:
    """Return when the copy was taken: a running broker had gone on, one that had been stopped had not."""
    if case.partition.log_dir.clean_shutdown:
        return NEVER
    newest, as_of_ms = case.partition.newest_mtime_ms, case.rules.as_of_ms
    return as_of_ms if newest is None else min(newest, as_of_ms)


def _whole_to(case: Case, marks: Records) -> int:
    """Return since when what is complete elsewhere may have come after the copy was taken, NEVER if nothing came.

    Brokers are copied one after the other, while they run. A marker of later, or files that are younger by more than a
    transaction may last, prove that the copy is not too early.
    """
    rules, taken = case.rules, _taken(case)
    newest = int(marks["marker_timestamp"].max(initial=NO_TIME))
    return NEVER if taken == NEVER else max(newest - rules.clock_skew_ms, taken - rules.max_txn_timeout_ms)


def _still_open(case: Case) -> Records:
    found = case.open_transactions
    still_open = np.empty(len(found), OPEN)
    for name in (*COVERED, "segment", "position"):
        still_open[name] = found[name]
    still_open["silence"] = silence_of(case, found)[0]
    signs = signs_of_hanging(case, found)
    still_open["behind_marker"] = signs["marker_offset"]
    still_open["coordinator_epoch"] = signs["coordinator_epoch"]
    return still_open
