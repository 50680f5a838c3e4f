"""Groups the faults of the offset and time indexes of a partition by index and kind, to report each of these once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.observations import Observed, observations_of
from kforensics.forensics.partition.index_entries import IndexFault, IndexFaultArray
from kforensics.forensics.partition.index_evidence import SegmentEvidence
from kforensics.forensics.partition.partition_files import RECOVERY_POINT
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.truncated_indexes import last_truncated_to, unfitting_end
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import file_name, forbidden
from kforensics.parsers.format.array_types import BoolArray
from kforensics.parsers.state.indexes import TIME_ENTRY

__all__ = ["FaultyIndex", "faulty_indexes", "index_finding"]

UNCLEAN = "broker crashed, or was running while the files were copied: "
REBUILT = UNCLEAN + "not ruled out; the broker rebuilds this index at its next start"
AHEAD = (
    "index copied after the log, while the broker was running, or entry left from before the log was truncated: "
    "possible; the broker rebuilds this index at its next start"
)
LEFT_OVER = "entry left from before the log was truncated: possible; the broker rebuilds this index at its next start"
STALE = "entries left from before the log was truncated: likely; the broker rebuilds this index at its next start"
LOST = "end of the segment lost: likely, offsets are missing after it"
REPLACED = "copied while the cleaner of the running broker replaced the segment: not ruled out"
# Observations of log offsets that explain why index entries do not match the log, and the codes of their findings.
OFFSET_CAUSES = {Observed.OFFSET_NOT_MONOTONIC: "offset-not-monotonic", Observed.OFFSET_OVERLAP: "offset-overlap"}
# Damage at the end of a log that nothing was ever written to, or was no longer written to.
NOTHING_WRITTEN = ("zero-tail", "zeros")


@dataclass(frozen=True, slots=True)
class FaultyIndex:
    """An index, and a fault that some of its entries have.

    Attributes:
        file: the index.
        segment: number of its segment.
        fault: what is wrong.
        first: INDEX_FAULT row of the first of these entries.
        count: number of these entries, as far as they were kept.
        last_offset: the largest of their offsets.
        more: how many faults of the category were not kept; set for the last index only.
    """

    file: FoundFile
    segment: int
    fault: IndexFault
    first: np.void
    count: int
    last_offset: int
    more: int = 0

    @property
    def name(self) -> str:
        """Name of the file."""
        return file_name(self.file.path)

    def __getitem__(self, name: str) -> int:
        """Return a field of the first entry's INDEX_FAULT row."""
        return int(self.first[name])

    @property
    def others(self) -> str:
        """A sentence about the other entries, empty if there are none."""
        if self.count == 1:
            return ""
        return f" {self.count - 1} more of its entries have the same fault, up to offset {self.last_offset}."


def faulty_indexes(state: PartitionState, rows: IndexFaultArray, count: int) -> Iterator[FaultyIndex]:
    """Yield the faults of a category by index and kind, in log order.

    Entries that refer to a damaged batch are left out: the fault is in the log.

    Args:
        state: the partition.
        rows: INDEX_FAULT rows that were kept.
        count: total number of faults.
    """
    more = count - len(rows)
    rows = rows[~_in_damage(state, rows)]
    groups = [
        _faulty(state, segment, fault, rows[[row for _, _, row in members]])
        for (segment, fault), members in groupby(sorted(_keys(rows)), key=lambda key: key[:2])
    ]
    if groups:
        groups[-1] = replace(groups[-1], more=more)
    yield from groups


def _keys(rows: IndexFaultArray) -> Iterator[tuple[int, int, int]]:
    for row, (segment, fault) in enumerate(zip(rows["segment"].tolist(), rows["fault"].tolist(), strict=True)):
        yield segment, fault, row


def _faulty(state: PartitionState, segment: int, fault: int, rows: IndexFaultArray) -> FaultyIndex:
    base = state.partition.segments[segment].base_offset or 0
    files = state.partition.time_indexes if rows["is_time"][0] else state.partition.indexes
    return FaultyIndex(files[base], segment, IndexFault(fault), rows[0], len(rows), int(rows["offset"].max()))


