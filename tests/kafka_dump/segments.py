"""Small segments with known offsets and timestamps, and index entries for them."""

import struct

from kforensics.parsers.format.checksums import reference_crc32c
from kforensics.parsers.format.layouts import BATCH_HEADER

TIME = 1700000000000


def batch(base: int, count: int = 3, *, kept: int | None = None, time: int = TIME) -> bytes:
    """Build a batch of records with values of one byte, whose timestamps rise with their offsets.

    Args:
        base: the base offset.
        count: the number of offsets.
        kept: the number of records, None for all; compaction has removed the others from the end.
        time: the timestamp of offset 0.
    """
    deltas = range(count if kept is None else kept)
    records = b"".join(bytes((14, 0, 2 * i, 2 * i, 1, 2)) + b"v\0" for i in deltas)
    latest = time + base + deltas[-1] if deltas else -1
    fields = {
        "base_offset": base,
        "length": 49 + len(records),
        "partition_leader_epoch": 0,
        "magic": 2,
        "crc": 0,
        "attributes": 0,
        "last_offset_delta": count - 1,
        "base_timestamp": time + base,
        "max_timestamp": latest,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "count": len(deltas),
    }
    data = BATCH_HEADER.build(fields) + records
    return bytes(data[:17]) + struct.pack(">I", reference_crc32c()(data[21:])) + bytes(data[21:])


def index(*entries: tuple[int, int]) -> bytes:
    """Build an ``.index`` from pairs of relative offset and position."""
    return b"".join(struct.pack(">ii", *entry) for entry in entries)


def time_index(*entries: tuple[int, int]) -> bytes:
    """Build a ``.timeindex`` from pairs of timestamp and relative offset."""
    return b"".join(struct.pack(">qi", *entry) for entry in entries)
