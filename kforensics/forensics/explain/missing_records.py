"""Find out why an offset has no record, or why its record is not available.

Rule: a leader gives each record the next offset (``UnifiedLog.append``). Only the cleaner removes records later, and
only retention and DeleteRecords remove the start of a log.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.explain.lookup import OffsetPosition
from kforensics.forensics.explain.offset_story import OffsetGap, RecordStatus, StoredBatch
from kforensics.forensics.metadata.remote_log import RemoteSegment, remote_segments, remote_segments_at
from kforensics.forensics.partition.compaction_evidence import compacted_elsewhere
from kforensics.forensics.partition.fetched_compacted import compacted_by_leader
from kforensics.forensics.partition.log_starts import EarlierStart
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.sidecar.isolation import containing_partition
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.log_names import REMOTE_LOG_METADATA
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.rows import Damage

EXACT, APPROXIMATE, UNVERIFIABLE = Exactness.EXACT, Exactness.APPROXIMATE, Exactness.UNVERIFIABLE


@dataclass(frozen=True, slots=True)
class Reason:
    """The status of an offset, and the reason for it.

    Attributes:
        status: what happened to the record.
        why: the reason, as a clause.
        exactness: how reliable the status is.
    """

    status: RecordStatus
    why: str
    exactness: Exactness = EXACT


class UnlistedSegments:
    """Segments in the partition folder that are not among the given files.

    The folder is listed on first use.

    Args:
        state: the partition.
    """

    def __init__(self, state: PartitionState) -> None:
        self._state = state

    @cached_property
    def _in_folder(self) -> dict[int, FoundFile]:
        """All segments, given or not, by base offset."""
        given = self._state.partition.segments
        folder = containing_partition(given[0]) if given else None
        return {segment.base_offset or 0: segment for segment in (*given, *(folder.segments if folder else ()))}

    @property
    def base_offsets(self) -> Iterable[int]:
        """The base offsets of all segments, given or not."""
        return self._in_folder

    def reason(self, offset: int) -> Reason | None:
        """Return why an offset is not available, if its segment by file name was not given; else None."""
        base = max((base_offset for base_offset in self._in_folder if base_offset <= offset), default=None)
        given = {segment.base_offset or 0 for segment in self._state.partition.segments}
        if base is None or base in given:
            return None
        name = file_name(self._in_folder[base].path)
        why = f"it may be in {name}, which is in the same folder but was not given; pass the partition folder"
        return Reason(RecordStatus.NOT_ON_HAND, why, UNVERIFIABLE)


def reason_limits(state: PartitionState) -> set[int]:
    """Return the offsets at which the reason why there is no record may change, besides the limits of batches.

    Raises:
        InputError: the metadata of remote storage cannot be read.
    """
    known = {state.log_start_offset, state.local_log_start_offset, state.log_end_offset, state.first_uncompacted_offset}
    known |= {state.partition.first_offset, _checkpointed_start(state)}
    known |= {segment.base_offset or 0 for segment in state.partition.segments}
    if state.earlier_start is not None:
        known |= {state.earlier_start.read_from, state.earlier_start.first_epoch}
    for segment in remote_segments(state.remote_log) if state.remote_log is not None else ():
        known |= {segment.first_offset, segment.last_offset + 1}
    return known | {
        offset for offset in (state.first_dirty_offset, state.remote_log_start_offset) if offset is not None
    }


def out_of_bounds(state: PartitionState, offset: int) -> Reason | None:
    """Return why an offset is outside the log, None if it is inside."""
    if not state.partition.has_log:
        return Reason(
            RecordStatus.NOT_ON_HAND, "the partition folder has no .log file any more, or an empty one", UNVERIFIABLE
        )
    if offset >= state.log_end_offset:
        return _beyond_end(state)
    earlier, remote = state.earlier_start, state.remote_log_start_offset
    if earlier is not None and earlier.is_forgotten and earlier.offset <= offset < earlier.read_from:
        return _forgotten(state, earlier, offset)
    if remote is not None and remote <= offset < state.partition.first_offset:
        return _by_remote_metadata(state, offset) or Reason(
            RecordStatus.NOT_ON_HAND, _in_remote_storage(state, remote), UNVERIFIABLE
        )
    if offset < state.log_start_offset:
        # A broker moves the start in remote storage first, and checkpoints it within a minute.
        return (_not_copied(state, offset) if remote is None else None) or _deleted(state, offset)
    return _not_copied(state, offset)


def _by_remote_metadata(state: PartitionState, offset: int) -> Reason | None:
    """Return what the metadata of remote storage shows of an offset before the files, None if it shows nothing."""
    readable = [segment for segment in _remote_segments(state, offset) if segment.is_readable]
    if readable:
        why = f"it is in remote storage, in {_remote_segment(readable[-1])}"
        return Reason(RecordStatus.NOT_ON_HAND, why, EXACT)
    if state.remote_log is None or not state.remote_log.is_whole:
        return None
    why = (
        f"it is in no segment in remote storage according to {REMOTE_LOG_METADATA}, and the available files start at"
        f" {state.partition.first_offset}"
    )
    return Reason(RecordStatus.NOT_ON_HAND, why, UNVERIFIABLE)


def _remote_segments(state: PartitionState, offset: int) -> list[RemoteSegment]:
    return remote_segments_at(state.remote_log, offset) if state.remote_log is not None else []


def _remote_segment(segment: RemoteSegment) -> str:
    copied = "" if segment.copied_ms is None else f", copied at {format_time(segment.copied_ms)}"
    return f"segment {segment.segment_id} with offsets {segment.first_offset} to {segment.last_offset}{copied}"


def _remote_remains(state: PartitionState, offset: int) -> str:
    """Return what became of a deleted offset in remote storage, as the end of a clause."""
    copied = [segment for segment in _remote_segments(state, offset) if segment.copied_ms is not None]
    kept = [segment for segment in copied if segment.is_readable]
    if kept:
        return f", but remote storage still has {_remote_segment(kept[-1])}"
    if not copied or copied[-1].deleted_ms is None:
        return ""
    return f", in remote storage, too: {_remote_segment(copied[-1])}, deleted at {format_time(copied[-1].deleted_ms)}"


def _in_remote_storage(state: PartitionState, remote: int) -> str:
    first = state.partition.first_offset
    if state.partition.checkpoint(LOG_START) is not None:
        return (
            f"it is in remote storage: the log starts at offset {remote} according to its checkpoints, its part on disk"
            f" at {first}"
        )
    return (
        f"the log starts at offset {remote} according to its leader epochs, but the available files start at {first}:"
        f" the rest is in remote storage, or was not copied"
    )


def _not_copied(state: PartitionState, offset: int) -> Reason | None:
    """Return the reason for an offset between the checkpointed log start and the files, None for another offset."""
    first, log_start = state.partition.first_offset, _checkpointed_start(state)
    if not log_start <= offset < first:
        return None
    why = (
        f"the log starts at offset {log_start} according to its checkpoint, but the available files start at"
        f" {first}: the rest is in remote storage, or was not copied"
    )
    return Reason(RecordStatus.NOT_ON_HAND, why, UNVERIFIABLE)


def _forgotten(state: PartitionState, earlier: EarlierStart, offset: int) -> Reason:
    """Return why an offset between a log start that a broker took from its checkpoint and the epochs is not served."""
    why = (
        f"DeleteRecords moved the log start offset to {earlier.first_epoch}, and a broker that was killed forgot it."
        f" The log starts at {earlier.offset} again, but the broker does not read what is before its leader epochs, and"
        f" a consumer at the log start receives nothing{_remote_remains(state, offset)}"
    )
    return Reason(RecordStatus.DELETED, why, EXACT if state.partition.log_dir.clean_shutdown else APPROXIMATE)


def unless_deleted(state: PartitionState, offset: int, reason: Reason) -> Reason:
    """Return why an offset is served or not, less certain if DeleteRecords may have passed it since the checkpoint.

    Args:
        state: the partition.
        offset: the offset.
        reason: why, if the log starts where the checkpoint says.
    """
    earlier = state.earlier_start
    if earlier is None or earlier.is_certain or not reason.status.is_data or offset >= earlier.first_epoch:
        return reason
    why = f"{reason.why}, unless DeleteRecords moved the log start of the running broker to {earlier.first_epoch}"
    return Reason(reason.status, why, APPROXIMATE if reason.exactness is EXACT else reason.exactness)


def _deleted(state: PartitionState, offset: int) -> Reason:
    moved = f"retention or DeleteRecords moved the log start offset to {state.log_start_offset}"
    if offset >= state.partition.first_offset:
        return Reason(RecordStatus.DELETED, f"{moved}; its bytes are still on disk")
    if LOG_START in state.partition.log_dir.checkpoints:
        return Reason(RecordStatus.DELETED, f"{moved}; its segment is deleted{_remote_remains(state, offset)}")
    why = f"the available files start at offset {state.log_start_offset}, and there is no {LOG_START} to show why"
    return Reason(RecordStatus.DELETED, why, APPROXIMATE)


def _checkpointed_start(state: PartitionState) -> int:
    """Return the log start offset of the checkpoint; without one, the base offset of the first segment."""
    checkpoint = state.partition.checkpoint(LOG_START)
    return state.partition.first_offset if checkpoint is None else checkpoint


def _beyond_end(state: PartitionState) -> Reason:
    torn_end = state.torn_end
    if torn_end is None or torn_end.reason == "zero-tail":
        return Reason(RecordStatus.BEYOND_END, f"the log ends at offset {state.log_end_offset}")
    name = file_name(state.partition.segments[-1].path)
    why = f"the readable part of the log ends at offset {state.log_end_offset}; after it, {_unreadable(name, torn_end)}"
    return Reason(RecordStatus.BEYOND_END, why, APPROXIMATE)


def _unreadable(name: str, damage: Damage) -> str:
    return f"bytes {damage.start:#x} to {damage.end:#x} of {name} are unreadable ({damage.reason})"


def offset_gap_around(state: PartitionState, position: OffsetPosition, batches: BatchColumns) -> OffsetGap:
    """Return the offset gap that contains an offset.

    Args:
        state: the partition.
        position: where the offset is; no batch spans it, and a batch follows it.
        batches: the batches that the position refers to.
    """
    after = position.after or 0
    segment = int(batches.segment[after])
    last_offset = int(batches.base_offset[after]) - 1
    if position.before is None:
        return OffsetGap(state.local_log_start_offset, last_offset, segment, is_between_segments=False)
    first_offset = int(batches.last_offset[position.before]) + 1
    is_between_segments = int(batches.segment[position.before]) != segment
    return OffsetGap(first_offset, last_offset, segment, is_between_segments)


def why_no_batch(state: PartitionState, offset: int, position: OffsetPosition, batches: BatchColumns) -> Reason:
    """Return why no batch spans an offset.

    Args:
        state: the partition.
        offset: the offset.
        position: where it is.
        batches: the batches that the position refers to.
    """
    offset_gap = offset_gap_around(state, position, batches)
    missing = f"no batch contains {_offsets(offset_gap.first_offset, offset_gap.last_offset)}"
    damage = _damage_between(state, position, batches)
    if damage is not None:
        segment, row = damage
        name = file_name(state.partition.segments[segment].path)
        return Reason(RecordStatus.DAMAGED, f"{missing}, and {_unreadable(name, row)}", APPROXIMATE)
    may_lack_segment = offset_gap.is_between_segments or position.before is None
    written_ms = int(batches.max_timestamp[position.after or 0])
    compaction = _compaction(state, offset, written_ms, offset_gap if may_lack_segment else None)
    if compaction is not None:
        return Reason(RecordStatus.COMPACTED, f"{missing}: {compaction.why}", compaction.exactness)
    is_segment_missing = offset_gap.is_between_segments and _precedes_segment(state, offset_gap)
    segment_missing = "; a segment is missing" if is_segment_missing else ""
    return Reason(RecordStatus.LOST, f"{missing}{segment_missing}, and {_uncompacted(state)}", _loss_exactness(state))


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _precedes_segment(state: PartitionState, offset_gap: OffsetGap) -> bool:
    return (state.partition.segments[offset_gap.segment].base_offset or 0) > offset_gap.first_offset


def _damage_between(
    state: PartitionState, position: OffsetPosition, batches: BatchColumns
) -> tuple[int, Damage] | None:
    """Return the segment and the unreadable bytes between the batches on both sides of an offset gap."""
    before, start = position.before, (0, 0)
    if before is not None:
        start = int(batches.segment[before]), int(batches.position[before] + batches.size[before])
    end = int(batches.segment[position.after or 0]), int(batches.position[position.after or 0])
    for segment, damage in state.log.damage:
        # Zeros after the last batch of a segment are preallocated space that was never written to.
        if start <= (segment, damage.start) < end and damage.reason != "zero-tail":
            return segment, damage
    return None


@dataclass(frozen=True, slots=True)
class _Compaction:
    """What shows that the cleaner removed a record."""

    why: str
    exactness: Exactness


def _compaction(
    state: PartitionState, offset: int, written_ms: int, missing: OffsetGap | None = None
) -> _Compaction | None:
    """Return what shows that the cleaner removed a record, None if nothing does.

    Args:
        state: the partition.
        offset: offset of the record.
        written_ms: when its batch, or the one after it, was written, in ms.
        missing: the offset gap that contains it, if that may be a lost segment.
    """
    dirty = state.first_dirty_offset
    if dirty is not None and offset < dirty:
        return _Compaction(f"the log is compacted up to offset {dirty} according to the cleaner checkpoint", EXACT)
    if offset < state.first_uncleaned_offset:
        return _Compaction("the log around it is compacted", APPROXIMATE)
    reason = (
        compacted_elsewhere(state, offset, written_ms)
        if missing is None
        else compacted_by_leader(state, missing.first_offset, missing.last_offset, written_ms)
    )
    if reason is None:
        return None
    why = f"this replica probably fetched it from a leader that had compacted it, because {reason}"
    return _Compaction(why, APPROXIMATE)


def _uncompacted(state: PartitionState) -> str:
    if state.is_known_uncleaned:
        return "the log was never compacted according to the cleaner checkpoint"
    if state.first_dirty_offset is not None:
        return f"the cleaner only reached offset {state.first_dirty_offset} according to its checkpoint"
    return "nothing shows that the log was compacted"


def _loss_exactness(state: PartitionState) -> Exactness:
    return EXACT if state.is_known_uncleaned else APPROXIMATE


def why_no_record(state: PartitionState, offset: int, batch: StoredBatch, damage: Damage | None) -> Reason:
    """Return why the batch that spans an offset does not contain its record.

    Args:
        state: the partition.
        offset: the offset.
        batch: the batch.
        damage: why some of its records cannot be read, None if all can.
    """
    header = batch.header
    if damage is not None:
        why = f"the records of its batch are unreadable: {damage.detail} ({damage.reason})"
        return Reason(RecordStatus.DAMAGED, why)
    if header.is_control and header.count == 0:
        why = "the cleaner emptied this control batch: it was the marker of a transaction that is cleaned away"
        return Reason(RecordStatus.COMPACTED, why)
    content = "other records" if header.count else "no record"
    contains = f"its batch spans {_offsets(batch.base_offset, header.last_offset)} but contains {content}"
    if header.delete_horizon_ms is not None:
        return Reason(RecordStatus.COMPACTED, f"{contains}: the cleaner rewrote it and set its delete horizon")
    compaction = _compaction(state, offset, header.max_timestamp)
    if compaction is not None:
        return Reason(RecordStatus.COMPACTED, f"{contains}: {compaction.why}", compaction.exactness)
    return Reason(RecordStatus.NOT_IN_BATCH, f"{contains}, and {_uncompacted(state)}", _loss_exactness(state))
