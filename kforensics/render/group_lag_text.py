"""Formats where the committed offsets of a group are in the logs of their partitions, as lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from typing import Any

from kforensics.forensics.coordinators.consumer_groups.group_events import GroupEvent
from kforensics.forensics.coordinators.consumer_groups.group_lags import NO_LOG
from kforensics.forensics.core.formatting import format_count
from kforensics.parsers.format.text_encoding import printable
from kforensics.render.fitted_table import FittedTable, TableColumn
from kforensics.render.screen import Line, Screen

# What shows a lag that the files do not show.
NAME_OTHERS = "name the log directories of brokers that have them, too"
# Partitions of a group.
LISTED = 20
COLUMNS = (
    TableColumn("partition", is_text=True),
    TableColumn("committed"),
    TableColumn("log start", 3),
    TableColumn("LSO", 1),
    TableColumn("high watermark", 2),
    TableColumn("log end", 6),
    TableColumn("lag"),
    TableColumn("stable lag", 4),
    TableColumn("watermark lag", 5),
)
NUMBERS = ("lag", "stable_lag", "high_watermark_lag")


def lag_lines(events: Iterable[GroupEvent], screen: Screen) -> Iterator[str]:
    """Yield the lags of a group, those that something is to say of first, then by lag.

    Args:
        events: the events of the group.
        screen: where they are shown.
    """
    lags = [(event, event.lag) for event in events if event.lag is not None]
    if not lags:
        return
    limit = screen.shown(LISTED)
    ranked = sorted(lags, key=lambda each: (each[0].why is None, -(each[1]["lag"] or 0)))[:limit]
    table = FittedTable(COLUMNS, screen)
    yield from table.lines(starmap(_cells, ranked))
    if len(ranked) < len(lags):
        yield f"  … and {format_count(len(lags) - len(ranked), 'more partition')}"
        yield from screen.rest("--all")
    if any(lag["high_watermark_source"] == "log end" for _, lag in ranked):
        yield Line("  (end): no checkpoint has the high watermark, so the log end is used", hang=4)
    for event, lag in ranked:
        # An offset beyond the log end is shown as out of range.
        if event.why is not None and (lag["lag"] or 0) >= 0:
            yield Line(f"  {_name(event)} at {event.last}: {printable(event.why)}", hang=4)
    if any(event.why == NO_LOG for event, _ in ranked):
        yield Line(f"  {NAME_OTHERS}", hang=4)
    if table.dropped:
        yield f"columns left out to fit the width: {', '.join(table.dropped)}"
        yield from screen.rest("--wide")


def _name(event: GroupEvent) -> str:
    topic, partition = event.partition or ("", -1)
    return f"{printable(topic)}-{partition}"


def _cells(event: GroupEvent, lag: Mapping[str, Any]) -> tuple[str, ...]:
    watermark = "(end)" if lag["high_watermark_source"] == "log end" else _number(lag["high_watermark"])
    offsets = (_number(lag[name]) for name in ("log_start_offset", "last_stable_offset"))
    ends = (watermark, _number(lag["log_end_offset"]))
    return (_name(event), _number(event.last), *offsets, *ends, *(_number(lag[name]) for name in NUMBERS))


def _number(value: int | None) -> str:
    return "" if value is None else str(value)
