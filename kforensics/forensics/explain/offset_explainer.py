"""Tells the story of offsets of a partition whose log was examined."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.record_types import Ending
from kforensics.forensics.explain.batch_evidence import aborted_entry, batches_of_same_sequence, next_snapshot
from kforensics.forensics.explain.lookup import BatchLookup
from kforensics.forensics.explain.missing_records import (
    Reason,
    Unnamed,
    hole_around,
    out_of_bounds,
    why_no_batch,
    why_no_record,
)
from kforensics.forensics.explain.offset_story import Fate, LogBounds, OffsetStory, StoredBatch
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.format.control import control_of
from kforensics.parsers.format.rows import Record
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["OffsetExplainer", "bounds_of"]

NEVER = int(np.iinfo("i8").max)
MARKERS = ("COMMIT", "ABORT")


def bounds_of(case: Case, high_watermark: int | None = None) -> LogBounds:
    """Return between which offsets consumers of a partition are served.

    Args:
        case: the partition.
        high_watermark: None for the log end offset; one outside the log is moved to the nearer end.
    """
    asked = case.log_end_offset if high_watermark is None else high_watermark
    end = min(max(asked, case.log_start_offset), case.log_end_offset)
    (stable,), holders = last_stable_offsets(case.ledger, case.log_start_offset, np.array([end]))
    return LogBounds(
        log_start_offset=case.log_start_offset,
        last_stable_offset=int(stable),
        high_watermark=end,
        log_end_offset=case.log_end_offset,
        exact=case.exact_from is not None and end >= case.exact_from and not case.is_broken,
        at_checkpoint=case.high_watermark,
        holder=holders[0] if holders["batches"][0] >= 0 else None,
    )


@dataclass(frozen=True, slots=True)
class _Context:
    """What is the same for all records of a batch."""

    batch: StoredBatch
    evidence: dict[str, Any] = field(default_factory=dict)


class OffsetExplainer:
    """Tells of one offset after the other; the log is not replayed again, and of one batch only records are decoded.

    Args:
        case: the partition.
        high_watermark: for which one; None for the log end offset.
        kernels: gives the compiled kernels.
    """

    def __init__(self, case: Case, high_watermark: int | None = None, kernels: Choice = kernels_for) -> None:
        self._case, self._kernels = case, kernels
        self._bounds = bounds_of(case, high_watermark)
        self._lookup, self._unnamed = BatchLookup(case, kernels), Unnamed(case)
        self._context: _Context | None = None

    def story(self, offset: int) -> OffsetStory:
        """Return the story of an offset.

        Raises:
            InputError: a segment cannot be read again.
        """
        outside = out_of_bounds(self._case, offset)
        first = int(self._case.log.first.base_offset[0]) if self._case.log.batches else NEVER
        if outside is not None and (outside.fate is not Fate.DELETED or offset < first):
            return self._told(offset, self._unnamed.reason(offset) or outside)
        found, batches = self._lookup.find(offset)
        if found.at is None:
            unnamed = self._unnamed.reason(offset)
            reason = outside or unnamed or why_no_batch(self._case, offset, found, batches)
            around = self._around(offset) if reason.fate is Fate.COMPACTED else ()
            return self._told(offset, reason, hole=hole_around(self._case, found, batches), around=around)
        context = self._of_batch(self._lookup.batch(batches, found.at))
        record = self._lookup.records().by_offset.get(offset)
        more = {**context.evidence, "batch": context.batch, "record": record}
        if record is not None and context.batch.header.is_control:
            more["control"] = control_of(record)
        return self._told(offset, outside or self._reason(offset, context, record), **more)

    def _told(self, offset: int, reason: Reason, **more: Any) -> OffsetStory:
        partition = self._case.partition
        about = (partition.place, partition.folder, offset, reason.fate, reason.exactness, reason.why, self._bounds)
        return OffsetStory(*about, **more, paths=tuple(segment.path for segment in partition.segments))

    def _around(self, offset: int) -> tuple[Any, ...]:
        found = []
        for rows in self._case.ledger.since(offset):
            spans = (rows["first_offset"] <= offset) & (offset < rows["marker_offset"])
            found += [*rows[spans & (rows["ending"] == Ending.ABORTED)]]
        return tuple(found)

    def _of_batch(self, batch: StoredBatch) -> _Context:
        if self._context is None or self._context.batch is not batch:
            self._context = _Context(batch, self._evidence(batch))
        return self._context

    def _evidence(self, batch: StoredBatch) -> dict[str, Any]:
        found: dict[str, Any] = {
            "snapshot": next_snapshot(self._case, batch.header.last_offset, batch.producer_id),
            "same_sequence": batches_of_same_sequence(self._case, batch, self._kernels),
        }
        # An emptied marker ends nothing (``ProducerAppendInfo.append``).
        if not batch.header.is_transactional or (batch.header.is_control and not batch.header.count):
            return found
        transaction = self._transaction(batch)
        if transaction is not None and transaction["ending"] != Ending.OPEN:
            at = batch.header.last_offset, int(transaction["marker_segment"])
            found["entry"], found["indexed"] = aborted_entry(self._case, batch.producer_id, *at)
        return {**found, "transaction": transaction}

    def _transaction(self, batch: StoredBatch) -> Any:
        """Return the transaction of a batch, as a TRANSACTION record: that of its producer which ends next."""
        for rows in self._case.ledger.since(batch.base_offset):
            ends = np.where(rows["ending"] == Ending.OPEN, NEVER, rows["marker_offset"])
            mine = (rows["producer_id"] == batch.producer_id) & (rows["first_offset"] <= batch.header.last_offset)
            mine &= ends >= batch.base_offset
            which = np.flatnonzero(mine)
            if len(which):
                return rows[which[0]]
        return None

    def _reason(self, offset: int, context: _Context, record: Record | None) -> Reason:
        batch = context.batch
        if record is None or not batch.header.crc_valid:
            if record is not None:
                why = (
                    "the checksum of its batch does not hold, and a consumer stops at it; it is told as it stands there"
                )
                return Reason(Fate.DAMAGED, why)
            return why_no_record(self._case, offset, batch, self._lookup.records().damage)
        if batch.header.is_control:
            return Reason(Fate.CONTROL, _control(record, context.evidence.get("transaction")))
        if offset >= self._bounds.high_watermark:
            why = f"it is not below the high watermark {self._bounds.high_watermark}"
            return Reason(Fate.NOT_REPLICATED, why)
        return self._visibility(offset, context)

    def _visibility(self, offset: int, context: _Context) -> Reason:
        exactness = Exactness.APPROXIMATE if self._case.is_broken else Exactness.EXACT
        outcome, why = "is in no transaction", ""
        if context.batch.header.is_transactional:
            fate, outcome = _fate(context, self._bounds.high_watermark)
            if fate is not Fate.VISIBLE:
                return Reason(fate, outcome, exactness)
            outcome = f"is in {outcome}"
        if offset >= self._bounds.last_stable_offset:
            why = f"it {outcome}, but it is not below the last stable offset {self._bounds.last_stable_offset}"
            return Reason(Fate.HELD_BACK, f"{why}{_held(self._bounds.holder)}", exactness)
        known = self._bounds.exact
        why = "" if known else "; it would be hidden if something from before the log on hand were still open"
        return Reason(Fate.VISIBLE, f"it {outcome}{why}", exactness if known else Exactness.APPROXIMATE)


def _control(record: Record, transaction: Any) -> str:
    kind, _ = control_of(record)
    if kind not in MARKERS:
        return f"it is a control record, {kind}"
    if transaction is None:
        return f"it is a marker, {kind}, and ended nothing that is on hand"
    who = f"producer {transaction['producer_id']}"
    return f"it is the marker, {kind}, of the transaction of {who} from offset {transaction['first_offset']} on"


def _fate(context: _Context, high_watermark: int) -> tuple[Fate, str]:
    """Return what the marker of its transaction makes of a batch, and the transaction in words."""
    found, producer_id = context.evidence["transaction"], context.batch.producer_id
    if found is None:
        return Fate.UNDECIDED, f"its transaction of producer {producer_id} is not on hand"
    name = f"transaction of producer {producer_id} from offset {found['first_offset']} on"
    marker = int(found["marker_offset"])
    if found["ending"] == Ending.OPEN:
        return Fate.UNDECIDED, f"the {name} is open"
    if marker >= high_watermark:
        return Fate.UNDECIDED, f"the marker of the {name}, at offset {marker}, is not replicated yet"
    if found["ending"] == Ending.ABORTED:
        return Fate.ABORTED, f"the {name} was aborted by the marker at offset {marker}"
    return Fate.VISIBLE, f"the {name}, which the marker at offset {marker} committed"


def _held(holder: Any) -> str:
    if holder is None:
        return ""
    return f": the transaction of producer {holder['producer_id']} from offset {holder['first_offset']} on holds it"
