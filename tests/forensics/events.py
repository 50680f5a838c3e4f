"""Batches in the short notation of the specification of transactions.

``D p e s0-s1 @base-last T`` is a transactional data batch, ``N`` instead of ``T`` another one, ``M p e C c @o`` a
COMMIT (``A``: ABORT) marker with coordinator epoch ``c``, ``plain @base-last`` a batch without producer and
``shell p @o`` a control batch without record. ``cnt n`` and ``ts n`` may follow.
"""

from __future__ import annotations

import re

from kforensics.forensics.values import BatchSummary, Marker, Outcome

SIZE = 100
NOW = 1_700_000_000_000
EVENT = re.compile(
    r"(?P<kind>D|M|plain|shell)(?: (?P<pid>\d+))?(?: (?P<epoch>\d+))?"
    r"(?: (?P<s0>\d+)-(?P<s1>\d+)| (?P<outcome>[AC]) (?P<coordinator>\d+))?"
    r" @(?P<base>\d+)(?:-(?P<last>\d+))?(?P<tx> T| N)?(?: cnt (?P<cnt>\d+))?(?: ts (?P<ts>\d+))?"
)
OUTCOMES = {"A": Outcome.ABORTED, "C": Outcome.COMMITTED}


def events(text: str) -> list[BatchSummary]:
    """Return the batches of a log, separated by semicolons."""
    return [_event(part.strip()) for part in text.split(";") if part.strip()]


def _event(text: str) -> BatchSummary:
    found = EVENT.fullmatch(text)
    assert found is not None, text
    base = int(found["base"])
    last = int(found["last"] or base)
    kind = found["kind"]
    timestamp = int(found["ts"] or NOW + base)
    marker = Marker(OUTCOMES[found["outcome"]], int(found["coordinator"]), timestamp) if kind == "M" else None
    return BatchSummary(
        base_offset=base,
        last_offset=last,
        count=0 if kind == "shell" else int(found["cnt"] or last - base + 1),
        producer_id=int(found["pid"] or -1),
        producer_epoch=int(found["epoch"] or -1),
        base_sequence=int(found["s0"] or -1),
        last_sequence=int(found["s1"] or -1),
        is_transactional=kind in ("M", "shell") or found["tx"] == " T",
        is_control=kind in ("M", "shell"),
        max_timestamp=timestamp,
        size=SIZE,
        marker=marker,
    )
