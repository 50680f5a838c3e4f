"""Why a record is missing where the log could hold one.

Rule: a leader gives every record the offset behind the one before (``UnifiedLog.append``); only the cleaner takes some
out again, and retention and DeleteRecords take the head of a log.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.explain.lookup import Found
from kforensics.forensics.explain.offset_story import Fate, Hole, StoredBatch
from kforensics.forensics.partition.partition_files import LOG_START
from kforensics.forensics.partition.partition_state import Case, who_else_cleaned
from kforensics.forensics.sidecar.isolation import partition_of
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import file_name
from kforensics.parsers.format.rows import Damage

__all__ = ["Reason", "Unnamed", "hole_around", "out_of_bounds", "why_no_batch", "why_no_record"]

EXACT, APPROXIMATE, UNVERIFIABLE = Exactness.EXACT, Exactness.APPROXIMATE, Exactness.UNVERIFIABLE


@dataclass(frozen=True, slots=True)
class Reason:
    """Why an offset is as it is.

    Attributes:
        fate: what became of it.
        why: half a sentence.
        exactness: how far that can be trusted.
    """

    fate: Fate
    why: str
    exactness: Exactness = EXACT


class Unnamed:
    """Segments that lie in the folder of a partition and are not among those on hand: nobody named them.

    The folder is looked into when it is asked for the first time.

    Args:
        case: the partition.
    """

    def __init__(self, case: Case) -> None:
        self._case = case

    @cached_property
    def _all(self) -> dict[int, FoundFile]:
        segments = self._case.partition.segments
        beside = partition_of(segments[0]) if segments else None
        return {one.base_offset or 0: one for one in (*segments, *(beside.segments if beside else ()))}

    def reason(self, offset: int) -> Reason | None:
        """Return why an offset is not on hand, if by its name such a segment may hold it; else None."""
        base = max((one for one in self._all if one <= offset), default=None)
        if base is None or base in {one.base_offset or 0 for one in self._case.partition.segments}:
            return None
        name = file_name(self._all[base].path)
        why = f"it may be in {name}, which lies beside what was named; name the folder of the partition"
        return Reason(Fate.NOT_ON_HAND, why, UNVERIFIABLE)


def out_of_bounds(case: Case, offset: int) -> Reason | None:
    """Return why an offset is outside the log, None if it is not."""
    if offset >= case.log_end_offset:
        return _beyond(case)
    first = case.partition.first_offset
    if offset < first and offset >= _told_start(case):
        why = (
            f"the log begins at offset {_told_start(case)} as its checkpoint says, and the files on hand at {first}:"
            " the rest is in remote storage, or was not copied"
        )
        return Reason(Fate.NOT_ON_HAND, why, UNVERIFIABLE)
    return _deleted(case, offset) if offset < case.log_start_offset else None


def _deleted(case: Case, offset: int) -> Reason:
    moved = f"retention or DeleteRecords has moved the log start offset to {case.log_start_offset}"
    if offset >= case.partition.first_offset:
        return Reason(Fate.DELETED, f"{moved}; its bytes are still on disk")
    if LOG_START in case.partition.log_dir.checkpoints:
        return Reason(Fate.DELETED, f"{moved}; its segment is gone")
    why = f"the files on hand begin at offset {case.log_start_offset}, and {LOG_START} is not there to tell why"
    return Reason(Fate.DELETED, why, APPROXIMATE)


def _told_start(case: Case) -> int:
    """Return where the log begins as the checkpoint has it; without one, where its first segment does."""
    told = case.partition.checkpoint(LOG_START)
    return case.partition.first_offset if told is None else told


def _beyond(case: Case) -> Reason:
    last = len(case.partition.segments) - 1
    torn = [row for segment, row in case.log.damage if segment == last and row.next_good_position is None]
    lost = [row for row in torn if row.inside_batch is None and row.reason != "zero-tail"]
    if not lost:
        return Reason(Fate.BEYOND_END, f"the log ends at offset {case.log_end_offset}")
    name = file_name(case.partition.segments[last].path)
    why = f"what can be read of the log ends at offset {case.log_end_offset}; behind it, {_bytes(name, lost[0])}"
    return Reason(Fate.BEYOND_END, why, APPROXIMATE)


def _bytes(name: str, damage: Damage) -> str:
    return f"bytes {damage.start:#x} to {damage.end:#x} of {name} cannot be read ({damage.reason})"


def hole_around(case: Case, found: Found, batches: BatchColumns) -> Hole:
    """Return the offsets that no batch spans, around one that was not found.

    Args:
        case: the partition.
        found: where the offset is; a batch stands behind it.
        batches: what that speaks of.
    """
    after = found.after or 0
    segment = int(batches.segment[after])
    is_first = found.before is None
    first = case.log_start_offset if found.before is None else int(batches.last_offset[found.before]) + 1
    between = not is_first and int(batches.segment[found.before]) != segment
    return Hole(first, int(batches.base_offset[after]) - 1, segment, between)


def why_no_batch(case: Case, offset: int, found: Found, batches: BatchColumns) -> Reason:
    """Return why no batch spans an offset.

    Args:
        case: the partition.
        offset: the offset.
        found: where it is.
        batches: what that speaks of.
    """
    hole = hole_around(case, found, batches)
    missing = f"no batch holds {_offsets(hole.first_offset, hole.last_offset)}"
    damage = _damage_between(case, found, batches)
    if damage is not None:
        segment, row = damage
        name = file_name(case.partition.segments[segment].path)
        return Reason(Fate.DAMAGED, f"{missing}, and {_bytes(name, row)}", APPROXIMATE)
    cleaned = _cleaned(case, offset)
    if cleaned is not None:
        return Reason(Fate.COMPACTED, f"{missing}: {cleaned.why}", cleaned.exactness)
    where = "; a segment is missing" if hole.is_between_segments and _starts_behind(case, hole) else ""
    return Reason(Fate.LOST, f"{missing}{where}, and {_never_cleaned(case)}", _of_loss(case))


def _offsets(first: int, last: int) -> str:
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


def _starts_behind(case: Case, hole: Hole) -> bool:
    return (case.partition.segments[hole.segment].base_offset or 0) > hole.first_offset


def _damage_between(case: Case, found: Found, batches: BatchColumns) -> tuple[int, Damage] | None:
    """Return the bytes that cannot be read between the batches around a hole."""
    before = (0, 0)
    if found.before is not None:
        at = found.before
        before = int(batches.segment[at]), int(batches.position[at] + batches.size[at])
    after = int(batches.segment[found.after or 0]), int(batches.position[found.after or 0])
    between = ((segment, row) for segment, row in case.log.damage if before <= (segment, row.start) < after)
    # Zeros behind the last batch of a segment were reserved for it and never written to.
    return next((one for one in between if one[1].reason != "zero-tail"), None)


@dataclass(frozen=True, slots=True)
class _Cleaned:
    why: str
    exactness: Exactness


def _cleaned(case: Case, offset: int) -> _Cleaned | None:
    """Return what shows that the cleaner took a record, None if nothing does."""
    dirty = case.first_dirty_offset
    if dirty is not None and offset < dirty:
        return _Cleaned(f"the cleaner was there, as its checkpoint says, which is at offset {dirty}", EXACT)
    if offset < case.strict_from:
        return _Cleaned("what is left around it shows that the cleaner was there", APPROXIMATE)
    fetched = who_else_cleaned(case)
    if fetched is None:
        return None
    return _Cleaned(f"likely it was fetched from a leader that had cleaned it, for {fetched}", APPROXIMATE)


def _never_cleaned(case: Case) -> str:
    if case.is_known_uncleaned:
        return "the cleaner has never been here, as its checkpoint says"
    return "nothing shows that the cleaner has been here"


def _of_loss(case: Case) -> Exactness:
    return EXACT if case.is_known_uncleaned else APPROXIMATE


def why_no_record(case: Case, offset: int, batch: StoredBatch, damage: Damage | None) -> Reason:
    """Return why a batch that spans an offset holds no record of it.

    Args:
        case: the partition.
        offset: the offset.
        batch: the batch.
        damage: why some of its records cannot be read, None if they all can.
    """
    header = batch.header
    if damage is not None:
        return Reason(Fate.DAMAGED, f"the records of its batch cannot be read: {damage.detail} ({damage.reason})")
    spans = f"its batch spans {_offsets(batch.base_offset, header.last_offset)}"
    if header.is_control and header.count == 0:
        why = "the cleaner emptied the control batch here: the marker of a transaction that was cleaned away"
        return Reason(Fate.COMPACTED, why)
    holds = f"{spans} and holds {'no record' if not header.count else 'other records'}"
    if header.delete_horizon_ms is not None:
        return Reason(Fate.COMPACTED, f"{holds}: the cleaner has rewritten it and set its delete horizon")
    cleaned = _cleaned(case, offset)
    if cleaned is not None:
        return Reason(Fate.COMPACTED, f"{holds}: {cleaned.why}", cleaned.exactness)
    return Reason(Fate.NOT_IN_BATCH, f"{holds}, and {_never_cleaned(case)}", _of_loss(case))
