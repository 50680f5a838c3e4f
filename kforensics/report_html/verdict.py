"""The verdict of a stored audit, in the words of the report that the audit itself printed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow.compute as pc

from kforensics.forensics.audit.partition_result import CLEAN, UNREAD
from kforensics.forensics.core.findings import Severity
from kforensics.parsers.log.log_rows import Place
from kforensics.render.report import NAMED, Report, Unread
from kforensics.report_html.stored_evidence import Store
from kforensics.report_html.top_rows import By, counted, first_rows

__all__ = ["Verdict", "verdict_of"]

PLACE = Place._fields
SEVERITIES = {str(severity): severity for severity in Severity}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What all of a store comes to.

    Attributes:
        word: ``critical``, ``error``, ``warning``, ``info`` or ``clean``.
        sentence: the first line of the report.
        details: the lines below it.
        worst: the worst severity, None where nothing was found.
        is_whole: whether everything could be read.
        partitions: how many have which verdict.
        codes: how many findings there are of each severity and code.
    """

    word: str
    sentence: str
    details: tuple[str, ...]
    worst: Severity | None
    is_whole: bool
    partitions: dict[str, int]
    codes: dict[tuple[Severity, str], int]


def verdict_of(store: Store) -> Verdict:
    """Return the verdict.

    Raises:
        InputError: a table cannot be read.
    """
    found = counted(store.batches("findings", ["severity", "code"]), ["severity", "code"])
    codes = {(SEVERITIES[str(severity)], str(code)): count for (severity, code), count in found.items()}
    cards = counted(store.batches("partitions", ["verdict"]), ["verdict"])
    partitions = {str(word): count for (word,), count in cards.items()}
    report = _report(store, codes, partitions)
    sentence, *details = takewhile(bool, report.lines())
    word = CLEAN if report.worst is None else str(report.worst)
    is_whole = not (report.unread_count or report.places)
    return Verdict(word, sentence, tuple(details), report.worst, is_whole, partitions, codes)


def _report(store: Store, codes: dict[tuple[Severity, str], int], partitions: dict[str, int]) -> Report:
    return Report(
        as_of_ms=store.manifest["as_of_ms"],
        partitions=sum(partitions.values()),
        size=_size(store),
        unread_count=partitions.get(UNREAD, 0),
        unread=_unread(store) if UNREAD in partitions else [],
        places=store.manifest.get("unreadable", 0),
        _worst=Counter({SEVERITIES.get(word): count for word, count in partitions.items() if word != UNREAD}),
        _codes=Counter(codes),
    )


def _size(store: Store) -> int:
    """Return the bytes of all segments."""
    size = 0
    for batch in store.batches("files", ["kind", "state", "size"]):
        is_segment = pc.and_(pc.equal(batch["kind"], "log"), pc.equal(batch["state"], "live"))
        size += pc.sum(batch.filter(is_segment)["size"]).as_py() or 0
    return size


def _unread(store: Store) -> list[Unread]:
    batches = (
        batch.filter(pc.equal(batch["verdict"], UNREAD))
        for batch in store.batches("partitions", [*PLACE, "verdict", "read"])
    )
    named: Any = first_rows(batches, [By("topic"), By("partition"), By("broker_id")], NAMED)
    return [
        Unread(Place(*(row[name] for name in PLACE)), row["log_dir"] or "", row["read"]) for row in named.to_pylist()
    ]
