"""Checks that each ``.index`` file is a valid offset index and that its entries match the log.

Rule: ``OffsetIndex`` and ``AbstractIndex`` of all releases; ``index_entry_faults`` states what an entry may contain.
Current brokers do not check this themselves: they validate neither kind of index at startup.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.partition.index_entries import IndexFault
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.sidecar.faulty_entries import FaultyIndex, faulty_indexes, index_finding

CODES = by_name(
    Code(
        "index-corrupt",
        Severity.WARNING,
        meaning="Not a valid offset index: its size or the order of its entries is wrong.",
        remedy=(
            "Stop the broker, copy the files, delete {path} and start the broker: it rebuilds the indexes of "
            "this segment from the log."
        ),
        why=(
            "Brokers trust offset indexes without checking them at startup, so a corrupt one is noticed only "
            "when a fetch starts at a wrong position."
        ),
        benign=(
            "The files of a running broker were copied. Index files are preallocated, and zeros at the end are normal."
        ),
    ),
    Code(
        "index-mismatch",
        Severity.ERROR,
        meaning="An entry of an offset index does not match the log, so a fetch may start at a wrong position.",
        remedy=(
            "Stop the broker, copy the files, delete {path} and start the broker: it rebuilds the indexes of "
            "this segment from the log."
        ),
        why=(
            "A fetch looks up a position in the index and reads from there. If the position is after the "
            "requested batch, the consumer misses records or gets an error; if it is inside a batch, the broker "
            "reports a corrupt log."
        ),
        benign=(
            "The log was truncated before a crash: the index of its last segment still has later entries, until the "
            "broker rebuilds it. A mismatch reported by kafka-dump-log.sh alone proves nothing, because the tool only "
            "knows the rule of its own release."
        ),
    ),
)

# Sentences for faults of offset and time indexes alike.
INDEX_FAULTS = {
    IndexFault.UNREADABLE: "{name} cannot be read.",
    IndexFault.RAGGED: "{name} has {found} bytes, not a whole number of entries.",
    IndexFault.ZEROS_BETWEEN: (
        "{name} has zero entries before the entry at byte {position}: binary search in it goes wrong."
    ),
    IndexFault.BELOW_BASE: (
        "{name}: the entry at byte {position} has offset {offset}, below the base offset of the segment."
    ),
}
CORRUPT = INDEX_FAULTS | {
    IndexFault.TRAILING_ZEROS: (
        "{name} ends with {found} zero bytes although its segment is closed: a lookup that meets them starts at the "
        "beginning of the segment."
    ),
    IndexFault.NOT_ASCENDING: (
        "{name}: the entry at byte {position} (offset {offset}, log position {value}) does not ascend from the "
        "previous entry."
    ),
}
ENTRY = "{name}: the entry at byte {position} maps offset {offset} to log position {value}, "
MISMATCH = {
    IndexFault.NO_BATCH_BEGINS: ENTRY + "where no batch starts.",
    IndexFault.BEYOND_LOG: ENTRY + "but the batches of the segment end at position {found}.",
    IndexFault.OFFSET_BEFORE_POSITION: ENTRY + "but the batch before that position already contains the offset.",
    IndexFault.NO_BATCH_ENDS: (
        ENTRY + "but no batch from there on ends with that offset, nor does the batch there start with it."
    ),
}


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the offset indexes, one finding for each file and kind of fault."""
    faults = state.index_faults
    if faults is None:
        return
    corrupt, mismatches, _ = faults.counts
    for faulty in faulty_indexes(state, faults.corrupt, corrupt):
        # A lookup that meets the zeros at the end is slow, but correct.
        severity = Severity.INFO if faulty.fault is IndexFault.TRAILING_ZEROS else Severity.WARNING
        yield index_finding(state, CODES["index-corrupt"], faulty, fault_sentence(CORRUPT, faulty), severity)
    for faulty in faulty_indexes(state, faults.misfits, mismatches):
        yield index_finding(state, CODES["index-mismatch"], faulty, fault_sentence(MISMATCH, faulty), Severity.ERROR)


def fault_sentence(sentences: dict[IndexFault, str], faulty: FaultyIndex) -> str:
    """Return a sentence about the first faulty entry of an index."""
    numbers = {name: faulty[name] for name in ("position", "offset", "value", "found")}
    return sentences[faulty.fault].format(name=faulty.name, **numbers)


CHECK = Check("offset_indexes", CODES, findings)
