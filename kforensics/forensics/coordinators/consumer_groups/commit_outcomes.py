"""How the transactions ended that committed offsets of groups."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from kforensics.forensics.coordinators.coordinator_records import NONE
from kforensics.forensics.core.record_types import Ending, Records
from kforensics.forensics.core.result_rows import Nullable, Rows, Words
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import transactions_before

__all__ = ["with_outcomes"]

OUTCOMES = {Ending.COMMITTED: "committed", Ending.ABORTED: "aborted", Ending.OPEN: "pending"}


def with_outcomes(case: Case, rows: Rows) -> Rows:
    """Return rows of ``group_offsets`` that say how their transactions ended.

    Args:
        case: the partition of ``__consumer_offsets``, whose transactions are known.
        rows: some of its records, in the order of the log.
    """
    producers, offsets = _numbers(rows.columns["producer_id"]), _numbers(rows.columns["offset"])
    codes = np.full(len(rows), NONE, "i8")
    which = np.flatnonzero(_numbers(rows.columns["transactional"]) & (producers != NONE))
    # The last one that begins at the record or before it, if it has not ended by then.
    found = transactions_before(case, producers[which], offsets[which] + 1)
    inside = (found["producer_id"] != NONE) & (found["last_offset"] >= offsets[which])
    endings = list(OUTCOMES)
    codes[which[inside]] = [endings.index(Ending(ending)) for ending in found["ending"][inside].tolist()]
    return replace(rows, columns={**rows.columns, "outcome": Words(codes, tuple(OUTCOMES.values()))})


def _numbers(column: Any) -> Records:
    """Return a column as numbers, NONE for null."""
    if isinstance(column, Nullable):
        return np.where(column.null, NONE, column.numbers)
    if isinstance(column, list):
        return np.array([NONE if value is None else value for value in column], "i8")
    return np.asarray(column)
