"""Whether the batches of a segment follow one another offset by offset, and are as a leader makes them.

Rule: ``UnifiedLog.append`` gives a batch the offsets behind the one before, one for each record; only the cleaner takes
some out again. A batch whose base offset alone is wrong is one finding, not one for each of its neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kforensics.forensics.checks.partition.damage import place_behind, places
from kforensics.forensics.core.aggregation import Sum, first_findings, first_notes, note_of_all, sum_of
from kforensics.forensics.core.findings import Exactness, Finding, Severity, codes
from kforensics.forensics.core.observations import Noticed
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_state import Case, who_else_cleaned
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.rows import CODEC_MASK, CODECS, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT

__all__ = ["CODES", "NOTER", "findings"]

CODES = codes("""
offset-not-monotonic critical
A batch ends at or before the end of the batch in front of it.
This replica cannot be used from here on: let it be built again from the leader.
why: Offsets only rise, and consumers, indexes and replication rest on it. A batch was written twice, a part of the \
file was copied over another, or a bit has flipped in an offset, which no checksum covers.
innocent: Before 2.3, an append that was repeated after its index had failed (KAFKA-7866).

offset-overlap critical
A batch begins before the batch in front of it has ended.
This replica cannot be used from here on: let it be built again from the leader.
why: Two batches claim the same offsets. Consumers get both, or one of them, depending on where they begin.
innocent: None known in message format 2.

offset-gap error
Offsets are missing inside a segment that no cleaner has touched.
Compare with the other replicas of {topic}-{partition}; if they have these offsets, build this replica again.
why: A leader gives offsets without holes; only a cleaner makes them. So something has been taken out of the log, or \
was never written to this replica.
innocent: A cleaner on another broker: a follower that copied from a leader that was cleaned has its holes. A segment \
was being deleted while it was copied.

batch-magic-old info
Batches are of message format 0 or 1, which has no producers and no leader epochs.
why: Such batches were written before 0.11, or by a client so old that the broker wrote down what it got. Nothing is \
known of producers and leaders there, so most checks have nothing to look at.
innocent: Old data that is kept for long.

batch-attributes-unknown warning
A batch has attributes that no release known here has given a meaning.
Look for a newer release of this tool: a newer broker may have written it.
why: The bits are reserved. A later release may have given them a meaning that this tool does not know, and the batch \
is read as if they were not set.
innocent: A newer broker; a flipped bit, if the checksum fails too.

