"""Shows a table in a notebook or on a terminal: the first rows at once, all rows on request."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kforensics.analyses.topics import check_name
from kforensics.forensics.core.formatting import format_count
from kforensics.parsers.tables.schemas import Table
from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.markup import Markup, cell_text, cell_tooltip, column_widths, element, is_time_column
from kforensics.render.screen import Line, Screen

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
# The end of the last year that pandas can print.
MAX_TIME_MS = 253_402_300_799_999
# Characters of a line where there is no terminal.
DEFAULT_WIDTH = 100
# The table of these rows is not of all rows.
SHARED, SHARED_BY_SHOWN = "  in all rows: ", "  in all of these rows: "
PLACE = ("topic", "partition", "broker_id", "log_dir")
# Of tables with many columns, those that are shown beside the place, the most important ones first.
SHOWN_COLUMNS = {
    "lso": ("last_stable_offset", "log_end_offset", "hidden_records", "producer_id", "last_timestamp", "first_offset"),
    "transactions": (
        *("outcome", "producer_id", "first_offset", "marker_offset", "last_offset", "first_timestamp"),
        *("duration_ms", "records", "producer_epoch"),
    ),
    "producers": (
        *("producer_id", "producer_epoch", "current_txn_first_offset", "last_timestamp", "last_sequence"),
        *("last_offset", "expired"),
    ),
    "duplicates": ("level", "first_offset", "second_offset", "records", "view", "why"),
    "findings": ("severity", "code", "producer_id", "first_offset", "message"),
    "incidents": ("what", "severity", "since", "kind", "impact"),
    "partitions": (
        *("verdict", "last_stable_offset", "log_end_offset", "open_transactions", "records", "newest_timestamp"),
        "findings",
    ),
    "transactional_ids": (
        *("transactional_id", "state", "producer_id", "producer_epoch", "last_timestamp", "transactions"),
        *("committed", "aborted", "partitions"),
    ),
    "distributed_transactions": (
        *("transactional_id", "outcome", "producer_id", "state", "partition_count", "start_timestamp", "atomic"),
        "partitions",
    ),
}

SEVERITIES = ("critical", "error", "warning", "info")
# Tables that are shown with what is stuck, open or worst first: what that is called, the column that shows it, and its
# values in order; none if the largest number is first.
WORST_FIRST: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "lso": ("stuck", "hidden_records", ()),
    "transactions": ("open", "outcome", ("open", "forgotten")),
    "findings": ("worst", "severity", SEVERITIES),
    "partitions": ("worst", "verdict", SEVERITIES),
}


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
            read_table: returns the table; it is called once, when rows are first needed.
        """
        kept: list[pa.Table] = []

        def table() -> pa.Table:
            if not kept:
                kept.append(read_table())
            return kept[0]

        return cls(lambda count: table().slice(0, count), lambda: iter(table().to_batches()))

    @classmethod
    def of_stream(cls, schema: pa.Schema, stream: Callable[[], Iterator[pa.RecordBatch]]) -> TableSource:
        """Return the source of rows that are not kept in memory.

        Args:
            schema: schema of the rows.
            stream: yields all rows; it is called whenever rows are needed.
        """

        def first(count: int) -> pa.Table:
            import pyarrow as pa  # opening a log does not need it

            batches, left = list[pa.RecordBatch](), count
            for batch in stream() if count else ():
                batches.append(batch.slice(0, left))
                left -= len(batches[-1])
                if not left:
                    break
            return pa.Table.from_batches(batches, schema)

        return cls(first, stream)


