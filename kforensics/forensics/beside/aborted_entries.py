"""The entries of a partition's transaction indexes as numpy records, and what is wrong with them by themselves.

Rule: ``TransactionIndex.sanityCheck`` and ``AbortedTxn``; the broker itself looks at no more than the base offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.case import Case
from kforensics.forensics.findings import Finding
from kforensics.forensics.producer_past import last_before
from kforensics.forensics.replay.results import Records
from kforensics.forensics.telling import Row
from kforensics.parsers.rows import Damage
from kforensics.parsers.source import Source, open_source
from kforensics.parsers.transaction_index import ENTRY, TransactionIndexEntry, read_transaction_index

__all__ = [
    "ABORTED_ENTRY",
    "AbortedEntries",
    "ByOffset",
    "aborted_entries",
    "first_on_disk",
    "in_index",
    "may_be_live",
    "of_entry",
    "paired",
]

NOTHING = -1
STORED = ("position", "producer_id", "first_offset", "last_offset", "last_stable_offset")
ABORTED_ENTRY = np.dtype(
    [
        ("producer_id", "i8"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("last_stable_offset", "i8"),
        ("segment", "i4"),  # number of the segment whose index it stands in
        ("position", "i8"),  # in that index
        ("disordered", "?"),  # not behind the entry before it
        ("reversed", "?"),  # ends before it begins
        ("outside", "?"),  # ends in another segment
    ]
)


@dataclass(frozen=True, slots=True, eq=False)
class AbortedEntries:
    """What the transaction indexes beside the segments of a partition hold.

    Attributes:
        entries: ABORTED_ENTRY records, index by index in the order of the bytes.
        damage: number of a segment, and bytes of its index that hold no entry.
        unreadable: why an index cannot be read, by the number of its segment.
        absent: numbers of the segments that have no index of any kind beside them: whoever copied them left all out.
    """

    entries: Records
    damage: tuple[tuple[int, Damage], ...]
    unreadable: dict[int, str]
    absent: frozenset[int]

    @property
    def unknown(self) -> frozenset[int]:
        """Numbers of the segments of which nobody can say which entries the broker had for them."""
        return self.absent | self.unreadable.keys()

    @property
    def sound(self) -> Records:
        """The entries that make sense by themselves."""
        found: Records = self.entries[~(self.entries["reversed"] | self.entries["outside"])]
        return found


def aborted_entries(case: Case) -> AbortedEntries:
    """Return the entries of all transaction indexes whose segment is there; a broker deletes the others."""
    damage: list[tuple[int, Damage]] = []
    unreadable: dict[int, str] = {}
    absent: set[int] = set()
    parts = [np.empty(0, ABORTED_ENTRY)]
    bases = [segment.base_offset or 0 for segment in case.partition.segments]
    for number, (base, end) in enumerate(zip(bases, [*bases[1:], case.log_end_offset], strict=True)):
        found = case.partition.transaction_indexes.get(base)
        if found is None:
            if base not in case.partition.indexes and base not in case.partition.time_indexes:
                absent.add(number)
            continue
        try:
            with open_source(found.path) as source:
                entries, faults = _read(source)
        except InputError as error:
            unreadable[number] = error.why
            continue
        damage += [(number, fault) for fault in faults]
        parts.append(_judged(entries, number, base, end))
    return AbortedEntries(np.concatenate(parts), tuple(damage), unreadable, frozenset(absent))


def _read(source: Source) -> tuple[Records, list[Damage]]:
    """Return the entries of an index with nothing judged yet, and its damage."""
    data = source.read(0, source.size)
    if len(data) == source.size and not len(data) % ENTRY.size:
        stored = np.frombuffer(data, ENTRY.dtype)
        # Zeros are no entry; nearly no other ends at offset 0.
        if ((stored["version"] == 0) & (stored["last_offset"] != 0)).all():
            return _sound(stored), []
    rows = list(read_transaction_index(source))
    whole = [row for row in rows if isinstance(row, TransactionIndexEntry)]
    entries = np.zeros(len(whole), ABORTED_ENTRY)
    for name in STORED:
        entries[name] = [getattr(row, name) for row in whole]
    return entries, [row for row in rows if isinstance(row, Damage)]


def _sound(stored: Records) -> Records:
    entries = np.zeros(len(stored), ABORTED_ENTRY)
    for name in STORED[1:]:
        entries[name] = stored[name]
    entries["position"] = np.arange(len(stored)) * ENTRY.size
    return entries


def _judged(entries: Records, number: int, base: int, end: int) -> Records:
    last = entries["last_offset"]
    entries["segment"] = number
    entries["disordered"][1:] = last[1:] <= last[:-1]
    entries["reversed"] = entries["first_offset"] > last
    entries["outside"] = (last < base) | (last >= end)
    return entries


def may_be_live(case: Case, segment: int) -> bool:
    """Whether the broker may have written to a segment while it was copied."""
    return segment == len(case.partition.segments) - 1 and not case.partition.log_dir.clean_shutdown


def in_index(case: Case, segment: int, position: int | None, found: Finding) -> Finding:
    """Return a finding with the transaction index of a segment as its evidence, if there is one."""
    file = case.partition.transaction_indexes.get(case.partition.segments[segment].base_offset or 0)
    return found if file is None else replace(found, path=file.path, position=position)


def of_entry(case: Case, row: Row, found: Finding) -> Finding:
    """Return a finding with the entry it is about; the entry does not name an epoch."""
    about = replace(
        found, first_offset=row["first_offset"], last_offset=row["last_offset"], producer_id=row["producer_id"]
    )
    return in_index(case, row["segment"], row["position"], about)


class ByOffset:
    """Records of which those with an offset in some range are quickly found.

    Args:
        records: any.
        name: field with the offset.
    """

    def __init__(self, records: Records, name: str) -> None:
        self._order = np.argsort(records[name], kind="stable")
        self._offsets = records[name][self._order]

    def between(self, first: int, last: int) -> Records:
        """Return the indexes of those with an offset from the first to the last, this included."""
        found: Records = self._order[self._offsets.searchsorted(first) : self._offsets.searchsorted(last, "right")]
        return found


def paired(known: Records, offset: str, producer_ids: Any, offsets: Any) -> Any:
    """Return for each producer id and offset the index of the known record with both; NOTHING where there is none."""
    at = last_before(known["producer_id"], known[offset], producer_ids, offsets + 1)
    return np.where(np.append(known[offset], NOTHING)[at] == offsets, at, NOTHING)


def first_on_disk(case: Case) -> int:
    """Return the first offset of the log that is there; the log end offset where it is empty."""
    return int(case.log.first.base_offset[0]) if case.log.batches else case.log_end_offset
