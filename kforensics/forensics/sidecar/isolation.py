"""Judges the batches of a file by all that lies in the file's folder: a transaction may begin and end elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields, replace

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.observations import Noticed, noted, of_kind
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.examine import Examination
from kforensics.forensics.partition.log_chunk import Split, Task, stretches
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_files import LOG_START, LogDir, Partition, partitions_of
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.forensics.partition.transaction_store import NO_TRANSACTIONS, Ledger, ledger_of
from kforensics.forensics.sidecar.visibility import Verdict
from kforensics.forensics.sidecar.visibility_sweep import VisibilitySweep
from kforensics.parsers.columns.batch_columns import UNKNOWN_CONTROL, BatchColumns
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.folders import folders_of
from kforensics.parsers.files.log_names import parse_file_name
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.rows import Batch, Record
from kforensics.parsers.log.selection import Selection
from kforensics.parsers.tables.file_rows import place_of

__all__ = ["Judge", "PartitionTransactions", "partition_of", "transactions_of"]

NONE, LIVE = -1, "live"
UNKNOWN_HEAD = "the head is missing, and no snapshot stands for it"
ALONE = "judged by itself alone, for no other segment of its log is known"


@dataclass(frozen=True, slots=True, eq=False)
class PartitionTransactions:
    """The transactions of a partition, and how far they can be told.

    Attributes:
        ledger: its transactions.
        empty_markers: markers that ended nothing.
        log_start_offset: where the log begins for consumers.
        last_stable_offset: where it ends for them if all of it is replicated; the largest it can be, if not exact.
        notes: sentences on what may make this differ from what the broker knew.
    """

    ledger: Ledger
    empty_markers: Records
    log_start_offset: int
    last_stable_offset: int
    notes: tuple[str, ...] = ()

    @property
    def visibility(self) -> VisibilitySweep:
        """What a consumer receives, as the markers decide."""
        return VisibilitySweep(self.ledger, self.log_start_offset, self.last_stable_offset)


def transactions_of(partition: Partition) -> PartitionTransactions:
    """Return the transactions of a partition, whose segments are read one after the other.

    What cannot be read is left out and noted. The log end is taken for the high watermark.

    Args:
        partition: its files. Segments and snapshots are read.
    """
    refused = partition.log_dir.damaged.get(LOG_START)
    notes = [f"{LOG_START} is left out: {refused}"] if refused else []
    task = Task(partition, Rules(0), [Noter(batches=_unreadable_controls)])
    examination = Examination(task)
    for segment in range(len(partition.segments)):
        try:
            examination.add(stretches(task, Split(segment)))
        except InputError as error:
            notes.append(f"{error}; markers may be missing")
    case = examination.case()
    notes += _lost(case)
    (stable,), _ = last_stable_offsets(case.ledger, case.log_start_offset, np.array([case.log_end_offset]))
    if case.exact_from is None:
        notes.append(f"{UNKNOWN_HEAD}; last stable offset {stable} is an upper bound")
    return PartitionTransactions(case.ledger, case.empty_markers, case.log_start_offset, int(stable), tuple(notes))


def _unreadable_controls(batches: BatchColumns, _: Rules) -> Iterator[Records]:
    which = batches.control == UNKNOWN_CONTROL
    if which.any():
        yield noted(Noticed.MARKER_MALFORMED, batches, which)


def _lost(case: Case) -> Iterator[str]:
    """Yield which segments have ranges that cannot be read; zeros hold no batch, and the log ends with a torn tail."""
    last = len(case.partition.segments) - 1
    lost: Counter[int] = Counter()
    for number, damage in case.log.damage:
        is_tail = damage.next_good_position is None and number == last
        lost[number] += damage.inside_batch is None and damage.reason != "zero-tail" and not is_tail
    for note in of_kind(case.log.notes, Noticed.MARKER_MALFORMED):
        lost[int(note["segment"])] += int(note["count"])
    for number, count in sorted(lost.items()):
        if count:
            ranges = "a range" if count == 1 else f"{count} ranges"
            name = file_name(case.partition.segments[number].path)
            yield f"{ranges} of {name} cannot be read; markers may be missing"


class Judge:
    """Says of each batch and record of the file that is being read whether it is wanted.

    Remembers one partition: files are read folder by folder.

    Args:
        aborted: want what was aborted, rather than what a read_committed consumer receives.
        say: told, once for each partition, of what may make the verdict differ from what the broker knew.
    """

    def __init__(self, say: Callable[[str], None], *, aborted: bool) -> None:
        self._say, self._wanted = say, Verdict.ABORTED if aborted else Verdict.VISIBLE
        self._folder: str | None = None
        self._visibility = VisibilitySweep(ledger_of(NO_TRANSACTIONS), 0, 0)

    def over(self, selection: Selection) -> Selection:
        """Return filters that keep what the judge wants too."""
        names = [each.name for each in fields(Selection)]
        return _JudgedSelection(**{name: getattr(selection, name) for name in names}, judge=self)

    def turn_to(self, found: FoundFile) -> None:
        """Judge by the partition of a log from now on."""
        folder = folders_of(found.path).parent(found.path) if _is_segment(found) else None
        if folder is not None and folder == self._folder:
            return
        self._folder = folder
        partition = None if folder is None else partition_of(found)
        judged = transactions_of(partition or _alone(found))
        self._visibility = judged.visibility
        lonely = found.kind == "log" and (partition is None or (found.topic is None and len(partition.segments) == 1))
        where = found.path if lonely or partition is None else partition.folder
        for note in (*([ALONE] if lonely else ()), *judged.notes):
            self._say(f"{where}: {note}")

    def keeps_batch(self, batch: Batch) -> bool:
        """Whether a batch of the log is wanted."""
        base_offset = batch.last_offset if batch.base_offset is None else batch.base_offset
        verdict = self._visibility.around(base_offset, batch.last_offset).verdict(
            NONE if batch.producer_id is None else batch.producer_id,
            base_offset,
            batch.last_offset,
            is_transactional=batch.is_transactional,
            is_control=batch.is_control,
        )
        # The cleaner leaves batches without a record, from which nobody receives anything.
        return verdict is self._wanted and batch.count != 0

    def keeps_offset(self, offset: int) -> bool:
        """Whether a record of a wanted batch is wanted: the log may start inside a batch."""
        seen = self._visibility
        return self._wanted is Verdict.ABORTED or seen.log_start_offset <= offset < seen.last_stable_offset


@dataclass(frozen=True, slots=True)
class _JudgedSelection(Selection):
    """Filters, and a judge who has been turned to the file that is being read."""

    judge: Judge = field(kw_only=True)

    # No super(): a class with slots is made twice, and super() would mean the first one.
    @property
    def picks_records(self) -> bool:
        """Whether some records of a kept batch may not be wanted."""
        return True

    def keeps_batch(self, batch: Batch) -> bool:
        """Whether a batch may hold wanted records."""
        return Selection.keeps_batch(self, batch) and self.judge.keeps_batch(batch)

    def keeps_record(self, record: Record) -> bool:
        """Whether a record of a kept batch is wanted."""
        return Selection.keeps_record(self, record) and self.judge.keeps_offset(record.offset)


def _is_segment(found: FoundFile) -> bool:
    name = parse_file_name(file_name(found.path))
    return name is not None and (name.kind, name.state) == ("log", LIVE)


def _alone(found: FoundFile) -> Partition:
    # The number of a KRaft snapshot is the offset it ends at; its own begin at 0.
    segment = found if found.kind == "log" else replace(found, base_offset=None)
    return Partition(place_of(found), found.path, LogDir(found.log_dir), segments=(segment,))


def partition_of(found: FoundFile) -> Partition | None:
    """Return the partition of a segment, from all that lies beside it; None if the folder cannot be listed."""
    folders = folders_of(found.path)
    try:
        beside = folders.children(folders.parent(found.path))
    except InputError:
        return None
    names = ((entry, parse_file_name(entry.name)) for entry in beside if not entry.is_folder)
    # The files of a folder marked for deletion are live ones all the same; what the checkpoints of its log directory
    # say is about the partition that has taken its place.
    whole = replace(found, state=LIVE, log_dir=found.log_dir if found.state == LIVE else None)
    files = [
        replace(whole, path=entry.path, kind=name.kind, size=entry.size, base_offset=name.base_offset)
        for entry, name in names
        if name and name.state == LIVE and name.kind in ("log", "snapshot")
    ]
    return next(iter(partitions_of(files)), None)
