"""Selects the first rows of a table in a sort order without keeping the others in memory."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

RANK_PREFIX = "rank of "


@dataclass(frozen=True, slots=True)
class SortKey:
    """A column to sort by; nulls come last.

    Attributes:
        column: name of the column.
        descending: whether the largest value comes first.
        ranking: values in their order; other values come after them.
    """

    column: str
    descending: bool = False
    ranking: tuple[str, ...] = ()

    @property
    def arrow_key(self) -> tuple[str, str]:
        """The column and direction for Arrow, where a ranking is a column of its own."""
        column = f"{RANK_PREFIX}{self.column}" if self.ranking else self.column
        return column, "descending" if self.descending else "ascending"


def sort_rows(table: pa.Table, order: Sequence[SortKey]) -> pa.Table:
    """Return the rows of a table in a sort order; the sort is stable."""
    ranked = table
    for key in order:
        if key.ranking:
            rank = pc.index_in(table[key.column], pa.array(key.ranking, table[key.column].type))
            ranked = ranked.append_column(key.arrow_key[0], rank)
    return table.take(pc.sort_indices(ranked, sort_keys=[key.arrow_key for key in order]))


def first_rows(batches: Iterable[pa.RecordBatch], order: Sequence[SortKey], limit: int) -> pa.Table | None:
    """Return the first rows in a sort order, None if there is no batch.

    Args:
        batches: the rows.
        order: the sort order.
        limit: maximum number of rows.
    """
    rows: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table if rows is None else pa.concat_tables([rows, table])
        rows = sort_rows(table, order).slice(0, limit).combine_chunks()
    return rows


def count_values(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> dict[tuple[object, ...], int]:
    """Return the number of rows for each combination of values, sorted.

    Args:
        batches: the rows; their combinations must be few.
        columns: columns to combine.
    """
    counts: dict[tuple[object, ...], int] = {}
    for batch in batches:
        table = pa.Table.from_batches([batch])
        groups = table.group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
        for row in groups.to_pylist():
            values = tuple(row[column] for column in columns)
            counts[values] = counts.get(values, 0) + row["count_all"]
    return dict(sorted(counts.items(), key=str))
