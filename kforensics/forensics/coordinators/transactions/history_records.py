"""The reading of ``__transaction_state`` record by record: what small logs get, and what all others must equal."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, StateRecord, state_records
from kforensics.forensics.coordinators.transactions.history_types import ALWAYS, NEVER, USE, History, Seen, strict_from
from kforensics.forensics.coordinators.transactions.record_issues import Remarks, Said
from kforensics.forensics.coordinators.transactions.tracks import LASTING, TRANSACTIONAL_ID, Track
from kforensics.forensics.coordinators.transactions.transaction import Instances
from kforensics.forensics.coordinators.transactions.transitions import Step, step_between
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.partition_state import Case

__all__ = ["history_by_record"]


def history_by_record(case: Case, keep: Callable[[Seen], None] | None = None) -> History:
    """Return the history of a coordinator's partition.

    Args:
        case: the partition.
        keep: told of every record and how it follows the one before it, in the order of the log.

    Raises:
        InputError: a segment cannot be read.
    """
    begin = strict_from(case)
    reading = _Reading(begin, is_whole=case.is_complete and begin == 0)
    for record in state_records(case.partition):
        seen = reading.take(record)
        if keep is not None:
            keep(seen)
    return reading.history(case)


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
