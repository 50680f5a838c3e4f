"""Checks for bytes of the log that are not a batch, and for batches that fail their checksum.

Rule: ``FileLogInputStream`` and ``DefaultRecordBatch.ensureValid``. Every reason for damage between batches has a code
here. Faulty records inside a batch with a valid checksum are left to ``record_contents``, which decodes records.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.checks.check import Check
from kforensics.forensics.core.commands import REBUILD
from kforensics.forensics.core.findings import Code, Finding, Severity, by_name
from kforensics.forensics.core.formatting import format_offsets
from kforensics.forensics.core.observations import (
    ObservationArray,
    Observed,
    log_positions,
    observations_of,
)
from kforensics.forensics.core.reporting import first_findings
from kforensics.forensics.partition.damage_codes import code_of, is_reported
from kforensics.forensics.partition.damage_times import DamageTimes, position_after
from kforensics.forensics.partition.log_summary import DAMAGE
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.parsers.format.array_types import IntArray
from kforensics.parsers.format.rows import Damage

CODES = by_name(
    Code(
        "batch-crc-mismatch",
        Severity.CRITICAL,
        meaning="A batch does not match its CRC: its bytes have changed since it was written.",
        remedy=(
            f"{REBUILD} Until then consumers stop at this batch, and after an "
            "unclean shutdown the broker truncates the log here."
        ),
        why=(
            "A disk, a controller, the broker's memory or a copy changed bytes. The CRC covers everything "
            "except base offset, length, leader epoch and magic. Consumers fail with CorruptRecordException "
            "here and cannot continue."
        ),
        benign="It is the last batch of a log that was copied while the broker was writing it.",
    ),
    Code(
        "batch-truncated",
        Severity.WARNING,
        meaning="A segment ends inside a batch, or in space that was never written.",
        remedy=(
            "No action in the last segment: the broker truncates it at startup. Restore any other segment from "
            "another replica."
        ),
        why=(
            "The file ends before the batch does. In the last segment a crash leaves this, and the broker "
            "truncates it at startup; in any other segment data is lost."
        ),
        benign="The files of a running broker were copied. Preallocated files end in zeros.",
    ),
    Code(
        "batch-length-invalid",
        Severity.CRITICAL,
        meaning="The bytes where a batch should start are not a batch: the chain of batch lengths is broken.",
        remedy=(
            f"{REBUILD} A broker that starts on it may truncate the log here. The batches after this "
            "point were found by searching."
        ),
        why=(
            "Only its length field shows where a batch ends, and no checksum covers that field. One wrong "
            "length breaks the chain, and a broker cannot read anything after it. This tool searches for the "
            "next valid batch header to report what follows."
        ),
        benign="A preallocated file ends in zeros.",
    ),
)

COPIED_DURING_WRITE = "copied while the broker was writing"
CRASHED_DURING_WRITE = f"crash during a write, or {COPIED_DURING_WRITE}"


COLLECTOR = DAMAGE


def findings(state: PartitionState) -> Iterator[Finding]:
    """Yield a finding for each range of the log that is not a batch, and for each batch that fails its checksum."""
    by_code: dict[str, list[tuple[int, Damage]]] = {}
    for segment, row in state.log.damage:
        if is_reported(row):
            by_code.setdefault(code_of(row), []).append((segment, row))
    if not by_code:
        return
    offsets = _DamagedOffsets(
        _SortedObservations.of(state, Observed.BATCH_CRC_MISMATCH), _SortedObservations.of(state, Observed.OFFSET_GAP)
    )
    times = DamageTimes.of(state)
    for code, rows in by_code.items():
        damaged = (_damaged(times, code, segment, row, offsets.of(segment, row)) for segment, row in rows)
        yield from first_findings(damaged, len(rows))


@dataclass(frozen=True, slots=True)
class _SortedObservations:
    """Observations in log order, with their log positions."""

    rows: ObservationArray
    positions: IntArray

    @classmethod
    def of(cls, state: PartitionState, kind: Observed) -> _SortedObservations:
        rows = observations_of(state.log.observations, kind)
        rows = rows.take(np.argsort(log_positions(rows), kind="stable"))
        return cls(rows, log_positions(rows))

    def at(self, position: int) -> Any:
        index = int(np.searchsorted(self.positions, position))
        return self.rows[index] if index < len(self.rows) and self.positions[index] == position else None


@dataclass(frozen=True, slots=True)
class _DamagedOffsets:
    """Looks up the offsets of damage: those of the damaged batch, or those missing before the next batch."""

    mismatches: _SortedObservations
    gaps: _SortedObservations

    def of(self, segment: int, row: Damage) -> tuple[int, int] | None:
        if row.inside_batch is not None:
            mismatch = self.mismatches.at(segment << 40 | row.inside_batch)
            return None if mismatch is None else (int(mismatch["first_offset"]), int(mismatch["last_offset"]))
        gap = self.gaps.at(position_after(segment, row))
        return None if gap is None else (int(gap["previous"]) + 1, int(gap["first_offset"]) - 1)


def _damaged(times: DamageTimes, code: str, segment: int, row: Damage, offsets: tuple[int, int] | None) -> Finding:
    state = times.state
    severity, benign = _severity(state, code, segment, row)
    # Zeros were never written.
    span = None if row.reason == "zero-tail" else times.around(segment, row)
    evidence = {"reason": row.reason, "bytes": row.end - row.start, "next_good_position": row.next_good_position}
    return state.finding(
        CODES[code],
        f"{_message(state, segment, row, offsets)}{'' if span is None else span.sentence}",
        severity=severity,
        at=(segment, row.start if row.inside_batch is None else row.inside_batch),
        offsets=offsets,
        evidence=evidence if span is None else {**evidence, **span.evidence},
        benign=(benign,),
    )


def _message(state: PartitionState, segment: int, row: Damage, offsets: tuple[int, int] | None) -> str:
    if row.inside_batch is not None and row.reason == "truncated":
        return f"Torn batch at position {row.inside_batch}: {row.detail}. No broker reads on from there."
    if row.inside_batch is not None:
        which = f" with {format_offsets(*offsets)}" if offsets else ""
        return f"Corrupt batch{which} at position {row.inside_batch}: {row.detail}."
    if row.reason == "truncated" and _is_at_log_end(state, segment, row):
        return f"The last batch is torn at position {row.start}: {row.detail}.{_truncation(state)}"
    end = "the end of the segment" if row.next_good_position is None else f"position {row.end}"
    missing = f" Missing: {format_offsets(*offsets)}." if offsets else ""
    return f"No valid batch from position {row.start} to {end}: {row.detail}.{missing}"


def _truncation(state: PartitionState) -> str:
    """Return what the broker does with a torn batch; after a clean shutdown it does not recover the segment."""
    if state.partition.log_dir.clean_shutdown:
        return ""
    return f" The broker will truncate the log to offset {state.log_end_offset} at startup."


def _severity(state: PartitionState, code: str, segment: int, row: Damage) -> tuple[Severity, str]:
    """Return the severity of damage, and the tested explanation."""
    severity, is_truncated = CODES[code].severity, code == "batch-truncated"
    if not _is_at_log_end(state, segment, row):
        worse = Severity.ERROR if is_truncated else severity
        return worse, f"{COPIED_DURING_WRITE}: ruled out, not at the end of the last segment"
    if row.reason == "zero-tail":
        return Severity.INFO, "preallocated space: likely, only zeros follow"
    if is_truncated and state.partition.log_dir.clean_shutdown:
        return severity, f"{CRASHED_DURING_WRITE}: unlikely, clean shutdown"
    if is_truncated:
        return severity, f"{CRASHED_DURING_WRITE}: likely, the log ends here"
    if code == "batch-crc-mismatch" and _was_being_written(state):
        return Severity.WARNING, f"{COPIED_DURING_WRITE}: likely, the last batch of a file written at that time"
    return severity, f"{CRASHED_DURING_WRITE}: possible, the log ends here"


def _is_at_log_end(state: PartitionState, segment: int, row: Damage) -> bool:
    """Return whether no batch follows the damage."""
    if segment < len(state.partition.segments) - 1 or row.next_good_position is not None:
        return False
    ends = state.log.segments["end"][state.log.segments["segment"] == segment]
    return row.end >= int(ends.max(initial=0))


def _was_being_written(state: PartitionState) -> bool:
    written = state.partition.segments[-1].mtime_ms
    if written is None or state.partition.log_dir.clean_shutdown:
        return False
    return abs(state.rules.as_of_ms - written) <= state.rules.clock_skew_ms


CHECK = Check("damage", CODES, findings, collector=COLLECTOR)
