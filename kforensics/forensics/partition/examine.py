"""From the stretches of a partition's log to all that checks may look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.index_evidence import IndexFaults
from kforensics.forensics.partition.log_chunk import Gathering, Split, Stretch, Task, stretches
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.snapshot_records import as_loaded, snapshot_records
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, Ledger, sorting_by_marker
from kforensics.forensics.replay.replay_types import EMPTY, UNKNOWN, Boundary, BoundaryKind
from kforensics.forensics.replay.summary import Final, Folding, Rows, joined_rows
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["Examination", "boundary_of", "examine", "producers_below"]


def examine(
    partition: Partition,
    rules: Rules,
    noters: Sequence[Noter] = (),
    kernels: Choice = kernels_for,
    *,
    watches_indexes: bool = False,
) -> Case:
    """Return what the log of a partition amounts to; it is read once, in this process.

    Args:
        partition: its files.
        rules: limits and the time of evaluation.
        noters: what checks want to note as batches go by.
        kernels: gives the compiled kernels.
        watches_indexes: whether offset and time indexes are compared with the log.

    Raises:
        InputError: a segment cannot be read.
    """
    task = Task(partition, rules, noters, watches_indexes, kernels=kernels)
    examination = Examination(task)
    for segment in range(len(partition.segments)):
        examination.add(stretches(task, Split(segment)))
    return examination.case()


class Examination:
    """Takes the stretches of a partition in the order of its log and makes a case of them.

    Where the head of the log is missing, what stands before the first snapshot on hand is replayed without knowing what
    was open; from the snapshot on everything is known.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._gathering = Gathering(task)
        self._boundary: Boundary | None = None
        self._before: list[Rows] = []
        self._closed = sorting_by_marker()
        self._passed: set[int] = set()
        self._producers_at: dict[int, Records] = {}

    def add(self, found: Iterable[Stretch]) -> None:
        """Take the stretches behind those before."""
        for stretch in found:
            if self._boundary is None and stretch.log.batches:
                self._boundary = boundary_of(self._task.partition, int(stretch.log.first.base_offset[0]))
            for offset in stretch.cuts:
                if offset not in self._passed and self._boundary is not None:
                    self._passed.add(offset)
                    self._at_snapshot(offset, self._boundary)
            self._gathering.add(stretch)
            self._take_closed()

    def add_closed(self, parts: Iterable[Records]) -> None:
        """Take closed transactions that stretches would have brought along; before or behind these is the same."""
        for transactions in parts:
            self._closed.add(transactions)

    def case(self) -> Case:
        """Return all that checks may look at, once every stretch was taken; no other may follow."""
        partition, log = self._task.partition, self._gathering.log()
        end = int(log.last.last_offset[0]) + 1 if log.batches else partition.first_offset
        boundary = self._boundary or boundary_of(partition, None)
        if boundary.kind is BoundaryKind.UNKNOWN and end in partition.snapshots:
            self._at_snapshot(end, boundary)
            boundary = self._boundary or boundary
        final = self._ended(boundary, consume=True)
        self._producers_at |= {
            offset: final.producers for offset in partition.snapshots if offset >= end and offset > boundary.offset
        }
        index_faults = self._index_faults(log.segments["segment"])
        others = joined_rows([*self._before, *self._gathering.producers.row_parts(), final.rows]).in_order()
        # What a million producers take must not be held twice.
        self._gathering, self._before = Gathering(self._task), []
        return Case(
            partition=partition,
            rules=self._task.rules,
            log=log,
            boundary=boundary,
            ledger=Ledger(self._closed.finish(), final.open_transactions),
            empty_markers=others.empty_markers,
            producers=final.producers,
            anomalies=others.anomalies,
            exact_from=None if boundary.kind is BoundaryKind.UNKNOWN else boundary.offset,
            producers_at=self._producers_at,
            index_faults=index_faults,
        )

    def _index_faults(self, seen: Records) -> IndexFaults | None:
        if not self._task.watches_indexes:
            return None
        return self._gathering.evidence.finish(self._task.partition, set(seen.tolist()))

    def _final(self, boundary: Boundary, *, consume: bool = False) -> Final:
        return self._gathering.producers.final(boundary, consume=consume)

    def _ended(self, boundary: Boundary, *, consume: bool = False) -> Final:
        """Return what ``_final`` does, but for the closed transactions, which are taken."""
        final = self._final(boundary, consume=consume)
        self._take_closed()
        self._closed.add(final.rows.transactions)
        return replace(final, rows=replace(final.rows, transactions=NO_TRANSACTIONS))

    def _take_closed(self) -> None:
        for transactions in self._gathering.producers.take_transactions():
            self._closed.add(transactions)

    def _at_snapshot(self, offset: int, boundary: Boundary) -> None:
        if offset <= boundary.offset or offset < self._task.partition.first_offset:
            return
        if boundary.kind is BoundaryKind.UNKNOWN and (known := _snapshot(self._task.partition, offset)):
            final = self._ended(boundary)
            self._producers_at[offset] = final.producers
            self._before += [self._gathering.producers.rows(), final.rows]
            self._gathering.producers = Folding(sequences=self._task.judges_sequences)
            self._boundary = known
            return
        self._producers_at[offset] = self._final(boundary).producers


def boundary_of(partition: Partition, first_offset: int | None) -> Boundary:
    """Return what is known of the log before its first batch on hand.

    A snapshot from before the first segment does not tell what happened between the two, and a broker does not load it.

    Args:
        partition: its files.
        first_offset: first offset of the first batch, None if there is none.
    """
    base = partition.segments[0].base_offset if partition.segments else None
    if 0 in (base, first_offset):
        return EMPTY
    usable = [offset for offset in partition.snapshots if base is not None and base <= offset]
    for offset in sorted(usable, reverse=True):
        if first_offset is None or offset <= first_offset:
            found = _snapshot(partition, offset)
            if found:
                return found
    return UNKNOWN


def _snapshot(partition: Partition, offset: int) -> Boundary | None:
    """Return what a snapshot says, None if its entries cannot be trusted."""
    found = snapshot_records(partition.snapshots[offset].path, ignores_tail=True)
    return None if found is None else Boundary(BoundaryKind.SNAPSHOT, offset, records=as_loaded(found))


def producers_below(case: Case, offset: int, kernels: Choice = kernels_for) -> Records:
    """Return the producers after all batches that begin below an offset, as PRODUCER records; the log is read again.

    Raises:
        InputError: a segment cannot be read.
    """
    task = Task(case.partition, case.rules, kernels=kernels, cuts=(case.boundary.offset, offset))
    gathering, begun = Gathering(task), False
    for stretch in _until(task, offset):
        # What a snapshot knows already is not replayed.
        if case.boundary.offset in stretch.cuts and not begun:
            gathering, begun = Gathering(task), True
        gathering.add(stretch)
    return gathering.producers.final(case.boundary, consume=True).producers


def _until(task: Task, offset: int) -> Iterator[Stretch]:
    for segment in range(len(task.partition.segments)):
        for stretch in stretches(task, Split(segment)):
            if offset in stretch.cuts:
                return
            yield stretch
