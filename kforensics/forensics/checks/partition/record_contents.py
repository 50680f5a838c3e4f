"""Checks the records themselves: whether they can be read, have keys, and match the timestamp of their batch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_duration, format_offsets, format_time
from kforensics.forensics.core.reporting import first_findings
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.record_evidence import (
    BatchLocation,
    BrokenBatch,
    FirstN,
    MistimedBatch,
    RecordEvidence,
)
from kforensics.parsers.files.log_names import ALWAYS_COMPACTED

CODES = by_name(
    Code(
        "record-parse-error",
        Severity.ERROR,
        meaning="The records of a batch are malformed although its checksum is valid: they were written this way.",
        remedy="Find the client that wrote offset {first_offset} and fix its library; consumers stop at this batch.",
        why=(
            "The checksum was computed over these bytes, so they were wrong before they were sent: a client "
            "library encoded them wrongly, or a broker recompressed them wrongly. Every consumer stops here."
        ),
        benign="A codec that is not installed here, or a limit of this tool; the finding says which.",
    ),
    Code(
        "keyless-in-compacted",
        Severity.WARNING,
        meaning="A compacted topic has records without a key.",
        remedy="The next cleaning drops these records: copy those you need, and find the producer that sends no keys.",
        why=(
            "Compaction keeps the newest record of each key, so it cannot keep a record without one. Brokers "
            "reject such records, unless they were written before the topic was compacted."
        ),
        benign="The records were written before cleanup.policy was changed.",
    ),
    Code(
        "ts-max-mismatch",
        Severity.WARNING,
        meaning="The maximum timestamp in a batch header is not that of its records.",
        remedy=(
            "Do not rely on time indexes, lookups by time and retention at offset {first_offset}: they use the "
            "batch header."
        ),
        why=(
            "The time index, lookups by time and retention use the maximum timestamp in the batch header. If it "
            "is not that of the records, they are off by the difference."
        ),
        benign=(
            "Batches emptied by the cleaner, and log append time, where the header is authoritative: both were "
            "ruled out."
        ),
    ),
)

# Batches that another tool, or a newer release of this one, may be able to read, by the reason of the damage.
BEYOND_THIS_TOOL = {
    "codec": "codec of a newer broker: possible, this release does not know its number",
    "limit": "more records than this tool decompresses at once: yes, the rest was not checked",
}
ItemT = TypeVar("ItemT")
# org.apache.kafka.common.record.RecordBatch.NO_TIMESTAMP
NO_TIMESTAMP = -1


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the records, if they were decoded."""
    evidence: RecordEvidence | None = state.records
    if evidence is None:
        return
    yield from _of_each(evidence.broken, partial(_broken, state))
    yield from _of_each(evidence.mistimed, partial(_mistimed, state))
    if evidence.keyless.first is not None and (compacted := _why_compacted(state)):
        yield _keyless(state, evidence, evidence.keyless.first, *compacted)


def _of_each(first_items: FirstN[ItemT], finding: Callable[[ItemT], Finding]) -> Iterator[Finding]:
    return first_findings(map(finding, first_items.items), first_items.count)


def _location(place: BatchLocation) -> dict[str, Any]:
    """Return the location and producer of a batch, as arguments of ``PartitionState.finding``."""
    return {
        "at": (place.segment, place.position),
        "offsets": (place.first_offset, place.last_offset),
        "producer": (place.producer_id, place.producer_epoch) if place.producer_id >= 0 else None,
    }


def _broken(state: PartitionState, broken: BrokenBatch) -> Finding:
    place, beyond_this_tool = broken.place, BEYOND_THIS_TOOL.get(broken.reason)
    return state.finding(
        CODES["record-parse-error"],
        f"Malformed records in the batch with {format_offsets(place.first_offset, place.last_offset)} at position "
        f"{place.position}: {broken.detail.removesuffix('.')}.",
        **_location(place),
        severity=Severity.INFO if beyond_this_tool else None,
        evidence={"reason": broken.reason},
        exactness=Exactness.UNVERIFIABLE if beyond_this_tool else Exactness.EXACT,
        benign=(beyond_this_tool or "bytes changed since they were written: ruled out, the checksum is valid",),
    )


def _mistimed(state: PartitionState, mistimed: MistimedBatch) -> Finding:
    place, difference = mistimed.place, mistimed.max_timestamp - mistimed.latest
    shift = f", {format_duration(abs(difference))} {'earlier' if difference > 0 else 'later'}"
    if NO_TIMESTAMP in (mistimed.max_timestamp, mistimed.latest):
        shift = ""
    return state.finding(
        CODES["ts-max-mismatch"],
        f"The batch with {format_offsets(place.first_offset, place.last_offset)} has maximum timestamp "
        f"{format_time(mistimed.max_timestamp)} in its header, but the maximum of its records is "
        f"{format_time(mistimed.latest)}{shift}.",
        **_location(place),
        evidence={"max_timestamp": mistimed.max_timestamp, "largest_of_records": mistimed.latest},
        benign=(
            "log append time: ruled out, the batch has create time",
            "emptied by the cleaner: ruled out, the batch has records",
        ),
    )


def _why_compacted(state: PartitionState) -> tuple[str, Exactness] | None:
    """Return why the topic counts as compacted, and how certain that is; None if it does not."""
    if state.partition.place.topic in ALWAYS_COMPACTED:
        return "every broker compacts this topic", Exactness.EXACT
    if state.rules.is_not_compacted:  # any more: a cleaner drops nothing of it
        return None
    if state.first_dirty_offset is not None:
        return "the cleaner's checkpoint lists the partition", Exactness.EXACT
    if (policy := state.rules.compaction) is not None:
        return f"cleanup.policy is {policy.value} ({policy.source})", Exactness.EXACT
    # Lost batches leave offset gaps as a cleaner does.
    if state.log.cleaned_to >= 0 and not (state.is_known_uncleaned or state.is_broken):
        return f"the batches up to offset {state.log.cleaned_to} were compacted", Exactness.APPROXIMATE
    return None


def _keyless(
    state: PartitionState, evidence: RecordEvidence, place: BatchLocation, why: str, exactness: Exactness
) -> Finding:
    keyless = evidence.keyless
    records = f"{keyless.count} records between offsets {keyless.first_offset} and {keyless.last_offset} have"
    if keyless.count == 1:
        records = f"The record at offset {keyless.first_offset} has"
    return state.finding(
        CODES["keyless-in-compacted"],
        f"{records} no key, but {why}.",
        at=(place.segment, place.position),
        offsets=(keyless.first_offset, keyless.last_offset),
        evidence={"records": keyless.count, "of": evidence.records},
        exactness=exactness,
        benign=("written before the topic was compacted: possible, brokers reject such records since then",),
    )


CHECK = Check("record_contents", CODES, findings)
