"""The entries of a partition's transaction indexes as numpy records, and what is wrong with them by themselves.

Rule: ``TransactionIndex.sanityCheck`` and ``AbortedTxn``; the broker itself looks at no more than the base offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.external_sort import Sorted, Sorting
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.record_types import Records
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.partition.partition_state import Case
from kforensics.forensics.partition.producer_history import last_before
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.transaction_index import ENTRY, TransactionIndexEntry, read_transaction_index

__all__ = [
    "ABORTED_ENTRY",
    "BEGUN",
    "AbortedEntries",
    "aborted_entries",
    "first_on_disk",
    "in_index",
    "may_be_live",
    "of_entry",
    "paired",
]

NOTHING, NEVER = -1, int(np.iinfo("i8").max)
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


# What decides what an entry hides.
BEGUN = np.dtype([("producer_id", "i8"), ("first_offset", "i8")])


@dataclass(frozen=True, eq=False)  # no slots: what is asked for often is computed once
class AbortedEntries:
    """What the transaction indexes beside the segments of a partition hold.

    Attributes:
        sound: ABORTED_ENTRY records that make sense by themselves, by last offset.
        odd: those with something wrong, index by index in the order of the bytes; some are sound nevertheless.
        begun: producer id and first offset of all entries, by first offset.
        last_of_newest: end of the last sound entry in the index of the last segment, NOTHING if there is none.
        damage: number of a segment, and bytes of its index that hold no entry.
        unreadable: why an index cannot be read, by the number of its segment.
        absent: numbers of the segments that have no index of any kind beside them: whoever copied them left all out.
    """

    sound: Sorted
    odd: Sorted
    begun: Sorted
    last_of_newest: int
    damage: tuple[tuple[int, Damage], ...]
    unreadable: dict[int, str]
    absent: frozenset[int]

    @property
    def unknown(self) -> frozenset[int]:
        """Numbers of the segments of which nobody can say which entries the broker had for them."""
        return self.absent | self.unreadable.keys()

    def earliest_behind(self, offset: int) -> int:
        """Return the smallest first offset of the sound entries that end behind an offset, NEVER if there are none."""
        number = int(np.searchsorted(self.sound.last_keys, offset, "right"))
        if number == self.sound.ranges:
            return NEVER
        rows = self.sound.read(number)
        firsts = rows["first_offset"][rows["last_offset"] > offset]
        return int(firsts.min(initial=self._earliest[number + 1]))

    @cached_property
    def _earliest(self) -> list[int]:
        """The smallest first offset of each range of sound entries and all behind it, and NEVER behind the last."""
        smallest = [int(rows["first_offset"].min()) for rows in self.sound]
        return [*np.minimum.accumulate([NEVER, *reversed(smallest)]).tolist()][::-1]


def aborted_entries(case: Case) -> AbortedEntries:
    """Return the entries of all transaction indexes whose segment is there; a broker deletes the others."""
    damage: list[tuple[int, Damage]] = []
    unreadable: dict[int, str] = {}
    absent: set[int] = set()
    sound, last_of_newest = Sorting(ABORTED_ENTRY, itemgetter("last_offset")), NOTHING
    odd, begun = Sorting(ABORTED_ENTRY, _as_it_comes), Sorting(BEGUN, itemgetter("first_offset"))
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
        entries = _judged(entries, number, base, end)
        is_wrong = entries["reversed"] | entries["outside"]
        sound.add(entries[~is_wrong])
        odd.add(entries[is_wrong | entries["disordered"]])
        begun.add(_begun(entries))
        last_of_newest = int(entries["last_offset"][~is_wrong].max(initial=NOTHING)) if base == bases[-1] else NOTHING
    return AbortedEntries(
        sound.finish(), odd.finish(), begun.finish(), last_of_newest, tuple(damage), unreadable, frozenset(absent)
    )


def _as_it_comes(entries: Records) -> Records:
    return np.zeros(len(entries), "i8")


def _begun(entries: Records) -> Records:
    begun = np.empty(len(entries), BEGUN)
    for name in BEGUN.names or ():
        begun[name] = entries[name]
    return begun


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


def paired(known: Records, offset: str, producer_ids: Any, offsets: Any) -> Any:
    """Return for each producer id and offset the index of the known record with both; NOTHING where there is none."""
    at = last_before(known["producer_id"], known[offset], producer_ids, offsets + 1)
    return np.where(np.append(known[offset], NOTHING)[at] == offsets, at, NOTHING)


def first_on_disk(case: Case) -> int:
    """Return the first offset of the log that is there; the log end offset where it is empty."""
    return int(case.log.first.base_offset[0]) if case.log.batches else case.log_end_offset
