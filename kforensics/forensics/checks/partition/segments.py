"""Whether the segments of a partition stand side by side: each begins where the one before it ends.

Rule: ``UnifiedLog.roll`` names a segment after the log end offset. In front of the first one anything may be missing:
deleted, or on remote storage.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.checks.partition.damage import code_of
from kforensics.forensics.core.aggregation import first_findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.partition.partition_files import CLEANER
from kforensics.forensics.partition.partition_state import Case, who_else_cleaned
from kforensics.parsers.files.discover import FoundFile

__all__ = ["CODES", "findings"]

CODES = codes("""
segment-missing critical
Between two segments offsets are missing: a segment is not there, or not all of one.
Restore it from another replica of {topic}-{partition}, or build this one again.
why: Consumers go from the last record before the hole to the first one behind it, without an error. A segment was \
deleted by hand, not copied, or lost with its file system.
innocent: The segment was being deleted when the files were copied. A cleaner emptied the end of a segment. Remote \
storage takes segments from the front only, so it explains none in the middle.

segment-overlap critical
A segment holds offsets that belong to the segment behind it.
This replica cannot be used from here on: let it be built again from the leader.
why: Segments are disjoint. After a crash in the middle of a cleaning both old and new files can be there, and a \
broker that starts sorts them out by rules; if it did not, the log has two versions of the same offsets.
innocent: An interrupted cleaning or splitting, with its .swap and .cleaned files beside it. The files of a running \
broker were copied while its cleaner put new segments in the place of old ones.

segment-base-mismatch error
A segment begins below the offset in its name.
See whether the file was renamed when it was copied; if not, build the replica again.
why: A segment is named after its first offset. Where data begins below, a lookup by offset goes to the wrong file and \
misses it.
innocent: The file was renamed, by hand or by a restore. To begin above the name is in order, and no finding.
""")

# Files of a cleaning or a splitting that was interrupted; at its next start the broker ends it or undoes it.
UNFINISHED = ("cleaned", "swap")


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Offsets of all segments, by their number.

    Attributes:
        base: the one in the name.
        first: of the first batch; that in the name where there is none.
        highest: the largest; one below the name where there is no batch.
        reached: the largest so far, this segment included.
    """

    base: Any
    first: Any
    highest: Any
    reached: Any

    @classmethod
    def of(cls, case: Case) -> _Bounds:
        base = np.array([segment.base_offset or 0 for segment in case.partition.segments], "i8")
        first, highest = base.copy(), base - 1
        filled = case.log.segments["segment"]
        first[filled] = case.log.segments["first_offset"]
        highest[filled] = case.log.segments["highest_offset"]
        return cls(base, first, highest, np.maximum.accumulate(highest))


def findings(case: Case) -> Iterator[Finding]:
    """Yield where segments of a partition do not go together."""
    if not case.partition.segments:
        return
    bounds = _Bounds.of(case)
    renamed = np.flatnonzero(bounds.first < bounds.base)
    yield from first_findings((_base_mismatch(case, bounds, at) for at in renamed.tolist()), len(renamed))
    overlapped = np.flatnonzero(bounds.highest[:-1] >= bounds.base[1:])
    yield from first_findings((_overlap(case, bounds, at) for at in overlapped.tolist()), len(overlapped))
    missing = _borders_with_holes(case, bounds)
    yield from first_findings((_missing(case, bounds, at) for at in missing.tolist()), len(missing))


def _borders_with_holes(case: Case, bounds: _Bounds) -> Any:
    """Return the segments behind which offsets are missing that no cleaner can have taken."""
    begins = np.minimum(bounds.base, bounds.first)[1:]
    holes = (begins > bounds.reached[:-1]) & (begins - bounds.reached[:-1] != 1)
    if not _knows_cleaner(case):
        # Only what is cleaned nowhere is taken for a log that is never cleaned.
        return np.flatnonzero(holes & (case.log.cleaned_to == -1))
    return np.flatnonzero(holes & (bounds.base[:-1] >= case.strict_from))


def _knows_cleaner(case: Case) -> bool:
    return CLEANER in case.partition.log_dir.checkpoints


