"""Replays logs that are cut into chunks, summarized and merged at random."""

from __future__ import annotations

from random import Random
from typing import Any

from kforensics.forensics.replay.boundary import Boundary
from kforensics.forensics.replay.finalizing import FinalReplay, finalize
from kforensics.forensics.replay.merging import merge
from kforensics.forensics.replay.replay_rows import ReplayRows, joined_rows
from kforensics.forensics.replay.summarizing import summarize
from kforensics.forensics.replay.summary import ReplaySummary
from tests.forensics.batch_notation import columns_of, values_of
from tests.reference.replay_values import BatchSummary

__all__ = ["final_values", "merge_parts", "replay_in_chunks", "replay_values"]


def _cut(batches: list[BatchSummary], dice: Random) -> list[list[BatchSummary]]:
    """Return the batches in two to four chunks, some of them perhaps empty; rarely in chunks of one batch."""
    random_cuts = dice.choices(range(len(batches) + 1), k=dice.choice((1, 1, 1, 2, 3)))
    cuts = list(range(len(batches))) if dice.random() < 0.05 else sorted(random_cuts)
    return [batches[first:last] for first, last in zip([0, *cuts], [*cuts, len(batches)], strict=True)]


def merge_parts(parts: list[tuple[ReplaySummary, ReplayRows]], dice: Random) -> tuple[ReplaySummary, ReplayRows]:
    """Return the summary and the rows of adjacent chunks, merged in random order."""
    summaries, rows = [part[0] for part in parts], [part[1] for part in parts]
    while len(summaries) > 1:
        index = dice.randrange(len(summaries) - 1)
        summary, certain = merge(*summaries[index : index + 2])
        summaries[index : index + 2] = [summary]
        rows.append(certain)
    return summaries[0], joined_rows(rows)


def replay_in_chunks(
    batches: list[BatchSummary], dice: Random, *, sequences: bool = True
) -> tuple[ReplaySummary, ReplayRows]:
    """Return the summary and the rows of a log that is replayed in chunks."""
    parts = [summarize(columns_of(part), sequences=sequences) for part in _cut(batches, dice)]
    return merge_parts(parts, dice)


def replay_values(summary: ReplaySummary, rows: ReplayRows, boundary: Boundary) -> dict[str, list[tuple[Any, ...]]]:
    """Return the result of a replay in the form that ``rows_of`` returns for the reference replay."""
    return final_values(rows, finalize(summary, boundary))


def final_values(rows: ReplayRows, final: FinalReplay) -> dict[str, list[tuple[Any, ...]]]:
    """Return certain rows and a final replay in the form that ``rows_of`` returns for the reference replay."""
    all_rows = joined_rows([rows, final.rows])
    return {
        "transactions": values_of(all_rows.transactions),
        "open_transactions": values_of(final.open_transactions),
        "empty_markers": values_of(all_rows.empty_markers),
        "anomalies": values_of(all_rows.anomalies),
        "producers": values_of(final.producers[:]),
    }
