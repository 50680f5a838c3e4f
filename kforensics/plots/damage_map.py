"""A map of the bytes of damaged files that could not be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.plots.chart import (
    MAX_MARKS,
    MIN_HEIGHT,
    NumberArray,
    Plot,
    Tabular,
    chart_data,
    column_numbers,
    drawn_colors,
    make_plot,
    safe_tail,
    to_table,
    tooltips,
)

# From best to worst: a cell of a file has the color of its worst byte.
STATE_COLORS = {"read": "#009e73", "empty": "#ccc", "lost within a batch": "#e69f00", "not decoded": "#a50f2d"}
EMPTY_REASONS = ("zeros", "zero-tail")
MAX_FILES, FILE_HEIGHT = 40, 22
# Cells into which a file is divided.
MAX_CELLS = 400


def damage_map(files: Tabular, damage: Tabular) -> Plot:
    """Return a bar for each damaged file, colored by what its bytes are; the forty worst files at most.

    Args:
        files: the table ``files``.
        damage: the table ``damage`` of the same files.

    Examples:
        >>> log = kforensics.open("sample_logs/damaged/batches")
        >>> kforensics.plots.damage_map(log.files, log.damage).to_dict()["title"]["text"]
        'Damage'
    """
    sizes = dict(zip(*(to_table(files)[name].to_pylist() for name in ("path", "size")), strict=True))
    damage_table = to_table(damage)
    paths = _worst_first(damage_table)[:MAX_FILES]
    names = dict(zip(paths, _short_names(paths), strict=True))
    cells = min(MAX_CELLS, MAX_MARKS // max(len(paths), 1))
    rows = [
        {"file": names[path], **section}
        for path in paths
        for section in _sections(damage_table.filter(pc.equal(damage_table["path"], path)), sizes.get(path) or 0, cells)
    ]
    position = alt.X(
        "from:Q", title="part of the file", axis=alt.Axis(format="%", tickCount=5), scale=alt.Scale(domain=[0, 1])
    )
    scale = drawn_colors(STATE_COLORS, (row["bytes"] for row in rows))
    bars = (
        alt.Chart(chart_data(rows))
        .mark_bar()
        .encode(
            x=position,
            x2="to:Q",
            y=alt.Y("file:N", sort=[*names.values()], title=None, axis=alt.Axis(labelLimit=400)),
            color=alt.Color("bytes:N", title="bytes", scale=scale),
            tooltip=tooltips("file", "bytes", "first byte", "last byte", "reasons"),
        )
    )
    damaged = len(set(damage_table["path"].to_pylist()))
    subtitle = [
        f"{damaged} of {len(sizes)} files have damage",
        f"the {MAX_FILES} worst are shown" if damaged > MAX_FILES else "",
    ]
    return make_plot([bars], "Damage", subtitle, height=max(FILE_HEIGHT * len(paths), MIN_HEIGHT))


def _worst_first(damage: pa.Table) -> list[str]:
    """Return paths by the number of bytes not decoded; preallocated space does not count."""
    lost: dict[str, int] = {}
    for row in damage.select(["path", "start", "end", "reason"]).to_pylist():
        size = 0 if row["reason"] in EMPTY_REASONS else row["end"] - row["start"]
        lost[row["path"]] = lost.get(row["path"], 0) + size
    return sorted(lost, key=lambda path: (-lost[path], path))


def _short_names(paths: list[str]) -> list[str]:
    """Return the shortest ends of paths that are unique, or numbered ends."""
    for parts in range(2, 12):
        names = [safe_tail("/".join(path.split("/")[-parts:])) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{number} {safe_tail(path)}" for number, path in enumerate(paths, 1)]


def _sections(damage: pa.Table, size: int, cells: int) -> Iterator[dict[str, Any]]:
    """Yield the sections of a file with bytes of the same state, aligned to cells."""
    if size <= 0:
        return
    cells = min(cells, size)
    edges = np.arange(cells + 1) * size // cells
    states, damaged_cells = _cell_states(damage, edges)
    starts = np.flatnonzero(np.r_[True, np.diff(states) != 0])
    names = [*STATE_COLORS]
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), cells], strict=True):
        reasons = {reason for first, last, reason in damaged_cells if first < end and last >= start}
        yield {
            "bytes": names[states[start]],
            "from": edges[start] / size,
            "to": edges[end] / size,
            "first byte": int(edges[start]),
            "last byte": int(edges[end]) - 1,
            "reasons": ", ".join(sorted(reasons)),
        }


def _cell_states(damage: pa.Table, edges: NumberArray) -> tuple[NumberArray, set[tuple[int, int, str]]]:
    """Return the worst state of each cell, and first cell, last cell and reason of each damaged range."""
    starts, ends, inside_batch = (column_numbers(damage, name) for name in ("start", "end", "inside_batch"))
    cells = len(edges) - 1
    first = np.minimum(np.searchsorted(edges, starts, "right") - 1, cells - 1)
    last = np.minimum(np.searchsorted(edges, np.maximum(ends - 1, starts), "right") - 1, cells - 1)
    reasons = damage["reason"].to_pylist()
    is_empty = np.isin(np.array(reasons, str), EMPTY_REASONS)
    range_states = np.where(is_empty, 1, np.where(inside_batch >= 0, 2, 3))
    states = np.zeros(cells, int)
    for state in (1, 2, 3):
        # +1 where a range starts and -1 after its end: the running sum is positive within ranges.
        steps = np.zeros(cells + 1, int)
        np.add.at(steps, first[range_states == state], 1)
        np.add.at(steps, last[range_states == state] + 1, -1)
        states[np.cumsum(steps[:-1]) > 0] = state
    return states, set(zip(first.tolist(), last.tolist(), reasons, strict=True))
