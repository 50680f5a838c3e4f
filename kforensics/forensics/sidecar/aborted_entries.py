"""The entries of a partition's transaction indexes as records, and the faults that show without the log.

Rule: ``TransactionIndex.sanityCheck`` and ``AbortedTxn``; the broker itself checks no more than the base offset.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, TypeAlias

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.external_sort import PAGE_SIZE, ExternalSort, SortedRows
from kforensics.forensics.core.findings import Finding
from kforensics.forensics.core.reporting import Row
from kforensics.forensics.partition.partition_files import Partition
from kforensics.forensics.partition.partition_state import PartitionState
from kforensics.forensics.partition.producer_history import last_before
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.array_types import IntArray, StructArray
from kforensics.parsers.format.rows import Damage
from kforensics.parsers.state.indexes import TRANSACTION_ENTRY, TransactionIndexEntry, read_transaction_index

__all__ = [
    "ABORTED_ENTRY",
    "ABORTED_START",
    "AbortedEntries",
    "AbortedEntryArray",
    "aborted_entries",
    "first_available_offset",
    "index_records",
    "matching_rows",
    "may_be_merged",
    "with_entry",
    "with_index_location",
]

NOTHING, NEVER = -1, int(np.iinfo("i8").max)
NATIVE_ENTRY = TRANSACTION_ENTRY.dtype.newbyteorder("=")
READ_SIZE = PAGE_SIZE * TRANSACTION_ENTRY.size
STORED_FIELDS = ("position", "producer_id", "first_offset", "last_offset", "last_stable_offset")
ABORTED_ENTRY = np.dtype(
    [
        ("producer_id", "i8"),
        ("first_offset", "i8"),
        ("last_offset", "i8"),
        ("last_stable_offset", "i8"),
        ("segment", "i4"),  # number of the segment whose index contains it
        ("position", "i8"),  # in that index
        ("out_of_order", "?"),  # not after the entry before it
        ("ends_before_start", "?"),  # ends before it begins
        ("outside_segment", "?"),  # ends in another segment
    ]
)
AbortedEntryArray: TypeAlias = StructArray
# The fields that determine what an entry hides.
ABORTED_START = np.dtype([("producer_id", "i8"), ("first_offset", "i8")])
AbortedStartArray: TypeAlias = StructArray


@dataclass(frozen=True, eq=False)  # no slots: cached properties
class AbortedEntries:
    """The entries of the transaction indexes of a partition's segments.

    Attributes:
        usable: ABORTED_ENTRY records that are plausible on their own, sorted by last offset.
        faulty: ABORTED_ENTRY records with a fault, in the order of the segments and positions; some are also usable.
        starts: ABORTED_START records of all entries, sorted by first offset.
        last_in_active_index: last offset of the last usable entry in the index of the last segment, NOTHING if none.
        damage: segment number, and bytes of its index that are not an entry.
        unreadable: why an index cannot be read, by segment number.
        absent: numbers of the segments without any index file; they were left out when the log was copied.
    """

    usable: SortedRows
    faulty: SortedRows
    starts: SortedRows
    last_in_active_index: int
    damage: tuple[tuple[int, Damage], ...]
    unreadable: dict[int, str]
    absent: frozenset[int]

    @property
    def unknown(self) -> frozenset[int]:
        """Numbers of the segments for which the broker's index entries are unknown."""
        return self.absent | self.unreadable.keys()

    def earliest_start_after(self, offset: int) -> int:
        """Return the smallest first offset of the usable entries that end after an offset, NEVER if there are none."""
        number = int(np.searchsorted(self.usable.last_keys, offset, "right"))
        if number == self.usable.page_count:
            return NEVER
        rows = self.usable.read(number)
        firsts = rows["first_offset"][rows["last_offset"] > offset]
        return int(firsts.min(initial=self._earliest[number + 1]))

    @cached_property
    def _earliest(self) -> list[int]:
        """The smallest first offset of each page of usable entries and all pages after it; finally NEVER."""
        smallest = [int(rows["first_offset"].min()) for rows in self.usable]
        return [*np.minimum.accumulate([NEVER, *reversed(smallest)]).tolist()][::-1]


def aborted_entries(state: PartitionState) -> AbortedEntries:
    """Return the entries of all transaction indexes whose segment exists; a broker deletes the others."""
    damage: list[tuple[int, Damage]] = []
    unreadable: dict[int, str] = {}
    absent: set[int] = set()
    usable, last_in_active_index = ExternalSort(ABORTED_ENTRY, itemgetter("last_offset")), NOTHING
    faulty, starts = (
        ExternalSort(ABORTED_ENTRY, _in_file_order),
        ExternalSort(ABORTED_START, itemgetter("first_offset")),
    )
    bases = [segment.base_offset or 0 for segment in state.partition.segments]
    for number, (base, end) in enumerate(zip(bases, [*bases[1:], state.log_end_offset], strict=True)):
        file = state.partition.transaction_indexes.get(base)
        if file is None:
            if base not in state.partition.indexes and base not in state.partition.time_indexes:
                absent.add(number)
            continue
        try:
            with open_source(file.path) as source:
                entries, torn = _read(source)
        except InputError as error:
            unreadable[number] = error.why
            continue
        damage += [(number, fault) for fault in torn]
        entries = _with_faults(entries, number, base, end)
        is_merged = may_be_merged(state, entries) & (entries["last_offset"] >= end)
        is_wrong = entries["ends_before_start"] | (entries["outside_segment"] & ~is_merged)
        usable.add(entries[~is_wrong])
        faulty.add(entries[entries["ends_before_start"] | entries["outside_segment"] | entries["out_of_order"]])
        starts.add(_starts(entries))
        is_active = base == bases[-1]
        last_in_active_index = int(entries["last_offset"][~is_wrong].max(initial=NOTHING)) if is_active else NOTHING
    return AbortedEntries(
        usable.finish(),
        faulty.finish(),
        starts.finish(),
        last_in_active_index,
        tuple(damage),
        unreadable,
        frozenset(absent),
    )


