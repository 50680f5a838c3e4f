"""Whether each ``.index`` is one, and its entries fit the log.

Rule: ``OffsetIndex`` and ``AbstractIndex`` of all releases; what an entry may name is said in
``offset_index_evidence``. Brokers of today do not look for themselves: they check neither kind of index at start.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.core.findings import Finding, Severity, codes
from kforensics.forensics.partition.index_entries import Fault
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.sidecar.faulty_entries import FaultyIndex, faulty_indexes, index_finding

__all__ = ["CODES", "findings"]

CODES = codes("""
index-corrupt warning
An offset index is none: its size, or the order of its entries, is not that of an index.
Stop the broker, keep a copy, delete {path} and start: the broker builds the indexes of this segment anew from its log.
why: Brokers believe offset indexes without looking at them when they start, so that a broken one is only noticed when \
a fetch begins at a wrong position.
innocent: A copy of a running broker. Files are preallocated, and zeros at the end are in order.

index-mismatch error
An entry of an offset index does not fit the log, so that a fetch may begin at a wrong place.
Stop the broker, keep a copy, delete {path} and start: the broker builds the indexes of this segment anew from its log.
why: A fetch looks up the position in the index and reads from there. If that is behind the batch wanted, the consumer \
misses records or gets an error; if it is inside one, the broker reports a corrupt log.
innocent: None. A message about a mismatch from kafka-dump-log.sh alone proves nothing, for it only knows the rule of \
its own release.
""")

CORRUPT = {
    Fault.UNREADABLE: "{name} cannot be read.",
    Fault.RAGGED: "{name} has {found} bytes, which is no whole number of entries.",
    Fault.ZEROS_BETWEEN: "{name} has entries of zeros before the one at byte {position}, where a search goes astray.",
    Fault.ZEROS_BEHIND: "{name} ends with {found} zero bytes although its segment is closed; a search that meets them "
    "begins at the head of the segment.",
    Fault.NOT_ASCENDING: "The entry at byte {position} of {name}, offset {offset} at byte {value} of the log, does not "
    "ascend from the one before it.",
    Fault.BELOW_BASE: "The entry at byte {position} of {name} names offset {offset}, below the base offset of the "
    "segment.",
}
ENTRY = "The entry at byte {position} of {name} says that offset {offset} is to be found from byte {value} of the log, "
MISFIT = {
    Fault.NO_BATCH_BEGINS: ENTRY + "where no batch begins.",
    Fault.BEYOND_LOG: ENTRY + "but the batches of the segment end at byte {found}.",
    Fault.OFFSET_BEFORE_POSITION: ENTRY + "but the batch in front of that byte already reaches the offset.",
    Fault.NO_BATCH_ENDS: ENTRY + "but no batch from there on ends with it, nor does the one there begin with it.",
}


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the offset indexes, one finding for each file and kind of fault."""
    faults = case.index_faults
    if faults is None:
        return
    corrupt, misfits, _ = faults.counts
    for faulty in faulty_indexes(case, faults.corrupt, corrupt):
        # A search that meets the zeros at the end is slow, but not wrong.
        severity = Severity.INFO if faulty.fault is Fault.ZEROS_BEHIND else Severity.WARNING
        yield index_finding(case, CODES["index-corrupt"], faulty, _sentence(CORRUPT, faulty), severity)
    for faulty in faulty_indexes(case, faults.misfits, misfits):
        yield index_finding(case, CODES["index-mismatch"], faulty, _sentence(MISFIT, faulty), Severity.ERROR)


def _sentence(sentences: dict[Fault, str], faulty: FaultyIndex) -> str:
    numbers = {name: faulty[name] for name in ("position", "offset", "value", "found")}
    return sentences[faulty.fault].format(name=faulty.name, **numbers)
