"""Layout of the memory that kernels write columns to. It is the same for every block.

Untouched memory costs nothing, so there is room for the largest block and the largest batch after it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, NamedTuple

from kforensics.parsers.kernels.request import FIRST_KERNEL_SLOT, SLACK


class ColumnSlots(NamedTuple):
    """Slot numbers of the column kernels, as constants that the compiler reads by name."""

    # In: address of the output, and the maximum size of a batch's records, compressed or not.
    output: int
    budget: int
    # Out: rows; null keys and values; rows of control batches; rows with a coordinator epoch; batches with a delete
    # horizon.
    rows: int
    null_keys: int
    null_values: int
    control_rows: int
    epoch_rows: int
    horizon_rows: int
    # Out: headers of all records, null header values, and bytes of the columns with values of variable size.
    headers: int
    null_header_values: int
    key_bytes: int
    value_bytes: int
    header_key_bytes: int
    header_value_bytes: int
    # Out: bytes of the processed records, an upper limit for each of the columns above.
    record_bytes: int
    # In: the sum of the flags below: what to copy at all.
    copied_fields: int
    # In: 0 to decline entries of formats 0 and 1.
    takes_legacy: int


COLUMN_SLOT = ColumnSlots(*range(FIRST_KERNEL_SLOT, FIRST_KERNEL_SLOT + len(ColumnSlots._fields)))
COPY_KEYS, COPY_VALUES, COPY_HEADERS = 1, 2, 4
# The slots that count output.
COUNTERS = tuple(range(COLUMN_SLOT.rows, COLUMN_SLOT.copied_fields))
# Distance from a counter to the slot with its value before the current batch.
SAVED = len(COLUMN_SLOT)

# In place of the number of a label: there is none.
NO_CODE = -1
# A block ends after the batch that reaches one of these; the largest batch that kernels read still fits then.
SOFT_ROWS, SOFT_BYTES = 1 << 16, 1 << 22
MAX_ROWS, MAX_HEADERS, MAX_DATA_BYTES = 1 << 18, 1 << 19, 3 << 22

# Bytes per number in each column. An ``…_ends`` column contains the end of each row's bytes, after an initial 0. The
# columns of types contain the numbers of labels.
RECORD_WIDTHS = {
    "batch_position": 8,
    "offset": 8,
    "timestamp": 8,
    "timestamp_type": 4,
    "sequence": 4,
    "key_size": 4,
    "value_size": 4,
    "control_type": 4,
    "coordinator_epoch": 4,
    "has_epoch": 1,
    "key_ends": 4,
    "value_ends": 4,
    "header_ends": 4,
}
HEADER_WIDTHS = {"header_key_ends": 4, "header_value_ends": 4, "header_has_value": 1}
DATA_COLUMNS = ("keys", "values", "header_keys", "header_values")
BATCH_WIDTHS = {
    "position": 8,
    "size": 4,
    "base_offset": 8,
    "last_offset": 8,
    "count": 4,
    "partition_leader_epoch": 4,
    "crc": 8,
    "attributes": 2,
    "compression_type": 4,
    "timestamp_type": 4,
    "is_transactional": 1,
    "is_control": 1,
    "has_delete_horizon": 1,
    "base_timestamp": 8,
    "max_timestamp": 8,
    "producer_id": 8,
    "producer_epoch": 2,
    "base_sequence": 4,
    "last_sequence": 4,
    "magic": 1,
    "control_type": 4,
    "coordinator_epoch": 4,
    "has_epoch": 1,
}


def _sizes(widths: dict[str, int], rows: int) -> dict[str, int]:
    # One more for the 0 before the ends of the rows.
    return {name: width * (rows + 1) for name, width in widths.items()}


def _layout(sizes: dict[str, int]) -> tuple[Any, int]:
    """Return the offsets of the columns by name, as a tuple of constants, and the size of all columns."""
    padded: Iterable[int] = (-(-size // SLACK) * SLACK + SLACK for size in sizes.values())
    offsets = [0, *accumulate(padded)]
    # The compiler reads a tuple of constants by name. A NamedTuple class would repeat all the names.
    new_type: Any = namedtuple  # noqa: PYI024  # see the line above
    return new_type("ColumnOffsets", tuple(sizes))(*offsets[:-1]), offsets[-1]


RECORD_LAYOUT, RECORD_AREA = _layout(
    _sizes(RECORD_WIDTHS, MAX_ROWS) | _sizes(HEADER_WIDTHS, MAX_HEADERS) | dict.fromkeys(DATA_COLUMNS, MAX_DATA_BYTES),
)
BATCH_LAYOUT, BATCH_AREA = _layout(_sizes(BATCH_WIDTHS, MAX_ROWS))
