"""How the records of a chunk follow the previous records of their ids, and which issues they have."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import StateRecord
from kforensics.forensics.coordinators.record_issues import IssueRecorder, StateIssue, StateIssueKind
from kforensics.forensics.coordinators.transactions.id_tracks import IdTracks
from kforensics.forensics.coordinators.transactions.state_columns import (
    NO_ID,
    NO_STATUS,
    STATE_ROW,
    PartitionLists,
    StateColumns,
    StateRowArray,
)
from kforensics.forensics.coordinators.transactions.transaction_runs import IdRows
from kforensics.forensics.coordinators.transactions.transitions import (
    StateFields,
    StateStep,
    are_lasting,
    steps_between,
)
from kforensics.parsers.format.array_types import BoolArray, IntArray

# The row of a record without an id.
NO_ROW = -1


class StepEvaluation:
    """The steps and issues of records sorted by id.

    Attributes:
        steps: the step of each row, as numbers of ``StateStep``.
        applied: of each row, the newest row before it that may have been applied.
        issues: kinds of issues with the rows that have them. A row with several issues reports them in this order.
    """

    def __init__(self, count: int) -> None:
        self.steps = np.full(count, StateStep.UNKNOWN)
        self.applied = np.arange(count) - 1
        self.issues: list[tuple[StateIssueKind, IntArray]] = []

    def add(self, kind: StateIssueKind, rows: BoolArray | IntArray) -> None:
        """Add an issue of some rows, given as a mask or as indexes."""
        self.issues.append((kind, np.flatnonzero(rows) if rows.dtype == bool else rows))


def evaluate_steps(
    records: IdRows, reused: IntArray, lists: PartitionLists, first_reliable_offset: int, *, is_complete: bool
) -> StepEvaluation:
    """Return how records follow the previous ones of their ids.

    Args:
        records: the records.
        reused: rows in which an id returns to a producer id that it had given up.
        lists: the lists of partitions, by number.
        first_reliable_offset: offset from which no record is missing.
        is_complete: whether no record is missing at all.
    """
    rows, before, evaluation = records.fields, records.before, StepEvaluation(len(records.rows))
    unparsable = records.is_new & rows["is_wrong"]
    evaluation.add(StateIssueKind.UNPARSABLE, unparsable)
    transient = records.is_new & ~unparsable & ~rows["is_tombstone"] & ~are_lasting(rows)
    evaluation.add(StateIssueKind.TRANSIENT_STATE, transient)
    same_producer_id = records.has_before & are_lasting(before) & (before["producer_id"] == rows["producer_id"])
    falls = rows["producer_epoch"] < before["producer_epoch"]
    regressed = records.is_new & are_lasting(rows) & same_producer_id & falls
    evaluation.add(StateIssueKind.EPOCH_REGRESSED, regressed)
    evaluation.add(StateIssueKind.PID_REUSED, reused)
    # Going back is illegal, however many records are missing between the two.
    backwards = regressed.copy()
    backwards[reused] = True
    evaluation.steps[backwards] = StateStep.ILLEGAL
    consecutive = _are_consecutive(records, first_reliable_offset, is_complete)
    regular = np.flatnonzero(records.is_new & ~unparsable & ~transient & ~backwards & consecutive)
    evaluation.steps[regular] = steps_between(
        before.select(regular), rows.select(regular), records.has_before[regular], lists
    )
    illegal = regular[evaluation.steps[regular] == StateStep.ILLEGAL]
    _find_unapplied(records, illegal, lists, first_reliable_offset, evaluation)
    evaluation.add(StateIssueKind.ILLEGAL_TRANSITION, illegal)
    return evaluation


def _are_consecutive(records: IdRows, first_reliable_offset: int, is_complete: bool) -> BoolArray:
    """Return whether no record can be missing before each record of an id."""
    has_all = _none_missing(records.before, records.fields, first_reliable_offset)
    return np.where(records.has_before, has_all, is_complete)


def _none_missing(before: StateFields, rows: StateFields, first_reliable_offset: int) -> BoolArray:
    """Return whether the earlier record of each pair is readable and no record can be missing between the two."""
    readable = before["is_tombstone"] | are_lasting(before)
    none_missing: BoolArray = readable & (np.minimum(before["offset"], rows["offset"]) >= first_reliable_offset)
    return none_missing


def _find_unapplied(
    records: IdRows, illegal: IntArray, lists: PartitionLists, first_reliable_offset: int, evaluation: StepEvaluation
) -> None:
    """Find illegal steps that would be legal if the records before them had never been applied.

    An append that was not acknowledged in time is in the log, but the coordinator did not apply it. The producer asks
    again, so several such records may follow one another.
    """
    follows = np.diff(illegal, prepend=NO_ROW - 1) == 1
    rows, applied, is_legal = np.flatnonzero(~follows), evaluation.applied, np.zeros(len(illegal), "?")
    while len(rows):
        here = illegal[rows]
        rows_before = np.where(records.has_before[here] & records.has_before[here - 1], applied[here - 1], NO_ROW)
        known = rows_before != NO_ROW
        before, after = records.fields.select(rows_before[known]), records.fields.select(here[known])
        steps = steps_between(before, after, np.ones(int(known.sum()), "?"), lists)
        legal = _none_missing(before, after, first_reliable_offset) & (steps != StateStep.ILLEGAL)
        is_legal[rows[known]] = legal
        applied[here[known][legal]] = rows_before[known][legal]
        rows = rows[rows + 1 < len(illegal)] + 1
        rows = rows[follows[rows]]
    evaluation.steps[illegal[is_legal]] = StateStep.UNAPPLIED


def record_issues(
    evaluation: StepEvaluation, chunk: ChunkLookup, recorder: IssueRecorder[StateIssueKind, StateIssue]
) -> None:
    """Record the issues of a chunk, in the order of the log. Those beyond the limit are only counted."""
    issues: list[tuple[int, int, StateIssueKind, int]] = []
    nameless = np.flatnonzero(chunk.states.rows["id"] == NO_ID)
    for rank, (kind, rows) in enumerate(evaluation.issues):
        indexes = chunk.with_id[chunk.records.order[rows]]
        issues += [(index, rank, kind, row) for index, row in zip(indexes.tolist(), rows.tolist(), strict=True)]
    issues += [(index, len(evaluation.issues), StateIssueKind.UNPARSABLE, NO_ROW) for index in nameless.tolist()]
    for index, _, kind, row in sorted(issues):
        if recorder.count(kind):
            step = StateStep.UNKNOWN if row == NO_ROW else StateStep(int(evaluation.steps[row]))
            recorder.kept.append(StateIssue(kind, chunk.record(index), chunk.before(row), step))


@dataclass(frozen=True, slots=True)
class ChunkLookup:
    """Gives the records of a chunk, and the ones before them, as Python values.

    Attributes:
        states: the chunk.
        records: its records, sorted by id.
        with_id: indexes in the chunk of the records with an id.
        tracks: remembers the last records before the chunk.
    """

    states: StateColumns
    records: IdRows
    with_id: IntArray
    tracks: IdTracks

    def record(self, index: int) -> StateRecord:
        """Return a record by its index in the chunk."""
        states, name = self.states, self.states.name(index)
        return _record(states.rows[index], name, states.errors.get(index), states.lists)

    def before(self, row: int) -> StateRecord | None:
        """Return the record before one of the records sorted by id, None if there is none."""
        records = self.records
        if row == NO_ROW or not records.has_before[row]:
            return None
        if records.is_new[row - 1]:
            return self.record(int(self.with_id[records.order[row - 1]]))
        name = self.states.name(int(self.with_id[records.order[row]]))
        stored = records.rows[row - 1]
        return _record(stored, name, self.tracks.error(int(stored["id"])), self.states.lists)


def _record(stored: StateRowArray, name: str | None, error: str | None, lists: PartitionLists) -> StateRecord:
    fields = dict(zip(STATE_ROW.names or (), stored.item(), strict=True))
    for column in ("id", "is_wrong", "time"):
        del fields[column]
    if fields["status"] == NO_STATUS:
        fields["status"] = fields["version"] = None
    partitions = lists.at(fields.pop("partitions"))
    return StateRecord(**fields, transactional_id=name, error=error, partitions=partitions)
