"""The files of a partition as a broker finds them: indexes of aborted transactions, snapshots, last batches."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from kforensics.errors import InputError, InputMissingError
from kforensics.forensics.forecast.broker_reader import CorruptLogError, batches_from, next_offset
from kforensics.forensics.forecast.effects import KAFKA, LoadRefusedError, unreadable_text
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.source import Window, open_source
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.state.indexes import read_transaction_index
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

__all__ = [
    "LoadedSegment",
    "PartitionFiles",
    "add_batch",
    "check_epochs",
    "end_offset",
    "first_epoch_start",
    "is_corrupt",
    "lost_records",
    "snapshot_entries",
    "whole_end",
]

EPOCHS = "leader-epoch-checkpoint"
NUMBER_FORMAT = "java.lang.NumberFormatException"


@dataclass(slots=True)
class LoadedSegment:
    """A segment as the load goes on.

    Attributes:
        base: base offset.
        log: the ``.log``.
        index: path of the ``.index``; None without one, and once it is rebuilt.
        has_time_index: whether there is a ``.timeindex``.
        size: size of the log in bytes.
        recovered: whether it was read to its end.
        next_offset: offset after its last batch, if it was.
    """

    base: int
    log: Entry
    index: str | None
    has_time_index: bool
    size: int
    recovered: bool = False
    next_offset: int | None = None  # of a segment that is recovered


@dataclass(slots=True)
class PartitionFiles:
    """The files of a partition as the load goes on."""

    path: str
    files: dict[str, Entry]

    @classmethod
    def of(cls, path: str) -> PartitionFiles:
        """Return the files of a folder."""
        return cls(path, {entry.name: entry for entry in folders_of(path).children(path) if not entry.is_folder})

    def number(self, name: str) -> int:
        """The offset in the name of a file, as the broker parses it."""
        text = name.partition(".")[0]
        digits = text[1:] if text[:1] in "+-" else text
        if not digits.isdecimal() or int(digits) >= 1 << 63:
            raise LoadRefusedError(NUMBER_FORMAT, f'For input string: "{text}"', f"{self.path}/{name}")
        return int(text)


def is_corrupt(path: str, base: int) -> bool:
    """Return whether the broker's check of a transaction index fails."""
    with open_source(path) as source:
        rows = list(read_transaction_index(source))
    for row in rows:
        if not isinstance(row, Damage):
            if row.last_offset < base:
                return True
        elif row.reason == "version":
            raise LoadRefusedError(KAFKA, row.detail, path)
        else:
            return False  # bytes after the last whole entry are ignored
    return False


def snapshot_entries(path: str) -> list[ProducerSnapshotEntry] | None:
    """Return the producers of a snapshot, None if the broker cannot read it."""
    try:
        with open_source(path) as source:
            rows = list(read_producer_snapshot(source))
    except InputError:
        return None
    if any(isinstance(row, Damage) for row in rows):
        return None
    return [row for row in rows if isinstance(row, ProducerSnapshotEntry)]


def whole_end(path: str, base: int) -> tuple[int, int]:
    """Return the position and the offset after the last whole batch of a segment."""
    position, offset = 0, base
    with open_source(path) as source, suppress(CorruptLogError):
        for batch in batches_from(Window(source), 0, path):
            position, offset = batch.end, batch.next_offset
    return position, offset


def end_offset(path: str, base: int) -> int | None:
    """Return the offset after the last batch of a segment, None if the broker cannot read it to its end."""
    try:
        return next_offset(path, None, base)
    except CorruptLogError:
        return None


def lost_records(path: str, position: int, offset: int) -> int | None:
    """Return how many offsets are in what is cut off, as far as batches can be recognized; None if there is none."""
    last = offset
    with open_source(path) as source, suppress(CorruptLogError):
        for batch in batches_from(Window(source), position, path):
            last = max(last, batch.next_offset)
    return last - offset or None


def check_epochs(folder: str) -> None:
    """Read the leader epochs of a partition.

    Raises:
        LoadRefusedError: the broker cannot read them.
    """
    path = f"{folder}/{EPOCHS}"
    try:
        with open_source(path) as source:
            fault = next((row for row in read_leader_epochs(source) if isinstance(row, Damage)), None)
    except InputMissingError:
        return
    if fault is not None:
        raise unreadable_text(path, fault)


def add_batch(known: dict[int, int], producers: set[int], batch: Batch) -> None:
    """Add a batch to the state of producers."""
    if batch.producer_id is None or batch.producer_id < 0:
        return
    producers.add(batch.producer_id)
    if batch.is_control:
        known.pop(batch.producer_id, None)
    elif batch.is_transactional:
        known.setdefault(batch.producer_id, batch.base_offset or 0)


def first_epoch_start(files: PartitionFiles) -> int:
    """Return where the first leader epoch in the checkpoint starts, 0 without one."""
    if EPOCHS not in files.files:
        return 0
    with open_source(files.files[EPOCHS].path) as source:
        return min(
            (row.start_offset for row in read_leader_epochs(source) if isinstance(row, LeaderEpochEntry)), default=0
        )
