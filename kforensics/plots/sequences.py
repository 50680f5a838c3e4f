"""A chart of producer sequence numbers over offsets, with gaps and repeats."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
    tooltips,
)

# Sequences have 31 bits and wrap to 0: DefaultRecordBatch.incrementSequence.
SEQUENCE_MODULUS = 1 << 31
STEP_COLORS = {
    "first available": "#999",
    "in order": "#009e73",
    "new epoch": "#0072b2",
    "gap": "#a50f2d",
    "repeat": "#e69f00",
}
STEP_SHAPES = dict(zip(STEP_COLORS, ("circle", "square", "cross", "diamond", "triangle-up"), strict=True))
# Producers with a color of their own.
MAX_PRODUCERS = 9
SEQUENCE_COLUMNS = ("producer_id", "producer_epoch", "base_offset", "last_offset", "base_sequence", "last_sequence")
ID, EPOCH, BASE_OFFSET, LAST_OFFSET, BASE_SEQUENCE, LAST_SEQUENCE = range(len(SEQUENCE_COLUMNS))


def sequences(
    batches: Tabular, *, topic: str | None = None, partition: int | None = None, log_dir: str | None = None
) -> Plot:
    """Return the sequences of idempotent producers: a line for each run of consecutive sequences.

    A point at the start of a run shows how it follows the run before. A gap skips sequences, a repeat has sequences
    that were written before, both within one epoch. The chart does not evaluate them: compaction also leaves gaps.

    Args:
        batches: the table ``batches``.
        topic: topic to show, if the table has several.
        partition: partition of the topic.
        log_dir: log directory of the partition.

    Raises:
        UsageError: the table has several partitions.

    Examples:
        >>> log = kforensics.open("sample_logs/transactions-v2/broker-1/hanging-0")
        >>> kforensics.plots.sequences(log.batches).to_dict()["title"]["text"]
        'Sequences: hanging-0'
    """
    partition_filter = PartitionFilter(topic, partition, log_dir)
    table = partition_filter.select(batches)
    runs = [*_runs(_idempotent_batches(table))]
    rows = _shown_runs(runs)
    data = alt.Chart(chart_data(rows)).encode(
        x=alt.X("offset:Q", **offset_axis("offset", _values(rows, "offset", "last offset"))),
        y=alt.Y("sequence:Q", **offset_axis("sequence", _values(rows, "sequence", "last sequence"))),
        tooltip=tooltips(
            *("producer id", "epoch", "step", "offset", "last offset", "sequence", "last sequence", "batches")
        ),
    )
    color = alt.Color("producer:N", title="producer id")
    lines = data.mark_rule(strokeWidth=2).encode(x2="last offset:Q", y2="last sequence:Q", color=color)
    steps = [row["step"] for row in rows]
    shape = alt.Shape("step:N", scale=drawn_colors(STEP_SHAPES, steps))
    fill = alt.Fill("step:N", scale=drawn_colors(STEP_COLORS, steps))
    points = data.mark_point(size=60, strokeOpacity=0).encode(shape=shape, fill=fill)
    left_out = f"the shortest {len(runs) - len(rows)} of {len(runs)} lines are not shown"
    subtitle = [left_out if len(rows) < len(runs) else ""]
    return make_plot([lines, points], partition_filter.title("Sequences", table), subtitle)


def _values(rows: ChartRows, *names: str) -> list[int]:
    return [row[name] for row in rows for name in names]


def _idempotent_batches(table: pa.Table) -> NumberArray:
    """Return the columns of the batches with sequences, sorted by producer and offset."""
    has_sequence = pc.and_(pc.greater_equal(table["producer_id"], 0), pc.greater_equal(table["base_sequence"], 0))
    rows = table.filter(has_sequence)
    batches = np.array([column_numbers(rows, name).astype("i8") for name in SEQUENCE_COLUMNS])
    return batches[:, np.lexsort((batches[BASE_OFFSET], batches[ID]))]


def _runs(batches: NumberArray) -> Iterator[dict[str, Any]]:
    """Yield runs of batches with consecutive sequences, and how each run follows the one before."""
    previous, newest = None, -1
    for start, end in _run_bounds(batches):
        first, last = batches[:, start].tolist(), batches[:, end].tolist()
        step = _step(previous, newest, first)
        if step != "repeat" or _sequence_step(newest, last[LAST_SEQUENCE]) != "repeat":
            newest = last[LAST_SEQUENCE]
        previous = first
        yield {
            "producer id": first[ID],
            "epoch": first[EPOCH],
            "step": step,
            "offset": first[BASE_OFFSET],
            "last offset": last[LAST_OFFSET],
            "sequence": first[BASE_SEQUENCE],
            "last sequence": last[LAST_SEQUENCE],
            "batches": end - start + 1,
        }


def _run_bounds(batches: NumberArray) -> Iterator[tuple[int, int]]:
    """Yield the first and the last batch of each run."""
    count = batches.shape[1]
    if not count:
        return
    left, right = batches[:, :-1], batches[:, 1:]
    continues = (left[ID] == right[ID]) & (left[EPOCH] == right[EPOCH])
    # A run ends where sequences wrap to 0, because its line would cross all others.
    continues &= left[LAST_SEQUENCE] + 1 == right[BASE_SEQUENCE]
    starts = np.flatnonzero(np.r_[True, ~continues]).tolist()
    yield from zip(starts, [start - 1 for start in starts[1:]] + [count - 1], strict=True)


def _step(previous: list[int] | None, newest: int, first: list[int]) -> str:
    """Return how a run follows the previous one.

    Args:
        previous: first batch of the previous run, None for the first run.
        newest: newest sequence of the epoch.
        first: first batch of the run.
    """
    if previous is None or first[ID] != previous[ID]:
        return "first available"
    if first[EPOCH] != previous[EPOCH]:
        return "new epoch" if first[BASE_SEQUENCE] == 0 else "gap"
    return _sequence_step(newest, first[BASE_SEQUENCE])


def _sequence_step(newest: int, sequence: int) -> str:
    """Return how a sequence follows the newest one of its epoch."""
    skipped = (sequence - newest - 1) % SEQUENCE_MODULUS
    return "in order" if skipped == 0 else "gap" if skipped < SEQUENCE_MODULUS // 2 else "repeat"


def _shown_runs(runs: ChartRows) -> ChartRows:
    """Return the runs to show: gaps and repeats first, then the longest; all but some producers share a color."""
    limit = MAX_MARKS // 2
    rank = {"gap": 0, "repeat": 0}
    if len(runs) > limit:
        runs = sorted(runs, key=lambda run: (rank.get(run["step"], 1), -run["batches"]))[:limit]
    batches: dict[int, int] = {}
    for run in runs:
        batches[run["producer id"]] = batches.get(run["producer id"], 0) + run["batches"]
    named = {*sorted(batches, key=lambda producer_id: (-batches[producer_id], producer_id))[:MAX_PRODUCERS]}
    return [{**run, "producer": str(run["producer id"]) if run["producer id"] in named else "others"} for run in runs]
