"""The files of a partition as a broker finds them: indexes of aborted transactions, snapshots, last batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise

from kforensics.errors import InputError, InputMissingError
from kforensics.forensics.forecast.broker_reader import CorruptLogError, batches_from, last_readable_batch, next_offset
from kforensics.forensics.forecast.effects import (
    KAFKA,
    LOG_CREATED,
    RETENTION_DUE,
    Effect,
    LoadRefusedError,
    unreadable_text,
)
from kforensics.parsers.files.folders import Entry, folders_of
from kforensics.parsers.files.source import Source, Window, open_source
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.resync import zeros_end
from kforensics.parsers.state.indexes import read_transaction_index
from kforensics.parsers.state.producer_snapshot import ProducerSnapshotEntry, read_producer_snapshot
from kforensics.parsers.state.text_checkpoint import LeaderEpochEntry, read_leader_epochs

__all__ = [
    "LoadedSegment",
    "PartitionFiles",
    "add_batch",
    "check_epochs",
    "created_log",
    "due_segments",
    "effects_of_end",
    "end_offset",
    "epoch_starts",
    "forgotten_producers",
    "is_corrupt",
    "is_version_ignored",
    "lost_records",
    "returning_records",
    "snapshot_entries",
    "snapshots_after_recovery",
]

EPOCHS = "leader-epoch-checkpoint"
# Of the releases whose rules are known: up to 4.3 only the first byte of the version of an entry is read.
ONE_BYTE_VERSIONS = ("3.3",)
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


def is_corrupt(path: str, base: int, release: str) -> bool:
    """Return whether the broker's check of a transaction index fails.

    Raises:
        LoadRefusedError: an entry has a version that the broker does not read.
    """
    with open_source(path) as source:
        for row in read_transaction_index(source):
            if not isinstance(row, Damage):
                if row.last_offset < base:
                    return True
            elif row.reason != "version":
                return False  # bytes after the last whole entry are ignored
            elif not is_version_ignored(source, row, release):
                raise LoadRefusedError(KAFKA, row.detail, path)
    return False


def is_version_ignored(source: Source, damage: Damage, release: str) -> bool:
    """Return whether a release reads an entry of a transaction index although its version is unknown.

    Up to 4.3 a broker reads the first of the two bytes of the version only (``AbortedTxn.version``).
    """
    return release in ONE_BYTE_VERSIONS and not source.read(damage.start, 1)[0]


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


def snapshots_after_recovery(segments: Mapping[int, LoadedSegment], ends: Iterable[int], log_end: int) -> set[int]:
    """Return the offsets of the snapshots that a recovery writes, and that belong to a segment or are at the log end.

    Args:
        segments: the segments by base offset.
        ends: offsets after the segments that were recovered.
        log_end: log end offset after the recovery.
    """
    recovered = [base for base, segment in segments.items() if segment.recovered]
    # What comes after the recovered segments is replayed, with a snapshot before each of the last two.
    written = {*ends, *recovered, *sorted(segments)[-2:], log_end}
    return {offset for offset in written if offset in segments or offset == log_end}


def whole_end(path: str, base: int) -> tuple[int, int]:
    """Return the position and the offset after the last whole batch of a segment."""
    last = last_readable_batch(path)
    return (0, base) if last is None else (last.end, last.next_offset)


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


def is_preallocated(path: str, position: int) -> bool:
    """Return whether a file has nothing but zeros from a position on, as ``log.preallocate`` leaves them."""
    with open_source(path) as source:
        return zeros_end(Window(source), position) == source.size


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


def forgotten_producers(batches: Iterable[Batch]) -> Iterator[Effect]:
    """Yield which producers a broker forgets that has no snapshot of them."""
    known, producers = dict[int, int](), set[int]()
    for batch in batches:
        add_batch(known, producers, batch)
    if producers:
        detail = f"no snapshot is left: {len(producers)} producers are forgotten"
        if known:
            detail += f", and {len(known)} open transactions from offset {min(known.values())} on"
        offset = min(known.values(), default=None)
        yield Effect("producers-forgotten", detail, silent=True, offset=offset, records=len(producers))


def created_log(log_start: int, recovery_point: int) -> Effect:
    """Return that a folder has no segment, so that the broker creates an empty one.

    Args:
        log_start: from the checkpoint, 0 without an entry.
        recovery_point: from the checkpoint, 0 without an entry.
    """
    lost = recovery_point - log_start if recovery_point > log_start else None
    detail = f"no segment is left: an empty log is created that begins at {log_start}"
    if lost is not None:
        detail += f", and the checkpoint of the recovery point has {recovery_point}"
    return Effect(LOG_CREATED, detail, silent=True, offset=log_start, records=lost)


def due_segments(segments: Iterable[LoadedSegment], log_start: int) -> Iterator[Effect]:
    """Yield the segments that are wholly below the log start, whatever the settings of retention are.

    Rule: ``UnifiedLog.deleteLogStartOffsetBreachedSegments``; the first check of retention comes half a minute after
    the start (``log.initial.task.delay.ms``).

    Args:
        segments: the segments of a log.
        log_start: its log start offset.
    """
    ordered = sorted(segments, key=lambda segment: segment.base)
    for segment, following in pairwise(ordered):
        if following.base <= log_start:
            detail = (
                f"{segment.base:020}.log is below the log start {log_start}: retention deletes it soon after the start"
            )
            yield Effect(
                RETENTION_DUE,
                detail,
                silent=True,
                offset=segment.base,
                size=segment.size,
                path=segment.log.path,
            )


def epoch_starts(files: PartitionFiles) -> dict[int, int]:
    """Return start offsets by leader epoch, from the checkpoint; empty without one."""
    if EPOCHS not in files.files:
        return {}
    with open_source(files.files[EPOCHS].path) as source:
        rows = [row for row in read_leader_epochs(source) if isinstance(row, LeaderEpochEntry)]
    return {row.leader_epoch: row.start_offset for row in rows}


def returning_records(starts: Mapping[int, int], log_start: int, batches: Iterable[Batch]) -> Effect | None:
    """Return that records were deleted, and come back because the checkpoint of log start offsets is lost.

    A broker that moves the log start truncates its leader epochs there. A checkpoint of leader epochs that was lost
    also begins late, but with an epoch that the records before it do not have.

    Args:
        starts: start offsets by leader epoch, from the checkpoint.
        log_start: offset at which the log starts.
        batches: the batches from there on.
    """
    epoch = min(starts, key=lambda each: starts[each], default=None)
    if epoch is None or starts[epoch] <= log_start:
        return None
    first = starts[epoch]
    before = next((batch for batch in batches if batch.last_offset >= first - 1), None)
    if before is None or before.partition_leader_epoch != epoch:
        return None
    detail = f"records {log_start} to {first - 1} come back: the checkpoint file with the log start {first} is missing"
    return Effect("records-return", detail, silent=True, offset=log_start, records=first - log_start)


def effects_of_end(path: str, base: int, size: int, end: int, recovery_point: int) -> Iterator[Effect]:
    """Yield what a clean start makes of the end of the last segment, after which the next records are written.

    Args:
        path: the segment.
        base: its base offset.
        size: its size.
        end: the log end offset as the broker computes it.
        recovery_point: from the checkpoint, 0 without an entry.
    """
    position, whole = whole_end(path, base)
    if whole > end:
        detail = f"the log ends at {end}: the last entry of its index points to a batch that is not whole"
        yield Effect("truncated", detail, silent=True, offset=end, records=whole - end, path=path)
    if size > position:
        detail = (
            f"{size - position} bytes after offset {end} are no batch; the broker writes the next records"
            " after them, and a recovery cuts both off"
        )
        lost = recovery_point - end if recovery_point > end else None
        yield Effect("torn-tail", detail, silent=True, offset=end, records=lost, size=size - position, path=path)
    elif end < recovery_point and whole == end:
        detail = f"the log ends at {end}, and the checkpoint of the recovery point has {recovery_point}"
        yield Effect("short-log", detail, silent=True, offset=end, records=recovery_point - end, path=path)
