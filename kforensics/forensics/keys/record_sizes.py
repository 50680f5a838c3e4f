"""Computes the uncompressed sizes of records.

Rule: ``DefaultRecord.sizeInBytes``: varints for the record size, the two deltas, the sizes of key and value and the
header count, one byte of attributes, then key, value and headers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kforensics.parsers.format.array_types import IntArray

if TYPE_CHECKING:
    import pyarrow as pa

# Size of a header count of 0.
NO_HEADERS = 1
ATTRIBUTES = 1
# Bytes before key and value of a message with magic 0 or 1, including the sizes of both.
LEGACY_OVERHEAD = (26, 34)
VARINT_BITS = 7
MAX_VARINT_SIZE = 10


def varint_sizes(numbers: IntArray) -> IntArray:
    """Return the size in bytes of each number as a zigzag varint.

    >>> varint_sizes(np.array([0, 63, 64, -64, -65, 8191, 8192])).tolist()
    [1, 1, 2, 1, 2, 2, 3]
    """
    folded = np.where(numbers < 0, ~numbers, numbers)
    limits = np.array([1 << (VARINT_BITS * count - 1) for count in range(1, MAX_VARINT_SIZE)], "i8")
    sizes: IntArray = np.searchsorted(limits, folded, side="right") + 1
    return sizes


def header_sizes(headers: pa.Array) -> IntArray:
    """Return the size in bytes of the headers of each record, including the header count.

    Args:
        headers: lists of key-value pairs, as in the table ``records``.
    """
    ends = np.frombuffer(headers.buffers()[1], "i4", len(headers) + 1, 4 * headers.offset).astype("i8")
    counts = np.diff(ends)
    if not counts.any():
        return np.full(len(headers), NO_HEADERS, "i8")
    pairs = headers.values
    pair_sizes = _sizes_with_prefix(pairs.field(0)) + _sizes_with_prefix(pairs.field(1))
    before = np.concatenate([[0], np.cumsum(pair_sizes)])
    sizes: IntArray = varint_sizes(counts) + before[ends[1:]] - before[ends[:-1]]
    return sizes


def _sizes_with_prefix(strings: pa.Array) -> IntArray:
    """Return the size of each byte string including its size prefix; null has the prefix -1 and no bytes."""
    import pyarrow.compute as pc  # slow to import, and only needed for headers

    lengths = pc.binary_length(strings).fill_null(-1).to_numpy(zero_copy_only=False).astype("i8")
    sizes: IntArray = varint_sizes(lengths) + np.maximum(lengths, 0)
    return sizes


def record_sizes(  # noqa: PLR0913, PLR0917  # the fields of a record
    key_size: IntArray,
    value_size: IntArray,
    header_size: IntArray,
    offset_delta: IntArray,
    timestamp_delta: IntArray,
    magic: IntArray,
) -> IntArray:
    """Return the uncompressed size in bytes of each record.

    Args:
        key_size: size of the key, -1 for null.
        value_size: size of the value, -1 for null.
        header_size: size of the headers, including the header count.
        offset_delta: offset relative to the base offset of the batch.
        timestamp_delta: timestamp relative to the base timestamp of the batch.
        magic: magic byte of the batch.
    """
    payload = np.maximum(key_size, 0) + np.maximum(value_size, 0)
    body = ATTRIBUTES + payload + header_size
    for numbers in (key_size, value_size, offset_delta, timestamp_delta):
        body += varint_sizes(numbers)
    legacy = np.array(LEGACY_OVERHEAD)[np.minimum(magic, 1)] + payload
    sizes: IntArray = np.where(magic > 1, varint_sizes(body) + body, legacy)
    return sizes
