"""Where consumers with ``read_committed`` stop, over offsets and over time, and whose transaction holds them there."""

from __future__ import annotations

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.plots.chart import (
    MOST_MARKS,
    Numbers,
    Plot,
    Rows,
    Tabular,
    array,
    harmless_rows,
    offsets,
    plot,
    times,
    tips,
    when,
)
from kforensics.plots.one_partition import Wanted

__all__ = ["lso", "lso_over_time"]

NOBODY, ANOTHER, IN_TURN = "nobody", "another producer", "many in turn"
NAMED = 8
KEPT, BINS = MOST_MARKS // 4, MOST_MARKS // 2
COLUMNS = ("from_high_watermark", "to_high_watermark", "last_stable_offset", "producer_id")
LSO, LOG_END = "last stable offset", "log end offset"


def lso(
    history: Tabular, *, topic: str | None = None, partition: int | None = None, log_dir: str | None = None
) -> Plot:
    """Return the last stable offset against the log end, as the log grew: flat while a transaction is waited for.

    Steps that are too many to be told apart are drawn together, the widest never.

    Args:
        history: the table ``lso_history``.
        topic: which topic, where the table has several.
        partition: which partition of it.
        log_dir: which log directory.

    Raises:
        UsageError: the table is about several partitions.
    """
    wanted = Wanted(topic, partition, log_dir)
    table = wanted.of(history).sort_by("from_high_watermark")
    rows = _segments(*(array(table, name) for name in COLUMNS))
    end = max((row["x2"] for row in rows), default=0)
    start = min((row["x"] for row in rows), default=0)
    diagonal = alt.Chart(harmless_rows([{"x": start, "y": start, "x2": end, "y2": end}]))
    steps = alt.Chart(harmless_rows(rows)).encode(
        color=_colour(rows), tooltip=tips("held by", "producer id", "x", "x2", "y2", "steps")
    )
    return plot(
        [_lines(diagonal.mark_rule(color="#bbb", strokeDash=[4, 3])), _lines(steps.mark_rule(strokeWidth=3))],
        wanted.title("Last stable offset", table),
        ["dashed: the log end offset; where both part, consumers wait"],
    )


def lso_over_time(
    history: Tabular,
    batches: Tabular,
    *,
    topic: str | None = None,
    partition: int | None = None,
    log_dir: str | None = None,
) -> Plot:
    """Return the last stable offset and the log end over time, as if every batch had been replicated at once.

    Time is the largest timestamp so far. With CreateTime that is the clock of the producers.

    Args:
        history: the table ``lso_history``.
        batches: the table ``batches``.
        topic: which topic, where the tables have several.
        partition: which partition of it.
        log_dir: which log directory.

    Raises:
        UsageError: the tables are about several partitions.
    """
    wanted = Wanted(topic, partition, log_dir)
    steps, written = wanted.of(history).sort_by("from_high_watermark"), wanted.of(batches).sort_by("last_offset")
    rows = _moments(steps, written)
    data = alt.Chart(harmless_rows(rows)).encode(
        x=alt.X("time:T", **times("largest timestamp so far")),
        tooltip=tips("when", LOG_END, LSO, "held by"),
    )
    ends = data.mark_line(interpolate="step-after", color="#bbb", strokeDash=[4, 3])
    stable = data.mark_line(interpolate="step-after", color="#555")
    points = data.mark_point(filled=True, size=40).encode(y=alt.Y(f"{LSO}:Q", **offsets("offset")), color=_colour(rows))
    return plot(
        [
            ends.encode(y=alt.Y(f"{LOG_END}:Q", **offsets("offset"))),
            stable.encode(y=alt.Y(f"{LSO}:Q", **offsets("offset"))),
            points,
        ],
        wanted.title("Last stable offset over time", steps, written),
        ["dashed: the log end offset"],
    )


def _lines(chart: alt.Chart) -> alt.Chart:
    x, y = alt.X("x:Q", **offsets("high watermark", nice=False)), alt.Y("y:Q", **offsets(LSO, nice=False))
    return chart.encode(x=x, x2="x2:Q", y=y, y2="y2:Q")


