"""Rows of a table out of records that come one by one, some thousand at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kforensics.forensics.core.result_rows import Rows
from kforensics.parsers.log.log_rows import Place
from kforensics.parsers.tables.schemas import Table

__all__ = ["RowChunks"]

# Records that become rows at once.
CHUNK = 1 << 12


class RowChunks:
    """Takes rows without their place and tells of them in chunks.

    Args:
        table: their table.
        place: what all of them begin with.
        keep: told of rows.
    """

    def __init__(self, table: Table, place: Place, keep: Callable[[Rows], None]) -> None:
        self._table, self._place, self._keep = table, place._asdict(), keep
        self._rows: list[tuple[Any, ...]] = []

    def add(self, row: tuple[Any, ...]) -> None:
        """Take a row: the columns of the table behind the place."""
        self._rows.append(row)
        if len(self._rows) >= CHUNK:
            self.finish()

    def finish(self) -> None:
        """Tell of the rows that were not told of yet."""
        if self._rows:
            names = self._table.names[len(self._place) :]
            columns = dict(zip(names, map(list, zip(*self._rows, strict=True)), strict=True))
            self._keep(Rows(self._table, len(self._rows), {**self._place, **columns}))
            self._rows = []
