"""Sequence numbers of producers over offsets, with what is not in order."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import altair as alt
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kforensics.plots.chart import MOST_MARKS, Numbers, Plot, Rows, Tabular, array, harmless_rows, offsets, plot, tips
from kforensics.plots.one_partition import Wanted

__all__ = ["STEPS", "sequences"]

# Sequences are 31 bits wide and go on at 0: DefaultRecordBatch.incrementSequence.
SEQUENCES = 1 << 31
STEPS = {
    "first on hand": "#999",
    "in order": "#009e73",
    "new epoch": "#0072b2",
    "gap": "#a50f2d",
    "repeat": "#e69f00",
}
PRODUCERS = 9
COLUMNS = ("producer_id", "producer_epoch", "base_offset", "last_offset", "base_sequence", "last_sequence")
ID, EPOCH, BASE, LAST, FIRST_SEQUENCE, LAST_SEQUENCE = range(len(COLUMNS))


def sequences(
    batches: Tabular, *, topic: str | None = None, partition: int | None = None, log_dir: str | None = None
) -> Plot:
    """Return the sequences of idempotent producers: a line as long as they go on, a point where something else begins.

    A gap is a sequence that jumps ahead, a repeat one that was there before; both within an epoch. Nothing is judged:
    what the cleaner has taken away is a gap too.

    Args:
        batches: the table ``batches``.
        topic: which topic, where the table has several.
        partition: which partition of it.
        log_dir: which log directory.

    Raises:
        UsageError: the table is about several partitions.
    """
    wanted = Wanted(topic, partition, log_dir)
    table = wanted.of(batches)
    found = [*_runs(_written(table))]
    rows = _shown(found)
    color = alt.Color("producer:N", title="producer id")
    data = alt.Chart(harmless_rows(rows)).encode(
        x=alt.X("offset:Q", **offsets("offset")),
        y=alt.Y("sequence:Q", **offsets("sequence")),
        tooltip=tips("producer id", "epoch", "step", "offset", "last offset", "sequence", "last sequence", "batches"),
    )
    lines = data.mark_rule(strokeWidth=2).encode(x2="last offset:Q", y2="last sequence:Q", color=color)
    shape = alt.Shape("step:N", scale=alt.Scale(domain=[*STEPS]))
    fill = alt.Fill("step:N", scale=alt.Scale(domain=[*STEPS], range=[*STEPS.values()]))
    left_out = f"{len(found) - len(rows)} of {len(found)} lines, the shortest, are not drawn"
    subtitle = [left_out if len(rows) < len(found) else ""]
    points = data.mark_point(size=60, strokeOpacity=0).encode(shape=shape, fill=fill)
    return plot([lines, points], wanted.title("Sequences", table), subtitle)


def _written(table: pa.Table) -> Numbers:
    """Return the batches of idempotent producers, a column each, by producer and offset."""
    mask = pc.and_(pc.greater_equal(table["producer_id"], 0), pc.greater_equal(table["base_sequence"], 0))
    kept = table.filter(mask)
    found = np.array([array(kept, name).astype("i8") for name in COLUMNS])
    return found[:, np.lexsort((found[BASE], found[ID]))]


def _runs(found: Numbers) -> Iterator[dict[str, Any]]:
    """Yield runs of batches that go on where the one before ended, each with how it follows the run before."""
    before, newest = None, -1
    for start, end in _borders(found):
        first, last = found[:, start].tolist(), found[:, end].tolist()
        step = _follows(before, newest, first)
        if step != "repeat" or _step(newest, last[LAST_SEQUENCE]) != "repeat":
            newest = last[LAST_SEQUENCE]
        before = first
        yield {
            "producer id": first[ID],
            "epoch": first[EPOCH],
            "step": step,
            "offset": first[BASE],
            "last offset": last[LAST],
            "sequence": first[FIRST_SEQUENCE],
            "last sequence": last[LAST_SEQUENCE],
            "batches": end - start + 1,
        }


def _borders(found: Numbers) -> Iterator[tuple[int, int]]:
    """Yield the first and the last batch of each run."""
    count = found.shape[1]
    if not count:
        return
    before, after = found[:, :-1], found[:, 1:]
    goes_on = (before[ID] == after[ID]) & (before[EPOCH] == after[EPOCH])
    # A line that jumps from the largest sequence to 0 would cross all others.
    goes_on &= before[LAST_SEQUENCE] + 1 == after[FIRST_SEQUENCE]
    starts = np.flatnonzero(np.r_[True, ~goes_on]).tolist()
    yield from zip(starts, [start - 1 for start in starts[1:]] + [count - 1], strict=True)


def _follows(before: list[int] | None, newest: int, first: list[int]) -> str:
    """Return how a run begins, by the one before it and the newest sequence of its epoch."""
    if before is None or first[ID] != before[ID]:
        return "first on hand"
    if first[EPOCH] != before[EPOCH]:
        return "new epoch" if first[FIRST_SEQUENCE] == 0 else "gap"
    return _step(newest, first[FIRST_SEQUENCE])


def _step(newest: int, sequence: int) -> str:
    """Return how a sequence follows the newest one of its epoch."""
    ahead = (sequence - newest - 1) % SEQUENCES
    return "in order" if ahead == 0 else "gap" if ahead < SEQUENCES // 2 else "repeat"


def _shown(found: Rows) -> Rows:
    """Return the runs to draw: gaps and repeats first, then long ones; producers beyond some share a colour."""
    most = MOST_MARKS // 2
    rank = {"gap": 0, "repeat": 0}
    if len(found) > most:
        found = sorted(found, key=lambda row: (rank.get(row["step"], 1), -row["batches"]))[:most]
    written: dict[int, int] = {}
    for row in found:
        written[row["producer id"]] = written.get(row["producer id"], 0) + row["batches"]
    named = {*sorted(written, key=lambda each: (-written[each], each))[:PRODUCERS]}
    return [{**row, "producer": str(row["producer id"]) if row["producer id"] in named else "others"} for row in found]