def _colour(rows: Rows) -> alt.Color:
    """Return colours by holder: grey for nobody, who comes first."""
    holders = sorted({row["held by"] for row in rows} - {NOBODY})
    palette = [
        "#4c78a8",
        "#e45756",
        "#72b7b2",
        "#f58518",
        "#54a24b",
        "#b279a2",
        "#9d755d",
        "#eeca3b",
        "#ff9da6",
        "#333",
    ]
    scale = alt.Scale(domain=[NOBODY, *holders], range=["#999", *palette[: len(holders)]])
    return alt.Color("held by:N", scale=scale, title="held by")


def _segments(begins: Numbers, ends: Numbers, stable: Numbers, producers: Numbers) -> Rows:
    """Return a line for each step; narrow ones are drawn together where there are too many."""
    names = _names(ends - begins, producers)
    is_free = producers < 0
    starts = np.where(is_free, begins, stable)
    groups = _groups(begins, ends)
    rows: Rows = []
    for first, last in zip(groups, np.append(groups, len(begins))[1:] - 1, strict=True):
        alone = first == last
        rows.append(
            {
                "x": begins[first],
                "y": starts[first],
                "x2": ends[last],
                "y2": stable[last],
                "held by": names[first] if alone else IN_TURN,
                "producer id": producers[first] if alone and not is_free[first] else None,
                "steps": last - first + 1,
            }
        )
    return rows


def _groups(begins: Numbers, ends: Numbers) -> Numbers:
    """Return the first of each group of neighbouring steps that are drawn as one."""
    count = len(begins)
    if count <= MOST_MARKS:
        return np.arange(count)
    kept = np.zeros(count, bool)
    kept[np.argsort(begins - ends, kind="stable")[:KEPT]] = True
    bins = (begins - begins[0]) * BINS // max(ends[-1] - begins[0] + 1, 1)
    is_first = kept | np.r_[True, kept[:-1]] | np.r_[True, np.diff(bins) > 0]
    return np.flatnonzero(is_first)


def _names(widths: Numbers, producers: Numbers) -> list[str]:
    """Return the holder of each step; only those that hold most have a name, for a legend is no list."""
    ids, inverse = np.unique(producers, return_inverse=True)
    held = np.bincount(inverse, widths + 1) if len(ids) else np.empty(0)
    held[ids < 0] = -1
    named = set(ids[np.argsort(-held, kind="stable")[:NAMED]].tolist())
    words = {each: f"producer {each}" if each in named else ANOTHER for each in ids.tolist()} | {-1: NOBODY}
    return [words[each] for each in producers.tolist()]


def _moments(steps: pa.Table, written: pa.Table) -> Rows:
    """Return what was known after each batch, or after a few of each stretch of time where there are many."""
    ends, stable, producers = (array(steps, name) for name in COLUMNS[1:])
    if not len(ends) or not written.num_rows:
        return []
    moments = np.maximum.accumulate(array(written, "max_timestamp"))
    log_end = array(written, "last_offset") + 1
    at = np.minimum(np.searchsorted(ends, log_end), len(ends) - 1)
    is_free = producers[at] < 0
    lso_then = np.where(is_free, log_end, np.minimum(stable[at], log_end))
    chosen = _chosen(moments, log_end - lso_then)
    names = _names(np.ones(len(at), int), producers[at])
    return [
        {
            "time": moments[row],
            "when": when(int(moments[row])),
            LOG_END: log_end[row],
            LSO: lso_then[row],
            "held by": names[row],
        }
        for row in chosen.tolist()
        if moments[row] >= 0
    ]


def _chosen(moments: Numbers, lags: Numbers) -> Numbers:
    """Return which batches to draw: of each stretch of time the last one, and the one furthest behind."""
    count = len(moments)
    if count <= MOST_MARKS // 3:
        return np.arange(count)
    bins = (moments - moments[0]) * (MOST_MARKS // 6) // (moments[-1] - moments[0] + 1)
    last = np.flatnonzero(np.r_[np.diff(bins) > 0, True])
    by_lag = np.lexsort((lags, bins))
    furthest = by_lag[np.flatnonzero(np.r_[np.diff(bins[by_lag]) > 0, True])]
    return np.unique(np.r_[last, furthest])