seq-count-mismatch error
A batch has another number of records than offsets, and no cleaner has touched it.
Treat it as corruption, and compare with the other replicas of {topic}-{partition}.
why: A batch as written has one record for each of its offsets. Fewer are left by a cleaner only, more by nobody.
innocent: A cleaner on another broker from which this replica copied.
""")

PAIRS = (Noticed.OFFSET_NOT_MONOTONIC, Noticed.OFFSET_OVERLAP, Noticed.OFFSET_GAP)
# Attributes with a meaning, by message format.
KNOWN_ATTRIBUTES = np.array([CODEC_MASK, CODEC_MASK | LOG_APPEND_TIME_BIT, 2 * DELETE_HORIZON_BIT - 1])
ATTRIBUTES_MASK = 0xFFFF
ZSTD = CODECS.index("zstd")
# Topics that every broker compacts.


def _of_batches(batches: BatchColumns, _: Rules) -> Iterator[Records]:
    is_old = batches.magic < 2
    if is_old.any():
        yield note_of_all(Noticed.BATCH_MAGIC_OLD, batches, is_old)
    is_strange = batches.crc_valid & _has_unknown_attributes(batches)
    if is_strange.any():
        attributes = batches.attributes.astype("i8") & ATTRIBUTES_MASK
        yield note_of_all(Noticed.BATCH_ATTRIBUTES_UNKNOWN, batches, is_strange, amount=attributes)
    excess = batches.count - (batches.last_offset - batches.base_offset + 1)
    differs = batches.crc_valid & ~is_old & (excess != 0)
    if differs.any():
        yield note_of_all(Noticed.SEQ_COUNT_MISMATCH, batches, differs, amount=excess)


def _has_unknown_attributes(batches: BatchColumns) -> Any:
    codec = batches.attributes & CODEC_MASK
    known = KNOWN_ATTRIBUTES[np.clip(batches.magic, 0, 2)]
    return (batches.attributes & ~known != 0) | (codec > ZSTD) | ((codec == ZSTD) & (batches.magic < 2))


def _of_neighbours(before: BatchColumns, after: BatchColumns, _: Rules) -> Iterator[Records]:
    # Without its checksum nobody knows where a batch ends.
    is_sound = before.crc_valid & after.crc_valid
    is_inside = is_sound & (before.segment == after.segment)
    sinks = is_inside & (after.last_offset <= before.last_offset)
    overlaps = is_inside & ~sinks & (after.base_offset <= before.last_offset)
    # A difference that overflows is never 1.
    follows = after.base_offset - before.last_offset == 1
    gaps = is_sound & after.exact & (after.base_offset > before.last_offset) & ~follows
    for kind, which in zip(PAIRS, (sinks, overlaps, gaps), strict=True):
        if which.any():
            yield first_notes(kind, after, which, previous=before.last_offset)


NOTER = Noter(batches=_of_batches, neighbours=_of_neighbours)


def findings(case: Case) -> Iterator[Finding]:
    """Yield what is wrong with the offsets, counts and attributes of batches."""
    if not len(case.log.notes):
        return
    notes = case.log.notes[np.isin(case.log.notes["kind"], PAIRS)]
    notes = notes[np.argsort(places(notes), kind="stable")]
    notes = notes[~(_are_explained(notes) | _are_excused(case, notes))]
    for kind in PAIRS:
        some = notes[notes["kind"] == kind]
        yield from first_findings((_disorder(case, kind, note) for note in some), int(some["count"].sum()))
    for noticed, finding in _SUMS.items():
        found = sum_of(case.log.notes, noticed)
        if found:
            yield from finding(case, found)


def _are_explained(notes: Records) -> Any:
    """Return which gaps are there only because of a batch that stands where it does not belong.

    Without that batch, or if it had the offsets that are missing, the log would go on without a gap.
    """
    one, two = notes[:-1], notes[1:]
    span = one["last_offset"] - one["first_offset"] + 1
    left = two["first_offset"] - 1 - one["previous"]
    fits = (two["previous"] == one["last_offset"]) & ((left <= 0) | (left == span))
    is_gap = notes["kind"] == Noticed.OFFSET_GAP
    in_front, none = fits & is_gap[:-1] & ~is_gap[1:], np.zeros(min(len(notes), 1), bool)
    # What comes back to its place behind a batch that is too far ahead is not out of place itself.
    behind = fits & is_gap[1:] & ~is_gap[:-1] & ~np.concatenate([none, in_front])[:-1]
    return np.concatenate([in_front, none]) | np.concatenate([none, behind])


def _are_excused(case: Case, notes: Records) -> Any:
    """Return which gaps are no finding here: of a cleaned log, of damaged bytes, of a segment that is gone."""
    is_gap = notes["kind"] == Noticed.OFFSET_GAP
    if not case.is_known_uncleaned:
        return is_gap
    behind = [place_behind(segment, row) for segment, row in case.log.damage if row.inside_batch is None]
    bases = np.array([segment.base_offset or 0 for segment in case.partition.segments])[notes["segment"]]
    return is_gap & (np.isin(places(notes), behind) | (notes["previous"] + 1 < bases))


def _disorder(case: Case, kind: Noticed, note: Any) -> Finding:
    first, last, previous = int(note["first_offset"]), int(note["last_offset"]), int(note["previous"])
    at = int(note["segment"]), int(note["position"])
    if kind == Noticed.OFFSET_GAP:
        return _gap(case, at, previous, first)
    batch, evidence = f"The batch with offsets {first} to {last}", {"previous_last_offset": previous}
    if kind == Noticed.OFFSET_OVERLAP:
        message = f"{batch} begins before the one in front of it has ended, at offset {previous}."
        return case.finding(CODES["offset-overlap"], message, at=at, offsets=(first, last), evidence={**evidence})
    message = f"{batch} stands behind one that ends at offset {previous}."
    repeated = "possible, both end at the same offset" if last == previous else "ruled out, they end at other offsets"
    benign = (f"an append repeated after its index had failed, before 2.3 (KAFKA-7866): {repeated}",)
    return case.finding(
        CODES["offset-not-monotonic"], message, at=at, offsets=(first, last), evidence={**evidence}, benign=benign
    )


def _gap(case: Case, at: tuple[int, int], previous: int, first: int) -> Finding:
    severity, exactness, benign = _as_if_cleaned(case)
    missing = first - previous - 1
    return case.finding(
        CODES["offset-gap"],
        f"Offsets {previous + 1} to {first - 1}, {missing} in number, are missing in front of the batch at {first}.",
        severity=severity,
        at=at,
        offsets=(previous + 1, first - 1),
        evidence={"missing": missing},
        exactness=exactness,
        benign=benign,
    )


def _as_if_cleaned(case: Case) -> tuple[Severity, Exactness, tuple[str, ...]]:
    """Return severity, exactness and excuses of what looks as if a cleaner had been there."""
    cleaner = "the cleaner of this broker: ruled out, its checkpoint does not name the partition"
    fetched, why = "a log fetched from a leader that had cleaned it", who_else_cleaned(case)
    if why is None:
        return Severity.ERROR, Exactness.EXACT, (cleaner, f"{fetched}: nothing else shows it")
    return Severity.WARNING, Exactness.APPROXIMATE, (cleaner, f"{fetched}: likely, {why}")


def _old(case: Case, found: Sum) -> Iterator[Finding]:
    message = f"{found.that('is', 'are')} of message format 0 or 1."
    evidence: dict[str, object] = {"batches": found.count}
    yield case.finding(CODES["batch-magic-old"], message, at=found.at, offsets=found.offsets, evidence=evidence)


def _strange(case: Case, found: Sum) -> Iterator[Finding]:
    yield case.finding(
        CODES["batch-attributes-unknown"],
        f"{found.that('has', 'have')} attributes without a known meaning: {found.amount:#06x} in one.",
        at=found.at,
        offsets=found.offsets,
        evidence={"batches": found.count, "attributes": found.amount},
        benign=("a broker newer than this tool: possible",),
    )


def _miscounted(case: Case, found: Sum) -> Iterator[Finding]:
    if found.amount > 0:
        # A cleaner takes records out and never puts any in.
        severity, exactness = Severity.ERROR, Exactness.EXACT
        benign: tuple[str, ...] = ("the cleaner: ruled out, it adds no records",)
        most = f"one holds {found.amount} more"
    elif case.is_known_uncleaned:
        severity, exactness, benign = _as_if_cleaned(case)
        most = "none holds more"
    else:
        return
    yield case.finding(
        CODES["seq-count-mismatch"],
        f"{found.that('holds', 'hold')} another number of records than of offsets: {most}.",
        severity=severity,
        at=found.at,
        offsets=found.offsets,
        evidence={"batches": found.count, "largest_excess": found.amount},
        exactness=exactness,
        benign=benign,
    )


_SUMS = {
    Noticed.BATCH_MAGIC_OLD: _old,
    Noticed.BATCH_ATTRIBUTES_UNKNOWN: _strange,
    Noticed.SEQ_COUNT_MISMATCH: _miscounted,
}
