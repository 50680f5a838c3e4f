"""Turns rows into findings: in log order, and only the first ones if there are very many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.formatting import format_duration
from kforensics.forensics.core.record_types import NO_TIME
from kforensics.parsers.format.array_types import Column, StructArray

__all__ = [
    "APPENDED",
    "EVENT_TIMES",
    "MOST",
    "WRITTEN",
    "FirstFindings",
    "Row",
    "RowPart",
    "dated",
    "expiry",
    "first_findings",
    "first_n",
    "first_n_of_parts",
    "newest_time",
    "place",
    "time_of",
]

# A broken client can cause millions of equal findings; these are enough to act on.
MOST = 1_000
# Rows to keep while the first of all may still come.
ROOM = 20 * MOST
NO_TIMES = (NO_TIME, -1)
# Names in the evidence of when what a finding is about was written: records, by the clocks of their producers, and what
# brokers write by their own clocks.
WRITTEN, APPENDED = "written_ms", "appended_ms"
# Further names of times in evidence, of what brokers and coordinators did.
EVENT_TIMES = ("began_ms", "elected_at", "leaderless_from", "aborted_ms")
# The fields of rows with a time, the best first, each with what it is in evidence; None where that depends on the row.
ROW_TIMES = (
    ("timestamp", None),
    ("second_timestamp", None),
    ("marker_timestamp", APPENDED),
    ("decided", APPENDED),
    ("first_timestamp", WRITTEN),
)

Row: TypeAlias = Mapping[str, Any]


def first_findings(findings: Iterable[Finding], total: int) -> Iterator[Finding]:
    """Yield the first findings; the evidence of the last one states how many are ``left_out``.

    Args:
        findings: in log order; no more are created than are yielded.
        total: how many there are in all.
    """
    first = list(islice(findings, MOST))
    if total > len(first) > 0:
        first[-1] = replace(first[-1], evidence={**first[-1].evidence, "left_out": total - len(first)})
    yield from first


def first_n(rows: StructArray, finding: Callable[[Row], Finding], **more: Column) -> Iterator[Finding]:
    """Yield a finding for each of the first rows, as :func:`first_findings` does.

    Args:
        rows: rows in log order.
        finding: creates a finding from a row, given as Python values by name.
        more: further columns, with a value for each row.
    """
    yield from first_n_of_parts([RowPart(rows, more)], finding)


@dataclass(frozen=True, slots=True, eq=False)
class RowPart:
    """A part of rows that may be too many to hold in memory at once.

    Attributes:
        rows: the rows.
        more: further columns, with a value for each row.
    """

    rows: StructArray
    more: Mapping[str, Column] = field(default_factory=dict)

    def taken(self, indexes: Any) -> RowPart:
        """Return some of the rows, by indexes or by a mask."""
        return RowPart(self.rows[indexes], {name: column[indexes] for name, column in self.more.items()})

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as Python values by name."""
        names = (*(self.rows.dtype.names or ()), *self.more)
        columns = [*(self.rows[name] for name in self.rows.dtype.names or ()), *self.more.values()]
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield dict(zip(names, values, strict=True))


def first_n_of_parts(
    parts: Iterable[RowPart], finding: Callable[[Row], Finding], by: str | None = None
) -> Iterator[Finding]:
    """Yield a finding for each of the first rows of all parts; no more rows are kept than are reported.

    Args:
        parts: rows in log order.
        finding: creates a finding from a row, given as Python values by name.
        by: field to order rows by, if the parts are not in order.
    """
    kept: list[RowPart] = []
    total = count = 0
    for part in parts:
        if not len(part.rows):  # the common case, and there may be a million small logs
            continue
        total += len(part.rows)
        if by is not None or count < MOST:
            kept.append(part if by else part.taken(slice(MOST - count)))
            count += len(kept[-1].rows)
        if by is not None and count > ROOM:
            kept = [_first(kept, by)]
            count = len(kept[0].rows)
    if kept:
        findings = (dated(finding(row), row) for row in _first(kept, by).values())
        yield from first_findings(findings, total)


def _first(parts: list[RowPart], by: str | None) -> RowPart:
    """Return the first rows of some parts together."""
    rows = np.concatenate([part.rows for part in parts])
    more = {name: np.concatenate([part.more[name] for part in parts]) for name in parts[0].more}
    order = np.arange(len(rows)) if by is None else np.argsort(rows[by], kind="stable")
    return RowPart(rows, more).taken(order[:MOST])


def place(row: Row) -> dict[str, Any]:
    """Return where the batches of a row are and which producer wrote them, as ``PartitionState.finding`` takes it."""
    return {
        "offsets": (row["first_offset"], row["last_offset"]),
        "producer": (row["producer_id"], row["producer_epoch"]),
        "at": (row["segment"], row["position"]),
    }


def dated(finding: Finding, row: Row, name: str = WRITTEN) -> Finding:
    """Return a finding whose evidence states when what it is about was written, if its row has that time.

    Args:
        finding: the finding.
        row: its row; the time of a marker is that of a broker.
        name: WRITTEN or APPENDED, for the other times of the row.
    """
    known = next(filter(None, (time_of(row[field], clock or name) for field, clock in ROW_TIMES if field in row)), {})
    return replace(finding, evidence={**finding.evidence, **known}) if known else finding


def newest_time(evidence: Mapping[str, Any]) -> int | None:
    """Return the newest time that the evidence of a finding states in ms, None if it may be of any later time."""
    between = evidence.get("written_between_ms", ())
    times = (evidence.get(name) for name in (APPENDED, WRITTEN, *EVENT_TIMES))
    known = [time for time in (*times, *between) if isinstance(time, int)]
    return None if between and between[-1] is None else max(known, default=None)


def time_of(time: int, name: str = APPENDED) -> dict[str, object]:
    """Return a time in ms under a name in the evidence of a finding; nothing if it is not known."""
    return {} if time in NO_TIMES else {name: time}


def expiry(row: Row) -> str:
    """Return whether a leader had to expire the producer, as a phrase.

    Args:
        row: an anomaly, with the column ``expired``.
    """
    before = row["previous_timestamp"]
    idle = "time of its last write unknown"
    if before not in NO_TIMES:
        idle = f"idle for {format_duration(row['timestamp'] - before)}"
    return f"producer expired at the leader: {'yes' if row['expired'] else 'no'}, {idle}"


class FirstFindings:
    """The first findings of each code, with the number of the others.

    Args:
        codes: the names of the codes, in the order of the findings.
    """

    def __init__(self, codes: Iterable[str]) -> None:
        self._codes = tuple(codes)
        self._findings: dict[str, list[Finding]] = {}
        self._left_out = Counter[str]()

    def add(self, code: str, rows: StructArray, finding: Callable[[Row], Finding]) -> None:
        """Add a finding for each row.

        Args:
            code: name of the code.
            rows: the rows.
            finding: creates the finding of a row.
        """
        kept = self._findings.setdefault(code, [])
        first = rows[: MOST - len(kept)]
        kept.extend(first_n(first, finding))
        self._left_out[code] += len(rows) - len(first)

    @property
    def findings(self) -> Iterator[Finding]:
        """The findings; the evidence of the last one of a code states how many are left out."""
        for code in self._codes:
            kept = self._findings.get(code, [])
            if self._left_out[code]:
                kept[-1] = replace(kept[-1], evidence={**kept[-1].evidence, "left_out": self._left_out[code]})
            yield from kept
