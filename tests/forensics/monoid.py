"""Logs replayed in stretches: cut, summarised and merged as dice will have it."""

from __future__ import annotations

from random import Random
from typing import Any

from kforensics.forensics.replay.replay_types import BatchSummary, Boundary
from kforensics.forensics.replay.summary import Rows, Summary, finalise, joined_rows, merge, summarise
from tests.forensics.events import columns_of, values_of

__all__ = ["cut", "found", "in_stretches", "merged"]


def cut(batches: list[BatchSummary], dice: Random) -> list[list[BatchSummary]]:
    """Return the batches in two to four stretches, at times in stretches of one batch, some perhaps empty."""
    some = dice.choices(range(len(batches) + 1), k=dice.choice((1, 1, 1, 2, 3)))
    cuts = list(range(len(batches))) if dice.random() < 0.05 else sorted(some)
    return [batches[first:last] for first, last in zip([0, *cuts], [*cuts, len(batches)], strict=True)]


def merged(parts: list[tuple[Summary, Rows]], dice: Random) -> tuple[Summary, Rows]:
    """Return what adjacent parts say together, merged in random order."""
    summaries, rows = [part[0] for part in parts], [part[1] for part in parts]
    while len(summaries) > 1:
        at = dice.randrange(len(summaries) - 1)
        summary, certain = merge(*summaries[at : at + 2])
        summaries[at : at + 2] = [summary]
        rows.append(certain)
    return summaries[0], joined_rows(rows)


def in_stretches(batches: list[BatchSummary], dice: Random, *, sequences: bool = True) -> tuple[Summary, Rows]:
    """Return what a log says, replayed in stretches."""
    parts = [summarise(columns_of(part), sequences=sequences) for part in cut(batches, dice)]
    return merged(parts, dice)


def found(summary: Summary, rows: Rows, boundary: Boundary) -> dict[str, list[tuple[Any, ...]]]:
    """Return what a log's summary and rows say, as ``rows_of`` says it of a replay."""
    final = finalise(summary, boundary)
    every = joined_rows([rows, final.rows])
    return {
        "transactions": values_of(every.transactions),
        "open_transactions": values_of(final.open_transactions),
        "empty_markers": values_of(every.empty_markers),
        "anomalies": values_of(every.anomalies),
        "producers": values_of(final.producers),
    }
