"""Filter the batches of a log file by isolation level, using all files in its folder.

A transaction may begin and end in other segments than the file that is being read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.observations import ObservationArray, Observed, observations_of, observe
from kforensics.forensics.core.record_types import EmptyMarkerArray
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import PartitionStateBuilder
from kforensics.forensics.partition.log_chunk import ReadTask, log_chunks
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_files import LOG_START, LogDir, Partition, partitions_of
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.splits import SegmentSplit
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, TransactionStore, transaction_store_of
from kforensics.forensics.sidecar.index_visibility import MarkerSweep
from kforensics.forensics.sidecar.visibility import Batches, BatchVisibility
from kforensics.parsers.columns.batch_columns import UNKNOWN_CONTROL, BatchColumns
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import parse_file_name
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.array_types import BoolArray
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.selection import MAX_INT64, MIN_INT64, BatchHeaders, Selection
from kforensics.parsers.tables.file_rows import place_of

__all__ = ["IsolationFilter", "PartitionTransactions", "containing_partition", "partition_transactions"]

NONE, LIVE = -1, "live"
UNKNOWN_START = "log start missing and no producer snapshot"
ALONE_NOTE = "evaluated on its own, because no other segment of its log is known"


@dataclass(frozen=True, slots=True, eq=False)
class PartitionTransactions:
    """The transactions of a partition, as far as its files show them.

    Attributes:
        transaction_store: its transactions.
        empty_markers: EMPTY_MARKER records of markers that ended no transaction.
        log_start_offset: first offset that is visible to consumers.
        last_stable_offset: offset at which the log ends for them if the whole log is replicated; if it is not exact,
            the largest it can be.
        notes: sentences about what may make this differ from the broker's state.
    """

    transaction_store: TransactionStore
    empty_markers: EmptyMarkerArray
    log_start_offset: int
    last_stable_offset: int
    notes: tuple[str, ...] = ()

    @property
    def visibility(self) -> MarkerSweep:
        """What a consumer receives according to the markers."""
        return MarkerSweep(self.transaction_store, self.log_start_offset, self.last_stable_offset)


def partition_transactions(partition: Partition) -> PartitionTransactions:
    """Return the transactions of a partition, whose segments are read one after the other.

    What cannot be read is skipped and noted. The log end offset counts as the high watermark.

    Args:
        partition: its files; segments and snapshots are read.
    """
    rejected = partition.log_dir.damaged.get(LOG_START) or partition.log_dir.forbidden.get(LOG_START)
    notes = [f"{LOG_START} is ignored: {rejected}"] if rejected else []
    task = ReadTask(partition, Rules(0), [Collector(batches=_unreadable_control_batches)])
    builder = PartitionStateBuilder(task)
    for segment in range(len(partition.segments)):
        try:
            builder.add(log_chunks(task, SegmentSplit(segment)))
        except InputError as error:
            notes.append(f"{error}; markers may be missing")
    state = builder.state()
    notes += _lost_ranges(state)
    (stable,), _ = last_stable_offsets(
        state.transaction_store, state.local_log_start_offset, np.array([state.log_end_offset])
    )
    if state.exact_from is None:
        notes.append(f"{UNKNOWN_START}; last stable offset {stable} is an upper bound")
    return PartitionTransactions(
        state.transaction_store, state.empty_markers, state.local_log_start_offset, int(stable), tuple(notes)
    )


def _unreadable_control_batches(batches: BatchColumns, _: Rules) -> Iterator[ObservationArray]:
    is_unreadable = batches.control == UNKNOWN_CONTROL
    if is_unreadable.any():
        yield observe(Observed.MARKER_MALFORMED, batches, is_unreadable)


def _lost_ranges(state: PartitionState) -> Iterator[str]:
    """Yield a sentence for each segment with ranges that cannot be read, except zeros and a torn tail of the log."""
    lost: Counter[int] = Counter()
    for number, damage in state.damage_before_end:
        lost[number] += damage.inside_batch is None and damage.reason != "zero-tail"
    for observation in observations_of(state.log.observations, Observed.MARKER_MALFORMED):
        lost[int(observation["segment"])] += int(observation["count"])
    for number, count in sorted(lost.items()):
        if count:
            ranges = "a range" if count == 1 else f"{count} ranges"
            name = file_name(state.partition.segments[number].path)
            yield f"{ranges} of {name} cannot be read; markers may be missing"


class IsolationFilter:
    """Decides which batches and records of the file that is being read are kept.

    It remembers one partition, because files are read folder by folder.

    Args:
        notify: called once per partition for each sentence about what may make the result differ from the broker's
            state.
        aborted: keep what was aborted, instead of what a read_committed consumer receives.
    """

    def __init__(self, notify: Callable[[str], None], *, aborted: bool) -> None:
        self._notify, self._kept = notify, BatchVisibility.ABORTED if aborted else BatchVisibility.VISIBLE
        self._folder: str | None = None
        self._visibility = MarkerSweep(transaction_store_of(NO_TRANSACTIONS), 0, 0)

    def applied_to(self, selection: Selection) -> Selection:
        """Return a selection that keeps what both the given one and this filter keep."""
        names = [each.name for each in fields(Selection)]
        return _IsolatedSelection(**{name: getattr(selection, name) for name in names}, isolation_filter=self)

    def use_file(self, file: FoundFile) -> None:
        """Use the partition of a log file from now on."""
        folder = folders_of(file.path).parent(file.path) if _is_segment(file) else None
        if folder is not None and folder == self._folder:
            return
        self._folder = folder
        partition = None if folder is None else containing_partition(file)
        transactions = partition_transactions(partition or _alone(file))
        self._visibility = transactions.visibility
        is_alone = file.kind == "log" and (partition is None or (file.topic is None and len(partition.segments) == 1))
        path = file.path if is_alone or partition is None else partition.folder
        for note in (*([ALONE_NOTE] if is_alone else ()), *transactions.notes):
            self._notify(f"{path}: {note}")

    def keeps_batch(self, batch: Batch) -> bool:
        """Return whether a batch of the log is kept."""
        base_offset = batch.last_offset if batch.base_offset is None else batch.base_offset
        visibility = self._visibility.around(base_offset, batch.last_offset).visibility_of(
            NONE if batch.producer_id is None else batch.producer_id,
            base_offset,
            batch.last_offset,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
        # The cleaner leaves batches without records, from which consumers receive nothing.
        return visibility is self._kept and batch.count != 0

    def keeps_batches(self, headers: BatchHeaders) -> BoolArray:
        """Return :meth:`keeps_batch` for many batches; see ``Selection.keeps_batches``."""
        last_offset, producer_id = headers["last_offset"], headers["producer_id"]
        base_offset = np.where(headers["base_offset"] == MIN_INT64, last_offset, headers["base_offset"])
        batches = Batches(
            np.where(producer_id == MIN_INT64, NONE, producer_id),
            base_offset,
            last_offset,
            headers["is_transactional"] != 0,
            headers["is_control"] != 0,
        )
        if not len(base_offset):
            return np.ones(0, bool)
        view = self._visibility.around(int(base_offset.min()), int(last_offset.max()))
        kept: BoolArray = (view.visibilities(batches) == self._kept) & (headers["record_count"] != 0)
        return kept

    @property
    def offset_bounds(self) -> tuple[int, int]:
        """The least and the most offset for which :meth:`keeps_offset` is true."""
        if self._kept is BatchVisibility.ABORTED:
            return MIN_INT64, MAX_INT64
        return self._visibility.log_start_offset, self._visibility.last_stable_offset - 1

    def keeps_offset(self, offset: int) -> bool:
        """Return whether a record of a kept batch is kept: the log start offset may be inside a batch."""
        sweep = self._visibility
        is_served = sweep.log_start_offset <= offset < sweep.last_stable_offset
        return self._kept is BatchVisibility.ABORTED or is_served


@dataclass(frozen=True, slots=True)
class _IsolatedSelection(Selection):
    """A selection, combined with an isolation filter that uses the file that is being read."""

    isolation_filter: IsolationFilter = field(kw_only=True)

    # No super(): a dataclass with slots is created twice, and super() would refer to the first class.
    @property
    def picks_records(self) -> bool:
        """Whether some records of a kept batch may be rejected."""
        return True

    def keeps_batch(self, batch: Batch) -> bool:
        """Return whether a batch may contain records to keep."""
        return Selection.keeps_batch(self, batch) and self.isolation_filter.keeps_batch(batch)

    def keeps_batches(self, headers: BatchHeaders) -> Any:
        """Return :meth:`keeps_batch` for many batches."""
        return Selection.keeps_batches(self, headers) & self.isolation_filter.keeps_batches(headers)

    def record_bounds(self) -> tuple[int, int, int, int]:
        """Return the bounds of records that are kept."""
        least_offset, most_offset, least_time, most_time = Selection.record_bounds(self)
        least, most = self.isolation_filter.offset_bounds
        return max(least, least_offset), min(most, most_offset), least_time, most_time

    def keeps_record(self, record: Record) -> bool:
        """Return whether a record of a kept batch is kept."""
        return Selection.keeps_record(self, record) and self.isolation_filter.keeps_offset(record.offset)


def _is_segment(file: FoundFile) -> bool:
    name = parse_file_name(file_name(file.path))
    return name is not None and (name.kind, name.state) == ("log", LIVE)


def _alone(file: FoundFile) -> Partition:
    # The number in the name of a KRaft snapshot is the offset at which it ends; its own offsets begin at 0.
    segment = file if file.kind == "log" else replace(file, base_offset=None)
    return Partition(place_of(file), file.path, LogDir(file.log_dir), segments=(segment,))


def containing_partition(file: FoundFile) -> Partition | None:
    """Return the partition of a segment, with all files in its folder; None if the folder cannot be listed."""
    folders = folders_of(file.path)
    try:
        listed = folders.children(folders.parent(file.path))
    except InputError:
        return None
    names = ((entry, parse_file_name(entry.name)) for entry in listed if not entry.is_folder)
    # The files of a folder marked for deletion are live files, too; but the checkpoints of its log directory describe
    # the partition that replaced it.
    live = replace(file, state=LIVE, log_dir=file.log_dir if file.state == LIVE else None)
    files = [
        replace(live, path=entry.path, kind=name.kind, size=entry.size, base_offset=name.base_offset)
        for entry, name in names
        if name and name.state == LIVE and name.kind in ("log", "snapshot")
    ]
    return next((partition for partition in partitions_of(files) if partition.has_log), None)
