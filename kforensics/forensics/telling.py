"""How findings are told: in the order of the log, not more than some of a kind, with times as people read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

from kforensics.forensics.findings import Finding
from kforensics.forensics.replay.results import NO_TIME, Records

__all__ = ["MOST", "Row", "each", "expiry", "moment", "place", "span"]

# A broken client may leave millions of the same; whoever reads the findings has seen enough after these.
MOST = 1_000
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
    names = (*(rows.dtype.names or ()), *more)
    columns = [*(rows[name] for name in rows.dtype.names or ()), *more.values()]
    left_out = len(rows) - MOST
    for count, values in enumerate(zip(*(column[:MOST].tolist() for column in columns), strict=True), 1):
        found = finding(dict(zip(names, values, strict=True)))
        if left_out > 0 and count == MOST:
            found = replace(found, evidence={**found.evidence, "left_out": left_out})
        yield found


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
