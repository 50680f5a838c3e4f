"""What may strike in millions of batches, kept to a few notes and findings, however the log was split."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np

from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.observations import Noticed, noted, of_kind
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import MOST
from kforensics.parsers.columns.batch_columns import BatchColumns

__all__ = ["Sum", "batches", "first_findings", "first_notes", "note_of_all", "sum_of"]


def first_notes(kind: Noticed, chunk: BatchColumns, which: Any, *, previous: Any = -1) -> Records:
    """Return notes of the first batches that strike, no more than are told of; the last one counts the others too.

    Args:
        kind: what was noticed.
        chunk: of batches.
        which: mask of the batches that strike, not all False.
        previous: what each was compared with.
    """
    struck = np.flatnonzero(which)
    notes = noted(kind, chunk, struck[:MOST], previous=previous)
    notes["count"][-1] += len(struck) - len(notes)
    return notes


def note_of_all(kind: Noticed, chunk: BatchColumns, which: Any, *, amount: Any = 0) -> Records:
    """Return one note for all batches that strike; the first one gives its place.

    Args:
        kind: what was noticed, of those that are tallied.
        chunk: of batches.
        which: mask of the batches that strike, not all False.
        amount: a number for each batch, of which the largest is kept.
    """
    struck = np.flatnonzero(which)
    note = noted(kind, chunk, struck[:1])
    # Of nobody in particular: notes of other parts shall be added to it.
    note["producer_id"] = note["producer_epoch"] = -1
    note["count"], note["last_offset"] = len(struck), chunk.last_offset[struck].max()
    note["amount"] = amount[struck].max() if isinstance(amount, np.ndarray) else amount
    return note


@dataclass(frozen=True, slots=True)
class Sum:
    """All notes of a kind in a partition.

    Attributes:
        count: batches.
        amount: the largest.
        first_offset: of the first batch.
        last_offset: of the last one.
        at: segment and position of the first one.
    """

    count: int
    amount: int
    first_offset: int
    last_offset: int
    at: tuple[int, int]

    @property
    def offsets(self) -> tuple[int, int]:
        """First and last offset."""
        return self.first_offset, self.last_offset

    def that(self, does: str, do: str) -> str:
        """Return the beginning of a sentence about the batches, with a verb for one or for several."""
        if self.count == 1:
            return f"1 batch, with offsets {self.first_offset} to {self.last_offset}, {does}"
        return f"{self.count} batches between offsets {self.first_offset} and {self.last_offset} {do}"


def sum_of(notes: Records, kind: Noticed) -> Sum | None:
    """Return all notes of a kind together, None if there are none."""
    some = of_kind(notes, kind)
    if not len(some):
        return None
    return Sum(
        count=int(some["count"].sum()),
        amount=int(some["amount"].max()),
        first_offset=int(some["first_offset"][0]),
        last_offset=int(some["last_offset"].max()),
        at=(int(some["segment"][0]), int(some["position"][0])),
    )


def batches(count: int) -> str:
    """Return a number of batches in words.

    >>> batches(1), batches(2)
    ('1 batch', '2 batches')
    """
    return "1 batch" if count == 1 else f"{count} batches"


def first_findings(found: Iterable[Finding], total: int) -> Iterator[Finding]:
    """Yield the first findings; the evidence of the last one says how many are ``left_out``.

    Args:
        found: in the order of the log; no more are made than are yielded.
        total: how many there are in all.
    """
    some = list(islice(found, MOST))
    if total > len(some) > 0:
        some[-1] = replace(some[-1], evidence={**some[-1].evidence, "left_out": total - len(some)})
    yield from some
