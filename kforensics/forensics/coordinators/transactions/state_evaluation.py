"""How records of transactional ids follow those before them, of many at once, and what is wrong with them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE, StateRecord
from kforensics.forensics.coordinators.transactions.record_issues import Remark, Remarks, Said
from kforensics.forensics.coordinators.transactions.state_columns import (
    NO_ID,
    NO_STATUS,
    STATE,
    PartitionLists,
    StateColumns,
)
from kforensics.forensics.coordinators.transactions.state_runs import NOWHERE, IdRows
from kforensics.forensics.coordinators.transactions.state_steps import Fields, are_lasting, steps_between
from kforensics.forensics.coordinators.transactions.track_states import TrackStates
from kforensics.forensics.coordinators.transactions.transitions import Step
from kforensics.forensics.core.record_types import Records

__all__ = ["Judged", "RecordValues", "judge", "tell"]


class Judged:
    """What is to be said of records by their ids.

    Attributes:
        steps: of each row, as numbers of ``Step``.
        said: what there is to say, with the rows of each; of a row the first comes first.
    """

    def __init__(self, count: int) -> None:
        self.steps = np.full(count, Step.UNKNOWN)
        self.said: list[tuple[Said, Records]] = []

    def say(self, said: Said, holds: Records) -> None:
        """Take some rows, by a mask or by their indexes."""
        self.said.append((said, np.flatnonzero(holds) if holds.dtype == bool else holds))


def judge(found: IdRows, left: Records, lists: PartitionLists, strict_from: int, *, is_whole: bool) -> Judged:
    """Return how records follow those before them; rule for rule what the reading record by record does.

    Args:
        found: the records.
        left: rows in which an id comes back to a producer id that it had left.
        lists: what the numbers of their lists mean.
        strict_from: offset from which no record can be missing.
        is_whole: whether nothing can be missing at all.
    """
    rows, before, judged = found.fields, found.before, Judged(len(found.rows))
    wrong = found.is_new & rows["is_wrong"]
    judged.say(Said.UNPARSABLE, wrong)
    transient = found.is_new & ~wrong & ~rows["is_tombstone"] & ~are_lasting(rows)
    judged.say(Said.TRANSIENT_STATE, transient)
    same = found.has_before & are_lasting(before) & (before["producer_id"] == rows["producer_id"])
    falls = found.is_new & are_lasting(rows) & same & (rows["producer_epoch"] < before["producer_epoch"])
    judged.say(Said.EPOCH_REGRESSED, falls)
    judged.say(Said.PID_REUSED, left)
    backwards = falls.copy()
    backwards[left] = True
    judged.steps[backwards] = Step.ILLEGAL
    which = np.flatnonzero(found.is_new & ~wrong & ~transient & ~backwards & _are_judged(found, strict_from, is_whole))
    judged.steps[which] = steps_between(before.taken(which), rows.taken(which), found.has_before[which], lists)
    illegal = which[judged.steps[which] == Step.ILLEGAL]
    judged.steps[illegal[_are_unapplied(found, illegal, lists, strict_from)]] = Step.UNAPPLIED
    judged.say(Said.ILLEGAL_TRANSITION, illegal)
    return judged


def _are_judged(found: IdRows, strict_from: int, is_whole: bool) -> Records:
    """Return whether nothing can have stood between records of an id, or before its first one."""
    return np.where(found.has_before, _are_sure(found.before, found.fields, strict_from), is_whole)


def _are_sure(before: Fields, rows: Fields, strict_from: int) -> Records:
    legible = before["is_tombstone"] | are_lasting(before)
    found: Records = legible & (np.minimum(before["offset"], rows["offset"]) >= strict_from)
    return found


def _are_unapplied(found: IdRows, which: Records, lists: PartitionLists, strict_from: int) -> Records:
    """Return whether rows would be right had those before them not been acknowledged in time, nor been applied."""
    has_both = found.has_before[which] & found.has_before[which - 1]
    rows, before = found.fields.taken(which), found.fields.taken(np.maximum(which - 2, 0))
    sure = has_both & _are_sure(before, rows, strict_from)
    found_steps = steps_between(before, rows, np.ones(len(which), "?"), lists)
    unapplied: Records = sure & (found_steps != Step.ILLEGAL)
    return unapplied


def tell(judged: Judged, values: RecordValues, remarks: Remarks) -> None:
    """Remark on records, in the order of the log; of those that are too many to be kept no values are made."""
    turns: list[tuple[int, int, Said, int]] = []
    nameless = np.flatnonzero(values.states.rows["id"] == NO_ID)
    for stage, (said, which) in enumerate([*judged.said, (Said.UNPARSABLE, np.full(len(nameless), NOWHERE))]):
        at = nameless if stage == len(judged.said) else values.with_id[values.found.order[which]]
        turns += [(number, stage, said, row) for number, row in zip(at.tolist(), which.tolist(), strict=True)]
    for number, _, said, row in sorted(turns):
        if remarks.count(said):
            step = Step.UNKNOWN if row == NOWHERE else Step(int(judged.steps[row]))
            remarks.kept.append(Remark(said, values.record(number), values.before(row), step))


@dataclass(frozen=True, slots=True)
class RecordValues:
    """Makes values of records.

    Attributes:
        states: a chunk.
        found: its records by their ids.
        with_id: which records of the chunk these are.
        tracks: remembers the last records before the chunk.
    """

    states: StateColumns
    found: IdRows
    with_id: Records
    tracks: TrackStates

    def record(self, number: int) -> StateRecord:
        """Return a record of the chunk."""
        states, code = self.states, int(self.states.codes[number])
        name = None if code == NONE else states.names[code]
        return _record(states.rows[number], name, states.errors.get(number), states.lists)

    def before(self, row: int) -> StateRecord | None:
        """Return the record before one of those by their ids, None if there is none."""
        found = self.found
        if row == NOWHERE or not found.has_before[row]:
            return None
        if found.is_new[row - 1]:
            return self.record(int(self.with_id[found.order[row - 1]]))
        name = self.states.names[int(self.states.codes[self.with_id[found.order[row]]])]
        stored = found.rows[row - 1]
        return _record(stored, name, self.tracks.error(int(stored["id"])), self.states.lists)


def _record(stored: Records, name: str | None, error: str | None, lists: PartitionLists) -> StateRecord:
    fields = dict(zip(STATE.names or (), stored.item(), strict=True))
    for other in ("id", "is_wrong", "time"):
        del fields[other]
    if fields["status"] == NO_STATUS:
        fields["status"] = fields["version"] = None
    partitions = lists.at(fields.pop("partitions"))
    return StateRecord(**fields, transactional_id=name, error=error, partitions=partitions)