def _in_damage(state: PartitionState, rows: IndexFaultArray) -> BoolArray:
    inside = np.zeros(len(rows), bool)
    beyond = rows["fault"] == IndexFault.BEYOND_LOG
    if beyond.any():
        for segment, damage in state.log.damage:
            if damage.reason not in NOTHING_WRITTEN and damage.inside_batch is None:
                in_segment = beyond & (rows["segment"] == segment)
                inside |= in_segment & (rows["value"] >= damage.start) & (rows["value"] < damage.end)
    return inside


def index_finding(state: PartitionState, code: Code, faulty: FaultyIndex, message: str, severity: Severity) -> Finding:
    """Return the finding for some entries of an index, less severe if the broker will rebuild the index anyway.

    Args:
        state: the partition.
        code: code of the finding.
        faulty: the index and its entries.
        message: a sentence about the first of them.
        severity: severity if there is no benign cause.
    """
    if faulty.fault is IndexFault.UNREADABLE and (error := forbidden(faulty.file.path)):
        return state.forbidden(code, error.path, error.why)
    is_rebuilt = _is_rebuilt(state, faulty.segment)
    origin = _origin(state, faulty) if is_rebuilt else None
    is_replaced = _may_be_replaced(state, faulty)
    less = Severity(max(severity - 1, Severity.INFO)) if is_rebuilt else severity
    is_lost = _is_of_lost_batches(state, faulty)
    less = Severity.INFO if origin or is_replaced or is_lost else less
    evidence: dict[str, object] = {"entries": faulty.count}
    first = faulty["offset"]
    finding = state.finding(
        code,
        message + faulty.others,
        severity=less,
        offsets=(first, faulty.last_offset) if first >= 0 else None,
        evidence=evidence | ({"left_out": faulty.more} if faulty.more else {}),
        exactness=Exactness.UNVERIFIABLE if faulty.fault is IndexFault.UNREADABLE else Exactness.EXACT,
        benign=(
            origin or _whether_rebuilt(state, faulty.segment),
            *([REPLACED] if is_replaced else []),
            *([LOST] if is_lost else []),
        ),
        cause="segment-missing" if is_lost else _cause(state, faulty),
    )
    return replace(finding, path=faulty.file.path, position=faulty["position"])


def _cause(state: PartitionState, faulty: FaultyIndex) -> str | None:
    """Return the code of the finding about the log itself that may explain entries that do not match it."""
    if faulty.fault >= IndexFault.NO_BATCH_BEGINS:
        for kind, code in OFFSET_CAUSES.items():
            observations = observations_of(state.log.observations, kind)
            if (observations["segment"] == faulty.segment).any():
                return code
    return None


def _is_rebuilt(state: PartitionState, segment: int) -> bool:
    """Return whether a broker that starts with these files recovers the segment. Rule: ``LogLoader.recoverLog``.

    If only a partition was copied, its last segment shows whether the broker was running.
    """
    log_dir, segments = state.partition.log_dir, state.partition.segments
    is_last = segment == len(segments) - 1
    if log_dir.clean_shutdown:
        return False
    if RECOVERY_POINT not in log_dir.checkpoints:
        return is_last and _is_preallocated(state, segment)
    recovery_point = state.partition.checkpoint(RECOVERY_POINT) or 0
    return is_last or (segments[segment + 1].base_offset or 0) > recovery_point


def _is_preallocated(state: PartitionState, segment: int) -> bool:
    """Return whether both indexes of a segment have the size that those of an active segment have, the same for both.

    A broker cuts them to their entries when it closes the segment, also when it is shut down. Rule:
    ``AbstractIndex.trimToValidSize``; the size is ``segment.index.max.bytes``, rounded down to whole entries.
    """
    evidence, base = SegmentEvidence.of(state.partition, segment), state.partition.segments[segment].base_offset or 0
    files = state.partition.indexes.get(base), state.partition.time_indexes.get(base)
    sizes = [file.size for file in files if file is not None]
    ends = [int(entries.positions[-1]) if len(entries) else 0 for entries in (evidence.offsets, evidence.times)]
    is_same = len(sizes) == len(files) and abs(sizes[0] - sizes[1]) < TIME_ENTRY.size
    return is_same and all(size - end >= 2 * TIME_ENTRY.size for size, end in zip(sizes, ends, strict=True))


