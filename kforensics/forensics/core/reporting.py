"""How findings are told: in the order of the log, not more than some of a kind, with times as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np

from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import NO_TIME, Records

__all__ = ["MOST", "Part", "Row", "each", "each_of", "expiry", "moment", "place", "span"]

# A broken client may leave millions of the same; whoever reads the findings has seen enough after these.
MOST = 1_000
# So many rows are kept where the first ones of all may come last.
ROOM = 20 * MOST
SECOND_MS = 1_000
NO_TIMES = (NO_TIME, -1)

Row: TypeAlias = Mapping[str, Any]


def each(rows: Records, finding: Callable[[Row], Finding], **more: Records) -> Iterator[Finding]:
    """Yield a finding for each of the first rows; the evidence of the last one says how many are ``left_out``.

    Args:
        rows: records in the order of the log.
        finding: makes a finding of a row as Python values by name.
        more: further columns, with a value for each row.
    """
    yield from each_of([Part(rows, more)], finding)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Some of the rows of which there may be too many to have them all at once.

    Attributes:
        rows: records.
        more: further columns, with a value for each row.
    """

    rows: Records
    more: Mapping[str, Records] = field(default_factory=dict)

    def taken(self, at: Any) -> Part:
        """Return some of the rows, by their indexes or by a mask."""
        return Part(self.rows[at], {name: column[at] for name, column in self.more.items()})

    def values(self) -> Iterator[dict[str, Any]]:
        """Yield the rows as Python values by name."""
        names = (*(self.rows.dtype.names or ()), *self.more)
        columns = [*(self.rows[name] for name in self.rows.dtype.names or ()), *self.more.values()]
        for values in zip(*(column.tolist() for column in columns), strict=True):
            yield dict(zip(names, values, strict=True))


def each_of(parts: Iterable[Part], finding: Callable[[Row], Finding], by: str | None = None) -> Iterator[Finding]:
    """Yield what :func:`each` does, of rows that come in parts; no more are kept than are told.

    Args:
        parts: rows in the order of the log.
        finding: makes a finding of a row as Python values by name.
        by: field that gives the order, where the parts do not come in it.
    """
    kept: list[Part] = []
    total = count = 0
    for part in parts:
        if not len(part.rows):  # as in most logs, and there may be a million small ones
            continue
        total += len(part.rows)
        if by is not None or count < MOST:
            kept.append(part if by else part.taken(slice(MOST - count)))
            count += len(kept[-1].rows)
        if by is not None and count > ROOM:
            kept = [_first(kept, by)]
            count = len(kept[0].rows)
    if kept:
        told = _first(kept, by)
        for number, row in enumerate(told.values(), 1):
            found = finding(row)
            if total > MOST and number == MOST:
                found = replace(found, evidence={**found.evidence, "left_out": total - MOST})
            yield found


def _first(parts: list[Part], by: str | None) -> Part:
    """Return the first rows of some parts together."""
    rows = np.concatenate([part.rows for part in parts])
    more = {name: np.concatenate([part.more[name] for part in parts]) for name in parts[0].more}
    order = np.arange(len(rows)) if by is None else np.argsort(rows[by], kind="stable")
    return Part(rows, more).taken(order[:MOST])


def place(row: Row) -> dict[str, Any]:
    """Return where the batches of a row stand and whose they are, as ``Case.finding`` takes it."""
    return {
        "offsets": (row["first_offset"], row["last_offset"]),
        "producer": (row["producer_id"], row["producer_epoch"]),
        "at": (row["segment"], row["position"]),
    }


def expiry(row: Row) -> str:
    """Return whether a leader had to forget the producer, as a phrase.

    Args:
        row: of an anomaly, with ``expired``.
    """
    before = row["previous_timestamp"]
    silence = (
        "when it last wrote is not known" if before in NO_TIMES else f"silent for {span(row['timestamp'] - before)}"
    )
    return f"producer expired at the leader: {'yes' if row['expired'] else 'no'}, {silence}"


def moment(timestamp: int) -> str:
    """Return a time in ms as UTC, or as the number it is where a log says something beyond all calendars.

    >>> moment(1_700_000_000_000)
    '2023-11-14 22:13:20 UTC'
    """
    if timestamp in NO_TIMES:
        return "an unknown time"
    try:
        return f"{datetime.fromtimestamp(timestamp // SECOND_MS, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (OverflowError, ValueError, OSError):
        return f"{timestamp} ms"


def span(milliseconds: int) -> str:
    """Return how long something took, to the second.

    >>> span(90_061_000), span(40)
    ('1 day, 1:01:01', '40 ms')
    """
    if abs(milliseconds) < SECOND_MS:
        return f"{milliseconds} ms"
    try:
        return str(timedelta(seconds=milliseconds // SECOND_MS))
    except OverflowError:
        return f"{milliseconds} ms"
