"""What the load of one log at the start of a broker does to its files: recovery, truncation, state of producers.

Rules: ``LogLoader.load``, ``UnifiedLog.rebuildProducerState`` and ``ProducerStateManager.truncateAndReload``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from math import inf

from kforensics.forensics.forecast.aborted_records import visible_aborts
from kforensics.forensics.forecast.broker_reader import (
    CORRUPT,
    CorruptLogError,
    WrongSegmentError,
    batches_from,
    next_offset,
    recover,
)
from kforensics.forensics.forecast.effects import HOUSEKEEPING, ILLEGAL_ARGUMENT, Effect, LoadedLog, LoadRefusedError
from kforensics.forensics.forecast.index_limits import NO_LIMITS, IndexLimits, check_index_sizes
from kforensics.forensics.forecast.segment_files import (
    LoadedSegment,
    PartitionFiles,
    add_batch,
    check_epochs,
    created_log,
    due_segments,
    effects_of_end,
    end_offset,
    epoch_starts,
    forgotten_producers,
    is_corrupt,
    is_preallocated,
    lost_records,
    returning_records,
    snapshot_entries,
    snapshots_after_recovery,
)
from kforensics.parsers.files.source import Window, open_source
from kforensics.parsers.format.rows import Batch

__all__ = ["load_log"]

INDEXES = (".index", ".timeindex", ".txnindex")
DELETED, CLEANED, SWAP, LOG, SNAPSHOT = ".deleted", ".cleaned", ".swap", ".log", ".snapshot"
SPLIT = "Split operation is only permitted for segments with overflow, and the problem path is {}"


def load_log(  # noqa: PLR0913  # what a broker knows of a log before it reads it
    path: str,
    recovery_point: int,
    log_start: int | None,
    *,
    clean: bool,
    is_deleted: bool = False,
    limits: IndexLimits = NO_LIMITS,
    release: str = "4.4",
) -> LoadedLog:
    """Return a log as the broker has it after its load.

    Args:
        path: folder of the partition.
        recovery_point: from the checkpoint, 0 without an entry.
        log_start: from the checkpoint, 0 without an entry, None without the file.
        clean: whether the log directory has the marker of a clean shutdown.
        is_deleted: whether the folder is marked for deletion; its batches are not read.
        limits: settings of the topic for its indexes.
        release: the release whose rules count.

    Raises:
        LoadRefusedError: the load ends the start.
        InputError: a file cannot be read.
    """
    check_epochs(path)
    load = _Load(PartitionFiles.of(path), recovery_point, log_start or 0, clean, release, limits, LoadedLog(path))
    load.drop_temporary_files()
    load.find_segments()
    if is_deleted:
        return load.loaded
    load.recover()
    load.resize_indexes()
    load.settle_bounds()
    if log_start is None:
        load.find_returning_records()
    load.load_producers()
    load.find_forgotten_aborts()
    return load.loaded


@dataclass(slots=True)
class _Load:
    folder: PartitionFiles
    recovery_point: int
    log_start: int
    clean: bool
    release: str
    limits: IndexLimits
    loaded: LoadedLog
    segments: dict[int, LoadedSegment] = field(default_factory=dict)
    snapshots: dict[int, str] = field(default_factory=dict)
    snapshots_by_recovery: set[int] = field(default_factory=set)
    recovered_from: float = inf
    has_coordinator: bool = False
    swapped: set[int] = field(default_factory=set)

    def add(self, kind: str, detail: str, **values: object) -> None:
        self.loaded.effects.append(Effect(kind, detail, **values))  # type: ignore[arg-type]  # names of its fields

    # Files that a cleaning or a deletion left.

    def drop_temporary_files(self) -> None:
        folder = self.folder
        names = sorted(folder.files)
        dropped = [name for name in names if name.endswith(DELETED) and not name.endswith(f".checkpoint{DELETED}")]
        cleaned = [name for name in names if name.endswith(CLEANED)]
        swapped = [name for name in names if name.endswith(SWAP)]
        least = min((folder.number(name) for name in cleaned), default=None)
        invalid = [name for name in swapped if least is not None and folder.number(name) >= least]
        for name in (*dropped, *cleaned, *invalid):
            entry = folder.files.pop(name)
            self.add(HOUSEKEEPING, f"{name} is deleted", silent=True, size=entry.size, path=entry.path)
        self._rename_swapped([name for name in swapped if name not in invalid])

    def _rename_swapped(self, names: list[str]) -> None:
        folder, ranges = self.folder, []
        for name in names:
            if name.removesuffix(SWAP).endswith(LOG):
                base = folder.number(name)
                self.swapped.add(base)
                ranges.append((base, self._next_offset(folder.files[name].path, None, base)))
        if ranges:
            least, most = min(base for base, _ in ranges), max(end for _, end in ranges)
            for name in [name for name in folder.files if not name.endswith(SWAP)]:
                number = name.partition(".")[0]
                if number.isdecimal() and least <= int(number) < most:
                    entry = folder.files.pop(name)
                    self.add("file-deleted", f"{name} is deleted, {names[0]} replaces it", silent=True, path=entry.path)
        for name in names:
            entry = folder.files.pop(name)
            folder.files[name.removesuffix(SWAP)] = entry
            self.add("file-renamed", f"{name} becomes {name.removesuffix(SWAP)}", silent=True, path=entry.path)

    def _next_offset(self, log: str, index: str | None, base: int) -> int:
        try:
            return next_offset(log, index, base)
        except CorruptLogError as error:
            message = f"{error.why} in file {error.path}."
            raise LoadRefusedError(CORRUPT, message, error.path) from error

    # Segments.

    def find_segments(self) -> None:
        folder = self.folder
        for name in sorted(folder.files):
            if name.endswith(INDEXES):
                if f"{folder.number(name):020}{LOG}" not in folder.files:
                    entry = folder.files.pop(name)
                    self.add(
                        "orphan-deleted", f"{name} is deleted: its log is missing", size=entry.size, path=entry.path
                    )
            elif name.endswith(LOG):
                self._add_segment(name)
        for name in sorted(folder.files):
            if name.endswith(SNAPSHOT):
                self.snapshots[folder.number(name)] = folder.files[name].path

    def _add_segment(self, name: str) -> None:
        folder, base = self.folder, self.folder.number(name)
        stem = f"{base:020}"
        entry = folder.files.get(f"{stem}{LOG}") or folder.files[name]
        index = folder.files.get(f"{stem}.index")
        has_time_index = f"{stem}.timeindex" in folder.files
        segment = LoadedSegment(base, entry, index.path if index else None, has_time_index, entry.size)
        if name != f"{stem}{LOG}" and f"{stem}{LOG}" not in folder.files:
            detail = f"{name} is not read: the broker makes an empty {stem}{LOG} beside it"
            self.add(
                "truncated", detail, silent=True, offset=base, records=end_offset(entry.path, base), path=entry.path
            )
            folder.files[f"{stem}{LOG}"] = entry
            segment.recovered, segment.size, segment.next_offset = True, 0, base
            self.segments[base] = segment
            return
        reason = self._why_recovered(segment)
        if reason:
            size, is_silent = segment.size, not self.clean and base >= self.recovery_point
            self._recovered(segment, sorted(self.segments)[-2:])
            self.add("indexes-rebuilt", reason, silent=is_silent, size=size, offset=base, path=entry.path)
        elif not has_time_index:
            self.add("indexes-rebuilt", f"{stem}.timeindex is missing and starts empty", silent=True, offset=base)
        self.segments[base] = segment

    def _why_recovered(self, segment: LoadedSegment) -> str | None:
        name = f"{segment.base:020}"
        if segment.index is None and segment.base not in self.swapped:
            return f"{name}.index is missing: the segment is read and its indexes are rebuilt"
        index = self.folder.files.get(f"{name}.txnindex")
        if index is not None and is_corrupt(index.path, segment.base, self.release):
            return f"{name}.txnindex is corrupt: the segment is read and its indexes are rebuilt"
        return None

    def _recovered(self, segment: LoadedSegment, lower: Iterable[int] = ()) -> None:
        """Recover a segment, as ``LogLoader.recoverSegment``; writes snapshots at the ``lower`` segments, too."""
        self.recovered_from = min(self.recovered_from, segment.base)
        if segment.recovered:
            return  # what was after its last valid batch is cut off already
        if not segment.size:
            segment.recovered, segment.next_offset = True, segment.base
            return
        try:
            kept = recover(segment.log.path, segment.base, self.limits)
        except WrongSegmentError as error:
            raise LoadRefusedError(ILLEGAL_ARGUMENT, SPLIT.format(error.path), error.path) from error
        before = segment.size
        segment.recovered, segment.size, segment.next_offset = True, kept.end, kept.next_offset
        segment.index = None
        self.snapshots_by_recovery |= {kept.next_offset, *lower}
        if kept.lost_bytes:
            detail = f"cut to offset {kept.next_offset}: {kept.lost_bytes} of {before} bytes of {segment.base:020}.log"
            at: dict[str, object] = {"offset": kept.next_offset, "path": segment.log.path}
            if is_preallocated(segment.log.path, kept.end):
                self.add("truncated", f"{detail}, all zeros", size=kept.lost_bytes, is_unused=True, **at)
            else:
                lost = lost_records(segment.log.path, kept.end, kept.next_offset)
                self.add("truncated", detail, records=lost, size=kept.lost_bytes, **at)

    def recover(self) -> None:
        """Recover what a broker that was not stopped in order may have left half written."""
        if not self.clean:
            self._recover_unflushed()
        end = self._end()
        if end is None:
            self.loaded.effects.append(created_log(self.log_start, self.recovery_point))
        elif end < self.log_start:
            sizes = sum(segment.size for segment in self.segments.values())
            detail = f"all segments are deleted: the log ends at {end}, before the log start {self.log_start}"
            self.add("truncated", detail, offset=self.log_start, records=end - min(self.segments), size=sizes)
            self.segments, self.snapshots = {}, {}

    def resize_indexes(self) -> None:
        last = max(self.segments, default=None)
        if last is not None and not self.segments[last].recovered:
            check_index_sizes((self.folder.files.get(f"{last:020}{end}") for end in INDEXES[:2]), self.limits)

    def _recover_unflushed(self) -> None:
        bases = sorted(self.segments)
        first = max((base for base in bases if base <= self.recovery_point), default=None)
        unflushed = [base for base in bases if first is None or base >= first]
        for number, base in enumerate(unflushed):
            segment, size = self.segments[base], self.segments[base].size
            before = len(self.loaded.effects)
            self._recovered(segment)
            self.add("recovered", f"{base:020}.log is read to its end", silent=True, offset=base, size=size)
            if any(effect.kind == "truncated" for effect in self.loaded.effects[before:]):
                self._drop(unflushed[number + 1 :])
                return

    def _drop(self, bases: list[int]) -> None:
        for base in bases:
            segment = self.segments.pop(base)
            end = end_offset(segment.log.path, segment.base)
            self.add(
                "truncated",
                f"{base:020}.log is deleted, because a segment before it was cut",
                offset=base,
                records=None if end is None else end - base,
                size=segment.size,
                path=segment.log.path,
            )

    def _end(self) -> int | None:
        """The log end offset as the broker computes it, None without a segment."""
        if not self.segments:
            return None
        last = self.segments[max(self.segments)]
        following = last.next_offset
        return self._next_offset(last.log.path, last.index, last.base) if following is None else following

    def settle_bounds(self) -> None:
        loaded, end = self.loaded, self._end()
        loaded.log_end = self.log_start if end is None else end
        first = min(self.segments, default=self.log_start)
        loaded.log_start = max(self.log_start, first)
        loaded.effects += due_segments(self.segments.values(), loaded.log_start)
        if end is None:
            return
        last = self.segments[max(self.segments)]
        if not last.recovered and last.size:
            loaded.effects += effects_of_end(last.log.path, last.base, last.size, end, self.recovery_point)

    def find_returning_records(self) -> None:
        """Find records that were deleted, if the log directory has lost its checkpoint of log start offsets."""
        loaded = self.loaded
        batches = self._batches(loaded.log_start) if self.segments else ()
        returned = returning_records(epoch_starts(self.folder), loaded.log_start, batches)
        if returned is not None and (returned.offset or 0) + (returned.records or 0) <= loaded.log_end:
            loaded.effects.append(returned)

    # Producers.

    def load_producers(self) -> None:
        loaded, is_recovered = self.loaded, self.recovered_from < inf
        self._drop_recovered_snapshots()
        # A recovery takes the log start from the checkpoint, and drops what belongs to no segment afterwards.
        start = self._load_snapshot(self.log_start) if is_recovered else 0
        self._drop_stray_snapshots()
        if not self.snapshots and self.clean and not self.snapshots_by_recovery:
            self._forget_producers()
            return
        for offset in [offset for offset in self.snapshots if not loaded.log_start < offset <= loaded.log_end]:
            path = self.snapshots.pop(offset)
            kind = HOUSEKEEPING if offset <= loaded.log_start else "snapshot-dropped"
            self.add(kind, f"{offset:020}.snapshot is outside the log and is deleted", silent=True, path=path)
        self._replay(start if is_recovered else self._load_snapshot(loaded.log_start))
        loaded.note_format(self._batches, self.release)

    def find_forgotten_aborts(self) -> None:
        """Find aborted transactions whose records read_committed consumers get; only in logs with transactions."""
        if self.clean and self._has_transactions():
            kept = [segment for _, segment in sorted(self.segments.items()) if segment.size and not segment.recovered]
            logs = [(segment.log.path, segment.size) for segment in kept]
            self.loaded.effects += visible_aborts(logs, self.release)

    def _has_transactions(self) -> bool:
        if self.loaded.open_transactions or any(name.endswith(".txnindex") for name in self.folder.files):
            return True
        return self.has_coordinator

    def _drop_recovered_snapshots(self) -> None:
        """Drop snapshots after the first segment that is recovered; the recovery writes others, some in their place."""
        written = snapshots_after_recovery(self.segments, self.snapshots_by_recovery, self.loaded.log_end)
        for offset in [offset for offset in self.snapshots if self.recovered_from < offset]:
            path = self.snapshots.pop(offset)
            if offset not in written or offset <= self.loaded.log_start:
                detail = f"{offset:020}.snapshot is deleted: a recovery begins before it"
                self.add(HOUSEKEEPING, detail, silent=True, path=path)

    def _drop_stray_snapshots(self) -> None:
        """Drop snapshots that belong to no segment, but the newest."""
        stray = sorted(offset for offset in self.snapshots if offset not in self.segments)
        last = max(self.segments, default=-1)
        kept = stray[-1:] if stray and stray[-1] >= last else []
        for offset in stray:
            if offset not in kept:
                path = self.snapshots.pop(offset)
                self.add("snapshot-dropped", f"{offset:020}.snapshot belongs to no segment", silent=True, path=path)

    def _forget_producers(self) -> None:
        """Without any snapshot, a clean shutdown means that no producer is known."""
        self.loaded.effects += forgotten_producers(self._batches(self.loaded.log_start))

    def _load_snapshot(self, log_start: int) -> int:
        """Take over the newest snapshot that can be read; returns the offset from which the log is replayed."""
        loaded = self.loaded
        for offset in sorted((each for each in self.snapshots if each > log_start), reverse=True):
            entries = snapshot_entries(self.snapshots[offset])
            if entries is None:
                path = self.snapshots.pop(offset)
                self.add("snapshot-dropped", f"{offset:020}.snapshot is corrupt", path=path)
                continue
            for entry in entries:
                loaded.producers.add(entry.producer_id)
                self.has_coordinator |= entry.coordinator_epoch >= 0
                if entry.current_txn_first_offset >= 0:
                    loaded.open_transactions[entry.producer_id] = entry.current_txn_first_offset
            return offset
        # A recovery reads whole segments, also what is before the log start.
        return int(min(loaded.log_start, self.recovered_from))

    def _replay(self, start: int) -> None:
        loaded = self.loaded
        if start >= loaded.log_end:
            return
        size = 0
        for batch in self._batches(start):
            size += batch.size
            add_batch(loaded.open_transactions, loaded.producers, batch)
        if size and not self.snapshots_by_recovery:  # a recovery has it already
            detail = f"the state of producers is rebuilt from offset {start}"
            self.add("producers-rebuilt", detail, silent=True, offset=start, size=size)

    def _batches(self, start: int) -> Iterator[Batch]:
        """Yield the batches from an offset to the end of the log, as far as it is kept."""
        bases = sorted(self.segments)
        for number, base in enumerate(bases):
            if number + 1 < len(bases) and bases[number + 1] <= start:
                continue
            segment = self.segments[base]
            if not segment.size:
                continue
            with open_source(segment.log.path) as source:
                window = Window(source, segment.size)
                try:
                    for batch in batches_from(window, 0, segment.log.path):
                        if start <= batch.header.last_offset < self.loaded.log_end:
                            yield batch.header
                except CorruptLogError as error:
                    raise LoadRefusedError(CORRUPT, f"{error.why} in file {error.path}.", error.path) from error
