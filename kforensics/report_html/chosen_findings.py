"""The findings that a report tells in full: of each code some, of each partition not too many of the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from kforensics.forensics.core.findings import Severity
from kforensics.parsers.log.log_rows import Place
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.top_rows import By, in_order

__all__ = ["COLUMNS", "WORST_FIRST", "Group", "groups"]

# Of a severity and code so many are told, of a partition and a code, and of all.
SHOWN_OF_CODE, SHOWN_ALIKE, SHOWN = 5, 3, 300
PLACE = Place._fields
COLUMNS = (
    *PLACE,
    *("code", "severity", "first_offset", "last_offset", "producer_id", "producer_epoch", "path", "position"),
    *("message", "evidence", "exactness", "benign", "cause", "remedy"),
)
WORST_FIRST = (
    By("severity", words=tuple(str(severity) for severity in sorted(Severity, reverse=True))),
    *(By(name) for name in ("code", "topic", "partition", "broker_id", "log_dir", "first_offset", "position")),
)
CODE = ("severity", "code")


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one severity and code.

    Attributes:
        severity: how bad they are.
        code: their code.
        count: how many there are in the store.
        told: rows of some of them, with what was found as figures in ``evidence``.
    """

    severity: str
    code: str
    count: int
    told: tuple[dict[str, Any], ...]


def groups(store: Store, codes: dict[tuple[Severity, str], int]) -> list[Group]:
    """Return the findings by code, the worst first.

    Args:
        store: where they are.
        codes: how many there are of each severity and code.

    Raises:
        InputError: the table cannot be read.
    """
    told: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in _some(store):
        told.setdefault((row["severity"], row["code"]), []).append(row)
    return [
        Group(str(severity), code, count, tuple(told.get((str(severity), code), ())))
        for (severity, code), count in sorted(codes.items(), key=lambda item: (-item[0][0], item[0][1]))
    ]


def _some(store: Store) -> Iterator[dict[str, Any]]:
    kept: pa.Table | None = None
    for batch in store.batches("findings", COLUMNS):
        table = pa.Table.from_batches([batch])
        kept = _thinned(table if kept is None else pa.concat_tables([kept, table]))
    for row in [] if kept is None else kept.slice(0, SHOWN).to_pylist():
        yield {**row, "evidence": _figures(row["evidence"])}


def _thinned(table: pa.Table) -> pa.Table:
    """Return the first of each code and partition; whoever falls out here would fall out of more rows too."""
    ordered = in_order(table, WORST_FIRST)
    few = ordered.filter(pa.array(_nth(ordered, (*CODE, *PLACE)) < SHOWN_ALIKE))
    return few.filter(pa.array(_nth(few, CODE) < SHOWN_OF_CODE)).combine_chunks()


def _nth(table: pa.Table, names: tuple[str, ...]) -> Any:
    """Return how many rows with the same values stand directly before each row."""
    is_first = np.zeros(table.num_rows, bool)
    is_first[:1] = True
    for name in names:
        values = table[name].combine_chunks().dictionary_encode(null_encoding="encode").indices
        is_first[1:] |= np.diff(values.to_numpy()) != 0
    rows = np.arange(table.num_rows)
    return rows - np.maximum.accumulate(np.where(is_first, rows, 0))


def _figures(evidence: str | None) -> dict[str, Any]:
    found = json.loads(evidence or "{}")
    return found if isinstance(found, dict) else {"figures": found}
