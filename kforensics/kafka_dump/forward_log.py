"""A log read forwards beside an index, past any damage, with a bound on how often it is begun anew."""

from __future__ import annotations

from collections.abc import Iterator

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.rows import Batch, Damage
from kforensics.parsers.log.batches import walk

__all__ = ["ForwardLog", "is_thinned"]

# Entries that lead back make the walk begin anew; hostile ones must not cost hours.
WALKS, FLOOR = 16, 64 << 20


class ForwardLog:
    """Answers questions about a log whose positions and offsets should be rising.

    Attributes:
        exhausted: too many questions led back, so no more are answered.
    """

    def __init__(self, log: Source) -> None:
        self._log, self._left = log, WALKS * log.size + FLOOR
        self._rows: Iterator[Batch | Damage] = walk(log)
        self._batch: Batch | None = None
        self.exhausted = False

    def at(self, position: int) -> Batch | None:
        """Return the batch that begins at a position, None if none does."""
        if self._batch is not None and position < self._batch.position:
            self._again(position)
        while not self.exhausted and (self._batch is None or self._batch.position < position):
            if not self._next():
                return None
        return self._batch if self._batch is not None and self._batch.position == position else None

    def reaching(self, offset: int) -> Batch | None:
        """Return the first batch from the last answer on whose last offset is not below an offset."""
        while not self.exhausted and (self._batch is None or self._batch.last_offset < offset):
            if not self._next():
                return None
        return self._batch

    def restart(self) -> None:
        """Begin anew."""
        self._again(0)

    def _again(self, position: int) -> None:
        if 0 <= position <= self._log.size:
            self._rows, self._batch = walk(self._log, position), None

    def _next(self) -> bool:
        for row in self._rows:
            self._left -= row.end - row.start if isinstance(row, Damage) else row.size
            self.exhausted = self._left < 0
            if isinstance(row, Batch):
                self._batch = row
                return True
        return False


def is_thinned(batch: Batch) -> bool:
    """Tell whether compaction took records from a batch, or may have: of a wrapper's messages nothing is known here."""
    return batch.count is None or (batch.last_offset_delta or 0) + 1 != batch.count
