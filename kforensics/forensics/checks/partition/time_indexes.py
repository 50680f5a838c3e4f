"""Checks that each ``.timeindex`` file is a valid time index and that its entries match the log.

Rule: ``TimeIndex`` and ``LogSegment.onBecomeInactiveSegment`` of all releases; ``index_entry_faults`` states which
offset of a batch an entry may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.forensics.checks.check import Check
from kforensics.forensics.checks.partition.offset_indexes import INDEX_FAULTS, fault_sentence
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.partition.index_entries import IndexFault
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.sidecar.faulty_entries import FaultyIndex, faulty_indexes, index_finding

CODES = by_name(
    Code(
        "timeindex-mismatch",
        Severity.WARNING,
        meaning=(
            "A time index is not valid, or one of its entries does not match the log: lookups and retention by "
            "time go wrong."
        ),
        remedy=(
            "Stop the broker, copy the files, delete the .index next to {path} and start the broker: it "
            "rebuilds both indexes."
        ),
        why=(
            "offsetsForTimes and retention by time use the time index. Because of a wrong entry consumers start "
            "at a wrong offset, or a segment is deleted too early or never."
        ),
        benign=(
            "The cleaner, which removes records and recomputes timestamps. A kafka-dump-log.sh message that a "
            "timestamp was not found proves nothing."
        ),
    ),
)

CORRUPT = INDEX_FAULTS | {
    IndexFault.TRAILING_ZEROS: (
        "{name} ends with {found} zero bytes although its segment is closed: retention by time takes the segment for "
        "one of 1970."
    ),
    IndexFault.NOT_ASCENDING: (
        "{name}: the entry at byte {position} (timestamp {value}, offset {offset}) does not ascend from the previous "
        "entry."
    ),
}
ENTRY = "{name}: the entry at byte {position} gives {value} as the largest timestamp up to offset {offset}, "
MISMATCHES = {
    IndexFault.OTHER_TIMESTAMP: ENTRY + "but the batch with that offset has another maximum timestamp.",
    IndexFault.OFFSET_NOT_IN_LOG: ENTRY + "but no batch of the segment has that offset.",
    IndexFault.LARGER_BEFORE: ENTRY + "but an earlier batch of the segment has a larger one.",
    IndexFault.EMPTY: "{name} has no entry, but the closed segment has timestamps up to {found}.",
    IndexFault.NOT_LARGEST: ENTRY + "and is the last entry, but the closed segment has timestamps up to {found}.",
}
CLEANED = "cleaner removed records and lowered the timestamp of the batch: not ruled out, the segment was compacted"


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the time indexes, one finding for each file and kind of fault."""
    faults = state.index_faults
    if faults is None:
        return
    for faulty in faulty_indexes(state, faults.times, faults.counts[2]):
        # A broker creates an empty index if there is none, and then uses the modification time of the log file.
        is_harmless = faulty.fault is IndexFault.EMPTY or _is_of_empty_log(state, faulty)
        severity = Severity.INFO if is_harmless else Severity.WARNING
        message = fault_sentence(CORRUPT | MISMATCHES, faulty)
        finding = index_finding(state, CODES["timeindex-mismatch"], faulty, message, severity)
        yield _of_cleaned_segment(finding) if _may_be_cleaned(state, faulty) else finding


def _is_of_empty_log(state: PartitionState, faulty: FaultyIndex) -> bool:
    """Return whether an index was preallocated for a segment without a byte: nothing can be deleted too early.

    A copy into a folder of an earlier one leaves such a segment, if it was the active one at that time.
    """
    return faulty.fault is IndexFault.TRAILING_ZEROS and state.partition.segments[faulty.segment].size == 0


def _may_be_cleaned(state: PartitionState, faulty: FaultyIndex) -> bool:
    return faulty.fault in MISMATCHES and faulty.last_offset < state.first_uncompacted_offset


def _of_cleaned_segment(finding: Finding) -> Finding:
    return replace(
        finding,
        severity=Severity.INFO,
        exactness=Exactness.APPROXIMATE,
        benign=(*finding.benign, CLEANED),
    )


CHECK = Check("time_indexes", CODES, findings)
