"""What is wrong with the indexes of a case, one row per index and kind of fault, ready for a sentence each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity
from kforensics.forensics.core.observations import Noticed, of_kind
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.partition.index_entries import Fault
from kforensics.forensics.partition.partition_files import RECOVERY_POINT
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import file_name

__all__ = ["FaultyIndex", "faulty_indexes", "index_finding"]

UNCLEAN = "the broker crashed, or ran while the files were copied: "
REBUILT = UNCLEAN + "not ruled out, and its next start rebuilds this index"
OFFSETS_ASTRAY = {Noticed.OFFSET_NOT_MONOTONIC: "offset-not-monotonic", Noticed.OFFSET_OVERLAP: "offset-overlap"}
# What stands at the end of a log that nobody ever wrote to, or that was written to no further.
NOTHING_WRITTEN = ("zero-tail", "zeros")


@dataclass(frozen=True, slots=True)
class FaultyIndex:
    """An index, and what is wrong with some of its entries.

    Attributes:
        found: the file.
        segment: number of its segment.
        fault: what is wrong.
        first: FAULT row of the first of the entries.
        count: how many there are, as far as they were kept.
        last_offset: largest offset of them.
        more: how many faults of the family were not kept; told with the last row only.
    """

    found: FoundFile
    segment: int
    fault: Fault
    first: np.void
    count: int
    last_offset: int
    more: int = 0

    @property
    def name(self) -> str:
        """Name of the file."""
        return file_name(self.found.path)

    def __getitem__(self, name: str) -> int:
        """Return a number of the first entry."""
        return int(self.first[name])

    @property
    def others(self) -> str:
        """A sentence about the other entries, empty if there are none."""
        if self.count == 1:
            return ""
        return f" The same holds for {self.count - 1} more of its entries, up to offset {self.last_offset}."


def faulty_indexes(case: Case, rows: Records, count: int) -> Iterator[FaultyIndex]:
    """Yield FAULT rows of a family by index and kind, in the order of the log.

    Entries that speak of a batch which is damaged are left out: the fault is the log's.

    Args:
        case: whose they are.
        rows: those that were kept.
        count: how many there were.
    """
    more = count - len(rows)
    rows = rows[~_in_damage(case, rows)]
    groups = [
        _faulty(case, segment, fault, rows[[at for _, _, at in members]])
        for (segment, fault), members in groupby(sorted(_keys(rows)), key=lambda key: key[:2])
    ]
    if groups:
        groups[-1] = replace(groups[-1], more=more)
    yield from groups


def _keys(rows: Records) -> Iterator[tuple[int, int, int]]:
    for at, (segment, fault) in enumerate(zip(rows["segment"].tolist(), rows["fault"].tolist(), strict=True)):
        yield segment, fault, at


def _faulty(case: Case, segment: int, fault: int, rows: Records) -> FaultyIndex:
    base = case.partition.segments[segment].base_offset or 0
    files = case.partition.time_indexes if rows["is_time"][0] else case.partition.indexes
    return FaultyIndex(files[base], segment, Fault(fault), rows[0], len(rows), int(rows["offset"].max()))


def _in_damage(case: Case, rows: Records) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    inside = np.zeros(len(rows), bool)
    beyond = rows["fault"] == Fault.BEYOND_LOG
    if beyond.any():
        for segment, damage in case.log.damage:
            if damage.reason not in NOTHING_WRITTEN and damage.inside_batch is None:
                here = beyond & (rows["segment"] == segment)
                inside |= here & (rows["value"] >= damage.start) & (rows["value"] < damage.end)
    return inside


def index_finding(case: Case, code: Code, faulty: FaultyIndex, message: str, severity: Severity) -> Finding:
    """Return the finding for some entries of an index, less severe where the broker rebuilds it anyway.

    Args:
        case: whose index it is.
        code: kind of finding.
        faulty: the entries.
        message: about the first of them.
        severity: as long as nothing excuses it.
    """
    is_rebuilt = _is_rebuilt(case, faulty.segment)
    evidence: dict[str, object] = {"entries": faulty.count}
    first = faulty["offset"]
    finding = case.finding(
        code,
        message + faulty.others,
        severity=Severity(max(severity - 1, Severity.INFO)) if is_rebuilt else severity,
        offsets=(first, faulty.last_offset) if first >= 0 else None,
        evidence=evidence | ({"left_out": faulty.more} if faulty.more else {}),
        exactness=Exactness.UNVERIFIABLE if faulty.fault is Fault.UNREADABLE else Exactness.EXACT,
        benign=(REBUILT if is_rebuilt else UNCLEAN + _why_not_rebuilt(case),),
        cause=_cause(case, faulty),
    )
    return replace(finding, path=faulty.found.path, position=faulty["position"])


def _cause(case: Case, faulty: FaultyIndex) -> str | None:
    """Return the code of what may be wrong with the log itself, where entries do not fit it."""
    if faulty.fault >= Fault.NO_BATCH_BEGINS:
        for kind, code in OFFSETS_ASTRAY.items():
            notes = of_kind(case.log.notes, kind)
            if (notes["segment"] == faulty.segment).any():
                return code
    return None


def _is_rebuilt(case: Case, segment: int) -> bool:
    """Whether a broker that starts here recovers the segment. Rule: ``LogLoader.recoverLog``."""
    log_dir = case.partition.log_dir
    if log_dir.clean_shutdown or RECOVERY_POINT not in log_dir.checkpoints:
        return False
    segments = case.partition.segments
    recovery_point = case.partition.checkpoint(RECOVERY_POINT) or 0
    return segment == len(segments) - 1 or (segments[segment + 1].base_offset or 0) > recovery_point


def _why_not_rebuilt(case: Case) -> str:
    if case.partition.log_dir.clean_shutdown:
        return "no, it was shut down in order"
    if RECOVERY_POINT not in case.partition.log_dir.checkpoints:
        return "not known, for there is no recovery point"
    return "no matter, this segment had been flushed"
