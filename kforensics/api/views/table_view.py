"""A table that is read when it is looked at: its first rows at once, all of it only if that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kforensics.parsers.tables.schemas import Table
from kforensics.render.cells import cell, detail, widths
from kforensics.render.formatting import amount
from kforensics.render.markup import Markup, element, joined

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

__all__ = ["TableSource", "TableView"]

ROWS = 10
# Bytes under which counting the rows is no matter: the records of so much are read in a second or two.
CHEAP = 32 << 20
NEAR = 1000
CELL = "text-align: left; white-space: pre; font-family: monospace; padding: 0 0.6em"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableSource:
    """Where the rows of a table come from.

    Attributes:
        first: gives the first rows, and reads no more than they need.
        stream: gives all, piece by piece.
        size: bytes that have to be read for that.
    """

    first: Callable[[int], pa.Table]
    stream: Callable[[], Iterator[pa.RecordBatch]]
    size: int = 0

    @classmethod
    def of_table(cls, made: Callable[[], pa.Table]) -> TableSource:
        """Return the source of a table that comes as a whole.

        Args:
            made: gives it, the same each time.
        """
        return cls(lambda count: made().slice(0, count), lambda: iter(made().to_batches()))


class TableView:
    """A table that shows itself.

    Iterating gives its rows as dictionaries, ``[n]`` gives one; neither keeps the others. Whatever takes the Arrow
    PyCapsule interface (polars, DuckDB, pandas) takes it as it is.

    Attributes:
        statement: name, columns and what they mean.
    """

    def __init__(self, statement: Table, source: TableSource) -> None:
        self.statement = statement
        self._source = source
        self._table: pa.Table | None = None
        self._count: int | None = None

    @property
    def columns(self) -> dict[str, str]:
        """What each column means, by its name."""
        return {column.name: column.doc for column in self.statement.columns}

    def to_arrow(self) -> pa.Table:
        """Return all of it as an Arrow table, which is kept.

        Raises:
            InputError: a file cannot be read.
        """
        import pyarrow as pa  # who only opens a log must not pay for it

        if self._table is None:
            self._table = pa.Table.from_batches(self._source.stream(), self._source.first(0).schema)
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return all of it as a data frame; columns of whole numbers with nulls become floats, as in pandas.

        Raises:
            InputError: a file cannot be read.
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def head(self, count: int = ROWS) -> pa.Table:
        """Return the first rows as an Arrow table, and read no more than they need.

        Raises:
            InputError: a file cannot be read.
        """
        return self._source.first(count) if self._table is None else self._table.slice(0, count)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        if self._count is None:
            known = self._table
            self._count = sum(part.num_rows for part in self._source.stream()) if known is None else known.num_rows
        return self._count

    def __bool__(self) -> bool:
        return bool(self.head(1).num_rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows()

    def __getitem__(self, index: int) -> Any:
        """Return a row; one near the beginning is read without the others.

        Raises:
            IndexError: there is no such row.
            TypeError: the index is no whole number.
        """
        if not isinstance(index, int):
            raise TypeError("a row has a whole number; head(n) gives the first rows, to_arrow() all of them")
        at = index if index >= 0 else len(self) + index
        if at < 0:
            raise IndexError(f"the table {self.statement.name} has no row {index}")
        rows = (self.head(at + 1) if at < NEAR else self.to_arrow()).slice(at, 1).to_pylist()
        if not rows:
            raise IndexError(f"the table {self.statement.name} has no row {index}")
        return rows[0]

    def __repr__(self) -> str:
        shown, left_out = self._shown()
        lines = [f"{self.statement.name}: {self._amount(shown.num_rows)}"]
        if shown.num_rows:
            cells = [shown.column_names, *([cell(*item) for item in row.items()] for row in shown.to_pylist())]
            wide = widths(cells)
            lines += ("  ".join(map(str.ljust, row, wide)).rstrip() for row in cells)
        return "\n".join([*lines, *left_out])

    def _repr_html_(self) -> Markup:
        shown, left_out = self._shown()
        docs = self.columns
        head = element("tr", *(element("th", name, style=CELL, title=docs[name]) for name in shown.column_names))
        body = (
            element("tr", *(element("td", cell(*item), style=CELL, title=detail(*item)) for item in row.items()))
            for row in shown.to_pylist()
        )
        caption = element("p", element("b", self.statement.name), f": {self._amount(shown.num_rows)}")
        notes = (element("p", line) for line in left_out)
        table = element("table", element("thead", head), element("tbody", *body))
        return element("div", caption, joined(table) if shown.num_rows else "", *notes)

    def _rows(self) -> Iterator[Row]:
        parts = self._source.stream() if self._table is None else self._table.to_batches()
        for part in parts:
            yield from part.to_pylist()

    def _shown(self) -> tuple[pa.Table, list[str]]:
        """Return the first rows without the columns that are null in all of them, and what to say of those."""
        head = self.head(ROWS)
        empty = [name for name in head.column_names if head.num_rows and head[name].null_count == head.num_rows]
        kept = head.select([name for name in head.column_names if name not in empty])
        return kept, [f"null in all of these rows: {', '.join(empty)}"] if empty else []

    def _amount(self, shown: int) -> str:
        what = f"a row per {self.statement.row}"
        if shown < ROWS:
            return f"{amount(shown, 'row')}, {what}"
        if self._source.size > CHEAP and self._count is None and self._table is None:
            return f"{ROWS} rows or more, {what}; the first {ROWS}, and len() counts them all"
        return f"{amount(len(self), 'row')}, {what}" + (f"; the first {ROWS}" if len(self) > ROWS else "")
