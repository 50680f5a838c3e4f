"""A timeline of a cluster: incidents, damage, features, brokers, elections and transactions on one axis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import altair as alt
import numpy as np
import pyarrow as pa

from kforensics.forensics.core.findings import Severity
from kforensics.forensics.core.formatting import format_count, format_time_ms
from kforensics.plots.chart import (
    MAX_MARKS,
    MIN_HEIGHT,
    OUTCOME_COLORS,
    UNENDED,
    ChartRows,
    NumberArray,
    Plot,
    Tabular,
    chart_data,
    column_numbers,
    drawn_colors,
    make_plot,
    time_axis,
    to_table,
    tooltips,
)

LANE_HEIGHT, BAR_WIDTH, MAX_LANE_NAME = 26, 9, 230
# Incidents and brokers with a lane of their own, changed features with a label, and labels per chart.
MAX_INCIDENT_LANES, MAX_BROKER_LANES, MAX_LABELS = 6, 8, 8
# Bins of time: events of one kind, and ended transactions of one outcome, in the same bin share a mark.
MAX_BINS, TRANSACTION_BINS = 240, 120
# Transactions that keep a bar of their own if there are too many: open ones and the longest.
MAX_SINGLE_BARS = 60
# Kafka did not exist before 2011; later times than 2100 are no times either.
FIRST_TIME, LAST_TIME = 1_293_840_000_000, 4_102_444_800_000
# transaction.timeout.ms has 32 bits: if a transaction that has ended seems longer, the clock of its client is wrong.
LONGEST_TRANSACTION = 1 << 31
INCIDENTS, DAMAGE, FEATURES, BROKERS, CONTROLLERS = "incidents", "damage", "features", "brokers", "controllers"
ELECTIONS, PRODUCER_IDS, TRANSACTIONS = "elections", "producer ids", "transactions"
ACTIVE, SHOWN_FEATURE = "broker active", "feature"
# What marks mean, in the order of the legend. Distinguishable with red-green color blindness.
COLORS = {
    "critical": "#a50f2d",
    "error": "#d55e00",
    "warning": "#c99700",
    "info": "#4c78a8",
    DAMAGE: "#b5651d",
    SHOWN_FEATURE: "#6a3d9a",
    ACTIVE: "#9fd3c7",
    "start": "#00665e",
    "shutdown": "#6b7785",
    "fenced": "#bcbd22",
    "removed": "#8c564b",
    "election": "#56b4e9",
    "unclean election": "#e41a1c",
    "no leader": "#f58518",
    PRODUCER_IDS: "#9d755d",
    **OUTCOME_COLORS,
}
# Lane, and what the mark means, by the kind of an event; a broker has a lane of its own if there are few.
KINDS = {
    "damage": (DAMAGE, DAMAGE),
    "feature": (FEATURES, SHOWN_FEATURE),
    "broker-start": (BROKERS, "start"),
    "broker-active": (BROKERS, ACTIVE),
    "broker-shutdown": (BROKERS, "shutdown"),
    "broker-fenced": (BROKERS, "fenced"),
    "broker-removed": (BROKERS, "removed"),
    "controller-start": (CONTROLLERS, "start"),
    "controller-election": (CONTROLLERS, "election"),
    "leader-epoch": (ELECTIONS, "election"),
    "election": (ELECTIONS, "election"),
    "unclean-election": (ELECTIONS, "unclean election"),
    "no-leader": (ELECTIONS, "no leader"),
    "producer-ids": (PRODUCER_IDS, PRODUCER_IDS),
}
# Meanings that the name of their lane does not say.
EXPLAINED = (ACTIVE, "start", "shutdown", "fenced", "removed", "election", "unclean election", "no leader")
LANES = (DAMAGE, FEATURES, BROKERS, CONTROLLERS, ELECTIONS, PRODUCER_IDS, TRANSACTIONS)
RECORDED_ELECTIONS = ("election", "unclean-election", "no-leader")
EVENT_COLUMNS = ("topic", "partition", "timestamp", "kind", "node_id", "name", "value", "previous", "partitions")
OUTCOMES = tuple(OUTCOME_COLORS)


class _Event(NamedTuple):
    """An event to draw, and what it is in words."""

    time: int
    lane: str
    meaning: str
    what: str
    label: str = ""
    node: int | None = None


@dataclass(slots=True)
class _Drawn:
    """What is drawn.

    Attributes:
        bars: spans of time.
        bins: spans of time in which several transactions ended.
        ticks: points in time.
        left_out: number of rows without a time that can be true, by what they are.
    """

    bars: ChartRows
    bins: ChartRows
    ticks: ChartRows
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def times(self) -> list[int]:
        """The times of the axis."""
        return [int(row[edge]) for row in self.rows for edge in ("start", "end")]

    @property
    def rows(self) -> ChartRows:
        """All marks."""
        return [*self.bars, *self.bins, *self.ticks]


def timeline(events: Tabular, transactions: Tabular | None = None, incidents: Tabular | None = None) -> Plot:
    """Return what happened in a cluster on one time axis, a lane for each kind.

    If there are too many events of a kind, or transactions, those of the same time share a mark; open and long
    transactions keep bars of their own. Leader epochs that logs show are drawn only if no metadata log has elections.

    Args:
        events: the table ``cluster_events``.
        transactions: the table ``transactions``.
        incidents: the table ``incidents``.

    Examples:
        >>> tables = kforensics.audit("sample_logs/transactions-v2/broker-1").tables
        >>> plot = kforensics.plots.timeline(tables["cluster_events"], tables["transactions"], tables["incidents"])
        >>> plot.to_dict()["title"]["text"]
        'Timeline of the cluster'
    """
    drawn = _Drawn([], [], [])
    known = _events(events, drawn)
    starts, ends, outcomes = _transaction_times(transactions, drawn)
    started = _incident_starts(incidents, drawn)
    times = [event.time for event in known] + [time for time, _, _ in started]
    times += [int(edge) for edges in (starts, ends) if len(edges) for edge in (edges.min(), edges.max())]
    first, last = (min(times), max(times)) if times else (0, 0)
    for outcome in OUTCOMES:
        selected = outcomes == outcome
        own_ends = np.full(int(selected.sum()), last) if outcome in UNENDED else ends[selected]
        single = np.argsort(starts[selected] - own_ends, kind="stable")[:MAX_SINGLE_BARS]
        drawn.bars += _transaction_bars(outcome, starts[selected][single], own_ends[single])
        drawn.bins += _transaction_bins(outcome, np.delete(own_ends, single))
    drawn.bars += [*_active_spans(known, last), *_incident_bars(started, last)]
    drawn.ticks += _binned([event for event in known if event.meaning != ACTIVE], first, last)
    lanes = _lane_names(drawn, started)
    counts = [format_count(count, what) for what, count in drawn.left_out.items() if count]
    notes = [f"without a known time, so not shown: {', '.join(counts)}"] if counts else []
    return make_plot(
        _layers(drawn, lanes), "Timeline of the cluster", notes, height=max(LANE_HEIGHT * len(lanes), MIN_HEIGHT)
    )


def _is_time(time: int | None) -> bool:
    return time is not None and FIRST_TIME <= time <= LAST_TIME


def _events(tabular: Tabular, drawn: _Drawn) -> list[_Event]:
    """Return the events with a time; those that several copies of a log show count once."""
    table = to_table(tabular).select(EVENT_COLUMNS)
    rows = [*dict.fromkeys(zip(*(column.to_pylist() for column in table.columns), strict=True))]
    kinds = {row[EVENT_COLUMNS.index("kind")] for row in rows}
    has_elections = not kinds.isdisjoint(RECORDED_ELECTIONS)
    named = [dict(zip(EVENT_COLUMNS, row, strict=True)) for row in rows]
    shown = [row for row in named if row["kind"] in KINDS and not (has_elections and row["kind"] == "leader-epoch")]
    drawn.left_out["event"] += sum(not _is_time(row["timestamp"]) for row in shown)
    brokers = {row["node_id"] for row in shown if KINDS[row["kind"]][0] == BROKERS}
    timed = (row for row in shown if _is_time(row["timestamp"]))
    return sorted(_event(row, has_lanes=len(brokers) <= MAX_BROKER_LANES) for row in timed)


def _event(row: dict[str, Any], *, has_lanes: bool) -> _Event:
    lane, meaning = KINDS[row["kind"]]
    node = row["node_id"]
    if lane == BROKERS and has_lanes:
        lane = f"broker {node}"
    before = f"{row['previous']} → " if row["previous"] is not None else ""
    feature = f"{row['name']} {before}{row['value']}"
    partition = f"{row['topic']}-{row['partition']}"
    count = format_count(row["partitions"] or 0, "partition")
    whats = {
        "damage": f"{row['name']}: {row['value']} bytes of {partition}; the time is the newest of its segment",
        "feature": feature,
        "leader-epoch": f"leader epoch {row['value']} of {partition}",
        "controller-election": f"controller epoch {row['value']}",
        "election": f"broker {node} elected for {count}",
        "unclean-election": f"broker {node} elected for {count}, though not in sync",
        "no-leader": f"{count} without a leader",
        "producer-ids": f"producer ids below {row['value']} for broker {node}",
    }
    subject = "controller" if lane == CONTROLLERS else "broker"
    label = feature if row["kind"] == "feature" and before else ""
    return _Event(row["timestamp"], lane, meaning, whats.get(row["kind"], f"{subject} {node}: {meaning}"), label, node)


def _active_spans(events: Iterable[_Event], last: int) -> Iterator[dict[str, Any]]:
    """Yield when brokers were active: from the end of their start to their shutdown or fence."""
    since: dict[tuple[str, int | None], int] = {}
    for event in events:
        key = event.lane, event.node
        if event.meaning == ACTIVE:
            since.setdefault(key, event.time)
        elif event.meaning in {"shutdown", "fenced", "removed"} and key in since:
            yield _bar(event.lane, ACTIVE, since.pop(key), event.time, f"broker {event.node}")
    for (lane, node), start in since.items():
        yield _bar(lane, ACTIVE, start, last, f"broker {node}, up to the end")


def _bar(  # noqa: PLR0913, PLR0917  # a row
    lane: str, meaning: str, start: int, end: int, what: str, count: int = 1
) -> dict[str, Any]:
    return {
        "lane": lane,
        "meaning": meaning,
        "start": start,
        "end": end,
        "from": format_time_ms(start),
        "to": format_time_ms(end),
        "what": what,
        "count": count,
    }


def _binned(events: list[_Event], first: int, last: int) -> Iterator[dict[str, Any]]:
    """Yield a tick for the events of one lane and meaning in the same bin of time."""
    pairs = {(event.lane, event.meaning) for event in events}
    bins = min(MAX_BINS, MAX_MARKS // 2 // max(len(pairs), 1))
    groups: dict[tuple[str, str, int], list[_Event]] = {}
    for event in events:
        at = (event.time - first) * bins // max(last - first + 1, 1)
        groups.setdefault((event.lane, event.meaning, at), []).append(event)
    for (lane, meaning, _), group in groups.items():
        whats = [*dict.fromkeys(event.what for event in group)]
        more = f"; {len(whats) - 3} more" if len(whats) > 3 else ""
        label = next((event.label for event in group if event.label), "")
        tick = _bar(lane, meaning, group[0].time, group[-1].time, "; ".join(whats[:3]) + more, len(group))
        yield {**tick, "label": label}


def _incident_starts(tabular: Tabular | None, drawn: _Drawn) -> list[tuple[int, str, str]]:
    """Return time, severity and kind of incidents, the worst first."""
    if tabular is None:
        return []
    table = to_table(tabular).select(["since", "severity", "kind"])
    rows = [(_ms(since), severity, kind) for since, severity, kind in zip(*map(_values, table.columns), strict=True)]
    ranks = [str(severity) for severity in sorted(Severity, reverse=True)]
    timed = [row for row in rows if _is_time(row[0]) and row[1] in ranks]
    drawn.left_out["incident"] += len(rows) - len(timed)
    return sorted(timed, key=lambda row: (ranks.index(row[1]), row[0], row[2]))


def _values(column: Any) -> list[Any]:
    values: list[Any] = column.to_pylist()
    return values


def _ms(time: Any) -> Any:
    return time if time is None or isinstance(time, int) else round(time.timestamp() * 1000)


def _incident_bars(started: list[tuple[int, str, str]], last: int) -> Iterator[dict[str, Any]]:
    """Yield incidents from their start on; each of the worst ones in a lane of its own."""
    names = _incident_lanes(started)
    for time, severity, kind in started:
        yield _bar(names.get((severity, kind), INCIDENTS), severity, time, last, f"{severity}: {kind}, since then")


def _incident_lanes(started: list[tuple[int, str, str]]) -> dict[tuple[str, str], str]:
    """Return the lanes of the worst incidents, by severity and kind."""
    pairs = [*dict.fromkeys((severity, kind) for _, severity, kind in started)]
    return {pair: f"{pair[0]}: {pair[1]}" for pair in pairs[:MAX_INCIDENT_LANES]}


def _transaction_times(tabular: Tabular | None, drawn: _Drawn) -> tuple[NumberArray, NumberArray, NumberArray]:
    """Return starts, ends and outcomes of transactions with a time; the end of one without a marker is a write."""
    if tabular is None:
        return np.empty(0, "i8"), np.empty(0, "i8"), np.empty(0, str)
    table = to_table(tabular)
    outcomes = np.array(table["outcome"].to_pylist(), dtype=str)
    first, last, marker = (_milliseconds(table, f"{name}_timestamp") for name in ("first", "last", "marker"))
    starts = np.where(first >= 0, first, last)
    is_unended = np.isin(outcomes, UNENDED)
    ends = np.where(is_unended, last, marker)
    starts = np.where(starts >= 0, np.minimum(starts, ends), ends)
    # The start is of the client's clock, the end of the broker's.
    starts = np.where((ends - starts > LONGEST_TRANSACTION) & ~is_unended, ends, starts)
    timed = (starts >= FIRST_TIME) & (ends <= LAST_TIME)
    drawn.left_out["transaction"] += int((~timed).sum())
    return starts[timed], ends[timed], outcomes[timed]


def _milliseconds(table: pa.Table, name: str) -> NumberArray:
    return column_numbers(pa.table({name: table[name].cast("int64")}), name)


def _transaction_bars(outcome: str, starts: NumberArray, ends: NumberArray) -> Iterator[dict[str, Any]]:
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        yield _bar(f"{TRANSACTIONS}: {outcome}", outcome, start, end, f"{outcome} transaction")


def _transaction_bins(outcome: str, ends: NumberArray) -> Iterator[dict[str, Any]]:
    """Yield the bins of time in which transactions ended."""
    if not len(ends):
        return
    low, high = int(ends.min()), int(ends.max())
    width = max((high - low) // TRANSACTION_BINS + 1, 1)
    bins, counts = np.unique((ends - low) // width, return_counts=True)
    for at, count in zip(bins.tolist(), counts.tolist(), strict=True):
        begin = low + at * width
        what = f"{format_count(count, f'{outcome} transaction')} ended"
        yield _bar(f"{TRANSACTIONS}: {outcome}", outcome, begin, min(begin + width, high), what, count)


def _lane_names(drawn: _Drawn, started: list[tuple[int, str, str]]) -> list[str]:
    """Return the lanes that are drawn, from top to bottom."""
    used = {row["lane"] for row in drawn.rows}
    brokers = sorted((lane for lane in used if lane.startswith("broker ")), key=lambda lane: (len(lane), lane))
    others: dict[str, list[str]] = {
        BROKERS: [BROKERS, *brokers],
        TRANSACTIONS: [f"{TRANSACTIONS}: {outcome}" for outcome in OUTCOMES],
    }
    order = [*_incident_lanes(started).values(), INCIDENTS]
    for lane in LANES:
        order += others.get(lane, [lane])
    return [lane for lane in order if lane in used]


def _layers(drawn: _Drawn, lanes: list[str]) -> list[alt.Chart]:
    """Return spans, points in time, and the labels of changed features."""
    used = {row["meaning"] for row in drawn.rows}
    meanings = [meaning for meaning in COLORS if meaning in used]
    scale = drawn_colors(COLORS, used)
    x = alt.X("start:T", **time_axis("time", drawn.times))
    y = alt.Y("lane:N", sort=lanes, title=None, axis=alt.Axis(labelLimit=MAX_LANE_NAME))
    # The names of the other lanes say what their marks mean.
    is_shared = any(row["lane"] == INCIDENTS for row in drawn.bars)
    explained = [meaning for meaning in meanings if is_shared or meaning in EXPLAINED]
    legend = alt.Legend(values=explained, title=None, symbolOpacity=1) if explained else None
    color = alt.Color("meaning:N", scale=scale, legend=legend)
    # Round ends: a span without a length is drawn as a dot.
    spans = alt.Chart(chart_data(drawn.bars)).encode(
        x=x, x2="end", y=y, color=color, tooltip=tooltips("what", "from", "to", "count")
    )
    ticks = alt.Chart(chart_data(drawn.ticks)).encode(
        x=x, y=y, color=color, tooltip=tooltips("what", "from", "to", "count")
    )
    labels = [row for row in drawn.ticks if row["label"]][-MAX_LABELS:]
    middle = (min(drawn.times, default=0) + max(drawn.times, default=0)) // 2
    # Toward the middle, where there is room.
    texts = [
        alt.Chart(chart_data(row for row in labels if (row["start"] > middle) == is_right))
        .mark_text(align="right" if is_right else "left", dx=-5 if is_right else 5, fontSize=11)
        .encode(x=x, y=y, text="label:N")
        for is_right in (False, True)
    ]
    opacity = alt.Opacity("count:Q", scale=alt.Scale(type="sqrt", range=[0.4, 1]), legend=None)
    bins = alt.Chart(chart_data(drawn.bins)).encode(
        x=x, x2="end", y=y, color=color, opacity=opacity, tooltip=tooltips("what", "from", "to", "count")
    )
    return [
        bins.mark_rule(strokeWidth=BAR_WIDTH),
        spans.mark_rule(strokeWidth=BAR_WIDTH, strokeCap="round", opacity=0.7),
        ticks.mark_tick(thickness=3, size=18, opacity=1),
        *texts,
    ]
