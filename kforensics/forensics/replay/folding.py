"""A log summarised chunk by chunk as it is read."""

from __future__ import annotations

from dataclasses import replace

from kforensics.forensics.core.record_types import Records
from kforensics.forensics.replay.finalising import Final, finalise_blocks
from kforensics.forensics.replay.merging import BLOCK, STEP, joined_blocks, merge_blocks
from kforensics.forensics.replay.replay_rows import NO_TRANSACTIONS, Rows, joined_rows
from kforensics.forensics.replay.replay_types import Boundary
from kforensics.forensics.replay.summarising import summarise
from kforensics.forensics.replay.summary_record import Summary
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["Folding"]

# A stretch is merged into the one before it once it knows that fraction of as many producers. Of a million only some
# are in two places then; and what is copied for each producer does not grow with the number of chunks.
FRACTION = 8


class Folding:
    """The summary and the rows of what has been read so far.

    Chunks are merged as a binary counter carries: a summary is merged into the one before it once it knows at least
    an eighth as many producers. So the time that many short-lived producers take grows with their number, not with that
    times the number of chunks.
    """

    def __init__(self, *, sequences: bool = True, block: int = BLOCK) -> None:
        """Begin with nothing.

        Args:
            sequences: False for ``__consumer_offsets``, where coordinators start every batch at 0.
            block: producers of a block, about.
        """
        self._sequences = sequences
        self._block = block
        self._stretches: list[list[Summary]] = []
        self._rows: list[Rows] = []

    def add(self, batches: BatchColumns) -> None:
        """Take the next chunk: best 10,000 to 100,000 batches that stand behind those of the one before."""
        summary, rows = summarise(batches, sequences=self._sequences)
        self.add_summary(summary, rows)

    def add_summary(self, summary: Summary, rows: Rows) -> None:
        """Take the summary and the rows of the next chunk, or of many chunks, made elsewhere."""
        self._stretches.append([summary])
        self._rows.append(rows)
        while len(self._stretches) > 1 and _carries(*self._stretches[-2:]):
            self._merge_last()

    def summary(self) -> Summary:
        """Return the summary of all chunks so far."""
        self._merge_all()
        self._stretches = [[joined_blocks(self._stretches[0])]]
        return self._stretches[0][0]

    def rows(self) -> Rows:
        """Return the rows of all chunks so far that are certain whatever stands before them."""
        self._rows = [joined_rows(self.row_parts())]
        return self._rows[0]

    def row_parts(self) -> list[Rows]:
        """Return the same rows in parts: there may be millions, and who joins them with others does it once."""
        self._merge_all()
        return list(self._rows)

    def take_transactions(self) -> list[Records]:
        """Return the closed transactions that have become certain since this was asked last, and forget them."""
        found = [rows.transactions for rows in self._rows if len(rows.transactions)]
        left = (replace(rows, transactions=NO_TRANSACTIONS) for rows in self._rows)
        self._rows = [rows for rows in left if len(rows)]
        return found

    def final(self, boundary: Boundary, *, consume: bool = False) -> Final:
        """Return what ``finalise`` says of all chunks so far, with less memory.

        Args:
            boundary: what is known of the log before them.
            consume: whether the summary is given up for it on the way: nothing may be added any more, but the rows
                stay.
        """
        self._merge_all()
        blocks = self._stretches[0]
        return finalise_blocks(blocks if consume else blocks.copy(), boundary, min(self._block, STEP))

    def _merge_all(self) -> None:
        while len(self._stretches) > 1:
            self._merge_last()
        if not (self._stretches and self._stretches[0]):
            self._stretches = [[Summary(sequences=self._sequences)]]

    def _merge_last(self) -> None:
        right, left = self._stretches.pop(), self._stretches.pop()
        blocks, rows = merge_blocks(left, right, self._block)
        self._stretches.append(blocks)
        self._rows.append(rows)


def _carries(left: list[Summary], right: list[Summary]) -> bool:
    return _count(left) <= FRACTION * _count(right)


def _count(blocks: list[Summary]) -> int:
    return sum(len(block.producers) for block in blocks)
