"""The entries of a segment's ``.index`` or ``.timeindex`` as numpy columns, and what is wrong with the file itself."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.portable import Portable
from kforensics.forensics.core.record_arrays import joined_records
from kforensics.forensics.core.record_types import Records
from kforensics.parsers.files.discover import FoundFile
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.derived import Fixed
from kforensics.parsers.state.entries import CHUNK
from kforensics.parsers.state.offset_index import ENTRY as OFFSET_ENTRY
from kforensics.parsers.state.time_index import ENTRY as TIME_ENTRY

__all__ = ["FAULT", "Fault", "IndexEntries", "offset_index_entries", "time_index_entries"]

RELATIVE = "relative_offset"


class Fault(IntEnum):
    """What can be wrong with an index; the first ones need no look at the log."""

    UNREADABLE = 0
    RAGGED = 1
    ZEROS_BETWEEN = 2
    ZEROS_BEHIND = 3
    NOT_ASCENDING = 4
    BELOW_BASE = 5
    # Entries of an offset index that do not fit the log.
    NO_BATCH_BEGINS = 10
    BEYOND_LOG = 11
    OFFSET_BEFORE_POSITION = 12
    NO_BATCH_ENDS = 13
    # Entries of a time index that do not fit the log.
    OTHER_TIMESTAMP = 20
    OFFSET_NOT_IN_LOG = 21
    LARGER_BEFORE = 22
    NOT_LARGEST = 23
    EMPTY = 24


FAULT = np.dtype(
    [
        ("segment", "i4"),
        ("is_time", "?"),  # of a time index
        ("position", "i8"),  # of the entry in the index
        ("fault", "i1"),
        ("offset", "i8"),
        ("value", "i8"),  # the entry's position in the log, or its timestamp
        ("found", "i8"),  # what there is instead, where that is one number; else -1
    ]
)


def _numbers() -> Any:
    return np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class IndexEntries(Portable):
    """The entries of an index that are not zeros.

    Attributes:
        offsets: base offset of the segment plus the relative offset.
        values: position in the log, or timestamp in ms.
        positions: of the entries in the index.
        offsets_ascend: whether offsets never fall, so that they can be searched; likewise for values.
        values_ascend: as above.
        faults: FAULT rows of what is wrong with the file itself.
        is_sound: which entries have no such fault.
        is_there: whether there is a file.
    """

    offsets: Any = field(default_factory=_numbers)
    values: Any = field(default_factory=_numbers)
    positions: Any = field(default_factory=_numbers)
    offsets_ascend: bool = True
    values_ascend: bool = True
    faults: Records = field(default_factory=partial(np.empty, 0, FAULT))
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

    def rows(self, struck: Any, faults: Any, segment: int, *, is_time: bool, found: int = -1) -> Records:
        """Return FAULT rows.

        Args:
            struck: mask of the entries with a fault.
            faults: a fault for each entry, or one for all.
            segment: number of the segment in the partition.
            is_time: whether they are of a time index.
            found: what there is instead of the entry's value.
        """
        rows = np.empty(int(struck.sum()), FAULT)
        if not len(rows):
            return rows
        rows["segment"], rows["is_time"], rows["found"] = segment, is_time, found
        rows["fault"] = faults[struck] if isinstance(faults, np.ndarray) else faults
        for name in ("position", "offset", "value"):
            rows[name] = getattr(self, f"{name}s")[struck]
        return rows


def _within(numbers: Any, low: int, high: int, *, ascending: bool) -> Any:
    if ascending:
        return slice(int(np.searchsorted(numbers, low)), int(np.searchsorted(numbers, high, "right")))
    return np.flatnonzero((numbers >= low) & (numbers <= high))


def offset_index_entries(found: FoundFile | None, segment: int, *, is_closed: bool) -> IndexEntries:
    """Return the entries of an offset index; none if there is no file.

    Offsets and positions have to ascend strictly. Rule: ``OffsetIndex.append`` and ``sanityCheck``; no position is 0,
    so an entry of zeros is none.

    Args:
        found: the ``.index``.
        segment: number of the segment in the partition.
        is_closed: whether the segment is not the last one: room that was set aside is given back when one is closed.
    """
    return _entries(found, _Reading(OFFSET_ENTRY, "position", segment, is_closed, is_time=False))


def time_index_entries(found: FoundFile | None, segment: int, *, is_closed: bool) -> IndexEntries:
    """Return the entries of a time index; none if there is no file.

    Timestamps have to ascend strictly, offsets must not fall. Rule: ``TimeIndex.maybeAppend`` and ``sanityCheck``.

    Args:
        found: the ``.timeindex``.
        segment: number of the segment in the partition.
        is_closed: as for an offset index.
    """
    return _entries(found, _Reading(TIME_ENTRY, "timestamp", segment, is_closed, is_time=True))


@dataclass(frozen=True, slots=True)
class _Reading:
    """How the file is to be read, and whose it is."""

    layout: Fixed
    value: str
    segment: int
    is_closed: bool
    is_time: bool

    def row(self, fault: Fault, position: int, found: int = -1) -> tuple[Any, ...]:
        """Return the values of a FAULT row about the file."""
        return self.segment, self.is_time, position, fault, -1, -1, found


def _entries(found: FoundFile | None, reading: _Reading) -> IndexEntries:
    if found is None:
        return IndexEntries()
    try:
        with open_source(found.path) as source:
            return _read(source, found.base_offset or 0, reading)
    except InputError:
        return IndexEntries(faults=np.array([reading.row(Fault.UNREADABLE, 0)], FAULT))


def _read(source: Source, base_offset: int, reading: _Reading) -> IndexEntries:
    if not source.size:  # as beside most of very many small segments
        return IndexEntries(is_there=True)
    size = reading.layout.size
    tables, slots, whole = _used(source, reading)
    offsets = base_offset + tables[RELATIVE].astype(np.int64)
    values = tables[reading.value].astype(np.int64)
    below, falls = tables[RELATIVE] < 0, _falls(offsets, values, reading)
    entries = IndexEntries(
        offsets=offsets,
        values=values,
        positions=slots * size,
        offsets_ascend=_ascend(offsets),
        values_ascend=_ascend(values),
        is_sound=~(below | falls),
        is_there=True,
    )
    kinds = np.where(below, Fault.BELOW_BASE, Fault.NOT_ASCENDING)
    of_entries = entries.rows(below | falls, kinds, reading.segment, is_time=reading.is_time)
    of_file = np.array(_file_faults(source.size, slots, whole, reading), FAULT)
    return replace(entries, faults=joined_records([of_file, of_entries]))


def _ascend(numbers: Any) -> bool:
    return bool((numbers[1:] >= numbers[:-1]).all())


def _falls(offsets: Any, values: Any, reading: _Reading) -> Any:
    """Return which entries do not go on where the one before them stopped."""
    falls = np.zeros(len(offsets), bool)
    flat = offsets[1:] == offsets[:-1]
    falls[1:] = (offsets[1:] < offsets[:-1]) | (values[1:] <= values[:-1])
    if not reading.is_time:
        falls[1:] |= flat
    return falls


def _file_faults(size: int, slots: Any, whole: int, reading: _Reading) -> list[tuple[Any, ...]]:
    entry, rows = reading.layout.size, []
    holes = np.flatnonzero(np.diff(slots, prepend=-1) > 1)
    if len(holes):
        rows.append(reading.row(Fault.ZEROS_BETWEEN, int(slots[holes[0]]) * entry))
    behind = whole - (int(slots[-1]) + 1 if len(slots) else 0)
    if behind and reading.is_closed:
        rows.append(reading.row(Fault.ZEROS_BEHIND, (whole - behind) * entry, found=behind * entry))
    if size % entry:
        rows.append(reading.row(Fault.RAGGED, whole * entry, found=size))
    return rows


def _used(source: Source, reading: _Reading) -> tuple[Records, Any, int]:
    """Return the entries that are not zeros, their numbers, and how many entries there is room for."""
    tables, slots, whole = [np.empty(0, reading.layout.dtype)], [_numbers()], source.size // reading.layout.size
    for first, table in _pieces(source, reading.layout):
        used = (table[RELATIVE] != 0) | (table[reading.value] != 0)
        if reading.is_time and first == 0:
            used[0] |= len(used) == 1 or bool(used[1])
        tables.append(table[used])
        slots.append(first + np.flatnonzero(used))
    return np.concatenate(tables), np.concatenate(slots), whole


def _pieces(source: Source, layout: Fixed) -> Iterator[tuple[int, Records]]:
    """Yield the entries piece by piece with the number of the first, without what lies in holes of the file."""
    first, whole = 0, source.size // layout.size
    while first < whole:
        first = max(first, source.hole_end(first * layout.size) // layout.size)
        data = source.read(first * layout.size, min(CHUNK // layout.size, whole - first) * layout.size)
        table = np.frombuffer(data, layout.dtype, len(data) // layout.size)
        if not len(table):
            return
        yield first, table
        first += len(table)
