"""Where the last stable offset of a partition is, who holds it, and what lies behind it.

Rule: ``UnifiedLog.fetchLastStableOffsetMetadata`` and ``maybeIncrementFirstUnstableOffset``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kforensics.forensics.partition.blocking_transactions import since
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.timeline import last_stable_offsets
from kforensics.parsers.columns.batch_columns import NO_CONTROL
from kforensics.parsers.columns.batch_reader import batch_chunks
from kforensics.parsers.files.source import open_source
from kforensics.parsers.kernels.policy import Choice, kernels_for

__all__ = ["StableOffset", "stable_offset"]


@dataclass(frozen=True, slots=True)
class StableOffset:
    """The last stable offset.

    Attributes:
        high_watermark: for which high watermark; the log end offset unless another was asked for.
        last_stable_offset: that offset; the largest it can be, if it is not exact.
        lowest: the smallest it can be.
        at_checkpoint: the same at the high watermark of the checkpoint; None if there is none.
        holder: TRANSACTION record of the transaction that holds it back, None if none does.
        silent_ms: how long ago that one's last batch was, None likewise.
        hidden_records: records of users from there up to the log end offset.
        hidden_bytes: bytes of the batches there.
    """

    high_watermark: int
    last_stable_offset: int
    lowest: int
    at_checkpoint: int | None
    holder: Any
    silent_ms: int | None
    hidden_records: int
    hidden_bytes: int

    @property
    def exact(self) -> bool:
        """Whether nothing from before the log on hand can hold it back further."""
        return self.lowest == self.last_stable_offset


def stable_offset(case: Case, high_watermark: int | None = None, kernels: Choice = kernels_for) -> StableOffset:
    """Return where the last stable offset of a partition is.

    Args:
        case: the partition.
        high_watermark: None for the log end offset: all that is on disk is replicated. One outside the log is moved to
            the nearer end, as ``UnifiedLog.updateHighWatermark`` does.
        kernels: gives the compiled kernels.

    Raises:
        InputError: a segment cannot be read again.
    """
    end = _within(case, high_watermark)
    checkpoint = case.high_watermark
    asked = [end] if checkpoint is None else [end, _within(case, checkpoint)]
    offsets, holders = last_stable_offsets(case.ledger, case.log_start_offset, np.array(asked))
    offset = int(offsets[0])
    holder = holders[0] if holders["batches"][0] >= 0 else None
    known = case.exact_from is not None and end >= case.exact_from and not case.is_broken
    records, size = _behind(case, offset, kernels) if offset < case.log_end_offset else (0, 0)
    return StableOffset(
        high_watermark=end,
        last_stable_offset=offset,
        lowest=offset if known else min(offset, case.log_start_offset),
        at_checkpoint=None if checkpoint is None else int(offsets[1]),
        holder=holder,
        silent_ms=None if holder is None else int(since(case, int(holder["last_timestamp"]))),
        hidden_records=records,
        hidden_bytes=size,
    )


def _within(case: Case, high_watermark: int | None) -> int:
    if high_watermark is None:
        return case.log_end_offset
    return min(max(high_watermark, case.log_start_offset), case.log_end_offset)


def _behind(case: Case, offset: int, kernels: Choice) -> tuple[int, int]:
    """Return records and bytes of the batches that end at an offset or behind it.

    Only the chunk in which the offset lies is read once more.
    """
    marks = case.log.marks
    at = max(0, int(np.searchsorted(marks["base_offset"], offset, "right")) - 1)
    mark, following = marks[at], marks[at + 1 : at + 2]
    same = len(following) and following["segment"][0] == mark["segment"]
    stop = int(following["position"][0]) if same else None
    records, size = int(mark["records_before"]), int(mark["bytes_before"])
    with open_source(case.partition.segments[mark["segment"]].path) as source:
        for chunk in batch_chunks(source, 0, _ignored, kernels, start=int(mark["position"]), stop=stop):
            before = chunk.last_offset < offset
            records += int(chunk.count[before & (chunk.control == NO_CONTROL)].sum())
            size += int(chunk.size[before].sum())
    return case.log.records - records, case.log.bytes - size


def _ignored(_damage: object) -> None:
    """Damage was told of when the log was read for the first time."""
