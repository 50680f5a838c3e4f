"""A producer snapshot as PRODUCER_ENTRY records; an object per producer would take too much memory.

Even these records of several million producers are hundreds of MB, so they can be read in ranges of producer ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.producer_states import PRODUCER_ENTRY, ProducerEntryArray, ProducerStates, entry_records
from kforensics.forensics.core.record_types import PRODUCER, ProducerArray
from kforensics.parsers.files.source import Source, open_source
from kforensics.parsers.format.array_types import BoolArray, IntArray, StructArray
from kforensics.parsers.state.entries import chunks
from kforensics.parsers.state.producer_snapshot import ENTRY, HEADER, VERSION, snapshot_crc

__all__ = [
    "FAR_FUTURE",
    "SnapshotEntries",
    "are_idle",
    "boundary_states",
    "is_latest",
    "latest_entries",
    "paired_blocks",
    "snapshot_entries",
    "snapshot_records",
]

NONE = -1
FAR_FUTURE = int(np.iinfo("i8").max)
NO_RECORDS, NO_ENTRIES = np.zeros(0, PRODUCER), np.zeros(0, PRODUCER_ENTRY)

# The file has them in no order. So many are held while those of a range of producer ids are collected.
RANGE = 1 << 19
# Approximate number of entries in a block.
BLOCK = 1 << 17


@dataclass(frozen=True, slots=True)
class SnapshotEntries:
    """The entries of a snapshot that a broker accepts. Each iteration reads the file, once per RANGE entries or more.

    Attributes:
        path: path of the snapshot.
        count: number of entries.
    """

    path: str
    count: int

    def __len__(self) -> int:
        return self.count

    def chunks(self) -> Iterator[ProducerEntryArray]:
        """Yield the entries as PRODUCER_ENTRY records, in the order of the file.

        Raises:
            InputError: the file cannot be read.
        """
        with open_source(self.path) as source:
            for _, data in chunks(source, HEADER.size, HEADER.size + self.count * ENTRY.size, ENTRY.size):
                yield _entries(np.frombuffer(data, ENTRY.dtype, len(data) // ENTRY.size))

    def blocks(self) -> Iterator[ProducerEntryArray]:
        """Yield the entries sorted by producer id, at least one block; several of one producer are in one block.

        Raises:
            InputError: the file cannot be read.
        """
        for first, end in self._ranges():
            parts = (part.compress(_is_within(part["producer_id"], first, end)) for part in self.chunks())
            entries = _sorted_entries(parts)
            ids = np.ascontiguousarray(entries["producer_id"])
            yield from np.split(entries, np.unique(ids.searchsorted(ids[BLOCK::BLOCK])))

    def _ranges(self) -> Iterator[tuple[int | None, int | None]]:
        """Yield the first producer id of ranges and the one after the last, None where there is no limit."""
        if self.count <= RANGE:
            yield None, None
            return
        ids = np.sort(np.concatenate([np.ascontiguousarray(part["producer_id"]) for part in self.chunks()]))
        limits = np.unique(ids[RANGE::RANGE]).tolist()
        del ids
        yield from zip([None, *limits], [*limits, None], strict=True)

    def oldest_idle_timestamp(self) -> int:
        """Return the oldest last timestamp of the producers that may expire, FAR_FUTURE if there is none."""
        oldest = (int(part["last_timestamp"][are_idle(part)].min(initial=FAR_FUTURE)) for part in self.chunks())
        return min(oldest, default=FAR_FUTURE)

    def of(self, producer_ids: IntArray) -> ProducerEntryArray:
        """Return the entries of some producers, sorted by producer id; of several for a producer, all."""
        parts = (part[np.isin(part["producer_id"], producer_ids)] for part in self.chunks())
        return _sorted_entries(parts)


def are_idle(entries: ProducerEntryArray) -> BoolArray:
    """Return which producers have no open transaction, and may expire."""
    idle: BoolArray = (entries["current_txn_first_offset"] < 0) & (entries["last_timestamp"] > 0)
    return idle


def snapshot_entries(path: str, *, ignores_tail: bool = False) -> SnapshotEntries | None:
    """Return the entries of a snapshot, None if a broker would reject the file.

    Rule: ``ProducerStateManager.readSnapshot``.

    Args:
        path: path of the snapshot.
        ignores_tail: also accept a file whose entries are followed by the rest of an older, longer one. A broker
            rejects it, because the checksum must cover the whole file; its entries are nevertheless valid.
    """
    try:
        with open_source(path) as source:
            return _verified(path, source, ignores_tail=ignores_tail)
    except InputError:
        return None


def _verified(path: str, source: Source, *, ignores_tail: bool) -> SnapshotEntries | None:
    head = source.read(0, HEADER.size)
    if len(head) < HEADER.size:
        return None
    version, crc, count = HEADER.unpack_from(head)
    end = HEADER.size + max(count, 0) * ENTRY.size
    is_sound = version == VERSION and count >= 0 and (source.size == end or (ignores_tail and source.size > end))
    return SnapshotEntries(path, count) if is_sound and crc == snapshot_crc(source, end) else None


def snapshot_records(path: str, *, ignores_tail: bool = False) -> ProducerArray | None:
    """Return the producers in a snapshot as PRODUCER records, sorted by id; None if a broker would reject the file.

    Args:
        path: path of the snapshot.
        ignores_tail: see :func:`snapshot_entries`.
    """
    entries = snapshot_entries(path, ignores_tail=ignores_tail)
    try:
        return None if entries is None else entry_records(_sorted_entries(entries.chunks()))
    except InputError:
        return None


def boundary_states(path: str) -> ProducerStates | None:
    """Return the producers that a replay from a snapshot starts with, None if its entries cannot be trusted.

    Args:
        path: path of the snapshot, which may be followed by the rest of an older one.
    """
    snapshot = snapshot_entries(path, ignores_tail=True)
    if snapshot is None:
        return None
    entries, end = np.empty(len(snapshot), PRODUCER_ENTRY), 0
    try:
        for block in snapshot.blocks():
            latest = latest_entries(block)
            start, end = end, end + len(latest)
            entries[start:end] = latest
    except InputError:
        return None
    entries = entries[:end]
    # A producer without a batch has neither sequences nor offsets, whatever its entry contains.
    has_no_batch = np.flatnonzero(entries["last_offset"] < 0)
    for name, value in (("last_sequence", NONE), ("last_offset", NONE), ("offset_delta", 0)):
        entries[name][has_no_batch] = value
    entries["current_txn_first_offset"][entries["current_txn_first_offset"] < 0] = NONE
    return ProducerStates(NO_RECORDS, entries)


def paired_blocks(
    snapshot: SnapshotEntries, states: ProducerStates
) -> Iterator[tuple[ProducerEntryArray, ProducerArray]]:
    """Yield the entries of a snapshot and the producers of a replay in blocks of the same ranges of producer ids.

    Args:
        snapshot: the snapshot; all entries of a producer are in one block.
        states: the producers of the replay.

    Raises:
        InputError: the snapshot cannot be read.
    """
    ids = states["producer_id"]
    blocks, start = snapshot.blocks(), 0
    block, following = next(blocks), next(blocks, None)
    while True:
        end = (
            len(ids)
            if following is None
            else int(ids.searchsorted(block["producer_id"][-1:], "right").max(initial=start))
        )
        cuts = range(start + BLOCK, end, BLOCK)
        parts = np.split(block, block["producer_id"].searchsorted(ids[cuts]))
        for part, first in zip(parts, (start, *cuts), strict=True):
            yield part, states[first : min(first + BLOCK, end)]
        if following is None:
            return
        start, block, following = end, following, next(blocks, None)


def latest_entries(entries: ProducerEntryArray) -> ProducerEntryArray:
    """Return the entries as a broker loads them: of several entries for a producer, the last one."""
    return entries.compress(is_latest(entries))


def is_latest(entries: ProducerEntryArray) -> BoolArray:
    """Return which entries, sorted by producer id, are not followed by another one for the same producer."""
    return np.append(entries["producer_id"][1:] != entries["producer_id"][:-1], [True])[: len(entries)]


def _sorted_entries(parts: Iterable[ProducerEntryArray]) -> ProducerEntryArray:
    entries = np.concatenate([NO_ENTRIES, *parts])
    return entries.take(np.argsort(entries["producer_id"], kind="stable"))


def _entries(stored: StructArray) -> ProducerEntryArray:
    """Return entries with the byte order of this machine and the names of PRODUCER."""
    entries = np.empty(len(stored), PRODUCER_ENTRY)
    for name in PRODUCER_ENTRY.names or ():
        entries[name] = stored["timestamp" if name == "last_timestamp" else name]
    return entries


def _is_within(ids: IntArray, first: int | None, end: int | None) -> BoolArray:
    is_within = np.ones(len(ids), bool) if first is None else ids >= first
    return is_within if end is None else is_within & (ids < end)
