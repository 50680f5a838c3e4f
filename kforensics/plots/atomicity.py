"""Charts of transactions over several partitions: whether their outcomes agree, and what each partition costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import pyarrow as pa

from kforensics.forensics.core.formatting import format_time_ms
from kforensics.plots.chart import (
    MIN_HEIGHT,
    OUTCOME_COLORS,
    ChartRows,
    Plot,
    Tabular,
    chart_data,
    drawn_colors,
    integer_axis,
    make_plot,
    safe_tail,
    to_table,
    tooltips,
)

SQUARE_COLORS = {
    **OUTCOME_COLORS,
    "hanging": "#a50f2d",
    "marker without data": "#a6dcc9",
    "no marker": "#332288",
    "no data available": "#ddd",
}
MAX_TRANSACTIONS, MAX_PARTITIONS = 30, 40
SQUARE_HEIGHT = 20
# By the column atomic. None: the transaction is still open.
URGENCY = {"no": 0, "pending": 1, None: 1, "unverifiable": 2, "yes": 3}
# The steps of a transaction whose times the files have, in order.
STEP_COLORS = {"begin": "#72b7b2", "prepare": "#eeca3b", "markers": "#f58518", "complete": "#b279a2"}
NOT_AT_COORDINATOR = "not at the coordinator"
Row = dict[str, Any]


def atomicity(distributed: Tabular, transactions: Tabular) -> Plot:
    """Return a matrix of transactions and partitions, colored by the outcome in each partition.

    It shows thirty transactions: those that are not atomic, or possibly not, first, then the latest. A transaction is
    hanging in a partition if it is open there and its coordinator has ended it, or has no such transaction.

    Args:
        distributed: the table ``distributed_transactions``.
        transactions: the table ``transactions`` of the partitions in it.

    Examples:
        >>> tables = kforensics.audit("sample_logs/consume-transform-produce").tables
        >>> chart = kforensics.plots.atomicity(tables["distributed_transactions"], tables["transactions"])
        >>> chart.to_dict()["title"]["text"]
        'Atomicity'
    """
    decided = to_table(distributed).to_pylist()
    by_partition = _by_partition_and_producer(to_table(transactions))
    rows = sorted([*_without_coordinator(decided, by_partition), *decided], key=_sort_key)
    shown = rows[:MAX_TRANSACTIONS]
    all_squares = [square for name, row in _named(shown) for square in _squares(name, row, by_partition)]
    partitions = sorted({square["partition"] for square in all_squares})[:MAX_PARTITIONS]
    squares: ChartRows = [square for square in all_squares if square["partition"] in partitions]
    order = list(dict.fromkeys(square["transaction"] for square in squares))
    rects = (
        alt.Chart(chart_data(squares))
        .mark_rect(stroke="white")
        .encode(
            x=alt.X("partition:N", sort=partitions, title=None, axis=alt.Axis(labelAngle=-60)),
            y=alt.Y("transaction:N", sort=order, title=None, axis=alt.Axis(labelLimit=260)),
            color=alt.Color("outcome:N", scale=drawn_colors(SQUARE_COLORS, (square["outcome"] for square in squares))),
            tooltip=tooltips("transaction", "partition", "outcome", "decided", "atomic", "marker time", "records"),
        )
    )
    subtitle = [
        f"{len(shown)} of {len(rows)} transactions: those that are not atomic first, then the latest"
        if len(rows) > len(shown)
        else "",
        f"only {len(partitions)} partitions are shown" if len(squares) < len(all_squares) else "",
    ]
    return make_plot([rects], "Atomicity", subtitle, height=max(SQUARE_HEIGHT * len(order), MIN_HEIGHT))


def _sort_key(row: Row) -> tuple[int, int]:
    return URGENCY.get(row["atomic"], 0), -(row["decided_timestamp"] or row["start_timestamp"] or 0)


def _by_partition_and_producer(table: pa.Table) -> dict[tuple[str, int], list[Row]]:
    transactions: dict[tuple[str, int], list[Row]] = {}
    for row in table.to_pylist():
        transactions.setdefault((f"{row['topic']}-{row['partition']}", row["producer_id"]), []).append(row)
    return transactions


def _without_coordinator(decided: list[Row], by_partition: dict[tuple[str, int], list[Row]]) -> Iterator[Row]:
    """Yield open transactions of partitions that are not those of a coordinator."""
    known = {
        (partition, row["producer_id"])
        for row in decided
        if row["outcome"] == "open" or row["missing_markers"]
        for partition in (row["partitions"] or "").split(",")
    }
    names = {row["producer_id"]: row["transactional_id"] for row in decided}
    for (partition, producer_id), candidates in by_partition.items():
        for row in candidates if (partition, producer_id) not in known else ():
            if row["outcome"] == "open":
                yield {
                    "transactional_id": names.get(producer_id, f"producer {producer_id}"),
                    "producer_id": producer_id,
                    "outcome": NOT_AT_COORDINATOR,
                    "atomic": "no",
                    "partitions": partition,
                    "missing_markers": 1,
                    "empty_markers": 0,
                    **dict.fromkeys(("marker_epoch", "first_marker_timestamp", "last_marker_timestamp")),
                    "start_timestamp": row["first_timestamp"],
                    "decided_timestamp": None,
                    "offset": row["first_offset"],
                    "partition": partition,
                }


def _named(rows: list[Row]) -> Iterator[tuple[str, Row]]:
    """Yield transactions with unique names, even if two started in the same millisecond."""
    names: set[str] = set()
    for row in rows:
        start = row["start_timestamp"]
        time = "an unknown time" if start is None else format_time_ms(start)
        name = f"{safe_tail(str(row['transactional_id']))} at {time}"
        if name in names:
            name = f"{name}, offset {row['offset']} of its partition {row['partition']}"
        names.add(name)
        yield name, row


def _squares(name: str, row: Row, by_partition: dict[tuple[str, int], list[Row]]) -> Iterator[Row]:
    """Yield a square for each partition of a transaction."""
    for partition in filter(None, (row["partitions"] or "").split(",")):
        match = _matching_transaction(row, by_partition.get((partition, row["producer_id"]), []))
        marker_time = None if match is None else match["marker_timestamp"]
        yield {
            "transaction": name,
            "partition": safe_tail(partition),
            "outcome": _outcome(row, match) if match else _outcome_without_data(row),
            "decided": row["outcome"],
            "atomic": row["atomic"],
            "marker time": None if marker_time is None else format_time_ms(marker_time),
            "records": match["records"] if match else 0,
        }


def _matching_transaction(row: Row, candidates: list[Row]) -> Row | None:
    """Return the transaction of a partition whose marker has the right epoch and time, None if there is none."""
    for candidate in candidates:
        if candidate["outcome"] == "open":
            if row["outcome"] == "open" or row["missing_markers"]:
                return candidate
        elif candidate["marker_epoch"] == row["marker_epoch"] and _is_marker_time(row, candidate["marker_timestamp"]):
            return candidate
    return None


def _is_marker_time(row: Row, timestamp: int | None) -> bool:
    first, last = row["first_marker_timestamp"], row["last_marker_timestamp"]
    if first is None or last is None or timestamp is None:
        return False
    is_between: bool = first <= timestamp <= last
    return is_between


def _outcome(row: Row, match: Row) -> str:
    is_hanging = match["outcome"] == "open" and row["outcome"] != "open"
    return "hanging" if is_hanging else str(match["outcome"])


def _outcome_without_data(row: Row) -> str:
    if row["missing_markers"]:
        return "no marker"
    return "marker without data" if row["empty_markers"] else "no data available"


def transaction_costs(costs: Tabular) -> Plot:
    """Return the time that transactions need to end by their number of partitions, with the line that fits it.

    Dashed lines show the median time of each step: to begin, to write the first marker, to write the others, and to
    complete.

    Args:
        costs: the table ``transaction_costs`` of one cluster.

    Examples:
        >>> costs = kforensics.transactions("sample_logs/transaction-costs", topic="timed", cost=True)
        >>> chart = kforensics.plots.transaction_costs(costs)
        >>> chart.to_dict()["title"]["subtitle"]
        ['time = 17.9 (init) + 20.1 (commit) + partitions x 17.24 (marker) ms; residual 0.53 ms']
    """
    rows = to_table(costs).to_pylist()
    groups = [row for row in rows if row["grouped_by"] == "partitions"]
    times: ChartRows = [
        {
            "partitions": row["least"],
            "transactions": row["transactions"],
            **{f"p{percent}": row[f"end_p{percent}_ms"] for percent in (50, 90, 99)},
        }
        for row in groups
    ]
    line: ChartRows = [{"partitions": row["least"], "fitted": row["fitted_end_ms"]} for row in groups]
    axis = integer_axis(row["least"] for row in groups)
    x = alt.X("partitions:Q", title="partitions of the transaction", axis=axis)
    title = "ms from the decision to its end: median to p90"
    base = alt.Chart(chart_data(times)).encode(x=x, tooltip=tooltips("partitions", "transactions", "p50", "p90", "p99"))
    spread = base.mark_rule(color="#9aa5b1", strokeWidth=3).encode(y=alt.Y("p50:Q", title=title), y2="p90:Q")
    points = base.mark_point(filled=True, size=80, color="#4c78a8").encode(y="p50:Q")
    fitted = [row for row in line if row["fitted"] is not None]
    drawn = alt.Chart(chart_data(fitted)).mark_line(color="#e45756").encode(x=x, y="fitted:Q")
    return make_plot([_step_lines(groups, x), drawn, spread, points], "Costs of transactions", _cost_lines(rows))


def _step_lines(groups: Sequence[Row], x: alt.X) -> alt.Chart:
    """Return a line for each step of a transaction that has times."""
    medians: ChartRows = [
        {"partitions": row["least"], "step": step, "ms": row[f"{step}_p50_ms"]}
        for step in STEP_COLORS
        for row in groups
        if row[f"{step}_p50_ms"] is not None
    ]
    colors = drawn_colors(STEP_COLORS, (row["step"] for row in medians))
    color = alt.Color("step:N", title="median of a step", scale=colors, sort=list(STEP_COLORS))
    encodings = {"x": x, "y": "ms:Q", "color": color, "tooltip": tooltips("partitions", "step", "ms")}
    lines: alt.Chart = alt.Chart(chart_data(medians)).mark_line(strokeDash=[4, 2], point=True).encode(**encodings)
    return lines


def _cost_lines(rows: list[Row]) -> Iterator[str]:
    """Yield the fitted formula of each cluster."""
    for row in rows:
        if row["grouped_by"] == "all" and row["marker_ms"] is not None:
            init = "" if row["init_ms"] is None else f"{row['init_ms']:.1f} (init) + "
            yield (
                f"time = {init}{row['commit_ms']:.1f} (commit) + "
                f"partitions x {row['marker_ms']:.2f} (marker) ms; residual {row['residual_ms']:.2f} ms"
            )
