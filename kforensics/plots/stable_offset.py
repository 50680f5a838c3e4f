"""Charts of the last stable offset over offsets and over time, with the producers that block it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any, Literal

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    drawn_colors,
    make_plot,
    offset_axis,
    safe_tail,
    time_axis,
    to_table,
    tooltips,
)

NO_BLOCKER, ANOTHER_PRODUCER, SEVERAL_PRODUCERS = "nothing", "another producer", "several producers"
# Producers with a name and color of their own, and the spans that are labeled: the widest ones.
MAX_NAMED, MAX_LABELS = 8, 8
# A step takes up to three points of the line and one span. Of too many steps, those drawn alone, and the bins in which
# the others are merged.
MAX_STEPS, WIDEST_STEPS, STEP_BINS = MAX_MARKS // 4 - MAX_LABELS, MAX_MARKS // 20, MAX_MARKS // 10
# Of too many batches, each of these bins of time has up to two points.
MAX_POINTS, TIME_BINS = MAX_MARKS // 4 - MAX_LABELS, MAX_MARKS // 12
HISTORY_COLUMNS = ("from_high_watermark", "to_high_watermark", "last_stable_offset", "producer_id")
LSO_FIELD, LOG_END_FIELD, BLOCKER_FIELD = "last stable offset", "log end offset", "blocked by"
LINE_COLORS = {LOG_END_FIELD: "#aaa", LSO_FIELD: "#333"}
LINE_DASHES = ([4, 3], [1, 0])
PRODUCER_COLORS = (
    *("#4c78a8", "#e45756", "#72b7b2", "#f58518", "#54a24b"),
    *("#b279a2", "#9d755d", "#eeca3b", "#ff9da6", "#76b7f2"),
)
SPAN_WIDTH, LABEL_SIZE = 6, 11
# Pixels below the lowest span, for its label.
Y_PADDING = 18


def lso(
    history: Tabular,
    *,
    topic: str | None = None,
    partition: int | None = None,
    log_dir: str | None = None,
    transactional_ids: Tabular | None = None,
) -> Plot:
    """Return the last stable offset by high watermark: the line is flat while a transaction blocks it.

    A transaction that blocks it is a colored span with its transactional id or producer id. If there are too many
    steps, narrow ones are merged.

    Args:
        history: the table ``lso_history``.
        topic: topic to show, if the table has several.
        partition: partition of the topic.
        log_dir: log directory of the partition.
        transactional_ids: the table ``transactional_ids``, for the names of producers.

    Raises:
        UsageError: the table has several partitions.

    Examples:
        >>> history = kforensics.lso("sample_logs/transactions-v2/broker-1/hanging-0", history=True)
        >>> kforensics.plots.lso(history).to_dict()["title"]["text"]
        'Last stable offset: hanging-0'
    """
    partition_filter = PartitionFilter(topic, partition, log_dir)
    table = partition_filter.select(history).sort_by("from_high_watermark")
    starts, ends, stable, producers = (column_numbers(table, name) for name in HISTORY_COLUMNS)
    steps = _steps(starts, ends, stable, producers, _names(ends - starts, producers, transactional_ids))
    spans = [step for step in steps if step[BLOCKER_FIELD] != NO_BLOCKER]
    begin, end = (int(starts[0]), int(ends[-1])) if len(starts) else (0, 0)
    log_end = [{"x": at, "y": at, "line": LOG_END_FIELD} for at in (begin, end)] if len(starts) else []
    axes = (
        alt.X("x:Q", **offset_axis("high watermark", (begin, end), nice=False)),
        alt.Y("y:Q", **offset_axis("offset", _heights(log_end, spans), nice=False, padding=Y_PADDING)),
    )
    return make_plot(
        _layers(([*log_end], [*_line_points(steps)]), spans, axes),
        partition_filter.title("Last stable offset", table),
        ["read_committed consumers read up to the last stable offset, which open transactions hold back"],
    )


def lso_over_time(  # noqa: PLR0913  # tables, and the partition to show
    history: Tabular,
    batches: Tabular,
    *,
    topic: str | None = None,
    partition: int | None = None,
    log_dir: str | None = None,
    transactional_ids: Tabular | None = None,
) -> Plot:
    """Return last stable offset and log end offset over time, as if batches were replicated immediately.

    Time is the largest timestamp so far. With CreateTime it is the clock of the producers. A transaction that blocks
    the last stable offset is a colored span with its transactional id or producer id.

    Args:
        history: the table ``lso_history``.
        batches: the table ``batches``.
        topic: topic to show, if the tables have several.
        partition: partition of the topic.
        log_dir: log directory of the partition.
        transactional_ids: the table ``transactional_ids``, for the names of producers.

    Raises:
        UsageError: the tables have several partitions.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> kforensics.plots.lso_over_time(log.lso_history, log.batches).to_dict()["title"]["text"]
        'Last stable offset over time: hanging-0'
    """
    partition_filter = PartitionFilter(topic, partition, log_dir)
    steps = partition_filter.select(history).sort_by("from_high_watermark")
    written = partition_filter.select(batches).sort_by("last_offset")
    points = _points(steps, written, transactional_ids)
    axis = time_axis("largest timestamp so far", (row["x"] for row in points))
    log_end, stable = (
        [{**row, "y": row[field], "line": field} for row in points] for field in (LOG_END_FIELD, LSO_FIELD)
    )
    heights = _heights(log_end, stable)
    axes = alt.X("x:T", **axis), alt.Y("y:Q", **offset_axis("offset", heights, nice=False, padding=Y_PADDING))
    layers = _layers((log_end, stable), [*_spans(points)], axes, interpolate="step-after")
    return make_plot(layers, partition_filter.title("Last stable offset over time", steps, written))


def _heights(*layers: ChartRows) -> list[int]:
    return [row["y"] for rows in layers for row in rows]


def _layers(
    lines: tuple[ChartRows, ChartRows],
    spans: ChartRows,
    axes: tuple[alt.X, alt.Y],
    *,
    interpolate: Literal["linear", "step-after"] = "linear",
) -> list[alt.Chart]:
    """Return the layers of a chart: lines of log end and last stable offset, blocking transactions and their names."""
    x, y = axes
    blockers = sorted({row[BLOCKER_FIELD] for row in spans})
    colors = {**LINE_COLORS, **dict(zip(blockers, PRODUCER_COLORS, strict=False))}
    scale = drawn_colors(colors, [*blockers, *(row["line"] for rows in lines for row in rows)])
    drawn_lines = [
        alt.Chart(chart_data(rows))
        .mark_line(interpolate=interpolate, strokeDash=dash)
        .encode(x=x, y=y, color=alt.Color("line:N", scale=scale, title=None))
        for rows, dash in zip(lines, LINE_DASHES, strict=True)
    ]
    # Round ends: a span without a length is drawn as a dot.
    drawn_spans = alt.Chart(chart_data(spans)).encode(
        x=x,
        y=y,
        x2="x2",
        y2="y2",
        color=alt.Color(f"{BLOCKER_FIELD}:N", scale=scale, title=None),
        tooltip=tooltips(BLOCKER_FIELD, "producer id", "from", "to", LSO_FIELD, "steps"),
    )
    widest = sorted(spans, key=lambda row: row["x"] - row["x2"])[:MAX_LABELS]
    labels = alt.Chart(chart_data(widest)).encode(x=x, y=y, text=f"{BLOCKER_FIELD}:N")
    return [
        *drawn_lines,
        drawn_spans.mark_rule(strokeWidth=SPAN_WIDTH, strokeCap="round", opacity=0.75),
        labels.mark_text(align="left", baseline="top", dy=SPAN_WIDTH, fontSize=LABEL_SIZE),
    ]


def _steps(
    starts: NumberArray, ends: NumberArray, stable: NumberArray, producers: NumberArray, names: list[str]
) -> ChartRows:
    """Return a row for each step, or for several neighboring steps if there are too many.

    A step is drawn from its first high watermark to the first one of the next step; the last step to the log end.
    """
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
                "x2": ends[last] + (last + 1 < len(starts)),
                "y2": stable[last],
                "from": starts[first],
                "to": ends[last],
                LSO_FIELD: stable[last],
                BLOCKER_FIELD: names[first] if is_single else SEVERAL_PRODUCERS,
                "producer id": producers[first] if is_single and not is_free[first] else None,
                "steps": last - first + 1,
            }
        )
    return rows


def _line_points(steps: ChartRows) -> Iterator[dict[str, Any]]:
    """Yield the points of the line of the last stable offset: it may rise in a step, up to its last high watermark."""
    for step in steps:
        for x, y in dict.fromkeys([(step["x"], step["y"]), (step["to"], step["y2"]), (step["x2"], step["y2"])]):
            yield {"x": x, "y": y, "line": LSO_FIELD}


def _merged_steps(starts: NumberArray, ends: NumberArray) -> NumberArray:
    """Return the first step of each group of neighboring steps that share a line."""
    count = len(starts)
    if count <= MAX_STEPS:
        return np.arange(count)
    is_widest = np.zeros(count, bool)
    is_widest[np.argsort(starts - ends, kind="stable")[:WIDEST_STEPS]] = True
    bins = (starts - starts[0]) * STEP_BINS // max(ends[-1] - starts[0] + 1, 1)
    is_first = is_widest | np.r_[True, is_widest[:-1]] | np.r_[True, np.diff(bins) > 0]
    return np.flatnonzero(is_first)


def _names(widths: NumberArray, producers: NumberArray, transactional_ids: Tabular | None) -> list[str]:
    """Return the name of what blocks each step; only the producers that block most have names of their own."""
    ids, inverse = np.unique(producers, return_inverse=True)
    blocked = np.bincount(inverse, widths + 1) if len(ids) else np.empty(0)
    blocked[ids < 0] = -1
    named = ids[np.argsort(-blocked, kind="stable")[:MAX_NAMED]]
    known = _transactional_ids(transactional_ids, named)
    names = dict.fromkeys(ids.tolist(), ANOTHER_PRODUCER)
    names |= {producer_id: known.get(producer_id, f"producer {producer_id}") for producer_id in named.tolist()}
    names[-1] = NO_BLOCKER
    return [names[producer_id] for producer_id in producers.tolist()]


def _transactional_ids(tabular: Tabular | None, producers: NumberArray) -> dict[int, str]:
    """Return the transactional id of producers, with the producer id."""
    if tabular is None:
        return {}
    table = to_table(tabular)
    rows = table.filter(pc.is_in(table["producer_id"], pa.array(producers, table["producer_id"].type)))
    return {
        row["producer_id"]: f"{safe_tail(row['transactional_id'])} (producer {row['producer_id']})"
        for row in rows.select(["producer_id", "transactional_id"]).to_pylist()
        if row["transactional_id"] is not None
    }


def _points(steps: pa.Table, written: pa.Table, transactional_ids: Tabular | None) -> ChartRows:
    """Return LSO and log end after each batch, or after some batches of each bin of time if there are too many."""
    ends, stable, producers = (column_numbers(steps, name) for name in HISTORY_COLUMNS[1:])
    if not len(ends) or not written.num_rows:
        return []
    times = np.maximum.accumulate(column_numbers(written, "max_timestamp"))
    log_ends = column_numbers(written, "last_offset") + 1
    step = np.minimum(np.searchsorted(ends, log_ends), len(ends) - 1)
    is_free = producers[step] < 0
    lsos = np.where(is_free, log_ends, np.minimum(stable[step], log_ends))
    names = _names(np.ones(len(step), int), producers[step], transactional_ids)
    return [
        {
            "x": times[row],
            "time": format_time_ms(int(times[row])),
            LOG_END_FIELD: log_ends[row],
            LSO_FIELD: lsos[row],
            BLOCKER_FIELD: names[row],
            "producer id": None if is_free[row] else producers[step[row]],
        }
        for row in _selected_points(times, log_ends - lsos).tolist()
        if times[row] >= 0
    ]


def _spans(points: ChartRows) -> Iterator[dict[str, Any]]:
    """Yield the times in which one transaction blocks the last stable offset, until the next point without it."""
    for (blocker, lso_offset), group in groupby(points, itemgetter(BLOCKER_FIELD, LSO_FIELD)):
        if blocker == NO_BLOCKER:
            continue
        blocked = [*group]
        following = points.index(blocked[-1]) + 1
        last = points[min(following, len(points) - 1)]
        yield {
            **blocked[0],
            "y": lso_offset,
            "y2": lso_offset,
            "x2": last["x"],
            "from": blocked[0]["time"],
            "to": last["time"],
            "steps": len(blocked),
        }


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
