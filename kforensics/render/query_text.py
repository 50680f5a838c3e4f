"""Shows the result of a query as aligned columns: every column, and every row as it comes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import Any

from kforensics.parsers.format.text_encoding import printable
from kforensics.parsers.tables.schemas import Table
from kforensics.render.screen import Line, Screen, cells
from kforensics.render.table_writer import without_bytes

# Rows that decide about the widths; the others are written while they are computed.
PAGE = 500
GAP = "  "
MAX_CELL = 60
LEFT_ALIGNED = ("string", "binary", "bool")


def result_lines(table: Table, rows: Iterable[Sequence[Any]], screen: Screen) -> Iterator[Line]:
    """Yield the headings, and a line for each row.

    Args:
        table: the columns.
        rows: the values of each row.
        screen: where they are shown; a wide one has values of any length.
    """
    limit = None if screen.is_wide else MAX_CELL
    lines = ([_cell(value, limit) for value in row] for row in rows)
    page = [[*map(printable, table.names)], *islice(lines, PAGE)]
    widths = [max(map(cells, column)) for column in zip(*page, strict=True)]
    is_left = [column.type in LEFT_ALIGNED for column in table.columns]
    for row in chain(page, lines):
        padded = (
            f"{cell}{' ' * (width - cells(cell))}" if left else f"{' ' * (width - cells(cell))}{cell}"
            for cell, width, left in zip(row, widths, is_left, strict=True)
        )
        yield Line(GAP.join(padded).rstrip(), "row")
    if len(page) == 1:
        yield Line("no rows")


def _cell(value: Any, limit: int | None) -> str:
    """Return a value as one line; null is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        text = "true" if value else "false"
    elif isinstance(value, str | bytes | int | float):
        text = str(without_bytes(value))
    else:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=without_bytes)
    if limit is not None and len(text) > limit:
        text = f"{text[: limit - 1]}…"
    return printable(text)
