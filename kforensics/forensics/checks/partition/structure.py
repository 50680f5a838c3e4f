"""Checks that the offsets of a segment are consecutive, and that its batches look as a leader writes them.

Rule: ``UnifiedLog.append`` gives a batch the offsets after the previous batch, one for each record; only the cleaner
removes some later. A batch with a wrong base offset is one finding, not one for each of its neighbors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import REBUILD, UNLESS_REPLICAS_DIFFER, UNLESS_REPLICAS_HAVE_MORE
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_count, format_offsets
from kforensics.forensics.core.observations import (
    ObservationArray,
    ObservationSum,
    Observed,
    first_observations,
    log_positions,
    observation_of_all,
    sum_observations,
)
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.forensics.core.reporting import dated, first_findings
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.compaction_evidence import compaction_of_topic, partly_compacted, written_by
from kforensics.forensics.partition.damage_times import clock_of, position_after
from kforensics.forensics.partition.fetched_compacted import FETCHED
from kforensics.forensics.partition.log_summary import Collector
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.array_types import BoolArray
from kforensics.parsers.format.rows import CODEC_MASK, CODECS, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT

CODES = by_name(
    Code(
        "offset-not-monotonic",
        Severity.CRITICAL,
        meaning="A batch ends at or before the end of the previous batch.",
        remedy=f"{REBUILD} This one cannot be used from here on.",
        why=(
            "Offsets only rise; consumers, indexes and replication depend on it. A batch was written twice, "
            "part of the file was overwritten with another part, or a bit has flipped in an offset, which no "
            "checksum covers."
        ),
        benign="Before 2.3, an append was repeated after its index entry had failed (KAFKA-7866).",
    ),
    Code(
        "offset-overlap",
        Severity.CRITICAL,
        meaning="A batch starts before the end of the previous batch.",
        remedy=f"{REBUILD} This one cannot be used from here on.",
        why=(
            "Two batches have the same offsets. Depending on where they start, consumers receive both or only "
            "one of them."
        ),
        benign="None known in message format 2.",
    ),
    Code(
        "offset-gap",
        Severity.ERROR,
        meaning="Offsets are missing inside a segment that was never compacted.",
        remedy=REBUILD,
        why=(
            "A leader assigns offsets without gaps; only the cleaner causes them. So something was removed from "
            "the log, or was never written to this replica."
        ),
        benign=(
            "A cleaner on another broker: a follower that fetched from a compacted leader has the same gaps. A "
            "segment was being deleted while it was copied."
        ),
    ),
    Code(
        "batch-magic-old",
        Severity.INFO,
        meaning="Batches have message format 0 or 1, which has no producers and no leader epochs.",
        why=(
            "Such batches were written before 0.11, or by a client so old that the broker stored them in its "
            "format. Their producers and leaders are unknown, so most checks do not apply to them."
        ),
        benign="Old data with a long retention.",
    ),
    Code(
        "batch-attributes-unknown",
        Severity.WARNING,
        meaning="A batch has attribute bits that no release known to this tool uses.",
        remedy="Check for a newer release of this tool: a newer broker may have written the batch.",
        why=(
            "The bits are reserved. A later release may have given them a meaning that this tool does not know, "
            "and the batch is read as if they were not set."
        ),
        benign="A newer broker, or a flipped bit if the checksum fails too.",
    ),
    Code(
        "seq-count-mismatch",
        Severity.ERROR,
        meaning=(
            "The number of records in a batch differs from its number of offsets, although the log was never compacted."
        ),
        remedy="Treat it as corruption, and compare the other replicas of {topic}-{partition}.",
        why=(
            "A batch is written with one record for each of its offsets. Only a cleaner leaves fewer, and "
            "nothing leaves more."
        ),
        benign="A cleaner on another broker, from which this replica fetched.",
    ),
)

PAIRS = (Observed.OFFSET_NOT_MONOTONIC, Observed.OFFSET_OVERLAP, Observed.OFFSET_GAP)
# Attribute bits with a meaning, by message format.
KNOWN_ATTRIBUTES = np.array([CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME_BIT, 2 * DELETE_HORIZON_BIT - 1])
ATTRIBUTES_MASK = 0xFFFF
ZSTD = CODECS.index("zstd")
EITHER = "A cleaner on another broker may have removed them instead."


def _unusual_batches(batches: BatchColumns, _: Rules) -> Iterator[ObservationArray]:
    is_old = batches.magic < 2
    if is_old.any():
        yield observation_of_all(Observed.BATCH_MAGIC_OLD, batches, is_old)
    is_unknown = batches.crc_valid & _has_unknown_attributes(batches)
    if is_unknown.any():
        attributes = batches.attributes.astype("i8") & ATTRIBUTES_MASK
        yield observation_of_all(Observed.BATCH_ATTRIBUTES_UNKNOWN, batches, is_unknown, amount=attributes)
    excess = batches.count - (batches.last_offset - batches.base_offset + 1)
    differs = batches.crc_valid & ~is_old & (excess != 0)
    if differs.any():
        yield observation_of_all(Observed.SEQ_COUNT_MISMATCH, batches, differs, amount=excess)


def _has_unknown_attributes(batches: BatchColumns) -> BoolArray:
    codec = batches.attributes & CODEC_MASK
    known = KNOWN_ATTRIBUTES[np.clip(batches.magic, 0, 2)]
    has_unknown_bits = batches.attributes & ~known != 0
    has_unknown_codec = (codec > ZSTD) | ((codec == ZSTD) & (batches.magic < 2))
    is_unknown: BoolArray = has_unknown_bits | has_unknown_codec
    return is_unknown


def _disordered_offsets(before: BatchColumns, after: BatchColumns, _: Rules) -> Iterator[ObservationArray]:
    # The end of a batch is unknown if its checksum fails.
    is_valid = before.crc_valid & after.crc_valid
    is_inside = is_valid & (before.segment == after.segment)
    regresses = is_inside & (after.last_offset <= before.last_offset)
    overlaps = is_inside & ~regresses & (after.base_offset <= before.last_offset)
    # A difference that overflows is never 1.
    follows = after.base_offset - before.last_offset == 1
    gaps = is_valid & after.exact & (after.base_offset > before.last_offset) & ~follows
    for kind, matches in zip(PAIRS, (regresses, overlaps, gaps), strict=True):
        if matches.any():
            yield first_observations(kind, after, matches, previous=before.last_offset)


COLLECTOR = Collector(batches=_unusual_batches, neighbors=_disordered_offsets)


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield what is wrong with the offsets, record counts and attributes of batches."""
    observations = state.log.observations
    if not len(observations):
        return
    disorders = observations[np.isin(observations["kind"], PAIRS)]
    disorders = disorders[np.argsort(log_positions(disorders), kind="stable")]
    disorders = disorders[~(_are_explained(disorders) | _are_excused(state, disorders))]
    for kind in PAIRS:
        rows = disorders[disorders["kind"] == kind]
        disordered = (dated(_disorder(state, kind, row), _timestamp(row), clock_of(state)) for row in rows)
        yield from first_findings(disordered, int(rows["count"].sum()))
    for kind, finding in _AGGREGATED.items():
        total = sum_observations(observations, kind)
        if total:
            yield from (
                dated(whole, {"timestamp": total.timestamp}, clock_of(state)) for whole in finding(state, total)
            )


