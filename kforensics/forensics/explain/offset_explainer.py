"""Explain the offsets of a partition: which consumers receive the record, or why there is none."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.explain.batch_evidence import aborted_entry, batches_of_same_sequence, next_snapshot
from kforensics.forensics.explain.lookup import BatchLookup
from kforensics.forensics.explain.missing_records import (
    Reason,
    UnlistedSegments,
    offset_gap_around,
    out_of_bounds,
    why_no_batch,
    why_no_record,
)
from kforensics.forensics.explain.offset_story import LogBounds, OffsetStory, RecordStatus, StoredBatch
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import Record
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for

NEVER = int(np.iinfo("i8").max)
MARKERS = ("COMMIT", "ABORT")


def bounds_of(state: PartitionState, high_watermark: int | None = None) -> LogBounds:
    """Return the offsets between which consumers of a partition are served.

    Args:
        state: the partition.
        high_watermark: None for the log end offset; a value outside the log is moved to the nearer end.
    """
    given = state.log_end_offset if high_watermark is None else high_watermark
    end = min(max(given, state.local_log_start_offset), state.log_end_offset)
    (last_stable,), blocking = last_stable_offsets(
        state.transaction_store, state.local_log_start_offset, np.array([end])
    )
    return LogBounds(
        log_start_offset=state.log_start_offset,
        last_stable_offset=int(last_stable),
        high_watermark=end,
        log_end_offset=state.log_end_offset,
        exact=_is_exact(state, end) or int(last_stable) <= state.local_log_start_offset,
        checkpointed_high_watermark=state.high_watermark,
        blocking_transaction=blocking[0] if blocking["batches"][0] >= 0 else None,
    )


def _is_exact(state: PartitionState, high_watermark: int) -> bool:
    return state.exact_from is not None and high_watermark >= state.exact_from and not state.is_broken


@dataclass(frozen=True, slots=True)
class _BatchContext:
    """A batch, and the evidence that all of its records share: fields of OffsetStory by name."""

    batch: StoredBatch
    evidence: dict[str, Any] = field(default_factory=dict)


class OffsetExplainer:
    """Explains the offsets of a partition, one by one.

    The log is not replayed again, and the records of only one batch are decoded for an offset.

    Args:
        state: the partition.
        high_watermark: the high watermark at which to evaluate; None for the log end offset.
        kernels: provides the compiled kernels.
    """

    def __init__(
        self, state: PartitionState, high_watermark: int | None = None, kernels: KernelPolicy = kernels_for
    ) -> None:
        self._state, self._kernels = state, kernels
        self._bounds = bounds_of(state, high_watermark)
        self._lookup, self._unlisted = BatchLookup(state, kernels), UnlistedSegments(state)
        self._context: _BatchContext | None = None

    def story(self, offset: int) -> OffsetStory:
        """Return the explanation of an offset.

        Raises:
            InputError: a segment cannot be read again.
        """
        outside = out_of_bounds(self._state, offset)
        first = int(self._state.log.first.base_offset[0]) if self._state.log.batches else NEVER
        if outside is not None and (outside.status is not RecordStatus.DELETED or offset < first):
            return self._story(offset, self._unlisted.reason(offset) or outside)
        position, batches = self._lookup.find(offset)
        if position.spanning is None:
            unlisted = self._unlisted.reason(offset)
            reason = outside or unlisted or why_no_batch(self._state, offset, position, batches)
            aborted = self._overlapping_aborted(offset) if reason.status is RecordStatus.COMPACTED else ()
            offset_gap = offset_gap_around(self._state, position, batches)
            return self._story(offset, reason, offset_gap=offset_gap, overlapping_aborted=aborted)
        context = self._context_of(self._lookup.batch(batches, position.spanning))
        record = self._lookup.decoded().by_offset.get(offset)
        fields = {**context.evidence, "batch": context.batch, "record": record}
        if record is not None and context.batch.header.is_control:
            fields["control"] = control_fields(record)
        return self._story(offset, outside or self._reason(offset, context, record), **fields)

    def _story(self, offset: int, reason: Reason, **fields: Any) -> OffsetStory:
        partition = self._state.partition
        return OffsetStory(
            place=partition.place,
            folder=partition.folder,
            offset=offset,
            status=reason.status,
            exactness=reason.exactness,
            why=reason.why,
            bounds=self._bounds,
            missing=None if partition.has_log else MissingLog.of(self._state, "LSO"),
            **fields,
            paths=tuple(segment.path for segment in partition.segments),
        )

    def _overlapping_aborted(self, offset: int) -> tuple[np.void, ...]:
        aborted: list[np.void] = []
        for rows in self._state.transaction_store.since(offset):
            overlaps = (rows["first_offset"] <= offset) & (offset < rows["marker_offset"])
            aborted += [*rows[overlaps & (rows["outcome"] == TransactionOutcome.ABORTED)]]
        return tuple(aborted)

    def _context_of(self, batch: StoredBatch) -> _BatchContext:
        if self._context is None or self._context.batch is not batch:
            self._context = _BatchContext(batch, self._evidence(batch))
        return self._context

    def _evidence(self, batch: StoredBatch) -> dict[str, Any]:
        evidence: dict[str, Any] = {
            "snapshot": next_snapshot(self._state, batch.header.last_offset, batch.producer_id),
            "same_sequence": batches_of_same_sequence(self._state, batch, self._kernels),
        }
        # An emptied marker does not end a transaction (``ProducerAppendInfo.append``).
        if not batch.header.is_transactional or (batch.header.is_control and not batch.header.count):
            return evidence
        transaction = self._transaction(batch)
        if transaction is not None and transaction["outcome"] != TransactionOutcome.OPEN:
            segment = int(transaction["marker_segment"])
            entry = aborted_entry(self._state, batch.producer_id, batch.header.last_offset, segment)
            evidence["entry"], evidence["indexed"] = entry
        return {**evidence, "transaction": transaction}

    def _transaction(self, batch: StoredBatch) -> np.void | None:
        """Return the transaction of a batch, as a TRANSACTION record: the one of its producer that ends next."""
        for rows in self._state.transaction_store.since(batch.base_offset):
            ends = np.where(rows["outcome"] == TransactionOutcome.OPEN, NEVER, rows["marker_offset"])
            matches = (rows["producer_id"] == batch.producer_id) & (rows["first_offset"] <= batch.header.last_offset)
            indexes = np.flatnonzero(matches & (ends >= batch.base_offset))
            if len(indexes):
                transaction: np.void = rows[indexes[0]]
                return transaction
        return None

    def _reason(self, offset: int, context: _BatchContext, record: Record | None) -> Reason:
        batch = context.batch
        if record is None:
            return why_no_record(self._state, offset, batch, self._lookup.decoded().damage)
        if not batch.header.crc_valid:
            why = "the CRC of its batch does not match, and consumers stop there; the record is shown as it is stored"
            return Reason(RecordStatus.DAMAGED, why)
        if batch.header.is_control:
            return Reason(RecordStatus.CONTROL, _control(record, context.evidence.get("transaction")))
        if offset >= self._bounds.high_watermark:
            why = f"it is not below the high watermark {self._bounds.high_watermark}"
            return Reason(RecordStatus.NOT_REPLICATED, why)
        return self._visibility(offset, context)

    def _visibility(self, offset: int, context: _BatchContext) -> Reason:
        exactness = Exactness.APPROXIMATE if self._state.is_broken else Exactness.EXACT
        membership = "it is not in a transaction"
        if context.batch.header.is_transactional:
            status, outcome = _outcome(context, self._bounds.high_watermark)
            if status is not RecordStatus.VISIBLE:
                return Reason(status, outcome, exactness)
            membership = f"it is in {outcome}"
        if offset >= self._bounds.last_stable_offset:
            limit = f"the last stable offset {self._bounds.last_stable_offset}{_blocked(self._bounds)}"
            return Reason(RecordStatus.HELD_BACK, f"{membership}, but it is not below {limit}", exactness)
        if self._bounds.exact:
            return Reason(RecordStatus.VISIBLE, membership, exactness)
        doubt = "it would be hidden if a transaction from before the available log were still open"
        return Reason(RecordStatus.VISIBLE, f"{membership}; {doubt}", Exactness.APPROXIMATE)


def _control(record: Record, transaction: np.void | None) -> str:
    control_type, _ = control_fields(record)
    if control_type not in MARKERS:
        return f"it is a control record of type {control_type}"
    if transaction is None:
        return f"it is a {control_type} marker that ended no available data"
    producer = f"producer {transaction['producer_id']}"
    return f"it is the {control_type} marker of the transaction of {producer} from offset {transaction['first_offset']}"


def _outcome(context: _BatchContext, high_watermark: int) -> tuple[RecordStatus, str]:
    """Return the status that the outcome of its transaction gives a batch, and the reason."""
    transaction, producer_id = context.evidence["transaction"], context.batch.producer_id
    if transaction is None:
        return RecordStatus.UNDECIDED, f"its transaction of producer {producer_id} is not available"
    name = f"the transaction of producer {producer_id} from offset {transaction['first_offset']}"
    marker = int(transaction["marker_offset"])
    if transaction["outcome"] == TransactionOutcome.OPEN:
        return RecordStatus.UNDECIDED, f"{name} is open"
    if marker >= high_watermark:
        return RecordStatus.UNDECIDED, f"the marker of {name} is at offset {marker}, which is not replicated yet"
    if transaction["outcome"] == TransactionOutcome.ABORTED:
        return RecordStatus.ABORTED, f"{name} was aborted by the marker at offset {marker}"
    return RecordStatus.VISIBLE, f"{name}, which was committed by the marker at offset {marker}"


def _blocked(bounds: LogBounds) -> str:
    transaction = bounds.blocking_transaction
    if transaction is None:
        return ""
    first = transaction["first_offset"]
    return f", which is blocked by the transaction of producer {transaction['producer_id']} from offset {first}"
