"""Whether each ``.timeindex`` is one, and its entries fit the log.

Rule: ``TimeIndex`` and ``LogSegment.onBecomeInactiveSegment`` of all releases; which offset of a batch an entry may
name is said in ``time_index_evidence``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.partition.index_entries import Fault
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.sidecar.faulty_entries import FaultyIndex, faulty_indexes, index_finding

__all__ = ["CODES", "findings"]

CODES = codes("""
timeindex-mismatch warning
A time index is none, or one of its entries does not fit the log: lookups by time and retention by time go wrong.
Stop the broker, keep a copy, delete the .index beside {path} and start: the broker builds both indexes anew.
why: offsetsForTimes and retention by time go by the time index. A wrong entry makes consumers begin at a wrong place, \
or a segment go too early or never.
innocent: A cleaner, which takes records away and computes timestamps anew. A message of kafka-dump-log.sh that a \
timestamp was not found proves nothing.
""")

FILE_FAULTS = {
    Fault.UNREADABLE: "{name} cannot be read.",
    Fault.RAGGED: "{name} has {found} bytes, which is no whole number of entries.",
    Fault.ZEROS_BETWEEN: "{name} has entries of zeros before the one at byte {position}, where a search goes astray.",
    Fault.ZEROS_BEHIND: "{name} ends with {found} zero bytes although its segment is closed, so that the segment "
    "looks as old as 1970 to retention by time.",
    Fault.NOT_ASCENDING: "The entry at byte {position} of {name}, timestamp {value} at offset {offset}, does not "
    "ascend from the one before it.",
    Fault.BELOW_BASE: "The entry at byte {position} of {name} names offset {offset}, below the base offset of the "
    "segment.",
}
ENTRY = "The entry at byte {position} of {name} says that timestamp {value} is the largest up to offset {offset}, "
MISFITS = {
    Fault.OTHER_TIMESTAMP: ENTRY + "but the batch with that offset has another maximum timestamp.",
    Fault.OFFSET_NOT_IN_LOG: ENTRY + "but no batch of the segment has that offset.",
    Fault.LARGER_BEFORE: ENTRY + "but an earlier batch of the segment has a larger one.",
    Fault.EMPTY: "{name} has no entry, but the closed segment has timestamps up to {found}.",
    Fault.NOT_LARGEST: ENTRY + "and is the last one, but the closed segment has timestamps up to {found}.",
}
CLEANED = "the cleaner took records out of this batch and its timestamp fell: not ruled out, the segment was cleaned"


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the time indexes, one finding for each file and kind of fault."""
    faults = case.index_faults
    if faults is None:
        return
    for faulty in faulty_indexes(case, faults.times, faults.counts[2]):
        # A broker makes an empty one where it finds none, and then goes by the time at which the log was written to.
        severity = Severity.INFO if faulty.fault is Fault.EMPTY else Severity.WARNING
        finding = index_finding(case, CODES["timeindex-mismatch"], faulty, _sentence(faulty), severity)
        yield _eased(finding) if _may_be_cleaned(case, faulty) else finding


def _sentence(faulty: FaultyIndex) -> str:
    numbers = {name: faulty[name] for name in ("position", "offset", "value", "found")}
    return (FILE_FAULTS | MISFITS)[faulty.fault].format(name=faulty.name, **numbers)


def _may_be_cleaned(case: Case, faulty: FaultyIndex) -> bool:
    return faulty.fault in MISFITS and faulty.last_offset < case.strict_from


def _eased(finding: Finding) -> Finding:
    return replace(
        finding,
        severity=Severity.INFO,
        exactness=Exactness.APPROXIMATE,
        benign=(*finding.benign, CLEANED),
    )
