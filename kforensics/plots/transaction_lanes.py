"""Transactions as bars in a lane per producer, with their markers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.errors import UsageError
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
)
from kforensics.plots.one_partition import Wanted

__all__ = ["OUTCOMES", "transactions"]

# Told apart by who sees no red or green, too.
OUTCOMES = {"committed": "#009e73", "aborted": "#e69f00", "open": "#a50f2d"}
LANES, LANE_HEIGHT, LEAST_HEIGHT = 30, 22, 60
# Bars of one transaction each, where there are too many for all.
KEPT = MOST_MARKS // 4
# Columns where a bar begins and where its marker stands.
EDGES = {
    "offset": ("first_offset", "last_offset", "marker_offset"),
    "time": ("first_timestamp", "last_timestamp", "marker_timestamp"),
}


@dataclass(frozen=True, slots=True)
class _Bars:
    """Transactions as columns: where each begins and ends, whose it is, and how it ended."""

    starts: Numbers
    ends: Numbers
    lanes: Numbers
    outcomes: Numbers
    producers: Numbers
    records: Numbers

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
    """Return transactions as bars from their first record to their marker, a lane per producer; open ones go on.

    Producers with open or aborted transactions have lanes first; those beyond thirty share one. Where transactions are
    too many, open and long ones stay and neighbours of the same end are drawn together.

    Args:
        table: the table ``transactions``.
        by: ``offset`` or ``time``.
        topic: which topic, where the table has several.
        partition: which partition of it.
        log_dir: which log directory.

    Raises:
        UsageError: the table is about several partitions, or ``by`` is neither.
    """
    if by not in EDGES:
        raise UsageError(f"by={by!r} is none of {', '.join(EDGES)}")
    wanted = Wanted(topic, partition, log_dir)
    found = wanted.of(table)
    names, bars = _bars(found, *EDGES[by])
    rows = [*_drawn(bars, names)]
    axis = alt.X("start:Q", **offsets("offset")) if by == "offset" else alt.X("start:T", **times("timestamp"))
    lane = alt.Y("producer:O", sort=names, title="producer id")
    color = alt.Color("outcome:N", scale=alt.Scale(domain=[*OUTCOMES], range=[*OUTCOMES.values()]))
    data = alt.Chart(harmless_rows(rows)).encode(
        y=lane, color=color, tooltip=tips("producer", "outcome", "start", "end", "records", "transactions")
    )
    kind = "Q" if by == "offset" else "T"
    marked = alt.Chart(harmless_rows(row for row in rows if row["outcome"] != "open")).encode(
        x=alt.X(f"end:{kind}", **(offsets("offset") if by == "offset" else times("timestamp"))), y=lane, color=color
    )
    layers = [data.mark_bar(size=10, opacity=0.55).encode(x=axis, x2="end"), marked.mark_tick(thickness=3, size=16)]
    height = max(LANE_HEIGHT * len(names), LEAST_HEIGHT)
    return plot(layers, wanted.title("Transactions", found), [_left_out(rows, len(bars))], height=height)


def _bars(found: pa.Table, first: str, last: str, marker: str) -> tuple[list[str], _Bars]:
    """Return the names of the lanes and the bars; what is open ends where the newest of them does."""
    starts, lasts, markers = (array(found, name) for name in (first, last, marker))
    edge = max(int(lasts.max(initial=0)), int(markers.max(initial=0))) + (first == "first_offset")
    begin = int(np.r_[starts[starts >= 0], lasts].min(initial=edge))
    outcomes = np.searchsorted(sorted(OUTCOMES), np.array(found["outcome"].to_pylist(), str))
    producers = array(found, "producer_id")
    names, lanes = _lanes(producers, outcomes)
    ends = np.where(markers < 0, edge, markers)
    starts = np.where(starts < 0, begin, starts)
    return names, _Bars(starts, ends, lanes, outcomes, producers, array(found, "records"))


def _lanes(producers: Numbers, outcomes: Numbers) -> tuple[list[str], Numbers]:
    """Return names of lanes, and the lane of each transaction."""
    ids, which = np.unique(producers, return_inverse=True)
    is_open, is_aborted = (
        np.bincount(which, outcomes == sorted(OUTCOMES).index(word), len(ids)) for word in ("open", "aborted")
    )
    order = np.lexsort((ids, -np.bincount(which, minlength=len(ids)), -is_aborted, -is_open))
    rank = np.empty(len(ids), int)
    rank[order] = np.arange(len(ids))
    if len(ids) <= LANES:
        return [str(each) for each in ids.tolist()], which
    names = [str(each) for each in ids[order[: LANES - 1]].tolist()]
    return [*names, f"{len(ids) - LANES + 1} others"], np.minimum(rank, LANES - 1)[which]


def _drawn(bars: _Bars, names: list[str]) -> Iterator[dict[str, object]]:
    """Yield bars to draw: of one transaction each, or of neighbours in a lane that ended alike."""
    words = sorted(OUTCOMES)
    for group in _groups(bars):
        first = group[0]
        yield {
            "producer": names[bars.lanes[first]],
            "outcome": words[bars.outcomes[first]],
            "start": bars.starts[group].min(),
            "end": bars.ends[group].max(),
            "records": int(bars.records[group].sum()),
            "transactions": len(group),
        }


def _groups(bars: _Bars) -> Iterator[Numbers]:
    """Yield which transactions are drawn as one."""
    count = len(bars)
    if count <= MOST_MARKS // 2:
        yield from np.arange(count).reshape(-1, 1)
        return
    is_closed = bars.outcomes != sorted(OUTCOMES).index("open")
    order = np.lexsort((bars.starts - bars.ends, is_closed))
    yield from order[:KEPT].reshape(-1, 1)
    rest = order[KEPT:]
    kinds = (bars.lanes.max() + 1) * len(OUTCOMES)
    bins = max(KEPT // int(kinds), 1)
    begin, end = int(bars.starts.min()), int(bars.ends.max())
    at = (bars.starts[rest] - begin) * bins // max(end - begin + 1, 1)
    keys = (bars.lanes[rest] * len(OUTCOMES) + bars.outcomes[rest]) * bins + at
    by_key = np.argsort(keys, kind="stable")
    yield from np.split(rest[by_key], np.flatnonzero(np.diff(keys[by_key])) + 1)


def _left_out(rows: Rows, count: int) -> str:
    together = sum(row["transactions"] for row in rows if row["transactions"] > 1)
    return f"{together} of {count} transactions are drawn together with their neighbours" if together else ""
