"""Where the kernel that hashes records puts what it finds: columns of eight bytes a number, one behind the other.

Also the constants of the hash; what they mean stands in :mod:`kforensics.parsers.columns.content_hash`.
"""

from __future__ import annotations

from kforensics.parsers.kernels.column_buffers import BUDGET, COLUMNS, ROOM, ROWS, SOFT_ROWS

__all__ = [
    "BATCH_COLUMNS",
    "BATCH_ROWS",
    "BUDGET",
    "COLUMNS",
    "COLUMN_SIZE",
    "FIRST_MULTIPLIER",
    "FIRST_SHIFT",
    "HASH_AREA",
    "IN_COLUMNS",
    "LAST_SHIFT",
    "RECORD_COLUMNS",
    "ROOM",
    "ROWS",
    "SECOND_MULTIPLIER",
    "SECOND_SHIFT",
    "SOFT_ROWS",
    "STEP",
]

# Out: batches that have records in the columns.
BATCH_ROWS = ROWS + 1

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
COLUMN_SIZE = 8 * ROOM
IN_COLUMNS = {name: COLUMN_SIZE * index for index, name in enumerate((*RECORD_COLUMNS, *BATCH_COLUMNS))}
HASH_AREA = COLUMN_SIZE * len(IN_COLUMNS)


def _signed(number: int) -> int:
    # Kernels know int64 only.
    return number - (1 << 64) if number >> 63 else number


# The golden ratio and the mixer of Steele, Lea and Flood's SplitMix64.
STEP = _signed(0x9E3779B97F4A7C15)
FIRST_MULTIPLIER, SECOND_MULTIPLIER = _signed(0xBF58476D1CE4E5B9), _signed(0x94D049BB133111EB)
FIRST_SHIFT, SECOND_SHIFT, LAST_SHIFT = 30, 27, 31
