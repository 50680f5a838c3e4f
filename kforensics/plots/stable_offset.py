"""Charts of the last stable offset over offsets and over time, with the producers that block it."""

from __future__ import annotations

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.forensics.core.formatting import format_time_ms
from kforensics.plots.chart import (
    MAX_MARKS,
    ChartRows,
    NumberArray,
    PartitionFilter,
    Plot,
    Tabular,
    chart_data,
    column_numbers,
    make_plot,
    offset_axis,
    time_axis,
    tooltips,
)

NO_BLOCKER, ANOTHER_PRODUCER, SEVERAL_PRODUCERS = "nothing", "another producer", "several producers"
# Producers with a name and colour of their own.
MAX_NAMED = 8
# Of too many steps, those drawn alone, and the bins in which the others are merged.
WIDEST_STEPS, STEP_BINS = MAX_MARKS // 4, MAX_MARKS // 2
# Of too many batches, each of these bins of time has up to two points.
MAX_POINTS, TIME_BINS = MAX_MARKS // 3, MAX_MARKS // 6
HISTORY_COLUMNS = ("from_high_watermark", "to_high_watermark", "last_stable_offset", "producer_id")
LSO_FIELD, LOG_END_FIELD, BLOCKER_FIELD = "last stable offset", "log end offset", "blocked by"
FREE_COLOR = "#999"
PRODUCER_COLORS = (
    *("#4c78a8", "#e45756", "#72b7b2", "#f58518", "#54a24b"),
    *("#b279a2", "#9d755d", "#eeca3b", "#ff9da6", "#333"),
)


def lso(
    history: Tabular, *, topic: str | None = None, partition: int | None = None, log_dir: str | None = None
) -> Plot:
    """Return the last stable offset by high watermark: the line is flat while a transaction blocks it.

    If there are too many steps, narrow ones are merged.

    Args:
        history: the table ``lso_history``.
        topic: topic to show, if the table has several.
        partition: partition of the topic.
        log_dir: log directory of the partition.

    Raises:
        UsageError: the table has several partitions.
    """
    partition_filter = PartitionFilter(topic, partition, log_dir)
    table = partition_filter.select(history).sort_by("from_high_watermark")
    rows = _step_lines(*(column_numbers(table, name) for name in HISTORY_COLUMNS))
    end = max((row["x2"] for row in rows), default=0)
    start = min((row["x"] for row in rows), default=0)
    diagonal = alt.Chart(chart_data([{"x": start, "y": start, "x2": end, "y2": end}]))
    steps = alt.Chart(chart_data(rows)).encode(
        color=_blocker_color(rows), tooltip=tooltips(BLOCKER_FIELD, "producer id", "x", "x2", "y2", "steps")
    )
    return make_plot(
        [_lines(diagonal.mark_rule(color="#bbb", strokeDash=[4, 3])), _lines(steps.mark_rule(strokeWidth=3))],
        partition_filter.title("Last stable offset", table),
        ["dashed: the log end offset; read_committed consumers wait where the lines separate"],
    )


def lso_over_time(
    history: Tabular,
    batches: Tabular,
    *,
    topic: str | None = None,
    partition: int | None = None,
    log_dir: str | None = None,
) -> Plot:
    """Return last stable offset and log end offset over time, as if batches were replicated immediately.

    Time is the largest timestamp so far. With CreateTime it is the clock of the producers.

    Args:
        history: the table ``lso_history``.
        batches: the table ``batches``.
        topic: topic to show, if the tables have several.
        partition: partition of the topic.
        log_dir: log directory of the partition.

    Raises:
        UsageError: the tables have several partitions.
    """
    partition_filter = PartitionFilter(topic, partition, log_dir)
    steps = partition_filter.select(history).sort_by("from_high_watermark")
    written = partition_filter.select(batches).sort_by("last_offset")
    rows = _points(steps, written)
    data = alt.Chart(chart_data(rows)).encode(
        x=alt.X("time:T", **time_axis("largest timestamp so far")),
        tooltip=tooltips("timestamp", LOG_END_FIELD, LSO_FIELD, BLOCKER_FIELD),
    )
    log_end_y, lso_y = (alt.Y(f"{field}:Q", **offset_axis("offset")) for field in (LOG_END_FIELD, LSO_FIELD))
    layers = [
        data.mark_line(interpolate="step-after", color="#bbb", strokeDash=[4, 3]).encode(y=log_end_y),
        data.mark_line(interpolate="step-after", color="#555").encode(y=lso_y),
        data.mark_point(filled=True, size=40).encode(y=lso_y, color=_blocker_color(rows)),
    ]
    title = partition_filter.title("Last stable offset over time", steps, written)
    return make_plot(layers, title, ["dashed: the log end offset"])


