"""Columns of byte strings as slices of one buffer, deduplicated and decoded without a Python object per row."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from kforensics.parsers.format.array_types import BoolArray, Column, IntArray

# Padding after the last slice: a value of the widest numeric type may be read from any position.
SLACK = 8
NULL = -1
# Byte strings for which there is room at first.
MIN_STRINGS = 1 << 10
WORD_SIZE = 8
# Up to this size, sizes are counted faster than sorted.
MAX_SHORT = 1 << 12


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


def with_slices(slices: ByteSlices, rows: Sequence[int], values: Sequence[bytes]) -> ByteSlices:
    """Return a column with other byte strings in some rows."""
    if not rows:
        return slices
    indexes = np.arange(len(slices))
    indexes[rows] = len(slices) + np.arange(len(rows))
    return concatenate_slices([slices, to_byte_slices(values)]).take(indexes)


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
    codes, values = _encoded(slices)
    return DistinctSlices(codes, values.to_pylist())


def distinct_rows(slices: ByteSlices) -> tuple[IntArray, IntArray]:
    """Return the code of each row as :func:`distinct_slices` does, and the first row with each code."""
    codes, values = _encoded(slices)
    first = np.zeros(len(values), "i8")
    rows = np.flatnonzero(codes != NULL)[::-1]
    first[codes[rows]] = rows
    return codes, first


def _encoded(slices: ByteSlices) -> tuple[IntArray, Any]:
    """Return the codes of rows, and the Arrow array of the distinct byte strings."""
    encoded = arrow_binary(slices).dictionary_encode()
    codes = np.frombuffer(encoded.indices.buffers()[1], "i4", len(slices)).copy()
    codes[slices.sizes < 0] = NULL
    return codes, encoded.dictionary


def arrow_binary(slices: ByteSlices) -> Any:
    """Return a column as an Arrow array."""
    import pyarrow as pa  # small logs do not need it

    sizes = np.maximum(slices.sizes, 0)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data, first = _contiguous(slices, sizes, ends)
    bounds = pa.py_buffer((ends + first).astype("i4"))
    null = slices.sizes < 0
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    return pa.Array.from_buffers(pa.binary(), len(slices), [valid, bounds, pa.py_buffer(data)])


def _contiguous(slices: ByteSlices, sizes: IntArray, ends: IntArray) -> tuple[Column, int]:
    """Return a buffer in which each slice directly follows the one before, and the start of the first one."""
    if not len(slices):
        return slices.data, 0
    if np.array_equal(slices.starts[1:], slices.starts[:-1] + sizes[:-1]):
        return np.ascontiguousarray(slices.data), int(slices.starts[0])
    return _copied_to(np.empty(int(ends[-1]), "u1"), ends[:-1], slices), 0


def _copied_to(buffer: Column, starts: IntArray, slices: ByteSlices) -> Column:
    """Copy slices into a buffer, and return it; all of one length at once, as values of an opaque type of that width.

    Args:
        buffer: the buffer.
        starts: where to copy each of them to.
        slices: the slices.
    """
    sizes = slices.sizes[slices.sizes > 0]
    is_short = bool(len(sizes)) and sizes.max() <= MAX_SHORT
    for size in (np.flatnonzero(np.bincount(sizes)) if is_short else np.unique(sizes)).tolist():
        rows = np.flatnonzero(slices.sizes == size)
        copied = values_at(slices.data, slices.starts[rows], f"V{size}")
        np.ndarray(len(buffer) - size + 1, f"V{size}", buffer, 0, (1,))[starts[rows]] = copied
    return buffer


def joined_bytes(slices: ByteSlices) -> tuple[Column, IntArray]:
    """Return the bytes of all slices, none of them null, one after the other, and where each begins, with the end."""
    bounds = np.concatenate([[0], np.cumsum(slices.sizes)])
    return _copied_to(np.empty(int(bounds[-1]), "u1"), bounds[:-1], slices), bounds


def equal_slices(slices: ByteSlices, others: ByteSlices) -> BoolArray:
    """Return which of the slices are equal to those of another column; none of them is null."""
    equal: BoolArray = slices.sizes == others.sizes
    (data, bounds), (other_data, _) = joined_bytes(slices.take(equal)), joined_bytes(others.take(equal))
    if not np.array_equal(data, other_data):
        differences = np.concatenate([[0], np.cumsum(data != other_data)])[bounds]
        equal[equal] = differences[1:] == differences[:-1]
    return equal


class SliceNumbers:
    """Numbers distinct byte strings in the order in which they are added.

    A hash table in NumPy: beside the bytes themselves, a byte string takes some 30 bytes, a tenth of what it takes in a
    dictionary. Strings with equal hashes are compared; which have equal hashes differs from run to run.
    """

    def __init__(self) -> None:
        self._seed = np.uint64(secrets.randbits(64))
        self._count = 0
        self._data, self._bounds = np.zeros(SLACK, "u1"), np.zeros(MIN_STRINGS + 1, "i8")
        self._hashes = np.zeros(MIN_STRINGS, "u8")
        # The number of the string in each slot. A string is in the slot of its hash, or in the first free one after it.
        self._slots = np.full(2 * MIN_STRINGS, NULL, "i4")

    def __len__(self) -> int:
        return self._count

    @property
    def slices(self) -> ByteSlices:
        """The byte strings by number."""
        bounds = self._bounds[: self._count + 1]
        return ByteSlices(self._data, bounds[:-1], np.diff(bounds))

    def add(self, slices: ByteSlices) -> IntArray:
        """Return the numbers of byte strings, none of them null; those that are new get the next numbers."""
        self._make_room(len(slices))
        hashes = _hashes(slices, self._seed)
        entries, slots = self._find(slices, hashes)
        new = np.flatnonzero(entries == _provisional(np.arange(len(slices))))
        numbers = np.arange(self._count, self._count + len(new))
        self._slots[slots[new]] = numbers
        self._append(slices.take(new), hashes[new])
        is_new, of_rows = entries < 0, np.empty(len(slices), "i8")
        of_rows[new] = numbers
        entries[is_new] = of_rows[_provisional(entries[is_new])]
        return entries

    def _find(self, slices: ByteSlices, hashes: IntArray) -> tuple[IntArray, IntArray]:
        """Return the number of each byte string, and its slot; instead of a new number, the row that it is first in."""
        entries, slots = np.empty(len(slices), "i8"), hashes & np.uint64(len(self._slots) - 1)
        rows, known = np.arange(len(slices)), self.slices
        while len(rows):
            free = rows[self._slots[slots[rows]] == NULL][::-1]  # so that the first row with a string gets the slot
            self._slots[slots[free]] = _provisional(free)
            found = entries[rows] = self._slots[slots[rows]]
            is_new = found < 0
            others = np.where(is_new, _provisional(found), found)
            same = np.where(is_new, hashes[np.where(is_new, others, 0)], self._hashes[np.where(is_new, 0, others)])
            equal = same == hashes[rows]
            for column, is_in in ((slices, is_new), (known, ~is_new)):
                candidates = np.flatnonzero(equal & is_in & ((column is known) | (others != rows)))
                equal[candidates] = equal_slices(column.take(others[candidates]), slices.take(rows[candidates]))
            rows = rows[~equal]
            slots[rows] = slots[rows] + np.uint64(1) & np.uint64(len(self._slots) - 1)
        return entries, slots

    def _make_room(self, more: int) -> None:
        """Make room for more byte strings."""
        count = self._count + more
        self._bounds, self._hashes = _with_room(self._bounds, count + 1), _with_room(self._hashes, count)
        if 2 * count <= len(self._slots):
            return
        self._slots = np.full(1 << (2 * count).bit_length(), NULL, "i4")
        numbers, mask = np.arange(self._count), np.uint64(len(self._slots) - 1)
        slots = self._hashes[: self._count] & mask
        while len(numbers):
            is_free = self._slots[slots] == NULL
            self._slots[slots[is_free]] = numbers[is_free]
            is_put = self._slots[slots] == numbers
            numbers, slots = numbers[~is_put], slots[~is_put] + np.uint64(1) & mask

    def _append(self, slices: ByteSlices, hashes: IntArray) -> None:
        """Keep new byte strings."""
        data, bounds = joined_bytes(slices)
        begin, count = int(self._bounds[self._count]), self._count + len(slices)
        self._data = _with_room(self._data, begin + len(data) + SLACK)
        self._data[begin : begin + len(data)] = data
        self._bounds[self._count : count + 1] = bounds + begin
        self._hashes[self._count : count] = hashes
        self._count = count


def _provisional(rows: IntArray) -> IntArray:
    """Return the entries of rows whose numbers are not known yet, or the rows of such entries."""
    return NULL - 1 - rows


def _with_room(array: Column, length: int) -> Column:
    """Return an array with room for a length; pages that are never written to take no memory."""
    if length <= len(array):
        return array
    extended = np.zeros(max(length, 2 * len(array)), array.dtype)
    extended[: len(array)] = array
    return extended


def _hashes(slices: ByteSlices, seed: np.uint64) -> IntArray:
    """Return a hash of each slice: the sum of its words, zero-padded, each mixed with its place."""
    counts = slices.sizes // WORD_SIZE + 1
    starts = np.concatenate([[0], np.cumsum(counts)])
    data = _copied_to(np.zeros(WORD_SIZE * int(starts[-1]), "u1"), WORD_SIZE * starts[:-1], slices)
    places = (np.arange(starts[-1]) - np.repeat(starts[:-1], counts)).astype("u8")
    words = _mixed(data.view("u8") ^ _mixed(places + seed))
    sums = np.add.reduceat(words, starts[:-1]) if len(slices) else words
    return _mixed(sums ^ slices.sizes.astype("u8"))


def _mixed(words: IntArray) -> IntArray:
    """Return words in which each bit depends on many bits of the original word."""
    words = words * np.uint64(0x9E3779B97F4A7C15)
    words ^= words >> np.uint64(32)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    mixed: IntArray = words ^ (words >> np.uint64(29))
    return mixed
