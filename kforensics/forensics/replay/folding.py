"""A log summarised chunk by chunk as it is read."""

from __future__ import annotations

from kforensics.forensics.replay.merging import merge
from kforensics.forensics.replay.replay_rows import Rows, joined_rows
from kforensics.forensics.replay.summarising import summarise
from kforensics.forensics.replay.summary_record import Summary
from kforensics.parsers.batch_columns import BatchColumns

__all__ = ["Folding"]


class Folding:
    """The summary and the rows of what has been read so far.

    Chunks are merged as a binary counter carries: a summary is merged into the one before it once it knows at least
    half as many producers. So the time that many short-lived producers take grows with their number, not with that
    times the number of chunks.
    """

    def __init__(self, *, sequences: bool = True) -> None:
        self._sequences = sequences
        self._summaries: list[Summary] = []
        self._rows: list[Rows] = []

    def add(self, batches: BatchColumns) -> None:
        """Take the next chunk: best 10,000 to 100,000 batches that stand behind those of the one before."""
        summary, rows = summarise(batches, sequences=self._sequences)
        self.add_summary(summary, rows)

    def add_summary(self, summary: Summary, rows: Rows) -> None:
        """Take the summary and the rows of the next chunk, or of many chunks, made elsewhere."""
        self._summaries.append(summary)
        self._rows.append(rows)
        while len(self._summaries) > 1 and _carries(*self._summaries[-2:]):
            self._merge_last()

    def summary(self) -> Summary:
        """Return the summary of all chunks so far."""
        while len(self._summaries) > 1:
            self._merge_last()
        return self._summaries[0] if self._summaries else Summary(sequences=self._sequences)

    def rows(self) -> Rows:
        """Return the rows of all chunks so far that are certain whatever stands before them."""
        self.summary()
        self._rows = [joined_rows(self._rows)]
        return self._rows[0]

    def _merge_last(self) -> None:
        right, left = self._summaries.pop(), self._summaries.pop()
        summary, rows = merge(left, right)
        self._summaries.append(summary)
        self._rows.append(rows)


def _carries(left: Summary, right: Summary) -> bool:
    return len(left.producers) <= 2 * len(right.producers)