def _lines(chart: alt.Chart) -> alt.Chart:
    x, y = alt.X("x:Q", **offset_axis("high watermark", nice=False)), alt.Y("y:Q", **offset_axis(LSO_FIELD, nice=False))
    return chart.encode(x=x, x2="x2:Q", y=y, y2="y2:Q")


def _blocker_color(rows: ChartRows) -> alt.Color:
    blockers = sorted({row[BLOCKER_FIELD] for row in rows} - {NO_BLOCKER})
    scale = alt.Scale(domain=[NO_BLOCKER, *blockers], range=[FREE_COLOR, *PRODUCER_COLORS[: len(blockers)]])
    return alt.Color(f"{BLOCKER_FIELD}:N", scale=scale, title=BLOCKER_FIELD)


def _step_lines(starts: NumberArray, ends: NumberArray, stable: NumberArray, producers: NumberArray) -> ChartRows:
    """Return a line for each step, or for several neighbouring steps if there are too many."""
    names = _blocker_names(ends - starts, producers)
    is_free = producers < 0
    # Without a blocking transaction the LSO is the high watermark and rises with it.
    heights = np.where(is_free, starts, stable)
    firsts = _merged_steps(starts, ends)
    rows: ChartRows = []
    for first, last in zip(firsts, np.append(firsts, len(starts))[1:] - 1, strict=True):
        is_single = first == last
        rows.append(
            {
                "x": starts[first],
                "y": heights[first],
                "x2": ends[last],
                "y2": stable[last],
                BLOCKER_FIELD: names[first] if is_single else SEVERAL_PRODUCERS,
                "producer id": producers[first] if is_single and not is_free[first] else None,
                "steps": last - first + 1,
            }
        )
    return rows


def _merged_steps(starts: NumberArray, ends: NumberArray) -> NumberArray:
    """Return the first step of each group of neighbouring steps that share a line."""
    count = len(starts)
    if count <= MAX_MARKS:
        return np.arange(count)
    is_widest = np.zeros(count, bool)
    is_widest[np.argsort(starts - ends, kind="stable")[:WIDEST_STEPS]] = True
    bins = (starts - starts[0]) * STEP_BINS // max(ends[-1] - starts[0] + 1, 1)
    is_first = is_widest | np.r_[True, is_widest[:-1]] | np.r_[True, np.diff(bins) > 0]
    return np.flatnonzero(is_first)


def _blocker_names(widths: NumberArray, producers: NumberArray) -> list[str]:
    """Return the name of what blocks each step; only the producers that block most have names of their own."""
    ids, inverse = np.unique(producers, return_inverse=True)
    blocked = np.bincount(inverse, widths + 1) if len(ids) else np.empty(0)
    blocked[ids < 0] = -1
    named = set(ids[np.argsort(-blocked, kind="stable")[:MAX_NAMED]].tolist())
    names = {
        producer_id: f"producer {producer_id}" if producer_id in named else ANOTHER_PRODUCER
        for producer_id in ids.tolist()
    } | {-1: NO_BLOCKER}
    return [names[producer_id] for producer_id in producers.tolist()]


def _points(steps: pa.Table, written: pa.Table) -> ChartRows:
    """Return LSO and log end after each batch, or after some batches of each bin of time if there are too many."""
    ends, stable, producers = (column_numbers(steps, name) for name in HISTORY_COLUMNS[1:])
    if not len(ends) or not written.num_rows:
        return []
    times = np.maximum.accumulate(column_numbers(written, "max_timestamp"))
    log_ends = column_numbers(written, "last_offset") + 1
    step = np.minimum(np.searchsorted(ends, log_ends), len(ends) - 1)
    is_free = producers[step] < 0
    lsos = np.where(is_free, log_ends, np.minimum(stable[step], log_ends))
    names = _blocker_names(np.ones(len(step), int), producers[step])
    return [
        {
            "time": times[row],
            "timestamp": format_time_ms(int(times[row])),
            LOG_END_FIELD: log_ends[row],
            LSO_FIELD: lsos[row],
            BLOCKER_FIELD: names[row],
        }
        for row in _selected_points(times, log_ends - lsos).tolist()
        if times[row] >= 0
    ]


def _selected_points(times: NumberArray, lags: NumberArray) -> NumberArray:
    """Return the batches to show: of each bin of time the last one, and the one with the largest lag."""
    count = len(times)
    if count <= MAX_POINTS:
        return np.arange(count)
    bins = (times - times[0]) * TIME_BINS // (times[-1] - times[0] + 1)
    last = np.flatnonzero(np.r_[np.diff(bins) > 0, True])
    by_lag = np.lexsort((lags, bins))
    largest_lag = by_lag[np.flatnonzero(np.r_[np.diff(bins[by_lag]) > 0, True])]
    return np.unique(np.r_[last, largest_lag])
