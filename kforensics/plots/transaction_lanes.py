"""A chart of transactions as bars in one lane per producer, with their markers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.errors import UsageError
from kforensics.forensics.core.formatting import format_count
from kforensics.plots.chart import (
    MAX_MARKS,
    MIN_HEIGHT,
    OUTCOME_COLORS,
    UNENDED,
    ChartRows,
    NumberArray,
    PartitionFilter,
    Plot,
    Tabular,
    chart_data,
    column_numbers,
    drawn_colors,
    make_plot,
    offset_axis,
    time_axis,
    tooltips,
)

OUTCOMES = sorted(OUTCOME_COLORS)
MAX_LANES, LANE_HEIGHT = 30, 22
# Of too many transactions, the open and longest ones that keep a bar of their own.
MAX_SINGLE_BARS = MAX_MARKS // 4
# Columns of the start, the last record and the marker of a transaction.
BAR_COLUMNS = {
    "offset": ("first_offset", "last_offset", "marker_offset"),
    "time": ("first_timestamp", "last_timestamp", "marker_timestamp"),
}


@dataclass(frozen=True, slots=True)
class _Bars:
    """Columns of transactions; outcomes are indexes of OUTCOME_NAMES."""

    starts: NumberArray
    ends: NumberArray
    lanes: NumberArray
    outcomes: NumberArray
    records: NumberArray

    def __len__(self) -> int:
        return len(self.starts)


def transactions(
    table: Tabular,
    *,
    by: str = "offset",
    topic: str | None = None,
    partition: int | None = None,
    log_dir: str | None = None,
) -> Plot:
    """Return transactions as bars from their first record to their marker; open ones extend to the end.

    Producers with open or aborted transactions have the first lanes; with more than thirty producers the last ones
    share a lane. If there are too many transactions, open and long ones keep their bars, and neighbors with the same
    outcome are merged.

    Args:
        table: the table ``transactions``.
        by: ``offset`` or ``time``.
        topic: topic to show, if the table has several.
        partition: partition of the topic.
        log_dir: log directory of the partition.

    Raises:
        UsageError: the table has several partitions, or ``by`` is neither.

    Examples:
        >>> table = kforensics.transactions("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> kforensics.plots.transactions(table).to_dict()["title"]["text"]
        'Transactions: hanging-0'
    """
    if by not in BAR_COLUMNS:
        raise UsageError(f"by={by!r} is not one of {', '.join(BAR_COLUMNS)}")
    partition_filter = PartitionFilter(topic, partition, log_dir)
    rows = partition_filter.select(table)
    placed = _with_known_times(rows) if by == "time" else rows
    names, bars = _bars(placed, *BAR_COLUMNS[by])
    drawn = [*_drawn_bars(bars, names)]
    title = partition_filter.title("Transactions", rows)
    height = max(LANE_HEIGHT * len(names), MIN_HEIGHT)
    notes = [_merged_note(drawn, len(bars)), _timeless_note(len(rows) - len(bars))]
    return make_plot(_layers(drawn, names, by), title, notes, height=height)


def _with_known_times(rows: pa.Table) -> pa.Table:
    """Return the transactions that have a time: of the first record, the last one or the marker."""
    times = [column_numbers(rows, name) for name in BAR_COLUMNS["time"]]
    return rows.filter(pa.array(np.maximum.reduce(times) >= 0))


def _layers(drawn: ChartRows, names: list[str], by: str) -> list[alt.Chart]:
    """Return the bars and, for transactions that have ended, the markers."""
    edges = [bar[edge] for bar in drawn for edge in ("start", "end")]
    axis, kind = (offset_axis("offset", edges), "Q") if by == "offset" else (time_axis("timestamp", edges), "T")
    lane = alt.Y("producer:O", sort=names, title="producer id")
    color = alt.Color("outcome:N", scale=drawn_colors(OUTCOME_COLORS, (bar["outcome"] for bar in drawn)))
    bars = alt.Chart(chart_data(drawn)).encode(
        x=alt.X(f"start:{kind}", **axis),
        x2="end",
        y=lane,
        color=color,
        tooltip=tooltips("producer", "outcome", "start", "end", "records", "transactions"),
    )
    markers = alt.Chart(chart_data(bar for bar in drawn if bar["outcome"] not in UNENDED)).encode(
        x=alt.X(f"end:{kind}", **axis), y=lane, color=color
    )
    return [bars.mark_bar(size=10, opacity=0.55), markers.mark_tick(thickness=3, size=16)]


def _bars(rows: pa.Table, first: str, last: str, marker: str) -> tuple[list[str], _Bars]:
    """Return the names of the lanes, and the bars; an open transaction ends with the newest of all."""
    starts, lasts, markers = (column_numbers(rows, name) for name in (first, last, marker))
    end = max(int(lasts.max(initial=0)), int(markers.max(initial=0))) + (first == "first_offset")
    begin = int(np.r_[starts[starts >= 0], lasts[lasts >= 0]].min(initial=end))
    outcomes = np.searchsorted(OUTCOMES, np.array(rows["outcome"].to_pylist(), str))
    names, lanes = _lanes(column_numbers(rows, "producer_id"), outcomes)
    ends = np.where(markers < 0, end, markers)
    starts = np.where(starts < 0, begin, starts)
    return names, _Bars(starts, ends, lanes, outcomes, column_numbers(rows, "records"))


def _lanes(producers: NumberArray, outcomes: NumberArray) -> tuple[list[str], NumberArray]:
    """Return the names of the lanes, and the lane of each transaction."""
    ids, producer_index = np.unique(producers, return_inverse=True)
    open_counts, aborted_counts = (
        np.bincount(producer_index, outcomes == OUTCOMES.index(name), len(ids)) for name in ("open", "aborted")
    )
    counts = np.bincount(producer_index, minlength=len(ids))
    order = np.lexsort((ids, -counts, -aborted_counts, -open_counts))
    rank = np.empty(len(ids), int)
    rank[order] = np.arange(len(ids))
    if len(ids) <= MAX_LANES:
        return [str(producer_id) for producer_id in ids.tolist()], producer_index
    names = [str(producer_id) for producer_id in ids[order[: MAX_LANES - 1]].tolist()]
    return [*names, f"{len(ids) - MAX_LANES + 1} others"], np.minimum(rank, MAX_LANES - 1)[producer_index]


def _drawn_bars(bars: _Bars, names: list[str]) -> Iterator[dict[str, Any]]:
    """Yield the bars to draw, of single or merged transactions."""
    for group in _groups(bars):
        first = group[0]
        yield {
            "producer": names[bars.lanes[first]],
            "outcome": OUTCOMES[bars.outcomes[first]],
            "start": bars.starts[group].min(),
            "end": bars.ends[group].max(),
            "records": int(bars.records[group].sum()),
            "transactions": len(group),
        }


def _groups(bars: _Bars) -> Iterator[NumberArray]:
    """Yield the transactions of each bar."""
    count = len(bars)
    if count <= MAX_MARKS // 2:
        yield from np.arange(count).reshape(-1, 1)
        return
    is_closed = bars.outcomes != OUTCOMES.index("open")
    order = np.lexsort((bars.starts - bars.ends, is_closed))
    yield from order[:MAX_SINGLE_BARS].reshape(-1, 1)
    rest = order[MAX_SINGLE_BARS:]
    # The rest is merged by lane, outcome and bin of the position.
    kinds = (bars.lanes.max() + 1) * len(OUTCOMES)
    bins = max(MAX_SINGLE_BARS // int(kinds), 1)
    begin, end = int(bars.starts.min()), int(bars.ends.max())
    bin_index = (bars.starts[rest] - begin) * bins // max(end - begin + 1, 1)
    keys = (bars.lanes[rest] * len(OUTCOMES) + bars.outcomes[rest]) * bins + bin_index
    by_key = np.argsort(keys, kind="stable")
    yield from np.split(rest[by_key], np.flatnonzero(np.diff(keys[by_key])) + 1)


def _timeless_note(count: int) -> str:
    return f"{format_count(count, 'transaction')} without timestamps not shown" if count else ""


def _merged_note(bars: ChartRows, count: int) -> str:
    merged = sum(bar["transactions"] for bar in bars if bar["transactions"] > 1)
    return f"{merged} of {count} transactions are merged with their neighbors" if merged else ""