def _may_be_replaced(state: PartitionState, faulty: FaultyIndex) -> bool:
    """Return whether the index and the log may be from before and after a cleaning; both are intact then.

    Neither the checkpoint nor the last segment of a copy shows how far a cleaning had come that went on meanwhile. The
    first cleaning of a log shows in an index with entries for the next segment, which it has merged with its own.
    """
    following = state.partition.segments[faulty.segment + 1 : faulty.segment + 2]
    is_merged = state.was_deleting_files and any(faulty.last_offset >= (one.base_offset or 0) for one in following)
    return faulty.fault >= IndexFault.NO_BATCH_BEGINS and (state.may_be_cleaned_in_copy or is_merged)


def _is_of_lost_batches(state: PartitionState, faulty: FaultyIndex) -> bool:
    """Return whether entries are about what is missing at the end of their segment, which may have been cut off."""
    is_beyond = faulty.fault in {IndexFault.BEYOND_LOG, IndexFault.OFFSET_NOT_IN_LOG}
    return is_beyond and faulty.segment in state.log_gaps.incomplete.tolist()


def _origin(state: PartitionState, faulty: FaultyIndex) -> str | None:
    """Return why entries of a sound broker's index may not fit the log, None if nothing shows that."""
    if _is_stale(state, faulty):
        return STALE
    if _is_ahead(state, faulty):
        return AHEAD
    return LEFT_OVER if _is_left_over(state, faulty) else None


def _is_ahead(state: PartitionState, faulty: FaultyIndex) -> bool:
    """Return whether entries of the active segment's index refer to what follows the end of the log, as copied."""
    is_later = faulty.fault is IndexFault.OFFSET_NOT_IN_LOG and faulty["offset"] >= state.log_end_offset
    return faulty.segment == len(state.partition.segments) - 1 and (faulty.fault is IndexFault.BEYOND_LOG or is_later)


def _is_left_over(state: PartitionState, faulty: FaultyIndex) -> bool:
    """Return whether entries of the active segment's offset index are about batches that are no longer in the log.

    A truncated index keeps the bytes of its last entries. While it runs, a broker knows how many entries count; after a
    crash the file does not show that. Rule: ``AbstractIndex.truncateToEntries``.
    """
    return (
        faulty.segment == len(state.partition.segments) - 1
        and faulty.fault in {IndexFault.NO_BATCH_BEGINS, IndexFault.NO_BATCH_ENDS}
        and faulty["offset"] >= state.log_end_offset
    )


def _is_stale(state: PartitionState, faulty: FaultyIndex) -> bool:
    """Return whether entries are of the last ones of the active segment's index, which a truncation left there.

    The log has grown since, beyond the first of these. Either it has not reached the last, or a truncation to before
    the first of them shows. An entry that fits was written after those before it, so none of these does.
    """
    if faulty.segment != len(state.partition.segments) - 1 or state.index_faults is None:
        return False
    fitting, offsets, positions = unfitting_end(state, faulty.segment, is_time=bool(faulty.first["is_time"]))
    if not offsets or faulty["position"] < positions[0] or offsets[0] >= state.log_end_offset:
        return False
    truncated_to = last_truncated_to(state)
    is_outgrown = truncated_to is not None and truncated_to <= offsets[0]
    return is_outgrown or (fitting > 0 and offsets[-1] >= state.log_end_offset)


def _whether_rebuilt(state: PartitionState, segment: int) -> str:
    if _is_rebuilt(state, segment):
        return REBUILT
    return UNCLEAN + _why_not_rebuilt(state)


def _why_not_rebuilt(state: PartitionState) -> str:
    if state.partition.log_dir.clean_shutdown:
        return "no, it was shut down cleanly"
    if RECOVERY_POINT not in state.partition.log_dir.checkpoints:
        return "unknown, because there is no recovery point"
    return "irrelevant, because this segment had been flushed"
