"""How many bytes records take before they are compressed.

Rule: ``DefaultRecord.sizeInBytes``: varints for the size of the record, its deltas, the sizes of its parts and the
number of its headers, one byte of attributes, and the parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kforensics.forensics.core.record_types import Records

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["NO_HEADERS", "header_sizes", "record_sizes", "varint_sizes"]

# The number of headers, where there are none.
NO_HEADERS = 1
ATTRIBUTES = 1
# What stands before key and value of a message of format 0 or 1, their two sizes included.
OLD_FORMATS = (26, 34)
BITS = 7
LONGEST = 10


def varint_sizes(numbers: Records) -> Records:
    """Return how many bytes each number takes as a zigzag varint.

    >>> varint_sizes(np.array([0, 63, 64, -64, -65, 8191, 8192])).tolist()
    [1, 1, 2, 1, 2, 2, 3]
    """
    folded = np.where(numbers < 0, ~numbers, numbers)
    limits = np.array([1 << (BITS * count - 1) for count in range(1, LONGEST)], "i8")
    found: Records = np.searchsorted(limits, folded, side="right") + 1
    return found


def header_sizes(headers: pa.Array) -> Records:
    """Return how many bytes the headers of each record take, the number of them included.

    Args:
        headers: lists of pairs of key and value, as the table ``records`` has them.
    """
    ends = np.frombuffer(headers.buffers()[1], "i4", len(headers) + 1, 4 * headers.offset).astype("i8")
    counts = np.diff(ends)
    if not counts.any():
        return np.full(len(headers), NO_HEADERS, "i8")
    pairs = headers.values
    each = _with_size(pairs.field(0)) + _with_size(pairs.field(1))
    before = np.concatenate([[0], np.cumsum(each)])
    found: Records = varint_sizes(counts) + before[ends[1:]] - before[ends[:-1]]
    return found


def _with_size(parts: pa.Array) -> Records:
    """Return what byte strings take with their sizes before them; null has a size of -1 and no bytes."""
    import pyarrow.compute as pc  # comes with the headers

    sizes = pc.binary_length(parts).fill_null(-1).to_numpy(zero_copy_only=False).astype("i8")
    found: Records = varint_sizes(sizes) + np.maximum(sizes, 0)
    return found


def record_sizes(  # noqa: PLR0913, PLR0917  # the fields of a record
    key_size: Records,
    value_size: Records,
    header_size: Records,
    offset_delta: Records,
    timestamp_delta: Records,
    magic: Records,
) -> Records:
    """Return how many bytes each record takes.

    Args:
        key_size: bytes of the key, -1 if that is null.
        value_size: bytes of the value, -1 if that is null.
        header_size: bytes of the headers.
        offset_delta: from the base offset of the batch.
        timestamp_delta: from the base timestamp of the batch.
        magic: message format of the batch.
    """
    parts = np.maximum(key_size, 0) + np.maximum(value_size, 0)
    body = ATTRIBUTES + parts + header_size
    for numbers in (key_size, value_size, offset_delta, timestamp_delta):
        body += varint_sizes(numbers)
    old = np.array(OLD_FORMATS)[np.minimum(magic, 1)] + parts
    found: Records = np.where(magic > 1, varint_sizes(body) + body, old)
    return found