def may_be_merged(state: PartitionState, entries: AbortedEntryArray | Row) -> Any:
    """Return whether an index may be the one of after the cleaner merged segments, and the logs those of before.

    A running broker replaced the index of the first segment, and deleted those of the others, while they were copied.

    Args:
        state: the partition.
        entries: ABORTED_ENTRY records that end outside of their segment, or one of them.
    """
    return state.may_be_cleaned_in_copy & (entries["last_offset"] < state.first_uncompacted_offset)


def _in_file_order(entries: AbortedEntryArray) -> IntArray:
    return np.zeros(len(entries), "i8")


def _starts(entries: AbortedEntryArray) -> AbortedStartArray:
    starts = np.empty(len(entries), ABORTED_START)
    for name in ABORTED_START.names or ():
        starts[name] = entries[name]
    return starts


def _read(source: Source) -> tuple[AbortedEntryArray, list[Damage]]:
    """Return the entries of an index, not yet checked for faults, and the damage of the file."""
    data = source.read(0, source.size)
    if len(data) == source.size and not len(data) % TRANSACTION_ENTRY.size:
        stored = np.frombuffer(data, TRANSACTION_ENTRY.dtype)
        # Zeros are not an entry; almost no real entry ends at offset 0.
        if ((stored["version"] == 0) & (stored["last_offset"] != 0)).all():
            return _undamaged(stored), []
    rows = list(read_transaction_index(source))
    whole = [row for row in rows if isinstance(row, TransactionIndexEntry)]
    entries = np.zeros(len(whole), ABORTED_ENTRY)
    for name in STORED_FIELDS:
        entries[name] = [getattr(row, name) for row in whole]
    return entries, [row for row in rows if isinstance(row, Damage)]


def _undamaged(stored: StructArray) -> AbortedEntryArray:
    entries = np.zeros(len(stored), ABORTED_ENTRY)
    for name in STORED_FIELDS[1:]:
        entries[name] = stored[name]
    entries["position"] = np.arange(len(stored)) * TRANSACTION_ENTRY.size
    return entries


def _with_faults(entries: AbortedEntryArray, number: int, base: int, end: int) -> AbortedEntryArray:
    last = entries["last_offset"]
    entries["segment"] = number
    entries["out_of_order"][1:] = last[1:] <= last[:-1]
    entries["ends_before_start"] = entries["first_offset"] > last
    entries["outside_segment"] = (last < base) | (last >= end)
    return entries


def index_records(partition: Partition) -> SortedRows | None:
    """Return the complete entries of all transaction indexes, sorted by last offset; None if an index cannot be read.

    A partition without a transaction index has no entries: a broker creates the file with the first one.
    """
    entries = ExternalSort(NATIVE_ENTRY, itemgetter("last_offset"))
    for file in partition.transaction_indexes.values():
        try:
            with open_source(file.path) as source:
                whole = source.size - source.size % TRANSACTION_ENTRY.size
                for position in range(0, whole, READ_SIZE):
                    data = source.read(position, min(READ_SIZE, whole - position))
                    data = data[: len(data) - len(data) % TRANSACTION_ENTRY.size]
                    entries.add(np.frombuffer(data, TRANSACTION_ENTRY.dtype).astype(NATIVE_ENTRY))
        except InputError:
            return None
    return entries.finish()


def with_index_location(state: PartitionState, segment: int, position: int | None, finding: Finding) -> Finding:
    """Return a finding with a position in the transaction index of a segment as its evidence, if there is one."""
    file = state.partition.transaction_indexes.get(state.partition.segments[segment].base_offset or 0)
    return finding if file is None else replace(finding, path=file.path, position=position)


def with_entry(state: PartitionState, row: Row, finding: Finding) -> Finding:
    """Return a finding with the entry it concerns; entries have no producer epoch."""
    located = replace(
        finding, first_offset=row["first_offset"], last_offset=row["last_offset"], producer_id=row["producer_id"]
    )
    return with_index_location(state, row["segment"], row["position"], located)


def matching_rows(known: StructArray, offset: str, producer_ids: IntArray, offsets: IntArray) -> Any:
    """Return, for each producer id and offset, the index of the known record with both; NOTHING where there is none.

    Args:
        known: records with a ``producer_id`` and an offset.
        offset: name of the field with the offset.
        producer_ids: producer ids to look up.
        offsets: offsets to look up.
    """
    rows = last_before(known["producer_id"], known[offset], producer_ids, offsets + 1)
    return np.where(np.append(known[offset], NOTHING)[rows] == offsets, rows, NOTHING)


def first_available_offset(state: PartitionState) -> int:
    """Return the first offset of the available log, or the log end offset if it is empty."""
    return int(state.log.first.base_offset[0]) if state.log.batches else state.log_end_offset
