"""Where the last stable offset of a partition is, which transaction blocks it, and how much data it hides.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``maybeIncrementFirstUnstableOffset``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any

import numpy as np

from kforensics.forensics.core.formatting import UNKNOWN_TIMES
from kforensics.forensics.core.record_types import TransactionArray
from kforensics.forensics.partition.blocking_transactions import elapsed_since, is_surely_idle
from kforensics.forensics.partition.marker_times import marker_times
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.columns.batch_columns import NO_CONTROL, BatchColumns
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.format.rows import ignore_damage
from kforensics.parsers.kernels.policy import KernelPolicy, kernels_for

__all__ = ["DatedBy", "StableOffset", "lowest_answer", "stable_offset"]


# From this release on a transaction that begins before the log start is blocking where the batch there begins.
BATCH_START_SINCE = (4, 0)


class DatedBy(Enum):
    """What the time of the last batch of a transaction is known from."""

    TIMESTAMP = auto()
    CLIENT = auto()  # a timestamp again, which is old, and nothing shows that the batch is
    MARKER = auto()
    COORDINATOR = auto()


@dataclass(frozen=True, slots=True)
class StableOffset:
    """The last stable offset of a partition.

    Attributes:
        high_watermark: the high watermark it is computed for; by default the log end offset.
        last_stable_offset: the last stable offset; if it is not exact, the largest it can be.
        lowest: the smallest it can be.
        at_checkpoint: the last stable offset at the checkpointed high watermark; None without a checkpoint.
        blocking_transaction: TRANSACTION record of the transaction that blocks it, None if none does.
        idle_ms: time since the last batch of that transaction, None if no transaction blocks it or
            the batch has no timestamp. If its client gave it an older timestamp than the marker before it, or than its
            coordinator has for the begin of the transaction, the time since then: it is no older.
        written_ms: the time to which this refers, None like it.
        dated_by: what that time is.
        hidden_records: data records from the last stable offset to the log end.
        hidden_bytes: bytes of the batches there.
    """

    high_watermark: int
    last_stable_offset: int
    lowest: int
    at_checkpoint: int | None
    blocking_transaction: Any
    idle_ms: int | None
    hidden_records: int
    hidden_bytes: int
    written_ms: int | None = None
    dated_by: DatedBy = DatedBy.TIMESTAMP

    def begun_at(self, state: PartitionState, began_ms: int | None) -> StableOffset:
        """Return the same as its coordinator sees the blocking transaction.

        Args:
            state: the partition.
            began_ms: when it began by its coordinator, in ms; None if its timestamps are no older.
        """
        if began_ms is None:
            by_client = self.dated_by is DatedBy.CLIENT
            return replace(self, dated_by=DatedBy.TIMESTAMP) if by_client else self
        idle_ms = int(elapsed_since(state, began_ms))
        return replace(self, idle_ms=idle_ms, written_ms=began_ms, dated_by=DatedBy.COORDINATOR)

    @property
    def exact(self) -> bool:
        """Whether no transaction from before the available log can block it lower, and any broker answers the same."""
        return self.lowest == self.last_stable_offset


def stable_offset(
    state: PartitionState, high_watermark: int | None = None, kernels: KernelPolicy = kernels_for
) -> StableOffset:
    """Return where the last stable offset of a partition is.

    Args:
        state: the partition.
        high_watermark: None for the log end offset, as if all that is on disk were replicated. A value outside the log
            is moved to the nearer end, as in ``UnifiedLog.updateHighWatermark``.
        kernels: provides the compiled kernels.

    Raises:
        InputError: a segment cannot be read again.
    """
    end = _clamped(state, high_watermark)
    checkpoint = state.high_watermark if state.partition.has_log else None
    high_watermarks = [end] if checkpoint is None else [end, _clamped(state, checkpoint)]
    offsets, blocking_transactions = last_stable_offsets(
        state.transaction_store, state.local_log_start_offset, np.array(high_watermarks)
    )
    offset = int(offsets[0])
    blocking = blocking_transactions[0] if blocking_transactions["batches"][0] >= 0 else None
    written_ms, dated_by = _last_write(state, blocking_transactions[:1])
    known = state.exact_from is not None and end >= state.exact_from and not state.is_broken
    lowest = offset if known else min(offset, state.local_log_start_offset)
    records, size = _hidden(state, offset, kernels) if offset < state.log_end_offset else (0, 0)
    return StableOffset(
        high_watermark=end,
        last_stable_offset=offset,
        lowest=min(lowest, lowest_answer(state, offset, blocking, kernels)),
        at_checkpoint=None if checkpoint is None else int(offsets[1]),
        blocking_transaction=blocking,
        idle_ms=None if written_ms is None else int(elapsed_since(state, written_ms)),
        hidden_records=records,
        hidden_bytes=size,
        written_ms=written_ms,
        dated_by=dated_by,
    )


def lowest_answer(
    state: PartitionState, offset: int, blocking_transaction: Any, kernels: KernelPolicy = kernels_for
) -> int:
    """Return the lowest offset that a broker answers for a last stable offset.

    If the transaction that is blocking it begins before the log start offset, brokers before 4.0 answer the log start
    offset, and later ones the base offset of the batch that they read there. Rule: ``LogSegment.read``.

    Args:
        state: the partition.
        offset: the last stable offset.
        blocking_transaction: TRANSACTION record, None if no transaction is blocking it.
        kernels: provides the compiled kernels.

    Raises:
        InputError: a segment cannot be read again.
    """
    start, release = state.local_log_start_offset, state.rules.releases.get(state.partition.place.log_dir)
    is_older = release is not None and release < BATCH_START_SINCE
    if is_older or blocking_transaction is None or blocking_transaction["first_offset"] >= start:
        return offset
    chunks = _chunks_at(state, start, kernels)
    bases = (int(chunk.base_offset[chunk.last_offset >= start][:1].min(initial=offset)) for chunk in chunks)
    return min(bases, default=offset)


def _last_write(state: PartitionState, transactions: TransactionArray) -> tuple[int | None, DatedBy]:
    """Return when the last batch of the first of some transactions was written, None if unknown, and what shows it.

    A client may write timestamps that are long past: the marker before a batch is no younger than it.
    """
    if transactions["batches"][0] < 0 or transactions["last_timestamp"][0] in UNKNOWN_TIMES:
        return None, DatedBy.TIMESTAMP
    own, marker = int(transactions["last_timestamp"][0]), int(marker_times(state, transactions["last_offset"])[0])
    if marker > own + state.rules.clock_skew_ms:
        return marker, DatedBy.MARKER
    late_ms = state.rules.late_ms
    is_doubtful = elapsed_since(state, own) > late_ms and not is_surely_idle(state, transactions, late_ms)
    return own, DatedBy.CLIENT if is_doubtful else DatedBy.TIMESTAMP


def _clamped(state: PartitionState, high_watermark: int | None) -> int:
    if high_watermark is None:
        return state.log_end_offset
    return min(max(high_watermark, state.local_log_start_offset), state.log_end_offset)


def _hidden(state: PartitionState, offset: int, kernels: KernelPolicy) -> tuple[int, int]:
    """Return the records and bytes of the batches that end at or after an offset.

    Only the chunk that contains the offset is read again.
    """
    chunk_start = state.log.chunk_starts[_chunk_number(state, offset)]
    records, size = int(chunk_start["records_before"]), int(chunk_start["bytes_before"])
    for chunk in _chunks_at(state, offset, kernels):
        before = chunk.last_offset < offset
        records += int(chunk.count[before & (chunk.control == NO_CONTROL)].sum())
        size += int(chunk.size[before].sum())
    return state.log.records - records, state.log.bytes - size


def _chunk_number(state: PartitionState, offset: int) -> int:
    return max(0, int(np.searchsorted(state.log.chunk_starts["base_offset"], offset, "right")) - 1)


def _chunks_at(state: PartitionState, offset: int, kernels: KernelPolicy) -> Iterator[BatchColumns]:
    """Yield the batches of the chunk that contains an offset."""
    starts, number = state.log.chunk_starts, _chunk_number(state, offset)
    chunk_start, following = starts[number], starts[number + 1 : number + 2]
    same_segment = len(following) and following["segment"][0] == chunk_start["segment"]
    stop = int(following["position"][0]) if same_segment else None
    with open_source(state.partition.segments[chunk_start["segment"]].path) as source:
        yield from batch_chunks(source, 0, ignore_damage, kernels, start=int(chunk_start["position"]), stop=stop)
