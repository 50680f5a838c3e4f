"""A producer snapshot as PRODUCER records: an object per producer would take too much memory for a million of them."""

from __future__ import annotations

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.record_types import NO_TIME, PRODUCER, ProducerArray
from kforensics.forensics.partition.partition_files import Partition
from kforensics.parsers.files.source import BytesSource, open_source
from kforensics.parsers.format.array_types import StructArray
from kforensics.parsers.state.producer_snapshot import ENTRY, HEADER, VERSION, snapshot_crc

__all__ = ["latest_entries", "snapshot_at", "snapshot_records"]

ENTRY_FIELDS = ("producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "coordinator_epoch")


def snapshot_records(path: str, *, ignores_tail: bool = False) -> ProducerArray | None:
    """Return the producers in a snapshot, sorted by id; None if a broker would reject the file.

    Rule: ``ProducerStateManager.readSnapshot``.

    Args:
        path: path of the snapshot.
        ignores_tail: also accept a file whose entries are followed by the rest of an older, longer one. A broker
            rejects it, because the checksum must cover the whole file; its entries are nevertheless valid.
    """
    try:
        with open_source(path) as source:
            data = source.read(0, source.size)
    except InputError:
        return None
    if len(data) < HEADER.size:
        return None
    version, crc, count = HEADER.unpack_from(data)
    end = HEADER.size + max(count, 0) * ENTRY.size
    is_sound = version == VERSION and count >= 0 and (len(data) == end or (ignores_tail and len(data) > end))
    if not is_sound or crc != snapshot_crc(BytesSource(data), end):
        return None
    return _producers(np.frombuffer(data, ENTRY.dtype, count, HEADER.size))


def snapshot_at(partition: Partition, offset: int) -> ProducerArray | None:
    """Return the producers in the snapshot of a partition at an offset; None without one that a broker would accept."""
    snapshot = partition.snapshots.get(offset)
    return snapshot_records(snapshot.path) if snapshot else None


def _producers(entries: StructArray) -> ProducerArray:
    producers = np.zeros(len(entries), PRODUCER)
    for name in (*ENTRY_FIELDS, "current_txn_first_offset"):
        producers[name] = entries[name]
    producers["last_timestamp"] = entries["timestamp"]
    recent = producers["recent"]
    recent["last_sequence"], recent["last_offset"], recent["timestamp"] = -1, -1, NO_TIME
    has_batch = producers["last_offset"] >= 0
    producers["recent_count"] = has_batch
    for name in ("last_sequence", "last_offset", "offset_delta"):
        recent[name][has_batch, 0] = entries[name][has_batch]
    recent["timestamp"][has_batch, 0] = entries["timestamp"][has_batch]
    return producers.take(np.argsort(producers["producer_id"], kind="stable"))


def latest_entries(producers: ProducerArray) -> ProducerArray:
    """Return the producers of a snapshot as a broker loads them: of several entries for a producer, the last one."""
    is_last = np.append(producers["producer_id"][1:] != producers["producer_id"][:-1], [True])[: len(producers)]
    return producers.compress(is_last)