def _are_explained(disorders: ObservationArray) -> BoolArray:
    """Return which gaps exist only because of a misplaced batch.

    Without that batch, or if it had the missing offsets, the log would continue without a gap.
    """
    rows, following = disorders[:-1], disorders[1:]
    length = rows["last_offset"] - rows["first_offset"] + 1
    missing = following["first_offset"] - 1 - rows["previous"]
    fits = (following["previous"] == rows["last_offset"]) & ((missing <= 0) | (missing == length))
    is_gap = disorders["kind"] == Observed.OFFSET_GAP
    first_explained, none = fits & is_gap[:-1] & ~is_gap[1:], np.zeros(min(len(disorders), 1), bool)
    # A batch that returns to the right offsets after one that is too far ahead is not misplaced itself.
    second_explained = fits & is_gap[1:] & ~is_gap[:-1] & ~np.concatenate([none, first_explained])[:-1]
    explained: BoolArray = np.concatenate([first_explained, none]) | np.concatenate([none, second_explained])
    return explained


def _are_excused(state: PartitionState, disorders: ObservationArray) -> BoolArray:
    """Return which gaps are not reported here: of a compacted log, of damaged bytes, of a missing segment."""
    is_gap: BoolArray = disorders["kind"] == Observed.OFFSET_GAP
    if not state.is_known_uncleaned:
        return is_gap
    after_damage = [position_after(segment, row) for segment, row in state.log.damage if row.inside_batch is None]
    bases = np.array([segment.base_offset or 0 for segment in state.partition.segments])[disorders["segment"]]
    is_elsewhere = np.isin(log_positions(disorders), after_damage) | (disorders["previous"] + 1 < bases)
    is_excused: BoolArray = is_gap & is_elsewhere
    return is_excused


