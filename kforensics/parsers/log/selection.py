"""Which batches and records are wanted, and where in a log to begin looking for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import fixed
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.log.batches import walk

__all__ = ["Range", "Selection", "is_cut", "selected_batches", "start_position"]

ENTRY = fixed(OFFSET_INDEX_ENTRY)


@dataclass(frozen=True, slots=True)
class Range:
    """A half-open range; None leaves an end open."""

    first: int | None = None
    end: int | None = None

    def holds(self, value: int) -> bool:
        """Whether a value lies in the range."""
        return (self.first is None or value >= self.first) and (self.end is None or value < self.end)

    def meets(self, first: int, last: int) -> bool:
        """Whether any value from ``first`` to ``last`` lies in the range."""
        return (self.first is None or last >= self.first) and (self.end is None or first < self.end)


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters; what is None does not filter.

    Attributes:
        offsets: offsets of records.
        times: timestamps of records in ms.
        producer_id: producer id of the batch.
        producer_epoch: producer epoch of the batch.
        leader_epoch: partition leader epoch of the batch.
        transactional: transactional batches only, or others only.
        control: control batches only, or others only.
        key: a pattern found in the key as text; records without a key do not match.
    """

    offsets: Range | None = None
    times: Range | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    leader_epoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    key: re.Pattern[str] | None = None

    @property
    def picks_records(self) -> bool:
        """Whether some records of a kept batch may not be wanted."""
        return self.offsets is not None or self.times is not None or self.key is not None

    def keeps_batch(self, batch: Batch) -> bool:
        """Whether a batch may hold wanted records."""
        pairs = (
            (self.producer_id, batch.producer_id),
            (self.producer_epoch, batch.producer_epoch),
            (self.leader_epoch, batch.partition_leader_epoch),
            (self.transactional, batch.is_transactional),
            (self.control, batch.is_control),
        )
        if any(wanted is not None and wanted != found for wanted, found in pairs):
            return False
        first = 0 if batch.base_offset is None else batch.base_offset
        if self.offsets and not self.offsets.meets(first, batch.last_offset):
            return False
        # Only the largest timestamp of a batch is known before its records are read.
        return self.times is None or self.times.first is None or batch.max_timestamp >= self.times.first

    def keeps_record(self, record: Record) -> bool:
        """Whether a record of a kept batch is wanted."""
        if self.offsets and not self.offsets.holds(record.offset):
            return False
        if self.times and not self.times.holds(record.timestamp):
            return False
        if self.key is None:
            return True
        return record.key is not None and bool(self.key.search(bytes(record.key).decode("utf-8", "replace")))


def selected_batches(
    source: Source, selection: Selection, start: int = 0, stop: int | None = None
) -> Iterator[Batch | Damage]:
    """Yield the batches that may hold wanted records, and all damage met on the way.

    Args:
        source: the log.
        selection: the filters.
        start: position to begin at, see :func:`start_position`.
        stop: position to end at, None for the end of the file.
    """
    behind = 0
    for row in walk(source, start, stop):
        if isinstance(row, Damage):
            if not is_cut(row, source, stop):
                yield row
            continue
        if selection.keeps_batch(row):
            yield row
        end = selection.offsets.end if selection.offsets else None
        beyond = end is not None and row.base_offset is not None and row.base_offset >= end
        behind = behind + 1 if beyond else 0
        # One batch beyond the end may be a flipped offset, which no checksum covers; two are not.
        if behind > 1:
            return


def is_cut(damage: Damage, source: Source, stop: int | None) -> bool:
    """Whether damage is a whole batch that reaches over the end which the caller has made."""
    return damage.reason == "truncated" and damage.end == stop and stop < source.size


def start_position(log: Source, index: Source | None, base_offset: int | None, offset: int | None) -> int:
    """Return a position at or before the first batch with ``offset``, 0 if the index does not help.

    An index has no checksum. Its entry is taken only if a batch with a valid checksum stands at the position and does
    not begin behind the offset.
    """
    if index is None or base_offset is None or offset is None:
        return 0
    position = _index_lookup(index, offset - base_offset)
    if not 0 < position < log.size:
        return 0
    row = next(iter(walk(log, position)), None)
    sound = isinstance(row, Batch) and row.crc_valid and row.base_offset is not None and row.base_offset <= offset
    return position if sound else 0


def _index_lookup(index: Source, relative_offset: int) -> int:
    """Return the position of the last entry whose offset is not above the wanted one, by binary search."""
    low, high = 0, index.size // ENTRY.size
    found = 0
    while low < high:
        middle = (low + high) // 2
        data = index.read(middle * ENTRY.size, ENTRY.size)
        if len(data) < ENTRY.size:
            return 0
        entry_offset, position = ENTRY.unpack_from(data)
        # Behind the last entry a preallocated index is zero.
        if entry_offset > relative_offset or (entry_offset == 0 and position == 0):
            high = middle
        else:
            low, found = middle + 1, position
    return found
