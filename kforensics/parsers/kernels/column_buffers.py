"""Where the columns that kernels make stand in their output: one area of memory, laid out the same each time.

Memory that is never touched costs nothing, so there is room for the largest block and for the largest batch behind it.
"""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Iterable
from itertools import accumulate
from typing import Any

from kforensics.parsers.kernels.request import OWN, SLACK

__all__ = [
    "BATCH_AREA",
    "BATCH_WIDTHS",
    "BUDGET",
    "COLUMNS",
    "CONTROLS",
    "COPY_HEADERS",
    "COPY_KEYS",
    "COPY_VALUES",
    "DATA_ROOM",
    "EPOCHS",
    "HEADERS",
    "HEADERS_ROOM",
    "HEADER_KEY_BYTES",
    "HEADER_VALUE_BYTES",
    "HORIZONS",
    "IN_BATCHES",
    "IN_RECORDS",
    "KEY_BYTES",
    "NO_CODE",
    "NULL_HEADER_VALUES",
    "NULL_KEYS",
    "NULL_VALUES",
    "PAYLOADS",
    "RECORD_AREA",
    "RECORD_WIDTHS",
    "ROOM",
    "ROWS",
    "SAVED",
    "SOFT_BYTES",
    "SOFT_ROWS",
    "TAKEN",
    "VALUE_BYTES",
]

# In: address of the output, and the most bytes the records of a batch may have, compressed or not.
COLUMNS, BUDGET = range(OWN, OWN + 2)
# Out: rows, and how many of them are null where that may be: keys, values; rows of control batches, rows with a
# coordinator epoch, batches with a delete horizon.
ROWS, NULL_KEYS, NULL_VALUES, CONTROLS, EPOCHS, HORIZONS = range(OWN + 2, OWN + 8)
# Out: headers of all records, those without a value, and bytes of everything that has no width of its own.
HEADERS, NULL_HEADER_VALUES, KEY_BYTES, VALUE_BYTES, HEADER_KEY_BYTES, HEADER_VALUE_BYTES = range(OWN + 8, OWN + 14)
# Out: bytes of the records taken, which no column can have more of.
TAKEN = OWN + 14
# In: the sum of which of these are copied at all.
PAYLOADS = OWN + 15
COPY_KEYS, COPY_VALUES, COPY_HEADERS = 1, 2, 4
# So many slots behind each of these stands what it was before the batch at hand.
SAVED = 16

# In place of the number of a word where there is none.
NO_CODE = -1
# A block ends behind the batch that reaches one of these; the largest batch that kernels read still fits then.
SOFT_ROWS, SOFT_BYTES = 1 << 16, 1 << 22
ROOM, HEADERS_ROOM, DATA_ROOM = 1 << 18, 1 << 19, 3 << 22

# Bytes of a number in each column. ``…_ends`` tell where the bytes of a row end in the data of all rows, after a first
# 0; codes tell which word it is.
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
    "control_type": 4,
    "coordinator_epoch": 4,
    "has_epoch": 1,
}


def _sizes(widths: dict[str, int], room: int) -> dict[str, int]:
    # One more for the 0 before the ends of rows.
    return {name: width * (room + 1) for name, width in widths.items()}


def _laid_out(sizes: dict[str, int]) -> tuple[Any, int]:
    """Return the offsets of the columns by name, as a tuple of constants, and the size of all of them."""
    padded: Iterable[int] = (-(-size // SLACK) * SLACK + SLACK for size in sizes.values())
    offsets = [0, *accumulate(padded)]
    # The compiler reads a tuple of constants by name; they are too many to write down twice.
    make: Any = namedtuple  # noqa: PYI024  # see the line above
    places = make("Places", tuple(sizes))
    return places(*offsets[:-1]), offsets[-1]


IN_RECORDS, RECORD_AREA = _laid_out(
    _sizes(RECORD_WIDTHS, ROOM) | _sizes(HEADER_WIDTHS, HEADERS_ROOM) | dict.fromkeys(DATA_COLUMNS, DATA_ROOM),
)
IN_BATCHES, BATCH_AREA = _laid_out(_sizes(BATCH_WIDTHS, ROOM))
