"""The state of many producers, in a quarter of the memory of PRODUCER records where a snapshot describes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, overload

import numpy as np

from kforensics.forensics.core.record_types import NO_TIME, PRODUCER, ProducerArray
from kforensics.parsers.format.array_types import BoolArray, IntArray

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["PRODUCER_ENTRY", "ProducerEntryArray", "ProducerStates", "entry_records"]

# What a snapshot has of a producer: PRODUCER without the recent batches.
PRODUCER_ENTRY = np.dtype([(name, PRODUCER[name]) for name in PRODUCER.names or () if not name.startswith("recent")])
ProducerEntryArray: TypeAlias = "npt.NDArray[np.void]"
NO_ENTRIES = np.zeros(0, PRODUCER_ENTRY)


def entry_records(entries: ProducerEntryArray) -> ProducerArray:
    """Return PRODUCER records of entries; the only recent batch is the last one, if the entry has it."""
    producers = np.zeros(len(entries), PRODUCER)
    for name in PRODUCER_ENTRY.names or ():
        producers[name] = entries[name]
    recent = producers["recent"]
    recent["last_sequence"], recent["last_offset"], recent["timestamp"] = -1, -1, NO_TIME
    has_batch = entries["last_offset"] >= 0
    producers["recent_count"] = has_batch
    for name in ("last_sequence", "last_offset", "offset_delta"):
        recent[name][has_batch, 0] = entries[name][has_batch]
    recent["timestamp"][has_batch, 0] = entries["last_timestamp"][has_batch]
    return producers


class ProducerStates:
    """PRODUCER records sorted by producer id, one per producer.

    ``states["last_offset"]`` is a column of all of them, ``states[10:20]``, with a mask or with indexes, an array of
    records. Other columns than those of PRODUCER_ENTRY are in the records only.

    Args:
        records: PRODUCER records, sorted by producer id.
        entries: PRODUCER_ENTRY records of other producers, sorted by producer id; ``records`` replace those of the same
            producers.
    """

    def __init__(self, records: ProducerArray, entries: ProducerEntryArray = NO_ENTRIES) -> None:
        self.records, self.entries = records, entries
        if len(entries):
            self._place()

    def _place(self) -> None:
        """Find out which records replace entries, and where the others are among them."""
        ids, records = np.ascontiguousarray(self.entries["producer_id"]), self.records
        self._targets = ids.searchsorted(records["producer_id"])
        is_new = np.ones(len(records), bool)
        within = self._targets < len(ids)
        is_new[within] = ids[self._targets[within]] != records["producer_id"][within]
        self._new, self._replacing = np.flatnonzero(is_new), np.flatnonzero(~is_new)
        # The indexes of the new producers among all.
        self._inserted = self._targets[self._new] + np.arange(len(self._new))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.records, self.entries)

    def __len__(self) -> int:
        return len(self.entries) + len(self._new) if len(self.entries) else len(self.records)

    def __iter__(self) -> Iterator[Any]:
        return iter(self[:])

    @overload
    def __getitem__(self, key: str) -> npt.NDArray[Any]: ...
    @overload
    def __getitem__(self, key: Any) -> ProducerArray: ...
    def __getitem__(self, key: Any) -> Any:
        if not len(self.entries):
            return self.records[key]
        return self._column(key) if isinstance(key, str) else self._rows(key)

    def without_transactions_before(self, offset: int) -> ProducerStates:
        """Return the states without the open transactions that begin below an offset."""
        return ProducerStates(*(_without_transactions_before(rows, offset) for rows in (self.records, self.entries)))

    def without_transactions_of(self, producer_ids: IntArray) -> ProducerStates:
        """Return the states without the open transactions of some producers."""
        return ProducerStates(
            *(_ended(rows, np.isin(rows["producer_id"], producer_ids)) for rows in (self.records, self.entries))
        )

    def with_transactions(self, producer_ids: IntArray, first_offsets: IntArray) -> ProducerStates:
        """Return the states with other open transactions of some producers.

        Args:
            producer_ids: the producers, each once.
            first_offsets: the first offset of the transaction of each, -1 for none.
        """
        parts = [rows.copy() for rows in (self.records, self.entries)]
        for rows in parts:
            _, known, given = np.intersect1d(rows["producer_id"], producer_ids, return_indices=True)
            rows["current_txn_first_offset"][known] = first_offsets[given]
        return ProducerStates(*parts)

    def _column(self, name: str) -> npt.NDArray[Any]:
        column = self.entries[name].copy()  # of a single entry, a contiguous array would be a view
        column[self._targets[self._replacing]] = self.records[name][self._replacing]
        return np.insert(column, self._targets[self._new], self.records[name][self._new]) if len(self._new) else column

    def _rows(self, key: Any) -> ProducerArray:
        indexes = np.arange(len(self))[key]
        before = self._inserted.searchsorted(indexes, "right")
        is_new = np.zeros(len(indexes), bool)
        is_new[before > 0] = self._inserted[before[before > 0] - 1] == indexes[before > 0]
        rows = np.zeros(len(indexes), PRODUCER)
        rows[is_new] = self.records[self._new[before[is_new] - 1]]
        numbers = (indexes - before)[~is_new]
        known = entry_records(self.entries[numbers])
        replaced = self._targets[self._replacing]
        ranks = np.minimum(replaced.searchsorted(numbers), max(0, len(replaced) - 1))
        if len(replaced):
            is_replaced = replaced[ranks] == numbers
            known[is_replaced] = self.records[self._replacing[ranks[is_replaced]]]
        rows[~is_new] = known
        return rows


def _without_transactions_before(rows: npt.NDArray[np.void], offset: int) -> npt.NDArray[np.void]:
    firsts = rows["current_txn_first_offset"]
    return _ended(rows, (firsts >= 0) & (firsts < offset))


def _ended(rows: npt.NDArray[np.void], has_ended: BoolArray) -> npt.NDArray[np.void]:
    """Return rows after the open transactions of some have ended."""
    if not has_ended.any():
        return rows
    ended = rows.copy()
    ended["current_txn_first_offset"][has_ended] = -1
    return ended
