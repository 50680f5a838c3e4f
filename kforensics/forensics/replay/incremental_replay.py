"""Replays a log chunk by chunk as it is read, or from summaries made elsewhere."""

from __future__ import annotations

from dataclasses import replace

from kforensics.forensics.core.record_types import TransactionArray
from kforensics.forensics.replay.boundary import Boundary
from kforensics.forensics.replay.finalizing import FinalReplay, finalize_blocks
from kforensics.forensics.replay.merging import BLOCK_SIZE, STEP_SIZE, join_blocks, merge_blocks
from kforensics.forensics.replay.replay_rows import NO_TRANSACTIONS, ReplayRows, joined_rows
from kforensics.forensics.replay.summarizing import summarize
from kforensics.forensics.replay.summary import ReplaySummary
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["IncrementalReplay"]

# A summary is merged into the one before it once it has this fraction of its producers. Of a million producers, only a
# few are then in two summaries, and how often a producer is copied does not depend on the number of chunks.
MERGE_FRACTION = 8


class IncrementalReplay:
    """The summary and the rows of all chunks added so far.

    Summaries are merged like the digits of a binary counter carry: a summary is merged into the one before it once it
    has at least an eighth as many producers. So the time for many short-lived producers grows with their number, not
    with their number times the number of chunks.

    Args:
        sequences: False for ``__consumer_offsets``, where coordinators start every batch at sequence 0.
        block_size: approximate number of producers in a block.
    """

    def __init__(self, *, sequences: bool = True, block_size: int = BLOCK_SIZE) -> None:
        self._sequences = sequences
        self._block_size = block_size
        # Adjacent summaries in log order, each in blocks.
        self._summaries: list[list[ReplaySummary]] = []
        self._rows: list[ReplayRows] = []

    def add(self, batches: BatchColumns) -> None:
        """Add the next chunk, ideally 10,000 to 100,000 batches."""
        summary, rows = summarize(batches, sequences=self._sequences)
        self.add_summary(summary, rows)

    def add_summary(self, summary: ReplaySummary, rows: ReplayRows) -> None:
        """Add the summary and the rows of the next chunk or chunks, made elsewhere."""
        self._summaries.append([summary])
        self._rows.append(rows)
        while len(self._summaries) > 1 and _is_mergeable(*self._summaries[-2:]):
            self._merge_last()

    def summary(self) -> ReplaySummary:
        """Return the summary of all chunks added so far."""
        self._merge_all()
        self._summaries = [[join_blocks(self._summaries[0])]]
        return self._summaries[0][0]

    def rows(self) -> ReplayRows:
        """Return the rows that are certain after all chunks added so far."""
        self._rows = [joined_rows(self.row_parts())]
        return self._rows[0]

    def row_parts(self) -> list[ReplayRows]:
        """Return the same rows in parts, for callers that join millions of rows with others only once."""
        self._merge_all()
        return list(self._rows)

    def take_transactions(self) -> list[TransactionArray]:
        """Return and remove the closed transactions that have become certain since the last call."""
        transactions = [rows.transactions for rows in self._rows if len(rows.transactions)]
        remaining = (replace(rows, transactions=NO_TRANSACTIONS) for rows in self._rows)
        self._rows = [rows for rows in remaining if len(rows)]
        return transactions

    def final(self, boundary: Boundary, *, consume: bool = False) -> FinalReplay:
        """Return what ``finalize`` returns for all chunks added so far, with less memory.

        Args:
            boundary: what is known about the log before the first chunk.
            consume: whether to free the summary along the way. Nothing may be added afterwards, but the rows remain.
        """
        self._merge_all()
        blocks = self._summaries[0]
        return finalize_blocks(blocks if consume else blocks.copy(), boundary, min(self._block_size, STEP_SIZE))

    def _merge_all(self) -> None:
        while len(self._summaries) > 1:
            self._merge_last()
        if not (self._summaries and self._summaries[0]):
            self._summaries = [[ReplaySummary(sequences=self._sequences)]]

    def _merge_last(self) -> None:
        right, left = self._summaries.pop(), self._summaries.pop()
        blocks, rows = merge_blocks(left, right, self._block_size)
        self._summaries.append(blocks)
        self._rows.append(rows)


def _is_mergeable(left: list[ReplaySummary], right: list[ReplaySummary]) -> bool:
    return _producer_count(left) <= MERGE_FRACTION * _producer_count(right)


def _producer_count(blocks: list[ReplaySummary]) -> int:
    return sum(len(block.producers) for block in blocks)
