"""Bytes of a log that are no batch, and batches whose bytes are not those that were written.

Rule: ``FileLogInputStream`` and ``DefaultRecordBatch.ensureValid``. Every reason for damage between batches has a code
here; what is wrong with records inside a sound batch is not seen by a walk over headers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.core.aggregation import first_findings, first_notes
from kforensics.forensics.core.findings import Finding, Severity, codes
from kforensics.forensics.core.observations import Noticed, of_kind
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.rules import Rules
from kforensics.forensics.partition.log_summary import Noter
from kforensics.forensics.partition.partition_state import Case
from kforensics.parsers.columns.batch_columns import BatchColumns
from kforensics.parsers.format.rows import Damage

__all__ = ["CODES", "NOTER", "code_of", "findings", "place_behind", "places"]

CODES = codes("""
batch-crc-mismatch critical
A batch has other bytes than those its checksum was taken of.
Build the replica again; consumers stop here, and a broker cuts the log here after an unclean stop.
why: The disk, a controller, the memory of the broker or a copy has changed bytes. Base offset, length, leader epoch \
and format lie outside the checksum; all else is covered. Consumers fail with CorruptRecordException here and do not \
get further.
innocent: The very last batch of a log that was copied while the broker wrote it.

batch-truncated warning
A segment ends inside a batch, or in space that was never written to.
In the last segment nothing is to be done: the broker cuts it off when it starts. Elsewhere restore it from a replica.
why: The file ended before the batch did. In the last segment that is what a crash leaves, and the broker cuts it off; \
in any other the end of a segment is lost.
innocent: A copy of a running broker. Preallocated files end in zeros.

