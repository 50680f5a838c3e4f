"""Checks that replicas that were compacted at different times still agree.

Every broker cleans on its own schedule, so one replica may still have records that another one has lost. But no cleaner
changes a record, and none removes the newest record of a key, except for tombstones that are old enough.
"""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.broker_settings import DELETE_RETENTION
from kforensics.forensics.core.findings import Code, Exactness, Finding, Severity, by_name
from kforensics.forensics.core.reporting import first_findings
from kforensics.forensics.partition.log_gaps import MERGED_IN_COPY
from kforensics.forensics.replicas.comparison import Comparison
from kforensics.forensics.replicas.differences import DifferenceKind
from kforensics.forensics.replicas.key_differences import KeyDifference, KeyLoss
from kforensics.forensics.replicas.record_differences import RecordDifference

CODES = by_name(
    Code(
        "replica-record-divergence",
        Severity.CRITICAL,
        meaning="In the compacted part of the log, replicas have different records at the same offset.",
        remedy=(
            "Copy all replicas of {topic}-{partition}, determine the correct one by the leader epochs, and "
            "rebuild the others."
        ),
        why=(
            "A cleaner removes records but never changes them. So different records were written to one of the "
            "replicas."
        ),
        benign="None: a record that only one side has is not counted.",
    ),
    Code(
        "replica-key-divergence",
        Severity.ERROR,
        meaning="After compaction, the newest record of a key differs between two replicas.",
        remedy=(
            "Rebuild the replica of {topic}-{partition} that lost the record, or write the correct value of the "
            "key again, or its tombstone if it was deleted."
        ),
        why=(
            "Cleaners run at different times but keep the newest record of each key. A key whose newest record "
            "is missing on one replica has lost its value there, or has an old value again."
        ),
        benign=(
            "The key was deleted while a replica was away for longer than delete.retention.ms: it never got the "
            "tombstone, and kept the record."
        ),
    ),
)

RECORD, KEY = CODES.values()
SHOWN_BYTES = 64


def findings(comparison: Comparison) -> Iterator[Finding]:
    """Yield offsets and keys at which compacted replicas disagree."""
    differing = comparison.differing_records
    yield from first_findings((_of_record(comparison, difference) for difference in differing.first), differing.count)
    keys = comparison.differing_keys
    yield from first_findings((_of_key(comparison, difference) for difference in keys), len(keys))


def _of_record(comparison: Comparison, difference: RecordDifference) -> Finding:
    first, second = comparison.replicas[difference.first], comparison.replicas[difference.second]
    return comparison.finding(
        first,
        RECORD,
        f"{first.name} and {second.name} have different records at offset {difference.offset}.",
        at=difference.at,
        offsets=(difference.offset, difference.offset),
        evidence={
            "other": second.partition.folder,
            "other_path": second.state.path(difference.other_at[0]),
            "other_position": difference.other_at[1],
        },
        benign=("compacted at different times: no, both have a record there",),
    )


def _of_key(comparison: Comparison, difference: KeyDifference) -> Finding:
    lacking, having = difference.lacking.name, difference.having.name
    older = "no record" if difference.older_offset is None else f"the one at offset {difference.older_offset}"
    loss = {
        KeyLoss.VALUE: f"{lacking} has lost the record at offset {difference.offset} and has {older}, an older one",
        KeyLoss.TOMBSTONE: f"{lacking} has lost the tombstone at offset {difference.offset} and has {older} again",
        KeyLoss.KEY: f"{having} has its newest record at offset {difference.offset}, {lacking} has none there or later",
    }[difference.lost]
    return comparison.finding(
        difference.lacking,
        KEY,
        f"Key {_shown(difference.key)}: {loss}.",
        offsets=(
            difference.offset if difference.older_offset is None else difference.older_offset,
            difference.offset,
        ),
        evidence={
            "other": difference.having.partition.folder,
            "key": difference.key.hex(),
            "lost": str(difference.lost),
            "offset": difference.offset,
            "older_offset": difference.older_offset,
        },
        severity=_severity(difference),
        cause="replica-divergence" if _is_reported(comparison, difference) else None,
        exactness=_exactness(difference),
        benign=_benign(difference),
    )


def _is_reported(comparison: Comparison, difference: KeyDifference) -> bool:
    """Return whether the batch of the newer record is missing or damaged, which is a finding of its own."""
    first, second = sorted((difference.lacking, difference.having), key=lambda replica: replica.number)
    ranges = comparison.differences_between(first, second, DifferenceKind.MISSING, DifferenceKind.DAMAGED)
    return any(offsets.first_offset <= difference.offset <= offsets.last_offset for offsets in ranges)


def _severity(difference: KeyDifference) -> Severity | None:
    """Return a lower severity if the key may have been deleted."""
    if _may_lack_tombstone(difference) or _may_lack_segment(difference):
        return Severity.INFO
    return Severity.WARNING if difference.lost is KeyLoss.KEY and _may_be_deleted(difference) else None


def _exactness(difference: KeyDifference) -> Exactness:
    if _may_lack_segment(difference):
        return Exactness.UNVERIFIABLE
    return Exactness.APPROXIMATE if difference.lost is KeyLoss.KEY else Exactness.EXACT


def _may_lack_segment(difference: KeyDifference) -> bool:
    """Return whether the copy of the replica without the record may lack its segment."""
    return difference.lacking.state.log_gaps.merged.any_between(difference.offset, difference.offset)


def _may_be_deleted(difference: KeyDifference) -> bool:
    """Return whether the record is old enough that a tombstone after it may have been dropped.

    A replica that was away in the meantime never got the tombstone, and keeps the record. Rule: ``Cleaner``, since
    2.8 by the time of the tombstone's first cleaning.
    """
    rules = difference.having.state.rules
    return difference.timestamp < 0 or rules.as_of_ms - difference.timestamp >= rules.delete_retention.number


def _may_lack_tombstone(difference: KeyDifference) -> bool:
    """Return whether the copy of the replica that has the record may lack the tombstone that followed.

    The record was copied before a cleaning then, and what followed after the next one, which drops the tombstone.
    """
    return difference.lost is KeyLoss.KEY and difference.having.state.was_deleting_files


def _benign(difference: KeyDifference) -> tuple[str, ...]:
    newer = f"newer record of the key on {difference.lacking.name}: no, none committed up to its end"
    if _may_lack_segment(difference):
        return newer, f"{MERGED_IN_COPY}: likely, {difference.lacking.name} lacks the segment with this offset"
    if difference.lost is KeyLoss.KEY:
        retention = difference.having.state.rules.delete_retention
        limit = f"{DELETE_RETENTION} = {retention.number}, {retention.source}"
        may_be = f"not ruled out ({limit})" if _may_be_deleted(difference) else f"no, the record is younger ({limit})"
        return newer, f"deleted while {difference.having.name} was away, and the tombstone dropped: {may_be}"
    return newer, "tombstone old enough to be dropped: no, an older record of the key would have been dropped first"


def _shown(key: bytes) -> str:
    """Return a key as text if it is ASCII, otherwise in hex, and shortened if it is long."""
    text = key.decode(errors="backslashreplace") if key.isascii() else key.hex()
    return repr(text if len(text) <= SHOWN_BYTES else f"{text[:SHOWN_BYTES]}…")


CHECK = Check("cleaned_records", CODES, findings)
