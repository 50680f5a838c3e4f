"""The first rows of a table that may have millions, in an order that people want, without holding the others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["By", "counted", "first_rows", "in_order"]

RANK = "rank of "


@dataclass(frozen=True, slots=True)
class By:
    """What to order by.

    Attributes:
        column: values of this column; null comes last.
        descending: the largest first.
        words: these values in this order, others behind them.
    """

    column: str
    descending: bool = False
    words: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The column to sort by, and the direction."""
        return f"{RANK}{self.column}" if self.words else self.column, "descending" if self.descending else "ascending"


def in_order(table: pa.Table, order: Sequence[By]) -> pa.Table:
    """Return rows in an order; rows that are alike in it stay as they were."""
    ranked = table
    for by in order:
        if by.words:
            rank = pc.index_in(table[by.column], pa.array(by.words, table[by.column].type))
            ranked = ranked.append_column(by.key[0], rank)
    return table.take(pc.sort_indices(ranked, sort_keys=[by.key for by in order]))


def first_rows(batches: Iterable[pa.RecordBatch], order: Sequence[By], limit: int) -> pa.Table | None:
    """Return the first rows in an order; None where there is no batch.

    Args:
        batches: the rows.
        order: what comes first.
        limit: how many to return.
    """
    kept: pa.Table | None = None
    for batch in batches:
        table = pa.Table.from_batches([batch])
        table = table if kept is None else pa.concat_tables([kept, table])
        kept = in_order(table, order).slice(0, limit).combine_chunks()
    return kept


def counted(batches: Iterable[pa.RecordBatch], columns: Sequence[str]) -> dict[tuple[object, ...], int]:
    """Return how often each combination of values occurs, in their order.

    Args:
        batches: rows that have the columns; of few different values.
        columns: which.
    """
    found: dict[tuple[object, ...], int] = {}
    for batch in batches:
        groups = (
            pa.Table.from_batches([batch]).group_by(list(columns), use_threads=False).aggregate([([], "count_all")])
        )
        for row in groups.to_pylist():
            key = tuple(row[column] for column in columns)
            found[key] = found.get(key, 0) + row["count_all"]
    return dict(sorted(found.items(), key=str))