def _base_mismatch(case: Case, bounds: _Bounds, at: int) -> Finding:
    first, base = int(bounds.first[at]), int(bounds.base[at])
    follows = at > 0 and first == int(bounds.reached[at - 1]) + 1
    continues = "likely, its first batch follows the segment before it" if follows else "possible"
    return case.finding(
        CODES["segment-base-mismatch"],
        f"The first batch begins at offset {first}, below {base}, which the segment is named after.",
        at=(at, 0),
        offsets=(first, base - 1),
        evidence={"base_offset": base},
        benign=(f"a file that was renamed: {continues}",),
    )


def _overlap(case: Case, bounds: _Bounds, at: int) -> Finding:
    base, highest = int(bounds.base[at + 1]), int(bounds.highest[at])
    unfinished = [found for found in _others(case, *UNFINISHED) if (found.base_offset or 0) <= base]
    what = "an interrupted cleaning or splitting"
    outcome = (
        f"likely, {len(unfinished)} files of one lie beside it" if unfinished else "ruled out, no file of one lies here"
    )
    replaced = _may_be_of_two_cleanings(case, base)
    is_explained = bool(unfinished) or replaced
    return case.finding(
        CODES["segment-overlap"],
        f"The segment reaches to offset {highest}; the next one begins at {base}.",
        severity=Severity.WARNING if is_explained else None,
        at=(at, 0),
        offsets=(base, highest),
        evidence={"next_base_offset": base, "unfinished": [found.path for found in unfinished]},
        exactness=Exactness.APPROXIMATE if is_explained else Exactness.EXACT,
        benign=(
            f"{what}: {outcome}",
            "copied from a running broker whose cleaner replaced segments meanwhile: "
            + ("likely, it has been here" if replaced else "ruled out"),
        ),
    )


def _may_be_of_two_cleanings(case: Case, base_offset: int) -> bool:
    """Return whether one of two segments may be a cleaned one that took the place of both after the other was copied.

    ``UnifiedLog.replaceSegments`` never leaves both to a broker that runs or was stopped in order.
    """
    return base_offset < case.strict_from and not case.partition.log_dir.clean_shutdown


def _missing(case: Case, bounds: _Bounds, at: int) -> Finding:
    first, last = int(bounds.reached[at]) + 1, int(bounds.first[at + 1]) - 1
    deleted = [found for found in _others(case, "deleted") if first <= (found.base_offset or 0) <= last]
    fetched = who_else_cleaned(case) if case.is_known_uncleaned else None
    outcome = f"likely, {len(deleted)} such files lie here" if deleted else "ruled out, no such file lies here"
    is_certain = case.is_known_uncleaned and not deleted and not fetched
    return case.finding(
        CODES["segment-missing"],
        f"Offsets {first} to {last}, {last - first + 1} in number, are missing behind the segment.",
        severity=Severity.WARNING if deleted or fetched else None,
        at=(at, case.partition.segments[at].size),
        offsets=(first, last),
        evidence={"missing": last - first + 1, "deleted": [found.path for found in deleted]},
        exactness=Exactness.EXACT if is_certain else Exactness.APPROXIMATE,
        benign=(
            "remote storage: ruled out, it takes segments from the front only",
            f"a segment renamed .deleted while it was copied: {outcome}",
            _cleaner(case, fetched),
        ),
        cause=_cause(case, at),
    )


def _cleaner(case: Case, fetched: str | None) -> str:
    if fetched:
        return f"a log fetched from a leader that had cleaned it: likely, {fetched}"
    if case.is_known_uncleaned:
        return "the cleaner: ruled out, its checkpoint does not name the partition"
    if _knows_cleaner(case):
        return f"the cleaner: ruled out, it came no further than offset {case.first_dirty_offset}"
    return "the cleaner: possible, its checkpoint is not here, but nothing else shows that it was"


def _cause(case: Case, at: int) -> str | None:
    """Return the code of damage at the end of a segment, which may have held what is missing."""
    rows = (row for segment, row in case.log.damage if segment == at and row.inside_batch is None)
    ends = (row for row in rows if row.next_good_position is None)
    return next(map(code_of, ends), None)


def _others(case: Case, *states: str) -> Iterator[FoundFile]:
    return (found for found in case.partition.others if found.kind == "log" and found.state in states)
