"""The history of a coordinator's partition, in columns: what :mod:`.history_records` says, thousands of records a step.

What is kept from step to step grows with the number of ids and of transactions, not with that of records.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.coordinators.transactions.history_types import ALWAYS, NEVER, USE, History, strict_from
from kforensics.forensics.coordinators.transactions.init_times import InitTimes
from kforensics.forensics.coordinators.transactions.record_issues import Remarks, Said
from kforensics.forensics.coordinators.transactions.state_columns import (
    NO_ID,
    PartitionLists,
    StateBook,
    StateColumns,
    state_columns,
)
from kforensics.forensics.coordinators.transactions.state_evaluation import RecordValues, judge, tell
from kforensics.forensics.coordinators.transactions.state_runs import IdRows, Runs, instances_of
from kforensics.forensics.coordinators.transactions.state_steps import are_lasting
from kforensics.forensics.coordinators.transactions.track_states import TrackStates
from kforensics.forensics.coordinators.transactions.transaction import INSTANCE, UNKNOWN_SET, PartitionSets
from kforensics.forensics.coordinators.transactions.transitions import Step
from kforensics.forensics.core.record_arrays import joined_records, picked
from kforensics.forensics.core.record_types import NO_TIME, Records
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.record_columns import CHUNK_ROWS, record_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["SeenColumns", "history_in_columns"]

USED = ("producer_id", "previous_producer_id", "next_producer_id")


@dataclass(frozen=True, slots=True)
class SeenColumns:
    """Records as rows of a history.

    Attributes:
        states: the records, in the order of the log.
        steps: how each follows the one of the same id before it, as numbers of ``Step``.
        last_producer_epochs: producer epoch of that one, -1 if there is none or its producer id was another.
    """

    states: StateColumns
    steps: Records
    last_producer_epochs: Records

    def __len__(self) -> int:
        return len(self.states)


def history_in_columns(
    case: Case,
    keep: Callable[[SeenColumns], None] | None = None,
    kernels: Choice = kernels_for,
    chunk_rows: int = CHUNK_ROWS,
) -> History:
    """Return the history of a coordinator's partition.

    Args:
        case: the partition.
        keep: told of all records and how they follow those before them, in the order of the log.
        kernels: gives the compiled kernels, if reading so many bytes is worth it.
        chunk_rows: records at a time, about.

    Raises:
        InputError: a segment cannot be read.
    """
    begin = strict_from(case)
    replay = _Replay(begin, is_whole=case.is_complete and begin == 0)
    for segment, found in enumerate(case.partition.segments):
        with open_source(found.path) as source:
            for records in record_chunks(source, kernels(source.size), chunk_rows):
                seen = replay.take(state_columns(segment, records, replay.book))
                if keep is not None and len(seen):
                    keep(seen)
    return replay.history(case)


class _Replay:
    """Takes chunks of a partition in the order of its log.

    Attributes:
        book: numbers ids.
    """

    def __init__(self, begin: int, *, is_whole: bool) -> None:
        self._strict_from, self._is_whole = begin, is_whole
        self.book, self._tracks, self._inits = StateBook(), TrackStates(), InitTimes()
        self._sets, self._remarks = PartitionSets(), Remarks()
        self._instances: list[Records] = []
        self._uses: dict[tuple[int, int], tuple[int, int, int]] = {}
        self._known_from = ALWAYS if is_whole else NEVER
        self._known_to, self._records = NO_TIME, 0

    def take(self, states: StateColumns) -> SeenColumns:
        """Take the next chunk; returns it with how its records follow those before them."""
        rows = states.rows
        self._know(rows)
        with_id = np.flatnonzero(rows["id"] != NO_ID)
        self._tracks.make_room(len(self.book.names))
        self._inits.make_room(len(self.book.names))
        found, carried = self._tracks.behind(picked(rows, with_id), states.lists)
        steps = np.full(len(rows), Step.UNKNOWN)
        epochs = np.full(len(rows), NONE)
        new = np.flatnonzero(found.is_new)
        at = with_id[found.order[new]]
        left = self._producers(found)
        judged = judge(found, left, states.lists, self._strict_from, is_whole=self._is_whole)
        steps[at] = judged.steps[new]
        same = found.has_before & (found.before["producer_id"] == found.fields["producer_id"])
        epochs[at] = np.where(same, found.before["producer_epoch"], NONE)[new]
        judged.say(Said.FENCING_LOOP, self._inits.take(found))
        tell(judged, RecordValues(states, found, with_id, self._tracks), self._remarks)
        self._use(found)
        errors = {number: error for number, error in states.errors.items() if rows["id"][number] != NO_ID}
        self._join(found, found.runs(carried), states.lists, _renumbered(errors, with_id))
        return SeenColumns(states, steps, epochs)

    def _know(self, rows: Records) -> None:
        """Tell from when on and up to when records are there."""
        self._records += len(rows)
        if len(rows):
            self._known_to = max(self._known_to, int(rows["time"].max()))
        if self._known_from == NEVER:
            strict = np.flatnonzero((rows["offset"] >= self._strict_from) & (rows["time"] != NO_TIME))
            if len(strict):
                self._known_from = int(rows["time"][strict[0]])

    def _producers(self, found: IdRows) -> Records:
        """Note the producer ids of ids; returns the rows in which an id comes back to one that it had left."""
        rows, before = found.fields, found.before
        lasting = are_lasting(rows)
        goes_on = found.has_before & are_lasting(before) & (before["producer_id"] == rows["producer_id"])
        left: list[int] = []
        which = np.flatnonzero(found.is_new & lasting & ~goes_on)
        removed = found.has_before & before["is_tombstone"]
        columns = (rows["id"][which], rows["producer_id"][which], removed[which])
        for row, number, producer_id, is_removed in zip(
            which.tolist(), *(column.tolist() for column in columns), strict=True
        ):
            producers = self._tracks.producers[number]
            if producer_id in producers and (is_removed or producer_id != next(reversed(producers))):
                left.append(row)
            producers.setdefault(producer_id)
        return np.array(left, "i8")

    def _use(self, found: IdRows) -> None:
        """Note the producer ids that records name for the first time."""
        rows, before = found.fields, found.before
        held = np.where(found.has_before & are_lasting(before), np.stack([before[name] for name in USED]), NONE)
        named = np.stack([rows[name] for name in USED])
        fresh = (named >= 0) & (named[:, None] != held[None]).all(axis=1) & (found.is_new & are_lasting(rows))
        fields, which = np.nonzero(fresh)
        for turn in np.lexsort((fields, found.order[which])).tolist():
            row = int(which[turn])
            key = int(named[fields[turn], row]), int(rows["id"][row])
            if key not in self._uses:
                self._uses[key] = int(rows["segment"][row]), int(rows["position"][row]), int(rows["offset"][row])

    def _join(self, found: IdRows, runs: Runs, lists: PartitionLists, errors: dict[int, str | None]) -> None:
        """Put transactions together, and remember what may go on."""
        behind = np.flatnonzero(found.ends) + 1
        is_over = ~np.append(found.is_last, True)[behind - 1]  # behind the last row is nothing
        ended = np.flatnonzero(is_over)
        ended = ended[np.argsort(found.order[behind[ended]])]
        self._tracks.count(found, runs, ended)
        self._add(runs.taken(ended), lists)
        self._tracks.take(found, runs.taken(np.flatnonzero(~is_over)), lists, errors)

    def _add(self, runs: Runs, lists: PartitionLists) -> None:
        """Take transactions to which nothing more will come."""
        instances = instances_of(runs)
        numbers, firsts, codes = np.unique(instances["partitions"], return_index=True, return_inverse=True)
        sets = np.full(len(numbers), UNKNOWN_SET)
        for turn in np.argsort(firsts).tolist():
            sets[turn] = self._sets.number(lists.at(int(numbers[turn])))
        instances["partitions"] = sets[codes]
        self._instances.append(instances)

    def history(self, case: Case) -> History:
        """Return the history, once every chunk was taken."""
        count, lists = len(self.book.names), PartitionLists()
        self._add(self._tracks.leave(count, lists), lists)
        ids = self._tracks.rows(count, self._sets, are_told=self._is_whole)
        uses = [(producer_id, 0, number, *at) for (producer_id, number), at in self._uses.items()]
        return History(
            place=case.partition.place,
            paths=tuple(segment.path for segment in case.partition.segments),
            names=tuple(self.book.names),
            ids=ids,
            instances=joined_records([np.empty(0, INSTANCE), *self._instances]),
            sets=tuple(self._sets),
            uses=np.array(uses, USE),
            remarks=tuple(self._remarks.kept),
            counts=self._remarks.counts,
            known_from=self._known_from,
            known_to=self._known_to,
            records=self._records,
        )


def _renumbered(errors: dict[int, str | None], with_id: Records) -> dict[int, str | None]:
    """Return errors by the number of the record among those with an id."""
    numbers = np.searchsorted(with_id, list(errors)).tolist()
    return dict(zip(numbers, errors.values(), strict=True))
