"""Where in files the bytes are that could not be decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.plots.chart import (
    MOST_MARKS,
    Numbers,
    Plot,
    Tabular,
    array,
    harmless_rows,
    plot,
    table_of,
    tail,
    tips,
)

__all__ = ["STATES", "damage_map"]

# From the least to the worst: a stretch of a file has the colour of the worst byte in it.
STATES = {"read": "#009e73", "holds nothing": "#ccc", "lost within a batch": "#e69f00", "not decoded": "#a50f2d"}
NOTHING = ("zeros", "zero-tail")
FILES, LINE_HEIGHT, LEAST_HEIGHT = 40, 22, 60
# Stretches into which a file is cut.
FINEST = 400


def damage_map(files: Tabular, damage: Tabular) -> Plot:
    """Return a line per damaged file, in the colours of what its bytes are; those worst hit first, forty at most.

    Args:
        files: the table ``files``.
        damage: the table ``damage`` of the same files.
    """
    sizes = dict(zip(*(table_of(files)[name].to_pylist() for name in ("path", "size")), strict=True))
    found = table_of(damage)
    paths = _worst(found)[:FILES]
    names = dict(zip(paths, _short(paths), strict=True))
    cells = min(FINEST, MOST_MARKS // max(len(paths), 1))
    rows = [
        {"file": names[path], **row}
        for path in paths
        for row in _stretches(found.filter(pc.equal(found["path"], path)), sizes.get(path) or 0, cells)
    ]
    color = alt.Color("bytes:N", title="bytes", scale=alt.Scale(domain=[*STATES], range=[*STATES.values()]))
    bars = (
        alt.Chart(harmless_rows(rows))
        .mark_bar()
        .encode(
            x=alt.X(
                "from:Q",
                title="part of the file",
                axis=alt.Axis(format="%", tickCount=5),
                scale=alt.Scale(domain=[0, 1]),
            ),
            x2="to:Q",
            y=alt.Y("file:N", sort=[*names.values()], title=None, axis=alt.Axis(labelLimit=400)),
            color=color,
            tooltip=tips("file", "bytes", "first byte", "last byte", "reasons"),
        )
    )
    all_damaged = len(set(found["path"].to_pylist()))
    said = [
        f"{all_damaged} of {len(sizes)} files have damage",
        f"the {FILES} worst are shown" if all_damaged > FILES else "",
    ]
    return plot([bars], "Damage", said, height=max(LINE_HEIGHT * len(paths), LEAST_HEIGHT))


def _worst(damage: pa.Table) -> list[str]:
    """Return paths by how many bytes were not decoded; space that was set aside does not count."""
    lost: dict[str, int] = {}
    for row in damage.select(["path", "start", "end", "reason"]).to_pylist():
        bytes_lost = 0 if row["reason"] in NOTHING else row["end"] - row["start"]
        lost[row["path"]] = lost.get(row["path"], 0) + bytes_lost
    return sorted(lost, key=lambda path: (-lost[path], path))


def _short(paths: list[str]) -> list[str]:
    """Return the ends of paths: as many parts as tell them apart, else a number in front."""
    for parts in range(2, 12):
        names = [tail("/".join(path.split("/")[-parts:])) for path in paths]
        if len(set(names)) == len(names):
            return names
    return [f"{number} {tail(path)}" for number, path in enumerate(paths, 1)]


def _stretches(damage: pa.Table, size: int, cells: int) -> Iterator[dict[str, Any]]:
    """Yield stretches of a file whose bytes are alike, none finer than a cell."""
    if size <= 0:
        return
    cells = min(cells, size)
    edges = np.arange(cells + 1) * size // cells
    states, reasons = _painted(damage, edges)
    starts = np.flatnonzero(np.r_[True, np.diff(states) != 0])
    words = [*STATES]
    for start, end in zip(starts.tolist(), [*starts[1:].tolist(), cells], strict=True):
        yield {
            "bytes": words[states[start]],
            "from": edges[start] / size,
            "to": edges[end] / size,
            "first byte": int(edges[start]),
            "last byte": int(edges[end]) - 1,
            "reasons": ", ".join(sorted({reason for first, last, reason in reasons if first < end and last >= start})),
        }


def _painted(damage: pa.Table, edges: Numbers) -> tuple[Numbers, set[tuple[int, int, str]]]:
    """Return the worst state of each cell, and which cells each piece of damage reaches, with its reason."""
    starts, ends, inside = (array(damage, name) for name in ("start", "end", "inside_batch"))
    cells = len(edges) - 1
    first = np.minimum(np.searchsorted(edges, starts, "right") - 1, cells - 1)
    last = np.minimum(np.searchsorted(edges, np.maximum(ends - 1, starts), "right") - 1, cells - 1)
    reasons = damage["reason"].to_pylist()
    kinds = np.where(np.isin(np.array(reasons, str), NOTHING), 1, np.where(inside >= 0, 2, 3))
    states = np.zeros(cells, int)
    for kind in (1, 2, 3):
        reach = np.zeros(cells + 1, int)
        np.add.at(reach, first[kinds == kind], 1)
        np.add.at(reach, last[kinds == kind] + 1, -1)
        states[np.cumsum(reach[:-1]) > 0] = kind
    return states, set(zip(first.tolist(), last.tolist(), reasons, strict=True))
