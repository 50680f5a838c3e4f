"""Copies of decompressors: in words of 16 bytes, which may write a little behind the end."""

from __future__ import annotations

from kforensics.parsers.kernels.compiler import (
    inlined,
)
from kforensics.parsers.kernels.machine import (
    copy,
    load64,
    store64,
)

__all__ = ["ENDLESS", "REFUSED", "put_literals", "repeat"]

# In place of the size of what was decompressed.
REFUSED = -1
# In place of a length or a window that does not end.
ENDLESS = 1 << 40


@inlined
def move16(target: int, source: int) -> None:
    first, second = load64(source), load64(source + 8)
    store64(target, first)
    store64(target + 8, second)


@inlined
def put_literals(at: int, end: int, out: int, length: int) -> None:
    """Copy bytes from an input that goes on to ``end``; up to 15 bytes behind the copy are written too."""
    if length > 64 or end - at < length + 8:
        copy(out, at, length)
        return
    behind = at + length
    move16(out, at)
    while at + 16 < behind:
        at += 16
        out += 16
        move16(out, at)


@inlined
def repeat(at: int, end: int, offset: int) -> None:
    """Write up to an end, and up to 15 bytes behind it, what stands ``offset`` bytes before."""
    if offset >= 16:
        move16(at, at - offset)
        while at + 16 < end:
            at += 16
            move16(at, at - offset)
        return
    # What repeats after so few bytes repeats after twice as many.
    while offset < 8:
        store64(at, load64(at - offset))
        at += offset
        offset *= 2
    while at < end:
        store64(at, load64(at - offset))
        at += 8
