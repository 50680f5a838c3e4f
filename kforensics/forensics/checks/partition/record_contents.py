"""What only the records themselves tell: whether they can be read, have keys, and fit the timestamp of their batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from kforensics.forensics.core.aggregation import first_findings
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.reporting import moment, span
from kforensics.forensics.partition.partition_state import COMPACTED, Case
from kforensics.forensics.partition.record_evidence import Broken, First, Mistimed, Place, RecordEvidence

__all__ = ["CODES", "findings"]

CODES = codes("""
record-parse-error error
The records of a batch are not as records must be, though its checksum holds: they were written like this.
Find the client that wrote offset {first_offset} and mend its library; consumers stop at this batch.
why: The checksum was taken of these bytes, so that they were wrong before they were sent: a client library encoded \
them wrongly, or a broker recompressed them wrongly. Every consumer stops here.
innocent: A codec that is not installed here, or a limit of this tool. The finding says so.

keyless-in-compacted warning
Records without a key stand in a topic that is compacted.
The next cleaning drops them: copy what is needed, and find the producer that gives no keys.
why: Compaction keeps the newest record of each key; a record without one cannot be kept. Brokers refuse it, unless it \
was there before the topic was compacted.
innocent: It was written before cleanup.policy was changed.

ts-max-mismatch warning
The largest timestamp in the header of a batch is not that of its records.
Indexes, searches by time and retention go by the header: do not trust them at offset {first_offset}.
why: The time index, lookups by time and retention take the largest timestamp from the header of a batch. If it is not \
that of its records, they go wrong by the difference.
innocent: Batches emptied by a cleaner, and log append time, where the header counts: both were ruled out.
""")

# Topics that every broker compacts.
# What a reader with other limits, or a newer one, might read.
BEYOND_US = {
    "codec": "a codec of a newer broker: possible, this release knows none of that number",
    "limit": "more records than this tool decompresses at once: yes, what follows was not looked at",
}
ItemT = TypeVar("ItemT")


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is to be said of records, where they were decoded."""
    evidence: RecordEvidence | None = case.records
    if evidence is None:
        return
    yield from _of_each(evidence.broken, partial(_broken, case))
    yield from _of_each(evidence.mistimed, partial(_mistimed, case))
    if evidence.keyless.first is not None and (why := _why_compacted(case)):
        yield _keyless(case, evidence, evidence.keyless.first, *why)


def _of_each(found: First[ItemT], finding: Callable[[ItemT], Finding]) -> Iterator[Finding]:
    return first_findings(map(finding, found.items), found.count)


def _at(place: Place) -> dict[str, Any]:
    """Return where a batch stands and whose it is, as ``Case.finding`` takes it."""
    return {
        "at": (place.segment, place.position),
        "offsets": (place.first_offset, place.last_offset),
        "producer": (place.producer_id, place.producer_epoch) if place.producer_id >= 0 else None,
    }


def _broken(case: Case, broken: Broken) -> Finding:
    place, beyond_us = broken.place, BEYOND_US.get(broken.reason)
    return case.finding(
        CODES["record-parse-error"],
        f"The records of the batch with offsets {place.first_offset} to {place.last_offset} at position "
        f"{place.position} are not as they must be: {broken.detail}.",
        **_at(place),
        severity=Severity.INFO if beyond_us else None,
        evidence={"reason": broken.reason},
        exactness=Exactness.UNVERIFIABLE if beyond_us else Exactness.EXACT,
        benign=(beyond_us or "bytes damaged since: ruled out, the checksum holds",),
    )


def _mistimed(case: Case, mistimed: Mistimed) -> Finding:
    place, apart = mistimed.place, mistimed.max_timestamp - mistimed.latest
    return case.finding(
        CODES["ts-max-mismatch"],
        f"The batch with offsets {place.first_offset} to {place.last_offset} has {moment(mistimed.max_timestamp)} for "
        f"its largest timestamp; that of its records is {moment(mistimed.latest)}, {span(abs(apart))} "
        f"{'before' if apart > 0 else 'after'} it.",
        **_at(place),
        evidence={"max_timestamp": mistimed.max_timestamp, "largest_of_records": mistimed.latest},
        benign=(
            "log append time: ruled out, the batch has create time",
            "emptied by the cleaner: ruled out, there are records in the batch",
        ),
    )


def _why_compacted(case: Case) -> tuple[str, Exactness] | None:
    """Return how the topic is known to be compacted, and how well; None if it is not."""
    if case.partition.place.topic in COMPACTED:
        return "every broker compacts this topic", Exactness.EXACT
    if case.first_dirty_offset is not None:
        return "the checkpoint of the cleaner names the partition", Exactness.EXACT
    # Batches that are lost leave holes as a cleaner does.
    if case.log.cleaned_to >= 0 and not (case.is_known_uncleaned or case.is_broken):
        return f"a cleaner has been at the batches up to offset {case.log.cleaned_to}", Exactness.APPROXIMATE
    return None


def _keyless(case: Case, evidence: RecordEvidence, place: Place, why: str, exactness: Exactness) -> Finding:
    keyless = evidence.keyless
    many = f"{keyless.count} records between offsets {keyless.first_offset} and {keyless.last_offset} have"
    one = f"The record at offset {keyless.first_offset} has"
    return case.finding(
        CODES["keyless-in-compacted"],
        f"{one if keyless.count == 1 else many} no key, and {why}.",
        at=(place.segment, place.position),
        offsets=(keyless.first_offset, keyless.last_offset),
        evidence={"records": keyless.count, "of": evidence.records},
        exactness=exactness,
        benign=("written before the topic was compacted: possible, since then no broker lets one in",),
    )
