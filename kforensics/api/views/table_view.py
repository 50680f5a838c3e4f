"""Shows a table in a notebook: the first rows at once, all rows on request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kforensics.forensics.core.formatting import format_count
from kforensics.parsers.tables.schemas import Table
from kforensics.render.markup import Markup, cell_text, cell_tooltip, column_widths, element

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

SHOWN_ROWS = 10
# Rows are counted for display only if no more than these bytes must be read, which takes a second or two.
MAX_COUNTED_BYTES = 32 << 20
# Rows before this index are read without the others.
MAX_HEAD_INDEX = 1000
CELL_STYLE = "text-align: left; white-space: pre; font-family: monospace; padding: 0 0.6em"
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class TableSource:
    """The source of the rows of a table.

    Attributes:
        first: returns the first rows, and reads no more than they need.
        stream: yields all rows.
        size: bytes to read for all rows.
    """

    first: Callable[[int], pa.Table]
    stream: Callable[[], Iterator[pa.RecordBatch]]
    size: int = 0

    @classmethod
    def of_table(cls, read_table: Callable[[], pa.Table]) -> TableSource:
        """Return the source of a table that is read as a whole.

        Args:
            read_table: returns the table, the same one each time.
        """
        return cls(lambda count: read_table().slice(0, count), lambda: iter(read_table().to_batches()))


class TableView:
    """A table that a notebook shows.

    Iterating yields rows as dictionaries, and ``[n]`` returns one; neither keeps the others in memory. Libraries that
    support the Arrow PyCapsule interface (polars, DuckDB, pandas) accept the view itself.

    Attributes:
        schema: name, columns and their descriptions.
    """

    def __init__(self, schema: Table, source: TableSource) -> None:
        self.schema = schema
        self._source = source
        self._table: pa.Table | None = None
        self._count: int | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The description of each column by name."""
        return {column.name: column.doc for column in self.schema.columns}

    def to_arrow(self) -> pa.Table:
        """Return all rows as an Arrow table, which is kept.

        Raises:
            InputError: a file cannot be read.
        """
        import pyarrow as pa  # opening a log does not need it

        if self._table is None:
            self._table = pa.Table.from_batches(self._source.stream(), self._source.first(0).schema)
        return self._table

    def to_pandas(self) -> pd.DataFrame:
        """Return all rows as a data frame; as usual in pandas, integer columns with nulls become floats.

        Raises:
            InputError: a file cannot be read.
        """
        frame: pd.DataFrame = self.to_arrow().to_pandas()
        return frame

    def head(self, count: int = SHOWN_ROWS) -> pa.Table:
        """Return the first rows as an Arrow table, and read no more than they need.

        Raises:
            InputError: a file cannot be read.
        """
        return self._source.first(count) if self._table is None else self._table.slice(0, count)

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        if self._count is None:
            table = self._table
            self._count = sum(batch.num_rows for batch in self._source.stream()) if table is None else table.num_rows
        return self._count

    def __bool__(self) -> bool:
        return bool(self.head(1).num_rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows()

    def __getitem__(self, index: int) -> Any:
        """Return a row; one near the beginning is read without the others.

        Raises:
            IndexError: there is no such row.
            TypeError: the index is not an integer.
        """
        if not isinstance(index, int):
            raise TypeError("rows have integer indexes; head(n) returns the first rows, to_arrow() all of them")
        position = index if index >= 0 else len(self) + index
        if position < 0:
            raise IndexError(f"the table {self.schema.name} has no row {index}")
        table = self.head(position + 1) if position < MAX_HEAD_INDEX else self.to_arrow()
        rows = table.slice(position, 1).to_pylist()
        if not rows:
            raise IndexError(f"the table {self.schema.name} has no row {index}")
        return rows[0]

    def __repr__(self) -> str:
        shown, notes = self._shown()
        lines = [f"{self.schema.name}: {self._row_count(shown.num_rows)}"]
        if shown.num_rows:
            rows = ([cell_text(*item) for item in row.items()] for row in shown.to_pylist())
            lines += aligned_lines([shown.column_names, *rows])
        return "\n".join([*lines, *notes])

    def _repr_html_(self) -> Markup:
        shown, notes = self._shown()
        docs = self.columns
        head = element("tr", *(element("th", name, style=CELL_STYLE, title=docs[name]) for name in shown.column_names))
        body = (
            element(
                "tr",
                *(
                    element("td", cell_text(*item), style=CELL_STYLE, title=cell_tooltip(*item) or None)
                    for item in row.items()
                ),
            )
            for row in shown.to_pylist()
        )
        caption = element("p", element("b", self.schema.name), f": {self._row_count(shown.num_rows)}")
        table = element("table", element("thead", head), element("tbody", *body))
        return element("div", caption, table if shown.num_rows else "", *(element("p", note) for note in notes))

    def _rows(self) -> Iterator[Row]:
        batches = self._source.stream() if self._table is None else self._table.to_batches()
        for batch in batches:
            yield from batch.to_pylist()

    def _shown(self) -> tuple[pa.Table, list[str]]:
        """Return the first rows without the columns that are null in all of them, and a note about those."""
        head = self.head(SHOWN_ROWS)
        empty = [name for name in head.column_names if head.num_rows and head[name].null_count == head.num_rows]
        shown = head.select([name for name in head.column_names if name not in empty])
        return shown, [f"null in all of these rows: {', '.join(empty)}"] if empty else []

    def _row_count(self, shown: int) -> str:
        row = f"one per {self.schema.row}"
        if shown < SHOWN_ROWS:
            return f"{format_count(shown, 'row')}, {row}"
        if self._source.size > MAX_COUNTED_BYTES and self._count is None and self._table is None:
            return f"{SHOWN_ROWS} rows or more, {row}; showing the first {SHOWN_ROWS}, len() counts all"
        return f"{format_count(len(self), 'row')}, {row}" + (
            f"; showing the first {SHOWN_ROWS}" if len(self) > SHOWN_ROWS else ""
        )


def aligned_lines(rows: list[list[str]]) -> Iterator[str]:
    """Yield rows of text with their columns aligned."""
    widths = column_widths(rows)
    return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
