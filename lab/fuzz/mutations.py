"""Damages a file in the ways that disks, crashes and attackers do, and remembers which bytes are where."""

from __future__ import annotations

import struct
from collections.abc import Callable
from random import Random

import google_crc32c
import numpy as np

# Of a batch of format 2: where its length, its checksum and the bytes that it covers are.
LENGTH_AT, CRC_AT, COVERED_FROM = 8, 17, 21
# Numbers at which readers go wrong: signs, sizes and limits.
EXTREMES = (0, 1, -1, 2, 0x7F, 0xFF, 0x7FFF, -0x8000, 0x7FFFFFFF, -0x80000000, 61, 14, 1 << 24, 1 << 28)
CHANGED = -1


class Mutant:
    """A damaged form of a file.

    Attributes:
        data: its bytes.
        origin: for each byte its position in the original file, CHANGED if it is not from there.
    """

    def __init__(self, original: bytes) -> None:
        self.data = bytearray(original)
        self.origin = np.arange(len(original), dtype="i8")

    def put(self, start: int, end: int, replacement: bytes) -> None:
        """Replace a range by new bytes."""
        self.data[start:end] = replacement
        new = np.full(len(replacement), CHANGED, "i8")
        self.origin = np.concatenate([self.origin[:start], new, self.origin[end:]])

    def copy(self, start: int, end: int, target: int) -> None:
        """Insert a copy of a range at a position."""
        moved = self.origin[start:end].copy()
        self.data[target:target] = self.data[start:end]
        self.origin = np.concatenate([self.origin[:target], moved, self.origin[target:]])

    def remove(self, start: int, end: int) -> None:
        """Remove a range."""
        self.put(start, end, b"")

    def untouched(self, start: int, size: int) -> list[int]:
        """Return the positions at which a range of the original file still is, byte for byte."""
        wanted = np.arange(start, start + size, dtype="i8")
        at = np.flatnonzero(self.origin == start)
        return [int(p) for p in at if np.array_equal(self.origin[p : p + size], wanted)]


def _some_range(mutant: Mutant, dice: Random, longest: int = 1 << 30) -> tuple[int, int]:
    start = dice.randint(0, len(mutant.data))
    most = dice.choice((1, 4, 40, 400, longest))
    return start, min(len(mutant.data), start + dice.randint(1, min(most, longest)))


def _flip(mutant: Mutant, dice: Random) -> None:
    if mutant.data:
        at = dice.randrange(len(mutant.data))
        mutant.put(at, at + 1, bytes([mutant.data[at] ^ 1 << dice.randrange(8)]))


def _overwrite(mutant: Mutant, dice: Random) -> None:
    start, end = _some_range(mutant, dice, 64)
    mutant.put(start, end, dice.choice((bytes(end - start), b"\xff" * (end - start), dice.randbytes(end - start))))


def _extreme(mutant: Mutant, dice: Random) -> None:
    code = dice.choice(("h", "i", "q"))
    size = struct.calcsize(f">{code}")
    number = dice.choice(EXTREMES) & (1 << 8 * size) - 1
    start = dice.randint(0, max(0, len(mutant.data) - size))
    mutant.put(start, min(len(mutant.data), start + size), number.to_bytes(size, dice.choice(("big", "little"))))


def _insert(mutant: Mutant, dice: Random) -> None:
    at, count = dice.randint(0, len(mutant.data)), dice.choice((1, 7, 61, 300, 5000))
    mutant.put(at, at, dice.choice((bytes(count), dice.randbytes(count), b"\x02" * count)))


def _remove(mutant: Mutant, dice: Random) -> None:
    mutant.remove(*_some_range(mutant, dice))


def _cut(mutant: Mutant, dice: Random) -> None:
    mutant.remove(dice.randint(0, len(mutant.data)), len(mutant.data))


def _append(mutant: Mutant, dice: Random) -> None:
    count = dice.choice((1, 5, 64, 4096))
    mutant.put(len(mutant.data), len(mutant.data), dice.choice((bytes(count), dice.randbytes(count))))


def _copy(mutant: Mutant, dice: Random) -> None:
    mutant.copy(*_some_range(mutant, dice), dice.randint(0, len(mutant.data)))


ANYWHERE: tuple[Callable[[Mutant, Random], None], ...] = (
    *(_flip, _flip, _overwrite, _overwrite, _extreme, _extreme),
    *(_insert, _remove, _cut, _append, _copy),
)


def damaged(original: bytes, dice: Random) -> Mutant:
    """Return a file with one to four kinds of damage anywhere."""
    mutant = Mutant(original)
    for _ in range(dice.choice((1, 1, 2, 4))):
        dice.choice(ANYWHERE)(mutant, dice)
    return mutant


def reseal(mutant: Mutant, start: int, size: int, dice: Random) -> None:
    """Damage the covered bytes of a batch of format 2, and correct its checksum, so that its records are decoded."""
    inner = bytearray(mutant.data[start : start + size])
    for _ in range(dice.choice((1, 1, 2, 5))):
        at = dice.randrange(COVERED_FROM, size)
        if dice.random() < 0.5:
            inner[at] ^= 1 << dice.randrange(8)
        else:
            width = min(dice.choice((1, 2, 4, 8)), size - at)
            number = dice.choice(EXTREMES) & (1 << 8 * width) - 1
            inner[at : at + width] = number.to_bytes(width, "big")
    inner[CRC_AT:COVERED_FROM] = google_crc32c.value(bytes(inner[COVERED_FROM:])).to_bytes(4, "big")
    mutant.put(start, start + size, bytes(inner))


def lie_about_length(mutant: Mutant, start: int, dice: Random) -> None:
    """Give a batch another length than it has."""
    end = start + LENGTH_AT + 4
    (length,) = struct.unpack(">i", mutant.data[end - 4 : end])
    false = dice.choice((*EXTREMES, length + 1, length - 1, 2 * length, len(mutant.data) - start - 12))
    mutant.put(end - 4, end, (false & 0xFFFFFFFF).to_bytes(4, "big"))