def _disorder(state: PartitionState, kind: Observed, row: Any) -> Finding:
    first, last, previous = int(row["first_offset"]), int(row["last_offset"]), int(row["previous"])
    at = int(row["segment"]), int(row["position"])
    if kind == Observed.OFFSET_GAP:
        return _gap(state, at, previous, first)
    batch, evidence = f"The batch with {format_offsets(first, last)}", {"previous_last_offset": previous}
    if kind == Observed.OFFSET_OVERLAP:
        message = f"{batch} overlaps the previous batch, which ends at offset {previous}."
        return state.finding(CODES["offset-overlap"], message, at=at, offsets=(first, last), evidence={**evidence})
    message = f"{batch} follows a batch that ends at offset {previous}."
    repeated = "possible, both end at the same offset" if last == previous else "ruled out, they end at other offsets"
    benign = (f"append repeated after a failed index entry, before 2.3 (KAFKA-7866): {repeated}",)
    return state.finding(
        CODES["offset-not-monotonic"], message, at=at, offsets=(first, last), evidence={**evidence}, benign=benign
    )


def _timestamp(row: Any) -> dict[str, int]:
    return {"timestamp": int(row["timestamp"])}


def _gap(state: PartitionState, at: tuple[int, int], previous: int, first: int) -> Finding:
    severity, exactness, benign = _as_if_compacted(state, first - 1)
    missing = first - previous - 1
    finding = state.finding(
        CODES["offset-gap"],
        f"{format_count(missing, 'offset')} missing before the batch at offset {first}: "
        f"{format_offsets(previous + 1, first - 1)}.",
        severity=severity,
        at=at,
        offsets=(previous + 1, first - 1),
        evidence={"missing": missing},
        exactness=exactness,
        benign=benign,
    )
    return _with_remedy(finding, severity)


def _as_if_compacted(
    state: PartitionState, last_offset: int, written_ms: int | None = None
) -> tuple[Severity, Exactness, tuple[str, ...]]:
    """Return severity, exactness and explanations for something that looks like the work of a cleaner."""
    cleaner = "cleaner of this broker: ruled out, partition not in its checkpoint"
    known = compaction_of_topic(state, last_offset, written_ms)
    why = known or partly_compacted(state)
    if why is None:
        return Severity.ERROR, Exactness.EXACT, (cleaner, f"{FETCHED}: no other sign of it")
    # Every replica of a compacted topic that was fetched after a cleaning has them.
    severity = Severity.WARNING if known is None else Severity.INFO
    return severity, Exactness.APPROXIMATE, (cleaner, f"{FETCHED}: likely, {why}")


def _with_remedy(finding: Finding, severity: Severity) -> Finding:
    """Return a finding with its remedy by the severity that :func:`_as_if_compacted` gives it."""
    remedies = {Severity.INFO: UNLESS_REPLICAS_DIFFER, Severity.WARNING: UNLESS_REPLICAS_HAVE_MORE}
    if severity == Severity.WARNING:
        finding = replace(finding, message=f"{finding.message} {EITHER}")
    return replace(finding, remedy=remedies.get(severity, finding.remedy))


def _old(state: PartitionState, total: ObservationSum) -> Iterator[Finding]:
    message = f"{total.that('has', 'have')} message format 0 or 1."
    evidence: dict[str, object] = {"batches": total.count}
    yield state.finding(CODES["batch-magic-old"], message, at=total.at, offsets=total.offsets, evidence=evidence)


def _unknown_attributes(state: PartitionState, total: ObservationSum) -> Iterator[Finding]:
    yield state.finding(
        CODES["batch-attributes-unknown"],
        f"{total.that('has', 'have')} attributes without a known meaning: {total.amount:#06x} in one of them.",
        at=total.at,
        offsets=total.offsets,
        evidence={"batches": total.count, "attributes": total.amount},
        benign=("broker newer than this tool: possible",),
    )


def _miscounted(state: PartitionState, total: ObservationSum) -> Iterator[Finding]:
    if total.amount > 0:
        # A cleaner removes records and never adds any.
        severity, exactness = Severity.ERROR, Exactness.EXACT
        benign: tuple[str, ...] = ("cleaner: ruled out, it adds no records",)
        largest = f"one has {total.amount} more"
    elif state.is_known_uncleaned:
        last_offset = total.offsets[1]
        written_ms = max(total.timestamp, written_by(state, last_offset) or NO_TIME)
        severity, exactness, benign = _as_if_compacted(state, last_offset, written_ms)
        largest = "none has more"
    else:
        return
    finding = state.finding(
        CODES["seq-count-mismatch"],
        f"{total.that('has', 'have')} a different number of records than offsets: {largest}.",
        severity=severity,
        at=total.at,
        offsets=total.offsets,
        evidence={"batches": total.count, "largest_excess": total.amount},
        exactness=exactness,
        benign=benign,
    )
    yield _with_remedy(finding, severity)


_AGGREGATED = {
    Observed.BATCH_MAGIC_OLD: _old,
    Observed.BATCH_ATTRIBUTES_UNKNOWN: _unknown_attributes,
    Observed.SEQ_COUNT_MISMATCH: _miscounted,
}


CHECK = Check("structure", CODES, findings, collector=COLLECTOR)
