"""Which partition has which end of which transaction: a transaction is atomic if all its partitions agree."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import pyarrow as pa

from kforensics.plots.chart import Plot, Rows, Tabular, harmless_rows, plot, table_of, tail, tips, when

__all__ = ["ENDS", "atomicity"]

ENDS = {
    "committed": "#009e73",
    "aborted": "#e69f00",
    "open": "#a50f2d",
    "marker without data": "#a6dcc9",
    "no marker": "#332288",
    "no data on hand": "#ddd",
}
TRANSACTIONS, PARTITIONS = 30, 40
LINE_HEIGHT, LEAST_HEIGHT = 20, 60
# What is worst comes first; of what is still open nothing is said yet.
RANK = {"no": 0, "pending": 1, None: 1, "unverifiable": 2, "yes": 3}
Row = dict[str, Any]


def atomicity(distributed: Tabular, transactions: Tabular) -> Plot:
    """Return a matrix of transactions and their partitions, each square in the colour of how it ended there.

    The thirty transactions are shown that are not atomic or most likely not, and of the others the last.

    Args:
        distributed: the table ``distributed_transactions``.
        transactions: the table ``transactions`` of the partitions they are in.
    """
    found = sorted(table_of(distributed).to_pylist(), key=_urgency)
    ends = _ends(table_of(transactions))
    shown = found[:TRANSACTIONS]
    squares = [square for name, row in _named(shown) for square in _squares(name, row, ends)]
    names = sorted({square["partition"] for square in squares})[:PARTITIONS]
    rows: Rows = [square for square in squares if square["partition"] in names]
    color = alt.Color("ended:N", scale=alt.Scale(domain=[*ENDS], range=[*ENDS.values()]))
    order = list(dict.fromkeys(row["transaction"] for row in rows))
    rects = (
        alt.Chart(harmless_rows(rows))
        .mark_rect(stroke="white")
        .encode(
            x=alt.X("partition:N", sort=names, title=None, axis=alt.Axis(labelAngle=-60)),
            y=alt.Y("transaction:N", sort=order, title=None, axis=alt.Axis(labelLimit=260)),
            color=color,
            tooltip=tips("transaction", "partition", "ended", "decided", "atomic", "when", "records"),
        )
    )
    said = [
        f"{len(shown)} of {len(found)} transactions" if len(found) > len(shown) else "",
        f"{len(names)} partitions are shown, others are not" if len(rows) < len(squares) else "",
    ]
    return plot([rects], "Atomicity", said, height=max(LINE_HEIGHT * len(order), LEAST_HEIGHT))


def _urgency(row: Row) -> tuple[int, int]:
    return RANK.get(row["atomic"], 0), -(row["decided_timestamp"] or row["start_timestamp"] or 0)


def _ends(table: pa.Table) -> dict[tuple[str, int], list[Row]]:
    """Return how transactions ended, by the partition and the producer id."""
    found: dict[tuple[str, int], list[Row]] = {}
    for row in table.to_pylist():
        found.setdefault((f"{row['topic']}-{row['partition']}", row["producer_id"]), []).append(row)
    return found


def _named(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """Yield transactions with names that tell them apart, even where two began in the same millisecond."""
    used: set[str] = set()
    for row in rows:
        begun = row["start_timestamp"]
        name = f"{tail(str(row['transactional_id']))} at {'an unknown time' if begun is None else when(begun)}"
        if name in used:
            name = f"{name}, offset {row['offset']} of its partition {row['partition']}"
        used.add(name)
        yield name, row


def _squares(name: str, row: Row, ends: dict[tuple[str, int], list[Row]]) -> Iterator[Row]:
    """Yield a square for each partition of a transaction."""
    for partition in filter(None, (row["partitions"] or "").split(",")):
        there = _there(row, ends.get((partition, row["producer_id"]), []))
        yield {
            "transaction": name,
            "partition": tail(partition),
            "ended": there["outcome"] if there else _without_data(row),
            "decided": row["outcome"],
            "atomic": row["atomic"],
            "when": None if there is None or there["marker_timestamp"] is None else when(there["marker_timestamp"]),
            "records": there["records"] if there else 0,
        }


def _there(row: Row, candidates: list[Row]) -> Row | None:
    """Return what a partition knows of a transaction: its marker is of its epoch and of its time."""
    for one in candidates:
        if one["outcome"] == "open":
            if row["outcome"] == "open" or row["missing_markers"]:
                return one
        elif one["marker_epoch"] == row["marker_epoch"] and _within(row, one["marker_timestamp"]):
            return one
    return None


def _within(row: Row, timestamp: int) -> bool:
    first, last = row["first_marker_timestamp"], row["last_marker_timestamp"]
    return first is not None and last is not None and first <= timestamp <= last


def _without_data(row: Row) -> str:
    """Return what to say of a partition where no data of the transaction is on hand."""
    if row["missing_markers"]:
        return "no marker"
    return "marker without data" if row["empty_markers"] else "no data on hand"
