"""The reference for histories of transaction coordinators: ``__transaction_state`` read record by record.

It defines the correct result. ``history_replay`` must return an equal history and equal rows, on intact and on damaged
logs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import (
    ALWAYS,
    NEVER,
    NONE,
    RecordHeader,
    StateRecord,
    state_record,
)
from kforensics.forensics.coordinators.record_issues import IssueRecorder, StateIssue, StateIssueKind
from kforensics.forensics.coordinators.record_rows import partition_list
from kforensics.forensics.coordinators.transactions.history import (
    PRODUCER_ID_USE,
    TRANSACTIONAL_ID,
    History,
    LackingSpan,
)
from kforensics.forensics.coordinators.transactions.history_replay import first_reliable_offset
from kforensics.forensics.coordinators.transactions.transitions import StateStep
from kforensics.forensics.core.cluster_tables import COORDINATOR_TRANSACTIONS
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.result_rows import RowChunks, Rows
from kforensics.forensics.partition.lost_end import missing_end
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.replica_ranks import ReplicaRank
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.batches import walk
from kforensics.parsers.log.log_rows import read_records
from tests.reference.coordinator_transactions import LASTING, IdTrack, TransactionRows
from tests.reference.state_transitions import step_between

__all__ = ["history_by_record", "state_records"]


class EvaluatedRecord(NamedTuple):
    """A record and how it follows the previous one of its id.

    Attributes:
        record: the record.
        step: how it follows.
        last_producer_epoch: producer epoch of the previous record; -1 if there is none or it has another producer id.
    """

    record: StateRecord
    step: StateStep
    last_producer_epoch: int


def state_records(partition: Partition) -> Iterator[StateRecord]:
    """Yield the records of a coordinator's partition, in the order of its log.

    Control batches and batches with a wrong checksum are left out: a broker does not read them either.
    """
    for number, segment in enumerate(partition.segments):
        with open_source(segment.path) as source:
            for batch in walk(source):
                if isinstance(batch, Batch) and batch.crc_valid and not batch.is_control:
                    yield from _of_batch(source, number, batch)


def _of_batch(source: Source, segment: int, batch: Batch) -> Iterator[StateRecord]:
    epoch = NONE if batch.partition_leader_epoch is None else batch.partition_leader_epoch
    for record in read_records(source, batch):
        if isinstance(record, Record):
            header = RecordHeader(segment, batch.position, record.offset, record.timestamp, epoch)
            yield state_record(header, record.key, record.value)


def history_by_record(state: PartitionState, keep: Callable[[Rows], None] | None = None) -> History:
    """Return the history of a coordinator's partition.

    Args:
        state: the state of the partition.
        keep: called with rows of ``coordinator_transactions``, in the order of the log.
    """
    begin = first_reliable_offset(state)
    reading = _Reading(begin, is_complete=state.is_complete and begin == 0)
    paths = [segment.path for segment in state.partition.segments]
    rows = RowChunks(COORDINATOR_TRANSACTIONS, state.partition.place, keep or (lambda _rows: None))
    for record in _read_once(state_records(state.partition), state.log_end_offset):
        rows.add(_row(reading.take(record), paths))
    rows.finish()
    return reading.history(state)


def _read_once(records: Iterator[StateRecord], log_end_offset: int) -> Iterator[StateRecord]:
    """Yield the records that no earlier segment has reached, as a broker that goes on after the last offset read.

    A segment has reached its last record, of those that are not beyond the log end.
    """
    reached: dict[int, int] = {}
    for record in records:
        before = [offset for segment, offset in reached.items() if segment < record.segment]
        if record.offset < log_end_offset:
            reached[record.segment] = record.offset
        if all(record.offset > offset for offset in before):
            yield record


def _row(evaluated: EvaluatedRecord, paths: list[str]) -> tuple[Any, ...]:
    record = evaluated.record
    state, partitions = record.state, record.partitions
    return (
        *(paths[record.segment], record.position, record.offset),
        *(_null(record.timestamp), _null(record.leader_epoch), record.transactional_id),
        *(None if state is None else str(state), record.is_tombstone, record.version),
        *_producer(record, evaluated.last_producer_epoch),
        partition_list(partitions),
        None if partitions is None else len(partitions),
        *(_null(record.last_update_ms), _null(record.start_ms), str(evaluated.step), record.error),
    )


def _producer(record: StateRecord, last_epoch: int) -> tuple[int | None, ...]:
    if record.status is None:
        return (None,) * 8
    return (
        *(record.producer_id, record.producer_epoch, _null(last_epoch)),
        *(_null(record.previous_producer_id), _null(record.next_producer_id), _null(record.next_producer_epoch)),
        *(record.transaction_version, record.timeout_ms),
    )


def _null(number: int) -> int | None:
    return None if number == NONE else number


class _Reading:
    """Takes the records of a coordinator's partition in the order of its log."""

    def __init__(self, first_reliable_offset: int, *, is_complete: bool) -> None:
        self._first_reliable_offset, self._is_complete = first_reliable_offset, is_complete
        self._tracks: dict[str, IdTrack] = {}
        self._transactions = TransactionRows()
        self._issues = IssueRecorder[StateIssueKind, StateIssue]()
        self._producer_ids: dict[tuple[int, int], StateRecord] = {}
        self._coverage_start = ALWAYS if is_complete else NEVER
        self._last_record_time, self._records = NO_TIME, 0
        self._taken: list[StateRecord] = []

    def take(self, record: StateRecord) -> EvaluatedRecord:
        """Take the next record; return it with how it follows the previous one."""
        self._records += 1
        self._taken.append(record)
        self._last_record_time = max(self._last_record_time, record.time)
        is_reliable = record.offset >= self._first_reliable_offset
        if self._coverage_start == NEVER and is_reliable and record.time != NO_TIME:
            self._coverage_start = record.time
        if record.transactional_id is None:
            self._add(StateIssueKind.UNPARSABLE, record, None, StateStep.UNKNOWN)
            return EvaluatedRecord(record, StateStep.UNKNOWN, NONE)
        return self._of_id(self._track(record.transactional_id, record), record)

    def _add(self, kind: StateIssueKind, record: StateRecord, before: StateRecord | None, step: StateStep) -> None:
        if self._issues.count(kind):
            self._issues.kept.append(StateIssue(kind, record, before, step))

    def _track(self, name: str, record: StateRecord) -> IdTrack:
        track = self._tracks.get(name)
        if track is None:
            track = self._tracks[name] = IdTrack(len(self._tracks), record, history_complete=self._is_complete)
        return track

    def _of_id(self, track: IdTrack, record: StateRecord) -> EvaluatedRecord:
        before, step = track.last, self._step(track, record)
        if track.follow(record, self._transactions, applied=step is not StateStep.UNAPPLIED):
            self._add(StateIssueKind.FENCING_LOOP, record, before, step)
        if record.state in LASTING:
            for producer_id in (record.producer_id, record.previous_producer_id, record.next_producer_id):
                if producer_id >= 0:
                    self._producer_ids.setdefault((producer_id, track.number), record)
        same = before is not None and before.producer_id == record.producer_id
        return EvaluatedRecord(record, step, before.producer_epoch if before is not None and same else NONE)

    def _step(self, track: IdTrack, record: StateRecord) -> StateStep:
        """Return how a record follows the previous one, and record its issues."""
        before = track.last
        if record.error is not None:
            self._add(StateIssueKind.UNPARSABLE, record, before, StateStep.UNKNOWN)
            return StateStep.UNKNOWN
        if not record.is_tombstone and record.state not in LASTING:
            self._add(StateIssueKind.TRANSIENT_STATE, record, before, StateStep.UNKNOWN)
            return StateStep.UNKNOWN
        backwards = _backwards(track, record)
        if backwards is not None:
            self._add(backwards, record, before, StateStep.ILLEGAL)
            return StateStep.ILLEGAL
        if not self._none_missing(before, record):
            return StateStep.UNKNOWN
        step = step_between(before, record)
        if step is StateStep.ILLEGAL:
            step = self._illegal(track, record)
            self._add(StateIssueKind.ILLEGAL_TRANSITION, record, before, step)
        return step

    def _illegal(self, track: IdTrack, record: StateRecord) -> StateStep:
        """Return UNAPPLIED if an illegal step would be legal had the records before it never been applied."""
        known = track.before is not None and self._none_missing(track.before, record)
        follows = known and step_between(track.before, record) not in (StateStep.ILLEGAL, StateStep.UNKNOWN)
        return StateStep.UNAPPLIED if follows else StateStep.ILLEGAL

    def _none_missing(self, before: StateRecord | None, record: StateRecord) -> bool:
        """Return whether no record can be missing between two records of an id, or before its first one."""
        if before is None:
            return self._is_complete
        readable = before.is_tombstone or before.state in LASTING
        return readable and min(before.offset, record.offset) >= self._first_reliable_offset

    def history(self, state: PartitionState) -> History:
        """Return the history, after the last record."""
        tracks = self._tracks.values()
        for track in tracks:
            track.leave(self._transactions)
        ids = np.array([track.row(self._transactions.sets) for track in tracks], TRANSACTIONAL_ID)
        uses = [
            (producer_id, 0, number, record.segment, record.position, record.offset)
            for (producer_id, number), record in self._producer_ids.items()
        ]
        return History(
            place=state.partition.place,
            paths=tuple(segment.path for segment in state.partition.segments),
            names=tuple(self._tracks),
            ids=ids,
            transactions=self._transactions.rows(),
            partition_sets=tuple(self._transactions.sets),
            producer_ids=np.array(uses, PRODUCER_ID_USE),
            issues=tuple(self._issues.kept),
            issue_counts=self._issues.counts,
            coverage_start=self._coverage_start,
            last_record_time=self._last_record_time,
            records=self._records,
            is_stopped=state.partition.log_dir.clean_shutdown and missing_end(state) is None,
            topic_id=state.partition.topic_id,
            lacking=(*self._lacking(state), *_lost_or_damaged(state), *self._cut_off(state)),
            missing_end=missing_end(state),
            rank=ReplicaRank.of(state),
        )

    def _cut_off(self, state: PartitionState) -> Iterator[LackingSpan]:
        missing = missing_end(state)
        if missing is not None:
            yield LackingSpan(missing.end - 1, self._last_record_time, NEVER)

    def _lacking(self, state: PartitionState) -> Iterator[LackingSpan]:
        for before, after in zip(*state.log_gaps.merged, strict=True):
            earlier = [record for record in self._taken if record.offset <= before]
            later = [record for record in self._taken if record.offset >= after]
            if earlier and later:
                of_segment = (one for one in earlier if one.segment == earlier[-1].segment)
                ids = [one.transactional_id for one in of_segment if one.transactional_id is not None]
                if len(set(ids)) < len(ids):
                    yield LackingSpan(earlier[-1].offset, earlier[-1].time, later[0].time)


def _lost_or_damaged(state: PartitionState) -> Iterator[LackingSpan]:
    for ranges in (state.log_gaps.lost, state.log_gaps.damaged):
        yield from (LackingSpan(int(before), 0, NEVER) for before in ranges.before)


def _backwards(track: IdTrack, record: StateRecord) -> StateIssueKind | None:
    """Return whether an id goes back to an earlier epoch or producer id, which is wrong whatever is missing between."""
    before = track.last
    if record.is_tombstone or before is None:
        return None
    if before.state in LASTING and before.producer_id == record.producer_id:
        return StateIssueKind.EPOCH_REGRESSED if record.producer_epoch < before.producer_epoch else None
    return StateIssueKind.PID_REUSED if track.has_left(record.producer_id) else None
