"""A ``.snapshot`` as PRODUCER records: with a million producers, an object for each would take too much memory."""

from __future__ import annotations

import numpy as np

from kforensics.errors import InputError
from kforensics.forensics.core.record_types import NO_TIME, PRODUCER, Records
from kforensics.parsers.files.source import BytesSource, open_source
from kforensics.parsers.state.producer_snapshot import ENTRY, HEADER, VERSION, snapshot_crc

__all__ = ["as_loaded", "snapshot_records"]

SAME = ("producer_id", "producer_epoch", "last_sequence", "last_offset", "offset_delta", "coordinator_epoch")


def snapshot_records(path: str, *, ignores_tail: bool = False) -> Records | None:
    """Return the producers in a snapshot, sorted by id; None if a broker would refuse the file.

    Rule: ``ProducerStateManager.readSnapshot``.

    Args:
        path: of the snapshot.
        ignores_tail: take a file too behind whose entries stands the rest of an older, longer one. A broker refuses it,
            for the checksum is to cover all of it; what the entries say is as good as ever.
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
    sound = version == VERSION and count >= 0 and (len(data) == end or (ignores_tail and len(data) > end))
    if not sound or crc != snapshot_crc(BytesSource(data), end):
        return None
    return _records(np.frombuffer(data, ENTRY.dtype, count, HEADER.size))


def _records(entries: Records) -> Records:
    records = np.zeros(len(entries), PRODUCER)
    for name in (*SAME, "current_txn_first_offset"):
        records[name] = entries[name]
    records["last_timestamp"] = entries["timestamp"]
    recent = records["recent"]
    recent["last_sequence"], recent["last_offset"], recent["timestamp"] = -1, -1, NO_TIME
    has_batch = records["last_offset"] >= 0
    records["recent_count"] = has_batch
    for name in ("last_sequence", "last_offset", "offset_delta"):
        recent[name][has_batch, 0] = entries[name][has_batch]
    recent["timestamp"][has_batch, 0] = entries["timestamp"][has_batch]
    return records.take(np.argsort(records["producer_id"], kind="stable"))


def as_loaded(records: Records) -> Records:
    """Return the producers of a snapshot as a broker has them then: of several entries for one, the last."""
    last = np.append(records["producer_id"][1:] != records["producer_id"][:-1], [True])[: len(records)]
    return records.compress(last)