batch-length-invalid critical
Where a batch should begin stands something that is none: the chain of lengths is broken.
Build the replica again; what stands behind was found by searching, and a broker cuts the log here.
why: Where a batch ends is only told by its length, and no checksum covers that. One wrong length breaks the chain: a \
broker sees nothing behind it. What is told of the rest was found by looking for the next header that checks out.
innocent: Zeros at the end of a preallocated file.
""")

# What may be wrong with a batch that was read all the same; the other reasons inside a batch are about records.
OF_BATCHES = ("crc", "magic")
CODE_BY_REASON = {
    "crc": "batch-crc-mismatch",
    "truncated": "batch-truncated",
    "shrunk": "batch-truncated",
    "zero-tail": "batch-truncated",
}
# For all others: length, magic, zeros.
CHAIN_BROKEN = "batch-length-invalid"
LIVE_COPY = "a copy made while the broker wrote"


def _of_batches(batches: BatchColumns, _: Rules) -> Iterator[Records]:
    if not batches.crc_valid.all():
        yield first_notes(Noticed.BATCH_CRC_MISMATCH, batches, ~batches.crc_valid)


NOTER = Noter(batches=_of_batches)


def places(notes: Records) -> Any:
    """Return a number for segment and position of each note, which orders them as the log does."""
    return notes["segment"].astype("i8") << 40 | notes["position"]


def place_behind(segment: int, row: Damage) -> int:
    """Return the same number for the batch that follows damage between batches."""
    return (segment + 1) << 40 if row.next_good_position is None else segment << 40 | row.next_good_position


def code_of(row: Damage) -> str:
    """Return the code that says what is wrong with batches or the bytes between them."""
    return CODE_BY_REASON.get(row.reason, CHAIN_BROKEN)


def findings(case: Case) -> Iterator[Finding]:
    """Yield a finding for each range of a log that is no batch, and for each batch that is not as it was written."""
    by_code: dict[str, list[tuple[int, Damage]]] = {}
    for segment, row in case.log.damage:
        if row.inside_batch is None or row.reason in OF_BATCHES:
            by_code.setdefault(code_of(row), []).append((segment, row))
    offsets = _Offsets(_Notes.of(case, Noticed.BATCH_CRC_MISMATCH), _Notes.of(case, Noticed.OFFSET_GAP))
    for code, rows in by_code.items():
        yield from first_findings((_damaged(case, code, segment, row, offsets) for segment, row in rows), len(rows))


@dataclass(frozen=True, slots=True)
class _Notes:
    """Notes in the order of the log, and a number for the place of each."""

    rows: Records
    places: Any

    @classmethod
    def of(cls, case: Case, kind: Noticed) -> _Notes:
        rows = of_kind(case.log.notes, kind)
        rows = rows.take(np.argsort(places(rows), kind="stable"))
        return cls(rows, places(rows))

    def at(self, place: int) -> Any:
        index = int(np.searchsorted(self.places, place))
        return self.rows[index] if index < len(self.rows) and self.places[index] == place else None


@dataclass(frozen=True, slots=True)
class _Offsets:
    """Tells which offsets damage is about: those of the batch, or those that miss in front of the batch behind it."""

    wrong: _Notes
    gaps: _Notes

    def about(self, segment: int, row: Damage) -> tuple[int, int] | None:
        if row.inside_batch is not None:
            note = self.wrong.at(segment << 40 | row.inside_batch)
            return None if note is None else (int(note["first_offset"]), int(note["last_offset"]))
        note = self.gaps.at(place_behind(segment, row))
        return None if note is None else (int(note["previous"]) + 1, int(note["first_offset"]) - 1)


def _damaged(case: Case, code: str, segment: int, row: Damage, offsets: _Offsets) -> Finding:
    severity, benign = _weighed(case, code, segment, row)
    about = offsets.about(segment, row)
    return case.finding(
        CODES[code],
        _told(row, about),
        severity=severity,
        at=(segment, row.start if row.inside_batch is None else row.inside_batch),
        offsets=about,
        evidence={"reason": row.reason, "bytes": row.end - row.start, "next_good_position": row.next_good_position},
        benign=(benign,),
    )


def _told(row: Damage, about: tuple[int, int] | None) -> str:
    if row.inside_batch is not None:
        offsets = f" with offsets {about[0]} to {about[1]}" if about else ""
        return f"The batch{offsets} at position {row.inside_batch} is not as it was written: {row.detail}."
    where = "to the end of the segment" if row.next_good_position is None else f"up to position {row.end}"
    lost = f" Offsets {about[0]} to {about[1]} are missing there." if about else ""
    return f"There is no batch from position {row.start} {where}: {row.detail}.{lost}"


def _weighed(case: Case, code: str, segment: int, row: Damage) -> tuple[Severity, str]:
    """Return how bad damage is, and what may excuse it."""
    severity, is_cut = CODES[code].severity, code == "batch-truncated"
    if not _is_at_the_end(case, segment, row):
        worse = Severity.ERROR if is_cut else severity
        return worse, f"{LIVE_COPY}: ruled out, this is not the end of the last segment"
    if row.reason == "zero-tail":
        return Severity.INFO, "space set aside for batches to come: likely, only zeros follow"
    if is_cut and case.partition.log_dir.clean_shutdown:
        return severity, f"a crash in mid-write, or {LIVE_COPY}: unlikely, the broker had stopped in good order"
    if is_cut:
        return severity, f"a crash in mid-write, or {LIVE_COPY}: likely, the log ends here"
    if code == "batch-crc-mismatch" and _was_being_written(case):
        return Severity.WARNING, f"{LIVE_COPY}: likely, it is the last batch of a file that was written to just then"
    return severity, f"a crash in mid-write, or {LIVE_COPY}: possible, the log ends here"


def _is_at_the_end(case: Case, segment: int, row: Damage) -> bool:
    """Whether no batch stands behind damage."""
    if segment < len(case.partition.segments) - 1 or row.next_good_position is not None:
        return False
    ends = case.log.segments["end"][case.log.segments["segment"] == segment]
    return row.end >= int(ends.max(initial=0))


def _was_being_written(case: Case) -> bool:
    written = case.partition.segments[-1].mtime_ms
    if written is None or case.partition.log_dir.clean_shutdown:
        return False
    return abs(case.rules.as_of_ms - written) <= case.rules.clock_skew_ms
