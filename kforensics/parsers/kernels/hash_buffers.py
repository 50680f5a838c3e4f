"""Layout of the memory that the hash kernel writes to: columns of eight bytes per number, one after the other.

Also the constants of the hash, whose meaning is explained in :mod:`kforensics.parsers.columns.content_hash`.
"""

from __future__ import annotations

from typing import NamedTuple

from kforensics.parsers.kernels.column_buffers import MAX_ROWS
from kforensics.parsers.kernels.request import FIRST_KERNEL_SLOT


class HashSlots(NamedTuple):
    """Slot numbers of the hash kernel, as constants that the compiler reads by name."""

    # In: address of the output, and the maximum size of a batch's records, compressed or not.
    output: int
    budget: int
    # Out: records, and batches that have records among them.
    rows: int
    batch_rows: int


HASH_SLOT = HashSlots(*range(FIRST_KERNEL_SLOT, FIRST_KERNEL_SLOT + len(HashSlots._fields)))
RECORD_COLUMNS = ("offset", "timestamp", "low", "high", "emptiness", "is_keyless")
BATCH_COLUMNS = (
    "position",
    "records",
    "base_offset",
    "producer_id",
    "producer_epoch",
    "base_sequence",
    "attributes",
    "magic",
    "last_offset",
    "max_timestamp",
    "is_whole",
)
COLUMN_SIZE = 8 * MAX_ROWS
COLUMN_OFFSETS = {name: COLUMN_SIZE * index for index, name in enumerate((*RECORD_COLUMNS, *BATCH_COLUMNS))}
HASH_AREA = COLUMN_SIZE * len(COLUMN_OFFSETS)


def _signed(number: int) -> int:
    # Kernels know int64 only.
    return number - (1 << 64) if number >> 63 else number


# The golden ratio and the mixer of Steele, Lea and Flood's SplitMix64.
STEP = _signed(0x9E3779B97F4A7C15)
FIRST_MULTIPLIER, SECOND_MULTIPLIER = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)
FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = 30, 27, 31
