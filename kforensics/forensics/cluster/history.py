"""What the log of a coordinator's partition amounts to: its ids, their transactions, and what is wrong with records.

The log is read once, record by record. What is kept grows with the number of ids and of transactions, not with that of
records; histories of several partitions can be made anywhere, for an id lives in one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from kforensics.forensics.case import Case
from kforensics.forensics.cluster.coordinator_records import NONE, StateRecord, TopicPartition, state_records
from kforensics.forensics.cluster.instances import Instances
from kforensics.forensics.cluster.remarks import Remark, Remarks, Said
from kforensics.forensics.cluster.tracks import LASTING, TRANSACTIONAL_ID, Track
from kforensics.forensics.cluster.transitions import Step, step_between
from kforensics.forensics.replay.results import NO_TIME, Records
from kforensics.parsers.log_rows import Place

__all__ = ["ALWAYS", "NEVER", "USE", "History", "Keep", "Seen", "history_of"]

# Times before and behind all others.
ALWAYS, NEVER = NO_TIME, int(np.iinfo("i8").max)
# A producer id that a record of an id names, in whatever field, and the first record that does.
USE = np.dtype(
    [
        ("producer_id", "i8"),
        ("coordinator", "i4"),
        ("id", "i4"),
        ("segment", "i4"),
        ("position", "i8"),
        ("offset", "i8"),
    ]
)


class Seen(NamedTuple):
    """A record as a row of a history.

    Attributes:
        record: the record.
        step: how it follows the one of the same id before it.
        last_producer_epoch: producer epoch of that one, -1 if there is none or its producer id was another.
    """

    record: StateRecord
    step: Step
    last_producer_epoch: int


Keep: TypeAlias = Callable[[Seen], None]


@dataclass(frozen=True, slots=True)
class History:
    """The history of a coordinator's partition.

    Attributes:
        place: which partition.
        paths: of its segments.
        names: transactional ids, by their numbers.
        ids: TRANSACTIONAL_ID records, by their numbers.
        instances: INSTANCE records, in the order in which they were ended or left.
        sets: sets of partitions, by their numbers.
        uses: USE records.
        remarks: what is to be said of records, no more than MOST of a kind.
        counts: how many there are of each kind.
        known_from: time from which every record is on hand, ALWAYS if none is missing at all, NEVER if some always may.
        known_to: time of the last record, NO_TIME if there is none.
        records: how many records.
    """

    place: Place
    paths: tuple[str, ...]
    names: Sequence[str]
    ids: Records
    instances: Records
    sets: tuple[tuple[TopicPartition, ...], ...]
    uses: Records
    remarks: tuple[Remark, ...] = ()
    counts: Mapping[Said, int] = field(default_factory=dict)
    known_from: int = ALWAYS
    known_to: int = NO_TIME
    records: int = 0


def history_of(case: Case, keep: Keep | None = None) -> History:
    """Return the history of a coordinator's partition; its log is read once more, record by record.

    Args:
        case: the partition, examined as any other one is.
        keep: told of every record and how it follows the one before it, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
    """
    strict_from = NEVER if _has_gaps(case) else case.strict_from
    reading = _Reading(strict_from, is_whole=case.is_complete and strict_from == 0)
    for record in state_records(case.partition):
        seen = reading.take(record)
        if keep is not None:
            keep(seen)
    return reading.history(case)


def _has_gaps(case: Case) -> bool:
    """Return whether any record may be followed by one that is missing, or that cannot be read."""
    return case.is_broken or bool(case.log.damage) or (case.is_known_uncleaned and case.log.holes > 0)


class _Reading:
    """Takes the records of a coordinator's partition in the order of its log."""

    def __init__(self, strict_from: int, *, is_whole: bool) -> None:
        self._strict_from, self._is_whole = strict_from, is_whole
        self._tracks: dict[str, Track] = {}
        self._instances, self._remarks = Instances(), Remarks()
        self._uses: dict[tuple[int, int], StateRecord] = {}
        self._known_from = ALWAYS if is_whole else NEVER
        self._known_to, self._records = NO_TIME, 0

    def take(self, record: StateRecord) -> Seen:
        """Take the next record; returns it with how it follows the one before."""
        self._records += 1
        self._known_to = max(self._known_to, record.time)
        if self._known_from == NEVER and record.offset >= self._strict_from and record.time != NO_TIME:
            self._known_from = record.time
        if record.transactional_id is None:
            self._remarks.add(Said.UNPARSABLE, record, None, Step.UNKNOWN)
            return Seen(record, Step.UNKNOWN, NONE)
        return self._of_id(self._track(record.transactional_id, record), record)

    def _track(self, name: str, record: StateRecord) -> Track:
        found = self._tracks.get(name)
        if found is None:
            found = self._tracks[name] = Track(len(self._tracks), record, is_told=self._is_whole)
        return found

    def _of_id(self, track: Track, record: StateRecord) -> Seen:
        before, step = track.last, self._step(track, record)
        if track.follow(record, self._instances):
            self._remarks.add(Said.FENCING_LOOP, record, before, step)
        if record.state in LASTING:
            self._use(track.number, record)
        same = before is not None and before.producer_id == record.producer_id
        return Seen(record, step, before.producer_epoch if before is not None and same else NONE)

    def _use(self, number: int, record: StateRecord) -> None:
        for producer_id in (record.producer_id, record.previous_producer_id, record.next_producer_id):
            if producer_id >= 0:
                self._uses.setdefault((producer_id, number), record)

    def _step(self, track: Track, record: StateRecord) -> Step:
        """Return how a record follows, and remark on what is wrong with it."""
        before = track.last
        if record.error is not None:
            self._remarks.add(Said.UNPARSABLE, record, before, Step.UNKNOWN)
            return Step.UNKNOWN
        if not record.is_tombstone and record.state not in LASTING:
            self._remarks.add(Said.TRANSIENT_STATE, record, before, Step.UNKNOWN)
            return Step.UNKNOWN
        said = _backwards(track, record)
        if said is not None:
            self._remarks.add(said, record, before, Step.ILLEGAL)
            return Step.ILLEGAL
        if not self._is_judged(before, record):
            return Step.UNKNOWN
        step = step_between(before, record)
        if step is Step.ILLEGAL:
            step = self._illegal(track, record)
            self._remarks.add(Said.ILLEGAL_TRANSITION, record, before, step)
        return step

    def _illegal(self, track: Track, record: StateRecord) -> Step:
        """Return whether it would be right had the record before it not been acknowledged in time, nor been applied."""
        known = track.before is not None and self._is_judged(track.before, record)
        follows = known and step_between(track.before, record) not in (Step.ILLEGAL, Step.UNKNOWN)
        return Step.UNAPPLIED if follows else Step.ILLEGAL

    def _is_judged(self, before: StateRecord | None, record: StateRecord) -> bool:
        """Return whether nothing can have stood between two records of an id, or before its first one."""
        if before is None:
            return self._is_whole
        legible = before.is_tombstone or before.state in LASTING
        return legible and min(before.offset, record.offset) >= self._strict_from

    def history(self, case: Case) -> History:
        """Return the history, once every record was taken."""
        tracks = self._tracks.values()
        for track in tracks:
            track.leave(self._instances)
        ids = np.array([track.row(self._instances) for track in tracks], TRANSACTIONAL_ID)
        uses = [
            (producer_id, 0, number, record.segment, record.position, record.offset)
            for (producer_id, number), record in self._uses.items()
        ]
        return History(
            place=case.partition.place,
            paths=tuple(segment.path for segment in case.partition.segments),
            names=tuple(self._tracks),
            ids=ids,
            instances=self._instances.records(),
            sets=tuple(self._instances.sets),
            uses=np.array(uses, USE),
            remarks=tuple(self._remarks.kept),
            counts=self._remarks.counts,
            known_from=self._known_from,
            known_to=self._known_to,
            records=self._records,
        )


def _backwards(track: Track, record: StateRecord) -> Said | None:
    """Return whether an id goes back to an earlier epoch or producer id: wrong however much lies between."""
    before = track.last
    if record.is_tombstone or before is None:
        return None
    if before.state in LASTING and before.producer_id == record.producer_id:
        return Said.EPOCH_REGRESSED if record.producer_epoch < before.producer_epoch else None
    return Said.PID_REUSED if track.has_left(record.producer_id) else None
