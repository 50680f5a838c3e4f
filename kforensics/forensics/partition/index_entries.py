"""The entries of an offset or time index as NumPy columns, and the faults of the file that show without the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.record_arrays import concat_rows
from kforensics.forensics.core.record_types import Portable
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.format.derived import FixedLayout
from kforensics.parsers.state.entries import CHUNK_BYTES
from kforensics.parsers.state.indexes import OFFSET_ENTRY, TIME_ENTRY

__all__ = ["INDEX_FAULT", "IndexEntries", "IndexFault", "IndexFaultArray", "offset_index_entries", "time_index_entries"]

RELATIVE = "relative_offset"


class IndexFault(IntEnum):
    """What can be wrong with an index; faults below 10 show without the log."""

    UNREADABLE = 0
    RAGGED = 1
    ZEROS_BETWEEN = 2
    TRAILING_ZEROS = 3
    NOT_ASCENDING = 4
    BELOW_BASE = 5
    # Entries of an offset index that do not match the log.
    NO_BATCH_BEGINS = 10
    BEYOND_LOG = 11
    OFFSET_BEFORE_POSITION = 12
    NO_BATCH_ENDS = 13
    # Entries of a time index that do not match the log.
    OTHER_TIMESTAMP = 20
    OFFSET_NOT_IN_LOG = 21
    LARGER_BEFORE = 22
    NOT_LARGEST = 23
    EMPTY = 24


INDEX_FAULT = np.dtype(
    [
        ("segment", "i4"),
        ("is_time", "?"),  # in a time index
        ("position", "i8"),  # of the entry in the index
        ("fault", "i1"),
        ("offset", "i8"),
        ("value", "i8"),  # the entry's position in the log, or its timestamp
        ("found", "i8"),  # the actual value, where that is one number; else -1
    ]
)
IndexFaultArray: TypeAlias = StructArray


def _no_integers() -> Any:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class IndexEntries(Portable):
    """The entries of an index that are not zeros.

    Attributes:
        offsets: base offset of the segment plus the relative offset.
        values: position in the log, or timestamp in ms.
        positions: positions of the entries in the index.
        offsets_ascend: whether offsets never decrease, so that binary search works.
        values_ascend: whether values never decrease.
        faults: INDEX_FAULT rows of what is wrong with the file itself.
        is_sound: which entries have no such fault.
        is_there: whether the file exists.
    """

    offsets: Any = field(default_factory=_no_integers)
    values: Any = field(default_factory=_no_integers)
    positions: Any = field(default_factory=_no_integers)
    offsets_ascend: bool = True
    values_ascend: bool = True
    faults: IndexFaultArray = field(default_factory=lambda: np.empty(0, INDEX_FAULT))
    is_sound: Any = field(default_factory=partial(np.empty, 0, bool))
    is_there: bool = False

    def __len__(self) -> int:
        return len(self.offsets)

    def with_offsets(self, low: int, high: int) -> Any:
        """Return a slice or indexes of the entries with an offset from ``low`` to ``high``."""
        return _within(self.offsets, low, high, ascending=self.offsets_ascend)

    def with_values(self, low: int, high: int) -> Any:
        """Return a slice or indexes of the entries with a value from ``low`` to ``high``."""
        return _within(self.values, low, high, ascending=self.values_ascend)

    def rows(
        self, is_faulty: BoolArray, faults: Any, segment: int, *, is_time: bool, actual: int = -1
    ) -> IndexFaultArray:
        """Return INDEX_FAULT rows.

        Args:
            is_faulty: mask of the entries with a fault.
            faults: a fault for each entry, or one for all.
            segment: number of the segment in the partition.
            is_time: whether the entries are in a time index.
            actual: the actual value, if it differs from the entry's.
        """
        rows = np.empty(int(is_faulty.sum()), INDEX_FAULT)
        if not len(rows):
            return rows
        rows["segment"], rows["is_time"], rows["found"] = segment, is_time, actual
        rows["fault"] = faults[is_faulty] if isinstance(faults, np.ndarray) else faults
        for name in ("position", "offset", "value"):
            rows[name] = getattr(self, f"{name}s")[is_faulty]
        return rows


def _within(numbers: IntArray, low: int, high: int, *, ascending: bool) -> Any:
    if ascending:
        return slice(int(np.searchsorted(numbers, low)), int(np.searchsorted(numbers, high, "right")))
    return np.flatnonzero((numbers >= low) & (numbers <= high))


def offset_index_entries(file: FoundFile | None, segment: int, *, is_closed: bool) -> IndexEntries:
    """Return the entries of an offset index, none if there is no file.

    Offsets and positions must be strictly ascending. Rule: ``OffsetIndex.append`` and ``sanityCheck``. No entry has
    position 0, so zeros are not an entry.

    Args:
        file: the ``.index``.
        segment: number of the segment in the partition.
        is_closed: whether the segment is not the last one. Closing a segment truncates preallocated space.
    """
    return _entries(file, _IndexFormat(OFFSET_ENTRY, "position", segment, is_closed, is_time=False))


def time_index_entries(file: FoundFile | None, segment: int, *, is_closed: bool) -> IndexEntries:
    """Return the entries of a time index, none if there is no file.

    Timestamps must be strictly ascending, and offsets must not decrease. Rule: ``TimeIndex.maybeAppend`` and
    ``sanityCheck``.

    Args:
        file: the ``.timeindex``.
        segment: number of the segment in the partition.
        is_closed: whether the segment is not the last one. Closing a segment truncates preallocated space.
    """
    return _entries(file, _IndexFormat(TIME_ENTRY, "timestamp", segment, is_closed, is_time=True))


@dataclass(frozen=True, slots=True)
class _IndexFormat:
    """How to read an index, and which segment it belongs to."""

    layout: FixedLayout
    value: str
    segment: int
    is_closed: bool
    is_time: bool

    def row(self, fault: IndexFault, position: int, actual: int = -1) -> tuple[Any, ...]:
        """Return the values of an INDEX_FAULT row about the file."""
        return self.segment, self.is_time, position, fault, -1, -1, actual


def _entries(file: FoundFile | None, index: _IndexFormat) -> IndexEntries:
    if file is None:
        return IndexEntries()
    try:
        with open_source(file.path) as source:
            return _read(source, file.base_offset or 0, index)
    except InputError:
        return IndexEntries(faults=np.array([index.row(IndexFault.UNREADABLE, 0)], INDEX_FAULT))


def _read(source: Source, base_offset: int, index: _IndexFormat) -> IndexEntries:
    if not source.size:  # the usual case for many small segments
        return IndexEntries(is_there=True)
    size = index.layout.size
    table, slots, slot_count = _used_slots(source, index)
    offsets = base_offset + table[RELATIVE].astype(np.int64)
    values = table[index.value].astype(np.int64)
    below, decreases = table[RELATIVE] < 0, _decreases(offsets, values, index)
    entries = IndexEntries(
        offsets=offsets,
        values=values,
        positions=slots * size,
        offsets_ascend=_ascend(offsets),
        values_ascend=_ascend(values),
        is_sound=~(below | decreases),
        is_there=True,
    )
    kinds = np.where(below, IndexFault.BELOW_BASE, IndexFault.NOT_ASCENDING)
    of_entries = entries.rows(below | decreases, kinds, index.segment, is_time=index.is_time)
    of_file = np.array(_file_faults(source.size, slots, slot_count, index), INDEX_FAULT)
    return replace(entries, faults=concat_rows([of_file, of_entries]))


def _ascend(numbers: IntArray) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _decreases(offsets: IntArray, values: IntArray, index: _IndexFormat) -> BoolArray:
    """Return which entries do not ascend from the entry before them."""
    decreases = np.zeros(len(offsets), bool)
    same_offset = offsets[1:] == offsets[:-1]
    decreases[1:] = (offsets[1:] < offsets[:-1]) | (values[1:] <= values[:-1])
    if not index.is_time:
        decreases[1:] |= same_offset
    return decreases


def _file_faults(size: int, slots: IntArray, slot_count: int, index: _IndexFormat) -> list[tuple[Any, ...]]:
    entry, rows = index.layout.size, []
    after_zeros = np.flatnonzero(np.diff(slots, prepend=-1) > 1)
    if len(after_zeros):
        rows.append(index.row(IndexFault.ZEROS_BETWEEN, int(slots[after_zeros[0]]) * entry))
    trailing = slot_count - (int(slots[-1]) + 1 if len(slots) else 0)
    if trailing and index.is_closed:
        position = (slot_count - trailing) * entry
        rows.append(index.row(IndexFault.TRAILING_ZEROS, position, actual=trailing * entry))
    if size % entry:
        rows.append(index.row(IndexFault.RAGGED, slot_count * entry, actual=size))
    return rows


def _used_slots(source: Source, index: _IndexFormat) -> tuple[StructArray, IntArray, int]:
    """Return the entries that are not zeros, their slot numbers, and how many slots the file has."""
    tables, slots = [np.empty(0, index.layout.dtype)], [_no_integers()]
    for first, table in _pieces(source, index.layout):
        used = (table[RELATIVE] != 0) | (table[index.value] != 0)
        if index.is_time and first == 0:
            used[0] |= len(used) == 1 or bool(used[1])
        tables.append(table[used])
        slots.append(first + np.flatnonzero(used))
    return np.concatenate(tables), np.concatenate(slots), source.size // index.layout.size


def _pieces(source: Source, layout: FixedLayout) -> Iterator[tuple[int, StructArray]]:
    """Yield the entries piece by piece, each with its first slot number, skipping sparse regions of the file."""
    first, slot_count = 0, source.size // layout.size
    while first < slot_count:
        first = max(first, source.next_data(first * layout.size) // layout.size)
        data = source.read(first * layout.size, min(CHUNK_BYTES // layout.size, slot_count - first) * layout.size)
        table = np.frombuffer(data, layout.dtype, len(data) // layout.size)
        if not len(table):
            return
        yield first, table
        first += len(table)
