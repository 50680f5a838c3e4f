"""Aligns rows under headings and fits them to a width.

Shared values are stated once and unimportant columns left out; if that is not enough, the widest text is folded.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from textwrap import wrap

from kforensics.render.screen import Line, Screen, cells

# Rows that decide about the columns; a longer table is written while it is read.
PAGE = 500
INDENT, GAP = "  ", "  "
# A text is not folded into less than this.
NARROWEST = 20


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column.

    Attributes:
        heading: its heading.
        drop: when it is left out: the columns with the largest number first, those with 0 never.
        is_text: whether it is aligned to the left.
    """

    heading: str
    drop: int = 0
    is_text: bool = False


@dataclass(slots=True)
class FittedTable:
    """A table that fits the screen.

    Attributes:
        columns: all columns, in their order.
        screen: where it is shown.
        dropped: headings of the columns that have been left out so far.
    """

    columns: Sequence[TableColumn]
    screen: Screen
    dropped: dict[str, None] = field(default_factory=dict)

    def lines(self, rows: Iterable[Sequence[str]]) -> Iterator[Line]:
        """Yield what all rows have in common, the headings, and a line for each row.

        Columns without any value are left out. A table of more than a page states nothing once, since its later rows
        are not known yet.

        Args:
            rows: the cells of each row, in the order of the columns.
        """
        remaining = iter(rows)
        page = list(islice(remaining, PAGE))
        more = list(islice(remaining, 1))
        filled = [index for index in range(len(self.columns)) if more or any(row[index] for row in page)]
        shared = [] if more or len(page) == 1 else [index for index in filled if len({row[index] for row in page}) == 1]
        widths = {
            index: max(map(cells, (self.columns[index].heading, *(row[index] for row in page)))) for index in filled
        }
        if len(shared) == len(filled):
            shared = shared[1:]  # rows that are all the same have something to show, too
        kept = self._kept([index for index in filled if index not in shared], widths)
        if shared:
            values = ", ".join(f"{self.columns[index].heading} {page[0][index]}" for index in shared)
            yield Line(f"{INDENT}in all rows: {values}")
        self._narrow(kept, widths)
        yield self._line(kept, widths, [column.heading for column in self.columns])
        for row in chain(page, more, remaining):
            yield from self._row_lines(kept, widths, row)

    def _kept(self, indexes: list[int], widths: dict[int, int]) -> list[int]:
        """Return the columns that fit, the most important ones."""
        kept = list(indexes)
        while self._excess(kept, widths) > 0:
            droppable = [index for index in kept if self.columns[index].drop]
            if not droppable:
                break
            least = max(droppable, key=lambda index: self.columns[index].drop)
            kept.remove(least)
            self.dropped[self.columns[least].heading] = None
        return kept

    def _excess(self, indexes: Sequence[int], widths: dict[int, int]) -> int:
        """Return by how much columns are too wide for the screen."""
        limit = self.screen.table_width
        width = len(INDENT) + sum(widths[index] + len(GAP) for index in indexes) - len(GAP)
        return 0 if limit is None else width - limit

    def _narrow(self, kept: Sequence[int], widths: dict[int, int]) -> None:
        """Narrow the widest column of text, if the table is still too wide."""
        texts = [index for index in kept if self.columns[index].is_text]
        excess = self._excess(kept, widths)
        if excess > 0 and texts:
            widest = max(texts, key=lambda index: widths[index])
            widths[widest] = max(widths[widest] - excess, cells(self.columns[widest].heading), NARROWEST)

    def _row_lines(self, kept: Sequence[int], widths: dict[int, int], row: Sequence[str]) -> Iterator[Line]:
        """Yield a row, with a line more for each one into which a text is folded; words are not torn."""
        folded = {
            index: wrap(row[index], widths[index], break_long_words=False, break_on_hyphens=False)
            for index in kept
            if self.columns[index].is_text and cells(row[index]) > widths[index]
        }
        if not folded:
            yield self._line(kept, widths, row)
            return
        for number in range(max(map(len, folded.values()))):
            parts = {index: lines[number] if number < len(lines) else "" for index, lines in folded.items()}
            cells_of_line = [parts.get(index, cell if number == 0 else "") for index, cell in enumerate(row)]
            yield self._line(kept, widths, cells_of_line)

    def _line(self, indexes: Sequence[int], widths: dict[int, int], row: Sequence[str]) -> Line:
        parts = []
        for index in indexes:
            padding = " " * (widths[index] - cells(row[index]))
            parts.append(f"{row[index]}{padding}" if self.columns[index].is_text else f"{padding}{row[index]}")
        # A value that is too long for the width must not be torn.
        return Line(f"{INDENT}{GAP.join(parts)}".rstrip(), "row")
