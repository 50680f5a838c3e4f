"""Pieces of bytes, one for each row, which are told apart and numbered without an object for each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

__all__ = ["SLACK", "Distinct", "Pieces", "distinct", "joined_pieces", "numbers_at", "pieces_of"]

Numbers: TypeAlias = "npt.NDArray[Any]"

# Bytes behind the last piece that may be looked at: the widest number there is.
SLACK = 8
NULL = -1


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of bytes, one for each row.

    Attributes:
        data: bytes with all pieces in them, and SLACK more behind the last one.
        starts: where each piece begins.
        sizes: bytes of each, -1 for null.
    """

    data: Numbers
    starts: Numbers
    sizes: Numbers

    def __len__(self) -> int:
        return len(self.starts)

    def taken(self, which: Numbers) -> Pieces:
        """Return some of the pieces, by their indexes or by a mask."""
        return Pieces(self.data, self.starts[which], self.sizes[which])

    def at(self, row: int) -> bytes | None:
        """Return a piece."""
        start, size = int(self.starts[row]), int(self.sizes[row])
        return None if size < 0 else bytes(self.data[start : start + size])

    def copied(self) -> Pieces:
        """Return the pieces in memory of their own."""
        return Pieces(self.data.copy(), self.starts.copy(), self.sizes.copy())

    def numbers(self, kind: str, skip: int = 0) -> Numbers:
        """Return the number of a numpy type that stands in each piece, or at least behind where it begins."""
        return numbers_at(self.data, self.starts + skip, kind)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Pieces by their numbers.

    Attributes:
        codes: number of each piece, -1 for null.
        words: the pieces, each once, in the order in which they first come.
    """

    codes: Numbers
    words: list[bytes]


def pieces_of(found: Iterable[bytes | None]) -> Pieces:
    """Return pieces, one behind the other."""
    held = list(found)
    sizes = np.array([NULL if piece is None else len(piece) for piece in held], "i8")
    data = np.frombuffer(b"".join(piece or b"" for piece in held) + bytes(SLACK), "u1")
    ends = np.cumsum(np.maximum(sizes, 0))
    return Pieces(data, ends - np.maximum(sizes, 0), sizes)


def joined_pieces(parts: Sequence[Pieces]) -> Pieces:
    """Return the pieces of several parts, one behind the other; the slack of all but the last goes."""
    if len(parts) == 1:
        return parts[0]
    sizes = [len(part.data) - SLACK for part in parts]
    data = [part.data[:size] for part, size in zip(parts, sizes, strict=True)]
    starts = [part.starts + begin for part, begin in zip(parts, accumulate(sizes, initial=0), strict=False)]
    sizes_of_all = np.concatenate([part.sizes for part in parts])
    return Pieces(np.concatenate([*data, np.zeros(SLACK, "u1")]), np.concatenate(starts), sizes_of_all)


def numbers_at(data: Numbers, starts: Numbers, kind: str) -> Numbers:
    """Return the numbers of a numpy type that stand at some places, which need not be aligned.

    Args:
        data: bytes, with enough of them behind the last place.
        starts: the places.
        kind: such as ``>i8``.
    """
    found: Numbers = np.ndarray(len(data) - np.dtype(kind).itemsize + 1, kind, data, 0, (1,))[starts]
    return found


def distinct(pieces: Pieces) -> Distinct:
    """Return pieces by numbers; what has the same number is the same, byte for byte."""
    import pyarrow as pa  # small logs do without it

    sizes = np.maximum(pieces.sizes, 0)
    ends = np.concatenate([[0], np.cumsum(sizes)])
    data, first = _side_by_side(pieces, sizes, ends)
    bounds = pa.py_buffer((ends + first).astype("i4"))
    null = pieces.sizes < 0
    valid = pa.py_buffer(np.packbits(~null, bitorder="little")) if null.any() else None
    array = pa.Array.from_buffers(pa.binary(), len(pieces), [valid, bounds, pa.py_buffer(data)])
    found = array.dictionary_encode()
    codes = np.frombuffer(found.indices.buffers()[1], "i4", len(pieces)).copy()
    codes[null] = NULL
    return Distinct(codes, found.dictionary.to_pylist())


def _side_by_side(pieces: Pieces, sizes: Numbers, ends: Numbers) -> tuple[Numbers, int]:
    """Return bytes in which the pieces stand one behind the other, and where the first one does."""
    if not len(pieces):
        return pieces.data, 0
    if np.array_equal(pieces.starts[1:], pieces.starts[:-1] + sizes[:-1]):
        return np.ascontiguousarray(pieces.data), int(pieces.starts[0])
    whole = np.empty(int(ends[-1]), "u1")
    # Bytes of one size are moved at once, whatever they are.
    for size in np.unique(sizes[sizes > 0]).tolist():
        rows = np.flatnonzero(sizes == size)
        np.ndarray(len(whole) - size + 1, f"V{size}", whole, 0, (1,))[ends[rows]] = numbers_at(
            pieces.data, pieces.starts[rows], f"V{size}"
        )
    return whole, 0
