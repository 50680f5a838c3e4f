"""Selects the findings that a report shows in full: a few of each code, and fewer of each code and partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from kforensics.forensics.core.commands import for_brokers
from kforensics.forensics.core.findings import Severity
from kforensics.parsers.log.log_rows import Place
from kforensics.report_html.store_reader import SortKey, StoreReader, sort_rows

# Findings shown for each severity and code, for each of these in a partition, and in all.
MAX_OF_CODE, MAX_OF_CODE_IN_PARTITION, MAX_SHOWN = 5, 3, 300
PLACE_COLUMN_NAMES = Place._fields
CODE_NAMES = ("severity", "code")
SHOWN_FINDING_COLUMNS = (
    *PLACE_COLUMN_NAMES,
    *("code", "severity", "first_offset", "last_offset", "producer_id", "producer_epoch", "path", "position"),
    *("message", "evidence", "exactness", "benign", "cause", "remedy"),
)
WORST_FIRST = (
    SortKey("severity", ranking=tuple(str(severity) for severity in sorted(Severity, reverse=True))),
    *(SortKey(name) for name in ("code", "topic", "partition", "broker_id", "log_dir", "first_offset", "position")),
)


@dataclass(frozen=True, slots=True)
class FindingGroup:
    """The findings of one severity and code.

    Attributes:
        severity: their severity.
        code: their code.
        count: number of them in the store.
        shown: rows of the findings to show, with ``evidence`` parsed.
    """

    severity: str
    code: str
    count: int
    shown: tuple[dict[str, Any], ...]

    def for_brokers(self, bootstrap_server: str | None) -> FindingGroup:
        """Return the group with the addresses of brokers in its remedies, unchanged if they are unknown."""
        shown = ({**row, "remedy": for_brokers(row["remedy"] or "", bootstrap_server)} for row in self.shown)
        return replace(self, shown=tuple(shown))


def finding_groups(store: StoreReader, counts: dict[tuple[Severity, str], int]) -> list[FindingGroup]:
    """Return the findings of a store by severity and code, worst first.

    Args:
        store: the store.
        counts: number of findings by severity and code.

    Raises:
        InputError: the table of findings cannot be read.
    """
    shown: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in _shown_rows(store):
        shown.setdefault((row["severity"], row["code"]), []).append(row)
    return [
        FindingGroup(str(severity), code, count, tuple(shown.get((str(severity), code), ())))
        for (severity, code), count in sorted(counts.items(), key=lambda item: (-item[0][0], item[0][1]))
    ]


def _shown_rows(store: StoreReader) -> Iterator[dict[str, Any]]:
    kept: pa.Table | None = None
    for batch in store.batches("findings", SHOWN_FINDING_COLUMNS):
        table = pa.Table.from_batches([batch])
        kept = _first_of_each(table if kept is None else pa.concat_tables([kept, table]))
    for row in [] if kept is None else kept.slice(0, MAX_SHOWN).to_pylist():
        yield {**row, "evidence": _parse_evidence(row["evidence"])}


def _first_of_each(table: pa.Table) -> pa.Table:
    """Return the first findings of each code and partition; those dropped would be dropped from more rows as well."""
    ordered = sort_rows(table, WORST_FIRST)
    few = ordered.filter(
        pa.array(_index_in_run(ordered, (*CODE_NAMES, *PLACE_COLUMN_NAMES)) < MAX_OF_CODE_IN_PARTITION)
    )
    return few.filter(pa.array(_index_in_run(few, CODE_NAMES) < MAX_OF_CODE)).combine_chunks()


def _index_in_run(table: pa.Table, names: tuple[str, ...]) -> Any:
    """Return for each row its index in the run of neighbouring rows that have the same values in some columns."""
    is_first = np.zeros(table.num_rows, bool)
    is_first[:1] = True
    for name in names:
        values = table[name].combine_chunks().dictionary_encode(null_encoding="encode").indices
        is_first[1:] |= np.diff(values.to_numpy()) != 0
    rows = np.arange(table.num_rows)
    return rows - np.maximum.accumulate(np.where(is_first, rows, 0))


def _parse_evidence(text: str | None) -> dict[str, Any]:
    evidence = json.loads(text or "{}")
    return evidence if isinstance(evidence, dict) else {"evidence": evidence}
