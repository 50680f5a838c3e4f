"""Reads the history of a transaction coordinator's partition from its log, in columns, chunk by chunk.

What is kept between chunks grows with the number of ids and transactions, not with that of records.
``tests/reference/coordinator_history.py`` does the same record by record; both give equal histories.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import ALWAYS, NEVER, NONE, RecordPosition
from kforensics.forensics.coordinators.record_issues import IssueRecorder, StateIssue, StateIssueKind
from kforensics.forensics.coordinators.repeated_records import records_read_once
from kforensics.forensics.coordinators.transactions.history import (
    COORDINATOR_TRANSACTION,
    PRODUCER_ID_USE,
    UNKNOWN_SET,
    History,
    LackingSpan,
    PartitionSets,
)
from kforensics.forensics.coordinators.transactions.id_tracks import IdTracks, InitTimes
from kforensics.forensics.coordinators.transactions.state_columns import (
    NO_ID,
    PartitionLists,
    StateCache,
    StateColumns,
    StateRowArray,
    state_columns,
)
from kforensics.forensics.coordinators.transactions.state_evaluation import ChunkLookup, evaluate_steps, record_issues
from kforensics.forensics.coordinators.transactions.transaction_runs import IdRows, TransactionRuns, transactions_of
from kforensics.forensics.coordinators.transactions.transitions import StateStep, are_lasting
from kforensics.forensics.core.packed_rows import RowPacker
from kforensics.forensics.core.record_arrays import take_rows
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.partition.kept_times import kept_until
from kforensics.forensics.partition.lagging_replica import lagging_since
from kforensics.forensics.partition.lost_end import missing_end
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.replica_ranks import ReplicaRank
from kforensics.parsers.columns.record_columns import RECORD_CHUNK_ROWS
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for
from kforensics.parsers.messages.message_columns import texts_of

__all__ = ["StateTransitions", "first_reliable_offset", "history_of"]

PRODUCER_ID_FIELDS = ("producer_id", "previous_producer_id", "next_producer_id")


@dataclass(frozen=True, slots=True)
class StateTransitions:
    """The records of a chunk and how they follow the previous records of their ids.

    Attributes:
        states: the records, in the order of the log.
        steps: how each follows the previous record of its id, as numbers of ``StateStep``.
        last_producer_epochs: producer epoch of the previous record; -1 if there is none or it has another producer id.
    """

    states: StateColumns
    steps: IntArray
    last_producer_epochs: IntArray

    def __len__(self) -> int:
        return len(self.states)


def history_of(
    state: PartitionState,
    emit: Callable[[StateTransitions], None] | None = None,
    kernels: KernelPolicy = kernels_for,
    chunk_rows: int = RECORD_CHUNK_ROWS,
) -> History:
    """Return the history of a coordinator's partition; reads its log once more, without records that are repeated.

    Args:
        state: the state of the partition.
        emit: called with the records of each chunk, in the order of the log.
        kernels: chooses the compiled kernels if they pay off for so many bytes.
        chunk_rows: approximate number of records per chunk.

    Raises:
        InputError: a segment cannot be read.
    """
    reliable_from = first_reliable_offset(state)
    replay = _Replay(reliable_from, _MergedSegments(state), is_complete=state.is_complete and reliable_from == 0)
    for number, records in records_read_once(state.partition.segments, state.log_end_offset, kernels, chunk_rows):
        transitions = replay.take(state_columns(number, records, replay.cache))
        if emit is not None and len(transitions):
            emit(transitions)
    return replay.history(state)


def first_reliable_offset(state: PartitionState) -> int:
    """Return the offset from which no record is missing, NEVER if any may be missing or unreadable.

    What follows the last batch of a broker that was killed or at work had not become a batch yet, nor had the zeros of
    ``log.preallocate``. After a clean shutdown it was one.
    """
    damaged_end = state.partition.log_dir.clean_shutdown and any(
        damage.reason != "zero-tail" for _, damage in state.log.damage
    )
    is_damaged = state.is_broken or state.log.has_damaged_batches or damaged_end
    gaps = is_damaged or (state.is_known_uncleaned and state.log.offset_gaps > 0)
    return NEVER if gaps else state.first_complete_offset


class _MergedSegments:
    """Finds when the records were written that a copy likely lacks, because its cleaner merged segments meanwhile.

    Within what it has cleaned, each id has one record. A segment with several is as the broker wrote it, and so was all
    that followed.

    Attributes:
        spans: the spans between records so far.
    """

    def __init__(self, state: PartitionState) -> None:
        after = state.log_gaps.merged.after
        self.spans: list[LackingSpan] = []
        self._after = after.tolist()[::-1]  # the next one is the last
        self._segment, self._seen, self._is_as_written = NONE, set[int](), False
        self._offset = self._time = NONE

    def take(self, rows: StateRowArray) -> None:
        """Take the records of the next chunk, all of one segment."""
        if not self._after or not len(rows):
            return
        while self._after and rows["offset"][0] >= self._after[-1]:
            self._after.pop()
            if self._is_as_written:
                self.spans.append(LackingSpan(self._offset, self._time, int(rows["time"][0])))
        segment, ids = int(rows["segment"][0]), rows["id"][rows["id"] != NO_ID].tolist()
        if segment != self._segment:
            self._segment, self._seen, self._is_as_written = segment, set(), False
        count = len(self._seen) + len(ids)
        self._seen.update(ids)
        self._is_as_written |= len(self._seen) < count
        self._offset, self._time = int(rows["offset"][-1]), int(rows["time"][-1])


class _Replay:
    """Replays the chunks of a partition in the order of its log.

    Attributes:
        cache: numbers ids.
    """

    def __init__(self, first_reliable_offset: int, merged_segments: _MergedSegments, *, is_complete: bool) -> None:
        self._merged_segments = merged_segments
        self._first_reliable_offset, self._is_complete = first_reliable_offset, is_complete
        self.cache, self._tracks, self._init_times = StateCache(), IdTracks(), InitTimes()
        self._sets = PartitionSets()
        self._issues = IssueRecorder[StateIssueKind, StateIssue]()
        self._transactions = RowPacker(COORDINATOR_TRANSACTION)
        self._producer_ids: dict[tuple[int, int], RecordPosition] = {}
        self._coverage_start = ALWAYS if is_complete else NEVER
        self._last_record_time, self._records = NO_TIME, 0

    def take(self, states: StateColumns) -> StateTransitions:
        """Replay the next chunk; return its records with how they follow the previous ones."""
        rows = states.rows
        self._extend_coverage(rows)
        self._merged_segments.take(rows)
        with_id = np.flatnonzero(rows["id"] != NO_ID)
        self._tracks.reserve(len(self.cache))
        self._init_times.reserve(len(self.cache))
        records, carried = self._tracks.sort_by_id(take_rows(rows, with_id), states.lists)
        new = np.flatnonzero(records.is_new)
        indexes = with_id[records.order[new]]
        reused = self._reused_producer_ids(records)
        evaluation = evaluate_steps(
            records, reused, states.lists, self._first_reliable_offset, is_complete=self._is_complete
        )
        steps, last_epochs = np.full(len(rows), StateStep.UNKNOWN), np.full(len(rows), NONE)
        steps[indexes] = evaluation.steps[new]
        same_producer_id = records.has_before & (records.before["producer_id"] == records.fields["producer_id"])
        last_epochs[indexes] = np.where(same_producer_id, records.before["producer_epoch"], NONE)[new]
        evaluation.add(StateIssueKind.FENCING_LOOP, self._init_times.loops(records))
        record_issues(evaluation, ChunkLookup(states, records, with_id, self._tracks), self._issues)
        self._add_producer_ids(records)
        errors = {number: error for number, error in states.errors.items() if rows["id"][number] != NO_ID}
        runs = records.runs(carried)
        self._add_transactions(records, evaluation.applied, runs, states.lists, _renumbered(errors, with_id))
        return StateTransitions(states, steps, last_epochs)

    def _extend_coverage(self, rows: StateRowArray) -> None:
        """Update the times from which and up to which records are available."""
        self._records += len(rows)
        if len(rows):
            self._last_record_time = max(self._last_record_time, int(rows["time"].max()))
        if self._coverage_start == NEVER:
            reliable = np.flatnonzero((rows["offset"] >= self._first_reliable_offset) & (rows["time"] != NO_TIME))
            if len(reliable):
                self._coverage_start = int(rows["time"][reliable[0]])

    def _reused_producer_ids(self, records: IdRows) -> IntArray:
        """Remember the producer ids of each id; return the rows in which an id returns to one that it had given up."""
        rows, before = records.fields, records.before
        lasting = are_lasting(rows)
        unchanged = records.has_before & are_lasting(before) & (before["producer_id"] == rows["producer_id"])
        changes = np.flatnonzero(records.is_new & lasting & ~unchanged)
        # A transactional id that is removed gives up its producer id.
        removed = records.has_before & before["is_tombstone"]
        columns = (changes, rows["id"][changes], rows["producer_id"][changes], removed[changes])
        reused: list[int] = []
        for row, number, producer_id, was_removed in zip(*(column.tolist() for column in columns), strict=True):
            producers = self._tracks.producers[number]
            if producer_id in producers and (was_removed or producer_id != next(reversed(producers))):
                reused.append(row)
            producers.setdefault(producer_id)
        return np.array(reused, "i8")

    def _add_producer_ids(self, records: IdRows) -> None:
        """Remember the first record of each id that names a producer id."""
        rows, before = records.fields, records.before
        named_before = np.stack([before[name] for name in PRODUCER_ID_FIELDS])
        named_before = np.where(records.has_before & are_lasting(before), named_before, NONE)
        named = np.stack([rows[name] for name in PRODUCER_ID_FIELDS])
        is_new = (named >= 0) & (named[:, None] != named_before[None]).all(axis=1)
        fields, new_rows = np.nonzero(is_new & (records.is_new & are_lasting(rows)))
        for use in np.lexsort((fields, records.order[new_rows])).tolist():
            row = int(new_rows[use])
            key = int(named[fields[use], row]), int(rows["id"][row])
            if key not in self._producer_ids:
                position = (int(rows[name][row]) for name in RecordPosition._fields)
                self._producer_ids[key] = RecordPosition(*position)

    def _add_transactions(
        self,
        records: IdRows,
        applied: IntArray,
        runs: TransactionRuns,
        lists: PartitionLists,
        errors: dict[int, str | None],
    ) -> None:
        """Add the transactions that ended, and remember those that later records may continue."""
        following = np.flatnonzero(records.ends) + 1
        # A transaction is over if a record of the same id follows it.
        is_over = ~np.append(records.is_last, True)[following - 1]
        ended = np.flatnonzero(is_over)
        ended = ended[np.argsort(records.order[following[ended]])]
        self._tracks.count(records, runs, ended)
        self._add(runs.select(ended), lists)
        self._tracks.remember(records, applied, runs.select(np.flatnonzero(~is_over)), lists, errors)

    def _add(self, runs: TransactionRuns, lists: PartitionLists) -> None:
        transactions = transactions_of(runs)
        numbers, firsts, codes = np.unique(transactions["partitions"], return_index=True, return_inverse=True)
        sets = np.full(len(numbers), UNKNOWN_SET)
        # Number new sets in the order of the transactions.
        for index in np.argsort(firsts).tolist():
            sets[index] = self._sets.number(lists.at(int(numbers[index])))
        transactions["partitions"] = sets[codes]
        self._transactions.add(transactions)

    def history(self, state: PartitionState) -> History:
        """Return the history, after the last chunk."""
        count, lists = len(self.cache), PartitionLists()
        self._add(self._tracks.finish(count, lists), lists)
        ids = self._tracks.rows(count, self._sets, history_complete=self._is_complete)
        lagging, missing = lagging_since(state, self._last_record_time), missing_end(state)
        cut_off = () if missing is None else (LackingSpan(missing.end - 1, self._last_record_time, NEVER),)
        uses = [(producer_id, 0, number, *use) for (producer_id, number), use in self._producer_ids.items()]
        return History(
            place=state.partition.place,
            paths=tuple(segment.path for segment in state.partition.segments),
            names=tuple(texts_of(self.cache.names)),
            ids=ids,
            transactions=self._transactions.rows(),
            partition_sets=tuple(self._sets),
            producer_ids=np.array(uses, PRODUCER_ID_USE),
            issues=tuple(self._issues.kept),
            issue_counts=self._issues.counts,
            coverage_start=self._coverage_start,
            last_record_time=self._last_record_time,
            records=self._records,
            is_stopped=state.partition.log_dir.clean_shutdown and lagging is None and missing is None,
            kept_until=kept_until(state, self._last_record_time),
            topic_id=state.partition.topic_id,
            lagging_since=lagging,
            lacking=(*self._merged_segments.spans, *_lost_or_damaged(state), *cut_off),
            missing_end=missing,
            rank=ReplicaRank.of(state),
        )


def _lost_or_damaged(state: PartitionState) -> Iterator[LackingSpan]:
    """Yield the records that are lost or damaged; of any of them the time is not known."""
    for ranges in state.log_gaps.uncertain:
        yield from (LackingSpan(offset, 0, NEVER) for offset in ranges.before.tolist())


def _renumbered(errors: dict[int, str | None], with_id: IntArray) -> dict[int, str | None]:
    """Return errors by the index of the record among those with an id."""
    numbers = np.searchsorted(with_id, list(errors)).tolist()
    return dict(zip(numbers, errors.values(), strict=True))
