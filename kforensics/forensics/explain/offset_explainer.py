"""Explain the offsets of a partition: which consumers receive the record, or why there is none."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from kforensics.forensics.checks.partition.missing_logs import MissingLog
from kforensics.forensics.core.findings import Exactness
from kforensics.forensics.core.formatting import format_time
from kforensics.forensics.core.record_types import TransactionOutcome
from kforensics.forensics.explain.batch_evidence import (
    TransactionIndex,
    batches_of_same_sequence,
    next_snapshot,
    transaction_index,
)
from kforensics.forensics.explain.lookup import BatchLookup
from kforensics.forensics.explain.missing_records import (
    Reason,
    UnlistedSegments,
    offset_gap_around,
    out_of_bounds,
    reason_limits,
    unless_deleted,
    why_no_batch,
    why_no_record,
)
from kforensics.forensics.explain.offset_story import (
    AbortedEntry,
    LogBounds,
    OffsetRun,
    OffsetStory,
    RecordStatus,
    StoredBatch,
)
from kforensics.forensics.partition.lagging_replica import lagging_since
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.stable_offset import lowest_answer
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.format.control_records import control_fields
from kforensics.parsers.format.rows import TRANSACTIONAL_BIT, Record
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for

NEVER = int(np.iinfo("i8").max)
MARKERS = ("COMMIT", "ABORT")
# The message format that has transactions.
MAGIC = 2
# Transaction indexes that are kept; the markers of a range are in a few segments.
MAX_INDEXES = 8


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
    blocking_transaction = blocking[0] if blocking["batches"][0] >= 0 else None
    is_sure = lowest_answer(state, int(last_stable), blocking_transaction) == last_stable
    return LogBounds(
        log_start_offset=state.log_start_offset,
        last_stable_offset=int(last_stable),
        high_watermark=end,
        log_end_offset=state.log_end_offset,
        exact=is_sure and (_is_exact(state, end) or int(last_stable) <= state.local_log_start_offset),
        checkpointed_high_watermark=state.high_watermark,
        blocking_transaction=blocking_transaction,
        lagging_since=lagging_since(state),
        earlier_start=state.earlier_start,
    )


def _is_exact(state: PartitionState, high_watermark: int) -> bool:
    return state.exact_from is not None and high_watermark >= state.exact_from and not state.is_broken


@dataclass(frozen=True, slots=True)
class _BatchContext:
    """A batch, and the evidence that all of its records share: fields of OffsetStory by name."""

    batch: StoredBatch
    evidence: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Membership:
    """The transaction that a batch is in.

    Attributes:
        producer_id: its producer, None if it is not transactional.
        transaction: TRANSACTION record, None if it is not available.
        lacking: offset of the snapshot that shows what its broker has forgotten, None without one.
    """

    producer_id: int | None
    transaction: np.void | None = None
    lacking: int | None = None


_NO_TRANSACTION = _Membership(None)


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
        self._ahead: dict[int, np.void] = {}
        self._indexes: dict[int, TransactionIndex | bool | None] = {}

    def runs(self, first: int, end: int) -> Iterator[OffsetRun]:
        """Yield the runs of offsets with the same story, from an offset to before another one.

        The records of a batch are looked at one by one only if not each of its offsets has a readable one.

        Args:
            first: the first offset.
            end: the offset after the last one.

        Raises:
            InputError: a segment cannot be read again.
        """
        limits = sorted({*reason_limits(self._state), *self._unlisted.base_offsets, *self._consumer_limits()})
        run: OffsetRun | None = None
        offset = first
        while offset < end:
            following = bisect_right(limits, offset)
            piece = self._piece(offset, min([end, *limits[following : following + 1]]))
            offset = piece.last_offset + 1
            if run is not None and run.meaning == piece.meaning:
                run = replace(run, last_offset=piece.last_offset)
                continue
            if run is not None:
                yield run
            run = piece
        if run is not None:
            yield run

    def _consumer_limits(self) -> set[int]:
        first = {int(self._state.log.first.base_offset[0])} if self._state.log.batches else set()
        return first | {self._bounds.last_stable_offset, self._bounds.high_watermark}

    def _piece(self, offset: int, end: int) -> OffsetRun:
        """Return offsets that are known to have the same story: at most those of a batch or of an offset gap."""
        outside = out_of_bounds(self._state, offset)
        if outside is not None:
            is_stored = outside.status is RecordStatus.DELETED and offset >= self._state.partition.first_offset
            reason = None if is_stored else self._unlisted.reason(offset)
            return OffsetRun(offset, end - 1, self._story(offset, reason or self._with_log_start(outside)))
        position, batches = self._lookup.find(offset)
        if position.spanning is None:
            last = offset if position.after is None else int(batches.base_offset[position.after]) - 1
            return OffsetRun(offset, min(last, end - 1), self.story(offset))
        row = position.spanning
        is_data = batches.control[row] == NO_CONTROL and batches.crc_valid[row]
        if not (is_data and batches.exact[row] and self._lookup.has_all_records(batches, row)):
            return OffsetRun(offset, offset, self.story(offset))
        last = min(int(batches.last_offset[row]), end - 1)
        return OffsetRun(offset, last, self._data_story(offset, batches, row))

    def _data_story(self, offset: int, batches: BatchColumns, row: int) -> OffsetStory:
        """Return the story of an offset of a batch whose records are all there, without its batch."""
        producer_id, last = int(batches.producer_id[row]), int(batches.last_offset[row])
        if batches.magic[row] < MAGIC or not batches.attributes[row] & TRANSACTIONAL_BIT:
            return self._story(offset, self._visibility(offset, _NO_TRANSACTION))
        transaction = self._ahead.get(producer_id)
        if transaction is None or not _covers(transaction, int(batches.base_offset[row]), last):
            transaction = self._transaction(producer_id, int(batches.base_offset[row]), last)
            if transaction is not None:
                self._ahead[producer_id] = transaction
        entry, indexed = self._entry(transaction, producer_id, last)
        member = self._membership(producer_id, transaction, (int(batches.base_offset[row]), last))
        reason = self._visibility(offset, member)
        return self._story(offset, reason, transaction=transaction, entry=entry, indexed=indexed)

    def _entry(
        self, transaction: np.void | None, producer_id: int, offset: int
    ) -> tuple[AbortedEntry | None, bool | None]:
        """Return the index entry that hides data of a transaction, and whether there is one; None if unknown."""
        if transaction is None or transaction["outcome"] == TransactionOutcome.OPEN:
            return None, None
        segment = int(transaction["marker_segment"])
        if segment not in self._indexes:
            if len(self._indexes) == MAX_INDEXES:
                self._indexes.clear()
            self._indexes[segment] = transaction_index(self._state, segment)
        index = self._indexes[segment]
        if not isinstance(index, TransactionIndex):
            return None, index
        entry = index.entry(producer_id, offset)
        return entry, entry is not None

    def story(self, offset: int) -> OffsetStory:
        """Return the explanation of an offset.

        Raises:
            InputError: a segment cannot be read again.
        """
        outside = out_of_bounds(self._state, offset)
        first = int(self._state.log.first.base_offset[0]) if self._state.log.batches else NEVER
        if outside is not None and (outside.status is not RecordStatus.DELETED or offset < first):
            return self._story(offset, self._unlisted.reason(offset) or self._with_log_start(outside))
        if outside is not None:
            outside = self._with_log_start(outside)
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

    def _with_log_start(self, reason: Reason) -> Reason:
        """Return why an offset was deleted, with the first offset that is left and the time of its record.

        No file shows when it was deleted: the time of what is left is the nearest that is known.
        """
        if reason.status is not RecordStatus.DELETED:
            return reason
        start = self._bounds.log_start_offset
        if start >= self._bounds.log_end_offset:
            return replace(reason, why=f"{reason.why}; the log has no records now")
        position, batches = self._lookup.find(start)
        if position.spanning is None:
            return reason
        newest = self._lookup.batch(batches, position.spanning).header.max_timestamp
        record = self._lookup.decoded().by_offset.get(start)
        timestamp = newest if record is None else record.timestamp
        time = "without a timestamp" if timestamp < 0 else f"from {format_time(timestamp)}"
        return replace(reason, why=f"{reason.why}; consumers can read from offset {start} on, whose record is {time}")

    def _story(self, offset: int, reason: Reason, **fields: Any) -> OffsetStory:
        partition, reason = self._state.partition, unless_deleted(self._state, offset, reason)
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
        transaction = self._transaction(batch.producer_id, batch.base_offset, batch.header.last_offset)
        entry, indexed = self._entry(transaction, batch.producer_id, batch.header.last_offset)
        return {**evidence, "entry": entry, "indexed": indexed, "transaction": transaction}

    def _transaction(self, producer_id: int, base_offset: int, last_offset: int) -> np.void | None:
        """Return the transaction of a batch, as a TRANSACTION record: the one of its producer that ends next."""
        for rows in self._state.transaction_store.since(base_offset):
            ends = np.where(rows["outcome"] == TransactionOutcome.OPEN, NEVER, rows["marker_offset"])
            matches = (rows["producer_id"] == producer_id) & (rows["first_offset"] <= last_offset)
            indexes = np.flatnonzero(matches & (ends >= base_offset))
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
        member = _NO_TRANSACTION
        if batch.header.is_transactional:
            offsets = batch.base_offset, batch.header.last_offset
            member = self._membership(batch.producer_id, context.evidence["transaction"], offsets)
        return self._visibility(offset, member)

    def _membership(self, producer_id: int, transaction: np.void | None, offsets: tuple[int, int]) -> _Membership:
        """Return the transaction that a batch is in, also if its broker forgot it."""
        if transaction is not None:
            return _Membership(producer_id, transaction)
        store = self._state.transaction_store
        return _Membership(producer_id, store.forgotten_at(producer_id, *offsets), store.lacking)

    def _visibility(self, offset: int, member: _Membership) -> Reason:
        if offset >= self._bounds.high_watermark:
            why = f"it is not below the high watermark {self._bounds.high_watermark}"
            return Reason(RecordStatus.NOT_REPLICATED, why)
        exactness = Exactness.APPROXIMATE if self._state.is_broken else Exactness.EXACT
        membership = "it is not in a transaction"
        if member.producer_id is not None:
            status, outcome = _outcome(member.producer_id, member, self._bounds.high_watermark)
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


def _covers(transaction: np.void, base_offset: int, last_offset: int) -> bool:
    """Return whether a batch of the producer is in a transaction; a producer has one at a time."""
    is_open = transaction["outcome"] == TransactionOutcome.OPEN
    return bool(transaction["first_offset"] <= last_offset and (is_open or transaction["marker_offset"] >= base_offset))


def _outcome(producer_id: int, member: _Membership, high_watermark: int) -> tuple[RecordStatus, str]:
    """Return the status that the outcome of its transaction gives a batch, and the reason.

    What a broker has forgotten blocks nothing and is in no index: all receive it, whatever its coordinator decides.
    """
    transaction = member.transaction
    if transaction is None:
        return RecordStatus.UNDECIDED, f"its transaction of producer {producer_id} is not available"
    name = f"the transaction of producer {producer_id} from offset {transaction['first_offset']}"
    marker = int(transaction["marker_offset"])
    if transaction["outcome"] == TransactionOutcome.FORGOTTEN:
        why = "forgot when it loaded the log while the topic had message format 0 or 1"
        if member.lacking is not None:
            why = f"has forgotten, as its snapshot at offset {member.lacking} shows"
        return RecordStatus.VISIBLE, f"{name}, which the broker {why}: no marker hides its data"
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