class TableView:
    """A table that shows itself in a notebook and on a terminal.

    Iterating yields rows as dictionaries, and ``[n]`` returns one; neither keeps the others in memory. Libraries that
    support the Arrow PyCapsule interface (polars, DuckDB, pandas) accept the view itself. What else an Arrow table
    can do, it can too: ``["column"]``, ``num_rows``, ``to_pylist()``, ``filter(…)`` and so on.

    Attributes:
        definition: name, columns and their descriptions.

    Examples:
        >>> lso = kforensics.lso("sample_logs/transactions-v2/broker-1", topic=["hanging*", "open"])
        >>> lso
        lso: 3 rows, one per partition
          in all rows: broker_id 1, log_dir sample_logs/transactions-v2/broker-1, partition 0
          topic             log_end_offset  last_stable_offset  producer_id  hidden_records
          hanging           9               3                   12           4
          hanging-resolved  10              10                  null         0
          open              12              2                   16           8
        10 more columns: .columns explains all, .select([…]) shows others
        not shown for lack of width: first_offset, last_timestamp
        >>> lso["topic"].to_pylist()
        ['hanging', 'hanging-resolved', 'open']
        >>> lso.to_pandas()["last_timestamp"].dt.date.tolist()[0]
        datetime.date(2026, 11, 21)
    """

    def __init__(self, definition: Table, source: TableSource) -> None:
        self.definition = definition
        self._source = source
        self._table: pa.Table | None = None
        self._count: int | None = None

    @property
    def columns(self) -> dict[str, str]:
        """The description of each column by name."""
        return {column.name: column.doc for column in self.definition.columns}

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
        """Return all rows as a data frame, with times as timestamps in UTC.

        As usual in pandas, integer columns with nulls become floats. A time that there is not, and one after the year
        9999, is ``NaT``; ``to_arrow()`` has all times as milliseconds.

        Raises:
            InputError: a file cannot be read.
        """
        table = self.to_arrow()
        for index, name in enumerate(table.column_names):
            if is_time_column(name):
                table = table.set_column(index, name, _timestamps(table[name]))
        frame: pd.DataFrame = table.to_pandas()
        return frame

    def select(self, columns: str | Iterable[str]) -> TableView:
        """Return a view of one column or several, which shows all of them.

        Raises:
            UnknownNameError: there is no such column; it is a KeyError.
        """
        columns = [columns] if isinstance(columns, str) else list(columns)
        for name in columns:
            check_name(name, self.definition.names, "column")
        by_name = {column.name: column for column in self.definition.columns}
        definition = Table(self.definition.name, self.definition.row, tuple(by_name[name] for name in columns))

        def first(count: int) -> pa.Table:
            return self._first(count).select(columns)

        def stream() -> Iterator[pa.RecordBatch]:
            source = self._source.stream() if self._table is None else self._table.to_batches()
            return (batch.select(columns) for batch in source)

        return SelectedView(definition, TableSource(first, stream, self._source.size))

    def equals(self, other: pa.Table | TableView) -> bool:
        """Return whether a table or a view has the same columns and rows."""
        return bool(self.to_arrow().equals(other.to_arrow() if isinstance(other, TableView) else other))

    def head(self, count: int = SHOWN_ROWS) -> TableView:
        """Return a view of the first rows, which reads no more than they need.

        Raises:
            InputError: a file cannot be read.
            ValueError: the number of rows is negative.
        """
        if count < 0:
            raise ValueError(f"head({count}): there is no negative number of rows; to_arrow() returns all of them")
        return _view_of(type(self), self.definition, self._first(count))

    def __eq__(self, other: object) -> bool:
        import pyarrow as pa

        return self.equals(other) if isinstance(other, TableView | pa.Table) else NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as an Arrow table

    def __getattr__(self, name: str) -> Any:
        """Return what an Arrow table has by this name."""
        import pyarrow as pa

        if name.startswith("_") or not hasattr(pa.Table, name):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return getattr(self.to_arrow(), name)

    def __reduce__(self) -> tuple[Any, ...]:
        return _view_of, (type(self), self.definition, self.to_arrow())

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def __len__(self) -> int:
        if self._count is None:
            table = self._table
            self._count = sum(batch.num_rows for batch in self._source.stream()) if table is None else table.num_rows
        return self._count

    def __bool__(self) -> bool:
        return bool(self._first(1).num_rows)

    def __iter__(self) -> Iterator[Any]:
        return self._rows()

    def __getitem__(self, index: int | str) -> Any:
        """Return a row, or an Arrow column by its name; a row near the beginning is read without the others.

        Raises:
            IndexError: there is no such row.
            KeyError: there is no such column.
            TypeError: the index is neither an integer nor a name.
        """
        if isinstance(index, str):
            return self.to_arrow()[index]
        if not hasattr(index, "__index__"):  # an int, or one of numpy's
            raise TypeError("rows have integer indexes; head(n) returns the first rows, to_arrow() all of them")
        position = int(index) if index >= 0 else len(self) + int(index)
        if position < 0:
            raise IndexError(f"the table {self.definition.name} has no row {index}")
        table = self._first(position + 1) if position < MAX_HEAD_INDEX else self.to_arrow()
        rows = table.slice(position, 1).to_pylist()
        if not rows:
            raise IndexError(f"the table {self.definition.name} has no row {index}")
        return rows[0]

    def __repr__(self) -> str:
        shown, notes = self._shown()
        screen = Screen(shutil.get_terminal_size((DEFAULT_WIDTH, 0)).columns)
        lines = [f"{self.definition.name}: {self._row_count(shown.num_rows)}"]
        if shown.num_rows:
            order = {name: index + 1 for index, name in enumerate(self._by_importance(shown.column_names))}
            columns = [TableColumn(name, order[name], is_text=True) for name in shown.column_names]
            table = FittedTable(columns, screen)
            cells = ([cell_text(*item) for item in row.items()] for row in shown.to_pylist())
            shared = SHARED if shown.num_rows < SHOWN_ROWS else SHARED_BY_SHOWN
            lines += (Line(line.replace(SHARED, shared, 1), line.style, line.hang) for line in table.lines(cells))
            notes += [f"not shown for lack of width: {', '.join(table.dropped)}"] if table.dropped else []
        return "\n".join(screen.lines([*lines, *notes]))

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
        caption = element("p", element("b", self.definition.name), f": {self._row_count(shown.num_rows)}")
        table = element("table", element("thead", head), element("tbody", *body))
        scrolled = element("div", table, style="overflow-x: auto") if shown.num_rows else ""
        return element("div", caption, scrolled, *(element("p", note) for note in notes))

    def _first(self, count: int) -> pa.Table:
        return self._source.first(count) if self._table is None else self._table.slice(0, count)

    def _rows(self) -> Iterator[Row]:
        batches = self._source.stream() if self._table is None else self._table.to_batches()
        for batch in batches:
            yield from batch.to_pylist()

    def _shown(self) -> tuple[pa.Table, list[str]]:
        """Return the first rows and their most important columns that are not null in all of them, and notes."""
        head = self._worst_first() if self._is_ranked and len(self) > SHOWN_ROWS else self._first(SHOWN_ROWS)
        known = self._by_importance(head.column_names)
        empty = [name for name in known if head.num_rows and head[name].null_count == head.num_rows]
        shown = head.select([name for name in head.column_names if name in known and name not in empty])
        notes = [f"null in all of these rows: {', '.join(empty)}"] if empty else []
        if more := len(head.column_names) - len(known):
            notes.append(f"{format_count(more, 'more column')}: .columns explains all, .select([…]) shows others")
        return shown, notes

    @property
    def _is_ranked(self) -> bool:
        name = self.definition.name
        return name in WORST_FIRST and WORST_FIRST[name][1] in self.definition.names

    def _worst_first(self) -> pa.Table:
        """Return the rows to show, what is stuck, open or worst first, and otherwise in their order."""
        import pyarrow as pa
        import pyarrow.compute as pc

        _, name, values = WORST_FIRST[self.definition.name]
        table = self.to_arrow()
        order = "ascending" if values else "descending"
        ranks = pc.index_in(table[name], value_set=pa.array(values)) if values else table[name]
        indexes = pc.sort_indices(pa.table({"rank": ranks}), sort_keys=[("rank", order)])  # nulls are last
        return table.take(indexes[:SHOWN_ROWS])

    def _by_importance(self, names: Sequence[str]) -> list[str]:
        """Return the columns to show, the most important ones first."""
        if self.definition.name not in SHOWN_COLUMNS:
            return [*names]
        return [name for name in (*PLACE[:2], *SHOWN_COLUMNS[self.definition.name], *PLACE[2:]) if name in names]

    def _row_count(self, shown: int) -> str:
        row = f"one per {self.definition.row}"
        if shown < SHOWN_ROWS:
            return f"{format_count(shown, 'row')}, {row}"
        if self._source.size > MAX_COUNTED_BYTES and self._count is None and self._table is None:
            return f"{SHOWN_ROWS} rows or more, {row}; showing the first {SHOWN_ROWS}, len() counts all"
        first = (
            f"{SHOWN_ROWS}, {WORST_FIRST[self.definition.name][0]} first"
            if self._is_ranked
            else f"the first {SHOWN_ROWS}"
        )
        return f"{format_count(len(self), 'row')}, {row}{f'; showing {first}' if len(self) > SHOWN_ROWS else ''}"


class SelectedView(TableView):
    """A view of the columns that a caller has selected: it shows all of them."""

    def _by_importance(self, names: Sequence[str]) -> list[str]:
        return [*names]


def view_of(definition: Table, table: pa.Table) -> TableView:
    """Return a view of a table that was read."""
    return _view_of(TableView, definition, table)


def _view_of(kind: type[TableView], definition: Table, table: pa.Table) -> TableView:
    return kind(definition, TableSource.of_table(lambda: table))


def _timestamps(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return times in milliseconds as timestamps, null for what is no time."""
    import pyarrow as pa
    import pyarrow.compute as pc

    is_known = pc.and_(pc.greater_equal(values, 0), pc.less_equal(values, MAX_TIME_MS))
    return pc.if_else(is_known, values, pa.scalar(None, pa.int64())).cast(pa.timestamp("ms", "UTC"))


def aligned_lines(rows: list[list[str]]) -> Iterator[str]:
    """Yield rows of text with their columns aligned."""
    widths = column_widths(rows)
    return ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
