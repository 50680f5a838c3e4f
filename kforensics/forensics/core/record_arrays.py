"""Fast operations on structured arrays: select, assign, choose, concatenate, copy.

NumPy copies structured arrays field by field and applies type promotion unless it knows that both sides have one type.
Viewed as opaque bytes of a fixed size, rows move 15 to 60 times faster.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from kforensics.forensics.core.packed_rows import PackedRows, StructRows, as_array
from kforensics.parsers.format.array_types import BoolArray, StructArray

__all__ = [
    "concat_rows",
    "copy_rows",
    "fields_of",
    "free_unused",
    "own_rows",
    "put_rows",
    "same_bytes",
    "take_rows",
    "where_rows",
]


def take_rows(rows: StructRows, indexes: Any) -> StructArray:
    """Return some of the rows, by indexes or by a mask."""
    if isinstance(rows, PackedRows):
        return rows.fields(indexes, rows.dtype.names or ())
    selected: StructArray = _as_bytes(rows)[indexes].view(rows.dtype)
    return selected


def fields_of(rows: StructRows, indexes: Any, names: Sequence[str]) -> StructArray:
    """Return some fields of some of the rows, in an array of no other fields."""
    if isinstance(rows, PackedRows):
        return rows.fields(indexes, names)
    selected = np.empty(len(indexes), [(name, rows.dtype[name]) for name in names])
    for name in names:
        selected[name] = rows[name][indexes]
    return selected


def put_rows(rows: StructArray, indexes: Any, values: StructArray) -> None:
    """Assign values to some of the rows; both have the same dtype."""
    _as_bytes(rows)[indexes] = _as_bytes(values)


def where_rows(condition: BoolArray, rows: StructArray, others: StructArray) -> StructArray:
    """Return ``rows`` where a condition is true, ``others`` elsewhere, as ``np.where`` does."""
    return np.where(condition, _as_bytes(rows), _as_bytes(others)).view(rows.dtype)


def concat_rows(parts: Sequence[StructArray]) -> StructArray:
    """Return the rows of all parts, at least one, concatenated; all have the same dtype."""
    filled = [part for part in parts if len(part)]
    if len(filled) < 2:
        return filled[0] if filled else parts[0]
    return np.concatenate([_as_bytes(part) for part in filled]).view(parts[0].dtype)


def copy_rows(rows: StructRows) -> StructArray:
    """Return a copy of the rows, an array in any case."""
    if isinstance(rows, PackedRows):
        return as_array(rows)
    return _as_bytes(rows).copy().view(rows.dtype)


def own_rows(rows: StructArray) -> StructArray:
    """Return the rows, copied if they are a view that would keep a larger array in memory."""
    return copy_rows(rows) if getattr(rows.base, "nbytes", 0) > rows.nbytes else rows


def same_bytes(rows: StructArray, others: StructArray) -> bool:
    """Whether two arrays of one dtype without padding are equal byte for byte."""
    return len(rows) == len(others) and rows.tobytes() == others.tobytes()


def free_unused() -> None:
    """Return free heap memory to the operating system, if the C library (glibc) can.

    Arrays of less than 32 MiB may come from the heap. Long-lived arrays lie there between short-lived ones and keep
    their pages in memory: a third of what a million producers take.
    """
    trim = getattr(ctypes.pythonapi, "malloc_trim", None)
    if trim is not None:
        trim(ctypes.c_size_t(0))


def _as_bytes(rows: StructArray) -> StructArray:
    return rows.view(_bytes_of_size(rows.dtype.itemsize))


@cache
def _bytes_of_size(size: int) -> np.dtype[np.void]:
    return np.dtype((np.void, size))
