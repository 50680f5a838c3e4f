"""Columns of byte strings as slices of one buffer, deduplicated and decoded without a Python object per row."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

# Padding after the last slice: a value of the widest numeric type may be read from any position.
SLACK = 8
NULL = -1


@dataclass(frozen=True, slots=True)
class ByteSlices:
    """A column of byte strings.

    Attributes:
        data: buffer that contains all slices, followed by SLACK bytes of padding.
        starts: start of each slice in the buffer.
        sizes: length of each slice, -1 for null.
    """

    data: Column
    starts: IntArray
    sizes: IntArray

    def __len__(self) -> int:
        return len(self.starts)

    def take(self, rows: IntArray | BoolArray) -> ByteSlices:
        """Return the slices of some rows, selected by index or mask."""
        return ByteSlices(self.data, self.starts[rows], self.sizes[rows])

    def get(self, row: int) -> bytes | None:
        """Return the bytes of a row, None for null."""
        start, size = int(self.starts[row]), int(self.sizes[row])
        return None if size < 0 else bytes(self.data[start : start + size])

    def copy(self) -> ByteSlices:
        """Return a copy that shares no memory."""
        return ByteSlices(self.data.copy(), self.starts.copy(), self.sizes.copy())

    def numbers(self, dtype: str, skip: int = 0) -> IntArray:
        """Return the number that begins ``skip`` bytes after the start of each slice, whatever the slice's length."""
        return values_at(self.data, self.starts + skip, dtype)


@dataclass(frozen=True, slots=True)
class DistinctSlices:
    """A dictionary-encoded column of byte strings.

    Attributes:
        codes: index into ``values`` for each row, -1 for null.
        values: the distinct byte strings, in order of first occurrence.
    """

    codes: IntArray
    values: list[bytes]


def to_byte_slices(values: Iterable[bytes | None]) -> ByteSlices:
    """Return byte strings as a column."""
    rows = list(values)
    sizes = np.array([NULL if value is None else len(value) for value in rows], "i8")
    data = np.frombuffer(b"".join(value or b"" for value in rows) + bytes(SLACK), "u1")
    ends = np.cumsum(np.maximum(sizes, 0))
    return ByteSlices(data, ends - np.maximum(sizes, 0), sizes)


def concatenate_slices(columns: Sequence[ByteSlices]) -> ByteSlices:
    """Return several columns as one, with the padding of the last column only."""
    if len(columns) == 1:
        return columns[0]
    lengths = [len(column.data) - SLACK for column in columns]
    data = [column.data[:length] for column, length in zip(columns, lengths, strict=True)]
    starts = [column.starts + begin for column, begin in zip(columns, accumulate(lengths, initial=0), strict=False)]
    sizes = np.concatenate([column.sizes for column in columns])
    return ByteSlices(np.concatenate([*data, np.zeros(SLACK, "u1")]), np.concatenate(starts), sizes)


def values_at(data: Column, starts: IntArray, dtype: str) -> Column:
    """Return values of a NumPy type at any positions of a buffer, aligned or not.

    Args:
        data: the buffer; every value must lie within it.
        starts: position of each value.
        dtype: type of the values, such as ``>i8``.
    """
    values: Column = np.ndarray(len(data) - np.dtype(dtype).itemsize + 1, dtype, data, 0, (1,))[starts]
    return values


def distinct_slices(slices: ByteSlices) -> DistinctSlices:
    """Return a column dictionary-encoded: rows have the same code if they are equal byte for byte."""
    import pyarrow as pa  # small logs do not need it

    sizes = np.maximum(slices.sizes, 0)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data, first = _contiguous(slices, sizes, ends)
    bounds = pa.py_buffer((ends + first).astype("i4"))
    null = slices.sizes < 0
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    array = pa.Array.from_buffers(pa.binary(), len(slices), [valid, bounds, pa.py_buffer(data)])
    encoded = array.dictionary_encode()
    codes = np.frombuffer(encoded.indices.buffers()[1], "i4", len(slices)).copy()
    codes[null] = NULL
    return DistinctSlices(codes, encoded.dictionary.to_pylist())


def _contiguous(slices: ByteSlices, sizes: IntArray, ends: IntArray) -> tuple[Column, int]:
    """Return a buffer in which each slice directly follows the one before, and the start of the first one."""
    if not len(slices):
        return slices.data, 0
    if np.array_equal(slices.starts[1:], slices.starts[:-1] + sizes[:-1]):
        return np.ascontiguousarray(slices.data), int(slices.starts[0])
    buffer = np.empty(int(ends[-1]), "u1")
    # Copy all slices of one length at once, as values of an opaque type of that width.
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        np.ndarray(len(buffer) - size + 1, f"V{size}", buffer, 0, (1,))[ends[rows]] = values_at(
            slices.data, slices.starts[rows], f"V{size}"
        )
    return buffer, 0
