"""Filters for batches and records, and the position in a log from which to search for an offset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Protocol

from kforensics.parsers.files.source import Source
from kforensics.parsers.format.derived import fixed_layout
from kforensics.parsers.format.layouts import OFFSET_INDEX_ENTRY
from kforensics.parsers.format.rows import Batch, Damage, Record
from kforensics.parsers.log.batches import walk

ENTRY = fixed_layout(OFFSET_INDEX_ENTRY)
MIN_INT64, MAX_INT64 = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class HalfOpenRange:
    """A half-open range; None means unbounded."""

    first: int | None = None
    end: int | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The first and the last int64 of the range; if there is none, the first is larger."""
        first = MIN_INT64 if self.first is None else self.first
        last = MAX_INT64 if self.end is None else self.end - 1
        if first > min(last, MAX_INT64) or last < MIN_INT64:
            return MAX_INT64, MIN_INT64
        return max(first, MIN_INT64), min(last, MAX_INT64)

    def contains(self, value: int) -> bool:
        """Return whether a value is in the range."""
        return (self.first is None or value >= self.first) and (self.end is None or value < self.end)

    def overlaps(self, first: int, last: int) -> bool:
        """Return whether any value from ``first`` to ``last`` is in the range."""
        return (self.first is None or last >= self.first) and (self.end is None or first < self.end)


class BatchHeaders(Protocol):
    """The headers of batches as columns of int64; what the format of a batch does not define is the smallest int64."""

    def __len__(self) -> int:
        """Return the number of batches."""

    def __getitem__(self, name: str) -> Any:
        """Return a column by name, see ``kernels.request.HeaderColumns``."""


@dataclass(frozen=True, slots=True)
class Selection:
    """Filters for batches and records; a filter that is None matches everything.

    Attributes:
        offsets: offsets of records.
        times: timestamps of records in ms.
        producer_id: producer id of the batch.
        producer_epoch: producer epoch of the batch.
        leader_epoch: partition leader epoch of the batch.
        transactional: only transactional batches (True) or only others (False).
        control: only control batches (True) or only others (False).
        key: pattern to search for in the key as text; a null key does not match.
    """

    offsets: HalfOpenRange | None = None
    times: HalfOpenRange | None = None
    producer_id: int | None = None
    producer_epoch: int | None = None
    leader_epoch: int | None = None
    transactional: bool | None = None
    control: bool | None = None
    key: re.Pattern[str] | None = None

    @property
    def picks_records(self) -> bool:
        """Whether a selected batch can contain records that are not selected."""
        return self.offsets is not None or self.times is not None or self.key is not None

    def keeps_batch(self, batch: Batch) -> bool:
        """Return whether a batch can contain selected records."""
        pairs = (
            (self.producer_id, batch.producer_id),
            (self.producer_epoch, batch.producer_epoch),
            (self.leader_epoch, batch.partition_leader_epoch),
            (self.transactional, batch.is_transactional),
            (self.control, batch.is_control),
        )
        if any(wanted is not None and wanted != actual for wanted, actual in pairs):
            return False
        first = 0 if batch.base_offset is None else batch.base_offset
        if self.offsets and not self.offsets.overlaps(first, batch.last_offset):
            return False
        # Before the records are read, only the largest timestamp of a batch is known.
        return self.times is None or self.times.first is None or batch.max_timestamp >= self.times.first

    def keeps_batches(self, headers: BatchHeaders) -> Any:
        """Return :meth:`keeps_batch` for many batches, as an array.

        Args:
            headers: the headers of the batches.
        """
        import numpy as np  # few dumps select anything

        keeps = np.ones(len(headers), bool)
        for name, wanted in (
            ("producer_id", self.producer_id),
            ("producer_epoch", self.producer_epoch),
            ("partition_leader_epoch", self.leader_epoch),
            ("is_transactional", self.transactional),
            ("is_control", self.control),
        ):
            if wanted is not None:
                keeps &= headers[name] == wanted if MIN_INT64 < wanted <= MAX_INT64 else False
        if self.offsets:
            least, most = self.offsets.bounds
            base_offset = np.where(headers["base_offset"] == MIN_INT64, 0, headers["base_offset"])
            keeps &= (headers["last_offset"] >= least) & (base_offset <= most)
        if self.times and self.times.first is not None:
            least, _ = self.times.bounds
            keeps &= headers["max_timestamp"] >= least
        return keeps

    def record_bounds(self) -> tuple[int, int, int, int]:
        """Return the least and the most offset, and the least and the most time, of records that are selected."""
        everything = HalfOpenRange()
        return (*(self.offsets or everything).bounds, *(self.times or everything).bounds)

    def keeps_record(self, record: Record) -> bool:
        """Return whether a record of a selected batch is selected."""
        if self.offsets and not self.offsets.contains(record.offset):
            return False
        if self.times and not self.times.contains(record.timestamp):
            return False
        if self.key is None:
            return True
        return record.key is not None and bool(self.key.search(bytes(record.key).decode("utf-8", "replace")))


def selected_batches(
    source: Source, selection: Selection, start: int = 0, stop: int | None = None
) -> Iterator[Batch | Damage]:
    """Yield the batches that can contain selected records, and all damage between them.

    Args:
        source: the log.
        selection: the filters.
        start: position to begin at, see :func:`start_position`.
        stop: position to end at, None for the end of the file.
    """
    beyond = 0
    for row in walk(source, start, stop):
        if isinstance(row, Damage):
            if not is_cut_at_stop(row, source, stop):
                yield row
            continue
        if selection.keeps_batch(row):
            yield row
        end = selection.offsets.end if selection.offsets else None
        is_beyond = end is not None and row.base_offset is not None and row.base_offset >= end
        beyond = beyond + 1 if is_beyond else 0
        # A single batch beyond the end may have a corrupt offset, which no checksum covers; two in a row do not.
        if beyond > 1:
            return


def is_cut_at_stop(damage: Damage, source: Source, stop: int | None) -> bool:
    """Return whether damage is only a batch that extends past the position at which the caller stops."""
    return damage.reason == "truncated" and damage.end == stop and stop < source.size


def start_position(log: Source, index: Source | None, base_offset: int | None, offset: int | None) -> int:
    """Return a position at or before the first batch with ``offset``, 0 if the index does not help.

    An index has no checksum. Its entry is used only if there is a batch with a valid checksum at the position whose
    base offset is not larger than the offset.
    """
    if index is None or base_offset is None or offset is None:
        return 0
    position = _index_lookup(index, offset - base_offset)
    if not 0 < position < log.size:
        return 0
    row = next(iter(walk(log, position)), None)
    is_valid = isinstance(row, Batch) and row.crc_valid and row.base_offset is not None and row.base_offset <= offset
    return position if is_valid else 0


def _index_lookup(index: Source, relative_offset: int) -> int:
    """Return the log position of the last entry whose offset is not larger, by binary search; 0 if there is none."""
    low, high = 0, index.size // ENTRY.size
    result = 0
    while low < high:
        middle = (low + high) // 2
        data = index.read(middle * ENTRY.size, ENTRY.size)
        if len(data) < ENTRY.size:
            return 0
        entry_offset, position = ENTRY.unpack_from(data)
        # A preallocated index has zeros after its last entry.
        if entry_offset > relative_offset or (entry_offset == 0 and position == 0):
            high = middle
        else:
            low, result = middle + 1, position
    return result
